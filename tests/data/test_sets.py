"""Every labelled set gives the same Examples from its official files, from TFDS and from the Hub's
Parquet files."""

import dataclasses

import pytest

import hub_parquet as hub
import official
import sets
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError


@pytest.mark.full
@pytest.mark.parametrize('name, source', sets.MATRIX)
def test_every_set_is_the_same_from_every_source(tmp_path, monkeypatch, capsys, name, source):
    if source == 'tfds':
        pytest.importorskip('tensorflow_datasets')
        from tensorflow_datasets.core.features.feature import TensorInfo

        # To write RACE's lists of lists
        monkeypatch.setattr(TensorInfo, 'dtype', property(lambda self: self.np_dtype))
    directory = sets.write(name, source, tmp_path / 'set')
    task = tasks.get(name)
    for split, expected in sets.expected(name).items():
        if (name, source, split) == ('mrpc', 'tfds', 'test'):
            with pytest.raises(UserError, match='TFDS does not have msr_paraphrase_test.txt'):
                task.read(directory, split)
            continue
        if (name, source, split) == ('mrpc', 'parquet', 'test'):
            expected = [
                dataclasses.replace(e, label=sets.label_of(name, pair)[1])
                for e, pair in zip(
                    sets.expected(name)['glue_test'], sets.rows_of(name)['glue_test']
                )
            ]
        found = task.read(directory, split)
        if (name, source) in sets.UNORDERED:
            key = lambda example: (example.texts, example.choices, example.label)  # noqa: E731
            assert sorted(map(key, found)) == sorted(map(key, expected))
            assert [int(e.id) for e in found] == sorted(int(e.id) for e in found)
        else:
            assert found == expected
        assert all(type(e.label) in (int, float, type(None)) for e in found)
        assert task.files(directory, split)
    if name == 'snli':
        assert '2 row(s) left out, the first: ' in capsys.readouterr().out


# The Hub's Parquet files: their layouts


def equal(name, directory, root, split, least=19):
    """The same examples of both, whether the directory says that it is Parquet or merely holds such
    files."""
    task = tasks.get(name)
    expected = task.read(directory, split)
    assert (
        task.read(f'parquet:{root}', split) == task.read(root, split) == expected
        and len(expected) >= least
    )
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


@pytest.mark.parametrize('folders', [('middle', 'high'), ('',)])
def test_race_is_the_same_however_its_rows_are_divided(tmp_path, folders):
    official.race(tmp_path / 'official', 'dev')
    rows = hub.race_rows(official.PASSAGES)
    for folder in folders:
        part = [row for row in rows if row[0].startswith(folder)]
        hub.shards(tmp_path / 'hub' / folder, 'validation', hub.RACE, part, n=2)
    equal('race', tmp_path / 'official', tmp_path / 'hub', 'dev')


def test_official_files_go_before_parquet_files_of_the_same_directory(tmp_path):
    official.tsv(tmp_path / 'train.tsv', [('gj04', '1', '', 'From the table.')])
    hub.glue(tmp_path, 'cola', 'train', [('From Parquet.', 1)])
    assert tasks.get('cola').read(tmp_path, 'train')[0].texts == ('From the table.',)
    assert tasks.get('cola').read(f'parquet:{tmp_path}', 'train')[0].texts == ('From Parquet.',)
