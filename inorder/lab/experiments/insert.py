"""Insert TPS and WAL per row, by kind of key and size of table (published study P1, P3).

``run_insert`` is the experiment; what it does to a real server is ``ServerBench``.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from inorder.lab.keys import KEY_KINDS
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "insert"


@dataclass(frozen=True)
class InsertPlan:
    """What to run. Rows are per key kind; memory is shared_buffers while measuring, in bytes."""

    kinds: tuple[str, ...] = tuple(KEY_KINDS)
    rows: tuple[int, ...] = (10_000_000,)
    rounds: int = 6
    seconds: int = 10
    inserts: int | None = None
    clients: int = 8
    threads: int = 2
    memory_bytes: int = 128 * 1024 * 1024
    fill_workers: int = 2
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)

    @property
    def steps(self) -> int:
        """How many steps of progress it takes: fill, measure, and size each kind at each number of rows."""
        return len(self.rows) * len(self.kinds) * (self.rounds + 2)


class InsertBench(Protocol):
    """What the experiment needs done."""

    def create(self, kinds: tuple[str, ...]) -> None:
        """Make the empty tables."""

    def fill(self, kinds: tuple[str, ...], rows: int, filled: Callable[[str, dict[str, float]], None]) -> None:
        """Fill each table up to this many rows, telling each as it is full."""

    def serve_for_measuring(self) -> None:
        """Put the server into the state that is measured."""

    def measure(self, kind: str, seed: int, progress: Progress) -> Run:
        """Checkpoint, then insert under load between two readings of the counters."""

    def sizes(self, kind: str) -> dict[str, float]:
        """Sizes and leaf density of table and index."""


def run_insert(
    plan: InsertPlan, bench: InsertBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Fill, then measure round by round in shuffled order; everything is saved as soon as it is known."""
    shuffler = random.Random(plan.seed)
    progress.total(plan.steps)
    bench.create(plan.kinds)
    for rows in sorted(plan.rows):
        fill_all(plan, rows, bench, result, progress)
        bench.serve_for_measuring()
        for number in range(1, plan.rounds + 1):
            for kind in shuffler.sample(plan.kinds, len(plan.kinds)):
                progress.step(f"{rows:,} rows, round {number} of {plan.rounds}: {KEY_KINDS[kind].label}")
                run = bench.measure(kind, shuffler.randrange(2**31), progress)
                result.runs.append(Run("insert", kind, rows, number, run.metrics, run.series))
                save()
                progress.done(f"{run.metrics['tps']:,.0f} inserts/s")
        for kind in plan.kinds:
            progress.step(f"{rows:,} rows: sizes of {KEY_KINDS[kind].label}")
            result.runs.append(Run("sizes", kind, rows, 1, bench.sizes(kind)))
            save()
            progress.done()
    result.complete = True
    save()


def fill_all(plan: InsertPlan, rows: int, bench: InsertBench, result: Result, progress: Progress) -> None:
    """Fill every table up to rows, noting how long each took and how large it became."""

    def filled(kind: str, metrics: dict[str, float]) -> None:
        result.runs.append(Run("fill", kind, rows, 1, metrics))
        progress.done(f"{KEY_KINDS[kind].label} filled")

    progress.step(f"filling {len(plan.kinds)} tables to {rows:,} rows")
    bench.fill(plan.kinds, rows, filled)
