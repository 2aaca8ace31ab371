"""Files that are written whole, beside what was there, by one run at a time."""

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inorder.errors import InorderError, InputError


def partial_of(path: Path) -> tuple[Path, Path]:
    """Where links lead from a path, and the file beside it that is written first; an error where it is no file.

    A device, a pipe or a socket would be replaced by a file, which root may do even to /dev/null.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    return target, target.with_name(target.name + ".partial")


def require_writable(path: Path) -> None:
    """An error now rather than after minutes of work."""
    _, probe = partial_of(path)
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def write_whole(path: Path, text: str) -> None:
    """Write the whole file beside the old one, then put it in its place; a half-written one is never left."""
    target, partial = partial_of(path)
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        raise InorderError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """An error if another run writes that file.

    The lock is a name among Linux's abstract sockets: it leaves no file, and ends with its process however that ends.
    """
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0inorder-{os.geteuid()}-{name}")
        except OSError as error:
            raise InputError(f"cannot write {path}: another run writes it") from error
        yield
