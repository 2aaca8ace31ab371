"""Claims of the five studies, and the functions that check them against the runs in docs/results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from inorder.lab.analysis.figures import Metric, by_round, estimated, median_of, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.results.result import Result, Run

from unpaired import unpaired_ratio

NO_FIGURE = ("–", "a question")
NEAR = (0.8, 1.25)  # a ratio in this range is too close to 1 to matter

Figure = Callable[[Result], Estimate | None]


class Answer(Enum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    OPEN = "not shown here"


@dataclass(frozen=True)
class Claim:
    """A claim of a study, the run and the figure that test it, and the function that judges the figure.

    If ``counted`` is true, the figure is a server counter for the same work in each round, and one round is enough. If
    ``as_there`` is true, the figure was measured under the conditions of the study. Only such a figure can refute the
    claim.
    """

    study: str
    says: str
    published: str
    run: str
    figure: Figure
    judge: Callable[[Estimate], Answer]
    counted: bool = False
    as_there: bool = False

    @property
    def has_figure(self) -> bool:
        """True if the study has published an answer, as a figure or in words."""
        return self.published not in NO_FIGURE

    def answer(self, measured: Estimate | None) -> Answer:
        """Answer the claim from a measured figure.

        The claim remains undecided after too few rounds, or if a figure that contradicts it was measured under other
        conditions.
        """
        if measured is None or (measured.rounds < LEAST_ROUNDS and not self.counted):
            return Answer.OPEN
        if measured.rounds < LEAST_ROUNDS:
            low, high = (measured.median if end is None else end for end in (measured.low, measured.high))
            measured = Estimate(measured.median, low, high, LEAST_ROUNDS)
        judged = self.judge(measured)
        return judged if self.as_there or judged is not Answer.NOT else Answer.OPEN


def overall(answers: Sequence[Answer]) -> Answer:
    """Return the answer on which all decided runs of a claim agree. If they disagree, the claim holds in part.

    >>> overall([Answer.HOLDS, Answer.OPEN]), overall([Answer.HOLDS, Answer.NOT]), overall([])
    (<Answer.HOLDS: 'holds'>, <Answer.IN_PART: 'holds in part'>, <Answer.OPEN: 'not shown here'>)
    """
    decided = {answer for answer in answers if answer is not Answer.OPEN}
    if not decided:
        return Answer.OPEN
    return decided.pop() if len(decided) == 1 else Answer.IN_PART


# --- answers from a measured figure --------------------------------------------


def near(ratio: Estimate) -> Answer:
    """Judge a claim that a ratio is about 1. The claim holds if the whole interval is within NEAR.

    >>> near(Estimate(1.0, 0.9, 1.1, 6)), near(Estimate(1.0, 0.7, 1.1, 6)), near(Estimate(3.0, 2.0, 4.0, 6))
    (<Answer.HOLDS: 'holds'>, <Answer.OPEN: 'not shown here'>, <Answer.NOT: 'does not hold'>)
    """
    assert ratio.low is not None and ratio.high is not None
    if NEAR[0] <= ratio.low and ratio.high <= NEAR[1]:
        return Answer.HOLDS
    return Answer.NOT if ratio.high < NEAR[0] or ratio.low > NEAR[1] else Answer.OPEN


def close_to(published: float) -> Callable[[Estimate], Answer]:
    """Return a function that judges if a value is about as published: see ``near``.

    >>> [close_to(50)(Estimate(0.0, *ends, 6)).name for ends in ((49.0, 51.0), (30.0, 51.0), (1.0, 2.0))]
    ['HOLDS', 'OPEN', 'NOT']
    """

    def judge(value: Estimate) -> Answer:
        assert value.low is not None and value.high is not None
        return near(Estimate(value.median / published, value.low / published, value.high / published, value.rounds))

    return judge


def kept(ratio: Estimate) -> Answer:
    """Judge the claim that the speed does not drop. It holds if no part of the interval is below ``NEAR[0]``.

    >>> [kept(Estimate(1.0, *ends, 6)).name for ends in ((0.8, 2.0), (0.7, 2.0), (0.5, 0.7))]
    ['HOLDS', 'OPEN', 'NOT']
    """
    assert ratio.low is not None and ratio.high is not None
    if ratio.low >= NEAR[0]:
        return Answer.HOLDS
    return Answer.NOT if ratio.high < NEAR[0] else Answer.OPEN


def below(published: float) -> Callable[[Estimate], Answer]:
    """Return a function that judges if a ratio is as low as published.

    The interval must be below 1. If it does not reach down to the published figure, the claim holds in part.

    >>> [below(0.3)(Estimate(0.0, *ends, 6)).name for ends in ((0.2, 0.4), (0.5, 0.6), (0.9, 1.1), (0.5, 1.1))]
    ['HOLDS', 'IN_PART', 'NOT', 'OPEN']
    """

    def judge(ratio: Estimate) -> Answer:
        assert ratio.low is not None and ratio.high is not None
        if ratio.high < 1:
            return Answer.HOLDS if ratio.low <= published else Answer.IN_PART
        return Answer.NOT if ratio.low >= NEAR[0] else Answer.OPEN

    return judge


def above(published: float) -> Callable[[Estimate], Answer]:
    """Return a function that judges if a ratio is as high as published.

    The interval must be above 1. If it does not reach up to the published figure, the claim holds in part.

    >>> [above(3.0)(Estimate(0.0, *ends, 6)).name for ends in ((2.9, 3.1), (1.1, 1.2), (0.9, 1.1), (0.9, 2.0))]
    ['HOLDS', 'IN_PART', 'NOT', 'OPEN']
    """

    def judge(ratio: Estimate) -> Answer:
        assert ratio.low is not None and ratio.high is not None
        if ratio.low > 1:
            return Answer.HOLDS if ratio.high >= published else Answer.IN_PART
        return Answer.NOT if ratio.high <= NEAR[1] else Answer.OPEN

    return judge


def some(value: Estimate) -> Answer:
    return Answer.HOLDS if value.median > 0 else Answer.OPEN


def none(value: Estimate) -> Answer:
    return Answer.NOT if value.median else Answer.HOLDS


def at_least(least: float) -> Callable[[Estimate], Answer]:
    return lambda value: Answer.HOLDS if (value.low or 0) >= least else Answer.NOT


# --- figures -------------------------------------------------------------------


def per_insert(metric: str) -> Metric:
    return lambda run: run.metrics[metric] / run.metrics["inserts"] if metric in run.metrics else None


def image_percent(run: Run) -> float | None:
    parts = [run.metrics.get(name) for name in ("image_bytes", "record_bytes")]
    return 100 * parts[0] / (parts[0] + parts[1]) if parts[0] is not None and parts[1] is not None else None


def to(step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = "") -> Figure:
    return lambda result: ratio_of(result, step, kind, base, metric, rows, base_step)


def between_sizes(kind: str, rows: int, smallest: int, base: str = "bigint") -> Figure:
    """Return the figure that compares the TPS of a kind of key with ``rows`` rows to its TPS with ``smallest`` rows.

    The two sizes are measured at different times. The TPS are therefore first divided by those of ``base``. Without a
    base, the figure also contains the difference in the machine's speed between these times.
    """

    def figure(result: Result) -> Estimate | None:
        def at(size: int) -> list[float]:
            paired = ratios_of(result, "insert", kind, base, "tps", size)
            return list((paired if base else by_round(result, "insert", kind, "tps", size)).values())

        speeds, small = at(rows), at(smallest)
        return unpaired_ratio(speeds, small) if speeds and small else None

    return figure


def between_counts(kind: str, metric: str, rows: int, fewer: int) -> Figure:
    def figure(result: Result) -> Estimate | None:
        sizes = [list(by_round(result, "insert", kind, per_insert(metric), size).values()) for size in (rows, fewer)]
        return unpaired_ratio(*sizes) if all(sizes) else None

    return figure


def table_and_index_mb(run: Run) -> float | None:
    sizes = [run.metrics.get(name) for name in ("table_bytes", "index_bytes")]
    return (sizes[0] + sizes[1]) / 2**20 if sizes[0] is not None and sizes[1] is not None else None


def share(step: str, kind: str, metric: str, total_metric: str) -> Figure:
    def figure(result: Result) -> Estimate | None:
        sums = [sum(result.metric(name, result.select(step, kind))) for name in (metric, total_metric)]
        return estimated([100 * sums[0] / sums[1]]) if sums[1] else None

    return figure


def middle(step: str, kind: str, metric: Metric, rows: int | None = None) -> Figure:
    return lambda result: median_of(result, step, kind, metric, rows)


def to_in_all(step: str, kind: str, base: str, metric: str) -> Figure:
    """Return the figure that compares a counter of two kinds, summed over all rounds because it may be 0 in a round."""

    def figure(result: Result) -> Estimate | None:
        sums = [sum(result.metric(metric, result.select(step, name))) for name in (kind, base)]
        return estimated([sums[0] / sums[1]]) if sums[1] else None

    return figure


def total(step: str, kind: str, metric: str) -> Figure:
    """Return the figure that sums a counter over all rounds. This figure has no interval."""

    def figure(result: Result) -> Estimate | None:
        values = result.metric(metric, result.select(step, kind))
        return estimated([sum(values)]) if values else None

    return figure
