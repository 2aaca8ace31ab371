"""Sources whose position is in a file: a table, or its changes. The module ``feed`` has the source for a feed."""

import json
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg

from inorder.connection.database import query
from inorder.connection.patience import patiently
from inorder.connection.session import Session, Table
from inorder.connection.stream import Stream
from inorder.errors import InputError
from inorder.tail.formats import FORMATS
from inorder.tail.position import PositionFile
from inorder.tail.request import MOST_ROWS, Request
from inorder.tail.rows import arrow_of, as_text, copied
from inorder.tail.shards_state import ShardsState
from inorder.tail.source import Batch, Source
from inorder.tail.state import Json, Mark, Pending, State, decode, encode, order_of
from inorder.text import one_line, quoted

# A batch for a file may be larger than requested, because the file does not show where batches end. Limits: the number
# of rows, the size, and the ratio to the rows of the previous batch.
JOINED_ROWS, JOINED_BYTES, JOINED_BATCHES = 1_000_000, 100_000_000, 10
SAVE_SECONDS = 0.2  # seconds between two saves while batches are written to a file


def require_position_in(table: Table, state: State | ShardsState, file: PositionFile) -> None:
    if (state.database, state.table) != (table.database, table.quoted):
        place = f"{one_line(state.table)} in the database {quoted(state.database)}"
        changed = ["database"] * (state.database != table.database) + ["table"] * (state.table != table.quoted)
        raise InputError(
            f"{file.given_path} is the position in {place}, not in {table.shown} in {quoted(table.database)}\n"
            f"HINT:  Give another --position. If the {' or the '.join(changed)} was renamed, or restored under another "
            f"name, change {' and '.join(map(quoted, changed))} in {file.given_path}."
        )


class TableSource(Source):
    question = "tail_batch"

    def __init__(
        self, request: Request, name: str, file: PositionFile, saved: State | None, sync_output: Callable[[], None]
    ) -> None:
        self.request, self.name, self.file, self.saved, self.sync_output = request, name, file, saved, sync_output
        self.form, self.arrow = FORMATS[request.output], arrow_of(request)
        self.is_new = saved is None
        self.state = saved.without_origin() if saved and request.accept_origin else saved
        self.accepts_table = request.accept_table
        self.begun = saved.pending.start if saved and saved.pending else None
        self.unsaved = self.knows_output = False
        self.saved_at = 0.0
        self.stream: Stream | None = None  # reads the next batch, or the batch just returned
        self.query: list[bytes | None] = []  # the row query for the batch in ``stream``, and its select list
        self.max_rows = self.stream_rows = request.batch_rows  # row limits for the next batch and for ``stream``
        self.joined_rows = 0  # row limit for the next batch, if its rows go to a file
        # upper limit of ``max_rows``: halved when the server cuts off a read, doubled after a batch of this size
        self.limit = MOST_ROWS
        self.latest: Batch | None = None  # the batch that this run requested last

    def lock(self) -> int:
        return self.file.descriptor

    def output(self) -> Mark | None:
        state = self.file.kept(decode)
        return state.output if state else None

    def attach(self, session: Session) -> None:
        self.session = session
        self.stream = None
        self.table = session.table(self.name)
        self.numbered = table = self.numbered_table()
        if self.state is None:
            start, order_by = self.request.start, self.request.order_by
            (position,) = session.row(query("reader_start"), table=table.oid, start=start, order_by=order_by)
            self.save(State(table.database, table.quoted, json.loads(position)))
        else:
            require_position_in(table, self.state, self.file)
            self.check_kept(self.state)
            self.check_order(self.state)
            if self.accepts_table:
                self.accept_table(self.state)

    def accept_table(self, state: State) -> None:
        """Accept the changed table once. The rows of an unfinished batch are removed, or delivered again."""
        statement = query("reader_seek")
        (position,) = self.session.row(statement, table=self.numbered.oid, position=as_text(state.position))
        self.save(replace(state, position=json.loads(position), pending=None))
        self.accepts_table = False

    def check_name(self) -> None:
        self.session.check_name(self.table)

    def numbered_table(self) -> Table:
        """Return the table whose transactions the positions contain."""
        return self.table

    def check_order(self, state: State) -> None:
        order_by = order_of(state.position)
        if (requested := self.request.order_by) not in (None, order_by):
            order = f"column {one_line(order_by)}" if order_by else "transactions"
            raise InputError(
                f"{self.file.given_path} has a position in the order of {order}, not in the order of column {requested}"
            )

    def check_kept(self, state: State) -> None:
        """Check that the server can read all positions in the file."""
        pending = state.pending
        batch, after = (as_text(pending.batch), as_text(pending.after)) if pending else (None, None)
        damaged = f"cannot use {self.file.given_path}: it is damaged, or not a position file: "
        try:
            readable, follows = self.session.row(
                query("tail_kept"), position=as_text(state.position), batch=batch, after=after
            )
        except psycopg.DataError as error:
            raise InputError(damaged + str(error)) from error
        if not readable or not follows:
            problem = "invalid position" if not readable else "its batch does not end at the next position"
            raise InputError(damaged + problem)

    @property
    def present(self) -> State:
        assert self.state is not None
        return self.state

    def save(self, state: State, lasting: bool = True) -> None:
        """Flush the output to which the state refers, then save the state on disk and in this object."""
        self.sync_output()
        self.store(state, lasting)
        self.state = self.saved = state
        self.saved_at = time.monotonic()
        self.unsaved = False

    def store(self, state: State, lasting: bool) -> None:
        self.file.save(encode(state), lasting)

    def next(self) -> Batch | None:
        if pending := self.present.pending:
            is_ours = self.latest is not None and self.latest.batch == pending.batch
            return self.latest if is_ours else batch_of(pending.batch, pending.after)
        self.latest = patiently(self.session.connection, self.look_for_batch)
        return self.latest

    def look_for_batch(self) -> Batch | None:
        """Return the batch after the position. Its rows are read in the same transaction."""
        stream, self.stream = self.stream or self.ask(self.present.position, self.max_rows), None
        answer = stream.begin()
        if not answer:
            stream.send(b"COMMIT")
            stream.begin()
            return None
        batch, after, *self.query = answer
        assert batch is not None and after is not None
        self.stream = stream
        return batch_of(json.loads(batch), json.loads(after), self.stream_rows)

    def ask(self, position: Json, max_rows: int) -> Stream:
        self.stream_rows = max_rows = min(max_rows, self.limit)
        question = self.session.statement(
            query(self.question), columns=self.form.wanted(self.table, self.request.changes), log=self.numbered.oid,
            position=as_text(position), max_rows=max_rows, whole=self.request.whole,
        )  # fmt: skip
        return self.session.asked(self.table, question)

    def rows(self, batch: Batch) -> Generator[Any, None, None]:
        """Yield the rows, read with the query that the server returned with the batch."""
        if self.arrow is not None:
            self.end_question()
            of_batch = self.arrow.of_batch(self.session, self.table, as_text(batch.batch), as_text(batch.after))
            for rows in of_batch:
                # Request the next batch only after the first rows have arrived. Otherwise the connection that reads the
                # rows could wait for an ALTER TABLE, and the ALTER TABLE for the transaction of that request: a
                # deadlock.
                if self.stream is None and self.asks_ahead and self.is_behind:
                    self.ask_ahead(batch)
                yield rows
            return
        stream, self.stream = self.stream, None
        of_changes = self.request.changes
        yield from copied(self.session, self.table, self.form, batch.batch, stream, self.query, of_changes, batch.after)

    def end_question(self) -> None:
        """End the transaction of the query: another connection reads the rows, or the batch is out of date."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.begin()
            stream.send(b"COMMIT")
            stream.begin()

    def expect(self, batch: Batch, size: int) -> None:
        self.joined_rows = min(JOINED_ROWS, JOINED_BYTES * batch.full // size, JOINED_BATCHES * batch.full)
        if self.stream is None:
            self.ask_ahead(batch)

    def ask_ahead(self, batch: Batch) -> None:
        """Request the next batch in its own transaction. If the request fails, next() reports the error."""
        with suppress(psycopg.OperationalError):
            self.stream = self.ask(batch.after, max(self.joined_rows, self.max_rows))

    def forget_ahead(self) -> None:
        """Drop the batch requested in advance if the last batch was not full. A later query may find more rows."""
        if not self.is_behind:
            with suppress(psycopg.Error):  # next() requests the batch again
                self.end_question()

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        """Store the batch in the position file, so that after a crash the next run begins with it or an earlier batch.

        The next run removes the rows after the saved state from an output file, and delivers them again. Within a run,
        it is therefore enough to save the state from time to time, after one fsync() of the output. Only the first save
        waits until the rename of the position file is on disk, because the earlier state does not refer to this output
        file.
        """
        assert not isinstance(batch.batch, int)
        pending = Pending(batch.batch, batch.after, start)
        state = replace(self.present, pending=pending, output=output or self.present.output)
        is_recent = self.saved is not None and self.saved.pending and time.monotonic() - self.saved_at < SAVE_SECONDS
        if start is not None and self.knows_output and is_recent:
            self.state, self.unsaved = state, True
        else:
            self.save(state, lasting=start is None or not self.knows_output)
        self.knows_output = start is not None

    def finish(self, batch: Batch, output: Mark | None) -> None:
        """Move the position past the batch. Save the position if the output is not a file."""
        state = replace(self.present, position=batch.after, pending=None, output=output or self.present.output)
        if output is None:
            self.save(state)
        else:
            self.state, self.unsaved = state, True
        if self.is_behind and batch.full == self.limit:
            self.limit = min(2 * self.limit, MOST_ROWS)
        self.forget_ahead()

    def shrink(self, batch: Batch) -> int | None:
        if batch.full < 2:  # a batch of an earlier run has 0
            return None
        with suppress(psycopg.OperationalError):
            self.end_question()
        self.limit = batch.full // 2
        self.forget_begun()
        return self.limit

    def forget_begun(self) -> None:
        if self.state is not None:
            self.state, self.knows_output = replace(self.state, pending=None), False

    def flush(self) -> None:
        """Save the position after the last batch, or before a batch whose read was cut off."""
        if self.unsaved:
            self.save(self.present)

    def skip(self, batch: Batch) -> None:
        self.state = replace(self.present, position=batch.after, pending=None)
        self.forget_ahead()

    def wait(self) -> None:
        self.session.waited(query("tail_wait"), table=self.numbered.oid, position=as_text(self.present.position))

    def end(self) -> None:
        if self.state is not None and self.state != self.saved:
            self.save(self.state)


class ChangesSource(TableSource):
    question = "tail_changes"
    is_fixed = False

    def numbered_table(self) -> Table:
        return self.session.log(self.table)

    def look_for_batch(self) -> Batch | None:
        """Return the next batch of changes. The server reports whether the batch includes all changes.

        The number of rows does not show this, because several entries of the change log may result in one row.
        """
        batch = super().look_for_batch()
        if batch is None:
            return None
        *self.query, has_all = self.query
        return replace(batch, is_part=has_all != b"t")

    def begin(self, batch: Batch, start: str | None, output: Mark | None) -> None:
        """Save the first bytes of the batch before they reach the output.

        A batch of changes may differ when it is read again.
        """
        if self.present.pending is not None:
            self.knows_output = False
        super().begin(batch, start, output)


def batch_of(batch: Json, after: Json, full: int = 0) -> Batch:
    ordering = batch.get("ordering") or {}
    is_part = any(ordering.get(end) is not None for end in ("from_value", "next_value"))
    return Batch(batch, after, full, is_part)
