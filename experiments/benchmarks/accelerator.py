"""Measures a GPU or TPU within a time limit, and prints a table for the README.

python -m experiments.benchmarks.accelerator --minutes=10 --out=DEVICE.json
python -m experiments.benchmarks.accelerator --variants --minutes=2.8 --out=VARIANTS.json

It runs other programs one after the other, each in a process with a limit: the paper's step by
train_step, PyTorch's and transformers' by compare, and at last `gpt1 pretrain` and `gpt1 verify`,
which trains again from a checkpoint and compares every array to the bit. --variants only times the
step, with each choice of kernels and options, and nanoGPT's step. The most promising choices run
first. train_step also names the kernels that the self-check of the device refuses.

If a program fails, the table is followed by one line about it. The file is written after each
program, so if this one ends early, the file has all measurements until then. On a CPU, or with
--small, the model is small.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from absl import flags

from experiments.benchmarks import record
from gpt1_jax import cli
from gpt1_jax.errors import UserError
from gpt1_jax.parallel import xla_options
from gpt1_jax.runs.markdown import table

LONGEST = 0.4  # of the time, for one program
DEVICE = """
import jax
print(f'{jax.default_backend()}:{jax.device_count()}:{jax.devices()[0].device_kind}')
"""
SMALL = (
    '--config.model.n_layer=2',
    '--config.model.n_embd=128',
    '--config.model.n_head=2',
    '--config.model.n_inner=512',
    '--config.model.n_ctx=64',
    '--vocab_size=512',
)
LENGTH = {
    False: ('--warmup=10', '--windows=3', '--steps=20'),
    True: ('--warmup=2', '--windows=3', '--steps=3'),
}
# Without our options of XLA (gpt1_jax/parallel/xla_options.py)
DEFAULTS = ' '.join(f'--{name}={str(not value).lower()}' for name, value in xla_options.GPU.items())
# a * b + c in one instruction, rounded once, in every kernel. No option of jax.jit does that.
CONTRACTED = '--xla_backend_extra_options=-fp-contract=fast'
EPILOGUE = 'model.ops.gelu=experiments/ideas/gelu_epilogue.py:gelu'


class Part(NamedTuple):
    """A program to run. arguments: fields of the config for a step, flags for `gpt1`, or nothing
    for a contestant of compare. xla: more flags for XLA."""

    name: str
    arguments: tuple[str, ...] = ()
    xla: str = ''


def step(kernels: str, dtype: str = 'bfloat16', *more: str, xla: str = '', word: str = '') -> Part:
    name = ' '.join(filter(None, ('step', dtype, kernels, *more, word)))
    return Part(name, (f'model.dtype={dtype}', f'model.kernels={kernels}', *more), xla)


VARIANTS = {
    'gpu': (
        step('triton'),
        step('triton', 'bfloat16', EPILOGUE),
        step('triton', xla=CONTRACTED, word='contracted'),
        step('auto'),
        Part('nanogpt-compiled'),
        step('auto', xla=DEFAULTS, word='defaults'),
        step('xla'),
        step('triton', xla=DEFAULTS, word='defaults'),
    ),
    'tpu': (step('auto'), step('xla')),
    'cpu': (step('auto'), Part('nanogpt'), step('xla'), step('triton')),
}
TRAINED = (
    Part(
        'pretrain',
        ('--config=notebook:tiny', '--config.checkpoint.every=10', '--deterministic=True'),
    ),
    Part('verify'),
)


def parts(platform: str, variants: bool) -> list[Part]:
    """Returns the programs in their order."""
    if variants:
        return [*VARIANTS[platform]]
    compiled = '' if platform == 'cpu' else '-compiled'
    rivals = [Part(f'{name}{compiled}') for name in ('nanogpt', 'hugging-face', 'post-ln')]
    return [step('auto'), step('xla'), *rivals, *TRAINED, step('plain'), step('auto', 'float32')]


def command(
    part: Part, small: bool, batch: int, devices: int, directory: pathlib.Path
) -> list[str]:
    """Returns the command line of a part. It writes directory/part.json if it times a step. batch:
    windows a device."""
    run = [sys.executable, '-m']
    if part in TRAINED:
        return [*run, 'gpt1_jax', part.name, f'--workdir={directory / "run"}', *part.arguments]
    size = ['--config=pretrain', *LENGTH[small], *(SMALL if small else ())]
    out = f'--out={directory / "part.json"}'
    if part.name.startswith('step'):
        fields = [f'--config.{field}' for field in part.arguments]
        rows = f'--config.batch.size={batch * devices}'
        return [*run, 'experiments.benchmarks.train_step', *size, rows, *fields, out]
    rows = f'--config.batch.size={batch}'
    contestant = ['--turns=1', f'--contestants={part.name}', '--config.model.dtype=bfloat16']
    return [*run, 'experiments.benchmarks.compare', *size, rows, *contestant, out]


def limited(words: list[str], seconds: float, xla: str = '') -> tuple[str, str]:
    """Runs a command and returns (its last line, '') or ('', an error in one line). After
    `seconds` the command is killed, with the processes that it started."""
    if seconds < 1:
        return '', 'not started: the time was up'
    flags = {'XLA_FLAGS': f'{os.environ.get("XLA_FLAGS", "")} {xla}'.strip()} if xla else {}
    child = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | flags,
    )
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return '', f'stopped after {seconds:.0f} s'
    if child.returncode:
        return '', ([f'exit status {child.returncode}', *err.strip().splitlines()][-1])[:300]
    return ['', *out.strip().splitlines()][-1], ''


def measure(
    part: Part, small: bool, batch: int, devices: int, place: pathlib.Path, seconds
) -> dict:
    """Runs a part, and returns its row, {'said': its last line} or {'error'}."""
    made = place / 'part.json'
    made.unlink(missing_ok=True)
    said, error = limited(command(part, small, batch, devices, place), seconds, part.xla)
    if error:
        return {'error': error}
    if not made.exists():
        return {'said': said}
    rows = json.loads(made.read_text())['rows']
    if part.name.startswith('step'):
        return rows[0] | {'a_device': rows[0]['tokens_per_s'] / devices}
    (row,) = rows[part.name]
    n_ctx = 64 if small else 512
    speed = batch * n_ctx / statistics.median(row['step_seconds'])
    return row | {'tokens_per_s': speed, 'a_device': speed}


def lines(found: dict[str, dict]) -> list[str]:
    """Returns the table of the timed steps, the fastest first, and a line for each other part."""
    timed = {name: one for name, one in found.items() if 'a_device' in one}
    rival = next((one['a_device'] for name, one in timed.items() if 'nanogpt' in name), None)
    cells = [
        (
            name,
            f'{one["tokens_per_s"]:,.0f}',
            f'{1e3 * statistics.median(one["step_seconds"]):,.2f}',
            f'{one["mfu"]:.1%}' if one.get('mfu') else 'n/a',
            f'{one["a_device"] / rival:.2f}' if rival else 'n/a',
            f'{one["bytes"] / 2**30:.1f}' if one.get('bytes') else 'n/a',
            f'{one["first_seconds"]:.0f}',
            f'{one["losses"][0]:.3f} to {one["losses"][-1]:.3f}',
            ', '.join(one.get('refused', ())),
        )
        for name, one in sorted(timed.items(), key=lambda each: -each[1]['a_device'])
    ]
    header = ('step', 'tokens/s', 'ms', 'MFU', "times nanoGPT's", 'GiB', 'first step, s')
    others = [
        f'{name}: {one.get("said") or one["error"]}'
        for name, one in found.items()
        if name not in timed and name != 'device'
    ]
    return [*table((*header, 'loss', 'kernels refused'), cells), *others]


def _define_flags():
    flags.DEFINE_float(
        'minutes', 10, 'Stop after so many minutes, with what there is by then.', lower_bound=0
    )
    flags.DEFINE_integer(
        'batch', 0, 'Windows a device and step; 0: 64, or 8 of the small model.', lower_bound=0
    )
    flags.DEFINE_bool('small', None, 'A small model; by default only on a CPU.')
    flags.DEFINE_bool(
        'variants', False, "Only the step, with each choice of kernels and options, and nanoGPT's."
    )
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    end = time.monotonic() + 60 * f.minutes
    said, error = limited([sys.executable, '-c', DEVICE], 60 * f.minutes)
    if error:
        raise UserError(f'no device: {error}')
    platform, count, kind = said.split(':', 2)
    small = platform == 'cpu' if f.small is None else f.small
    batch = f.batch or (8 if small else 64)
    found = {'device': {'name': kind, 'count': int(count), 'platform': platform}}
    with tempfile.TemporaryDirectory() as place:
        for part in parts(platform, f.variants):
            left = min(end - time.monotonic(), LONGEST * 60 * f.minutes)
            one = measure(part, small, batch, int(count), pathlib.Path(place), left)
            found[part.name] = one
            told = one.get('said') or one.get('error') or f'{one["tokens_per_s"]:,.0f} tokens/s'
            print(f'{part.name}: {told}', flush=True)
            record.write(f.out or 'accelerator.json', found, kind)
    print('\n'.join(['', *lines(found)]))


if __name__ == '__main__':
    cli.run(main, _define_flags)
