"""Models by their names on the Hugging Face Hub, with the library's download patched."""

import json
import pathlib
import shutil

import jax
import numpy as np
import pytest

import exports
import fake_hub
import gpt1_jax
from exports import run_main
from gpt1_jax import finetuning
from gpt1_jax.parallel import processes
from gpt1_jax.runs import workdir
from gpt1_jax.weights import from_hub, hugging_face, import_hugging_face
from refusal import refusal
from tiny import cola, finetune_config

pytestmark = pytest.mark.full

pytest.importorskip('huggingface_hub')
NAME = 'openai-community/openai-gpt'


@pytest.fixture
def server(tmp_path, monkeypatch):
    with fake_hub.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        yield found


@pytest.fixture
def repository(server, theirs):
    """The files of openai-community/openai-gpt, by their names: one more than is read is a
    pickle."""
    files = {path.name: path.read_bytes() for path in theirs.iterdir() if path.is_file()}
    assert {
        'config.json',
        'model.safetensors',
        'tokenizer.json',
        'vocab.json',
        'merges.txt',
    } <= files.keys()
    files |= {'pytorch_model.bin': b'\x80\x02.', 'tf_model.h5': b'', 'rust_model.ot': b''}
    server.add(NAME, files)
    return files


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    return exports.pretrained(tmp_path_factory.mktemp('trained') / 'run', 3, first=1)


def same_params(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True)
    )


def test_a_model_is_loaded_by_name_without_its_pickles(
    server, repository, released_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    loaded = gpt1_jax.load(NAME)
    assert same_params(loaded, gpt1_jax.load(released_run.path)) and loaded.step == 0
    assert loaded.tokenizer.fingerprint == released_run.tokenizer().fingerprint
    commit = server.add(NAME, repository)
    assert loaded.config['imported']['from'] == f'Hugging Face, {NAME} at {commit}'
    assert {*server.asked} == {
        'config.json',
        'model.safetensors',
        'tokenizer.json',
        'vocab.json',
        'merges.txt',
    }
    assert loaded.path == str(
        tmp_path / 'cache' / 'gpt1_jax' / 'hub' / 'openai-community--openai-gpt' / commit
    )
    # Nothing half-made
    assert list(pathlib.Path(loaded.path).parent.iterdir()) == [pathlib.Path(loaded.path)]


def test_it_is_imported_once_and_then_needs_no_network(theirs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with fake_hub.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        found.add(NAME, theirs)
        first = gpt1_jax.load(f'hf:{NAME}')
        local = gpt1_jax.load(theirs)  # a directory in Hugging Face's layout
    assert same_params(first, local) and local.config['imported']['from'] == 'Hugging Face'
    monkeypatch.setattr(import_hugging_face, 'convert', None)
    assert (
        gpt1_jax.load(f'hf:{NAME}').path == first.path
        and gpt1_jax.load('theirs').path == local.path
    )
    assert refusal(gpt1_jax.load, 'me/other').startswith('hf:me/other: ConnectionError: ')


def test_a_directory_whose_config_has_changed_is_imported_again(theirs, tmp_path, monkeypatch):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    shutil.copytree(theirs, tmp_path / 'mine')
    file = tmp_path / 'mine' / 'config.json'
    for n_head in (4, 2):
        file.write_text(json.dumps(json.loads(file.read_text()) | {'n_head': n_head}))
        assert gpt1_jax.load(tmp_path / 'mine').config['model']['n_head'] == n_head


@pytest.mark.parametrize('cache', ['cache', 'link', '../cache'])
def test_what_is_evaluated_of_an_imported_model_is_written_here(
    theirs, tmp_path, monkeypatch, cache
):
    (tmp_path / 'here').mkdir()
    (tmp_path / 'cache').mkdir()
    (tmp_path / 'link').symlink_to(tmp_path / 'cache')
    monkeypatch.chdir(tmp_path / 'here')
    monkeypatch.setenv('GPT1_JAX_CACHE', cache if cache.startswith('..') else str(tmp_path / cache))
    run = workdir.load(from_hub.local_run(theirs))
    assert run.outputs == pathlib.Path('.')


def test_weights_in_another_form_are_named_when_a_directory_is_loaded(theirs):
    for name in ('model.safetensors.index.json', 'pytorch_model.bin'):
        (theirs / 'model.safetensors').rename(theirs / name)
        assert refusal(gpt1_jax.load, theirs).startswith(f'{theirs / name}: ')
        (theirs / name).rename(theirs / 'model.safetensors')


def test_a_path_goes_before_a_name(server, repository, released_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'runs').mkdir()
    assert (
        refusal(gpt1_jax.load, 'runs/gpt2')
        == 'runs/gpt2: not a run directory (no config.json in it)'
    )
    (tmp_path / 'openai-community').mkdir()
    (tmp_path / NAME).symlink_to(released_run.path)
    assert gpt1_jax.load(NAME).path == NAME and server.asked == []


def test_a_message_names_a_model_as_the_user_did():
    run = workdir.load(from_hub.local_run('novels'))
    assert refusal(run.step, 5) == 'novels: no checkpoint of step 5; there are 0'


def test_a_name_that_is_no_directory_may_be_meant_for_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(workdir.load, from_hub.local_run('gpt2')).endswith(
        '(no config.json in it); a model of the Hugging Face Hub is hf:USER/NAME'
    )
    for absent in ('runs/gpt2', tmp_path):
        assert refusal(workdir.load, absent).endswith('(no config.json in it)')


def test_a_directory_that_is_not_there_is_named_beside_what_the_hub_says(
    server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    said = refusal(gpt1_jax.load, 'runs/none')
    assert said.startswith('hf:runs/none: FileNotFoundError: 404 Client Error.')
    assert said.endswith('; and there is no directory runs/none here')
    assert 'directory' not in refusal(gpt1_jax.load, 'hf:runs/none')


def test_a_repository_that_cannot_be_read_is_one_line(server, repository, monkeypatch):
    files = repository
    server.add(
        'me/pickle', {'config.json': files['config.json'], 'pytorch_model.bin': b'\x80\x02.'}
    )
    server.add('me/short', files | {'model.safetensors': files['model.safetensors'][:-10]})
    server.add('me/bert', files | {'config.json': b'{"model_type": "bert"}'})
    for name, message in (
        (
            'me/pickle',
            'has no model.safetensors (pickles such as pytorch_model.bin are never read)',
        ),
        ('me/short', 'not a complete safetensors file'),
        ('me/bert', "model_type is 'bert', must be 'openai-gpt'"),
        (f'{NAME}@v9', 'its revision v9 Not Found'),
    ):
        assert message in refusal(from_hub.local_run, f'hf:{name}')
    monkeypatch.setattr(processes, 'joined', lambda: True)
    assert refusal(from_hub.local_run, f'hf:{NAME}').endswith(
        f'gpt1 hugging_face --source=hf:{NAME} --out=RUN'
    )


def test_fine_tuning_and_the_import_take_a_name(server, repository, tmp_path, monkeypatch, capsys):
    config = finetune_config('cola', cola(tmp_path / 'CoLA'), init_from=f'hf:{NAME}')
    assert (
        finetuning.resolve(from_hub.located(config))
        .origin.run.config['imported']['from']
        .startswith(f'Hugging Face, {NAME} at ')
    )
    run_main(monkeypatch, source=f'hf:{NAME}', out=str(tmp_path / 'run'))
    assert 'parameters, vocabulary of' in capsys.readouterr().out
    assert NAME in workdir.load(tmp_path / 'run').config['imported']['from']


def test_a_branch_is_loaded_by_its_name(server, trained, tmp_path, monkeypatch):
    for step in (1, 3):
        hugging_face.export(trained.path, tmp_path / str(step), step)
    server.add('me/gpt1', tmp_path / '3')
    server.add('me/gpt1', tmp_path / '1', revision='chck_1M')
    monkeypatch.chdir(tmp_path)
    for name, step in (('me/gpt1@chck_1M', 1), ('me/gpt1', 3)):
        assert same_params(gpt1_jax.load(f'hf:{name}'), gpt1_jax.load(trained.path, step=step))


def test_one_direction_is_given(trained, monkeypatch):
    assert refusal(run_main, monkeypatch, export=str(trained.path), source='x') == (
        'give either --export=RUN or --source=DIR_OR_FILE'
    )
