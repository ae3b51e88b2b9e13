import hashlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from gpt1_jax.models.dropout import (
    ATTENTION,
    ATTENTION_OUT,
    CLASSIFIER,
    EMBEDDING,
    MLP_OUT,
    Dropout,
    Key,
    keep_mask,
)

SITES = {
    'embedding': EMBEDDING,
    'attention': ATTENTION,
    'attention_out': ATTENTION_OUT,
    'mlp_out': MLP_OUT,
    'classifier': CLASSIFIER,
}

GOLDEN_SHA = {
    'embedding': '9bcfefd63ab61097',
    'attention': 'fe8ef7a232ae1ae0',
    'attention_out': 'f7dca738e8d71989',
    'mlp_out': '988f056dfcda4d93',
    'classifier': 'e8eda934053451fd',
}


def test_masks_of_every_site_are_frozen():
    """A mask that changes makes every saved run another run on resuming."""
    for name, site in SITES.items():
        mask = np.asarray(keep_mask((17, 1234567, 11, site), (3, 2, 40, 50), 0.1, (4093,)))
        assert hashlib.sha256(np.packbits(mask).tobytes()).hexdigest()[:16] == GOLDEN_SHA[name], (
            name
        )


@pytest.mark.parametrize(
    'words, shape, rate, offsets',
    [
        ((0, 0, 0, 0), (5, 7), 0.1, ()),
        ((2**32 - 1, 2**31, 11, 4), (3, 1, 6), 0.5, (4095,)),
        ((3, 1, 4, 1), (2, 3, 4, 5), 0.9, (1, 2, 3, 60000)),
        ((7,), (2, 2, 65), 0.25, (2**32 - 1,)),
    ],
)
def test_masks_equal_the_hash_computed_in_python_ints(words, shape, rate, offsets):
    expected = reference.keep(words, shape, rate, offsets)
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(keep_mask(words, shape, rate, offsets), expected)


def test_share_of_dropped_elements_is_the_rate_in_every_row_of_4096():
    dropped = np.asarray((~keep_mask((0, 3, 2, MLP_OUT), (4096, 32, 128), 0.1)).sum((1, 2)))
    mean = 4096 * 0.1
    sigma = np.sqrt(4096 * 0.1 * 0.9)
    assert np.abs(dropped - mean).max() < 6 * sigma  # 4,096 binomial draws
    # and their spread is a binomial's, no narrower and no wider: a variance over n draws is known
    # to sqrt(2 / n)
    assert abs(dropped.var() / sigma**2 - 1) < 5 * np.sqrt(2 / 4096)


def test_masks_of_close_words_are_no_shifted_copies_of_each_other():
    """Neighbours, words exchanged, with the same sum, or 2^16 apart: of (seed, step, site, row,
    head), in one layer."""
    words = np.asarray(list(itertools.product((0, 1, 1 << 16), repeat=5)), np.uint32)
    masks = jax.jit(
        jax.vmap(
            lambda w: keep_mask((w[0], w[1], 3, w[2]), (1, 1, 64, 128), 0.1, (w[3], w[4]))[0, 0]
        )
    )(words)
    spectra = np.fft.rfft2((~np.asarray(masks)).astype(np.float32) - np.float32(0.1))
    # Of the correlation of two independent masks of that size
    sigma = np.sqrt(64 * 128) * 0.1 * 0.9
    # 9 sigma: millions of pairs and shifts are looked at, and joint drops have a binomial's heavy
    # tail (82 expected of 8,192). A mask and its own copy shifted by half of its size in both axes
    # stand at 22.
    for n, spectrum in enumerate(spectra[:-1]):
        # every cyclic shift in both axes, against every later mask
        correlations = np.fft.irfft2(spectra[n + 1 :] * spectrum.conj()[None], s=(64, 128))
        assert np.abs(correlations).max() < 9 * sigma, words[n]


@pytest.mark.parametrize('row', [0, 6])
def test_kept_elements_are_divided_by_the_keep_rate_and_others_are_zero(row):
    """From the key's row on; the gradient alike."""
    mask = reference.keep((1, 2, 3, MLP_OUT), (8, 3, 4), 0.25)
    assert not np.array_equal(mask[:2], mask[6:]) and 0 < mask[row : row + 2].sum() < 24
    drop = Dropout(Key(jnp.uint32(1), jnp.uint32(2), jnp.uint32(row)), 3).at(MLP_OUT, 0.25)
    y, gradient = jax.vjp(drop, jnp.full((2, 3, 4), 3.0))
    for found in (y, *gradient(jnp.full((2, 3, 4), 3.0))):
        np.testing.assert_array_equal(found, np.where(mask[row : row + 2], 4.0, 0.0))
