"""A feed's rows are written into a table of another server.

A failure between the two commits is repaired by the recipe.
"""

from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

from conftest import text
from ground import numbers
from tail_runs import insert
from world.sql import run, value

pytestmark = pytest.mark.server

FAILED = "terminating connection due to administrator command"
KEPT_THERE = text("docs/lake.md").partition("DO $$\nDECLARE")[2].partition("```")[0]
IN_THE_LAKE = "SELECT n FROM events"
APPLY = "SELECT feed_apply('lake', 'INSERT INTO lake_events SELECT id, n FROM batch{}')"


@pytest.fixture
def lake(cluster: Cluster, fresh: Connection) -> Iterator[Connection]:
    """Yield a session in a database that stands in for the other server and has its own transactions."""
    if not value(fresh, "SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'"):
        pytest.skip("the server has no contrib")
    with connect(cluster.dsn) as admin:
        run(admin, "CREATE DATABASE lake")
    info = fresh.info
    try:
        with connect(make_conninfo(info.dsn, dbname="lake")) as session:
            run(session, "CREATE TABLE events (id uuid, n int)", "CREATE TABLE position (position text)")
            run(fresh, "CREATE EXTENSION postgres_fdw", "SELECT feed_create('lake', 'events')",
                "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw "
                f"OPTIONS (host '{info.host}', port '{info.port}', dbname 'lake')",
                f"CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user '{info.user}')",
                "CREATE FOREIGN TABLE lake_events (id uuid, n int) SERVER far OPTIONS (table_name 'events')",
                "CREATE FOREIGN TABLE lake_position (position text) SERVER far OPTIONS (table_name 'position')",
                "INSERT INTO lake_position SELECT reader_start('events')::jsonb")  # fmt: skip
            yield session
    finally:
        with connect(cluster.dsn) as admin:
            run(admin, "DROP DATABASE lake WITH (FORCE)")


def fail_between_the_commits(lake: Connection) -> None:
    """Make the server end the local session after the lake has committed, before the session learns of the commit."""
    run(lake, "CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql SET client_min_messages = error AS "
               "$$BEGIN PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
               "WHERE application_name = 'here'; RETURN NULL; END$$",
        "CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION ends()")  # fmt: skip


def failing(fresh: Connection, lake: Connection, statement: str) -> None:
    fail_between_the_commits(lake)
    with (
        connect(make_conninfo(fresh.info.dsn, dbname="tail")) as here,
        pytest.raises(psycopg.OperationalError, match=FAILED),
    ):
        run(here, "SET application_name = 'here'", statement)
    run(lake, "DROP FUNCTION ends() CASCADE")


def test_an_error_undoes_rows_and_position(fresh: Connection, lake: Connection) -> None:
    insert(fresh, 3)
    with pytest.raises(psycopg.errors.DivisionByZero), fresh.transaction():
        run(fresh, APPLY.format(""), "SELECT 1 / 0")
    assert numbers(lake, IN_THE_LAKE) == []
    run(fresh, APPLY.format(""))
    assert numbers(lake, IN_THE_LAKE) == [1, 2, 3]


def test_a_failure_between_the_commits_repeats_rows(fresh: Connection, lake: Connection) -> None:
    """Rows of a foreign table are committed separately, which is why the recipe uses a primary key."""
    insert(fresh, 3)
    failing(fresh, lake, APPLY.format(""))
    assert numbers(lake, IN_THE_LAKE) == [1, 2, 3]
    run(fresh, APPLY.format(""))
    assert numbers(lake, IN_THE_LAKE) == [1, 1, 2, 2, 3, 3]


def test_a_primary_key_in_the_lake_makes_repeated_rows_harmless(fresh: Connection, lake: Connection) -> None:
    run(lake, "ALTER TABLE events ADD PRIMARY KEY (id)")
    insert(fresh, 3)
    failing(fresh, lake, APPLY.format(" ON CONFLICT DO NOTHING"))
    insert(fresh, 1, 4)
    run(fresh, APPLY.format(" ON CONFLICT DO NOTHING"))
    assert numbers(lake, IN_THE_LAKE) == [1, 2, 3, 4]


def test_a_position_in_the_lake_commits_with_the_rows(fresh: Connection, lake: Connection) -> None:
    statement = "DO $$\nDECLARE" + KEPT_THERE
    insert(fresh, 3)
    failing(fresh, lake, statement)
    insert(fresh, 1, 4)
    for _ in range(2):
        run(fresh, statement)
        assert numbers(lake, IN_THE_LAKE) == [1, 2, 3, 4]
