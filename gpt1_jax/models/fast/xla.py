"""The operations of models/ops.py, with gradients that keep and move less memory, on any platform.

`lax.optimization_barrier` around the inputs of a gradient keeps the compiler from moving the
gradient's recomputation into the forward pass, and its results into memory.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gpt1_jax.models import ops
from gpt1_jax.models.dropout import Dropout
from gpt1_jax.models.fast import per_device
from gpt1_jax.parallel.sharding import constrain, extent

# Embedding


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def look_up(table: jax.Array, ids: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """As ops.look_up. The devices of a mesh gather the table once, in `dtype`."""
    return _look_up(table, ids, dtype)[0]


def _look_up(table, ids, dtype):
    # Constrained twice, because with only the second constraint the compiler may gather the table
    # before its conversion to a smaller dtype.
    rows = constrain(constrain(table.astype(dtype), 'embed/tokens'), 'embeddings')
    return (jnp.take(rows, ids, axis=0), rows), (table, ids)


def _look_up_gradient(dtype, saved, gradients):
    """The gradient has the sharding of the table, so devices reduce-scatter it."""
    table, ids = saved
    dx, drows = gradients
    _, transposed = jax.vjp(lambda table: jnp.take(table, ids, axis=0), table)
    by_ids = constrain(transposed(dx.astype(jnp.float32))[0], 'embeddings')
    drows = constrain(drows, 'embed/tokens').astype(jnp.float32)
    return constrain(by_ids, 'embed/tokens') + drows, None


look_up.defvjp(_look_up, _look_up_gradient)


# Matrix products


class Products(NamedTuple):
    """Products of matrices as a platform computes them best."""

    # (a [..., I], b, axis of b that has I, dtype) -> [..., the other dimension of b]
    matmul: Callable
    outer: Callable  # (a [..., I], b [..., O]) -> [I, O], summed over the leading dimensions


def matmul(a: jax.Array, b: jax.Array, axis: int, dtype: Any) -> jax.Array:
    return lax.dot_general(a, b, (((a.ndim - 1,), (axis,)), ((), ())), preferred_element_type=dtype)


def outer(a: jax.Array, b: jax.Array) -> jax.Array:
    rows = tuple(range(a.ndim - 1))
    return jnp.tensordot(a, b, (rows, rows))


PRODUCTS = Products(matmul, outer)


def dense(
    x: jax.Array, kernel: jax.Array, bias: jax.Array, products: Products = PRODUCTS
) -> jax.Array:
    """As ops.dense, by a product of matrices, [..., D] by [D, 3 * H * E].

    With more dimensions, a TPU pads the last dimension (64) to 128 in memory, and copies. If the
    mesh divides heads over devices, ops.dense computes the product.
    """
    if extent('tensor') > 1:
        return ops.dense(x, kernel, bias)
    leading = x.shape[: x.ndim - kernel.ndim + bias.ndim]
    x = x.reshape(*leading, -1)
    y = product(x, kernel.astype(x.dtype).reshape(x.shape[-1], -1), products)
    return add_bias(y, bias.reshape(-1)).reshape(*leading, *bias.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, kernel: jax.Array, products: Products = PRODUCTS) -> jax.Array:
    """x @ kernel: [..., I], [I, O] -> [..., O].

    Automatic differentiation would compute the kernel's gradient transposed.
    """
    return products.matmul(x, kernel, 0, x.dtype)


def _product_gradient(products, saved, dy):
    x, kernel = saved
    return products.matmul(dy, kernel, 1, dy.dtype), products.outer(x, dy)


product.defvjp(
    lambda x, kernel, products: (product(x, kernel, products), (x, kernel)), _product_gradient
)


@jax.custom_vjp
def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """x + bias [O], in x's dtype, because only then a GPU adds it inside the product.

    The gradient's sum is float32.
    """
    return x + jnp.expand_dims(bias.astype(x.dtype), range(x.ndim - 1))


def _bias_gradient(_, dy):
    return dy, jnp.sum(_exact(dy), axis=tuple(range(dy.ndim - 1)))


def _exact(x):
    """Converts x to float32 by its bits.

    In a conversion XLA leaves out the rounding to bfloat16 before it, and then writes both the
    rounded and the unrounded values to memory.
    """
    if x.dtype != jnp.bfloat16:
        return x
    # Bfloat16 is the first half of float32
    bits = lax.bitcast_convert_type(x, jnp.uint16).astype(jnp.uint32) << 16
    return lax.bitcast_convert_type(bits, jnp.float32)


add_bias.defvjp(lambda x, bias: (add_bias(x, bias), None), _bias_gradient)


# GELU

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def by_sigmoid(z: jax.Array) -> jax.Array:
    """GELU(z) / z = (1 + tanh u) / 2 = sigmoid(2 u), with u = ROOT (z + CUBIC z^3).

    Accelerators compute an exponential and a reciprocal in few instructions, but tanh as a quotient
    of two polynomials.
    """
    return jax.nn.sigmoid(z * (2 * ROOT + 2 * ROOT * CUBIC * z * z))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def gelu(x: jax.Array, gate: Callable = by_sigmoid) -> jax.Array:
    """As ops.gelu, but the backward pass keeps only x.

    Automatic differentiation keeps two more arrays of its size. gate: computes GELU(z) / z of
    float32, in the form that is best on a platform.
    """
    z = x.astype(jnp.float32)
    return (z * gate(z)).astype(x.dtype)


def _gelu_gradient(gate, x, dy):
    """A sigmoid s of v has the derivative s (1 - s) by v. Here v = 2 u, a polynomial of z."""
    z = lax.optimization_barrier(x).astype(jnp.float32)
    s = gate(z)
    slope = s + s * (1 - s) * z * (2 * ROOT + 6 * ROOT * CUBIC * z * z)
    return ((dy.astype(jnp.float32) * slope).astype(x.dtype),)


gelu.defvjp(lambda x, gate: (gelu(x, gate), x), _gelu_gradient)


# Attention


def recomputed_attention(qkv: jax.Array, drop: Dropout) -> jax.Array:
    """As ops.attention, without storing the probabilities for the backward pass."""
    return jax.checkpoint(ops.attention)(qkv, drop)


def cudnn_attention(qkv: jax.Array, drop: Dropout) -> jax.Array:
    """cuDNN's attention, only for evaluation, because cuDNN cannot use our dropout masks."""

    def cudnn(qkv):
        q, k, v = jnp.moveaxis(qkv, 2, 0)
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation='cudnn')

    return per_device.on_each(cudnn, (qkv,), ('BL3HE',), 'BLHE')


# Residual sum and LayerNorm


@jax.custom_vjp
def add_and_norm(
    x: jax.Array, a: jax.Array, scale: jax.Array, bias: jax.Array, drop: Dropout
) -> jax.Array:
    """As ops.add_and_norm, but the backward pass keeps only the normalised vectors.

    Automatic differentiation keeps several float32 arrays of their size.
    """
    return _add_and_norm(x, a, scale, bias, drop)[0]


def _add_and_norm(x, a, scale, bias, drop):
    normed, inverse = ops.normalise(x.astype(jnp.float32) + drop(a.astype(jnp.float32)))
    y = (normed * scale[None, None] + bias[None, None]).astype(x.dtype)
    return y, (normed.astype(x.dtype), inverse, scale, drop)


def _add_and_norm_gradient(saved, dy):
    """The gradient is (dz - mean(dz) - z mean(dz z)) / deviation.

    z is the normalised vector, and dz = dy * scale. Adding a constant to a vector, or scaling it,
    changes nothing after the norm.
    """
    normed, inverse, scale, drop = lax.optimization_barrier(saved)
    z = normed.astype(jnp.float32)
    dy = dy.astype(jnp.float32)
    dz = dy * scale[None, None]
    mean_dz = jnp.mean(dz, axis=-1, keepdims=True)
    mean_dzz = jnp.mean(dz * z, axis=-1, keepdims=True)
    dx = (dz - mean_dz - z * mean_dzz) * inverse
    return (
        dx.astype(normed.dtype),
        drop(dx).astype(normed.dtype),
        jnp.sum(dy * z, axis=(0, 1)),
        jnp.sum(dy, axis=(0, 1)),
        None,
    )


add_and_norm.defvjp(_add_and_norm, _add_and_norm_gradient)


# The loss


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def cross_entropy(
    hidden: jax.Array,
    rows: jax.Array,
    targets: jax.Array,
    dtype: Any,
    products: Products = PRODUCTS,
    in_one_pass: bool = False,
) -> jax.Array:
    """As ops.cross_entropy, with softmax - one-hot as the gradient by the logits.

    Automatic differentiation would read the logits twice as often. in_one_pass: see log_sum_exp.
    """
    return _cross_entropy(hidden, rows, targets, dtype, products, in_one_pass)[0]


def _cross_entropy(hidden, rows, targets, dtype, products, in_one_pass):
    logits = products.matmul(hidden, padded(rows), 1, dtype)
    normaliser = log_sum_exp(_values(logits, rows), in_one_pass)
    label = jnp.take_along_axis(logits, targets[:, None], axis=-1, mode='clip')[:, 0].astype(
        jnp.float32
    )
    label = jnp.where((targets >= 0) & (targets < rows.shape[0]), label, jnp.nan)
    return normaliser - label, (hidden, rows, targets, logits, normaliser)


def _cross_entropy_gradient(dtype, products, in_one_pass, saved, gradient):
    hidden, rows, targets, logits, normaliser = saved
    one_hot = jnp.arange(logits.shape[1])[None] == targets[:, None]
    by_logit = jnp.exp(_values(logits, rows) - normaliser[:, None]) - one_hot
    by_logit = (by_logit * gradient[:, None]).astype(hidden.dtype)
    dhidden = products.matmul(by_logit, padded(rows), 0, hidden.dtype)
    # If the rows of padding were cut off inside the product, a TPU would write by_logit to memory
    # for it.
    drows = lax.optimization_barrier(products.outer(by_logit, hidden))
    return dhidden, drows[: rows.shape[0]], None


cross_entropy.defvjp(_cross_entropy, _cross_entropy_gradient)


def log_sum_exp(values: jax.Array, in_one_pass: bool) -> jax.Array:
    """log of the sum of exponentials of each row: float32[T, R] -> float32[T].

    in_one_pass: reduce the maximum and the sum together (Milakov and Gimelshein, 2018), so that a
    GPU reads the logits once. On other platforms the reduction of a pair does not fuse, or is slow.
    """
    if not in_one_pass:
        top = jnp.max(values, axis=-1)
        return top + jnp.log(jnp.sum(jnp.exp(values - top[:, None]), axis=-1))

    def joined(a, b):
        """Joins two parts of a row, each (maximum, sum of the exponentials below the maximum)."""
        (top_a, sum_a), (top_b, sum_b) = a, b
        scale = jnp.exp(-jnp.abs(top_a - top_b))  # of the part with the smaller maximum
        first = top_a >= top_b
        return jnp.maximum(top_a, top_b), jnp.where(first, sum_a, sum_b) + scale * jnp.where(
            first, sum_b, sum_a
        )

    # not minus infinity: the difference of two infinities is NaN
    least = jnp.finfo(jnp.float32).min
    start = (jnp.float32(least), jnp.float32(0))
    top, total = lax.reduce(
        (jnp.maximum(values, least), jnp.ones_like(values)), start, joined, (1,)
    )
    return top + jnp.log(total)


def padded(rows: jax.Array) -> jax.Array:
    """In bfloat16, adds rows of zeros up to a multiple of 128.

    Tensor cores are slow with a dimension such as 40,478.
    """
    if rows.dtype != jnp.bfloat16:
        return rows
    return jnp.pad(rows, ((0, -rows.shape[0] % 128), (0, 0)))


def _values(logits, rows):
    """The logits in float32, with minus infinity for padding rows."""
    if logits.shape[1] == rows.shape[0]:
        return logits.astype(jnp.float32)
    real = jnp.arange(logits.shape[1])[None] < rows.shape[0]
    return jnp.where(real, logits.astype(jnp.float32), -jnp.inf)
