"""An idea for `model.kind`: each block also sees the first block's values (Zhou et al., 2024).

gpt1 pretrain --config.model.kind=experiments/ideas/value_residual.py:ValueResidual ...
"""

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.models.gpt import GPT, Block


class ValueBlock(Block):
    def __call__(self, carried, drop):
        x, first = carried
        q, k, v = jnp.moveaxis(self.attn.project(x), 2, 0)
        first = jnp.where(drop.layer == 0, v, first)
        a = self.attn.attend(jnp.stack([q, k, (v + first) / 2], axis=2), drop)
        return self.after_attention(x, a, drop), first


class ValueResidual(GPT):
    block: type[nn.Module] = ValueBlock

    def transformed(self, x, key):
        heads = x.reshape(*x.shape[:2], self.config.n_head, -1)  # a place for the first values
        return super().transformed((x, heads), key)[0]
