"""Paired differences over seeds, and the share of false ideas among those that are believed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

MOST = 1000  # seeds: more than anybody would run


class Difference(NamedTuple):
    """The mean of a - b over n seeds that a and b share.

    low, high: the interval of Student's t. p: the one-sided p-value of "a is not smaller than b".
    sd: the standard deviation of the n differences. All of these are nan with one seed.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    sd: float

    @property
    def identical(self) -> bool:
        """Whether a and b are equal in each seed, so that the change has no effect at all."""
        return self.mean == 0 and not self.sd > 0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def within(self, least: float) -> bool:
        """Returns whether the whole interval is at most `least` from zero. False for nan."""
        return -least <= self.low and self.high <= least


def paired(a: Sequence[float], b: Sequence[float], looks: int = 1) -> Difference:
    """Returns the Difference of values of the same seeds in the same order.

    looks: how many times an interval is computed before it may be reported. Each look gets an equal
    part of the 5% (Bonferroni), so that all intervals hold with 95% probability, whenever you stop.
    """
    differences = np.subtract(a, b, dtype=np.float64)
    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Difference(n, mean, *[math.nan] * 4)
    sd = float(np.std(differences, ddof=1))
    if sd == 0:
        return Difference(n, mean, mean, mean, float(mean >= 0), sd)
    error = sd / math.sqrt(n)
    half = quantile(n, looks) * error
    p = float(special.stdtr(n - 1, mean / error))
    return Difference(n, mean, mean - half, mean + half, min(1.0, p * looks), sd)


def quantile(n: int, looks: int = 1) -> float:
    """Returns half the width of the interval of n seeds, in standard errors. With three seeds and
    one look it is 4.303."""
    return float(special.stdtrit(n - 1, 1 - 0.025 / looks))


def seeds_needed(found: Difference, looks: int = 1) -> int | None:
    """Returns how many seeds would make the interval exclude zero, with the mean and sd found.
    None if they are more than MOST."""
    return next(
        (
            n
            for n in range(max(2, found.n), MOST + 1)
            if quantile(n, looks) * found.sd < abs(found.mean) * math.sqrt(n)
        ),
        None,
    )


def believed(p_values: Sequence[float], share: float = 0.05) -> list[bool]:
    """Returns which null hypotheses to reject (Benjamini and Hochberg, 1995).

    On average at most this share of the rejected hypotheses is true, if the p-values are
    independent, or positively dependent, as those of ideas that share their baseline's runs.
    """
    order = np.argsort(p_values)
    limits = share * np.arange(1, len(order) + 1) / max(1, len(order))
    passing = np.flatnonzero(np.asarray(p_values, float)[order] <= limits)
    rejected = set(order[: passing[-1] + 1]) if len(passing) else set()
    return [i in rejected for i in range(len(order))]
