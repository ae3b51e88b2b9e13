"""Section 4.1: windows and batches as a function of the step."""

import numpy as np
import pytest

from gpt1_jax.data import windows
from refusal import refusal


@pytest.fixture
def stream():
    """0 .. 22 in shards of 5, 1, 4, 13."""
    shards = np.split(np.arange(23, dtype='<u2'), [5, 6, 10])
    return windows.TokenStream(tuple(shards), 'made up', 'f')


def test_evenly_spaced_windows_are_the_nearest_to_equal_steps(stream):
    """Of windows 0 to 4: 0, 1.33, 2.67, 4."""
    assert stream.evenly_spaced(4, 4).tolist() == [0, 1, 3, 4]
    assert stream.evenly_spaced(9, 4).tolist() == [0, 1, 2, 3, 4]


def test_windows_overlap_by_one_token_and_cross_shards(stream):
    assert (stream.n_tokens, stream.n_windows(4)) == (23, 5)
    for i in range(5):
        assert stream.window(i, 4).tolist() == list(range(4 * i, 4 * i + 5))
    assert stream.window(0, 22).tolist() == list(range(23))
    odd = windows.TokenStream((np.array([65534, 40478, 0], '<u2'),), 'x', 'f').window(0, 2)
    assert odd.tolist() == [65534, 40478, 0] and odd.dtype == np.int32


@pytest.mark.parametrize('n_tokens, n_windows', [(0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_a_window_needs_one_token_more_than_it_predicts(n_tokens, n_windows):
    stream = windows.TokenStream((np.zeros(n_tokens, np.uint16),), 'x', 'f')
    assert stream.n_windows(4) == n_windows


def test_a_window_lies_within_the_stream(stream):
    for i in (5, -1):
        with pytest.raises((IndexError, ValueError)):
            stream.window(i, 4)
    said = refusal(windows.window_numbers, stream, 0, 0, 1, 23)
    assert 'made up: 23 tokens, one window of 23 needs 24' in said


@pytest.mark.parametrize('size, steps', [(3, 10), (10, 3)])
def test_every_epoch_visits_every_window_once_in_an_order_of_its_own(stream, size, steps):
    # Batches over 5 windows, of six epochs, run across their ends.
    first = np.concatenate(
        [windows.window_numbers(stream, step, 7, size, 4) for step in range(steps)]
    )
    epochs = first.reshape(6, 5)
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 3


@pytest.mark.parametrize(
    'seed, epoch, order',
    [
        (0, 0, [4, 0, 1, 7, 6, 2, 5, 3]),
        (1, 0, [3, 5, 2, 4, 1, 0, 6, 7]),
        (0, 1, [7, 0, 1, 6, 3, 4, 5, 2]),
    ],
)
def test_the_order_is_the_same_for_ever(seed, epoch, order):
    # Written down once: a change would break every resumed run.
    assert windows.permutation(seed, epoch, 8).tolist() == order


def test_any_slicing_gives_rows_of_the_same_global_batch(stream):
    whole = windows.window_numbers(stream, 3, 1, 8, 4)
    assert whole.shape == (8,) and whole.dtype == np.int32
    for rows in (slice(0, 4), slice(2, 3), slice(1, 8, 2), slice(8, 8)):
        found = windows.window_numbers(stream, 3, 1, 8, 4, rows)
        assert found.tolist() == whole[rows].tolist()
    found = stream.windows(whole, 4)
    assert found.dtype == np.int32
    assert found.tolist() == [stream.window(i, 4).tolist() for i in whole]
    assert stream.windows(whole[8:], 4).shape == (0, 5)
