"""Insert TPS and WAL per row, by kind of key and size of table (published study P1, P3).

``run_insert`` is the experiment; what it does to a real server is ``ServerBench``.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inorder.lab.experiment import Metrics, Series, Turn, run_rounds
from inorder.lab.keys import KEY_KINDS
from inorder.lab.machine import available_cores
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
    threads: int = field(default_factory=available_cores)
    memory_bytes: int = 128 * 1024 * 1024
    fill_workers: int = field(default_factory=available_cores)
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
    progress.total(plan.steps)
    bench.create(plan.kinds)
    for rows in sorted(plan.rows):
        fill_all(plan, rows, bench, result, progress)
        bench.serve_for_measuring()
        turns = [turn_of(kind, rows, bench, progress) for kind in plan.kinds]
        run_rounds(turns, plan.rounds, plan.seed, result, progress, save, speed_text)
        for kind in plan.kinds:
            progress.step(f"{rows:,} rows: sizes of {KEY_KINDS[kind].label}")
            if not result.has("sizes", kind, rows, 1):
                result.runs.append(Run("sizes", kind, rows, 1, bench.sizes(kind)))
                save()
            progress.done()
    result.complete = True
    save()


def speed_text(metrics: Metrics) -> str:
    """What a turn has found.

    >>> speed_text({"tps": 1234.5})
    '1,234 inserts/s'
    """
    return f"{metrics['tps']:,.0f} inserts/s"


def turn_of(kind: str, rows: int, bench: InsertBench, progress: Progress) -> Turn:
    """One kind's turn at one size."""

    def measure(seed: int) -> tuple[Metrics, Series]:
        run = bench.measure(kind, seed, progress)
        return run.metrics, run.series

    return Turn("insert", kind, rows, f"{rows:,} rows: {KEY_KINDS[kind].label}", measure)


def fill_all(plan: InsertPlan, rows: int, bench: InsertBench, result: Result, progress: Progress) -> None:
    """Fill every table up to rows, noting how long each took and how large it became."""

    def filled(kind: str, metrics: dict[str, float]) -> None:
        if not result.has("fill", kind, rows, 1):
            result.runs.append(Run("fill", kind, rows, 1, metrics))
        progress.done(f"{KEY_KINDS[kind].label} filled")

    progress.step(f"filling {len(plan.kinds)} tables to {rows:,} rows")
    bench.fill(plan.kinds, rows, filled)
