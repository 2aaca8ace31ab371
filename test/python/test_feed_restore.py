"""Dump and restore: positions, guards and counts continue on another server, regardless of its transaction IDs."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS, copy_of
from restoring import (
    ALL,
    KEPT,
    OWNER,
    TAKE_SHARE,
    TURN,
    check_counts,
    check_shares,
    copied,
    dsn_of,
    fill,
    insert,
    make_tables,
    read,
    spend_transactions,
)
from sql_edition import BUILT, create
from world.server import run_program
from world.sql import run, value

pytestmark = pytest.mark.server


NUMBERS = {"keys": 'uuid_xact_id("The id")', "parts": "uuid_xact_id(id)", "orders": "xact"}


@pytest.fixture(scope="module")
def young(server: Installation) -> Iterator[Cluster]:
    with Cluster(server, BUILT) as running:
        running.start(SETTINGS)
        yield running


@pytest.fixture
def filled(cluster: Cluster) -> Iterator[dict[str, list[int]]]:
    with connect(cluster.dsn) as connection:
        spend_transactions(connection, 20_000)
    with copy_of("template1", cluster, "filled") as connection:
        yield fill(connection)


def check_rebased(connection: Connection, feed: str, table: str) -> None:
    """Check that rows inserted after feed_rebase() get numbers above those of all restored rows."""
    highest = int(value(connection, f"SELECT max({NUMBERS[feed]}) FROM {table}"))
    base = int(value(connection, "SELECT feed_rebase(%s)", table))
    assert base > 0
    assert value(connection, "SELECT feed_rebase(%s)", table) == base, "a base that is high enough was raised"
    connection.execute(f"INSERT INTO {table} (n) VALUES (13)".encode())
    assert int(value(connection, f"SELECT {NUMBERS[feed]} FROM {table} WHERE n = 13")) > highest


def check_delivered(connection: Connection, feed: str, table: str, before: list[int]) -> None:
    rest_of_rows = read(connection, feed, 4)
    connection.execute(f"INSERT INTO {table} (n) VALUES (14)".encode())
    rest_of_rows += read(connection, feed)
    assert sorted(before + rest_of_rows) == list(range(1, 15)), feed
    number = f"(SELECT unfinished_batch FROM feeds WHERE name = '{feed} steps')"
    batch_rows = f"SELECT array_agg(n) FROM feed_batch_rows('{feed} steps', {number}, null::{table})"
    assert value(connection, batch_rows) == [1, 2, 3, 4]
    assert (
        value(
            connection,
            f"SELECT feed_finish_batch('{feed} steps', number, token) FROM feed_take_batch('{feed} steps', 'w')",
        )
        is True
    )
    later_rows = f"SELECT array_agg(n ORDER BY n) FROM feed_read('{feed} steps', null::{table})"
    assert value(connection, later_rows) == list(range(5, 15))
    with pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute(f"DELETE FROM {table}".encode())


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_feeds_continue_on_a_server_with_lower_transaction_ids(
    cluster: Cluster, young: Cluster, filled: dict[str, list[int]], form: str, tmp_path: Path
) -> None:
    with copied(cluster, "filled", young, "restored", form, tmp_path) as connection:
        assert value(connection, "SELECT count(*) FROM inorder_internal.feed") == 2 * len(ALL), (
            "the feed of a table that is gone was dumped"
        )
        triggers = "SELECT count(*) FROM pg_trigger WHERE tgfoid = 'feed_guard'::regproc AND tgenabled <> 'A'"
        assert value(connection, triggers) == 0
        for feed, table in KEPT.items():
            check_rebased(connection, feed, table)
            check_delivered(connection, feed, table, filled[feed])
        check_counts(connection)


READER = "inorder_reader"


@pytest.fixture
def plain_roles(cluster: Cluster, young: Cluster) -> Iterator[None]:
    """Create two roles on both servers, with different OIDs.

    One role owns a database, and the other may read tables.
    """
    for server, roles in ((cluster, (OWNER, READER)), (young, ("another", READER, OWNER))):
        with connect(server.dsn) as connection:
            for role in roles:
                connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    with connect(cluster.dsn) as first, connect(young.dsn) as other:
        for role in (OWNER, READER):
            assert value(first, "SELECT %s::regrole::oid", role) != value(other, "SELECT %s::regrole::oid", role)
    yield
    for server, roles in ((cluster, (OWNER, READER)), (young, ("another", READER, OWNER))):
        with connect(server.dsn) as connection:
            connection.execute("DROP DATABASE IF EXISTS plain")
            for role in roles:
                connection.execute(f"DROP ROLE {role}".encode())


def own_database(server: Cluster, installer: str) -> None:
    """Create a database for the owner, with the extension unless the owner installs it."""
    with connect(server.dsn) as connection:
        connection.execute(f"CREATE DATABASE plain OWNER {OWNER}".encode())
    if installer != OWNER:
        with connect(dsn_of(server, "plain", installer)) as connection:
            create(connection)


def let_the_reader_read(source: Cluster) -> dict[str, list[int]]:
    with connect(dsn_of(source, "plain", OWNER)) as connection:
        connection.execute(f'GRANT USAGE ON SCHEMA "Odd.one" TO {READER}'.encode())
        for feed, table in ALL.items():
            connection.execute(f"GRANT SELECT ON {table} TO {READER}".encode())
            connection.execute("SELECT feed_grant(%s, %s)", [feed, READER])
    with connect(dsn_of(source, "plain", READER)) as connection:
        for feed, table in ALL.items():
            connection.execute("SELECT feed_create(%s, %s)", [feed, table])
        return {feed: read(connection, feed, 7) for feed in ALL}


@pytest.mark.parametrize("installer", [OWNER, "postgres"])
@pytest.mark.usefixtures("plain_roles")
def test_the_owner_of_a_database_dumps_and_restores_it(
    cluster: Cluster, young: Cluster, tmp_path: Path, installer: str
) -> None:
    own_database(cluster, installer)
    with connect(dsn_of(cluster, "plain", OWNER)) as connection:
        delivered = fill(connection)
    by_reader = let_the_reader_read(cluster)
    own_database(young, installer)
    file = str(tmp_path / "dump")
    dumped = run_program(cluster, "pg_dump", "-U", OWNER, "--format=custom", "-f", file, "plain")
    assert dumped.returncode == 0, dumped.stderr
    # Only the owner of the extension may set its comment.
    options = ["--exit-on-error"] + (["--no-comments"] if installer != OWNER else [])
    restored = run_program(young, "pg_restore", "-U", OWNER, *options, "-d", "plain", file)
    assert restored.returncode == 0, restored.stderr
    with connect(dsn_of(young, "plain", OWNER)) as connection, connect(dsn_of(young, "plain", READER)) as reader:
        assert value(connection, "SELECT count(*) FROM feeds WHERE owner IN (%s, %s)", OWNER, READER) == 0
        assert value(reader, "SELECT count(*) FROM feeds") == 3 * len(ALL)
        for feed, table in KEPT.items():
            for session in (connection, reader):
                with pytest.raises(psycopg.errors.UndefinedObject, match=f'feed "{feed}" of role .* does not exist'):
                    read(session, feed)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner of table"):
                reader.execute("SELECT feed_rebase(%s)", [table])
            connection.execute("SELECT feed_rebase(%s)", [table])
            assert sorted(by_reader[feed] + read(reader, feed)) == list(range(1, 13)), feed
            granted = read(reader, feed, 1, OWNER)
            assert sorted(delivered[feed] + granted + read(connection, feed)) == list(range(1, 13)), feed
            assert (
                value(
                    connection,
                    f"SELECT feed_finish_batch('{feed} steps', number, token)"
                    f" FROM feed_take_batch('{feed} steps', 'w')",
                )
                is True
            )
        check_counts(connection)


@pytest.mark.parametrize("jobs", ["1", "4"])
@pytest.mark.usefixtures("plain_roles")
def test_an_installer_dumps_and_restores_its_own_state(
    cluster: Cluster, young: Cluster, tmp_path: Path, jobs: str
) -> None:
    for server in (cluster, young):
        with connect(server.dsn) as admin:
            run(admin, "CREATE DATABASE plain", f"GRANT CREATE ON DATABASE plain TO {OWNER}")
        with connect(dsn_of(server, "plain")) as admin:
            run(admin, f"GRANT USAGE, CREATE ON SCHEMA public TO {OWNER}, {READER}")
        with connect(dsn_of(server, "plain", OWNER)) as connection:
            create(connection)
    with connect(dsn_of(cluster, "plain", OWNER)) as connection:
        delivered = fill(connection)
        run(connection, "SELECT feed_create('work', 'orders')", "SELECT feed_take_batch('work', 'w')")
    let_the_reader_read(cluster)
    file = str(tmp_path / "dump")
    dumped = run_program(cluster, "pg_dump", "-U", OWNER, "--format=custom", "-f", file, "plain")
    assert dumped.returncode == 0, dumped.stderr
    # With several jobs, the trigger of a partitioned table may be created before its partitions are loaded.
    for sections in (["--section=pre-data", "--section=data"], ["--section=post-data"]) if jobs != "1" else ([],):
        restored = run_program(
            young, "pg_restore", "-U", OWNER, "--exit-on-error", "-j", jobs, *sections, "-d", "plain", file
        )
        assert restored.returncode == 0, restored.stderr
    with connect(dsn_of(young, "plain", OWNER)) as connection:
        for table in ALL.values():
            connection.execute("SELECT feed_rebase(%s)", [table])
        amount = 2 * len(ALL) + 1  # the owner's dump does not contain the reader's feed
        for state in ("feed", "feed_state"):
            assert value(connection, f"SELECT count(*) FROM inorder_internal.{state}") == amount, state
        insert_state = (
            "INSERT INTO inorder_internal.feed_state (feed, relation, position) SELECT feed, relation, position"
        )
        assert connection.execute(f"{insert_state} FROM inorder_internal.feed_state".encode()).rowcount == 0
        for feed in KEPT:
            assert sorted(delivered[feed] + read(connection, feed)) == list(range(1, 13)), feed
        unfinished = value(connection, "SELECT number FROM feed_batches WHERE name = 'work'")
        assert unfinished == value(connection, "SELECT number FROM feed_take_batch('work', 'v')") is not None
        check_counts(connection)


def test_state_is_restored_if_the_extension_is_in_another_schema(
    cluster: Cluster, young: Cluster, tmp_path: Path
) -> None:
    with copy_of("template1", cluster, "elsewhere") as connection:
        spend_transactions(connection, 2000)  # use more transaction IDs than other tests use on the younger server
        create(connection, schema="In Order")
        connection.execute(
            """CREATE TABLE events (id uuid PRIMARY KEY DEFAULT "In Order".uuid_xact_nextval(1000), n int);
               CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
               SELECT "In Order".feed_create('f', 'events'); SELECT "In Order".exact_count_start('events');
               INSERT INTO events (n) SELECT generate_series(1, 5)"""
        )
        for (statement,) in connection.execute("""SELECT "In Order".feed_prepare('orders')""").fetchall():
            connection.execute(str(statement).encode())
        read_rows = """SELECT n FROM "In Order".feed_read('f', null::events, 3)"""
        assert [row[0] for row in connection.execute(read_rows)] == [1, 2, 3]
        assert value(connection, """SELECT "In Order".feed_apply('f', 'SELECT n FROM batch', 1)""") == 1
        assert value(connection, """SELECT "In Order".exact_count('events')""") == 5
        with copied(cluster, "elsewhere", young, "elsewhere", "plain", tmp_path) as restored:
            assert value(restored, """SELECT "In Order".exact_count('events')""") == 5
            assert int(value(restored, """SELECT "In Order".feed_rebase('events')""")) > 1000
            restored.execute("INSERT INTO events (n) VALUES (6)")
            assert [row[0] for row in restored.execute(read_rows)] == [5, 6]
            assert value(restored, """SELECT ("In Order".feed_take_batch('f', 'w')).number""") is None
            assert value(restored, """SELECT count(*) FROM "In Order".feeds""") == 1


def test_a_position_may_be_above_all_rows(cluster: Cluster, young: Cluster, tmp_path: Path) -> None:
    """The feed has read past transactions that wrote only into other tables.

    The base must be above the IDs of these transactions. Otherwise new rows would be skipped.

    The same holds for rows of transactions that began before the base was raised.
    """
    with connect(cluster.dsn) as connection:
        spend_transactions(connection, 20_000)
    with copy_of("template1", cluster, "above") as connection:
        make_tables(connection)
        insert(connection, 1, 2)
        spend_transactions(connection, 1_000)
        for feed, table in KEPT.items():
            connection.execute("SELECT feed_create(%s, %s)", [feed, table])
            assert sorted(read(connection, feed)) == [1, 2]
        with (
            copied(cluster, "above", young, "above", "custom", tmp_path) as restored,
            connect(restored.info.dsn) as older,
        ):
            older.execute("BEGIN; SELECT pg_current_xact_id()")
            for feed, table in KEPT.items():
                restored.execute("SELECT feed_rebase(%s)", [table])
                restored.execute(f"INSERT INTO {table} (n) VALUES (3)".encode())
                assert read(restored, feed) == [3], feed
                older.execute(f"INSERT INTO {table} (n) VALUES (4)".encode())
            older.execute("COMMIT")
            for feed in KEPT:
                assert read(restored, feed) == [4], feed


def test_an_ordered_feed_continues_within_its_set(cluster: Cluster, young: Cluster, tmp_path: Path) -> None:
    """The column is found by name, although its attribute number differs. Later rows belong to the next set."""
    with connect(cluster.dsn) as connection:
        spend_transactions(connection, 20_000)
    with copy_of("template1", cluster, "in_order") as connection:
        create(connection)
        connection.execute(
            """CREATE TABLE events (gone int, id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint NOT NULL);
               CREATE INDEX ON events (seq);
               ALTER TABLE events DROP gone;
               SELECT feed_create('f', 'events', order_column => 'seq');
               SELECT feed_create('steps', 'events', order_column => 'seq')"""
        )
        connection.execute("INSERT INTO events (seq) SELECT 8 - g FROM generate_series(1, 7) AS g")
        read_rows = "SELECT array_agg(seq) FROM feed_read(%s, null::events, %s)"
        batch_rows = "SELECT array_agg(seq) FROM feed_batch_rows('steps', {}, null::events)"
        assert value(connection, read_rows, "f", 3) == value(connection, read_rows, "steps", 3) == [1, 2, 3]
        number = value(connection, "SELECT (feed_take_batch('steps', 'w', 2)).number")
        with copied(cluster, "in_order", young, "in_order", "custom", tmp_path) as restored:
            restored.execute("SELECT feed_rebase('events')")
            restored.execute("INSERT INTO events (seq) VALUES (0)")
            assert value(restored, batch_rows.format(number)) == [4, 5]
            assert (
                value(restored, "SELECT feed_finish_batch('steps', number, token) FROM feed_take_batch('steps', 'w')")
                is True
            )
            assert value(restored, read_rows, "f", None) == [4, 5, 6, 7]
            assert value(restored, read_rows, "steps", None) == [6, 7]
            assert value(restored, read_rows, "f", 5) == value(restored, read_rows, "steps", 5) == [0]


def test_shares_continue_while_one_of_them_waits(cluster: Cluster, young: Cluster, tmp_path: Path) -> None:
    """A dump contains the batches of shares, and also the start of each share's next batch."""
    with copy_of("template1", cluster, "divided") as source, connect(source.info.dsn) as other:
        create(source)
        run(
            source, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigserial)",
            "CREATE TABLE got (place bigserial, n bigint); INSERT INTO t DEFAULT VALUES",
            "SELECT feed_create('f', 't', partition_by => 'n', shares => 4)",
        )  # fmt: skip
        run(other, TAKE_SHARE.format("other"), "TRUNCATE got")
        for _ in range(20):
            run(source, "INSERT INTO t SELECT FROM generate_series(1, 4)", *TURN)
        with copied(cluster, "divided", young, "divided", "custom", tmp_path) as restored:
            run(restored, "SELECT feed_rebase('t')")
            for rows in (3,) * 10 + (0,) * 12:
                run(restored, f"INSERT INTO t SELECT FROM generate_series(1, {rows})", *TURN)
            check_shares(restored, 111)
