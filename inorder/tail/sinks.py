"""Where rows go, and when they have arrived: a file on the disk, a pipe read empty, a command that succeeded."""

import os
import stat
from collections.abc import Callable
from typing import Protocol

from psycopg.abc import Buffer

from inorder.errors import InputError
from inorder.tail.state import Mark

STANDARD_OUTPUT = 1
BUFFER_BYTES = 65536  # what a pipe holds

Report = Callable[[int], None]  # receives the number of further rows


class Sink(Protocol):
    """Takes the rows of one batch after the other."""

    rows: int  # of the present batch, taken so far

    def settle(self, known: Mark | None, begun: str | None, accept: bool) -> None:
        """Before the first batch: an error unless this is where the last run wrote to. Half a batch is taken back."""

    def at_start(self) -> bool:
        """Whether nothing has been written yet to what is written to: the place for a header."""

    def begin(self, name: str, first: bytes) -> str | None:
        """A batch begins with these bytes: they in hex, if they can be found again where they go to."""

    def mark(self) -> Mark | None:
        """The end of the last batch, if it is in a file."""

    def write(self, row: Buffer, header: Buffer = b"") -> None:
        """Take a row, whole; it may stay in a buffer."""

    def again(self) -> None:
        """The batch is read from its beginning once more: forget its rows if that is possible, else count them."""

    def finish(self) -> None:
        """End the batch: return when the rows have arrived."""

    def check(self) -> None:
        """Between batches: an error if the next one could not be taken."""

    def close(self) -> None:
        """End the run, perhaps within a batch."""


class Buffered:
    """What all sinks have in common: whole rows collected into large writes."""

    def __init__(self, report: Report) -> None:
        self.rows = 0
        self.report = report
        self.buffer = bytearray()
        self.unreported = 0

    def settle(self, known: Mark | None, begun: str | None, accept: bool) -> None:
        """Rows may go anywhere; but half a batch in a file would stay there."""
        if begun is not None and not accept:
            assert known is not None
            raise InputError(
                "the last batch is unfinished in a file, and standard output is not that file\n"
                f"HINT:  Append to that file once more, which completes it; or cut it to its first {known.size} bytes "
                "(truncate -s) and use --accept-output."
            )

    def begin(self, name: str, first: bytes) -> str | None:
        """Nothing to come back to."""
        return None

    def mark(self) -> Mark | None:
        """Nothing to come back to."""
        return None

    def write(self, row: Buffer, header: Buffer = b"") -> None:
        """Collect a row; a large one is not copied."""
        self.buffer += header
        if len(row) < BUFFER_BYTES:
            self.buffer += row
        else:
            self.put_buffer()
            self.put(row)
        self.rows += 1
        self.unreported += 1
        if len(self.buffer) >= BUFFER_BYTES:
            self.flush()

    def again(self) -> None:
        """What was written is known by its number."""

    def flush(self) -> None:
        """Write what was collected."""
        self.put_buffer()
        self.report(self.unreported)
        self.unreported = 0

    def put_buffer(self) -> None:
        """Write it, and empty it also if that fails: the batch comes again."""
        content, self.buffer = self.buffer, bytearray()
        self.put(content)

    def put(self, content: Buffer) -> None:
        """Write, as often as it takes."""
        put_all(STANDARD_OUTPUT, content)

    def finish(self) -> None:
        """End the batch."""
        self.flush()
        self.arrive()
        self.rows = 0

    def arrive(self) -> None:
        """Wait until what was written has arrived."""

    def check(self) -> None:
        """There is always somebody."""

    def close(self) -> None:
        """What is in the buffer belongs to a batch that comes again."""


class DeviceSink(Buffered):
    """A terminal or another device: rows have arrived when they are written."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.started = False

    def at_start(self) -> bool:
        """A run is a stream."""
        return not self.started

    def write(self, row: Buffer, header: Buffer = b"") -> None:
        """Collect a row."""
        self.started = True
        super().write(row, header)


def put_all(descriptor: int, content: Buffer) -> None:
    """Write all of it."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def is_device() -> bool:
    """Whether standard output is a terminal or another device: nobody is at its other end who could be cut off."""
    mode = os.fstat(STANDARD_OUTPUT).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
