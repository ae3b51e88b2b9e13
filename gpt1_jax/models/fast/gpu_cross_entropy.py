"""Eq. 2: the loss and its gradient by the logits in one pass over memory, for NVIDIA GPUs.

XLA reads the logits once for the sum of exponentials and once more for the gradient, and writes the
gradient beside them. Here a program goes three times through one row of logits, and only the first
time reads it from memory: later the row is in the cache. The third time it writes the gradient in
place of the logits, already in the forward pass. Without gradients it only reads.

The gradient of a loss by its logits is softmax - one-hot times the gradient of the loss, which the
forward pass does not know. So the program writes softmax - one-hot. The factor later multiplies the
other operand, or the result, of the two products. Written in Pallas for Triton.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from gpt1_jax.models.fast import pallas_triton, per_device, xla

# Not timed on a device yet.
CHUNK = 4096  # logits that a program holds at a time, a power of two and a multiple of 128
WARPS = 16  # groups of 32 threads of a program

LOG2E = math.log2(math.e)  # GPUs compute 2^x, so logits are multiplied by log2(e)
# Replaces a logit of padding. It is finite, because the difference of two infinities is NaN
LEAST = -3e38


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def cross_entropy(hidden: jax.Array, rows: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    """ops.cross_entropy, up to rounding."""
    logits = xla.matmul(hidden, xla.padded(rows), 1, dtype)
    (loss,) = _losses(logits, targets, rows.shape[0], False)
    return loss


def _saving(hidden, rows, targets, dtype):
    logits = xla.matmul(hidden, xla.padded(rows), 1, dtype)
    loss, by_logit = _losses(logits, targets, rows.shape[0], True)
    return loss, (hidden, rows, by_logit)


def _gradient(dtype, saved, by_loss):
    hidden, rows, by_logit = saved
    by_logit = by_logit.astype(hidden.dtype)

    def scaled(x):
        return (x.astype(jnp.float32) * by_loss[:, None]).astype(x.dtype)

    by_hidden = scaled(xla.matmul(by_logit, xla.padded(rows), 0, hidden.dtype))
    # The barrier: see xla.cross_entropy.
    by_rows = lax.optimization_barrier(xla.outer(by_logit, scaled(hidden)))
    return by_hidden, by_rows[: rows.shape[0]], None


cross_entropy.defvjp(_saving, _gradient)


def _losses(logits, targets, real, with_gradient):
    """Returns (loss float32[T],), or with_gradient also softmax - one-hot [T, R].

    The gradient is in the memory of the logits.

    logits: [T, R]. The first `real` of a row are logits and the others padding.
    """

    def kernel(logits, targets):
        T, R = logits.shape
        number = pl.BlockSpec((1,), lambda t: (t,))
        row = pl.BlockSpec((None, R), lambda t: (t, 0))
        results = 1 + with_gradient
        return pallas_triton.call(
            functools.partial(_loss_kernel, real=real, chunk=CHUNK),
            WARPS,
            1,
            grid=(T,),
            in_specs=[row, number],
            out_specs=[number, row][:results],
            out_shape=[
                jax.ShapeDtypeStruct((T,), jnp.float32),
                jax.ShapeDtypeStruct((T, R), logits.dtype),
            ][:results],
            input_output_aliases={0: 1} if with_gradient else {},
        )(logits, targets)

    return per_device.on_each(
        kernel, (logits, targets), ('BR', 'B'), ('B', 'BR') if with_gradient else ('B',)
    )


def _loss_kernel(logits, targets, loss, *gradient, real, chunk):
    """Computes the loss of one row of logits, and its gradient if there is an array for it."""
    R = logits.shape[0]
    columns = jnp.arange(chunk, dtype=jnp.int32)
    whole = real // chunk  # chunks without padding, which at most one chunk follows
    last = whole * chunk + columns  # the columns of the last chunk, some of them behind the row
    target = targets[0]
    # Read before the first reduction, at which all warps wait for each other. Later another warp
    # may have written the gradient in its place.
    label = logits[jnp.clip(target, 0, real - 1)].astype(jnp.float32)

    def chunk_at(n):
        return logits[n * chunk + columns].astype(jnp.float32) * LOG2E

    def last_chunk():
        # Up to R, not up to `real`, which need not be a multiple of the eight logits that a thread
        # loads at once.
        values = pallas_triton.load(logits.at[last], mask=last < R, other=0).astype(jnp.float32)
        return jnp.where(last < real, values * LOG2E, LEAST)

    def over_the_row(step, state):
        """Returns the state after step(state, values) for each chunk."""
        state = lax.fori_loop(0, whole, lambda n, state: step(state, chunk_at(n)), state)
        return step(state, last_chunk()) if whole * chunk < R else state

    top = over_the_row(jnp.maximum, jnp.full(chunk, LEAST, jnp.float32)).max()
    sums = over_the_row(
        lambda sums, values: sums + jnp.exp2(values - top), jnp.zeros(chunk, jnp.float32)
    )
    log_sum = top + jnp.log2(sums.sum())
    loss[0] = jnp.where((target >= 0) & (target < real), log_sum * (1 / LOG2E) - label, jnp.nan)
    if not gradient:
        return
    (by_logit,) = gradient

    def minus_one_hot(values, columns):
        p = jnp.exp2(values - log_sum)
        return jnp.where(columns == target, p - 1, p).astype(by_logit.dtype)

    def write(n, _):
        by_logit[n * chunk + columns] = minus_one_hot(chunk_at(n), n * chunk + columns)

    lax.fori_loop(0, whole, write, None)
    if whole * chunk < R:
        pallas_triton.store(by_logit.at[last], minus_one_hot(last_chunk(), last), mask=last < R)
