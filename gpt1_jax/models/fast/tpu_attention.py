"""Sections 3.1 and 4.1: causal attention with dropout on its probabilities, for TPUs.

A TPU's fast memory (VMEM, 16 MiB and more) holds the whole keys and values of a row of the batch.
So softmax is computed as it is written, over all keys that a query sees. Scores, probabilities and
masks never leave that memory. The backward pass keeps only q, k and v, and recomputes the rest.
Each program hashes its part of the dropout mask (dropout.keep_at), so the mask is the same as on
the plain path. All sums have a fixed order, so results are the same in every run.

A program works on 128 columns of q, k and v, the width of a vector register and of the matrix unit.
These are one head of 128, or two heads of 64. Two heads are separated without cutting the
registers: if the columns of the other head are set to zero, a product over all 128 columns is the
product of one head.

Arrays are flat, [B, L, 3 * H * E], unless the heads are divided over devices, because a last
dimension of 64 would be padded to 128 in memory. Written in Pallas for Mosaic, the TPU's kernel
compiler.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from gpt1_jax.models import dropout
from gpt1_jax.models.fast import per_device, table
from gpt1_jax.parallel.sharding import extent

# Queries that a program works on at a time. Sequences are padded to a multiple of it
BLOCK = 128
COLUMNS = 128  # of q, k and v that a program works on, or a whole head if it is wider
MASKED = -1e30  # the score of a later key
Q, K, V = range(3)


def tpu_attention(qkv: jax.Array, drop: dropout.Dropout) -> jax.Array:
    """ops.attention, up to rounding. Each device computes its rows and heads.

    qkv: float32 or bfloat16, E 64 or a multiple of 128, L at most 1,024.
    """
    B, L, _, H, E = qkv.shape
    if extent('tensor') == 1 or H % extent('tensor'):  # the heads are not divided over devices
        qkv = qkv.reshape(B, L, 3 * H * E)
    # Padding is after all queries, so causal attention does not see it.
    padding = [(0, 0)] * qkv.ndim
    padding[1] = (0, -L % BLOCK)
    out = _attention(jnp.pad(qkv, padding), per_device.words(drop), E, drop.rate)
    return out[:, :L].reshape(B, L, H, E)


# From here on qkv and its gradient are [B, L, 3 * H * E], or [B, L, 3, H, E] if the heads are
# divided over devices.


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _attention(qkv, words, E, rate):
    """[B, L, H * E] or [B, L, H, E]."""
    call = functools.partial(_forward, E=E, rate=rate)
    return per_device.on_each(
        call, (words, qkv), ('w', _layout(qkv)), _layout(qkv).replace('3', '')
    )


def _saving(qkv, words, E, rate):
    return _attention(qkv, words, E, rate), (qkv, words)


def _gradient(E, rate, saved, d_out):
    qkv, words = saved
    call = functools.partial(_backward, E=E, rate=rate)
    layouts = ('w', _layout(qkv), _layout(qkv).replace('3', ''))
    return per_device.on_each(call, (words, qkv, d_out), layouts, _layout(qkv)), None


_attention.defvjp(_saving, _gradient)


def _layout(qkv):
    """The names of its dimensions, for per_device.on_each."""
    return 'BLC' if qkv.ndim == 3 else 'BL3HE'


# What one device computes


def _forward(words, qkv, *, E, rate):
    """[B, L, H * E] or [B, L, H, E], of a device's rows and heads."""
    filled = _filled(qkv, 3, E)
    B = filled.shape[0]
    L = filled.shape[1]
    width = filled.shape[2] // 3
    n = max(COLUMNS, E)
    out = pl.pallas_call(
        functools.partial(_forward_kernel, E=E, rate=rate),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B, width // n),
            in_specs=[_columns(L, n, part * width // n) for part in (Q, K, V)],
            out_specs=_columns(L, n),
        ),
        out_shape=jax.ShapeDtypeStruct((B, L, width), qkv.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=('parallel', 'parallel')),
        cost_estimate=_cost(filled, E, products=2, arrays=4),
        name='tpu_attention_forward',
        interpret=table.interpreted(),
    )(_mask_bits(words, B, width // E), filled, filled, filled)
    return _cut(
        out,
        1,
        (*qkv.shape[:2], qkv.shape[2] // 3) if qkv.ndim == 3 else (*qkv.shape[:2], *qkv.shape[3:]),
    )


def _backward(words, qkv, d_out, *, E, rate):
    """Computes the gradient of a device's qkv.

    The third index of the grid stands for q, k and v. The first of its three programs computes all
    three gradients, and each program writes one of them. So the result is one array, like qkv.
    """
    filled = _filled(qkv, 3, E)
    B = filled.shape[0]
    L = filled.shape[1]
    width = filled.shape[2] // 3
    n = max(COLUMNS, E)
    gradient = pl.pallas_call(
        functools.partial(_backward_kernel, E=E, rate=rate),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B, width // n, 3),
            in_specs=[*(_columns(L, n, part * width // n) for part in (Q, K, V)), _columns(L, n)],
            out_specs=pl.BlockSpec(
                (None, L, n), lambda b, j, part, _: (b, 0, part * (width // n) + j)
            ),
            scratch_shapes=[pltpu.VMEM((3, L, n), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct(filled.shape, qkv.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=('parallel', 'parallel', 'arbitrary')
        ),
        cost_estimate=_cost(filled, E, products=5, arrays=7),
        name='tpu_attention_backward',
        interpret=table.interpreted(),
    )(_mask_bits(words, B, width // E), filled, filled, filled, _filled(d_out, 1, E))
    return _cut(gradient, 3, qkv.shape)


def _filled(x, parts, E):
    """Returns [B, L, parts * width].

    If a program would have too few heads, heads of zeros follow those in x.
    """
    x = x.reshape(*x.shape[:2], parts, -1)
    missing = -x.shape[3] % max(COLUMNS, E)
    if missing:
        x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, missing)))
    return x.reshape(*x.shape[:2], -1)


def _cut(x, parts, shape):
    """Undoes `_filled`: cuts off the heads of zeros, and restores the shape."""
    width = math.prod(shape[2:]) // parts
    return x.reshape(*x.shape[:2], parts, -1)[..., :width].reshape(shape)


def _columns(L, n, first=0):
    """The part of an array [B, L, columns] that program (b, j) sees.

    It is block `first + j` of n columns, of row b.
    """
    return pl.BlockSpec((None, L, n), lambda b, j, *_: (b, 0, first + j))


def _cost(qkv, E, products, arrays):
    """The cost that XLA plans with.

    products: their number, each of the scores' size. arrays: the number read and written, each of
    q's size.
    """
    B = qkv.shape[0]
    L = qkv.shape[1]
    width = qkv.shape[2] // 3
    # Scores of a head that are computed, before a block and on its diagonal
    seen = L * (L + BLOCK) // 2
    return pl.CostEstimate(
        flops=2 * products * B * seen * width,
        transcendentals=B * seen * width // E,
        bytes_accessed=arrays * B * L * width * qkv.dtype.itemsize,
    )


def _mask_bits(words, B, H):
    """int32[2, B * H]: dropout.fold of the step's words, and each row and head of a device."""
    rows = words[2] + jnp.arange(B, dtype=jnp.uint32)
    heads = words[3] + jnp.arange(H, dtype=jnp.uint32)
    bits = dropout.fold((rows[:, None], heads[None]), (words[0], words[1]))
    return jnp.stack([word.reshape(-1) for word in bits])


# Kernels


def _forward_kernel(bits, q, k, v, out, *, E, rate):
    heads = q.shape[1] // E
    first_head = _first_head(heads)
    for own, seen in _blocks(q.shape[0]):
        outs = []
        for head in range(heads):
            e, total = _exponentials(_only(q[own], head, E), k[seen], E)
            # Dropout acts on the probabilities: the total is of all exponentials, dropped or not.
            if rate:
                e = jnp.where(_kept(bits, first_head + head, own, e.shape, rate), e, 0.0)
            outs.append(_dot(e.astype(v.dtype), v[seen]) * (1 / (total * (1 - rate))))
        out[own] = _joined(outs, E).astype(out.dtype)


def _backward_kernel(bits, q, k, v, d_out, d_qkv, gradients, *, E, rate):
    """gradients: float32[3, L, columns], in VMEM from one program to the next."""
    part = pl.program_id(2)
    first_head = _first_head(q.shape[1] // E)

    @pl.when(part == Q)
    def compute():
        gradients[...] = jnp.zeros_like(gradients)
        for own, seen in _blocks(q.shape[0]):
            _add_gradients(bits, first_head, q, k, v, d_out, gradients, own, seen, E, rate)

    d_qkv[...] = gradients[part].astype(d_qkv.dtype)


def _add_gradients(bits, first_head, q, k, v, d_out, gradients, own, seen, E, rate):
    """Adds the part of the queries `own` to the gradients of q, k and v.

    They add to k and v at the positions that they have seen. The formulas are the same as in
    cpu.py.
    """
    by_query = []
    for head in range(q.shape[1] // E):
        q_own = _only(q[own], head, E)
        d_own = _only(d_out[own], head, E)
        e, total = _exponentials(q_own, k[seen], E)
        p = e * (1 / total)
        dp = _dot(d_own, v[seen].T)
        dropped = p
        if rate:
            mask = _kept(bits, first_head + head, own, p.shape, rate)
            dropped = jnp.where(mask, p * (1 / (1 - rate)), 0.0)
            dp = jnp.where(mask, dp * (1 / (1 - rate)), 0.0)
        d_scores = p * (dp - jnp.sum(p * dp, axis=1, keepdims=True))
        d_scores = (d_scores * E**-0.5).astype(q.dtype)
        by_query.append(_dot(d_scores, k[seen]))
        gradients[K, seen] += _dot(d_scores.T, q_own)
        gradients[V, seen] += _dot(dropped.T.astype(q.dtype), d_own)
    gradients[Q, own] = _joined(by_query, E)


def _blocks(L):
    """(the positions of a block of queries, the positions of the keys that it sees), as slices."""
    return [(slice(first, first + BLOCK), slice(0, first + BLOCK)) for first in range(0, L, BLOCK)]


def _exponentials(q, k, E):
    """Returns exp(score - largest of the row), float32[queries, keys], and its sum [queries, 1].

    The sum is over the keys. The queries are at the last of the keys' positions.
    """
    scores = _dot(q, k.T) * E**-0.5
    query, key = (lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (0, 1))
    scores = jnp.where(key <= query + (k.shape[0] - q.shape[0]), scores, MASKED)
    e = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    return e, jnp.sum(e, axis=1, keepdims=True)


def _first_head(heads):
    """The place of the program's first head in `bits`."""
    return (pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)) * heads


def _kept(bits, head, own, shape, rate):
    """The dropout mask of the queries `own` and all keys before their end.

    head: its place in `bits`.
    """
    query, key = (lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in (0, 1))
    return dropout.keep_at(bits[0, head], bits[1, head], query + jnp.uint32(own.start), key, rate)


def _only(x, head, E):
    """x with zeros in the columns of the program's other head."""
    if x.shape[1] == E:
        return x
    return jnp.where(_is_of(head, x.shape, E), x, jnp.zeros_like(x))


def _joined(parts, E):
    """Takes from each of the parts, [n, columns], the columns of its head, and joins them."""
    joined = parts[0]
    for head, part in enumerate(parts[1:], 1):
        joined = jnp.where(_is_of(head, part.shape, E), part, joined)
    return joined


def _is_of(head, shape, E):
    column = lax.broadcasted_iota(jnp.int32, shape, 1)
    return (column >= head * E) & (column < (head + 1) * E)


def _dot(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)
