"""Calls that wait until a table's owner commits a change use its result, or fail and can be retried."""

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from waiting import PATIENCE, blocked
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

CALLS = {
    "read": "SELECT count(*) FROM feed_read('f', null::{table}, 10)",
    "take": "SELECT number FROM feed_take_batch('f', 'w')",
    "reader": "SELECT reader_next_batch('{table}', reader_start('{table}'), 10)",
    "count": "SELECT exact_count('{table}')",
}
# Changes that the owner makes while calls of other sessions wait for the table.
CHANGES = {
    "feed_rebase": "SELECT feed_rebase('{table}', 1000000)",
    "feed_enable": "SELECT feed_enable('{table}')",
    "another index": "CREATE INDEX again ON {table} (xact); SELECT feed_enable('{table}')",
}
TABLES = {
    "plain": "CREATE TABLE plain (k bigserial PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n int)",
    "parts": "CREATE TABLE parts (k bigserial, xact bigint NOT NULL DEFAULT xact_id(), n int, PRIMARY KEY (k)) "
    "PARTITION BY RANGE (k)",
    "generated": "CREATE TABLE generated (k bigserial PRIMARY KEY, n int, "
    "xact bigint NOT NULL GENERATED ALWAYS AS (xact_id_generated()) STORED)",
}


@pytest.fixture(params=TABLES)
def table(fresh: Connection, request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    fresh.execute(TABLES[name].encode())
    if name == "parts":
        fresh.execute("CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (1) TO (1000000)")
    fresh.execute(f"CREATE INDEX ON {name} (xact)".encode())
    fresh.execute(f"SELECT feed_create('f', '{name}'), exact_count_start('{name}')".encode())
    fresh.execute(f"INSERT INTO {name} (n) SELECT generate_series(1, 3)".encode())
    return name


def call(session: Connection, statement: str) -> object:
    return value(session, statement)


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_waited_continues_or_can_be_retried(
    fresh: Connection, cluster: Cluster, table: str, level: str, change: str, name: str
) -> None:
    if table == "generated" and change == "feed_rebase":
        pytest.skip("feed_rebase() cannot raise the base of a generated column")
    statement = CALLS[name].format(table=table)
    with connect(f"{cluster.dsn} dbname=tail") as reader:
        reader.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
        value(reader, "SELECT count(*) FROM feeds")
        fresh.execute("BEGIN")
        fresh.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        with blocked(call, reader, statement) as waiting:
            assert not waiting.done()
            run(fresh, *CHANGES[change].format(table=table).split(";"))
            fresh.execute("COMMIT")
            try:
                waiting.result(PATIENCE)
            except psycopg.Error as error:
                assert error.sqlstate == "40001", (error, error.diag.message_detail)
        value(reader, statement)
