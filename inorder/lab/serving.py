"""How a throw-away server is started: to be filled, and to be measured."""

import os
from pathlib import Path

from inorder.lab.results import DIRECT_IO, EXACT_COUNTERS
from inorder.servers import Server
from inorder.temporary import service_account, takes_direct_io, temporary_folder

# The fill is not measured: it may use memory and skip every flush.
FILL_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}


def reads_directly(server: Server, folder: Path) -> bool:
    """Whether a server whose data are there can bypass the page cache."""
    return server.has_direct_io and takes_direct_io(folder)


def reading_method(server: Server) -> str:
    """How "larger than memory" is made with this server."""
    return DIRECT_IO if reads_directly(server, temporary_folder(service_account())) else EXACT_COUNTERS


def fill_memory() -> int:
    """shared_buffers while filling, in bytes: 1 GB, but at most a quarter of what the machine has."""
    return min(2**30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)


def measuring_settings(memory_bytes: int, direct_io: bool) -> dict[str, str]:
    """The state that is measured.

    Commits do not wait for the disk (synchronous_commit off): the wait is the
    same for every key and would hide what differs. Checkpoints come only when
    the experiment asks for one.
    """
    settings = {
        "shared_buffers": f"{memory_bytes // 8192}",
        "fsync": "on",
        "synchronous_commit": "off",
        "full_page_writes": "on",
        "max_wal_size": "64GB",
        "checkpoint_timeout": "1h",
        "checkpoint_completion_target": "0.9",
    }
    return settings | ({"debug_io_direct": "data"} if direct_io else {})
