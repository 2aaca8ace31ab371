"""A memory control group for a throw-away server, so that the page cache it uses counts as its memory.

Version 1 (a hierarchy of its own for memory) and version 2 (one for all) of
the kernel's interface: admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2. Where the user
may make none, that is no error: ``place`` says None.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from inorder.errors import InorderError
from inorder.temporary import cleared_after_a_kill

NAME = "inorder-"
PROBE = "probe-of-inorder-"
PROCS = "cgroup.procs"

# A server with 8 sessions needs so much beside shared buffers and page cache.
LEAST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Place:
    """A folder in which a group can be made, and the file of a group that has its limit."""

    folder: Path
    limit_file: str

    def groups(self) -> list[Path]:
        """Those that are there of ours, of other processes and of killed ones."""
        return sorted(self.folder.glob(f"{NAME}*"))


def mounted(mounts: str) -> Iterator[tuple[str, Path]]:
    """Version and folder of the hierarchies with a memory controller, from /proc/mounts.

    >>> list(mounted("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\\ncgroup2 /sys/fs/cgroup/two cgroup2 rw 0 0"))
    [('v1', PosixPath('/sys/fs/cgroup/memory')), ('v2', PosixPath('/sys/fs/cgroup/two'))]
    """
    for line in mounts.splitlines():
        _, folder, kind, options, *_ = [*line.split(), "", "", "", ""]
        if kind == "cgroup" and "memory" in options.split(","):
            yield "v1", Path(folder)
        elif kind == "cgroup2":
            yield "v2", Path(folder)


def own_paths(memberships: str) -> dict[str, str]:
    """The process's own group in each version, from /proc/self/cgroup.

    >>> own_paths("4:memory:/a/b\\n1:cpu:/\\n0::/user.slice")
    {'v1': '/a/b', 'v2': '/user.slice'}
    """
    found = {}
    for line in memberships.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found["v1"] = path
        elif number == "0":
            found["v2"] = path
    return found


def candidates() -> Iterator[Place]:
    """Where a group might be made: below the process's own, or as high as need be."""
    paths = own_paths(Path("/proc/self/cgroup").read_text(encoding="utf-8"))
    for version, root in mounted(Path("/proc/mounts").read_text(encoding="utf-8")):
        own = root / paths.get(version, "/").lstrip("/")
        for folder in [own, *own.parents]:
            if folder.is_relative_to(root) and folder.is_dir():
                if version == "v1":
                    yield Place(folder, "memory.limit_in_bytes")
                elif "memory" in enabled_below(folder):  # and so it has no processes of its own
                    yield Place(folder, "memory.max")


def enabled_below(folder: Path) -> list[str]:
    """The controllers that groups in a folder of version 2 have."""
    try:
        return (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []


def place() -> Place | None:
    """The first place where a group can be made with a limit of its own."""
    try:
        places = list(candidates())
    except OSError:
        return None
    for one in places:
        probe = one.folder / f"{PROBE}{os.getpid()}"
        try:
            probe.mkdir()
        except OSError:
            continue
        limited = os.access(probe / one.limit_file, os.W_OK) and os.access(probe / PROCS, os.W_OK)
        probe.rmdir()
        if limited:
            return one
    return None


class MemoryLimit:
    """A group with a limit; ``take`` puts a server into it, ``close`` removes it once the server has ended."""

    def __init__(self, where: Place, limit: int) -> None:
        for left in where.groups():
            if is_of_the_dead(left):
                with suppress(OSError):
                    left.rmdir()
        self.folder = where.folder / f"{NAME}{os.getpid()}"
        self.folder.mkdir(exist_ok=True)
        self.stack = ExitStack()
        self.stack.enter_context(cleared_after_a_kill(self.folder))
        try:
            (self.folder / where.limit_file).write_text(str(limit), encoding="ascii")
        except OSError as error:
            self.close()
            raise InorderError(f"cannot limit memory to {limit:,} bytes in {self.folder}: {error.strerror}") from error
        # Otherwise what does not fit goes to swap, which may be memory again (zram).
        for name, value in (("memory.swap.max", "0"), ("memory.swappiness", "0")):
            with suppress(OSError):
                (self.folder / name).write_text(value, encoding="ascii")

    def take(self, process: int) -> None:
        """Put a process and its children into the group; later children are born there."""
        for pid in [process, *children_of(process)]:
            with suppress(ProcessLookupError):
                (self.folder / PROCS).write_text(str(pid), encoding="ascii")

    def close(self) -> None:
        """Remove the group."""
        with suppress(OSError):
            self.folder.rmdir()
        self.stack.close()


def is_of_the_dead(group: Path) -> bool:
    """Whether the process that made a group, whose id is in its name, has ended.

    >>> is_of_the_dead(Path(f"{NAME}{os.getpid()}")), is_of_the_dead(Path(f"{NAME}4194305"))
    (False, True)
    """
    return not Path("/proc", group.name.removeprefix(NAME)).exists()


def children_of(process: int) -> list[int]:
    """The processes whose parent it is."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may hold anything; state and parent come behind the last one.
            if int(status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]) == process:
                found.append(int(status.parent.name))
    return found
