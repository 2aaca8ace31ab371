"""A session whose statement may wait for another session's lock while this process uses the other sessions."""

import select
from collections.abc import Callable, Iterable, Iterator

from psycopg import errors, pq

from inorder.connection.database import Connection
from inorder.errors import InputError

LOOK_SECONDS = 0.005  # interval between two checks for a statement that waits for a lock
# Errors that other transactions can cause, and after which readers and writers may retry: serialization failure,
# deadlock, transaction already aborted.
FAILED = ("40001", "40P01", "25P02")
# While a COPY is in progress, libpq returns the same result again and again.
COPYING = (pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_BOTH)

Rows = list[tuple[str | None, ...]]


class FailedError(Exception):
    """A statement failed because of concurrent transactions, and its transaction was rolled back."""


class Answer:
    """The column names and the rows of the last result that has columns."""

    def __init__(self, results: Iterable[pq.abc.PGresult]) -> None:
        with_columns = [result for result in results if result.nfields]
        result = with_columns[-1] if with_columns else None
        self.names = [(result.fname(place) or b"").decode() for place in range(result.nfields)] if result else []
        self.rows: Rows = [
            tuple(value.decode() if (value := result.get_value(row, place)) is not None else None
                  for place in range(result.nfields))
            for row in range(result.ntuples)
        ] if result else []  # fmt: skip


class Session:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.server = connection.pgconn
        self.pid = connection.info.backend_pid

    def send(self, sql: str) -> None:
        """Send a statement. If an interrupt left an earlier statement unanswered, cancel that statement first."""
        if self.server.transaction_status == pq.TransactionStatus.ACTIVE:
            self.server.get_cancel().cancel()
            for _ in self.results():
                pass
        self.last_sql = sql
        self.server.send_query(sql.encode())

    def ready(self, seconds: float = 0) -> bool:
        while self.server.is_busy():
            if not select.select([self.server.socket], [], [], seconds)[0]:
                return False
            self.server.consume_input()
        return True

    def wait(self, blockers: Callable[[int], tuple[str, ...]]) -> tuple[str, ...]:
        """Wait until the statement is answered or blocked. Return the sessions that block it, if any."""
        while not self.ready(LOOK_SECONDS):
            if blocking := blockers(self.pid):
                return blocking
        return ()

    def results(self) -> Iterator[pq.abc.PGresult]:
        while (result := self.server.get_result()) is not None:
            if result.status in COPYING:
                self.close()
                raise InputError(f"a statement cannot copy from or to the client: {self.last_sql.strip()}")
            yield result

    def answer(self) -> Answer:
        results = list(self.results())
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                self.fail(result)
        return Answer(results)

    def fail(self, result: pq.abc.PGresult) -> None:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
        if state in FAILED:
            raise FailedError(message)
        kind = type(errors.error_from_result(result)).__name__ if state else "no answer"
        raise InputError(f"{message} ({kind}): {self.last_sql.strip()}")

    def notified(self) -> list[str]:
        payloads = []
        while notification := self.server.notifies():
            payloads.append(notification.extra.decode())
        return payloads

    def run(self, sql: str) -> Answer:
        """Run a statement that waits for no other session."""
        self.send(sql)
        while not self.ready(60):
            pass
        return self.answer()

    def close(self) -> None:
        self.connection.close()
