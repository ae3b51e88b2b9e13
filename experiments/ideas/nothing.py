"""Ideas that change nothing, in `model.ops` and the seed: experiments/false_winners.py.

gpt1 ablate --config=experiments/ideas/nothing.py --out=runs/nothing

A search is told about sixty of them, and about nine choices whose effect the gallery has measured.
"""

import functools

import jax.numpy as jnp
from gpt1_jax.configs import ablate

from experiments.ideas.gallery import GALLERY, IDEAS, STABLE
from gpt1_jax.models import ops

STEPS = 300
BETTER = (  # in results/ideas/report.md, after 600 updates
    'free output layer',
    'rotary positions',
    'no dropout of the embedding matrix',
    'sinusoidal positions',
    'no positions',
    'stable, decay over the last fifth',
)
WORSE = ('a tenth of the rate', 'Lion, rate / 5', '4 layers x 44')


@functools.cache
def __getattr__(name):
    """gelu_7 and dense_7: the operations of ops.py, whose results differ only by rounding.

    gelu_7 adds seven to the result and subtracts it again. dense_7 adds the products of every seventh
    input first.
    """
    kind, _, number = name.partition('_')
    if kind not in ('gelu', 'dense') or not number.isdigit():
        raise AttributeError(name)
    k = int(number)

    def gelu(x):
        return ops.gelu(x) + k - k

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
    found = {f'another seed {k}': f'seed={10_000 * k}' for k in range(1, 31)}
    for k in range(2, 17):
        found[f'GELU + {k} - {k}'] = f'model.ops.gelu={IDEAS}/nothing.py:gelu_{k}'
    for k in range(2, 17):
        found[f'sums in {k} parts'] = f'model.ops.dense={IDEAS}/nothing.py:dense_{k}'
    return found


def known():
    """{name: fields} of the choices whose effect is known."""
    gallery = dict(idea.split(': ', 1) for idea in GALLERY)
    found = {name: gallery[name] for name in (*BETTER, *WORSE) if name in gallery}
    found[BETTER[-1]] = f'{STABLE.split(": ")[1]}={STEPS // 5}'
    found[WORSE[0]] = 'optimizer.peak_rate=3e-4'
    found[WORSE[-1]] = 'model.n_layer=4 model.n_embd=44 model.n_inner=176 model.unroll=4'
    return found


def get_config():
    config = ablate.get_config()
    p = config.pretrain
    p.model.n_layer = 2
    p.model.unroll = 2
    p.model.n_embd = 64
    p.model.n_inner = 256
    p.batch.size = 8
    p.optimizer.peak_rate = 3e-3
    p.optimizer.warmup_steps = STEPS // 10
    p.train.steps = STEPS
    p.eval.every = STEPS // 2
    p.eval.windows = 256
    p.log_every = STEPS // 3
    p.checkpoint.every = STEPS
    config.seeds = 2
    config.ideas = tuple(f'{name}: {fields}' for name, fields in {**known(), **nothings()}.items())
    return config
