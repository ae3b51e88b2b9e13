"""Sections 3.1 and 4.1: causal attention with dropout, tile by tile, for NVIDIA GPUs.

The algorithm is FlashAttention-2 (Dao, 2023): scores and probabilities exist only in registers, one
tile at a time. The forward pass keeps the logarithm of each row's sum of exponentials, from which
the backward pass recomputes the probabilities. Dropout on the probabilities is new here. Each tile
hashes its part of the mask (dropout.keep_at) in both passes, so the mask is never stored, equals
the mask of plain XLA, and does not depend on tiles, mesh or microbatches. All sums have a fixed
order, so results are the same in every run.

q, k and v are read from the one array [B, L, 3, H, E] that their projection writes, and their
gradient is written as one such array, which saves copies. Written in Pallas for Triton.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from gpt1_jax.models import dropout
from gpt1_jax.models.fast import pallas_triton, per_device

LOG2E = math.log2(math.e)  # GPUs compute 2^x, so scores are multiplied by log2(e)
# The score of a later key. It is finite, because the difference of two infinities is NaN
MASKED = -1e30
Q, K, V = range(3)


class Tiles(NamedTuple):
    """The size of a tile, queries x keys, and how it is computed.

    warps: groups of 32 threads that share a tile. stages: tiles being loaded ahead.
    """

    queries: int
    keys: int
    warps: int
    stages: int


# The fastest of 12 and 14 choices on an H200 (experiments/benchmarks/results/h200_kernels.json),
# timed when the kernels took more instructions.
FORWARD = Tiles(queries=64, keys=64, warps=4, stages=3)
BACKWARD = Tiles(queries=64, keys=64, warps=4, stages=3)


def flash_attention(qkv: jax.Array, drop: dropout.Dropout) -> jax.Array:
    """ops.attention, up to rounding. Each device computes its rows and heads.

    qkv: float32, bfloat16 or float16, E a power of two of at least 16.
    """
    L = qkv.shape[1]
    # Padding to whole tiles is after all queries, so causal attention does not see it.
    step = min(BACKWARD.queries, max(16, pl.next_power_of_2(L)))
    padded = jnp.pad(qkv, ((0, 0), (0, -L % step), (0, 0), (0, 0), (0, 0)))
    return _attention(padded, per_device.words(drop), drop.rate)[:, :L]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _attention(qkv, words, rate):
    return _forward(qkv, words, rate)[0]


def _attention_forward(qkv, words, rate):
    out, log_sums = _forward(qkv, words, rate)
    return out, (qkv, words, out, log_sums)


def _attention_backward(rate, saved, d_out):
    qkv, words, out, log_sums = saved
    # The gradient of a softmax is p * (dp - sum(p * dp)). This sum over a row equals the sum of
    # d_out * out, here without dropout's scale, which the kernel leaves to the end.
    unscaled = out.astype(jnp.float32) * (1 - rate)
    means = jnp.einsum('blhe,blhe->bhl', d_out.astype(jnp.float32), unscaled)
    return _backward(qkv, words, d_out, log_sums, means, rate), None


_attention.defvjp(_attention_forward, _attention_backward)


def _forward(qkv, words, rate):
    """(out [B, L, H, E], log2 of each row's sum of exponentials, float32[B, H, L])."""

    def kernel(words, qkv):
        B, L, _, H, E = qkv.shape
        tiles = _fitting(FORWARD, L, E * qkv.dtype.itemsize)
        return pallas_triton.call(
            functools.partial(_forward_kernel, tiles=tiles, rate=rate, scale=E**-0.5),
            tiles.warps,
            tiles.stages,
            grid=(L // tiles.queries, H, B),
            in_specs=[WORDS, _part(Q, tiles.queries, E, tile=True), _part(K, L, E), _part(V, L, E)],
            out_specs=[_vectors(tiles.queries, E, tile=True), _numbers(tiles.queries, tile=True)],
            out_shape=[
                jax.ShapeDtypeStruct((B, L, H, E), qkv.dtype),
                jax.ShapeDtypeStruct((B, H, L), jnp.float32),
            ],
        )(words, qkv, qkv, qkv)

    return per_device.on_each(kernel, (words, qkv), ('w', 'BL3HE'), ('BLHE', 'BHL'))


def _backward(qkv, words, d_out, log_sums, means, rate):
    """The gradient of qkv."""

    def kernel(words, qkv, *others):
        B, L, _, H, E = qkv.shape
        tiles = _fitting(BACKWARD, L, E * qkv.dtype.itemsize)
        return pallas_triton.call(
            functools.partial(_backward_kernel, tiles=tiles, rate=rate, scale=E**-0.5),
            tiles.warps,
            tiles.stages,
            grid=(L // tiles.keys, H, B),
            in_specs=[
                WORDS,
                _part(Q, L, E),
                _part(K, L, E),
                _part(V, L, E),
                _vectors(L, E),
                _numbers(L),
                _numbers(L),
            ],
            out_specs=pl.BlockSpec((None, tiles.keys, 3, None, E), lambda i, h, b: (b, i, 0, h, 0)),
            out_shape=jax.ShapeDtypeStruct(qkv.shape, qkv.dtype),
        )(words, qkv, qkv, qkv, *others)

    return per_device.on_each(
        kernel, (words, qkv, d_out, log_sums, means), ('w', 'BL3HE', 'BLHE', 'BHL', 'BHL'), 'BL3HE'
    )


def _fitting(tiles, L, head):
    """Adapts tiles to an array of length L.

    Tiles are smaller if L is not a multiple of them. They have more warps if `head`, a head's
    bytes, is large.
    """
    return tiles._replace(
        queries=math.gcd(tiles.queries, L),
        keys=math.gcd(tiles.keys, L),
        warps=8 if head > 128 else tiles.warps,
    )


# Block specs: the part of an array that a program sees. A program works on tile i of head h of row
# b. A GPU starts programs in the order of the grid's first index, i, so programs that read the same
# keys and values run at the same time.
WORDS = pl.BlockSpec((4,), lambda i, h, b: (0,))


def _part(part, length, E, tile=False):
    """[length, E] of q, k or v in [B, L, 3, H, E].

    tile: only the positions of the program's tile, not all.
    """
    return pl.BlockSpec(
        (None, length, None, None, E), lambda i, h, b: (b, i if tile else 0, part, h, 0)
    )


def _vectors(length, E, tile=False):
    """[length, E] of [B, L, H, E]."""
    return pl.BlockSpec((None, length, None, E), lambda i, h, b: (b, i if tile else 0, h, 0))


def _numbers(length, tile=False):
    """[length] of [B, H, L]."""
    return pl.BlockSpec((None, None, length), lambda i, h, b: (b, h, i if tile else 0))


def _forward_kernel(words, q, k, v, out, log_sums, *, tiles, rate, scale):
    """The outputs of a tile of queries, by an online softmax over the tiles of keys up to it.

    A softmax needs the largest score and the sum of exponentials of a whole row of scores. Here
    both are kept for the keys so far. When a later tile has a larger score, all sums so far are
    multiplied by exp(old - new largest).
    """
    i = pl.program_id(0)
    bits = _mask_bits(words)
    n = tiles.queries
    queries = _positions(i, n)[:, None]
    q = q[...]

    def step(j, state):
        # Over the keys so far: sum of weighted values, largest score, sum of exponentials
        out, top, total = state
        keys = _positions(j, tiles.keys)[None, :]
        tile = pl.ds(j * tiles.keys, tiles.keys)
        scores = jnp.where(keys <= queries, pallas_triton.dot(q, k[tile, :].T), MASKED)
        new_top = jnp.maximum(top, scores.max(axis=1) * (scale * LOG2E))
        # A product and then a difference, which a compiler may join.
        p = jnp.exp2(scores * (scale * LOG2E) - new_top[:, None])
        rescale = jnp.exp2(top - new_top)
        # Dropout acts on the probabilities, after the softmax: the sum is of all exponentials,
        # dropped or not.
        total = total * rescale + p.sum(axis=1)
        p = p * _kept(bits, queries, keys, rate)
        out = out * rescale[:, None] + pallas_triton.dot(p.astype(v.dtype), v[tile, :])
        return out, new_top, total

    # Tiles of keys after the last query are skipped.
    n_tiles = pl.cdiv((i + 1) * n, tiles.keys)
    start = (
        jnp.zeros(q.shape, jnp.float32),
        jnp.full((n,), MASKED, jnp.float32),
        jnp.zeros((n,), jnp.float32),
    )
    result, top, total = lax.fori_loop(0, n_tiles, step, start)
    # Normalised once at the end; 1 / (1 - rate) is dropout's scale.
    out[...] = (result * (1 / (total * (1 - rate)))[:, None]).astype(out.dtype)
    log_sums[...] = top + jnp.log2(total)


def _backward_kernel(words, q, k, v, d_out, log_sums, means, dqkv, *, tiles, rate, scale):
    """The gradients of k and v of one tile, and of q of the same tile of positions.

    A tile of keys is read by the queries at and after it, and a tile of queries reads the keys at
    and before it. One program does both, so that all programs go through about as many tiles. No
    two programs write the same gradient, so there are no atomic sums, and results are the same in
    every run.
    """
    arrays = (q, k, v, d_out, log_sums, means)
    bits = _mask_bits(words)
    dk, dv = _key_value_gradients(*arrays, bits, tiles, rate, scale)
    dqkv[:, K, :] = (dk * (scale / (1 - rate))).astype(dqkv.dtype)
    dqkv[:, V, :] = (dv * (1 / (1 - rate))).astype(dqkv.dtype)
    dq = _query_gradients(*arrays, bits, tiles, rate, scale)
    dqkv[:, Q, :] = (dq * (scale / (1 - rate))).astype(dqkv.dtype)


def _key_value_gradients(q, k, v, d_out, log_sums, means, bits, tiles, rate, scale):
    """Returns dk and dv, float32[keys, E] each, without the factors that all elements share.

    Probabilities p are recomputed from the scores and log_sums. With `kept` 1 or 0:

        dv = (p kept)^T d_out, dp = d_out v^T, dscores = p (dp kept - means), dk = dscores^T q
    """
    i = pl.program_id(0)
    own = pl.ds(i * tiles.keys, tiles.keys)
    k_own = k[own, :]
    v_own = v[own, :]
    keys = _positions(i, tiles.keys)[:, None]

    def step(j, gradients):
        # Scores are transposed, [keys, queries], so that p and dscores need not be transposed for
        # their products.
        dk, dv = gradients
        queries = _positions(j, tiles.queries)[None, :]
        tile = pl.ds(j * tiles.queries, tiles.queries)
        q_tile = q[tile, :]
        d_tile = d_out[tile, :]
        p = _probabilities(k_own, q_tile, queries, keys, scale, log_sums[tile][None, :])
        dp = pallas_triton.dot(v_own, d_tile.T)
        kept = _kept(bits, queries, keys, rate)
        dv = dv + pallas_triton.dot((p * kept).astype(d_out.dtype), d_tile)
        dscores = p * (dp * kept - means[tile][None, :])
        dk = dk + pallas_triton.dot(dscores.astype(q.dtype), q_tile)
        return dk, dv

    zeros = jnp.zeros(k_own.shape, jnp.float32)
    first_tile = i * tiles.keys // tiles.queries
    return lax.fori_loop(first_tile, log_sums.shape[0] // tiles.queries, step, (zeros, zeros))


def _query_gradients(q, k, v, d_out, log_sums, means, bits, tiles, rate, scale):
    """Returns dq, float32[queries, E], without the scale: dq = dscores k.

    The program's tile of queries here has the size of a tile of keys. It goes through tiles of keys
    that have the size of a tile of queries.
    """
    i = pl.program_id(0)
    own = pl.ds(i * tiles.keys, tiles.keys)
    q_own = q[own, :]
    d_own = d_out[own, :]
    log_sums_own = log_sums[own][:, None]
    means_own = means[own][:, None]
    queries = _positions(i, tiles.keys)[:, None]

    def step(j, dq):
        keys = _positions(j, tiles.queries)[None, :]
        tile = pl.ds(j * tiles.queries, tiles.queries)
        k_tile = k[tile, :]
        p = _probabilities(q_own, k_tile, queries, keys, scale, log_sums_own)
        dp = pallas_triton.dot(d_own, v[tile, :].T)
        dscores = p * (dp * _kept(bits, queries, keys, rate) - means_own)
        return dq + pallas_triton.dot(dscores.astype(k.dtype), k_tile)

    n_tiles = pl.cdiv((i + 1) * tiles.keys, tiles.queries)
    return lax.fori_loop(0, n_tiles, step, jnp.zeros(q_own.shape, jnp.float32))


def _mask_bits(words):
    """dropout.fold of the step's words and this program's row and head."""
    head = pl.program_id(1).astype(jnp.uint32)
    row = pl.program_id(2).astype(jnp.uint32)
    return dropout.fold((words[2] + row, words[3] + head), (words[0], words[1]))


def _positions(tile, n):
    """uint32[n], of the tile's queries or keys in the row."""
    return (tile * n + jnp.arange(n, dtype=jnp.int32)).astype(jnp.uint32)


def _probabilities(a, b, queries, keys, scale, log_sums):
    """Recomputes the forward pass's probabilities, float32[m, n], from a [m, E] and b [n, E].

    One of a and b is q, the other k. queries, keys: positions, which broadcast to [m, n], as
    log_sums do.
    """
    p = jnp.exp2(pallas_triton.dot(a, b.T) * (scale * LOG2E) - log_sums)
    return jnp.where(keys <= queries, p, 0.0)


def _kept(bits, queries, keys, rate):
    """The factor of each probability: 1, or 0 if it is dropped.

    Selecting between a probability and 0 would take more instructions, because the compiler rounds
    both and then puts pairs together.
    """
    if not rate:
        return 1.0
    return jnp.where(dropout.keep_at(*bits, queries, keys, rate), 1.0, 0.0)
