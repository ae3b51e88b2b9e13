"""The residual sum with its norm, by plain lines and by the kernel, whose operations are run one by one on the CPU."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.errors import UserError
from gpt1_jax.models import dropout, residual
from gpt1_jax.models.kernels import residual_norm
from gpt1_jax.parallel import sharding

pytestmark = pytest.mark.full

SEED, STEP, LAYER, ROW = 7, 1234567, 3, 5
KEY = dropout.Key(jnp.uint32(SEED), jnp.uint32(STEP), jnp.uint32(ROW))
SITE = dropout.MLP_OUT


def inputs(B, L, D, dtype='float32'):
    """x, a, scale, bias, and the gradients of the result and of its copy."""
    generator = np.random.default_rng(0)
    x, a, dy, d_again = (jnp.asarray(generator.normal(size=(B, L, D)), dtype) for _ in range(4))
    return x, a, *(jnp.asarray(generator.normal(size=D), jnp.float32) for _ in range(2)), dy, d_again


def formula(x, a, scale, bias, dy, d_again, rate):
    """The result and the gradients of x, a, scale and bias, in float64, with the mask in Python's ints."""
    x, a, scale, bias, dy, d_again = (np.asarray(each, np.float64) for each in (x, a, scale, bias, dy, d_again))
    dy = dy + d_again
    mask = reference.keep((SEED, STEP, LAYER, SITE), x.shape, rate, (ROW,)) / (1 - rate) if rate else 1
    total = x + a * mask
    z = total - total.mean(-1, keepdims=True)
    deviation = np.sqrt((z ** 2).mean(-1, keepdims=True) + 1e-5)
    z = z / deviation
    dz = dy * scale
    dx = (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) / deviation
    return z * scale + bias, dx, dx * mask, (dy * z).sum((0, 1)), dy.sum((0, 1))


def run(choice, values, rate):
    """As `formula`, by add_and_norm, jitted."""
    def both(x, a, scale, bias, *gradients):
        def f(*leaves):
            return residual.add_and_norm(*leaves, SITE, rate=rate, key=KEY, layer=LAYER, choice=choice)
        (y, _), gradient = jax.vjp(f, x, a, scale, bias)
        return y, *gradient(gradients)
    return [np.asarray(each, np.float64) for each in jax.jit(both)(*values)]


# 48 is three pieces of 16, as 768 is three of 256; 6 and 12 positions are no multiple of the kernel's 8.
@pytest.mark.parametrize('choice', ['xla', 'triton'])
@pytest.mark.parametrize('rate, shape', [(0.1, (2, 12, 48)), (0.0, (1, 6, 32))], ids=str)
def test_values_and_gradients_are_the_formulas(choice, rate, shape):
    values = inputs(*shape)
    for found, expected in zip(run(choice, values, rate), formula(*values, rate), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


def test_in_bfloat16_the_kernel_is_about_as_near_to_the_formula_as_the_plain_lines():
    """It rounds the normalised vectors, which it keeps, where those round the sums."""
    values = inputs(2, 16, 48, 'bfloat16')
    expected = formula(*values, 0.1)
    errors = [[np.linalg.norm(found - wanted) / np.linalg.norm(wanted) for found, wanted in zip(found, expected)]
              for found in (run('triton', values, 0.1), run('xla', values, 0.1))]
    for kernel, plain in zip(*errors):
        assert kernel <= min(1.5 * plain, 0.005)


def test_the_gains_gradients_add_up_over_several_programs(monkeypatch):
    monkeypatch.setattr(residual_norm, 'ROWS', 2)
    values = inputs(2, 16, 16)  # 8 programs a row of the batch, where there were 2
    for found, expected in zip(run('triton', values, 0.1), formula(*values, 0.1)):
        np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize('sizes, B', [((4, 2, 1), 8), ((2, 2, 2), 4), ((1, 2, 4), 1)], ids=str)
def test_any_mesh_gives_what_one_device_gives(sizes, B):
    values = inputs(B, 8, 16)
    expected = run('triton', values, 0.1)
    with jax.set_mesh(sharding.make_mesh(*sizes)):
        found = run('triton', values, 0.1)
    for one, several in zip(expected, found):  # a mask of another row would change a tenth of them
        np.testing.assert_allclose(several, one, atol=1e-6 * np.abs(one).max())


def test_without_a_key_there_is_no_dropout():
    values = inputs(1, 4, 16)
    for y in residual.add_and_norm(*values[:4], SITE, rate=0.1):
        np.testing.assert_allclose(y, formula(*values, 0)[0], atol=1e-5)


@pytest.mark.parametrize('D', [8, 17 * 16, 100])
def test_a_width_that_the_kernel_cannot_hold_is_one_line_that_names_the_field(D):
    x, a, scale, bias, *_ = inputs(1, 2, D)
    with pytest.raises(UserError, match=rf"^model.kernels = 'triton' [^\n]* not {D}: [^\n]*$"):
        residual.add_and_norm(x, a, scale, bias, SITE, key=KEY, choice='triton')
