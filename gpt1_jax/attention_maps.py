"""Section 3.1, Eq. 2: where each head of each layer looks. Nothing of it is in the model, which may attend by a fused
kernel that never holds these probabilities: Flax captures the queries and keys that the model computes anyway."""
import functools

import jax
import jax.numpy as jnp

from gpt1_jax.attention import causal_probabilities
from gpt1_jax.errors import UserError


def attention_maps(model, params, tokens):
    """float32[N, B, H, L, L]: how much position i of each text attends to position j, [..., i, j]: each i adds up to 1,
    what is after it is 0.

    model, params: a GPT, of a fine-tuned run its backbone. tokens: int[B, L]. Without dropout. Equal to transformers'
    `output_attentions`. UserError for an LSTM, and for more tokens than the context holds.
    """
    if not hasattr(model.config, 'n_head'):
        raise UserError("an LSTM has no attention to show: model.kind is 'lstm'")
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
