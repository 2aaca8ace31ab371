"""How long the server takes: CPU time of one of its processes, and the wall clock around single calls."""

import time
from collections.abc import Callable
from pathlib import Path

from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from inorder.database import Connection
from inorder.errors import InorderError


class ServerProcess:
    """The process behind a connection, and what CPU time the kernel says it has had."""

    def __init__(self, connection: Connection) -> None:
        self.accounting = Path(f"/proc/{connection.info.backend_pid}/schedstat")

    def cpu_seconds(self) -> float:
        """CPU time so far: the first field of schedstat, in nanoseconds."""
        try:
            nanoseconds = int(self.accounting.read_text(encoding="ascii").split()[0])
        except OSError as error:
            raise InorderError(f"cannot read the server process's CPU time from {self.accounting}: {error}") from error
        if nanoseconds == 0:
            raise InorderError(f"this kernel accounts no CPU time in {self.accounting}")
        return nanoseconds / 1e9

    def timed(self, work: Callable[[], object]) -> dict[str, float]:
        """Wall-clock seconds of some work, and CPU seconds of the process, which a busy machine disturbs less."""
        cpu, wall = self.cpu_seconds(), time.perf_counter()
        work()
        return {"seconds": time.perf_counter() - wall, "cpu_seconds": self.cpu_seconds() - cpu}


class Prepared:
    """A prepared statement, called with as little of the client in between as pgbench has.

    There is one at a time in a session. An interrupt is heard between two calls.
    """

    NAME = "inorder_lab"

    def __init__(self, connection: Connection, statement: str) -> None:
        self.connection = connection.pgconn
        self.statement = statement
        self.answer: str | None = None  # the first value of the last one

    def __enter__(self) -> "Prepared":
        self.check(self.connection.prepare(self.NAME.encode(), self.statement.encode()))
        return self

    def __exit__(self, *_error: object) -> None:
        self.connection.exec_(f"DEALLOCATE {self.NAME}".encode())

    def __call__(self) -> None:
        """Execute it."""
        result = self.connection.exec_prepared(self.NAME.encode(), [])
        self.check(result)
        value = result.get_value(0, 0) if result.ntuples and result.nfields else None
        self.answer = None if value is None else value.decode()

    def check(self, result: PGresult) -> None:
        """An error unless the server did it."""
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise InorderError(f"{self.statement}: {result.get_error_message()}")

    def repeat(self, calls: int) -> None:
        """Call it so many times."""
        for _ in range(calls):
            self()

    def latencies(self, calls: int, before: Callable[[], object] = lambda: None) -> list[float]:
        """Seconds of each of so many calls, after one that warms up; something may be done before each, not timed."""
        seconds = []
        for _ in range(calls + 1):
            before()
            started = time.perf_counter()
            self()
            seconds.append(time.perf_counter() - started)
        return seconds[1:]
