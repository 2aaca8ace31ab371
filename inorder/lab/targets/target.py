"""The interface of the servers on which experiments run, and the operations that experiments use."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from psycopg import sql

from inorder.connection.database import Connection, query
from inorder.errors import on_error
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.counters import read_blocks, read_wal
from inorder.lab.instruments.machine import DeviceTimes, available_cores
from inorder.lab.instruments.timing import Apart, apart
from inorder.lab.plan.keys import KeyKind
from inorder.lab.plan.turn import Measured, Metrics
from inorder.lab.results.result import Result
from inorder.lab.targets.server_settings import Small

Counts = Mapping[str, float]

CHUNK = 2**18  # bytes of a COPY file that are read at a time


def since(after: Counts, before: Counts) -> dict[str, float]:
    return {name: value - before[name] for name, value in after.items()}


def with_settings(connection: Connection, settings: Mapping[str, str]) -> Connection:
    """Apply settings to a connection and return it. Close the connection if a setting fails."""
    with on_error(connection.close):
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    return connection


def release_tables(connection: Connection, schema: str) -> None:
    """Drop the feeds and guards on the tables of a schema, before the tables are dropped."""
    row = connection.execute(query("extension_schema")).fetchone()
    if row is None:
        return
    for name in ("release_feeds", "release_tables"):
        connection.execute(query(name).format(inorder=sql.Identifier(str(row[0]))), {"schema": schema})


class Target(ABC):
    """A server. Counters that the server does not show are missing from results. Actions that it forbids are skipped.

    * ``folder``: a folder on this machine for scripts and logs, which is removed afterwards.
    * ``is_superuser``: sessions run as a superuser.
    * ``work_mem``: enough memory for a session to sort or hash a million values.
    * ``marks_checkpoints``: the server reports when a checkpoint ends.
    """

    folder: Path
    is_superuser: bool
    work_mem: str
    marks_checkpoints: bool
    application = ""  # application_name of this run's sessions, or "" if the server has no other sessions
    sees_wal = True

    @property
    def database(self) -> str:
        """The database argument of pgbench, or "" if the environment is sufficient."""
        return ""

    @abstractmethod
    def connect(self, **settings: str) -> Connection:
        """Open an autocommit connection, with settings that any session may change."""

    @abstractmethod
    def program(self, name: str) -> Path:
        """Return the path of a PostgreSQL program."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Return the environment in which programs connect to this server."""

    def pgbench(
        self, script: Path, load: pgbench.Load, seed: int, on_progress: Callable[[float], None] = lambda _tps: None,
        by_statement: bool = False, log: bool = False,
    ) -> pgbench.PgbenchResult:  # fmt: skip
        """Run pgbench to its end, and report the TPS of each second. ``log``: measure latency percentiles, too."""
        return pgbench.run(
            self.program("pgbench"), script, load, seed, self.environment(), on_progress, by_statement,
            self.folder / "latency" if log else None, self.database,
        )  # fmt: skip

    def execute_all(self, statements: Sequence[str]) -> None:
        """Run statements concurrently, one per CPU core. If one statement fails, cancel the others."""
        with ExitStack() as stack:
            connections = [stack.enter_context(self.connect()) for _ in statements]
            pool = stack.enter_context(ThreadPoolExecutor(available_cores()))
            try:
                jobs = [
                    pool.submit(connection.execute, statement.encode())
                    for connection, statement in zip(connections, statements, strict=True)
                ]
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for connection in connections:
                    connection.cancel()
                raise

    def serve(self, settings: Mapping[str, str]) -> None:
        """Restart the server with these settings, if it may be restarted."""
        return

    def serve_small(self, small: Small, more: Mapping[str, str] | None = None) -> None:
        """Restart a throw-away server with fsync and with this memory. No tables are cached afterwards."""
        return

    def end_throttling(self) -> None:
        return

    def create_schema(self, connection: Connection) -> None:
        """Create the lab's schema and the extensions that the lab uses, on a throw-away server only."""
        return

    def tablespace(self, connection: Connection, folder: str) -> str:
        """Create a tablespace in a folder on this machine. Return its quoted name, or "" if this is impossible."""
        return ""

    @abstractmethod
    def checkpoint(self, connection: Connection) -> None:
        """Request a checkpoint, if the role has the privilege."""

    @abstractmethod
    def note(self, result: Result) -> None:
        """Record the server and its current settings in the result."""

    def file_folder(self, name: str, needed: int = 0) -> Path:
        """Create a folder for files that COPY writes and reads, with room for ``needed`` bytes in total."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        return folder

    def copy_out(self, session: Connection, source: str, file: Path | None) -> int:
        """COPY a table, or a query in parentheses, to a file or to /dev/null. Return the number of rows."""
        with session.cursor() as cursor:
            target = file or Path(os.devnull)
            with cursor.copy(f"COPY {source} TO STDOUT".encode()) as copy, target.open("wb") as written:
                for chunk in copy:
                    written.write(chunk)
            return cursor.rowcount

    def copy_in(self, session: Connection, table: str, file: Path) -> int:
        """COPY a table from a file. Return the number of rows."""
        with session.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy, file.open("rb") as read:
                while chunk := read.read(CHUNK):
                    copy.write(chunk)
            return cursor.rowcount

    def wal(self, connection: Connection) -> Counts:
        """Return the WAL counters after other sessions of this run have ended, or nothing if not permitted."""
        return read_wal(connection, self.application) if self.sees_wal else {}

    def counters(self, connection: Connection, kind: KeyKind) -> Counts:
        """Return the WAL counters, and the block counters of a table and its index, read in the same way as ``wal``."""
        return read_blocks(connection, kind, self.application) | dict(self.wal(connection))

    def timed(self, session: Connection, work: Callable[[], object]) -> dict[str, float]:
        started = time.perf_counter()
        work()
        return {"seconds": time.perf_counter() - started}

    def ended_cpu(self, connection: Connection) -> float | None:
        """Return the CPU seconds of all ended sessions, or None if the server does not show them."""
        return None

    def device(self, folder: str = "") -> DeviceTimes | None:
        return None

    def wal_place(self, connection: Connection) -> str:
        """Return the end of the WAL, or "" if the WAL files cannot be read."""
        return ""

    def wal_since(self, connection: Connection, kind: KeyKind, place: str) -> Measured:
        """Return the size of records and full-page images since a position, and the number of changed index blocks."""
        return Measured({})

    def wal_by_file(self, connection: Connection, place: str) -> Mapping[str, Counts]:
        """Return figures of the WAL since a position for each file of a relation: see waldump.by_relation."""
        return {}

    def clock(self) -> Apart:
        with self.connect() as connection:
            return apart(connection, time.time)

    @contextmanager
    def counted(self, connection: Connection, kind: KeyKind | None = None) -> Iterator[Metrics]:
        metrics: Metrics = {}
        before = self.counters(connection, kind) if kind else self.wal(connection)
        yield metrics
        metrics |= since(self.counters(connection, kind) if kind else self.wal(connection), before)

    @contextmanager
    def from_checkpoint(self, connection: Connection, kind: KeyKind | None = None) -> Iterator[Metrics]:
        """Count after a checkpoint, so that the first change of each block causes a full-page image."""
        self.checkpoint(connection)
        with self.counted(connection, kind) as metrics:
            yield metrics
