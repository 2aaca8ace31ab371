"""The output formats for rows."""

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from psycopg import sql
from psycopg.abc import Buffer

from inorder.connection.database import query
from inorder.connection.session import Table
from inorder.connection.stream import Rows
from inorder.errors import InorderError

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control characters that a terminal interprets
NOT_COPIED = sql.SQL("")
ALL = sql.SQL("SELECT {table}::pg_catalog.oid::pg_catalog.regclass AS relation, 'e.*'::pg_catalog.text AS columns")

BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no header extension
BINARY_TRAILER = b"\xff\xff"
ARROW_TRAILER = b"\xff\xff\xff\xff\0\0\0\0"

Pieces = Generator[tuple[Buffer, Any], None, None]  # pairs: the header of the output, and either rows or an Arrow batch


def pieces_of_text(blocks: Iterable[Rows]) -> Pieces:
    for rows in blocks:
        yield b"", rows
        del rows  # free the memory before more rows are read


def pieces_of_csv(blocks: Iterable[Rows]) -> Pieces:
    header: Buffer | None = None
    for rows in blocks:
        first = int(header is None)
        header = rows[:1].content if header is None else header
        yield header, rows[first:]
        del rows


def pieces_of_binary(blocks: Iterable[Rows]) -> Pieces:
    """Yield the rows of a binary COPY without its header and its trailer.

    The server sends the header together with the first row, and the trailer as the last message.

    >>> rows = Rows(BINARY_HEADER + b"onethree" + BINARY_TRAILER, [len(BINARY_HEADER) + 3, 5, 2])
    >>> [(header == BINARY_HEADER, bytes(rows.content), rows.lengths) for header, rows in pieces_of_binary([rows])]
    [(True, b'onethree', [3, 5])]
    """
    size = len(BINARY_HEADER)
    for rows in blocks:
        if rows.content[:size] != BINARY_HEADER[:size]:
            raise InorderError("the server sent rows that are not in the format of binary COPY")
        body = Rows(memoryview(rows.content)[size:], [rows.lengths[0] - size, *rows.lengths[1:]])
        size = 0
        yield BINARY_HEADER, body[: len(body) - (body.content[-body.lengths[-1] :] == BINARY_TRAILER)]
        del rows, body


def pieces_of_arrow(batches: Iterable[Any]) -> Pieces:
    header: Buffer | None = None
    for batch in batches:
        if header is None:
            header = header_of(batch)
        yield header, batch


def header_of(batch: Any) -> Buffer:
    """Return the start of an Arrow stream: the schema, the labels of enums, and an empty batch."""
    import pyarrow as pa  # noqa: PLC0415  # an optional package, which other formats do not need

    empty = [
        pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), column.dictionary)
        if pa.types.is_dictionary(column.type) else pa.nulls(0, column.type)
        for column in batch.columns
    ]  # fmt: skip
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(empty, schema=batch.schema))
    written: bytes = sink.getvalue().to_pybytes()
    return written.removesuffix(ARROW_TRAILER)


def serialized(batch: Any) -> Buffer:
    return memoryview(batch.serialize()).cast("B")


@dataclass(frozen=True)
class Format:
    """An output format: the query for its columns, its COPY options, and how rows are framed."""

    columns: sql.SQL
    options: sql.SQL
    pieces: Callable[[Iterable[Any]], Pieces] = pieces_of_text
    content: Callable[[Any], Buffer] = attrgetter("content")
    trailer: bytes = b""  # bytes that end an output: no rows can follow
    starts: tuple[bytes, ...] = ()  # a format without a header: each row starts with one of these
    same_bytes: int = 0  # number of leading bytes that all rows of an output have in common
    frames: int = 0  # number of server messages that are not rows
    is_arrow: bool = False
    escape: str = ""  # how control characters are escaped on a terminal; empty for binary formats

    def shown(self, content: Buffer) -> Buffer:
        r"""Escape the control characters in whole rows for a terminal, as psql does.

        >>> FORMATS["json"].shown('{"a":"\x7f\x9b2J ü"}'.encode()).decode()
        '{"a":"\\u007f\\u009b2J ü"}'
        >>> FORMATS["csv"].shown(b"a\x1b[2J\xff,\t1\n")
        b'a\\x1b[2J\\xff,\t1\n'
        """
        if not self.escape:
            return content
        text = bytes(content).decode(errors="backslashreplace")
        return OBEYED.sub(lambda match: self.escape.format(ord(match[0])), text).encode()

    def wanted(self, table: Table, of_changes: bool = False) -> sql.Composed:
        return self.columns.format(table=table.oid, of_changes=of_changes)

    def copy(self, answer: list[bytes | None], rows: sql.Composable) -> sql.Composed:
        """Build the COPY statement for a row query. The last column of the server's answer is the select list."""
        columns = sql.SQL((answer[-1] or b"").decode())
        return query("tail_rows").format(columns=columns, rows=rows, options=self.options)


# JSON never contains the characters \x01 and \x02. With these as CSV quote and delimiter, COPY writes JSON unchanged.
# Each row of a binary COPY begins with its number of columns: same_bytes compares these two bytes.
FORMATS = {
    "json": Format(
        query("tail_json"), sql.SQL(r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'"), starts=(b'{"', b"{}"),
        escape=r"\u{:04x}",
    ),
    "csv": Format(ALL, sql.SQL("FORMAT csv, HEADER"), pieces_of_csv, frames=1, escape=r"\x{:02x}"),
    "binary": Format(
        ALL, sql.SQL("FORMAT binary"), pieces_of_binary, trailer=BINARY_TRAILER, same_bytes=2, frames=1
    ),
    "arrow": Format(ALL, NOT_COPIED, pieces_of_arrow, serialized, trailer=ARROW_TRAILER, is_arrow=True),
    "parquet": Format(ALL, NOT_COPIED, pieces_of_arrow, lambda _batch: b"", is_arrow=True),
}  # fmt: skip
