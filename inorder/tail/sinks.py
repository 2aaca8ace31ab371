"""The outputs for rows. A file, a pipe, a device and a command differ in when rows count as delivered."""

import fcntl
import os
import stat
from collections.abc import Callable
from typing import Any

from psycopg.abc import Buffer

from inorder.errors import InorderError, InputError
from inorder.tail.formats import Format
from inorder.tail.source import Source
from inorder.tail.state import Mark

STANDARD_OUTPUT = 1
Report = Callable[[int], None]  # called with the number of rows written since the last call


class Sink:
    """An output for batches of rows.

    This base class writes to a device, where rows are delivered when they are written.
    """

    waits_for_nobody = False  # True if a write never waits for another program while a transaction may be open
    can_take_back = False  # True if the rows of a batch can be removed until the batch is delivered
    wanted_rows: int | None = None  # maximum number of rows in the next batch, if files have a target size

    def __init__(self, report: Report, form: Format) -> None:
        self.report, self.form = report, form
        self.rows = 0  # rows of the current batch so far
        self.started = False

    def resume(self, source: Source, accept: bool) -> None:
        """Check that this is the output of the last run, and remove an incomplete batch."""
        if source.begun is not None and not accept:
            mark = source.output()
            assert mark is not None
            raise InputError(
                "the last batch is unfinished in a file, and standard output is not that file\n"
                "HINT:  Append to that file once more, to complete the batch; or cut that file to its first "
                f"{mark.size} bytes (truncate -s) and use --accept-output."
            )

    def at_start(self) -> bool:
        """Return whether the output is still empty, so that it needs a header."""
        return not self.started

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """Begin a batch with its header and first bytes.

        Return the start of the batch in hexadecimal if the output can be read back.
        """
        if not self.at_start():
            self.check_form(header, first)
        return None

    def check_form(self, header: bytes, first: bytes) -> None:
        """Raise an error unless the rows have the format of the earlier rows."""

    def mark(self) -> Mark | None:
        """Return the end of the last batch if the batch is in a file."""
        return None

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Write some complete rows, given as rows and as their content in the output format."""
        if header:
            self.put(header)
        self.put(content)
        self.rows += len(rows)
        self.report(len(rows))

    def put(self, content: Buffer) -> None:
        put_output(self.form.shown(content) if is_terminal() else content)

    def size_in_file(self) -> int | None:
        """Return the size of the current batch in a file. Return None if finish() may wait for another program."""
        return None

    def again(self) -> None:
        """Restart a batch: drop the rows written so far.

        A sink that does not override this method continues after these rows.
        """

    def take_back(self) -> None:
        """Drop the rows of a batch that another batch will replace. Rows on a terminal stay."""
        self.rows = 0

    def finish(self) -> None:
        """End the batch, and return when its rows are delivered."""
        self.arrive()
        self.rows, self.started = 0, True

    def arrive(self) -> None:
        """Wait until the written rows are delivered."""

    def sync(self) -> None:
        """Flush the output file to disk."""

    def check(self) -> None:
        """Raise an error if the next batch cannot be written. Called between batches."""

    def end(self, header: bytes) -> None:
        """End the run after a batch: write the trailer of the format, and the header if the run had no rows."""
        end_bytes = (header if self.at_start() else b"") + self.form.trailer
        put_output(self.form.shown(end_bytes) if is_terminal() else end_bytes)

    def close(self) -> None:
        """End the run, even within a batch."""


def put_all(descriptor: int, content: Buffer) -> None:
    unwritten = memoryview(content)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def put_output(content: Buffer) -> None:
    try:
        put_all(STANDARD_OUTPUT, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = os.readlink(f"/proc/self/fd/{STANDARD_OUTPUT}")
        raise InorderError(f"{name}: cannot write: {error.strerror}") from error


def require_writable_output() -> None:
    """Raise InputError if standard output was closed, or is open for reading only."""
    if fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise InputError("standard output is closed, or cannot be written to; HINT: Use >> FILE, | COMMAND, or --exec.")


def is_terminal() -> bool:
    return os.isatty(STANDARD_OUTPUT)


def is_device() -> bool:
    """Return whether standard output is a terminal or another device.

    A pipe is not a device: its reader could receive a partial batch.
    """
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
