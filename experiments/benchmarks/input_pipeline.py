"""What the host does for a step, by where the tokens are: in shards on disk, or on the devices.

python -m experiments.benchmarks.input_pipeline --tokens=runs/gpt1/tokens --batch=64 \\
    --out=experiments/benchmarks/results/input_pipeline.json

'read' is a batch of windows from the mapped shards in the order of training, or their numbers alone where the tokens
are resident, and 'place' puts it on the device: a thread does both a step ahead. 'wait' is the rest of them for the
loop, with a pause of --step_ms in the place of a device at work.
"""
import contextlib
import statistics
import time
from collections.abc import Callable

import jax
from absl import flags

from experiments.benchmarks import record
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.data import tokens
from gpt1_jax.parallel import sharding
from gpt1_jax.training import device_data, prefetch

WAYS = {'read for each step': tokens.batch, 'resident': tokens.numbers}


def measure(read: Callable, stream: tokens.TokenStream, batch: int, n_ctx: int, steps: int,
            step_seconds: float) -> dict:
    """{'read', 'place', 'wait': seconds of each step}, after one that is not counted."""
    mesh, seconds = sharding.make_mesh(), {'read': [], 'place': [], 'wait': []}

    def make(step):
        began = time.perf_counter()
        host = read(stream, step, 0, batch, n_ctx)
        done = time.perf_counter()
        jax.block_until_ready(sharding.place(lambda rows: {'rows': host[rows]}, batch, mesh))
        seconds['read'].append(done - began)
        seconds['place'].append(time.perf_counter() - done)
    with contextlib.closing(prefetch.ahead(make, 0, steps + 1)) as batches:
        for _ in range(steps + 1):
            began = time.perf_counter()
            next(batches)
            seconds['wait'].append(time.perf_counter() - began)
            time.sleep(step_seconds)
    return {name: each[1:] for name, each in seconds.items()}


def _define_flags():
    flags.DEFINE_string('tokens', None, 'A prepared directory.', required=True)
    flags.DEFINE_integer('batch', 64, 'Windows of a step.', lower_bound=1)
    flags.DEFINE_integer('n_ctx', 512, 'Tokens of a window.', lower_bound=1)
    flags.DEFINE_integer('steps', 200, 'Steps to time.', lower_bound=1)
    flags.DEFINE_float('step_ms', 30, 'What a step takes on the device, in milliseconds.', lower_bound=0)
    record.define_flag()


def main() -> None:
    f = flags.FLAGS
    stream = tokens.open_split(f.tokens, 'train')
    began = time.perf_counter()
    corpus = jax.block_until_ready(device_data.place(stream, f.n_ctx, sharding.make_mesh(), 'yes'))
    placed = time.perf_counter() - began
    print(f'{stream.n_windows(f.n_ctx):,} windows; placing them all: {placed:.2f} s, {corpus.nbytes / 2**20:,.1f} MiB')
    found = {way: measure(read, stream, f.batch, f.n_ctx, f.steps, f.step_ms / 1e3) for way, read in WAYS.items()}
    cells = [(way, *(f'{1e3 * statistics.median(each[name]):.3f}' for name in ('read', 'place', 'wait')))
             for way, each in found.items()]
    print('\n'.join(table(('tokens', 'read, ms a step', 'place, ms', 'wait, ms'), cells)))
    record.write(f.out, {'windows': stream.n_windows(f.n_ctx), 'bytes': corpus.nbytes, 'place_all_seconds': placed,
                         'step_seconds': f.step_ms / 1e3, 'ways': found},
                 f'{jax.device_count()} x {jax.devices()[0].device_kind}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
