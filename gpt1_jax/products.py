"""Section 3.1: a state times a weight, with the gradient by hand."""
import functools

import jax
from jax import lax


def dot_general(x, kernel, dimension_numbers, precision=None, preferred_element_type=None):
    """What flax's dense layers call: the last dimensions of x times the first ones of a kernel, no others.

    The gradient by hand: automatic differentiation makes the kernel's transposed and turns it round, for which a CPU
    copies the output's gradient, and then multiplies at half its speed (a ninth of a step).
    """
    (of_x, of_kernel), batch = dimension_numbers
    n = len(of_x)
    assert (tuple(of_x), tuple(of_kernel), batch) == (tuple(range(x.ndim - n, x.ndim)), tuple(range(n)), ((), ()))
    return product(x, kernel, n)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x, kernel, n=1):
    """[..., I], [I, O] -> [..., O], where I stands for n dimensions."""
    return lax.dot_general(x, kernel, ((tuple(range(x.ndim - n, x.ndim)), tuple(range(n))), ((), ())))


def _forward(x, kernel, n):
    return product(x, kernel, n), (x, kernel)


def _backward(n, saved, dy):
    x, kernel = saved
    out, rows = kernel.ndim - n, tuple(range(x.ndim - n))
    dx = lax.dot_general(dy, kernel, ((tuple(range(dy.ndim - out, dy.ndim)), tuple(range(n, kernel.ndim))), ((), ())))
    return dx, lax.dot_general(x, dy, ((rows, rows), ((), ())))


product.defvjp(_forward, _backward)
