"""Version-1 UUIDs in time order or not: COPY, VACUUM, REINDEX of a table.

Four kinds of primary key for the same moments, from several nodes over a year or from a file. Each kind goes through
all steps before the next begins.
"""

import os
import time
from pathlib import Path
from statistics import median
from typing import ClassVar

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.capabilities import THROUGH_HERE, VACUUMED, Adapted, Capabilities, OwnRun
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.uuid_v1 import plan as steps
from inorder.lab.experiments.uuid_v1 import report
from inorder.lab.experiments.uuid_v1.plan import UuidV1Plan
from inorder.lab.instruments.counters import read_leaf_density, read_sizes
from inorder.lab.instruments.vacuum import VERBOSE, index_pages, primary_message
from inorder.lab.key_files import V1, V7, own, simulated, write_keys, write_numbers
from inorder.lab.keys import KeyKind
from inorder.lab.server_settings import Small
from inorder.lab.turn import Metrics, Stage, every_round, several

STATEMENTS = {
    steps.ANALYZE: "ANALYZE {table}",
    steps.REINDEX: "REINDEX INDEX {index}",
    **dict.fromkeys(steps.VACUUMS, VERBOSE),
}

# One process builds an index, and counts: what a session may set by itself.
SESSION_SETTINGS = {"max_parallel_maintenance_workers": "0", "max_parallel_workers_per_gather": "0"}

# Beside the measuring settings: every kind makes its WAL files anew, instead of the later ones reusing those of the
# first.
OWN_SETTINGS = {"wal_recycle": "off"} | SESSION_SETTINGS

# The time of a key, and what a query by time compares: the key itself, or a column.
CREATED_AT = "created_at >="
TIMES = {
    "uuid_v1": ("uuid_v1_get_timestamp(id)", "id >=~"),
    "uuid_v7": ("uuid_v7_time(id)", "id >=~"),
    "uuid": ("uuid_v1_get_timestamp(id::uuid_v1)", CREATED_AT),
}
QUERIES = 5
YEAR = 365 * 86_400  # seconds over which the keys are spread

# The keys of a kind: uuid_v1 and uuid have the very same file.
NUMBERS = "numbers"
SETS = {"uuid_v1": V1, "uuid": V1, "uuid_v7": V7, "bigint": NUMBERS}

FILE_BYTES_PER_ROW = 37 + 37 + 13  # version 1, version 7, numbers; a line each
BYTES_PER_ROW = 600  # the files of all sets of keys, and the largest table with its index and its WAL


class UuidV1Experiment(Experiment[UuidV1Plan]):
    question = "Do version-1 UUIDs cost more if they are not in time order?"
    studies = ("P4",)
    programs = ()
    own = OwnRun(reads_vacuum=True, leaf_density=True, otherwise=f"{THROUGH_HERE} {VACUUMED}")
    Plan: ClassVar = UuidV1Plan
    reports: ClassVar = report
    control: Connection
    folder: Path

    @classmethod
    def room(cls, plan: UuidV1Plan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW, f"{plan.rows:,} rows, their files and their WAL"

    @classmethod
    def adapt(cls, plan: UuidV1Plan, can: Capabilities) -> Adapted[UuidV1Plan]:
        found = super().adapt(plan, can)
        if not can.has_inorder:
            raise can.no_inorder("the type uuid_v1 is of it")
        return found

    def prepare(self) -> None:
        self.target.serve_small(Small(self.plan.memory_bytes), OWN_SETTINGS)
        self.control = self.open_session(**SESSION_SETTINGS)
        self.target.create_schema(self.control)
        self.folder = self.target.file_folder("keys", self.plan.total * FILE_BYTES_PER_ROW)

    def connection(self) -> Connection:
        return self.target.connect(**SESSION_SETTINGS)

    def stages(self) -> list[Stage]:
        labels = {step: label for step, (label, _) in steps.STEPS.items()}
        turns = [
            several(labels, kind, self.plan.rows, key.label, self.measure, self.create, self.drop)
            for kind, key in steps.KINDS.items()
        ]
        return [Stage(every_round(turns), self.plan.rounds, begin=self.write_keys)]

    def write_keys(self) -> None:
        plan = self.plan
        self.progress.step(f"writing {plan.total:,} keys of each kind to files")
        for name in dict.fromkeys(SETS.values()):
            files = self.file(name, steps.COPY_FROM), self.file(name, steps.COPY_MORE)
            if name == NUMBERS:
                write_numbers(plan.rows, plan.total, files)
            elif plan.file:
                write_keys(own(name, Path(plan.file), plan.total, plan.seed), plan.rows, files)
            else:
                write_keys(simulated(name, plan.total, YEAR, plan.nodes, plan.lag, plan.seed), plan.rows, files)
        os.sync()  # or the files would be written back while COPY is measured

    def file(self, keys: str, step: str) -> Path:
        return self.folder / f"{keys}.{step}"

    def create(self, kind: str) -> None:
        """An empty table. Where autovacuum is on, too, only the VACUUM that is measured is to free pages."""
        key = steps.KINDS[kind]
        execute(self.control, *key.statements(), f"ALTER TABLE {key.table} SET (autovacuum_enabled = off)")

    def drop(self, kind: str) -> None:
        self.control.execute(f"DROP TABLE {steps.KINDS[kind].table}".encode())

    def measure(self, kind: str, step: str, _seed: int) -> Metrics:
        key = steps.KINDS[kind]
        if step in (steps.SIZES, steps.SIZES_AFTER):
            return read_sizes(self.control, key) | read_leaf_density(self.control, key)
        if step == steps.RECENT:
            return self.count_recent(kind)
        deleted = self.delete(key, step) if step in steps.VACUUMS else {}
        notices: list[str] = []
        with self.target.from_checkpoint(self.control, key) as found, self.connection() as session:
            session.add_notice_handler(primary_message(notices))
            started = time.perf_counter()
            rows = self.do(session, key, step)
            found["seconds"] = time.perf_counter() - started
        self.check_copied(step, rows)
        if step in (steps.COPY_FROM, steps.COPY_MORE) and "index_hits" in found:
            found["blocks_per_row"] = (found["index_hits"] + found["index_reads"]) / rows
        if step in steps.VACUUMS:
            found["pages_freed"] = index_pages(notices).newly_deleted
        return deleted | found

    def count_recent(self, kind: str) -> Metrics:
        """By the key, or by a column with an index, whose making is not timed; the median of several queries."""
        if kind not in TIMES:
            return {}
        table, (moment, compared), found = steps.KINDS[kind].table, TIMES[kind], Metrics()
        with self.connection() as session:
            if compared == CREATED_AT:
                made = f"{table}_created"
                statement = f"CREATE TABLE {made} AS SELECT id, {moment} AS created_at FROM {table}"
                execute(session, statement, f"CREATE INDEX ON {made} (created_at)")
                table, moment = made, "created_at"
                found["time_index_bytes"] = float(one_row(session, f"SELECT pg_indexes_size('{made}')")[0])
            session.execute(f"VACUUM (ANALYZE) {table}".encode())
            newest = f"(SELECT max({moment}) - (max({moment}) - min({moment})) / 10 FROM {table})"
            (since,) = one_row(session, f"SELECT quote_literal({newest})")
            query = f"SELECT count(*) FROM {table} WHERE {compared} {since}::timestamptz"
            seconds = []
            for _ in range(QUERIES):
                started = time.perf_counter()
                found["found"] = float(one_row(session, query)[0])
                seconds.append(time.perf_counter() - started)
            if compared == CREATED_AT:
                session.execute(f"DROP TABLE {table}".encode())
        return found | {"seconds": median(seconds)}

    def do(self, session: Connection, key: KeyKind, step: str) -> int:
        if step in (steps.COPY_FROM, steps.COPY_MORE):
            return self.target.copy_in(session, key.table, self.file(SETS[key.name], step))
        if step == steps.COPY_TO:
            return self.target.copy_out(session, key.table, None)
        return session.execute(STATEMENTS[step].format(table=key.table, index=key.index).encode()).rowcount

    def check_copied(self, step: str, rows: int) -> None:
        expected = {
            steps.COPY_FROM: self.plan.rows,
            steps.COPY_MORE: self.plan.more_rows,
            steps.COPY_TO: self.plan.total,
        }
        if step in expected and rows != expected[step]:
            raise InorderError(f"{steps.STEPS[step][0]} copied {rows:,} rows instead of {expected[step]:,}")

    def delete(self, key: KeyKind, step: str) -> Metrics:
        with self.connection() as session:
            chosen = self.oldest(session, key) if step == steps.VACUUM_OLDEST else self.random()
            return {"deleted": session.execute(f"DELETE FROM {key.table} WHERE {chosen}".encode()).rowcount}

    def oldest(self, session: Connection, key: KeyKind) -> str:
        """The first tenth to arrive. COPY puts rows one behind the other, the same number on every page."""
        (on_first_page,) = one_row(session, f"SELECT count(*) FROM {key.table} WHERE ctid < '(1,0)'")
        block, before = divmod(self.plan.total // 10 - 1, on_first_page)
        return f"ctid <= '({block},{before + 1})'"

    def random(self) -> str:
        """A tenth by hash of the row's place, which is its number of arrival: the same rows of every uuid table."""
        return f"(hashtidextended(ctid, {self.plan.seed}) & 2147483647) % 10 = 0"
