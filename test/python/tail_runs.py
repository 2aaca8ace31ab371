"""Runs of inorder tail, and the table that they read."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster

import preloaded
from waiting import PATIENCE

TOOL = [sys.executable, "-m", "inorder"]


def make_table(connection: Connection) -> None:
    connection.execute("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    connection.execute("SELECT feed_enable('events')")


def insert(connection: Connection, count: int, first: int = 1) -> None:
    connection.execute("INSERT INTO events (n) SELECT generate_series(%s::int, %s)", (first, first + count - 1))


def environment(cluster: Cluster, database: str = "tail") -> dict[str, str]:
    return cluster.environment() | {"PGDATABASE": database}


class Tail:
    """Runs of the tool in a folder against a server."""

    def __init__(self, cluster: Cluster, folder: Path, database: str = "tail", command: str = "tail") -> None:
        self.command = command
        self.folder = folder
        self.environment = environment(cluster, database)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run to the end; what it wrote: to stdout if all went well, else to stderr."""
        done = preloaded.run([self.command, *arguments], self.folder, self.environment, PATIENCE)
        out, err = done.stdout.decode(), done.stderr.decode()  # by hand: line ends stay as they are
        assert done.returncode == code and "Traceback" not in err, err
        assert (out if code else err) == ""
        return err if code else out

    def written(self, *arguments: str) -> bytes:
        """What a run wrote to stdout, which need not be text."""
        done = preloaded.run([self.command, *arguments], self.folder, self.environment, PATIENCE)
        assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
        return done.stdout

    @contextmanager
    def started(self, *arguments: str, to: str | None = None) -> Iterator[preloaded.Run]:
        """Start it, appending to a file or into a pipe; killed at the end if it is still there."""
        stdout = (self.folder / to).open("ab") if to else subprocess.PIPE
        command = [self.command, *arguments]
        running = preloaded.Run(command, self.folder, self.environment, stdout, subprocess.PIPE)
        try:
            yield running
        finally:
            running.kill()
            running.wait()
            for stream in (running.stdout, running.stderr, stdout):
                if stream and not isinstance(stream, int):
                    stream.close()

    def appended(self, *arguments: str, to: str = "out") -> None:
        with self.started(*arguments, to=to) as running:
            assert running.wait(PATIENCE) == 0, running.stderr and running.stderr.read()

    def rows(self, name: str = "out") -> list[int]:
        """The numbers in a file of JSON lines."""
        return numbers((self.folder / name).read_text())

    def state(self, name: str = "p") -> dict[str, object]:
        read: dict[str, object] = json.loads((self.folder / name).read_text())
        return read


def numbers(text: str) -> list[int]:
    """The column n of JSON lines."""
    return [json.loads(line)["n"] for line in text.splitlines()]


def read_until(running: preloaded.Run, text: bytes) -> bytes:
    assert running.stderr
    read = b""
    for line in running.stderr:
        read += line
        if text in line:
            return read
    raise AssertionError(running.wait(PATIENCE), read)


def tail_has(path: Path, rows: int) -> bool:
    return path.stat().st_size > rows * len('{"id":"00000000-0000-8000-8000-000000000000","n":100000}\n')


def spooled(process: preloaded.Run) -> int:
    """The bytes in the temporary file of a run: it has no name."""
    sizes = [0]
    for path in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if "(deleted)" in str(path.readlink()):
                sizes.append(path.stat().st_size)
        except FileNotFoundError:
            pass
    return max(sizes)
