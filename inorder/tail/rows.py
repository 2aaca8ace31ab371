"""The rows of a batch, on one connection, or its parts on several at the same time, handed out in their order."""

import json
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from inorder.connection import patience
from inorder.connection.database import query
from inorder.connection.session import Session, Table, rows_of, same_server
from inorder.connection.stream import Stream
from inorder.tail.formats import FORMATS, Format
from inorder.tail.request import Request
from inorder.tail.state import Json

if TYPE_CHECKING:
    from inorder.arrow.reader import ArrowReader

MISFIT = "--format json, csv and binary have all values. With --misfits null the value is null."
# Somebody who waits to change the table lets a further reader wait, too, and himself waits for those that read.
PATIENCE_OF_A_JOB = "SET LOCAL lock_timeout = '1s'"


def arrow_of(request: Request, *settings: str) -> "ArrowReader | None":
    if not FORMATS[request.output].is_arrow:
        return None
    from inorder.arrow.reader import ArrowReader, fields_of_changes  # noqa: PLC0415  # for who asks for it

    hint = MISFIT if request.misfits == "error" else None
    if request.changes:
        return ArrowReader(hint, fields_of_changes, settings, "reader_changes")
    return ArrowReader(hint, settings=settings)


def changed(session: Session, table: Table) -> psycopg.Error:
    session.connection.rollback()
    return patience.changed(table.shown)


class JobSession(Session):
    settings = (PATIENCE_OF_A_JOB,)


class PartReader:
    """Reads parts of batches for one job, on a connection to the server of a session."""

    def __init__(self, session: Session, table: Table, request: Request) -> None:
        self.table, self.form = table, FORMATS[request.output]
        self.arrow = arrow_of(request, PATIENCE_OF_A_JOB)
        self.session = session if self.arrow else JobSession(same_server(session))
        connected = self.arrow or self.session
        self.cancel, self.close = connected.cancel, connected.close

    def rows(self, part: Json) -> Generator[Any, None, None]:
        try:
            if self.arrow is not None:
                yield from self.arrow.of_batch(self.session, self.table, as_text(part))
            else:
                yield from copied(self.session, self.table, self.form, part)
        except psycopg.errors.LockNotAvailable as error:
            raise psycopg.errors.SerializationFailure(f"{self.table.shown} is to be changed") from error


def copied(
    session: Session, table: Table, form: Format, batch: Json | int, stream: Stream | None = None,
    answer: list[bytes | None] | None = None, of_changes: bool = False, after: Json | None = None,
) -> Generator[Any, None, None]:  # fmt: skip
    """The rows of a batch, by the query that the server has given in this stream, or gives now, and once more after."""
    question = query("tail_changes_again" if of_changes else "tail_again")
    again = session.statement(
        question, columns=form.wanted(table, of_changes), batch=as_text(batch), after=as_text(after)
    )
    if stream is None:
        stream = session.asked(table, again)
        answer = stream.begin()
    if not answer:
        raise changed(session, table)
    text = form.copy(answer, sql.SQL(f"({(answer[0] or b'').decode()})"))
    stream.send(session.message(text, again, sql.SQL("COMMIT")))
    yield from rows_of(stream)
    if stream.begin() != answer:
        raise changed(session, table)


def as_text(value: Any) -> str:
    return json.dumps(value)


AHEAD_BYTES = 8 * 1024 * 1024  # of rows that wait for their turn, for each job


class Stopped(Exception):  # noqa: N818  # no error: nobody wants the rows any more
    pass


class Part:
    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.blocks: deque[Any] = deque()  # Rows, or batches of Arrow
        self.is_read = False


class Relay:
    """Parts on their way from the jobs to the output. A job that is far ahead of the output waits."""

    def __init__(self, batches: Sequence[Any], most_bytes: int) -> None:
        self.parts = [Part(batch) for batch in batches]
        self.todo = deque(self.parts)
        self.current, self.most_bytes, self.held = self.parts[0], most_bytes, 0
        self.error: BaseException | None = None  # the first one of a job, or Stopped
        self.moved = threading.Condition()

    def put(self, part: Part, block: Any) -> None:
        """The part that the output has reached never waits for the others."""
        with self.moved:
            self.moved.wait_for(lambda: self.error or self.held + block.nbytes <= self.most_bytes
                                or (part is self.current and not part.blocks))  # fmt: skip
            if self.error:
                raise Stopped
            part.blocks.append(block)
            self.held += block.nbytes
            self.moved.notify_all()

    def end(self, part: Part) -> None:
        with self.moved:
            part.is_read = True
            self.moved.notify_all()

    def fail(self, error: BaseException) -> None:
        with self.moved:
            self.error = self.error or error
            self.moved.notify_all()

    def blocks(self, part: Part) -> Generator[Any, None, None]:
        self.current = part
        while True:
            with self.moved:
                self.moved.notify_all()
                self.moved.wait_for(lambda: self.error or part.blocks or part.is_read)
                if self.error:
                    raise self.error
                if not part.blocks:
                    return
                block = part.blocks.popleft()
                self.held -= block.nbytes
            yield block
            del block  # it may be large: not two at a time


class Jobs:
    def __init__(self, count: int, reader: Callable[[], PartReader]) -> None:
        self.count, self.reader = count, reader
        self.readers: dict[int, PartReader] = {}  # of each job, kept for the next batch

    def parts(self, batches: Sequence[Any]) -> Generator[Generator[Any, None, None], None, None]:
        """The rows of each part in turn; close it: an error of a job, or that nobody wants the rest, ends all jobs."""
        relay = Relay(batches, self.count * AHEAD_BYTES)
        jobs = [threading.Thread(target=self.work, args=(relay, job), daemon=True) for job in range(self.count)]
        for job in jobs:
            job.start()
        try:
            for part in relay.parts:
                with closing(relay.blocks(part)) as blocks:
                    yield blocks
        except BaseException:
            relay.fail(Stopped())
            self.cancel()
            raise
        finally:
            for job in jobs:
                job.join()
            if relay.error:
                self.close()

    def work(self, relay: Relay, job: int) -> None:
        try:
            if job not in self.readers:
                self.readers[job] = self.reader()
            while relay.todo and not relay.error:
                with suppress(IndexError):  # another job was faster
                    self.read(relay, self.readers[job], relay.todo.popleft())
        except BaseException as error:  # it is raised where the rows are taken
            relay.fail(error)

    def read(self, relay: Relay, reader: PartReader, part: Part) -> None:
        with closing(reader.rows(part.batch)) as blocks:
            for block in blocks:
                relay.put(part, block)
                del block
        relay.end(part)

    def cancel(self) -> None:
        for reader in list(self.readers.values()):
            with suppress(psycopg.Error):
                reader.cancel()

    def close(self) -> None:
        while self.readers:
            self.readers.popitem()[1].close()
