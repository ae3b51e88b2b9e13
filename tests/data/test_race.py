"""Passages and their questions from official layouts."""
import json

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks.example import Example

RACE = tasks.get('race')


@pytest.mark.parametrize('inner', ['', 'RACE'])
def test_every_question_is_a_row_middle_school_first_and_passages_by_number(tmp_path, inner):
    official.race(tmp_path / inner, 'test')
    found = RACE.read(tmp_path, 'test')
    assert [e.id for e in found] == [f'middle/middle{n}.txt/{q}' for n in (9, 10, 100) for q in range(3)] + [
        f'high/high{n}.txt/{q}' for n in (1900, 1901, 1902) for q in range(4)]
    assert found[1] == Example(
        'middle/middle9.txt/1',
        ('Li has 9 birds.\nThey sing "in the morning". He likes it.', 'When do they sing?  _ .'),
        ('At night.', 'In the morning.', 'At noon.', 'Never.'), 1)
    assert len(RACE.files(tmp_path, 'test')) == 6


def test_a_passage_without_an_id_is_called_by_its_file(tmp_path):
    passage = {key: value for key, value in official.PASSAGES['high'][0].items() if key != 'id'}
    (tmp_path / 'dev' / 'high').mkdir(parents=True)
    (tmp_path / 'dev' / 'high' / '7.txt').write_text(json.dumps(passage))
    assert [e.id for e in RACE.read(tmp_path, 'dev')] == [f'high/7.txt/{q}' for q in range(4)]
