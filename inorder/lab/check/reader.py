"""Readers under test: a SQL text, or a program that is asked for one poll at a time."""

import json
import os
import select
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from inorder.errors import InputError
from inorder.lab.check.session import LOOK_SECONDS, FailedError, Session
from inorder.lab.check.ways import Way, filled

Blockers = Callable[[int], tuple[str, ...]]


class Reader(ABC):
    """``begin`` starts a step of a poll; ``wait`` returns the sessions it waits for; ``rows``: those of the poll.

    A poll has as many steps as ``statements``. ``kill`` ends the reader like a crash, and restarts it.
    """

    statements = 1
    said = ""  # the SQL of the last step
    pid = -1  # process ID of its server process, if known

    @abstractmethod
    def begin(self, step: int, now: str, kill: bool) -> None: ...

    @abstractmethod
    def wait(self, blockers: Blockers) -> tuple[str, ...]: ...

    @abstractmethod
    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        """None while the poll is running; no rows for a poll that was killed."""

    @abstractmethod
    def close(self) -> None: ...


class SqlReader(Reader):
    """Runs SQL. The first column of each row is a key, unless it is null; :last is the last key.

    Each column of the last row that a statement returns is a name for the statements that follow. A poll and the work
    on its rows are one transaction; with ``finish`` there are two, and the rows are stored in between.
    """

    def __init__(self, way: Way, connect: Callable[[], Session]) -> None:
        self.way, self.connect = way, connect
        self.texts = way.statements
        self.statements = way.steps
        self.kept: dict[str, str | None] = dict(way.start)
        self.values = dict(self.kept)
        self.restart()
        self.keys: tuple[str, ...] = ()

    def begin(self, step: int, now: str, kill: bool) -> None:
        if step == 0:
            self.values, self.keys = dict(self.kept), ()
        last = step == len(self.texts) - 1
        text = self.way.finish if step == len(self.texts) else self.texts[step]
        text = filled(text.replace(":now", f"timestamptz '{now}'"), self.values)
        text = f"{self.way.read}; {text}" if step == 0 else text
        self.said = f"{text}; COMMIT" if last and not kill else text
        self.session.send(self.said)

    def wait(self, blockers: Blockers) -> tuple[str, ...]:
        return self.session.wait(blockers)

    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        try:
            answer = self.session.answer()
        except FailedError:
            self.session.run("ROLLBACK")
            return ()
        if step < len(self.texts):
            self.take(answer.names, answer.rows)
            self.take(["key"], [(key,) for key in self.session.notified()])
        if kill and step == len(self.texts) - 1:
            self.session.run("COMMIT" if self.way.finish else "ROLLBACK")
            self.close()
            self.restart()
            return ()
        if step < self.statements - 1:
            return None
        self.kept = self.values
        return self.keys

    def take(self, names: list[str], rows: list[tuple[str | None, ...]]) -> None:
        keys = tuple(row[0] for row in rows if row[0] is not None)
        self.keys += keys
        self.values["keys"] = f"{{{','.join(self.keys)}}}"
        if rows:
            self.values |= dict(zip(names, rows[-1], strict=True)) | ({"last": keys[-1]} if keys else {})

    def restart(self) -> None:
        """Open a new session, after the previous one has ended on the server."""
        self.session = self.connect()
        while self.session.run(f"SELECT FROM pg_stat_activity WHERE pid = {self.pid}").rows:
            pass
        self.pid = self.session.pid
        if self.way.listen:
            self.session.run(self.way.listens)

    def close(self) -> None:
        self.session.close()


class Program(Reader):
    """A program that reads a line of JSON for each poll, and prints a key per line, then its position as JSON."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self.command, self.environment = command, environment
        self.kept: Any = None
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        try:
            command, environment = shlex.split(self.command), os.environ | self.environment
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        except (OSError, ValueError, IndexError) as error:  # ValueError: a quote is not closed
            reason = error.strerror if isinstance(error, OSError) else "no command of a shell"
            raise InputError(f"cannot run {self.command!r}: {reason}") from error

    def begin(self, step: int, now: str, kill: bool) -> None:
        assert self.process.stdin
        self.lines, self.part = list[Any](), b""
        self.said = f"-- {self.command}: poll"
        with suppress(BrokenPipeError):  # the program has ended, which is noticed when its answer is read
            self.process.stdin.write(json.dumps({"now": now, "last": self.kept}).encode() + b"\n")
            self.process.stdin.flush()

    def wait(self, blockers: Blockers) -> tuple[str, ...]:
        while not self.ended():
            if found := blockers(0):
                return found
        return ()

    def ended(self) -> bool:
        """Wait briefly; True if the line that ends the poll has been read."""
        assert self.process.stdout
        while not (self.lines and isinstance(self.lines[-1], dict)):
            if not select.select([self.process.stdout], [], [], LOOK_SECONDS)[0]:
                return False
            if not (found := os.read(self.process.stdout.fileno(), 65536)):
                raise InputError(f"{self.command} ended with exit code {self.process.wait()} in the middle of a poll")
            *whole, self.part = (self.part + found).split(b"\n")
            self.lines += map(self.read, whole)
        return True

    def read(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.command} printed what is no line of JSON: {line.decode(errors='replace')}"
            ) from error

    def rows(self, step: int, kill: bool) -> tuple[str, ...] | None:
        if kill:
            self.close()
            self.process = self.start()
            return ()
        *keys, end = self.lines
        self.kept = end.get("last")
        return tuple(map(str, keys))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
