"""Ideas that change nothing but the rounding, in `model.ops`: experiments/false_winners.py.

gpt1 ablate --config=experiments/ideas/nothing.py --out=runs/nothing

A search is told about sixty of them, and about nine ideas that must help or must harm.
"""

import functools

import jax
import jax.numpy as jnp
from gpt1_jax.configs import ablate

from experiments.ideas.gallery import IDEAS, NO_DROPOUT
from gpt1_jax.models import ops

STEPS = 300
BETTER = {  # more parameters, more text, or less noise in a short run
    'width 96': 'model.n_embd=96 model.n_inner=384',
    'width 128': 'model.n_embd=128 model.n_inner=512',
    'twice the batch': 'batch.size=16',
    'no dropout': NO_DROPOUT,
    'half the dropout': NO_DROPOUT.replace('0.0', '0.05'),
    'no dropout, width 96': f'{NO_DROPOUT} model.n_embd=96 model.n_inner=384',
}
WORSE = {
    'width 32': 'model.n_embd=32 model.n_inner=128',
    'half the batch': 'batch.size=4',
    'a tenth of the rate': 'optimizer.peak_rate=1e-4',
}


@functools.cache
def __getattr__(name):
    """gelu_7 and dense_7: operations of models/ops.py, whose results differ only by rounding.

    gelu_7 adds seven to the result and subtracts it again. dense_7 first adds the products of
    every seventh input.
    """
    kind, _, number = name.partition('_')
    if kind not in ('gelu', 'dense') or not number.isdigit():
        raise AttributeError(name)
    k = int(number)

    def gelu(x):
        # Without the barrier the compiler leaves both out
        return jax.lax.optimization_barrier(ops.gelu(x) + k) - k

    def dense(x, kernel, bias):
        before = (slice(None),) * (kernel.ndim - bias.ndim - 1)  # the other axes that are summed
        parts = []
        for i in range(k):
            rows = kernel[(*before, slice(i, None, k))].astype(x.dtype)
            parts.append(jnp.tensordot(x[..., i::k], rows, len(before) + 1))
        return ops.add_bias(sum(parts[1:], parts[0]), bias)

    return gelu if kind == 'gelu' else dense


def nothings():
    """{name: fields} of the sixty ideas that change nothing."""
    found = {}
    for k in range(2, 32):
        found[f'GELU + {k} - {k}'] = f'model.ops.gelu={IDEAS}/nothing.py:gelu_{k}'
        found[f'sums in {k} parts'] = f'model.ops.dense={IDEAS}/nothing.py:dense_{k}'
    return found


def get_config():
    config = ablate.get_config()
    p = config.pretrain
    p.model.kind = f'{IDEAS}/pre_norm.py:PreNorm'
    p.model.n_layer = 2
    p.model.unroll = 2
    p.model.n_embd = 64
    p.model.n_inner = 256
    p.batch.size = 8
    p.optimizer.warmup_steps = STEPS // 10
    p.train.steps = STEPS
    p.eval.every = STEPS // 2
    p.eval.windows = 256
    p.log_every = STEPS // 3
    p.checkpoint.every = STEPS
    config.seeds = 2
    ideas = BETTER | WORSE | nothings()
    config.ideas = tuple(f'{name}: {fields}' for name, fields in ideas.items())
    return config
