"""Every labelled set gives the same Examples from its official files, from TFDS and from the Hub's Parquet files."""
import dataclasses

import pytest

import sets
from gpt1_jax.data import tasks
from gpt1_jax.errors import UserError


@pytest.mark.full
@pytest.mark.parametrize('name, source', sets.MATRIX)
def test_every_set_is_the_same_from_every_source(tmp_path, monkeypatch, capsys, name, source):
    if source == 'tfds':
        pytest.importorskip('tensorflow_datasets')
        from tensorflow_datasets.core.features.feature import TensorInfo
        monkeypatch.setattr(TensorInfo, 'dtype', property(lambda self: self.np_dtype))  # to write RACE's lists of lists
    directory = sets.write(name, source, tmp_path / 'set')
    task = tasks.get(name)
    for split, expected in sets.expected(name).items():
        if (name, source, split) == ('mrpc', 'tfds', 'test'):
            with pytest.raises(UserError, match='TFDS has no labels of msr_paraphrase_test.txt'):
                task.read(directory, split)
            continue
        if (name, source, split) == ('mrpc', 'parquet', 'test'):
            expected = [dataclasses.replace(e, label=sets.label_of(name, pair)[1]) for e, pair in zip(
                sets.expected(name)['glue_test'], sets.rows_of(name)['glue_test'])]
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
