"""A figure over several seeds: the median, and what resampled items make of it.

The items drawn in a resample depend on nothing but the set of items. So the draws of two conditions on the same items
are paired, differences and means of figures are taken draw by draw, and other items give independent draws.
"""
import dataclasses
import functools
import hashlib
import math
import zlib
from collections.abc import Sequence

import numpy as np

from gpt1_jax import metrics
from gpt1_jax.errors import UserError

RESAMPLES = 2000
INTERVALS = (f'Intervals are 95% percentile intervals over {RESAMPLES:,} resamples of the evaluated rows, the same '
             'rows for all seeds; they do not cover the spread between runs.')


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A figure, or a difference or mean of figures, as a fraction.

    value: the median over seeds. draws: float[RESAMPLES], the same of each resample. n: items. by_seed: {seed: (value,
    draws)}; of a mean over sets, the seeds that all of them have. items: a digest of the items and their labels; ''
    where there are several sets.
    """
    value: float
    draws: np.ndarray
    n: int
    by_seed: dict
    items: str

    @property
    def seeds(self):
        return tuple(sorted(self.by_seed))

    @property
    def range(self):
        """(lowest, highest) of the seeds."""
        values = [value for value, _ in self.by_seed.values()]
        return (min(values), max(values)) if values else (self.value, self.value)

    def interval(self, tests: int = 1) -> tuple[float, float]:
        """The percentile interval of 95% of the resamples, or of 1 - 0.05 / tests (Bonferroni); nan without any."""
        draws = self.draws[np.isfinite(self.draws)]
        if not len(draws):
            return math.nan, math.nan
        return tuple(float(x) for x in np.percentile(draws, [2.5 / tests, 100 - 2.5 / tests]))


def of_rows(rows: Sequence[dict]) -> Estimate:
    """The Estimate of rows of results.jsonl: one figure (task, split, group, metric, selection), a row a seed.

    UserError where the rows are not about the same items, or a predictions file is no longer the row's.
    """
    newest = {row.get('seed', 0): row for row in rows}
    return _of(tuple((seed, row['predictions'], row['value'], row['n']) for seed, row in sorted(newest.items())),
               rows[0]['metric'], rows[0].get('group'))


@functools.lru_cache(maxsize=256)
def _of(runs, metric, group):
    terms, values, items = [], [], None
    for _, path, value, n in runs:
        ids, gold, scores = _sorted(path, group)
        found = metrics.compute([metric], gold, scores)[metric]
        if len(ids) != n or abs(found - value) > 1e-6:  # predictions have twelve digits
            raise UserError(f'{path}: {metric} {found:.3f} of {len(ids)} items, but its row of results.jsonl says '
                            f'{value:.3f} of {n}: something else was written there since')
        same = hashlib.sha256(repr((ids, list(gold))).encode()).hexdigest()[:16]
        if items not in (None, same):
            raise UserError(f'{path} and {runs[0][1]} are not about the same items')
        items = same
        one, final = metrics.terms_of(metric, gold, metrics.predictions(metric, scores))
        terms.append(one)
        values.append(found)
    draws = metrics.resampled(terms, final, RESAMPLES, zlib.crc32(items.encode()))
    by_seed = {run[0]: (value, drawn) for run, value, drawn in zip(runs, values, draws)}
    return _median(by_seed, len(ids), items)


def _sorted(path, group):
    """(ids, gold, scores) in the order of ids, of one group alone where there is one ('middle' of 'middle/1.txt/0')."""
    ids, gold, scores = metrics.read_predictions(path)
    if len(set(ids)) != len(ids):
        raise UserError(f'{path}: an id stands twice')
    order = sorted((i for i, name in enumerate(ids) if group is None or str(name).startswith(f'{group}/')),
                   key=lambda i: str(ids[i]))
    return [ids[i] for i in order], np.array([gold[i] for i in order]), scores[order]


def _median(by_seed, n, items):
    values, draws = zip(*by_seed.values())
    return Estimate(float(np.median(values)), np.median(np.stack(draws), axis=0), n, by_seed, items)


def minus(a: Estimate, b: Estimate) -> Estimate:
    """median(a) - median(b) over the seeds that both have, by a paired bootstrap over the same items.

    UserError where the items differ, or no seed is shared.
    """
    if a.items and b.items and a.items != b.items:
        raise UserError('a difference of figures that are not about the same items')
    common = sorted(a.by_seed.keys() & b.by_seed.keys())
    by_seed = {seed: (a.by_seed[seed][0] - b.by_seed[seed][0], a.by_seed[seed][1] - b.by_seed[seed][1])
               for seed in common}
    if not a.items and not b.items:  # means over several sets
        return Estimate(a.value - b.value, a.draws - b.draws, a.n, by_seed, '')
    if not common:
        raise UserError(f'a difference of figures without a common seed ({a.seeds} and {b.seeds})')
    first, second = (_median({seed: one.by_seed[seed] for seed in common}, one.n, one.items) for one in (a, b))
    return Estimate(first.value - second.value, first.draws - second.draws, a.n, by_seed, a.items)


def mean(several: Sequence[Estimate]) -> Estimate:
    """The plain mean of figures; several sets are resampled independently of each other."""
    several = list(several)
    if len(several) == 1:
        return several[0]
    common = set.intersection(*(set(one.by_seed) for one in several))
    by_seed = {seed: tuple(np.mean(part, axis=0) for part in zip(*(one.by_seed[seed] for one in several)))
               for seed in sorted(common)}
    return Estimate(float(np.mean([one.value for one in several])), np.mean([one.draws for one in several], axis=0),
                    sum(one.n for one in several), by_seed, '')
