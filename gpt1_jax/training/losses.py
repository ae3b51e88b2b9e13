"""Sections 3.1 and 3.2, Eqs. 1, 4, 5: the losses, as float32 means."""
import functools
from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.models.kernels import dispatch
from gpt1_jax.models.matmul import bfloat16_on_a_cpu, contract, sum_of_outer_products


def token_losses(hidden: jax.Array, rows: jax.Array, targets: jax.Array, chunks: int = 1,
                 logits: Any = None) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows.T), Eq. 2.

    hidden: [B, L, D]. rows: [R, D], the output layer. targets: int[B, L] below R. chunks: parts of L whose logits exist
    one after the other; more than one saves their memory, and recomputes them in the backward pass. logits: their
    type, by default hidden's, which is what training computes: in bfloat16 each logit is rounded to 8 bits, and a
    token's loss is off by about 0.005 nats, their mean by 1e-4. Returns float32[B, L], in nats.
    """
    logits = jnp.dtype(logits or hidden.dtype)
    B, L, D = hidden.shape
    part = -(-L // chunks)

    def losses(hidden, targets):
        # Where there are several chunks, their gradients of the rows are added up in float32.
        flat = hidden.reshape(-1, D), rows.astype(hidden.dtype), targets.reshape(-1)
        return _cross_entropy(*flat, logits).reshape(targets.shape)
    if chunks == 1:
        return losses(hidden, targets)
    # Positions are padded to equal chunks; the last line cuts their losses off.
    rows = rows.astype(jnp.float32)
    hidden = jnp.pad(hidden, ((0, 0), (0, part * chunks - L), (0, 0))).reshape(B, chunks, part, D)
    targets = jnp.pad(targets, ((0, 0), (0, part * chunks - L))).reshape(B, chunks, part)
    by_chunk = jax.lax.map(lambda each: jax.checkpoint(losses)(*each), (hidden.swapaxes(0, 1), targets.swapaxes(0, 1)))
    return by_chunk.swapaxes(0, 1).reshape(B, chunks * part)[:, :L]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _cross_entropy(hidden, rows, targets, dtype):
    """[T, D], [R, D], int[T] -> float32[T]. The gradient is written by hand, softmax - one-hot: that of automatic
    differentiation reads the logits twice as often. dtype: of the logits; sums are float32."""
    return _cross_entropy_forward(hidden, rows, targets, dtype)[0]


def _cross_entropy_forward(hidden, rows, targets, dtype):
    logits = contract(hidden, (1,), _padded(rows), (1,), dtype)
    normaliser = log_sum_exp(_values(logits, rows), in_one_pass=dispatch.device()[0] == 'gpu')
    label = jnp.take_along_axis(logits, targets[:, None], axis=-1, mode='clip')[:, 0].astype(jnp.float32)
    label = jnp.where((targets >= 0) & (targets < rows.shape[0]), label, jnp.nan)
    return normaliser - label, (hidden, rows, targets, logits, normaliser)


def _cross_entropy_backward(dtype, saved, gradient):
    hidden, rows, targets, logits, normaliser = saved
    # The gradient of -log P by the logits is softmax - one-hot; the softmax is exp(logits - normaliser).
    by_logit = jnp.exp(_values(logits, rows) - normaliser[:, None]) - _one_hot(targets, logits)
    by_logit = (by_logit * gradient[:, None]).astype(hidden.dtype)
    dhidden = contract(by_logit, (1,), _padded(rows), (0,))
    if bfloat16_on_a_cpu(hidden):
        drows = sum_of_outer_products(by_logit, hidden)
    else:
        # Were the rows of padding cut off inside the product, a TPU would write by_logit to memory for it.
        drows = jax.lax.optimization_barrier(by_logit.T @ hidden)
    return dhidden, drows[:rows.shape[0]], None


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def log_sum_exp(values: jax.Array, in_one_pass: bool) -> jax.Array:
    """log of the sum of exponentials of each row: float32[T, R] -> float32[T].

    in_one_pass: the maximum and the sum are reduced together (Milakov and Gimelshein, 2018), so that a GPU reads the
    logits once; elsewhere the reduction of a pair does not fuse, or is slow.
    """
    if not in_one_pass:
        top = jnp.max(values, axis=-1)
        return top + jnp.log(jnp.sum(jnp.exp(values - top[:, None]), axis=-1))

    def joined(a, b):
        """Of two parts of a row, each (maximum, sum of exponentials of what is below it)."""
        (top_a, sum_a), (top_b, sum_b) = a, b
        scale = jnp.exp(-jnp.abs(top_a - top_b))  # of the part with the smaller maximum
        first = top_a >= top_b
        return jnp.maximum(top_a, top_b), jnp.where(first, sum_a, sum_b) + scale * jnp.where(first, sum_b, sum_a)
    least = jnp.finfo(jnp.float32).min  # not minus infinity, of which two have no difference
    start = (jnp.float32(least), jnp.float32(0))
    top, total = jax.lax.reduce((jnp.maximum(values, least), jnp.ones_like(values)), start, joined, (1,))
    return top + jnp.log(total)


def _padded(rows):
    """In bfloat16, rows of zeros up to a multiple of 128: tensor cores are slow with a dimension such as 40,478."""
    if rows.dtype != jnp.bfloat16:
        return rows
    return jnp.pad(rows, ((0, -rows.shape[0] % 128), (0, 0)))


def _values(logits, rows):
    """The logits in float32; minus infinity for padding rows."""
    if logits.shape[1] == rows.shape[0]:
        return logits.astype(jnp.float32)
    real = jnp.arange(logits.shape[1])[None] < rows.shape[0]
    return jnp.where(real, logits.astype(jnp.float32), -jnp.inf)


def _one_hot(targets, logits):
    return jnp.arange(logits.shape[1])[None] == targets[:, None]


def pretraining_loss(hidden: jax.Array, embeddings: Any, targets: jax.Array, chunks: int = 1,
                     logits: Any = None) -> jax.Array:
    """Eq. 1 per row: the mean loss of a window's tokens; the softmax is over the vocabulary's rows. Returns float32[B].

    logits: as of `token_losses`.
    """
    return jnp.mean(token_losses(hidden, embeddings.tokens, targets, chunks, logits), axis=1)


def auxiliary_lm_loss(hidden: jax.Array, embeddings: Any, tokens: jax.Array, mask: jax.Array,
                      chunks: int = 1) -> jax.Array:
    """Eq. 5's L1 per sequence, as released (train.py 176-178): the mean over its own real tokens.

    hidden: [B, L, D]. tokens: int[B, L]. mask: [B, L], 1 at real tokens, the delimiter and extract tokens included.
    Released code: the softmax covers all rows of the embedding matrix, specials and positions too. It first shortens
    n_ctx to the longest example of the task and cuts the positions to as many rows (train.py 378, 409); here all n_ctx
    positions take part, which makes this loss a little larger. Returns float32[B].
    """
    losses = token_losses(hidden[:, :-1], jnp.concatenate(embeddings), tokens[:, 1:], chunks)
    weights = mask[:, 1:].astype(jnp.float32)
    return jnp.sum(losses * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1)


def task_loss(logits: jax.Array, target: jax.Array) -> jax.Array:
    """Eq. 4 per example: -sum of target x log P, which is -log P of the label where the target is one-hot.

    logits, target: [B, C]; the target's rows add up to 1. Returns float32[B].
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return -jnp.sum(jnp.where(target > 0, target * log_p, 0), axis=-1)


def squared_loss(values: jax.Array, target: jax.Array) -> jax.Array:
    """(value - target)^2 per example, for a score that is read out as one number. [B, 1] each; returns float32[B]."""
    return jnp.square(values.astype(jnp.float32) - target)[:, 0]
