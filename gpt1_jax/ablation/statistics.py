"""Paired differences over seeds, and the levels at which ideas are believed."""

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


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Returns the Difference of values of the same seeds in the same order."""
    differences = np.subtract(a, b, dtype=np.float64)
    n = len(differences)
    mean = float(np.mean(differences))
    if n < 2:
        return Difference(n, mean, *[math.nan] * 4)
    sd = float(np.std(differences, ddof=1))
    if sd == 0:
        return Difference(n, mean, mean, mean, float(mean >= 0), sd)
    error = sd / math.sqrt(n)
    half = quantile(n) * error
    p = float(special.stdtr(n - 1, mean / error))
    return Difference(n, mean, mean - half, mean + half, p, sd)


def quantile(n: int) -> float:
    """Returns half the width of the interval of n seeds, in standard errors. With three seeds it is
    4.303."""
    return float(special.stdtrit(n - 1, 1 - 0.025))


def seeds_needed(found: Difference) -> int | None:
    """Returns how many seeds would make the interval exclude zero, with the mean and sd found.
    None if they are more than MOST."""
    return next(
        (
            n
            for n in range(max(2, found.n), MOST + 1)
            if quantile(n) * found.sd < abs(found.mean) * math.sqrt(n)
        ),
        None,
    )


# SAFFRON (Ramdas, Zrnic, Wainwright and Jordan, 2018)
CANDIDATE = 0.5  # lambda: a larger p-value costs the later tests some of their level
DECAY = 1.6  # of the levels: gamma_j is proportional to j ** -DECAY
WEALTH = 0.9  # W_0 / share: what is spent before the first rejection


def levels(batches: Sequence[Sequence[float]], share: float = 0.05) -> list[list[float]]:
    """Returns the level of each test of a search, in its order: p <= level rejects.

    On average at most this share of the rejected hypotheses is true, whenever the search ends and
    whatever it does after a rejection. For this the p-values must be independent of earlier ones,
    as those of fresh seeds are. Within a batch they may depend on each other, as those of ideas
    that share their baseline's runs: no level depends on a p-value of its own batch (Zrnic, Ramdas
    and Jordan, 2021).

    batches: the p-values of each batch.
    """
    found: list[list[float]] = []
    earlier: list[float] = []  # p-values of earlier batches
    rejected: list[int] = []  # places in `earlier`
    for batch in batches:
        of_batch = []
        for place in range(len(batch)):
            level = WEALTH * share * _gamma(earlier, 0, place)
            for number, rejection in enumerate(rejected):
                earned = share if number else (1 - WEALTH) * share
                level += earned * _gamma(earlier, rejection + 1, place)
            of_batch.append(min(CANDIDATE, (1 - CANDIDATE) * level))
        rejected += [
            len(earlier) + place
            for place, (p, level) in enumerate(zip(batch, of_batch))
            if p <= level
        ]
        earlier += batch
        found.append(of_batch)
    return found


def _gamma(earlier, since, place):
    """gamma_j of the test at a place of the present batch: j counts the tests since a place in
    `earlier` without the candidates among them."""
    j = 1 + place + sum(p > CANDIDATE for p in earlier[since:])
    return j**-DECAY / special.zeta(DECAY)
