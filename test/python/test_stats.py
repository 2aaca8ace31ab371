"""The statistics, on simulated noise and on properties that hold for any sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.lab.stats import estimate, paired_ratio

positive = st.floats(min_value=1e-3, max_value=1e6)


@given(st.lists(positive, min_size=2, max_size=20))
def test_the_interval_holds_the_median_and_stays_in_the_sample(values: list[float]) -> None:
    """Bootstrap medians are medians of the sample's own values."""
    result = estimate(values)
    assert result.low is not None and result.high is not None
    assert min(values) <= result.low <= result.high <= max(values)
    assert result.rounds == len(values)


@given(st.lists(positive, min_size=1, max_size=20), st.floats(min_value=0.01, max_value=100))
def test_a_constant_ratio_is_found_exactly(baseline: list[float], factor: float) -> None:
    """However much the rounds differ."""
    result = paired_ratio([value * factor for value in baseline], baseline)
    assert result.median == pytest.approx(factor)


def test_noise_is_rarely_called_a_difference() -> None:
    """A against A, nine rounds with 5 % noise: the interval of the median holds 1 nearly always."""
    generator = np.random.default_rng(7)
    differences = sum(
        paired_ratio(list(generator.normal(1, 0.05, 9)), list(generator.normal(1, 0.05, 9))).differs_from(1.0)
        for _ in range(300)
    )
    assert differences <= 300 * 0.10


def test_a_true_difference_is_found() -> None:
    """20 % less, nine rounds with 5 % noise."""
    generator = np.random.default_rng(7)
    found = sum(
        paired_ratio(list(generator.normal(0.8, 0.05, 9)), list(generator.normal(1, 0.05, 9))).differs_from(1.0)
        for _ in range(100)
    )
    assert found >= 99


def test_one_round_shows_no_difference() -> None:
    """Whatever its ratio."""
    assert not paired_ratio([1.0], [100.0]).differs_from(1.0)
