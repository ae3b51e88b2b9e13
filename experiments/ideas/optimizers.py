"""Ideas for `optimizer.kind` and `optimizer.schedule`. (`optax:lion` and others need no file.)

gpt1 pretrain --config.optimizer.kind=experiments/ideas/optimizers.py:muon ...
"""

import jax.numpy as jnp
import optax


def muon(learning_rate, weight_decay, weight_decay_mask, muon_weight_dimension_numbers):
    """Returns optax's Muon (Jordan et al., 2024) for the matrices of blocks, and Adam for the rest.

    Each layer has its own matrices: the last argument names their axes. Their updates have a root
    mean square of 0.2 (Liu et al., 2025), so that rates of Adam are a good start.
    """
    return optax.contrib.muon(
        learning_rate,
        weight_decay=weight_decay,
        weight_decay_mask=weight_decay_mask,
        muon_weight_dimension_numbers=muon_weight_dimension_numbers,
        consistent_rms=0.2,
    )


def inverse_square_root(peak, warmup, total, decay):
    """Linear warm-up, then peak * sqrt(warmup / step) (Vaswani et al., 2017)."""

    def schedule(count):
        step = jnp.maximum(count, 1)
        return peak * jnp.minimum(
            step / jnp.maximum(warmup, 1), jnp.sqrt(jnp.maximum(warmup, 1) / step)
        )

    return schedule
