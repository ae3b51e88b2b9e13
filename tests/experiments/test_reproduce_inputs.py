"""What a job of experiments.reproduce prepares: its books, and the data sets that it packs for another machine."""
import pathlib

import pytest

import official
from experiments.lib import run_list
from experiments.reproduce import __main__ as reproduce
from experiments.reproduce import inputs
from gpt1_jax.errors import UserError
from tiny import load_config

pytestmark = pytest.mark.full


@pytest.mark.quick
def test_books_are_evenly_spaced_and_validation_books_are_used_where_there_are(tmp_path):
    for name in [*(f'train/{i}.txt' for i in range(6)), 'valid/0.txt', 'valid/1.txt']:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    train, valid = inputs.books_of(tmp_path, 3, 1)
    assert [pathlib.Path(name).name for name in train] == ['0.txt', '2.txt', '4.txt']
    assert valid == [f'{tmp_path}/valid/0.txt']
    assert inputs.books_of(f'{tmp_path}/train/*.txt', 100) == (
        [f'{tmp_path}/train/{i}.txt' for i in range(6)], inputs.HELD_OUT)
    with pytest.raises(UserError, match='nothing'):
        inputs.books_of(tmp_path / 'nothing')


def test_every_split_that_is_scored_is_packed(tmp_path, monkeypatch):
    """Test labels that are public, too: whether they are there is asked of the originals."""
    (tmp_path / 'sets' / 'StoryCloze').mkdir(parents=True)
    files = {f'cloze_test_{name}__spring2016.csv' for name in ('val', 'test')}
    for file in files:
        official.story_cloze(tmp_path / 'sets' / 'StoryCloze' / file)
    monkeypatch.setattr(inputs, 'tokenize', lambda *_: None)
    config = reproduce.checked(load_config('one_gpu'), tmp_path / 'out')
    for _ in range(2):  # the second time one file is missing
        inputs.prepare(config, 'books', str(tmp_path / 'sets'))
        packed = tmp_path / 'out' / 'data' / 'StoryCloze'
        assert {file.name for file in packed.iterdir()} == files
        (packed / min(files)).unlink()
    monkeypatch.setattr(inputs, 'has_data', lambda *_: True)
    monkeypatch.setattr(run_list, 'has_data', lambda *_: True)
    with pytest.raises(UserError, match='config.pack copies the files of directories in --data, not parquet:elsewhere'):
        inputs.prepare(config, 'books', 'parquet:elsewhere')
