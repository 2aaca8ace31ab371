"""The feed and the exact count on a hot standby: each of these cases once lost or repeated rows."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import sql

import preloaded
from conftest import SETTINGS
from tail_runs import Tail, read_until
from waiting import PATIENCE, wait_for
from world.server import Standby, with_standby
from world.sql import value

pytestmark = pytest.mark.server

BATCH = "SELECT reader_next_batch('events', %s::text::feed_position, %s)::text"
ADVANCE = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
ROWS = "SELECT n FROM reader_batch_rows('events', %s::text::feed_batch, null::events)"
# Short pauses between attempts. With the default, ten attempts would take half a minute.
SHORT_PAUSES = {preloaded.PAUSE: "0.001"}


@pytest.fixture(scope="module")
def pair(server: Installation) -> Iterator[tuple[Cluster, Standby]]:
    with with_standby(server, SETTINGS, "CREATE EXTENSION inorder") as pair:
        yield pair


class Two:
    def __init__(self, primary: Connection, standby: Connection, server: Standby) -> None:
        self.primary, self.standby, self.server = primary, standby, server

    def catch_up(self) -> None:
        self.server.catch_up()

    def insert(self, *numbers: int) -> None:
        self.primary.execute("INSERT INTO events (n) SELECT unnest(%s::int[])", [list(numbers)])

    def batch(self, connection: Connection, position: str, max_rows: int | None = None) -> tuple[list[object], str]:
        batch = str(value(connection, BATCH, position, max_rows))
        rows = [n for (n,) in connection.execute(ROWS.encode(), [batch])]
        return rows, str(value(connection, ADVANCE, position, batch))


@pytest.fixture
def two(pair: tuple[Cluster, Standby]) -> Iterator[Two]:
    with connect(pair[0].dsn) as primary, connect(pair[1].dsn) as standby:
        primary.execute("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
        primary.execute("SELECT feed_create('f', 'events'), exact_count_start('events')")
        two_servers = Two(primary, standby, pair[1])
        two_servers.catch_up()
        yield two_servers
        primary.execute("SET client_min_messages = error; ROLLBACK")  # a failed test may have left a transaction open
        for (gid,) in primary.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            primary.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        if standby.closed or not value(standby, "SELECT pg_is_in_recovery()"):
            return
        standby.execute("SELECT pg_wal_replay_resume()")
        standby.execute("ROLLBACK")
        primary.execute("DROP TABLE events")


SAVEPOINTS = """
DO $$ BEGIN FOR i IN 1 .. {} LOOP
    BEGIN INSERT INTO events (n) VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END;
END LOOP; END $$
"""


@pytest.mark.parametrize("savepoints", [0, 1, 64, 65, 200])
@pytest.mark.parametrize("prepared", [False, True])
def test_transactions_in_progress_on_the_primary_are_in_progress_on_a_standby(
    two: Two, savepoints: int, prepared: bool
) -> None:
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO events (n) VALUES (0)")
        writer.execute(SAVEPOINTS.format(savepoints).encode())
        number = value(writer, "SELECT xact_id()")
        if prepared:
            writer.execute("PREPARE TRANSACTION 'p'")
        has_ended = "SELECT ended_transactions() @> %s::bigint"
        two.primary.execute("SELECT inorder_internal.make_durable(false)")
        two.catch_up()
        for connection in (two.primary, two.standby):  # no later transaction has ended yet
            assert value(connection, has_ended, number) is False
        two.insert(-1)  # a later transaction that has ended
        two.catch_up()
        assert value(two.standby, "SELECT upper(ended_transactions()) > %s", number) is True
        assert value(two.standby, has_ended, number) is False
        assert value(two.standby, "SELECT count(*) FROM pg_snapshot_xip(pg_current_snapshot())") == 0
        position = str(value(two.standby, "SELECT reader_start('events')::text"))
        rows, position = two.batch(two.standby, position)
        assert rows == [-1]
        assert two.standby.execute("SELECT exact_count('events'), count(*) FROM events").fetchone() == (1, 1)
        writer.execute("COMMIT PREPARED 'p'" if prepared else "COMMIT")
        two.catch_up()
        assert value(two.standby, has_ended, number) is True
        rows, _ = two.batch(two.standby, position)
        assert rows == [0, *range(1, savepoints + 1)]
        counts = two.standby.execute("SELECT exact_count('events'), count(*) FROM events").fetchone()
        assert counts == (savepoints + 2, savepoints + 2)


@pytest.mark.parametrize("savepoints", [1, 64])
def test_open_savepoints_on_the_primary_do_not_make_its_batches_unreadable_on_a_standby(
    two: Two, savepoints: int
) -> None:
    """To a standby, the ID of a savepoint looks like that of a transaction in progress."""
    two.primary.execute("ALTER TABLE events ADD seq bigserial UNIQUE")
    start = str(value(two.primary, "SELECT reader_start('events')::text"))
    position = str(value(two.primary, "SELECT reader_start('events', order_column => 'seq')::text"))
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN; INSERT INTO events (n) VALUES (0)")
        writer.execute(SAVEPOINTS.format(savepoints).encode())
        two.insert(1, 2, 3)
        batch = str(value(two.primary, BATCH, start, None))
        now = str(value(two.primary, "SELECT reader_start('events', 'now')::text"))
        rows, position = two.batch(two.primary, position, 1)
        assert rows == [1]
        two.catch_up()
        assert two.standby.execute(ROWS.encode(), [batch]).fetchall() == [(1,), (2,), (3,)]
        assert two.batch(two.standby, now)[0] == []
        rows, position = two.batch(two.standby, position)  # the remaining rows of the set that the primary began
        assert rows == [2, 3]
        caught_up = "SELECT transactions FROM reader_backlog('events', %s::text::feed_position)"
        assert value(two.primary, caught_up, position) == 0
        writer.execute("COMMIT")
    two.catch_up()
    assert two.batch(two.standby, position)[0] == list(range(savepoints + 1))


def test_a_standby_with_more_than_64_open_savepoints_refuses_a_batch_of_the_primary(two: Two) -> None:
    """While the transaction is open, the batch is rejected as too new.

    Snapshots list at most 64 savepoints per transaction.
    """
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN")
        writer.execute(SAVEPOINTS.format(65).encode())
        two.insert(-1)
        batch = str(value(two.primary, BATCH, value(two.primary, "SELECT reader_start('events')::text"), None))
        two.catch_up()
        with pytest.raises(psycopg.errors.SerializationFailure, match="newer than the snapshot of this transaction"):
            two.standby.execute(ROWS.encode(), [batch])
        writer.execute("COMMIT")
    two.catch_up()
    assert two.standby.execute(ROWS.encode(), [batch]).fetchall() == [(-1,)]


def changes(session: Connection, position: str) -> list[Any]:
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    session.execute("LOCK TABLE changed, changed_changes IN ACCESS SHARE MODE")
    query = """SELECT reader_changes_query('changed', p, reader_next_batch('changed_changes', p))
               FROM CAST(%s AS text) AS t, CAST(t AS feed_position) AS p"""
    fetched: list[Any] = session.execute(str(value(session, query, position)).encode()).fetchall()
    session.execute("COMMIT")
    return fetched


@pytest.mark.parametrize("savepoints", [1, 60, 65])
def test_versions_of_changes_grow_when_a_reader_moves_to_a_standby(two: Two, savepoints: int) -> None:
    """Otherwise, a sink that keeps the row with the highest version of a key would keep an old row."""
    two.primary.execute("CREATE TABLE changed (id int PRIMARY KEY, n int); INSERT INTO changed VALUES (1, 0)")
    two.primary.execute("SELECT changes_enable('changed')")
    position = str(value(two.primary, "SELECT reader_start('changed_changes', 'now')::text"))
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN")
        writer.execute(SAVEPOINTS.format(savepoints).encode())
        versions = []
        for n, session in enumerate((two.primary, two.standby, two.primary, two.standby), 1):
            two.primary.execute("UPDATE changed SET n = %s", [n])
            two.catch_up()
            ((op, version, _, read),) = changes(session, position)
            assert (op, read) == ("upsert", n)
            versions.append(version)
        assert versions == sorted(set(versions))
    two.primary.execute("DROP TABLE changed, changed_changes")


@pytest.mark.parametrize("savepoint", ["", "SAVEPOINT s", "SAVEPOINT s; CREATE TEMP TABLE t () ON COMMIT DROP"])
def test_the_transaction_of_the_reader_counts_as_in_progress(two: Two, savepoint: str) -> None:
    two.primary.execute("BEGIN")
    two.insert(1)
    number = value(two.primary, "SELECT xact_id()")
    two.primary.execute(savepoint.encode())
    with connect(two.server.primary.dsn) as other:
        other.execute("INSERT INTO events (n) VALUES (2)")
    assert value(two.primary, "SELECT ended_transactions() @> %s::bigint", number) is False
    read = "SELECT n FROM feed_read('f', null::events)"
    assert two.primary.execute(read.encode()).fetchall() == [(2,)]
    two.insert(3)
    two.primary.execute("COMMIT")
    assert two.primary.execute(read.encode()).fetchall() == [(1,), (3,)]


def test_a_replayed_commit_ends_a_wait(two: Two) -> None:
    position = str(value(two.standby, "SELECT reader_start('events', 'now')::text"))
    waits = ("SELECT feed_wait('f')", "SELECT reader_wait('events', %s::text::feed_position)")
    assert value(two.standby, "SELECT feed_wait('f', '0')") is False
    two.standby.execute("SELECT pg_wal_replay_pause()")
    wait_for(lambda: value(two.standby, "SELECT pg_get_wal_replay_pause_state()") == "paused")
    two.insert(1)
    assert value(two.standby, "SELECT feed_wait('f', '0.1')") is False
    with ThreadPoolExecutor(1) as aside:
        woken = aside.submit(lambda: [value(two.standby, waits[0]), value(two.standby, waits[1], position)])
        with connect(two.server.dsn) as other:
            other.execute("SELECT pg_wal_replay_resume()")
            two.catch_up()
        woken.result(PATIENCE)
    assert value(two.standby, waits[0]) is True and value(two.standby, waits[1], position) is True


def test_counts_on_a_standby_include_replayed_folds(two: Two) -> None:
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN; INSERT INTO events (n) VALUES (1)")
        two.insert(2, 3)
        assert value(two.primary, "SELECT exact_count_fold('events')") == 2
        two.catch_up()
        assert value(two.standby, "SELECT exact_count('events')") == 2
        two.insert(4)
        two.catch_up()
        assert value(two.standby, "SELECT exact_count('events')") == 3
        writer.execute("COMMIT")
    two.catch_up()
    for isolation in ("READ COMMITTED", "REPEATABLE READ"):
        two.standby.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        assert value(two.standby, "SELECT exact_count('events')") == 4
        two.standby.execute("COMMIT")


@pytest.mark.parametrize(
    "call",
    [
        "count(*) FROM feed_read('f', null::events)",
        "(feed_take_batch('f', 'w')).number",
        "feed_apply('f', 'SELECT FROM batch')",
        "feed_seek('f', 'now')",
        "feed_drop('f')",
        "exact_count_fold('events')",
    ],
)
def test_calls_that_move_a_position_are_refused_on_a_standby(two: Two, call: str) -> None:
    two.insert(1)
    two.catch_up()
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match=r"in a read-only transaction|during recovery"):
        two.standby.execute(sql.SQL("SELECT ") + sql.SQL(call))


@pytest.mark.parametrize("call", ["feed_passed('events')", "feed_passed_partitions('events')"])
def test_calls_that_allow_rows_to_be_dropped_are_refused_on_a_standby(two: Two, call: str) -> None:
    two.primary.execute(sql.SQL("SELECT ") + sql.SQL(call))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="needs the primary"):
        two.standby.execute(sql.SQL("SELECT ") + sql.SQL(call))


def test_peek_works_on_a_standby(two: Two) -> None:
    """feed_peek() returns the rows that a read at the replayed position would return, or some of them."""
    peek = "SELECT n FROM feed_peek('f', null::events{})"
    two.insert(1, 2, 3)
    two.primary.execute("SELECT n FROM feed_read('f', null::events, 1)")
    with connect(two.server.primary.dsn) as writer:
        writer.execute("BEGIN; INSERT INTO events (n) VALUES (4)")
        two.insert(5)
        two.catch_up()
        for connection in (two.primary, two.standby):
            assert connection.execute(peek.format("").encode()).fetchall() == [(2,), (3,), (5,)]
            assert connection.execute(peek.format(", 2").encode()).fetchall() == [(2,), (3,)]
            assert connection.execute((peek.format("") + " LIMIT 1").encode()).fetchall() == [(2,)]
        writer.execute("COMMIT")
    number, token = two.primary.execute("SELECT number, token FROM feed_take_batch('f', 'w', 1)").fetchall()[0]
    two.catch_up()
    for connection in (two.primary, two.standby):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="have unfinished batches"):
            connection.execute(peek.format("").encode())
    rows = "SELECT n FROM feed_batch_rows('f', %s, null::events)"
    assert two.standby.execute(rows.encode(), [number]).fetchall() == [(2,)]
    assert value(two.primary, "SELECT feed_finish_batch('f', %s, %s)", number, token) is True


def test_a_batch_newer_than_the_snapshot_is_refused(two: Two) -> None:
    two.standby.execute("SELECT pg_wal_replay_pause()")
    two.insert(1, 2)
    position = str(value(two.primary, "SELECT reader_start('events')::text"))
    batch = str(value(two.primary, BATCH, position, None))
    with pytest.raises(psycopg.errors.SerializationFailure, match="newer than the snapshot of this transaction"):
        two.standby.execute(ROWS.encode(), [batch])
    two.standby.execute("SELECT pg_wal_replay_resume()")
    two.catch_up()
    assert two.standby.execute(ROWS.encode(), [batch]).fetchall() == [(1,), (2,)]


def test_a_batch_that_no_server_has_reached_is_not_a_retryable_error(two: Two) -> None:
    """A retryable error would make the reader retry forever."""
    position = str(value(two.primary, "SELECT reader_start('events')::text"))
    batch = str(value(two.primary, BATCH, position, None))
    forged = str(value(two.primary, "SELECT (jsonb_set(to_jsonb(%s::text::feed_batch), '{transactions}', "
                                     "'\"{[0,99999999)}\"')::feed_batch)::text", batch))  # fmt: skip
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="newer than the snapshot"):
        two.primary.execute(ROWS.encode(), [forged])


@pytest.mark.parametrize("case", ["a batch that was begun", "a position of changes"])
def test_a_tail_waits_for_a_standby_that_is_behind(
    two: Two, pair: tuple[Cluster, Standby], case: str, tmp_path: Path
) -> None:
    arguments = ["events", "--position", "p"]
    if case == "a position of changes":
        two.primary.execute("CREATE TABLE known (id int PRIMARY KEY)")
        two.primary.execute("SELECT changes_enable('known')")
        arguments = ["known", "--position", "p", "--changes"]
    of_primary, of_standby = (Tail(server, tmp_path, "postgres") for server in pair)
    of_standby.environment |= SHORT_PAUSES
    of_primary(*arguments)
    two.catch_up()
    two.standby.execute("SELECT pg_wal_replay_pause()")
    try:
        if case == "a position of changes":
            two.primary.execute("INSERT INTO known VALUES (1)")
            assert of_primary(*arguments).count("upsert") == 1
        else:
            two.insert(1, 2)
            of_primary(*arguments, "--exec", "exit 9", code=1)  # the batch remains unfinished
        with of_standby.started(*arguments, "--follow", to="out") as running:
            read_until(running, b"newer than the snapshot of this transaction")
            two.primary.execute("INSERT INTO known VALUES (2)" if "--changes" in arguments else "SELECT 1")
            two.standby.execute("SELECT pg_wal_replay_resume()")
            wait_for(lambda: (tmp_path / "out").read_text().count("\n") == (1 if "--changes" in arguments else 2))
            running.terminate()
            assert running.wait(PATIENCE) == 0
    finally:
        two.standby.execute("SELECT pg_wal_replay_resume()")
        two.primary.execute("DROP TABLE IF EXISTS known CASCADE")


def test_a_tail_that_does_not_follow_fails_on_a_standby_that_is_behind(
    two: Two, pair: tuple[Cluster, Standby], tmp_path: Path
) -> None:
    of_primary, of_standby = (Tail(server, tmp_path, "postgres") for server in pair)
    of_standby.environment |= SHORT_PAUSES
    of_primary("events", "--position", "p")
    two.catch_up()
    two.standby.execute("SELECT pg_wal_replay_pause()")
    two.insert(1, 2)
    of_primary("events", "--position", "p", "--exec", "exit 9", code=1)
    assert "newer than the snapshot of this transaction" in of_standby("events", "--position", "p", code=1)


CONFLICTING = (
    b"CREATE EXTENSION inorder",
    b"CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, body text)",
    b"SELECT feed_enable('events')",
    b"INSERT INTO events (n, body) SELECT n, repeat('x', 2000) FROM generate_series(1, 4000) AS n",
    b"CREATE TABLE dead (n int)",
)
IN_MID_READ = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%COPY %' AND wait_event = 'ClientWrite'"


def test_a_tail_on_a_standby_makes_progress_despite_conflicts_with_recovery(
    server: Installation, tmp_path: Path
) -> None:
    """A conflict interrupts the second batch, which joins several batches.

    The smaller batches that are read instead are interrupted as well.
    """
    stops, conflicts = range(1_500_000, 40_000_000, 500_000), 0
    with Cluster(server) as primary:
        primary.start(SETTINGS)
        with connect(primary.dsn) as writer, Standby(primary) as standby:
            for statement in CONFLICTING:
                writer.execute(statement)
            standby.start(SETTINGS | {"max_standby_streaming_delay": "0", "hot_standby_feedback": "off"})
            standby.catch_up()
            tail = Tail(standby, tmp_path, "postgres")
            options = ("events", "--position", "p", "--batch-rows", "500")
            with (
                connect(standby.dsn) as reader,
                tail.started(*options, to="out", held_after=stops) as running,
            ):
                while running.poll() is None:
                    if running.is_stopped():
                        if conflicts < 3 and value(reader, IN_MID_READ):
                            conflicts += 1
                            for conflicting in (b"INSERT INTO dead VALUES (1)", b"DELETE FROM dead", b"VACUUM dead"):
                                writer.execute(conflicting)
                        running.send_signal(signal.SIGCONT)
                    time.sleep(0.01)
                assert running.stderr
                error = running.stderr.read().decode()
                assert running.wait() == 0, error
    assert error.count("trying again with batches of at most 2,500 rows: canceling statement due to conflict") == 1, (
        error
    )
    assert sorted(tail.rows()) == list(range(1, 4001))


def test_a_lagging_standby_keeps_the_place_inside_a_transaction(two: Two) -> None:
    position = str(value(two.primary, "SELECT reader_start('events')::text"))
    two.standby.execute("SELECT pg_wal_replay_pause()")
    two.insert(1, 2, 3, 4, 5)
    rows, position = two.batch(two.primary, position, 2)
    assert rows == [1, 2]
    rows, position = two.batch(two.standby, position, 2)
    assert rows == []
    rows, position = two.batch(two.primary, position, 2)
    assert rows == [3, 4]
    two.standby.execute("SELECT pg_wal_replay_resume()")
    two.catch_up()
    rows, position = two.batch(two.standby, position, 2)
    assert rows == [5]


def test_a_lagging_standby_keeps_the_partitions_of_the_position(two: Two) -> None:
    two.primary.execute("DROP TABLE events")
    two.primary.execute("CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    two.primary.execute("CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1); CREATE INDEX ON events (id)")
    two.primary.execute("SELECT feed_create('f', 'events')")
    position = str(value(two.primary, "SELECT reader_start('events')::text"))
    with connect(two.server.primary.dsn) as late:
        late.execute("BEGIN; SELECT xact_id()")
        two.insert(1)
        two.insert(1)
        two.catch_up()
        two.standby.execute("SELECT pg_wal_replay_pause()")
        two.primary.execute("CREATE TABLE events_2 PARTITION OF events FOR VALUES IN (2)")
        late.execute("INSERT INTO events (n) VALUES (2); COMMIT")
    # The position contains the late transaction, which has the lowest number. It also contains the first of the two
    # transactions that the standby has replayed.
    rows, position = two.batch(two.primary, position, 2)
    assert rows == [2, 1]
    rows, position = two.batch(two.standby, position)
    assert rows == [1]
    rows, position = two.batch(two.primary, position)
    assert rows == []


@pytest.mark.parametrize(
    "rewrite", ["ALTER TABLE events ALTER n TYPE bigint", "VACUUM FULL events", "CLUSTER events USING events_pkey"]
)
def test_a_snapshot_older_than_the_files_is_refused(two: Two, rewrite: str) -> None:
    """Replay does not cancel a query that has not opened the table yet. It would find no rows in the new file."""
    start = str(value(two.primary, "SELECT reader_start('events')::text"))
    two.insert(1, 2, 3)
    two.primary.execute("SELECT exact_count_fold('events')")
    two.catch_up()
    two.standby.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    batch = str(value(two.primary, BATCH, start, None))
    two.standby.execute("SELECT 1")
    two.primary.execute(rewrite.encode())
    two.catch_up()
    for read in ("SELECT exact_count('events')", f"SELECT reader_next_batch('events', '{start}'::text::feed_position)"):
        two.standby.execute("SAVEPOINT s")
        with pytest.raises(psycopg.errors.SerializationFailure):
            two.standby.execute(read.encode())
        two.standby.execute("ROLLBACK TO s")
    with pytest.raises(psycopg.errors.SerializationFailure):
        two.standby.execute(ROWS.encode(), [batch])
    two.standby.execute("ROLLBACK")
    assert value(two.standby, "SELECT exact_count('events')") == 3
    assert two.batch(two.standby, start)[0] == [1, 2, 3]


@pytest.mark.parametrize(
    "command", [("tail", "--feed", "f"), ("tail", "--feed", "f", "--follow"), ("count", "fold", "events")]
)
def test_an_error_of_a_call_that_needs_the_primary_names_the_primary(
    two: Two, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The HINT shows the host from the WAL receiver or its settings.

    It shows no host if the role may see neither of them.
    """
    environment = two.server.environment()
    two.primary.execute("CREATE ROLE nobodys LOGIN; GRANT pg_read_all_data, pg_write_all_data TO nobodys")
    two.catch_up()
    try:
        for role, named in (("postgres", two.primary.info.host), ("nobodys", "the primary. With several hosts")):
            done = preloaded.run(command, tmp_path, environment | {"PGUSER": role}, PATIENCE)
            stderr = done.stderr.decode()
            assert (done.returncode, done.stdout) == (2, b"") and "this server is a standby, and " in stderr
            assert "\nHINT:  Connect to the primary" in stderr and named in stderr
    finally:
        two.primary.execute("DROP OWNED BY nobodys; DROP ROLE nobodys")


def test_a_promoted_standby_needs_consent_to_continue(two: Two) -> None:
    position = str(value(two.primary, "SELECT reader_start('events')::text"))
    two.insert(1)
    rows, position = two.batch(two.primary, position)
    assert rows == [1]
    batch = str(value(two.primary, BATCH, position, None))
    two.primary.execute("BEGIN; INSERT INTO events (n) VALUES (4); PREPARE TRANSACTION 'p'")
    two.insert(2)
    two.catch_up()
    two.server.promote()
    for statement, parameters in ((BATCH, [position, None]), (ROWS, [batch])):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="another server or timeline"):
            two.standby.execute(statement.encode(), parameters)
    without = (
        "SELECT (1, (p.r).transactions, (p.r).partial, (p.r).last_key, NULL, (p.r).members, null)::feed_position::text "
    )
    position = str(value(two.standby, without + "FROM (SELECT %s::text::feed_position AS r) AS p", position))
    rows, position = two.batch(two.standby, position)
    assert rows == [2]
    two.standby.execute("INSERT INTO events (n) VALUES (3)")
    rows, position = two.batch(two.standby, position)
    assert rows == [3]
    two.standby.execute("COMMIT PREPARED 'p'")
    rows, _ = two.batch(two.standby, position)
    assert rows == [4]
    assert two.standby.execute("SELECT exact_count('events'), count(*) FROM events").fetchone() == (4, 4)


def test_a_snapshot_of_the_standby_outlives_its_promotion(server: Installation) -> None:
    with Cluster(server) as primary:
        primary.start(SETTINGS)
        with Standby(primary) as standby:
            standby.start(SETTINGS)
            with connect(primary.dsn) as writer, connect(standby.dsn) as reader:
                writer.execute("CREATE EXTENSION inorder")
                writer.execute("BEGIN; SELECT xact_id(); SAVEPOINT s; CREATE TABLE t ()")
                number = value(writer, "SELECT xact_id()")
                with connect(primary.dsn) as other:
                    # a later transaction that has ended and whose commit was flushed
                    other.execute("CREATE TABLE u ()")
                standby.catch_up()
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                has_ended = "SELECT ended_transactions() @> %s::bigint"
                assert value(reader, has_ended, number) is False
                standby.promote()
                assert value(reader, has_ended, number) is False
                reader.execute("COMMIT")
                assert value(reader, has_ended, number) is True  # the promotion aborted the transaction
