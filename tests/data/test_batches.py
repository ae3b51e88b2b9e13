"""Fine-tuning's batches: every row once an epoch, few lengths, the same whatever came before."""
import itertools

import numpy as np
import pytest

from gpt1_jax.data import batches
from gpt1_jax.data.inputs import Encoded


def rows(n=103, seed=0):
    rng = np.random.default_rng(seed)
    return [Encoded(str(i), [[i + 1] * int(rng.integers(2, 90))], i % 2, [1.0, 0.0], False) for i in range(n)]


def test_an_epoch_has_every_row_at_most_once_and_drops_the_partial_batch():
    data = rows()
    sizes = batches.sizes_of(data, 96)
    batch = batches.train_batches(data, 0, 4, sizes)
    seen = [t for step in range(25) for t in batch(step)['tokens'][:, 0, 0]]
    assert len(seen) == len(set(seen)) == 100


def test_epochs_and_seeds_differ_in_order_and_in_what_they_drop():
    data = rows()

    def epoch(seed, first):
        batch = batches.train_batches(data, seed, 4, batches.Sizes((96,), 1, 2))
        return [tuple(batch(first + s)['tokens'][:, 0, 0]) for s in range(25)]
    assert epoch(0, 0) != epoch(0, 25) and epoch(0, 0) != epoch(1, 0)
    assert set(sum(epoch(0, 0), ())) != set(sum(epoch(0, 25), ()))


def test_a_batch_is_a_function_of_the_step_alone():
    data = rows()
    one, other = (batches.train_batches(data, 5, 4, batches.Sizes((96,), 1, 2)) for _ in range(2))
    for step in (77, 26, 3):  # of other epochs
        one(step)
    a, b = one(7), other(7)
    assert all(np.array_equal(a[k], b[k]) for k in a)


def test_the_order_is_the_same_for_ever():
    # Written down once: a change would break every resumed run.
    batch = batches.train_batches(rows(11), 3, 2, batches.Sizes((96,), 1, 2))
    assert [batch(step)['tokens'][:, 0, 0].tolist() for step in range(6)] == [
        [11, 1], [7, 9], [8, 6], [4, 5], [3, 2], [8, 6]]


def test_rows_of_a_batch_are_of_similar_length():
    data = rows(4000)
    sizes = batches.sizes_of(data, 96)
    padded = sum(batch['tokens'].size for batch in map(batches.train_batches(data, 0, 8, sizes), range(500)))
    real = sum(len(r.sequences[0]) for r in data)
    assert padded / real < 1.35  # in random batches padded to their longest row it is 1.8


def test_there_are_at_most_four_lengths_and_the_longest_row_fits():
    data = rows(1000)
    sizes = batches.sizes_of(data, 96)
    assert len(sizes.lengths) <= 4 and all(s % 8 == 0 for s in sizes.lengths)
    assert max(len(r.sequences[0]) for r in data) <= sizes.lengths[-1] <= 96


@pytest.mark.parametrize('n', [1, 2, 3])
def test_no_other_lengths_pad_the_rows_less(n):
    own = np.random.default_rng(n).geometric(0.02, 60)
    found = batches.sizes_of([Encoded('a', [[1] * length], 0, [1.0], False) for length in own], 512, n).lengths

    def padded(lengths):
        return sum(min(length for length in lengths if length >= one) for one in own)
    top = -(-own.max() // 8) * 8
    others = itertools.combinations(range(8, top, 8), n - 1)
    assert padded(found) == min(padded((*some, top)) for some in others)


def test_padding_puts_mask_and_extract_where_the_tokens_end():
    row = Encoded('a', [[10, 5, 12], [10, 5, 6, 12]], 1, [0.0, 1.0], False)
    batch = batches.pad([row], batches.Sizes((8,), 2, 2))
    assert batch['tokens'].tolist() == [[[10, 5, 12, 0, 0, 0, 0, 0], [10, 5, 6, 12, 0, 0, 0, 0]]]
    assert batch['mask'].tolist() == [[[1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]]]
    assert batch['extract'].tolist() == [[2, 3]] and batch['target'].tolist() == [[0, 1]]


def test_a_row_with_fewer_choices_says_which_are_there():
    rows = [Encoded('a', [[10, 12]] * 2, 1, [0.0, 1.0], False), Encoded('b', [[10, 12]] * 3, None, None, False)]
    sizes = batches.sizes_of(rows, 16, 1)
    batch = batches.pad(rows, sizes)
    assert sizes == ((8,), 3, 2) and batch['present'].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch['target'].tolist() == [[0, 1], [0, 0]] and batch['mask'][0, 2].sum() == 0


def test_evaluation_covers_every_row_once_and_fills_up_the_last_batch():
    data = rows(13)
    found = list(batches.eval_batches(data, 4, batches.sizes_of(data, 96)))
    assert sorted(i for indices, _ in found for i in indices) == list(range(13))
    assert [(len(indices), len(batch['tokens'])) for indices, batch in found] == [(4, 4), (4, 4), (4, 4), (1, 4)]
    for indices, batch in found:
        assert (batch['tokens'][:len(indices), 0, 0] == indices + 1).all()


def test_no_length_is_above_the_context_that_rows_were_cut_to():
    assert batches.sizes_of([Encoded('a', [[1] * 98], 0, [1.0], False)], 98) == ((98,), 1, 1)


def test_fixed_lengths_are_those_that_the_rows_need():
    def of(*lengths):
        return [Encoded('a', [[1] * n], 0, [1.0], False) for n in lengths]
    data = of(7, 30, 33, 70)
    assert batches.sizes_of(data, 512, fixed=(128, 32, 64, 256)).lengths == (32, 64, 128)
    assert batches.sizes_of(data, 80, fixed=(32, 64, 256)).lengths == (32, 64, 80)
    assert batches.sizes_of(of(20), 512, fixed=(32,)).lengths == (32,)
