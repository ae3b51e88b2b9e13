"""Section 4.1: the released opt.py, which is Adam with decoupled weight decay and three schedules.

A fourth schedule, warmup-stable-decay, is not in the released code.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gpt1_jax.parallel.sharding import leaf_name

NOT_DECAYED = r'(^|/)(bias|scale)$'  # 4.1: "w = 0.01 on all non bias or gain weights"


def adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    clip: float = 1.0,
) -> optax.GradientTransformationExtraArgs:
    """The released update as an optax transformation.

    Its `update` takes the step's `learning_rate=`. With t = 1 at the first step:

        lrt = learning_rate * sqrt(1 - b2^t) / (1 - b1^t)
        p <- p - lrt * (m / (sqrt(v) + eps) + weight_decay * p)

    As in the released code (opt.py 23-49), eps is added to the uncorrected sqrt(v). The decay is
    scaled by the bias correction and the learning rate, so in the first few thousand steps it is
    weaker than in optax.adamw.

    clip: the largest global norm of the gradients. 0 means no clipping. Leaves called bias or scale
    are not decayed. The name decides, because a bias stacked over layers is also a matrix.
    """

    def init(params):
        mu = jax.tree.map(jnp.zeros_like, params)
        nu = jax.tree.map(jnp.zeros_like, params)
        return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), mu, nu)

    def update(grads, state, params, *, learning_rate, **unused):
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
        t = count.astype(jnp.float32)
        corrected_rate = learning_rate * jnp.sqrt(1 - b2**t) / (1 - b1**t)

        def step(path, p, m, v):
            decay = weight_decay * p if decays(path) else 0
            return -corrected_rate * (m / (jnp.sqrt(v) + eps) + decay)

        updates = jax.tree_util.tree_map_with_path(step, params, mu, nu)
        return updates, optax.ScaleByAdamState(count, mu, nu)

    return clipped(optax.GradientTransformationExtraArgs(init, update), clip)


def clipped(transformation: Any, clip: float) -> Any:
    """The transformation, applied to gradients that are scaled to a global norm of at most `clip`.

    If clip is 0, gradients are not scaled.
    """
    return optax.chain(optax.clip_by_global_norm(clip), transformation) if clip else transformation


def decays(path: Any) -> bool:
    """Whether weight decay applies to the leaf at this path of a parameter tree."""
    return not re.search(NOT_DECAYED, leaf_name(path))


# Schedules, from a step (counted from 0) to its learning rate. warmup, total, decay: numbers of
# steps, or scalar arrays. A warmup of 0 means no warm-up.


def warmup_cosine(peak: Any, warmup: Any, total: Any) -> optax.Schedule:
    """A linear warm-up over `warmup` steps from zero to `peak`, then a cosine to zero at `total`.

    As released (opt.py 5-7), the cosine runs over the whole training and does not restart after the
    warm-up.
    """
    return _warmed_up(peak, warmup, lambda step: 0.5 * (1 + jnp.cos(jnp.pi * _done(step, total))))


def warmup_linear(peak: Any, warmup: Any, total: Any) -> optax.Schedule:
    """The same warm-up, times a linear decay over all `total` steps (opt.py 13-15)."""
    return lambda step: warmup_constant(peak, warmup)(step) * (1 - _done(step, total))


def warmup_constant(peak: Any, warmup: Any) -> optax.Schedule:
    """The same warm-up, then `peak` (opt.py 9-11)."""
    return _warmed_up(peak, warmup, lambda step: 1.0)


def stable_decay(peak: Any, warmup: Any, total: Any, decay: Any) -> optax.Schedule:
    """The same warm-up, then `peak`, then a linear decay to zero over the last `decay` steps.

    Hu et al. (2024). Up to step total - decay no rate depends on `total`, so a run can be extended
    from there.
    """
    return _warmed_up(
        peak, warmup, lambda step: jnp.clip((total - step) / jnp.maximum(decay, 1), 0, 1)
    )


# config.optimizer.schedule
SCHEDULES: dict[str, Callable[..., optax.Schedule]] = {
    'cosine': warmup_cosine,
    'linear': warmup_linear,
    'constant': warmup_constant,
    'stable_decay': stable_decay,
}


def _warmed_up(peak, warmup, after):
    """peak x (a linear warm-up, then after(step))."""

    def schedule(step):
        step = jnp.asarray(step, jnp.float32)
        # Compared in steps, not in fractions of the training as released: the quotients step /
        # total and warmup / total may round differently.
        warming = (step <= warmup) & (warmup > 0)
        return peak * jnp.where(warming, step / jnp.maximum(warmup, 1e-30), after(step))

    return schedule


def _done(step, total):
    """The fraction of the training that is done, at most 1."""
    return jnp.minimum(jnp.asarray(step, jnp.float32) / jnp.maximum(total, 1), 1)
