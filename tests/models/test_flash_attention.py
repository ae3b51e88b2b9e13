"""The flash attention kernel, its operations run one by one on the CPU, against the formula in float64 and the plain
path."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from attention_formula import (
    KEY,
    LAYER,
    ROW,
    SEED,
    STEP,
    check_formula,
    check_half_precision,
    inputs,
    plain,
    without_and_with_mesh,
)
from gpt1_jax.models import dropout
from gpt1_jax.models.kernels import flash_attention as flash

pytestmark = pytest.mark.full


def ours(rate, key):
    return lambda qkv: flash.flash_attention(qkv, rate=rate, key=key, layer=LAYER, interpret=True)


# 100 positions: two tiles of which the last is partly filled. 16: one, smaller than a tile is otherwise.
@pytest.mark.parametrize('rate, key, B, L, H, E', [
    (0.1, KEY, 1, 100, 2, 16), (0.5, KEY, 2, 16, 2, 32), (0.0, KEY, 1, 100, 1, 16), (0.1, None, 1, 100, 1, 16)],
    ids=['0.1', '0.5', '0', 'evaluation'])
def test_outputs_and_gradients_are_the_formulas_and_the_plain_paths(rate, key, B, L, H, E):
    qkv, d_out = inputs(B, L, H, E)
    check_formula((ours(rate, key), plain(rate, key)), qkv, d_out, rate, key)


@pytest.mark.parametrize('forward, backward', [((32, 16), (16, 32)), ((16, 32), (32, 16)), ((64, 64), (64, 64))])
def test_no_result_depends_on_the_tiles(monkeypatch, forward, backward):
    monkeypatch.setattr(flash, 'FORWARD', flash.FORWARD._replace(queries=forward[0], keys=forward[1]))
    monkeypatch.setattr(flash, 'BACKWARD', flash.BACKWARD._replace(queries=backward[0], keys=backward[1]))
    qkv, d_out = inputs(1, 64, 1, 16)
    check_formula((ours(0.1, KEY),), qkv, d_out, 0.1, KEY)


def test_the_mask_is_the_plain_paths_to_the_bit():
    """Where the values are the unit matrix, the outputs are the dropped probabilities, zero only where dropped."""
    L = E = 64
    qkv = inputs(3, L, 2, E)[0].at[:, :, 2].set(jnp.eye(L)[None, :, None])
    out = np.moveaxis(jax.jit(ours(0.3, KEY))(qkv), 2, 1)
    mask = reference.keep((SEED, STEP, LAYER, dropout.ATTENTION), (3, 2, L, L), 0.3, (ROW,)) & np.tri(L, dtype=bool)
    np.testing.assert_array_equal(out != 0, mask)


def test_in_bfloat16_the_kernel_is_no_further_from_the_formula_than_the_plain_path():
    qkv, d_out = inputs(1, 100, 2, 16, jnp.bfloat16)
    assert flash.flash_attention(qkv, interpret=True).dtype == jnp.bfloat16
    check_half_precision(ours, qkv, d_out)


# On several devices

@pytest.mark.parametrize('sizes, B, H', [((8, 1, 1), 8, 1), ((2, 2, 2), 4, 2), ((1, 2, 4), 1, 4)], ids=str)
def test_any_mesh_gives_what_one_device_gives(sizes, B, H):
    """To the bit forward; to rounding backward, where a row's mean is added up by XLA, by the shape that a device has.
    One row on four devices, as in initialisation, is computed by each of them."""
    qkv, d_out = inputs(B, 32, H, 16)
    expected, found = without_and_with_mesh(ours(0.1, KEY), qkv, d_out, sizes)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6 * np.abs(expected[1]).max())
