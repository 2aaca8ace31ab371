"""Where rows go, and when they have arrived: a file on the disk, a pipe read empty, a command that succeeded."""

import fcntl
import os
import stat
from collections.abc import Callable
from typing import Any

from psycopg.abc import Buffer

from inorder.errors import InputError
from inorder.tail.formats import Format
from inorder.tail.source import Source
from inorder.tail.state import Mark

STANDARD_OUTPUT = 1
Report = Callable[[int], None]  # receives the number of further rows


class Sink:
    """Takes the rows of one batch after the other. This one is a device: rows have arrived when they are written."""

    waits_for_nobody = False  # no other program: meanwhile a transaction may be open
    can_take_back = False  # what it has of a batch, before that has arrived

    def __init__(self, report: Report, form: Format) -> None:
        self.report, self.form = report, form
        self.rows = 0  # of the present batch, taken so far
        self.started = False

    def resume(self, source: Source, accept: bool) -> None:
        """Before the first batch: an error unless this is where the last run wrote to. Half a batch is taken back."""
        if source.begun is not None and not accept:
            known = source.output()
            assert known is not None
            raise InputError(
                "the last batch is unfinished in a file, and standard output is not that file\n"
                f"HINT:  Append to that file once more, which completes it; or cut it to its first {known.size} bytes "
                "(truncate -s) and use --accept-output."
            )

    def at_start(self) -> bool:
        """Whether nothing has been written yet to what is written to: the place for a header."""
        return not self.started

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """A batch begins with these bytes, after the header of its output: in hex, if they can be found again there."""
        if not self.at_start():
            self.check_form(header, first)
        return None

    def check_form(self, header: bytes, first: bytes) -> None:
        """An error unless the rows are of the form of those before them."""

    def mark(self) -> Mark | None:
        """The end of the last batch, if it is in a file."""
        return None

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Take rows, all of each, and their content in the format."""
        if header:
            self.put(header)
        self.put(content)
        self.rows += len(rows)
        self.report(len(rows))

    def put(self, content: Buffer) -> None:
        put_all(STANDARD_OUTPUT, content)

    def size_in_file(self) -> int | None:
        """Of the present batch, if it is in a file: then finish() waits for nobody."""
        return None

    def again(self) -> None:
        """The batch is read from its beginning once more: forget its rows if that is possible, else count them."""

    def take_back(self) -> None:
        """Forget what it has of the batch, which now has other rows; what is on a terminal stays."""
        self.rows = 0

    def finish(self) -> None:
        """End the batch: return when the rows have arrived."""
        self.arrive()
        self.rows, self.started = 0, True

    def arrive(self) -> None:
        """Wait until what was written has arrived."""

    def sync(self) -> None:
        """What was written to a file is on the disk when this returns."""

    def check(self) -> None:
        """Between batches: an error if the next one could not be taken."""

    def end(self, header: bytes) -> None:
        """The run ends after a batch: the output has all of its format, also if there were no rows."""
        put_all(STANDARD_OUTPUT, (header if self.at_start() else b"") + self.form.trailer)

    def close(self) -> None:
        """End the run, perhaps within a batch."""


def put_all(descriptor: int, content: Buffer) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def require_writable_output() -> None:
    """An error where standard output was closed, or is open for reading only."""
    if fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise InputError("standard output is closed, or cannot be written to; HINT: >> FILE, | COMMAND, or --exec")


def is_device() -> bool:
    """Whether standard output is a terminal or another device: nobody is at its other end who could be cut off."""
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
