"""Insert TPS and WAL per row, by kind of key and size of table (published study P1, P3).

``run_insert`` is the experiment; what it does to a real server is ``ServerBench``.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inorder.lab.keys import KEY_KINDS, PRIMARY, USUAL_KINDS, with_indexes
from inorder.lab.legacy import Metrics, Series, Turn, run_rounds
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "insert"
INSERT = "insert"


@dataclass(frozen=True)
class InsertPlan:
    """What to run.

    Rows are per key kind and kind of index; memory is shared_buffers while
    measuring, in bytes; ``iops`` how many reads, and writes, a second the disks of the data may do meanwhile, None for
    as many as they can; ``tablespace`` a folder for the indexes, "" for none of
    their own; ``dump_wal`` whether pg_waldump says what is in the WAL of each turn.
    """

    kinds: tuple[str, ...] = USUAL_KINDS
    indexes: tuple[str, ...] = (PRIMARY,)
    rows: tuple[int, ...] = (10_000_000,)
    rounds: int = 99  # find 10 % in this kind of noise 80 times in 100, as NoisePlan says
    seconds: int = 1
    inserts: int | None = None
    clients: tuple[int, ...] = (8,)
    threads: int = field(default_factory=available_cores)
    memory_bytes: int = 128 * 1024 * 1024
    iops: int | None = None
    fill_workers: int = field(default_factory=available_cores)
    tablespace: str = ""
    dump_wal: bool = True
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)

    @property
    def steps(self) -> int:
        """How many steps of progress it takes: fill, measure, and size each kind at each number of rows."""
        return len(self.rows) * len(self.variants) * (self.rounds * len(self.clients) + 2)

    @property
    def variants(self) -> tuple[str, ...]:
        """Each kind of key with each kind of index."""
        return with_indexes(self.kinds, self.indexes)

    def step_of(self, clients: int) -> str:
        """The step of so many clients: the first number's is the plain one.

        >>> InsertPlan(clients=(8, 1)).step_of(1)
        'insert@1'
        """
        return INSERT if clients == self.clients[0] else f"{INSERT}@{clients}"


class InsertBench(Protocol):
    """What the experiment needs done."""

    def create(self, kinds: tuple[str, ...]) -> None:
        """Make the empty tables."""

    def fill(self, kinds: tuple[str, ...], rows: int, filled: Callable[[str, dict[str, float]], None]) -> None:
        """Fill each table up to this many rows, telling each as it is full."""

    def serve_for_measuring(self) -> None:
        """Put the server into the state that is measured."""

    def measure(self, kind: str, clients: int, seed: int, progress: Progress) -> tuple[Metrics, Series]:
        """Checkpoint, then insert under load between two readings of the counters."""

    def sizes(self, kind: str) -> dict[str, float]:
        """Sizes and leaf density of table and index."""


def run_insert(
    plan: InsertPlan, bench: InsertBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Fill, then measure round by round in shuffled order; everything is saved as soon as it is known."""
    progress.total(plan.steps)
    bench.create(plan.variants)
    for rows in sorted(plan.rows):
        fill_all(plan, rows, bench, result, progress)
        bench.serve_for_measuring()
        turns = [
            turn_of(plan, kind, rows, clients, bench, progress)
            for clients in plan.clients
            for kind in plan.variants
        ]
        run_rounds(turns, plan.rounds, plan.seed, result, progress, save, speed_text)
        for kind in plan.variants:
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


def turn_of(plan: InsertPlan, kind: str, rows: int, clients: int, bench: InsertBench, progress: Progress) -> Turn:
    """One kind's turn at one size with so many clients."""
    label = f"{rows:,} rows: {KEY_KINDS[kind].label}" + (f", {clients} clients" if len(plan.clients) > 1 else "")
    return Turn(plan.step_of(clients), kind, rows, label, lambda seed: bench.measure(kind, clients, seed, progress))


def fill_all(plan: InsertPlan, rows: int, bench: InsertBench, result: Result, progress: Progress) -> None:
    """Fill every table up to rows, noting how long each took and how large it became."""

    def filled(kind: str, metrics: dict[str, float]) -> None:
        if not result.has("fill", kind, rows, 1):
            result.runs.append(Run("fill", kind, rows, 1, metrics))
        progress.done(f"{KEY_KINDS[kind].label} filled")

    progress.step(f"filling {len(plan.variants)} tables to {rows:,} rows")
    bench.fill(plan.variants, rows, filled)
