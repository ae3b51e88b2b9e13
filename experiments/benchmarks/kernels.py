"""How fast each kernel for NVIDIA GPUs is with other tiles: what those in gpt1_jax/models/fast were chosen by.

python -m experiments.benchmarks.kernels --out=kernels.json

A layer of the paper's model, 64 windows of 512 tokens, bfloat16, dropout 0.1; each choice is compiled and timed by
itself, and compared with the first. On a CPU the sizes are small and the kernels interpreted, which tells nothing but
that they run. Under two minutes on an H200.
"""
import statistics
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from absl import flags

from experiments.benchmarks import record, timing
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.models import dropout
from gpt1_jax.models.fast import gpu_attention as attention
from gpt1_jax.models.fast import gpu_residual_norm as norm

# (queries, keys, warps, stages), the present ones first.
FORWARD = ((64, 64, 4, 3), (64, 64, 4, 2), (64, 64, 2, 2), (64, 64, 8, 2), (64, 32, 4, 3), (64, 128, 4, 2),
           (128, 32, 4, 3), (128, 64, 4, 2), (128, 64, 4, 3), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2))
BACKWARD = ((64, 64, 4, 3), (64, 64, 4, 1), (64, 64, 4, 2), (64, 64, 8, 2), (32, 32, 4, 3), (32, 64, 4, 2),
            (32, 64, 4, 3), (32, 128, 4, 2), (32, 128, 8, 2), (64, 32, 4, 2), (64, 128, 4, 1), (64, 128, 8, 2),
            (128, 64, 8, 2), (128, 128, 8, 1))
# (vectors at a time, warps), and with the number of programs between them.
NORM = ((1, 1), (2, 2), (2, 4), (4, 2), (4, 4), (8, 4), (8, 8), (16, 8))
NORM_BACKWARD = ((1, 2048, 4), (2, 1024, 4), (2, 2048, 2), (2, 2048, 4), (4, 512, 4), (4, 512, 8), (4, 1024, 2),
                 (4, 1024, 4), (4, 2048, 4), (8, 256, 16), (8, 512, 4), (8, 512, 8), (8, 1024, 4), (8, 1024, 8),
                 (16, 512, 8))
PAPER, SMALL = (64, 512, 12, 64), (2, 64, 2, 16)  # windows, tokens, heads and their size
RATE = 0.1


def choices(sizes: tuple[int, int, int, int], interpret: bool) -> Iterator[tuple[str, tuple, Callable, tuple]]:
    """(kernel, its tiles, function, arguments) of every choice. The tiles are set when it is yielded: trace the
    function before the next one."""
    B, L, H, E = sizes
    drop = dropout.Dropout(dropout.Key(*map(jnp.uint32, (7, 3, 0))), 4).at(dropout.ATTENTION, RATE)
    words = drop.words()

    def normal(number, *shape):
        return jax.random.normal(jax.random.key(number), shape, jnp.bfloat16)
    qkv, d_out = normal(0, B, L, 3, H, E), normal(1, B, L, H, E)

    def forward(qkv):
        return attention._forward(qkv, words, RATE, interpret)
    out, log_sums = jax.jit(forward)(qkv)
    means = jnp.einsum('blhe,blhe->bhl', d_out.astype(jnp.float32), out.astype(jnp.float32))
    for tiles in FORWARD:
        attention.FORWARD = attention.Tiles(*tiles)
        yield 'attention', tiles, forward, (qkv,)
    for tiles in BACKWARD:
        attention.BACKWARD = attention.Tiles(*tiles)
        yield ('attention, gradient', tiles, lambda *values: attention._backward(
            values[0], words, *values[1:], RATE, interpret), (qkv, d_out, log_sums, means))

    x, a, dy = (normal(number, B, L, H * E) for number in (2, 3, 4))
    scale, bias = jnp.ones(H * E), jnp.zeros(H * E)

    def norm_forward(*values):
        return norm._forward(*values, words, RATE, interpret)
    _, normed, inverse = jax.jit(norm_forward)(x, a, scale, bias)
    for norm.ROWS, norm.FORWARD in NORM:
        yield 'norm', (norm.ROWS, norm.FORWARD), norm_forward, (x, a, scale, bias)
    for tiles in NORM_BACKWARD:
        norm.ROWS, norm.PROGRAMS, norm.BACKWARD = tiles
        yield ('norm, gradient', tiles, lambda normed, inverse, scale, dy: norm._backward(
            normed, inverse, scale, words, dy, RATE, interpret), (normed, inverse, scale, dy))


def measure(sizes: tuple[int, int, int, int], interpret: bool, calls: int = 30) -> list[dict]:
    """[{'kernel', 'tiles', 'microseconds', 'difference'}]: the median of three means over `calls`, and how far the
    first result is from that of the kernel's first choice, relative to its norm; or {'kernel', 'tiles', 'error'}."""
    found, first = [], {}
    for kernel, tiles, function, arguments in choices(sizes, interpret):
        row = {'kernel': kernel, 'tiles': list(tiles)}
        try:
            # A function of its own for each choice: of a function that is known, JAX would take the earlier trace.
            compiled = jax.jit(lambda *values, function=function: function(*values)).lower(*arguments).compile()
            result = jax.tree.leaves(jax.block_until_ready(compiled(*arguments)))[0].astype(jnp.float32)
        except Exception as error:  # any: of the compiler, or too little shared memory
            found.append(row | {'error': f'{type(error).__name__}: {" ".join(str(error).split())[:200]}'})
            continue
        expected = first.setdefault(kernel, result)

        def run(n, compiled=compiled, arguments=arguments):
            for _ in range(n):
                last = compiled(*arguments)
            jax.block_until_ready(last)
            return 0.0
        seconds = timing.measure(run, 1, 3, calls)['step_seconds']
        found.append(row | {'microseconds': 1e6 * statistics.median(seconds),
                            'difference': float(jnp.linalg.norm(result - expected) / jnp.linalg.norm(expected))})
    return found


def main() -> None:
    interpret = jax.default_backend() == 'cpu'
    rows = measure(SMALL, True, 2) if interpret else measure(PAPER, False)
    cells = [(row['kernel'], ', '.join(map(str, row['tiles'])), *(
        (row['error'], '') if 'error' in row else (f"{row['microseconds']:.0f}", f"{row['difference']:.1g}")))
        for row in rows]
    print('\n'.join(table(('kernel', 'tiles', 'microseconds', 'difference from the first'), cells)))
    record.write(flags.FLAGS.out, {'rows': rows}, jax.devices()[0].device_kind)


if __name__ == '__main__':
    cli.run(main, record.define_flag)
