"""Two renames replace a table with another, as in online schema changes: readers of the old table get an error."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from ground import state
from tail_runs import Tail, insert
from waiting import PATIENCE, blocked, wait_for
from world.sql import run, value

pytestmark = pytest.mark.server

COPY = "CREATE TABLE shadow (LIKE events INCLUDING ALL)"
SWAP = ("BEGIN", "ALTER TABLE events RENAME TO former", "ALTER TABLE shadow RENAME TO events", "COMMIT")
BACK = ("BEGIN", "ALTER TABLE events RENAME TO shadow", "ALTER TABLE former RENAME TO events", "COMMIT")
FINISH = "SELECT feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w')"
CALLS = {
    "take": "SELECT number FROM feed_take_batch('f', 'w')",
    "apply": "SELECT feed_apply('f', 'SELECT n FROM batch')",
    "wait": "SELECT feed_wait('f', '0')",
}
MESSAGE = 'feed "f" reads table public.former, and not public.events'
NAMESAKE = "SELECT namesake::text FROM feeds WHERE name = 'f'"


def said(connection: Connection, *calls: str) -> dict[str, str]:
    """Return the error message of each call, or "" if the call succeeds."""
    errors = {}
    for name, call in ((name, CALLS[name]) for name in calls or CALLS):
        try:
            run(connection, call)
            errors[name] = ""
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            assert "feed_enable('public.former')" in str(error.diag.message_hint)
            errors[name] = str(error.diag.message_primary)
    return errors


ALL, NONE = dict.fromkeys(CALLS, MESSAGE), dict.fromkeys(CALLS, "")


@pytest.mark.editions
def test_calls_deliver_the_remaining_rows_and_then_report_the_swap(fresh: Connection) -> None:
    run(fresh, "SELECT feed_create('f', 'events')", COPY)
    insert(fresh, 3)
    run(fresh, *SWAP)
    assert value(fresh, NAMESAKE) == "events"
    assert (value(fresh, "SELECT feed_wait('f', '0')"), value(fresh, FINISH)) == (True, True)
    insert(fresh, 2)  # rows for the other table
    assert said(fresh) == ALL
    run(fresh, *BACK)
    assert (said(fresh), value(fresh, NAMESAKE)) == (NONE, None)
    run(fresh, *SWAP, "SELECT feed_enable('former')")  # the owner accepts the swap
    assert (said(fresh), value(fresh, NAMESAKE)) == (NONE, None)


@pytest.mark.editions
def test_no_swap_is_reported_if_the_former_name_is_no_table(fresh: Connection) -> None:
    """Rows may be written under the new name, or through a view with the old name, so no error is raised."""
    run(fresh, "SELECT feed_create('f', 'events')", "ALTER TABLE events RENAME TO former")
    assert said(fresh) == NONE
    run(fresh, "CREATE VIEW events AS SELECT * FROM former")
    assert (said(fresh), value(fresh, NAMESAKE)) == (NONE, None)


RENAMES = (
    "ALTER TABLE events RENAME TO former", "CREATE SCHEMA app; ALTER TABLE events SET SCHEMA app",
    "ALTER TABLE events RENAME TO former; CREATE SEQUENCE events",
)  # fmt: skip


@pytest.mark.editions
@pytest.mark.parametrize("change", RENAMES)
@pytest.mark.parametrize("call", [CALLS["apply"], "SELECT feed_seek('f', 'here')"])
def test_a_call_that_waited_while_its_table_was_renamed_continues(
    fresh: Connection, other: Connection, call: str, change: str
) -> None:
    """The SQL edition locks a table by name, and the C extension by OID."""
    run(fresh, "SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    run(fresh, "BEGIN", "LOCK TABLE events")
    with blocked(state, other, call) as waiting:
        run(fresh, *change.split("; "), "COMMIT")
        assert waiting.result() == ""


@pytest.mark.editions
def test_a_swap_of_schemas_is_noticed(fresh: Connection) -> None:
    run(fresh, "CREATE SCHEMA app", "ALTER TABLE events SET SCHEMA app", "SELECT feed_create('f', 'app.events')")
    run(fresh, "SELECT feed_enable('app.events')")
    run(fresh, "ALTER SCHEMA app RENAME TO old", "CREATE SCHEMA app", "CREATE TABLE app.events ()")
    assert value(fresh, NAMESAKE) == "app.events"


@pytest.mark.editions
def test_workers_finish_the_batches_that_they_have(fresh: Connection) -> None:
    run(fresh, "SELECT feed_create('f', 'events')", COPY)
    insert(fresh, 3)
    run(fresh, "CREATE TEMP TABLE taken AS SELECT number, token FROM feed_take_batch('f', 'a')", *SWAP)
    assert said(fresh, "take", "wait") == {"take": "", "wait": ""}
    run(fresh, "SELECT feed_finish_batch('f', number, token) FROM taken")
    assert said(fresh) == ALL


def test_monitoring_reports_the_swap(fresh: Connection, cluster: Cluster, tmp_path: Path) -> None:
    feeds = Tail(cluster, tmp_path, command="feeds")
    run(fresh, "SELECT feed_create('f', 'events')", COPY, *SWAP)
    problem = "feed postgres.f: its table was renamed to public.former, and public.events is not read"
    with feeds.started("--check", "1h", to="out") as running:
        assert running.stderr and running.wait(PATIENCE) == 3
        assert running.stderr.read().decode().splitlines() == [problem]
    assert "public.former, not public" in (tmp_path / "out").read_text()
    assert 'inorder_feed_swapped{feed="f",owner="postgres",table="public.former",database="tail"} 1' in feeds(
        "--format", "prometheus"
    )
    run(fresh, "DROP TABLE events")
    feeds.appended("--check", "1h")


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")], ids=["position", "feed"])
@pytest.mark.parametrize("options", [(), ("--interval", "50ms")], ids=["waits", "polls"])
def test_a_run_of_tail_follow_ends_after_a_swap(
    fresh: Connection, tail: Tail, source: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """After the swap, new rows go to the table that now has the name, so the run would get no more rows."""
    run(fresh, "SELECT feed_create('f', 'events')", COPY)
    insert(fresh, 3)
    with tail.started(*source, "--follow", *options, to="out") as running:
        wait_for(lambda: len(tail.rows()) == 3)
        run(fresh, *SWAP)
        assert running.stderr and running.wait(PATIENCE) == 2
        stderr = running.stderr.read().decode()
    assert (MESSAGE if source[0] == "--feed" else "public.events is now another table") in stderr
    assert tail.rows() == [1, 2, 3]


def test_a_run_of_count_fold_ends_after_a_swap(fresh: Connection, cluster: Cluster, tmp_path: Path) -> None:
    run(fresh, "SELECT exact_count_start('events')", COPY)
    count = Tail(cluster, tmp_path, command="count")
    with count.started("fold", "events", "--every", "50ms") as running:
        insert(fresh, 3)
        wait_for(lambda: value(fresh, "SELECT sum(rows) FROM inorder_internal.count_part") == 3)
        run(fresh, *SWAP)
        assert running.stderr and running.wait(PATIENCE) == 2
        assert b"public.events is now another table" in running.stderr.read()


@pytest.mark.parametrize("source", [("events", "--position", "p"), ("--feed", "f")], ids=["position", "feed"])
def test_a_run_with_follow_under_load_ends_with_all_committed_rows(
    fresh: Connection, cluster: Cluster, tail: Tail, source: tuple[str, ...]
) -> None:
    """The position is complete. Once the table has its name back, the same command continues after the last row."""
    run(fresh, "SELECT feed_create('f', 'events')", COPY)
    stopped = Event()
    with ThreadPoolExecutor() as pool, tail.started(*source, "--follow", to="out") as running:
        writers = [pool.submit(insert_until, f"{cluster.dsn} dbname=tail", stopped, k) for k in range(3)]
        try:
            wait_for(lambda: len(tail.rows()) > 50)
            run(fresh, *SWAP)
            wait_for(lambda: value(fresh, "SELECT count(*) FROM events"))  # the other table has the name now
            stopped.set()
            assert running.stderr and running.wait(PATIENCE) == 2
            stderr = running.stderr.read().decode()
        finally:
            stopped.set()
        written = sorted(n for writer in writers for n in writer.result())
    assert "trying again" not in stderr  # rows of the old table are read under its new name without a retry
    assert (MESSAGE if source[0] == "--feed" else "public.events is now another table") in stderr
    former = [n for (n,) in fresh.execute("SELECT n FROM former").fetchall()]
    assert len(former) < len(written) == len(former) + int(value(fresh, "SELECT count(*) FROM events"))
    run(fresh, *BACK)
    tail.appended(*source)
    assert sorted(tail.rows()) == sorted(former)


def insert_until(dsn: str, stopped: Event, first: int) -> list[int]:
    """Insert rows into whichever table currently has the name, and return the row numbers."""
    with connect(dsn) as connection:
        numbers: list[int] = []
        while not stopped.is_set():
            numbers.append(first + 10 * len(numbers))
            insert(connection, 1, numbers[-1])
            stopped.wait(0.002)
    return numbers
