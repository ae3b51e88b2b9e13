"""Who may import whom, read from the source: every import statement, at whatever depth."""

import ast
import re

import pytest

from tiny import ROOT, python

# Each may import those before it.
LAYERS = (
    'version',
    'errors',
    'startup',
    'storage',
    'rules',
    'configs',
    'user_code',
    'metrics',
    'data',
    'parallel',
    'cli',
    'models',
    'training',
    'runs',
    'evaluation',
    'weights',
)
# The programs and api are above all layers, also a program whose file is in a folder: nothing
# imports them.
PROGRAMS = (
    'prepare',
    'pretraining',
    'finetuning',
    'predict',
    'zero_shot',
    'perplexity',
    'generate',
    'verify',
    'ablation.ablate',
    'lm_eval',
    'evaluation.score_predictions',
    'weights.hugging_face',
    'api',
)
# Modules that alone may import a library.
ALONE = {
    'flax': {'models.gpt', 'models.heads', 'models.kv_cache', 'models.layers', 'models.lstm'},
    'orbax': {'runs.checkpoint'},
    'jax.experimental.pallas.triton': {'models.fast.pallas_triton'},  # deprecated
    'safetensors': {'weights.export_hugging_face', 'weights.import_hugging_face'},
    'matplotlib': {'ablation.report'},
    'tensorboardX': {'runs.tracker'},
    'wandb': set(),
    'trackio': set(),  # also there, by name
    'huggingface_hub': {'data.hub'},
    'lm_eval': {'evaluation.lm_harness', 'lm_eval'},
    'absl': {*PROGRAMS, 'cli', 'cli.config_file', 'cli.own_data'},
    'ml_collections': {
        'ablation.ablate',
        'ablation.certificate',
        'ablation.ideas',
        'pretraining',
        'finetuning',
        'zero_shot',
        'verify',
        'api',
        'cli.config_file',
        'cli.config_help',
    },
    'torch': set(),
    'transformers': set(),
    'sklearn': set(),
    'pytest': set(),
    'experiments': set(),
    'configs': set(),
    'tests': set(),
}


def imported(file):
    """The dotted names that a file imports; `from a import b` gives a.b."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return found


def modules(folder):
    """{module relative to the folder: the dotted names that it imports}."""
    found = {}
    for file in sorted((ROOT / folder).rglob('*.py')):
        parts = file.relative_to(ROOT / folder).with_suffix('').parts
        found['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = imported(file)
    return found


OURS = modules('gpt1_jax')


def under(package, names):
    return {name for name in names if f'{name}.'.startswith(f'{package}.')}


def layer(name):
    """The layer or program that a dotted name belongs to; 'gpt1_jax' for the package itself."""
    parts = name.removeprefix('gpt1_jax.').split('.')
    if '.'.join(parts[:2]) in PROGRAMS:
        return '.'.join(parts[:2])
    return 'gpt1_jax' if parts[0].startswith('__') else parts[0]


def importers(package):
    """The modules outside a package that import it or a part of it."""
    return {
        module
        for module, names in OURS.items()
        if under(f'gpt1_jax.{package}', names) and not under(package, {module})
    }


@pytest.mark.parametrize('module', [name for name in OURS if layer(name) in LAYERS])
def test_a_layer_imports_only_the_layers_below_it(module):
    below = LAYERS[: LAYERS.index(layer(module)) + 1]
    above = {layer(name) for name in under('gpt1_jax', OURS[module])} - {*below}
    assert not above


def test_no_module_imports_a_program():
    found = {(module, name) for name in PROGRAMS for module in importers(name)}
    # The package for type checkers only; verify, a search and the Python interface train, and a
    # certificate's trials are scored on unseen text
    assert found == {
        ('', 'api'),
        ('ablation.ablate', 'pretraining'),
        ('ablation.certificate', 'perplexity'),
        ('ablation.ideas', 'pretraining'),
        ('ablation.trials', 'pretraining'),
        ('verify', 'pretraining'),
        ('api', 'pretraining'),
        ('api', 'finetuning'),
    }


def test_only_programs_have_a_command_line():
    assert importers('cli') == {*PROGRAMS, '__main__', 'ablation.certificate', 'ablation.ideas'}


@pytest.mark.parametrize('library', ALONE)
def test_a_library_is_imported_in_one_place(library):
    assert {module for module, names in OURS.items() if under(library, names)} <= ALONE[library]


@pytest.mark.parametrize(
    'folder, importers, forbidden',
    [
        (
            'gpt1_jax',
            r'(errors|storage|rules|metrics|data|prepare)\b',
            'jax flax optax orbax tensorflow torch',
        ),
        # There they are chosen
        ('gpt1_jax', r'(?!models\.build$)', 'gpt1_jax.models.lstm gpt1_jax.models.gpt.GPT'),
        (
            'experiments',
            r'(?!ideas\.)',  # no training code, but examples of code of the user's
            'flax optax orbax gpt1_jax.training.loop gpt1_jax.training.losses '
            'gpt1_jax.training.optimizer gpt1_jax.training.optimizer_config '
            'gpt1_jax.runs.checkpoint',
        ),
    ],
    ids=['numpy', 'models', 'experiments'],
)
def test_modules_do_not_import(folder, importers, forbidden):
    found = {
        module: names for module, names in modules(folder).items() if re.match(importers, module)
    }
    assert found and not [
        (module, package)
        for module, names in found.items()
        for package in forbidden.split()
        if under(package, names)
    ]


@pytest.mark.parametrize(
    'module, absent',
    [
        ('gpt1_jax', ('jax', 'numpy')),
        ('gpt1_jax.prepare', ('jax', 'flax', 'optax', 'tensorflow', 'pyarrow')),
        (
            'gpt1_jax.data.tasks',
            ('jax', 'tensorflow', 'tensorflow_datasets', 'pyarrow', 'huggingface_hub'),
        ),
        ('gpt1_jax.data.encode', ('jax', 'spacy', 'ftfy', 'etils', 'fsspec', 'gcsfs')),
    ],
)
def test_importing_a_module_loads_nothing_heavy(module, absent):
    code = f'import sys, {module}\nprint(*[name for name in {absent} if name in sys.modules])'
    assert python('-c', code, check=0).stdout.strip() == ''


def test_a_config_imports_ml_collections_rules_and_other_configs_alone():
    for module, names in modules('configs').items():
        others = names - under('gpt1_jax.configs', names) - under('gpt1_jax.rules', names)
        assert {name.split('.')[0] for name in others} <= {'ml_collections'}, module


def test_the_configs_are_a_package_of_ours_wherever_the_clone_is(tmp_path):
    code = 'from gpt1_jax.configs import quickstart; print(quickstart.__file__)'
    done = python('-c', code, cwd=tmp_path, env={'PYTHONPATH': str(ROOT)}, check=0)
    assert done.stdout.strip() == str(ROOT / 'configs' / 'quickstart.py')
