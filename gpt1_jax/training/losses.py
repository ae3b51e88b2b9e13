"""Sections 3.1 and 3.2, Eqs. 1, 4 and 5: the losses, in float32.

The paper maximises sums of log P. Here each loss is -log P in nats, averaged over a sequence's
tokens and, by the caller, over the batch. The sum of Eq. 5, L2 + lambda L1, is in finetuning.py.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.models.ops import PLAIN, Ops


def pretraining_loss(
    hidden: jax.Array, rows: jax.Array, targets: jax.Array, **how: Any
) -> jax.Array:
    """Eq. 1 per window, float32[B]: the mean of -log P(u_i | u_i-k, ..., u_i-1) over its tokens.

    rows: [V, D], the vocabulary's rows of the embedding matrix. how, hidden, targets: as in
    token_losses.
    """
    return jnp.mean(token_losses(hidden, rows, targets, **how), axis=1)


def task_loss(logits: jax.Array, target: jax.Array) -> jax.Array:
    """Eq. 4 per example, float32[B]: -sum of target x log P.

    For a one-hot target this is -log P of the label. logits, target: [B, labels or choices]. Each
    row of the target adds up to 1.
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return -jnp.sum(target * log_p, axis=-1)


def squared_loss(values: jax.Array, target: jax.Array) -> jax.Array:
    """(value - target)^2 per example, float32[B], for a score that the model outputs as one number.

    values, target: [B, 1].
    """
    return jnp.square(values.astype(jnp.float32) - target)[:, 0]


def auxiliary_lm_loss(
    hidden: jax.Array, rows: jax.Array, tokens: jax.Array, mask: jax.Array, **how: Any
) -> jax.Array:
    """Eq. 5's L1 per sequence, float32[B]: the mean over the sequence's real tokens.

    As in the released code (train.py 176-178), with a softmax over all rows of the embedding
    matrix, also specials and positions. The released code first shortens n_ctx to the longest
    example of the task, and cuts the positions to as many rows (train.py 378, 409). Here all n_ctx
    positions take part, which makes this loss a little larger.

    rows: [V + S + C, D]. tokens: int[B, L]. mask: [B, L], 1 at real tokens, including the delimiter
    and extract tokens.
    """
    losses = token_losses(hidden[:, :-1], rows, tokens[:, 1:], **how)
    weights = mask[:, 1:].astype(jnp.float32)
    return jnp.sum(losses * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1)


def token_losses(
    hidden: jax.Array,
    rows: jax.Array,
    targets: jax.Array,
    chunks: int = 1,
    logits_dtype: Any = None,
    ops: Ops = PLAIN,
) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows^T), Eq. 2: float32[B, L].

    hidden: [B, L, D]. rows: [R, D], the output layer. targets: int[B, L] below R.
    chunks: equal parts that L is split into. If there are several, only one part's logits exist at
        a time, and they are recomputed in the backward pass.
    logits_dtype: by default hidden's, as in training. In bfloat16 each logit is rounded to 8 bits:
        a token's loss is off by about 0.005 nats, and their mean by 1e-4.
    ops: the model's operations, see models/fast/table.py.
    """
    B, L, D = hidden.shape
    dtype = jnp.dtype(logits_dtype or hidden.dtype)

    def losses(hidden, targets, rows):
        flat = hidden.reshape(-1, D), rows.astype(hidden.dtype), targets.reshape(-1)
        return ops.cross_entropy(*flat, dtype).reshape(targets.shape)

    if chunks == 1:
        return losses(hidden, targets, rows)
    part = -(-L // chunks)

    def split(x):
        """[B, L, ...] -> [chunks, B, part, ...], padded with zeros."""
        x = jnp.pad(x, ((0, 0), (0, part * chunks - L), *[(0, 0)] * (x.ndim - 2)))
        return x.reshape(B, chunks, part, *x.shape[2:]).swapaxes(0, 1)

    rows = rows.astype(jnp.float32)  # the dtype in which their gradients are summed over the chunks
    by_chunk = jax.lax.map(
        lambda chunk: jax.checkpoint(losses)(*chunk, rows), (split(hidden), split(targets))
    )
    return by_chunk.swapaxes(0, 1).reshape(B, chunks * part)[:, :L]
