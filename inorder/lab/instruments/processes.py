"""Processes of this machine, as /proc shows them."""

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
SLEEPING = "S"  # it waits for something that may take any time, a client for instance


def state_and_parent(status: str) -> tuple[str, int]:
    """Of a process's stat: the 2nd field, a name in parentheses, may hold anything.

    >>> state_and_parent("7 (a) b) S 1 2 3")
    ('S', 1)
    """
    state, parent = status.rpartition(")")[2].split()[:2]
    return state, int(parent)


def status_of(process: int) -> str:
    return (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")


def children_of(process: int) -> set[int]:
    """The processes whose parent it is, also those that have ended and that it has not heard of yet."""
    found = set()
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if state_and_parent(status_of(int(folder.name)))[1] == process:
                found.add(int(folder.name))
    return found
