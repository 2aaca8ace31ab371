"""Ways to write a log whose ids are in order for its readers, and what each costs (published study P5).

Remedies of the study make inserts serial: one writer to a table, one to a
partition, or a lock. Each form of writing takes its turn, one row a statement
and many, into a table of its own; then the order of its ids is checked.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inorder.lab.experiments.feed import BATCH_ROWS
from inorder.lab.legacy import Metrics, Turn, run_rounds
from inorder.lab.machine import available_cores
from inorder.lab.progress import Progress
from inorder.lab.results import Result

NAME = "writers"

# How many write: one session, or all of the plan's.
ALONE = "alone"
TOGETHER = "together"

# Rows of one statement.
STATEMENT_ROWS = (1, BATCH_ROWS)

BASELINE = "plain"
CACHED = "cached"
OWN_TABLE = "own_table"
PARTITION_APPLICATION = "partition_application"
PARTITION_NATIVE = "partition_native"
PARTITION_TRIGGER = "partition_trigger"
LOCK = "lock"
LOCK_CACHED = "lock_cached"
LOCK_KEPT = "lock_kept"
XACT = "xact"

# Form -> its name in the tables.
FORMS = {
    BASELINE: "one table",
    CACHED: "CACHE 1000",
    OWN_TABLE: "table per writer",
    PARTITION_APPLICATION: "partition, application",
    PARTITION_NATIVE: "partition, native",
    PARTITION_TRIGGER: "partition, trigger",
    LOCK: "lock + DISCARD",
    LOCK_CACHED: "lock + DISCARD, CACHE 1000",
    LOCK_KEPT: "lock, CACHE 1000",
    XACT: "uuid_xact_nextval()",
}
LOCKS = (LOCK, LOCK_CACHED, LOCK_KEPT)  # the first statement of a transaction takes it
# One writer after the other in each table: there ids that are in order are safe to poll.
SERIAL_FORMS = (OWN_TABLE, PARTITION_APPLICATION, PARTITION_NATIVE, PARTITION_TRIGGER, LOCK, LOCK_CACHED)
ALONE_FORMS = (BASELINE, CACHED)  # the others are about several writers


@dataclass(frozen=True)
class WritersPlan:
    """Which forms, how many sessions write together, for how long, how often."""

    forms: tuple[str, ...] = tuple(FORMS)
    clients: int = 16
    seconds: int = 5
    rounds: int = 6
    threads: int = field(default_factory=available_cores)
    seed: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)

    def clients_of(self, step: str) -> int:
        """How many sessions write in a step."""
        return 1 if step == ALONE else self.clients


class WritersBench(Protocol):
    """What the experiment needs done."""

    def measure(self, form: str, clients: int, rows: int, seed: int, told: Callable[[float], None]) -> Metrics:
        """Write into empty tables, so many rows a statement, telling TPS each second; then check the order."""


def run_writers(
    plan: WritersPlan, bench: WritersBench, result: Result, progress: Progress, save: Callable[[], None]
) -> None:
    """Every form, with one row a statement and with many, takes its turn in each round."""
    turns = turns_of(plan, bench, progress)
    progress.total(plan.rounds * len(turns))
    run_rounds(turns, plan.rounds, plan.seed, result, progress, save, found_text)
    result.complete = True
    save()


def found_text(metrics: Metrics) -> str:
    """What a turn has found.

    >>> found_text({"rows_per_second": 1234.5, "misplaced": 2})
    '1,234 rows/s, 2 rows out of order'
    """
    return f"{metrics['rows_per_second']:,.0f} rows/s, {metrics['misplaced']:,.0f} rows out of order"


def turns_of(plan: WritersPlan, bench: WritersBench, progress: Progress) -> list[Turn]:
    """The turns of a round."""
    steps = {ALONE: [form for form in plan.forms if form in ALONE_FORMS], TOGETHER: plan.forms}
    return [
        turn_of(step, form, rows, plan, bench, progress)
        for step, forms in steps.items()
        for form in forms
        for rows in STATEMENT_ROWS
    ]


def turn_of(step: str, form: str, rows: int, plan: WritersPlan, bench: WritersBench, progress: Progress) -> Turn:
    """One form's turn in one step."""
    clients = plan.clients_of(step)
    label = f"{FORMS[form]}, {rows} a statement, {clients} at once"

    def measure(seed: int) -> Metrics:
        return bench.measure(
            form, clients, rows, seed, lambda tps: progress.step(f"{label}: {tps * rows:,.0f} rows/s")
        )

    return Turn(step, form, rows, label, measure)
