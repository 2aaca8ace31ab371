"""A role's session: its statements, and the outcome of each one."""

import os
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

INTERRUPT_SECONDS = 4.0
TERMINATE_SECONDS = 12.0
LOOK_SECONDS, LONGEST_LOOK = 0.2, 0.5
KEPT = 5000  # number of statements
MOST_ROWS = 5000


@dataclass(frozen=True)
class Outcome:
    statement: str
    seconds: float  # without the time that the server process waited for a CPU
    state: str = ""  # SQLSTATE, or empty
    message: str = ""
    source: str = ""  # file and function of the server that raised the error
    rows: tuple[tuple[str | None, ...], ...] = ()

    @property
    def ok(self) -> bool:
        return not self.state


def seconds_in_queue(pid: int) -> float:
    """Return how many seconds a process has waited for a CPU; 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Watchdog:
    """Cancels a statement that takes too long; if it continues, terminates the session.

    Time when the machine is suspended does not count.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.looked, self.lost = time.monotonic(), 0.0  # time of the last check; seconds lost while suspended
        self.began: dict[int, float] = {}
        self.queued: dict[int, float] = {}  # pid -> seconds waited for a CPU before the first check of a statement
        self.ended = Event()
        self.thread = Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            with self.lock:
                self.lost, self.looked = self._lost(), time.monotonic()
                for pid, began in self.began.items():
                    elapsed = self._now() - began
                    self.queued.setdefault(pid, seconds_in_queue(pid))
                    if elapsed > INTERRUPT_SECONDS:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGTERM if elapsed > TERMINATE_SECONDS else signal.SIGINT)

    def _lost(self) -> float:
        return self.lost + max(time.monotonic() - self.looked - LONGEST_LOOK, 0.0)

    def _now(self) -> float:
        return time.monotonic() - self._lost()

    def begin(self, pid: int) -> None:
        with self.lock:
            self.began[pid] = self._now()

    def end(self, pid: int) -> float:
        with self.lock:
            elapsed = self._now() - self.began.pop(pid)
            before = self.queued.pop(pid, None)
        return elapsed if before is None else elapsed - max(seconds_in_queue(pid) - before, 0.0)

    def close(self) -> None:
        self.ended.set()
        self.thread.join()


@dataclass
class Session:
    """A connection of a role. Statements without parameters use the simple query protocol."""

    role: str
    connection: psycopg.Connection[tuple[object, ...]]
    watchdog: Watchdog
    pid: int  # process ID of the server process
    statements: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def lost(self) -> bool:
        return self.connection.pgconn.status != pq.ConnStatus.OK

    @property
    def failed(self) -> bool:
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR

    @property
    def idle(self) -> bool:
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def run(self, statement: str, parameters: list[bytes | None] | None = None, quiet: bool = False) -> Outcome:
        if not quiet:
            self.statements.append(statement)
        connection, text = self.connection.pgconn, statement.encode()
        elapsed = 0.0
        self.watchdog.begin(self.pid)
        try:
            if parameters is None:
                result = connection.exec_(text)
            else:
                result = connection.exec_params(text, parameters, param_formats=[1] * len(parameters))
        finally:
            elapsed = self.watchdog.end(self.pid)
        return outcome(statement, elapsed, result, self.lost)

    def close(self) -> None:
        self.connection.close()


def outcome(statement: str, elapsed: float, result: pq.abc.PGresult, lost: bool) -> Outcome:
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY):
        rows = tuple(
            tuple(text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(min(result.ntuples, MOST_ROWS))
        )
        return Outcome(statement, elapsed, rows=rows)

    def said(name: pq.DiagnosticField) -> str:
        return text(result.error_field(name)) or ""

    state = said(pq.DiagnosticField.SQLSTATE) or ("08006" if lost else "?")
    message = said(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message.decode(errors="replace")
    place = (pq.DiagnosticField.SOURCE_FILE, pq.DiagnosticField.SOURCE_LINE, pq.DiagnosticField.SOURCE_FUNCTION)
    source = " ".join(said(name) for name in place)
    return Outcome(statement, elapsed, state, message, source)


def text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode(errors="replace")


def open_session(dsn: str, role: str, watchdog: Watchdog) -> Session:
    connection = psycopg.connect(make_conninfo(dsn, user=role), autocommit=True, application_name=f"fuzz {role}")
    return Session(role, connection, watchdog, connection.info.backend_pid)
