"""The clock is set back by an hour while a call waits: no call waits longer.

All code that reads the clock is listed.
"""

import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.connection.session import Session
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import service_account, temporary_folder
from psycopg import sql

from conftest import ROOT, SETTINGS, copy_of, install_edition
from set_clock import SetClock, set_clock
from sources import C_FILES, PLAIN_FILES, SQL_FILES
from tail_runs import environment, insert, make_table
from waiting import PATIENCE, wait_for
from world.sql import value

# True if a call is waiting. The SQL edition waits in pg_sleep(), and the C extension uses a wait event of type
# Extension.
WAITS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type IN ('Extension', 'Timeout') AND query ~ %s"


@pytest.fixture(scope="module")
def clock() -> Iterator[SetClock]:
    with tempfile.TemporaryDirectory(prefix="t", dir=temporary_folder(service_account())) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield set_clock(folder)


@pytest.fixture(scope="module")
def clocked(server: Installation, clock: SetClock) -> Iterator[Cluster]:
    """Start a server whose clock can be set."""
    with Cluster(server) as running:
        with clock.for_children():
            running.start(SETTINGS)
        yield running


def make_original(server: Installation, clocked: Cluster, edition: str) -> None:
    with connect(clocked.dsn) as admin:
        if value(admin, "SELECT count(*) FROM pg_database WHERE datname = %s", f"with_{edition}"):
            return
        admin.execute(f"CREATE DATABASE with_{edition}".encode())
    install_edition(edition, server, clocked, f"with_{edition}")
    with connect(f"{clocked.dsn} dbname=with_{edition}") as connection:
        make_table(connection)


@pytest.fixture
def timed(server: Installation, clocked: Cluster, clock: SetClock, edition_name: str) -> Iterator[str]:
    """Yield a connection string for a database with a feed and a count, on the server whose clock can be set."""
    clock.set(0)
    make_original(server, clocked, edition_name)
    with copy_of(f"with_{edition_name}", clocked, "timed") as connection:
        connection.execute("SELECT feed_create('f', 'events'), exact_count_start('events')")
        yield f"{clocked.dsn} dbname=timed"
    clock.set(0)


@pytest.mark.server
@pytest.mark.editions("c")
@pytest.mark.parametrize("call", ["feed_wait('f')", "reader_wait('events', reader_start('events'))"])
def test_a_wait_ends_in_time_after_the_clock_was_set_back(timed: str, clock: SetClock, call: str) -> None:
    """In the SQL edition the wait takes longer, because the clock affects pg_sleep(): see docs/feed-waiting.md."""
    with connect(timed) as admin, connect(timed) as reader, ThreadPoolExecutor(1) as aside:
        before = value(admin, "SELECT clock_timestamp()")
        waiting = aside.submit(value, reader, f"SELECT {call}")
        wait_for(lambda: waiting.done() or admin.execute(WAITS, ["_wait"]).fetchone() == (True,))
        clock.set(-3600)
        try:
            assert waiting.result(PATIENCE) is False
            assert value(admin, "SELECT clock_timestamp() < %s", before) is True
        finally:
            clock.set(0)


FOLLOW = {
    "tail": (["tail", "events", "--position", "p", "--follow"], "reader_wait"),
    "tail of a feed": (["tail", "--feed", "f", "--follow"], "feed_wait"),
    "tail by intervals": (["tail", "events", "--position", "p", "--follow", "--interval", "1s"], None),
    "tail by Arrow": (
        ["tail", "events", "--position", "p", "--follow", "--format", "arrow", "--exec", "cat > a; echo >&2"],
        "reader_wait",
    ),
    "count": (["count", "fold", "events", "--every", "1s"], None),
    "feeds": (["feeds", "--watch", "1s", "--format", "json"], None),
}  # fmt: skip


@pytest.mark.server
@pytest.mark.editions
@pytest.mark.parametrize("name", FOLLOW)
def test_a_run_with_follow_continues_after_the_clock_was_set_back(
    clocked: Cluster, timed: str, clock: SetClock, tmp_path: Path, name: str
) -> None:
    arguments, waits = FOLLOW[name]
    variables = environment(clocked, "timed") | clock.environment
    with connect(timed) as admin, followed(arguments, tmp_path, variables) as lines:
        insert(admin, 1)
        wait_for(lines)
        if waits is not None:
            wait_for(lambda: admin.execute(WAITS, [waits]).fetchone() == (True,))
        clock.set(-3600)
        lines_before = lines()
        insert(admin, 1, 2)
        wait_for(lambda: lines() > lines_before)


def test_an_interrupt_does_not_cut_off_the_start_of_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt takes effect after the thread that limits the wait has started, and that thread ends as well."""
    started: list[threading.Timer] = []

    class Interrupted(threading.Timer):
        def start(self) -> None:
            signal.raise_signal(signal.SIGINT)
            super().start()
            started.append(self)

    monkeypatch.setattr(threading, "Timer", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            object.__new__(Session).waited(sql.SQL(""))
    finally:
        signal.signal(signal.SIGINT, before)
    assert [timer.is_alive() for timer in started] == [False]


@contextmanager
def followed(arguments: list[str], folder: Path, variables: dict[str, str]) -> Iterator[Callable[[], int]]:
    """Start inorder, and yield a function that counts the lines written to stdout and stderr."""
    command = [sys.executable, "-m", "inorder", *arguments]
    with (
        (folder / "out").open("wb") as out,
        (folder / "said").open("wb") as errors,
        subprocess.Popen(command, cwd=folder, env=variables, stdout=out, stderr=errors) as running,
    ):
        try:
            yield lambda: sum((folder / name).read_bytes().count(b"\n") for name in ("out", "said"))
            running.terminate()
            assert running.wait(PATIENCE) in (0, 143), (folder / "said").read_text()
        finally:
            running.kill()


@pytest.mark.server
@pytest.mark.editions
def test_a_poll_is_recorded_after_the_clock_was_set_back(fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    polled = "SELECT polled BETWEEN now() - interval '10 seconds' AND now() FROM feeds"
    for distance in ("1 hour", "-31 seconds"):
        fresh.execute("SELECT feed_read('f', null::events)")
        fresh.execute(
            "UPDATE inorder_internal.feed_state SET polled = now() + %s::interval, caught_up_at = now() + %s::interval",
            (distance, distance),
        )
        fresh.execute("SELECT pg_current_xact_id()")  # lets the next poll look again
        fresh.execute("SELECT feed_read('f', null::events)")
        assert value(fresh, polled) is True, distance


# Files that read a settable clock, and why this is harmless.
IN_C = {
    "src/ports/kept.c": "the time of a poll, ignored if it is in the future",
    "src/ports/batches.c": "leases expire by the server's clock, but the token decides who may finish a batch",
    "src/keys/entropy.c": "new random words are drawn after a second, and after the clock was set back",
    "src/keys/sequential.c": "the time is part of the key",
    "src/types/uuid_v1.c": "the time is part of the key",
    "src/keys/v7.c": "the time is part of the key, and keys never decrease within a session",
}
IN_SQL = {
    "sql/feed/batches.sql": "leases expire by the server's clock, but the token decides who may finish a batch",
    "sql/feed/workers.sql": "leases expire by the server's clock, but the token decides who may finish a batch",
    "sql/feed/kept.sql": "batch numbers, and whether a lease has expired",
    "sql/plain/kept.sql": "the time of a poll, ignored if it is in the future",
    "sql/feed/feed.sql": "the time at which a position moved",
    "sql/feed/feeds.sql": "the time since a feed caught up",
    "sql/feed/count.sql": "the time at which a count was folded",
    "sql/ports/state.sql": "the time at which a feed was created",
    "sql/plain/keys.sql": "the time is part of the key",
    "sql/plain/ports.sql": "a wait also ends once its sleeps add up to its limit; now() marks the current transaction",
}
IN_PYTHON = {
    "inorder/count/counter.py": "the time is displayed",
    "inorder/generate/command.py": "the time is part of the key",
    "inorder/advise/findings.py": "the age of statistics",
    "inorder/lab/instruments/machine.py": "the time of a measurement",
    "inorder/lab/tables/insert_tables.py": "a measurement starts at the beginning of a second",
    "inorder/lab/targets/target.py": "the difference from the server's clock",
    "inorder/lab/experiments/reader/__init__.py": "compared with commit times",
    "inorder/lab/experiments/like/sample.py": "the age of rows",
    "inorder/lab/check/arena.py": "the times of generated rows",
    "inorder/lab/server/temporary.py": "the age of an unclaimed folder",
}


def reading(paths: list[Path], pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in paths if re.search(pattern, path.read_text(encoding="utf-8"))}


def test_all_code_that_reads_the_clock_is_listed() -> None:
    """All other code measures waits, pauses and limits with a clock that cannot be set."""
    in_c = (
        r"\bGetCurrent(?:Statement|Transaction)?(?:Start)?Timestamp|\bgettimeofday|CLOCK_REALTIME|"
        r"\bTimestampDifference|\btime\(NULL\)"
    )
    assert reading([*C_FILES], in_c) == set(IN_C)
    in_sql = r"\b(?:clock_timestamp|statement_timestamp|now|timeofday)\(\)|\bcurrent_timestamp\b|\blocaltimestamp\b"
    assert reading([*SQL_FILES, *PLAIN_FILES], in_sql) == set(IN_SQL)
    in_python = r"\btime\.time\b|\btime_ns\b|\bdatetime\.(?:utc)?now\b|\bdate\.today\b|\bimport .*\btime\(|\bgmtime\(\)"
    assert reading(sorted((ROOT / "inorder").rglob("*.py")), in_python) == set(IN_PYTHON)


# Statements that return a batch so that a worker can get it again immediately, with the maximum number of tries.
RETURNED = {
    "failed": (2, ["SELECT feed_fail_batch('f', {number}, {token}, 'x')"]),
    "dead": (1, ["SELECT feed_fail_batch('f', {number}, {token}, 'x')", "SELECT feed_retry_batch('f', {number})"]),
    "renewed": (2, ["SELECT feed_seek('f', 'here')"]),
}


@pytest.mark.server
@pytest.mark.editions
@pytest.mark.parametrize("way", RETURNED)
def test_a_returned_batch_comes_before_the_next_batch(timed: str, clock: SetClock, way: str) -> None:
    """A returned batch comes first even if the clock was set back.

    If the next batch came first, a sink that keeps the last number would skip the rows of the returned batch.
    """
    tries, statements = RETURNED[way]
    take = "SELECT number, token FROM feed_take_batch('f', %s, 1, max_tries => %s)"
    with connect(timed) as connection:
        insert(connection, 3)
        number, token = one_row(connection, take, ["a", tries])
        for statement in statements:
            connection.execute(statement.format(number=number, token=token).encode())
        (returned,) = one_row(connection, "SELECT min(number) FROM feed_batches WHERE worker IS NULL")
        clock.set(-3600)
        try:
            assert one_row(connection, take, ["b", tries])[0] == returned
        finally:
            clock.set(0)
