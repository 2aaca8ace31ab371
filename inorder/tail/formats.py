"""The formats in which rows are written."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from psycopg import sql

from inorder.connection.database import query
from inorder.connection.session import Table
from inorder.connection.stream import Rows
from inorder.errors import InorderError

ALL = sql.SQL("SELECT {table}::pg_catalog.oid::pg_catalog.regclass AS relation, 'e.*'::pg_catalog.text AS columns")

BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # without flags, and nothing after it
BINARY_TRAILER = b"\xff\xff"


def as_they_come(blocks: Iterable[Rows]) -> Iterable[Rows]:
    return blocks


def rows_of_binary(blocks: Iterable[Rows]) -> Generator[Rows, None, None]:
    """The header, which the server sends with the first row, as a message of its own; and no trailer, its last message.

    >>> list(rows_of_binary([[BINARY_HEADER + b"one", b"two"], [b"three", BINARY_TRAILER]])) == [
    ...     [BINARY_HEADER, b"one", b"two"], [b"three"]]
    True
    """
    is_first = True
    for rows in blocks:
        if is_first:
            rows[:1] = [rows[0][: len(BINARY_HEADER)], rows[0][len(BINARY_HEADER) :]]
            if rows[0] != BINARY_HEADER:
                raise InorderError("the server sent rows of another format than that of its binary COPY")
            is_first = False
        if rows[-1] == BINARY_TRAILER:
            rows.pop()
        yield rows


@dataclass(frozen=True)
class Format:
    """How the server writes a row: a query for what of it, and options of COPY; and what is around the rows."""

    columns: sql.SQL
    options: sql.SQL
    has_header: bool
    rows: Callable[[Iterable[Rows]], Iterable[Rows]] = as_they_come
    empty_header: bytes = b""  # of an output without rows
    trailer: bytes = b""  # at the end of an output

    def wanted(self, table: Table) -> sql.Composed:
        return self.columns.format(table=table.oid)

    def copy(self, answer: list[bytes | None], rows: sql.Composable) -> sql.Composed:
        """The COPY of rows, of which the server has said last what is wanted."""
        columns = sql.SQL((answer[-1] or b"").decode())
        return query("tail_rows").format(columns=columns, rows=rows, options=self.options)


# JSON has neither \x01 nor \x02 in it, so that CSV with these leaves it as it is.
FORMATS = {
    "json": Format(query("tail_json"), sql.SQL(r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"), has_header=False),
    "csv": Format(ALL, sql.SQL("FORMAT csv, HEADER"), has_header=True),
    "binary": Format(
        ALL, sql.SQL("FORMAT binary"), has_header=True, rows=rows_of_binary, empty_header=BINARY_HEADER,
        trailer=BINARY_TRAILER,
    ),
    "parquet": Format(ALL, sql.SQL("FORMAT csv"), has_header=False),  # of which the tool makes files
}  # fmt: skip
