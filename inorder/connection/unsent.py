"""Find the row of a batch that the server could not send, and name it in the error."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql

from inorder.connection.database import query
from inorder.connection.reading import columns_of
from inorder.connection.session import Session, Table, explained
from inorder.connection.stream import Rows, Stream
from inorder.text import listed

NO_TEXT = ("22021", "22P05")  # bytes that are invalid in the server's encoding, or that UTF-8 cannot represent
AS_TEXT = sql.SQL("pg_catalog.format('%s', e.{})")
LARGE = (
    "The text of a row must be smaller than 1 GB; a byte of bytea takes two characters. --format binary, arrow and "
    "parquet deliver a row that is smaller than 1 GB in binary form. --batch-rows 1 delivers the rows before this row, "
    "unless an unfinished batch contains all of them."
)
NO_LETTERS = (
    "The server does not convert text (its encoding is {encoding}), and these bytes are not UTF-8. --format arrow and "
    "parquet deliver the row with --misfits null: the value is null."
)


def is_too_large(error: psycopg.Error) -> bool:
    return error.sqlstate == "54000" or (
        isinstance(error, psycopg.errors.InternalError_) and "invalid memory alloc request size" in str(error)
    )


@contextmanager
def named(session: Session, table: Table, rows: Sequence[sql.Composable]) -> Iterator[None]:
    """Name the row that the server could not send: raise an error with its key and the column with invalid text.

    ``rows`` has the FROM item of each query so far. The last item belongs to the query that failed.
    """
    try:
        yield
    except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.InternalError_, psycopg.DataError) as error:
        if not (is_too_large(error) or error.sqlstate in NO_TEXT) or not rows:
            raise
        encoding = session.connection.info.parameter_status("server_encoding")
        hint = LARGE if is_too_large(error) else NO_LETTERS.format(encoding=encoding)
        place = where(session, table, rows[-1], has_columns=not is_too_large(error))
        failure = explained(error)
        raise type(failure)(f"{failure}{place}\nHINT:  {hint}") from error


def where(session: Session, table: Table, rows: sql.Composable, has_columns: bool) -> str:
    """Return a DETAIL line that names the row and, if known, the column. Return "" if the connection was lost."""
    with suppress(psycopg.Error):
        columns = columns_of(session.rows(query("reader_columns"), table=table.oid))
        place = first_unsent(session, table, rows)
        names = [column.name for column in columns if has_columns and not is_sent(session, rows, place, column.name)]
        column = f"column {listed(names)} of " if names else ""
        keys = [column.name for column in columns if column.is_key]
        values = [sent(session, rows, place, name) for name in keys]
        key = f"the row ({listed(keys)}) = ({listed(values)})" if keys else f"row {place + 1:,} of the batch"
        return f"\nDETAIL:  The error is in {column}{key}."
    return ""


def first_unsent(session: Session, table: Table, rows: sql.Composable) -> int:
    """Return the number of rows that the server sends before the row that it cannot send."""
    text = query("tail_rows").format(columns=sql.SQL("e.*"), rows=rows, options=sql.SQL("FORMAT csv"))
    count = 0
    try:
        for block in session.held(table, text).blocks():
            count += len(block)
    except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.InternalError_, psycopg.DataError):
        return count
    finally:
        session.connection.rollback()
    return count


def sent(session: Session, rows: sql.Composable, place: int, name: str) -> str:
    """Return a value of a row as text. No cast is used, because a cast could call a user-defined function."""
    value = AS_TEXT.format(sql.Identifier(name))
    with session.transaction():
        row = session.connection.execute(
            sql.SQL("SELECT {} FROM {} AS e OFFSET {} LIMIT 1").format(value, rows, sql.Literal(place))
        ).fetchone()
    return str(row[0]) if row else ""


def is_sent(session: Session, rows: sql.Composable, place: int, name: str) -> bool:
    try:
        sent(session, rows, place, name)
    except psycopg.DataError:
        return False
    return True


def rows_of(stream: Stream, session: Session, table: Table, rows: sql.Composable) -> Generator[Rows, None, None]:
    with named(session, table, [rows]):
        yield from stream.blocks()
