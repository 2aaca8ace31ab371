"""Transaction ID wraparound: after four billion transactions, IDs in catalog rows are assigned again."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS
from sql_edition import BUILT, create
from world.sql import run, value

pytestmark = pytest.mark.server

TRANSACTIONS_IN_SEGMENT = 1 << 20  # number of transactions in a segment of pg_xact, a file of 256 kB
IDS = 1 << 32
# Jumps are shorter than two billion. After the second jump, catalog rows appear to come from future transactions.
JUMPS = (1_800_000_000, 3_400_000_000, IDS + 600_000_000)
TABLES = {
    "keys": "id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int",
    "made": "xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, n int",
    "parts": "id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n",
}
APPLY = "SELECT feed_apply('{0}', 'INSERT INTO taken SELECT n FROM batch')"
NEXT = "SELECT reader_next_batch('{0}', (SELECT p FROM kept WHERE name = '{0}'))"
MOVES = "VACUUM FULL pg_trigger", "VACUUM FULL pg_inherits", "VACUUM FULL pg_attrdef"


@pytest.fixture
def old(server: Installation) -> Iterator[Cluster]:
    with Cluster(server, BUILT) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            create(connection)
            run(connection, "CREATE TABLE taken (n int)", "CREATE TABLE kept (name text, p feed_position)")
            for name, columns in TABLES.items():
                run(connection, f"CREATE TABLE {name} ({columns})")
            run(connection, "CREATE TABLE part PARTITION OF parts FOR VALUES IN (1)", "CREATE INDEX ON made (xact)")
            for name in TABLES:
                run(connection, f"SELECT feed_create('{name}', '{name}'), exact_count_start('{name}')")
                run(connection, f"INSERT INTO kept VALUES ('{name}', reader_start('{name}'))")
        yield cluster


def jump(cluster: Cluster, number: int) -> None:
    """Continue with a later transaction ID, as if the IDs before it had been used."""
    with connect(cluster.dsn) as connection:
        run(connection, "ALTER DATABASE template0 ALLOW_CONNECTIONS true")
        databases = [name for (name,) in connection.execute("SELECT datname FROM pg_database")]
    for name in databases:
        with connect(f"{cluster.dsn} dbname={name}") as connection:
            run(connection, "VACUUM FREEZE")
    cluster.stop()
    epoch, xid = divmod(number, IDS)
    segment = cluster.data / "pg_xact" / f"{xid // TRANSACTIONS_IN_SEGMENT:04X}"
    segment.write_bytes(bytes(TRANSACTIONS_IN_SEGMENT // 4))
    user = cluster.account and cluster.account.pw_uid
    if user is not None:
        shutil.chown(segment, user)
    command: list[str | Path] = [
        cluster.original.program("pg_resetwal"),
        "-x",
        str(xid),
        "-e",
        str(epoch),
        cluster.data,
    ]
    subprocess.run(command, check=True, capture_output=True, user=user)
    cluster.start(SETTINGS)


def read(connection: Connection) -> None:
    """Check that each reader gets the new row of each table."""
    for name in TABLES:
        run(connection, f"INSERT INTO {name} (n) VALUES (1)", "TRUNCATE taken", APPLY.format(name))
        rows = f"SELECT n FROM reader_batch_rows('{name}', ({NEXT.format(name)}), null::{name})"
        assert connection.execute(rows.encode()).fetchall() == [(1,)]
        run(connection, f"UPDATE kept SET p = reader_advance(p, ({NEXT.format(name)})) WHERE name = '{name}'")
        assert value(connection, "SELECT count(*) FROM taken") == 1
        assert value(connection, f"SELECT exact_count('{name}') - count(*) FROM {name}") == 0
        assert value(connection, f"SELECT exact_count_fold('{name}')") == 1


def test_feeds_continue_when_ids_are_used_again(old: Cluster) -> None:
    for number in (0, *JUMPS):
        if number:
            jump(old, number)
        with connect(old.dsn) as connection:
            read(connection)
            run(connection, *MOVES)
            read(connection)


@pytest.mark.parametrize(
    ("later", "is_upgraded"), [(-1000, True), (0, True), (1, False), (10**9, False), (3 * 10**9, False)]
)
def test_changes_made_long_after_pg_upgrade_are_not_taken_for_part_of_it(
    connection: Connection, later: int, is_upgraded: bool
) -> None:
    query = """SELECT inorder_internal.are_upgraded(ARRAY[(c.xmin::text::bigint + %s) & 4294967295])
               FROM pg_constraint AS c WHERE c.conrelid = 'inorder_internal.upgrade_mark'::regclass AND contype = 'f'"""
    assert value(connection, query, later) is is_upgraded


@pytest.mark.parametrize("edition", ["c", "sql"])
def test_after_the_last_number_no_row_gets_a_number(server: Installation, edition: str) -> None:
    with Cluster(server, () if edition == "c" else None) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            create(connection, edition)
            for name in ("keys", "made"):
                run(connection, f"CREATE TABLE {name} ({TABLES[name]})")
            run(connection, "CREATE INDEX ON made (xact)", "SELECT feed_enable('keys'), feed_enable('made')")
        jump(cluster, (1 << 48) + 1000)
        calls = [
            *(f"INSERT INTO {name} (n) VALUES (1)" for name in ("keys", "made")),
            *(f"SELECT {name}({base})" for name in ("uuid_xact_nextval", "xact_id") for base in (0, 1)),
            *(f"SELECT {call}" for call in ("ended_transactions()", "reader_start('keys', 'now')")),
        ]
        statuses = dict[str, str | None]()
        with connect(cluster.dsn) as connection:
            for call in calls:
                try:
                    statuses[call] = connection.execute(call.encode()).statusmessage
                except psycopg.errors.NumericValueOutOfRange as error:
                    assert "exceeds 281474976710655" in str(error)
        assert not statuses
