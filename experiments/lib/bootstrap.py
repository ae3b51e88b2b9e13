"""The bootstrap over evaluated items, for the median of a metric over several seeds.

The items that a resample draws depend only on the set of items. So two conditions on the same items
are resampled alike (a paired bootstrap), and different sets are independent. Differences and means
are taken resample by resample.
"""

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Sequence

import numpy as np

from gpt1_jax import metrics
from gpt1_jax.errors import UserError
from gpt1_jax.metrics import bootstrap
from gpt1_jax.metrics.bootstrap import RESAMPLES

INTERVALS = (
    f'Intervals are 95% percentile intervals over {RESAMPLES:,} resamples of the evaluated rows, '
    'the same rows for all seeds; they do not cover the spread between runs.'
)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A metric's value, or a difference or mean of several, as a fraction, with its resamples.

    value: the median over seeds. draws: float[RESAMPLES], the value in each resample. n: items.
    by_seed: {seed: (value, draws)}. A mean over sets has the seeds that all sets share. items: a
    digest of the items and their labels, '' for several sets.
    """

    value: float
    draws: np.ndarray
    n: int
    by_seed: dict[int, tuple[float, np.ndarray]]
    items: str

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted(self.by_seed))

    @property
    def range(self) -> tuple[float, float]:
        """The (lowest, highest) value of a seed."""
        values = [value for value, _ in self.by_seed.values()]
        return (min(values), max(values)) if values else (self.value, self.value)

    def interval(self, tests: int = 1) -> tuple[float, float]:
        """Returns the percentile interval of 95% of the resamples, or of 1 - 0.05 / tests
        (Bonferroni). nan without resamples."""
        return bootstrap.interval(self.draws, tests)


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
        raise UserError(f'a difference of scores without a common seed ({a.seeds} and {b.seeds})')
    a, b = (
        _median({seed: each.by_seed[seed] for seed in common}, each.n, each.items)
        for each in (a, b)
    )
    by_seed = {
        seed: (a.by_seed[seed][0] - b.by_seed[seed][0], a.by_seed[seed][1] - b.by_seed[seed][1])
        for seed in common
    }
    return Estimate(a.value - b.value, a.draws - b.draws, a.n, by_seed, a.items)


def mean(several: Sequence[Estimate]) -> Estimate:
    """Returns the plain mean. Different sets are resampled independently of each other."""
    by_seed = {}
    for seed in sorted(set.intersection(*(set(one.by_seed) for one in several))):
        values, draws = zip(*(one.by_seed[seed] for one in several))
        by_seed[seed] = np.mean(values, axis=0), np.mean(draws, axis=0)
    value = float(np.mean([one.value for one in several]))
    draws = np.mean([one.draws for one in several], axis=0)
    return Estimate(value, draws, sum(one.n for one in several), by_seed, '')
