"""tokenizer.json: what Hugging Face's libraries make of a vocabulary, against ours."""

import functools
import json
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import released
from gpt1_jax.data import bpe_training, text
from gpt1_jax.data.published import from_published, from_tokenizer_json
from gpt1_jax.errors import UserError
from gpt1_jax.weights import tokenizer_json
from shared import ENCODER, MERGES, VOCABULARY, needs_vocabulary

pytestmark = pytest.mark.full

tokenizers = pytest.importorskip('tokenizers')

TEXT = (
    """The cat sat on the mat. Mr. Smith's dog didn't bark; it's well-known, isn't it?
"Don't!" said Dr. Jones at 10am ... they'd paid US$5 (or 10,000 dollars) -- naïvely, I'm told: 'twas theirs.
"""
    * 3
)


def loaded(files):
    return tokenizers.Tokenizer.from_str(files['tokenizer.json'].decode())


@functools.cache
def of_the_text():
    ours = bpe_training.train([TEXT], merges=80)
    return ours, loaded(tokenizer_json.files(ours, 64))


@pytest.fixture
def own():
    return of_the_text()[0]


@pytest.fixture(scope='module')
def small(tmp_path_factory):
    directory = tmp_path_factory.mktemp('vocabulary')
    released.vocabulary(directory)
    return from_published(directory / 'encoder_bpe_40000.json', directory / 'vocab_40000.bpe')


def words(raw):
    """Raw text as words with a space between them, line breaks as they are."""
    return '\n'.join(' '.join(line) for line in text.lines(raw))


def test_every_word_has_our_ids_whatever_its_letters(own, small):
    rng = random.Random(0)
    letters = string.ascii_lowercase + 'thecatsa' * 6
    for ours, odd in ((own, 'ßé日本ж😀'), (small, 'ß日')):
        found = loaded(tokenizer_json.files(ours, 64))
        for n in range(800):
            word = ''.join(rng.choices(letters + odd * (3 * (n % 2)), k=rng.randint(1, 12)))
            assert found.encode(word).ids == ours.encode(word), word


def test_raw_text_has_our_ids_and_words_too(own):
    found = of_the_text()[1]
    expected = own.encode(TEXT)
    assert found.encode(words(TEXT)).ids == expected and found.encode(TEXT).ids == expected
    assert expected.count(own.newline_id) == 5 and own.unk_id not in expected
    line = expected[: expected.index(own.newline_id)]
    assert found.decode(line) == own.decode(line) and found.decode(line).startswith(
        'the cat sat on the mat . mr.'
    )
    for raw in (
        "He said 'the cat'. Then ('sat'): ok",
        '>>> the ## cat == &c',
        "ID of the cat; I'd id it",
        "'Twas Mr. Smith's, US$5 & 10%.",
        "the cats' mats, isn't it?",
        'e.g. a cat...and -- a dog',
    ):
        assert found.encode(raw).ids == own.encode(raw), raw


@pytest.mark.quick
def test_every_row_of_a_vocabulary_is_there_under_its_number_and_merges_as_they_were_published(
    own, small
):
    for ours in (own, small):
        vocabulary = json.loads(tokenizer_json.files(ours, 64)['tokenizer.json'])['model']['vocab']
        assert sorted(vocabulary.values()) == list(range(ours.vocab_size))
    files = tokenizer_json.files(small, 64)
    assert json.loads(files['vocab.json']) == vocabulary and vocabulary['do'] == 72 - 1 - 7
    assert files['merges.txt'].decode().splitlines()[1:] == [
        ' '.join(pair) for pair in released.MERGES
    ]


def test_specials_stand_where_section_3_3_puts_them(own):
    found = loaded(tokenizer_json.files(own, 64, specials=True))
    a = own.encode('the cat')
    b = own.encode("didn't bark")
    start = own.start_id
    delimiter = own.delimiter_id
    extract = own.extract_id
    assert found.encode('the cat').ids == [start, *a, extract]
    assert found.encode('the cat', "didn't bark").ids == [start, *a, delimiter, *b, extract]
    assert loaded(tokenizer_json.files(own, 64)).encode('the cat').ids == a


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from('ab \n\t\r.,\'"-—…“!?$%&:;()5éﬁ▁日\0\u0308\u200b\u2028'), max_size=12)
)
def test_no_text_is_too_odd(raw):
    of_the_text()[1].encode(raw)  # raises nothing


@needs_vocabulary
def test_the_published_files_come_back_and_nearly_all_golden_texts_are_exact(tmp_path):
    ours = from_published(ENCODER, MERGES)
    files = tokenizer_json.files(ours, 512)
    assert files['merges.txt'] == MERGES.read_bytes()
    assert json.loads(files['vocab.json']) == json.loads(ENCODER.read_bytes())
    (tmp_path / 'tokenizer.json').write_bytes(files['tokenizer.json'])
    assert from_tokenizer_json(tmp_path / 'tokenizer.json').fingerprint == ours.fingerprint
    rows = [
        json.loads(line) for line in open(VOCABULARY / 'golden_encodings.jsonl', encoding='utf-8')
    ]
    found = loaded(files)
    assert sum(found.encode(words(row['text'])).ids == row['ids'] for row in rows) >= len(rows) - 1
    assert sum(found.encode(row['text']).ids == row['ids'] for row in rows) >= 0.99 * len(rows)


def test_a_token_that_is_no_text_is_named(released_run, tmp_path):
    files = tokenizer_json.files(released_run.tokenizer(), 512, specials=False)
    content = json.loads(files['tokenizer.json'])['model']
    content['vocab'] = {
        piece.replace('e', '\ud800'): row for piece, row in content['vocab'].items()
    }
    merges = [merge if isinstance(merge, str) else ' '.join(merge) for merge in content['merges']]
    content['merges'] = [merge.replace('e', '\ud800') for merge in merges]
    (tmp_path / 'tokenizer.json').write_text(json.dumps({'model': content}))
    with pytest.raises(UserError, match=r'tokenizer.json: piece \d+ is no text'):
        from_tokenizer_json(tmp_path / 'tokenizer.json')
