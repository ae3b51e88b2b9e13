"""Sections 3.1 and 3.2, Eqs. 1, 4, 5: the losses, as float32 means."""

from typing import Any

import jax
import jax.numpy as jnp

from gpt1_jax.models.ops import PLAIN, Ops


def token_losses(
    hidden: jax.Array,
    rows: jax.Array,
    targets: jax.Array,
    chunks: int = 1,
    logits_dtype: Any = None,
    ops: Ops = PLAIN,
) -> jax.Array:
    """-log P of each target under softmax(hidden @ rows.T), Eq. 2: float32[B, L], in nats.

    hidden: [B, L, D]. rows: [R, D], the output layer. targets: int[B, L] below R.
    chunks: equal parts that L is split into. If there are several, only one part's logits exist at
        a time, and they are recomputed in the backward pass.
    logits_dtype: by default hidden's, as in training. In bfloat16 each logit is rounded to 8 bits:
        a token's loss is off by about 0.005 nats, and their mean by 1e-4.
    ops: the model's operations, see models/fast/table.py.
    """
    logits_dtype = jnp.dtype(logits_dtype or hidden.dtype)
    B, L, D = hidden.shape
    part = -(-L // chunks)

    def losses(hidden, targets, rows):
        flat = hidden.reshape(-1, D), rows.astype(hidden.dtype), targets.reshape(-1)
        return ops.cross_entropy(*flat, logits_dtype).reshape(targets.shape)

    if chunks == 1:
        return losses(hidden, targets, rows)
    rows = rows.astype(jnp.float32)  # the dtype in which their gradients are summed over the chunks
    # Positions are padded to equal chunks. The last line cuts off the losses of the padding.
    hidden = jnp.pad(hidden, ((0, 0), (0, part * chunks - L), (0, 0))).reshape(B, chunks, part, D)
    targets = jnp.pad(targets, ((0, 0), (0, part * chunks - L))).reshape(B, chunks, part)
    by_chunk = jax.lax.map(
        lambda chunk: jax.checkpoint(losses)(*chunk, rows),
        (hidden.swapaxes(0, 1), targets.swapaxes(0, 1)),
    )
    return by_chunk.swapaxes(0, 1).reshape(B, chunks * part)[:, :L]


def pretraining_loss(
    hidden: jax.Array,
    embeddings: Any,
    targets: jax.Array,
    chunks: int = 1,
    logits_dtype: Any = None,
    ops: Ops = PLAIN,
) -> jax.Array:
    """Eq. 1 per row, float32[B]: the mean of a window's token_losses.

    The softmax is over the vocabulary's rows.
    """
    return jnp.mean(
        token_losses(hidden, embeddings.tokens, targets, chunks, logits_dtype, ops), axis=1
    )


def auxiliary_lm_loss(
    hidden: jax.Array,
    embeddings: Any,
    tokens: jax.Array,
    mask: jax.Array,
    chunks: int = 1,
    ops: Ops = PLAIN,
) -> jax.Array:
    """Eq. 5's L1 per sequence, float32[B]: the mean over the sequence's real tokens.

    As in the released code (train.py 176-178), with a softmax over all rows of the embedding
    matrix, also specials and positions. The released code first shortens n_ctx to the longest
    example of the task, and cuts the positions to as many rows (train.py 378, 409). Here all n_ctx
    positions take part, which makes this loss a little larger.

    hidden: [B, L, D]. tokens: int[B, L]. mask: [B, L], 1 at real tokens, including the delimiter
    and extract tokens.
    """
    losses = token_losses(
        hidden[:, :-1], jnp.concatenate(embeddings), tokens[:, 1:], chunks, ops=ops
    )
    weights = mask[:, 1:].astype(jnp.float32)
    return jnp.sum(losses * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1)


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
