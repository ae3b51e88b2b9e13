"""Decoded text as people write it."""
import pytest

from gpt1_jax.data import text
from gpt1_jax.data.detokenize import readable


@pytest.mark.parametrize('written', [
    'he didn\'t say "no, thanks." she\'d gone (it\'s true); they\'ll see: why? "yes!" she said.',
    'i can\'t.\n"one, "\nfour of 1,234,567 and 10,000 dollars ($5), 50%...', "we've won't i'm you're and/or [this]",
    'in 1805, 200 men came', 'a well-known red-green light', '- no.'])
def test_text_that_went_through_the_tokenizer_s_words_reads_as_it_was(written):
    words = '\n'.join(' '.join(line) for line in text.lines(written))
    assert words != written or '-' in written
    assert readable(words) == written.replace('"one, "', '"one,"')


def test_what_is_shown_of_a_beginning_stays():
    whole = 'he said , " i do n\'t ( 10 , 000 ) . " " no - one \n \' yes , \' - she said -'
    words = whole.split(' ')
    for n in range(len(words) + 1):
        assert readable(whole).startswith(readable(' '.join(words[:n])))
