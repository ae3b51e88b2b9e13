"""TFDS as the second source: sets that TFDS lacks, and missing or damaged files. test_sets.py tests
that the Examples are the same."""

import json
import sys

import pytest

import official
from gpt1_jax.data import tasks
from gpt1_jax.data.readers import tfds as tfds_reader
from gpt1_jax.data.tasks import example
from gpt1_jax.errors import fail
from prepared import glue
from refusal import refusal

pytestmark = pytest.mark.full

tfds = pytest.importorskip('tensorflow_datasets')
PAIRS = official.PAIRS


@pytest.fixture
def rte(tmp_path):
    """A prepared directory with RTE's validation split alone."""
    path = official.tsv(
        tmp_path / 'dev.tsv',
        [(i, *p[:2], 'entailment') for i, p in enumerate(PAIRS)],
        ('index', 'sentence1', 'sentence2', 'label'),
    )
    glue(tmp_path, 'rte', {'validation': (path, 'dev')})
    return tmp_path


def complaint(directory, split='dev', on_bad=fail, name='rte'):
    return refusal(tasks.get(name).read, directory, split, on_bad)


def test_a_set_that_is_not_prepared_says_how_to(tmp_path, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    assert complaint('tfds:').startswith(
        f'tfds:: glue/rte is not in {tmp_path}, to prepare it: pip install '
    )


def test_the_newest_version_in_the_default_directory_is_read_and_an_absent_split_is_named(
    rte, monkeypatch
):
    monkeypatch.setenv('TFDS_DATA_DIR', str(rte))
    task = tasks.get('rte')
    place = rte / 'glue' / 'rte'
    assert task.read('tfds:', 'dev') == task.read(rte, 'dev')
    file = place / '2.0.0' / 'glue-validation.array_record-00000-of-00001'
    assert task.files('tfds:', 'dev') == [str(file)]
    missing = f"{place}/2.0.0: no split 'train' (there are validation)"
    assert complaint(f'tfds:{rte}', 'train') == missing
    (place / '1.0.1').mkdir()
    (place / '1.0.1' / 'dataset_info.json').write_text('broken')
    assert len(task.read(f'tfds:{rte}', 'dev')) == 21
    (place / '1.0.1').rename(place / '10.0.0')
    assert complaint(f'tfds:{rte}').startswith(f'{place}/10.0.0: TFDS cannot open it (')


def test_records_that_are_bad_or_cut_short_are_named(rte, monkeypatch):
    # Text as bytes or not
    good = {'idx': 4, 'sentence1': 'A.', 'sentence2': 'B\u00e9.'.encode(), 'label': 1}
    records = [good, good | {'idx': 2, 'label': -1}, good | {'idx': 3, 'sentence1': b' '}]
    real = tfds.builder_from_directory(rte / 'glue' / 'rte' / '2.0.0')
    monkeypatch.setattr(real, 'as_data_source', lambda split: records)
    monkeypatch.setattr(tfds, 'builder_from_directory', lambda path: real)
    where = f'{rte}/glue/rte/2.0.0: validation record'
    skipped = []
    (found,) = tasks.get('rte').read(f'tfds:{rte}', 'dev', skipped.append)
    assert (found.id, found.texts, found.label) == ('4', ('A.', 'Bé.'), 1)
    assert skipped == [f'{where} 1: no label', f'{where} 2: sentence1 is empty']
    assert complaint(f'tfds:{rte}') == skipped[0]
    example._kept.cache_clear()
    records[1:] = [good | {'idx': 1, 'sentence2': None}]
    for on_bad in (fail, [].append):
        said = complaint(f'tfds:{rte}', on_bad=on_bad)
        assert said.startswith(f'{where} 1: a value is missing, as in a truncated')


def test_a_file_that_was_cut_short_is_named(rte):
    (path,) = tfds_reader.files(str(rte), 'glue/rte', 'validation')
    with open(path, 'r+b') as file:
        file.truncate(100)
    assert complaint(f'tfds:{rte}').startswith(f'{rte}/glue/rte/2.0.0: ')


@pytest.mark.parametrize('key', ['pythonClassName', 'python_class_name', 'type'])
def test_a_class_outside_tfds_is_refused_before_its_module_is_imported(rte, key):
    """At any depth of features.json; TFDS imports the module of each class that it names."""
    file = rte / 'glue' / 'rte' / '2.0.0' / 'features.json'
    content = json.loads(file.read_text())
    content['featuresDict']['features']['sentence1']['sequence'] = [{'feature': {key: 'this.Evil'}}]
    file.write_text(json.dumps(content))
    assert f"{file}: names the class 'this.Evil', code outside TFDS" in complaint(f'tfds:{rte}')
    assert "'this.Evil'" in refusal(tfds_reader.files, str(rte), 'glue/rte', 'validation')
    assert 'this' not in sys.modules
