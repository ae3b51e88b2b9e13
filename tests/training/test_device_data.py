"""Tokens on the devices: the same windows, the same results to the bit, and nothing sent for
them."""

import types

import numpy as np
import pytest

from gpt1_jax.data import windows
from gpt1_jax.parallel import sharding
from gpt1_jax.training import device_data

pytestmark = pytest.mark.full


def stream_of(*sizes, vocab_size=2**16):
    rng = np.random.default_rng(0)
    return windows.TokenStream(
        tuple(rng.integers(0, vocab_size, n).astype('<u2') for n in sizes), 'made up', 'f'
    )


@pytest.mark.quick
@pytest.mark.parametrize('sizes', [(41,), (5, 1, 4, 13), (25,), (32,)], ids=str)
def test_every_window_is_the_one_that_the_host_would_read(sizes):
    stream = stream_of(*sizes)
    corpus = device_data.place(stream, 8, sharding.make_mesh(), 'yes')
    assert (
        corpus.dtype == np.uint16
        and len(corpus.sharding.device_set) == 8
        and corpus.is_fully_replicated
    )
    numbers = np.arange(stream.n_windows(8), dtype=np.int32)
    assert corpus.shape == (len(numbers) + 1, 8)
    padding = np.zeros(-stream.n_tokens % 8, '<u2')
    np.testing.assert_array_equal(np.ravel(corpus), [*np.concatenate(stream.shards), *padding])
    found = device_data.windows(corpus, numbers)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [stream.window(i, 8) for i in numbers])


@pytest.mark.parametrize(
    'platform, stats, fits',
    [
        ('gpu', {'bytes_limit': 8000}, True),
        ('gpu', {'bytes_limit': 7999}, False),
        ('cpu', {'bytes_limit': 8000}, False),
        ('gpu', None, False),
    ],
)
def test_an_eighth_of_a_device_is_for_tokens(platform, stats, fits):
    device = types.SimpleNamespace(platform=platform, memory_stats=lambda: stats)
    assert device_data.fits(1000, device) == fits
