"""The measurements of a round, in stages; their random seeds; and their progress reports."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inorder.lab.results.result import Key

Metrics = dict[str, float]
Series = dict[str, list[float]]


@dataclass(frozen=True)
class Measured:
    metrics: Metrics
    series: Series = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """The place of a measurement in a result: step, kind of key and rows, and a label for progress reports."""

    step: str
    kind: str
    rows: int
    label: str = field(default="", compare=False)

    def key(self, number: int) -> Key:
        return self.step, self.kind, self.rows, number


@dataclass(frozen=True)
class Turn:
    """Consecutive measurements. ``measure`` takes a seed, and yields a result for each place.

    With ``weight``, ``measure`` itself reports progress, in ``weight`` steps. Otherwise, each place is one step.
    """

    places: tuple[Place, ...]
    measure: Callable[[int], Iterator[Measured]]
    weight: int | None = None

    @property
    def steps(self) -> int:
        return len(self.places) if self.weight is None else self.weight


def single(step: str, kind: str, rows: int, label: str, measure: Callable[[int], Measured | Metrics]) -> Turn:
    def once(seed: int) -> Iterator[Measured]:
        result = measure(seed)
        yield result if isinstance(result, Measured) else Measured(result)

    return Turn((Place(step, kind, rows, label),), once)


def several(
    steps: Mapping[str, str], kind: str, rows: int, label: str, measure: Callable[[str, str, int], Metrics],
    begin: Callable[[str], object] = lambda _kind: None, end: Callable[[str], object] = lambda _kind: None,
) -> Turn:  # fmt: skip
    """Return a turn whose steps build on one another. ``begin`` runs before the first step, ``end`` after the last."""

    def one_by_one(seed: int) -> Iterator[Measured]:
        begin(kind)
        for step in steps:
            yield Measured(measure(kind, step, seed))
        end(kind)

    return Turn(tuple(Place(step, kind, rows, f"{label}: {words}") for step, words in steps.items()), one_by_one)


@dataclass(frozen=True)
class Stage:
    """Measurements that are made once per round.

    * ``turns`` takes the number of the round.
    * ``begin`` runs before the first turn.
    * ``shuffled``: the turns run in random order.
    * ``warm_up``: there is a round 0, whose figures are discarded.
    * ``whole``: an interrupted round is repeated as a whole, because ratios are paired within a round, and measurements
      before and after an interruption do not form a pair. Otherwise, only the interrupted turn is repeated, which suits
      exact counts, and rounds that take hours.
    * ``redone``: a resumed run repeats the stage, because it uses a new server.
    """

    turns: Callable[[int], Sequence[Turn]]
    rounds: int
    begin: Callable[[], None] = lambda: None
    shuffled: bool = True
    warm_up: bool = False
    whole: bool = True
    redone: bool = False

    @property
    def numbers(self) -> range:
        return range(0 if self.warm_up else 1, self.rounds + 1)

    @property
    def steps(self) -> int:
        return sum(turn.steps for number in self.numbers for turn in self.turns(number))


def every_round(turns: Sequence[Turn]) -> Callable[[int], Sequence[Turn]]:
    return lambda _number: turns


def seed_of(seed: int, *place: object) -> int:
    """Return a random seed for one place in an experiment. The seed depends only on the arguments."""
    return random.Random(repr((seed, *place))).randrange(2**31)


def shuffled(turns: Sequence[Turn], seed: int, number: int) -> list[Turn]:
    """Return the turns of a round in an order that does not depend on earlier rounds."""
    mixed = list(turns)
    places = [(turn.places[0].step, turn.places[0].rows) for turn in turns]
    random.Random(repr((seed, "order", number, places))).shuffle(mixed)
    return mixed


class Progress:
    def total(self, steps: int) -> None:
        """Announce the number of steps."""

    def step(self, text: str) -> None:
        """Begin a step."""

    def done(self, text: str = "") -> None:
        """End the step. ``text`` describes its result."""
