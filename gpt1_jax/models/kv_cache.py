"""Decoding with a Transformer: the keys and values of the tokens read so far.

The cache is a tree of Flax variables, 'cache':

    cache = model.empty_cache(B)
    (hidden, rows), cache = kv_cache.read(model, params, cache, tokens)

The embedding finds `length` in the cache, the number of tokens read so far. Attention finds the
length, the keys and the values. The rows of the batch are the second axis of every array. Example:
after 'the old man' and two more tokens,

    length     [[3]] -> [[5]]
    keys       positions 0 to 2 are in use, then 0 to 4, and later positions are masked
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from gpt1_jax.models import dropout
from gpt1_jax.models.fast import table
from gpt1_jax.models.ops import MASKED
from gpt1_jax.parallel.sharding import constrain


def empty(config: Any, B: int, capacity: int) -> dict[str, Any]:
    """Returns the cache of B rows without tokens. capacity: tokens that a row can hold."""
    shape = (config.n_layer, B, config.n_head, capacity, config.n_embd // config.n_head)
    zeros = jnp.zeros(shape, config.dtype)
    length = jnp.zeros((1, B), jnp.int32)
    return {
        'embed': {'length': length},
        'blocks': {'attn': {'length': length, 'keys': zeros, 'values': zeros}},
    }


def read(
    model: nn.Module, params: Any, cache: dict, tokens: jax.Array, real: jax.Array | None = None
) -> tuple[Any, dict]:
    """Reads tokens, int[B, L], and returns (the model's result for them, the cache with them).

    real: int[B], how many of a row's tokens are not padding, by default all. Keys and values of
    padding also enter the cache: they are masked until later tokens overwrite them.
    """
    B, L = tokens.shape
    real = jnp.full((1, B), L) if real is None else real[None]
    before = _replaced(cache, 'real', lambda _: real)
    found, after = model.apply({'params': params, 'cache': before}, tokens, mutable='cache')
    return found, _replaced(after['cache'], 'length', lambda length: length + real)


def bounded(model: nn.Module) -> bool:
    """Whether a row of the model's cache is full after n_ctx tokens.

    An LSTM's cache is a state, which is never full.
    """
    lengths: list = []
    _replaced(jax.eval_shape(lambda: model.empty_cache(1)), 'length', lengths.append)
    return bool(lengths)


def _replaced(cache, name, change):
    """Returns the cache with change(array) in place of each array of this name."""

    def replaced(path, array):
        return change(array) if path[-1].key == name else array

    return jax.tree_util.tree_map_with_path(replaced, cache)


def positions(module: nn.Module, L: int) -> jax.Array:
    """Returns int[B, L], the positions of L tokens that follow the tokens in the module's cache."""
    return module.get_variable('cache', 'length')[0, :, None] + jnp.arange(L)[None]


def following(module: nn.Module, rows: jax.Array, L: int) -> jax.Array:
    """The rows [C, D] of the L positions that follow the tokens in the cache: [B or 1, L, D]."""
    rows = constrain(rows, 'embeddings')
    if module.has_variable('cache', 'length'):
        return jnp.take(rows, positions(module, L), axis=0, mode='clip')
    return rows[None, :L]


def attention(module: nn.Module, qkv: jax.Array, layer: jax.Array | int) -> jax.Array:
    """Causal attention to all tokens so far, without dropout: [B, L, 3, H, E] -> [B, L, H, E].

    Later positions of the cache are masked, so they may hold anything finite. If the user replaced
    attention (model.ops.attention), the replacement runs over all positions of the cache.
    """
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    places = positions(module, qkv.shape[1])
    rows = jnp.arange(len(qkv))[:, None]

    def cached(name, new):
        """The layer's part of a variable with the new tokens in it: [B, H, C, E]."""
        all_layers = module.get_variable('cache', name)  # [N, B, H, C, E]
        all_layers = all_layers.at[layer, rows, :, places].set(new)
        module.put_variable('cache', name, all_layers)
        return all_layers[layer]

    k = cached('keys', k)
    v = cached('values', v)
    code = dict(module.config.ops).get('attention')
    if code is not None:
        k, v = (jnp.swapaxes(x, 1, 2) for x in (k, v))  # [B, C, H, E]
        everywhere = jnp.stack([jnp.zeros_like(k).at[rows, places].set(q), k, v], axis=2)
        return table.replacement('attention', code)(everywhere, dropout.NONE)[rows, places]
    scores = (
        jnp.einsum('blhe,bhme->bhlm', q, k, preferred_element_type=jnp.float32)
        * q.shape[-1] ** -0.5
    )
    causal = jnp.arange(k.shape[2])[None, None] <= places[:, :, None]
    probabilities = jax.nn.softmax(jnp.where(causal[:, None], scores, MASKED), axis=-1)
    return jnp.einsum('bhlm,bhme->blhe', probabilities.astype(q.dtype), v)
