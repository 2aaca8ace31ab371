"""Runs of inorder tail, and the table that these runs read."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster

import preloaded
from waiting import PATIENCE, wait_for


def make_table(connection: Connection) -> None:
    connection.execute("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    connection.execute("SELECT feed_enable('events')")


def insert(connection: Connection, count: int, first: int = 1) -> None:
    connection.execute("INSERT INTO events (n) SELECT generate_series(%s::int, %s)", (first, first + count - 1))


def environment(cluster: Cluster, database: str = "tail") -> dict[str, str]:
    return cluster.environment() | {"PGDATABASE": database}


class Tail:
    """Runs of the tool in a folder, connected to a database of a server."""

    def __init__(self, cluster: Cluster, folder: Path, database: str = "tail", command: str = "tail") -> None:
        self.command = command
        self.folder = folder
        self.environment = environment(cluster, database)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run the tool to its end. Return stdout if the expected exit code is 0, otherwise stderr."""
        done = preloaded.run([self.command, *arguments], self.folder, self.environment, PATIENCE)
        out, err = done.stdout.decode(), done.stderr.decode()  # decoded here: text mode would change line endings
        assert done.returncode == code and "Traceback" not in err, err
        assert (out if code else err) == ""
        return err if code else out

    def written(self, *arguments: str) -> bytes:
        """Run the tool, and return the bytes that it writes to stdout, which need not be text."""
        done = preloaded.run([self.command, *arguments], self.folder, self.environment, PATIENCE)
        assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
        return done.stdout

    @contextmanager
    def started(
        self,
        *arguments: str,
        to: str | None = None,
        mode: str = "ab",
        held_after: Sequence[int] = (),
        room: int | None = None,
    ) -> Iterator[preloaded.Run]:
        """Start a run whose output is a file or a pipe. Kill it at the end of the block if it is still running.

        With ``held_after``, the run stops itself after each of these numbers of bytes, and waits for SIGCONT. The block
        begins when the run has stopped for the first time.
        """
        stdout: int | IO[bytes] = (self.folder / to).open(mode) if to else subprocess.PIPE
        command = [self.command, *arguments]
        held = {preloaded.HELD_AFTER: " ".join(map(str, held_after))} if held_after else {}
        limit = {} if room is None else {preloaded.ROOM: str(room)}
        running = preloaded.Run(command, self.folder, self.environment | held | limit, stdout, subprocess.PIPE)
        try:
            if held_after:
                wait_for(running.is_stopped)
            yield running
        finally:
            running.kill()
            running.wait()
            for stream in (running.stdout, running.stderr, stdout):
                if stream and not isinstance(stream, int):
                    stream.close()

    def without_room(self, room: int, *arguments: str, to: str | None = None) -> str:
        """Return the error message of a run that fails because a file would exceed the size limit."""
        with self.started(*arguments, to=to, room=room) as running:
            assert running.wait(PATIENCE) in (1, 2) and running.stderr
            stderr = running.stderr.read().decode()
            assert "Traceback" not in stderr and not (running.stdout and running.stdout.read()), stderr
        return stderr

    def appended(self, *arguments: str, to: str = "out") -> None:
        with self.started(*arguments, to=to) as running:
            assert running.wait(PATIENCE) == 0, running.stderr and running.stderr.read()

    def rows(self, name: str = "out") -> list[int]:
        """Return the values of the column n in a file of JSON lines, except for an incomplete last line."""
        text = (self.folder / name).read_text()
        return numbers(text[: text.rfind("\n") + 1])

    def state(self, name: str = "p") -> dict[str, object]:
        read: dict[str, object] = json.loads((self.folder / name).read_text())
        return read


def numbers(text: str) -> list[int]:
    """Return the values of the column n in JSON lines."""
    return [json.loads(line)["n"] for line in text.splitlines()]


def read_until(running: preloaded.Run, text: bytes) -> bytes:
    assert running.stderr
    read = b""
    for line in running.stderr:
        read += line
        if text in line:
            return read
    raise AssertionError(running.wait(PATIENCE), read)


def spooled(process: preloaded.Run) -> int:
    """Return the size in bytes of a run's unnamed temporary file."""
    sizes = [0]
    for path in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if "(deleted)" in str(path.readlink()):
                sizes.append(path.stat().st_size)
        except FileNotFoundError:
            pass
    return max(sizes)
