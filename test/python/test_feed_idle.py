"""A poll or count that found nothing new notices every later change."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from threading import Thread
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.lab.server.cluster import Cluster

from attack import refusal
from conftest import copy_of
from sql_edition import TESTED
from waiting import blocked, wait_for
from world.sql import run, value

pytestmark = pytest.mark.server

POLL = "SELECT feed_apply('{feed}', 'SELECT count(*) FROM batch', owner => '{owner}')"
MAKE = """
    CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO reader, team;
    CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
    INSERT INTO s.t DEFAULT VALUES;
    GRANT SELECT ON s.t TO reader, team;
    CREATE TABLE s.other (LIKE s.t INCLUDING ALL);
    CREATE TABLE s.parts (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
    CREATE TABLE s.part PARTITION OF s.parts FOR VALUES IN (1);
    INSERT INTO s.parts (n) VALUES (1);
    GRANT SELECT ON s.parts TO reader;
    SELECT feed_enable('s.t'), feed_enable('s.other'), feed_enable('s.parts');
    SET SESSION AUTHORIZATION reader; SELECT feed_create('f', 's.t'); SET ROLE team; SELECT feed_create('f', 's.t');
    RESET SESSION AUTHORIZATION; SELECT feed_create('g', 's.other');
    SELECT feed_create('f', 's.parts'), feed_grant('f', 'reader')"""
FOR_READER = ", owner => 'reader'"
# For each change: the role whose feed is polled, the statement that another session runs, and the result of the next
# poll. The result is the number of rows (None if there is no row) or the SQLSTATE of the error.
CHANGES = [
    ("reader", "INSERT INTO s.t DEFAULT VALUES", 1),
    ("reader", "SELECT pg_current_xact_id()", None),
    ("reader", f"SELECT feed_seek('f', 'beginning'{FOR_READER})", 1),
    ("reader", f"SELECT feed_drop('f'{FOR_READER})", "42704"),
    ("reader", f"SELECT feed_rename('f', 'h'{FOR_READER})", "42704"),
    ("reader", "DROP TABLE s.t", "42P01"),
    ("reader", "ALTER TABLE s.t DISABLE TRIGGER ALL", "55000"),
    ("reader", "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "55000"),
    ("reader", "REVOKE SELECT ON s.t FROM reader, team", "42501"),
    ("reader", "REVOKE USAGE ON SCHEMA s FROM reader, team", "42501"),
    ("team", "REVOKE team FROM reader", "42501"),
    ("team", "ALTER TABLE s.t OWNER TO keeper; REVOKE team FROM reader", "42501"),
    ("postgres", "SELECT feed_revoke('f', 'reader')", "42501"),
    ("postgres", "INSERT INTO s.parts (n) VALUES (1)", 1),
    ("postgres", "ALTER TABLE s.part DISABLE TRIGGER ALL", "55000"),
    (
        "postgres",
        "ALTER TABLE s.parts DETACH PARTITION s.part; ALTER TABLE s.parts ATTACH PARTITION s.part FOR VALUES IN (1)",
        "55000",
    ),
    ("reader", "VACUUM FULL inorder_internal.feed_state", None),
    *[("reader", "DROP EXTENSION inorder CASCADE", "42883")] * (TESTED == "c"),
]


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Callable[[str], str]]:
    """Yield a function that returns the name of a database in which MAKE was run.

    Tests copy this database, because MAKE would take half of a test's time.
    """
    with connect(cluster.dsn) as admin, ExitStack() as stack:
        run(admin, "CREATE ROLE team", "CREATE ROLE reader LOGIN IN ROLE team", "CREATE ROLE keeper LOGIN")
        stack.callback(run, admin, "DROP OWNED BY reader", "DROP ROLE reader, team, keeper")

        @cache
        def make(template: str) -> str:
            with closing(stack.enter_context(copy_of(template, cluster, f"{template}_idle"))) as connection:
                run(connection, MAKE)
                return str(connection.info.dbname)

        yield make


@pytest.fixture
def fresh(cluster: Cluster, made: Callable[[str], str], of_edition: str) -> Iterator[Connection]:
    with copy_of(made(of_edition), cluster, "tail") as connection:
        run(connection, "ALTER ROLE reader NOSUPERUSER", "GRANT team TO reader")
        run(connection, "REVOKE SET ON PARAMETER track_functions FROM reader")
        yield connection


@pytest.fixture
def reader(cluster: Cluster, fresh: Connection) -> Iterator[Connection]:
    """Yield a session of a role that may move three feeds: its own, one of its group, and a granted one."""
    with connect(f"{cluster.dsn} dbname={fresh.info.dbname} user=reader") as session:
        for owner in ("reader", "team", "postgres"):
            assert poll(session, owner) == 1
        yield session


def poll(session: Connection, owner: str, feed: str = "f") -> object:
    """Return the number of rows, None if there are none, or the SQLSTATE of the error."""
    try:
        return value(session, POLL.format(feed=feed, owner=owner))
    except psycopg.Error as error:
        return error.sqlstate


def settle(session: Connection, other: Connection, owner: str, feed: str = "f") -> None:
    """Poll until the session remembers that the feed has nothing new."""
    for _ in range(3):
        run(other, "SELECT pg_current_xact_id()")
        assert poll(session, owner, feed) is None


@pytest.mark.parametrize(("owner", "change", "expected"), CHANGES)
def test_the_next_poll_notices_each_change(
    reader: Connection, fresh: Connection, owner: str, change: str, expected: object
) -> None:
    settle(reader, fresh, owner)
    for statement in change.split("; "):
        run(fresh, statement)
    assert poll(reader, owner) == expected


def test_changes_missing_from_an_idle_log_are_noticed(reader: Connection, fresh: Connection) -> None:
    run(fresh, "CREATE TABLE s.c (id int PRIMARY KEY)", "SELECT changes_enable('s.c')",
            "SELECT feed_create('c', 's.c_changes'), feed_grant('c', 'reader')",
            "GRANT SELECT ON s.c, s.c_changes TO reader")  # fmt: skip
    read = "SELECT count(*) FROM changes_read('c', null::s.c, owner => 'postgres')"
    assert [value(reader, read) for _ in range(3)] == [1, 0, 0]
    run(fresh, "ALTER TABLE s.c DISABLE TRIGGER ALL", "INSERT INTO s.c VALUES (1)")
    for _ in range(2):
        assert refusal(reader, read) == "55000"


@pytest.mark.parametrize("role", ["ALTER ROLE reader {}SUPERUSER", "ALTER TABLE s.parts OWNER TO {}reader"])
def test_a_role_that_may_no_longer_move_a_feed_is_refused(reader: Connection, fresh: Connection, role: str) -> None:
    """The role may still read the table, but is no longer a superuser or the owner of the table."""
    run(fresh, "CREATE ROLE noreader", "GRANT SELECT ON s.parts TO PUBLIC", "SELECT feed_revoke('f', 'reader')")
    run(fresh, role.format(""))
    settle(reader, fresh, "postgres")
    run(fresh, role.format("no"))
    outcome = poll(reader, "postgres")
    run(fresh, "DROP OWNED BY noreader CASCADE", "DROP ROLE noreader")
    assert outcome == "42501"


def test_commits_of_other_workers_cause_no_search(reader: Connection, fresh: Connection) -> None:
    """Each commit on the server wakes waiting workers.

    Most of these are commits of other workers, and an index shows that there is nothing new.
    """
    run(fresh, "GRANT SET ON PARAMETER track_functions TO reader")
    run(reader, "BEGIN", "SET LOCAL track_functions = 'all'")
    calls = "SELECT coalesce(sum(calls), 0)::int FROM pg_stat_xact_user_functions WHERE funcname = "

    def looks() -> int:
        """Return how often a wait has looked for rows."""
        before = int(value(reader, f"{calls} 'open_next_batch'"))
        waits = Thread(target=run, args=(reader, "SELECT feed_wait('f')"))
        waits.start()
        while waits.is_alive():
            run(fresh, "SELECT pg_current_xact_id()")
        waits.join()
        return int(value(reader, f"{calls} 'open_next_batch'")) - before

    wait_for(lambda: looks() > 1)
    assert value(reader, f"{calls} 'find_batch'") == 0


@pytest.mark.editions("sql")
def test_a_poll_proves_the_table_once_and_only_if_there_are_new_rows(reader: Connection, fresh: Connection) -> None:
    run(fresh, "GRANT SET ON PARAMETER track_functions TO reader")
    run(reader, "SET track_functions = 'all'")
    calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'prove_table'"
    proofs = []
    for statement in ("SELECT pg_current_xact_id()", "INSERT INTO s.t DEFAULT VALUES"):
        run(fresh, statement)
        run(reader, "BEGIN")
        before = value(reader, calls)
        poll(reader, "reader")
        proofs.append(value(reader, calls) - before)
        run(reader, "COMMIT")
    assert proofs == [0, 1]


@pytest.mark.editions
def test_a_policy_created_during_a_poll_is_not_evaluated(reader: Connection, fresh: Connection) -> None:
    settle(reader, fresh, "reader")
    run(fresh, "SELECT pg_current_xact_id()")
    run(fresh, "BEGIN", "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON s.t USING (1 / 0 = 0)")
    with blocked(poll, reader, "reader") as polled:
        run(fresh, "COMMIT")
        assert polled.result() in ("42501", "55000")
    assert poll(reader, "reader") == "55000"


@pytest.mark.editions("sql")
def test_a_search_that_would_evaluate_a_policy_is_refused(reader: Connection, fresh: Connection) -> None:
    run(fresh, "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON s.t USING (1 / 0 = 0)")
    search = "inorder_internal.as_caller(t, 'SELECT ARRAY[e.id::text] FROM s.t AS e', false, 0::oid)"
    assert refusal(reader, f"SELECT {search} FROM inorder_internal.feed_table AS t LIMIT 1") == "42501"


COUNT = "SELECT exact_count('s.t')"
# Statements of another session. The next count is then higher by the given number, or fails with the given SQLSTATE.
COUNT_CHANGES = [
    ("INSERT INTO s.t DEFAULT VALUES", 1),
    ("INSERT INTO s.t DEFAULT VALUES; SELECT exact_count_fold('s.t')", 1),
    ("INSERT INTO s.t DEFAULT VALUES; SELECT exact_count_start('s.t')", 1),
    ("VACUUM FULL s.t", 0),
    ("ALTER TABLE s.t DISABLE TRIGGER ALL; DELETE FROM s.t; SELECT feed_enable('s.t')", -1),
    ("ALTER TABLE s.t DISABLE TRIGGER ALL", "55000"),
    ("ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "55000"),
    ("SELECT exact_count_stop('s.t')", "55000"),
    ("REVOKE SELECT ON s.t FROM reader, team", "42501"),
    ("DROP TABLE s.t", "42P01"),
]


def count(session: Connection) -> object:
    try:
        return value(session, COUNT)
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize(("change", "expected"), COUNT_CHANGES)
def test_the_next_count_sees_each_change(reader: Connection, fresh: Connection, change: str, expected: object) -> None:
    run(fresh, "SELECT exact_count_start('s.t')")
    settled = {count(reader) for _ in range(3)}
    for statement in change.split("; "):
        run(fresh, statement)
    next_count = count(reader)
    assert settled == {1} and next_count == (1 + expected if isinstance(expected, int) else expected)


@pytest.mark.parametrize("also", ["SELECT exact_count_fold('s.t')", "SELECT 1"], ids=["folded", "not folded"])
def test_each_count_uses_its_own_snapshot(reader: Connection, fresh: Connection, also: str) -> None:
    """A function counts in its own snapshot, which is newer than the snapshot of the calling statement."""
    run(fresh, "SELECT exact_count_start('s.t')", "SELECT pg_advisory_lock(1)",
            "CREATE FUNCTION s.later() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN "
            "PERFORM pg_advisory_xact_lock_shared(1); "
            "PERFORM exact_count(''s.t''); RETURN exact_count(''s.t''); END'")  # fmt: skip
    with blocked(
        one_row, reader, "SELECT exact_count('s.t'), s.later(), exact_count('s.t'), count(*) FROM s.t"
    ) as counting:
        run(fresh, "INSERT INTO s.t DEFAULT VALUES", also, "SELECT pg_advisory_unlock(1)")
    assert counting.result() == (1, 2, 1, 1)
    run(fresh, "GRANT INSERT ON s.t TO reader")
    run(reader, "BEGIN", "INSERT INTO s.t DEFAULT VALUES")
    assert count(reader) == 3


@pytest.mark.parametrize("role", ["owner", "another"])
def test_the_next_count_sees_that_the_only_partition_was_truncated(
    reader: Connection, fresh: Connection, role: str
) -> None:
    """The guard rejects TRUNCATE on the table, but not on a partition that was added later."""
    run(fresh, "CREATE TABLE s.p (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()) PARTITION BY RANGE (id)",
            "SELECT exact_count_start('s.p')", "CREATE TABLE s.p1 PARTITION OF s.p DEFAULT",
            "INSERT INTO s.p DEFAULT VALUES", "SELECT exact_count_fold('s.p')",
            "GRANT SELECT ON s.p, s.p1 TO reader")  # fmt: skip
    session = fresh if role == "owner" else reader
    query = "SELECT exact_count('s.p'), count(*) FROM s.p"
    assert {one_row(session, query) for _ in range(3)} == {(1, 1)}
    run(fresh, "TRUNCATE s.p1")
    assert one_row(session, query) == (0, 0)


def test_the_next_count_sees_a_lost_guard_within_a_transaction(reader: Connection, fresh: Connection) -> None:
    """The reader's lock on the table neither prevents another session from removing the guard nor reveals it."""
    run(fresh, "SELECT exact_count_start('s.t')")
    run(reader, "BEGIN", COUNT, COUNT)
    run(fresh, "ALTER TABLE s.t DISABLE TRIGGER ALL", "DELETE FROM s.t")
    assert count(reader) == "55000"


def test_an_idle_count_is_not_computed_again(reader: Connection, fresh: Connection) -> None:
    run(fresh, "SELECT exact_count_start('s.t')", "GRANT SET ON PARAMETER track_functions TO reader")
    run(fresh, "INSERT INTO s.t DEFAULT VALUES")  # a row inserted since the count began
    run(reader, "SET track_functions = 'all'", COUNT, COUNT)
    calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'known_parts'"
    run(reader, "BEGIN")
    before = value(reader, calls)
    for _ in range(5):
        run(fresh, "SELECT pg_current_xact_id()")
        assert count(reader) == 2
    assert value(reader, calls) == before


PAGES = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT (feed_take_batch('load', 'w')).number"
# The rows are wide, so even a few rows fill enough pages to make a search for new rows expensive.
LOADS = {
    "keys": "CREATE TABLE load (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, pad char(200) DEFAULT '')",
    "numbers": "CREATE TABLE load (n int, xact bigint NOT NULL DEFAULT xact_id(), pad char(200) DEFAULT '')",
    "partitions": "CREATE TABLE load (n int, xact bigint NOT NULL DEFAULT xact_id(), pad char(200) DEFAULT '') "
    "PARTITION BY LIST (n)",
}


def pages(connection: Connection, explain: str) -> int:
    plan: Any = one_row(connection, explain)[0]
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


@pytest.mark.editions
@pytest.mark.parametrize("kind", LOADS)
def test_a_load_that_was_rolled_back_is_read_once(fresh: Connection, kind: str) -> None:
    """Dead rows remain until VACUUM, but only one poll reads all of them.

    Later polls do not, even in a new session.
    """
    index = "" if kind == "keys" else "CREATE INDEX ON load (xact)"
    partition = "CREATE TABLE part PARTITION OF load FOR VALUES IN (0)" if kind == "partitions" else ""
    lazy = f"ALTER TABLE {'part' if partition else 'load'} SET (autovacuum_enabled = off)"
    statements = [statement for statement in (LOADS[kind], index, partition, lazy) if statement]
    run(fresh, *statements, "SELECT feed_create('load', 'load')", "INSERT INTO load (n) VALUES (0)",
            "SELECT feed_finish_batch('load', number, token) FROM feed_take_batch('load', 'w')")  # fmt: skip
    end_transaction = "SELECT pg_current_xact_id()"  # lets the next poll look for rows again
    with connect(fresh.info.dsn) as other:
        before = [looked(session, end_transaction)[-1] for session in (fresh, other)]
        run(fresh, "BEGIN", "INSERT INTO load (n) SELECT 0 FROM generate_series(1, 100000)", "ROLLBACK")
        first = pages(fresh, PAGES)
        after = [looked(session, end_transaction)[-1] for session in (fresh, other)]
    assert first > 2000
    # The planner reads up to 100 pages of the index to find the highest number.
    assert [now for now, was in zip(after, before, strict=True) if now > 2 * was + 100] == []
    run(fresh, "INSERT INTO load (n) VALUES (0)")
    assert (
        value(fresh, "SELECT count(*) FROM feed_batch_rows('load', (feed_take_batch('load', 'w')).number, null::load)")
        == 1
    )


def looked(session: Connection, end_transaction: str) -> list[int]:
    looks = []
    for _ in range(3):
        run(session, end_transaction)
        looks.append(pages(session, PAGES))
    return looks
