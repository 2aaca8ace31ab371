"""What the uuid-v1 experiment does, done to a server."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.errors import InorderError, InputError
from inorder.lab.client_copy import copy_in, copy_out
from inorder.lab.counters import read_leaf_density, read_sizes
from inorder.lab.experiments import uuid_v1 as experiment
from inorder.lab.experiments.uuid_v1 import KINDS, UuidV1Plan
from inorder.lab.keys import KeyKind
from inorder.lab.parallel import execute_all
from inorder.lab.serving import serve_measured
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of
from inorder.lab.uuid_v1_data import SETS, keys_query
from inorder.lab.vacuum import index_pages, primary_message

# One process builds an index: what a session may set by itself.
SESSION_SETTINGS = {"max_parallel_maintenance_workers": "0"}

# Beside the measuring settings: every kind makes its WAL files anew, instead of the later ones reusing those of the
# first.
OWN_SETTINGS = {"wal_recycle": "off"} | SESSION_SETTINGS

FILE_BYTES_PER_ROW = 37 + 37 + 13  # version 1, version 7, numbers; a line each


class FileBench(Bench):
    """A UuidV1Bench over a throw-away server, which writes and reads the files, or the user's own.

    For the latter this process does, on this machine.
    """

    def __init__(self, server: Cluster | Place, plan: UuidV1Plan) -> None:
        self.place = place_of(server)
        self.cluster = self.place.cluster
        self.plan = plan
        self.folder = self.place.folder / "keys"
        if self.cluster:
            serve_measured(self.cluster, plan, OWN_SETTINGS)
        self.control = self.connection()

    def close(self) -> None:
        """End the session that looks at the counters."""
        self.control.close()

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect(**SESSION_SETTINGS)

    def prepare(self) -> None:
        """The extensions, the schema, and two files of each set of keys: the first rows, and the further ones."""
        self.folder.mkdir(mode=0o700)
        if self.cluster and self.cluster.account:
            os.chown(self.folder, self.cluster.account.pw_uid, self.cluster.account.pw_gid)
        self.place.create_extensions(self.control)
        self.place.create_schema(self.control)
        rows, total = self.plan.rows, self.plan.rows + self.plan.more_rows
        parts = {experiment.COPY_FROM: (1, rows), experiment.COPY_MORE: (rows + 1, total)}
        queries = {
            self.file(keys, step): f"({keys_query(keys, low, high, total, self.plan.seed)})"
            for step, (low, high) in parts.items()
            for keys in dict.fromkeys(SETS.values())
        }
        if self.cluster:
            execute_all(self.cluster.dsn, [f"COPY {what} TO '{quoted(file)}'" for file, what in queries.items()])
        else:
            require_room(self.folder, total * FILE_BYTES_PER_ROW)
            for file, what in queries.items():
                copy_out(self.control, what, file)
        os.sync()  # or the files would be written back while COPY is measured

    def file(self, keys: str, step: str) -> Path:
        """Where one part of a set of keys is."""
        return self.folder / f"{keys}.{step}"

    def create(self, kind: str) -> None:
        """An empty table."""
        for statement in KINDS[kind].statements():
            self.control.execute(statement.encode())
        # Where autovacuum is on, too, only the VACUUM that is measured is to free pages.
        self.control.execute(f"ALTER TABLE {KINDS[kind].table} SET (autovacuum_enabled = off)".encode())

    def drop(self, kind: str) -> None:
        """Remove it; its files are gone after the next checkpoint."""
        self.control.execute(f"DROP TABLE {KINDS[kind].table}".encode())

    def measure(self, kind: str, step: str) -> dict[str, float]:
        """One step, after a checkpoint, in a session of its own: when it has ended, its counters are complete."""
        key = KINDS[kind]
        if step in (experiment.SIZES, experiment.SIZES_AFTER):
            return read_sizes(self.control, key) | read_leaf_density(self.control, key)
        found = self.delete(key, step)
        notices: list[str] = []
        self.place.checkpoint(self.control)
        before = self.place.counters(self.control, key)
        with self.connection() as session:
            session.add_notice_handler(primary_message(notices))
            work = self.work(session, key, step)
            started = time.perf_counter()
            rows = work()
            seconds = time.perf_counter() - started
        counted = since(self.place.counters(self.control, key), before)
        self.check_copied(step, rows)
        if step in (experiment.VACUUM_OLDEST, experiment.VACUUM_RANDOM):
            found["pages_freed"] = index_pages(notices).newly_deleted
        return {"seconds": seconds, **counted, **found}

    def work(self, session: Connection, key: KeyKind, step: str) -> Callable[[], int]:
        """What is timed, which says how many rows it had to do with."""
        if not self.cluster and step in (experiment.COPY_FROM, experiment.COPY_MORE):
            return lambda: copy_in(session, key.table, self.file(SETS[key.name], step))
        if not self.cluster and step == experiment.COPY_TO:
            return lambda: copy_out(session, key.table)
        statement = self.statement(key, step).encode()
        return lambda: session.execute(statement).rowcount

    def statement(self, key: KeyKind, step: str) -> str:
        """The statement of a step, with files of the server's."""
        keys = SETS[key.name]
        vacuum = f"VACUUM (VERBOSE, INDEX_CLEANUP ON) {key.table}"  # VERBOSE tells the pages freed
        return {
            experiment.COPY_FROM: f"COPY {key.table} FROM '{quoted(self.file(keys, experiment.COPY_FROM))}'",
            experiment.COPY_MORE: f"COPY {key.table} FROM '{quoted(self.file(keys, experiment.COPY_MORE))}'",
            experiment.COPY_TO: f"COPY {key.table} TO '/dev/null'",
            experiment.ANALYZE: f"ANALYZE {key.table}",
            experiment.VACUUM_OLDEST: vacuum,
            experiment.VACUUM_RANDOM: vacuum,
            experiment.REINDEX: f"REINDEX INDEX {key.index}",
        }[step]

    def check_copied(self, step: str, rows: int) -> None:
        """An error if a COPY brought or took another number of rows than there are."""
        expected = {
            experiment.COPY_FROM: self.plan.rows,
            experiment.COPY_MORE: self.plan.more_rows,
            experiment.COPY_TO: self.plan.rows + self.plan.more_rows,
        }
        if step in expected and rows != expected[step]:
            raise InorderError(f"{experiment.STEPS[step]} copied {rows:,} rows instead of {expected[step]:,}")

    def delete(self, key: KeyKind, step: str) -> dict[str, float]:
        """Delete what the step's VACUUM is to clean up, if it is one; not timed."""
        if step not in (experiment.VACUUM_OLDEST, experiment.VACUUM_RANDOM):
            return {}
        with self.connection() as session:
            chosen = self.oldest(session, key) if step == experiment.VACUUM_OLDEST else self.random()
            return {"deleted": session.execute(f"DELETE FROM {key.table} WHERE {chosen}".encode()).rowcount}

    def oldest(self, session: Connection, key: KeyKind) -> str:
        """The first tenth to arrive. COPY puts rows one behind the other, the same number on every page."""
        first_page = f"SELECT count(*) FROM {key.table} WHERE ctid < '(1,0)'"
        row = session.execute(first_page.encode()).fetchone()
        assert row is not None
        block, before = divmod((self.plan.rows + self.plan.more_rows) // 10 - 1, int(str(row[0])))
        return f"ctid <= '({block},{before + 1})'"

    def random(self) -> str:
        """A tenth by hash of the row's place, which is its number of arrival: the same rows of every uuid table."""
        return f"(hashtidextended(ctid, {self.plan.seed}) & 2147483647) % 10 = 0"


def require_room(folder: Path, needed: int) -> None:
    """An error if so many bytes are not free on this machine for files."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the files of the keys need about {needed / 2**30:.1f} GB on this machine in {folder.parent.parent}, "
            f"where {free / 2**30:.1f} GB are free"
        )


def quoted(path: Path) -> str:
    """For between quotes in SQL."""
    return str(path).replace("'", "''")
