"""What difference a number of rounds finds, given the paired ratios of equal things; pure, and the same every time."""

from collections.abc import Sequence
from math import expm1

import numpy as np

from inorder.lab.analysis.stats import LEAST_ROUNDS, outer_rank

FOUND = 0.8  # how often a difference of the given size is to be found
ROUNDS = (6, 9, 15, 30)
TO_FIND = 0.1  # the true difference that the lab is to find
MOST_ROUNDS = 200
SIMULATIONS = 4000  # a share of 0.8 is then known to 0.6 %
SEED = 1


def lower_ends(logs: Sequence[float], rounds: int) -> np.ndarray:
    """Of simulated intervals, as logarithms. Ratios are drawn either way round: A and B are equal."""
    pool = np.concatenate([np.asarray(logs, dtype=float), -np.asarray(logs, dtype=float)])
    drawn = np.random.default_rng(SEED).choice(pool, (SIMULATIONS, rounds))
    ends: np.ndarray = np.sort(drawn, axis=1)[:, outer_rank(rounds)]
    return ends


def share_found(logs: Sequence[float], rounds: int, difference: float) -> float:
    """How often a true difference (0.1 for 10 %) is found with so many rounds.

    >>> share_found([0.01, -0.01, 0.02], 6, 0.1), share_found([0.01], 5, 0.1)
    (1.0, 0.0)
    """
    if rounds < LEAST_ROUNDS:
        return 0.0
    return float(np.mean(lower_ends(logs, rounds) + np.log1p(difference) > 0))


def smallest_found(logs: Sequence[float], rounds: int, share: float = FOUND) -> float | None:
    """The smallest difference in percent that so many rounds find that often; None if none is.

    A shift of all ratios shifts the interval, which excludes 1 once its lower end is above it: so the shift
    that does it in that share of cases is a quantile of what the lower ends lack.

    >>> smallest_found([0.0], 6), smallest_found([0.0], 5)
    (0.0, None)
    """
    if rounds < LEAST_ROUNDS:
        return None
    return 100 * expm1(float(np.quantile(-lower_ends(logs, rounds), share)))


def rounds_for(logs: Sequence[float], difference: float = TO_FIND, share: float = FOUND) -> int | None:
    """The fewest rounds that find a difference that often; None if MOST_ROUNDS do not.

    >>> rounds_for([0.01, -0.02, 0.015]), rounds_for([1.0, -2.0, 1.5])
    (6, None)
    """
    return next((n for n in range(LEAST_ROUNDS, MOST_ROUNDS + 1, 3) if share_found(logs, n, difference) >= share), None)
