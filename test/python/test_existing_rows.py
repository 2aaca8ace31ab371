"""Rows older than feed_prepare() are read once each, in pieces, with active writers and after a rollback."""

from contextlib import closing

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

OLD, NEW, PIECE = 700, 20, 150
WIDE = ", ".join(f"c{i} int DEFAULT {i}" for i in range(200))
# Tables with a column n, and the number of their partitions.
TABLES = {
    "random key": ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int", ""),
    "two columns": ("n int, t text COLLATE \"C\" DEFAULT md5(random()::text), PRIMARY KEY (t, n)", ""),
    "wide": (
        f"{WIDE},"
        " k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, m int GENERATED ALWAYS AS (n + 1) STORED",
        "",
    ),
    "partitions": ("id uuid DEFAULT gen_random_uuid(), n int, PRIMARY KEY (n, id)", "PARTITION BY HASH (n)"),
    "no key": ("n int", ""),
}  # fmt: skip


@pytest.fixture(params=TABLES)
def old(fresh: Connection, request: pytest.FixtureRequest) -> Connection:
    columns, partitioned = TABLES[request.param]
    run(fresh, f"CREATE TABLE old ({columns}) {partitioned}")
    for number in range(3 if partitioned else 0):
        run(fresh, f"CREATE TABLE old_{number} PARTITION OF old FOR VALUES WITH (MODULUS 3, REMAINDER {number})")
    insert(fresh, 0, OLD)
    run(fresh, *(str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')").fetchall()))
    return fresh


def insert(connection: Connection, first: int, count: int) -> None:
    connection.execute(f"INSERT INTO old (n) SELECT generate_series({first}, {first + count - 1})".encode())


def piece(connection: Connection) -> list[int]:
    return [n for (n,) in connection.execute(f"SELECT n FROM feed_read('f', null::old, {PIECE})".encode()).fetchall()]


def test_each_row_comes_once(cluster: Cluster, old: Connection, request: pytest.FixtureRequest) -> None:
    run(old, "SELECT feed_create('f', 'old')")
    delivered, pieces, end = list[int](), list[int](), OLD
    while True:
        with closing(connect(f"{cluster.dsn} dbname={old.info.dbname}")) as reader:
            reader.execute("BEGIN")
            lost = piece(reader)  # the reader crashes after this piece
            reader.execute("ROLLBACK")
            rows = piece(reader)
        assert rows == lost
        if not rows:
            break
        delivered, pieces = delivered + rows, [*pieces, len(rows)]
        if len(pieces) < 4:
            insert(old, end, NEW)
            end += NEW
            assert value(old, "SELECT caught_up FROM feeds") is False
    assert sorted(delivered) == [*range(end)]
    assert max(pieces) == (OLD if "no key" in request.node.name else PIECE)
    assert value(old, "SELECT caught_up FROM feeds") is True


def test_existing_rows_are_counted_and_delivered_in_batches(old: Connection, request: pytest.FixtureRequest) -> None:
    insert(old, OLD, NEW)
    assert value(old, "SELECT exact_count_start('old')") == OLD + NEW
    insert(old, OLD + NEW, NEW)
    end = OLD + 2 * NEW
    assert value(old, "SELECT exact_count('old')") == end
    run(old, "SELECT feed_create('f', 'old')")
    delivered, workers = list[int](), 0
    take = f"SELECT number, token FROM feed_take_batch('f', 'w', {PIECE}) WHERE number IS NOT NULL"
    while batch := old.execute(take.encode()).fetchone():
        delivered += [
            n for (n,) in old.execute("SELECT n FROM feed_batch_rows('f', %s, null::old)", batch[:1]).fetchall()
        ]
        run(old, f"SELECT feed_finish_batch('f', {batch[0]}, {batch[1]})")
        workers += 1
    assert sorted(delivered) == [*range(end)] and (workers > OLD // PIECE or "no key" in request.node.name)
    split = """SELECT r.n FROM reader_split('old', reader_next_batch('old', reader_start('old')), 3) AS p
               CROSS JOIN LATERAL reader_batch_rows('old', p, null::old) AS r"""
    assert sorted(n for (n,) in old.execute(split).fetchall()) == [*range(end)]
    run(old, "SELECT feed_create('new', 'old', 'now')")
    insert(old, end, 1)
    assert old.execute("SELECT n FROM feed_read('new', null::old)").fetchall() == [(end,)]
