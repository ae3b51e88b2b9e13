"""Decoding with a Transformer: the keys and values of the tokens read so far, as Flax variables
'cache'.

    (hidden, embeddings), variables = model.apply({'params': params, 'cache': cache}, tokens,
    mutable='cache')

In every array of a cache the rows of the batch are the second axis. A backbone's `empty_cache`
makes one.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.models import dropout
from gpt1_jax.models.fast import table
from gpt1_jax.models.ops import MASKED


def empty(config: Any, B: int, capacity: int) -> dict[str, Any]:
    """The cache of B rows without tokens. capacity: tokens that a row can hold."""
    zeros = jnp.zeros(
        (config.n_layer, B, config.n_head, capacity, config.n_embd // config.n_head), config.dtype
    )
    return {
        'length': jnp.zeros((1, B), jnp.int32),
        'blocks': {'attn': {'keys': zeros, 'values': zeros}},
    }


def bounded(model: nn.Module) -> bool:
    """Whether a row of the model's cache is full after n_ctx tokens: an LSTM's is a state, which
    never is."""
    return 'length' in jax.eval_shape(lambda: model.empty_cache(1))


def advance(model: nn.Module, tokens: jax.Array, real: jax.Array | None) -> jax.Array | None:
    """The positions of tokens int[B, L] that follow those in the cache, whose length grows by
    real[b], by default L. None without a cache."""
    if not model.has_variable('cache', 'length'):
        return None
    length: nn.Variable = model.variable('cache', 'length')
    positions = length.value[0, :, None] + jnp.arange(tokens.shape[1])[None]
    # Keys and values of padding are in the cache too: causal masking hides them until they are
    # overwritten.
    length.value = length.value + (tokens.shape[1] if real is None else real[None])
    return positions


def attention(
    module: nn.Module, qkv: jax.Array, layer: jax.Array | int, positions: jax.Array
) -> jax.Array:
    """Causal attention to all tokens so far, without dropout: [B, L, 3, H, E] -> [B, L, H, E].

    positions: int[B, L], of the queries. What the cache has at later positions is masked, so it may
    be anything finite. A causal attention of the user's (model.ops.attention) is computed over all
    positions of the cache.
    """
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    keys: nn.Variable = module.variable('cache', 'keys')  # of all layers: [N, B, H, C, E]
    values: nn.Variable = module.variable('cache', 'values')
    rows = jnp.arange(len(qkv))[:, None]
    at = layer, rows, slice(None), positions
    keys.value, values.value = keys.value.at[at].set(k), values.value.at[at].set(v)
    k = keys.value[layer]
    v = values.value[layer]
    code = dict(module.config.ops).get('attention')
    if code is not None:
        k, v = (jnp.swapaxes(x, 1, 2) for x in (k, v))  # [B, C, H, E]
        everywhere = jnp.stack([jnp.zeros_like(k).at[rows, positions].set(q), k, v], axis=2)
        return table.replacement('attention', code)(everywhere, dropout.NONE)[rows, positions]
    scores = (
        jnp.einsum('blhe,bhme->bhlm', q, k, preferred_element_type=jnp.float32)
        * q.shape[-1] ** -0.5
    )
    causal = jnp.arange(k.shape[2])[None, None] <= positions[:, :, None]
    probabilities = jax.nn.softmax(jnp.where(causal[:, None], scores, MASKED), axis=-1)
    return jnp.einsum('bhlm,bhme->blhe', probabilities.astype(q.dtype), v)
