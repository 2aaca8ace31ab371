"""Positions that readers store as text, for tables whose partitions are attached and detached."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from world.sql import value

pytestmark = pytest.mark.server


class Parts:
    def __init__(self, connection: Connection, first: tuple[int, ...]) -> None:
        self.connection = connection
        connection.execute("CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
        for n in first:
            connection.execute(f"CREATE TABLE events_{n} PARTITION OF events FOR VALUES IN ({n})".encode())
        connection.execute("CREATE INDEX ON events (id); SELECT feed_enable('events')")
        self.position = str(value(connection, "SELECT reader_start('events')::text"))

    def insert(self, n: int) -> None:
        self.connection.execute("INSERT INTO events (n) VALUES (%s)", [n])

    def read(self) -> list[object]:
        after = "SELECT reader_next_batch('events', %s::text::feed_position)::text"
        batch = str(value(self.connection, after, self.position))
        advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
        self.position = str(value(self.connection, advance, self.position, batch))
        rows = self.connection.execute(
            "SELECT n FROM reader_batch_rows('events', %s::text::feed_batch, null::events)", [batch]
        )
        return [n for (n,) in rows]

    def filled(self, n: int) -> None:
        """Create a table with one row, to be attached as a partition."""
        self.connection.execute(f"CREATE TABLE events_{n} (LIKE events INCLUDING DEFAULTS)".encode())
        self.connection.execute(f"INSERT INTO events_{n} (n) VALUES ({n})".encode())

    def attach(self, n: int) -> None:
        self.connection.execute(f"ALTER TABLE events ATTACH PARTITION events_{n} FOR VALUES IN ({n})".encode())


@pytest.fixture
def in_schema(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as connection:
        name = f"s{uuid.uuid4().hex}"
        connection.execute(f"CREATE SCHEMA {name}; SET search_path = {name}, public".encode())
        yield connection
        connection.execute(f"SET client_min_messages = error; DROP SCHEMA {name} CASCADE".encode())


def test_a_position_stays_valid_after_partitions_are_dropped(in_schema: Connection) -> None:
    parts = Parts(in_schema, (1, 2, 3, 4))
    for n in (1, 2, 3, 4):
        parts.insert(n)
    assert parts.read() == [1, 2, 3, 4]
    in_schema.execute("DROP TABLE events_1; ALTER TABLE events DETACH PARTITION events_2")
    in_schema.execute("ALTER TABLE events_3 RENAME TO events_of_old")
    parts.insert(4)
    assert parts.read() == [4]


def test_a_position_is_valid_in_every_session(cluster: Cluster, in_schema: Connection) -> None:
    parts = Parts(in_schema, (1,))
    parts.insert(1)
    assert parts.read() == [1]
    with connect(cluster.dsn) as elsewhere:
        after = "SELECT isempty((reader_next_batch(%s::regclass, %s::text::feed_position)).transactions) IS NOT NULL"
        name = value(in_schema, "SELECT format('%I.events', current_schema)")
        assert value(elsewhere, after, name, parts.position) is True


OF_ANOTHER_SERVER = (
    "SELECT (1, p.transactions, p.partial, p.last_key, p.ordering, ARRAY(SELECT ({relation}, m.name, '1', m.attached, "
    "m.guarded, m.ordered_by)::feed_member FROM unnest(p.members) AS m), NULL)::feed_position::text "
    "FROM (SELECT (%s::text::feed_position).*) AS p"
)


def test_a_restored_position_knows_its_partitions_by_name(in_schema: Connection) -> None:
    parts = Parts(in_schema, (1, 2))
    parts.insert(1)
    assert parts.read() == [1]
    parts.position = str(value(in_schema, OF_ANOTHER_SERVER.format(relation="1"), parts.position))
    parts.insert(2)
    assert parts.read() == [2]


@pytest.mark.parametrize("partitions", [(), (1,)])
def test_attaching_a_partition_with_rows_is_noticed(in_schema: Connection, partitions: tuple[int, ...]) -> None:
    parts = Parts(in_schema, partitions)
    parts.filled(7)
    assert parts.read() == []
    assert parts.read() == []
    parts.attach(7)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="events_7 has rows of transactions"):
        parts.read()


def test_a_position_without_partitions_is_refused_after_the_first_read(in_schema: Connection) -> None:
    """A position without partitions is accepted only before the first read. Later reads would miss partitions."""
    parts = Parts(in_schema, (1,))
    parts.insert(1)
    without = (
        "SELECT (1, (p).transactions, NULL, NULL, NULL, NULL, (p).origin)::feed_position::text FROM (SELECT {}) AS r(p)"
    )
    parts.position = str(value(in_schema, without.format("reader_start('events')")))
    assert parts.read() == [1]
    parts.filled(7)
    assert parts.read() == []
    position = parts.position
    parts.attach(7)
    parts.position = str(value(in_schema, without.format("%s::text::feed_position"), position))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="remembers no partitions"):
        parts.read()
    parts.position = position
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="events_7 has rows of transactions"):
        parts.read()


def test_a_partition_attached_with_new_keys_is_read(in_schema: Connection) -> None:
    parts = Parts(in_schema, (1,))
    parts.filled(7)
    assert parts.read() == []
    in_schema.execute("BEGIN; UPDATE events_7 SET id = DEFAULT")
    parts.attach(7)
    in_schema.execute("COMMIT")
    assert parts.read() == [7]
    assert parts.read() == []


TAKES_ITS_NAME = {
    "renamed": "ALTER TABLE events RENAME TO events_old; ALTER TABLE events_new RENAME TO events",
    "in another schema": "ALTER TABLE events SET SCHEMA {}; ALTER TABLE events_new RENAME TO events",
    "dropped": "DROP TABLE events; ALTER TABLE events_new RENAME TO events",
}


@pytest.mark.parametrize("way", TAKES_ITS_NAME)
def test_a_position_is_refused_after_its_table_lost_its_name(in_schema: Connection, way: str) -> None:
    parts = Parts(in_schema, (1,))
    in_schema.execute("CREATE TABLE events_new (LIKE events INCLUDING ALL); SELECT feed_enable('events_new')")
    in_schema.execute("INSERT INTO events_new (n) VALUES (100)")
    parts.insert(1)
    old = parts.position
    assert parts.read() == [1]
    other = f"s{uuid.uuid4().hex}"
    in_schema.execute(f"BEGIN; CREATE SCHEMA {other}; {TAKES_ITS_NAME[way].format(other)}; COMMIT".encode())
    parts.insert(101)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="position belongs to another table, not to"):
        parts.read()
    batch = value(in_schema, "SELECT reader_next_batch('events', reader_start('events'))::text")
    with_old_members = (
        "SELECT count(*) FROM reader_batch_rows('events', (1, (%s::text::feed_batch).transactions, NULL, NULL, "
        "NULL, NULL, NULL, (%s::text::feed_position).members, NULL)::feed_batch, null::events)"
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="batch belongs to another table, not to"):
        value(in_schema, with_old_members, batch, old)
    parts.position = str(value(in_schema, "SELECT reader_start('events')::text"))
    assert parts.read() == [100, 101]
    in_schema.execute(f"SET client_min_messages = error; DROP SCHEMA {other} CASCADE".encode())


def test_a_position_is_refused_if_a_restore_computed_the_numbers_again(in_schema: Connection) -> None:
    """With the old position, all rows would be delivered again.

    After pg_upgrade, by contrast, the table has the same OID and its rows have the same numbers.
    """
    in_schema.execute("CREATE TABLE events (n int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)")
    in_schema.execute("CREATE INDEX ON events (xact); SELECT feed_enable('events'); INSERT INTO events VALUES (1)")
    first = "SELECT reader_advance(p, reader_next_batch('events', p))::text FROM reader_start('events') AS p"
    position = value(in_schema, first)
    in_schema.execute("INSERT INTO events VALUES (2)")
    batch = "reader_next_batch('events', %s::text::feed_position)"
    read = f"SELECT array_agg(n) FROM reader_batch_rows('events', {batch}, null::events)"
    restored = value(in_schema, OF_ANOTHER_SERVER.format(relation="1"), position)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="position belongs to another table, not to"):
        value(in_schema, read, restored)
    upgraded = value(in_schema, OF_ANOTHER_SERVER.format(relation="m.relation"), position)
    assert value(in_schema, read, upgraded) == [2]
