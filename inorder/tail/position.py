"""The position file of a reader. Only one process at a time uses it, and it always contains the last saved position."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from inorder.errors import InorderError, InputError, on_error
from inorder.files import awaited, beside, failed, lock_file, sync_folder
from inorder.tail.state import NEW

OPENED = Path("/proc/self/fd")
MOST_BYTES = 2**30  # more than enough: a million ranges take 30 MB

Kept = TypeVar("Kept")  # the decoded content: the state of one table, or of all shards


class PositionFile:
    """A position file, which is locked while it is open.

    To save a position, a new file is written and locked, and then renamed over the old file. The path therefore always
    leads to a complete and locked file. A new file is removed at the end if no position was saved. No other file is
    removed, and only regular files are changed.
    """

    def __init__(self, given_path: Path) -> None:
        self.given_path = given_path
        self.path = Path(os.path.realpath(given_path))
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{given_path} is not a regular file")
        try:
            self.descriptor = awaited(lambda: lock(self.path))
        except BlockingIOError:
            raise InorderError(
                f"{given_path} is in use by another inorder tail, or by a command that it started"
            ) from None
        except OSError as error:
            raise failed(f"cannot open {given_path}", error) from error
        self.is_new = False

    def __enter__(self) -> "PositionFile":
        return self

    def __exit__(self, *_error: object) -> None:
        if self.is_new:
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def read(self, decoded: Callable[[bytes], Kept]) -> Kept | None:
        try:
            content = self.content()
            self.is_new = content == NEW
            return None if self.is_new else decoded(content)
        except ValueError as error:
            raise InputError(f"cannot use {self.given_path}: {error}") from error

    def kept(self, decoded: Callable[[bytes], Kept]) -> Kept | None:
        """Return the content on disk, even after a failed save or after closing. Return None if it cannot be read."""
        with suppress(OSError, ValueError):
            return decoded(self.path.read_bytes())
        return None

    def content(self) -> bytes:
        size = os.fstat(self.descriptor).st_size
        if size == 0:
            raise ValueError(
                "it is empty, and the position of the last run is lost\n"
                "HINT:  Restore a copy. If no row was ever read with this file, remove it: a new one is created."
            )
        if size > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes, and a position file has at most {MOST_BYTES:,}")
        return self.path.read_bytes()

    def save(self, content: bytes, lasting: bool = True) -> None:
        """Replace the file, and return when the new file is on disk.

        If the new file cannot be written, the old file is unchanged. After a crash of the host, the file may be in an
        earlier state if ``lasting`` is false or if its folder could not be flushed.
        """
        try:
            replacement = self.put(content)
        except OSError as error:
            raise InorderError(f"cannot write {self.given_path}, which is unchanged: {error.strerror}") from error
        replaced, self.descriptor, self.is_new = self.descriptor, replacement, False
        os.close(replaced)
        if lasting:
            self.flush_folder()

    def flush_folder(self) -> None:
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise InorderError(
                f"cannot flush the folder of {self.given_path} to disk: {error.strerror}\n"
                "DETAIL:  The file has the new position. A crash of the host may bring back an earlier position."
            ) from error

    def put(self, content: bytes) -> int:
        """Write and lock a new file with this content, and rename it over the old file."""
        mode = stat.S_IMODE(os.fstat(self.descriptor).st_mode)
        descriptor, name = nameless(self.path)
        partial = beside(self.path) if is_nameless(name) else name
        with on_error(lambda: partial.unlink(missing_ok=True)), on_error(lambda: os.close(descriptor)):
            lock_file(descriptor, self.given_path)
            os.fchmod(descriptor, mode)
            fill(descriptor, content)
            if is_nameless(name):
                os.link(name, partial, src_dir_fd=descriptor)
            partial.replace(self.path)
        return descriptor


def fill(descriptor: int, content: bytes) -> None:
    """Write the content to a file, and flush it to disk."""
    with open(descriptor, "wb", closefd=False) as stream:
        stream.write(content)
    os.fsync(descriptor)


def lock(path: Path) -> int:
    """Open or create a file, and lock it. Raise BlockingIOError if another process holds the lock."""
    while (descriptor := locked(path)) is None:
        pass  # the file was replaced or removed in the meantime
    return descriptor


def locked(path: Path) -> int | None:
    """Try once to lock a file, which must not be a link. Return None if it was replaced or removed in the meantime."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return made(path)
    try:
        lock_file(descriptor, path)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except FileNotFoundError:
        pass  # the file was removed
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def made(path: Path) -> int | None:
    """Create and lock a file that gets its name when it is complete. Return None if another process was faster."""
    descriptor, name = nameless(path)
    try:
        lock_file(descriptor, path)
        fill(descriptor, NEW)
        os.link(name, path, src_dir_fd=descriptor)  # src_dir_fd makes the kernel follow the link in /proc
    except FileExistsError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        if not is_nameless(name):
            name.unlink(missing_ok=True)
    return descriptor


def nameless(path: Path) -> tuple[int, Path]:
    """Create a file without a name, which vanishes with this process. If that fails, create a file next to the path."""
    with suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDWR | os.O_TMPFILE, 0o666)
        return descriptor, OPENED / str(descriptor)
    partial = beside(path)
    return os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), partial


def is_nameless(name: Path) -> bool:
    return name.parent == OPENED
