"""The environment of a result: hardware, kernel, the commit of the tool, and the activity of a block device.

The kernel documents the fields of /proc/diskstats (admin-guide/iostats). iostat shows the same figures as %util and
await.
"""

import os
import platform
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inorder import sources
from inorder.lab.server.temporary import filesystem_of


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str | None:
    source = sources.checkout()
    if source is None:
        return None
    git = ["git", "-c", f"safe.directory={source}", "-C", str(source)]
    try:
        process = subprocess.run(
            [*git, "describe", "--always", "--dirty=+", "--exclude=*"], check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return None
    return process.stdout.strip() or None


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


def describe_machine(data: Path) -> dict[str, Any]:
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": available_cores(),
        "memory_bytes": pages * page_size,
        "kernel": platform.release(),
        "filesystem": filesystem_of(data),
        "commit": commit(),
    }


DISKSTATS = Path("/proc/diskstats")
SECTOR = 512  # bytes, the same for every device


@dataclass(frozen=True)
class DeviceTimes:
    """Totals of a device since boot, and the time at which they were read.

    The totals are: requests; the number and the bytes of writes; and, in milliseconds, the durations of all requests,
    the times that requests were queued or served, and the time that the device was busy.
    """

    requests: int
    writes: int
    written_bytes: int
    request_ms: int
    queue_ms: int
    busy_ms: int
    seconds: float

    def since(self, before: "DeviceTimes") -> dict[str, float]:
        """Return the activity since an earlier reading, as in iostat.

        The metrics are: requests, the percentage of busy time, writes and written bytes per second, requests in the
        queue, and milliseconds per request.

        >>> DeviceTimes(30, 25, 8192, 90, 500, 600, 2.0).since(DeviceTimes(10, 5, 0, 30, 250, 100, 1.0))
        {'device_requests': 20, 'device_busy_percent': 50.0, 'device_writes_per_s': 20.0, \
'device_written_per_s': 8192.0, 'device_queue': 0.25, 'device_await_ms': 3.0}
        >>> DeviceTimes(1, 1, 1, 1, 1, 1, 1.0).since(DeviceTimes(1, 1, 1, 1, 1, 1, 1.0))
        {'device_requests': 0}
        """
        requests, elapsed = self.requests - before.requests, self.seconds - before.seconds
        metrics: dict[str, float] = {"device_requests": requests}
        if elapsed > 0:
            metrics |= {
                "device_busy_percent": (self.busy_ms - before.busy_ms) / elapsed / 10,
                "device_writes_per_s": (self.writes - before.writes) / elapsed,
                "device_written_per_s": (self.written_bytes - before.written_bytes) / elapsed,
                "device_queue": (self.queue_ms - before.queue_ms) / elapsed / 1000,
            }
        return metrics | ({"device_await_ms": (self.request_ms - before.request_ms) / requests} if requests > 0 else {})


def parse(diskstats: str, major: int, minor: int, seconds: float) -> DeviceTimes | None:
    """Return the totals of a device, or None if /proc/diskstats has no line for it.

    A file system without a device has no line.

    >>> parse(" 254 0 vda 10 0 80 5 20 0 160 15 0 12 21 0 0 0 0", 254, 0, 1.0)
    DeviceTimes(requests=30, writes=20, written_bytes=81920, request_ms=20, queue_ms=21, busy_ms=12, seconds=1.0)
    >>> parse("", 0, 52, 1.0) is None
    True
    """
    for line in diskstats.splitlines():
        fields = line.split()
        if fields[:2] == [str(major), str(minor)]:
            reads, read_ms, writes, sectors, write_ms, busy_ms, queue_ms = (
                int(fields[place]) for place in (3, 6, 7, 9, 10, 12, 13)
            )
            return DeviceTimes(reads + writes, writes, SECTOR * sectors, read_ms + write_ms, queue_ms, busy_ms, seconds)
    return None


def disk_of(folder: Path) -> str | None:
    device = folder.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    try:
        disk = node.resolve().parent if (node / "partition").exists() else node
        return (disk / "dev").read_text(encoding="ascii").strip()
    except OSError:
        return None


def read_device(folder: Path) -> DeviceTimes | None:
    try:
        device, text = folder.stat().st_dev, DISKSTATS.read_text(encoding="ascii")
    except OSError:
        return None
    return parse(text, os.major(device), os.minor(device), time.monotonic())
