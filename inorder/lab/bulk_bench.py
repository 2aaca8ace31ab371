"""What the bulk experiment does, done to a server."""

import os

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.errors import InorderError
from inorder.lab.counters import read_leaf_density, read_sizes
from inorder.lab.experiments import bulk as experiment
from inorder.lab.experiments.bulk import BUILDS, KINDS, LEAVE_KEY, BulkPlan
from inorder.lab.keys import SCHEMA, KeyKind
from inorder.lab.legacy import Metrics
from inorder.lab.serving import measuring_settings
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of

# Beside the measuring settings: every kind makes its WAL files anew, instead of
# the later ones reusing those of the first; and one process builds an index.
OWN_SETTINGS = {"wal_recycle": "off", "max_parallel_maintenance_workers": "0"}

INDEX = "bulk_idx"  # the one that is built for comparison, and dropped


class BulkBench(Bench):
    """A bench of the bulk experiment. The file is written and read by the server, in the folder of a throw-away one."""

    def __init__(self, server: Cluster | Place, plan: BulkPlan) -> None:
        self.place = place_of(server)
        self.folder = self.place.folder / "copies"
        self.file = self.folder / "keys"
        # With the page cache: what is compared is work in bulk, not memory.
        self.place.serve(measuring_settings(plan.shared_buffers, direct_io=False) | OWN_SETTINGS)
        self.control = self.connection()

    def close(self) -> None:
        """End the session that looks at the counters."""
        self.control.close()

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect()

    def execute(self, *statements: str) -> None:
        """One after the other."""
        for statement in statements:
            self.control.execute(statement.encode())

    def prepare(self) -> None:
        """The extensions, the schema, and the folder of the file."""
        self.folder.mkdir(mode=0o700)
        if self.place.cluster and (account := self.place.cluster.account):
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.place.create_extensions(self.control)
        self.place.create_schema(self.control)

    def clear(self) -> None:
        """Tables, sequences and file."""
        self.execute(*(statement for key in KINDS.values() for statement in key.removal()))
        self.file.unlink(missing_ok=True)

    def measure(self, kind: str, step: str, rows: int) -> Metrics:
        """One step, after a checkpoint, in a session of its own: when it has ended, its WAL is counted."""
        key = KINDS[kind]
        self.execute(*beforehand(key, step))
        self.place.checkpoint(self.control)
        before = self.place.wal(self.control)
        with self.connection() as session:
            done = 0

            def work() -> None:
                nonlocal done
                done = session.execute(self.statement(key, step, rows).encode()).rowcount

            metrics = self.place.timed(session, work)
        metrics |= since(self.place.wal(self.control), before)
        self.check(step, done, rows)
        if step == experiment.COPY_OUT:
            self.flush_file()
            metrics["file_bytes"] = self.file.stat().st_size
        return metrics | self.sizes(key, step)

    def statement(self, key: KeyKind, step: str, rows: int) -> str:
        """What is timed."""
        insert = f"INSERT INTO {key.table} SELECT FROM generate_series(1, {rows})"
        file = str(self.file).replace("'", "''")
        return {
            experiment.WITH_KEY: insert,
            experiment.NO_INDEX: insert,
            experiment.ADD_KEY: f"ALTER TABLE {key.table} ADD PRIMARY KEY (id)",
            experiment.PLAIN: f"CREATE INDEX {INDEX} ON {key.table} (id)",
            experiment.NO_DEDUP: f"CREATE INDEX {INDEX} ON {key.table} (id) WITH (deduplicate_items = off)",
            experiment.UNIQUE: f"CREATE UNIQUE INDEX {INDEX} ON {key.table} (id)",
            experiment.COPY_OUT: f"COPY {key.table} TO '{file}'",
            experiment.COPY_IN: f"COPY {key.table} FROM '{file}'",
        }[step]

    def check(self, step: str, done: int, rows: int) -> None:
        """An error if a step brought or took another number of rows than there are."""
        if step not in (experiment.ADD_KEY, *BUILDS) and done != rows:
            raise InorderError(f"{experiment.STEPS[step]}: {done:,} rows instead of {rows:,}")

    def flush_file(self) -> None:
        """To the device now, or it would be written back while COPY FROM is measured."""
        with self.file.open("rb") as written:
            os.fsync(written.fileno())

    def sizes(self, key: KeyKind, step: str) -> Metrics:
        """Of the table, and of its primary key where there is one; leaf density where the server can tell it."""
        row = self.control.execute(
            f"SELECT pg_total_relation_size('{key.table}'), pg_relation_size('{key.table}')".encode()
        ).fetchone()
        assert row is not None
        sizes: Metrics = {"total_bytes": int(str(row[0])), "table_bytes": int(str(row[1]))}
        if step in LEAVE_KEY:
            sizes |= read_sizes(self.control, key) | read_leaf_density(self.control, key)
        return sizes


def beforehand(key: KeyKind, step: str) -> list[str]:
    """What makes ready for a step, not timed."""
    if step in (experiment.WITH_KEY, experiment.NO_INDEX, experiment.COPY_IN):
        return [*key.removal(), *statements(key, with_key=step != experiment.NO_INDEX)]
    if step in BUILDS:
        return [f"ALTER TABLE {key.table} DROP CONSTRAINT IF EXISTS {key.name}_pkey", drop_index()]
    if step == experiment.COPY_OUT:
        return [drop_index()]
    return []


def drop_index() -> str:
    """Remove the index built for comparison, if there is one."""
    return f"DROP INDEX IF EXISTS {SCHEMA}.{INDEX}"


def statements(key: KeyKind, with_key: bool) -> list[str]:
    """The empty table. NOT NULL in any case: adding the key then has no column to check, whatever the kind."""
    return key.statements() if with_key else key.table_statements()
