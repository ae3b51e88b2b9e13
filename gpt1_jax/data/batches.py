"""Section 4.1, fine-tuning's batches of 32: rows of few static lengths, a pure function of the step."""
import numpy as np

from gpt1_jax.data.tokens import permutation

WINDOW = 50  # batches that are sorted by length together


def lengths(rows, n_ctx, n=4):
    """At most `n` static lengths for padding: even quantiles of the rows' own, rounded up to 8, never above n_ctx.

    rows: list of Encoded.
    """
    own = np.array([max(map(len, row.sequences)) for row in rows])
    quantiles = (np.quantile(own, (i + 1) / n, method='higher') for i in range(n))
    return tuple(sorted({min(-(-int(q) // 8) * 8, n_ctx) for q in quantiles}))


def steps_per_epoch(rows, size):
    """Updates an epoch makes: the last partial batch is dropped, as in the released code."""
    return len(rows) // size


def train_batch(rows, step, seed, size, sizes):
    """The batch of a step: each epoch a seeded permutation, sorted by length inside windows of 50 batches, the batches
    of a window's epoch shuffled again. A pure function of its arguments. sizes: the static lengths. Returns `pad`'s
    dict."""
    per_epoch = steps_per_epoch(rows, size)
    epoch, index = divmod(step, per_epoch)
    order = permutation(seed, epoch, len(rows))[:per_epoch * size]  # the rows that an epoch drops are random ones
    own = np.array([max(map(len, rows[i].sequences)) for i in order])
    window = np.arange(len(order)) // (WINDOW * size)
    order = order[np.lexsort((own, window))]
    batch = permutation(seed + 1, epoch, per_epoch)[index]
    return pad([rows[i] for i in order[batch * size:(batch + 1) * size]], sizes)


def eval_batches(rows, size, sizes):
    """Yield (indices int[n], batch) over all rows, sorted by length; the last batch is filled up with copies of
    its last row, which count for nothing: it has more rows than indices then."""
    order = np.argsort([max(map(len, row.sequences)) for row in rows], kind='stable')
    for first in range(0, len(order), size):
        chosen = order[first:first + size]
        yield chosen, pad([rows[i] for i in chosen] + [rows[chosen[-1]]] * (size - len(chosen)), sizes)


def pad(rows, sizes):
    """Arrays of a batch: tokens int32[B, K, L], mask float32[B, K, L] (1 at real tokens), extract int32[B, K] (the
    place of the extract token), label int32[B] (0 where there is none). L is the smallest size that fits."""
    longest = max(len(s) for row in rows for s in row.sequences)
    L = min(size for size in sizes if size >= longest)
    shape = len(rows), len(rows[0].sequences)
    tokens, mask = np.zeros((*shape, L), np.int32), np.zeros((*shape, L), np.float32)
    extract = np.zeros(shape, np.int32)
    for b, row in enumerate(rows):
        for k, sequence in enumerate(row.sequences):
            tokens[b, k, :len(sequence)] = sequence
            mask[b, k, :len(sequence)] = 1
            extract[b, k] = len(sequence) - 1
    label = np.array([0 if row.label is None else row.label for row in rows], np.int32)
    return {'tokens': tokens, 'mask': mask, 'extract': extract, 'label': label}
