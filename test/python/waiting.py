"""Waiting for what must happen: files that grow, processes and folders that go."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60


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


def wait_for_more(path: Path) -> None:
    size = path.stat().st_size
    wait_for(lambda: path.stat().st_size > size)
