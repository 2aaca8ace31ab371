"""A transaction that is open for long keeps every version of a feed's state: polls do not become dearer by it."""

from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from attack import execute
from conftest import scalar

pytestmark = pytest.mark.server

BATCHES = 3000
POLL = "SELECT feed_apply('f', 'SELECT count(*) FROM batch')"
MOVE = """DO $$ BEGIN
    FOR i IN 1 .. {batches} LOOP
        INSERT INTO t DEFAULT VALUES; COMMIT;
        PERFORM feed_apply('f', 'SELECT count(*) FROM batch'); COMMIT;
    END LOOP;
END $$"""


def pages(connection: psycopg.Connection[Any]) -> int:
    """How many pages a poll touches that finds nothing, once all before was read."""
    connection.execute(POLL.encode())
    ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {POLL}".encode()).fetchall()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


@pytest.mark.editions
def test_a_poll_touches_as_many_pages_as_before(cluster: Cluster, fresh: Connection) -> None:
    """At most twice as many after thousands of batches; without a key that shows the newest version, 25 times."""
    execute(fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())", "SELECT feed_create('f', 't')")
    fresh.execute(MOVE.format(batches=50).encode())
    before = pages(fresh)
    with connect(f"{cluster.dsn} dbname={fresh.info.dbname}") as holder:
        execute(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM t")
        fresh.execute(MOVE.format(batches=BATCHES).encode())
        assert pages(fresh) <= 2 * before
        assert scalar(fresh, "SELECT pg_relation_size('inorder_internal.feed_state') > 1000000")  # it held them
