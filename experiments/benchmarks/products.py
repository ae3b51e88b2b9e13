"""The matrix products of a training step alone, beside the whole step: an upper bound on what is to gain elsewhere.

python -m experiments.benchmarks.products --config=configs/pretrain.py \\
    --config.batch.size=2 --warmup=2 --windows=3 --steps=3

Each product with a weight matrix is timed by itself, forward and for both gradients, in the model's own form, one after
another and into memory that is there already; attention's products and everything elementwise are left out. The sum is
therefore a bound: a step that computes its products as XLA does takes at least as long. For CPUs: each call waits for
its result, which on an accelerator costs as much as a small product.
"""
import statistics

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from experiments.benchmarks import record, timing, train_step
from experiments.compile import check
from experiments.lib.markdown import table
from gpt1_jax import cli
from gpt1_jax.errors import UserError
from gpt1_jax.models.fast import cpu, xla
from gpt1_jax.models.gpt import GPTConfig


def matrices(c: GPTConfig) -> list[tuple[str, int, int, int]]:
    """[(name, how many a model has, inputs, outputs)] of its dense layers and of the output layer, 'logits'."""
    D = c.n_embd
    return [('attention qkv', c.n_layer, D, 3 * D), ('attention out', c.n_layer, D, D),
            ('mlp fc', c.n_layer, D, c.n_inner), ('mlp proj', c.n_layer, c.n_inner, D), ('logits', 1, D, c.vocab_size)]


def calls(name: str, tokens: int, inputs: int, outputs: int, dtype: str) -> dict:
    """{direction: (product, a, b)} of one matrix for so many tokens: forward, the gradients by input and by kernel."""
    def values(*shape):
        return jnp.asarray(np.random.default_rng(0).standard_normal(shape, np.float32), dtype)
    x, kernel, dy = values(tokens, inputs), values(inputs, outputs), values(tokens, outputs)
    if name == 'logits':  # the kernel is the token table transposed; these are the products of cpu.cross_entropy
        products = cpu.PRODUCTS if dtype == 'bfloat16' else xla.PRODUCTS
        return {'forward': (lambda x, table: products.matmul(x, table, 1, dtype), x, kernel.T),
                'by input': (lambda dy, table: products.matmul(dy, table, 0, dtype), dy, kernel.T),
                'by kernel': (products.outer, dy, x)}

    def product(x, kernel):
        return xla.product(x, kernel, cpu.PRODUCTS)
    # Of each call's gradients one is asked for; the compiler leaves the other out.
    return {'forward': (product, x, kernel),
            'by input': (lambda dy, kernel: jax.vjp(product, x, kernel)[1](dy)[0], dy, kernel),
            'by kernel': (lambda x, dy: jax.vjp(product, x, kernel)[1](dy)[1], x, dy)}


def seconds(product, a: jax.Array, b: jax.Array, warmup: int, windows: int, steps: int) -> float:
    """Median over windows of the mean time of one call."""
    # The result goes where the last one was, so that no memory is asked for.
    call = jax.jit(lambda old, a, b: product(a, b), donate_argnums=0, keep_unused=True)
    result = jax.jit(product)(a, b)

    def run(n):
        nonlocal result
        for _ in range(n):
            result = jax.block_until_ready(call(result, a, b))  # one at a time: without waiting, calls run side by side
        return float(result[0, 0])
    return statistics.median(timing.measure(run, warmup, windows, steps)['step_seconds'])


def measure(c: GPTConfig, tokens: int, warmup: int, windows: int, steps: int) -> list[dict]:
    """[{'product', 'calls', 'seconds', 'flops'}] of a step on this many tokens; seconds and flops of one call."""
    found = []
    for name, number, inputs, outputs in matrices(c):
        for direction, (product, a, b) in calls(name, tokens, inputs, outputs, c.dtype).items():
            found.append({'product': f'{name}, {direction}', 'calls': number, 'flops': 2 * tokens * inputs * outputs,
                          'seconds': seconds(product, a, b, warmup, windows, steps)})
    return found


def main() -> None:
    f = flags.FLAGS
    model = check.backbone_of(f.config, f.vocab_size).config
    if not isinstance(model, GPTConfig):
        raise UserError(f"model.kind: {f.config.model.kind!r}; only the products of a 'gpt' are timed")
    tokens = f.config.batch.size * model.n_ctx
    found = measure(model, tokens, f.warmup, f.windows, f.steps)
    step = train_step.measure(f.config, f.vocab_size, f.warmup, f.windows, f.steps)
    cells = [(row['product'], str(row['calls']), f"{1e3 * row['seconds']:,.2f}",
              f"{row['flops'] / row['seconds'] / 1e9:,.0f}") for row in found]
    total = sum(row['calls'] * row['seconds'] for row in found)
    flops = sum(row['calls'] * row['flops'] for row in found)
    print('\n'.join(table(('product', 'calls a step', 'ms a call', 'GFLOP/s'), cells)))
    print(f'These products: {1e3 * total:,.1f} ms a step, {flops / total / 1e9:,.0f} GFLOP/s. Were all else free: '
          f'{tokens / total:,.0f} tokens/s.')
    print(f"The whole step: {1e3 * tokens / step['tokens_per_s']:,.1f} ms, {step['tokens_per_s']:,.0f} tokens/s "
          f"({step['lowest']:,.0f} to {step['highest']:,.0f}).")
    record.write(f.out, {'config': f.config.to_dict(), 'vocab_size': f.vocab_size, 'products': found, 'step': step},
                 step['device'])


if __name__ == '__main__':
    cli.run(main, train_step.define_size_flags)
