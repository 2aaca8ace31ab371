"""Files that are written whole, beside what was there, by one run at a time."""

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
# Errors that another path would not have: its name, its place, its permissions. All others are failures of a machine.
OF_A_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP,
    errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO,
)  # fmt: skip

Lock = TypeVar("Lock")


def failed(action: str, error: OSError) -> InorderError:
    """An error for what could not be done with a file.

    >>> full, wrong = (failed("cannot open x", OSError(number, os.strerror(number))) for number in (28, 2))
    >>> str(full), full.exit_code, wrong.exit_code
    ('cannot open x: No space left on device', 1, 2)
    """
    kind = InputError if error.errno in OF_A_PATH else InorderError
    return kind(f"{action}: {error.strerror}")


def beside(target: Path) -> Path:
    """A name beside a file that no other process gives to one."""
    return target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")


def partial_of(path: Path) -> tuple[Path, Path]:
    """Where links lead from a path, and a new file beside it that is written first; an error where it is no file.

    Of several processes, in several containers too, each has a file of its own: the last to be done wins.
    A device, a pipe or a socket would be replaced by a file, which root may do even to /dev/null.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    return target, beside(target)


def unused(path: Path) -> Path:
    """The same name, or with the first number from 2 on, of which there is no file."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(one for one in chain([path], numbered) if not one.exists())


def require_new(path: Path, hint: str) -> None:
    """An error if there is such a file: no command overwrites what another wrote. A device can be written to."""
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
    """A file beside another one, put in its place when it is complete and on the disk; half of it is never left."""
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
    """A lock of this user on this host; BlockingIOError if it is taken.

    It is a name among Linux's abstract sockets: it leaves no file, and ends with the last process that has it.
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
    """A lock, also if one that was killed has it for a moment longer; BlockingIOError if it stays taken."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return take()
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def lock_file(descriptor: int, name: Path | str) -> None:
    """Lock an open file for this process; BlockingIOError if another has it, an error where no file can be locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise InorderError(
            f"cannot lock {name}: {error.strerror}\n"
            "HINT:  Each run locks its files (flock). Put them on a file system that has locks: NFS has them by a lock "
            "service (rpc.statd), or on one client by the mount option local_lock=flock."
        ) from error


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    try:
        lock = host_lock(os.fsencode(path.resolve()))
    except BlockingIOError as error:
        raise InorderError(f"cannot write {path}: another run writes it") from error
    with lock:
        yield
