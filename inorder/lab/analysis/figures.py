"""From the runs of a result to the figures of a report: medians over the rounds and ratios within them.

The one way to a figure, for all experiments. Pure.
"""

from collections.abc import Callable, Iterable

from inorder.lab.analysis.stats import Estimate, estimate, ratios_by_round
from inorder.lab.results import Result, Run

# What is read in a run: the name of a metric, or what is computed of it (None where it cannot be).
Metric = str | Callable[[Run], float | None]


def per(metric: str, divisor: str | float, scale: float = 1.0) -> Metric:
    """A metric divided by another of the same run, or by a number.

    >>> per("wal_bytes", "inserts")(Run("insert", "v7", 1, 1, {"wal_bytes": 500.0, "inserts": 5.0}))
    100.0
    >>> per("wal_bytes", "inserts")(Run("insert", "v7", 1, 1, {"inserts": 5.0})) is None
    True
    >>> per("wal_bytes", 2**20)(Run("insert", "v7", 1, 1, {"wal_bytes": 2**21}))
    2.0
    """

    def divided(run: Run) -> float | None:
        by = run.metrics.get(divisor) if isinstance(divisor, str) else divisor
        return scale * run.metrics[metric] / by if metric in run.metrics and by else None

    return divided


def value_of(run: Run, metric: Metric) -> float | None:
    """A metric of a run."""
    return run.metrics.get(metric) if isinstance(metric, str) else metric(run)


def by_round(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> dict[int, float]:
    """A metric in each round that has it."""
    values = {run.round: value_of(run, metric) for run in result.select(step, kind, rows)}
    return {number: value for number, value in values.items() if value is not None}


def estimated(values: Iterable[float]) -> Estimate | None:
    """The median of some values, with its interval; None of nothing."""
    known = list(values)
    return estimate(known) if known else None


def median_of(
    result: Result, step: str, kind: str, metric: Metric, rows: int | None = None, scale: float = 1.0
) -> Estimate | None:
    """The median over the rounds, with its interval; None where nothing was measured."""
    values = by_round(result, step, kind, metric, rows)
    return estimated(scale * value for value in values.values())


def middle_of(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> float | None:
    """The median alone: of what is counted exactly, whose spread is not shown."""
    found = median_of(result, step, kind, metric, rows)
    return found.median if found else None


def ratios_of(
    result: Result, step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = ""
) -> dict[int, float]:
    """The ratio to another kind, or step, in each round that has both; none to itself."""
    pairs = [(step, kind), (base_step or step, base)]
    values, beside = (by_round(result, *pair, metric, rows) for pair in pairs)
    return ratios_by_round(values, beside) if pairs[0] != pairs[1] else {}


def ratio_of(
    result: Result, step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = ""
) -> Estimate | None:
    """The median of these ratios, with its interval; None without any."""
    return estimated(ratios_of(result, step, kind, base, metric, rows, base_step).values())


def last_of(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> float | None:
    """The value of the last round that has it: of what is measured once."""
    values = by_round(result, step, kind, metric, rows)
    return values[max(values)] if values else None
