"""What a feed and an exact count cost: their writers, their readers, and a single look at a large table.

Writers and readers take turns in shuffled order. The looks are then taken twice
in each round, for either form of table: after many rows arrived while one
transaction was open, which still is; and after as many arrived without.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from inorder.lab.legacy import forget_cut_off
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run

NAME = "feed"

# Ways to write the rows: a statement and a transaction for each, or for many.
SINGLE = "write_single"
BATCH = "write_batch"
WRITES = {SINGLE: "one row a statement", BATCH: "600 rows a statement"}

# Forms of table, as columns of a log table and what guards them. Without a guard they are written only.
WRITE_BASELINE = "bigserial"
UUID = "uuid"
BRIN = "brin"
WRITTEN = {
    WRITE_BASELINE: "bigserial",
    "uuid_unguarded": "uuid, no guard",
    UUID: "uuid",
    "brin_unguarded": "xact + BRIN, no guard",
    BRIN: "xact + BRIN",
    "generated": "generated + BRIN",
}
FORMS = {UUID: "uuid", BRIN: "xact + BRIN"}

# Ways to read new rows into a summary, of which there are two.
READ_SECONDS = "read_seconds"
READ_ROWS = "read_rows"
SUMMARIES = {READ_SECONDS: "summed up by the second", READ_ROWS: "copied row by row"}
READ_BASELINE = "plain"
READERS = {
    READ_BASELINE: "WHERE id > … AND id <= …",
    "uuid_apply": "feed_apply, uuid",
    "uuid_read": "feed_read, uuid",
    "brin_apply": "feed_apply, xact + BRIN",
    "brin_read": "feed_read, xact + BRIN",
}

# Looks at a large table: how many calls make a sample. In this order: the counts let more and more rows arrive.
IDLE = "idle"
PIECE = "piece"
NEW = "new"
COUNT_STAR = "count_star"
COUNT = "count"
COUNT_FEW = "count_few"
COUNT_MANY = "count_many"
LOOKS = {IDLE: 300, PIECE: 9, NEW: 2, COUNT_STAR: 1, COUNT: 300, COUNT_FEW: 200, COUNT_MANY: 9}

# Whether a transaction is in progress since before the new rows came.
HELD = "held"
ENDED = "ended"


@dataclass(frozen=True)
class FeedPlan:
    """How large the tables are, and how often everything is done. Other amounts follow where a table is small."""

    rows: int = 20_000_000
    rounds: int = 6
    seed: int = 1

    @property
    def read_rows(self) -> int:
        """Rows that are read into a summary."""
        return min(1_000_000, self.rows // 2)

    @property
    def new_rows(self) -> int:
        """Rows that arrive while a transaction is open."""
        return min(500_000, self.rows // 2)

    @property
    def written(self) -> dict[str, int]:
        """Rows of one turn of a writer, by the way it writes."""
        return {SINGLE: min(50_000, self.rows // 20), BATCH: BATCH_ROWS * min(200, self.rows // 5000)}

    def turn_rows(self, step: str) -> int:
        """Rows of one turn of a writer or a reader."""
        return self.written[step] if step in WRITES else self.read_rows

    @property
    def looked_at(self) -> dict[str, int]:
        """Rows that a look is about: those it reads, or those that came since the count was folded."""
        return {
            IDLE: 0,
            PIECE: min(10_000, self.rows // 10),
            NEW: self.new_rows,
            COUNT_STAR: self.rows,
            COUNT: 0,
            COUNT_FEW: min(1000, self.rows // 100),
            COUNT_MANY: min(100_000, self.rows // 10),
        }

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


class FeedBench(Protocol):
    """What the experiment needs done."""

    def fill(self) -> None:
        """The tables with all their rows, a feed and an exact count on each."""

    def write(self, step: str, kind: str) -> dict[str, float]:
        """Write into an empty table."""

    def read(self, step: str, kind: str) -> dict[str, float]:
        """Read the last rows of a table into an empty summary."""

    def hold(self) -> None:
        """Begin a transaction that stays open, and let new rows arrive."""

    def release(self) -> None:
        """End that transaction, and let as many new rows arrive."""

    def look(self, step: str, form: str) -> dict[str, float]:
        """Ask a table something, several times."""


def looked(form: str, state: str) -> str:
    """The kind of a look: which form of table, and whether a transaction was held open.

    >>> looked("uuid", HELD), looked("uuid", ENDED)
    ('uuid_held', 'uuid')
    """
    return f"{form}_{HELD}" if state == HELD else form


def run_feed(plan: FeedPlan, bench: FeedBench, result: Result, progress: Progress, save: Callable[[], None]) -> None:
    """Fill; then everything once a round. Round 0 of writers and readers warms up and is not kept."""
    shuffler = random.Random(plan.seed)
    turns = [(step, kind) for step in WRITES for kind in WRITTEN]
    turns += [(step, kind) for step in SUMMARIES for kind in READERS]
    progress.total(1 + (plan.rounds + 1) * len(turns) + plan.rounds * 2 * (1 + len(FORMS) * len(LOOKS)))
    progress.step(f"filling {len(FORMS)} tables to {plan.rows:,} rows")
    bench.fill()
    progress.done()
    for number in range(plan.rounds + 1):
        forget_cut_off([(step, kind, plan.turn_rows(step)) for step, kind in turns], number, result)
        for step, kind in shuffler.sample(turns, len(turns)):
            writes = step in WRITES
            label = f"{WRITTEN[kind]}, {WRITES[step]}" if writes else f"{READERS[kind]}, {SUMMARIES[step]}"
            progress.step(f"round {number} of {plan.rounds}: {label}")
            rows = plan.turn_rows(step)
            if result.has(step, kind, rows, number):
                progress.done()
                continue
            metrics = (bench.write if writes else bench.read)(step, kind)
            if number > 0:
                result.runs.append(Run(step, kind, rows, number, metrics))
                save()
            progress.done()
    for number in range(1, plan.rounds + 1):
        places = [(step, looked(form, state), plan.looked_at[step])
                  for state in (HELD, ENDED) for form in FORMS for step in LOOKS]  # fmt: skip
        forget_cut_off(places, number, result)
        if result.has(*places[0], number):
            for _ in range(2 * (1 + len(FORMS) * len(LOOKS))):
                progress.done()
            continue
        look_around(plan, number, shuffler, bench, result, progress, save)
    result.complete = True
    save()


def look_around(
    plan: FeedPlan,
    number: int,
    shuffler: random.Random,
    bench: FeedBench,
    result: Result,
    progress: Progress,
    save: Callable[[], None],
) -> None:
    """One round of looks, with a transaction held open and without."""
    for state, turn in ((HELD, bench.hold), (ENDED, bench.release)):
        progress.step(f"round {number} of {plan.rounds}: " + f"new rows arrive, transaction {state}")
        turn()
        progress.done()
        for form in shuffler.sample(list(FORMS), len(FORMS)):
            for step in LOOKS:
                progress.step(f"round {number} of {plan.rounds}: {step} of {FORMS[form]}, transaction {state}")
                metrics = bench.look(step, form)
                result.runs.append(Run(step, looked(form, state), plan.looked_at[step], number, metrics))
                save()
                progress.done(f"{1000 * metrics['seconds']:.3f} ms")
