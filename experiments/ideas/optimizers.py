"""Ideas for `optimizer.kind` and `optimizer.schedule`; `optax:lion` and others need no file.

gpt1 pretrain --config.optimizer.kind=experiments/ideas/optimizers.py:muon ...
"""
import jax
import jax.numpy as jnp
import optax


def muon(learning_rate, weight_decay, weight_decay_mask):
    """Muon (Jordan et al., 2024) for the matrices of blocks, stacked over layers, and AdamW for the rest, by optax."""
    def matrices(params):
        return jax.tree_util.tree_map_with_path(
            lambda path, x: optax.contrib.MuonDimensionNumbers(1, tuple(range(2, x.ndim)))
            if 'blocks' in str(path) and 'kernel' in str(path) and x.ndim == 3 else None, params)
    return optax.contrib.muon(learning_rate, weight_decay=weight_decay, weight_decay_mask=weight_decay_mask,
                              muon_weight_dimension_numbers=matrices)


def inverse_square_root(peak, warmup, total, decay):
    """Linear warm-up, then peak * sqrt(warmup / step) (Vaswani et al., 2017)."""
    def schedule(count):
        step = jnp.maximum(count, 1)
        return peak * jnp.minimum(step / jnp.maximum(warmup, 1), jnp.sqrt(jnp.maximum(warmup, 1) / step))
    return schedule
