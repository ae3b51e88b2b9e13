"""Sections 3.1 and 4.1: the operations of GPT-1, each by its formula, with automatic gradients.

models/fast/ has the same operations, faster. They are tested against these
(tests/models/test_ops.py). With `config.model.kernels = 'plain'` a model computes with these
operations on any device.

An activation's dtype is float32 or bfloat16, and parameters are float32. Sums, softmax, LayerNorm
and GELU are computed in float32. Axes are added by hand (`scale[None, None]`), because the tests
forbid implicit rank promotion (tests/conftest.py). R is the rows of the embedding matrix, T tokens,
I and O the input and output dimensions of a dense layer. The other letters are as in gpt.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.models.dropout import Dropout

MASKED = -1e9  # replaces the score of a later position, as released


def attention(qkv: jax.Array, drop: Dropout) -> jax.Array:
    """softmax(q k^T / sqrt(E), causal) v, with dropout on the probabilities.

    [B, L, 3, H, E] -> [B, L, H, E].
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


def gelu(x: jax.Array) -> jax.Array:
    """The Gaussian Error Linear Unit, in its tanh form as released (train.py 22-23)."""
    z = x.astype(jnp.float32)
    u = (2 / jnp.pi) ** 0.5 * (z + 0.044715 * z * z * z)
    return (0.5 * z * (1 + jnp.tanh(u))).astype(x.dtype)


def add_and_norm(
    x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, drop: Dropout
) -> jax.Array:
    """LayerNorm(x + dropout(a)) for the residual stream x and a sublayer's output a.

    x, a: [B, L, D]. scale, bias: [D].
    """
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


def dense(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """x @ kernel + bias: [B, L, *I], [*I, *O], [*O] -> [B, L, *O]."""
    return add_bias(jnp.tensordot(x, kernel.astype(x.dtype), kernel.ndim - bias.ndim), bias)


def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """x + bias.

    The addition is in float32. So is the bias's gradient, a sum over thousands of positions.
    """
    bias = jnp.expand_dims(bias, range(x.ndim - bias.ndim))
    return (x.astype(jnp.float32) + bias).astype(x.dtype)


def look_up(matrix: jax.Array, ids: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """(matrix[ids] [B, L, D], the matrix [R, D]), rounded to `dtype`. NaN for an id of R or more.

    The gradient by the matrix is summed in float32 over the positions of an id.
    """
    return jnp.take(matrix, ids, axis=0).astype(dtype), matrix.astype(dtype)


def logits(hidden: jax.Array, rows: jax.Array) -> jax.Array:
    """hidden @ rows^T, [T, D], [R, D] -> float32[T, R]. Its softmax is P(u), Eq. 2."""
    return jnp.einsum('td,rd->tr', hidden, rows, preferred_element_type=jnp.float32)


def cross_entropy(hidden: jax.Array, rows: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows^T), Eq. 2: [T, D], [R, D], [T] -> [T].

    dtype: of the logits. The result is float32, and NaN if a target is R or more.
    """
    scores = jnp.einsum('td,rd->tr', hidden, rows, preferred_element_type=dtype)
    return log_loss(scores, targets)


def log_loss(scores: jax.Array, targets: jax.Array) -> jax.Array:
    """-log P of each target under softmax(scores), computed in float32: [T, R], [T] -> [T]."""
    log_p = jnp.take_along_axis(
        jax.nn.log_softmax(scores.astype(jnp.float32)),
        targets[:, None],
        axis=1,
        mode='fill',
        fill_value=jnp.nan,
    )
    return -log_p[:, 0]


class Ops(NamedTuple):
    """The operations that a model computes with: these, or replacements (fast/table.py)."""

    look_up: Callable = look_up
    dense: Callable = dense
    gelu: Callable = gelu
    attention: Callable = attention
    add_and_norm: Callable = add_and_norm
    cross_entropy: Callable = cross_entropy
    logits: Callable = logits


PLAIN = Ops()
