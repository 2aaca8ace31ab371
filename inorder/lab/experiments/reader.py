"""Rows that a polling reader loses while transactions of mixed lengths write (published study P5).

Several readers follow one table at once, each keeping its place in its own way.
A row is lost when the reader's place has moved past it before it was committed.
``compare`` is the whole judgement: what was committed against what a reader was given.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Protocol

from inorder.errors import InorderError
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "reader"
READ = "read"  # the only step
MILLISECONDS = 1000.0

# Name -> how the reader keeps its place.
READERS = {
    "id": "where id > last",
    "created": "where created > last",
    "v7": "where v7 > last",
    "horizon": "xmin horizon",
    "feed": "inorder feed",
}
NEED_INORDER = ("v7", "horizon", "feed")


@dataclass(frozen=True)
class ReaderPlan:
    """How many sessions write, for how long, how often; and which readers follow them."""

    writers: int = 16
    seconds: int = 10
    rounds: int = 1
    seed: int = 1
    readers: tuple[str, ...] = tuple(READERS)

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


@dataclass
class Reading:
    """What one reader was given: of each poll that found rows the moment, in seconds since 1970, and their ids.

    ``held`` are the rows that it had not been given in the end, but would be later.
    """

    deliveries: list[tuple[float, list[int]]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    polls: int = 0
    longest_poll: float = 0.0


class ReaderBench(Protocol):
    """What the experiment needs done."""

    def create(self) -> None:
        """The empty table."""

    def measure(
        self, seed: int, second: Callable[[float], None], keep: Callable[[dict[str, dict[str, float]]], None]
    ) -> None:
        """Write and read at once, telling TPS each second; then hand over each reader's metrics.

        They are handed over after an interrupt, too, before it goes on: a shorter load is a measurement as well.
        """


def compare(committed: Mapping[int, float], reading: Reading, waits: bool = True) -> dict[str, float]:
    """Count what a reader lost or was given twice, and how long it kept rows waiting after their commit.

    ``committed`` has the moment of commit of every row there is; a row's wait
    ends with its first delivery. Without ``waits`` they are left out: the moments are of two clocks.

    >>> found = compare({1: 10.0, 2: 10.5, 3: 11.0}, Reading([(10.5, [1]), (11.25, [1, 3])]))
    >>> found["delivered"], found["lost"], found["twice"], found["longest_wait_ms"]
    (2, 1, 1, 500.0)
    """
    times = Counter(row for _, rows in reading.deliveries for row in rows)
    if not times.keys() <= committed.keys():
        unknown = sorted(times.keys() - committed.keys())[:10]
        raise InorderError(f"delivered, but not committed in this round: {unknown}")
    first = {row: moment for moment, rows in reversed(reading.deliveries) for row in rows}
    undelivered = committed.keys() - first.keys()
    found = {
        "committed": len(committed),
        "delivered": len(first),
        "held": len(undelivered & reading.held),
        "lost": len(undelivered - reading.held),
        "twice": sum(1 for count in times.values() if count > 1),
        "polls": reading.polls,
        "longest_poll_ms": MILLISECONDS * reading.longest_poll,
    }
    return found | (waited(committed, first) if waits else {})


def waited(committed: Mapping[int, float], first: Mapping[int, float]) -> dict[str, float]:
    """The longest and the median time from a row's commit to its first delivery."""
    waits = [MILLISECONDS * (moment - committed[row]) for row, moment in first.items()]
    return {"longest_wait_ms": max(waits, default=0.0), "median_wait_ms": median(waits) if waits else 0.0}


def run_reader(
    plan: ReaderPlan, bench: ReaderBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Every round is the same load with another seed; the readers go on where they stopped."""
    seeds = random.Random(plan.seed)
    progress.total(plan.rounds * plan.seconds)
    bench.create()
    for number in range(1, plan.rounds + 1):
        title = f"round {number} of {plan.rounds}: {plan.writers} writers, {plan.seconds} s"
        seconds_left = plan.seconds
        progress.step(title)
        seed = seeds.randrange(2**31)
        if result.has(READ, plan.readers[-1], 0, number):
            for _ in range(plan.seconds):
                progress.done()
            continue

        def second(tps: float, title: str = title) -> None:
            nonlocal seconds_left
            if seconds_left > 1:
                seconds_left -= 1
                progress.done()
            progress.step(f"{title}: {tps:,.0f} transactions/s")

        def keep(readers: dict[str, dict[str, float]], number: int = number) -> None:
            result.runs += [Run(READ, name, 0, number, metrics) for name, metrics in readers.items()]
            save()

        bench.measure(seed, second, keep)
        for _ in range(seconds_left - 1):
            progress.done()
        progress.step(title)
        progress.done(f"{result.runs[-1].metrics['committed']:,.0f} rows committed")
    result.complete = True
    save()
