"""Section 4.1: documents to shards."""

import json
from unittest import mock

import numpy as np
import pytest

from gpt1_jax import storage
from gpt1_jax.data import bpe_training, encode, published
from gpt1_jax.data.corpus import Document

TEXT = 'the cat sat on the mat . ab cd ef'


@pytest.fixture(scope='session')
def own():
    return bpe_training.train([TEXT], merges=12)


@pytest.fixture
def small_units(monkeypatch):
    """Units of 20 characters, so that a few lines are many."""
    monkeypatch.setattr(encode.units, '__defaults__', (20,))


def documents(n=30):
    return [Document(f'd{i}', f'the cat sat\non mat {i}\n') for i in range(n)]


def stream_of(directory):
    return np.concatenate(
        [np.fromfile(file, '<u2') for file in sorted(directory.glob('*.bin'))]
    ).tolist()


def ids_of(own, *texts):
    return [i for text in texts for i in [*own.encode(text), own.newline_id]]


def contents(directory):
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def test_every_document_is_followed_by_one_line_break_and_blank_ones_add_none(
    own, tmp_path, small_units
):
    blank = Document('', ' \n' * 20)
    given = [blank, Document('a', '\nthe cat\n\n'), Document('b', 'sat'), blank, blank]
    split = encode.encode(given, tmp_path, own, shard_tokens=1)
    expected = ids_of(own, 'the cat', 'sat')
    assert stream_of(tmp_path) == expected
    assert (split['documents'], split['tokens'], split['unknown']) == (5, len(expected), 0)


def test_shards_say_what_they_hold_and_others_files_are_left_alone(own, tmp_path, small_units):
    (tmp_path / 'notes.txt').write_text('mine')
    split = encode.encode(documents(), tmp_path, own, shard_tokens=50)
    assert len(split['shards']) > 3 and (tmp_path / 'notes.txt').read_text() == 'mine'
    for shard in split['shards']:
        file = tmp_path / shard['file']
        assert file.stat().st_size == 2 * shard['tokens']
        assert storage.sha256(file) == shard['sha256']
    for name in ('documents', 'tokens', 'unknown'):
        assert sum(shard[name] for shard in split['shards']) == split[name]
    assert split['documents'] == 30
    assert stream_of(tmp_path) == ids_of(own, *(d.text for d in documents()))


def test_unknown_characters_are_counted(tmp_path):
    encoder = tmp_path / 'e.json'
    merges = tmp_path / 'm.bpe'
    encoder.write_text(json.dumps({'<unk>': 0, 'a': 1, 'a</w>': 2, 'aa</w>': 3, '\n</w>': 4}))
    merges.write_text('#version: 0.2\na a</w>\n')
    small = published.from_published(encoder, merges)
    split = encode.encode([Document('', 'axa aa'), Document('', 'xx')], tmp_path / 'out', small)
    assert stream_of(tmp_path / 'out') == [1, 0, 2, 3, 4, 0, 0, 4]
    assert split['unknown'] == split['shards'][0]['unknown'] == 3


@pytest.mark.parametrize(
    'whole',
    [
        'the cat <b>\n\n' + 'sat &amp; mat\n' * 20 + 'a line longer than a unit of work\n \n',
        'the cat\n' + 'the cat sat on the mat , ' * 40 + ' \nab cd ef',
    ],
)
@pytest.mark.parametrize('size', [20, 100_000])
def test_a_long_line_is_cut_without_a_trace(own, tmp_path, monkeypatch, whole, size):
    monkeypatch.setattr(encode.units, '__defaults__', (size,))
    split = encode.encode([Document('long', whole), Document('next', 'cat')], tmp_path, own)
    assert stream_of(tmp_path) == ids_of(own, whole, 'cat') and split['documents'] == 2


def encoded(given, directory, tokenizer, **options):
    """(the entry of the split, {file: content})."""
    return encode.encode(given, directory, tokenizer, shard_tokens=50, **options), contents(
        directory
    )


def test_several_processes_write_the_same_bytes(own, tmp_path, small_units):
    one = encoded(documents(), tmp_path / 'one', own)
    assert one == encoded(documents(), tmp_path / 'two', own, processes=2)


def interrupted(source, after):
    yield from source[:after]
    raise KeyboardInterrupt


LONG = [Document('long', 'the cat sat on the mat , ' * 40), *documents(3)]


@pytest.mark.parametrize(
    'given, after', [(documents(), 0), (documents(), 11), (documents(), 29), (LONG, 1)]
)
def test_an_interrupted_run_resumes_and_ends_the_same(
    own, tmp_path, small_units, monkeypatch, given, after
):
    units = mock.Mock(wraps=encode._encode)
    monkeypatch.setattr(encode, '_encode', units)
    whole = encoded(given, tmp_path / 'whole', own)
    of_all = units.call_count
    with pytest.raises(KeyboardInterrupt):
        encoded(interrupted(given, after), tmp_path / 'cut', own)
    again = [of_all]
    if any((tmp_path / 'cut').glob('*.bin')):
        again = range(of_all)
    for expected in (again, [0]):
        units.reset_mock()
        assert encoded(given, tmp_path / 'cut', own) == whole
        assert units.call_count in expected


@pytest.mark.parametrize('change', [{'documents': 9}, {'unknown': 1}, {'file': '00001.bin'}, {}])
def test_forged_records_are_not_believed_and_left_over_shards_go(
    own, tmp_path, small_units, change
):
    whole = encoded(documents(), tmp_path, own)
    record = tmp_path / '00000.json'
    if change:
        record.write_text(json.dumps(json.loads(record.read_text()) | change))
    for name in ('00007.bin.partial', '00099.bin'):
        (tmp_path / name).write_text('left over')
    assert encoded(documents(), tmp_path, own) == whole


@pytest.mark.parametrize(
    'changed, merges',
    [
        (documents(31), 12),
        (documents(12), 12),
        ([Document('', 'new'), *documents()], 12),
        (documents()[::-1], 12),
        ([*documents(15), Document('', 'cat'), *documents()[16:]], 12),
        (documents(), 3),
    ],
)
def test_shards_of_another_text_are_not_kept(own, tmp_path, small_units, changed, merges):
    """Nor those of another tokenizer."""
    encoded(documents(), tmp_path / 'mixed', bpe_training.train([TEXT], merges=merges))
    fresh = encoded(changed, tmp_path / 'fresh', own)
    assert encoded(changed, tmp_path / 'mixed', own) == fresh
