"""experiments/benchmarks/accelerator.py: what fails, or has no time left, is one line of the
report."""

import json
import os
import sys
import types

import pytest

from experiments.benchmarks import accelerator
from gpt1_jax.errors import UserError
from gpt1_jax.models.fast import gpu_attention, table
from gpt1_jax.parallel import xla_options
from tiny import ROOT, python

STEP = {
    'device': '1 x X',
    'tokens_per_s': 500_000.0,
    'mfu': 0.3801,
    'bytes': 13 * 2**30,
    'first_seconds': 71.3,
}
FOUND = {
    'device': {'name': 'X', 'count': 2, 'platform': 'gpu'},
    'check': {'flash': 'passed', 'fused': 'spilt'},
    'step bfloat16 auto': STEP,
    'step bfloat16 xla': STEP | {'tokens_per_s': 300_000.0, 'mfu': None},
    'step bfloat16 auto defaults': STEP | {'tokens_per_s': 520_000.0},
    'step bfloat16 plain': {'error': 'out of memory'},
    'losses float32': {'within_tolerance': True},
    'losses bfloat16': {'within_tolerance': False},
    'resume': {'error': 'stopped after 9 s'},
    'nanogpt-compiled': {'tokens_per_s': 200_000.0},
    'post-ln-compiled': {'tokens_per_s': 125_000.0},
    'hugging-face': {'error': "ModuleNotFoundError: No module named 'transformers'"},
}


def test_a_row_has_what_was_measured_and_what_failed():
    head, _, row, *_ = accelerator.row(FOUND)
    cells = dict(
        zip(*([cell.strip() for cell in line.strip('|').split('|')] for line in (head, row)))
    )
    assert cells == {
        'device': '2 x X',
        'kernels that passed': '1 of 2',
        'tokens/s (MFU), bfloat16': '500,000 (38.0%)',
        'without kernels': '300,000',
        "XLA's own options": '520,000 (38.0%)',
        'plain': 'failed',
        'float32': 'failed',
        'GiB': '13.0',
        'first step, s': '71',
        "the CPU's losses, float32": 'yes',
        'bfloat16': 'NO',
        'resumed to the bit': 'not finished',
        'times PyTorch': '1.25',
        'times transformers': 'n/a',
    }  # of the faster one, for one device


def test_under_a_limit_that_is_too_short_every_part_is_a_line_and_the_row_nothing_but_failures(
    monkeypatch,
):
    real = accelerator.Clock.run
    lines = []
    monkeypatch.setattr(
        accelerator.Clock,
        'run',
        lambda clock, name, *arguments: (
            dict(FOUND['device'], platform='cpu')
            if name == 'device'
            else real(clock, name, *arguments)
        ),
    )
    settings = types.SimpleNamespace(minutes=1e-6, small=None, batch=0, variants=False)
    found = accelerator.measure(settings, lambda found, line: lines.append(line))
    assert len(lines) == 11 and all(
        line.endswith(': failed: not started: the time was up') for line in lines[1:]
    )
    assert accelerator.row(found)[2].count('not run') == 8
    whole = {'losses': [1.0], 'arrays': {'a': 'b'}}
    for killed, expected in (
        (accelerator.KILLED, {'equal': True, 'arrays_that_differ': 0, 'arrays': 1}),
        ({'error': 'exit status 1'}, {'error': 'the run to kill: exit status 1'}),
        (whole, {'error': 'the run to kill: was not killed'}),
    ):
        monkeypatch.setattr(
            accelerator.Clock,
            'run',
            lambda _, name, *arguments, killed=killed: {
                'device': dict(FOUND['device'], platform='cpu'),
                'resume': killed if '--kill' in arguments else whole,
            }.get(name, {'error': 'not here'}),
        )
        assert accelerator.measure(settings, lambda *_: None)['resume'] == expected
    monkeypatch.setattr(accelerator.Clock, 'run', lambda *_: {'error': 'RuntimeError: no CUDA'})
    with pytest.raises(UserError, match='^no device: RuntimeError: no CUDA$'):
        accelerator.measure(settings, print)


@pytest.mark.parametrize(
    'code, error',
    [
        # A process of its own is stopped too
        ("import subprocess; subprocess.run(['sleep', '60'])", 'stopped after 2 s'),
        (
            "import os, sys; print('W0000 a warning', file=sys.stderr, flush=True); "
            'os.kill(os.getpid(), 9)',
            'killed',
        ),
        ("raise ValueError('a\\nb')", 'ValueError: a'),
        ('import os; os._exit(3)', 'exit status 3'),
    ],
)
def test_a_part_that_hangs_or_fails_is_one_line(monkeypatch, tmp_path, code, error):
    script = tmp_path / 'python'
    script.write_text(f'#!{sys.executable}\n{code}\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(script))
    assert accelerator.Clock(0.1).run('check') == {'error': error}


def test_a_kernel_that_was_broken_on_purpose_is_named(monkeypatch):
    def broken(qkv, drop, interpret):
        raise RuntimeError('out of shared memory')

    monkeypatch.setattr(gpu_attention, 'flash_attention', broken)
    monkeypatch.setattr(
        table, 'KERNELS', [kernel for kernel in table.KERNELS if kernel.name == 'flash']
    )
    assert accelerator.check(small=True) == {'flash': 'RuntimeError: out of shared memory'}


@pytest.mark.parametrize(
    'word, flags, options',
    [
        ('defaults', '--xla_gpu_enable_triton_gemm=true --xla_gpu_ftz=false', {}),
        ('contracted', '--xla_backend_extra_options=-fp-contract=fast', xla_options.GPU),
    ],
)
def test_a_word_after_a_step_s_name_changes_what_xla_is_given(monkeypatch, word, flags, options):
    monkeypatch.setenv('XLA_FLAGS', '--a')
    monkeypatch.setattr(
        accelerator,
        'step',
        lambda *arguments: [*arguments, os.environ['XLA_FLAGS'], xla_options.of('gpu')],
    )
    part = types.SimpleNamespace(part=f'step bfloat16 auto {word}', small=True, batch=2)
    assert accelerator.part(part) == [True, 2, 'bfloat16', 'auto', f'--a {flags}', options]


@pytest.mark.parametrize('platform', accelerator.VARIANTS)
def test_the_variants_are_timed_in_their_order_and_shown_the_fastest_first(monkeypatch, platform):
    asked = []

    def run(_, name, *arguments):
        asked.append(name)
        if name == 'device':
            return dict(FOUND['device'], platform=platform)
        if name == 'step bfloat16 xla':
            return {'error': 'stopped after 68 s'}
        timed = {
            'tokens_per_s': 100_000.0 * len(asked),
            'step_seconds': [0.06, 0.05, 0.07],
            'first_seconds': 9.6,
            'losses': [10.6, 9.81],
        }
        return (
            timed
            if name.startswith('nanogpt')
            else timed
            | {
                'mfu': 0.4,
                'bytes': 2**30,
                'refused': {'flash': 'spilt'} if name == 'step bfloat16 auto' else {},
            }
        )

    monkeypatch.setattr(accelerator.Clock, 'run', run)
    written = []
    found = accelerator.measure(
        types.SimpleNamespace(minutes=2.8, small=None, batch=0, variants=True),
        lambda found, line: written.append(len(found)),
    )
    assert asked == ['device', *accelerator.VARIANTS[platform]] and written == list(
        range(1, len(asked) + 1)
    )
    _, _, *lines, _, failed = accelerator.variants(found)
    cells = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    # The later, the faster; nanoGPT's is measured on one of two devices.
    order = {name: (n + 2) / (2 - name.startswith('nanogpt')) for n, name in enumerate(asked[1:])}
    assert [row[0] for row in cells] == sorted(
        set(asked[1:]) - {'step bfloat16 xla'}, key=order.get, reverse=True
    )
    auto = next(row for row in cells if row[0] == 'step bfloat16 auto')
    place = asked.index('step bfloat16 auto') + 1
    rival = next((asked.index(name) + 1 for name in asked if name.startswith('nanogpt')), None)
    assert auto == [
        'step bfloat16 auto',
        f'{place}00,000',
        '60.00',
        '40.0%',
        f'{place / 2 / rival:.2f}' if rival else 'n/a',
        '1.0',
        '10',
        '10.600 to 9.810',
        'flash',
    ]
    assert failed == 'step bfloat16 xla: stopped after 68 s'


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
def test_it_needs_jax_flax_optax_orbax_numpy_and_ml_collections_alone(tmp_path):
    """Every other library of ours is missing, in the processes of the parts as well."""
    (tmp_path / 'sitecustomize.py').write_text(
        f'import sys\nsys.modules.update(dict.fromkeys({OTHERS}))\n'
    )
    for part in ('device', 'losses float32'):
        python(
            '-m',
            'experiments.benchmarks.accelerator',
            '--small',
            f'--out={tmp_path}/part.json',
            f'--part={part}',
            f'--dir={tmp_path}/run',
            check=0,
            env={'PYTHONPATH': f'{tmp_path}{os.pathsep}{ROOT}', 'JAX_PLATFORMS': 'cpu'},
        )
    ours = json.loads((tmp_path / 'part.json').read_text())
    found = accelerator.beside_the_cpu(ours, 'float32', small=True)
    assert found['within_tolerance'] and ours['losses'][-1] < ours['losses'][0] - 0.05


def test_losses_too_far_from_the_cpu_s_are_told():
    losses = json.loads(accelerator.CPU_LOSSES.read_text())['paper']
    assert len(losses) == accelerator.STEPS
    losses[7] += 0.01
    assert not accelerator.beside_the_cpu({'losses': losses}, 'float32', small=False)[
        'within_tolerance'
    ]
    found = accelerator.beside_the_cpu({'losses': losses}, 'bfloat16', small=False)
    assert found['within_tolerance'] and found['difference'] == pytest.approx(0.01)


def test_a_resumed_run_is_compared_array_by_array():
    whole = {'arrays': {'params/a': '1', 'params/b': '2'}, 'losses': [3.0, 2.0]}
    assert accelerator.compared(whole, whole)['equal']
    other = whole | {'arrays': {'params/a': '1', 'params/b': '3'}}
    assert accelerator.compared(whole, other) == {
        'equal': False,
        'arrays_that_differ': 1,
        'arrays': 2,
    }
    assert not accelerator.compared(whole, whole | {'losses': [3.0, 2.1]})['equal']
    assert accelerator.compared(whole, {'error': 'killed'}) == {'error': 'killed'}


@pytest.mark.slow
def test_a_run_that_kills_itself_resumes_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    clock = accelerator.Clock(20)
    clock.arguments = ('--small', '--batch=8')
    whole, killed = (f'--dir={tmp_path / name}' for name in ('whole', 'killed'))
    assert clock.run('resume', killed, '--kill') == accelerator.KILLED
    assert (tmp_path / 'killed' / 'checkpoints' / str(accelerator.KILLED_AFTER)).is_dir()
    assert accelerator.compared(clock.run('resume', whole), clock.run('resume', killed))['equal']
