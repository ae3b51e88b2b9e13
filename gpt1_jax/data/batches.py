"""Section 4.1, fine-tuning's batches of 32: rows of few static lengths, a pure function of the step."""
import functools
import math
from typing import NamedTuple

import numpy as np

from gpt1_jax.data.tokens import permutation

WINDOW = 50  # batches that are sorted by length together


class Sizes(NamedTuple):
    """What the arrays of a set's batches measure, so that few programs are compiled.

    lengths: what sequences are padded to, ascending. sequences: K, of the row that has most. targets: C, likewise.
    """
    lengths: tuple[int, ...]
    sequences: int
    targets: int


def sizes_of(rows, n_ctx, n=4, fixed=()):
    """Sizes with at most `n` lengths, multiples of 8 but n_ctx: those that pad the rows least.

    rows: list of Encoded. fixed: lengths to take instead, those that the rows need, and n_ctx if they need more.
    """
    own = _longest(rows)
    if fixed:
        fixed = sorted({*(length for length in fixed if length < n_ctx), n_ctx})
        lengths = fixed[:1 + next(i for i, length in enumerate(fixed) if length >= max(own))]
    else:
        lengths = _least_padding(np.minimum(-(-own // 8) * 8, n_ctx), n)
    return Sizes(tuple(lengths),
                 max(len(row.sequences) for row in rows), max(len(row.target or ()) for row in rows))


def _least_padding(own, n):
    """The at most n lengths, ascending, to which rows of these, int[rows], are padded with the fewest tokens."""
    candidates, counts = np.unique(own, return_counts=True)
    below = [0, *np.cumsum(counts).tolist()]
    # (tokens, lengths) of the rows that the first i candidates hold, by i, with one length more at each round.
    best = [(0, ())] + [(math.inf, ())] * len(candidates)
    for _ in range(n):
        best = best[:1] + [min((best[i][0] + length * (below[k] - below[i]), (*best[i][1], length)) for i in range(k))
                           for k, length in enumerate(candidates.tolist(), 1)]
    return best[-1][1]


def steps_per_epoch(rows, size):
    """Updates an epoch makes: the last partial batch is dropped, as in the released code."""
    return len(rows) // size


def train_batches(rows, seed, size, sizes):
    """A function step -> `pad`'s dict, that step's batch: each epoch a seeded permutation, sorted by length inside
    windows of 50 batches, the batches of a window's epoch shuffled again. Pure: the same whatever came before.

    sizes: Sizes. An epoch's order is kept while it lasts: of RACE's 87,866 rows it takes longer to make than a batch.
    """
    own, per_epoch = _longest(rows), steps_per_epoch(rows, size)

    @functools.lru_cache(maxsize=2)
    def order(epoch):
        """int[per_epoch, size]: the rows of its steps."""
        chosen = permutation(seed, epoch, len(rows))[:per_epoch * size]  # the rows that an epoch drops are random ones
        window = np.arange(len(chosen)) // (WINDOW * size)
        chosen = chosen[np.lexsort((own[chosen], window))].reshape(per_epoch, size)
        return chosen[permutation(seed + 1, epoch, per_epoch)]

    def batch(step):
        epoch, index = divmod(step, per_epoch)
        return pad([rows[i] for i in order(epoch)[index]], sizes)
    return batch


def eval_batches(rows, size, sizes):
    """Yield (indices int[n], batch) over all rows, sorted by length; the last batch is filled up with copies of
    its last row, which count for nothing: it has more rows than indices then."""
    order = np.argsort(_longest(rows), kind='stable')
    for first in range(0, len(order), size):
        chosen = order[first:first + size]
        yield chosen, pad([rows[i] for i in chosen] + [rows[chosen[-1]]] * (size - len(chosen)), sizes)


def pad(rows, sizes):
    """Arrays of a batch, with L the smallest of the lengths that fits:

    tokens int32[B, K, L]; mask float32[B, K, L], 1 at real tokens; extract int32[B, K], the place of the extract token;
    present float32[B, K], 0 where a row has no such choice; target float32[B, C], zeros where there is no label.
    """
    longest = max(len(s) for row in rows for s in row.sequences)
    L = min(length for length in sizes.lengths if length >= longest)
    shape = len(rows), sizes.sequences
    tokens, mask = np.zeros((*shape, L), np.int32), np.zeros((*shape, L), np.float32)
    extract, present = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    target = np.zeros((len(rows), sizes.targets), np.float32)
    for b, row in enumerate(rows):
        if row.target:
            target[b, :len(row.target)] = row.target
        for k, sequence in enumerate(row.sequences):
            tokens[b, k, :len(sequence)] = sequence
            mask[b, k, :len(sequence)] = 1
            extract[b, k] = len(sequence) - 1
            present[b, k] = 1
    return {'tokens': tokens, 'mask': mask, 'extract': extract, 'present': present, 'target': target}


def _longest(rows):
    """The length of each row's longest sequence, int[n]."""
    return np.array([max(map(len, row.sequences)) for row in rows])
