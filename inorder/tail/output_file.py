"""A regular file as output.

The file is recognized by its content, not by its path. Its content is checked whenever the position moves.
"""

import fcntl
import hashlib
import os
import stat
import struct
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg.abc import Buffer

from inorder.connection.reconnect import report
from inorder.errors import InorderError, InputError
from inorder.files import awaited, lock_file, sync_folder
from inorder.tail.formats import Format
from inorder.tail.sinks import STANDARD_OUTPUT, Report, Sink
from inorder.tail.source import Source
from inorder.tail.state import Mark
from inorder.text import one_line

OPENED = f"/proc/self/fd/{STANDARD_OUTPUT}"
ATTRIBUTE = "user.inorder.output"
GENERATION = 0x80087601  # FS_IOC_GETVERSION returns a number that distinguishes files that reuse an inode number
UNMARKED = (
    f"the attribute {ATTRIBUTE} cannot be set: {{}}\n"
    "DETAIL:  The file is identified by its inode instead. A new file with the same inode may be refused.\n"
    "HINT:  Let the user who runs inorder own the file."
)
ROTATION = "HINT:  To rotate the file, rename it and restart inorder tail; copytruncate loses rows."
LAST_BYTES = 4096  # a mark contains the hash of this many bytes
FIRST_BYTES = 64  # an unfinished batch is recognized by this many bytes


def about_file(text: str) -> str:
    """Prefix a message with the path of the file on standard output.

    >>> about_file("standard output ends within a line").endswith(": standard output ends within a line")
    True
    """
    return f"{os.readlink(OPENED)}: {text}"


class MismatchError(Exception):
    """The file does not match its mark. The message says why."""


class OutputFile:
    """The file on standard output."""

    def __init__(self) -> None:
        self.appends = bool(fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_APPEND)
        try:
            awaited(lambda: lock_file(STANDARD_OUTPUT, os.readlink(OPENED)))
        except BlockingIOError:
            text = "another inorder tail, or a command that it started, writes to this file; each needs its own file"
            raise InorderError(about_file(text)) from None
        self.has_name = self.status().st_nlink > 0
        if os.path.samestat(self.status(), os.fstat(sys.stderr.fileno())):
            text = "standard error is redirected to this file, too"
            raise InputError(
                about_file(f"{text}\nHINT:  Redirect it elsewhere (not 2>&1), and remove these lines from the file.")
            )
        try:
            self.reading = os.open(OPENED, os.O_RDONLY)
        except OSError as error:
            raise InputError(
                about_file(f"cannot read standard output: {error.strerror}\n")
                + "HINT:  Let this user read the file: its content is compared with the delivered rows."
            ) from error

    def status(self) -> os.stat_result:
        return os.fstat(STANDARD_OUTPUT)

    def size(self) -> int:
        return self.status().st_size

    def check_there(self) -> None:
        if self.has_name and self.status().st_nlink == 0:
            text = "the file on standard output was removed; rows written to it would be lost"
            raise InorderError(about_file(text))

    def before(self, place: int) -> bytes:
        first = max(0, place - LAST_BYTES)
        return os.pread(self.reading, place - first, first)

    def id(self) -> str:
        """Return the id stored in the file's attribute or, if there is none, its inode number and generation."""
        with suppress(OSError):
            return os.getxattr(STANDARD_OUTPUT, ATTRIBUTE).decode(errors="replace")
        number = f"inode {self.status().st_ino}"
        with suppress(OSError):
            (generation,) = struct.unpack("l", fcntl.ioctl(STANDARD_OUTPUT, GENERATION, bytes(struct.calcsize("l"))))
            number += f" generation {generation}"
        return number

    def mark(self) -> str:
        """Store an id in an attribute of the file. Return the reason if that fails."""
        try:
            os.getxattr(STANDARD_OUTPUT, ATTRIBUTE)
        except OSError:
            try:
                os.setxattr(STANDARD_OUTPUT, ATTRIBUTE, uuid.uuid4().hex.encode())
            except OSError as error:
                return error.strerror or ""
        return ""

    def end(self) -> int:
        """Return the end of the file, where rows are appended if no position is known.

        Raise InputError if existing content would be overwritten, or if the last line is incomplete.
        """
        size = self.size()
        if not self.appends and os.lseek(STANDARD_OUTPUT, 0, os.SEEK_CUR) < size:
            raise InputError(about_file("standard output would be overwritten\nHINT:  Append to the file, with >>."))
        if size and os.pread(self.reading, 1, size - 1) != b"\n":
            text = "standard output ends within a line\nHINT:  Remove the incomplete last row."
            raise InputError(about_file(text))
        return size

    def place(self, mark: Mark, start: str | None) -> int:
        """Return the offset at which the delivered rows end. Raise MismatchError if the file does not match the mark.

        ``start`` contains the first bytes of an unfinished batch, in hexadecimal. This batch may follow the mark.
        """
        size = self.size()
        is_same = self.id() == mark.id
        if size == 0:
            self.check_empty(mark, start is not None, is_same)
            return 0
        if size < mark.size:
            raise MismatchError(f"it has {size:,} bytes, but {mark.size:,} were delivered")
        if mark.size == 0 and not is_same and is_named(self.id()):
            raise MismatchError("it is another file")
        if digest(self.before(mark.size)) != mark.last:
            raise MismatchError(f"its content before byte {mark.size:,} is not what was delivered")
        if size > mark.size and not self.follows(mark.size, start):
            raise MismatchError(f"its content after byte {mark.size:,}, the end of the delivered rows, is not a batch")
        return mark.size

    def check_empty(self, mark: Mark, is_unfinished: bool, is_same: bool) -> None:
        """Accept an empty file as a new file.

        Raise MismatchError if a file open for appending was truncated in place, or if the previous file ends within a
        batch.
        """
        if mark.size > 0 and is_same and self.appends:
            raise MismatchError(
                "it was emptied in place, as by logrotate's copytruncate: rows written between the copy and the "
                "truncation are in neither file"
            )
        if is_unfinished and not is_same:
            raise MismatchError("it is new, and the last batch is unfinished in the previous file")

    def check_form(self, form: Format, header: bytes) -> None:
        """Raise InputError unless the file begins with the header of the rows to be written, or with such a row."""
        if not any(os.pread(self.reading, len(start), 0) == start for start in form.starts or (header,)):
            text = "its rows have another format, other columns or another header\nHINT:  Start a new file."
            raise InputError(about_file(text))

    def follows(self, place: int, start: str | None) -> bool:
        """Return whether the bytes at a place are the start of the batch, or zeros left by a crash of the host."""
        if start is None:
            return False
        first = bytes.fromhex(start)
        content = os.pread(self.reading, len(first), place)
        return first.startswith(content) or not any(content)

    def cut(self, place: int) -> None:
        if self.size() > place:
            os.ftruncate(STANDARD_OUTPUT, place)
        if not self.appends:
            os.lseek(STANDARD_OUTPUT, place, os.SEEK_SET)

    @contextmanager
    def whole(self, place: int, errors: type[BaseException] = BaseException) -> Iterator[None]:
        """Truncate the file to its previous size if the block fails."""
        try:
            yield
        except errors as error:
            self.cut(place)
            if isinstance(error, OSError):
                raise InorderError(about_file(f"cannot write: {error.strerror}")) from error
            raise


class FileSink(Sink):
    """A regular file. Its rows are delivered once the position on disk includes them. A partial batch is removed."""

    waits_for_nobody = can_take_back = True

    def __init__(self, report: Report, form: Format) -> None:
        super().__init__(report, form)
        self.file = OutputFile()
        self.source: Source | None = None
        self.size = self.start = 0  # size of the file; start of the current batch
        self.recent = self.recent_at_start = b""
        self.known_id: str | None = None
        self.is_marked = False
        self.is_ours, self.is_written = True, False  # is_written: rows were written, and the run has not ended

    def resume(self, source: Source, accept: bool) -> None:
        self.source, mark, begun = source, source.output(), source.begun
        self.known_id = mark.id if mark else None
        if mark is not None and mark.is_directory and not accept:
            where = f" {one_line(mark.id)}" if mark.id else ""
            raise InputError(
                about_file(f"the position belongs to the directory{where}, not to this file\n")
                + "HINT:  Use --format parquet and --directory, or --accept-output to continue in this file."
            )
        try:
            self.size = self.start = self.file.end() if mark is None else self.file.place(mark, begun)
        except MismatchError as reason:
            assert mark is not None
            if not accept:
                raise InputError(about_file(advice(str(reason), mark, begun is not None))) from None
            self.size = self.start = self.file.end()
        self.file.cut(self.size)
        if begun is not None:
            source.forget_begun()
        self.recent = self.recent_at_start = self.file.before(self.size)
        if self.size == 0:
            with suppress(OSError):
                sync_folder(Path(os.readlink(OPENED)).parent)

    def at_start(self) -> bool:
        return self.size == 0

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        self.check()
        super().begin(name, header, first)
        self.start, self.recent_at_start = self.size, self.recent
        return ((header if self.at_start() else b"") + first)[:FIRST_BYTES].hex()

    def check_form(self, header: bytes, first: bytes) -> None:
        self.file.check_form(self.form, header)

    def mark(self) -> Mark | None:
        if not self.is_marked:
            self.is_marked, reason = True, self.file.mark()
            if reason and self.file.id() != self.known_id:
                report(about_file(UNMARKED.format(reason)))
        return Mark(self.size, digest(self.recent), self.file.id())

    def put(self, content: Buffer) -> None:
        self.is_written = True
        with self.file.whole(self.size):
            super().put(content)
        self.size += len(content)
        self.recent = (self.recent + bytes(content[-LAST_BYTES:]))[-LAST_BYTES:]

    def size_in_file(self) -> int | None:
        return self.size - self.start

    def arrive(self) -> None:
        self.check()

    def sync(self) -> None:
        with self.file.whole(self.size):
            os.fsync(STANDARD_OUTPUT)

    def end(self, header: bytes) -> None:
        self.is_written = False

    def check(self) -> None:
        self.file.check_there()
        status = self.file.status()
        self.is_ours = self.file.before(self.start) == self.recent_at_start
        if status.st_size != self.size or not self.is_ours or self.file.before(self.size) != self.recent:
            self.is_ours = False
            raise InorderError(
                about_file("another program changed the file on standard output\n")
                + f"DETAIL:  It has {status.st_size:,} bytes: {self.start:,} were delivered, {self.size:,} written.\n"
                + ROTATION
            )

    def take_back(self) -> None:
        if self.rows:
            self.check()
            self.file.cut(self.start)
            self.rows, self.size, self.recent = 0, self.start, self.recent_at_start

    def close(self) -> None:
        """Remove the rows after the saved position. Otherwise the next run would remove them."""
        if self.source is None or not (self.is_written and self.is_ours and self.size == self.file.size()):
            return
        mark = self.source.output()
        if mark and mark.size < self.size and digest(self.file.before(mark.size)) == mark.last:
            self.file.cut(mark.size)


def is_named(text: str | None) -> bool:
    """Return whether an id is stored in the file's attribute. An inode number, in contrast, may be reused."""
    return text is not None and not text.startswith("inode")


def is_file() -> bool:
    return stat.S_ISREG(os.fstat(STANDARD_OUTPUT).st_mode)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def advice(reason: str, mark: Mark, is_unfinished: bool) -> str:
    """Build the message for a file that is not the expected file, with possible remedies."""
    if is_unfinished:
        hint = (
            "Append to the previous file once more, to complete its last batch. Or cut the previous file to its first "
            f"{mark.size} bytes (truncate -s) and use --accept-output."
        )
    else:
        hint = (
            f"Append to the previous file; if it has more than {mark.size} bytes, first cut it to that size "
            "(truncate -s): later rows are delivered again. Or use --accept-output to continue in this file."
        )
    return f"standard output is not the file that the position belongs to: {reason}\nHINT:  {hint}"
