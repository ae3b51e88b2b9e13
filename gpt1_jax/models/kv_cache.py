"""Decoding with a Transformer: the keys and values of the tokens read so far, as Flax variables
'cache'.

    cache = model.empty_cache(B) (hidden, embeddings), cache = kv_cache.read(model, params, cache,
    tokens)

A backbone's modules find in the cache what they need: the embedding its `length`, the tokens read
so far, and attention that length, keys and values. The rows of the batch are the second axis of
every array. Example: after 'the old man' and two more tokens,

    length     [[3]] -> [[5]]
    keys       positions 0 to 2 are in use, then 0 to 4; later ones are masked
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
    """(what the model returns for tokens int[B, L], the cache with them).

    real: int[B], how many of a row's tokens are no padding, by default all. Padding's keys and
    values are in the cache too: they are masked until later tokens overwrite them.
    """
    B, L = tokens.shape
    real = jnp.full((1, B), L) if real is None else real[None]
    before = _replaced(cache, 'real', lambda _: real)
    found, after = model.apply({'params': params, 'cache': before}, tokens, mutable='cache')
    return found, _replaced(after['cache'], 'length', lambda length: length + real)


def restarted(cache: dict, rows: Any) -> dict:
    """The cache without the tokens of these rows, bool[B]. Only for one that has a length."""
    return _replaced(cache, 'length', lambda length: jnp.where(rows[None], 0, length))


def bounded(model: nn.Module) -> bool:
    """Whether a row of the model's cache is full after n_ctx tokens: an LSTM's is a state, which
    never is."""
    lengths: list = []
    _replaced(jax.eval_shape(lambda: model.empty_cache(1)), 'length', lengths.append)
    return bool(lengths)


def _replaced(cache, name, change):
    """The cache with change(array) in place of each array of this name."""

    def replaced(path, array):
        return change(array) if path[-1].key == name else array

    return jax.tree_util.tree_map_with_path(replaced, cache)


def positions(module: nn.Module, L: int) -> jax.Array:
    """int[B, L], the positions of L tokens that follow those in the module's cache."""
    return module.get_variable('cache', 'length')[0, :, None] + jnp.arange(L)[None]


def attention(module: nn.Module, qkv: jax.Array, layer: jax.Array | int) -> jax.Array:
    """Causal attention to all tokens so far, without dropout: [B, L, 3, H, E] -> [B, L, H, E].

    What the cache has at later positions is masked, so it may be anything finite. A causal
    attention of the user's (model.ops.attention) is computed over all positions of the cache.
    """
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    keys: nn.Variable = module.variable('cache', 'keys')  # of all layers: [N, B, H, C, E]
    values: nn.Variable = module.variable('cache', 'values')
    places = positions(module, qkv.shape[1])
    rows = jnp.arange(len(qkv))[:, None]
    at = layer, rows, slice(None), places
    keys.value = keys.value.at[at].set(k)
    values.value = values.value.at[at].set(v)
    k = keys.value[layer]
    v = values.value[layer]
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
