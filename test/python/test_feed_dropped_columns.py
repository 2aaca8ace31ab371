"""feed_read ends a batch after the last row that it has read: by the columns of the table as they are now."""

import pytest
from inorder.connection.database import connect
from inorder.lab.server.cluster import Cluster

pytestmark = pytest.mark.server

MAKE = """
    CREATE SCHEMA dropped;
    CREATE TABLE dropped.p (
        gone int, "Key, 1" date, gone_too text, b numeric, xact bigint NOT NULL DEFAULT xact_id(), n int,
        PRIMARY KEY ("Key, 1", b)
    ) PARTITION BY RANGE ("Key, 1");
    ALTER TABLE dropped.p DROP gone, DROP gone_too;
    CREATE TABLE dropped.p1 (
        n int, b numeric NOT NULL, x int, "Key, 1" date NOT NULL, xact bigint NOT NULL DEFAULT xact_id()
    );
    ALTER TABLE dropped.p1 DROP x;
    ALTER TABLE dropped.p ATTACH PARTITION dropped.p1 FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
    CREATE TABLE dropped.p2 PARTITION OF dropped.p FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
    CREATE INDEX ON dropped.p (xact);
    SELECT feed_enable('dropped.p', 'xact')"""
INSERT = """INSERT INTO dropped.p ("Key, 1", b, n)
            SELECT '2020-06-01'::date + g, g + 0.10, g FROM generate_series({first}, {last}) AS g"""


@pytest.mark.parametrize("limit", [1, 7, 199, 200, 201, 10_000])
def test_columns_that_were_dropped_are_in_no_key(cluster: Cluster, limit: int) -> None:
    with connect(cluster.dsn) as connection:
        connection.execute(MAKE.encode())
        for first in (0, 200):
            connection.execute(INSERT.format(first=first, last=first + 199).encode())
        connection.execute(b"SET datestyle = 'German'; SELECT feed_create('dropped', 'dropped.p')")
        read, got = f"SELECT n FROM feed_read('dropped', null::dropped.p, {limit})".encode(), []
        while rows := [n for (n,) in connection.execute(read).fetchall()]:
            assert len(rows) <= limit
            got += rows
        assert got == list(range(400))
        connection.execute(b"SELECT feed_drop('dropped'); DROP SCHEMA dropped CASCADE; RESET datestyle")
