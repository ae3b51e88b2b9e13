"""Matrix products, in the forms in which a CPU computes them at full speed too."""
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from gpt1_jax.models.kernels import dispatch


def contract(a: jax.Array, a_dimensions: Iterable[int], b: jax.Array, b_dimensions: Iterable[int],
             dtype: Any = None) -> jax.Array:
    """The product of a and b, summed over these dimensions of each: [rest of a, rest of b], in dtype, by default a's.

    On a CPU, bfloat16 products are asked for in float32 and then rounded: only so XLA uses the processor's bfloat16
    instructions (AMX; about four times the speed of float32).
    """
    dtype = dtype or a.dtype
    computed = jnp.float32 if bfloat16_on_a_cpu(a) else dtype
    dimensions = ((tuple(a_dimensions), tuple(b_dimensions)), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=computed).astype(dtype)


def sum_of_outer_products(a: jax.Array, b: jax.Array) -> jax.Array:
    """a^T b: [T, I], [T, O] -> [I, O], on a CPU: the gradient of a kernel from T rows of inputs and output gradients.

    float32: the result has the smaller of I and O as its rows, which is up to a third faster, and is transposed back.
    bfloat16, whose instructions need the rows of a^T in memory: the smaller of a and b is transposed.
    """
    if a.dtype != jnp.bfloat16:
        if a.shape[1] <= b.shape[1]:
            return contract(a, (0,), b, (0,))
        # The barrier keeps XLA from swapping the operands instead of transposing their product.
        return lax.optimization_barrier(contract(b, (0,), a, (0,))).T
    # Rounded before it is transposed back: XLA would otherwise swap the operands, and has no such product on CPUs.
    if a.shape[1] <= b.shape[1]:
        return contract(_transposed(a), (1,), b, (0,))
    return contract(_transposed(b), (1,), a, (0,)).T


def bfloat16_on_a_cpu(x: jax.Array) -> bool:
    return x.dtype == jnp.bfloat16 and on_a_cpu()


def on_a_cpu() -> bool:
    return dispatch.device()[0] == 'cpu'


def _transposed(x):
    """x^T, in memory too: without a layout, XLA would hand x itself to the product."""
    return with_layout_constraint(x.T, Layout((0, 1)))
