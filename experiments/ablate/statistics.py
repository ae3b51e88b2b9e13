"""Paired differences over seeds: Student's t, its interval, and how many seeds an answer would
take."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

MOST = 1000  # seeds, more than anybody would run


class Difference(NamedTuple):
    """The mean over n seeds of a - b, a and b having shared each seed.

    low, high: the interval of Student's t; p: of its two-sided test; nan with one seed. sd: the
    standard deviation of the n differences; unpaired_sd: what it would be if a and b had not shared
    seeds.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    sd: float
    unpaired_sd: float

    @property
    def identical(self) -> bool:
        """Whether a and b are equal in each seed: what was changed has no effect at all."""
        return self.mean == 0 and not self.sd > 0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval does."""
        return self.low > 0 or self.high < 0


def paired(a: Sequence[float], b: Sequence[float], looks: int = 1) -> Difference:
    """The Difference of values of the same seeds in the same order.

    looks: how many times an interval is computed before it may be reported, of which each gets an
    equal part of the 5% (Bonferroni), so that all of them hold with 95% probability whenever one
    stops.
    """
    differences = np.subtract(a, b, dtype=np.float64)
    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Difference(n, mean, *[math.nan] * 5)
    sd = float(np.std(differences, ddof=1))
    unpaired = math.hypot(np.std(a, ddof=1), np.std(b, ddof=1))
    if sd == 0:
        return Difference(n, mean, mean, mean, float(mean == 0), sd, unpaired)
    half = quantile(n, looks) * sd / math.sqrt(n)
    p = 2 * special.stdtr(n - 1, -abs(mean) / sd * math.sqrt(n))
    return Difference(n, mean, mean - half, mean + half, min(1.0, float(p) * looks), sd, unpaired)


def quantile(n: int, looks: int = 1) -> float:
    """Half the width of the interval of n seeds, in standard errors: 4.303 with three seeds and one
    look."""
    return float(special.stdtrit(n - 1, 1 - 0.025 / looks))


def seeds_needed(found: Difference, looks: int = 1) -> int | None:
    """With how many seeds the interval would exclude zero, were the mean and sd those found; None
    for over MOST."""
    return next(
        (
            n
            for n in range(max(2, found.n), MOST + 1)
            if quantile(n, looks) * found.sd < abs(found.mean) * math.sqrt(n)
        ),
        None,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for how many there are (Holm, 1979): all null hypotheses with an adjusted p
    below 5% can be rejected, with a probability of at most 5% that any of them is true."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(np.argsort(p_values)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
