"""A server that experiments run on: what they may ask of it, a throw-away one or the user's own."""

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
from inorder.lab.keys import KeyKind
from inorder.lab.results import Result
from inorder.lab.server_settings import Small
from inorder.lab.turn import Measured, Metrics

Counts = Mapping[str, float]

CHUNK = 2**18  # bytes of COPY at a time


def since(after: Counts, before: Counts) -> dict[str, float]:
    return {name: value - before[name] for name, value in after.items()}


def with_settings(connection: Connection, settings: Mapping[str, str]) -> Connection:
    """The connection, its session set so; closed if that fails."""
    with on_error(connection.close):
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    return connection


def release_tables(connection: Connection, schema: str) -> None:
    """Let inorder forget the tables of a schema, before they are dropped: their feeds, and that they can be read."""
    row = connection.execute(query("extension_schema")).fetchone()
    if row is None:
        return
    for name in ("release_feeds", "release_tables"):
        connection.execute(query(name).format(inorder=sql.Identifier(str(row[0]))), {"schema": schema})


class Target(ABC):
    """One server. What it cannot show is missing from what it counts; what it may not do it leaves out.

    ``folder`` is on this machine, for scripts and logs, and removed afterwards. ``is_superuser``: sessions may do all.
    ``work_mem`` is what one may take to sort or hash a million values. ``marks_checkpoints``: it reports when one ends.
    """

    folder: Path
    is_superuser: bool
    work_mem: str
    marks_checkpoints: bool
    application = ""  # by which this run knows its sessions; "" where all are
    sees_wal = True

    @property
    def database(self) -> str:
        """The database argument of pgbench; "" where the environment says it all."""
        return ""

    @abstractmethod
    def connect(self, **settings: str) -> Connection:
        """A new autocommit connection, with settings that any session may make."""

    @abstractmethod
    def program(self, name: str) -> Path:
        """One of PostgreSQL's programs."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The environment in which they reach this server."""

    def pgbench(
        self, script: Path, load: pgbench.Load, seed: int, on_progress: Callable[[float], None] = lambda _tps: None,
        by_statement: bool = False, log: bool = False,
    ) -> pgbench.PgbenchResult:  # fmt: skip
        """Run pgbench to its end, reporting TPS each second; with ``log``, with percentiles of latency."""
        return pgbench.run(
            self.program("pgbench"), script, load, seed, self.environment(), on_progress, by_statement,
            self.folder / "latency" if log else None, self.database,
        )  # fmt: skip

    def execute_all(self, statements: Sequence[str]) -> None:
        """At the same time, as many as this machine has cores; an error of one ends all."""
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
        """Start the server anew with these settings, if it may be."""
        return

    def serve_small(self, small: Small, more: Mapping[str, str] | None = None) -> None:
        """Start it anew with so much memory, durable, nothing of the tables in memory; if it may be."""
        return

    def end_throttling(self) -> None:
        return

    def create_schema(self, connection: Connection) -> None:
        """The lab's schema, and the extensions that it uses, if they are not there yet and may be made."""
        return

    def tablespace(self, connection: Connection, folder: str) -> str:
        """A tablespace in a folder of this machine, quoted; "" where there can be none."""
        return ""

    @abstractmethod
    def checkpoint(self, connection: Connection) -> None:
        """Make a checkpoint, if that is allowed."""

    @abstractmethod
    def note(self, result: Result) -> None:
        """Note the server and its settings as they are now."""

    def file_folder(self, name: str, needed: int = 0) -> Path:
        """A new folder for files that COPY writes and reads, of so many bytes in all."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        return folder

    def copy_out(self, session: Connection, what: str, file: Path | None) -> int:
        """COPY a table or a (query) TO a file, or to nowhere; how many rows."""
        with session.cursor() as cursor:
            target = file or Path(os.devnull)
            with cursor.copy(f"COPY {what} TO STDOUT".encode()) as copy, target.open("wb") as written:
                for part in copy:
                    written.write(part)
            return cursor.rowcount

    def copy_in(self, session: Connection, table: str, file: Path) -> int:
        """COPY a table FROM a file; how many rows."""
        with session.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy, file.open("rb") as read:
                while part := read.read(CHUNK):
                    copy.write(part)
            return cursor.rowcount

    def wal(self, connection: Connection) -> Counts:
        """The WAL counted so far, once this run's other sessions have ended; nothing where it cannot be seen."""
        return read_wal(connection, self.application) if self.sees_wal else {}

    def counters(self, connection: Connection, kind: KeyKind) -> Counts:
        """WAL and blocks of a table and its index counted so far, likewise."""
        return read_blocks(connection, kind, self.application) | dict(self.wal(connection))

    def timed(self, session: Connection, work: Callable[[], object]) -> dict[str, float]:
        started = time.perf_counter()
        work()
        return {"seconds": time.perf_counter() - started}

    def ended_cpu(self, connection: Connection) -> float | None:
        """CPU seconds of the sessions that have ended, all but this one, if they can be seen."""
        return None

    def device(self, folder: str = "") -> DeviceTimes | None:
        return None

    def wal_place(self, connection: Connection) -> str:
        """Where the WAL ends; "" where its files cannot be read."""
        return ""

    def wal_since(self, connection: Connection, kind: KeyKind, place: str) -> Measured:
        """The WAL since a place: records and images, and the blocks of the index that they change."""
        return Measured({})

    def wal_by_file(self, connection: Connection, place: str) -> Mapping[str, Counts]:
        """The WAL since a place by file of a relation: see waldump.by_relation."""
        return {}

    def clock(self) -> Apart:
        with self.connect() as connection:
            return apart(connection, time.time)

    @contextmanager
    def counted(self, connection: Connection, kind: KeyKind | None = None) -> Iterator[Metrics]:
        found: Metrics = {}
        before = self.counters(connection, kind) if kind else self.wal(connection)
        yield found
        found |= since(self.counters(connection, kind) if kind else self.wal(connection), before)

    @contextmanager
    def from_checkpoint(self, connection: Connection, kind: KeyKind | None = None) -> Iterator[Metrics]:
        """Count from a checkpoint on, so that each block's first change costs its full-page image."""
        self.checkpoint(connection)
        with self.counted(connection, kind) as found:
            yield found
