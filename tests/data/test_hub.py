"""Data sets by their names on the Hugging Face Hub, downloaded from a local server that speaks its routes."""
import importlib.util

import pytest

import hub_parquet
import hub_server
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
def server(glue, tmp_path, monkeypatch):
    with hub_server.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        found.add('nyu-mll/glue', glue, 'dataset')
        yield found


def complaint(name, split='train'):
    return refusal(tasks.get('cola').read, name, split)


def test_a_set_by_name_is_that_of_its_files_and_only_the_split_is_downloaded(server, glue):
    cola = tasks.get('cola')
    assert cola.read('hf:nyu-mll/glue', 'train') == cola.read(glue, 'train')
    files = cola.files('hf:nyu-mll/glue', 'train')
    assert [file.rpartition('/')[2] for file in files] == [f'train-0000{i}-of-00002.parquet' for i in (0, 1)]
    resolved = {path for _, path in server.requests if '/resolve/' in path}
    assert len(resolved) == 2 and all('/cola/train-' in path for path in resolved)


def test_a_revision_is_what_it_was(server, glue):
    repository = server.repositories['dataset', 'nyu-mll/glue']
    first = repository.branches['main']
    hub_parquet.glue(glue, 'cola', 'train', ROWS[:5], n=2)
    repository.commit('main', {f'cola/{file.name}': file.read_bytes() for file in (glue / 'cola').glob('train-*')})
    assert len(tasks.get('cola').read('hf:nyu-mll/glue', 'train')) == 5
    assert len(tasks.get('cola').read(f'hf:nyu-mll/glue@{first}', 'train')) == 21
    assert complaint('hf:nyu-mll/glue@v9').endswith('/glue@v9: the Hub answers HTTP 404 (Invalid rev id: v9 refused)')


def test_what_was_downloaded_is_read_without_a_network(glue, tmp_path, monkeypatch):
    with hub_server.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        found.add('nyu-mll/glue', glue, 'dataset')
        expected = tasks.get('cola').read('hf:nyu-mll/glue', 'train')
    assert tasks.get('cola').read('hf:nyu-mll/glue', 'train') == expected
    for name, split in (('hf:nyu-mll/glue', 'dev'), ('hf:nyu-mll/other', 'train')):
        assert complaint(name, split).startswith(f'{name}: the Hub cannot be reached (')
        assert complaint(name, split).endswith('), and not all of it was downloaded before')


def test_a_wrong_private_or_gated_name_is_one_line(server, glue, monkeypatch):
    server.add('me/mine', glue, 'dataset', private=True)
    server.add('me/gated', glue, 'dataset', gated=True)
    for name, split, cause in (
            ('hf:nyu-mll/gleu', 'train', 'the Hub has no such repository, or it is private'),
            ('hf:me/mine', 'train', 'the Hub has no such repository, or it is private'),
            ('hf:me/gated', 'train', 'the Hub answers HTTP 401 (Access is restricted.'),
            ('hf:nyu-mll/glue', 'glue_test', 'no Parquet file of cola test, such as cola/test-00000-of-00001.parquet'),
            ('hf:a/b/c', 'train', 'must be hf:USER/NAME or hf:USER/NAME@REV'), ('hf:../x', 'train', 'Repo id must')):
        assert complaint(name, split).startswith(f'{name}: {cause}')
    monkeypatch.setenv('HF_TOKEN', hub_server.TOKEN)
    assert tasks.get('cola').read('hf:me/mine', 'train') == tasks.get('cola').read('hf:me/gated', 'train')
    monkeypatch.setenv('HF_TOKEN', 'hf_of_somebody')
    assert 'HTTP 401' in complaint('hf:nyu-mll/glue', 'dev')


def test_without_the_extra_it_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None if name == 'huggingface_hub' else real(name))
    assert complaint('hf:nyu-mll/glue') == (
        "hf:nyu-mll/glue: names on the Hugging Face Hub need the extra hub: pip install 'gpt1_jax[hub]'")
