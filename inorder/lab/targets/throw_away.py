"""A throw-away server as a target. Everything is allowed, and no other program has sessions."""

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from psycopg import sql
from psycopg.conninfo import make_conninfo

from inorder.connection.database import Connection, connect, literal, query
from inorder.lab.instruments import waldump
from inorder.lab.instruments.counters import wal_place
from inorder.lab.instruments.machine import DeviceTimes, describe_machine, read_device
from inorder.lab.instruments.timing import SAME, Apart, ServerProcess, ended_cpu
from inorder.lab.plan.keys import SCHEMA, KeyKind
from inorder.lab.plan.turn import Measured
from inorder.lab.results.result import Result
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.server_settings import Small, serve_measured
from inorder.lab.targets.target import Counts, Target, with_settings

CONTRIB = ("pgstattuple", "uuid-ossp")  # pgstattuple measures leaf density; uuid-ossp generates keys for study P1
TABLESPACE = sql.Identifier("inorder_indexes")

# A role that can measure and create tables in its database, but cannot access files or run programs.
ROLE = ("CREATE ROLE {} LOGIN", "GRANT pg_monitor, pg_checkpoint TO {}", "GRANT CREATE ON DATABASE postgres TO {}")


class ThrowAway(Target):
    is_superuser = True
    work_mem = "2GB"
    marks_checkpoints = True

    def __init__(self, cluster: Cluster, role: str = "") -> None:
        self.cluster = cluster
        self.role = role
        self.folder = cluster.folder

    def connect(self, **settings: str) -> Connection:
        return with_settings(connect(self.dsn), settings)

    @cached_property
    def dsn(self) -> str:
        if not self.role:
            return self.cluster.dsn
        with connect(self.cluster.dsn) as session:
            for text in ROLE:
                session.execute(sql.SQL(text).format(sql.Identifier(self.role)))
        return make_conninfo(self.cluster.dsn, user=self.role)

    def program(self, name: str) -> Path:
        return self.cluster.original.program(name)

    def environment(self) -> dict[str, str]:
        return self.cluster.environment() | ({"PGUSER": self.role} if self.role else {})

    def serve(self, settings: Mapping[str, str]) -> None:
        self.cluster.restart(settings)

    def serve_small(self, small: Small, more: Mapping[str, str] | None = None) -> None:
        if self.cluster.process is not None:
            self.cluster.stop()
            os.sync()  # filling flushed nothing, and its pages must not be written back during a measurement
        serve_measured(self.cluster, small, more)

    def end_throttling(self) -> None:
        if self.cluster.limit:
            self.cluster.limit.lift()

    def create_schema(self, connection: Connection) -> None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        with connect(self.cluster.dsn) as session:
            for name in ("inorder", *filter(self.cluster.server.has_extension, CONTRIB)):
                session.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))

    def tablespace(self, connection: Connection, folder: str) -> str:
        place = self.cluster.outside(Path(folder))
        connection.execute(sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(TABLESPACE, sql.Literal(str(place))))
        return TABLESPACE.as_string(connection)

    def checkpoint(self, connection: Connection) -> None:
        connection.execute("CHECKPOINT")

    def note(self, result: Result) -> None:
        result.machine, original = describe_machine(self.cluster.folder), self.cluster.original
        with connect(self.cluster.dsn) as connection:
            settings = {str(name): str(value) for name, value in connection.execute(query("settings"))}
        result.server = {"version": original.version, "origin": original.origin, "settings": settings}

    def file_folder(self, name: str, needed: int = 0) -> Path:
        """Create a folder that the server's account may write to.

        Free space was checked before the server was created.
        """
        folder = super().file_folder(name)
        if self.cluster.account:
            os.chown(folder, self.cluster.account.pw_uid, self.cluster.account.pw_gid)
        return folder

    def copy_out(self, session: Connection, source: str, file: Path | None) -> int:
        return session.execute(f"COPY {source} TO {literal(str(file or os.devnull))}".encode()).rowcount

    def copy_in(self, session: Connection, table: str, file: Path) -> int:
        return session.execute(f"COPY {table} FROM {literal(str(file))}".encode()).rowcount

    def timed(self, session: Connection, work: Callable[[], object]) -> dict[str, float]:
        return ServerProcess(session).timed(work)

    def ended_cpu(self, connection: Connection) -> float | None:
        assert self.cluster.process is not None
        return ended_cpu(self.cluster.process.pid, connection)

    def device(self, folder: str = "") -> DeviceTimes | None:
        return read_device(Path(folder or self.cluster.data))

    def wal_place(self, connection: Connection) -> str:
        if not self.role:
            return wal_place(connection)
        with connect(self.cluster.dsn) as session:  # the role has no privilege to flush WAL
            return wal_place(session)

    def wal_since(self, connection: Connection, kind: KeyKind, place: str) -> Measured:
        span = self.span(connection, place)
        metrics, row = waldump.split(span), connection.execute(query("relation_file"), {"index": kind.index}).fetchone()
        if row is None:
            return Measured(metrics)
        return Measured(metrics | {"touched_blocks": len(waldump.touched(span, str(row[0])))})

    def span(self, connection: Connection, place: str) -> waldump.Span:
        return waldump.Span(self.program("pg_waldump"), self.cluster.data / "pg_wal", place, self.wal_place(connection))

    def wal_by_file(self, connection: Connection, place: str) -> Mapping[str, Counts]:
        return waldump.by_relation(self.span(connection, place))

    def clock(self) -> Apart:
        return SAME
