"""Sets whose rows are choices between texts: RACE, the pronouns of Rahman and Ng, BLiMP."""

import collections
import tarfile

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import blimp
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import fail
from own_sets import lines
from refusal import refusal
from shared import DATA, needs_data

RACE, DPR, BLIMP = map(tasks.get, ('race', 'dpr', 'blimp'))


@pytest.mark.parametrize('inner', ['', 'RACE'])
def test_every_question_is_a_row_middle_school_first_and_passages_by_number(tmp_path, inner):
    official.race(tmp_path / inner, 'test')
    found = RACE.read(tmp_path, 'test')
    assert [e.id for e in found] == [
        f'middle/middle{n}.txt/{q}' for n in (9, 10, 100) for q in range(3)
    ] + [f'high/high{n}.txt/{q}' for n in (1900, 1901, 1902) for q in range(4)]
    text = ('Li has 9 birds.\nThey sing "in the morning". He likes it.', 'When do they sing?  _ .')
    choices = ('At night.', 'In the morning.', 'At noon.', 'Never.')
    assert found[1] == Example('middle/middle9.txt/1', text, choices, 1)
    assert len(RACE.files(tmp_path, 'test')) == 6


@pytest.mark.parametrize(
    'sentence, candidates, right, label',
    [
        ('The pitcher hit a wall because |it| was near.', 'The pitcher,a wall', 'a wall', 1),
        ('A hen saw a bug and |it| ate it.', 'A hen,a bug', 'A hen', 0),
        ('|She| ran, but Sheila did not.', 'Ann,Eve', 'Ann', 0),
        ('IT fell, then |it| rose.', 'the bee,the  flower', 'Flower', 1),
        ('IT fell, then |it| rose.', 'the bee,The Bee', 'The Bee', 1),
    ],
)
def test_a_pronoun_is_the_first_whole_word_of_its_letters_and_articles_make_no_other_candidate(
    tmp_path, sentence, candidates, right, label
):
    before, pronoun, after = sentence.split('|')
    block = (before + pronoun + after, pronoun.lower(), candidates, right)
    official.definite_pronouns(tmp_path / 'test.c.txt', [block])
    expected = Example('0', (before, after), tuple(candidates.split(',')), label)
    assert DPR.read(tmp_path, 'test') == [expected]


# BLiMP

PAIR = {
    'sentence_good': 'He sat.',
    'sentence_bad': 'Him sat.',
    'UID': 'a',
    'linguistics_term': 'binding',
    'pairID': '4',
}


def read_pair(directory, on_bad=fail, **changed):
    """The pairs of a set of two, the second changed."""
    row = {name: value for name, value in (PAIR | changed).items() if value is not None}
    (directory / 'a.jsonl').write_text(lines([PAIR | {'pairID': '1'}, row]))
    return BLIMP.read(directory, 'test', on_bad)


def test_a_pair_is_named_by_phenomenon_set_and_number(tmp_path):
    first, second = read_pair(tmp_path, pairID='7', sentence_good='He ran. ')
    assert first == Example('binding/a/1', (), ('He sat.', 'Him sat.'), 0)
    assert second == Example('binding/a/7', (), ('He ran.', 'Him sat.'), 0)


def test_the_folder_of_the_archive_is_found_and_s_selection_counts_under_argument_structure(
    tmp_path,
):
    assert 'no .jsonl file, nor in its folder data' in refusal(BLIMP.read, tmp_path, 'test')
    official.blimp(tmp_path / 'data')
    found = BLIMP.read(tmp_path, 'test')
    assert found == BLIMP.read(tmp_path / 'data', 'test')
    sets = collections.Counter(example.id.rpartition('/')[0] for example in found)
    first = {'argument_structure/birds_1', 'argument_structure/birds_2'}
    assert {*sets} == {*first, 'binding/hills', 'quantifiers/rivers'} and {*sets.values()} == {8}


@pytest.mark.parametrize(
    'changed, cause',
    [
        ({'UID': None}, 'no UID'),
        ({'linguistics_term': 'bindings'}, "'bindings' is no phenomenon of BLiMP"),
        ({'sentence_bad': ' '}, 'sentence_bad is empty'),
        ({'sentence_good': ['He ran.']}, "sentence_good: ['He ran.'] is not a text"),
        ({'pairID': '1'}, "duplicate id 'binding/a/1'"),
    ],
)
def test_a_bad_pair_is_named_or_left_out(tmp_path, changed, cause):
    message = refusal(read_pair, tmp_path, **changed)
    skipped = []
    assert message.startswith(f'{tmp_path / "a.jsonl"}: line 2: ') and cause in message
    assert len(read_pair(tmp_path, skipped.append, **changed)) == 1 and skipped == [message]


def test_a_filter_is_sets_and_pairs_or_names_its_file(tmp_path):
    path = tmp_path / 'filter.json'
    for wrong in ('[1]', '{"a": 1}', '{"a": "12"}', '{"a": [1.0]}', '{}', '{'):
        path.write_text(wrong)
        assert refusal(blimp.read_filter, path).startswith(f'{path}: ')
    path.write_text('{"a": [0, 12], "b": [3]}')
    assert blimp.read_filter(path) == {'a/0', 'a/12', 'b/3'}


@needs_data
@pytest.mark.full
def test_the_published_sets_are_read_whole(tmp_path):
    with tarfile.open(DATA / 'blimp.tar.xz') as archive:
        archive.extractall(tmp_path, filter='data')
    found = BLIMP.read(tmp_path, 'test')
    per_set = collections.Counter(example.id.rpartition('/')[0] for example in found)
    assert {*per_set.values()} == {1000}
    phenomena = collections.Counter(name.partition('/')[0] for name in per_set)
    # Warstadt et al. 2020, Table 4, in the order of the alphabet
    assert [n for _, n in sorted(phenomena.items())] == [2, 9, 7, 5, 8, 2, 7, 2, 8, 7, 4, 6]
    assert sum(e.choices[0].lower() == e.choices[1].lower() for e in found) == 7  # any model ties
    chosen = blimp.read_filter(DATA / 'blimp_babylm_filtered_indices.json')
    assert len(chosen) == 59_875 and chosen <= {e.id.partition('/')[2] for e in found}
