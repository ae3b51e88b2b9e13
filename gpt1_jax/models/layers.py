"""Runs one block N times, over parameters that are stacked [N, ...].

The layers are a loop or unrolled, rematerialised or not.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.models.dropout import Dropout, Key
from gpt1_jax.models.fast import table


def repeat(block: nn.Module, config: Any, x: Any, key: Key | None) -> Any:
    """Returns x after config.n_layer calls of block(x, dropout of the layer).

    x: [B, L, D], or a tree of arrays, if the block returns such a tree.
    """

    def layer(block, x, number):
        return block(x, Dropout(key, number)), None

    unroll = table.unroll(config, training=key is not None)
    if config.remat:
        # Unrolled layers are in one program, in which common subexpression elimination would undo
        # the recomputation.
        layer = nn.remat(layer, prevent_cse=unroll > 1)
    # The scan carries the KV cache of all layers, which is then updated in place. If the scan ran
    # over the cache, the cache would be copied for each token.
    layers = nn.scan(
        layer,
        variable_axes={'params': 0, 'intermediates': 0},
        variable_carry='cache',
        split_rngs={'params': True},
        length=config.n_layer,
        unroll=unroll,
    )
    x, _ = layers(block, x, jnp.arange(config.n_layer, dtype=jnp.uint32))
    return x
