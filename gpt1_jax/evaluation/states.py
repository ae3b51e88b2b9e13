"""Computes hidden states (Section 3.2) and attention probabilities (Section 3.1) of sequences."""

import collections
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gpt1_jax.errors import UserError
from gpt1_jax.evaluation import padding
from gpt1_jax.models.build import precision
from gpt1_jax.models.ops import causal_probabilities
from gpt1_jax.parallel import sharding
from gpt1_jax.training import compiling

TOKENS = 4096  # in a batch


def mean_states(
    model: Any, params: Any, mesh: Mesh, sequences: Sequence[tuple[Sequence[int], int]]
) -> np.ndarray:
    """The mean of the last block's hidden states at the last m tokens of each (ids, m).

    The result is float32[n, D], with zeros if m is 0. With m = 1 it is h_l^m, which a fine-tuned
    classifier reads at the extract token. No sequence may be longer than the context. model,
    params: a backbone.
    """
    by_length = collections.defaultdict(list)
    for i, (ids, _) in enumerate(sequences):
        by_length[padding.padded(len(ids), model.config.n_ctx)].append(i)
    found = np.zeros((len(sequences), model.config.n_embd), np.float32)
    for length, chosen in by_length.items():
        rows = padding.power_of_two(len(chosen))  # so that few programs are compiled
        size = padding.batch_size(min(TOKENS, length * rows), length, mesh)
        tokens = np.zeros((len(chosen), length), np.int32)
        read = np.zeros((len(chosen), length), bool)
        for row, i in enumerate(chosen):
            ids, m = sequences[i]
            tokens[row, : len(ids)] = ids
            read[row, len(ids) - m : len(ids)] = True
        found[chosen] = padding.in_batches(
            functools.partial(_mean_states(model, mesh), params), size, tokens, read
        )
    return found


@functools.lru_cache
def _mean_states(model, mesh):
    """(params, tokens int[B, L], read bool[B, L]) -> float32[B, D].

    The result is the mean of the hidden states that are read.
    """
    rows = sharding.batch_sharding(mesh)

    @functools.partial(
        jax.jit, in_shardings=(None, rows, rows), out_shardings=sharding.replicated(mesh)
    )
    def mean_states(params, tokens, read):
        hidden, _ = model.apply({'params': params}, tokens)
        total = jnp.where(read[..., None], hidden.astype(jnp.float32), 0).sum(axis=1)
        return total / jnp.maximum(read.sum(axis=1, keepdims=True), 1)

    return compiling.on_mesh(mean_states, mesh, precision(model.config))


def attention_maps(model: Any, params: Any, tokens: Any) -> jax.Array:
    """How much position i attends to position j: float32[N, B, H, L, L].

    The layout is as in transformers' `output_attentions`. Rows sum to 1, and entries with j > i are
    0. No dropout.

    model, params: a GPT, or the backbone of a fine-tuned run. tokens: int[B, L]. UserError for an
    LSTM, for model.ops.attention, and for more tokens than the context holds.
    """
    if not hasattr(model.config, 'n_head'):
        raise UserError("an LSTM has no attention: model.kind is 'lstm'")
    if 'attention' in dict(getattr(model.config, 'ops', ())):
        raise UserError(
            'model.ops.attention is code of its own, whose attention probabilities are not known'
        )
    with precision(model.config)():
        return _maps(model, params, jnp.asarray(tokens))


@functools.partial(jax.jit, static_argnums=0)
def _maps(model, params, tokens):
    # Queries and keys are captured, because the model's fused attention may never hold the
    # probabilities.
    _, found = model.apply(
        {'params': params},
        tokens,
        mutable=['intermediates'],
        capture_intermediates=lambda module, _: module.name == 'qkv',
    )
    (qkv,) = found['intermediates']['blocks']['attn']['qkv']['__call__']  # [N, B, L, 3, H, E]
    return jax.vmap(causal_probabilities)(qkv[:, :, :, 0], qkv[:, :, :, 1])
