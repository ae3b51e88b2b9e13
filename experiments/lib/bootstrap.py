"""The bootstrap over evaluated items, for the median of a metric over several seeds.

The items that a resample draws depend only on the set of items. So two conditions on the same items
are resampled alike (a paired bootstrap), and different sets are independent. Differences and means
are taken resample by resample.
"""

import functools
import hashlib
import zlib
from collections.abc import Sequence

import numpy as np

from gpt1_jax import metrics
from gpt1_jax.errors import UserError
from gpt1_jax.metrics.bootstrap import RESAMPLES, Estimate

INTERVALS = (
    f'Intervals are 95% percentile intervals over {RESAMPLES:,} resamples of the evaluated rows, '
    'the same rows for all seeds; they do not cover the spread between runs.'
)


def of_rows(rows: Sequence[dict]) -> Estimate:
    """Returns the Estimate of a metric from its rows of results.jsonl, one row a seed.

    All rows have the same task, split, group, metric and selection. UserError if the rows have
    different items, or if a predictions file has changed since its row was written.
    """
    newest = {row.get('seed', 0): row for row in rows}
    runs = tuple(
        (seed, row['predictions'], row['value'], row['n']) for seed, row in sorted(newest.items())
    )
    return _of_runs(runs, rows[0]['metric'], rows[0].get('group'))


@functools.lru_cache(maxsize=256)
def _of_runs(runs, metric, group):
    """Returns the Estimate of runs: ((seed, predictions file, value, n), ...)."""
    items = None
    gold = []
    several = []
    values = []
    for _, path, value, n in runs:
        ids, gold, scores = _read_sorted(path, group)
        computed = metrics.compute([metric], gold, scores)[metric]
        if len(ids) != n or abs(computed - value) > 1e-6:  # predictions have twelve digits
            raise UserError(
                f'{path}: {metric} {computed:.3f} of {len(ids)} items, but its row of '
                f'results.jsonl says {value:.3f} of {n}: something else was written there since'
            )
        digest = hashlib.sha256(repr((ids, list(gold))).encode()).hexdigest()[:16]
        if items not in (None, digest):
            raise UserError(f'{path} and {runs[0][1]} are not about the same items')
        items = digest
        several.append(scores)
        values.append(computed)
    draws = metrics.draws(metric, gold, several, zlib.crc32(items.encode()))
    by_seed = {run[0]: (value, drawn) for run, value, drawn in zip(runs, values, draws)}
    return _median(by_seed, len(ids), items)


def _read_sorted(path, group):
    """Returns (ids, gold, scores) sorted by id. If a group is given, only its items are returned
    ('middle' of 'middle/1.txt/0')."""
    ids, gold, scores = metrics.read_predictions(path)
    chosen = [i for i, name in enumerate(ids) if group is None or str(name).startswith(f'{group}/')]
    chosen.sort(key=lambda i: str(ids[i]))
    return [ids[i] for i in chosen], np.array([gold[i] for i in chosen]), scores[chosen]


def _median(by_seed, n, items):
    """Returns the Estimate of the median over seeds, in the whole set and in each resample."""
    values, draws = zip(*by_seed.values())
    return Estimate(float(np.median(values)), np.median(np.stack(draws), axis=0), n, by_seed, items)


def minus(a: Estimate, b: Estimate) -> Estimate:
    """Returns median(a) - median(b) over the seeds that both have, by a paired bootstrap.

    UserError if the items differ, or no seed is shared.
    """
    if a.items != b.items:
        raise UserError('a difference of scores that are not about the same items')
    common = sorted(a.by_seed.keys() & b.by_seed.keys())
    if not common:
        raise UserError('a difference of scores without a common seed')
    a, b = (
        _median({seed: each.by_seed[seed] for seed in common}, each.n, each.items)
        for each in (a, b)
    )
    by_seed = {
        seed: (a.by_seed[seed][0] - b.by_seed[seed][0], a.by_seed[seed][1] - b.by_seed[seed][1])
        for seed in common
    }
    return Estimate(a.value - b.value, a.draws - b.draws, a.n, by_seed, a.items)
