"""Rows in bulk, by kind of key: INSERT … SELECT, building indexes, COPY; sizes and WAL (published study P1).

Each kind goes through all steps before the next begins, since most steps need
what the ones before have left; kinds take turns in shuffled order within a
round. ``run_bulk`` is the experiment; what it does to a real server is ``BulkBench``.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from inorder.lab.keys import KEY_KINDS, USUAL_KINDS
from inorder.lab.legacy import Metrics, forget_cut_off
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "bulk"

KINDS = {name: KEY_KINDS[name] for name in (*USUAL_KINDS, "time_char", "random_char")}

# In this order, but that the indexes built for comparison are so in shuffled order.
WITH_KEY = "with_key"
NO_INDEX = "no_index"
ADD_KEY = "add_key"
PLAIN = "plain"
NO_DEDUP = "no_dedup"
UNIQUE = "unique"
COPY_OUT = "copy_out"
COPY_IN = "copy_in"

STEPS = {
    WITH_KEY: "INSERT … SELECT, primary key present",
    NO_INDEX: "INSERT … SELECT, no index",
    ADD_KEY: "adding the primary key",
    PLAIN: "a plain btree",
    NO_DEDUP: "a plain btree without deduplication",
    UNIQUE: "a unique index",
    COPY_OUT: "COPY TO a file",
    COPY_IN: "COPY FROM the file, primary key present",
}

BUILDS = (PLAIN, NO_DEDUP, UNIQUE)

# The steps that leave a primary key, whose size and leaf density are then noted.
LEAVE_KEY = (WITH_KEY, ADD_KEY, COPY_IN)


@dataclass(frozen=True)
class BulkPlan:
    """How many rows of which kinds of key, how often, with how much memory; and which of the steps."""

    kinds: tuple[str, ...] = tuple(KINDS)
    rows: tuple[int, ...] = (1_000_000,)
    rounds: int = 6
    shared_buffers: int = 512 * 1024 * 1024
    steps: tuple[str, ...] = tuple(STEPS)
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


class Bench(Protocol):
    """What the experiment needs done."""

    def prepare(self) -> None:
        """The extensions."""

    def measure(self, kind: str, step: str, rows: int) -> Metrics:
        """One step, on what the steps before it have left."""

    def clear(self) -> None:
        """Remove the table and the file."""


def steps_of(seed: int, rows: int, kind: str, number: int) -> list[str]:
    """The steps of one kind in one round: the order of the indexes built for comparison is drawn by lot.

    >>> len({tuple(steps_of(1, 1000, "random", number)) for number in range(50)})
    6
    """
    builds = random.Random(repr((seed, "indexes", rows, kind, number))).sample(BUILDS, len(BUILDS))
    return [WITH_KEY, NO_INDEX, ADD_KEY, *builds, COPY_OUT, COPY_IN]


def order_of(plan: BulkPlan, rows: int, number: int) -> list[str]:
    """The kinds in the order of one round, which does not depend on the rounds before."""
    return random.Random(repr((plan.seed, "order", rows, number))).sample(plan.kinds, len(plan.kinds))


def run_bulk(plan: BulkPlan, bench: Bench, result: Result, progress: Progress, save: Callable[[], None]) -> None:
    """Round by round every kind through all steps at each number of rows; saved after each step."""
    progress.total(plan.rounds * len(plan.rows) * len(plan.kinds) * len(plan.steps))
    bench.prepare()
    for rows in sorted(plan.rows):
        for number in range(1, plan.rounds + 1):
            forget_cut_off([(step, kind, rows) for kind in plan.kinds for step in plan.steps], number, result)
            for kind in order_of(plan, rows, number):
                if all(result.has(step, kind, rows, number) for step in plan.steps):
                    for _ in plan.steps:
                        progress.done()
                    continue
                for step in steps_of(plan.seed, rows, kind, number):
                    if step not in plan.steps:
                        continue
                    where = f"{rows:,} rows, round {number} of {plan.rounds}"
                    progress.step(f"{where}: {KINDS[kind].label}: {STEPS[step]}")
                    metrics = bench.measure(kind, step, rows)
                    result.runs.append(Run(step, kind, rows, number, metrics))
                    save()
                    progress.done(f"{metrics['seconds']:.2f} s")
                bench.clear()
    result.complete = True
    save()
