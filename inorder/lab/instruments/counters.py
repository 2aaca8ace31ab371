"""The server's counters before and after a load, and the sizes it leaves.

Exact numbers, not timings: they are the same however busy the machine is.
"""

import time
from dataclasses import asdict, dataclass

import psycopg

from inorder.connection.database import Connection, one_row, query
from inorder.errors import InorderError
from inorder.lab.keys import KeyKind

SETTLE_SECONDS = 10


@dataclass(frozen=True)
class Counters:
    """Totals since the server's statistics began; a difference of two is one load's."""

    wal_bytes: int
    wal_records: int
    full_page_images: int
    index_hits: int
    index_reads: int
    heap_hits: int
    heap_reads: int

    def __sub__(self, before: "Counters") -> "Counters":
        """What has been counted since.

        >>> (Counters(9, 8, 7, 6, 5, 4, 3) - Counters(1, 1, 1, 1, 1, 1, 1)).as_metrics()["wal_bytes"]
        8
        """
        earlier = asdict(before)
        return Counters(**{name: value - earlier[name] for name, value in asdict(self).items()})

    def as_metrics(self) -> dict[str, float]:
        return asdict(self)


def read_counters(connection: Connection, kind: KeyKind) -> Counters:
    """The counters as they stand, once every other session has ended and so reported its own."""
    wait_for_other_sessions(connection)
    row = settled(connection, "counters", {"table": kind.table, "index": kind.index})
    if row is None:
        raise InorderError(f"the server has no statistics of {kind.table}")
    return Counters(*(int(str(value)) for value in row))


@dataclass(frozen=True)
class Wal:
    """WAL written since the server's statistics began; a difference of two is one step's."""

    wal_bytes: int
    wal_records: int
    full_page_images: int

    def __sub__(self, before: "Wal") -> "Wal":
        """What has been written since.

        >>> (Wal(9, 8, 7) - Wal(1, 2, 3)).as_metrics()
        {'wal_bytes': 8, 'wal_records': 6, 'full_page_images': 4}
        """
        return Wal(
            self.wal_bytes - before.wal_bytes,
            self.wal_records - before.wal_records,
            self.full_page_images - before.full_page_images,
        )

    def as_metrics(self) -> dict[str, float]:
        return asdict(self)


def read_wal(connection: Connection) -> Wal:
    """The WAL as it stands, once every other session has ended; for steps on tables without an index."""
    wait_for_other_sessions(connection)
    row = settled(connection, "wal", {})
    assert row is not None
    return Wal(*(int(str(value)) for value in row))


def settled(connection: Connection, name: str, parameters: dict[str, str]) -> tuple[object, ...] | None:
    """What a query of counters returns once it has been run before.

    With checksums the first reading after a checkpoint writes images of the catalog pages whose hint bits it sets:
    20 to 60 kB that the next reading would have, and this one not.
    """
    connection.execute(query(name), parameters)
    report_own(connection)
    return connection.execute(query(name), parameters).fetchone()


def report_own(connection: Connection) -> None:
    """A session adds its counters to the server's once a second, so that the next reading would have them; or now."""
    connection.execute("SELECT pg_stat_force_next_flush()")


def wait_for_other_sessions(connection: Connection) -> None:
    """A session adds its counters to the server's when it ends, a moment after its client is gone."""
    report_own(connection)
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        if connection.execute(query("other_sessions")).fetchone() == (0,):
            return
        time.sleep(0.01)
    raise InorderError(f"other sessions are still connected after {SETTLE_SECONDS} s and would be counted, too")


BLOCK_IO = ("read_bytes", "written_bytes", "evictions")
BLOCK_IO_QUERIES = {18: "block_io", 16: "block_io_16"}  # by the oldest major version that has what it asks for


def read_block_io(connection: Connection) -> dict[str, float]:
    major = connection.info.server_version // 10000
    name = next((name for oldest, name in BLOCK_IO_QUERIES.items() if major >= oldest), None)
    try:
        row = connection.execute(query(name)).fetchone() if name else None
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return dict(zip(BLOCK_IO, (int(str(value)) for value in row), strict=True)) if row else {}


def read_checkpoints(connection: Connection) -> dict[str, float]:
    """Checkpoints that were requested so far, by WAL or by a command."""
    row = connection.execute(query("checkpoints" if connection.info.server_version >= 170000 else "checkpoints_15"))
    return {"checkpoints_requested": int(str((row.fetchone() or (0,))[0]))}


def read_sizes(connection: Connection, kind: KeyKind) -> dict[str, float]:
    table, index = one_row(connection, query("relation_sizes"), {"table": kind.table, "index": kind.index})
    return {"table_bytes": int(table), "index_bytes": int(index)}


def read_leaf_density(connection: Connection, kind: KeyKind) -> dict[str, float]:
    pages = read_index_pages(connection, kind) if kind.index_statements() else {}
    return {name: value for name, value in pages.items() if name == "leaf_density"}


def read_index_pages(connection: Connection, kind: KeyKind) -> dict[str, float]:
    """Number of leaf pages and their density in percent; only what the server can report."""
    try:
        row = one_row(connection, query("index_pages"), {"index": kind.index})
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege):
        return {}  # pgstattuple is missing, or not granted to us: left out, and the report says so
    density = {} if row[0] is None else {"leaf_density": float(str(row[0]))}
    return density | {"leaf_pages": float(str(row[1]))}


def wal_place(connection: Connection) -> str:
    row = one_row(connection, query("wal_place"))
    # Not before it is read: what the server itself logs in between, a snapshot every 15 s, would not be on disk.
    connection.execute("SELECT inorder_internal.make_durable(false)")
    return str(row[0])


class CheckpointMarks:
    """In which seconds of a run a checkpoint ended: asked once a second, each time one more second has passed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.seconds: list[float] = []
        self.now = 0
        self.last = self.redo()

    def redo(self) -> str:
        return str(one_row(self.connection, "SELECT redo_lsn::text FROM pg_control_checkpoint()")[0])

    def look(self) -> None:
        self.now += 1
        redo = self.redo()
        if redo != self.last:
            self.last = redo
            self.seconds.append(float(self.now))
