"""Runs one block N times, over parameters that are stacked [N, ...]: as a loop or unrolled,
rematerialised or not."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.models.dropout import Dropout, Key
from gpt1_jax.models.fast import table


def repeat(
    block: nn.Module, config: Any, x: jax.Array, key: Key | None, positions: jax.Array | None
) -> jax.Array:
    """x [B, L, D] after config.n_layer calls of block(x, x, dropout of the layer, positions)."""
    # The residual stream is carried twice, so that the gradients of its two uses (attention,
    # residual sum) stay apart until the backward pass of the LayerNorm before adds them. With
    # remat, which stores every carry, only once.
    copies = 1 if config.remat else 2

    def layer(block, xs, number):
        return (block(xs[0], xs[-1], Dropout(key, number), positions),) * copies, None

    unroll = table.unroll(config, training=key is not None)
    if config.remat:
        # In one program, as unrolled layers are, common subexpression elimination would undo the
        # recomputation.
        layer = nn.remat(layer, prevent_cse=unroll > 1)
    # The KV cache of all layers is carried, so that it is updated in place; scanned over, it would
    # be copied for each token.
    layers = nn.scan(
        layer,
        variable_axes={'params': 0, 'intermediates': 0},
        variable_carry='cache',
        split_rngs={'params': True},
        length=config.n_layer,
        unroll=unroll,
    )
    (x, *_), _ = layers(block, (x,) * copies, jnp.arange(config.n_layer, dtype=jnp.uint32))
    return x
