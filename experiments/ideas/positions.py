"""Ideas for positions, in place of the learned matrix W_p: none, sinusoidal, rotary.

gpt1 pretrain --config.model.kind=experiments/ideas/positions.py:Sinusoidal ...
gpt1 pretrain --config.model.kind=experiments/ideas/positions.py:NoPositions \\
    --config.model.ops.attention=experiments/ideas/positions.py:rotary ...
"""

import flax.linen as nn
import jax.numpy as jnp

from gpt1_jax.models import kv_cache, ops
from gpt1_jax.models.gpt import GPT, Embedding


class WithoutPositions(Embedding):
    learned_positions: bool = False


class NoPositions(GPT):
    embedding: type[nn.Module] = WithoutPositions


def angles(positions, E):
    """Returns [..., E / 2], each position times the frequencies 1 to nearly 1 / 10,000."""
    return jnp.tensordot(positions, 10_000.0 ** (-jnp.arange(0, E, 2) / E), 0)


class SinusoidalEmbedding(WithoutPositions):
    @nn.compact
    def __call__(self, tokens, key):
        x, rows = super().__call__(tokens, key)
        L = tokens.shape[1]
        if self.has_variable('cache', 'length'):
            positions = kv_cache.positions(self, L)
        else:
            positions = jnp.arange(L)[None]
        at = angles(positions, x.shape[-1])
        # The scale of W_p's N(0, 0.02)
        waves = jnp.concatenate([jnp.sin(at), jnp.cos(at)], axis=-1) * 2**0.5 * 0.02
        return x + waves.astype(x.dtype), rows


class Sinusoidal(GPT):
    """A GPT with the sinusoidal positions of Vaswani et al. (2017)."""

    embedding: type[nn.Module] = SinusoidalEmbedding


def rotary(qkv, drop):
    """Attention of RoFormer (Su et al., 2021): queries and keys are rotated by angles in proportion
    to their positions."""
    # [B, L, 2, H, E]
    x = qkv[:, :, :2].astype(jnp.float32)
    v = qkv[:, :, 2]
    at = angles(jnp.arange(x.shape[1]), x.shape[-1])[None, :, None, None]
    a, b = jnp.split(x, 2, axis=-1)
    x = jnp.concatenate(
        [a * jnp.cos(at) - b * jnp.sin(at), a * jnp.sin(at) + b * jnp.cos(at)], axis=-1
    )
    return ops.attention(jnp.concatenate([x.astype(v.dtype), v[:, :, None]], axis=2), drop)
