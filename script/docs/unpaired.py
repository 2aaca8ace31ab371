"""Ratio of two sets of measurements that were made at different times, and are therefore not paired.

The ratio is the Hodges-Lehmann estimate: the median of the ratios of each value in the first set to each value in the
second. The interval comes from the Mann-Whitney test, which is exact for any distribution if the sets differ only by a
factor. In 2,000 simulated comparisons of sets from the same distribution, with 6, 9 and 15 measurements, the test
reported a difference in 4.7, 3.6 and 4.3 % of the cases. A percentile bootstrap of the ratio of medians did so in 4.2,
2.9 and 2.5 %, but its error rate has no guaranteed limit.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from inorder.lab.analysis.stats import ERROR, Estimate


@cache
def outer_pairs(first: int, second: int) -> int:
    """Return how many ratios are on each side of the interval, for sets of ``first`` and ``second`` values.

    This number is the exact critical value of the Mann-Whitney test, computed by counting all orders.

    >>> [outer_pairs(6, 6), outer_pairs(9, 9), outer_pairs(15, 15), outer_pairs(3, 3)]
    [5, 17, 64, 0]
    """
    # The shares of orders in which U is 0, 1, 2, …, as the coefficients of a product of polynomial fractions. The
    # product has a factor for each value of the first set.
    shares = np.ones(1)
    for size in range(1, first + 1):
        step = np.zeros(second + size + 1)
        step[0], step[-1] = 1, -1
        shares = np.convolve(shares, step)[: first * second + 1]
        for place in range(size, len(shares)):
            shares[place] += shares[place - size]
    within = np.cumsum(shares / shares.sum())
    return max(0, int(np.searchsorted(within, ERROR / 2, side="right")) - 1)


def unpaired_ratio(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """Return the ratio of values to a base that was measured at another time, with its interval.

    The ratio of a positive value to 0 is infinity, and the ratio of 0 to 0 is 1. The interval depends only on ranks.

    >>> unpaired_ratio([50.0] * 6, [100.0] * 6)
    Estimate(median=0.5, low=0.5, high=0.5, rounds=6)
    >>> unpaired_ratio([5.0], [0.0]), unpaired_ratio([0.0], [0.0])
    (Estimate(median=inf, low=None, high=None, rounds=1), Estimate(median=1.0, low=None, high=None, rounds=1))
    """
    above, below = np.asarray(values, dtype=float)[:, None], np.asarray(base, dtype=float)[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sort(np.where(above == below, 1.0, above / below).ravel())
    fewer, middle = min(len(values), len(base)), (len(ratios) - 1) // 2
    # The mean of two infinities, or of infinity and a number, is infinity.
    median = float((ratios[middle] + ratios[-1 - middle]) / 2)
    if len(ratios) == 1:
        return Estimate(median, None, None, 1)
    outside = outer_pairs(len(base), len(values))
    return Estimate(median, float(ratios[outside]), float(ratios[-1 - outside]), fewer)
