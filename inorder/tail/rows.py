"""Read the rows of a batch of a table over one connection."""

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from inorder.connection import patience
from inorder.connection.database import query
from inorder.connection.session import Session, Table
from inorder.connection.stream import Stream
from inorder.connection.unsent import rows_of
from inorder.tail.formats import FORMATS, Format
from inorder.tail.request import Request
from inorder.tail.state import Json

if TYPE_CHECKING:
    from inorder.arrow.reader import ArrowReader

MISFIT = "--format json, csv and binary represent all values. With --misfits null, the value is null."


def arrow_of(request: Request) -> "ArrowReader | None":
    if not FORMATS[request.output].is_arrow:
        return None
    from inorder.arrow.reader import ArrowReader, fields_of_changes  # noqa: PLC0415  # an optional package

    hint = MISFIT if request.misfits == "error" else None
    if request.changes:
        return ArrowReader(hint, fields_of_changes, "reader_changes")
    return ArrowReader(hint)


def changed(session: Session, table: Table) -> psycopg.Error:
    session.connection.rollback()
    return patience.changed(table.shown)


def copied(
    session: Session, table: Table, form: Format, batch: Json | int, stream: Stream | None = None,
    answer: list[bytes | None] | None = None, of_changes: bool = False, after: Json | None = None,
) -> Generator[Any, None, None]:  # fmt: skip
    """Yield the rows of a batch, read with the query in ``answer`` or with a new query.

    Afterwards, ask the server for the query again. Raise an error if it is different: the table was changed meanwhile.
    """
    question = query("tail_changes_again" if of_changes else "tail_again")
    again = session.statement(
        question, columns=form.wanted(table, of_changes), batch=as_text(batch), after=as_text(after)
    )
    if stream is None:
        stream = session.asked(table, again)
        answer = stream.begin()
    if not answer:
        raise changed(session, table)
    rows = sql.SQL(f"({(answer[0] or b'').decode()})")
    text = form.copy(answer, rows)
    stream.send(session.message(text, again, sql.SQL("COMMIT")))
    yield from rows_of(stream, session, table, rows)
    if stream.begin() != answer:
        raise changed(session, table)


def as_text(value: Any) -> str:
    return json.dumps(value)
