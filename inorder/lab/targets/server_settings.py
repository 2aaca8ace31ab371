"""Settings of a throw-away server, for filling and for measuring."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.instruments import cgroup
from inorder.lab.instruments.machine import disk_of
from inorder.lab.results.result import CGROUP, DIRECT_IO, EXACT_COUNTERS, MOST_WAL
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import service_account, takes_direct_io, temporary_folder


@dataclass(frozen=True)
class Small:
    """The resources of a server that is smaller than its tables.

    * ``memory_bytes``: the total memory.
    * ``iops``: the limit on reads per second and on writes per second for each disk, or None.
    * ``tablespace``: the folder of a tablespace, or "".
    * ``page_cache``: bytes of page cache in addition to the memory, or None for no page cache or an unlimited one.
    """

    memory_bytes: int
    iops: int | None = None
    tablespace: str = ""
    page_cache: int | None = None


# maintenance_work_mem is at most an eighth of the memory, because shared buffers, sessions and page cache need memory,
# too. The default of 64 MB is all the memory of the smallest control group, and the kernel would kill the server.
BUILD_SHARE = 8
USUAL_BUILD = 64 * 2**20

# Filling is not measured, so that the server may use more memory and need not flush.
FILL_WAL = 16 * 2**30
FILL_SETTINGS = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "off") | {
    "max_wal_size": f"{FILL_WAL // 2**20}MB", "checkpoint_timeout": "1h",
}  # fmt: skip


def reading_method(server: Installation, plan: Any) -> str:
    if page_cache := getattr(plan, "page_cache", None):
        if plan.memory_bytes + page_cache < cgroup.LEAST_BYTES or not cgroup.parent():
            raise InputError("--page-cache needs a memory control group, which usually only root may create; "
                             f"--page-cache and --memory need at least {cgroup.LEAST_BYTES // 2**20} MB "
                             "together")  # fmt: skip
        return CGROUP
    if server.has_direct_io and takes_direct_io(temporary_folder(service_account())):
        return DIRECT_IO
    return CGROUP if plan.memory_bytes >= cgroup.LEAST_BYTES and cgroup.parent() else EXACT_COUNTERS


def fill_memory() -> int:
    """Return shared_buffers while filling, in bytes: 1 GB, but at most a quarter of the machine's memory."""
    return min(2**30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)


def fill_settings(**more: str) -> dict[str, str]:
    return FILL_SETTINGS | {"shared_buffers": f"{fill_memory() // 8192}"} | more


def measuring_settings(memory_bytes: int, direct_io: bool) -> dict[str, str]:
    """Return settings for measuring. Commits do not wait for the disk, and checkpoints follow CHECKPOINT_WAL bytes."""
    settings = {
        "shared_buffers": f"{memory_bytes // 8192}",
        "fsync": "on",
        "synchronous_commit": "off",
        "full_page_writes": "on",
        "max_wal_size": f"{MOST_WAL // 2**20}MB",
        "checkpoint_timeout": "1d",  # the maximum, which is longer than any measurement
        "checkpoint_completion_target": "0.9",
    }
    return settings | ({"debug_io_direct": "data"} if direct_io else {})


def serve_measured(cluster: Cluster, small: Small, more: Mapping[str, str] | None = None) -> None:
    """Start a stopped server with this total memory, and additional settings.

    With direct I/O, all memory is shared buffers, and disk I/O can be limited. In a control group, which limits the
    page cache, a quarter of the memory is shared buffers, and the rest is for page cache and sessions. With
    ``page_cache``, all memory is shared buffers, and the page cache is additional. Before a server starts in a control
    group, its data files are dropped from the page cache.
    """
    memory, method = small.memory_bytes, reading_method(cluster.server, small)
    limit, settings = limit_disks(cluster, small, small.iops, method) if small.iops else None, dict(more or {})
    if method == CGROUP:
        where = cgroup.parent()
        assert where is not None
        drop_page_cache(cluster.data)
        buffers = memory if small.page_cache else memory // 4
        room = memory + (small.page_cache or 0)
        settings = {"maintenance_work_mem": f"{min(USUAL_BUILD, room // BUILD_SHARE) // 1024}kB"} | settings
        memory, limit = buffers, cgroup.memory_limit(where, room)
    cluster.start(measuring_settings(memory, method == DIRECT_IO) | settings, limit)


def limit_disks(cluster: Cluster, small: Small, iops: int, method: str) -> cgroup.ControlGroup:
    """Create a group that limits the reads and writes per second of the disks.

    Raise InputError if no limit can be set.
    """
    if method != DIRECT_IO:
        raise InputError("--iops needs direct I/O, which needs PostgreSQL 16 and a file system on a disk: otherwise "
                         "the page cache serves the reads")  # fmt: skip
    where = cgroup.parent(cgroup.IO)
    if where is None:
        raise InputError("--iops needs a control group for disks, which this user may not create (root usually may)")
    folders = [cluster.data, *([Path(small.tablespace)] if small.tablespace else [])]
    disks = {folder: disk_of(folder) for folder in folders}
    if missing := [folder for folder, disk in disks.items() if disk is None]:
        raise InputError(f"--iops: the kernel shows no disk for {missing[0]}")
    return cgroup.iops_limit(where, sorted({disk for disk in disks.values() if disk}), iops)


def drop_page_cache(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
