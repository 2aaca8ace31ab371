"""A poll that found nothing finds nothing again, until something has changed: each change is seen by the next one."""

from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from attack import execute, value

pytestmark = pytest.mark.server

POLL = "SELECT feed_apply('{feed}', 'SELECT count(*) FROM batch', owner => '{owner}')"
MAKE = """
    CREATE ROLE reader LOGIN; CREATE ROLE team; GRANT team TO reader; CREATE ROLE keeper LOGIN;
    CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO reader, team;
    CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval());
    INSERT INTO s.t DEFAULT VALUES;
    GRANT SELECT ON s.t TO reader, team;
    CREATE TABLE s.other (LIKE s.t INCLUDING ALL);
    SELECT feed_enable('s.t'), feed_enable('s.other');
    SET SESSION AUTHORIZATION reader; SELECT feed_create('f', 's.t'); SET ROLE team; SELECT feed_create('f', 's.t');
    RESET SESSION AUTHORIZATION; SELECT feed_create('g', 's.other')"""
FOR_READER = ", owner => 'reader'"
# What another session does, and the number of rows, or the SQLSTATE, of the next poll of the feed of a role
CHANGES = [
    ("reader", "INSERT INTO s.t DEFAULT VALUES", 1),
    ("reader", "SELECT pg_current_xact_id()", None),
    ("reader", f"SELECT feed_seek('f', 'beginning'{FOR_READER})", 1),
    ("reader", f"SELECT feed_drop('f'{FOR_READER})", "42704"),
    ("reader", f"SELECT feed_rename('f', 'h'{FOR_READER})", "42704"),
    ("reader", "DROP TABLE s.t", "42P01"),
    ("reader", "ALTER TABLE s.t DISABLE TRIGGER ALL", "55000"),
    ("reader", "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY", "55000"),
    ("reader", "REVOKE SELECT ON s.t FROM reader, team", "42501"),
    ("reader", "REVOKE USAGE ON SCHEMA s FROM reader, team", "42501"),
    ("team", "REVOKE team FROM reader", "42501"),
    ("team", "ALTER TABLE s.t OWNER TO keeper; REVOKE team FROM reader", "42501"),
    ("reader", "VACUUM FULL inorder_internal.feed_state", None),
    ("reader", "DROP EXTENSION inorder CASCADE", "42883"),
]


@pytest.fixture
def reader(cluster: Cluster, fresh: Connection) -> Iterator[Connection]:
    """A session of a role that has two feeds: one of its own, one of a role that it is a member of."""
    execute(fresh, MAKE)
    try:
        with connect(f"{cluster.dsn} dbname={fresh.info.dbname} user=reader") as session:
            for owner in ("reader", "team"):
                assert poll(session, owner) == 1
            yield session
    finally:
        execute(fresh, "DROP EXTENSION IF EXISTS inorder CASCADE", "DROP SCHEMA s CASCADE")
        execute(fresh, "DROP OWNED BY reader, team, keeper", "DROP ROLE reader, team, keeper")


def poll(session: Connection, owner: str) -> object:
    """Number of rows, null for none, or the SQLSTATE."""
    try:
        return value(session, POLL.format(feed="f", owner=owner))
    except psycopg.Error as error:
        return error.sqlstate


def settle(session: Connection, other: Connection, owner: str) -> None:
    """Until polls find nothing without another look."""
    for _ in range(3):
        execute(other, "SELECT pg_current_xact_id()")
        assert poll(session, owner) is None


@pytest.mark.parametrize(("owner", "change", "expected"), CHANGES)
def test_the_next_poll_sees(reader: Connection, fresh: Connection, owner: str, change: str, expected: object) -> None:
    settle(reader, fresh, owner)
    for statement in change.split("; "):
        execute(fresh, statement)
    assert poll(reader, owner) == expected


def test_no_other_look_is_made(reader: Connection, fresh: Connection) -> None:
    execute(fresh, "GRANT SET ON PARAMETER track_functions TO reader")
    execute(reader, "SET track_functions = 'all'")
    settle(reader, fresh, "reader")
    calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'look_next'"
    execute(reader, "BEGIN")
    before = value(reader, calls)
    for _ in range(5):
        execute(fresh, "SELECT pg_current_xact_id()")
        assert poll(reader, "reader") is None
    assert value(reader, calls) == before
    execute(reader, "ROLLBACK")
    execute(fresh, "INSERT INTO s.t DEFAULT VALUES")
    assert poll(reader, "reader") == 1


def test_another_row_in_the_place_of_the_state(reader: Connection, fresh: Connection) -> None:
    for _ in range(2):  # a version made by a HOT update: its place is free as soon as the next one has come
        execute(fresh, "INSERT INTO s.t DEFAULT VALUES")
        assert poll(reader, "reader") == 1
    settle(reader, fresh, "reader")
    place = (
        "SELECT s.ctid::text FROM inorder_internal.feed_state AS s JOIN inorder_internal.feed AS f ON f.id = s.feed "
    )
    first = value(fresh, f"{place} WHERE f.name = 'f' AND f.owner = 'reader'::regrole")
    execute(fresh, f"SELECT feed_seek('f', 'beginning'{FOR_READER})")
    for _ in range(200):  # each version of the other feed's state takes a place that is free
        if value(fresh, f"{place} WHERE f.name = 'g' ORDER BY s.seq DESC LIMIT 1") == first:
            break
        execute(fresh, "INSERT INTO s.other DEFAULT VALUES")
        execute(fresh, "SELECT feed_apply('g', 'SELECT count(*) FROM batch')")
    else:
        pytest.fail(f"no other row has come to {first}")
    assert poll(reader, "reader") == 1
