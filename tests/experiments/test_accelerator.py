"""experiments/benchmarks/accelerator.py: other programs under limits, what fails or has no time
left in one line, and one table."""

import json
import os
import sys

import pytest

from experiments.benchmarks import accelerator
from tiny import ROOT, python

STEP = {
    'tokens_per_s': 500_000.0,
    'a_device': 250_000.0,
    'mfu': 0.3801,
    'bytes': 13 * 2**30,
    'first_seconds': 71.3,
    'step_seconds': [0.06, 0.05, 0.07],
    'losses': [10.6, 9.81],
    'refused': {'flash': 'spilt'},
}


def test_the_table_has_the_fastest_step_first_and_what_failed_after_it():
    found = {
        'device': {'name': 'X', 'count': 2, 'platform': 'gpu'},
        'step bfloat16 xla': {**STEP, 'a_device': 100_000.0, 'mfu': None, 'bytes': None},
        'step bfloat16 auto': STEP,
        'nanogpt-compiled': {**STEP, 'tokens_per_s': 200_000.0, 'a_device': 200_000.0},
        'verify': {'said': 'steps 10 to 20 replayed: 43 arrays equal to the bit'},
        'step bfloat16 plain': {'error': 'stopped after 68 s'},
    }
    _, _, *rows, _, verified, failed = accelerator.lines(found)
    cells = [[cell.strip() for cell in row.strip('|').split('|')] for row in rows]
    names = 'step bfloat16 auto', 'nanogpt-compiled', 'step bfloat16 xla'
    assert tuple(row[0] for row in cells) == names
    shown = ['500,000', '60.00', '38.0%', '1.25', '13.0', '71', '10.600 to 9.810', 'flash']
    assert cells[0][1:] == shown and cells[2][3:6] == ['n/a', '0.50', 'n/a']
    assert verified == 'verify: steps 10 to 20 replayed: 43 arrays equal to the bit'
    assert failed == 'step bfloat16 plain: stopped after 68 s'


@pytest.mark.parametrize(
    'code, seconds, said, error',
    [
        # A process of its own is stopped too
        ("import subprocess; subprocess.run(['sleep', '60'])", 2, '', 'stopped after 2 s'),
        ("print('a'); raise ValueError('b')", 60, '', 'ValueError: b'),
        ("import os; print('a'); print(os.environ['XLA_FLAGS'])", 60, '--a --b', ''),
        ('', 0.5, '', 'not started: the time was up'),
    ],
)
def test_a_program_that_hangs_or_fails_is_one_line(monkeypatch, code, seconds, said, error):
    monkeypatch.setenv('XLA_FLAGS', '--a')
    words = [sys.executable, '-c', code]
    assert accelerator.limited(words, seconds, '--b') == (said, error)


OTHERS = (
    'spacy',
    'ftfy',
    'sentencepiece',
    'safetensors',
    'pyarrow',
    'matplotlib',
    'tensorflow_datasets',
    'importlib_resources',
    'torch',
    'transformers',
    'sklearn',
)


@pytest.mark.full
def test_a_step_needs_jax_flax_optax_orbax_numpy_and_ml_collections_alone(tmp_path):
    """Every other library of ours is missing, in the processes of the parts as well."""
    (tmp_path / 'sitecustomize.py').write_text(
        f'import sys\nsys.modules.update(dict.fromkeys({OTHERS}))\n'
    )
    part = accelerator.step('auto', 'float32')
    _, *words = accelerator.command(part, True, 8, 1, tmp_path)
    python(
        *words, check=0, env={'PYTHONPATH': f'{tmp_path}{os.pathsep}{ROOT}', 'JAX_PLATFORMS': 'cpu'}
    )
    (row,) = json.loads((tmp_path / 'part.json').read_text())['rows']
    assert row['losses'][-1] < row['losses'][0] and row['refused'] == {}


@pytest.mark.slow
def test_the_run_that_it_trains_is_verified_to_the_bit(tmp_path):
    for part in accelerator.TRAINED:
        found = accelerator.measure(part, True, 8, 1, tmp_path, 600)
    assert 'arrays equal to the bit' in found['said']
