"""The attention kernel for TPUs, its operations run one by one on the CPU, against the formula in float64 and the plain
path."""
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
    run,
    without_and_with_mesh,
)
from gpt1_jax.models import dropout
from gpt1_jax.models.kernels import tpu_attention

pytestmark = pytest.mark.full


def ours(rate, key):
    return lambda qkv: tpu_attention.tpu_attention(qkv, rate=rate, key=key, layer=LAYER, interpret=True)


# Two heads of 64 share a program; a third one has zeros for company. 100 and 130 positions are padded to 128 and 256.
@pytest.mark.parametrize('rate, key, B, L, H, E', [
    (0.1, KEY, 1, 130, 2, 64), (0.5, KEY, 2, 100, 3, 64), (0.1, KEY, 1, 128, 1, 128), (0.0, KEY, 1, 1, 1, 64),
    (0.1, None, 1, 130, 1, 256), (0.1, KEY, 1, 256, 2, 64), (0.1, KEY, 1, 256, 1, 128), (0.1, KEY, 1, 500, 1, 64),
    (0.1, KEY, 1, 512, 2, 64), (0.1, KEY, 1, 512, 1, 128)],
    ids='130 64,100 64,128 128,1 64,130 256 evaluation,256 64,256 128,500 64,512 64,512 128'.split(','))
def test_outputs_and_gradients_are_the_formulas_and_the_plain_paths(rate, key, B, L, H, E):
    qkv, d_out = inputs(B, L, H, E)
    check_formula((ours(rate, key), plain(rate, key)), qkv, d_out, rate, key)


def test_the_mask_is_the_plain_paths_to_the_bit():
    """Where the values are the unit matrix, the outputs are the dropped probabilities, zero only where dropped; where
    the gradient of the output is, so are the gradients of the values."""
    L = E = 128
    qkv, _ = inputs(3, L, 2, E)
    unit = jnp.broadcast_to(jnp.eye(L)[None, :, None], (3, L, 2, E))
    out, gradient = run(ours(0.3, KEY), qkv.at[:, :, 2].set(unit), unit)
    mask = reference.keep((SEED, STEP, LAYER, dropout.ATTENTION), (3, 2, L, L), 0.3, (ROW,)) & np.tri(L, dtype=bool)
    np.testing.assert_array_equal(out.transpose(0, 2, 1, 3) != 0, mask)
    np.testing.assert_array_equal(gradient[:, :, 2].transpose(0, 2, 3, 1) != 0, mask)


@pytest.mark.parametrize('E', [64, 128])
def test_in_bfloat16_the_kernel_is_no_further_from_the_formula_than_the_plain_path(E):
    qkv, d_out = inputs(1, 200, 2, E, jnp.bfloat16)
    assert tpu_attention.tpu_attention(qkv, interpret=True).dtype == jnp.bfloat16
    check_half_precision(ours, qkv, d_out)


# On several devices

@pytest.mark.parametrize('sizes, B, H', [((8, 1, 1), 8, 1), ((2, 2, 2), 4, 2), ((1, 2, 4), 1, 8), ((1, 1, 8), 2, 3)],
                         ids=str)
def test_any_mesh_gives_what_one_device_gives(sizes, B, H):
    """To the bit. One row on four devices, as in initialisation, is computed by each of them, as are three heads on
    eight."""
    qkv, d_out = inputs(B, 100, H, 64)
    expected, found = without_and_with_mesh(ours(0.1, KEY), qkv, d_out, sizes)
    for one, several in zip(expected, found):
        np.testing.assert_array_equal(several, one)
