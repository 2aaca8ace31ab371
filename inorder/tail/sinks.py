"""Where rows go, and when they have arrived: a file on the disk, a pipe read empty, a command that succeeded."""

import array
import fcntl
import os
import select
import signal
import stat
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from inorder.errors import InorderError, InputError
from inorder.tail.position import Mark

STANDARD_OUTPUT = 1
BUFFER_BYTES = 65536  # what a pipe holds
DRAIN_MS = 5


class Sink(Protocol):
    """Takes the rows of one batch after the other."""

    rows: int  # of the present batch, taken so far

    def at_start(self) -> bool:
        """Whether nothing has been written yet to what is written to: the place for a header."""

    def mark(self) -> Mark | None:
        """Where the next row goes, if that can be come back to."""

    def rewind(self, mark: Mark) -> None:
        """Take back what was written since, if this is the same file."""

    def write(self, row: bytes) -> None:
        """Take a row, whole; it may stay in a buffer."""

    def finish(self) -> None:
        """End the batch: return when the rows have arrived."""

    def check(self) -> None:
        """Between batches: BrokenPipeError if nobody reads any more."""

    def close(self) -> None:
        """End the run, perhaps within a batch."""


class Buffered:
    """What all sinks have in common: whole rows collected into large writes."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self.rows = 0
        self.told = told
        self.buffer = bytearray()
        self.unreported = 0

    def mark(self) -> Mark | None:
        """Nothing to come back to."""
        return None

    def rewind(self, mark: Mark) -> None:
        """Nothing can be taken back."""

    def write(self, row: bytes) -> None:
        """Collect a row."""
        self.buffer += row
        self.rows += 1
        self.unreported += 1
        if len(self.buffer) >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        rest = memoryview(bytes(self.buffer))
        while rest:
            rest = rest[os.write(self.descriptor(), rest) :]
        self.buffer.clear()
        self.told(self.unreported)
        self.unreported = 0

    def finish(self) -> None:
        """End the batch."""
        self.flush()
        self.arrive()
        self.rows = 0

    def descriptor(self) -> int:
        """What is written to."""
        return STANDARD_OUTPUT

    def arrive(self) -> None:
        """Wait until what was written has arrived."""

    def check(self) -> None:
        """There is always somebody."""

    def close(self) -> None:
        """What is in the buffer belongs to a batch that comes again."""


class StreamSink(Buffered):
    """A pipe or a device. Rows have arrived when the pipe's reader has read them."""

    def __init__(self, told: Callable[[int], None]) -> None:
        super().__init__(told)
        self.started = False
        self.pipe: select.poll | None = None
        if stat.S_ISFIFO(os.fstat(STANDARD_OUTPUT).st_mode):
            self.pipe = select.poll()
            self.pipe.register(STANDARD_OUTPUT, 0)

    def at_start(self) -> bool:
        """A run is a stream."""
        return not self.started

    def write(self, row: bytes) -> None:
        """Collect a row."""
        self.started = True
        super().write(row)

    def arrive(self) -> None:
        """Wait until a pipe is empty; BrokenPipeError if nobody is left to empty it."""
        unread = array.array("i", [0])
        while self.pipe and fcntl.ioctl(STANDARD_OUTPUT, termios.FIONREAD, unread) == 0 and unread[0] > 0:
            self.check(DRAIN_MS)

    def check(self, wait_ms: int = 0) -> None:
        """A pipe without a reader is in error."""
        if self.pipe and self.pipe.poll(wait_ms):
            raise BrokenPipeError


class FileSink(Buffered):
    """A regular file: rows have arrived when they are on the disk, and half a batch is taken back."""

    def __init__(self, told: Callable[[int], None]) -> None:
        super().__init__(told)
        self.appends = bool(fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_APPEND)
        try:
            fcntl.flock(STANDARD_OUTPUT, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("another inorder tail writes to this file; each needs one of its own") from None

    def offset(self) -> int:
        """Where the next row goes."""
        size = os.fstat(STANDARD_OUTPUT).st_size
        return (size if self.appends else os.lseek(STANDARD_OUTPUT, 0, os.SEEK_CUR)) + len(self.buffer)

    def at_start(self) -> bool:
        """A file is a stream, whatever the number of runs."""
        return self.offset() == 0

    def mark(self) -> Mark:
        """The place in the file."""
        status = os.fstat(STANDARD_OUTPUT)
        return Mark(status.st_dev, status.st_ino, self.offset())

    def rewind(self, mark: Mark) -> None:
        """Cut the file off there, if it is the same and has come so far."""
        status = os.fstat(STANDARD_OUTPUT)
        if (status.st_dev, status.st_ino) == (mark.device, mark.inode) and status.st_size > mark.offset:
            os.ftruncate(STANDARD_OUTPUT, mark.offset)
            if not self.appends:
                os.lseek(STANDARD_OUTPUT, mark.offset, os.SEEK_SET)

    def arrive(self) -> None:
        """Wait for the disk."""
        os.fsync(STANDARD_OUTPUT)


class CommandSink(Buffered):
    """A command, run anew for each batch with the rows as its input: they have arrived when it exits with 0."""

    def __init__(self, told: Callable[[int], None], command: str) -> None:
        super().__init__(told)
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None

    def at_start(self) -> bool:
        """A batch is a stream."""
        return self.process is None

    def write(self, row: bytes) -> None:
        """Collect a row."""
        if self.process is None:
            # In a group of its own: Ctrl-C is for this process, which lets it finish.
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", self.command], stdin=subprocess.PIPE, bufsize=0, process_group=0
            )
        super().write(row)

    def descriptor(self) -> int:
        """Its input."""
        assert self.process and self.process.stdin
        return self.process.stdin.fileno()

    def flush(self) -> None:
        """Write what was collected; a command may end before it has read all, its exit code decides."""
        try:
            super().flush()
        except BrokenPipeError:
            self.buffer.clear()

    def arrive(self) -> None:
        """Wait for its exit code."""
        assert self.process and self.process.stdin
        process, self.process = self.process, None
        with suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        if code := process.wait():
            raise InorderError(f"'{self.command}' failed with exit code {code}; its batch comes again in the next run")

    def close(self) -> None:
        """End a command that has half a batch, before it takes the end of its input for the end of the batch."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def sink_for(command: str | None, told: Callable[[int], None]) -> Sink:
    """A command if there is one, or else what standard output is."""
    if command is not None:
        return CommandSink(told, command)
    regular = stat.S_ISREG(os.fstat(STANDARD_OUTPUT).st_mode)
    return FileSink(told) if regular else StreamSink(told)
