"""The books that a job of experiments.reproduce prepares."""

import pathlib

import pytest

from experiments.reproduce import inputs
from gpt1_jax.errors import UserError

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
        [f'{tmp_path}/train/{i}.txt' for i in range(6)],
        inputs.HELD_OUT,
    )
    with pytest.raises(UserError, match='nothing'):
        inputs.books_of(tmp_path / 'nothing')
