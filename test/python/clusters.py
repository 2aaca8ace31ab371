"""Test servers, copied from the first server of each kind in a run.

Copying a server takes a third of the CPU time of creating it.
"""

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import inorder.lab.server.cluster as cluster_module
import pytest
from inorder.extension.building import source_folder
from inorder.installations import Installation
from inorder.lab.server import temporary
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import private_installation, relocate

INITDB = Cluster._initdb
CLEARED = temporary.cleared_after_a_kill
LARGEST_CONTROL_FILE = 512
# Offset of the system identifier in the first page of a WAL segment, after the header that every page has.
IDENTIFIER_IN_WAL = 24
CASTAGNOLI = 0x82F63B78

# The environment variable with the folder of the templates that all processes of a run share.
KEPT = "INORDER_TEST_KEPT"


def quick_options() -> str:
    """Return options for a fast compilation. Without optimization, the compiler takes half the time.

    Compiler warnings are checked in a separate compilation. Without -Wno-cpp, headers of some servers would warn about
    the missing optimization.
    """
    return f"{os.environ.get('COPT', '')} -O0 -Wno-cpp"


def made_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cluster_module, "private_installation", private_installation)
    patch.setattr(Cluster, "_initdb", INITDB)
    patch.setattr(temporary, "cleared_after_a_kill", CLEARED)


def copied(patch: pytest.MonkeyPatch) -> None:
    servers_copied(patch)
    # No process waits for the end of each server. If this run is killed, the next run removes its servers.
    patch.setattr(temporary, "cleared_after_a_kill", lambda _: nullcontext())


def servers_copied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cluster_module, "private_installation", copied_installation)
    patch.setattr(Cluster, "_initdb", copied_data)


@contextmanager
def kept(*kind: object) -> Iterator[Path]:
    """Yield the folder of the first server of a kind. Other processes wait until it is complete."""
    place = Path(os.environ[KEPT]) / hashlib.sha256(repr(kind).encode()).hexdigest()[:16]
    with place.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield place


def copy(source: Path, target: Path, *options: str) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", *options, source, target], check=True)


def keep(source: Path, place: Path) -> None:
    """Copy a folder. Zeros, which are most of the WAL, become holes in the files."""
    copy = place.with_suffix(".new")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", source, copy], check=True)
    copy.rename(place)


def copied_installation(server: Installation, root: Path, sources: Sequence[Path] | None = ()) -> Installation:
    with kept(server.bindir, sources and tuple(sources), sources is None, source_folder()) as place:
        if not place.exists():
            installation = private_installation(server, root, sources)
            keep(root, place)
            return installation
    # Linking files takes a sixth of the time of copying them. Programs do not write to a linked file, but replace it.
    copy(place, root, *(["--link"] if place.stat().st_dev == root.parent.stat().st_dev else []))
    return relocate(server, root)


def copied_data(cluster: Cluster) -> None:
    with kept(cluster.original.bindir) as place:
        if not place.exists():
            INITDB(cluster)
            remove_maps(cluster.data)
            keep(cluster.data, place)
            return
    cluster.data.rmdir()
    copy(place, cluster.data)
    identify(cluster.data)


def remove_maps(folder: Path) -> None:
    """Remove the free space maps and visibility maps of a new server, which are a quarter of the files to copy.

    The server does not need them, and creates them again when it does.
    """
    for path in (folder / "base").glob("*/*_*"):
        if path.name.endswith(("_fsm", "_vm")):
            path.unlink()


def identify(folder: Path) -> None:
    """Assign a new system identifier to a server that has not run yet, as initdb does, and reset its statistics."""
    for counters in (folder / "pg_stat").iterdir():
        counters.unlink()
    now = time.time_ns()
    identifier = struct.pack("<Q", now // 10**9 << 32 | now % 10**9 // 1000 << 12 | os.getpid() & 0xFFF)
    control = folder / "global" / "pg_control"
    content = control.read_bytes()
    place = place_of_sum(content)
    content = identifier + content[len(identifier) : place]
    with control.open("r+b") as file:
        file.write(content + struct.pack("<I", crc32c(content)))
    (segment,) = (folder / "pg_wal").glob("0" * 7 + "1*")
    with segment.open("r+b") as file:
        file.seek(IDENTIFIER_IN_WAL)
        file.write(identifier)


def place_of_sum(content: bytes) -> int:
    """Return the offset of the checksum in the control file, which depends on the version."""
    remainder = crc32c(b"")
    for place in range(0, LARGEST_CONTROL_FILE, 4):
        if struct.unpack_from("<I", content, place)[0] == remainder:
            return place
        remainder = crc32c(content[place : place + 4], remainder)
    raise AssertionError("the control file has no checksum")


def crc32c(content: bytes, before: int = 0) -> int:
    remainder = before ^ 0xFFFFFFFF
    for byte in content:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (CASTAGNOLI if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF
