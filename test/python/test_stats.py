"""The statistics, on simulated noise and on properties that hold for any sample."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.lab.analysis.stats import estimate, outer_rank, paired_ratio

positive = st.floats(min_value=1e-3, max_value=1e6)


@given(st.lists(positive, min_size=2, max_size=20))
def test_the_interval_holds_the_median_and_is_of_the_sample(values: list[float]) -> None:
    result = estimate(values)
    assert result.low is not None and result.high is not None
    assert result.low <= result.median <= result.high
    assert {result.low, result.high} <= set(values)
    assert result.rounds == len(values)


@given(st.lists(positive, min_size=1, max_size=20), st.floats(min_value=0.01, max_value=100))
def test_a_constant_ratio_is_found_exactly(baseline: list[float], factor: float) -> None:
    result = paired_ratio([value * factor for value in baseline], baseline)
    assert result.median == pytest.approx(factor)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 30])
def test_noise_is_rarely_called_a_difference(rounds: int) -> None:
    generator = np.random.default_rng(rounds)
    trials = 600
    differences = sum(
        paired_ratio(list(generator.normal(1, 0.05, rounds)), list(generator.normal(1, 0.05, rounds))).differs_from(1.0)
        for _ in range(trials)
    )
    assert differences <= trials * 0.05 + 3 * (trials * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("rounds", [6, 9])
def test_a_true_difference_is_found(rounds: int) -> None:
    generator = np.random.default_rng(7)
    pairs = ((generator.normal(0.8, 0.05, rounds), generator.normal(1, 0.05, rounds)) for _ in range(100))
    found = sum(paired_ratio(list(a), list(b)).differs_from(1.0) for a, b in pairs)
    assert found >= 99


@given(st.integers(min_value=6, max_value=200))
def test_the_rank_is_the_largest_that_keeps_the_promise(count: int) -> None:
    """One further in, the interval would miss more often than 5 %."""
    misses = [2 * sum(comb(count, heads) for heads in range(rank + 1)) / 2**count for rank in range(count // 2)]
    assert misses[outer_rank(count)] <= 0.05 < misses[outer_rank(count) + 1]


def test_one_round_shows_no_difference() -> None:
    assert not paired_ratio([1.0], [100.0]).differs_from(1.0)
