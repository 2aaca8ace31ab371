"""feed_read() returns all rows, or an error and no rows, however a driver or program fetches them."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import sql

from frontend import Frontend
from world.sql import run, value

pytestmark = pytest.mark.server

READ = "SELECT n FROM feed_read('callers', null::callers)"
CURSOR = "feed_read cannot be called through a cursor"
CHUNKED_MAJOR = 17  # since this version, psql fetches chunks of FETCH_COUNT rows without a cursor


@pytest.fixture
def feed(connection: Connection) -> Iterator[Connection]:
    connection.execute("CREATE TABLE callers (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    connection.execute("SELECT feed_create('callers', 'callers')")
    connection.execute("INSERT INTO callers (n) SELECT generate_series(1, 5)")
    yield connection
    connection.execute("SELECT feed_drop('callers')")
    connection.execute("DROP TABLE callers")


@pytest.fixture
def frontend(cluster: Cluster) -> Iterator[Frontend]:
    with closing(Frontend(cluster.dsn)) as opened:
        yield opened


def unread(connection: Connection) -> object:
    return value(connection, "SELECT count(*) FROM feed_peek('callers', null::callers)")


def test_a_portal_executed_for_some_rows_still_moves_the_feed(feed: Connection, frontend: Frontend) -> None:
    """The function cannot see how many rows the client has fetched: see docs/feed.md."""
    limited = READ.replace("callers)", "callers, 2)")
    answer = frontend.execute(limited, 3)
    assert (answer.error, answer.rows, unread(feed)) == (None, 2, 3)
    assert frontend.execute(limited, 2).rows == 2
    feed.execute("INSERT INTO callers (n) VALUES (6)")
    answer = frontend.execute(READ, 1)
    assert (answer.error, answer.rows, unread(feed)) == (None, 1, 0)


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_a_named_portal_is_refused_like_a_cursor(feed: Connection, frontend: Frontend, rows: int) -> None:
    frontend.query("BEGIN")
    assert frontend.execute(READ, rows, "C_1").error == CURSOR
    frontend.query("ROLLBACK")
    assert unread(feed) == 5


def test_a_portal_over_a_statement_that_writes_reads_all_rows(feed: Connection, frontend: Frontend) -> None:
    feed.execute("CREATE TABLE taken (n int)")
    frontend.query("BEGIN")
    answer = frontend.execute(f"INSERT INTO taken {READ} RETURNING n", 2, "C_1")
    assert (answer.error, answer.rows, answer.suspended) == (None, 2, True)
    frontend.query("COMMIT")
    assert (value(feed, "SELECT count(*) FROM taken"), unread(feed)) == (5, 0)
    feed.execute("DROP TABLE taken")


def test_a_portal_over_peek_returns_all_rows(feed: Connection, frontend: Frontend) -> None:
    frontend.query("BEGIN")
    answer = frontend.execute(READ.replace("read", "peek"), 2, "C_1")
    assert (answer.error, answer.rows, answer.suspended) == (None, 2, True)
    assert frontend.fetch(0, "C_1").rows == 3
    frontend.query("COMMIT")
    assert unread(feed) == 5


@pytest.mark.parametrize("name", ["feed_read", "feed_peek"])
def test_the_fast_path_is_refused(feed: Connection, frontend: Frontend, name: str) -> None:
    oid = value(feed, "SELECT oid FROM pg_proc WHERE proname = %s", name)
    assert isinstance(oid, int)
    answer = frontend.call(oid, "callers", None, None, None)
    assert answer.error == f'cannot call function "{name}" via fastpath interface'
    assert unread(feed) == 5


def test_server_side_cursors_of_psycopg_are_refused_and_streams_are_not(feed: Connection) -> None:
    with feed.transaction(force_rollback=True), feed.cursor("c") as cursor:
        cursor.execute(READ.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=CURSOR):
            cursor.fetchone()
    assert unread(feed) == 5
    assert [n for (n,) in feed.cursor().stream(READ.encode())] == [1, 2, 3, 4, 5]
    assert unread(feed) == 0


def test_psql_with_fetch_count_gets_all_rows_or_an_error(
    feed: Connection, cluster: Cluster, server: Installation
) -> None:
    command: list[str | Path] = [server.program("psql"), "-XAtq", "-v", "FETCH_COUNT=2", cluster.dsn]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=f"{READ};\n")
    if server.major < CHUNKED_MAJOR:
        assert CURSOR in done.stderr and unread(feed) == 5
    else:
        assert (done.stdout, done.stderr, unread(feed)) == ("1\n2\n3\n4\n5\n", "", 0)


def test_a_limit_above_a_function_that_reads_is_not_noticed(feed: Connection) -> None:
    feed.execute(
        sql.SQL(
            """CREATE FUNCTION pg_temp.wrapped() RETURNS SETOF callers LANGUAGE plpgsql AS $$
            BEGIN RETURN QUERY SELECT * FROM feed_read('callers', null::callers); END $$"""
        )
    )
    assert feed.execute("SELECT n FROM pg_temp.wrapped() LIMIT 1").fetchall() == [(1,)]
    assert unread(feed) == 0
    feed.execute("DROP FUNCTION pg_temp.wrapped")


def test_a_limit_above_the_first_read_of_a_session_is_noticed(feed: Connection, cluster: Cluster) -> None:
    for statement in (f"{READ} LIMIT 1", f"SELECT EXISTS ({READ})"):
        with connect(cluster.dsn) as session, pytest.raises(psycopg.errors.FeatureNotSupported):
            session.execute(statement.encode())
    assert unread(feed) == 5


NOT_READ = (
    "SELECT n FROM public.batch", "INSERT INTO batch (n) SELECT n FROM public.batch", "SELECT n FROM events",
    "SELECT 1", "VALUES (1)", "DELETE FROM batch", "UPDATE batch SET n = 2", ", b AS (SELECT n FROM batch) SELECT 1",
    "SELECT (WITH batch AS (SELECT 1) SELECT count(*) FROM batch)", "INSERT INTO nowhere SELECT n FROM batch",
    "SELECT count(*) FROM events AS batch", "SELECT n FROM feed_peek('f', null::events) AS batch",
)  # fmt: skip
READ_WHOLE = (
    "SELECT n FROM batch", "SELECT n FROM batch AS b WHERE n = 7", "SELECT batch.n FROM batch, public.batch AS other",
    "INSERT INTO batch (n) SELECT n FROM batch", ", b AS (SELECT n FROM batch) SELECT count(*) FROM b",
    "DELETE FROM public.batch WHERE n IN (SELECT n FROM batch)", "SELECT (SELECT count(*) FROM batch)",
    "SELECT 1 WHERE EXISTS (SELECT FROM batch)", "INSERT INTO ruled SELECT n FROM batch", "TABLE batch",
    "SELECT DISTINCT ON (n % 2) n FROM batch",
)  # fmt: skip


READ_IN_PART = (
    "SELECT n, (SELECT max(n) FROM batch) FROM batch LIMIT 2",
    "SELECT b.n, m FROM batch AS b, (SELECT max(n) AS m FROM batch) AS s LIMIT 2",
    "SELECT s.n FROM public.batch AS o, LATERAL (SELECT n FROM batch WHERE o.n = 7 LIMIT 2) AS s",
    "SELECT (SELECT b.n FROM batch AS b WHERE b.n <> o.n LIMIT 1) FROM public.batch AS o",
    "SELECT n FROM batch ORDER BY n FETCH FIRST 2 ROWS WITH TIES", "INSERT INTO batch SELECT n FROM batch OFFSET 1",
    "(SELECT n FROM batch LIMIT 2) UNION ALL SELECT 7", "(SELECT n FROM batch LIMIT 2) UNION ALL SELECT n FROM batch",
    ", b AS (SELECT n FROM batch), c AS (SELECT n FROM b LIMIT 2) SELECT count(*) FROM c",
    "SELECT n FROM batch WHERE n IN (SELECT n FROM batch ORDER BY n LIMIT 2)", "SELECT DISTINCT n FROM batch LIMIT 1",
)  # fmt: skip


@pytest.mark.editions
def test_a_statement_that_does_not_read_the_whole_batch_is_refused(fresh: Connection) -> None:
    """If the statement were executed, the position would move past unread rows."""
    run(fresh, "CREATE TABLE batch (n int)", "INSERT INTO batch VALUES (7)", "CREATE TABLE nowhere (n int)",
        "CREATE TABLE ruled (n int)", "CREATE RULE r AS ON INSERT TO nowhere DO INSTEAD NOTHING",
        "CREATE RULE r AS ON INSERT TO ruled DO INSTEAD INSERT INTO batch VALUES (new.n)",
        "SELECT feed_create('f', 'events')", "INSERT INTO events (n) SELECT generate_series(1, 3)")  # fmt: skip
    unread_rows = "SELECT count(*) FROM feed_peek('f', null::events)"
    refused = dict.fromkeys(NOT_READ, "does not read the batch") | dict.fromkeys(READ_IN_PART, "LIMIT, OFFSET")
    for statement, words in refused.items():
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=words) as caught:
            fresh.execute("SELECT feed_apply('f', %s)", [statement])
        assert caught.value.diag.message_hint and value(fresh, unread_rows) == 3
    for statement in READ_WHOLE:
        with fresh.transaction(force_rollback=True):
            assert value(fresh, "SELECT feed_apply('f', %s)", statement) is not None
            assert value(fresh, unread_rows) == 0, statement


def test_an_unknown_feed_is_an_error_in_a_database_without_feeds(fresh: Connection) -> None:
    fresh.execute("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off")
    assert value(fresh, "SELECT count(*) FROM inorder_internal.feed") == 0
    for call in (
        "feed_read('f', null::events)",
        "feed_wait('f')",
        "(feed_take_batch('f', 'w')).number",
        "feed_drop('f')",
    ):
        with pytest.raises(psycopg.errors.UndefinedObject, match='feed "f" of role postgres does not exist'):
            fresh.execute(f"SELECT {call}".encode())
