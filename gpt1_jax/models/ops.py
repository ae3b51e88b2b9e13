"""Sections 3.1 and 4.1: the operations of GPT-1, each by its formula, with automatic gradients.

models/fast/ has the same operations, faster: they are tested against these
(tests/models/test_ops.py), and `config.model.kernels = 'plain'` computes with these instead, on any
device. An activation's dtype is float32 or bfloat16; parameters are float32. Sums, softmax,
LayerNorm and GELU are computed in float32. Axes are added by hand (`scale[None, None]`), as the
tests forbid implicit rank promotion (tests/conftest.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpt1_jax.models import dropout

MASKED = -1e9  # replaces the score of a later position, as released


class Ops(NamedTuple):
    """The operations that a model computes with: those of this file, or others in their place
    (fast/table.py).

    R rows of a table, T tokens, I and O the input and output dimensions of a kernel; the other
    letters as in gpt.py.
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
    """table[ids] in the dtype of `whole`, the rounded table that is also the output layer. NaN for
    an id out of range.

    The gradient is the table's, summed in float32 over the positions of an id. fast/xla.py reads
    `whole`, which every device of a mesh has: were it made there a second time, the mesh would
    gather it twice.
    """
    return jnp.take(table, ids, axis=0).astype(whole.dtype)


def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """x + bias. The sum of the bias's gradient over thousands of positions is float32, as this
    addition is."""
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
    """softmax(q k^T / sqrt(E), causal) v, with dropout on the probabilities. qkv: [B, L, 3, H,
    E]."""
    q, k, v = jnp.moveaxis(qkv, 2, 0)
    return jnp.einsum('bhlm,bmhe->blhe', drop(causal_probabilities(q, k).astype(v.dtype)), v)


def causal_probabilities(q: jax.Array, k: jax.Array) -> jax.Array:
    """The attention probabilities of q, k [B, L, H, E]: float32[B, H, L, L], query by key."""
    L = q.shape[1]
    E = q.shape[3]
    scores = jnp.einsum('blhe,bmhe->bhlm', q, k, preferred_element_type=jnp.float32) * E**-0.5
    # There is no padding mask, as padding is right of every token whose state is used.
    causal = jnp.tril(jnp.ones((L, L), bool))
    return jax.nn.softmax(jnp.where(causal[None, None], scores, MASKED), axis=-1)


def add_and_norm(
    x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, drop: dropout.Dropout
) -> jax.Array:
    """LayerNorm(x + dropout(a)): x is the residual stream, a the output of a sublayer."""
    normed, _ = normalise(x.astype(jnp.float32) + drop(a.astype(jnp.float32)))
    return (normed * scale[None, None] + bias[None, None]).astype(x.dtype)


def normalise(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(float32 vectors with mean 0 and variance 1; 1 / their deviation before, for the gradient in
    fast/xla.py)."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    # Epsilon as released (train.py 44-50), as the biased variance is
    inverse = jax.lax.rsqrt(variance + 1e-5)
    return (x - mean) * inverse, inverse


def cross_entropy(hidden: jax.Array, rows: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows^T), Eq. 2; NaN for a target that is no
    row."""
    logits = jnp.einsum('td,rd->tr', hidden, rows, preferred_element_type=dtype).astype(jnp.float32)
    log_p = jnp.take_along_axis(
        jax.nn.log_softmax(logits), targets[:, None], axis=1, mode='fill', fill_value=jnp.nan
    )
    return -log_p[:, 0]


PLAIN = Ops(look_up, dense, gelu, attention, add_and_norm, cross_entropy)
