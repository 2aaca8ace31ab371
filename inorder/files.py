"""Write files atomically, and lock them. A new file replaces the old file when the new file is complete."""

import errno
import fcntl
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO, TypeVar

from inorder.errors import InorderError, InputError

LOCK_SECONDS = 1.0
# Errors caused by the name, the location or the permissions of the path. All other errors are failures of the system.
OF_A_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP,
    errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO,
)  # fmt: skip

Lock = TypeVar("Lock")


def failed(action: str, error: OSError) -> InorderError:
    """Build the error for a failed action on a file.

    >>> full, wrong = (failed("cannot open x", OSError(number, os.strerror(number))) for number in (28, 2))
    >>> str(full), full.exit_code, wrong.exit_code
    ('cannot open x: No space left on device', 1, 2)
    """
    kind = InputError if error.errno in OF_A_PATH else InorderError
    return kind(f"{action}: {error.strerror}")


def beside(target: Path) -> Path:
    """Return a name for a new file in the same folder that is unique among processes."""
    return target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")


def partial_of(path: Path) -> tuple[Path, Path]:
    """Return the file that a path leads to through links, and the name of the new file that will replace it.

    Each process, even in another container, writes its own new file. The file that is completed last remains. Raise
    InputError for a device, a pipe or a socket: the new file would replace it, for root even /dev/null.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    return target, beside(target)


def unused(path: Path) -> Path:
    """Return the path if no such file exists, or else the path with the first free number from 2 on."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(candidate for candidate in chain([path], numbered) if not candidate.exists())


def require_new(path: Path, hint: str) -> None:
    """Raise InputError if the file exists, so that no command overwrites the file of another. A device is accepted."""
    if path.is_file():
        raise InputError(f"{path} exists; HINT: {hint}")


def require_writable(path: Path) -> None:
    _, probe = partial_of(path)
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise failed(f"cannot write {path}", error) from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file, which replaces the old file at the end of the block. After an error, remove the new file."""
    target, partial = partial_of(path)
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise failed(f"cannot write {path}", error) from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def host_lock(key: bytes) -> socket.socket:
    """Take a lock of this user on this host. Raise BlockingIOError if the lock is taken.

    The lock is an abstract Linux socket: it leaves no file, and ends with the last process that has the socket open.
    """
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0inorder-{os.geteuid()}-{hashlib.sha256(key).hexdigest()}")
    except OSError as error:
        lock.close()
        if error.errno == errno.EADDRINUSE:
            raise BlockingIOError from error
        raise
    return lock


def awaited(take: Callable[[], Lock]) -> Lock:
    """Take a lock that a killed process may still hold for a moment. Raise BlockingIOError if it stays taken."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return take()
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def lock_file(descriptor: int, name: Path | str) -> None:
    """Lock an open file. Raise BlockingIOError if another process holds the lock.

    Raise InorderError if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise InorderError(
            f"cannot lock {name}: {error.strerror}\n"
            "HINT:  Each run locks its files (flock). Put the files on a file system with locks: NFS needs a lock "
            "service (rpc.statd) or, for a single client, the mount option local_lock=flock."
        ) from error


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    try:
        lock = host_lock(os.fsencode(path.resolve()))
    except BlockingIOError as error:
        raise InorderError(f"cannot write {path}: another run writes it") from error
    with lock:
        yield
