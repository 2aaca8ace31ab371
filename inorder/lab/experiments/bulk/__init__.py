"""INSERT … SELECT, building indexes and COPY, by kind of key: time, WAL, sizes.

Each kind goes through all steps before the next begins, since most steps need what the ones before have left.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.bulk import plan as steps
from inorder.lab.experiments.bulk import report
from inorder.lab.experiments.bulk.plan import BulkPlan
from inorder.lab.instruments.counters import read_leaf_density, read_sizes
from inorder.lab.keys import SCHEMA, KeyKind
from inorder.lab.server_settings import measuring_settings
from inorder.lab.turn import Metrics, Stage, Turn, several

INDEX = "bulk_idx"  # the one that is built for comparison, and dropped
STATEMENTS = {
    steps.WITH_KEY: "INSERT INTO {table} SELECT {value} FROM generate_series(1, {rows}) AS n",
    steps.NO_INDEX: "INSERT INTO {table} SELECT {value} FROM generate_series(1, {rows}) AS n",
    steps.ADD_KEY: "ALTER TABLE {table} ADD PRIMARY KEY (id)",
    steps.PLAIN: f"CREATE INDEX {INDEX} ON {{table}} (id)",
    steps.NO_DEDUP: f"CREATE INDEX {INDEX} ON {{table}} (id) WITH (deduplicate_items = off)",
    steps.UNIQUE: f"CREATE UNIQUE INDEX {INDEX} ON {{table}} (id)",
}
DROP_INDEX = f"DROP INDEX IF EXISTS {SCHEMA}.{INDEX}"

# Beside the measuring settings: every kind makes its WAL files anew, instead of the later ones reusing those of the
# first; and one process builds an index.
OWN_SETTINGS = {"wal_recycle": "off", "max_parallel_maintenance_workers": "0"}

# A table of char(32) with its index, the WAL of inserting both, and the file that COPY writes.
BYTES_PER_ROW = 600


class BulkExperiment(Experiment[BulkPlan]):
    question = "Are random keys slower to load in bulk?"
    studies = ("P1",)
    programs = ()
    method = "time and WAL"
    own = OwnRun(leaf_density=True, unseen="CPU time")
    Plan: ClassVar = BulkPlan
    reports: ClassVar = report
    control: Connection
    file: Path

    @classmethod
    def room(cls, plan: BulkPlan) -> tuple[int, str]:
        return max(plan.rows) * BYTES_PER_ROW, f"{max(plan.rows):,} rows with their WAL"

    @classmethod
    def adapt(cls, plan: BulkPlan, can: Capabilities) -> Adapted[BulkPlan]:
        found = super().adapt(plan, can)
        return found.but(
            "Left out: COPY to and from a file, which the server would write with the rights of pg_write_server_files "
            "and no statement could remove again.",
            steps=tuple(step for step in plan.steps if step not in (steps.COPY_OUT, steps.COPY_IN)),
        )

    def prepare(self) -> None:
        """With the page cache, since work in bulk is compared, not memory; and a folder for the file."""
        self.target.serve(measuring_settings(self.plan.shared_buffers, direct_io=False) | OWN_SETTINGS)
        self.control = self.open_session()
        self.target.create_schema(self.control)
        self.file = self.target.file_folder("copies") / "keys"

    def stages(self) -> list[Stage]:
        return [Stage(self.turns_of(rows), self.plan.rounds) for rows in sorted(self.plan.rows)]

    def turns_of(self, rows: int) -> Callable[[int], list[Turn]]:
        """Every kind with so many rows; the order of the indexes built for comparison is of each round's own."""
        return lambda number: [self.turn(kind, rows, number) for kind in self.plan.kinds]

    def turn(self, kind: str, rows: int, number: int) -> Turn:
        chosen = steps.steps_of(self.plan.seed, rows, kind, number)
        measured = {step: steps.STEPS[step] for step in chosen if step in self.plan.steps}
        return several(
            measured, kind, rows, f"{rows:,} rows: {steps.KINDS[kind].label}",
            lambda kind, step, _seed: self.measure(kind, step, rows), end=self.clear,
        )  # fmt: skip

    def clear(self, kind: str) -> None:
        execute(self.control, *steps.KINDS[kind].removal())
        self.file.unlink(missing_ok=True)

    def measure(self, kind: str, step: str, rows: int) -> Metrics:
        key, done = steps.KINDS[kind], list[int]()
        execute(self.control, *beforehand(key, step))
        with self.target.from_checkpoint(self.control) as found, self.target.connect() as session:
            metrics = self.target.timed(session, lambda: done.append(self.do(session, key, step, rows)))
        check(step, done[0], rows)
        if step == steps.COPY_OUT:
            found["file_bytes"] = self.flushed_size()
        return metrics | found | self.sizes(key, step)

    def do(self, session: Connection, key: KeyKind, step: str, rows: int) -> int:
        if step == steps.COPY_OUT:
            return self.target.copy_out(session, key.table, self.file)
        if step == steps.COPY_IN:
            return self.target.copy_in(session, key.table, self.file)
        value = "n" if key.name == steps.SERIES else ""
        return session.execute(STATEMENTS[step].format(table=key.table, rows=rows, value=value).encode()).rowcount

    def flushed_size(self) -> int:
        """Flush the file now, or it would be written back while COPY FROM is measured."""
        with self.file.open("rb") as written:
            os.fsync(written.fileno())
            return os.fstat(written.fileno()).st_size

    def sizes(self, key: KeyKind, step: str) -> Metrics:
        query = f"SELECT pg_total_relation_size('{key.table}'), pg_relation_size('{key.table}')"
        sizes = Metrics(zip(("total_bytes", "table_bytes"), one_row(self.control, query), strict=True))
        if step in steps.LEAVE_KEY:
            sizes |= read_sizes(self.control, key) | read_leaf_density(self.control, key)
        return sizes


def beforehand(key: KeyKind, step: str) -> list[str]:
    """Statements before a step, not timed. The column is NOT NULL, so that adding the key checks nothing."""
    if step in (steps.WITH_KEY, steps.NO_INDEX, steps.COPY_IN):
        return [*key.removal(), *(key.table_statements() if step == steps.NO_INDEX else key.statements())]
    if step in steps.BUILDS:
        return [f"ALTER TABLE {key.table} DROP CONSTRAINT IF EXISTS {key.name}_pkey", DROP_INDEX]
    return [DROP_INDEX] if step == steps.COPY_OUT else []


def check(step: str, done: int, rows: int) -> None:
    if step not in (steps.ADD_KEY, *steps.BUILDS) and done != rows:
        raise InorderError(f"{steps.STEPS[step]}: {done:,} rows instead of {rows:,}")
