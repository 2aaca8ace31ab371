"""The figures of a report, computed from the runs of a result: medians over rounds, and ratios within rounds.

All experiments use these functions, which are pure.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inorder.lab.analysis.stats import Estimate, estimate, ratios_by_round
from inorder.lab.results.result import Result, Run

# The name of a metric, or a function that computes a value from a run. The function returns None if a metric that it
# needs is missing.
Metric = str | Callable[[Run], float | None]


@dataclass(frozen=True)
class Per:
    """A metric divided by another metric of the same run, or by a number.

    >>> Per("wal_bytes", "inserts")(Run("insert", "v7", 1, 1, {"wal_bytes": 500.0, "inserts": 5.0}))
    100.0
    >>> Per("wal_bytes", "inserts")(Run("insert", "v7", 1, 1, {"inserts": 5.0})) is None
    True
    >>> Per("wal_bytes", 2**20)(Run("insert", "v7", 1, 1, {"wal_bytes": 2**21}))
    2.0
    """

    metric: str
    divisor: str | float
    scale: float = 1.0

    def __call__(self, run: Run) -> float | None:
        by = run.metrics.get(self.divisor) if isinstance(self.divisor, str) else self.divisor
        return self.scale * run.metrics[self.metric] / by if self.metric in run.metrics and by else None


per = Per


def value_of(run: Run, metric: Metric) -> float | None:
    return run.metrics.get(metric) if isinstance(metric, str) else metric(run)


def by_round(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> dict[int, float]:
    values = {run.round: value_of(run, metric) for run in result.select(step, kind, rows)}
    return {number: value for number, value in values.items() if value is not None}


def estimated(values: Iterable[float]) -> Estimate | None:
    numbers = list(values)
    return estimate(numbers) if numbers else None


def median_of(
    result: Result, step: str, kind: str, metric: Metric, rows: int | None = None, scale: float = 1.0
) -> Estimate | None:
    values = by_round(result, step, kind, metric, rows)
    return estimated(scale * value for value in values.values())


def middle_of(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> float | None:
    """Return the median without its interval, for values that are counted exactly."""
    value = median_of(result, step, kind, metric, rows)
    return value.median if value else None


def ratios_of(
    result: Result, step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = ""
) -> dict[int, float]:
    """Return the ratio to another kind or step for each round that has both values.

    The ratio of the base to itself is left out.
    """
    pairs = [(step, kind), (base_step or step, base)]
    values, base_values = (by_round(result, *pair, metric, rows) for pair in pairs)
    return ratios_by_round(values, base_values) if pairs[0] != pairs[1] else {}


def ratio_of(
    result: Result, step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = ""
) -> Estimate | None:
    return estimated(ratios_of(result, step, kind, base, metric, rows, base_step).values())


def last_of(result: Result, step: str, kind: str, metric: Metric, rows: int | None = None) -> float | None:
    """Return the value in the last round that has one. Some metrics are measured in one round only."""
    values = by_round(result, step, kind, metric, rows)
    return values[max(values)] if values else None


@dataclass(frozen=True)
class Row:
    result: Result
    step: str
    kind: str
    rows: int | None = None


Reading = Callable[[Row], Estimate | float | None]  # a function that returns the value in a column


def median(metric: Metric, step: str = "", scale: float = 1.0) -> Reading:
    return lambda row: median_of(row.result, step or row.step, row.kind, metric, row.rows, scale)


def middle(metric: Metric, step: str = "") -> Reading:
    return lambda row: middle_of(row.result, step or row.step, row.kind, metric, row.rows)


def last(metric: Metric, step: str = "") -> Reading:
    return lambda row: last_of(row.result, step or row.step, row.kind, metric, row.rows)


def to(base: str, metric: Metric, step: str = "", base_step: str = "", itself: int | None = None) -> Reading:
    """Return a function that computes the ratio to another kind or step in the same round.

    If ``itself`` is given, the function returns this number for the base.
    """

    def read(row: Row) -> Estimate | float | None:
        own_step = step or row.step
        if itself and row.kind == base and row.result.select(own_step, base):
            return itself
        return ratio_of(row.result, own_step, row.kind, base or row.kind, metric, row.rows, base_step=base_step)

    return read
