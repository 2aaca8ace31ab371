"""Tables, reads, and a schema for each test of the conditions under which a table can be read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

import attack
from sql_edition import TESTED
from world.sql import run

state = attack.refusal

SNAPSHOT = "40001"  # serialization_failure: retry
GROUND = "55000"  # object_not_in_prerequisite_state: a user has to act
# FORGED: rows with the numbers of transactions that feeds have passed. SWITCH: a statement that enables or disables
# ({1}) the guard of the table {0}.
FORGED = "SELECT uuid_xact_floor(i), 1 FROM generate_series(1, 5) AS i"
SWITCH = """
DO $$
DECLARE
    g name;
BEGIN
    FOR g IN SELECT tgname FROM pg_trigger WHERE tgrelid = '{0}'::regclass AND tgname LIKE 'zz_inorder%' LOOP
        EXECUTE format('ALTER TABLE {0} {1} TRIGGER %I', g);
    END LOOP;
END $$
"""
# The guard's triggers. Partitions have all of them except "truncate".
GUARD = ("guard", "update", "truncate") if TESTED == "c" else ("guard", "update", "truncate", "delete")
# The SQLSTATE of a read if a trigger fires after the guard, and might change a row that the guard has checked. In the
# SQL edition, no trigger fires after the guard, because the guard checks stored rows.
LATER = GROUND if TESTED == "c" else ""
# Let batch numbers start at the current time, as in production: see sql_edition.number_from_one().
FROM_CLOCK = (
    "ALTER FUNCTION inorder_internal.first_number() RENAME TO first_of_tests",
    "ALTER FUNCTION inorder_internal.first_of_clock() RENAME TO first_number",
)
# The worker takes its batch again to get a token: each call returns a new token.
FINISH = """
SELECT feed_finish_batch(b.feed, b.number, t.token)
FROM (SELECT %s::text AS feed, %s::bigint AS number) AS b, feed_take_batch(b.feed, 'w') AS t
"""
PLAIN = "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, note int)"
PARTS = (
    "CREATE TABLE t (id uuid DEFAULT uuid_xact_nextval(), n int, note int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
    *(f"CREATE TABLE t_{n} PARTITION OF t FOR VALUES IN ({n})" for n in (1, 2)),
    "CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3, 4) PARTITION BY LIST (n)",
    "CREATE TABLE t_3_3 PARTITION OF t_3 FOR VALUES IN (3)",
    "CREATE TABLE t_3_4 PARTITION OF t_3 FOR VALUES IN (4)",
)
ROWS = "INSERT INTO t (n) VALUES (1), (2), (3), (4)"
READS = {
    "read": "SELECT n FROM feed_read('f', null::t)",
    "apply": "SELECT feed_apply('f', 'INSERT INTO taken SELECT n FROM batch')",
    "next batch": "SELECT (feed_take_batch('f', 'w')).number",
    "batch rows": "SELECT n FROM feed_batch_rows('out', 1, null::t)",
    "batch after": "SELECT reader_next_batch('t', (SELECT p FROM kept))",
    "rows": "SELECT n FROM reader_batch_rows('t', (SELECT b FROM kept), null::t)",
    "count": "SELECT exact_count('t')",
    "fold": "SELECT exact_count_fold('t')",
}


def states(connection: Connection, reads: Iterable[str]) -> dict[str, str]:
    by_read = {}
    for read in reads:
        run(connection, "SAVEPOINT s")
        by_read[read] = state(connection, READS[read])
        run(connection, "ROLLBACK TO s")
    return by_read


def numbers(connection: Connection, statement: str = READS["read"]) -> list[int]:
    return sorted(int(str(row[0])) for row in connection.execute(statement.encode()).fetchall())


@contextmanager
def roles(connection: Connection, *names: str) -> Iterator[None]:
    every = ", ".join(names)
    run(connection, f"DROP ROLE IF EXISTS {every}", *(f"CREATE ROLE {name}" for name in names))
    try:
        yield
    finally:
        run(connection, "RESET ROLE", f"DROP OWNED BY {every} CASCADE", f"DROP ROLE {every}")


# DISCARD ALL without DEALLOCATE ALL. The extension's prepared statements are kept, as in a long-lived session, because
# preparing them takes most of the time of a new session.
FORGET = (
    "ROLLBACK", "CLOSE ALL", "UNLISTEN *", "SET SESSION AUTHORIZATION DEFAULT", "RESET ALL",
    "SELECT pg_advisory_unlock_all()", "DISCARD SEQUENCES", "DISCARD TEMP",
)  # fmt: skip


class Place:
    def __init__(self, cluster: Cluster, schema: str, idle: list[Connection]) -> None:
        self.cluster, self.schema, self.idle = cluster, schema, idle
        self.sessions: list[Connection] = []

    def session(self) -> Connection:
        opened = self.idle.pop() if self.idle else connect(self.cluster.dsn)
        opened.execute(f"SET search_path = {self.schema}, public".encode())
        self.sessions.append(opened)
        return opened

    def once(self, *statements: str) -> None:
        run(self.session(), *statements)
        self.end()

    def end(self) -> None:
        while self.sessions:
            session = self.sessions.pop()
            try:
                run(session, *FORGET)
                self.idle.append(session)
            except psycopg.Error:
                session.close()

    def make(self, *tables: str, rows: str = ROWS) -> Connection:
        owner = self.session()
        run(owner, *tables, "CREATE TABLE taken (n int)", "SELECT feed_create('f', 't'), exact_count_start('t')")
        run(owner, "CREATE TABLE kept AS SELECT reader_start('t') AS p, NULL::feed_batch AS b")
        run(owner, "SELECT feed_create('out', 't')", rows, "SELECT (feed_take_batch('out', 'w')).number")
        run(owner, "UPDATE kept SET b = reader_next_batch('t', p)")
        return owner
