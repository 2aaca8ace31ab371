"""Databases with feeds and counts, to be dumped and restored."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inorder.connection.database import Connection, one_row
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

from conftest import copy_of
from sql_edition import TESTED, create
from world.server import run_program

TABLES = """
CREATE SCHEMA "Odd.one";
CREATE TABLE "Odd.one"."Event's" ("The id" uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (5);
CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (5) TO (1000) PARTITION BY RANGE (n);
CREATE TABLE parts_highest PARTITION OF parts_high DEFAULT;
CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, xact bigint DEFAULT xact_id());
CREATE INDEX ON orders (xact) WHERE xact > 0;
CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int,
                   xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
CREATE INDEX ON made (xact);
CREATE TABLE gone (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
SELECT feed_create('gone', 'gone');
DROP TABLE gone;
"""
# Part of the error message when a row of another transaction is inserted again. In the SQL edition, the guard fires
# after the primary key is checked.
FOREIGN = "was not made by this transaction" if TESTED == "c" else "duplicate key"
# The names of feeds, each with its table.
KEPT = {"keys": """"Odd.one"."Event's\"""", "parts": "parts", "orders": "orders"}
ALL = KEPT | {"made": "made"}


# Insert the rows of a worker's batch into the table "got". Feed "f" of table t is divided by column n.
TAKE_SHARE = (
    "WITH b AS MATERIALIZED (SELECT * FROM feed_take_batch('f', '{}')) INSERT INTO got (n) "
    "SELECT r.n FROM b CROSS JOIN LATERAL feed_batch_rows('f', b.number, null::t) AS r WHERE b.number > 0"
)
FINISH_SHARE = (
    "SELECT feed_finish_batch('f', number, token) FROM inorder_internal.worker_batch WHERE number > 0 AND worker = '{}'"
)
TURN = (TAKE_SHARE.format("w"), FINISH_SHARE.format("w"))


def check_shares(connection: Connection, rows: int) -> None:
    """Check that each row was taken once, and that the rows of each of the four shares were taken in order."""
    assert one_row(connection, "SELECT count(DISTINCT n), count(*) FROM got") == (rows, rows)
    share = "(hashint8extended(n, 0) & 9223372036854775807) % 4"
    steps = f"SELECT n - lag(n) OVER (PARTITION BY {share} ORDER BY place) FROM got"
    assert one_row(connection, f"SELECT count(*) FROM ({steps}) AS s(step) WHERE step < 0") == (0,)


def check_counts(connection: Connection) -> None:
    """Check the counts before and after a fold.

    Before that, each table is accepted with feed_rebase(), because some tables have generated numbers.
    """
    for table in ALL.values():
        connection.execute("SELECT feed_rebase(%s)", [table])
        for call in ("exact_count", "exact_count_fold", "exact_count"):
            counted, rows = one_row(connection, f"SELECT {call}(%s), count(*) FROM {table}", (table,))
            assert counted == rows or call == "exact_count_fold", f"{table}: {counted}, not {rows}"


def dsn_of(cluster: Cluster, database: str, user: str = "postgres") -> str:
    return make_conninfo(cluster.dsn, dbname=database, user=user)


def read(connection: Connection, feed: str, rows: int | None = None, owner: str | None = None) -> list[int]:
    statement = f"SELECT n FROM feed_read(%s, null::{ALL[feed]}, %s, %s::regrole)"
    fetched = connection.execute(statement.encode(), [feed, rows, owner])
    return [int(str(row[0])) for row in fetched]


def insert(connection: Connection, first: int, last: int) -> None:
    for table in ALL.values():
        connection.execute(f"INSERT INTO {table} (n) SELECT generate_series({first}, {last})".encode())


def make_tables(connection: Connection) -> None:
    if connection.execute("SELECT to_regnamespace('inorder_internal')").fetchone() == (None,):
        create(connection)
    connection.execute(TABLES.encode())


def fill(connection: Connection) -> dict[str, list[int]]:
    make_tables(connection)
    insert(connection, 1, 3)
    for feed, table in ALL.items():
        connection.execute("SELECT feed_create(%s, %s), feed_create(%s || ' steps', %s)", [feed, table, feed, table])
        connection.execute("SELECT exact_count_start(%s)", [table])
    insert(connection, 4, 10)
    delivered = {feed: read(connection, feed, 5) for feed in ALL}
    for feed in ALL:
        connection.execute("SELECT (feed_take_batch(%s || ' steps', 'w', 4)).number", [feed])
    insert(connection, 11, 12)
    return delivered


def spend_transactions(connection: Connection, amount: int) -> None:
    connection.execute("CREATE TEMP TABLE spent (n int)")
    connection.execute(
        f"""DO $$ BEGIN FOR i IN 1 .. {amount} LOOP
                BEGIN INSERT INTO spent VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END;
            END LOOP; END $$""".encode()
    )


@contextmanager
def copied(source: Cluster, database: str, target: Cluster, into: str, form: str, folder: Path) -> Iterator[Connection]:
    """Dump a database, and restore it into a new one. Yield a connection to the new database, which is then dropped."""
    file = str(folder / "dump")
    dumped = run_program(source, "pg_dump", f"--format={form}", "--no-owner", "-f", file, database)
    assert dumped.returncode == 0, dumped.stderr
    with copy_of("template1", target, into) as connection:
        if form == "plain":
            done = run_program(target, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", into, "-f", file)
        else:
            done = run_program(target, "pg_restore", "--exit-on-error", "--no-owner", "-d", into, file)
        assert done.returncode == 0, done.stderr
        yield connection


OWNER = "inorder_plain"
