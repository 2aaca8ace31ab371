"""Claims of the five studies, and the functions that answer them from the figures in docs/results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from inorder.lab.analysis.figures import Metric, by_round, estimated, median_of, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.results.result import Result, Run

from unpaired import unpaired_ratio

NO_FIGURE = ("–", "a question")
NEAR = (0.8, 1.25)  # figures whose ratio is in this range do not differ enough to matter

Figure = Callable[[Result], Estimate | None]


class Answer(Enum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    OPEN = "not shown here"


@dataclass(frozen=True)
class Claim:
    """A claim: its published figure, the run that measures it, the measured figure, and how to judge it.

    ``counted``: the figure is a counter of the server for the same work in each round, and one round is enough.
    ``as_there``: the figure was measured under the conditions of the study. Only such a figure can show that the claim
    does not hold.
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
        """True if the study has a figure or a word for the claim, and not only a question."""
        return self.published not in NO_FIGURE

    def answer(self, measured: Estimate | None) -> Answer:
        """The answer of a run: undecided after too few rounds, or if a contradicting run had other conditions."""
        if measured is None or (measured.rounds < LEAST_ROUNDS and not self.counted):
            return Answer.OPEN
        if measured.rounds < LEAST_ROUNDS:
            low, high = (measured.median if end is None else end for end in (measured.low, measured.high))
            measured = Estimate(measured.median, low, high, LEAST_ROUNDS)
        judged = self.judge(measured)
        return judged if self.as_there or judged is not Answer.NOT else Answer.OPEN


def overall(answers: Sequence[Answer]) -> Answer:
    """The answer of all runs of a claim, without undecided runs.

    >>> overall([Answer.HOLDS, Answer.OPEN]), overall([Answer.HOLDS, Answer.NOT]), overall([])
    (<Answer.HOLDS: 'holds'>, <Answer.IN_PART: 'holds in part'>, <Answer.OPEN: 'not shown here'>)
    """
    decided = {answer for answer in answers if answer is not Answer.OPEN}
    if not decided:
        return Answer.OPEN
    return decided.pop() if len(decided) == 1 else Answer.IN_PART


# --- answers from a measured figure --------------------------------------------


def near(ratio: Estimate) -> Answer:
    """The claim holds if the whole interval is within NEAR.

    >>> near(Estimate(1.0, 0.9, 1.1, 6)), near(Estimate(1.0, 0.7, 1.1, 6)), near(Estimate(3.0, 2.0, 4.0, 6))
    (<Answer.HOLDS: 'holds'>, <Answer.OPEN: 'not shown here'>, <Answer.NOT: 'does not hold'>)
    """
    assert ratio.low is not None and ratio.high is not None
    if NEAR[0] <= ratio.low and ratio.high <= NEAR[1]:
        return Answer.HOLDS
    return Answer.NOT if ratio.high < NEAR[0] or ratio.low > NEAR[1] else Answer.OPEN


def close_to(published: float) -> Callable[[Estimate], Answer]:
    """The claim holds if the ratio of the figure to the published figure is within NEAR: see ``near``.

    >>> [close_to(50)(Estimate(0.0, *ends, 6)).name for ends in ((49.0, 51.0), (30.0, 51.0), (1.0, 2.0))]
    ['HOLDS', 'OPEN', 'NOT']
    """

    def judge(value: Estimate) -> Answer:
        assert value.low is not None and value.high is not None
        return near(Estimate(value.median / published, value.low / published, value.high / published, value.rounds))

    return judge


def kept(ratio: Estimate) -> Answer:
    """The claim holds if no part of the interval is below ``NEAR[0]``, a loss of speed that matters.

    >>> [kept(Estimate(1.0, *ends, 6)).name for ends in ((0.8, 2.0), (0.7, 2.0), (0.5, 0.7))]
    ['HOLDS', 'OPEN', 'NOT']
    """
    assert ratio.low is not None and ratio.high is not None
    if ratio.low >= NEAR[0]:
        return Answer.HOLDS
    return Answer.NOT if ratio.high < NEAR[0] else Answer.OPEN


def below(published: float) -> Callable[[Estimate], Answer]:
    """The claim holds if the interval is below 1 and reaches the published figure, and in part if it does not reach it.

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
    """The claim holds if the interval is above 1 and reaches the published figure, and in part if it does not reach it.

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
    """TPS relative to the TPS of ``base`` with ``rows`` rows, divided by the same ratio with ``smallest`` rows.

    The two sizes were measured at different times. Without a base, the TPS themselves are divided, and the result
    includes differences of the machine between these times.
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
    """The ratio of a counter to that of another kind, each summed over all rounds, since it may be 0 in a round."""

    def figure(result: Result) -> Estimate | None:
        sums = [sum(result.metric(metric, result.select(step, name))) for name in (kind, base)]
        return estimated([sums[0] / sums[1]]) if sums[1] else None

    return figure


def total(step: str, kind: str, metric: str) -> Figure:
    """A counter summed over all rounds: a value without an interval."""

    def figure(result: Result) -> Estimate | None:
        values = result.metric(metric, result.select(step, kind))
        return estimated([sum(values)]) if values else None

    return figure
