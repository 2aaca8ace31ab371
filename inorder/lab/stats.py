"""Statistics of repeated, interleaved runs: medians, paired ratios, bootstrap intervals.

Imports nothing of ours. One sample has no interval and is never called a difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 4000
SEED = 1


@dataclass(frozen=True)
class Estimate:
    """A median over rounds; low and high bound its bootstrap interval and are None for one round."""

    median: float
    low: float | None
    high: float | None
    rounds: int

    @property
    def half_width(self) -> float | None:
        """Half the interval, for "median ± half"."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def differs_from(self, value: float) -> bool:
        """Whether the interval excludes a value. Without an interval: no.

        >>> Estimate(0.5, 0.4, 0.6, 5).differs_from(1.0), Estimate(0.5, None, None, 1).differs_from(1.0)
        (True, False)
        """
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def estimate(values: Sequence[float]) -> Estimate:
    """The median and its percentile-bootstrap interval at 95 %.

    >>> estimate([3.0, 1.0, 2.0])
    Estimate(median=2.0, low=1.0, high=3.0, rounds=3)
    >>> estimate([7.0])
    Estimate(median=7.0, low=None, high=None, rounds=1)
    >>> estimate([])
    Traceback (most recent call last):
    ValueError: no values
    """
    if not values:
        raise ValueError("no values")
    sample = np.asarray(values, dtype=float)
    median = float(np.median(sample))
    if len(sample) == 1:
        return Estimate(median, None, None, 1)
    generator = np.random.default_rng(SEED)
    medians = np.median(generator.choice(sample, (RESAMPLES, len(sample))), axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Estimate(median, float(low), float(high), len(sample))


def paired_ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """The ratio of values to baseline, each paired within its round, as median and interval.

    What slows a whole round, a neighbour's load for instance, is in both and falls out:

    >>> paired_ratio([50.0, 5.0, 500.0], [100.0, 10.0, 1000.0])
    Estimate(median=0.5, low=0.5, high=0.5, rounds=3)
    >>> paired_ratio([1.0], [1.0, 2.0])
    Traceback (most recent call last):
    ValueError: 1 values cannot be paired with 2
    """
    if len(values) != len(baseline):
        raise ValueError(f"{len(values)} values cannot be paired with {len(baseline)}")
    return estimate([value / base for value, base in zip(values, baseline, strict=True)])
