"""The questions that a result answers, the figures behind each answer, and what would decide an open question. Pure.

An experiment states its comparisons (``Compared``). This module writes the sentences, which are the same for all
experiments.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

from inorder.lab.analysis.figures import estimated
from inorder.lab.analysis.stats import LEAST_ROUNDS, TO_FIND, Estimate, rounds_for
from inorder.lab.report.section import Value, number
from inorder.lab.results.result import Result
from inorder.text import plural, quoted

UNDECIDED = "Not decided"
STEADIER = "longer measurements, or a machine with less other load."
MOST_BARS = 3
PLAIN = "series-1"  # the default colour of a bar
UNSTEADY = 0.2  # if the possible loss is larger, the question is open instead of "no difference"


@dataclass(frozen=True)
class Bar:
    """A bar next to an answer on the page; ``css`` is a colour of the style sheet."""

    label: str
    value: float
    text: str
    css: str = PLAIN
    interval: tuple[float, float] | None = None


def bars_of(values: Iterable[tuple[str, Value, str]], show: Callable[[Value], str]) -> list[Bar]:
    """Bars with labels, styles and, from enough rounds, intervals; values that were not measured have no bar.

    >>> bars_of([("a", Estimate(2.0, 1.0, 3.0, 6), "x"), ("b", None, "x")], lambda one: "2")
    [Bar(label='a', value=2.0, text='2', css='x', interval=(1.0, 3.0))]
    """
    bars = []
    for label, value, css in values:
        if isinstance(value, Estimate):
            is_sure = value.rounds >= LEAST_ROUNDS
            ends = (value.low, value.high) if is_sure and value.low is not None and value.high is not None else None
            bars.append(Bar(label, value.median, show(value), css, ends))
        elif isinstance(value, float | int):
            bars.append(Bar(label, value, show(value), css))
    return bars


@dataclass(frozen=True)
class Step:
    """A statement or command that follows from an answer, its table or reader, and its page."""

    case: str
    text: str
    page: str


@dataclass(frozen=True)
class Verdict:
    """A question and its answer.

    ``answer``: a word or two. ``figures``: a sentence. ``holds``: the conditions under which the answer holds.
    ``sure``: how certain it is, or what would decide the question. ``bars``: at most three. ``steps``: what to do now.
    """

    question: str
    answer: str
    figures: str
    holds: str = ""
    sure: str = ""
    bars: Sequence[Bar] = ()
    steps: Sequence[Step] = ()

    def __post_init__(self) -> None:
        if len(self.bars) > MOST_BARS:
            raise ValueError(f"the verdict on {quoted(self.question)} has {len(self.bars)} bars")

    @property
    def lines(self) -> str:
        first = f"{self.question} {self.answer + '. ' if self.answer else ''}{self.figures}"
        second = " ".join(filter(None, (self.holds, self.sure)))
        return f"{first}\n  {second}" if second else first


def decided(ratio: Estimate) -> bool:
    """True if a ratio answers a question: it differs from 1, or its interval excludes a loss that matters."""
    if ratio.rounds < LEAST_ROUNDS or ratio.low is None or ratio.high is None:
        return False
    return ratio.differs_from(1.0) or (ratio.low >= 1 - UNSTEADY and ratio.high <= 1 / (1 - UNSTEADY))


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


times = number(lambda size: 2 if size < 10 else 1, interval=True)
percent = number(0, "%", interval=True)


@dataclass(frozen=True)
class Compared:
    """The ratio of a metric of one kind to its base, in each round.

    ``speed``: less is worse; for other metrics, more is worse. ``counted``: the server counts the metric exactly, and
    each round does the same work, so one round is enough.
    """

    metric: str
    base: str
    ratios: Mapping[int, float]
    speed: bool = False
    counted: bool = False

    @cached_property
    def ratio(self) -> Estimate | None:
        return estimated(self.ratios.values())

    @property
    def decided(self) -> bool:
        return self.ratio is not None and (self.counted or decided(self.ratio))

    @property
    def worse(self) -> bool:
        """True if the metric is worse than its base, and this is decided.

        >>> [Compared("WAL", "bigint", {1: ratio}, counted=True).worse for ratio in (1.05, 1.2)]
        [False, True]
        >>> Compared("WAL", "bigint", {1: 1.2}).worse
        False
        """
        if not self.ratio or not self.decided:
            return False
        if self.counted:
            return min(self.ratios.values()) > 1 + TO_FIND
        return self.ratio.differs_from(1.0) and (self.ratio.median < 1) == self.speed

    @property
    def words(self) -> str:
        """The ratio in words, with its interval, or with the number of rounds if there are too few for an interval.

        >>> sixfold = lambda *values: {place: value for place, value in enumerate(values * (6 // len(values)))}
        >>> Compared("speed", "bigint", sixfold(0.58, 0.59, 0.6), speed=True).words
        '59 % [58–60 %] of the speed of bigint'
        >>> Compared("speed", "bigint", sixfold(0.86, 1.0, 1.02), speed=True).words
        'no difference in speed from bigint found; up to 14 % slower is possible'
        >>> Compared("speed", "bigint", {1: 0.7}, speed=True).words
        '70 % of the speed of bigint in 1 round'
        >>> Compared("CPU time", "bigserial", sixfold(1.4, 1.5, 1.6)).words
        '1.50 [1.40–1.60] times the CPU time of bigserial'
        >>> Compared("CPU time", "bigserial", sixfold(0.9, 1.0, 1.3)).words
        'no difference in CPU time from bigserial found; up to 30 % more is possible'
        """
        if (ratio := self.ratio) is None:
            return ""
        enough = ratio.rounds >= LEAST_ROUNDS
        if enough and ratio.low is not None and ratio.high is not None and not ratio.differs_from(1.0):
            return f"no difference in {self.metric} from {self.base} found; up to {self.possible} is possible"
        factor = f"{times(ratio if enough else ratio.median)} times"
        if self.speed:
            in_percent = estimated(100 * value for value in self.ratios.values()) if enough else 100 * ratio.median
            factor = f"{percent(in_percent)} of"
        few = "" if enough or self.counted else f" in {plural(ratio.rounds, 'round')}"
        return f"{factor} the {self.metric} of {self.base}{few}"

    @property
    def possible(self) -> str:
        """The largest loss that the interval leaves possible.

        >>> Compared("time", "bigint", {place: 2.5 ** (-1) ** place for place in range(6)}).possible
        '2.5 times as much'
        """
        if not self.ratio or self.ratio.low is None or self.ratio.high is None:
            return ""
        if self.speed:
            return f"{max(0, 100 * (1 - self.ratio.low)):.0f} % slower"
        more = self.ratio.high - 1
        return f"{self.ratio.high:.1f} times as much" if more > 1 else f"{max(0, 100 * more):.0f} % more"

    @property
    def to_decide(self) -> str:
        return "Counted by the server." if self.counted else to_decide(self.ratio, self.ratios) if self.ratio else ""


def figures_text(compared: Sequence[Compared]) -> str:
    return " ".join(
        f"{capital(comparison.words)}."
        for comparison in sorted(compared, key=lambda comparison: not comparison.worse)
        if comparison.ratio
    )


def surety(compared: Sequence[Compared]) -> str:
    measured = [comparison for comparison in compared if comparison.ratio]
    still: dict[str, list[str]] = {}
    for comparison in measured:
        if not comparison.decided:
            still.setdefault(comparison.metric, []).append(comparison.to_decide)
    needs: dict[str, list[str]] = {}
    for metric, texts in still.items():
        needs.setdefault(max(texts, key=len), []).append(metric)
    named = [f"{capital(', '.join(metrics))}: {text}" for text, metrics in needs.items()]
    return " ".join(named or [comparison.to_decide for comparison in measured][:1])


def answer_of(compared: Sequence[Compared]) -> str:
    if any(comparison.worse for comparison in compared):
        return "Yes"
    return "No" if all(comparison.decided for comparison in compared) else UNDECIDED


def costs(
    question: str, compared: Sequence[Compared], holds: str = "", bars: Sequence[Bar] = (), more: str = ""
) -> list[Verdict]:
    """The verdict on whether something costs more than its base; none if nothing was measured."""
    if not any(comparison.ratio for comparison in compared):
        return []
    figures, answer = " ".join(filter(None, (figures_text(compared), more))), answer_of(compared)
    return [Verdict(question, answer, figures, holds, surety(compared), () if answer == UNDECIDED else bars)]


def to_decide(ratio: Estimate, ratios: Mapping[int, float]) -> str:
    """The number of rounds that would detect a difference of a tenth, by the scatter of the present rounds.

    >>> to_decide(Estimate(0.9, 0.8, 0.99, 6), {})
    '6 rounds: an interval of 95 % or more.'
    >>> to_decide(Estimate(0.9, 0.8, 1.0, 3), {})
    '3 rounds: not significant. Repeat with --rounds 6.'
    >>> to_decide(Estimate(1.0, 0.5, 2.0, 6), {n: 1.0 + n % 2 / 5 for n in range(6)})
    '6 rounds scatter too much. To detect a difference of 10 %: --rounds 33.'
    """
    if ratio.rounds < LEAST_ROUNDS:
        return f"{plural(ratio.rounds, 'round')}: not significant. Repeat with --rounds {LEAST_ROUNDS}."
    if decided(ratio):
        return f"{ratio.rounds} rounds: an interval of 95 % or more."
    middle = log(ratio.median)
    needed = rounds_for(tuple(log(value) - middle for value in ratios.values() if value > 0))
    how = f"--rounds {needed}." if needed else STEADIER
    return f"{ratio.rounds} rounds scatter too much. To detect a difference of {100 * TO_FIND:.0f} %: {how}"


def how_sure(result: Result) -> str:
    if "rounds" not in result.plan or not result.runs:
        return ""
    counts = Counter((run.step, run.kind, run.rows) for run in result.runs)
    # some steps, such as sizes, are measured only once
    done = min((count for count in counts.values() if count > 1), default=1)
    if done == 1:
        return "One round: counts are exact, but one sample shows no difference in time."
    if done < LEAST_ROUNDS:
        return f"{done} rounds: brackets hold their range; a difference in time needs {LEAST_ROUNDS} rounds."
    return f"{done} rounds: brackets hold an interval of 95 % or more for the median."
