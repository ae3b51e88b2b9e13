"""Section 3.1, Eq. 2: the attention probabilities of each head of each layer.

Flax captures the queries and keys of the model, whose fused attention may never hold the probabilities.
"""
import functools
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.errors import UserError
from gpt1_jax.models import precision
from gpt1_jax.models.ops import causal_probabilities


def attention_maps(model: Any, params: Any, tokens: Any) -> jax.Array:
    """float32[N, B, H, L, L]: how much position i attends to position j, as transformers' `output_attentions`.

    Rows sum to 1; j > i is 0. No dropout. model, params: a GPT, of a fine-tuned run its backbone. tokens: int[B, L].
    UserError for an LSTM, and for more tokens than the context holds.
    """
    if not hasattr(model.config, 'n_head'):
        raise UserError("an LSTM has no attention: model.kind is 'lstm'")
    with precision.within(precision.of(model.config)):
        return _maps(model)(params, jnp.asarray(tokens))


@functools.lru_cache
def _maps(model):
    @jax.jit
    def maps(params, tokens):
        _, found = model.apply({'params': params}, tokens, mutable=['intermediates'],
                               capture_intermediates=lambda module, _: module.name == 'qkv')
        (qkv,) = found['intermediates']['blocks']['attn']['qkv']['__call__']  # [N, B, L, 3, H, E]
        return jax.vmap(causal_probabilities)(qkv[:, :, :, 0], qkv[:, :, :, 1])
    return maps
