"""The file that keeps a reader's position: there whole, in one process's hands, as last saved."""

import fcntl
import json
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from inorder.errors import InputError

FORMAT = 1

Json = dict[str, Any]  # a position or a batch, as the server wrote it


@dataclass(frozen=True)
class Mark:
    """A place in a regular file."""

    device: int
    inode: int
    offset: int


@dataclass(frozen=True)
class Pending:
    """A batch that is being written: itself, the position after it, and where its output begins, if in a file."""

    batch: Json
    after: Json
    output: Mark | None


@dataclass(frozen=True)
class State:
    """What the file says: all rows up to the position are delivered, those of the pending batch perhaps."""

    database: str
    table: str
    position: Json
    pending: Pending | None = None

    def without_origin(self) -> "State":
        """The same, taken over to another server."""
        position = self.position | {"origin": None}
        if self.pending is None:
            return replace(self, position=position)
        batch, after = self.pending.batch | {"origin": None}, self.pending.after | {"origin": None}
        return replace(self, position=position, pending=replace(self.pending, batch=batch, after=after))


def encode(state: State) -> bytes:
    """The text of the file.

    >>> state = State("shop", "public.events", {"transactions": "{[0,9)}"}, Pending({}, {}, Mark(1, 2, 3)))
    >>> decode(encode(state)) == state
    True
    """
    return (json.dumps({"format": FORMAT} | asdict(state), indent=1) + "\n").encode()


def decode(content: bytes) -> State:
    """The state in the text of a file; ValueError says why there is none.

    >>> decode(b'{"format": 2}')
    Traceback (most recent call last):
    ValueError: its format is 2, this inorder knows 1
    """
    try:
        fields = json.loads(content)
        if (version := fields.pop("format")) != FORMAT:
            raise ValueError(f"its format is {version}, this inorder knows {FORMAT}")
        pending = fields.pop("pending")
        if pending is not None:
            mark = pending.pop("output")
            pending = Pending(**pending, output=Mark(**mark) if mark else None)
        return checked(State(**fields, pending=pending))
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it is damaged, or no position file: {type(error).__name__} {error}") from error


def checked(state: State) -> State:
    """The same, if its parts are what they should be; what is in the position the server checks."""
    objects = [state.position] + ([state.pending.batch, state.pending.after] if state.pending else [])
    mark = state.pending.output if state.pending else None
    numbers = [mark.device, mark.inode, mark.offset] if mark else []
    if not (
        all(isinstance(part, str) for part in (state.database, state.table))
        and all(isinstance(part, dict) for part in objects)
        and all(type(part) is int and part >= 0 for part in numbers)
    ):
        raise TypeError("of a field")
    return state


class PositionFile:
    """A position file, locked as long as it is open.

    A save puts a new file in its place, locked before it gets its name, so that the name always leads to a locked
    file. One that was made here and never saved is removed; nothing else ever is, and only a regular file is touched.
    """

    def __init__(self, asked: Path) -> None:
        self.asked = asked
        self.path = Path(os.path.realpath(asked))
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{asked} is not a regular file")
        try:
            self.descriptor, self.is_new = lock(self.path)
        except BlockingIOError:
            raise InputError(f"{asked} is in use by another inorder tail") from None
        except OSError as error:
            raise InputError(f"cannot open {asked}: {error.strerror}") from error

    def __enter__(self) -> "PositionFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_new:
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def read(self) -> State | None:
        """What it says; None if it is new."""
        content = self.path.read_bytes()
        if not content:
            return None
        try:
            return decode(content)
        except ValueError as error:
            raise InputError(f"cannot use {self.asked}: {error}") from error

    def save(self, state: State) -> None:
        """Replace it, on the disk when this returns."""
        partial = self.path.with_name(self.path.name + ".partial")
        mode = stat.S_IMODE(os.fstat(self.descriptor).st_mode)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with open(descriptor, "wb", closefd=False) as stream:
                stream.write(encode(state))
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            partial.replace(self.path)
        except BaseException:
            os.close(descriptor)
            partial.unlink(missing_ok=True)
            raise
        os.close(self.descriptor)
        self.descriptor, self.is_new = descriptor, False
        sync_folder(self.path.parent)


def lock(path: Path) -> tuple[int, bool]:
    """Open and lock the file of a name, and say whether it is new; BlockingIOError if another process has it."""
    while True:
        descriptor, is_new = opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor, is_new
        except FileNotFoundError:
            pass  # removed meanwhile
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def opened(path: Path) -> tuple[int, bool]:
    """Open a file, or make it, and say which."""
    with suppress(FileExistsError):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    return os.open(path, os.O_RDWR | os.O_CREAT), False


def sync_folder(folder: Path) -> None:
    """Make a rename last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
