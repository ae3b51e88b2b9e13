"""Fine-tuning's batches: every row once an epoch, few lengths, the same whatever came before."""

import hashlib
import itertools

import numpy as np
import pytest

from gpt1_jax.data import batches
from gpt1_jax.data.inputs import Encoded


def of_lengths(lengths, labels=None):
    """Rows whose tokens are their numbers, from 1."""
    return [
        Encoded(str(i), [[i + 1] * int(n)], label, [1.0, 0.0], False)
        for i, (n, label) in enumerate(zip(lengths, labels or itertools.cycle((0, 1))))
    ]


def rows(n=103):
    return of_lengths(np.random.default_rng(0).integers(2, 90, n))


SIZES = batches.Sizes((24, 48, 96), 1, 2)


def test_an_epoch_has_every_row_at_most_once_epochs_and_seeds_differ_in_order_and_in_what_they_drop():
    def epoch(seed, first):
        batch = batches.train_batches(rows(), seed, 4, SIZES)
        return [t for step in range(25) for t in batch(first + step)['tokens'][:, 0, 0]]

    one = epoch(0, 0)
    following = epoch(0, 25)
    other = epoch(1, 0)
    assert len(one) == len(set(one)) == 100
    assert following != one != other and set(one) != set(following)


def test_a_batch_is_a_function_of_the_step_alone():
    one, other = (batches.train_batches(rows(), 5, 4, SIZES) for _ in range(2))
    for step in (77, 26, 3):  # of other epochs
        one(step)
    a = one(7)
    b = other(7)
    assert all(np.array_equal(a[k], b[k]) for k in a)


def digest(n, size, steps, by_length, scores):
    lengths = [2 + i * i * 7919 % 89 for i in range(n)]
    labels = [i * 37 % 101 / 20 for i in range(n)] if scores else None
    batch = batches.train_batches(of_lengths(lengths, labels), 3, size, SIZES, by_length)
    found = [(batch(step)['tokens'][:, 0, 0] - 1).tolist() for step in range(steps)]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    'by_length, scores, digests',
    [
        (False, False, ('2965006af433051e', 'ff8c23b2eaa5c933', '565bd99e870a731c')),
        (True, False, ('7a9c4a7a3518533f', '60b7d22988e1ac03', '4c4a3bda6efd3261')),
        (True, True, ('e0c00bbe3f19fe49', '8ca1ee374b4e64d9', '68db7917c7b9be25')),
    ],
)
def test_the_order_is_the_same_for_ever(by_length, scores, digests):
    # Written down once: a change would break every resumed run.
    # Rows, batch and steps, of more than two epochs
    sets = ((4001, 32, 300), (103, 4, 60), (500, 8, 130))
    assert tuple(digest(*one, by_length, scores) for one in sets) == digests


@pytest.mark.parametrize('n', [1, 2, 3, 4])
def test_no_other_lengths_up_to_so_many_pad_the_rows_less(n):
    own = np.random.default_rng(n).geometric(0.02, 60)
    found = batches.sizes_of(of_lengths(own), 512, n).lengths
    assert len(found) <= n and not any(length % 4 for length in found)

    def padded(lengths):
        return np.asarray(lengths)[np.searchsorted(lengths, own)].sum()

    top = -(-own.max() // 4) * 4
    others = itertools.combinations(range(4, top, 4), n - 1)
    assert padded(found) == min(padded((*some, top)) for some in others)


def test_padding_puts_mask_and_extract_where_the_tokens_end():
    row = Encoded('a', [[10, 5, 12], [10, 5, 6, 12]], 1, [0.0, 1.0], False)
    found = batches.pad([row], batches.Sizes((8,), 2, 2))
    zeros = [0] * 4
    assert {name: array.tolist() for name, array in found.items()} == {
        'tokens': [[[10, 5, 12, 0, *zeros], [10, 5, 6, 12, *zeros]]],
        'mask': [[[1, 1, 1, 0, *zeros], [1, 1, 1, 1, *zeros]]],
        'extract': [[2, 3]],
        'target': [[0, 1]],
        'present': [[1, 1]],
    }


def test_a_row_with_fewer_choices_says_which_are_there():
    rows = [
        Encoded('a', [[10, 12]] * 2, 1, [0.0, 1.0], False),
        Encoded('b', [[10, 12]] * 3, None, None, False),
    ]
    sizes = batches.sizes_of(rows, 16, 1)
    batch = batches.pad(rows, sizes)
    assert sizes == ((4,), 3, 2) and batch['present'].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch['target'].tolist() == [[0, 1], [0, 0]] and batch['mask'][0, 2].sum() == 0


def test_evaluation_covers_every_row_once_and_fills_up_the_last_batch():
    data = rows(13)
    found = list(batches.eval_batches(data, 4, batches.sizes_of(data, 96)))
    assert sorted(i for indices, _ in found for i in indices) == list(range(13))
    assert [len(indices) for indices, _ in found] == [4, 4, 4, 1]
    for indices, batch in found:
        assert len(batch['tokens']) == 4
        assert (batch['tokens'][: len(indices), 0, 0] == indices + 1).all()


@pytest.mark.parametrize(
    'lengths, n_ctx, fixed, expected',
    [
        ((7, 30, 33, 70), 512, (128, 32, 64, 256), (32, 64, 128)),
        ((7, 30, 33, 70), 80, (32, 64, 256), (32, 64, 80)),
    ],
)
def test_fixed_lengths_are_those_that_the_rows_need_and_none_is_above_the_context(
    lengths, n_ctx, fixed, expected
):
    assert batches.sizes_of(of_lengths(lengths), n_ctx, fixed=fixed).lengths == expected
