"""Restored state is neither read nor written until the owner accepts it, however far the transaction IDs advance."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS, copy_of
from ground import FINISH
from restoring import ALL, FOREIGN, KEPT, OWNER, check_counts, fill, insert, read, spend_transactions
from sql_edition import BUILT, TESTED
from world.server import run_program
from world.sql import value

pytestmark = pytest.mark.server

Refused = psycopg.errors.ObjectNotInPrerequisiteState
RESTORED = "was restored from a dump"
SPENT = 20_000  # number of transactions by which the dumped server is ahead

# Methods of dump and restore: options of pg_dump, options of each run of pg_restore or psql, and the role.
WAYS = {
    "plain": (["--format=plain"], [["-v", "ON_ERROR_STOP=1"]], "postgres"),
    "inserts": (["--format=plain", "--rows-per-insert=2"], [["-v", "ON_ERROR_STOP=1"]], "postgres"),
    "one transaction": (["--format=custom"], [["-1"]], "postgres"),
    "parallel": (["--format=directory"], [["-j", "2"]], "postgres"),
    "by the owner": (["--format=custom"], [["--no-comments"]], OWNER),
    "schema first": (["--format=custom"], [["--schema-only"], ["--data-only", "--disable-triggers"]], "postgres"),
    "sections": (
        ["--format=custom"],
        [["--section=pre-data"], ["--section=data"], ["--section=post-data"]],
        "postgres",
    ),
}


@pytest.fixture(scope="module")
def young(server: Installation) -> Iterator[Cluster]:
    with Cluster(server, BUILT) as running:
        running.start(SETTINGS)
        with connect(running.dsn) as connection:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN".encode())
        yield running


@pytest.fixture(scope="module")
def delivered(cluster: Cluster) -> Iterator[dict[str, list[int]]]:
    with connect(cluster.dsn) as connection:
        spend_transactions(connection, SPENT)
    with copy_of("template1", cluster, "delivered") as connection:
        yield fill(connection)


@pytest.fixture
def target(young: Cluster) -> Iterator[Connection]:
    with copy_of("template1", young, "target") as connection:
        connection.execute(f"ALTER DATABASE target OWNER TO {OWNER}".encode())
        connection.execute(f"GRANT ALL ON SCHEMA public TO {OWNER}".encode())
        yield connection


def restore(source: Cluster, server: Cluster, way: str, folder: Path) -> None:
    options, rounds, role = WAYS[way]
    file = str(folder / "dump")
    dumped = run_program(source, "pg_dump", *options, "--no-owner", "-f", file, "delivered")
    assert dumped.returncode == 0, dumped.stderr
    for more in rounds:
        program = ["psql", "-Xq"] if "plain" in options[0] else ["pg_restore", "--exit-on-error", "--no-owner"]
        end = ["-f", file] if program[0] == "psql" else [file]
        done = run_program(server, *program, *more, "-U", role, "-d", "target", *end)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def restored(cluster: Cluster, young: Cluster, delivered: object, target: Connection, tmp_path: Path) -> Connection:
    restore(cluster, young, "one transaction", tmp_path)
    return target


def quoted(table: str) -> str:
    return "'" + table.replace("'", "''") + "'"


def refusal(connection: Connection, statement: str) -> psycopg.errors.Diagnostic:
    with pytest.raises(Refused, match=RESTORED) as refused, connection.transaction():
        connection.execute(statement.encode())
    return refused.value.diag


def check_refused(connection: Connection) -> None:
    """Check that every read and write of each table is rejected.

    If the table has generated numbers, only the calls on feeds are rejected.
    """
    for feed, table in KEPT.items():
        for call in (
            f"SELECT feed_read('{feed}', null::{table})", f"SELECT feed_peek('{feed}', null::{table})",
            f"SELECT feed_apply('{feed}', 'SELECT FROM batch')",
            f"SELECT (feed_take_batch('{feed}', 'w')).number", f"SELECT (feed_take_batch('{feed} steps', 'w')).number",
            f"SELECT feed_batch_rows('{feed} steps', 1, null::{table})",
            f"SELECT feed_finish_batch('{feed} steps', 1, token) FROM feed_take_batch('{feed} steps', 'w')",
            f"SELECT feed_seek('{feed}', 'now')", f"SELECT feed_create('another', {quoted(table)})",
            f"SELECT reader_start({quoted(table)})", f"SELECT feed_enable({quoted(table)})",
            f"SELECT feed_passed({quoted(table)})", f"SELECT feed_passed_partitions({quoted(table)})",

            f"INSERT INTO {table} (n) VALUES (0)", f"INSERT INTO {table} (n) SELECT generate_series(1, 600)",
        ):  # fmt: skip
            assert "feed_rebase(" in str(refusal(connection, call).message_hint), call
    refusal(connection, "INSERT INTO parts_highest (n) VALUES (7)")
    with pytest.raises(Refused, match=RESTORED), connection.cursor().copy("COPY orders (n) FROM STDIN") as copy:
        copy.write("1\n")
    for call in (
        "feed_read('made', null::made)", "feed_seek('made', 'here')", "feed_finish_batch('made steps', 1)",
        "feed_passed('made')", "feed_passed_partitions('made')",
    ):  # fmt: skip
        assert "feed_seek('made" in str(refusal(connection, f"SELECT {call}").message_hint)


@pytest.mark.parametrize("way", WAYS)
def test_a_restore_is_refused_until_it_is_accepted(
    cluster: Cluster, young: Cluster, delivered: dict[str, list[int]], target: Connection, way: str, tmp_path: Path
) -> None:
    restore(cluster, young, way, tmp_path)
    if way == "schema first":  # in this case the triggers were disabled
        target.execute("SELECT feed_enable('made')")
    check_refused(target)
    for table in ALL.values() if way != "schema first" else ():
        refusal(target, f"SELECT exact_count_fold({quoted(table)})")
    for table in ALL.values() if way != "schema first" else ():
        if TESTED == "c" or table == "made":
            assert value(target, "SELECT exact_count(%s)", table) == 12
        else:
            assert "feed_rebase(" in str(refusal(target, f"SELECT exact_count({quoted(table)})").message_hint)
    if way != "schema first":
        with target.transaction(force_rollback=True):  # deletes rows the way the apply worker of a subscription does
            target.execute("SET LOCAL session_replication_role = replica")
            target.execute("DELETE FROM made WHERE n = (SELECT min(n) FROM made)")
            assert value(target, "SELECT exact_count('made')") == 11
    if way == "plain":
        spend_transactions(target, SPENT + 1_000)
        assert int(value(target, "SELECT inorder_internal.next_transaction(0)")) > SPENT
        check_refused(target)
    rebase = "SELECT relation, feed_rebase(relation) FROM (SELECT DISTINCT relation FROM feeds) AS f"
    assert len(target.execute(rebase.encode()).fetchall()) == len(ALL)
    insert(target, 13, 212)
    for feed in KEPT:
        rows = sorted(delivered[feed] + read(target, feed))
        assert rows == list(range(1, 213)), feed
    # After the guard was created again, the feed still rejects an old position for the new numbers.
    target.execute("ALTER TABLE made DROP CONSTRAINT made_pkey, ADD PRIMARY KEY (n, id)")
    target.execute("SELECT feed_enable('made')")
    assert "feed_seek('made" in str(refusal(target, "SELECT feed_read('made', null::made)").message_hint)
    target.execute("SELECT feed_seek('made', 'beginning'), feed_seek('made steps', 'now')")
    assert sorted(read(target, "made")) == list(range(1, 213))
    target.execute("INSERT INTO made (n) VALUES (213)")
    assert value(target, "SELECT count(*) FROM feed_read('made steps', null::made)") == 1


def test_a_restore_into_the_same_server_is_refused(
    cluster: Cluster, delivered: dict[str, list[int]], tmp_path: Path
) -> None:
    with copy_of("template1", cluster, "target") as connection:
        restore(cluster, cluster, "plain", tmp_path)
        check_refused(connection)
        for table in ALL.values():
            assert value(connection, "SELECT feed_rebase(%s) < 1000", table) is True
        insert(connection, 13, 13)
        for feed, table in KEPT.items():
            assert sorted(delivered[feed] + read(connection, feed)) == list(range(1, 14)), feed
            unfinished = f"SELECT count(*) > 0 FROM feed_batch_rows(%s, 1, null::{table})"
            assert value(connection, unfinished, f"{feed} steps") is True
        check_counts(connection)


@pytest.mark.parametrize("older", [False, True])
def test_acceptance_is_rolled_back_with_its_transaction(restored: Connection, older: bool) -> None:
    with connect(restored.info.dsn) as other:
        if older:  # in this case the base and the triggers do not change
            missing = value(restored, "SELECT max(xact) + 1000 - inorder_internal.next_transaction(0) FROM orders")
            spend_transactions(restored, int(str(missing)))
            restored.execute("BEGIN")
            assert value(restored, "SELECT feed_rebase('orders')") == 0
            restored.execute("ROLLBACK")
        for begin, undo in (("BEGIN", "ROLLBACK"), ("BEGIN; SAVEPOINT s", "ROLLBACK TO s")):
            for table in ("parts", "orders"):
                restored.execute(begin.encode())
                restored.execute("SELECT feed_rebase(%s)", [table])
                restored.execute(f"INSERT INTO {table} (n) VALUES (7); INSERT INTO {table} (n) VALUES (8)".encode())
                restored.execute(undo.encode())
                refusal(restored, f"INSERT INTO {table} (n) VALUES (7)")
                restored.execute("ROLLBACK")
                refusal(restored, f"INSERT INTO {table} (n) VALUES (7)")
        refusal(other, "INSERT INTO parts (n) VALUES (7)")
        # A separate table, which later becomes a partition of a restored table.
        restored.execute("CREATE TABLE own (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n))")
        restored.execute("SELECT feed_enable('own')")
        for _ in range(2):
            restored.execute("INSERT INTO own (n) VALUES (1001); INSERT INTO own (n) VALUES (1002)")
        restored.execute("SELECT feed_disable('own')")
        restored.execute("ALTER TABLE parts ATTACH PARTITION own FOR VALUES FROM (1000) TO (2000)")
        refusal(restored, "INSERT INTO own (n) VALUES (1003)")
        restored.execute("SELECT feed_rebase('parts'), feed_rebase('orders')")
        for session in (restored, other):
            session.execute("INSERT INTO parts (n) VALUES (7); INSERT INTO orders (n) VALUES (7)")


def test_batches_of_a_restored_feed_have_numbers_of_their_own(restored: Connection) -> None:
    """The sink has received further batches since the dump.

    The unfinished batch is delivered again with its number, and the next batch gets a new number.
    """
    for feed, table in KEPT.items():
        restored.execute("SELECT feed_rebase(%s)", [table])
        steps = f"{feed} steps"
        assert value(restored, "SELECT (feed_take_batch(%s, 'w')).number", steps) == 1
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="batch 2 of feed"):
            restored.execute(FINISH, [steps, 2])
        assert value(restored, FINISH, steps, 1) is True
        number = int(value(restored, "SELECT (feed_take_batch(%s, 'w', 2)).number", steps))
        assert number > int(value(restored, "SELECT extract(epoch FROM now())::bigint - 3600")) * 1_000_000
        assert value(restored, FINISH, steps, number) is True
        assert value(restored, "SELECT (feed_take_batch(%s, 'w', 2)).number", steps) == number + 1
    restored.execute("SELECT feed_seek('made steps', 'beginning')")
    assert int(value(restored, "SELECT (feed_take_batch('made steps', 'w')).number")) > 1 << 40


def test_restoring_only_the_data_is_refused(restored: Connection, young: Cluster, tmp_path: Path) -> None:
    file = str(tmp_path / "dump")
    for table in ALL.values():
        restored.execute("SELECT feed_rebase(%s)", [table])
    insert(restored, 13, 13)
    for table in ("feed", "feed_table"):
        done = run_program(young, "pg_restore", "--data-only", "--exit-on-error", "-d", "target", "-n",
                           "inorder_internal", "-t", table, file)  # fmt: skip
        assert done.returncode != 0
        assert "duplicate key" in done.stderr
    for table, rows in (("orders", 13), ("parts_low", 4), ("parts_highest", 9)):
        done = run_program(young, "pg_restore", "--data-only", "-d", "target", "-t", table, file)
        assert done.returncode != 0 and FOREIGN in done.stderr
        assert value(restored, f"SELECT count(*) FROM {table}") == rows


@pytest.mark.parametrize("command", ["VACUUM (FULL, FREEZE)", "VACUUM FREEZE", "CLUSTER {} USING {}_pkey"])
def test_a_rewrite_of_the_state_tables_keeps_feeds_accepted(connection: Connection, command: str) -> None:
    connection.execute("CREATE TABLE kept (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    connection.execute("SELECT feed_create('kept', 'kept')")
    for state in ("inorder_internal.feed", "inorder_internal.feed_table"):
        statement = command.replace("{}_pkey", state.partition(".")[2] + "_pkey")
        connection.execute((statement.replace("{}", state) if "{}" in command else f"{command} {state}").encode())
    connection.execute("INSERT INTO kept (n) VALUES (1)")
    assert value(connection, "SELECT n FROM feed_read('kept', null::kept)") == 1
    connection.execute("DROP TABLE kept")


@pytest.mark.parametrize("role", ["postgres", OWNER])
def test_a_dump_without_some_tables_restores_the_state_of_the_others(
    cluster: Cluster, young: Cluster, delivered: dict[str, list[int]], target: Connection, role: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "dump")
    options = ["--format=custom", "--no-owner", "-T", "orders", "-T", "made", "-T", '"Odd.one".*']
    dumped = run_program(cluster, "pg_dump", *options, "-f", file, "delivered")
    assert dumped.returncode == 0, dumped.stderr
    options = ["--exit-on-error", "--no-owner", "--no-comments", "--verbose"]
    done = run_program(young, "pg_restore", *options, "-U", role, "-d", "target", file)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("skipping a row of inorder_internal.feed: its table does not exist") == 6
    for table, rows in (("feed", 2), ("feed_table", 1), ("counted_table", 1)):
        of_parts = f"SELECT count(*) FROM inorder_internal.{table} WHERE relation = 'parts'::regclass"
        assert value(target, of_parts) == rows
        assert value(target, f"SELECT count(*) FROM inorder_internal.{table}") == rows
    target.execute("SELECT feed_rebase('parts')")
    assert sorted(delivered["parts"] + read(target, "parts")) == list(range(1, 13))
