"""Measurements of time: the CPU time of a server process, the duration of calls, and the difference between clocks."""

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

ENDING_SECONDS = 60  # on a busy machine, a process may wait for the CPU before it exits


class ServerProcess:
    """The backend of a connection, and its CPU time as reported by the kernel."""

    def __init__(self, connection: Connection) -> None:
        self.process = connection.info.backend_pid
        self.accounting = PROC / str(self.process) / "schedstat"

    def cpu_seconds(self) -> float:
        """Wait until the backend waits for its client, and return its CPU time, the first field of schedstat.

        The kernel's total is complete only then, which may be some time after the backend has answered.
        """
        wait_until(self.stands_still, f"the server process {self.process} still runs after {ENDING_SECONDS} s")
        nanoseconds = self.nanoseconds()
        if nanoseconds == 0:
            raise InorderError(f"this kernel reports no CPU time in {self.accounting}")
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
    """Return the CPU seconds of all ended sessions, once only the session of ``connection`` is left.

    The kernel adds the CPU time of a process to its parent when the process is gone. The server removes a session from
    its list while the process is still exiting. This function therefore reads the processes from the kernel, and only
    asks the server which processes are permanent.
    """

    def have_ended() -> bool:
        # The children are read first, so that this function does not wait for a process that starts in the meantime.
        children = children_of(server)
        return children <= {int(row[0]) for row in connection.execute(query("lasting_processes"))}

    wait_until(have_ended, f"sessions of the server have not ended after {ENDING_SECONDS} s")
    fields = stat_of(server)  # cutime and cstime, the CPU time of ended children, are fields 16 and 17
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def wait_until(reached: Callable[[], bool], otherwise: str, seconds: float | None = None) -> None:
    deadline = time.monotonic() + (ENDING_SECONDS if seconds is None else seconds)
    while not reached():
        if time.monotonic() > deadline:
            raise InorderError(otherwise)
        time.sleep(0.005)


class Prepared:
    """A prepared statement that is executed repeatedly. Between calls, the client does as little as pgbench does."""

    NAME = "inorder_lab"

    def __init__(self, connection: Connection, statement: str) -> None:
        self.connection = connection.pgconn
        self.statement = statement
        self.answer: str | None = None  # the first value of the last result

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
        """Return the seconds of each call, after a warm-up call. ``before`` runs before each call, and is not timed."""
        seconds = []
        for _ in range(calls + 1):
            before()
            started = time.perf_counter()
            self()
            seconds.append(time.perf_counter() - started)
        return seconds[1:]


PROC = Path("/proc")
SLEEPING = "S"  # an interruptible sleep, for example while the process waits for its client


def stat_of(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third field, the state. The second field is in parentheses."""
    return (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def children_of(process: int) -> set[int]:
    """Return the children of a process, including zombies."""
    children = set()
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if int(stat_of(int(folder.name))[1]) == process:
                children.add(int(folder.name))
    return children


ROUND_TRIPS = 20  # the fastest round trip is the most accurate


@dataclass(frozen=True)
class Apart:
    """The lower and the upper bound of the seconds by which the server's clock is ahead."""

    least: float
    most: float

    @property
    def seconds(self) -> float:
        return (self.least + self.most) / 2

    @property
    def error(self) -> float:
        return (self.most - self.least) / 2

    def __or__(self, other: "Apart") -> "Apart":
        """Return the union of two ranges, because clocks may drift or be set between two readings.

        >>> Apart(-0.5, 0.5) | Apart(0.0, 2.0)
        Apart(least=-0.5, most=2.0)
        """
        return Apart(min(self.least, other.least), max(self.most, other.most))


SAME = Apart(0.0, 0.0)


def apart(connection: Connection, clock: Callable[[], float]) -> Apart:
    """Return the difference between the clocks, from the fastest of several round trips.

    The server reads its clock during the round trip.
    """
    return min((round_trip(connection, clock) for _ in range(ROUND_TRIPS)), key=lambda difference: difference.error)


def round_trip(connection: Connection, clock: Callable[[], float]) -> Apart:
    before = clock()
    (server,) = one_row(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    after = clock()
    return Apart(server - after, server - before)
