"""What a result was measured on: hardware, kernel, server, and the tool's own commit."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inorder.extension.building import checkout_folder
from inorder.lab.server.temporary import filesystem_of


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str | None:
    source = checkout_folder()
    if source is None:
        return None
    git = ["git", "-c", f"safe.directory={source}", "-C", str(source)]
    try:
        done = subprocess.run(
            [*git, "describe", "--always", "--dirty=+", "--exclude=*"], check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


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
