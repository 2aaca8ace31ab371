"""Cached plans and queries return the same rows after a position, completely and in pieces of any size."""

import random

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN
from sql_edition import TESTED
from world.sql import run, value

pytestmark = pytest.mark.server

MAKE = "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, body text)"
TABLES = {
    "plain": MAKE,
    "descending": (
        "CREATE TABLE t (id uuid NOT NULL DEFAULT uuid_xact_nextval(), n int, body text); "
        "CREATE UNIQUE INDEX ON t (id DESC)"
    ),
    "dropped": f"{MAKE}; ALTER TABLE t DROP body",
    "added": f"{MAKE}; INSERT INTO t VALUES (DEFAULT, 0); ALTER TABLE t ADD kind text DEFAULT 'none'",
    "partitions": (
        "CREATE TABLE t (id uuid DEFAULT uuid_xact_nextval(), n int, body text, PRIMARY KEY (id, n)) PARTITION BY "
        "LIST (n); CREATE TABLE p0 PARTITION OF t FOR VALUES IN (0); CREATE TABLE p1 PARTITION OF t DEFAULT"
    ),
    "number": "CREATE TABLE t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, body text, "
    "id bigint NOT NULL DEFAULT xact_id()); CREATE INDEX ON t (id)",
    "partial": "CREATE TABLE t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, body text, "
    "id bigint NOT NULL DEFAULT xact_id()); CREATE INDEX ON t (id) WHERE id <> 0",
}
COMPUTED = f"{MAKE}; ALTER TABLE t ADD twice int GENERATED ALWAYS AS (n * 2) VIRTUAL"
CALLS = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = '{}_query'"
BATCH = """SELECT reader_advance(p, b)::jsonb::text, b::jsonb::text
FROM CAST(%s::jsonb AS feed_position) AS p CROSS JOIN LATERAL reader_next_batch('t', p, %s) AS b"""
ROWS = "SELECT r::text FROM reader_batch_rows('t', CAST(%s::jsonb AS feed_batch), null::t) AS r"

READ = "SELECT f::text FROM feed_read('walk', null::t, {}) AS f"
APPLY = "SELECT feed_apply('query', 'INSERT INTO got SELECT {}, batch::text FROM batch', {})"
OWN = "pg_current_xact_id()::text::bigint"
PIECES = 90 if LONG_RUN else 40


def write(sessions: list[Connection], chance: random.Random, has_body: bool, is_number: bool) -> None:
    """Write up to nine rows at a time in transactions that end in random order.

    Some transactions update their rows, and leave dead versions in the same page or in another.
    """
    for session in sessions:
        if session.info.transaction_status.name == "IDLE":
            run(session, "BEGIN", "SELECT pg_current_xact_id()")
        body = f", repeat('x', {chance.choice((1, 3000))})" if has_body else ""
        columns = "n, body" if has_body else "n"
        rows = f"SELECT g % 3{body} FROM generate_series(1, {chance.randrange(10)}) AS g"
        run(session, f"INSERT INTO t ({columns}) {rows}")
        if has_body and chance.random() < 0.3:
            run(
                session,
                f"UPDATE t SET body = concat(body, 'y') WHERE {'id' if is_number else 'uuid_xact_id(id)'} = {OWN}",
            )
        if chance.random() < 0.6:
            run(session, chance.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))


@pytest.mark.parametrize("kind", [*TABLES, "computed"])
def test_a_plan_and_a_query_return_the_same_rows(cluster: Cluster, fresh: Connection, kind: str) -> None:
    if kind == "computed" and fresh.info.server_version < 180000:
        pytest.skip("virtual generated columns exist from PostgreSQL 18 on")
    make = COMPUTED if kind == "computed" else TABLES[kind]
    is_number = kind in ("number", "partial")
    run(fresh, "DROP TABLE IF EXISTS t", make, "SELECT feed_create('walk', 't'), feed_create('query', 't')")
    run(fresh, "CREATE TABLE got (piece int, row_of text)", "SET track_functions = 'all'")
    chance = random.Random(f"walk {kind}")
    dsn = f"{cluster.dsn} dbname={fresh.info.dbname}"
    position, cuts = value(fresh, "SELECT reader_start('t', 'beginning')::jsonb::text"), 0
    with connect(dsn) as a, connect(dsn) as b, connect(dsn) as c:
        for piece in range(PIECES):
            write([a, b, c], chance, kind != "dropped", is_number)
            limit = chance.randrange(1, 12)
            run(fresh, *["VACUUM t"] * (piece % 10 == 9), "BEGIN")
            # This function is called only for positions inside a transaction, in tables with numbers.
            before = value(fresh, CALLS.format("found"))
            rows = [row for (row,) in fresh.execute(READ.format(limit).encode())]
            is_asked = value(fresh, CALLS.format("found")) != before
            assert TESTED == "sql" or is_number or not is_asked
            run(fresh, APPLY.format(piece, limit))
            after, batch = fresh.execute(BATCH, (position, limit)).fetchall()[0]
            cuts += int(value(fresh, CALLS.format("place")))
            walked = [row for (row,) in fresh.execute(ROWS, (batch,))] if batch else []
            position = after or position
            run(fresh, "COMMIT")
            assert walked == rows
            expected = fresh.execute(f"SELECT row_of FROM got WHERE piece = {piece}".encode()).fetchall()
            assert sorted(map(str, rows)) == sorted(str(row) for (row,) in expected)
        for session in (a, b, c):
            session.commit()
    assert (cuts == 0) is not is_number or TESTED == "sql"
    run(fresh, "RESET track_functions")
    while value(fresh, APPLY.format(PIECES, 50)):
        pass
    twice = "EXISTS (SELECT FROM got GROUP BY row_of HAVING count(*) > 1)"
    assert value(fresh, f"SELECT NOT {twice} AND NOT EXISTS (SELECT t::text FROM t EXCEPT SELECT row_of FROM got)")


def test_max_rows_limits_partial_and_whole_transactions(fresh: Connection) -> None:
    run(
        fresh, "CREATE TABLE plain (id uuid DEFAULT uuid_xact_nextval())", "CREATE INDEX ON plain (id)",
        "SELECT feed_create('plain', 'plain')",
        *(f"INSERT INTO plain SELECT FROM generate_series(1, {rows})" for rows in (20, 10)),
    )  # fmt: skip
    assert [value(fresh, "SELECT feed_apply('plain', 'SELECT FROM batch', 14)") for _ in range(3)] == [14, 14, 2]
