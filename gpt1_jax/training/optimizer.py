"""Section 4.1: Adam with decoupled weight decay on weights, and the two schedules, exactly as the released opt.py has
them."""
import inspect
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gpt1_jax.parallel.sharding import leaf_name

NOT_DECAYED = r'(^|/)(bias|scale)$'  # 4.1: "w = 0.01 on all non bias or gain weights"


def warmup_cosine(peak: Any, warmup: Any, total: Any) -> optax.Schedule:
    """An optax schedule: linear warm-up over `warmup` steps from zero to `peak`, cosine to zero at `total`.

    Released code (opt.py 7-10): the cosine runs over the whole training and is not re-based after the warm-up.
    peak, warmup, total: numbers or scalar arrays, the latter two in steps; a warm-up of 0 is none.
    """
    def schedule(count):
        x = _fraction(count, total)
        count = jnp.asarray(count, jnp.float32)
        cosine = 0.5 * (1 + jnp.cos(jnp.pi * x))
        return peak * jnp.where(_warming(count, warmup), count / jnp.maximum(warmup, 1e-30), cosine)
    return schedule


def warmup_linear(peak: Any, warmup: Any, total: Any) -> optax.Schedule:
    """An optax schedule: linear warm-up over `warmup` steps times a linear decay over all `total` (opt.py 15-17)."""
    def schedule(count):
        x = _fraction(count, total)
        count = jnp.asarray(count, jnp.float32)
        return peak * jnp.where(_warming(count, warmup), count / jnp.maximum(warmup, 1e-30), 1.0) * (1 - x)
    return schedule


def _warming(count, warmup):
    # In steps, not in fractions of the training as released: the quotients count / total and warmup / total may round
    # differently.
    return (count <= warmup) & (warmup > 0)


def _fraction(count, total):
    return jnp.minimum(jnp.asarray(count, jnp.float32) / jnp.maximum(total, 1), 1)


def adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01,
         clip: float = 1.0) -> optax.GradientTransformationExtraArgs:
    """The released update as an optax transformation; its `update` takes the step's `learning_rate=`.

    With t = 1 at the first step, and lrt = learning_rate * sqrt(1 - b2^t) / (1 - b1^t):
        p <- p - lrt * (m / (sqrt(v) + eps) + weight_decay * p)
    Released code (opt.py 23-49): eps is added to the uncorrected sqrt(v), and the decay is scaled by the bias
    correction as well as by the learning rate, so that it is weaker than optax.adamw's in the first hundreds of steps.
    clip: the largest global norm of the gradients; 0 leaves them as they are. Leaves called bias or scale are not
    decayed: decided by name, as a bias stacked over layers is a matrix too.
    """
    def init(params):
        def zeros():
            return jax.tree.map(jnp.zeros_like, params)
        return optax.ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=zeros(), nu=zeros())

    def update(grads, state, params, *, learning_rate, **unused):
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
        t = count.astype(jnp.float32)
        corrected_rate = learning_rate * jnp.sqrt(1 - b2 ** t) / (1 - b1 ** t)

        def step(path, p, m, v):
            return -corrected_rate * (m / (jnp.sqrt(v) + eps) + (weight_decay * p if decays(path) else 0))
        return jax.tree_util.tree_map_with_path(step, params, mu, nu), optax.ScaleByAdamState(count, mu, nu)

    released = optax.GradientTransformationExtraArgs(init, update)
    return optax.chain(optax.clip_by_global_norm(clip), released) if clip else released


def settings(values: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """The arguments of `adam` out of a mapping that has them, hashable: equal settings share a compiled program."""
    return tuple((name, float(values[name])) for name in inspect.signature(adam).parameters)


def decays(path: Any) -> bool:
    """Whether weight decay applies to the leaf at this path of a parameter tree."""
    return not re.search(NOT_DECAYED, leaf_name(path))
