"""How long the server takes: CPU time of a process, the clock around single calls; how far its clock is from ours."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from inorder.connection.database import Connection, one_row, query
from inorder.errors import InorderError

ENDING_SECONDS = 60  # on a busy machine a process may have to wait for the processor before it ends


class ServerProcess:
    """The process behind a connection, and what CPU time the kernel says it has had."""

    def __init__(self, connection: Connection) -> None:
        self.process = connection.info.backend_pid
        self.accounting = PROC / str(self.process) / "schedstat"

    def cpu_seconds(self) -> float:
        """CPU time so far: the first field of schedstat, in nanoseconds, once the process waits for its client.

        The process has already answered, but may have had no time yet to begin to wait. For a process that waits all
        the time, the kernel adds up the time only now and then.
        """
        wait_until(self.stands_still, f"the server process {self.process} still runs after {ENDING_SECONDS} s")
        nanoseconds = self.nanoseconds()
        if nanoseconds == 0:
            raise InorderError(f"this kernel accounts no CPU time in {self.accounting}")
        return nanoseconds / 1e9

    def nanoseconds(self) -> int:
        try:
            return int(self.accounting.read_text(encoding="ascii").split()[0])
        except OSError as error:
            raise InorderError(f"cannot read the server process's CPU time from {self.accounting}: {error}") from error

    def stands_still(self) -> bool:
        before = self.nanoseconds()
        return stat_of(self.process)[0] == SLEEPING and self.nanoseconds() == before

    def timed(self, work: Callable[[], object]) -> dict[str, float]:
        cpu, wall = self.cpu_seconds(), time.perf_counter()
        work()
        wall = time.perf_counter() - wall
        return {"seconds": wall, "cpu_seconds": self.cpu_seconds() - cpu}


def ended_cpu(server: int, connection: Connection) -> float:
    """CPU seconds of the server's processes that have ended: all but the session of the connection, once they have.

    As the kernel adds it up for their parent. It has that of pgbench's sessions, the whole of it, once they are gone:
    the server's list of sessions forgets one while its process still ends. So the processes are read, and which of them
    last, the server is asked.
    """

    def have_ended() -> bool:
        # first, because children that begin afterwards are not among those that were to end
        there = children_of(server)
        return there <= {int(row[0]) for row in connection.execute(query("lasting_processes"))}

    wait_until(have_ended, f"sessions of the server have not ended after {ENDING_SECONDS} s")
    fields = stat_of(server)  # among them cutime and cstime, the 16th and 17th with the two before
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def wait_until(reached: Callable[[], bool], otherwise: str, seconds: float | None = None) -> None:
    deadline = time.monotonic() + (ENDING_SECONDS if seconds is None else seconds)
    while not reached():
        if time.monotonic() > deadline:
            raise InorderError(otherwise)
        time.sleep(0.005)


class Prepared:
    """One statement at a time in a session, called with as little of the client in between as pgbench has."""

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
        result = self.connection.exec_prepared(self.NAME.encode(), [])
        self.check(result)
        value = result.get_value(0, 0) if result.ntuples and result.nfields else None
        self.answer = None if value is None else value.decode()

    def check(self, result: PGresult) -> None:
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise InorderError(f"{self.statement}: {result.get_error_message()}")

    def repeat(self, calls: int) -> None:
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


PROC = Path("/proc")
SLEEPING = "S"  # it waits for something that may take any time, a client for instance


def stat_of(process: int) -> list[str]:
    """The fields of a process's stat from the 3rd on: state, parent …; the 2nd, in brackets, may hold anything."""
    return (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def children_of(process: int) -> set[int]:
    """The processes whose parent it is, also those that have ended and that it has not heard of yet."""
    found = set()
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if int(stat_of(int(folder.name))[1]) == process:
                found.add(int(folder.name))
    return found


LOOKS = 20  # round trips at a time, of which the quickest says most


@dataclass(frozen=True)
class Apart:
    """The server's clock is ahead by at least and at most so many seconds."""

    least: float
    most: float

    @property
    def seconds(self) -> float:
        return (self.least + self.most) / 2

    @property
    def error(self) -> float:
        return (self.most - self.least) / 2

    def __or__(self, other: "Apart") -> "Apart":
        """Both ranges together: between two readings clocks may have drifted, or been set.

        >>> Apart(-0.5, 0.5) | Apart(0.0, 2.0)
        Apart(least=-0.5, most=2.0)
        """
        return Apart(min(self.least, other.least), max(self.most, other.most))


SAME = Apart(0.0, 0.0)


def apart(connection: Connection, clock: Callable[[], float]) -> Apart:
    """The quickest of a few round trips: the server read its clock somewhere between both ends."""
    return min((one_look(connection, clock) for _ in range(LOOKS)), key=lambda found: found.error)


def one_look(connection: Connection, clock: Callable[[], float]) -> Apart:
    before = clock()
    (there,) = one_row(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    after = clock()
    return Apart(there - after, there - before)
