"""Logical replication: a subscriber generates its own transaction numbers, and its feeds deliver the rows."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

import waiting
from conftest import SETTINGS
from sql_edition import BUILT, create
from world.sql import value

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def logical(server: Installation) -> Iterator[Cluster]:
    with Cluster(server, BUILT) as running:
        running.start(SETTINGS | {"wal_level": "logical", "wal_retrieve_retry_interval": "100ms"})
        with connect(running.dsn) as connection:
            connection.execute("CREATE DATABASE publisher")
            connection.execute("CREATE DATABASE subscriber")
        for name in ("publisher", "subscriber"):
            with connect(make_conninfo(running.dsn, dbname=name)) as connection:
                create(connection)
        yield running


@pytest.fixture
def publisher(logical: Cluster) -> Iterator[Connection]:
    with connect(make_conninfo(logical.dsn, dbname="publisher")) as connection:
        yield connection


@pytest.fixture
def subscriber(logical: Cluster) -> Iterator[Connection]:
    with connect(make_conninfo(logical.dsn, dbname="subscriber")) as connection:
        yield connection


def subscribe(logical: Cluster, publisher: Connection, subscriber: Connection, table: str, options: str = "") -> None:
    """Replicate a table.

    The slot is created first, because CREATE SUBSCRIPTION hangs if it creates a slot on its own server.
    """
    publisher.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}".encode())
    publisher.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [table])
    source = make_conninfo(logical.dsn, dbname="publisher")
    subscriber.execute(
        f"""CREATE SUBSCRIPTION {table} CONNECTION '{source}' PUBLICATION {table}
            WITH (create_slot = false, copy_data = false{options})""".encode()
    )


def wait_for(connection: Connection, query: str) -> None:
    waiting.wait_for(lambda: value(connection, query))


def drop_slot(publisher: Connection, name: str) -> None:
    wait_for(publisher, f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{name}'")
    publisher.execute("SELECT pg_drop_replication_slot(%s)", [name])


def test_a_subscriber_refuses_transaction_numbers_of_another_server(
    logical: Cluster, publisher: Connection, subscriber: Connection
) -> None:
    table = "CREATE TABLE foreign_keys (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)"
    publisher.execute(table.encode())
    subscriber.execute(table.encode())
    subscriber.execute("SELECT feed_create('f', 'foreign_keys')")
    subscribe(logical, publisher, subscriber, "foreign_keys", ", disable_on_error = true")
    publisher.execute("INSERT INTO foreign_keys (n) VALUES (1)")
    wait_for(subscriber, "SELECT NOT subenabled FROM pg_subscription WHERE subname = 'foreign_keys'")
    log = logical.log.read_text()
    assert "was not made by this transaction" in log
    assert 'The feed on "foreign_keys" delivers rows by the transaction number in column "id"' in log
    assert value(subscriber, "SELECT count(*) FROM foreign_keys") == 0
    subscriber.execute("ALTER SUBSCRIPTION foreign_keys SET (slot_name = NONE)")
    subscriber.execute("DROP SUBSCRIPTION foreign_keys")
    drop_slot(publisher, "foreign_keys")


def test_a_subscriber_gives_replicated_rows_its_own_numbers(
    logical: Cluster, publisher: Connection, subscriber: Connection
) -> None:
    publisher.execute("CREATE TABLE applied (id int PRIMARY KEY, note text)")
    subscriber.execute(
        """CREATE TABLE applied (id int PRIMARY KEY, note text,
                                 xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
           CREATE INDEX ON applied (xact);
           SELECT feed_create('applied', 'applied'), exact_count_start('applied')"""
    )
    subscribe(logical, publisher, subscriber, "applied")
    delivered: list[object] = []
    for first in (1, 101, 201):
        publisher.execute("INSERT INTO applied SELECT generate_series(%s::int, %s::int)", [first, first + 99])
        wait_for(subscriber, f"SELECT count(*) = {first + 99} FROM applied")
        delivered += [row[0] for row in subscriber.execute("SELECT id FROM feed_read('applied', null::applied)")]
    assert delivered == list(range(1, 301))
    assert value(subscriber, "SELECT count(DISTINCT xact) FROM applied") == 3
    # An applied UPDATE does not change the number, so the guard allows it.
    publisher.execute("UPDATE applied SET note = 'changed'")
    wait_for(subscriber, "SELECT bool_and(note = 'changed') FROM applied")
    assert value(subscriber, "SELECT count(DISTINCT xact) FROM applied") == 3
    assert value(subscriber, "SELECT count(*) FROM feed_read('applied', null::applied)") == 0
    assert value(subscriber, "SELECT exact_count('applied')") == 300
    subscriber.execute("ALTER SUBSCRIPTION applied DISABLE")
    subscriber.execute("ALTER SUBSCRIPTION applied SET (slot_name = NONE)")
    subscriber.execute("DROP SUBSCRIPTION applied")
    drop_slot(publisher, "applied")
