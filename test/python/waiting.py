"""Functions that wait for expected events: files that grow, processes that end, folders that vanish."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from inorder.connection.database import Connection, connect, one_row

# Seconds to wait for an event before the test fails. CI may be three times slower than a developer's machine, and may
# stall for twenty seconds.
PATIENCE = 180
T = TypeVar("T")


def running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(pid)


def wait_until_empty(folder: Path) -> bool:
    deadline = time.monotonic() + PATIENCE
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not list(folder.iterdir())


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def blocked(call: Callable[..., T], session: Connection, *arguments: object) -> Iterator[Future[T]]:
    """Make a call in another thread. The block begins when a session blocks the call or the call has ended."""
    blockers, process = "SELECT cardinality(pg_blocking_pids(%s)) > 0", session.info.backend_pid
    with connect(session.info.dsn) as watcher, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, session, *arguments)
        wait_for(lambda: waiting.done() or one_row(watcher, blockers, [process])[0])
        yield waiting


def wait_for_more(path: Path) -> None:
    size = path.stat().st_size
    wait_for(lambda: path.stat().st_size > size)
