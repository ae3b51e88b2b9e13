"""Section 4.1: the vocabulary, published or our own."""

import functools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt1_jax.data import bpe_training, text
from gpt1_jax.data.published import from_published
from gpt1_jax.data.tokenizer import Tokenizer
from refusal import refusal
from released_words import words
from shared import CASES, ENCODER, MERGES, VOCABULARY, needs_cases, needs_vocabulary

TEXT = 'The cat sat on the mat. The cat ate the rat.\nThat is that, said the cat — naïvely.'


@pytest.fixture(scope='session')
def published():
    return from_published(ENCODER, MERGES)


@pytest.fixture(scope='session')
def own():
    return bpe_training.train([TEXT], merges=30)


# A published vocabulary in small: characters a b c, merges (a, b), (ab, c</w>), (b, c).
SMALL_ENCODER = [*'<unk> a b c a</w> b</w> c</w> ab abc</w> bc'.split(), '\n</w>']
SMALL_MERGES = ['#version: 0.2', 'a b', 'ab c</w>', 'b c', '']


def write_published(directory, pieces=SMALL_ENCODER, merges=SMALL_MERGES):
    encoder = directory / 'encoder.json'
    numbers = {piece: i for i, piece in enumerate(pieces)}
    encoder.write_text(pieces if isinstance(pieces, str) else json.dumps(numbers))
    bpe = directory / 'vocab.bpe'
    bpe.write_text('\n'.join(merges))
    return encoder, bpe


class ReleasedBPE:
    """A transcription of the released algorithm, independent of SentencePiece."""

    def __init__(self, encoder_file, merges_file):
        self.encoder = json.loads(encoder_file.read_text('utf-8'))
        merges = [tuple(line.split()) for line in merges_file.read_text('utf-8').split('\n')[1:-1]]
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def pieces(self, word):
        symbols = [*word[:-1], word[-1] + '</w>']
        while len(symbols) > 1:
            first, second = min(
                zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, float('inf'))
            )
            if (first, second) not in self.ranks:
                break
            merged = []
            i = 0
            while i < len(symbols):
                if symbols[i : i + 2] == [first, second]:
                    merged.append(first + second)
                    i += 2
                else:
                    merged.append(symbols[i])
                    i += 1
            symbols = merged
        joined = ' '.join(symbols)
        return ('\n</w>' if joined == '\n  </w>' else joined).split(' ')

    def encode(self, raw):
        return [self.encoder.get(piece, 0) for word in words(raw) for piece in self.pieces(word)]


@needs_vocabulary
def test_the_published_vocabulary_has_the_released_rows_and_every_golden_text_is_exact(published):
    assert (published.vocab_size, published.newline_id, published.unk_id) == (40478, 40477, 0)
    specials = (published.start_id, published.delimiter_id, published.extract_id)
    assert specials == (40478, 40479, 40480)
    lines = (VOCABULARY / 'golden_encodings.jsonl').read_text('utf-8').splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 1140
    assert [row['text'] for row in rows if published.encode(row['text']) != row['ids']] == []


@functools.cache
def released_bpe():
    return ReleasedBPE(ENCODER, MERGES)


# Pieces and characters of the vocabulary, any Unicode, SentencePiece's own marks, long runs
odd = '\u2581\u2585\ufffd\uffff\u200b\xa0\xad\u2028\t\r\0\x07\x1c日本😀\u0301ẞİß\ue000\ud800Ωж_~\\'
pieces = st.deferred(lambda: st.sampled_from([*released_bpe().encoder]))
raws = st.lists(
    st.one_of(
        pieces.map(lambda piece: piece.removesuffix('</w>')),
        st.text(max_size=6),
        st.sampled_from([*odd, *' \n', 'a' * 150, 'eb' * 99]),
    ),
    max_size=20,
).map(''.join)


@pytest.mark.full
@needs_vocabulary
@settings(max_examples=1000, deadline=None, derandomize=True, database=None)
@given(raw=raws)
def test_any_text_gets_the_ids_of_the_released_algorithm(published, raw):
    assert published.encode(raw) == released_bpe().encode(raw)


def test_unknown_characters_are_one_token_each_and_stop_merges(tmp_path):
    small = from_published(*write_published(tmp_path))
    assert small.encode('abc') == [8]
    # The last character carries the end mark, so (a, b) doesn't apply
    assert small.encode('ab') == [1, 5]
    assert small.encode('abxx') == [7, 0, 0]
    assert small.encode('xxabc abxabc') == [0, 0, 8, 7, 0, 8]
    assert small.encode('a\n\nc') == [4, 10, 6]


def test_a_published_vocabulary_that_shards_cannot_hold_is_refused(tmp_path, monkeypatch):
    files = write_published(tmp_path)
    most = 'gpt1_jax.data.published.LARGEST_VOCABULARY'
    monkeypatch.setattr(most, len(SMALL_ENCODER) - 1)
    assert f'has {len(SMALL_ENCODER)} pieces' in refusal(from_published, *files)


def test_decode_puts_spaces_and_line_breaks_back_and_names_specials_and_unknowns(own, tmp_path):
    assert own.decode(own.encode('The cat,\n\n the RAT')) == 'the cat ,\nthe rat'
    small = from_published(*write_published(tmp_path))
    assert small.decode([11, 8, 12, 7, 0, 4, 13]) == '<start> abc <delimiter> ab<unk>a <extract>'
    assert refusal(small.decode, [14]) == 'id 14 is no token: this vocabulary has 11 and 3 specials'
    ids = own.encode('Zebra 日本 😀 ▅ x\uffff \uffff żółw')  # our own vocabulary has no unknowns
    assert own.unk_id not in ids and own.newline_id not in ids
    assert own.decode(ids) == 'zebra 日本 😀 ▅ x\uffff \uffff żółw'


def test_sentencepieces_space_in_a_word_is_spelt_in_bytes_and_ends_no_word(own, monkeypatch):
    def spelt(word):
        return ''.join(own._engine.id_to_piece(i) for i in own.encode(word))

    monkeypatch.setattr(text, 'words', lambda spaced: [spaced])
    space = '<0xE2><0x96><0x81>'
    assert spelt('the▁cat mat') == f'the{space}cat▁mat▁'
    assert spelt('the▁▁ ▁mat') == f'the{space}{space}▁{space}mat▁'
    assert own.decode(own.encode('the▁cat ▁ mat')) == 'the▁cat ▁ mat'


def test_our_own_vocabulary_merges_what_is_frequent():
    found = bpe_training.train({'aab': 5, 'ab': 4}, merges=2)
    # 9 times (a, b) or (b, end): the first merges make 'ab' + end or its like, so both words end in
    # one token.
    assert found.vocab_size == 2 + 256 + 3 + 2
    one, two = map(found.encode, ('ab', 'aab'))
    assert (len(one), len(two)) == (1, 2) and one[-1] == two[-1]


def test_a_vocabulary_has_the_size_that_was_asked_for_or_as_many_merges_as_the_corpus_has(
    own, capfd
):
    characters = {*''.join(words(TEXT))} - {'\n', ' '}
    assert own.vocab_size == 2 + 256 + len(characters) + 1 + 30
    assert bpe_training.train([TEXT], vocab_size=300).vocab_size == 300
    assert 261 < bpe_training.train({'ab': 3}, merges=1000).vocab_size < 270
    assert 'notice: the corpus has only' in capfd.readouterr().err
    # Words longer than any line limit are counted.
    found = bpe_training.train([('the ' * 3000 + '\n') * 2], merges=3)
    assert 'the' in found.decode(range(258, 264))


def test_a_vocabulary_smaller_than_the_characters_spells_the_rare_ones_as_bytes(monkeypatch, capfd):
    characters = ''.join(chr(0x4E00 + i) for i in range(300))
    counts = {char * 2: 1000 - i for i, char in enumerate(characters)} | {'ab': 2000}
    for size in (300, 500):
        found = bpe_training.train(counts, vocab_size=size)
        assert found.vocab_size == size
        assert 'of 302 characters only the' in capfd.readouterr().err
        # A frequent one is one token and the end of its word, a rare one three bytes of it
        assert len(found.encode('a')) <= 2 and len(found.encode(characters[-1])) == 4
        assert found.decode(found.encode(characters)) == characters
    assert bpe_training.train(counts, vocab_size=700).vocab_size == 700
    assert 'characters' not in capfd.readouterr().err
    monkeypatch.setattr(bpe_training, 'LARGEST_VOCABULARY', 500)  # of the default size as well
    assert bpe_training.train(counts, merges=100).vocab_size == 500


@needs_cases
def test_chinese_text_gets_the_vocabulary_that_was_asked_for():
    text = (CASES / 'vocabulary_below_characters' / 'zh.txt').read_text('utf-8')
    assert bpe_training.train([text], vocab_size=1000).vocab_size == 1000


def test_equal_counts_give_the_same_vocabulary_and_others_another():
    counts = bpe_training.count_words([text.Part(TEXT)])
    found = [
        bpe_training.train(dict(items), merges=merges).fingerprint
        for items, merges in (
            (counts.items(), 20),
            (reversed(counts.items()), 20),
            (counts.items(), 19),
        )
    ]
    assert found[0] == found[1] != found[2] and len(found[0]) == 64


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(merges=0), 'merges is 0, must be from 1 to 6527[0-9] for this corpus'),
        (
            dict(vocab_size=200),
            r'vocab_size is 200, must be from 261 \(256 bytes, 1 characters, 3 ',
        ),
        (dict(vocab_size=65536), 'vocab_size is 65536, must be from 261 .* to 65535'),
        (dict(words_or_texts=['', ' \n']), 'no words to train a vocabulary on'),
    ],
)
def test_sizes_that_cannot_be_and_an_empty_text_are_refused(arguments, message):
    said = refusal(bpe_training.train, **{'words_or_texts': {'ab': 3}} | arguments)
    assert re.search(message, said)


def edit(name, change):
    return lambda directory: (directory / name).write_bytes(change((directory / name).read_bytes()))


@pytest.mark.parametrize(
    'damage, message',
    [
        (
            lambda d: (d / 'tokenizer.model').unlink(),
            'no tokenizer .*No such file.*tokenizer.model',
        ),
        (lambda d: (d / 'tokenizer.json').write_text('{"format": 1'), 'tokenizer.json: not JSON'),
        (edit('tokenizer.model', bytes.swapcase), 'tokenizer.model: damaged, or not the model'),
        (
            edit('tokenizer.json', lambda text: text.replace(b'"format": 1', b'"format": 9')),
            "tokenizer.json: not a tokenizer's settings of format 1",
        ),
    ],
)
def test_a_damaged_directory_is_named(own, tmp_path, damage, message):
    own.save(tmp_path)
    damage(tmp_path)
    assert re.search(message, refusal(Tokenizer.load, tmp_path))


@pytest.mark.parametrize(
    'files, message',
    [
        (dict(pieces='{"a": 1,\n'), 'encoder.json: not JSON .Expecting property name .*line 2'),
        (dict(pieces='{"<unk>": 0, "a": 2}'), 'encoder.json: must map each piece to its id, 0 to'),
        (
            dict(pieces=SMALL_ENCODER[:-2] + SMALL_ENCODER[-1:]),
            'has 10 pieces and .* 3 merges: they do not belong',
        ),
        (
            dict(pieces=['a', '<unk>'] + SMALL_ENCODER[2:]),
            "encoder.json: piece 0 is 'a', by .* it must be '<unk>', in the released order",
        ),
        (dict(merges=SMALL_MERGES[1:]), 'line 1 is not "#version'),
        (
            dict(merges=['#version: 0.2', 'a b', 'b c', 'ab c</w>']),
            "piece 8 is 'abc</w>', by .* it must be 'bc'",
        ),
    ],
)
def test_published_files_that_are_wrong_are_named(tmp_path, files, message):
    assert re.search(message, refusal(from_published, *write_published(tmp_path, **files)))


def test_published_merges_may_have_windows_line_ends_and_missing_files_are_named(tmp_path):
    encoder, bpe = write_published(tmp_path)
    expected = from_published(encoder, bpe)
    bpe.write_bytes(bpe.read_bytes().replace(b'\n', b'\r\n') + b'\r\n')
    assert from_published(encoder, bpe) == expected
    assert 'absent.json: cannot be read (No such file' in refusal(
        from_published, tmp_path / 'absent.json', bpe
    )
