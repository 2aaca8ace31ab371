"""What a result answers: a question, a word, the figures, how sure, a small picture. Pure.

An answer is given only where the statistics carry it; else the verdict says what would decide it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from inorder.lab.analysis.sample_size import TO_FIND, rounds_for
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.report.charts import Bar

UNDECIDED = "Not decided"
MOST_BARS = 3
UNSTEADY = 0.2  # the loss that may stay possible where no difference was found; more decides nothing


@dataclass(frozen=True)
class Verdict:
    """One question and its answer.

    ``answer`` is a word or two, ``figures`` a sentence, ``holds`` what it holds for, ``sure`` how sure it is or what
    would decide it. At most three bars.
    """

    question: str
    answer: str
    figures: str
    holds: str = ""
    sure: str = ""
    bars: Sequence[Bar] = ()

    def __post_init__(self) -> None:
        """More bars would be no picture of one glance."""
        if len(self.bars) > MOST_BARS:
            raise ValueError(f"the verdict on {self.question!r} has {len(self.bars)} bars")

    @property
    def lines(self) -> str:
        """For a terminal, two lines at most: the answer; what it holds for, and what would decide it.

        >>> print(Verdict("Does it?", "No", "0 of 5 rows.", "8 writers.", "Counted.").lines)
        Does it? No: 0 of 5 rows.
          8 writers. Counted.
        """
        first = f"{self.question} {self.answer + ': ' if self.answer else ''}{self.figures}"
        second = " ".join(filter(None, (self.holds, self.sure)))
        return f"{first}\n  {second}" if second else first


def decided(found: Estimate) -> bool:
    """Whether a ratio answers something: it differs from 1, or no loss of a size that matters is left open.

    >>> [decided(Estimate(1.0, low, 1.1, 6)) for low in (0.9, 0.7)], decided(Estimate(0.5, 0.4, 0.6, 5))
    ([True, False], False)
    """
    if found.rounds < LEAST_ROUNDS or found.low is None or found.high is None:
        return False
    return found.differs_from(1.0) or (found.low >= 1 - UNSTEADY and found.high <= 1 / (1 - UNSTEADY))


def speed_words(found: Estimate, base: str) -> str:
    """A ratio of speeds.

    >>> speed_words(Estimate(0.59, 0.56, 0.61, 6), "bigint")
    '59 % [56–61 %] of the speed of bigint'
    >>> speed_words(Estimate(1.0, 0.86, 1.02, 6), "bigint")
    'no difference in speed from bigint found; up to 14 % slower is possible'
    >>> speed_words(Estimate(0.7, 0.6, 0.8, 3), "bigint")
    '70 % of the speed of bigint in 3 rounds'
    """
    if found.rounds < LEAST_ROUNDS or found.low is None or found.high is None:
        return f"{100 * found.median:.0f} % of the speed of {base} in {found.rounds} round{'s' * (found.rounds > 1)}"
    if found.differs_from(1.0):
        low, high = 100 * found.low, 100 * found.high
        return f"{100 * found.median:.0f} % [{low:.0f}–{high:.0f} %] of the speed of {base}"
    possible = max(0.0, 100 * (1 - found.low))
    return f"no difference in speed from {base} found; up to {possible:.0f} % slower is possible"


def cost_words(found: Estimate, what: str, base: str) -> str:
    """A ratio of costs.

    >>> cost_words(Estimate(1.5, 1.4, 1.6, 6), "CPU time", "bigserial")
    '1.50 [1.40–1.60] times the CPU time of bigserial'
    >>> cost_words(Estimate(1.0, 0.9, 1.3, 6), "CPU time", "bigserial")
    'no difference in CPU time from bigserial found; up to 30 % more is possible'
    """
    if found.rounds >= LEAST_ROUNDS and found.high is not None and not found.differs_from(1.0):
        possible = max(0.0, 100 * (found.high - 1))
        return f"no difference in {what} from {base} found; up to {possible:.0f} % more is possible"
    interval = f" [{found.low:.2f}–{found.high:.2f}]" if found.low is not None and found.high is not None else ""
    return f"{found.median:.2f}{interval} times the {what} of {base}"


def to_decide(found: Estimate | None, ratios: Mapping[int, float]) -> str:
    """How many rounds would find a difference of a tenth, from the scatter of the rounds there are.

    >>> to_decide(Estimate(0.9, 0.8, 0.99, 6), {})
    '6 rounds: an interval of 95 % or more.'
    >>> to_decide(Estimate(0.9, 0.8, 1.0, 3), {})
    '3 rounds: not significant. Repeat with --rounds 6.'
    >>> to_decide(Estimate(1.0, 0.5, 2.0, 6), {n: 1.0 + n % 2 / 5 for n in range(6)})
    '6 rounds scatter too much. To find a difference of 10 %: --rounds 33.'
    """
    if found is None:
        return ""
    if found.rounds < LEAST_ROUNDS:
        return f"{found.rounds} round{'s' * (found.rounds > 1)}: not significant. Repeat with --rounds {LEAST_ROUNDS}."
    if decided(found):
        return f"{found.rounds} rounds: an interval of 95 % or more."
    middle = log(found.median)
    needed = rounds_for([log(value) - middle for value in ratios.values() if value > 0])
    how = f"--rounds {needed}" if needed else "longer turns (--seconds), or a machine with less other load"
    return f"{found.rounds} rounds scatter too much. To find a difference of {100 * TO_FIND:.0f} %: {how}."
