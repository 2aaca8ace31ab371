"""inorder tail writes whole batches or nothing to a command or a pipe, whichever process is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, ROOT
from examples import python_with
from tail_runs import Tail, insert, numbers
from waiting import PATIENCE, wait_for, wait_for_more
from world.sql import value

pytestmark = pytest.mark.server

KILL_POINTS = ROOT / "test" / "python" / "kill_points.py"
ROWS, BATCH_ROWS = 6, 3
NOTE = (
    'cat > "part.$$" && echo "$INORDER_BATCH" "$INORDER_ROWS" "$INORDER_BYTES" '
    '$(wc -l < "part.$$") $(wc -c < "part.$$") >> "got{n}"; rm "part.$$"'
)


@pytest.fixture
def quick(tail: Tail) -> Iterator[Tail]:
    """Yield the tool with its files in memory, so that it does not wait for a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        tail.folder = Path(folder)
        yield tail


def killed_everywhere(tail: Tail, kind: str, *arguments: str) -> range:
    """Kill each run at two of its system calls, then let the run finish, and return the numbers of the calls."""
    every = 1 if LONG_RUN else 30
    done = subprocess.run(
        [sys.executable, str(KILL_POINTS), kind, str(every), "tail", *arguments, "--batch-rows", str(BATCH_ROWS)],
        check=True, stdout=subprocess.PIPE, cwd=tail.folder, env=tail.environment, timeout=20 * PATIENCE,
    )  # fmt: skip
    points = range(1, int(done.stdout) + 1, every)
    assert points[-1] > 50
    return points


def test_a_file_has_each_row_once_after_a_kill_at_any_step(quick: Tail, fresh: Connection) -> None:
    insert(fresh, ROWS)
    points = killed_everywhere(quick, "file", "events", "--position", "p{n}")
    for number in points:
        assert quick.rows(f"out{number}") == list(range(1, ROWS + 1))
    names = [path.name for path in quick.folder.iterdir()]
    # A killed run may leave a partial file that has a name. It is not removed, because it could belong to another user.
    left_files = [name for name in names if re.fullmatch(r"p[0-9]+\.[0-9a-f]{8}\.partial", name)]
    assert {name.rstrip("0123456789") for name in {*names} - {*left_files}} <= {"out", "p"}
    assert len(left_files) < len(points) / 4


def test_a_pipe_repeats_only_whole_batches_after_a_kill_at_any_step(quick: Tail, fresh: Connection) -> None:
    insert(fresh, ROWS)
    whole_batches = [list(range(first, first + BATCH_ROWS)) for first in range(1, ROWS, BATCH_ROWS)]
    points = killed_everywhere(quick, "pipe", "events", "--position", "p{n}")
    for number in points:
        read = [numbers(path.read_text()) for path in sorted(quick.folder.glob(f"out{number}.*"))]
        batches = [rows[at : at + BATCH_ROWS] for rows in read for at in range(0, len(rows), BATCH_ROWS)]
        assert all(batch in whole_batches for batch in batches)
        assert [batch for at, batch in enumerate(batches) if batch not in batches[:at]] == whole_batches


def test_a_command_gets_whole_batches_after_a_kill_at_any_step(quick: Tail, fresh: Connection) -> None:
    insert(fresh, ROWS)
    points = killed_everywhere(quick, "none", "events", "--position", "p{n}", "--exec", NOTE)
    for number in points:
        check_notes(quick.folder / f"got{number}")


def check_notes(path: Path) -> None:
    """Check that the rows and bytes in the lines written by NOTE agree with the environment.

    A batch may be repeated, but only before the next batch.
    """
    notes = [line.split() for line in path.read_text().splitlines()]
    names = [name for at, (name, *_) in enumerate(notes) if at == 0 or name != notes[at - 1][0]]
    assert len(names) == len(set(names)) == ROWS // BATCH_ROWS
    assert all(rows == lines == str(BATCH_ROWS) and size == read for _, rows, size, lines, read in notes)


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
def test_a_kill_while_a_batch_is_read_starts_no_command(tail: Tail, fresh: Connection, source: tuple[str, ...]) -> None:
    """A command would mistake the end of its input for the end of the batch, as COPY does."""
    insert(fresh, 6_000)
    fresh.execute("SELECT feed_create('f', 'events')")
    arguments = (*source, "--batch-rows", "1M", "--exec", "cat >> got")
    for size in (1, 100_000, 300_000):
        with tail.started(*arguments, held_after=[size]) as running:
            running.kill()
            running.wait()
        assert not (tail.folder / "got").exists()
    wait_for(lambda: value(fresh, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'tail'"))
    tail(*arguments)
    assert tail.rows("got") == list(range(1, 6_001))


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
def test_a_command_outlives_a_kill_of_the_tool_alone(tail: Tail, fresh: Connection, source: tuple[str, ...]) -> None:
    insert(fresh, 5)
    fresh.execute("SELECT feed_create('f', 'events')")
    os.mkfifo(tail.folder / "gate")
    command = 'cat > rows; echo "$INORDER_BATCH" >> names; read go < gate; mv rows got'
    with tail.started(*source, "--exec", command) as running:
        wait_for((tail.folder / "names").exists)
        running.kill()
        running.wait()
    wait_for(lambda: value(fresh, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'tail'"))
    assert " is in use by " in tail(*source, "--exec", "cat > other", code=1)
    (tail.folder / "gate").write_text("go\n")
    wait_for((tail.folder / "got").exists)
    assert tail.rows("got") == [1, 2, 3, 4, 5]
    assert tail(*source, "--exec", 'cat > got; echo "$INORDER_BATCH" >> names') == ""
    first, second = (tail.folder / "names").read_text().split()
    assert first == second and tail.rows("got") == [1, 2, 3, 4, 5]


def test_a_kill_while_a_pipe_is_written_cuts_no_batch(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 10_000)
    with tail.started("events", "--position", "p", "--batch-rows", "6k") as running:
        assert running.stdout
        first = running.stdout.readline()
        running.kill()
        running.wait()
        # The process that writes into the pipe still holds the lock of the run.
        assert " is in use by " in tail("events", "--position", "p", code=1)
        assert numbers((first + running.stdout.read()).decode()) == list(range(1, 6_001))
    assert numbers(tail("events", "--position", "p")) == list(range(1, 10_001))


def test_stopping_a_service_does_not_cut_a_batch_short(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 10_000)
    with tail.started("events", "--position", "p", "--batch-rows", "6k") as running:
        assert running.stdout
        first = running.stdout.readline()
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        assert len(children) == 1
        for process in (*map(int, children), running.pid):
            os.kill(process, signal.SIGTERM)
        assert numbers((first + running.stdout.read()).decode()) == list(range(1, 6_001))
        assert running.wait(PATIENCE) == 143
    assert numbers(tail("events", "--position", "p")) == list(range(6_001, 10_001))


# The example in docs/tail.md.
EXAMPLE = python_with("docs/tail.md", "sys.stdin.buffer")


class Frames:
    """A reader of frames, as in the example, that remembers the name of the last batch."""

    def __init__(self) -> None:
        self.last = ""
        self.rows: list[int] = []

    def read(self, stream: bytes) -> bool:
        """Read the batches of a stream, and return True if the last batch was complete."""

        def load(rows: bytes, batch: str) -> None:
            lines = rows.decode().splitlines()
            assert len(lines) == scope["frame"]["rows"] + (lines[:1] == ["id,n"])
            self.rows += [int(row.rpartition(",")[2]) for row in lines[1:]]
            self.last = batch

        system = SimpleNamespace(stdin=SimpleNamespace(buffer=BytesIO(stream)), exit=sys.exit)
        scope: dict[str, Any] = {"json": json, "sys": system, "load": load, "last_name": lambda: self.last}
        try:
            exec(EXAMPLE, scope)
        except (SystemExit, json.JSONDecodeError):
            return False
        return True


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
def test_frames_show_whether_a_batch_is_whole(tail: Tail, fresh: Connection, source: tuple[str, ...]) -> None:
    insert(fresh, 25_000)
    fresh.execute("SELECT feed_create('f', 'events')")
    frames = Frames()
    arguments = (*source, "--format", "csv", "--batch-rows", "8k", "--frame")
    outcomes = []
    for least in (150_000, 1, 500_000):
        with tail.started(*arguments) as running:
            assert running.stdout
            read = running.stdout.read(least)
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            for process in (running.pid, *map(int, children)):
                os.kill(process, signal.SIGKILL)
            outcomes.append(frames.read(read + running.stdout.read()))
            running.wait()
        wait_for(lambda: value(fresh, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'tail'"))
    assert outcomes == [False, False, False]
    assert frames.read(tail(*arguments).encode())
    assert frames.rows == list(range(1, 25_001))


def test_frames_are_refused_for_files(tail: Tail, fresh: Connection) -> None:
    with tail.started("events", "--position", "p", "--frame", to="out") as running:
        assert running.wait(PATIENCE) == 2
        assert running.stderr and b"--frame is for a pipe" in running.stderr.read()


@pytest.mark.parametrize("sink", [("--exec", "cat >> got"), ()])
def test_a_batch_that_does_not_fit_on_disk_is_not_given_to_the_sink(
    tail: Tail, fresh: Connection, sink: tuple[str, ...]
) -> None:
    insert(fresh, 4_000)
    error = tail.without_room(100_000, "events", "--position", "p", "--batch-rows", "1M", *sink)
    assert "inorder: cannot write a batch to a temporary file in " in error
    assert ": File too large\nHINT:  Set TMPDIR to another folder" in error
    assert not (tail.folder / "got").exists()
    tail("events", "--position", "p", "--batch-rows", "1M", "--exec", "cat >> got")
    assert tail.rows("got") == list(range(1, 4_001))


def test_a_feed_into_a_file_leaves_no_half_row(tail: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 20_000)
    for _ in range(3):
        with tail.started("--feed", "f", "--batch-rows", "5k", to="out") as running:
            wait_for_more(tail.folder / "out")
            running.kill()
            running.wait()
        wait_for(lambda: value(fresh, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'tail'"))
    tail.appended("--feed", "f", "--batch-rows", "5k")
    rows = tail.rows()
    assert sorted(set(rows)) == list(range(1, 20_001)) and len(rows) % 5_000 == 0
    (tail.folder / "half").write_text('{"id":')
    insert(fresh, 1)
    with tail.started("--feed", "f", to="half") as running:
        assert running.wait(PATIENCE) == 2
        assert running.stderr and b"standard output ends within a line" in running.stderr.read()


def test_a_slow_command_holds_no_transaction(tail: Tail, fresh: Connection, cluster: Cluster) -> None:
    insert(fresh, 5)
    os.mkfifo(tail.folder / "gate")
    with tail.started("events", "--position", "p", "--exec", "touch began; read go < gate") as running:
        wait_for((tail.folder / "began").exists)
        with connect(cluster.dsn) as other:
            assert value(other, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'tail' AND "
                                 "application_name = 'inorder' AND state <> 'idle'") == 0  # fmt: skip
        time.sleep(0.1)
        (tail.folder / "gate").write_text("go\n")
        assert running.wait(PATIENCE) == 0


def test_a_batch_that_is_read_again_has_one_set_of_columns(tail: Tail, fresh: Connection) -> None:
    insert(fresh, 40_000)
    arguments = (
        "events", "--position", "p", "--follow", "--format", "csv", "--batch-rows", "1M", "--exec",
        "cat > part && mv part got",
    )  # fmt: skip
    with tail.started(*arguments, held_after=[100_000]) as running:
        # A terminated session waits if it cannot send its error to the stopped client. A second pg_terminate_backend()
        # ends the session.
        ending = ("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'tail' "
                  "AND pid <> pg_backend_pid()")  # fmt: skip
        wait_for(lambda: value(fresh, ending) == 0)
        fresh.execute("ALTER TABLE events ADD more text DEFAULT 'more'")
        running.send_signal(signal.SIGCONT)
        wait_for((tail.folder / "got").exists)
        running.terminate()
        assert running.wait(PATIENCE) == 0
    header, *rows = (tail.folder / "got").read_text().splitlines()
    assert header == "id,n,more" and len(rows) == 40_000
    assert all(re.fullmatch(r"[-0-9a-f]{36},\d+,more", row) for row in rows)
