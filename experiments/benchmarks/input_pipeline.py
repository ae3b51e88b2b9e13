"""What the host does for a step: a batch of windows read from the shards in the step's order, and put on the device.

python -m experiments.benchmarks.input_pipeline --tokens=runs/gpt1/tokens --batch=64

Both go on while the device works on the step before: they cost nothing as long as they take less than a step.
"""
import statistics
import time

import jax
from absl import flags

from experiments import report
from experiments.benchmarks import record
from gpt1_jax import cli, sharding
from gpt1_jax.data import tokens


def measure(stream, batch, n_ctx, steps):
    """{'read', 'place': seconds of each step}, after one that is not counted."""
    mesh, seconds = sharding.make_mesh(), {'read': [], 'place': []}
    for step in range(steps + 1):
        began = time.perf_counter()
        host = tokens.batch(stream, step, 0, batch, n_ctx)
        read = time.perf_counter()
        jax.block_until_ready(sharding.place(lambda rows: {'tokens': host[rows]}, batch, mesh))
        for name, took in (('read', read - began), ('place', time.perf_counter() - read)):
            seconds[name] += [took] if step else []
    return seconds


def _define_flags():
    flags.DEFINE_string('tokens', None, 'A prepared directory.', required=True)
    flags.DEFINE_integer('batch', 64, 'Windows of a step.', lower_bound=1)
    flags.DEFINE_integer('n_ctx', 512, 'Tokens of a window.', lower_bound=1)
    flags.DEFINE_integer('steps', 200, 'Steps to time.', lower_bound=1)
    record.define_flag()


def main():
    f = flags.FLAGS
    stream = tokens.open_split(f.tokens, 'train')
    found = measure(stream, f.batch, f.n_ctx, f.steps)
    each = {name: 1e3 * statistics.median(seconds) for name, seconds in found.items()}
    both = sum(each.values())
    print('\n'.join(report.table(
        ('windows of the stream', 'read a batch, ms', 'put it on the device, ms', 'tokens/s at most'),
        [(f'{stream.n_windows(f.n_ctx):,}', *(f'{each[name]:.3f}' for name in ('read', 'place')),
          f'{1e3 * f.batch * f.n_ctx / both:,.0f}')])))
    record.write(f.out, found, f'{jax.device_count()} x {jax.devices()[0].device_kind}')


if __name__ == '__main__':
    cli.run(main, _define_flags)
