"""Models by their names on the Hugging Face Hub, both ways, with a local server that speaks its routes."""
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
import safetensors.numpy

import exports
import gpt1_jax
import hub_server
from exports import run_main
from gpt1_jax.data import hub
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import processes
from gpt1_jax.runs import workdir
from gpt1_jax.weights import from_hub, hugging_face, import_hugging_face, push
from refusal import refusal
from tiny import cola, command

pytestmark = pytest.mark.full

pytest.importorskip('huggingface_hub')
NAME = 'openai-community/openai-gpt'


@pytest.fixture
def server(tmp_path, monkeypatch):
    with hub_server.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        yield found


@pytest.fixture
def repository(server, theirs):
    """The files of openai-community/openai-gpt, by their names: one more than is read is a pickle."""
    files = {path.name: path.read_bytes() for path in theirs.iterdir() if path.is_file()}
    assert {'config.json', 'model.safetensors', 'tokenizer.json', 'vocab.json', 'merges.txt'} <= files.keys()
    files |= {'pytorch_model.bin': b'\x80\x02.', 'tf_model.h5': b'', 'rust_model.ot': b''}
    return server.add(NAME, files)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    return exports.pretrained(tmp_path_factory.mktemp('trained') / 'run', 3, first=1)


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv('HF_TOKEN', hub_server.TOKEN)


def same_params(one, other):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params),
                                                    strict=True))


def test_a_model_is_loaded_by_name_without_its_pickles(server, repository, released_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = gpt1_jax.load(NAME)
    assert same_params(loaded, gpt1_jax.load(released_run.path)) and loaded.step == 0
    assert loaded.tokenizer.fingerprint == released_run.tokenizer().fingerprint
    commit = repository.branches['main']
    assert loaded.config['imported']['from'] == f'Hugging Face, {NAME} at {commit}'
    asked = {path.rpartition('/')[2] for _, path in server.requests if '/resolve/' in path}
    assert asked == {'config.json', 'model.safetensors', 'tokenizer.json', 'vocab.json', 'merges.txt'}
    assert loaded.path == str(tmp_path / 'cache' / 'gpt1_jax' / 'hub' / 'openai-community--openai-gpt' / commit)
    assert list(pathlib.Path(loaded.path).parent.iterdir()) == [pathlib.Path(loaded.path)]  # nothing half-made


def test_it_is_imported_once_and_then_needs_no_network(theirs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with hub_server.in_place_of_the_hub(monkeypatch, tmp_path / 'cache') as found:
        found.add(NAME, theirs)
        first = gpt1_jax.load(f'hf:{NAME}')
        local = gpt1_jax.load(theirs)  # a directory in Hugging Face's layout
    assert same_params(first, local) and local.config['imported']['from'] == 'Hugging Face'
    monkeypatch.setattr(import_hugging_face, 'convert', None)
    assert gpt1_jax.load(f'hf:{NAME}').path == first.path and gpt1_jax.load('theirs').path == local.path
    assert refusal(gpt1_jax.load, 'me/other').startswith('hf:me/other: the Hub cannot be reached (')


def test_a_directory_whose_config_has_changed_is_imported_again(theirs, tmp_path, monkeypatch):
    monkeypatch.setenv('GPT1_JAX_CACHE', str(tmp_path / 'cache'))
    shutil.copytree(theirs, tmp_path / 'mine')
    file = tmp_path / 'mine' / 'config.json'
    for n_head in (4, 2):
        file.write_text(json.dumps(json.loads(file.read_text()) | {'n_head': n_head}))
        assert gpt1_jax.load(tmp_path / 'mine').config['model']['n_head'] == n_head


@pytest.mark.parametrize('cache', ['cache', 'link', '../cache'])
def test_what_is_evaluated_of_an_imported_model_is_written_here(theirs, tmp_path, monkeypatch, cache):
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


def test_the_importing_program_takes_the_vocabulary_of_a_name(tmp_path, monkeypatch, capsys):
    file = pathlib.Path(from_hub.__file__).parent / 'novels' / 'model.safetensors'
    run_main(monkeypatch, source=str(file), out=str(tmp_path / 'run'), tokenizer='novels', n_head=4)
    assert workdir.load(tmp_path / 'run').tokenizer().fingerprint == gpt1_jax.load('novels').tokenizer.fingerprint


def test_a_path_goes_before_a_name(server, repository, released_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'runs').mkdir()
    assert refusal(gpt1_jax.load, 'runs/gpt2') == 'runs/gpt2: not a run directory (no config.json in it)'
    (tmp_path / 'openai-community').mkdir()
    (tmp_path / NAME).symlink_to(released_run.path)
    assert gpt1_jax.load(NAME).path == NAME and server.requests == []


def test_a_directory_that_is_not_there_is_named_beside_what_the_hub_says(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refusal(gpt1_jax.load, 'runs/none')
    assert said.startswith('hf:runs/none: the Hub has no such repository')
    assert said.endswith('; and there is no directory runs/none here')
    assert 'directory' not in refusal(gpt1_jax.load, 'hf:runs/none')


def test_a_repository_that_cannot_be_read_is_one_line(server, repository, monkeypatch):
    files = repository.files('main')
    server.add('me/pickle', {'config.json': files['config.json'], 'pytorch_model.bin': b'\x80\x02.'})
    server.add('me/short', files | {'model.safetensors': files['model.safetensors'][:-10]})
    server.add('me/bert', files | {'config.json': b'{"model_type": "bert"}'})
    for name, message in (
            ('me/pickle', 'has no model.safetensors (pickles such as pytorch_model.bin are never read)'),
            ('me/short', 'not a complete safetensors file'), ('me/bert', "model_type is 'bert', must be 'openai-gpt'"),
            (f'{NAME}@v9', 'the Hub answers HTTP 404 (Invalid rev id: v9 refused)')):
        assert message in refusal(from_hub.local_run, f'hf:{name}')
    monkeypatch.setattr(processes, 'joined', lambda: True)
    assert refusal(from_hub.local_run, f'hf:{NAME}').endswith(
        f'gpt1 hugging_face --source=hf:{NAME} --out=RUN')


def test_the_programs_take_a_name(server, repository, tmp_path, monkeypatch, capsys):
    cola(tmp_path / 'CoLA')
    found = command('finetune', '--config=configs/finetune.py:cola', f'--config.init_from=hf:{NAME}',
                    f'--config.data.dir={tmp_path / "CoLA"}', '--inspect', check=0).stdout
    assert 'label' in found
    done = command('generate', '--init_from=hf:me/nothing', '--prompt=the')
    assert done.returncode == 1 and done.stderr.startswith('error: hf:me/nothing: the Hub has no such repository')
    run_main(monkeypatch, source=f'hf:{NAME}', out=str(tmp_path / 'run'))
    assert 'parameters, vocabulary of' in capsys.readouterr().out
    assert NAME in workdir.load(tmp_path / 'run').config['imported']['from']


def test_an_export_is_pushed_with_its_card_and_every_step_as_a_branch(
        server, token, trained, tmp_path, monkeypatch, capsys):
    push.push(trained.path, 'me/gpt1', license='mit', every_step=True, private=True)
    lines = capsys.readouterr().out.splitlines()
    made = server.repositories['model', 'me/gpt1']
    assert made.private and list(made.branches) == ['main', 'step-1', 'step-2', 'step-3']
    assert [line.split(': ')[1].split(',')[0] for line in lines] == ['step 1', 'step 2', 'step 3', 'step 3']
    for branch, step in (('main', 3), ('step-1', 1), ('step-2', 2), ('step-3', 3)):
        hugging_face.export(trained.path, tmp_path / branch, step, 'mit')
        expected = {path.relative_to(tmp_path / branch).as_posix(): path.read_bytes()
                    for path in (tmp_path / branch).rglob('*') if path.is_file()}
        assert made.files(branch) == expected and 'gpt1_jax/tokenizer/tokenizer.model' in expected
    assert made.messages[made.branches['step-2']] == 'Step 2 of a run of gpt1_jax'
    weights = [safetensors.numpy.load(made.files(branch)['model.safetensors']) for branch in ('step-1', 'main')]
    assert not np.array_equal(*(array['transformer.tokens_embed.weight'] for array in weights))
    monkeypatch.chdir(tmp_path)
    assert same_params(gpt1_jax.load('hf:me/gpt1@step-1'), gpt1_jax.load(trained.path, step=1))
    before = dict(made.branches)
    push.push(trained.path, 'me/gpt1', license='mit', every_step=True)
    assert made.branches == before  # there already: no new commit


def test_a_step_kept_for_its_words_has_the_branch_that_babylm_asks_for():
    config = {'checkpoint': {'keep_steps': (41, 50), 'words_at': {'41': 10 ** 6, '820': 2 * 10 ** 7}}}
    assert [push.branch(step, config) for step in (41, 50, 820)] == ['chck_1M', 'step-50', 'chck_20M']
    assert push.branch(0, {}) == 'step-0'  # imported weights


def test_the_exporting_program_pushes(server, token, trained, monkeypatch, capsys):
    run_main(monkeypatch, export=str(trained.path), push='me/gpt1', step=2)
    out = capsys.readouterr().out
    assert '/me/gpt1/commit/' in out and ': step 2, config.json' in out
    for wrong, message in (
            ({'push': 'me/gpt1@v1'}, 'me/gpt1@v1: must be USER/NAME'), ({'push': 'gpt1'}, 'gpt1: must be USER/NAME'),
            ({'push_steps': True, 'out': 'x'}, '--push_steps and --private need --push=USER/NAME'),
            ({}, 'give --out=DIR, the directory to create'),
            ({'source': 'x'}, 'give either --export=RUN or --source=DIR_OR_FILE')):
        assert refusal(run_main, monkeypatch, export=str(trained.path), **wrong) == message
    for name, value in {'push': 'me/gpt1', 'step': 2, 'license': 'mit', 'dtype': 'bfloat16'}.items():
        assert refusal(run_main, monkeypatch, source='x', **{name: value}) == f'--{name} needs --export'
    assert refusal(run_main, monkeypatch, export=str(trained.path), n_head=4) == '--n_head needs --source'


def test_a_push_that_is_refused_is_one_line_before_anything_is_exported_and_makes_no_repository(
        server, trained, tmp_path, monkeypatch):
    narrow = exports.edited(trained, tmp_path / 'run', lambda config: config['model'].update(n_inner=16))
    monkeypatch.setattr(push, 'export', None)
    for token, run, name, message in (
            (None, trained.path, 'me/gpt1', 'me/gpt1: the Hub answers HTTP 401 (Invalid username or password.'),
            ('hf_of_somebody', trained.path, 'me/gpt1', 'me/gpt1: the Hub answers HTTP 401 (Invalid credentials in '),
            (hub_server.TOKEN, trained.path, 'you/gpt1', "you/gpt1: the Hub answers HTTP 403 (You don't have the"),
            (hub_server.TOKEN, narrow, 'me/narrow', 'n_inner is 16, OpenAIGPT always has 64')):
        if token:
            monkeypatch.setenv('HF_TOKEN', token)
        said = refusal(push.push, run, name)
        assert message in said and said.endswith(('HF_TOKEN to a token with the right to do this', 'always has 64'))
    assert server.repositories == {}


@pytest.mark.quick
def test_a_licence_that_the_hub_does_not_know_is_one_line(server, token, trained):
    assert refusal(push.push, trained.path, 'me/gpt1', license='mine') == (
        'me/gpt1: Invalid metadata in README.md. - "license" must be one of [apache-2.0, mit, ...]')


def test_a_network_that_is_lost_in_an_upload_is_one_line():
    httpx = pytest.importorskip('httpx')
    line = r'^me/gpt1: the Hub cannot be reached \(ConnectError: reset\)$'
    with pytest.raises(UserError, match=line), hub.one_line_errors('me/gpt1'):
        raise RuntimeError('Error while uploading') from httpx.ConnectError('reset')
    with pytest.raises(RuntimeError, match='a bug'), hub.one_line_errors('me/gpt1'):
        raise RuntimeError('a bug')
