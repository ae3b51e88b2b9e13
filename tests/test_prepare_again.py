"""A prepared directory and `prepare` once more: what is resumed, what is made again, what is refused."""
import pathlib

import pytest

from gpt1_jax.data import bpe_training, encode, tokens
from gpt1_jax.data import prepare as data_prepare
from gpt1_jax.data.document import Document
from gpt1_jax.errors import UserError
from gpt1_jax.prepare import prepare
from gpt1_jax.runs import lock
from twenty_books import write_books


@pytest.fixture
def books(tmp_path):
    return write_books(tmp_path / 'books')


def contents(directory):
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob('*') if file.is_file()}


def refused(out, books, message, **changes):
    """Whether preparing in a directory once more is an error, and changes nothing there."""
    before = contents(out)
    with pytest.raises(UserError, match=message):
        prepare(out, **{'corpus': str(books), 'valid': 0.3, 'merges': 20, **changes})
    return contents(out) == before


def null(file):
    file.write_bytes(b'null')


def flip(file):
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))


def test_the_same_inputs_again_change_nothing_and_an_unfinished_run_keeps_its_vocabulary(books, tmp_path, monkeypatch):
    first = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / 'out').rglob('*')}
    assert prepare(tmp_path / 'out', [str(books / '*.txt')], 0.3, merges=20, processes=2) == first
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / 'out').rglob('*')} == times
    (tmp_path / 'out' / 'manifest.json').unlink()
    (tmp_path / 'out' / 'valid' / '00000.bin').unlink()
    monkeypatch.setattr(bpe_training, 'train', None)  # not called
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20) == first


@pytest.mark.parametrize('name', ['train/00000.bin', 'train/00001.bin', 'valid/00000.bin', 'train/00000.json',
                                  'valid/00000.json', 'manifest.json', 'tokenizer/tokenizer.model',
                                  'tokenizer/tokenizer.json'])
@pytest.mark.parametrize('damage', [pathlib.Path.unlink, flip, lambda file: file.write_bytes(b''), null])
def test_what_is_damaged_in_a_finished_directory_is_made_again(books, tmp_path, monkeypatch, capsys, name, damage):
    arguments = dict(corpus=str(books), valid=0.3, merges=20, shard_tokens=100)
    monkeypatch.setattr(encode.units, '__defaults__', (40,))
    manifest = prepare(tmp_path / 'out', **arguments)
    before = contents(tmp_path / 'out')
    damage(tmp_path / 'out' / name)
    assert prepare(tmp_path / 'out', **arguments) == manifest
    assert contents(tmp_path / 'out') == before
    if name != 'manifest.json' or damage != pathlib.Path.unlink:
        assert 'again' in capsys.readouterr().err


def test_sizes_alone_are_compared_where_asked(books, tmp_path, capsys):
    manifest = prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    flip(tmp_path / 'out' / 'train' / '00000.bin')
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20, verify=False) == manifest
    assert 'names and sizes were compared, not the contents' in capsys.readouterr().out
    (tmp_path / 'out' / 'train' / '00000.bin').unlink()
    assert prepare(tmp_path / 'out', str(books), 0.3, merges=20, verify=False) == manifest
    tokens.open_split(tmp_path / 'out', 'train', verify=True)


@pytest.mark.parametrize('damage, what', [
    (lambda out: None, 'tokens'), (lambda out: (out / 'train' / '00000.json').unlink(), 'tokens'),
    (lambda out: flip(out / 'train' / '00000.bin'), 'tokens'),
    (lambda out: flip(out / 'tokenizer' / 'tokenizer.model'), 'vocabulary')])
def test_text_edited_to_the_same_size_is_noticed_and_nothing_is_written(books, tmp_path, damage, what):
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    for file in books.iterdir():
        file.write_text(file.read_text().replace('cat', 'dog'))
    damage(tmp_path / 'out')
    assert refused(tmp_path / 'out', books, f'the text gives (other|another) {what} now than it was prepared with')


def test_other_inputs_in_the_same_directory_are_refused(books, tmp_path):
    prepare(tmp_path / 'out', str(books), 0.3, merges=20)
    for change, message in (
            (dict(merges=21), 'tokenizer was trained, 20 merges, now trained, 21 merges'),
            (dict(valid=0.4), 'valid was 0.3 of the documents, now 0.4 of the documents'),
            (dict(corpus=[Document('', 'x'), Document('', 'y')]), 'corpus was 20 files of .*, now 2 documents, SHA'),
            (dict(shard_tokens=9), 'shards was 8388608 tokens, now 9 tokens')):
        assert refused(tmp_path / 'out', books, f'out was prepared from other inputs: {message}', **change)


def test_tokens_of_a_dry_run_do_not_block_the_run_with_other_inputs(books, tmp_path, capsys):
    first, second = (data_prepare.PrepareConfig(str(books), valid, merges=20) for valid in (0.3, 0.6))
    data_prepare.prepare(first, tmp_path / 'out', lock.hold)
    with pytest.raises(UserError, match='was prepared from other inputs: valid was 0.3 of the documents, now 0.6'):
        data_prepare.prepare(second, tmp_path / 'out', lock.hold)
    made = data_prepare.prepare(second, tmp_path / 'out', lock.hold, replace=True)
    assert 'prepared from other inputs (valid was 0.3 of the documents, now 0.6' in capsys.readouterr().err
    assert made == data_prepare.prepare(second, tmp_path / 'other', lock.hold)
    assert data_prepare.prepare(second, tmp_path / 'out', lock.hold, replace=True) == made
