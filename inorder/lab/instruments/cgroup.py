"""Control groups that limit the memory of a throw-away server, including page cache, or the I/O on its disks.

The kernel's interface has two versions. Version 1 has a hierarchy for each controller, and version 2 has one hierarchy
for all controllers: see admin-guide/cgroup-v1/memory, blkio-controller, and admin-guide/cgroup-v2. ``parent`` returns
None if the user may not create a group.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from inorder.errors import InorderError
from inorder.lab.instruments.timing import children_of
from inorder.lab.server.temporary import cleared_after_a_kill

NAME = "inorder-"
PROBE = "probe-of-inorder-"
PROCS = "cgroup.procs"

# The memory that a server with 8 sessions needs in addition to shared buffers and page cache.
LEAST_BYTES = 64 * 2**20

# The name of each controller in versions 1 and 2, and the file that contains its limit.
MEMORY, IO = "memory", "io"
CONTROLLERS = {
    (MEMORY, "v1"): ("memory", "memory.limit_in_bytes"), (MEMORY, "v2"): ("memory", "memory.max"),
    (IO, "v1"): ("blkio", "blkio.throttle.read_iops_device"), (IO, "v2"): ("io", "io.max"),
}  # fmt: skip


@dataclass(frozen=True)
class Parent:
    """A folder in which a group with a controller can be created, and the version of the interface."""

    folder: Path
    version: str
    controller: str = MEMORY

    @property
    def limit_file(self) -> str:
        return CONTROLLERS[self.controller, self.version][1]

    def groups(self) -> list[Path]:
        return sorted(self.folder.glob(f"{NAME}*"))


def mounted(mounts: str, controller: str) -> Iterator[tuple[str, Path]]:
    """Yield the version and the folder of each hierarchy in /proc/mounts that has, or may have, a controller.

    >>> mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\\ncgroup2 /sys/fs/cgroup/two cgroup2 rw 0 0"
    >>> list(mounted(mounts, MEMORY))
    [('v1', PosixPath('/sys/fs/cgroup/memory')), ('v2', PosixPath('/sys/fs/cgroup/two'))]
    >>> list(mounted(mounts, IO))
    [('v2', PosixPath('/sys/fs/cgroup/two'))]
    """
    for line in mounts.splitlines():
        _, folder, kind, options, *_ = [*line.split(), "", "", "", ""]
        if kind == "cgroup" and CONTROLLERS[controller, "v1"][0] in options.split(","):
            yield "v1", Path(folder)
        elif kind == "cgroup2":
            yield "v2", Path(folder)


def own_paths(memberships: str, controller: str) -> dict[str, str]:
    """Return the group of this process in each version, from /proc/self/cgroup.

    >>> own_paths("4:memory:/a/b\\n1:cpu:/\\n0::/user.slice", MEMORY)
    {'v1': '/a/b', 'v2': '/user.slice'}
    """
    paths = {}
    for line in memberships.splitlines():
        number, controllers, path = line.split(":", 2)
        if CONTROLLERS[controller, "v1"][0] in controllers.split(","):
            paths["v1"] = path
        elif number == "0":
            paths["v2"] = path
    return paths


def candidates(controller: str) -> Iterator[Parent]:
    paths = own_paths(Path("/proc/self/cgroup").read_text(encoding="utf-8"), controller)
    for version, root in mounted(Path("/proc/mounts").read_text(encoding="utf-8"), controller):
        own = root / paths.get(version, "/").lstrip("/")
        for folder in [own, *own.parents]:
            # In version 2, a group that enables controllers for its children cannot contain processes itself.
            if folder.is_relative_to(root) and folder.is_dir() and (
                version == "v1" or CONTROLLERS[controller, version][0] in enabled_below(folder)
            ):  # fmt: skip
                yield Parent(folder, version, controller)


def enabled_below(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []


def parent(controller: str = MEMORY) -> Parent | None:
    try:
        places = list(candidates(controller))
    except OSError:
        return None
    for place in places:
        probe = place.folder / f"{PROBE}{os.getpid()}"
        try:
            probe.mkdir()
        except OSError:
            continue
        limited = os.access(probe / place.limit_file, os.W_OK) and os.access(probe / PROCS, os.W_OK)
        probe.rmdir()
        if limited:
            return place
    return None


class ControlGroup:
    """A group with limits. ``take`` adds a server to the group. ``close`` removes the group after the server has ended.

    ``memory_bytes``: the memory limit for all processes together, or 0.
    """

    def __init__(self, where: Parent, memory_bytes: int = 0) -> None:
        self.memory_bytes = memory_bytes
        for group in where.groups():
            if not Path("/proc", group.name.removeprefix(NAME)).exists():
                with suppress(OSError):
                    group.rmdir()
        self.folder = where.folder / f"{NAME}{os.getpid()}"
        self.folder.mkdir(exist_ok=True)
        self.lifting: list[tuple[str, str]] = []  # pairs of a file and the value that removes the limit
        self.stack = ExitStack()
        self.stack.enter_context(cleared_after_a_kill(self.folder))

    def limit(self, file: str, value: str, action: str) -> None:
        try:
            (self.folder / file).write_text(value, encoding="ascii")
        except OSError as error:
            self.close()
            raise InorderError(f"cannot {action} in {self.folder}: {error.strerror}") from error

    def take(self, process: int) -> None:
        for pid in [process, *children_of(process)]:
            with suppress(ProcessLookupError):
                (self.folder / PROCS).write_text(str(pid), encoding="ascii")

    @property
    def kills(self) -> int:
        """The number of processes that the kernel killed because the group exceeded its memory limit."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                events = dict(line.split() for line in (self.folder / name).read_text(encoding="ascii").splitlines())
                return int(events.get("oom_kill", 0))
        return 0

    def lift(self) -> None:
        for file, value in self.lifting:
            self.limit(file, value, "remove a limit")

    def close(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()
        self.stack.close()


def memory_limit(where: Parent, limit: int) -> ControlGroup:
    group = ControlGroup(where, limit)
    group.limit(where.limit_file, str(limit), f"limit memory to {limit:,} bytes")
    # Without these settings, memory above the limit would be swapped out, perhaps to memory (zram).
    for name, value in (("memory.swap.max", "0"), ("memory.swappiness", "0")):
        with suppress(OSError):
            (group.folder / name).write_text(value, encoding="ascii")
    return group


def iops_limit(where: Parent, disks: Sequence[str], iops: int) -> ControlGroup:
    """Return a group that limits each disk ("major:minor") to ``iops`` reads and ``iops`` writes per second."""
    group = ControlGroup(where)
    for disk in disks:
        for file, value in iops_files(where.version, iops):
            group.limit(file, f"{disk} {value}", f"limit disk {disk} to {iops:,} reads and writes a second")
        group.lifting += [(file, f"{disk} {value}") for file, value in iops_files(where.version, None)]
    return group


def iops_files(version: str, iops: int | None) -> list[tuple[str, str]]:
    """Return pairs of a file and the limit to write into it, after the number of a disk. None removes the limit.

    >>> iops_files("v2", 9)
    [('io.max', 'riops=9 wiops=9')]
    >>> iops_files("v1", 9)[0]
    ('blkio.throttle.read_iops_device', '9')
    >>> iops_files("v2", None)
    [('io.max', 'riops=max wiops=max')]
    """
    if version == "v2":
        return [("io.max", f"riops={iops or 'max'} wiops={iops or 'max'}")]
    return [(f"blkio.throttle.{operation}_iops_device", str(iops or 0)) for operation in ("read", "write")]
