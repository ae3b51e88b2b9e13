"""Data sets by their names on the Hugging Face Hub, with the library's download patched."""

import importlib.util

import pytest

import fake_hub
import hub_parquet
import official
from gpt1_jax.data import tasks
from refusal import refusal

pytest.importorskip('huggingface_hub')
ROWS = [(p[0], int(p[4])) for p in official.PAIRS]


@pytest.fixture
def glue(tmp_path):
    for split in ('train', 'validation'):
        hub_parquet.glue(tmp_path / 'glue', 'cola', split, ROWS, n=2)
    hub_parquet.glue(tmp_path / 'glue', 'sst2', 'train', ROWS)
    (tmp_path / 'glue' / 'README.md').write_text('---\n---\n')
    return tmp_path / 'glue'


@pytest.fixture
def hub(glue, tmp_path, monkeypatch):
    with fake_hub.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        found.add('nyu-mll/glue', glue, 'dataset')
        yield found


def complaint(name, split='train'):
    return refusal(tasks.get('cola').read, name, split)


def test_a_set_by_name_is_that_of_its_files_and_only_the_split_is_downloaded(hub, glue):
    cola = tasks.get('cola')
    assert cola.read('hf:nyu-mll/glue', 'train') == cola.read(glue, 'train')
    expected = [f'cola/train-0000{i}-of-00002.parquet' for i in (0, 1)]
    files = cola.files('hf:nyu-mll/glue', 'train')
    assert hub.asked == expected == ['/'.join(file.split('/')[-2:]) for file in files]


def test_a_revision_is_read_by_its_name(hub, glue):
    hub_parquet.glue(glue, 'cola', 'train', ROWS[:5], n=2)
    hub.add('nyu-mll/glue', glue, 'dataset', revision='v2')
    assert len(tasks.get('cola').read('hf:nyu-mll/glue@v2', 'train')) == 5
    assert len(tasks.get('cola').read('hf:nyu-mll/glue', 'train')) == 21


@pytest.mark.parametrize(
    'name, split, cause',
    [
        ('hf:nyu-mll/gleu', 'train', 'FileNotFoundError: 404 Client Error. Repository nyu-mll/gle'),
        ('hf:nyu-mll/glue@v9', 'train', 'FileNotFoundError: 404 Client Error. Repo'),
        ('hf:nyu-mll/glue', 'glue_test', 'no Parquet file of cola test, such as cola/test-00000-'),
        ('hf:a/b/c', 'train', 'must be hf:USER/NAME or hf:USER/NAME@REV'),
    ],
)
def test_what_the_library_says_of_a_name_is_one_line(hub, name, split, cause):
    assert complaint(name, split).startswith(f'{name}: {cause}')


def test_without_a_network_the_library_is_quoted(tmp_path, monkeypatch):
    with fake_hub.in_place_of_the_hub(monkeypatch, tmp_path / 'cache'):
        pass
    assert complaint('hf:nyu-mll/glue') == 'hf:nyu-mll/glue: ConnectionError: no route to host'


def test_without_the_extra_it_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == 'huggingface_hub' else real(name)
    )
    assert complaint('hf:nyu-mll/glue') == (
        'hf:nyu-mll/glue: names on the Hugging Face Hub need the extra hub: pip install '
        "'gpt1_jax[hub]'"
    )
