"""Readers under test that are Python functions, or programs that follow the contract in ``protocol``."""

import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec

from inorder.errors import InputError
from inorder.lab.check.protocol import ANSWER_SECONDS, DECODER, ENCODER, End, Line, Poll
from inorder.lab.check.reader import Blockers, Reader
from inorder.lab.check.session import LOOK_SECONDS
from inorder.text import one_line, quoted

END_SECONDS = 10


def command_of(text: str) -> list[str]:
    """Split a command into words. Raise InputError if it cannot be run."""
    try:
        words = shlex.split(text)
    except ValueError as error:  # the command has an unclosed quote
        raise cannot_run(text, "it is not a shell command") from error
    if not words:
        raise cannot_run(text, "it is not a shell command")
    if not shutil.which(words[0]):
        raise cannot_run(text, "the program does not exist, or is not executable")
    return words


def cannot_run(command: str, reason: str | None) -> InputError:
    return InputError(f"cannot run {quoted(command)}: {reason}")


def shown(line: bytes) -> str:
    return one_line(line[:200].decode(errors="replace").rstrip("\n"))


class Program(Reader):
    """A program that reads a JSON line for each poll, and prints one key per line, then its position as JSON."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self.command, self.environment = command, environment
        self.position: Any = None
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command, environment = command_of(self.command), os.environ | self.environment
        self.partial, self.polled = b"", False
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        except OSError as error:
            raise cannot_run(self.command, error.strerror) from error

    def begin(self, step: int, now: str, kill: bool) -> None:
        assert self.process.stdin
        if self.polled and (self.partial or (self.readable(0) and self.receive())):
            raise InputError(f"{self.command} printed a line after the end of its poll: {shown(self.partial)}")
        self.lines, self.polled = list[Line](), True
        self.last_sql, self.begun = f"-- {self.command}: poll", time.monotonic()
        with suppress(BrokenPipeError):  # the program has exited; ended() reports this
            self.process.stdin.write(ENCODER.encode(Poll(now, self.position)) + b"\n")
            self.process.stdin.flush()

    def wait(self, blockers: Blockers) -> tuple[str, ...]:
        while not self.ended():
            if blocking := blockers(0):
                return blocking
            if time.monotonic() > self.begun + ANSWER_SECONDS:
                raise InputError(
                    f"{self.command} did not end its poll within {ANSWER_SECONDS} s; HINT: The program must print an "
                    'object such as {"last": 17}, and flush its output.'
                )
        return ()

    def readable(self, seconds: float) -> bool:
        assert self.process.stdout
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def receive(self) -> bytes:
        assert self.process.stdout
        data = os.read(self.process.stdout.fileno(), 65536)
        self.partial += data
        return data

    def ended(self) -> bool:
        """Wait briefly. Return True if the line that ends the poll has been read."""
        while not (self.lines and isinstance(self.lines[-1], End)):
            if not self.readable(LOOK_SECONDS):
                return False
            if not self.receive():
                raise InputError(f"{self.command} ended with exit code {self.process.wait()} in the middle of a poll")
            *whole_lines, self.partial = self.partial.split(b"\n")
            self.lines += map(self.read, whole_lines)
            if any(isinstance(line, End) for line in self.lines[:-1]):
                raise InputError(f"{self.command} printed a line after the end of its poll: {self.lines[-1]}")
        return True

    def read(self, line: bytes) -> Line:
        try:
            return DECODER.decode(line)
        except msgspec.ValidationError as error:
            raise InputError(
                f"{self.command} printed a line that is neither a key nor the end of a poll: {shown(line)} ({error})"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.command} printed a line that is not JSON: {shown(line)}") from error

    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        if kill:
            self.close()
            self.process = self.start()
            return ()
        *keys, end = self.lines
        assert isinstance(end, End)
        self.position = end.last
        return tuple(map(str, keys))

    def end_of_input(self) -> None:
        """Close the program's input. Raise InputError unless the program exits within END_SECONDS."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{self.command} did not end within {END_SECONDS} s after the end of its input") from error

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            with suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


Called = Callable[[str, Any], tuple[Sequence[int | str], Any]]


class Function(Reader):
    """A Python function that takes a connection string and the last position, and returns keys and a new position.

    The function runs in its own thread, because it may wait for a session of the schedule. A function cannot be killed.
    Instead, the rows and the position of a killed poll are discarded.
    """

    def __init__(self, call: Called, dsn: str) -> None:
        self.call, self.dsn, self.position = call, dsn, None
        self.last_sql = f"-- {call.__qualname__}: poll"
        self.pool = ThreadPoolExecutor(1)

    def begin(self, step: int, now: str, kill: bool) -> None:
        self.job: Future[tuple[Sequence[int | str], Any]] = self.pool.submit(self.call, self.dsn, self.position)

    def wait(self, blockers: Blockers) -> tuple[str, ...]:
        while not self.job.done():
            if blocking := blockers(0):
                return blocking
            time.sleep(LOOK_SECONDS)
        return ()

    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        keys, position = self.job.result()
        if kill:
            return ()
        self.position = position
        return tuple(map(str, keys))

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)  # the thread may wait for a session that is closed next
