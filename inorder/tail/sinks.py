"""Outputs of rows. Rows are delivered when the file is on disk, the pipe is empty, or the command has succeeded."""

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
Report = Callable[[int], None]  # a function that is called with the number of further rows


class Sink:
    """An output for batches of rows. This base class writes to a device, where rows are delivered when written."""

    waits_for_nobody = False  # True if writing does not wait for another program while a transaction may be open
    can_take_back = False  # True if rows of a batch can be removed before the batch is delivered
    wanted_rows: int | None = None  # maximum number of rows in the next batch, if the sink aims at a file size

    def __init__(self, report: Report, form: Format) -> None:
        self.report, self.form = report, form
        self.rows = 0  # rows of the current batch so far
        self.started = False

    def resume(self, source: Source, accept: bool) -> None:
        """Before the first batch, check that this is the output of the last run, and remove an incomplete batch."""
        if source.begun is not None and not accept:
            mark = source.output()
            assert mark is not None
            raise InputError(
                "the last batch is unfinished in a file, and standard output is not that file\n"
                "HINT:  Append to that file once more, to complete the batch; or cut that file to its first "
                f"{mark.size} bytes (truncate -s) and use --accept-output."
            )

    def at_start(self) -> bool:
        """True if the output is still empty, so that a header is needed."""
        return not self.started

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        """Begin a batch with its header and first bytes.

        Return the start of the batch in hex if the output can be read again.
        """
        if not self.at_start():
            self.check_form(header, first)
        return None

    def check_form(self, header: bytes, first: bytes) -> None:
        """Raise an error unless the rows have the format of the earlier rows."""

    def mark(self) -> Mark | None:
        """The end of the last batch, if the batch is in a file."""
        return None

    def write(self, rows: Any, content: Buffer, header: Buffer = b"") -> None:
        """Take some complete rows, and their content in the output format."""
        if header:
            self.put(header)
        self.put(content)
        self.rows += len(rows)
        self.report(len(rows))

    def put(self, content: Buffer) -> None:
        put_all(STANDARD_OUTPUT, self.form.shown(content) if is_terminal() else content)

    def size_in_file(self) -> int | None:
        """The size of the current batch in a file; None if finish() may wait for another program."""
        return None

    def again(self) -> None:
        """Restart a batch: drop the rows written so far. A sink without this method continues after these rows."""

    def take_back(self) -> None:
        """Drop the rows of a batch that will be replaced by another batch; rows on a terminal stay."""
        self.rows = 0

    def finish(self) -> None:
        """End the batch, and return when its rows are delivered."""
        self.arrive()
        self.rows, self.started = 0, True

    def arrive(self) -> None:
        """Wait until the written rows are delivered."""

    def sync(self) -> None:
        """Flush a file to disk."""

    def check(self) -> None:
        """Between batches, raise an error if the next batch cannot be written."""

    def end(self, header: bytes) -> None:
        """End the run after a batch: write the trailer of the format, and the header if the run had no rows."""
        end_bytes = (header if self.at_start() else b"") + self.form.trailer
        put_all(STANDARD_OUTPUT, self.form.shown(end_bytes) if is_terminal() else end_bytes)

    def close(self) -> None:
        """End the run, even within a batch."""


def put_all(descriptor: int, content: Buffer) -> None:
    unwritten = memoryview(content)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def require_writable_output() -> None:
    """Raise an error if standard output was closed, or is open for reading only."""
    if fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise InputError("standard output is closed, or cannot be written to; HINT: Use >> FILE, | COMMAND, or --exec.")


def is_terminal() -> bool:
    return os.isatty(STANDARD_OUTPUT)


def is_device() -> bool:
    """True if standard output is a terminal or another device.

    False for a pipe, whose reader could get a partial batch.
    """
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
