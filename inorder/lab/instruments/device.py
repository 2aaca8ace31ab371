"""What a block device did, from /proc/diskstats: how busy it was, and how long a request took.

The kernel's documentation names the fields (admin-guide/iostats); iostat shows the same as %util and await.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

DISKSTATS = Path("/proc/diskstats")


@dataclass(frozen=True)
class DeviceTimes:
    """Totals since boot: requests, milliseconds they took together, milliseconds the device was busy; and when."""

    requests: int
    request_ms: int
    busy_ms: int
    seconds: float

    def since(self, before: "DeviceTimes") -> dict[str, float]:
        """Share of the time it was busy in percent, and milliseconds a request, since an earlier look.

        >>> DeviceTimes(30, 90, 600, 2.0).since(DeviceTimes(10, 30, 100, 1.0))
        {'device_busy_percent': 50.0, 'device_await_ms': 3.0}
        >>> DeviceTimes(1, 1, 1, 2.0).since(DeviceTimes(1, 1, 1, 1.0))
        {'device_busy_percent': 0.0}
        """
        requests, elapsed = self.requests - before.requests, 1000 * (self.seconds - before.seconds)
        metrics = {"device_busy_percent": 100 * (self.busy_ms - before.busy_ms) / elapsed} if elapsed > 0 else {}
        return metrics | ({"device_await_ms": (self.request_ms - before.request_ms) / requests} if requests > 0 else {})


def parse(diskstats: str, major: int, minor: int, seconds: float) -> DeviceTimes | None:
    """One device's line; None where it has none, as what is not on a device.

    >>> parse(" 254 0 vda 10 0 80 5 20 0 160 15 0 12 20 0 0 0 0", 254, 0, 1.0)
    DeviceTimes(requests=30, request_ms=20, busy_ms=12, seconds=1.0)
    >>> parse("", 0, 52, 1.0) is None
    True
    """
    for line in diskstats.splitlines():
        fields = line.split()
        if fields[:2] == [str(major), str(minor)]:
            reads, read_ms, writes, write_ms, busy_ms = (int(fields[place]) for place in (3, 6, 7, 10, 12))
            return DeviceTimes(reads + writes, read_ms + write_ms, busy_ms, seconds)
    return None


def disk_of(folder: Path) -> str | None:
    """The whole disk that a folder is on, as "major:minor"; None where it is on none that the kernel shows."""
    device = folder.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    try:
        whole = node.resolve().parent if (node / "partition").exists() else node
        return (whole / "dev").read_text(encoding="ascii").strip()
    except OSError:
        return None


def look(folder: Path) -> DeviceTimes | None:
    """The device that a folder is on, or None where the kernel does not show one."""
    try:
        device, text = folder.stat().st_dev, DISKSTATS.read_text(encoding="ascii")
    except OSError:
        return None
    return parse(text, os.major(device), os.minor(device), time.monotonic())
