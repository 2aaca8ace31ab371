"""Attacks on what runs as the owner of the state: nothing that the owner of a table made may run there."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import connect
from inorder.lab.server.cluster import Cluster
from inorder.servers import Server

from attack import ATTACK, database, execute, refusal
from sql_edition import BUILT, TESTED, create
from test_attacks_tables import CREATE, FEEDS, READS

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def attacked(server: Server) -> Iterator[Cluster]:
    """A server of its own, since roles are the whole server's."""
    with Cluster(server, BUILT) as running:
        running.start({"fsync": "off", "restart_after_crash": "off"})
        execute_in = f"{running.dsn} dbname=attackable"
        with connect(running.dsn) as admin:
            execute(admin, "CREATE DATABASE attackable")
        with connect(execute_in) as admin:
            create(admin, TESTED)
        yield running


@pytest.fixture
def dsn(attacked: Cluster) -> Iterator[str]:
    """A database with mallory's schema in it."""
    with database(attacked, CREATE, template="attackable") as made:
        with connect(f"{made} user=mallory") as mallory:
            execute(mallory, ATTACK)
        yield made


# What the server simplifies when it loads an expression of a table, in whatever session that first does it. The
# function that is given a constant is called then.
ONE = """CREATE FUNCTION evil.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM evil.attack(); RETURN 1; END'"""
PARTITIONS = """DO $$ BEGIN FOR i IN 0..39 LOOP EXECUTE format('CREATE TABLE evil.p%1$s PARTITION OF evil.t '
    'FOR VALUES FROM (%1$s, 0) TO (%2$s, 0)', i, i + 1); END LOOP; END $$"""
CONSTANTS = {
    "a partition key": (
        "CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n serial) PARTITION BY RANGE (n, (n + evil.one(1)))",
        PARTITIONS,
        "CREATE INDEX ON evil.t (id)",
    ),
    "indexes, statistics and a constraint": (
        "CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial)",
        "CREATE INDEX ON evil.t (id, (n + evil.one(1))) WHERE n >= evil.one(1)",
        "CREATE STATISTICS evil.s ON (n + evil.one(1)), (n - evil.one(1)) FROM evil.t",
        "ALTER TABLE evil.t ADD CHECK (n >= evil.one(1))",
    ),
    "a generated column, a domain and a policy": (
        "CREATE DOMAIN evil.d AS int DEFAULT evil.one(1) CHECK (VALUE >= evil.one(1))",
        "CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial, d evil.d,"
        " g int GENERATED ALWAYS AS (n + evil.one(1)) STORED)",
        "CREATE POLICY p ON evil.t USING (n >= evil.one(1))",
    ),
}


@pytest.mark.parametrize("made", CONSTANTS)
def test_nothing_of_a_table_is_evaluated_as_the_owner_of_the_state(dsn: str, made: str) -> None:
    """Each call by mallory himself, in a session that knows nothing of the table yet."""
    with connect(f"{dsn} user=mallory") as mallory:
        execute(mallory, ONE, *CONSTANTS[made], "INSERT INTO evil.t (n) VALUES (1), (2)", *FEEDS)
    start = "feed_start('evil.t')"
    every = f"feed_batch_after('evil.t', {start})"
    for read in READS:
        with connect(f"{dsn} user=mallory") as mallory:
            execute(mallory, "INSERT INTO evil.t (n) VALUES (3), (4)")
        with connect(f"{dsn} user=mallory") as mallory:
            refusal(mallory, read.format(table="evil.t", feed="f", start=start, every=every, name="g", batch=1))
