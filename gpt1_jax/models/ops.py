"""Sections 3.1 and 4.1: the operations of GPT-1, each by its formula, with automatic gradients.

models/fast/ has the same operations, faster. They are tested against these
(tests/models/test_ops.py). With `config.model.kernels = 'plain'` a model computes with these
operations on any device.

An activation's dtype is float32 or bfloat16, and parameters are float32. Sums, softmax, LayerNorm
and GELU are computed in float32. Axes are added by hand (`scale[None, None]`), because the tests
forbid implicit rank promotion (tests/conftest.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.models import dropout

MASKED = -1e9  # replaces the score of a later position, as released


class Ops(NamedTuple):
    """The operations that a model computes with: this file's, or replacements (fast/table.py).

    R is the rows of a table, T tokens, I and O the input and output dimensions of a kernel. The
    other letters are as in gpt.py.
    """

    # (table [R, D], ids [B, L], whole: the table in the activations' dtype) -> [B, L, D]
    look_up: Callable
    dense: Callable  # (x [B, L, *I], kernel [*I, *O], bias [*O]) -> [B, L, *O]
    gelu: Callable  # (x) -> x
    attention: Callable  # (qkv [B, L, 3, H, E], dropout) -> [B, L, H, E]
    add_and_norm: Callable  # (x [B, L, D], a [B, L, D], scale [D], bias [D], dropout) -> [B, L, D]
    # (hidden [T, D], rows [R, D], targets [T], dtype of the logits) -> float32[T]
    cross_entropy: Callable


def look_up(table: jax.Array, ids: jax.Array, whole: jax.Array) -> jax.Array:
    """Returns table[ids] in the dtype of `whole`, with NaN for an id out of range.

    `whole` is the rounded table that is also the output layer. fast/xla.py reads it because every
    device of a mesh has it: a table rounded here would be gathered a second time.

    The gradient is the table's, summed in float32 over the positions of an id.
    """
    return jnp.take(table, ids, axis=0).astype(whole.dtype)


def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """x + bias.

    The addition is in float32. So is the bias's gradient, a sum over thousands of positions.
    """
    return (x.astype(jnp.float32) + jnp.expand_dims(bias, range(x.ndim - bias.ndim))).astype(
        x.dtype
    )


def dense(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """x @ kernel + bias, summed over all the kernel's dimensions that the bias lacks."""
    return add_bias(jnp.tensordot(x, kernel.astype(x.dtype), kernel.ndim - bias.ndim), bias)


def gelu(x: jax.Array) -> jax.Array:
    """The Gaussian Error Linear Unit, in its tanh form as released (train.py 22-23)."""
    z = x.astype(jnp.float32)
    u = (2 / jnp.pi) ** 0.5 * (z + 0.044715 * z * z * z)
    return (0.5 * z * (1 + jnp.tanh(u))).astype(x.dtype)


def attention(qkv: jax.Array, drop: dropout.Dropout) -> jax.Array:
    """softmax(q k^T / sqrt(E), causal) v, with dropout on the probabilities.

    qkv: [B, L, 3, H, E].
    """
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    return jnp.einsum('bhlm,bmhe->blhe', drop(causal_probabilities(q, k).astype(v.dtype)), v)


def causal_probabilities(q: jax.Array, k: jax.Array) -> jax.Array:
    """The attention probabilities of q, k [B, L, H, E]: float32[B, H, L, L], query by key."""
    L = q.shape[1]
    E = q.shape[3]
    scores = jnp.einsum('blhe,bmhe->bhlm', q, k, preferred_element_type=jnp.float32) * E**-0.5
    # There is no padding mask: padding is right of every token whose state is used.
    causal = jnp.tril(jnp.ones((L, L), bool))
    return jax.nn.softmax(jnp.where(causal[None, None], scores, MASKED), axis=-1)


def add_and_norm(
    x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, drop: dropout.Dropout
) -> jax.Array:
    """LayerNorm(x + dropout(a)): x is the residual stream, a the output of a sublayer."""
    normed, _ = normalise(x.astype(jnp.float32) + drop(a.astype(jnp.float32)))
    return (normed * scale[None, None] + bias[None, None]).astype(x.dtype)


def normalise(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns (vectors with mean 0 and variance 1 in float32, 1 / their deviation before).

    The gradient in fast/xla.py needs the second.
    """
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    # As released (train.py 44-50): epsilon, and the biased variance
    inverse = jax.lax.rsqrt(variance + 1e-5)
    return (x - mean) * inverse, inverse


def cross_entropy(hidden: jax.Array, rows: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows^T), Eq. 2.

    The loss is NaN if a target is not a row.
    """
    logits = jnp.einsum('td,rd->tr', hidden, rows, preferred_element_type=dtype).astype(jnp.float32)
    log_p = jnp.take_along_axis(
        jax.nn.log_softmax(logits), targets[:, None], axis=1, mode='fill', fill_value=jnp.nan
    )
    return -log_p[:, 0]


PLAIN = Ops(look_up, dense, gelu, attention, add_and_norm, cross_entropy)
