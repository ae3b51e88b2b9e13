"""Sections 4.1 and 5: the start of fine-tuning.

Pretrained weights are copied into a fresh model, all of them or only the first n layers (Figure 2,
left). If the config does not set the rate, the epochs or the number of padded lengths, they follow
a rule.

The paper's rate and epochs were chosen for 117M parameters and sets of thousands of rows. A smaller
model needs a higher rate, and with a few hundred rows three epochs are too few updates. So the
rules for rate and epochs give the paper's values at its width and for each of its sets, and higher
values for smaller models and sets. They were measured at width 256: experiments/results.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

NOTHING = -1  # no layers are transferred

# The paper's values.
WIDTH = 768
PEAK_RATE = 6.25e-5
EPOCHS = 3

HIGHEST_RATE = 1e-3
UPDATES = 100  # fewer are too few for new rows of the embedding and the linear layer
MANY_UPDATES = 300  # with so many, less padding saves more than six more programs cost


@jax.jit  # n_layers is an array here, so that a sweep over it compiles once
def transfer(fresh: Any, pretrained: Any, n_layers: int | jax.Array) -> Any:
    """Replaces the embeddings and the first `n_layers` blocks in the fresh backbone's parameters.

    fresh, pretrained: trees {'embed': {...}, 'blocks': {... [N, ...]}} of equal shapes. The fresh
        tree may have specials that the pretrained tree lacks: they stay as drawn, as in the
        released code.
    n_layers: -1 for nothing, 0 for only the embeddings, n for the embeddings and the first n blocks
        (released code, train.py 413-417).

    Other parts of a backbone, such as a last LayerNorm, belong to the output of its last block:
    they are replaced if all blocks are.
    """
    depth = jax.tree.leaves(fresh['blocks'])[0].shape[0]

    def block(new, old):
        layers = jnp.arange(depth).reshape([-1] + [1] * (new.ndim - 1))
        return jnp.where(layers < n_layers, old, new)

    embed = {
        name: jnp.where(n_layers > NOTHING, old, fresh['embed'][name])
        for name, old in pretrained['embed'].items()
    }
    blocks = jax.tree.map(block, fresh['blocks'], pretrained['blocks'])
    others = {
        name: jax.tree.map(
            lambda new, old: jnp.where(n_layers == depth, old, new), fresh[name], old
        )
        for name, old in pretrained.items()
        if name not in ('embed', 'blocks')
    }
    return {'embed': fresh['embed'] | embed, 'blocks': blocks, **others}


def peak_rate(width: int) -> float:
    """The paper's rate at its width, and more for a narrower backbone.

    Below the paper's width it is multiplied by (768 / width) squared, up to 1e-3. width: of the
    backbone's states.
    """
    return min(PEAK_RATE * max(WIDTH / width, 1) ** 2, HIGHEST_RATE)


def epochs(steps_per_epoch: int) -> int:
    """The paper's 3 epochs, or more if 100 updates need more."""
    return max(EPOCHS, math.ceil(UPDATES / steps_per_epoch))


def lengths(updates: int) -> int:
    """The largest number of lengths that rows are padded to. A program is compiled for each."""
    return 12 if updates >= MANY_UPDATES else 6
