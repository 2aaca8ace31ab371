"""Sinks that accept only whole batches: a command, a pipe, and a file for a feed.

A batch is collected in an unnamed temporary file. The complete file becomes the input of a command, or of a second
process that copies it to standard output. If this process is killed, the command or the copying process still has the
whole batch, or was never started.
"""

import array
import fcntl
import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import IO

from psycopg.abc import Buffer

from inorder.connection.patience import pauses
from inorder.connection.reconnect import report
from inorder.errors import InorderError
from inorder.interrupts import is_interrupted
from inorder.tail.formats import Format
from inorder.tail.output_file import ROTATION, OutputFile, about_file
from inorder.tail.sinks import STANDARD_OUTPUT, Report, Sink, put_all
from inorder.tail.source import Source
from inorder.text import quoted

DRAIN_MS = 5
LONGEST_NAP = 0.1  # seconds
# Signals that stop a whole service must not interrupt the copy.
COPIER = ("/bin/sh", "-c", "trap '' HUP INT TERM; exec cat")


class WholeBatches(Sink):
    """Collects the rows of a batch. Subclasses pass the complete batch on."""

    is_separate = False  # True if each batch is a separate output
    can_take_back = True

    def __init__(self, report: Report, form: Format) -> None:
        super().__init__(report, form)
        self.name, self.same = "", b""
        # The lock of this run. A process that works on a batch inherits it, so that the lock outlives this process.
        self.lock: Callable[[], int] | None = None
        self.batch: IO[bytes] | None = None

    def resume(self, source: Source, accept: bool) -> None:
        super().resume(source, accept)
        self.lock = source.lock

    def at_start(self) -> bool:
        return self.is_separate or super().at_start()

    def held(self) -> list[int]:
        return [self.lock()] if self.lock else []

    def begin(self, name: str, header: bytes, first: bytes) -> str | None:
        self.name = name
        super().begin(name, header, first)
        self.same = header + first[: self.form.same_bytes]
        return None

    def check_form(self, header: bytes, first: bytes) -> None:
        if self.same != header + first[: self.form.same_bytes]:
            raise InorderError(
                "the columns of the table were changed, and all rows of an output must have the same columns: "
                "run the command again"
            )

    def put(self, content: Buffer) -> None:
        """Append to the temporary file.

        Each batch has a new file, because a process may still be reading the file of the previous batch.
        """
        try:
            if self.batch is None:
                self.batch = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
                put_all(self.batch.fileno(), self.head(0, 0))
            put_all(self.batch.fileno(), content)
        except OSError as error:
            raise InorderError(
                f"cannot write a batch to a temporary file in {tempfile.gettempdir()}: {error.strerror}\n"
                "HINT:  Set TMPDIR to another folder, or use smaller batches (--batch-rows)."
            ) from error

    def head(self, rows: int, size: int) -> bytes:
        """Return the bytes before the rows. Their length must not depend on the rows."""
        return b""

    def again(self) -> None:
        self.forget()
        self.rows = 0

    def forget(self) -> None:
        if self.batch:
            self.batch.close()
            self.batch = None

    def arrive(self) -> None:
        assert self.batch
        if self.is_separate:
            put_all(self.batch.fileno(), self.form.trailer)
        size = self.batch.tell() - len(self.head(0, 0))
        self.batch.seek(0)
        put_all(self.batch.fileno(), self.head(self.rows, size))
        self.batch.seek(0)
        try:
            self.give(self.batch, size)
        finally:
            self.forget()

    def give(self, batch: IO[bytes], size: int) -> None:
        raise NotImplementedError

    def end(self, header: bytes) -> None:
        if not self.is_separate:
            super().end(header)

    def close(self) -> None:
        self.forget()


class CommandSink(WholeBatches):
    """A command that runs once per batch, with the rows as its input. Rows are delivered when it exits with 0."""

    is_separate = True

    def __init__(self, report: Report, form: Format, command: str, retries: int) -> None:
        super().__init__(report, form)
        self.command, self.retries = command, retries
        self.process: subprocess.Popen[bytes] | None = None

    def give(self, batch: IO[bytes], size: int) -> None:
        """Run the command until it succeeds. A signal to stop ends the retries after the current attempt."""
        for pause in islice(pauses(), self.retries):
            if (code := self.ran(batch, size)) == 0:
                return
            report(f"{quoted(self.command)} failed with exit code {code}, trying again")
            if not rested(pause):
                break
        else:
            code = self.ran(batch, size)
        if code:
            raise InorderError(f"{quoted(self.command)} failed with exit code {code}; the next run repeats its batch")

    def ran(self, batch: IO[bytes], size: int) -> int:
        """Run the command once, and return its exit code. The command reads the batch through its own open file."""
        about = {"INORDER_BATCH": self.name, "INORDER_ROWS": str(self.rows), "INORDER_BYTES": str(size)}
        # The command has its own process group. Ctrl-C reaches only this process, which lets the command finish.
        with open(f"/proc/self/fd/{batch.fileno()}", "rb") as own_file:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", self.command], stdin=own_file, env=os.environ | about, process_group=0,
                pass_fds=self.held(), stderr=sys.stderr,
            )  # fmt: skip
        code = self.process.wait()
        self.process = None
        return code

    def close(self) -> None:
        """Kill the command instead of waiting for it. A killed command has failed."""
        super().close()
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def rested(seconds: float) -> bool:
    """Sleep for some seconds. Return False at once if this run must stop."""
    until = time.monotonic() + seconds
    while not is_interrupted():
        if (remaining := until - time.monotonic()) <= 0:
            return True
        time.sleep(min(remaining, LONGEST_NAP))
    return False


class Copied(WholeBatches):
    """Copies batches to standard output in a second process, which continues if this process is killed."""

    def give(self, batch: IO[bytes], size: int) -> None:
        """Run the copying process in its own session, so that signals for this process do not stop it."""
        code = subprocess.Popen(
            COPIER, stdin=batch, start_new_session=True, pass_fds=self.held(), stderr=sys.stderr
        ).wait()
        if code == -signal.SIGPIPE:
            raise BrokenPipeError
        if code:
            raise InorderError(f"cannot write to standard output: cat failed with exit code {code}")


class PipeSink(Copied):
    """A pipe or a socket. Rows are delivered when they have been read from the pipe, or written to the socket."""

    def __init__(self, report: Report, form: Format, framed: bool) -> None:
        super().__init__(report, form)
        self.is_separate = framed
        self.pipe: select.poll | None = None
        if stat.S_ISFIFO(os.fstat(STANDARD_OUTPUT).st_mode):
            self.pipe = select.poll()
            self.pipe.register(STANDARD_OUTPUT, 0)

    def head(self, rows: int, size: int) -> bytes:
        """Return the line before a framed batch.

        >>> from inorder.tail.formats import FORMATS
        >>> PipeSink(print, FORMATS["json"], framed=True).head(2, 77)
        b'{"batch": "", "rows":          2, "bytes":                   77}\\n'
        """
        line = f'{{"batch": {json.dumps(self.name)}, "rows": {rows:10}, "bytes": {size:20}}}\n'
        return line.encode() if self.is_separate else b""

    def give(self, batch: IO[bytes], size: int) -> None:
        """Copy the batch, and wait until the pipe is empty. Raise BrokenPipeError if the pipe has no reader."""
        super().give(batch, size)
        unread = array.array("i", [0])
        while self.pipe and fcntl.ioctl(STANDARD_OUTPUT, termios.FIONREAD, unread) == 0 and unread[0] > 0:
            self.check(DRAIN_MS)

    def check(self, wait_ms: int = 0) -> None:
        if self.pipe and self.pipe.poll(wait_ms):
            raise BrokenPipeError


class FeedFileSink(Copied):
    """A regular file for a feed, whose position is in the database. The last batch may therefore be repeated."""

    def __init__(self, report: Report, form: Format) -> None:
        super().__init__(report, form)
        self.file = OutputFile()
        self.size = self.file.end()  # size of the file after the last batch of this run
        self.file.cut(self.size)

    def at_start(self) -> bool:
        return self.file.size() == 0

    def check(self) -> None:
        self.file.check_there()
        if self.file.size() < self.size:
            sizes = f"it has {self.file.size():,} bytes, and {self.size:,} were written"
            raise InorderError(about_file(f"another program truncated it: {sizes}\n{ROTATION}"))

    def check_form(self, header: bytes, first: bytes) -> None:
        self.file.check_form(self.form, header)

    def give(self, batch: IO[bytes], size: int) -> None:
        self.check()
        size_before = self.file.size()
        with self.file.whole(size_before, errors=Exception):  # after an interrupt, the copying process goes on
            super().give(batch, size)
            os.fsync(STANDARD_OUTPUT)
        self.size = size_before + size
