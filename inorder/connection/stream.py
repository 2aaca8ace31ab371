"""Send the statements of a transaction in one message, and read the rows of its COPY as the server sends them."""

import select
from collections.abc import Generator
from contextlib import suppress
from itertools import repeat

import psycopg
from psycopg import pq
from psycopg.abc import Buffer

from inorder.connection.database import Connection

BLOCK_BYTES = 65536
ROWS_AT_ONCE = 1000  # rows read before the size of a block is checked

TO_BE_SENT = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_BOTH)


class Rows:
    """Consecutive rows as the server sends them, and the length of each row."""

    def __init__(self, content: Buffer, lengths: list[int]) -> None:
        self.content, self.lengths = content, lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, span: slice) -> "Rows":
        """Return some of the rows without copying them.

        >>> bytes(Rows(b"onetwothree", [3, 3, 5])[1:].content)
        b'twothree'
        """
        first, last = (sum(self.lengths[:place]) for place in span.indices(len(self))[:2])
        return Rows(memoryview(self.content)[first:last], self.lengths[span])


class Stream:
    """Statements of a transaction that are sent together. The server runs them while the client does other work.

    psycopg's COPY takes a round trip for each statement, and twice the CPU time per row.
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
        """Wait for more data from the server. Signal handlers run meanwhile."""
        self.readable.poll()
        self.server.consume_input()

    def result(self) -> pq.abc.PGresult | None:
        """Return the result of the next statement, or None after the last one. An error rolls back the transaction."""
        while self.server.is_busy():
            self.wait()
        result = self.server.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            error = psycopg.errors.error_from_result(result)
            with suppress(psycopg.OperationalError):
                while (next_result := self.result()) is not None and next_result.status != pq.ExecStatus.COPY_OUT:
                    pass
                self.connection.rollback()
            raise error
        if result is not None and result.status in TO_BE_SENT:  # libpq would return the same result forever
            self.connection.close()
            raise psycopg.OperationalError("the server unexpectedly waits for rows from the client")
        return result

    def begin(self) -> list[bytes | None]:
        """Read results up to a COPY, or to the end.

        Return the first row of the last query as text, or an empty list if there are no rows.
        """
        if self.answer is None:
            self.answer = []
            while (result := self.result()) is not None and result.status != pq.ExecStatus.COPY_OUT:
                if result.status == pq.ExecStatus.TUPLES_OK:
                    columns = result.nfields if result.ntuples else 0
                    self.answer = [result.get_value(0, column) for column in range(columns)]
        return self.answer

    def blocks(self) -> Generator[Rows, None, None]:
        """Yield the rows of the COPY in blocks, and read the results after it. A large row is a separate block."""
        self.begin()
        content, lengths, length = bytearray(), list[int](), 0
        try:
            while length >= 0:
                # This loop takes most of the client's time per row.
                for length, row in map(self.server.get_copy_data, repeat(1, ROWS_AT_ONCE)):
                    if not 0 < length <= BLOCK_BYTES:
                        break
                    content += row
                    lengths.append(length)
                if lengths and (length < 0 or max(length, len(content)) > BLOCK_BYTES):
                    yield Rows(content, lengths)
                    content, lengths = bytearray(), []
                if length > BLOCK_BYTES:
                    yield Rows(row, [length])
                elif length == 0:
                    self.wait()
                del row  # free the memory before the next row is read
        except psycopg.Error:
            raise
        except BaseException:  # an interrupt, or the caller stopped reading
            with suppress(psycopg.Error):
                self.connection.cancel()
            raise
        self.answer = None
        self.begin()
