"""Sections 3.1 and 4.1: dropout, residual sum and LayerNorm in one pass, for NVIDIA GPUs.

XLA reads and writes each of the 24 residual sums of a step several times, for reductions, masks and
their gradients. Here a program holds whole vectors in registers, and makes one pass over memory. It
hashes the mask when it needs it (dropout.keep_at), as in flash_attention. Written in Pallas for
Triton, whose arrays have powers of two: a vector of 768 is three blocks of 256.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from gpt1_jax.models import dropout
from gpt1_jax.models.fast import pallas_triton, per_device, table

# The fastest of 8 and 15 choices on an H200 (experiments/benchmarks/results/h200_kernels.json),
# timed when the kernels took more instructions.
ROWS = 1  # vectors that a program holds at a time
PROGRAMS = 2048  # of the backward pass
# Warps (groups of 32 threads) of a program
FORWARD = 1
BACKWARD = 4


def add_and_norm(
    x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, drop: dropout.Dropout
) -> jax.Array:
    """ops.add_and_norm, up to rounding."""
    return _add_and_norm(x, a, scale, bias, per_device.words(drop), drop.rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _add_and_norm(x, a, scale, bias, words, rate):
    return _saving(x, a, scale, bias, words, rate)[0]


def _saving(x, a, scale, bias, words, rate):
    y, normed, inverse = _forward(x, a, scale, bias, words, rate)
    return y, (normed, inverse, scale, words)


def _gradient(rate, saved, dy):
    dx, da, sums = _backward(*saved, dy, rate)
    by_scale, by_bias = jnp.sum(sums, (0, 1))
    return dx, da, by_scale, by_bias, None


_add_and_norm.defvjp(_saving, _gradient)


def _forward(x, a, scale, bias, words, rate):
    """(y, the normalised vectors [B, L, D], 1 / their standard deviation, float32[B, L])."""

    def kernel(words, x, a, scale, bias):
        B, L, D = x.shape
        rows = math.gcd(ROWS, L)
        vectors = pl.BlockSpec((None, rows, D), lambda i, b: (b, i, 0))
        return pallas_triton.call(
            functools.partial(_forward_kernel, rate=rate),
            FORWARD,
            grid=(L // rows, B),
            in_specs=[_whole(words), vectors, vectors, _whole(scale), _whole(bias)],
            out_specs=[vectors, vectors, pl.BlockSpec((None, rows), lambda i, b: (b, i))],
            out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2
            + [jax.ShapeDtypeStruct((B, L), jnp.float32)],
        )(words, x, a, scale, bias)

    return per_device.on_each(
        kernel, (words, x, a, scale, bias), ('w', 'BLD', 'BLD', 'D', 'D'), ('BLD', 'BLD', 'BL')
    )


def _backward(normed, inverse, scale, words, dy, rate):
    """Returns dx, da, and the gradients of scale and bias as float32[B, S, 2, D].

    The last must be added up over B and S.
    """

    def kernel(words, normed, inverse, scale, dy):
        B, L, D = dy.shape
        S = math.gcd(L // math.gcd(ROWS, L), pl.next_power_of_2(pl.cdiv(PROGRAMS, B)))
        vectors = pl.BlockSpec((None, L // S, D), lambda s, b: (b, s, 0))
        numbers = pl.BlockSpec((None, L // S), lambda s, b: (b, s))
        sums = pl.BlockSpec((None, None, 2, D), lambda s, b: (b, s, 0, 0))
        return pallas_triton.call(
            functools.partial(_backward_kernel, rate=rate),
            BACKWARD,
            grid=(S, B),
            in_specs=[_whole(words), vectors, numbers, _whole(scale), vectors],
            out_specs=[vectors, vectors, sums],
            out_shape=[jax.ShapeDtypeStruct(dy.shape, dy.dtype)] * 2
            + [jax.ShapeDtypeStruct((B, S, 2, D), jnp.float32)],
        )(words, normed, inverse, scale, dy)

    return per_device.on_each(
        kernel,
        (words, normed, inverse, scale, dy),
        ('w', 'BLD', 'BL', 'D', 'BLD'),
        ('BLD', 'BLD', 'BS2D'),
    )


def _forward_kernel(words, x, a, scale, bias, y, normed, inverse, *, rate):
    """Computes `n` vectors of one row of the batch.

    LayerNorm's sums run over the blocks of a vector, all in registers.
    """
    n, D = x.shape
    bits = _bits(words)
    positions = pl.program_id(0) * n + jnp.arange(n)
    sums = []  # x + dropout(a), a block each
    for block in _blocks(D):
        dropped = _dropped(a[:, block].astype(jnp.float32), bits, positions, block, rate)
        sums.append(x[:, block].astype(jnp.float32) + dropped)
    mean = _total(sums) * (1 / D)
    variance = _total([jnp.square(s - mean[:, None]) for s in sums]) * (1 / D)
    factor = lax.rsqrt(variance + 1e-5)
    inverse[...] = factor
    for s, block in zip(sums, _blocks(D)):
        s = (s - mean[:, None]) * factor[:, None]
        normed[:, block] = s.astype(normed.dtype)
        y[:, block] = (s * scale[block][None] + bias[block][None]).astype(y.dtype)


def _backward_kernel(words, normed, inverse, scale, dy, dx, da, sums, *, rate):
    """Computes the gradients of a part of a row of the batch, `n` vectors at a time.

    The formula is the same as in xla.add_and_norm. The gradients of scale and bias are sums over
    all vectors: each program adds up its vectors in registers, and XLA adds up the programs'
    results.
    """
    length, D = dy.shape
    n = math.gcd(ROWS, length)
    blocks = _blocks(D)
    bits = _bits(words)
    first = pl.program_id(0) * length

    def step(j, totals):
        tile = pl.ds(j * n, n)
        positions = first + j * n + jnp.arange(n)
        d = [dy[tile, block].astype(jnp.float32) for block in blocks]
        z = [normed[tile, block].astype(jnp.float32) for block in blocks]
        totals = tuple(
            (by_scale + (dp * zp).sum(axis=0), by_bias + dp.sum(axis=0))
            for (by_scale, by_bias), dp, zp in zip(totals, d, z)
        )
        d = [dp * scale[block][None] for dp, block in zip(d, blocks)]
        mean_d = _total(d)[:, None] * (1 / D)
        mean_dz = _total([dp * zp for dp, zp in zip(d, z)])[:, None] * (1 / D)
        factor = inverse[tile][:, None]
        for dp, zp, block in zip(d, z, blocks):
            dp = (dp - mean_d - zp * mean_dz) * factor
            dx[tile, block] = dp.astype(dx.dtype)
            da[tile, block] = _dropped(dp, bits, positions, block, rate).astype(da.dtype)
        return totals

    zeros = jnp.zeros((table.residual_block(D),), jnp.float32)
    totals = lax.fori_loop(0, length // n, step, ((zeros, zeros),) * len(blocks))
    for (by_scale, by_bias), block in zip(totals, blocks):
        sums[0, block] = by_scale
        sums[1, block] = by_bias


def _total(blocks):
    """Returns the sums of vectors [n, D] that are given in blocks.

    In a sum along a vector threads wait for each other, so the blocks are added up before it.
    """
    return functools.reduce(jnp.add, blocks).sum(axis=1)


def _bits(words):
    """dropout.fold of the step's words and this program's row."""
    return dropout.fold((words[2] + pl.program_id(1).astype(jnp.uint32),), (words[0], words[1]))


def _dropped(values, bits, positions, block, rate):
    """Returns values [n, block], of the vectors at these positions of the row, after dropout."""
    if not rate:
        return values
    columns = (block.start + jnp.arange(block.size)).astype(jnp.uint32)
    mask = dropout.keep_at(*bits, positions.astype(jnp.uint32)[:, None], columns[None], rate)
    return values * jnp.where(mask, 1 / (1 - rate), 0.0)


def _blocks(D):
    return [pl.ds(start, table.residual_block(D)) for start in range(0, D, table.residual_block(D))]


def _whole(array):
    return pl.BlockSpec(array.shape, lambda *_: (0,))
