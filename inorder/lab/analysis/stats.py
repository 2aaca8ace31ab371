"""Statistics of repeated, interleaved runs: medians, paired ratios, exact intervals.

This module imports no other module of the tool. With too few rounds for an interval, no difference is reported.

The interval of a median is computed from order statistics. The k-th smallest and the k-th largest of n independent
values enclose the median of the distribution, unless fewer than k values are on one side of the median. For any
distribution, a value is on either side with probability 1/2. The usual choice would be the percentile bootstrap, but
its intervals do not reach 95 % with so few values. In 1,500 simulated A/A comparisons, the bootstrap reported a
difference in 28 % with 3 rounds, and in 13 % with 4 and with 7 rounds. Order statistics report a difference in less
than 5 %, with any number of rounds.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb, expm1
from typing import TypeVar

import numpy as np

Place = TypeVar("Place", bound=Hashable)

ERROR = 0.05  # the probability that a 95 % interval misses the true value

# The range of 5 values misses the median of the distribution in 2/2^5 = 6 % of samples, the range of 6 values in 3 %.
LEAST_ROUNDS = 6


@dataclass(frozen=True)
class Estimate:
    """A median over rounds. ``low`` and ``high`` enclose the true median with a probability of at least 95 %.

    With fewer than LEAST_ROUNDS rounds, ``low`` and ``high`` are the smallest and the largest value. With one round,
    both are None.
    """

    median: float
    low: float | None
    high: float | None
    rounds: int

    def differs_from(self, value: float) -> bool:
        """Return True if the interval excludes ``value``. Return False if there are too few rounds for an interval.

        >>> [Estimate(0.5, 0.4, 0.6, rounds).differs_from(1.0) for rounds in (3, LEAST_ROUNDS)]
        [False, True]
        """
        if self.low is None or self.high is None or self.rounds < LEAST_ROUNDS:
            return False
        return not self.low <= value <= self.high


def outer_rank(count: int) -> int:
    """Return the number of values on either side of the interval.

    This is the largest k for which ``count`` coin tosses give at most k heads, or at most k tails, with a probability
    of at most ERROR. It is 0 if there is no such k.

    >>> [outer_rank(count) for count in (1, 5, 6, 8, 9, 15, 30)]
    [0, 0, 0, 0, 1, 3, 9]
    """
    below, rank = 1, 0  # the number of sequences with at most ``rank`` heads
    while 2 * (below + comb(count, rank + 1)) / 2**count <= ERROR:
        rank += 1
        below += comb(count, rank)
    return rank


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median of the values, with its interval.

    >>> estimate([3.0, 1.0, 2.0])
    Estimate(median=2.0, low=1.0, high=3.0, rounds=3)
    >>> estimate([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    Estimate(median=5.0, low=2.0, high=8.0, rounds=9)
    >>> estimate([7.0])
    Estimate(median=7.0, low=None, high=None, rounds=1)
    >>> estimate([])
    Traceback (most recent call last):
    ValueError: no values
    """
    if not values:
        raise ValueError("no values")
    ranked = np.sort(np.asarray(values, dtype=float))
    median, count = float(np.median(ranked)), len(ranked)
    if count == 1:
        return Estimate(median, None, None, 1)
    outside = outer_rank(count)
    return Estimate(median, float(ranked[outside]), float(ranked[-1 - outside]), count)


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Return the ratio to a baseline, paired within each round, so that effects on a whole round cancel out."""
    return estimate([value / base for value, base in zip(values, baseline, strict=True)])


def ratios_by_round(values: Mapping[Place, float], baseline: Mapping[Place, float]) -> dict[Place, float]:
    """Return the ratio for each key that both mappings have. A key is a round, or identifies a measurement.

    Ratios to zero are left out. Zero may be a true value, because CPU time is counted in ticks of 10 ms.

    >>> ratios_by_round({1: 50.0, 2: 5.0, 3: 1.0, 4: 7.0}, {1: 100.0, 2: 10.0, 4: 0.0, 5: 1.0})
    {1: 0.5, 2: 0.5}
    """
    return {place: value / baseline[place] for place, value in values.items() if baseline.get(place)}


def ratio_by_round(values: Mapping[Place, float], baseline: Mapping[Place, float]) -> Estimate | None:
    ratios = ratios_by_round(values, baseline)
    return estimate(list(ratios.values())) if ratios else None


FOUND = 0.8  # the required probability of detecting a difference
ROUNDS = (6, 9, 15, 30)
TO_FIND = 0.1  # the size of the difference that the lab is to detect: 10 %
MOST_ROUNDS = 200
SIMULATIONS = 4000  # the standard error of a share of 0.8 is then 0.6 %
SEED = 1


@lru_cache(maxsize=100)
def drawn(size: int, rounds: int) -> np.ndarray:
    """Return random indexes into ``size`` values, for each round of each simulation.

    The indexes are cached, because each figure on a page needs the same indexes up to 65 times.
    """
    places: np.ndarray = np.random.default_rng(SEED).integers(0, size, (SIMULATIONS, rounds)).astype(np.uint16)
    return places


def either_way(logs: Sequence[float]) -> np.ndarray:
    """Return the logarithms of the ratios in both directions, because A and B are assumed to be equal."""
    return np.concatenate([np.asarray(logs, dtype=float), -np.asarray(logs, dtype=float)])


def lower_ends(logs: Sequence[float], rounds: int) -> np.ndarray:
    """Return the lower ends of simulated intervals, as logarithms."""
    pool = either_way(logs)
    ends: np.ndarray = np.sort(pool[drawn(len(pool), rounds)], axis=1)[:, outer_rank(rounds)]
    return ends


def share_found(logs: Sequence[float], rounds: int, difference: float) -> float:
    """Return the fraction of simulations that detect a true difference of ``difference``, which is 0.1 for 10 %.

    >>> share_found([0.01, -0.01, 0.02], 6, 0.1), share_found([0.01], 5, 0.1)
    (1.0, 0.0)
    """
    if rounds < LEAST_ROUNDS:
        return 0.0
    pool = either_way(logs)
    below = np.count_nonzero((pool + np.log1p(difference) <= 0)[drawn(len(pool), rounds)], axis=1)
    return float(np.mean(below <= outer_rank(rounds)))


def smallest_found(logs: Sequence[float], rounds: int, share: float = FOUND) -> float | None:
    """Return the smallest difference, in percent, that is detected with probability ``share``.

    Return None if there are too few rounds. A shift of all ratios shifts the interval, which excludes 1 if its lower
    end is above 1. The required shift is therefore a quantile of the distances of the lower ends from 1.

    >>> smallest_found([0.0], 6), smallest_found([0.0], 5)
    (0.0, None)
    """
    if rounds < LEAST_ROUNDS:
        return None
    return 100 * expm1(float(np.quantile(-lower_ends(logs, rounds), share)))


@cache
def rounds_for(logs: tuple[float, ...], difference: float = TO_FIND, share: float = FOUND) -> int | None:
    """Return the fewest rounds that detect a difference with probability ``share``.

    Return None if MOST_ROUNDS are too few. Results are cached: a page needs each result twice, and a result of None
    takes 65 simulations.

    >>> rounds_for((0.01, -0.02, 0.015)), rounds_for((1.0, -2.0, 1.5))
    (6, None)
    """
    return next((n for n in range(LEAST_ROUNDS, MOST_ROUNDS + 1, 3) if share_found(logs, n, difference) >= share), None)
