"""Section 4.1: cleaning, words; and words as people write them."""

import contextlib
import functools
import html
import re
import string
import time
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpt1_jax.data import long_words, text
from gpt1_jax.data.detokenize import readable
from released_words import words
from tiny import python


def standardized(raw):
    return ' \n '.join(map(' '.join, text.standardize(raw)))


@pytest.mark.parametrize(
    'raw, standard',
    [
        ('Yes—no,  maybe', 'Yes - no , maybe'),
        ('a–b―c…', 'a - b - c...'),
        ('it´s', "it's"),
        ('C:\\path', 'C:\\path'),
        ('a--b!!"?;+)(/*[]}{|_', 'a -- b !! " ? ; + ) ( / * [ ] } { | _'),
        ('  \n padded \n ', 'padded'),
        ('one \t\n\n \u2003two\xa0three', 'one \n two three'),
        ("don't <stop> #5 50% a.b: `x` ~~", "don't <stop> #5 50% a.b: `x` ~~"),
    ],
)
def test_standardize_does_what_the_released_code_does(raw, standard):
    assert standardized(raw) == standard


@pytest.mark.parametrize(
    'raw, expected',
    [
        ('Hello, world!', ['hello', ',', 'world', '!']),
        (
            "I don't know — it's “fine”…",
            ['i', 'do', "n't", 'know', '-', 'it', "'s", '"', 'fine', '"', '...'],
        ),
        (
            'line one\nline two\n\n\nline three',
            ['line', 'one', '\n ', 'line', 'two', '\n ', 'line', 'three'],
        ),
        ('well-known naïve ﬁnd', ['well', '-', 'known', 'naïve', 'find']),
        ('Mr. Smith &amp; co', ['mr.', 'smith', '&', 'co']),
        ('ＦＵＬＬ', ['full']),
        ("''so", ["''", 'so']),
        ("No.' ''So,", ['no', '.', "'", "'", "'", 'so', ',']),  # spaCy's look at neighbours
        *[(blank, []) for blank in ('', ' ', '\n', ' \t\r\n\u2028\xa0 ', '\x00\x01')],
    ],
)
def test_words_are_fixed_split_and_lower_cased(raw, expected):
    assert words(raw) == expected


@functools.cache
def spacys():
    import spacy

    return spacy.blank('en')


def released_words(raw):
    """The released code's words: spaCy over the whole text at once."""
    import ftfy

    return [word.text.lower() for word in spacys()(standardized(ftfy.fix_text(raw)))]


def rules():
    return [*spacys().tokenizer.rules]


def test_a_plain_word_has_the_same_words_without_spacy(monkeypatch):
    """SPECIAL is what spaCy's tokenizer has a rule for, of letters with or without a full stop."""
    assert {rule.lower() for rule in rules() if re.fullmatch(r'[A-Za-z]+\.?', rule)} == text.SPECIAL
    letters = {piece for rule in rules() for piece in re.findall('[A-Za-z]+', rule)}
    plain = {*letters, *string.ascii_letters, 'the', 'km', 'org', '12', '1999', ';'}
    written = [form(word) + end for word in plain for form in FORMS for end in ('', '.', '..')]
    expected = list(map(released_words, written))
    monkeypatch.setattr(text, '_english', list)
    without = 0
    for word, found in zip(written, expected):
        with contextlib.suppress(ValueError):  # a list without tokenizers
            assert text.words(word) == found
            without += 1
    assert without > 700


def test_a_plain_prompt_imports_neither_spacy_nor_ftfy():
    code = (
        "import sys; from gpt1_jax.data import text; print(list(text.lines('The old man sat, and "
        "looked.')), sorted({'spacy', 'ftfy'} & set(sys.modules)))"
    )
    assert (
        python('-c', code).stdout
        == "[['the', 'old', 'man', 'sat', ',', 'and', 'looked', '.']] []\n"
    )


FORMS = (str, str.upper, str.title)
MARKS = '=<>&#%$^*|_+/:`"!?()[]{},;-~.\'@😂£«。'
PIECES = (
    "' ''x '' x:D : D the a.m. U.S. Mr. e.g. can't gonna 's ’S n't :-) o_O 8-D (-_-) ^_^ 10km 10a.m. °C. 5 % .... "
    '&amp; &lt;b <p> www.a.com http://a.b/c?d x@y.com US$ 1,000 a-b well-known, — “quoted” (so) '
    'naïve ﬁnd ß İ Σ Привет 日本 😀 e\u0301 \ufeff \\n abc 019'
).split()
ORDINARY = (
    "the of and sat word Mr. U.S. a.m. can't gonna 10km .... &amp; — “quoted” (so) naïve ﬁnd Привет ß İ "
    'well-known,'
).split()
BLANK = [' '] * 4 + ['\n', '\t', '\r', '\x85', '\u2028', '\x1c']
pieces = st.one_of(
    st.sampled_from([*PIECES, *BLANK]), st.deferred(lambda: st.sampled_from(rules()))
)
raws = st.lists(pieces, max_size=60).map(''.join)
on_any_text = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
)


@on_any_text
@given(raws, st.sampled_from((1, 20, 100)))
def test_lines_and_parts_have_the_words_of_the_whole_text(raw, size):
    assert words(raw) == released_words(raw)
    parts = list(text.parts(raw, 4 * len(raw) + size))
    assert lines_of(parts) == list(text.lines(raw)) and not any(part.goes_on for part in parts)
    parts = list(text.parts(raw, size))
    assert ''.join(part.text for part in parts) == raw


def test_entities_after_a_tag_stay_in_later_parts():
    assert list(text.parts('&lt;\n<b>\n&lt;\n', 4)) == [
        ('&lt;\n', 'auto', False),
        ('<b>\n', 'auto', False),
        ('&lt;\n', False, False),
    ]
    assert words('&lt;\n<b>\n&lt;') == ['<', '\n ', '<', 'b', '>', '\n ', '&', 'lt', ';']


def lines_of(parts):
    """The lines of parts laid end to end, in which the last line of one may go on in the next."""
    found = []
    goes_on = False
    for part in parts:
        lines = list(text.lines(part.text, part.unescape_html))
        if goes_on and lines:
            found[-1] += lines.pop(0)
        elif goes_on:
            raise AssertionError('a line goes on in a blank part')
        found += lines
        goes_on = part.goes_on
    return found


@on_any_text
@given(
    st.lists(st.sampled_from([*ORDINARY, *BLANK]), min_size=200, max_size=400),
    st.integers(100, 300),
)
def test_a_long_line_cut_between_words_has_the_words_of_the_whole_line(found, size):
    raw = ' '.join(found)
    parts = list(text.parts(raw, size))
    assert ''.join(part.text for part in parts) == raw
    assert max(len(part.text) for part in parts) <= 4 * size
    assert lines_of(parts) == list(text.lines(raw))


@pytest.mark.parametrize(
    'raw',
    [
        'x' * 500,
        '日本語' * 150,
        'word' + ' ' * 500 + 'word',
        'word' + ' ' * 500,
        ' ' * 500 + 'word',
        '!' * 500,
        'one\r' * 100,
        'one, ' * 100,
        '\x00 ' * 200 + 'a b',
    ],
)
@pytest.mark.parametrize('size', [1, 50])
def test_lines_without_a_place_to_cut_lose_nothing(raw, size):
    found = list(text.parts(raw, size))
    assert ''.join(part.text for part in found) == raw and all(part.text for part in found)
    assert not found[-1].goes_on
    # Inside a word only, and a blank line's end is not lost.
    assert [''.join(line) for line in lines_of(found)] == [
        ''.join(line) for line in text.lines(raw)
    ]


@pytest.mark.parametrize(
    'around', ['{}', 'a {} b', '1 {}\n3', 'a{}', '{}a', '1{}3', "'{}'s", ': {} 3', '<{}>']
)
def test_a_rule_has_spacy_s_words(around):
    raw = '\n'.join(around.format(mark * n) for mark in MARKS for n in (2, 39, 40, 41, 60))
    assert words(raw) == released_words(raw)


@pytest.mark.parametrize('around', ['{}', 'lol{}', '{}heading', 'a.com/x{}'])
@pytest.mark.parametrize('marks', ['=', '&amp;', '😂', "'", '’', "'s", '=<', '#&'])
def test_a_long_run_of_marks_takes_time_in_proportion_to_its_length(marks, around):
    """spaCy splits off one mark at a time and searches the rest again: half a minute."""
    words('warm: up')
    before = time.process_time()
    raw = around.format(marks * 8_000)
    found = ''.join(words(raw))
    assert time.process_time() - before < 2
    assert found == html.unescape(raw).replace('’', "'")


@pytest.mark.parametrize('raw', ['a' + ' ' * 80_000 + 'b:', 'www.a.com#' + 'a:@' * 8_000])
def test_spaces_and_addresses_take_time_in_proportion_to_their_length(raw):
    words('warm: up')
    before = time.process_time()
    assert len(words(raw)) < 4
    assert time.process_time() - before < 2


long_words_of = st.lists(
    st.tuples(st.sampled_from([*PIECES, *MARKS, *'abAB019é’']), st.sampled_from((1, 1, 2, 30))),
    max_size=40,
)


@on_any_text
@given(long_words_of, st.sampled_from((12, long_words.LONG)))
def test_long_words_of_any_marks_have_spacy_s_words(found, longest):
    raw = standardized(''.join(piece * times for piece, times in found))
    with mock.patch.object(long_words, 'LONG', longest):
        tokenizer = long_words.linear(spacys().tokenizer)
        expected = [word.text for word in spacys()(raw)]
        assert [word.text for word in tokenizer(raw)] == expected


def test_a_line_above_a_million_characters_is_tokenised():
    assert words('word ' * 201_000 + '&') == ['word'] * 201_000 + ['&']


def test_spacy_starts_again_with_an_empty_memory_when_it_remembers_too_much(monkeypatch):
    first = text._english()
    monkeypatch.setattr(text, '_LEXEMES_KEPT', 0)
    assert text._english() is not first
    assert words('still: works') == ['still', ':', 'works']


@pytest.mark.parametrize(
    'written',
    [
        'he didn\'t say "no, thanks." she\'d gone (it\'s true); they\'ll see: why? "yes!" she '
        'said.',
        'i can\'t.\n"one, "\nfour of 1,234,567 and 10,000 dollars ($5), 50%...',
        "we've won't i'm you're and/or [this]",
        'in 1805, 200 men came',
        'a well-known red-green light',
        '- no.',
    ],
)
def test_text_that_went_through_the_tokenizer_s_words_reads_as_it_was(written):
    spaced = '\n'.join(' '.join(line) for line in text.lines(written))
    assert spaced != written or '-' in written
    assert readable(spaced) == written.replace('"one, "', '"one,"')


def test_control_characters_do_not_reach_a_terminal():
    assert readable('a \x0e b\x1b[2J\nc') == 'a \ufffd b\ufffd[2J\nc'


def test_what_is_shown_of_a_beginning_stays():
    whole = 'he said , " i do n\'t ( 10 , 000 ) . " " no - one \n \' yes , \' - she said -'
    words = whole.split(' ')
    for n in range(len(words) + 1):
        assert readable(whole).startswith(readable(' '.join(words[:n])))
