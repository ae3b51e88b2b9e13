"""Every labelled set gives the same Examples from its official files, from TFDS and from the Hub's
Parquet files."""

import pytest

import hub_parquet as hub
import official
import sets
from gpt1_jax.data import tasks
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.errors import UserError


def same(found, expected, ordered):
    """Whether the Examples are the same, apart from their ids if they are not ordered."""
    if ordered:
        return found == expected
    assert [int(e.id) for e in found] == sorted(int(e.id) for e in found)
    found, expected = (
        sorted((e.texts, e.choices, e.label) for e in examples) for examples in (found, expected)
    )
    return found == expected


@pytest.mark.full
@pytest.mark.parametrize('source', sets.WRITE)
@pytest.mark.parametrize('name', sets.TABLES)
def test_every_set_is_the_same_from_every_source(tmp_path, capsys, name, source):
    if source == 'tfds':
        pytest.importorskip('tensorflow_datasets')
    directory = sets.write(name, source, tmp_path / 'set')
    task = tasks.get(name)
    for split, expected in sets.expected(name).items():
        if (name, source, split) == ('mrpc', 'tfds', 'test'):
            with pytest.raises(UserError, match='TFDS does not have msr_paraphrase_test.txt'):
                task.read(directory, split)
            continue
        if (name, source, split) == ('mrpc', 'parquet', 'test'):  # its rows are glue_test's
            pairs = sets.rows_of(name)['glue_test']
            expected = [Example(str(i), pair[:2], (), int(pair[4])) for i, pair in enumerate(pairs)]
        found = task.read(directory, split)
        assert same(found, expected, (name, source) not in sets.UNORDERED)
        assert task.files(directory, split)
    if name == 'snli':
        assert '2 row(s) left out, the first: ' in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize('source', ['tfds', 'parquet'])
@pytest.mark.parametrize('name, split', [('race', 'dev'), ('dpr', 'test')])
def test_choices_are_the_same_from_every_source(tmp_path, monkeypatch, name, split, source):
    if source == 'tfds':
        pytest.importorskip('tensorflow_datasets')
        from tensorflow_datasets.core.features.feature import TensorInfo

        # To write RACE's lists of lists
        monkeypatch.setattr(TensorInfo, 'dtype', property(lambda self: self.np_dtype))
    task = tasks.get(name)
    expected = task.read(sets.write(name, 'official', tmp_path / 'official'), split)
    found = task.read(sets.write(name, source, tmp_path / 'set'), split)
    assert same(found, expected, (name, source) not in sets.UNORDERED) and len(expected) > 9


# The Hub's Parquet files: their layouts


def equal(name, directory, root, split):
    """The same examples of both, whether the directory says that it is Parquet or merely holds such
    files."""
    task = tasks.get(name)
    expected = task.read(directory, split)
    assert task.read(f'parquet:{root}', split) == task.read(root, split) == expected != []
    assert all(path.endswith('.parquet') for path in task.files(root, split))


@pytest.mark.parametrize(
    'place',
    [
        'data/train-00000-of-00001',
        'train-00000-of-00001-0123456789abcdef',
        'train',
        'cola/train/0000',
        'cola/glue-train',
    ],
)
@pytest.mark.parametrize('step', [1, -1])  # rows in another order keep the ids of the files
def test_other_layouts_of_the_hub_are_found(tmp_path, place, step):
    official.tsv(
        tmp_path / 'official' / 'train.tsv', [('gj04', p[4], '', p[0]) for p in official.PAIRS]
    )
    rows = [(p[0], int(p[4]), i) for i, p in enumerate(official.PAIRS)]
    hub.write(tmp_path / 'hub' / f'{place}.parquet', hub.GLUE['cola'], rows[::step])
    equal('cola', tmp_path / 'official', tmp_path / 'hub', 'train')


def test_race_is_the_same_if_its_levels_have_folders(tmp_path):
    official.race(tmp_path / 'official', 'dev')
    for level, passages in official.PASSAGES.items():
        rows = hub.race_rows({'middle': [], 'high': [], level: passages})
        hub.shards(tmp_path / 'hub' / level, 'validation', hub.RACE, rows, n=2)
    equal('race', tmp_path / 'official', tmp_path / 'hub', 'dev')


def test_official_files_go_before_parquet_files_of_the_same_directory(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'From the table.')])
    hub.glue(tmp_path, 'cola', 'train', [('From Parquet.', 1)])
    assert tasks.get('cola').read(tmp_path, 'train')[0].texts == ('From the table.',)
    assert tasks.get('cola').read(f'parquet:{tmp_path}', 'train')[0].texts == ('From Parquet.',)
