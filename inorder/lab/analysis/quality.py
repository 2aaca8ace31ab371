"""Signs that a figure is doubtful: checkpoints during a measurement, and outliers as hyperfine defines them.

The functions are pure.
"""

from collections.abc import Sequence
from statistics import median

import numpy as np

from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.results.result import OWN_SERVER, Result, Run, checkpoint_wal

# Metrics that measure time. The first of these metrics that a run has is checked for outliers. Counters are exact: a
# counter that differs between rounds is not a measurement error.
TIMED = ("tps", "cpu_seconds", "seconds")

# The minimum standard deviation. With 0, after three equal measurements every other value would be an outlier.
LEAST_SCATTER = 0.005

# Ratio of the standard deviation to the median absolute deviation, for normally distributed values.
MAD_TO_DEVIATION = 1.4826
# A value more than this number of standard deviations from the median is an outlier, as in hyperfine. With normally
# distributed noise, six values contain an outlier in 1 % of cases, and fifteen values practically never.
FAR = 10.0

SLOWED = 3.0  # the report warns if the fastest round was at least this many times as fast as the slowest

Place = tuple[str, str, int]  # step, kind, rows


def deviations(values: Sequence[float]) -> np.ndarray:
    """Return the distance of each value from the median, in standard deviations.

    The standard deviation is estimated from the median absolute deviation of the logarithms.

    >>> [round(float(x), 1) for x in deviations([100.0, 101.0, 99.0, 100.0, 50.0])]
    [0.0, 0.7, -0.7, 0.0, -47.0]
    """
    logs = np.log(np.asarray(values, dtype=float))
    apart = logs - np.median(logs)
    scatter = max(MAD_TO_DEVIATION * float(np.median(np.abs(apart))), LEAST_SCATTER)
    distances: np.ndarray = apart / scatter
    return distances


def timed_series(result: Result) -> dict[Place, list[tuple[Run, str]]]:
    series: dict[Place, list[tuple[Run, str]]] = {}
    for run in sorted(result.runs, key=lambda run: run.round):
        if metric := next((name for name in TIMED if run.metrics.get(name, 0) > 0), None):
            series.setdefault((run.step, run.kind, run.rows), []).append((run, metric))
    return {
        place: turns
        for place, turns in series.items()
        if len(turns) >= LEAST_ROUNDS and len({metric for _, metric in turns}) == 1
    }


def outliers(result: Result) -> list[Run]:
    return [
        run
        for turns in timed_series(result).values()
        for (run, _), apart in zip(turns, deviations([run.metrics[name] for run, name in turns]), strict=True)
        if abs(apart) > FAR
    ]


def slowest_round(result: Result) -> float:
    """Return the speed of the fastest round divided by the speed of the slowest round.

    Each TPS is divided by the median of the same measurement in all rounds. The speed of a round is the median of these
    ratios.

    >>> runs = [Run("insert", kind, 9, number, {"tps": tps / number}) for kind, tps in (("v7", 90), ("random", 9))
    ...         for number in (1, 2, 4)]
    >>> slowest_round(Result("insert", "now", "0", 1, {}, {}, {}, "", [], runs))
    4.0
    """
    speeds: dict[Place, list[Run]] = {}
    for run in result.runs:
        if run.metrics.get("tps", 0) > 0:
            speeds.setdefault((run.step, run.kind, run.rows), []).append(run)
    rounds: dict[int, list[float]] = {}
    for runs in speeds.values():
        middle = median(run.metrics["tps"] for run in runs)
        for run in runs:
            rounds.setdefault(run.round, []).append(run.metrics["tps"] / middle)
    medians = [median(values) for values in rounds.values()] or [1.0]
    return max(medians) / min(medians)


def with_checkpoint(result: Result, expected: bool = False) -> list[Run]:
    """Return the runs that had a checkpoint.

    Return no runs if the experiment or its max_wal_size is expected to cause checkpoints.
    """
    expected = expected or bool(result.plan.get("max_wal_size"))
    return [] if expected else [run for run in result.runs if has_checkpoint(result, run)]


def has_checkpoint(result: Result, run: Run) -> bool:
    """Return True if the amount of WAL caused a checkpoint. Always return False for the user's own server."""
    after = checkpoint_wal(result.plan.get("max_wal_size"))
    return result.method != OWN_SERVER and run.metrics.get("wal_bytes", 0) > after
