"""Section 3.1: dense layers and their matrix product, whose gradient is written by hand."""
import functools
import math

import flax.linen as nn
import jax

from gpt1_jax.models.float32_sums import add_bias
from gpt1_jax.models.matmul import bfloat16_on_a_cpu, contract, on_a_cpu, sum_of_outer_products
from gpt1_jax.parallel.sharding import spans


class Dense(nn.Module):
    """x @ kernel + bias, with the gradients of `product` and float32_sums.add_bias.

    features: dimensions of the result, which replace the last n of x. dtype: of the product; parameters are float32.
    The product is one of matrices, [.., D] by [D, 3 * H * E], unless the mesh divides heads over devices: with more
    dimensions, a TPU pads the last one (64) to 128 in memory, and copies.
    """
    features: tuple[int, ...]
    kernel_init: nn.initializers.Initializer
    dtype: str
    n: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param('kernel', self.kernel_init, (*x.shape[-self.n:], *self.features))
        bias = self.param('bias', nn.initializers.zeros, self.features)
        kernel = kernel.astype(self.dtype)
        if spans('tensor'):
            return add_bias(product(x, kernel, self.n), bias)
        leading = x.shape[:-self.n]
        x = x.reshape(*leading, math.prod(x.shape[-self.n:]))
        y = add_bias(product(x, kernel.reshape(x.shape[-1], -1)), bias.reshape(-1))
        return y.reshape(*leading, *self.features)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, kernel: jax.Array, n: int = 1) -> jax.Array:
    """x @ kernel: [..., I], [I, O] -> [..., O], where I stands for n dimensions and O for any number.

    The gradient is written by hand: automatic differentiation computes the kernel's gradient transposed, for which a
    CPU copies the output's gradient and then multiplies at half its speed (a ninth of a training step).
    """
    return contract(x, range(x.ndim - n, x.ndim), kernel, range(n))


def _forward(x, kernel, n):
    return product(x, kernel, n), (x, kernel)


def _backward(n, saved, dy):
    x, kernel = saved
    out = kernel.ndim - n
    dx = contract(dy, range(dy.ndim - out, dy.ndim), kernel, range(n, kernel.ndim))
    # A mesh that divides inputs or outputs over devices would gather them for float32's transposed product.
    if bfloat16_on_a_cpu(x) or (on_a_cpu() and not spans('tensor')):
        inputs = x.reshape(-1, math.prod(kernel.shape[:n]))
        return dx, sum_of_outer_products(inputs, dy.reshape(len(inputs), -1)).reshape(kernel.shape)
    rows = range(x.ndim - n)
    return dx, contract(x, rows, dy, rows)


product.defvjp(_forward, _backward)
