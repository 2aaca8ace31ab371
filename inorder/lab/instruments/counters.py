"""The server's counters before and after a load, the resulting sizes, and the output of VACUUM VERBOSE.

The numbers are exact: unlike times, they do not depend on other load on the machine.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg.errors import Diagnostic

from inorder.connection.database import Connection, one_row, query
from inorder.errors import InorderError
from inorder.lab.instruments.timing import wait_until
from inorder.lab.plan.keys import KeyKind

SESSION_SECONDS = 10  # a session of this run must end within this number of seconds
WAL = ("wal_bytes", "wal_records", "full_page_images")
BLOCKS = ("index_hits", "index_reads", "heap_hits", "heap_reads")


def read_wal(connection: Connection, application: str = "") -> dict[str, float]:
    """Return the WAL counters of the whole server, after other sessions have ended."""
    wait_for_sessions(connection, application)
    return read_numbers(connection, "wal", WAL, {})


def read_blocks(connection: Connection, kind: KeyKind, application: str = "") -> dict[str, float]:
    """Return the block counters of a table and its index. Read the WAL counters later, because the query writes WAL."""
    wait_for_sessions(connection, application)
    return read_numbers(connection, "blocks", BLOCKS, {"table": kind.table, "index": kind.index})


def read_numbers(
    connection: Connection, name: str, columns: Sequence[str], parameters: Mapping[str, str]
) -> dict[str, float]:
    """Return the counters that a query returns. Run the query twice; the first run is a warm-up.

    With checksums, the first reading after a checkpoint sets hint bits on catalog pages, and writes 20 to 60 kB of
    full-page images of these pages. Without the warm-up, the next reading would count these images.
    """
    connection.execute(query(name), parameters)
    report_own(connection)
    row = connection.execute(query(name), parameters).fetchone()
    if row is None:
        raise InorderError(f"the server has no statistics of {parameters['table']}")
    return {column: int(value) for column, value in zip(columns, row, strict=True)}


def report_own(connection: Connection) -> None:
    """Report the counters of this session now. The session might otherwise report them later, during a measurement."""
    connection.execute("SELECT pg_stat_force_next_flush()")


def wait_for_sessions(connection: Connection, application: str) -> None:
    """Wait until all sessions of an application have ended. An empty string stands for all applications.

    A session reports its counters when it ends.
    """
    report_own(connection)
    pooled = "; is a connection pooler in between?" if application else ""
    wait_until(
        lambda: connection.execute(query("other_sessions"), {"name": application}).fetchone() == (0,),
        f"other sessions are still connected after {SESSION_SECONDS} s and would be counted, too{pooled}",
        SESSION_SECONDS,
    )


BLOCK_IO = ("read_bytes", "written_bytes", "evictions")
BLOCK_IO_QUERIES = {18: "block_io", 16: "block_io_16"}  # queries by the first major version that has their columns


def read_block_io(connection: Connection) -> dict[str, float]:
    major = connection.info.server_version // 10000
    name = next((name for oldest, name in BLOCK_IO_QUERIES.items() if major >= oldest), None)
    try:
        row = connection.execute(query(name)).fetchone() if name else None
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return dict(zip(BLOCK_IO, (int(value) for value in row), strict=True)) if row else {}


def read_checkpoints(connection: Connection) -> dict[str, float]:
    row = connection.execute(query("checkpoints" if connection.info.server_version >= 170000 else "checkpoints_15"))
    return {"checkpoints_requested": int((row.fetchone() or (0,))[0])}


def read_sizes(connection: Connection, kind: KeyKind) -> dict[str, float]:
    table, index = one_row(connection, query("relation_sizes"), {"table": kind.table, "index": kind.index})
    return {"table_bytes": int(table), "index_bytes": int(index)}


def read_leaf_density(connection: Connection, kind: KeyKind) -> dict[str, float]:
    pages = read_index_pages(connection, kind) if kind.index_statements() else {}
    return {name: value for name, value in pages.items() if name == "leaf_density"}


def read_index_pages(connection: Connection, kind: KeyKind) -> dict[str, float]:
    """Return the number of leaf pages and their density in percent, if the server can report them."""
    try:
        row = one_row(connection, query("index_pages"), {"index": kind.index})
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege):
        return {}  # pgstattuple is missing, or not granted to this role, as a note in the report says
    density = {} if row[0] is None else {"leaf_density": float(row[0])}
    return density | {"leaf_pages": float(row[1])}


def wal_place(connection: Connection) -> str:
    row = one_row(connection, query("wal_place"))
    # Flush after reading the position, because WAL that the server itself writes in between, such as a snapshot every
    # 15 s, must be on disk, too.
    connection.execute("SELECT inorder_internal.make_durable(false)")
    return str(row[0])


class CheckpointMarks:
    """The seconds of a run in which a checkpoint ended. ``second`` must be called once per second."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.seconds: list[float] = []
        self.now = 0
        self.last = self.redo()

    def redo(self) -> str:
        return str(one_row(self.connection, "SELECT redo_lsn::text FROM pg_control_checkpoint()")[0])

    def second(self) -> None:
        self.now += 1
        redo = self.redo()
        if redo != self.last:
            self.last = redo
            self.seconds.append(float(self.now))


# VACUUM of a table with one index. Its output contains page counts of the index.
VERBOSE = "VACUUM (VERBOSE, INDEX_CLEANUP ON) {table}"
PAGES = re.compile(r'index "[^"]*": pages: \d+ in total, (\d+) newly deleted, (\d+) currently deleted, (\d+) reusable')
# The number of index pages that this VACUUM deleted, that are currently deleted, and that can be reused.
FREED = ("newly_deleted", "deleted", "reusable")


def primary_message(notices: list[str]) -> Callable[[Diagnostic], None]:
    return lambda diagnostic: notices.append(diagnostic.message_primary or "")


def index_pages(notices: list[str]) -> dict[str, int]:
    """Return the page counts in the notices of VACUUM (VERBOSE, INDEX_CLEANUP ON) of a table with one index.

    >>> index_pages(['finished\\nindex "t_pkey": pages: 30 in total, 3 newly deleted, 4 currently deleted, 0 reusable'])
    {'newly_deleted': 3, 'deleted': 4, 'reusable': 0}
    >>> index_pages([])
    Traceback (most recent call last):
    inorder.errors.InorderError: VACUUM VERBOSE did not report the number of freed index pages: []
    """
    matches = PAGES.findall("\n".join(notices))
    if len(matches) != 1:
        raise InorderError(f"VACUUM VERBOSE did not report the number of freed index pages: {notices}")
    return dict(zip(FREED, map(int, matches[0]), strict=True))
