"""The Hub's Parquet files as a source: the same Examples as from official files of the same rows."""
import subprocess
import sys
import warnings

import pytest

import hub_parquet as hub
import official
from gpt1_jax.data import tasks

PAIRS = official.PAIRS


@pytest.fixture(autouse=True)
def partial_sets_are_fine():
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', '.*the published set has')
        yield


def equal(name, directory, root, splits, least=19):
    """The same examples of both, whether the directory says that it is Parquet or merely holds such files."""
    task = tasks.get(name)
    for split in splits:
        expected = task.read(directory, split)
        assert task.read(f'parquet:{root}', split) == task.read(root, split) == expected and len(expected) >= least
        assert all(type(e.label) in (int, float, type(None)) for e in task.read(root, split))
        assert all(path.endswith('.parquet') for path in task.files(root, split))


@pytest.mark.parametrize('place', ['data/train-00000-of-00001', 'train-00000-of-00001-0123456789abcdef', 'train',
                                   'cola/train/0000', 'cola/glue-train', 'cola/train'])
def test_other_layouts_of_the_hub_are_found(tmp_path, place):
    official.tsv(tmp_path / 'official' / 'train.tsv', [('gj04', p[4], '', p[0]) for p in PAIRS])
    rows = [(p[0], int(p[4]), i) for i, p in enumerate(PAIRS)]
    hub.write(tmp_path / 'hub' / f'{place}.parquet', hub.GLUE['cola'], rows)
    equal('cola', tmp_path / 'official', tmp_path / 'hub', ('train',))


def test_rows_in_another_order_keep_the_ids_of_the_files(tmp_path):
    rows = [(p[0], int(p[4]), i) for i, p in enumerate(PAIRS)]
    hub.write(tmp_path / 'a' / 'train-00000-of-00001.parquet', hub.GLUE['cola'], rows)
    hub.write(tmp_path / 'b' / 'train-00000-of-00001.parquet', hub.GLUE['cola'], rows[::-1])
    assert tasks.get('cola').read(tmp_path / 'a', 'train') == tasks.get('cola').read(tmp_path / 'b', 'train')


@pytest.mark.parametrize('folders', [('all',), ('middle', 'high'), ('',)])
def test_race_is_the_same_however_its_rows_are_divided(tmp_path, folders):
    official.race(tmp_path / 'official', 'dev')
    rows = hub.race_rows(official.PASSAGES)
    for folder in folders:
        part = [row for row in rows if len(folders) == 1 or row[0].startswith(folder)]
        hub.shards(tmp_path / 'hub' / folder, 'validation', hub.RACE, part, n=2)
    equal('race', tmp_path / 'official', tmp_path / 'hub', ('dev',))


def test_race_by_passage_has_the_same_questions(tmp_path):
    high = {'middle': [], 'high': official.PASSAGES['high']}
    official.race(tmp_path / 'official', 'test', high)
    rows = []
    for passage in high['high']:
        problems = [{'question': q, 'answer': a, 'options': o} for q, o, a in zip(
            passage['questions'], passage['options'], passage['answers'])]
        rows.append((passage['article'], str(problems)))
    hub.shards(tmp_path / 'hub' / 'high', 'test', hub.RACE_BY_PASSAGE, rows)
    task = tasks.get('race')
    found, expected = task.read(tmp_path / 'hub', 'test'), task.read(tmp_path / 'official', 'test')
    assert [(e.texts, e.choices, e.label) for e in found] == [(e.texts, e.choices, e.label) for e in expected]
    assert [found[0].id, found[-1].id] == ['high/passage0/0', 'high/passage2/3']


def test_winograd_schemas_are_the_same_with_their_spelling_and_spaces(tmp_path):
    schemas = [*official.SCHEMAS, ('', 'It', 'recieved a prize.', 'The cat', 'the dog', 'B'),
               ('Ann saw Bea but nobody saw', 'her', '.', 'Ann', 'Bea', 'A')]
    rows = []
    for before, pronoun, after, a, b, right in schemas:  # as the Hub's loading script joined the parts
        text = ' '.join([before, pronoun, after]).strip()
        rows.append((text, pronoun, len(before) + 1 if before else 0, 'x', 0, [a, b], 'AB'.index(right), '(made up)'))
    schemas[-1] = schemas[-1][:2] + (' . ',) + schemas[-1][3:]
    (tmp_path / 'official').mkdir()
    official.wsc(tmp_path / 'official' / 'WSCollection.xml', schemas)
    hub.shards(tmp_path / 'hub' / 'wsc273', 'test', hub.WSC, rows)
    task = tasks.get('wsc273')
    skipped = []
    found = task.read(tmp_path / 'hub', 'test', skipped.append)
    assert found == task.read(tmp_path / 'official', 'test', [].append) and len(found) == 22


def test_official_files_go_before_parquet_files_of_the_same_directory(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'From the table.')])
    hub.glue(tmp_path, 'cola', 'train', [('From Parquet.', 1)])
    assert tasks.get('cola').read(tmp_path, 'train')[0].texts == ('From the table.',)
    assert tasks.get('cola').read(f'parquet:{tmp_path}', 'train')[0].texts == ('From Parquet.',)


def test_pyarrow_is_imported_only_when_such_files_are_met(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'A.'), ('gj04', '0', '', 'B.')])
    code = ('import sys, warnings; warnings.simplefilter("ignore"); from gpt1_jax.data import tasks; '
            f'tasks.get("cola").read({str(tmp_path)!r}, "train"); print({{"pyarrow", "huggingface_hub"}} & '
            'set(sys.modules))')
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert found.stdout == 'set()\n'
