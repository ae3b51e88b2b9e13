"""BLiMP's official files: phenomenon, set and pair of each row, and what is refused."""
import collections
import json
import tarfile

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks import blimp
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError
from shared import DATA, needs_data

BLIMP = tasks.get('blimp')
PAIR = {'sentence_good': 'He sat.', 'sentence_bad': 'Him sat.', 'UID': 'a', 'linguistics_term': 'binding',
        'pairID': '4'}


def write(directory, **changed):
    row = {name: value for name, value in (PAIR | changed).items() if value is not None}
    (directory / 'a.jsonl').write_text(json.dumps(PAIR | {'pairID': '1'}) + '\n' + json.dumps(row) + '\n')


def test_a_pair_is_named_by_phenomenon_set_and_number(tmp_path):
    write(tmp_path)
    assert BLIMP.read(tmp_path, 'test') == [
        Example(f'binding/a/{pair}', (), ('He sat.', 'Him sat.'), 0) for pair in ('1', '4')]
    write(tmp_path, pairID='7', sentence_good='He ran. ')
    assert BLIMP.read(tmp_path, 'test')[1] == Example('binding/a/7', (), ('He ran.', 'Him sat.'), 0)


def test_the_folder_of_the_archive_is_found_and_s_selection_counts_under_argument_structure(tmp_path):
    official.blimp(tmp_path / 'data')
    found = BLIMP.read(tmp_path, 'test')
    assert found == BLIMP.read(tmp_path / 'data', 'test')
    sets = collections.Counter(example.id.rpartition('/')[0] for example in found)
    assert sets == dict.fromkeys(
        ['argument_structure/birds_1', 'argument_structure/birds_2', 'binding/hills', 'quantifiers/rivers'], 8)


@pytest.mark.parametrize('changed, cause', [
    ({'UID': None}, 'no UID'),
    ({'linguistics_term': 'bindings'}, "'bindings' is no phenomenon of BLiMP, did you mean 'binding'"),
    ({'sentence_bad': ' '}, 'sentence_bad is empty'), ({'sentence_good': 3}, 'sentence_good is int, must be text'),
    ({'pairID': '1'}, "duplicate id 'binding/a/1'")])
def test_a_bad_row_is_named_or_left_out(tmp_path, changed, cause):
    write(tmp_path, **changed)
    with pytest.raises(UserError) as caught:
        BLIMP.read(tmp_path, 'test')
    assert str(caught.value).startswith(f'{tmp_path / "a.jsonl"}: row 2: ') and cause in str(caught.value)
    skipped = []
    assert len(BLIMP.read(tmp_path, 'test', skipped.append)) == len(skipped) == 1


@pytest.mark.parametrize('directory, split, cause', [
    ('', 'test', 'no .jsonl file, nor in its folder data'), ('', 'dev', "blimp has no split 'dev'"),
    ('tfds:', 'test', 'blimp is not read from TFDS'), ('hf:a/blimp', 'test', 'blimp is not read from Parquet files')])
def test_what_is_not_there_is_said(tmp_path, directory, split, cause):
    with pytest.raises(UserError, match=cause):
        BLIMP.read(directory or tmp_path, split)


@pytest.mark.parametrize('content, cause', [
    ('[1]', 'not an object of sets'), ('{"a": 1}', "'a': not a list of whole numbers"), ('{', 'not JSON')])
def test_a_filter_is_sets_and_pairs_or_names_its_file(tmp_path, content, cause):
    path = tmp_path / 'filter.json'
    path.write_text(content)
    with pytest.raises(UserError, match=cause) as caught:
        blimp.read_filter(path)
    assert str(caught.value).startswith(str(path))
    path.write_text('{"a": [0, 12], "b": [3]}')
    assert blimp.read_filter(path) == {'a/0', 'a/12', 'b/3'}


@needs_data
@pytest.mark.full
def test_the_published_sets_are_read_whole(tmp_path):
    with tarfile.open(DATA / 'blimp.tar.xz') as archive:
        archive.extractall(tmp_path, filter='data')
    found = BLIMP.read(tmp_path, 'test')
    per_set = collections.Counter(example.id.rpartition('/')[0] for example in found)
    per_phenomenon = collections.Counter(name.partition('/')[0] for name in per_set)
    assert len(per_set) == 67 and set(per_set.values()) == {1000}
    assert per_phenomenon == {  # Warstadt et al. 2020, Table 4
        'anaphor_agreement': 2, 'argument_structure': 9, 'binding': 7, 'control_raising': 5,
        'determiner_noun_agreement': 8, 'ellipsis': 2, 'filler_gap_dependency': 7, 'irregular_forms': 2,
        'island_effects': 8, 'npi_licensing': 7, 'quantifiers': 4, 'subject_verb_agreement': 6}
    # Lower-casing makes no further pair one sentence twice.
    assert {e.id for e in found if e.choices[0].lower() == e.choices[1].lower()} == blimp.IDENTICAL
    chosen = blimp.read_filter(DATA / 'blimp_babylm_filtered_indices.json')
    assert len(chosen) == 59_875 and chosen <= {e.id.partition('/')[2] for e in found}
