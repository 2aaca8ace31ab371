"""A transaction in one message, with a COPY whose rows are passed on as the server sends them."""

import select
from collections.abc import Generator
from contextlib import suppress

import psycopg
from psycopg import pq
from psycopg.abc import Buffer

from inorder.connection.database import Connection

BLOCK_BYTES = 65536

TO_BE_SENT = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_BOTH)

Rows = list[Buffer]


class Stream:
    """Statements of one transaction, sent at once: the server works while the client does something else.

    psycopg's own COPY takes a round trip for each statement, and twice the CPU time for a row.
    """

    def __init__(self, connection: Connection, text: bytes) -> None:
        self.connection = connection
        self.server = connection.pgconn
        self.readable = select.poll()
        self.readable.register(self.server.socket, select.POLLIN)
        self.answer: list[bytes | None] | None = None
        self.send(text)

    def send(self, text: bytes) -> None:
        self.server.send_query(text)
        self.answer = None

    def wait(self) -> None:
        """For more from the server; handlers of signals run meanwhile."""
        self.readable.poll()
        self.server.consume_input()

    def result(self) -> pq.abc.PGresult | None:
        """Of the next statement; None after the last. The error of a statement leaves nothing of the transaction."""
        while self.server.is_busy():
            self.wait()
        result = self.server.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            error = psycopg.errors.error_from_result(result)
            with suppress(psycopg.OperationalError):
                while (rest := self.result()) is not None and rest.status != pq.ExecStatus.COPY_OUT:
                    pass
                self.connection.rollback()
            raise error
        if result is not None and result.status in TO_BE_SENT:  # libpq would say so again and again
            self.connection.close()
            raise psycopg.OperationalError("the server waits for rows, and nobody has any for it")
        return result

    def begin(self) -> list[bytes | None]:
        """Up to a COPY, or to the end: the first row of the last query, as text; nothing if it has none."""
        if self.answer is None:
            self.answer = []
            while (result := self.result()) is not None and result.status != pq.ExecStatus.COPY_OUT:
                if result.status == pq.ExecStatus.TUPLES_OK:
                    columns = result.nfields if result.ntuples else 0
                    self.answer = [result.get_value(0, column) for column in range(columns)]
        return self.answer

    def blocks(self) -> Generator[Rows, None, None]:
        """The rows of the COPY, many at a time, a large one alone; begin() says what comes after it."""
        self.begin()
        rows: Rows = []
        size = 0
        get = self.server.get_copy_data  # looked up once: this loop is most of what a client does for a row
        try:
            while True:
                length, row = get(1)
                if length <= 0:
                    if length < 0:
                        break
                    self.wait()
                    continue
                if size + length > BLOCK_BYTES and rows:
                    yield rows
                    rows, size = [], 0
                # A small row is copied: many views at a time are much to do for the garbage collector.
                rows.append(row if length > BLOCK_BYTES else bytes(row))
                size += length
                del row  # it may be large: not two at a time
        except psycopg.Error:
            raise
        except BaseException:  # an interrupt, or nobody wants the rest
            with suppress(psycopg.Error):
                self.connection.cancel()
            raise
        if rows:
            yield rows
        self.answer = None
        self.begin()
