"""Section 4.1: cleaning, words."""
import random
import subprocess
import sys

import pytest

from gpt1_jax.data import text


@pytest.mark.parametrize('raw, standard', [
    ('Yes—no,  maybe', 'Yes - no , maybe'),
    ('a–b―c…', 'a - b - c...'),
    ('it´s', "it's"),
    ('a--b!!"?;+)(/*[]}{|_', 'a -- b !! " ? ; + ) ( / * [ ] } { | _'),
    ('C:\\path', 'C:\\path'),
    ('one \t\n\n \u2003two\xa0three', 'one \n two three'),
    ('  \n padded \n ', 'padded'),
    ("don't <stop> #5 50% a.b: `x` ~~", "don't <stop> #5 50% a.b: `x` ~~"),
])
def test_standardize_does_what_the_released_code_does(raw, standard):
    assert text.standardize(raw) == standard


@pytest.mark.parametrize('raw, expected', [
    ('Hello, world!', ['hello', ',', 'world', '!']),
    ("I don't know — it's “fine”…", ['i', 'do', "n't", 'know', '-', 'it', "'s", '"', 'fine', '"', '...']),
    ('line one\nline two\n\n\nline three', ['line', 'one', '\n ', 'line', 'two', '\n ', 'line', 'three']),
    ('well-known', ['well', '-', 'known']),
    ('naïve ﬁnd', ['naïve', 'find']),
    ('Mr. Smith &amp; co', ['mr.', 'smith', '&', 'co']),
    ('ＦＵＬＬ', ['full']),
])
def test_words_are_fixed_split_and_lower_cased(raw, expected):
    assert text.words(raw) == expected


@pytest.mark.parametrize('blank', ['', ' ', '\n', ' \t\r\n\u2028\xa0 ', '\x00\x01'])
def test_blank_text_has_no_words(blank):
    assert text.words(blank) == []
    assert list(text.parts('', 10)) == []


def released_words(raw):
    """The released code's words: spaCy over the whole text at once."""
    import ftfy
    import spacy
    nlp = spacy.blank('en')
    return [word.text.lower() for word in nlp(text.standardize(ftfy.fix_text(raw)))]


FRAGMENTS = [
    'the', 'U.S.', 'e.g.', 'a.m.', "can't", 'gonna', ':-)', 'o_O', '8-D', '10km', '....', '&amp;', '<p>', '\ufeff',
    'http://a.b/c?d', 'ß', 'İ', 'Σ', '日本', '😀', 'e\u0301',
    '\x85', '\u2028', '\r', '\x1c', '\t', '\\n', ' ', ' ', '\n']


def some_text(seed, length=60):
    return ''.join(random.Random(seed).choices(FRAGMENTS, k=length))


@pytest.mark.parametrize('seed', range(20))
def test_line_by_line_gives_the_words_of_the_whole_text(seed):
    assert text.words(some_text(seed)) == released_words(some_text(seed))


@pytest.mark.parametrize('seed', range(20))
def test_parts_have_the_lines_of_the_whole_text(seed):
    raw = some_text(seed, 200)
    cut = [line for part, unescape in text.parts(raw, 25) for line in text.lines(part, unescape)]
    assert cut == list(text.lines(raw))
    assert ''.join(part for part, _ in text.parts(raw, 25)) == raw


def test_entities_after_a_tag_stay_in_later_parts():
    assert list(text.parts('&lt;\n<b>\n&lt;\n', 4)) == [('&lt;\n', 'auto'), ('<b>\n', 'auto'), ('&lt;\n', False)]
    assert text.words('&lt;\n<b>\n&lt;') == ['<', '\n ', '<', 'b', '>', '\n ', '&', 'lt', ';']


def test_a_line_above_a_million_characters_is_tokenised():
    assert text.words('word ' * 250_000) == ['word'] * 250_000


def test_spacy_starts_again_with_an_empty_memory_when_it_remembers_too_much(monkeypatch):
    first = text._english()
    monkeypatch.setattr(text, '_LEXEMES_KEPT', 0)
    assert text._english() is not first
    assert text.words('still works') == ['still', 'works']


def test_importing_the_data_modules_loads_no_jax_and_no_spacy():
    code = ('import sys; from gpt1_jax.data import corpus, encode, text, tokenizer, tokens; import gpt1_jax.prepare; '
            'print([m for m in ("jax", "spacy", "ftfy", "tensorflow_datasets") if m in sys.modules])')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == '[]'
