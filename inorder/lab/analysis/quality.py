"""Outliers and drifts among the measurements of one kind: what to check before a figure is believed. Pure.

Both tests know how often they are wrong: of reports on plain noise (normal in the logarithm, equal in all rounds) at
most ERROR report an outlier, and as many of a drift, however many kinds a report has. Heavier tails than normal are
reported more often: there the measurements do stand out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import exp, expm1, log

import numpy as np

from inorder.lab.analysis.stats import ERROR
from inorder.lab.results import OWN_SERVER, Result, Run, checkpoint_wal

# With 4 rounds even a steady drift has a chance of 2/4! = 8 %, with 5 of 1.7 %.
LEAST_ROUNDS = 5

# What is timed, the first that a run has; counters are exact and may change for good reasons.
TIMED = ("tps", "cpu_seconds", "seconds")
PER_SECOND = ("tps",)

# A scatter below half a percent is none: or three equal measurements would make a fourth an outlier.
LEAST_SCATTER = 0.005

# How a standard deviation follows from the median of the absolute deviations, were they normal.
MAD_TO_DEVIATION = 1.4826

SIMULATIONS = 20_000  # a share of 1 % is then known to 0.07 %
STALL = 0.5  # a second below this share of the measurement's median is one

Place = tuple[str, str, int]  # step, kind, rows


@dataclass(frozen=True)
class Finding:
    """Something to check: what ("outlier", "drift", "checkpoint"), where, how large in percent, what to do next."""

    what: str
    step: str
    kind: str
    rows: int
    round: int | None
    metric: str
    percent: float | None
    next_step: str


def deviations(values: Sequence[float]) -> np.ndarray:
    """How many standard deviations each value is from the median, by median absolute deviation of the logarithms.

    >>> [round(float(x), 1) for x in deviations([100.0, 101.0, 99.0, 100.0, 50.0])]
    [0.0, 0.7, -0.7, 0.0, -47.0]
    """
    logs = np.log(np.asarray(values, dtype=float))
    apart = logs - np.median(logs)
    scatter = max(MAD_TO_DEVIATION * float(np.median(np.abs(apart))), LEAST_SCATTER)
    found: np.ndarray = apart / scatter
    return found


@cache
def outlier_threshold(count: int, error: float) -> float:
    """What the largest of so many normal deviations exceeds in that share of cases; simulated.

    The 3.5 that is often taken would be exceeded in 15 of 100 sets of 6 values: their own scatter is that unsure.

    >>> 3.5 < outlier_threshold(30, 0.05) < outlier_threshold(9, 0.05) < outlier_threshold(6, 0.05)
    True
    """
    values = np.random.default_rng(count).normal(size=(SIMULATIONS, count))
    apart = np.abs(values - np.median(values, axis=1, keepdims=True))
    largest = apart.max(axis=1) / (MAD_TO_DEVIATION * np.median(apart, axis=1))
    return float(np.quantile(largest, 1 - error))


@cache
def inversions(count: int) -> np.ndarray:
    """Of all orders of so many values, the share that has 0, 1, 2, … pairs the wrong way round.

    >>> [round(6 * float(share)) for share in inversions(3)]
    [1, 2, 2, 1]
    """
    shares = np.ones(1)
    for size in range(2, count + 1):
        shares = np.convolve(shares, np.full(size, 1 / size))
    return shares


def drift_chance(values: Sequence[float]) -> float:
    """How often values in random order would rise or fall as steadily (Mann-Kendall, exact; ties count for half).

    >>> round(drift_chance([1, 2, 3, 4, 5]), 4), round(drift_chance([1, 5, 2, 4, 3]), 2)
    (0.0167, 0.82)
    """
    falls = sum(1.0 if later < earlier else 0.5 * (later == earlier) for earlier, later in combinations(values, 2))
    most = len(values) * (len(values) - 1) // 2
    fewer = min(falls, most - falls)
    return min(1.0, 2 * float(inversions(len(values))[: int(np.ceil(fewer)) + 1].sum()))


def drift_percent(values: Sequence[float]) -> float:
    """The change from the first round to the last in percent, by the median of all slopes (Theil-Sen).

    >>> round(drift_percent([100.0, 110.0, 121.0, 900.0, 146.41]), 1)
    46.4
    """
    slopes = [(log(b) - log(a)) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2)]
    return 100 * expm1(float(np.median(slopes)) * (len(values) - 1))


def timed_series(result: Result) -> dict[Place, list[tuple[Run, str, float]]]:
    series: dict[Place, list[tuple[Run, str, float]]] = {}
    for run in sorted(result.runs, key=lambda run: run.round):
        metric = next((name for name in TIMED if run.metrics.get(name, 0) > 0), None)
        if metric:
            series.setdefault((run.step, run.kind, run.rows), []).append((run, metric, float(run.metrics[metric])))
    return {
        place: turns
        for place, turns in series.items()
        if len(turns) >= LEAST_ROUNDS and len({metric for _, metric, _ in turns}) == 1
    }


def findings(result: Result, checkpoints: bool = False) -> list[Finding]:
    """Checkpoints, too, unless the experiment makes ``checkpoints`` itself, or its plan has max_wal_size."""
    checkpoints = checkpoints or bool(result.plan.get("max_wal_size"))
    series = timed_series(result)
    error = ERROR / max(1, len(series))  # all kinds together
    step = "pages were logged whole again after it, and its writes took part of the time: ask for less at once"
    found = [
        Finding("checkpoint", run.step, run.kind, run.rows, run.round, "full_page_images", None, step)
        for run in result.runs if not checkpoints and has_checkpoint(result, run)
    ]  # fmt: skip
    for place, turns in series.items():
        found += outliers(place, turns, error) + drifts(place, turns, error)
    return found


def has_checkpoint(result: Result, run: Run) -> bool:
    """A throw-away server makes a checkpoint by itself after so much WAL; other servers may at any time."""
    after = checkpoint_wal(result.plan.get("max_wal_size"))
    return result.method != OWN_SERVER and run.metrics.get("wal_bytes", 0) > after


def outliers(place: Place, turns: Sequence[tuple[Run, str, float]], error: float) -> list[Finding]:
    values = [value for _, _, value in turns]
    middle, threshold = float(np.median(np.log(values))), outlier_threshold(len(values), error)
    return [
        Finding("outlier", *place, run.round, metric, 100 * (value / exp(middle) - 1), outlier_step(run, metric))
        for (run, metric, value), apart in zip(turns, deviations(values), strict=True)
        if abs(apart) > threshold
    ]


def outlier_step(run: Run, metric: str) -> str:
    """What to do about a measurement that stands out: check its seconds, if they show where.

    >>> outlier_step(Run("insert", "v7", 1, 3, {}, {"tps": [100.0, 90.0, 5.0]}), "tps")
    'second 3 of round 3 had 5 of 90: see what else wrote then, or whether a checkpoint fell into it'
    >>> outlier_step(Run("insert", "v7", 1, 3, {}), "seconds")
    'run more rounds: if it comes again it is no accident'
    """
    seconds = run.series.get(metric, [])
    if seconds and min(seconds) < STALL * float(np.median(seconds)):
        second = seconds.index(min(seconds)) + 1
        return (
            f"second {second} of round {run.round} had {min(seconds):,.0f} of {np.median(seconds):,.0f}: "
            "see what else wrote then, or whether a checkpoint fell into it"
        )
    return "run more rounds: if it comes again it is no accident"


def drifts(place: Place, turns: Sequence[tuple[Run, str, float]], error: float) -> list[Finding]:
    values = [value for _, _, value in turns]
    if drift_chance(values) > error:
        return []
    change, metric = drift_percent(values), turns[0][1]
    slower = (change < 0) == (metric in PER_SECOND)
    why = "a growing table, other load or a throttled machine" if slower else "caches still filling or other load gone"
    step = f"perhaps {why}: trust ratios within rounds only; run more rounds"
    return [Finding("drift", *place, None, metric, change, step)]
