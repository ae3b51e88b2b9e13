"""Who may import whom (design.md), read from the source: every import statement, at whatever depth."""
import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENTRY_POINTS = {f'gpt1_jax.{name}' for name in (
    'prepare', 'pretrain', 'finetune', 'zero_shot', 'perplexity', 'generate', 'predict', 'lm_eval',
    'weights.openai', 'weights.hugging_face')}


def imports(file, package):
    """The dotted names that a file imports; `from a import b` gives a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join(package.split('.')[:len(package.split('.')) + 1 - node.level]) if node.level else ''
            module = '.'.join(filter(None, (base, node.module)))
            found |= {module} | {f'{module}.{alias.name}' for alias in node.names}
    return found


def modules(folder):
    """{dotted name: what it imports} of every Python file under a folder of the clone."""
    found = {}
    for file in sorted((ROOT / folder).rglob('*.py')):
        parts = file.relative_to(ROOT).with_suffix('').parts
        package = '.'.join(parts[:-1])
        name = package if parts[-1] == '__init__' else '.'.join(parts)
        found[name] = imports(file, package)
    return found


OURS = modules('gpt1_jax')
DATA = sorted(name for name in OURS if f'{name}.'.startswith('gpt1_jax.data.'))


def importers(*packages):
    """The modules of ours that import any of the packages."""
    return {name for name, found in OURS.items() if any(under(package, found) for package in packages)}


def under(package, found):
    return {name for name in found if f'{name}.'.startswith(f'{package}.')}


def test_the_source_is_read():
    assert {'gpt1_jax', 'gpt1_jax.model', 'gpt1_jax.data', 'gpt1_jax.data.text', 'gpt1_jax.training'} <= OURS.keys()
    assert {'flax.linen', 'jax', 'gpt1_jax.dropout', 'gpt1_jax.attention.self_attention'} <= OURS['gpt1_jax.model']


def test_the_models_are_the_only_importers_of_flax():
    assert importers('flax') <= {'gpt1_jax.model', 'gpt1_jax.heads', 'gpt1_jax.lstm'}
    assert 'gpt1_jax.model' in importers('flax')


def test_backbone_alone_chooses_between_the_models():
    assert importers('gpt1_jax.lstm') == {'gpt1_jax.backbone'}
    assert importers('gpt1_jax.model.GPT') == {'gpt1_jax.backbone'}


def test_checkpoint_is_the_only_importer_of_orbax():
    assert importers('orbax') == {'gpt1_jax.checkpoint'}


def test_harness_is_the_only_importer_of_lm_eval():
    assert importers('lm_eval') == {'gpt1_jax.harness', 'gpt1_jax.lm_eval'}
    assert importers('gpt1_jax.harness') == {'gpt1_jax.lm_eval'}


def test_hugging_face_is_the_only_importer_of_safetensors():
    assert importers('safetensors') == {'gpt1_jax.weights.hugging_face'}


def test_entry_points_alone_read_configs_and_flags():
    assert importers('ml_collections') <= ENTRY_POINTS
    assert importers('absl') <= ENTRY_POINTS | {'gpt1_jax.cli'}  # cli is their shared command line


def test_no_module_but_an_entry_point_or_cli_knows_an_entry_point():
    assert importers(*ENTRY_POINTS) <= ENTRY_POINTS


@pytest.mark.parametrize('name', [
    'training', 'preemption', 'checkpoint', 'provenance', 'resume', 'file_hashes', 'transfer', 'sharding', 'estimate',
    'optimizer', 'dropout', 'attention', 'attention_maps', 'residual', 'gelu', 'products', 'paths', 'losses', 'hashing',
    'kernels.devices', 'kernels.flash_attention', 'kernels.residual_norm'])
def test_a_module_of_arrays_knows_no_model_and_no_data(name):
    found = OURS[f'gpt1_jax.{name}']
    for forbidden in ('model', 'heads', 'lstm', 'backbone', 'data', 'workdir', 'cli', 'results', 'metrics'):
        assert not under(f'gpt1_jax.{forbidden}', found), forbidden


@pytest.mark.parametrize('name', [f'gpt1_jax.{name}' for name in ('model', 'heads', 'lstm', 'backbone')])
def test_a_model_knows_no_config_file_and_no_data(name):
    allowed = {'dropout', 'attention', 'residual', 'gelu', 'products', 'paths', 'errors', 'sharding', 'model'}
    allowed |= {'lstm'} if name == 'gpt1_jax.backbone' else set()
    ours = {found.split('.')[1] for found in under('gpt1_jax', OURS[name]) if '.' in found}
    assert ours <= allowed
    assert not under('ml_collections', OURS[name])


@pytest.mark.parametrize('name', DATA)
def test_data_is_numpy_in_and_numpy_out(name):
    for forbidden in ('jax', 'flax', 'optax', 'orbax', 'absl', 'ml_collections', 'tensorflow', 'torch', 'transformers'):
        assert not under(forbidden, OURS[name]), forbidden
    outside = {found for found in under('gpt1_jax', OURS[name]) - {'gpt1_jax'}
               if not any(under(f'gpt1_jax.{own}', {found}) for own in ('data', 'errors', 'storage'))}
    assert not outside


def test_importing_all_of_data_imports_no_jax():
    code = f'import importlib, sys\nfor name in {DATA}: importlib.import_module(name)\n' \
           "print(*[m for m in ('jax', 'jaxlib', 'flax', 'optax', 'tensorflow', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ''


@pytest.mark.parametrize('name', ['metrics', 'events', 'results'])
def test_metrics_and_results_know_errors_and_storage_alone_of_ours(name):
    found = under('gpt1_jax', OURS[f'gpt1_jax.{name}'])
    known = under('gpt1_jax.errors', found) | under('gpt1_jax.storage', found)
    assert found - known <= {'gpt1_jax', 'gpt1_jax.__version__'} | ({'gpt1_jax.events'} if name == 'results' else set())


def test_events_are_tensorboardx_alone_and_that_is_loaded_when_asked_for():
    assert importers('tensorboardX') == {'gpt1_jax.events'}
    code = "import sys, gpt1_jax.results\nprint('tensorboardX' in sys.modules)"
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == 'False', done.stderr


def test_storage_knows_errors_alone_and_needs_no_client_until_it_is_asked():
    found = OURS['gpt1_jax.storage']
    assert under('gpt1_jax', found) <= {'gpt1_jax.errors', *under('gpt1_jax.errors', found)}
    code = "import sys, gpt1_jax.storage\nprint(*[m for m in ('etils', 'fsspec', 'gcsfs') if m in sys.modules])"
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.strip() == '', done.stderr


def test_metrics_are_numpy():
    found = {name.split('.')[0] for name in OURS['gpt1_jax.metrics']}
    assert found <= {'gpt1_jax', 'numpy', *sys.stdlib_module_names}


def test_pictures_are_drawn_in_one_place_and_from_plain_values():
    assert importers('matplotlib') == {'gpt1_jax.pictures'}
    assert not under('gpt1_jax', OURS['gpt1_jax.pictures']) and not under('jax', OURS['gpt1_jax.pictures'])


def test_the_library_imports_neither_experiments_nor_configs_nor_tests():
    assert not importers('experiments', 'configs', 'tests', 'pytest', 'torch', 'transformers', 'sklearn')


def test_the_package_itself_is_lazy():  # its `load` names the api in a string, see test_api
    assert OURS['gpt1_jax'] <= {'importlib', 'typing'}


@pytest.mark.parametrize('name', sorted(modules('configs')) or ['none'])
def test_a_config_imports_ml_collections_and_other_configs_alone(name):
    assert name != 'none'
    roots = {found.split('.')[0] for found in modules('configs')[name]}
    assert roots <= {'ml_collections', 'configs'}


@pytest.mark.parametrize('name', sorted(modules('experiments')) or ['none'])
def test_an_experiment_holds_no_training_code(name):
    assert name != 'none'
    found = modules('experiments')[name]
    for forbidden in ('flax', 'optax', 'orbax', 'gpt1_jax.training', 'gpt1_jax.optimizer', 'gpt1_jax.losses',
                      'gpt1_jax.checkpoint'):
        assert not under(forbidden, found), forbidden
