"""Statistics: properties that hold for any sample, and guarantees that are tested with simulated noise."""

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.lab.analysis.stats import estimate, outer_rank, paired_ratio
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.noise import NoisePlan

from unpaired import outer_pairs, unpaired_ratio

positive = st.floats(min_value=1e-3, max_value=1e6)


@given(st.lists(positive, min_size=2, max_size=20))
def test_the_interval_contains_the_median_and_ends_at_values_of_the_sample(values: list[float]) -> None:
    result = estimate(values)
    assert result.low is not None and result.high is not None
    assert result.low <= result.median <= result.high
    assert {result.low, result.high} <= set(values)
    assert result.rounds == len(values)


@given(st.lists(positive, min_size=1, max_size=20), st.floats(min_value=0.01, max_value=100))
def test_a_constant_ratio_is_found_exactly(baseline: list[float], factor: float) -> None:
    result = paired_ratio([value * factor for value in baseline], baseline)
    assert result.median == pytest.approx(factor)


@given(st.integers(min_value=6, max_value=200))
def test_the_rank_is_the_largest_with_the_promised_confidence(count: int) -> None:
    """With the next rank, the interval would miss the true value in more than 5 % of cases."""
    misses = [2 * sum(comb(count, heads) for heads in range(rank + 1)) / 2**count for rank in range(count // 2)]
    assert misses[outer_rank(count)] <= 0.05 < misses[outer_rank(count) + 1]


def test_one_round_shows_no_difference() -> None:
    assert not paired_ratio([1.0], [100.0]).differs_from(1.0)


TRIALS = 2000

# The standard deviation of log(ratio), for paired TPS ratios of identical tables. It was measured with `lab run noise`
# on the machine on which these tests were written: 4 shared cores under load, PostgreSQL 15 and 18, 250,000 and 1 M
# rows, turns of 1 and 3 s. The results were 0.13, 0.15, 0.16, 0.17, 0.20, 0.21, 0.24 and 0.25. Without the load,
# the result was 0.23, because turns had one of two speeds.
MEASURED_NOISE = 0.25
TWO_SPEEDS = (0.45, 1.65, 0.08)  # probability of a fast turn, its speedup, and the standard deviation within each speed

Noise = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def normal(generator: np.random.Generator, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    return generator.normal(1, 0.05, rounds), generator.normal(1, 0.05, rounds)


def lognormal(generator: np.random.Generator, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    return generator.lognormal(0, 0.3, rounds), generator.lognormal(0, 0.3, rounds)


def heavy_tailed(generator: np.random.Generator, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two samples with a few outliers: their logarithms follow Student's t with 2 degrees of freedom."""
    return np.exp(0.1 * generator.standard_t(2, rounds)), np.exp(0.1 * generator.standard_t(2, rounds))


def drifting(generator: np.random.Generator, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two samples of turns that are each 3 % slower than the turn before, with noise of 5 %.

    The two turns of a round have a random order.
    """
    turns = np.exp(-0.03 * np.arange(2 * rounds) + generator.normal(0, 0.05, 2 * rounds)).reshape(rounds, 2)
    shuffled = generator.permuted(turns, axis=1)
    return shuffled[:, 0], shuffled[:, 1]


@pytest.mark.parametrize("noise", [normal, lognormal, heavy_tailed, drifting])
@pytest.mark.parametrize("rounds", [6, 9, 15])
def test_equal_samples_are_rarely_called_different(noise: Noise, rounds: int) -> None:
    generator = np.random.default_rng([rounds, 1])
    pairs = (noise(generator, rounds) for _ in range(TRIALS))
    different = sum(paired_ratio(list(a), list(b)).differs_from(1.0) for a, b in pairs)
    assert different <= 0.05 * TRIALS
    assert different > 0  # the intervals would be too wide if the test never found a difference


def scattered(generator: np.random.Generator, rounds: int) -> np.ndarray:
    return generator.normal(0, MEASURED_NOISE, (TRIALS, rounds))


def two_speeds(generator: np.random.Generator, rounds: int) -> np.ndarray:
    """Return the noise of a machine that runs each turn at one of two speeds, chosen at random."""
    often, faster, scatter = TWO_SPEEDS
    turns = np.log(faster) * (generator.random((2, TRIALS, rounds)) < often)
    first, other = turns + generator.normal(0, scatter, turns.shape)
    difference: np.ndarray = first - other
    return difference


def share_found(noise: np.ndarray, true_ratio: float) -> float:
    return float(np.mean([
        paired_ratio(list(true_ratio * np.exp(n)), [1.0] * len(n)).differs_from(1.0) for n in noise
    ]))  # fmt: skip


@pytest.mark.parametrize("noise", [scattered, two_speeds])
@pytest.mark.parametrize("true_ratio", [1.1, 1 / 1.1])
def test_ten_percent_is_found_with_the_default_number_of_rounds(
    noise: Callable[[np.random.Generator, int], np.ndarray], true_ratio: float
) -> None:
    """The noise and insert experiments detect a difference of 10 % in 80 % of cases with the default number of rounds.

    With this noise, 6 or 15 rounds would not suffice.
    """
    assert InsertPlan().rounds == NoisePlan().rounds
    shares = {n: share_found(noise(np.random.default_rng(n), n), true_ratio) for n in (6, 15, NoisePlan().rounds)}
    assert shares[NoisePlan().rounds] >= 0.8
    assert shares[15] < 0.35 and shares[6] < 0.2


@pytest.mark.parametrize("noise", [normal, lognormal, heavy_tailed])
@pytest.mark.parametrize("samples", [6, 9, 15])
def test_equal_unpaired_samples_are_rarely_called_different(noise: Noise, samples: int) -> None:
    """At most 5 % of pairs of equal, unpaired samples are reported as different.

    The limit is three standard deviations higher, because the test nearly reaches that rate.
    """
    generator = np.random.default_rng([samples, 2])
    pairs = (noise(generator, samples) for _ in range(1000))
    different = sum(unpaired_ratio(list(a), list(b)).differs_from(1.0) for a, b in pairs)
    assert 10 < different <= 50 + 3 * (1000 * 0.05 * 0.95) ** 0.5


def test_critical_values_agree_with_the_published_table() -> None:
    table = {(6, 6): 5, (7, 7): 8, (8, 8): 13, (10, 10): 23, (6, 9): 10, (9, 6): 10, (20, 20): 127}
    assert {sizes: outer_pairs(*sizes) for sizes in table} == table
