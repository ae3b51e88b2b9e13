"""An idea for `model.kind`: fine-tuning reads the mean of all states, not the extract token's.

gpt1 pretrain --config.model.kind=experiments/ideas/read_out.py:MeanStates ...
"""

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.models.gpt import GPT


class MeanStates(GPT):
    """A GPT whose states are the running mean of GPT's.

    It is for fine-tuning without the auxiliary objective. It cannot generate: with a KV cache the
    mean would begin anew at each token.
    """

    @nn.compact
    def __call__(self, tokens, key=None):
        x, rows = super().__call__(tokens, key)
        n = jnp.arange(1, x.shape[1] + 1)[None, :, None]
        return (jnp.cumsum(x.astype(jnp.float32), axis=1) / n).astype(x.dtype), rows
