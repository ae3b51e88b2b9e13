"""Sections 3.1 and 4.1: causal attention with dropout on its probabilities, tile by tile, for NVIDIA GPUs.

The algorithm is FlashAttention-2 (Dao, 2023): scores and probabilities live in registers alone, forward keeps the
logarithm of each row's sum of exponentials, and backward computes the probabilities again from it. What is ours is
dropout: each tile hashes its own part of the mask (dropout.kept) in both directions, so that the mask is that of the
plain path, is never stored, and does not depend on the tiles, the mesh or microbatches. Nothing is added up in an order
that varies between runs.

q, k and v are read from the one array [B, L, 3, H, E] that their projection writes, and its gradient is written as one,
which saves the copies that three arrays would take. Written in Pallas for Triton.
"""
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from gpt1_jax import dropout
from gpt1_jax.kernels import devices

LOG2E = math.log2(math.e)  # GPUs raise 2 to a power, so scores are in units of log 2
MASKED = -1e30             # the score of a later key: finite, as the difference of two infinities is not a number
Q, K, V = range(3)


class Tiles(NamedTuple):
    """queries x keys of a tile; warps: groups of 32 threads that share one; stages: tiles being loaded ahead."""
    queries: int
    keys: int
    warps: int
    stages: int


# Chosen by what compiles for an H200 without spilling registers (128 a thread forward, 237 backward, two programs on a
# multiprocessor in both); none has been timed yet.
FORWARD = Tiles(queries=128, keys=64, warps=8, stages=2)
BACKWARD = Tiles(queries=64, keys=64, warps=4, stages=2)


def flash_attention(qkv, *, rate=0.0, key=None, layer=0, interpret=False):
    """What attention.causal_attention gives for q, k, v = moveaxis(qkv, 2, 0), to rounding.

    qkv: [B, L, 3, H, E], float32, bfloat16 or float16; E a power of two of at least 16, see `supports`. rate, key,
    layer: dropout of the probabilities (see dropout.Key). interpret: run the kernels' operations one by one, on any
    device. Returns [B, L, H, E]. Under `jax.set_mesh` each device computes its own rows (data, fsdp) and heads
    (tensor).
    """
    L, E = qkv.shape[1], qkv.shape[4]
    if not supports(E):
        raise ValueError(f'heads of size {E}: the kernel takes powers of two of at least 16')
    words = jnp.zeros(3, jnp.uint32)
    if key is not None:
        folded = dropout.fold((key.seed, key.step, layer, dropout.ATTENTION))
        words = jnp.stack([jnp.asarray(word, jnp.uint32) for word in (*folded, key.row)])
    # Positions that fill the last tile come after all queries: causal attention does not see them.
    step = min(BACKWARD.queries, max(16, pl.next_power_of_2(L)))
    padded = jnp.pad(qkv, ((0, 0), (0, -L % step), (0, 0), (0, 0), (0, 0)))
    return _attention(padded, words, 0.0 if key is None else rate, interpret)[:, :L]


def supports(E):
    """Whether the kernel takes heads of this size."""
    return E >= 16 and E & (E - 1) == 0


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _attention(qkv, words, rate, interpret):
    return _forward(qkv, words, rate, interpret)[0]


def _attention_forward(qkv, words, rate, interpret):
    out, log_sums = _forward(qkv, words, rate, interpret)
    return out, (qkv, words, out, log_sums)


def _attention_backward(rate, interpret, saved, d_out):
    qkv, words, out, log_sums = saved
    # The softmax's gradient is p * (dp - the row's mean of dp under p), and that mean is this.
    means = jnp.einsum('blhe,blhe->bhl', d_out.astype(jnp.float32), out.astype(jnp.float32))
    return _backward(qkv, words, d_out, log_sums, means, rate, interpret), None


_attention.defvjp(_attention_forward, _attention_backward)


def _forward(qkv, words, rate, interpret):
    """(out [B, L, H, E], log2 of each row's sum of exponentials, float32[B, H, L])."""
    def kernel(first_row, first_head, words, qkv):
        B, L, _, H, E = qkv.shape
        tiles = _fitting(FORWARD, L, E * qkv.dtype.itemsize)
        return pl.pallas_call(
            functools.partial(_forward_kernel, tiles=tiles, rate=rate, scale=E ** -0.5),
            grid=(L // tiles.queries, H, B),
            in_specs=[WORDS, _part(Q, tiles.queries, E, tile=True), _part(K, L, E), _part(V, L, E)],
            out_specs=[_vectors(tiles.queries, E, tile=True), _numbers(tiles.queries, tile=True)],
            out_shape=[jax.ShapeDtypeStruct((B, L, H, E), qkv.dtype), jax.ShapeDtypeStruct((B, H, L), jnp.float32)],
            compiler_params=plgpu.CompilerParams(num_warps=tiles.warps, num_stages=tiles.stages),
            interpret=interpret)(_at(words, first_row, first_head), qkv, qkv, qkv)
    return devices.on_each(kernel, (words, qkv), ('w', 'BL3HE'), ('BLHE', 'BHL'))


def _backward(qkv, words, d_out, log_sums, means, rate, interpret):
    """The gradient of qkv."""
    def kernel(first_row, first_head, words, qkv, *others):
        B, L, _, H, E = qkv.shape
        tiles = _fitting(BACKWARD, L, E * qkv.dtype.itemsize)
        return pl.pallas_call(
            functools.partial(_backward_kernel, tiles=tiles, rate=rate, scale=E ** -0.5),
            grid=(L // tiles.keys, H, B),
            in_specs=[WORDS, _part(Q, L, E), _part(K, L, E), _part(V, L, E), _vectors(L, E), _numbers(L),
                      _numbers(L)],
            out_specs=pl.BlockSpec((None, tiles.keys, 3, None, E), lambda i, h, b: (b, i, 0, h, 0)),
            out_shape=jax.ShapeDtypeStruct(qkv.shape, qkv.dtype),
            compiler_params=plgpu.CompilerParams(num_warps=tiles.warps, num_stages=tiles.stages),
            interpret=interpret)(_at(words, first_row, first_head), qkv, qkv, qkv, *others)
    return devices.on_each(kernel, (words, qkv, d_out, log_sums, means), ('w', 'BL3HE', 'BLHE', 'BHL', 'BHL'), 'BL3HE')


def _fitting(tiles, L, head):
    """The tiles, smaller where L is no multiple of them, with more threads where `head`, a vector's bytes, is large."""
    return tiles._replace(queries=math.gcd(tiles.queries, L), keys=math.gcd(tiles.keys, L),
                          warps=8 if head > 128 else tiles.warps)


def _at(words, first_row, first_head):
    """uint32[4] for a device: its first row, in a batch that itself begins at words[2], and its first head."""
    return jnp.stack([words[0], words[1], words[2] + first_row, first_head])


# What a program sees of an array; it works on tile i of head h of row b. A GPU starts programs in the order of the
# grid's first number, i: those that read the same keys and values run at the same time.
WORDS = pl.BlockSpec((4,), lambda i, h, b: (0,))


def _part(part, length, E, tile=False):
    """[length, E], q, k or v of [B, L, 3, H, E]: of its tile's positions, or of all."""
    return pl.BlockSpec((None, length, None, None, E), lambda i, h, b: (b, i if tile else 0, part, h, 0))


def _vectors(length, E, tile=False):
    """[length, E] of [B, L, H, E]."""
    return pl.BlockSpec((None, length, None, E), lambda i, h, b: (b, i if tile else 0, h, 0))


def _numbers(length, tile=False):
    """[length] of [B, H, L]."""
    return pl.BlockSpec((None, None, length), lambda i, h, b: (b, h, i if tile else 0))


def _forward_kernel(words, q, k, v, out, log_sums, *, tiles, rate, scale):
    """The outputs of one tile of queries: the softmax of its scores, key tile by key tile."""
    i, bits = pl.program_id(0), _mask_bits(words)
    queries, q = _positions(i, tiles.queries)[:, None], q[...]

    def step(j, state):
        out, top, total = state  # over the keys so far: sum of weighted values, largest score, sum of exponentials
        keys, these = _positions(j, tiles.keys)[None, :], pl.ds(j * tiles.keys, tiles.keys)
        scores = _scores(q, k[these, :], queries, keys, scale)
        higher = jnp.maximum(top, scores.max(axis=1))
        p, fade = jnp.exp2(scores - higher[:, None]), jnp.exp2(top - higher)
        total = total * fade + p.sum(axis=1)
        if rate:
            p = jnp.where(_kept(bits, queries, keys, rate), p, 0.0)
        return out * fade[:, None] + plgpu.dot(p.astype(v.dtype), v[these, :]), higher, total

    n = tiles.queries
    start = jnp.zeros(q.shape, jnp.float32), jnp.full((n,), MASKED, jnp.float32), jnp.zeros((n,), jnp.float32)
    result, top, total = lax.fori_loop(0, pl.cdiv((i + 1) * n, tiles.keys), step, start)
    out[...] = (result * (1 / (total * (1 - rate)))[:, None]).astype(out.dtype)
    log_sums[...] = top + jnp.log2(total)


def _backward_kernel(words, q, k, v, d_out, log_sums, means, dqkv, *, tiles, rate, scale):
    """The gradients of one tile of keys and values, from the queries at and after it; then, of as many queries, from
    the keys at and before them. In all every program goes through about as many tiles as any other."""
    i, bits, length = pl.program_id(0), _mask_bits(words), log_sums.shape[0]
    own, positions = pl.ds(i * tiles.keys, tiles.keys), _positions(i, tiles.keys)
    k_own, v_own = k[own, :], v[own, :]

    def keys_step(j, state):
        # Tiles are [keys, queries] here, so that p and dscores are multiplied as they come out.
        dk, dv = state
        keys, queries = positions[:, None], _positions(j, tiles.queries)[None, :]
        these = pl.ds(j * tiles.queries, tiles.queries)
        q_these, d_these = q[these, :], d_out[these, :]
        p = jnp.exp2(_scores(k_own, q_these, queries, keys, scale) - log_sums[these][None, :])
        dp, dropped = plgpu.dot(v_own, d_these.T), p
        if rate:
            mask = _kept(bits, queries, keys, rate)
            dropped, dp = jnp.where(mask, p, 0.0), jnp.where(mask, dp * (1 / (1 - rate)), 0.0)
        dscores = p * (dp - means[these][None, :])
        return (dk + plgpu.dot(dscores.astype(q.dtype), q_these), dv + plgpu.dot(dropped.astype(d_out.dtype), d_these))

    zeros = jnp.zeros(k_own.shape, jnp.float32)
    dk, dv = lax.fori_loop(i * tiles.keys // tiles.queries, length // tiles.queries, keys_step, (zeros, zeros))
    dqkv[:, K, :] = (dk * scale).astype(dqkv.dtype)
    dqkv[:, V, :] = (dv * (1 / (1 - rate))).astype(dqkv.dtype)

    q_own, d_own, log_own, mean_own = q[own, :], d_out[own, :], log_sums[own][:, None], means[own][:, None]

    def queries_step(j, dq):
        queries, keys = positions[:, None], _positions(j, tiles.queries)[None, :]
        these = pl.ds(j * tiles.queries, tiles.queries)
        k_these = k[these, :]
        p = jnp.exp2(_scores(q_own, k_these, queries, keys, scale) - log_own)
        dp = plgpu.dot(d_own, v[these, :].T)
        if rate:
            dp = jnp.where(_kept(bits, queries, keys, rate), dp * (1 / (1 - rate)), 0.0)
        return dq + plgpu.dot((p * (dp - mean_own)).astype(k.dtype), k_these)

    dq = lax.fori_loop(0, pl.cdiv((i + 1) * tiles.keys, tiles.queries), queries_step, zeros)
    dqkv[:, Q, :] = (dq * scale).astype(dqkv.dtype)


def _mask_bits(words):
    """dropout.fold of the step's words and this program's row and head."""
    head, row = pl.program_id(1).astype(jnp.uint32), pl.program_id(2).astype(jnp.uint32)
    return dropout.fold((words[2] + row, words[3] + head), (words[0], words[1]))


def _positions(tile, n):
    """int32[n], of the tile's queries or keys in the row."""
    return tile * n + jnp.arange(n, dtype=jnp.int32)


def _scores(a, b, queries, keys, scale):
    """float32[m, n] in units of log 2, of a [m, E] and b [n, E], one of them q and the other k. queries, keys:
    positions, one of them [m, 1] and the other [1, n]."""
    return jnp.where(keys <= queries, plgpu.dot(a, b.T) * (scale * LOG2E), MASKED)


def _kept(bits, queries, keys, rate):
    return dropout.kept(*bits, queries.astype(jnp.uint32), keys.astype(jnp.uint32), rate)
