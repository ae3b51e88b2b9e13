"""Parquet files that are damaged, incomplete, of another set, or of two versions: each is named in one line."""
import pytest

import hub_parquet as hub
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError
from official import PAIRS

pytestmark = pytest.mark.filterwarnings('ignore:.*the published set has')


def test_shards_of_two_versions_are_not_read_as_one(tmp_path):
    for n in (1, 2):
        hub.shards(tmp_path / 'plain_text', 'validation', hub.SNLI, [('a', 'b', 0), ('c', 'd', 1)], n=n)
    assert hub.complaint('snli', tmp_path) == (
        f'{tmp_path}/plain_text: 3 files of a split in 1 shard(s): delete those of another version')


def test_labels_of_other_names_are_refused(tmp_path):
    hub.glue(tmp_path, 'cola', 'validation', [('It rains.', 1)])
    path = tmp_path / 'cola' / 'validation-00000-of-00001.parquet'
    assert hub.complaint('sst2', tmp_path / 'cola') == (
        f'{path}: the labels are unacceptable, acceptable, expected negative, positive')
    columns = hub.GLUE['cola'] | {'label': ['acceptable', 'unacceptable']}
    hub.write(path, columns, [('It rains.', 1, 0)])
    assert hub.complaint('cola', tmp_path).endswith('the labels are acceptable, unacceptable, expected unacceptable, '
                                                'acceptable')


def test_numbers_without_names_are_refused(tmp_path):
    hub.write(tmp_path / 'dev.parquet', hub.GLUE['cola'], [('It rains.', 1, 0)], metadata=False)
    (tmp_path / 'dev.parquet').rename(tmp_path / 'validation.parquet')
    assert hub.complaint('cola', tmp_path) == (
        f"{tmp_path}/validation.parquet: what the numbers in label mean is unknown: the schema's metadata "
        "'huggingface' names no labels (expected: unacceptable, acceptable)")


def test_bad_rows_are_named_or_left_out(tmp_path):
    (path,) = hub.glue(tmp_path, 'rte', 'validation', [
        ('A.', 'B.', 0), ('A.', None, 0), (' ', 'B.', 1), ('A.', 'B.', -1), ('A.', 'B.', None)])
    assert hub.complaint('rte', tmp_path) == f'{path}: row 1: no sentence2'
    skipped = []
    (found,) = tasks.get('rte').read(tmp_path, 'dev', skipped.append)
    assert (found.id, found.label) == ('0', 0)
    assert skipped == [f'{path}: row 1: no sentence2', f'{path}: row 2: sentence1 is empty',
                       f"{path}: row 3: label '-1' is none of entailment, not_entailment", f'{path}: row 4: no label']


def test_a_file_that_is_missing_cut_short_or_not_parquet_is_named(tmp_path):
    rows = [(p[0], int(p[4])) for p in PAIRS]
    first, second = hub.glue(tmp_path, 'cola', 'train', rows, n=2)
    second.rename(tmp_path / 'away')
    assert hub.complaint('cola', tmp_path, 'train') == f'{first}: shard 1 of 2 is missing'
    (tmp_path / 'away').rename(second)
    second.write_bytes(second.read_bytes()[:-20])
    assert hub.complaint('cola', tmp_path, 'train').startswith(f'{second}: cannot be read (')
    assert hub.complaint('cola', tmp_path, 'dev') == (
        f'{tmp_path}: no Parquet file of cola validation, such as cola/validation-00000-of-00001.parquet')
    assert hub.complaint('cola', 'parquet:/no/such/place') == '/no/such/place: no such directory'


@pytest.mark.parametrize('how', [dict(use_dictionary=True), dict(use_dictionary=False, compression='none')], ids=str)
def test_a_flipped_bit_is_an_error_naming_the_file_or_changes_nothing(tmp_path, how):
    """Pages have checksums, the footer has a parser."""
    rows = [(f'The cat number {i} sat.', i % 2, i) for i in range(40)]
    path = hub.write(tmp_path / 'train.parquet', hub.GLUE['cola'], rows, write_page_checksum=True, **how)
    data, expected, refused = path.read_bytes(), tasks.get('cola').read(tmp_path, 'train'), []
    for place in range(0, len(data), 23):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1:])
        try:
            assert tasks.get('cola').read(tmp_path, 'train') == expected, place
        except UserError as error:
            assert str(path) in str(error) and '\n' not in str(error)
            refused.append(place)
    assert len(refused) > 20


def test_sets_without_parquet_files_say_so(tmp_path):
    assert hub.complaint('story_cloze', f'parquet:{tmp_path}') == (
        f'parquet:{tmp_path}: the Hub has no Parquet files of story_cloze: give the official files')
    assert hub.complaint('order', f'parquet:{tmp_path}') == f'parquet:{tmp_path}: order is not read from Parquet files'
