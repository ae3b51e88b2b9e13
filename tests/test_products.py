"""A state times a weight: the gradient by hand is that of automatic differentiation."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpt1_jax.products import dot_general, product


@pytest.mark.parametrize('x, kernel, n', [
    ((3, 5), (5, 7), 1), ((2, 3, 8), (8, 3, 2, 4), 1), ((2, 3, 4, 2), (4, 2, 6), 2)])
def test_values_and_gradients_are_those_of_tensordot(x, kernel, n):
    rng = np.random.default_rng(0)
    x, kernel = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in (x, kernel))
    dy = jnp.asarray(rng.standard_normal((*x.shape[:-n], *kernel.shape[n:])), jnp.float32)
    y, ours = jax.vjp(lambda x, kernel: product(x, kernel, n), x, kernel)
    wanted, theirs = jax.vjp(lambda x, kernel: jnp.tensordot(x, kernel, n), x, kernel)
    for one, other in zip((y, *ours(dy)), (wanted, *theirs(dy))):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    last, first = tuple(range(x.ndim - n, x.ndim)), tuple(range(n))
    np.testing.assert_array_equal(dot_general(x, kernel, ((last, first), ((), ()))), y)


def test_gradients_of_bfloat16_are_of_its_type():
    x, kernel = jnp.ones((2, 4), jnp.bfloat16), jnp.ones((4, 3), jnp.bfloat16)
    assert {g.dtype for g in jax.grad(lambda x, w: product(x, w).astype(jnp.float32).sum(), (0, 1))(x, kernel)} == {
        jnp.dtype('bfloat16')}
