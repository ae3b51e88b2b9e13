"""Bootstrap confidence intervals (Efron, 1979): a metric recomputed on resampled items.

Items are drawn with replacement. A metric is `final(sum of its items' terms)` (metrics.METRICS), so
a resample is a product: the count of each item, times the terms.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
DRAWS = 2_000_000  # item draws held in memory at a time

Final = Callable[[np.ndarray], np.ndarray]  # sums float[..., k] -> metric float[...]


class Estimate(NamedTuple):
    """A metric over n items, or a difference or mean of several, as a fraction, and its value in
    each resample, float[RESAMPLES].

    by_seed: {seed: (value, draws)} of several runs, whose median the value is. items: a digest of
    the items and their labels, '' if it is not known.
    """

    value: float
    draws: np.ndarray
    n: int
    by_seed: Mapping[int, tuple[float, np.ndarray]] = {}
    items: str = ''

    @property
    def range(self) -> tuple[float, float]:
        """The (lowest, highest) value of a seed."""
        values = [value for value, _ in self.by_seed.values()] or [self.value]
        return min(values), max(values)

    def interval(self, tests: int = 1) -> tuple[float, float]:
        return interval(self.draws, tests)


def resampled(
    terms: Sequence[np.ndarray], final: Final, seed: int, grouped: bool = False
) -> list[np.ndarray]:
    """The metric of every resample, float[RESAMPLES], for each of several term arrays float[n, k].

    All arrays describe the same items and share the draws, so metrics can be compared resample by
    resample. Separate calls with equal n and seed also share the draws, unless `grouped`: then
    items with equal terms are drawn together, which is faster.
    """
    n = len(terms[0])
    rng = np.random.default_rng(seed)
    items = np.concatenate(terms, -1)
    if grouped:
        items, counts = np.unique(items, axis=0, return_counts=True)

    def times(rows):
        """int[rows, items]: how often each resample has each item."""
        if grouped:
            return rng.multinomial(n, counts / n, rows)
        # Items get other numbers in each resample
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)

    size = max(1, DRAWS // len(items))
    sums = np.concatenate(
        [times(min(size, RESAMPLES - start)) @ items for start in range(0, RESAMPLES, size)]
    )
    return [final(part) for part in np.split(sums, len(terms), axis=-1)]


def mean(several: Collection[Estimate]) -> Estimate:
    """The unweighted mean of several estimates, resample by resample, and for each seed that all of
    them have."""
    shared = set.intersection(*(set(one.by_seed) for one in several))
    by_seed = {}
    for seed in sorted(shared):
        values, draws = zip(*(one.by_seed[seed] for one in several))
        by_seed[seed] = np.mean(values, axis=0), np.mean(draws, axis=0)
    value = float(np.mean([one.value for one in several]))
    draws = np.mean([one.draws for one in several], axis=0)
    return Estimate(value, draws, sum(one.n for one in several), by_seed)


def interval(draws: np.ndarray, tests: int = 1) -> tuple[float, float]:
    """(low, high): the 95% percentile interval of the finite draws.

    With several tests it is the 1 - 0.05 / tests interval (Bonferroni). nan if no draw is finite.
    """
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return math.nan, math.nan
    low, high = np.percentile(draws, [2.5 / tests, 100 - 2.5 / tests])
    return float(low), float(high)
