"""Ideas for `model.ops.gelu`: other activations of the feed-forward network.

gpt1 pretrain --config.model.ops.gelu=experiments/ideas/relu.py:relu_squared ...
"""

import jax
import jax.numpy as jnp


def relu(x):
    return jax.nn.relu(x)


def relu_squared(x):
    """The squared ReLU of Primer (So et al., 2021)."""
    return jnp.square(jax.nn.relu(x))
