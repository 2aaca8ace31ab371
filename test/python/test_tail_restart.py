"""inorder tail and inorder count while the server restarts or crashes, with writers that commit asynchronously."""

import collections
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from inorder.connection import patience, reconnect
from inorder.connection.database import Connection, connect
from inorder.connection.session import Session
from inorder.errors import InorderError, Terminated
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, SETTINGS, install_edition
from tail_runs import Tail, insert, make_table, numbers, read_until, spooled
from waiting import PATIENCE, wait_for, wait_for_more
from world.beside import beside
from world.server import UNFLUSHED, kill_all
from world.sql import run, value

pytestmark = pytest.mark.server

LAZY = SETTINGS | {"shared_buffers": "64MB"} | UNFLUSHED
CRASHES = 20 if LONG_RUN else 3
WRITERS = 4
ROWS = 40_000  # number of rows in one batch of 2.3 MB
BEGUN, MOST = 100_000, 2_000_000  # the run is stopped between these numbers of bytes
POLL = ("--follow", "--interval", "20ms")


def test_a_permanent_error_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def attach(_session: object) -> None:
        raise psycopg.errors.UndefinedTable('relation "events" does not exist')

    monkeypatch.setattr(reconnect, "pauses", lambda: iter([0.0, 0.0]))
    with pytest.raises(InorderError, match='relation "events" does not exist'):
        reconnect.reconnected(lambda: cast(Session, SimpleNamespace(close=lambda: None)), attach)


def test_a_session_is_closed_before_another_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the previous session stayed open, each lock timeout of a long run would leave one more session open."""
    sessions = set[object]()

    class OnPaper:
        connection = SimpleNamespace(closed=False)

        def __init__(self, *_: object) -> None:
            assert sessions == set()
            sessions.add(self)

        def close(self) -> None:
            sessions.discard(self)

    errors = iter([None, reconnect.InUseError(), psycopg.errors.LockNotAvailable(), None])
    ends = iter([psycopg.errors.LockNotAvailable(), Terminated()])

    def fail_with(error: BaseException | None) -> None:
        if error:
            raise error

    monkeypatch.setattr(reconnect, "Session", OnPaper)
    monkeypatch.setattr(reconnect, "pauses", lambda: repeat(0.0))
    with pytest.raises(Terminated):
        reconnect.forever("", lambda _: fail_with(next(errors)), lambda: fail_with(next(ends)), lambda: None)
    assert sessions == set() and [*errors, *ends] == []


@pytest.mark.parametrize("error", [psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected])
def test_a_call_is_retried_after_a_conflict(monkeypatch: pytest.MonkeyPatch, error: type[psycopg.Error]) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    open_connection, errors = cast(Connection, SimpleNamespace(closed=False)), [error(), error()]

    def step() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert patience.patiently(open_connection, step) == "done"
    errors += [error() for _ in range(patience.TRIES)]
    with pytest.raises(error):
        patience.patiently(open_connection, step)


@pytest.fixture(scope="module")
def lazy(server: Installation) -> Iterator[Cluster]:
    with Cluster(server) as running:
        running.start(LAZY)
        yield running


@pytest.fixture
def private(server: Installation, lazy: Cluster, edition_name: str) -> Cluster:
    """Return a server for this file only, whose database "postgres" has the edition and the table."""
    if lazy.process is None or lazy.process.poll() is not None:
        lazy.start(LAZY)
    with connect(f"{lazy.dsn} dbname=template1") as admin:
        run(admin, "DROP DATABASE postgres WITH (FORCE)", "CREATE DATABASE postgres TEMPLATE template0")
    install_edition(edition_name, server, lazy, "postgres")
    with connect(lazy.dsn) as connection:
        make_table(connection)
    return lazy


def write(dsn: str, number: int, ended: threading.Event) -> None:
    """Write transactions of different lengths until the event is set, even if the server goes down meanwhile.

    One transaction in five is rolled back.
    """
    while not ended.is_set():
        with suppress(psycopg.OperationalError), connect(dsn) as connection:
            connection.execute("SET synchronous_commit = off")
            for turn in count(number):
                if ended.is_set():
                    return
                connection.execute("BEGIN")
                insert(connection, 1 + turn % 3)
                time.sleep(turn % 7 / 1000)
                insert(connection, 1)
                connection.execute("ROLLBACK" if turn % 5 == 0 else "COMMIT")
        time.sleep(0.01)


def test_no_row_is_lost_in_crashes_under_load(private: Cluster, tmp_path: Path) -> None:
    tail = Tail(private, tmp_path, "postgres")
    with tail.started("events", "--position", "p", *POLL, to="out") as running:
        with beside(*(partial(write, private.dsn, number) for number in range(WRITERS))):
            for number in range(CRASHES):
                wait_for_more(tmp_path / "out")
                time.sleep(number % 5 / 20)
                kill_all(private)
                private.start(LAZY)
        with connect(private.dsn) as connection:
            stored_ids = [str(row[0]) for row in connection.execute("SELECT id FROM events ORDER BY id").fetchall()]
        wait_for(lambda: (tmp_path / "out").read_bytes().endswith(b"\n") and len(ids(tmp_path)) >= len(stored_ids))
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    delivered = collections.Counter(ids(tmp_path))
    assert len(stored_ids) > CRASHES
    assert [key for key in stored_ids if key not in delivered] == []
    assert [key for key, times in delivered.items() if times > 1] == []
    assert delivered.keys() - set(stored_ids) == set()


def ids(folder: Path) -> list[str]:
    return [line[7:43] for line in (folder / "out").read_text().splitlines()]


@pytest.mark.editions
def test_rows_that_are_handed_out_are_on_disk(private: Cluster) -> None:
    with connect(private.dsn) as connection:
        connection.execute("SET synchronous_commit = off")
        for _ in range(20):
            insert(connection, 1)
            written = value(connection, "SELECT pg_current_wal_insert_lsn()")
            connection.execute("SELECT reader_next_batch('events', reader_start('events'))")
            # The LSN may follow a page header that is not written yet. A header has at most 40 bytes.
            assert value(connection, "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn - 40", written)


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
def test_a_pipe_continues_after_a_restart_in_mid_batch(
    private: Cluster, tmp_path: Path, source: tuple[str, ...]
) -> None:
    tail = Tail(private, tmp_path, "postgres")
    with connect(private.dsn) as connection:
        insert(connection, ROWS)
        connection.execute("SELECT feed_create('f', 'events')")
    with tail.started(*source, *POLL, "--batch-rows", "1M", "--format", "json", held_after=[BEGUN]) as running:
        private.stop(signal.SIGQUIT)
        assert spooled(running) < MOST
        running.send_signal(signal.SIGCONT)
        private.start(LAZY)
        assert running.stdout
        lines = [running.stdout.readline() for _ in range(ROWS)]
        assert numbers(b"".join(lines).decode()) == list(range(1, ROWS + 1))
        with connect(private.dsn) as connection:
            insert(connection, 1, 7)
        assert running.stdout.readline().endswith(b'"n":7}\n')
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
        assert running.stderr
        stderr = running.stderr.read().decode()
    assert stderr.startswith("inorder: connection lost, trying again: ") and stderr.count("\n") == 2
    assert stderr.endswith("\ninorder: reconnected\n")


def test_a_file_is_complete_after_a_restart_in_mid_batch(private: Cluster, tmp_path: Path) -> None:
    tail = Tail(private, tmp_path, "postgres")
    with connect(private.dsn) as connection:
        insert(connection, ROWS)
    with tail.started(
        "events", "--position", "p", *POLL, "--batch-rows", "1M", to="out", held_after=[BEGUN]
    ) as running:
        private.stop(signal.SIGQUIT)
        assert (tmp_path / "out").stat().st_size < MOST
        running.send_signal(signal.SIGCONT)
        private.start(LAZY)
        wait_for(lambda: len(ids(tmp_path)) == ROWS)
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
    assert tail.rows() == list(range(1, ROWS + 1))


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")])
def test_a_connection_lost_before_the_position_is_saved_repeats_no_row(
    private: Cluster, tmp_path: Path, source: tuple[str, ...]
) -> None:
    tail = Tail(private, tmp_path, "postgres")
    with connect(private.dsn) as connection:
        connection.execute("SELECT feed_create('f', 'events')")
        insert(connection, 4)
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    (tmp_path / "cut.py").write_text(f"import psycopg\npsycopg.connect('').execute({query!r})\n")
    cut = f"cat >> got; mkdir once || exit 0; {sys.executable} cut.py"
    with tail.started(*source, *POLL, "--batch-rows", "3", "--exec", cut) as running:
        read_until(running, b"reconnected")
        wait_for(lambda: len(tail.rows("got")) >= 4)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    assert tail.rows("got") == [1, 2, 3, 4]


def test_without_follow_a_lost_server_is_an_error(private: Cluster, tmp_path: Path) -> None:
    tail = Tail(private, tmp_path, "postgres")
    with connect(private.dsn) as connection:
        insert(connection, ROWS)
    with tail.started("events", "--position", "p", "--batch-rows", "1M", held_after=[BEGUN]) as running:
        assert running.stdout and running.stderr
        private.stop(signal.SIGQUIT)
        running.send_signal(signal.SIGCONT)
        assert running.stdout.read() == b""
        assert running.wait(PATIENCE) == 1
        stderr = running.stderr.read().decode()
        assert stderr.startswith("inorder: ") and "Traceback" not in stderr
    assert "No such file or directory" in tail("events", "--position", "p", code=1)
    private.start(LAZY)
    assert numbers(tail("events", "--position", "p")) == list(range(1, ROWS + 1))


def test_a_count_continues_to_fold_after_a_restart(private: Cluster, tmp_path: Path) -> None:
    count = Tail(private, tmp_path, "postgres", command="count")
    with connect(private.dsn) as connection:
        connection.execute("SELECT exact_count_start('events')")
    with count.started("fold", "events", "--every", "20ms") as running:
        with connect(private.dsn) as connection:
            insert(connection, 1200)
        read_until(running, b"public.events  +1,200 rows")
        private.restart(LAZY)
        read_until(running, b"reconnected")
        with connect(private.dsn) as connection:
            insert(connection, 3)
        read_until(running, b"public.events  +3 rows")
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    with connect(private.dsn) as connection:
        assert value(connection, "SELECT rows FROM inorder_internal.count_part") == 1203
