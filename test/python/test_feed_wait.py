"""Waiting for rows: only a commit wakes the session, and the session blocks no other session."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server

OF_FEED = "feed_wait('wait', {timeout})"
OF_POSITION = "reader_wait('waited', {position}, {timeout})"
Waiting = Callable[[str], bool]
# The SQL edition waits in pg_sleep(), and the C extension uses a wait event of type Extension.
IS_WAITING = (
    "SELECT count(*) = 1 FROM pg_stat_activity "
    "WHERE pid = %s AND wait_event_type IN ('Extension', 'Timeout') AND query ~ '(feed|reader)_wait'"
)


@pytest.fixture(params=["", "WHERE xact > 0"], ids=["whole", "partial"])
def writer(connection: Connection, request: pytest.FixtureRequest) -> Iterator[Connection]:
    connection.execute("CREATE TABLE waited (k bigserial PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n int)")
    connection.execute(f"CREATE INDEX ON waited (xact) {request.param}".encode())
    connection.execute("SELECT feed_create('wait', 'waited')")
    yield connection
    connection.execute("DROP TABLE waited CASCADE")


@pytest.fixture
def reader(cluster: Cluster, writer: Connection) -> Iterator[Connection]:
    with connect(cluster.dsn) as opened:
        yield opened


@pytest.fixture(params=[OF_FEED, OF_POSITION], ids=["feed", "position"])
def waits(reader: Connection, request: pytest.FixtureRequest) -> Waiting:
    position = value(reader, "SELECT quote_literal(reader_start('waited')::text) || '::text::feed_position'")

    def call(timeout: str) -> bool:
        text = request.param.format(timeout=timeout, position=position)
        return value(reader, f"SELECT {text}") is True

    return call


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    """Yield a thread pool for calls that wait."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def until_true(waits: Waiting, aside: ThreadPoolExecutor) -> Future[int]:

    def work() -> int:
        for calls in range(1, PATIENCE):
            if waits("'1 second'"):
                return calls
        raise TimeoutError

    return aside.submit(work)


def begin_to_wait(writer: Connection, reader: Connection) -> None:
    wait_for(lambda: value(writer, IS_WAITING, reader.info.backend_pid) is True)


def test_a_call_does_not_wait_if_there_are_rows(writer: Connection, waits: Waiting) -> None:
    assert not waits("'0'")
    writer.execute("INSERT INTO waited (n) VALUES (1)")
    assert waits("'0'") and waits("'1 second'")


def test_a_commit_ends_the_wait(
    writer: Connection, reader: Connection, waits: Waiting, aside: ThreadPoolExecutor
) -> None:
    woken = until_true(waits, aside)
    begin_to_wait(writer, reader)
    writer.execute("CREATE TABLE unrelated ()")
    writer.execute("DROP TABLE unrelated")
    with writer.transaction(force_rollback=True):
        writer.execute("INSERT INTO waited (n) VALUES (1)")
    with writer.transaction():
        writer.execute("INSERT INTO waited (n) VALUES (1)")
        begin_to_wait(writer, reader)
        assert not woken.done()
    assert woken.result(PATIENCE) >= 1


def test_the_table_can_be_changed_during_the_wait(
    writer: Connection, reader: Connection, waits: Waiting, aside: ThreadPoolExecutor
) -> None:
    """A session that waits for rows holds no lock on the table, so it blocks no other session.

    Its next call sees the new columns.
    """
    woken = until_true(waits, aside)
    begin_to_wait(writer, reader)
    locks = (
        "SELECT count(*) FROM pg_locks WHERE pid = %s AND relation IN ('waited'::regclass, 'waited_xact_idx'::regclass)"
    )
    wait_for(lambda: value(writer, locks, reader.info.backend_pid) == 0)
    with writer.transaction():
        writer.execute("SET LOCAL lock_timeout = '1min'")
        writer.execute("ALTER TABLE waited ADD more int")
        writer.execute("INSERT INTO waited (n, more) VALUES (1, 2)")
    assert woken.result(PATIENCE) >= 1


def test_an_error_ends_the_wait(writer: Connection, reader: Connection, aside: ThreadPoolExecutor) -> None:
    """An error ends the wait immediately, and the session can continue."""
    woken = aside.submit(lambda: value(reader, "SELECT feed_wait('wait')"))
    begin_to_wait(writer, reader)
    with writer.transaction():
        writer.execute("SELECT feed_drop('wait')")
    with pytest.raises(psycopg.errors.UndefinedObject):
        for _ in range(PATIENCE):
            woken.result()
            woken = aside.submit(lambda: value(reader, "SELECT feed_wait('wait')"))
    assert value(reader, "SELECT 1") == 1


def test_a_cancel_ends_the_wait(
    writer: Connection, reader: Connection, waits: Waiting, aside: ThreadPoolExecutor
) -> None:
    woken = until_true(waits, aside)
    begin_to_wait(writer, reader)
    writer.execute("SELECT pg_cancel_backend(%s)", [reader.info.backend_pid])
    with pytest.raises(psycopg.errors.QueryCanceled):
        woken.result(PATIENCE)
    assert value(reader, "SELECT 1") == 1


def test_an_error_of_a_wait_can_be_caught_by_an_exception_block(writer: Connection, reader: Connection) -> None:
    reader.execute(
        """DO $$ BEGIN
            INSERT INTO waited (n) VALUES (1);
            BEGIN
                INSERT INTO waited (n) VALUES (2);
                PERFORM feed_wait('no such feed');
            EXCEPTION WHEN undefined_object THEN
                INSERT INTO waited (n) VALUES (3);
            END;
            ASSERT NOT feed_wait('wait', '0');  -- not its own rows
        END $$"""
    )
    assert writer.execute("SELECT array_agg(n ORDER BY n) FROM waited").fetchall() == [([1, 3],)]
    assert value(reader, "SELECT feed_wait('wait', '0')") is True


def test_a_wait_for_a_batch_ends_with_its_lease(writer: Connection, reader: Connection) -> None:
    writer.execute("INSERT INTO waited (n) VALUES (1)")
    batch, token = writer.execute("SELECT number, token FROM feed_take_batch('wait', 'w')").fetchall()[0]
    assert value(reader, "SELECT feed_wait('wait', '0')") is False
    writer.execute("SELECT feed_renew_batch('wait', %s, %s, '1 second')", (batch, token))
    wait_for(lambda: value(reader, "SELECT feed_wait('wait')") is True)
    assert value(reader, "SELECT number FROM feed_take_batch('wait', 'other')") == batch


def test_a_batch_that_another_worker_returns_ends_the_wait(
    writer: Connection, reader: Connection, aside: ThreadPoolExecutor
) -> None:
    writer.execute("INSERT INTO waited (n) VALUES (1)")
    number, token = writer.execute("SELECT number, token FROM feed_take_batch('wait', 'w')").fetchall()[0]
    woken = until_true(lambda timeout: value(reader, f"SELECT feed_wait('wait', {timeout})") is True, aside)
    begin_to_wait(writer, reader)
    writer.execute("SELECT feed_fail_batch('wait', %s, %s, '')", (number, token))
    assert woken.result(PATIENCE) >= 1


OUT_OF_RANGE = [
    ("'1001 ms'", "22023", "timeout must be between 0 and 1 second, not 00:00:01.001"),
    ("'-1 ms'", "22023", "not -00:00:00.001"),
    ("'178000000 years'", "22023", "not 178000000 years"),
    ("'-178000000 years'", "22023", "not -178000000 years"),
    ("NULL", "22004", "timeout must not be null"),
]


def test_a_timeout_out_of_range_is_refused(waits: Waiting) -> None:
    """A wait lasts at most a second, so that its snapshot does not hold back VACUUM for long."""
    for timeout, code, text in OUT_OF_RANGE:
        with pytest.raises(psycopg.Error, match=text) as caught:
            waits(timeout)
        assert caught.value.sqlstate == code


def test_a_timeout_of_months_and_days_may_be_zero(waits: Waiting) -> None:
    """The interval '1 month -30 days' equals zero, but added to a date it may yield a later date."""
    assert not waits("'1 month -30 days'") and not waits("'30 days -1 month'")


@pytest.mark.parametrize("level", [b"REPEATABLE READ", b"SERIALIZABLE"])
def test_a_wait_needs_read_committed(reader: Connection, waits: Waiting, level: bytes) -> None:
    with reader.transaction():
        reader.execute(b"SET TRANSACTION ISOLATION LEVEL " + level)
        with pytest.raises(psycopg.errors.ActiveSqlTransaction, match=f"level READ COMMITTED, not {level.decode()}"):
            waits("'0'")
        reader.execute("ROLLBACK")


def test_a_role_without_privileges_cannot_wait(writer: Connection, reader: Connection, waits: Waiting) -> None:
    writer.execute("CREATE ROLE waiter")
    writer.execute("INSERT INTO waited (n) VALUES (1)")
    reader.execute("SET ROLE waiter")
    with pytest.raises((psycopg.errors.UndefinedObject, psycopg.errors.InsufficientPrivilege)):
        waits("'0'")
    reader.execute("RESET ROLE")
    writer.execute("DROP ROLE waiter")
