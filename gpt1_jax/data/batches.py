"""Section 4.1: fine-tuning's batches of 32. Every epoch is a new permutation of the rows. Rows of
similar length share a batch, which saves padding, and each batch has the labels that a plain
shuffle would give it.

config.batch.by_length chooses the order of an epoch, a pure function of (seed, epoch):

    True    The default. A permutation is cut into batches. In each window of an eighth of the
            batches, rows with the same label are exchanged between batches, so that padded lengths
            increase. Scores count as four labels, their quartiles. Then the batches are shuffled.
    False   The plain shuffle of the released code: a permutation cut into batches.

A window of two batches, with rows of labels A and B and of 4 or 8 tokens:

    False   [A8 B4] [A4 B8]    2 * 8 + 2 * 8 = 32 tokens with padding
    True    [A4 B4] [A8 B8]    2 * 4 + 2 * 8 = 24 tokens, and the labels are in the same places

Length and label correlate, so sorting only by length would give batches of similar labels. On
STS-B the mean label of a batch then varied 2.5 times as much (in variance) as in a plain shuffle.
Sorting a whole epoch would repeat its batches.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpt1_jax.data.inputs import Encoded
from gpt1_jax.data.windows import permutation

Batch = dict[str, np.ndarray]  # see `pad`

WINDOWS = 8  # in an epoch
SCORE_GROUPS = 4  # groups of equal size within which scores are exchanged


class Sizes(NamedTuple):
    """The shapes of a set's batches. Few lengths mean that few programs are compiled.

    lengths:   ascending. Sequences are padded to the smallest of these that fits.
    sequences: K, the most sequences in a row.
    targets:   C, the most numbers in a target.
    """

    lengths: tuple[int, ...]
    sequences: int
    targets: int


def sizes_of(rows: Sequence[Encoded], n_ctx: int, n: int = 4, fixed: Sequence[int] = ()) -> Sizes:
    """Returns the Sizes for rows, with at most `n` lengths that need the least padding.

    A length is n_ctx or a multiple of 4. fixed: use these lengths instead, as far as the rows need
    them, and n_ctx for longer rows.
    """
    own = _longest(rows)
    if fixed:
        fixed = sorted({*(length for length in fixed if length < n_ctx), n_ctx})
        lengths = fixed[: 1 + next(i for i, length in enumerate(fixed) if length >= max(own))]
    else:
        lengths = _least_padding(np.minimum(-(-own // 4) * 4, n_ctx), n)
    return Sizes(
        tuple(lengths),
        max(len(row.sequences) for row in rows),
        max(len(row.target or ()) for row in rows),
    )


def _least_padding(own, n):
    """At most n lengths, ascending, to which rows are padded with the fewest tokens.

    own: the lengths of the rows, int[rows].
    """
    candidates, counts = np.unique(own, return_counts=True)
    # below[k]: the number of rows no longer than the k-th candidate, counted from 1
    below = np.append(0, np.cumsum(counts))
    costs = np.append(0, candidates) * (below - below[:-1, None])
    return [int(candidates[end - 1]) for end in cheapest_cuts(costs, n)]


def cheapest_cuts(costs: np.ndarray, n: int) -> tuple[int, ...]:
    """Cuts U items in a row into at most n runs at the lowest total cost, and returns their ends.

    costs: int[U, U + 1]. costs[i, k] is the cost of the run of the items i to k - 1. Dynamic
    programming, O(n * U^2), with total' for one run less:
        total[0] = 0
        total[k] = min over i < k of total'[i] + costs[i, k]
    """
    costs = costs.tolist()
    # (total, ends) up to each k
    best: list[tuple[float, tuple[int, ...]]] = [(0, ())] + [(math.inf, ())] * len(costs)
    for _ in range(n):
        best = best[:1] + [
            min((total + costs[i][k], (*ends, k)) for i, (total, ends) in enumerate(best[:k]))
            for k in range(1, len(best))
        ]
    return best[-1][1]


def train_batches(
    rows: Sequence[Encoded], seed: int, size: int, sizes: Sizes, by_length: bool = True
) -> Callable[[int], Batch]:
    """Returns a pure function step -> batch (see `pad`), in the order that is described above.

    The last partial batch of an epoch is dropped, as in the released code.
    by_length: config.batch.by_length.
    """
    steps = len(rows) // size
    # Index of the length that each row is padded to
    padded = np.searchsorted(sizes.lengths, _longest(rows))
    labels = _labels(rows)

    @functools.lru_cache(maxsize=2)  # for RACE's 87,866 rows an order takes longer than a batch
    def order(epoch):
        """The indices of each step's rows, int[steps, size]."""
        chosen = permutation(seed, epoch, len(rows))[: steps * size]
        if not by_length:
            return chosen.reshape(steps, size)
        chosen = _exchanged(chosen, padded, labels, max(1, steps // WINDOWS) * size)
        return chosen.reshape(steps, size)[permutation(seed + 1, epoch, steps)]

    def batch(step):
        epoch, index = divmod(step, steps)
        return pad([rows[i] for i in order(epoch)[index]], sizes)

    return batch


def _exchanged(chosen, padded, labels, width):
    """Reorders row indices, int[n], in each window of `width` positions.

    Every position keeps its label, and the rows of one label are sorted by padded length.
    padded, labels: int[rows].
    """
    # Both orders group the positions by window and label (lexsort's last key is the first).
    # `places` keeps the positions of a group ascending. `sources` sorts the rows of a group by
    # padded length; the sort is stable, so rows of equal length stay in random order. The j-th row
    # of a group in order of length goes to the group's j-th position.
    window = np.arange(len(chosen)) // width
    places = np.lexsort((labels[chosen], window))
    sources = np.lexsort((padded[chosen], labels[chosen], window))
    result = np.empty_like(chosen)
    result[places] = chosen[sources]
    return result


def _labels(rows):
    """The rows' labels, int[rows]. A score counts as the quartile that it is in."""
    labels = np.array([row.label for row in rows])
    if labels.dtype.kind != 'f':
        return labels
    # The borders of the quartiles
    edges = np.sort(labels)[np.arange(1, SCORE_GROUPS) * len(labels) // SCORE_GROUPS]
    return np.searchsorted(edges, labels, side='right')


def eval_batches(
    rows: Sequence[Encoded], size: int, sizes: Sizes
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yields (indices int[n], batch) over all rows, sorted by length.

    The last batch is filled up with copies of its last row. If it has more rows than indices,
    ignore the copies.
    """
    order = np.argsort(_longest(rows), kind='stable')
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        yield (
            chosen,
            pad([rows[i] for i in chosen] + [rows[chosen[-1]]] * (size - len(chosen)), sizes),
        )


def pad(rows: Sequence[Encoded], sizes: Sizes) -> Batch:
    """Returns the arrays of a batch. L is the smallest of the lengths that fits.

    tokens   int32[B, K, L]
    mask     float32[B, K, L], 1 at real tokens
    extract  int32[B, K], the position of the extract token
    present  float32[B, K], 0 if a row has fewer choices
    target   float32[B, C], zeros without a label
    """
    longest = max(len(s) for row in rows for s in row.sequences)
    L = min(length for length in sizes.lengths if length >= longest)
    shape = len(rows), sizes.sequences
    tokens = np.zeros((*shape, L), np.int32)
    mask = np.zeros((*shape, L), np.float32)
    extract = np.zeros(shape, np.int32)
    present = np.zeros(shape, np.float32)
    target = np.zeros((len(rows), sizes.targets), np.float32)
    for b, row in enumerate(rows):
        if row.target:
            target[b, : len(row.target)] = row.target
        for k, sequence in enumerate(row.sequences):
            tokens[b, k, : len(sequence)] = sequence
            mask[b, k, : len(sequence)] = 1
            extract[b, k] = len(sequence) - 1
            present[b, k] = 1
    return {
        'tokens': tokens,
        'mask': mask,
        'extract': extract,
        'present': present,
        'target': target,
    }


def _longest(rows):
    """The length of each row's longest sequence, int[n]."""
    return np.array([max(map(len, row.sequences)) for row in rows])
