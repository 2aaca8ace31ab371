"""The measurements of a round, in stages; the seeds of their randomness; the progress that they report."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inorder.lab.results import Key

Metrics = dict[str, float]
Series = dict[str, list[float]]


@dataclass(frozen=True)
class Measured:
    metrics: Metrics
    series: Series = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where a measurement belongs in a result: its step, the kind that is compared, its rows; and what it is called."""

    step: str
    kind: str
    rows: int
    label: str = field(default="", compare=False)

    def key(self, number: int) -> Key:
        return self.step, self.kind, self.rows, number


@dataclass(frozen=True)
class Turn:
    """Measurements that are made one after the other. ``measure`` is given a seed and yields one for each place.

    ``weight`` is how many steps of progress it is, if not one for each place: it then advances by itself.
    """

    places: tuple[Place, ...]
    measure: Callable[[int], Iterator[Measured]]
    weight: int | None = None

    @property
    def steps(self) -> int:
        return len(self.places) if self.weight is None else self.weight


def single(step: str, kind: str, rows: int, label: str, measure: Callable[[int], Measured | Metrics]) -> Turn:
    def once(seed: int) -> Iterator[Measured]:
        found = measure(seed)
        yield found if isinstance(found, Measured) else Measured(found)

    return Turn((Place(step, kind, rows, label),), once)


def several(
    steps: Mapping[str, str], kind: str, rows: int, label: str, measure: Callable[[str, str, int], Metrics],
    begin: Callable[[str], object] = lambda _kind: None, end: Callable[[str], object] = lambda _kind: None,
) -> Turn:  # fmt: skip
    """Each step needs what those before it have left. ``begin`` comes before the first, ``end`` after the last."""

    def one_by_one(seed: int) -> Iterator[Measured]:
        begin(kind)
        for step in steps:
            yield Measured(measure(kind, step, seed))
        end(kind)

    return Turn(tuple(Place(step, kind, rows, f"{label}: {words}") for step, words in steps.items()), one_by_one)


@dataclass(frozen=True)
class Stage:
    """What is measured once a round, in shuffled order unless it is fixed.

    ``turns`` is given the number of the round. ``begin`` is done before the first. ``warm_up``: a round 0, whose
    figures are not kept. ``whole``: a round that was cut off begins anew, since ratios are paired within it, and
    measurements on two servers, at two times, are no pairs; else only the turn that was cut off: of exact counts, or
    where a round takes hours, and its turns are far apart in time anyway. ``redone``: a resumed run, too, does it,
    since its server is another.
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
    """A seed for one place of an experiment, the same whatever was left out before it."""
    return random.Random(repr((seed, *place))).randrange(2**31)


def shuffled(turns: Sequence[Turn], seed: int, number: int) -> list[Turn]:
    """The parts of a round in an order of its own, which does not depend on the rounds before."""
    mixed = list(turns)
    places = [(turn.places[0].step, turn.places[0].rows) for turn in turns]
    random.Random(repr((seed, "order", number, places))).shuffle(mixed)
    return mixed


class Progress:
    def total(self, steps: int) -> None:
        """How many steps there will be."""

    def step(self, text: str) -> None:
        """A step begins."""

    def done(self, text: str = "") -> None:
        """The step ended; text says what it found."""
