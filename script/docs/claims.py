"""Claims of the five studies, and the functions that answer them from the figures in docs/results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from inorder.lab.analysis.figures import Metric, by_round, estimated, median_of, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.results.result import Result, Run

from unpaired import unpaired_ratio

NO_FIGURE = ("–", "asked there")
NEAR = (0.8, 1.25)  # a ratio in this range is no difference that matters

Figure = Callable[[Result], Estimate | None]


class Answer(Enum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    NOT = "does not hold"
    OPEN = "not shown here"


@dataclass(frozen=True)
class Claim:
    """A claim, what was published, the run that measures it, the figure, and how the figure answers.

    ``counted``: the figure is a count by the server, of the same work, for which one round is enough. ``as_there``:
    measured in the study's own regime, to which the claim refers. Only there can a figure show that a claim does not
    hold; elsewhere it shows nothing.
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
        """True if the study has a figure or a word for it, rather than only a question."""
        return self.published not in NO_FIGURE

    def answer(self, found: Estimate | None) -> Answer:
        """The answer of one run: undecided after too few rounds, or if it fails under other conditions."""
        if found is None or (found.rounds < LEAST_ROUNDS and not self.counted):
            return Answer.OPEN
        if found.rounds < LEAST_ROUNDS:
            low, high = (found.median if end is None else end for end in (found.low, found.high))
            found = Estimate(found.median, low, high, LEAST_ROUNDS)
        judged = self.judge(found)
        return judged if self.as_there or judged is not Answer.NOT else Answer.OPEN


def overall(answers: Sequence[Answer]) -> Answer:
    """The answer of all runs of a claim; undecided runs do not count.

    >>> overall([Answer.HOLDS, Answer.OPEN]), overall([Answer.HOLDS, Answer.NOT]), overall([])
    (<Answer.HOLDS: 'holds'>, <Answer.IN_PART: 'holds in part'>, <Answer.OPEN: 'not shown here'>)
    """
    decided = {answer for answer in answers if answer is not Answer.OPEN}
    if not decided:
        return Answer.OPEN
    return decided.pop() if len(decided) == 1 else Answer.IN_PART


# --- how a figure answers ------------------------------------------------------


def near(found: Estimate) -> Answer:
    """No difference that matters: the interval is within NEAR.

    >>> near(Estimate(1.0, 0.9, 1.1, 6)), near(Estimate(1.0, 0.7, 1.1, 6)), near(Estimate(3.0, 2.0, 4.0, 6))
    (<Answer.HOLDS: 'holds'>, <Answer.OPEN: 'not shown here'>, <Answer.NOT: 'does not hold'>)
    """
    assert found.low is not None and found.high is not None
    if NEAR[0] <= found.low and found.high <= NEAR[1]:
        return Answer.HOLDS
    return Answer.NOT if found.high < NEAR[0] or found.low > NEAR[1] else Answer.OPEN


def kept(found: Estimate) -> Answer:
    """The speed is not reduced by a loss that matters.

    >>> [kept(Estimate(1.0, *ends, 6)).name for ends in ((0.8, 2.0), (0.7, 2.0), (0.5, 0.7))]
    ['HOLDS', 'OPEN', 'NOT']
    """
    assert found.low is not None and found.high is not None
    if found.low >= NEAR[0]:
        return Answer.HOLDS
    return Answer.NOT if found.high < NEAR[0] else Answer.OPEN


def below(published: float) -> Callable[[Estimate], Answer]:
    """Less than 1, as published, if the interval reaches that figure. In part: less than 1, but not as much.

    >>> [below(0.3)(Estimate(0.0, *ends, 6)).name for ends in ((0.2, 0.4), (0.5, 0.6), (0.9, 1.1), (0.5, 1.1))]
    ['HOLDS', 'IN_PART', 'NOT', 'OPEN']
    """

    def judge(found: Estimate) -> Answer:
        assert found.low is not None and found.high is not None
        if found.high < 1:
            return Answer.HOLDS if found.low <= published else Answer.IN_PART
        return Answer.NOT if found.low >= NEAR[0] else Answer.OPEN

    return judge


def above(published: float) -> Callable[[Estimate], Answer]:
    """More than 1, likewise.

    >>> [above(3.0)(Estimate(0.0, *ends, 6)).name for ends in ((2.9, 3.1), (1.1, 1.2), (0.9, 1.1), (0.9, 2.0))]
    ['HOLDS', 'IN_PART', 'NOT', 'OPEN']
    """

    def judge(found: Estimate) -> Answer:
        assert found.low is not None and found.high is not None
        if found.low > 1:
            return Answer.HOLDS if found.high >= published else Answer.IN_PART
        return Answer.NOT if found.high <= NEAR[1] else Answer.OPEN

    return judge


def disturbed(_found: Estimate) -> Answer:
    """Undecided: other programs used nearly all of the CPU time during the measurement.

    The same answer is given for rounds so short that two runs contradict each other.
    """
    return Answer.OPEN


def some(found: Estimate) -> Answer:
    return Answer.HOLDS if found.median > 0 else Answer.OPEN


def none(found: Estimate) -> Answer:
    return Answer.NOT if found.median else Answer.HOLDS


def at_least(least: float) -> Callable[[Estimate], Answer]:
    return lambda found: Answer.HOLDS if (found.low or 0) >= least else Answer.NOT


# --- figures -------------------------------------------------------------------


def per_insert(metric: str) -> Metric:
    return lambda run: run.metrics[metric] / run.metrics["inserts"] if metric in run.metrics else None


def image_percent(run: Run) -> float | None:
    parts = [run.metrics.get(name) for name in ("image_bytes", "record_bytes")]
    return 100 * parts[0] / (parts[0] + parts[1]) if parts[0] is not None and parts[1] is not None else None


def to(step: str, kind: str, base: str, metric: Metric, rows: int | None = None, base_step: str = "") -> Figure:
    return lambda result: ratio_of(result, step, kind, base, metric, rows, base_step)


def between_sizes(kind: str, rows: int, smallest: int, base: str = "bigint") -> Figure:
    """The ratio of TPS to those of ``base`` at one size, relative to another size, measured at another time.

    Without a base, the ratio of TPS, which includes differences of the machine between the two times.
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


def share(step: str, kind: str, part: str, whole: str) -> Figure:
    def figure(result: Result) -> Estimate | None:
        sums = [sum(result.metric(name, result.select(step, kind))) for name in (part, whole)]
        return estimated([100 * sums[0] / sums[1]]) if sums[1] else None

    return figure


def middle(step: str, kind: str, metric: Metric, rows: int | None = None) -> Figure:
    return lambda result: median_of(result, step, kind, metric, rows)


def to_in_all(step: str, kind: str, base: str, metric: str) -> Figure:
    """The ratio of a counter to that of another kind, summed over all rounds, because single rounds may have none."""

    def figure(result: Result) -> Estimate | None:
        sums = [sum(result.metric(metric, result.select(step, one))) for one in (kind, base)]
        return estimated([sums[0] / sums[1]]) if sums[1] else None

    return figure


def total(step: str, kind: str, metric: str) -> Figure:
    """A counter summed over all rounds: a single value without an interval."""

    def figure(result: Result) -> Estimate | None:
        values = result.metric(metric, result.select(step, kind))
        return estimated([sum(values)]) if values else None

    return figure
