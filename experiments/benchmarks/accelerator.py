"""Measures a GPU or TPU within a time limit, and prints its row for the README.

python -m experiments.benchmarks.accelerator --minutes=10 --out=ROW.json
python -m experiments.benchmarks.accelerator --variants --minutes=2.8 --out=VARIANTS.json

Needs jax, flax, optax, orbax-checkpoint, numpy and ml-collections. The parts run in this order,
each in a separate process:

* check: the self-check of every kernel for this device.
* step: tokens/s, MFU, memory and compile time of the paper's step, by dtype and
  config.model.kernels, and on a GPU without our options of XLA (gpt1_jax/parallel/xla_options.py).
* losses: 20 losses of two of the paper's layers, with batches of one window, compared with the
  CPU's losses in results/losses_cpu.json.
* resume: two deterministic trainings, only one of them killed and resumed. The digests of all
  arrays are compared.
* PyTorch's and transformers' step, if these are installed.

--variants only times the step, with each choice of kernels and options, and nanoGPT's step, to find
the fastest choice on this device. The most promising choices run first.

If a part fails, the report has one line about it. The file is written after each part, so if this
program ends early, the file has all measurements until then. On a CPU, or with --small, the model
is small and kernels are interpreted. --write_losses makes the CPU's file.
"""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
from absl import flags
from gpt1_jax.configs import pretrain as defaults
from ml_collections import ConfigDict

from experiments.benchmarks import compare, record, train_step
from gpt1_jax import cli, pretraining, storage, user_code
from gpt1_jax.cli import config_file
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.windows import TokenStream
from gpt1_jax.errors import UserError
from gpt1_jax.models.build import backbone, own_fields
from gpt1_jax.models.fast import self_check
from gpt1_jax.models.fast import table as kernel_table
from gpt1_jax.parallel import processes, sharding, xla_options
from gpt1_jax.runs import results, session
from gpt1_jax.runs.markdown import table
from gpt1_jax.training import device_data
from gpt1_jax.training.intervals import Intervals

CPU_LOSSES = pathlib.Path(__file__).parent / 'results' / 'losses_cpu.json'
# The largest difference allowed from the CPU's float32 losses, in nats. For the small model on
# CPUs, another order of summation (kernels=plain, or jax 0.12) makes a difference of 1e-6, and
# bfloat16 makes 3e-4. The large model rounds larger numbers.
TOLERANCE = {'float32': 1e-4, 'bfloat16': 2e-2}
SMALL = {'n_layer': 2, 'n_embd': 128, 'n_head': 2, 'n_inner': 512, 'n_ctx': 64}
TWO = {'n_layer': 2}  # of the paper's size: 20 updates of a window take a CPU about a minute
VOCABULARY = {False: 40478, True: 512}  # the paper's, and small
LENGTH = {False: (10, 3, 20), True: (2, 3, 3)}  # steps of warm-up, windows, steps of a window
STEPS = 20
KILLED_AFTER = 10
LONGEST = 0.4  # of the time, for one part
# Words after a part's name that change the flags for XLA.
FLAGS = {
    # Without our options
    'defaults': ' '.join(
        f'--{name}={str(not value).lower()}' for name, value in xla_options.GPU.items()
    ),
    # a * b + c in one instruction, rounded once, in every kernel. No option of jax.jit does that.
    'contracted': '--xla_backend_extra_options=-fp-contract=fast',
}
EPILOGUE = 'model.ops.gelu=experiments/ideas/gelu_epilogue.py:gelu'
# The parts of --variants, by platform.
VARIANTS = {
    'gpu': (
        'step bfloat16 triton',
        f'step bfloat16 triton {EPILOGUE}',
        'step bfloat16 triton contracted',
        'step bfloat16 auto',
        'nanogpt-compiled',
        'step bfloat16 auto defaults',
        'step bfloat16 xla',
        'step bfloat16 triton defaults',
    ),
    'tpu': ('step bfloat16 auto', 'step bfloat16 xla'),
    'cpu': ('step bfloat16 auto', 'nanogpt', 'step bfloat16 xla', 'step bfloat16 triton'),
}
KILLED = {'error': 'killed'}  # the result of the part `resume` with --kill


def config_of(small: bool, dtype: str, batch: int, **model) -> ConfigDict:
    """Returns the paper's config, or a small config, with `batch` rows a batch."""
    config = defaults.get_config()
    config.model.update((SMALL if small else {}) | {'dtype': dtype} | model)
    config.batch.size = batch
    config.optimizer.warmup_steps = 5
    config.optimizer.peak_rate = 1e-3
    return config


# The parts, in a process each. They return plain values


def check(small: bool) -> dict:
    """Returns {kernel: 'passed' or the fault}. On a CPU the kernels are interpreted."""
    model = backbone(
        dict(config_of(small, 'bfloat16', 1).model) | {'vocab_size': VOCABULARY[small]}
    )
    found = self_check.verdicts(model.config, interpret=jax.default_backend() == 'cpu')
    return {name: reason or 'passed' for name, reason in found.items()}


def step(small: bool, batch: int, dtype: str, kernels: str, *changes: str) -> dict:
    """Returns train_step.measure's result on all devices, with `batch` rows each, and 'refused':
    {kernel: why plain XLA took its place}. changes: FIELD=VALUE of the config."""
    config = config_of(small, dtype, batch * jax.device_count(), kernels=kernels)
    config = config_file.with_fields(config, dict(each.split('=') for each in changes))
    user_code.trust(config)
    found = train_step.measure(config, VOCABULARY[small], *LENGTH[small])
    return found | {
        'refused': {name: why for (name, *_), why in kernel_table.verdicts.items() if why}
    }


def rival(small: bool, name: str, batch: int) -> dict:
    """Returns compare.py's measurement of a contestant in bfloat16, on one device."""
    config = config_of(small, 'bfloat16', batch)
    row = compare.contestant(name, config, VOCABULARY[small], *LENGTH[small])
    return row | {
        'tokens_per_s': batch * config.model.n_ctx / statistics.median(row['step_seconds'])
    }


def train(config: ConfigDict, vocab_size: int, directory: str, kill: bool = False) -> dict:
    """Trains on random tokens by session.train and returns {'losses', 'arrays': digests}.

    If the directory has a run, it is resumed. kill: this process kills itself after KILLED_AFTER
    updates, once they are saved.
    """
    path = pathlib.Path(directory)
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    fields = own_fields(config.model.to_dict()) | {'vocab_size': vocab_size}
    model = backbone(fields)
    # Only half of the ids, so that there is something to learn.
    ids = np.random.default_rng(0).integers(
        0, vocab_size // 2, STEPS * config.batch.size * config.model.n_ctx + 1
    )
    stream = TokenStream((ids.astype(np.uint16),), 'random tokens', '')
    batches = device_data.batches(
        stream, config.model.n_ctx, config.batch.size, config.seed, mesh, 'auto'
    )

    def read(step, rows):  # called in a thread, a step ahead of the training
        while kill and step > KILLED_AFTER:
            if (path / 'checkpoints' / str(KILLED_AFTER)).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return batches.read(step, rows)

    effective = config.to_dict() | {'kind': 'pretrain', 'model': fields, 'fingerprint': {}}
    intervals = Intervals(STEPS, 1, STEPS, KILLED_AFTER)
    job = session.Job(
        effective,
        Tokenizer(b'', 0, 0),
        pretraining.make_program(config, model, mesh),
        batches._replace(read=read),
        pretraining.hyperparameters(config, STEPS),
        intervals,
        start=lambda fresh: fresh,
        evaluate=lambda _: lambda state: 0.0,
    )
    session.train(job, path, lambda: None)
    arrays = storage.read_json(path / 'checkpoints' / str(STEPS) / 'meta' / 'data.json')['arrays']
    return {
        'losses': [row['loss'] for row in results.read(path / 'metrics.jsonl') if 'loss' in row],
        'arrays': {
            f'{item}/{name}': array['digest']
            for item, leaves in arrays.items()
            for name, array in leaves.items()
        },
    }


def part(f) -> dict:
    """Runs the part that the flags name, and returns its result."""
    name, *others = f.part.split(' ')
    for word in FLAGS.keys() & others:
        others.remove(word)
        os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} {FLAGS[word]}'
    processes.start(deterministic=f.part == 'resume')
    if name == 'device':
        return {
            'name': jax.devices()[0].device_kind,
            'count': jax.device_count(),
            'platform': jax.default_backend(),
        }
    if name == 'check':
        return check(f.small)
    if name == 'step':
        return step(f.small, f.batch, *others)
    if name == 'losses':
        return train(config_of(f.small, *others, 1, **TWO), VOCABULARY[f.small], f.dir)
    if name == 'resume':
        return train(config_of(f.small, 'bfloat16', 8, **TWO), VOCABULARY[f.small], f.dir, f.kill)
    return rival(f.small, name, f.batch)


# The report


class Clock:
    """Runs parts as processes until the time is up. arguments: flags for every part."""

    def __init__(self, minutes: float, *arguments: str) -> None:
        self.seconds = 60 * minutes
        self.arguments = arguments
        self.end = time.monotonic() + self.seconds

    def run(self, name: str, *arguments: str) -> dict:
        """Returns a part's result, or {'error': in one line}."""
        left = min(self.end - time.monotonic(), LONGEST * self.seconds)
        if left < 1:
            return {'error': 'not started: the time was up'}
        with tempfile.TemporaryDirectory() as directory:
            out = pathlib.Path(directory) / 'part.json'
            command = [
                sys.executable,
                '-m',
                'experiments.benchmarks.accelerator',
                f'--part={name}',
                f'--out={out}',
                *self.arguments,
                *arguments,
            ]
            child = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                _, stderr = child.communicate(timeout=left)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
                return {'error': f'stopped after {left:.0f} s'}
            if out.exists():
                return json.loads(out.read_text())
            if child.returncode == -signal.SIGKILL:
                return KILLED
            named = re.findall(r'^(?:error|[\w.]*(?:Error|Exception)): .*', stderr, re.MULTILINE)
            return {
                'error': (
                    named or stderr.strip().splitlines() or [f'exit status {child.returncode}']
                )[-1][:300]
            }


def measure(f, report) -> dict:
    """Returns every part's result. After each part, `report` gets the results so far and a line."""
    clock = Clock(f.minutes)
    found = {}

    def add(name, result):
        found[name] = result
        report(found, f'{name}: {_short(result)}')

    device = clock.run('device')
    if 'error' in device:
        raise UserError(f'no device: {device["error"]}')
    small = device['platform'] == 'cpu' if f.small is None else f.small
    clock.arguments = f'--batch={f.batch or (8 if small else 64)}', f'--small={small}'
    add('device', device)
    if f.variants:
        for name in VARIANTS[device['platform']]:
            add(name, clock.run(name))
        return found
    for name in (
        'check',
        'step bfloat16 auto',
        'step bfloat16 xla',
        *['step bfloat16 auto defaults'] * (device['platform'] == 'gpu'),
    ):
        add(name, clock.run(name))
    with tempfile.TemporaryDirectory() as directory:
        for dtype in TOLERANCE:
            ours = clock.run(f'losses {dtype}', f'--dir={directory}/{dtype}')
            add(f'losses {dtype}', beside_the_cpu(ours, dtype, small))
        whole = clock.run('resume', f'--dir={directory}/whole')
        killed = clock.run('resume', f'--dir={directory}/killed', '--kill')
        resumed = (
            clock.run('resume', f'--dir={directory}/killed')
            if killed == KILLED
            else {'error': f'the run to kill: {killed.get("error", "was not killed")}'}
        )
        add('resume', compared(whole, resumed))
    for name in ('step bfloat16 plain', 'step float32 auto'):
        add(name, clock.run(name))
    for name in (
        ('post-ln', 'hugging-face')
        if small
        else ('nanogpt-compiled', 'hugging-face-compiled', 'hugging-face', 'post-ln-compiled')
    ):
        add(name, clock.run(name))
    return found


def beside_the_cpu(ours: dict, dtype: str, small: bool) -> dict:
    """Returns the result of the part `losses`, with its largest difference from the CPU's."""
    if 'error' in ours:
        return ours
    expected = json.loads(CPU_LOSSES.read_text())['small' if small else 'paper']
    largest = max(abs(a - b) for a, b in zip(ours['losses'], expected, strict=True))
    return {
        'difference': largest,
        'within_tolerance': largest <= TOLERANCE[dtype],
        'losses': ours['losses'],
    }


def compared(whole: dict, resumed: dict) -> dict:
    """Compares the arrays and losses of a run that was killed and resumed with a whole run's."""
    for result in (whole, resumed):
        if 'error' in result:
            return result
    differ = sum(resumed['arrays'][name] != digest for name, digest in whole['arrays'].items())
    return {
        'equal': not differ and whole['losses'] == resumed['losses'],
        'arrays_that_differ': differ,
        'arrays': len(whole['arrays']),
    }


def row(found: dict) -> list[str]:
    """Returns the lines of a Markdown table with one row, the measurements of this device."""

    def missing(name):
        why = found.get(name, {}).get('error', '')
        return {'not started': 'not run', 'stopped': 'not finished'}.get(
            why.partition(':')[0].partition(' after')[0], 'failed'
        )

    def step_of(name):
        result = found.get(name, {})
        if 'tokens_per_s' not in result:
            return missing(name)
        mfu = '' if result['mfu'] is None else f' ({result["mfu"]:.1%})'
        return f'{result["tokens_per_s"]:,.0f}{mfu}'

    def ratio(*prefixes):
        theirs = max(
            [
                0,
                *(
                    one.get('tokens_per_s', 0)
                    for name, one in found.items()
                    if name.startswith(prefixes)
                ),
            ]
        )
        ours = auto.get('tokens_per_s')
        return f'{ours / device["count"] / theirs:.2f}' if ours and theirs else 'n/a'

    def yes(name, fact):
        return {True: 'yes', False: 'NO', None: missing(name)}[found.get(name, {}).get(fact)]

    device = found['device']
    auto = found.get('step bfloat16 auto', {})
    verdicts = found.get('check', {'error': ''})
    passed = f'{[*verdicts.values()].count("passed")} of {len(verdicts)}'
    cells = {
        'device': f'{device["count"]} x {device["name"]}',
        'kernels that passed': missing('check') if 'error' in verdicts else passed,
        'tokens/s (MFU), bfloat16': step_of('step bfloat16 auto'),
        'without kernels': step_of('step bfloat16 xla'),
        "XLA's own options": step_of('step bfloat16 auto defaults')
        if device['platform'] == 'gpu'
        else 'n/a',
        'plain': step_of('step bfloat16 plain'),
        'float32': step_of('step float32 auto'),
        'GiB': f'{auto["bytes"] / 2**30:.1f}' if auto.get('bytes') else 'n/a',
        'first step, s': f'{auto["first_seconds"]:.0f}' if auto.get('first_seconds') else 'n/a',
        "the CPU's losses, float32": yes('losses float32', 'within_tolerance'),
        'bfloat16': yes('losses bfloat16', 'within_tolerance'),
        'resumed to the bit': yes('resume', 'equal'),
        'times PyTorch': ratio('nanogpt', 'post-ln'),
        'times transformers': ratio('hugging-face'),
    }
    return table(tuple(cells), [tuple(cells.values())])


def variants(found: dict) -> list[str]:
    """Returns the lines of a Markdown table of the variants, the fastest first."""
    timed = {name: one for name, one in found.items() if 'tokens_per_s' in one}
    a_device = {
        name: one['tokens_per_s'] / (found['device']['count'] if name.startswith('step') else 1)
        for name, one in timed.items()
    }  # PyTorch's steps use one device
    rival = next((each for name, each in a_device.items() if name.startswith('nanogpt')), None)
    cells = []
    for name in sorted(timed, key=a_device.get, reverse=True):
        one = timed[name]
        cells.append(
            (
                name,
                f'{one["tokens_per_s"]:,.0f}',
                f'{1e3 * statistics.median(one["step_seconds"]):,.2f}',
                f'{one["mfu"]:.1%}' if one.get('mfu') else 'n/a',
                f'{a_device[name] / rival:.2f}' if rival else 'n/a',
                f'{one["bytes"] / 2**30:.1f}' if one.get('bytes') else 'n/a',
                f'{one["first_seconds"]:.0f}',
                f'{one["losses"][0]:.3f} to {one["losses"][-1]:.3f}',
                ', '.join(one.get('refused', ())),
            )
        )
    failed = [f'{name}: {one["error"]}' for name, one in found.items() if 'error' in one]
    return [
        *table(
            (
                'step',
                'tokens/s',
                'ms',
                'MFU',
                "times nanoGPT's",
                'GiB',
                'first step, s',
                'loss',
                'kernels refused',
            ),
            cells,
        ),
        *failed,
    ]


def _short(result):
    """Returns a result in one line, without its long parts."""
    if 'error' in result:
        return f'failed: {result["error"]}'
    return ', '.join(
        f'{name} {value:,.5g}' if isinstance(value, float) else f'{name} {value}'
        for name, value in result.items()
        if not isinstance(value, (list, dict))
    )


def write_losses() -> None:
    """Writes the CPU's file, with both sizes in float32."""
    found = {}
    for name, small in (('small', True), ('paper', False)):
        with tempfile.TemporaryDirectory() as directory:
            found[name] = train(
                config_of(small, 'float32', 1, **TWO), VOCABULARY[small], directory
            )['losses']
    record.write(str(CPU_LOSSES), found)


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
    flags.DEFINE_bool('write_losses', False, f'Write {CPU_LOSSES.name} on this machine instead.')
    flags.DEFINE_string('part', None, 'One part, in this process.')
    flags.DEFINE_string(
        'dir', None, "Of --part='losses DTYPE' and --part=resume: the work directory."
    )
    flags.DEFINE_bool('kill', False, 'Of --part=resume: end this process half way.')
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    if f.part is not None:
        storage.write(f.out, json.dumps(part(f)).encode())
        return
    if f.write_losses:
        write_losses()
        return
    f.out = f.out or 'accelerator.json'

    def report(found, line):
        print(line, flush=True)
        record.write(f.out, found, found['device']['name'])

    # Parts share compiled programs with each other, but not with earlier commands
    with tempfile.TemporaryDirectory() as programs:
        os.environ['JAX_COMPILATION_CACHE_DIR'] = programs
        found = measure(f, report)
    if f.variants:
        print('\n'.join(['', *variants(found)]))
        return
    print(
        '\n'.join(
            ['', *row(found), '', f'Please open an issue with these lines and the file {f.out}.']
        )
    )


if __name__ == '__main__':
    cli.run(main, _define_flags)
