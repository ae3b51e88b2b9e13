"""An idea for `model.kind`: queries and keys are normalised, with a gain (Henry et al., 2020).

gpt1 pretrain --config.model.kind=experiments/ideas/qk_norm.py:QKNorm ...
"""

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.models.gpt import GPT, Attention, Block


class NormedAttention(Attention):
    @nn.compact
    def project(self, x):
        q, k, v = jnp.moveaxis(super().project(x), 2, 0)
        q, k = (
            nn.RMSNorm(dtype=x.dtype, name=f'{name}_norm')(z) for name, z in (('q', q), ('k', k))
        )
        return jnp.stack([q, k, v], axis=2)


class NormedBlock(Block):
    attention: type[nn.Module] = NormedAttention


class QKNorm(GPT):
    block: type[nn.Module] = NormedBlock
