"""The server that a bench works on, as far as it differs whose it is: a throw-away one, or the user's own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from inorder.cluster import Cluster
from inorder.database import Connection, connect
from inorder.lab.counters import read_counters, read_wal
from inorder.lab.extensions import create_extensions
from inorder.lab.keys import SCHEMA, KeyKind
from inorder.lab.machine import note_server
from inorder.lab.results import Result
from inorder.lab.timing import EndedSessions, ServerProcess

Counts = Mapping[str, float]


class Place(Protocol):
    """What the benches need of a server. What a place cannot see is missing from what it counts."""

    @property
    def folder(self) -> Path:
        """A folder on this machine for scripts and logs, removed afterwards."""

    @property
    def cluster(self) -> Cluster | None:
        """The throw-away server, whose files and processes may be looked at; None if it is not one."""

    @property
    def database(self) -> str:
        """What pgbench is given as its database; "" where the environment says it all."""

    @property
    def marks_checkpoints(self) -> bool:
        """Whether it tells when a checkpoint has ended."""

    def program(self, name: str) -> Path:
        """One of PostgreSQL's programs."""

    def environment(self) -> dict[str, str]:
        """The environment in which they reach this server."""

    def connect(self, **settings: str) -> Connection:
        """A new autocommit connection, with settings that any session may make."""

    def serve(self, settings: Mapping[str, str]) -> None:
        """Start the server anew with these settings, if it may be."""

    def create_schema(self, connection: Connection) -> None:
        """The lab's schema, if it is not there yet."""

    def create_extensions(self, connection: Connection) -> None:
        """Those the lab uses, if they may be made."""

    def checkpoint(self, connection: Connection) -> None:
        """Make a checkpoint, if that is allowed."""

    def counters(self, connection: Connection, kind: KeyKind) -> Counts:
        """WAL and blocks counted so far, once this run's other sessions have ended."""

    def wal(self, connection: Connection) -> Counts:
        """WAL counted so far, likewise."""

    def timed(self, session: Connection, work: Callable[[], object]) -> dict[str, float]:
        """How long the session takes for some work."""

    def ended_cpu(self, connection: Connection) -> float | None:
        """CPU seconds of the sessions that have ended, all but this one, if they can be seen."""

    def note(self, result: Result) -> None:
        """Note the server and its settings as they are now."""


def since(after: Counts, before: Counts) -> dict[str, float]:
    """What has been counted between two readings.

    >>> since({"wal_records": 9}, {"wal_records": 2}), since({}, {})
    ({'wal_records': 7}, {})
    """
    return {name: value - before[name] for name, value in after.items()}


def with_settings(connection: Connection, settings: Mapping[str, str]) -> Connection:
    """The connection, its session set so; closed if that fails."""
    try:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    except BaseException:
        connection.close()
        raise
    return connection


class ThrowAway:
    """A Place of the lab's own: all is allowed, and every other session is this run's."""

    database = ""
    marks_checkpoints = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder

    def program(self, name: str) -> Path:
        """Of the server itself."""
        return self.cluster.original.program(name)

    def environment(self) -> dict[str, str]:
        """That of the cluster."""
        return self.cluster.environment()

    def connect(self, **settings: str) -> Connection:
        """As its superuser."""
        return with_settings(connect(self.cluster.dsn), settings)

    def serve(self, settings: Mapping[str, str]) -> None:
        """Stop it cleanly if it runs, then start it."""
        self.cluster.restart(settings)

    def create_schema(self, connection: Connection) -> None:
        """If it is not there."""
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())

    def create_extensions(self, connection: Connection) -> None:
        """Ours, and pgstattuple if this server has it."""
        create_extensions(connection, self.cluster.server)

    def checkpoint(self, connection: Connection) -> None:
        """At once."""
        connection.execute("CHECKPOINT")

    def counters(self, connection: Connection, kind: KeyKind) -> Counts:
        """Of the whole server, and of one table and its index."""
        return read_counters(connection, kind).as_metrics()

    def wal(self, connection: Connection) -> Counts:
        """Of the whole server."""
        return read_wal(connection).as_metrics()

    def timed(self, session: Connection, work: Callable[[], object]) -> dict[str, float]:
        """By the wall clock, and by the CPU time of the session's process."""
        return ServerProcess(session).timed(work)

    def ended_cpu(self, connection: Connection) -> float | None:
        """As the kernel adds it up."""
        assert self.cluster.process is not None
        return EndedSessions(self.cluster.process.pid).cpu_seconds(connection)

    def note(self, result: Result) -> None:
        """With where its programs come from."""
        note_server(self.cluster, result)


class Bench:
    """What an experiment does to a place."""

    place: Place

    def close(self) -> None:
        """When the experiment has ended; here no session is open between turns."""


def place_of(server: Cluster | Place) -> Place:
    """A cluster as a place."""
    return ThrowAway(server) if isinstance(server, Cluster) else server
