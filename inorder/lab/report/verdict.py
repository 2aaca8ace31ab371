"""Answers to questions, derived from a result. A verdict also has figures, and says how to decide an open question.

An experiment defines its comparisons (``Compared``). This module writes the sentences, which are the same for all
experiments. The functions are pure.
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
MOST_BARS = 3
PLAIN = "series-1"  # the default colour of a bar
UNSTEADY = 0.2  # a question is open if the interval includes both 1 and a loss greater than this fraction


@dataclass(frozen=True)
class Bar:
    """A bar next to an answer on the page. ``css`` is a colour in the style sheet."""

    label: str
    value: float
    text: str
    css: str = PLAIN
    interval: tuple[float, float] | None = None


def bars_of(values: Iterable[tuple[str, Value, str]], show: Callable[[Value], str]) -> list[Bar]:
    """Return a bar for each measured value. It has an interval if there are enough rounds.

    >>> bars_of([("a", Estimate(2.0, 1.0, 3.0, 6), "x"), ("b", None, "x")], lambda value: "2")
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
    """A statement or command that follows from an answer, the case that it applies to, and its page in docs."""

    case: str
    text: str
    page: str


@dataclass(frozen=True)
class Verdict:
    """A question and its answer.

    * ``answer``: a word or two.
    * ``figures``: a sentence.
    * ``holds``: the conditions under which the answer holds.
    * ``sure``: how certain the answer is, or how to decide the question.
    * ``bars``: at most three.
    * ``steps``: what the user can do next.
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
    """Return True if the interval of a ratio excludes 1, or excludes a loss greater than UNSTEADY."""
    if ratio.rounds < LEAST_ROUNDS or ratio.low is None or ratio.high is None:
        return False
    return ratio.differs_from(1.0) or (ratio.low >= 1 - UNSTEADY and ratio.high <= 1 / (1 - UNSTEADY))


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


times = number(lambda size: 2 if size < 10 else 1, interval=True)
percent = number(0, "%", interval=True)


@dataclass(frozen=True)
class Compared:
    """The ratio of a metric of one kind to that of its base, in each round.

    ``speed``: a smaller value is worse; for other metrics, a larger value is worse. ``counted``: one round is enough,
    because the server counts the metric exactly, and each round does the same work.
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
        """True if the rounds decide that the metric is worse than that of the base.

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
        """A clause with the ratio and its interval or, if there are too few rounds, their number.

        >>> sixfold = lambda *values: {place: value for place, value in enumerate(values * (6 // len(values)))}
        >>> Compared("speed", "bigint", sixfold(0.58, 0.59, 0.6), speed=True).words
        'the speed is 59 % [58–60 %] of that of bigint'
        >>> Compared("speed", "bigint", sixfold(0.86, 1.0, 1.02), speed=True).words
        'the speed does not differ significantly from that of bigint, but may be up to 14 % lower'
        >>> Compared("speed", "bigint", {1: 0.7}, speed=True).words
        'the speed is 70 % of that of bigint (1 round)'
        >>> Compared("CPU time", "bigserial", sixfold(1.4, 1.5, 1.6)).words
        'the CPU time is 1.50 [1.40–1.60] times that of bigserial'
        >>> Compared("CPU time", "bigserial", sixfold(0.9, 1.0, 1.3)).words
        'the CPU time does not differ significantly from that of bigserial, but may be up to 30 % higher'
        """
        if (ratio := self.ratio) is None:
            return ""
        enough = ratio.rounds >= LEAST_ROUNDS
        if enough and ratio.low is not None and ratio.high is not None and not ratio.differs_from(1.0):
            return (
                f"the {self.metric} does not differ significantly from that of {self.base}, "
                f"but may be up to {self.possible}"
            )
        factor = f"{times(ratio if enough else ratio.median)} times"
        if self.speed:
            in_percent = estimated(100 * value for value in self.ratios.values()) if enough else 100 * ratio.median
            factor = f"{percent(in_percent)} of"
        few = "" if enough or self.counted else f" ({plural(ratio.rounds, 'round')})"
        return f"the {self.metric} is {factor} that of {self.base}{few}"

    @property
    def possible(self) -> str:
        """The largest loss that the interval does not exclude.

        >>> Compared("time", "bigint", {place: 2.5 ** (-1) ** place for place in range(6)}).possible
        '2.5 times as high'
        """
        if not self.ratio or self.ratio.low is None or self.ratio.high is None:
            return ""
        if self.speed:
            return f"{max(0, 100 * (1 - self.ratio.low)):.0f} % lower"
        more = self.ratio.high - 1
        return f"{self.ratio.high:.1f} times as high" if more > 1 else f"{max(0, 100 * more):.0f} % higher"

    @property
    def to_decide(self) -> str:
        if self.counted:
            return "The server's counters are exact."
        return to_decide(self.ratio, self.ratios) if self.ratio else ""


def figures_text(compared: Sequence[Compared]) -> str:
    return " ".join(
        f"{capital(comparison.words)}."
        for comparison in sorted(compared, key=lambda comparison: not comparison.worse)
        if comparison.ratio
    )


def surety(compared: Sequence[Compared]) -> str:
    measured = [comparison for comparison in compared if comparison.ratio]
    texts_of: dict[str, list[str]] = {}  # sentences about undecided comparisons, by metric
    for comparison in measured:
        if not comparison.decided:
            texts_of.setdefault(comparison.metric, []).append(comparison.to_decide)
    metrics_of: dict[str, list[str]] = {}
    for metric, texts in texts_of.items():
        metrics_of.setdefault(max(texts, key=len), []).append(metric)
    undecided = [f"For the {' and the '.join(metrics)}, {text}" for text, metrics in metrics_of.items()]
    return " ".join(undecided or [comparison.to_decide for comparison in measured][:1])


def answer_of(compared: Sequence[Compared]) -> str:
    if any(comparison.worse for comparison in compared):
        return "Yes"
    return "No" if all(comparison.decided for comparison in compared) else UNDECIDED


def costs(
    question: str, compared: Sequence[Compared], holds: str = "", bars: Sequence[Bar] = (), more: str = ""
) -> list[Verdict]:
    """Return a verdict on whether something costs more than its base; an empty list if nothing was measured."""
    if not any(comparison.ratio for comparison in compared):
        return []
    figures, answer = " ".join(filter(None, (figures_text(compared), more))), answer_of(compared)
    return [Verdict(question, answer, figures, holds, surety(compared), () if answer == UNDECIDED else bars)]


def to_decide(ratio: Estimate, ratios: Mapping[int, float]) -> str:
    """Return how many rounds would detect a difference of 10 %, estimated from the scatter of the rounds so far.

    >>> to_decide(Estimate(0.9, 0.8, 0.99, 6), {})
    '6 rounds give an interval of 95 % or more.'
    >>> to_decide(Estimate(0.9, 0.8, 1.0, 3), {})
    '3 rounds are too few to decide. Repeat with --rounds 6.'
    >>> to_decide(Estimate(1.0, 0.5, 2.0, 6), {n: 1.0 + n % 2 / 5 for n in range(6)})
    'the figures of 6 rounds vary too much to decide. To detect a difference of 10 %, use --rounds 33.'
    """
    if ratio.rounds < LEAST_ROUNDS:
        return too_few(ratio.rounds)
    if decided(ratio):
        return f"{ratio.rounds} rounds give an interval of 95 % or more."
    middle = log(ratio.median)
    needed = rounds_for(tuple(log(value) - middle for value in ratios.values() if value > 0))
    return f"the figures of {ratio.rounds} rounds vary too much to decide. {to_detect(needed)}"


def too_few(rounds: int) -> str:
    """Return a remark for fewer rounds than an interval needs.

    >>> too_few(1)
    '1 round is too few to decide. Repeat with --rounds 6.'
    """
    return f"{plural(rounds, 'round')} {'is' if rounds == 1 else 'are'} too few to decide. " \
           f"Repeat with --rounds {LEAST_ROUNDS}."  # fmt: skip


def to_detect(rounds: int | None) -> str:
    """Return a remark for rounds whose figures vary too much. ``rounds`` is None if no number of rounds suffices.

    >>> to_detect(None)
    'To detect a difference of 10 %, use longer measurements, or a less loaded machine.'
    """
    remedy = f"--rounds {rounds}" if rounds else "longer measurements, or a less loaded machine"
    return f"To detect a difference of {100 * TO_FIND:.0f} %, use {remedy}."


def how_sure(result: Result) -> str:
    if "rounds" not in result.plan or not result.runs:
        return ""
    counts = Counter((run.step, run.kind, run.rows) for run in result.runs)
    # Steps that are measured only once, such as sizes, do not count.
    rounds = min((count for count in counts.values() if count > 1), default=1)
    if rounds == 1:
        return "There was one round: counts are exact, but one sample cannot show a difference in time."
    if rounds < LEAST_ROUNDS:
        return f"Brackets hold the range of {rounds} rounds; showing a difference in time needs {LEAST_ROUNDS} rounds."
    return f"Brackets hold an interval of 95 % or more for the median, from {rounds} rounds."
