"""Files that are written whole, beside what was there, by one run at a time."""

import errno
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

Lock = TypeVar("Lock")


def partial_of(path: Path) -> tuple[Path, Path]:
    """Where links lead from a path, and a new file beside it that is written first; an error where it is no file.

    Of several processes, in several containers too, each has a file of its own: the last to be done wins.
    A device, a pipe or a socket would be replaced by a file, which root may do even to /dev/null.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    return target, target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")


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
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


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
        raise InorderError(f"cannot write {path}: {error.strerror}") from error


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


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    try:
        lock = host_lock(os.fsencode(path.resolve()))
    except OSError as error:
        raise InputError(f"cannot write {path}: another run writes it") from error
    with lock:
        yield
