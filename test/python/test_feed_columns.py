"""Feeds of tables whose key, sequence or columns change, and of tables with dropped columns."""

import psycopg
import pytest
from inorder.connection.database import Connection, one_row

from ground import GROUND, state
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

KEYS = {"other": "n", "wider": "xact, id", "longer": "id, n"}
SHARED = ", partition_by => 'n', shares => 2"
ROWS = list(range(1, 21))
WITH_DROPPED_COLUMNS = """
    CREATE TABLE p (
        gone int, "Key, 1" date, gone_too text, b numeric, xact bigint NOT NULL DEFAULT xact_id(), n int,
        PRIMARY KEY ("Key, 1", b)
    ) PARTITION BY RANGE ("Key, 1");
    ALTER TABLE p DROP gone, DROP gone_too;
    CREATE TABLE p1 (n int, b numeric NOT NULL, x int, "Key, 1" date NOT NULL, xact bigint NOT NULL DEFAULT xact_id());
    ALTER TABLE p1 DROP x;
    ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM ('2020-01-01') TO ('2020-07-01');
    CREATE TABLE p2 PARTITION OF p FOR VALUES FROM ('2020-07-01') TO ('2021-01-01');
    CREATE INDEX ON p (xact);
    SELECT feed_enable('p', 'xact')"""


def make(connection: Connection, options: str) -> None:
    run(connection, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, xact bigint NOT NULL DEFAULT xact_id())",
        "CREATE INDEX ON t (xact)", f"SELECT feed_create('z', 't'{options})",
        "INSERT INTO t SELECT i, 21 - i FROM generate_series(1, 10) AS i",
        "INSERT INTO t SELECT i, 21 - i FROM generate_series(11, 20) AS i")  # fmt: skip


def change_key(connection: Connection, columns: str) -> None:
    run(connection, "ALTER TABLE t DROP CONSTRAINT t_pkey", f"ALTER TABLE t ADD PRIMARY KEY ({columns})",
        "SELECT feed_enable('t')")  # fmt: skip


def rows_of(connection: Connection, batch: object) -> list[int]:
    rows = connection.execute(f"SELECT id FROM feed_batch_rows('z', {batch}, null::t)".encode()).fetchall()
    return [int(str(row[0])) for row in rows]


def take(connection: Connection, worker: str, limit: object) -> tuple[object, object]:
    number, token = one_row(connection, f"SELECT number, token FROM feed_take_batch('z', '{worker}', {limit})")
    return number, token


def finish(connection: Connection, batch: object, token: object) -> list[int]:
    rows = rows_of(connection, batch)
    assert value(connection, f"SELECT feed_finish_batch('z', {batch}, {token})") is True
    return rows


def rest(connection: Connection) -> list[int]:
    rows: list[int] = []
    while (batch := take(connection, "rest", 4))[0] is not None:
        rows += finish(connection, *batch)
    return rows


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
@pytest.mark.parametrize("key", KEYS)
def test_batches_of_whole_transactions_keep_their_rows_under_another_key(
    fresh: Connection, key: str, options: str
) -> None:
    make(fresh, options)
    held = take(fresh, "w", "NULL")
    before = rows_of(fresh, held[0])
    assert before
    change_key(fresh, KEYS[key])
    assert sorted(rows_of(fresh, held[0])) == sorted(before)
    run(fresh, "INSERT INTO t SELECT i, 100 - i FROM generate_series(21, 30) AS i")
    assert sorted(finish(fresh, *held) + rest(fresh)) == list(range(1, 31))


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
@pytest.mark.parametrize("key", KEYS)
def test_batches_cut_inside_a_transaction_need_the_old_key_or_its_order(
    fresh: Connection, key: str, options: str
) -> None:
    make(fresh, options)
    held = [take(fresh, worker, 3) for worker in ("v", "w")]
    before = [rows_of(fresh, batch) for batch, _ in held]
    assert all(0 < len(rows) <= 3 for rows in before)
    change_key(fresh, KEYS[key])
    if key == "wider":  # the rows have the same order as with the old key
        assert [rows_of(fresh, batch) for batch, _ in held] == before
    else:
        assert state(fresh, f"SELECT feed_batch_rows('z', {held[0][0]}, null::t)") == GROUND
        with pytest.raises(Exception, match=r"has changed since transaction .* was read in part") as refused:
            take(fresh, "rest", 3)
        assert "Restore that key, call feed_enable('public.t'), and continue reading" in str(refused.value)
        run(fresh, f"SELECT feed_fail_batch('z', {held[1][0]}, {held[1][1]}, 'unreadable')")
        change_key(fresh, "id")
        assert [rows_of(fresh, batch) for batch, _ in held] == before
        held[1] = take(fresh, "w", 3)
    batch_rows = [row for held_batch in held for row in finish(fresh, *held_batch)]
    assert sorted(batch_rows + rest(fresh)) == ROWS
    change_key(fresh, KEYS[key])
    run(fresh, "INSERT INTO t SELECT i, 100 - i FROM generate_series(21, 30) AS i")
    assert sorted(rest(fresh)) == list(range(21, 31))


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
def test_a_feed_continues_after_seek_if_the_old_key_is_not_restored(fresh: Connection, options: str) -> None:
    """The second remedy in the HINT is to call feed_seek() with the stored position.

    Rows of finished batches are delivered again, and no row is lost.
    """
    make(fresh, options)
    finished = finish(fresh, *take(fresh, "v", 3))
    assert finished
    take(fresh, "w", 3)
    change_key(fresh, "n")
    assert state(fresh, "SELECT feed_seek('z', 'here')") == GROUND
    run(fresh, "SELECT feed_seek('z', (SELECT position FROM feeds WHERE name = 'z'))")
    assert sorted(rest(fresh)) == ROWS


def test_a_batch_is_split_by_the_key_that_it_remembers(fresh: Connection) -> None:
    """The table's key has changed since the batch was read.

    The batch is rejected, because the new key would split it differently.
    """
    make(fresh, "")
    batch = value(fresh, "SELECT reader_next_batch('t', reader_start('t'))::text")
    split = (
        f"SELECT e.id FROM reader_split('t', '{batch}'::text::feed_batch, 4) AS p, "
        "reader_batch_rows('t', p, null::t) AS e"
    )
    assert sorted(int(str(row[0])) for row in fresh.execute(split.encode())) == ROWS
    change_key(fresh, KEYS["other"])
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has changed since transaction"):
        run(fresh, f"SELECT reader_split('t', '{batch}'::text::feed_batch, 4)")


def numbered(first: int, last: int) -> str:
    return f"INSERT INTO t (n) SELECT generate_series({first}, {last})"


def make_ordered(connection: Connection) -> None:
    run(connection, "CREATE SEQUENCE s", "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, "
        "seq bigint NOT NULL DEFAULT nextval('s'))", "CREATE INDEX ON t (seq)",
        "SELECT feed_create('z', 't', order_column => 'seq')", numbered(1, 10))  # fmt: skip


def next_rows(connection: Connection) -> list[int]:
    number = value(connection, "SELECT (feed_take_batch('z', 'w', 3)).number")
    if number is None:
        return []
    rows = connection.execute(f"SELECT n FROM feed_batch_rows('z', {number}, null::t)".encode()).fetchall()
    run(connection, f"SELECT feed_finish_batch('z', {number}, token) FROM feed_take_batch('z', 'w')")
    return [int(str(row[0])) for row in rows]


@pytest.mark.parametrize("start", ["-100", "1", "1000"], ids=["below", "equal", "above"])
def test_no_row_is_lost_if_the_column_gets_another_sequence(fresh: Connection, start: str) -> None:
    """Values of another sequence may change the order of rows, but no row is lost."""
    make_ordered(fresh)
    assert next_rows(fresh) == [1, 2, 3]
    run(fresh, f"CREATE SEQUENCE other MINVALUE -100 START {start}",
        "ALTER TABLE t ALTER seq SET DEFAULT nextval('other')", numbered(11, 20))  # fmt: skip
    assert value(fresh, "SELECT min(seq) FROM t WHERE n > 10") == int(start)
    # The feed has fixed its set of transactions. Rows committed later follow this set, regardless of their values.
    assert next_rows(fresh) + next_rows(fresh) + next_rows(fresh) == [4, 5, 6, 7, 8, 9, 10]
    run(fresh, "ALTER TABLE t ALTER seq SET DEFAULT nextval('s')", numbered(21, 30))
    delivered: list[int] = []
    while rows := next_rows(fresh):
        delivered += rows
    assert sorted(delivered) == list(range(11, 31))
    # The feed rejects a sequence with a cache, because sessions would use its values out of order.
    run(fresh, "ALTER SEQUENCE other CACHE 10", numbered(31, 31))
    assert next_rows(fresh) == [31]
    run(fresh, "ALTER TABLE t ALTER seq SET DEFAULT nextval('other')", numbered(32, 32))
    assert state(fresh, "SELECT (feed_take_batch('z', 'w')).number") == GROUND


def test_a_change_of_the_sequence_by_another_session_is_noticed(fresh: Connection, other: Connection) -> None:
    """The session caches the result of its check of the column, but does not lock the sequence."""
    make_ordered(fresh)
    read = "SELECT n FROM feed_read('z', null::t, 2)"
    run(fresh, read, "BEGIN", read, read)
    run(other, "ALTER SEQUENCE s CACHE 10")
    assert state(fresh, read) == GROUND
    run(other, "ALTER SEQUENCE s CACHE 1")
    run(fresh, "ROLLBACK")
    assert value(fresh, read.replace("n FROM", "count(*) FROM")) == 2


def test_columns_that_were_dropped_are_in_no_key(fresh: Connection) -> None:
    """The position after a batch contains the key of the last row, with existing columns only."""
    fresh.execute(WITH_DROPPED_COLUMNS.encode())
    for first in (0, 20):
        values = f"SELECT '2020-06-20'::date + g, g + 0.10, g FROM generate_series({first}, {first + 19}) AS g"
        fresh.execute(f'INSERT INTO p ("Key, 1", b, n) {values}'.encode())
    fresh.execute("SET datestyle = 'German'")
    for limit in (1, 7, 19, 20, 21, 1000):
        fresh.execute("SELECT feed_create('dropped', 'p')")
        read, delivered = f"SELECT n FROM feed_read('dropped', null::p, {limit})".encode(), []
        while rows := [n for (n,) in fresh.execute(read).fetchall()]:
            assert len(rows) <= limit
            delivered += rows
        assert delivered == list(range(40))
        fresh.execute("SELECT feed_drop('dropped')")


@pytest.mark.parametrize("last_key", ["NULL", "'{}'", "'{1}'"])
def test_a_position_inside_a_transaction_needs_a_key(fresh: Connection, last_key: str) -> None:
    """Positions that the extension creates inside a transaction always have a key.

    The position of this test was created by the reader. The error about the key is raised before the error about
    unknown members.
    """
    make(fresh, "")
    run(fresh, "ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER id DROP NOT NULL", "SELECT feed_enable('t')")
    place = f"ROW(1, '{{}}', 0, {last_key}, NULL, ARRAY[NULL]::feed_member[], NULL)::feed_position"
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not match columns"):
        run(fresh, f"SELECT reader_next_batch('t', {place})")


# Column defaults, and the base that the extension extracts from each. The base is None unless the default is a call of
# xact_id() with a constant, even if the default would return a number.
BASES = {
    "xact_id()": 0, "xact_id(5)": 5, "(xact_id('5'))": 5, "xact_id(base => 5000000000)": 5000000000,
    "xact_id(281474976710655)": 281474976710655, "xact_id(-5)": None, "xact_id(smallint '5')": None,
    "xact_id(NULL)": None, "xact_id(2 + 3)": None, "xact_id('5'::numeric::bigint)": None, "xact_id(five())": None,
    "xact_id(5) + 0": None, "coalesce(xact_id(5), 1)": None, "id.xact_id(5)": None, "five()": None, "5": None,
    "NULL": None,
}  # fmt: skip


def test_the_base_is_read_from_a_default(fresh: Connection) -> None:
    run(fresh, "CREATE FUNCTION five() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END'",
        "CREATE SCHEMA id", "CREATE FUNCTION id.xact_id(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'",
        "CREATE TABLE t (xact bigint)")  # fmt: skip
    bases = {}
    for default in BASES:
        run(fresh, f"ALTER TABLE t ALTER xact SET DEFAULT {default}")
        bases[default] = value(fresh, "SELECT min(base) FROM inorder_internal.key_columns('t')")
    assert bases == BASES
