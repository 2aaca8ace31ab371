"""Read a table from positions that the reader stores: the queries for Spark and dlt.

The server returns a position as JSON. The reader sends it back unchanged, but without the origin if any origin is
accepted.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg

from inorder.connection.database import ServerRow, query
from inorder.connection.patience import TRIES, attempts
from inorder.connection.session import Session, Table, explained, may_pass
from inorder.errors import InorderError

ACCEPTANCE = "the option accept_origin"
MOST_DIGITS = 38  # maximum number of digits of a decimal in Spark, Arrow and dlt

Result = TypeVar("Result")


@dataclass(frozen=True)
class TableColumn:
    """A column of a table. Type names are None for types that are not built in."""

    name: str
    written: str  # the type in SQL syntax
    type: str | None  # for a domain, its base type
    modifier: int = -1
    element: str | None = None  # the element type of an array
    is_key: bool = False  # True if the primary key contains the column
    is_array: bool = False
    labels: tuple[str, ...] = ()  # the labels of an enum, or of an array of enums
    fields: tuple["TableColumn", ...] = ()  # the attributes of a composite type

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a numeric. None if the precision is missing, or too large for Spark, Arrow and dlt.

        >>> TableColumn("n", "numeric(12,2)", "numeric", (12 << 16 | 2) + 4).decimal
        (12, 2)
        """
        digits, scale = (self.modifier - 4) >> 16 & 0xFFFF, (self.modifier - 4) & 0x7FF
        is_declared = self.type == "numeric" and self.modifier >= 0
        return (digits, scale) if is_declared and scale <= digits <= MOST_DIGITS else None


@dataclass(frozen=True)
class Slice:
    """A batch, or a part of a batch. A standby must have replayed the WAL up to ``lsn`` before it can be read there."""

    batch: str
    lsn: str


class LazySession:
    """A session that is opened on first use, and reopened after a lost connection. Threads take turns using it."""

    def __init__(self, dsn: str, kind: type[Session] = Session) -> None:
        self.dsn, self.kind = dsn, kind
        self.session: Session | None = None
        self.turn = threading.RLock()

    def open(self) -> Session:
        if self.session is None or self.session.connection.closed:
            self.session = self.kind(self.dsn)
        return self.session

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()


class Reader:
    """A table on a server, in a session that is opened on first use, and reopened after a lost connection.

    Once a query has succeeded, each query is tried up to ten times, for half a minute, while the server restarts or
    resolves a conflict. Readers of several tables on a server may share a session.
    """

    def __init__(self, at: str | LazySession, table: str, accept_origin: bool = False) -> None:
        self.lazy = at if isinstance(at, LazySession) else LazySession(at)
        self.name, self.accept_origin = table, accept_origin
        self.opened_table: Table | None = None

    def close(self) -> None:
        self.lazy.close()

    def ask(self, step: Callable[[Session, Table], Result]) -> Result:
        for _ in attempts():
            with self.lazy.turn:
                try:
                    return step(*self.opened())
                except psycopg.Error as error:
                    self.close()
                    if self.opened_table is None or not may_pass(error):
                        raise explained(error, ACCEPTANCE) from error
                    reason = error
        raise InorderError(f"the server did not answer in {TRIES} tries: {reason}") from reason

    def opened(self) -> tuple[Session, Table]:
        session = self.lazy.open()
        if self.opened_table is None:
            self.opened_table = session.table(self.name)
        return session, self.opened_table

    def table(self) -> Table:
        return self.ask(lambda _, table: table)

    def log(self) -> "Reader":
        log = self.ask(lambda session, table: session.log(table))
        return Reader(self.lazy, log.quoted, self.accept_origin)

    def require_logged(self, log: "Reader", position: str) -> None:
        """Raise an error if changes may be missing from the log."""
        number, usable_position = log.table().oid, log.usable(position)

        def step(session: Session, table: Table) -> None:
            with in_one_snapshot(session):
                session.row(query("reader_changes_next"), table=table.oid, log=number, position=usable_position)

        self.ask(step)

    def rows(self, name: str, **parts: object) -> list[ServerRow]:
        return self.ask(lambda session, table: session.rows(query(name), table=table.oid, **parts))

    def columns(self) -> list[TableColumn]:
        return columns_of(self.rows("reader_columns"))

    def start(self, where: str) -> str:
        """Return the position at the ``beginning`` or, for ``now``, after all transactions that have ended."""
        ((position,),) = self.rows("reader_start", start=where, order_by=None)
        return str(position)

    def usable(self, position: str) -> str:
        """Return the position to send to the server: without its origin, if another origin is accepted."""
        return json.dumps(json.loads(position) | {"origin": None}) if self.accept_origin else position

    def has_rows(self, position: str, wait: float = 0) -> bool:
        """Return whether rows follow the position, or arrive within ``wait`` seconds."""
        parts = {"position": self.usable(position), "wait": f"{wait} s"}
        rows = self.ask(lambda session, table: session.waited(query("reader_has_rows"), table=table.oid, **parts))
        return any(has_rows for (has_rows,) in rows)

    def next(self, position: str, max_rows: int | None, whole: bool = False, until: str | None = None) -> str | None:
        """Return the position after the next batch of transactions that had ended at ``until``, or None at the end."""
        name = "reader_next" if until is None else "reader_next_until"
        end = {} if until is None else {"until": until}

        def step(session: Session, table: Table) -> str | None:
            with nullcontext() if until is None else in_one_snapshot(session):
                (next_position,) = session.row(
                    query(name), table=table.oid, position=self.usable(position), max_rows=max_rows, whole=whole, **end
                )
            return None if next_position is None else str(next_position)

        return self.ask(step)

    def backlog(self, position: str) -> tuple[int, int | None]:
        """Return the number of transactions that have ended since the position, and the number of their rows.

        Rows are counted up to 10,000. If the number of rows is unknown, it is None.
        """
        ((transactions, rows),) = self.rows("reader_backlog", position=self.usable(position))
        return transactions, rows

    def slices(self, start: str, end: str, parts: int = 1) -> list[Slice]:
        rows = self.rows("reader_parts", start=self.usable(start), until=self.usable(end), parts=parts)
        return [Slice(*row) for row in rows]


@contextmanager
def in_one_snapshot(session: Session) -> Iterator[None]:
    """Let all functions use the snapshot of the transaction, instead of taking their own."""
    session.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        yield
    finally:
        if not session.connection.closed:
            session.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED


def columns_of(rows: Sequence[ServerRow]) -> list[TableColumn]:
    """Build the columns from the rows of reader_columns.

    >>> columns_of([("n", "bigint", "int8", -1, None, True, False, None, None)])[0].is_key
    True
    """
    return [
        TableColumn(name, written, kind, modifier, element, is_key, is_array, tuple(listed(labels)),
                    tuple(TableColumn(*field) for field in listed(fields)))
        for name, written, kind, modifier, element, is_key, is_array, labels, fields in rows
    ]  # fmt: skip


def listed(text: str | None) -> list[Any]:
    values: list[Any] = json.loads(text) if text else []
    return values
