"""Functions that report what may be dropped fail if their snapshot may not show the newest rows and feeds."""

import pytest
from inorder.connection.database import Connection, connect

from ground import FROM_CLOCK, state
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

PARTS = (
    "CREATE TABLE t (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
    "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)", "SELECT feed_create('f', 't')",
    "INSERT INTO t SELECT uuid_xact_nextval(), 1 FROM generate_series(1, 20)",
    "SELECT count(*) FROM feed_read('f', null::t)",
)  # fmt: skip
# Functions whose results tell the caller that rows, a partition or the guard may be dropped.
PERMITS = ("SELECT feed_passed('t')", "SELECT feed_passed_partitions('t')", "SELECT feed_disable('t')")
DROPS = "SELECT count(*) FROM feed_passed_partitions('t') AS p WHERE p = 't_1'::regclass"
OLDER = "25001"  # active_sql_transaction


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_older_snapshot_allows_no_partition_to_be_dropped(fresh: Connection, other: Connection, level: str) -> None:
    run(fresh, *PARTS)
    assert value(fresh, DROPS) == 1
    run(other, f"BEGIN ISOLATION LEVEL {level}")
    assert value(other, "SELECT count(*) FROM t") == 20
    run(fresh, "INSERT INTO t (n) VALUES (1)", "SELECT feed_create('later', 't')")
    run(other, "LOCK TABLE t_1")
    for permits in (*PERMITS, DROPS):
        run(other, "SAVEPOINT s")
        assert state(other, permits) == OLDER, permits
        run(other, "ROLLBACK TO s")
    run(other, "ROLLBACK")
    with connect(fresh.info.dsn) as keeper:
        run(keeper, f"BEGIN ISOLATION LEVEL {level}")
        exported = value(keeper, "SELECT pg_export_snapshot()")
        run(other, f"BEGIN ISOLATION LEVEL {level}", f"SET TRANSACTION SNAPSHOT '{exported}'")
        assert state(other, DROPS) == OLDER
        run(other, "ROLLBACK")


def test_a_statement_with_an_older_snapshot_allows_no_partition_to_be_dropped(
    fresh: Connection, other: Connection
) -> None:
    run(fresh, *PARTS)
    run(fresh, "CREATE FUNCTION drops() RETURNS bigint LANGUAGE sql STABLE AS $$ " + DROPS + " $$")
    assert value(other, DROPS) == value(other, "SELECT drops()") == 1
    run(
        other, "BEGIN", f"DECLARE c CURSOR FOR {DROPS}", "DECLARE d CURSOR FOR SELECT drops()",
        "DECLARE e CURSOR FOR SELECT p FROM generate_series(1, 2) AS i, feed_passed_partitions('t') AS p "
        "WHERE i IS NOT NULL",
    )  # fmt: skip
    run(fresh, "INSERT INTO t (n) VALUES (1)")
    run(other, "LOCK TABLE t_1")
    assert value(other, "FETCH c") == value(other, "FETCH d") == 0
    assert other.execute("FETCH e").fetchone() is None
    run(other, "ROLLBACK")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_position_newer_than_the_snapshot_gets_an_empty_batch(
    fresh: Connection, other: Connection, level: str
) -> None:
    run(fresh, PARTS[0], PARTS[1], "SELECT feed_enable('t')")
    after = "reader_next_batch('t', '{}'::text::feed_position)"
    run(other, f"BEGIN ISOLATION LEVEL {level}", "SELECT count(*) FROM t")
    run(fresh, "INSERT INTO t (n) VALUES (1)")
    read = "SELECT p, reader_next_batch('t', p) AS b FROM reader_start('t') AS p"
    newer = value(fresh, f"SELECT reader_advance(p, b)::text FROM ({read}) AS s")
    batch = after.format(str(newer).replace("'", "''"))
    assert value(other, f"SELECT (b).transactions = '{{}}' FROM (SELECT {batch} AS b OFFSET 0) AS s") is True
    run(other, "COMMIT", "INSERT INTO t (n) VALUES (1)")
    assert value(other, f"SELECT count(*) FROM reader_batch_rows('t', {batch}, null::t)") == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_dead_batch_that_is_retried_meanwhile_does_not_count_as_passed(
    fresh: Connection, other: Connection, level: str
) -> None:
    run(fresh, *PARTS, "INSERT INTO t (n) VALUES (1)")
    dead = value(fresh, "SELECT number FROM feed_take_batch('f', 'one')")
    run(fresh, "UPDATE inorder_internal.worker_batch SET lease_end = clock_timestamp()")
    assert value(fresh, "SELECT number FROM feed_take_batch('f', 'two', max_tries => 1)") is None
    run(fresh, "INSERT INTO t (n) VALUES (1)")
    run(other, f"BEGIN ISOLATION LEVEL {level}")
    assert value(other, "SELECT count(*) FROM t") == 22
    run(fresh, f"SELECT feed_retry_batch('f', {dead})")
    assert state(other, "SELECT feed_take_batch('f', 'two')") == "40001"
    run(other, "ROLLBACK")
    assert value(fresh, "SELECT number FROM feed_take_batch('f', 'two')") == dead


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("frees", ["feed_rename('f', 'g')", "feed_drop('f')"])
def test_a_number_that_was_given_meanwhile_is_not_used_again(
    fresh: Connection, other: Connection, frees: str, level: str
) -> None:
    """A session frees the name of a feed only if its snapshot shows the feed's last batch number."""
    run(fresh, *FROM_CLOCK, *PARTS, "INSERT INTO t (n) VALUES (1)")
    run(other, f"BEGIN ISOLATION LEVEL {level}")
    assert value(other, "SELECT count(*) FROM t") == 21
    number = value(fresh, "SELECT (feed_take_batch('f', 'w')).number")
    assert state(other, f"SELECT {frees}") == "40001"
    run(other, "ROLLBACK")
    run(fresh, f"SELECT {frees}", "SELECT feed_create('f', 't')")
    assert int(value(fresh, "SELECT (feed_take_batch('f', 'w')).number")) > int(str(number))


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("changed", ["t", "t_1"])
def test_a_count_is_refused_if_the_guard_was_disabled_after_the_snapshot(
    fresh: Connection, other: Connection, changed: str, level: str
) -> None:
    """The snapshot shows an enabled guard, but the guard no longer checks statements of this transaction."""
    run(fresh, *PARTS, "CREATE TABLE plain (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
        "SELECT exact_count_start('t'), exact_count_start('plain')", "INSERT INTO plain (n) VALUES (1), (2)",
        "SELECT exact_count_fold('t'), exact_count_fold('plain')")  # fmt: skip
    for counted, table in (("t", changed), ("plain", "plain")):
        run(other, f"BEGIN ISOLATION LEVEL {level}", "SELECT 1")
        run(fresh, f"ALTER TABLE {table} DISABLE TRIGGER USER")
        run(other, f"DELETE FROM {counted}")
        assert state(other, f"SELECT exact_count('{counted}')") == "40001", counted
        run(other, "ROLLBACK")
