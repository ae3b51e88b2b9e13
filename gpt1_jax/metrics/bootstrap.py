"""Bootstrap confidence intervals (Efron, 1979): a metric recomputed on resampled items.

Items are drawn with replacement. A metric is `final(sum of its items' terms)` (metrics.METRICS), so
a resample is a product: the count of each item, times the terms.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
DRAWS = 2_000_000  # item draws held in memory at a time

Final = Callable[[np.ndarray], np.ndarray]  # sums float[..., k] -> metric float[...]


class Estimate(NamedTuple):
    """A metric over n items as a fraction, and its value in each resample, float[RESAMPLES]."""

    value: float
    draws: np.ndarray
    n: int


def resampled(
    terms: Sequence[np.ndarray], final: Final, seed: int, grouped: bool = False
) -> list[np.ndarray]:
    """The metric of every resample, float[RESAMPLES], for each of several term arrays float[n, k].

    All arrays describe the same items and share the draws, so metrics can be compared resample by
    resample. Separate calls with equal n and seed also share the draws, unless `grouped`: then
    items with equal terms are drawn together, which is faster. nan without items.
    """
    n = len(terms[0])
    if n == 0:
        return [np.full(RESAMPLES, math.nan) for _ in terms]
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
    """The unweighted mean of several estimates, resample by resample."""
    draws = np.mean([one.draws for one in several], axis=0)
    return Estimate(
        float(np.mean([one.value for one in several])), draws, sum(one.n for one in several)
    )


def interval(draws: np.ndarray, tests: int = 1) -> tuple[float, float]:
    """(low, high): the 95% percentile interval of the finite draws.

    With several tests it is the 1 - 0.05 / tests interval (Bonferroni). nan if no draw is finite.
    """
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return math.nan, math.nan
    low, high = np.percentile(draws, [2.5 / tests, 100 - 2.5 / tests])
    return float(low), float(high)
