"""Section 4.1: the Gaussian Error Linear Unit, in its tanh form as released (train.py 24-25)."""
import math

import jax
import jax.numpy as jnp
from jax import lax

ROOT = math.sqrt(2 / math.pi)


@jax.custom_vjp
def gelu(x, bias):
    """g(x + bias) with g(z) = 0.5 z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))).

    x: [..., F], a product as it comes out. bias: [F]. Computed in float32 whatever x's type, which the result has.
    The gradient by hand: it keeps x alone, where automatic differentiation keeps two arrays more.
    """
    z = _sum(x, bias)
    return (0.5 * z * (1 + jnp.tanh(_inner(z)))).astype(x.dtype)


def _backward(saved, dy):
    # Without the barrier the compiler computes all this once, in the forward pass, and keeps it after all.
    x, bias = lax.optimization_barrier(saved)
    z = _sum(x, bias)
    tanh = jnp.tanh(_inner(z))
    slope = 0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * ROOT * (1 + 3 * 0.044715 * z * z)
    dz = (dy.astype(jnp.float32) * slope).astype(x.dtype)
    # Not jnp.sum: with its float32 copy of dz, the compiler writes dz to memory in float32 for it.
    return dz, lax.reduce_sum(dz, axes=tuple(range(x.ndim - 1))).astype(bias.dtype)


def _sum(x, bias):
    return x.astype(jnp.float32) + bias.astype(jnp.float32).reshape((1,) * (x.ndim - 1) + bias.shape)


def _inner(z):
    return ROOT * (z + 0.044715 * z * z * z)


gelu.defvjp(lambda x, bias: (gelu(x, bias), (x, bias)), _backward)
