"""Tables distributed by Citus over three nodes: numbers, rejected calls and preparation.

script/citus runs these tests on a server with Citus. They are skipped elsewhere.
"""

from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from citus_nodes import MARKS, NUMBER, Nodes, on_each_shard, prepare, shards, tool
from world.sql import run, value

pytestmark = MARKS

# Rows of a shard whose number differs from the transaction ID in the row header. That ID belongs to the transaction
# that inserted the row into the shard.
WRONG = "SELECT count(*) FROM {} WHERE xact <> xmin::text::bigint"
TRIGGERS = "SELECT count(*) FROM pg_trigger WHERE tgrelid = '{}'::regclass AND tgname LIKE 'zz_inorder_%'"


# --- numbers --------------------------------------------------------------------


def insert_in_every_way(connection: Connection, table: str) -> int:
    """Insert rows with every statement for which their numbers might be generated on another node or too early.

    Return the number of inserted rows.
    """
    run(
        connection, f"INSERT INTO {table} (tenant, n) VALUES (1, 'a')",
        f"INSERT INTO {table} (tenant, n) SELECT g, 'b' FROM generate_series(1, 20) AS g",
        f"CREATE FUNCTION add_{table}(tenant int) RETURNS void LANGUAGE plpgsql AS "
        f"$$BEGIN INSERT INTO {table} (tenant, n) VALUES (tenant, 'c'); END$$",
    )  # fmt: skip
    with connection.cursor().copy(f"COPY {table} (tenant, n) FROM STDIN".encode()) as copy:
        for tenant in range(20):
            copy.write_row((tenant, "d"))
    run(connection, f"PREPARE p(int) AS INSERT INTO {table} (tenant, n) VALUES ($1, 'e')")
    for plans in ("force_custom_plan", "force_generic_plan"):
        run(connection, f"SET plan_cache_mode = {plans}", *[f"EXECUTE p({n})" for n in range(10)])
        run(connection, *[f"SELECT add_{table}({n})" for n in range(10)])
    # Citus pushes the first statement down to the shards. The rows of the second statement pass through the
    # coordinator.
    run(connection, f"INSERT INTO {table} (tenant, n) SELECT tenant, 'f' FROM {table} WHERE n = 'b'")
    run(connection, f"INSERT INTO {table} (tenant, n) SELECT tenant, 'g' FROM {table} WHERE n = 'b' LIMIT 10")
    run(connection, "BEGIN", *[f"INSERT INTO {table} (tenant, n) VALUES ({n}, 'h')" for n in range(10)], "COMMIT")
    return 1 + 20 + 20 + 2 * 20 + 20 + 10 + 10


def test_each_node_numbers_its_rows(nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path) -> None:
    prepare(nodes, tmp_path, events)
    rows = insert_in_every_way(coordinator, events)
    assert value(coordinator, f"SELECT count(*) FROM {events}") == rows
    assert on_each_shard(nodes, coordinator, events, WRONG) == [0] * 4
    assert sum(on_each_shard(nodes, coordinator, events, "SELECT count(*) FROM {}")) == rows


def test_a_savepoint_has_no_number_of_its_own(nodes: Nodes, coordinator: Connection, events: str) -> None:
    run(
        coordinator, "BEGIN", f"INSERT INTO {events} (tenant, n) VALUES (7, 'a')", "SAVEPOINT s",
        f"INSERT INTO {events} (tenant, n) VALUES (7, 'b')", "ROLLBACK TO s",
        f"INSERT INTO {events} (tenant, n) VALUES (7, 'c')", "COMMIT",
    )  # fmt: skip
    assert value(coordinator, f"SELECT count(DISTINCT xact) || '/' || count(*) FROM {events}") == "1/2"


def test_a_default_that_another_node_evaluates_is_refused(
    nodes: Nodes, coordinator: Connection, tmp_path: Path
) -> None:
    """Citus evaluates such a default on another node.

    The default is therefore rejected, and the guard of a shard rejects the numbers that the default generates.
    """
    run(
        coordinator, "DROP TABLE IF EXISTS defaults",
        "CREATE TABLE defaults (id int PRIMARY KEY, xact bigint DEFAULT xact_id())", "CREATE INDEX ON defaults (xact)",
        "SELECT create_distributed_table('defaults', 'id', colocate_with => 'none')",
        "INSERT INTO defaults SELECT generate_series(1, 100)",
    )  # fmt: skip
    assert sum(on_each_shard(nodes, coordinator, "defaults", WRONG)) > 0
    assert "the coordinator evaluates the default" in tool(nodes, tmp_path, "citus")("defaults", code=2)


# --- the coordinator ------------------------------------------------------------


@pytest.mark.parametrize("statement", [
    "SELECT feed_enable('{}')", "SELECT feed_create('f', '{}')", "SELECT reader_start('{}')",
    "SELECT exact_count_start('{}')",
])  # fmt: skip
def test_a_distributed_table_itself_is_refused(
    nodes: Nodes, coordinator: Connection, events: str, statement: str
) -> None:
    for dsn in (nodes.dsn, nodes.workers[0].dsn):
        with (
            connect(dsn) as connection,
            pytest.raises(psycopg.errors.FeatureNotSupported, match="distributed by Citus"),
        ):
            connection.execute(statement.format(events).encode())


@pytest.mark.parametrize(("distribute", "refusal"), [
    ("SELECT create_reference_table('late')", "distributed by Citus"),
    ("SELECT create_distributed_table('late', 'id', colocate_with => 'none')", "distributed by Citus"),
    # Citus turns the table into a shard, and moves its triggers to a new table of the same name.
    ("SELECT citus_add_local_table_to_metadata('late')", "has lost the guard"),
])  # fmt: skip
def test_a_table_that_is_distributed_later_is_refused(coordinator: Connection, distribute: str, refusal: str) -> None:
    run(
        coordinator, "DROP TABLE IF EXISTS late", f"CREATE TABLE late (id int PRIMARY KEY, {NUMBER})",
        "CREATE INDEX ON late (xact)", "SELECT feed_create('late', 'late')",
    )  # fmt: skip
    assert coordinator.execute("SELECT * FROM feed_read('late', null::late)").fetchall() == []
    run(coordinator, "SET citus.enable_unsafe_triggers = on", distribute)
    try:
        with pytest.raises(psycopg.Error, match=refusal):
            coordinator.execute("SELECT * FROM feed_read('late', null::late)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="distributed by Citus"):
            coordinator.execute("SELECT feed_enable('late')")
    finally:
        run(coordinator, "SELECT feed_drop('late')", "DROP TABLE late")


def test_columnar_tables_are_refused(coordinator: Connection) -> None:
    run(
        coordinator, "CREATE EXTENSION IF NOT EXISTS citus_columnar",
        f"CREATE TABLE col (id int, {NUMBER}) USING columnar", "CREATE INDEX ON col (xact)",
    )  # fmt: skip
    with pytest.raises(psycopg.errors.WrongObjectType, match="is not a heap table"):
        coordinator.execute("SELECT feed_enable('col')")
    run(coordinator, "DROP TABLE col", "DROP EXTENSION citus_columnar")


# --- the shards -----------------------------------------------------------------


def test_a_shard_can_be_read_and_counted_like_a_table(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, 'a' FROM generate_series(1, 100) AS g")
    _, name, node = shards(coordinator, events)[0]
    with connect(nodes.worker(node).dsn) as worker:
        run(worker, f"SELECT feed_create('f', '{name}')", f"SELECT exact_count_start('{name}')")
        rows = value(worker, f"SELECT count(*) FROM {name}")
        assert worker.execute(f"SELECT * FROM feed_read('f', null::{name})".encode()).rowcount == rows
        assert value(worker, f"SELECT exact_count('{name}')") == rows
        assert value(worker, "SELECT backlog_transactions > 0 FROM feeds WHERE name = 'f'") is not None
        run(worker, "SELECT feed_drop('f')", f"SELECT exact_count_stop('{name}')")
    for change in ("DELETE FROM {}", "TRUNCATE {}"):
        with pytest.raises(psycopg.Error, match="it is insert-only"):
            coordinator.execute(change.format(events).encode())


def test_preparing_creates_the_guard_of_each_shard_and_undo_drops_it(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    citus = tool(nodes, tmp_path, "citus")
    assert citus(events, "--dry-run").count("feed_enable") == 4
    assert on_each_shard(nodes, coordinator, events, TRIGGERS) == [0] * 4
    assert prepare(nodes, tmp_path, events).count("feed_enable") == 4
    assert on_each_shard(nodes, coordinator, events, TRIGGERS) == [3] * 4
    assert prepare(nodes, tmp_path, events).count("is readable") == 4
    prepare(nodes, tmp_path, events, "--undo")
    assert on_each_shard(nodes, coordinator, events, TRIGGERS) == [0] * 4
    run(coordinator, f"DELETE FROM {events}")


def test_each_refusal_names_what_is_missing(nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path) -> None:
    citus, tail, count = (tool(nodes, tmp_path, command) for command in ("citus", "tail", "count"))
    run(
        coordinator, "DROP TABLE IF EXISTS plain, bare, ref, two", "CREATE TABLE plain (id int)",
        "CREATE TABLE bare (id int)", "SELECT create_distributed_table('bare', 'id')",
        "CREATE TABLE ref (id int)", "SELECT create_reference_table('ref')",
        f"CREATE TABLE two (id int, {NUMBER}, {NUMBER.replace('xact', 'x', 1)})",
        "SELECT create_distributed_table('two', 'id')",
    )  # fmt: skip
    assert "is not distributed" in citus("plain", code=2)
    assert "ADD COLUMN xact bigint GENERATED ALWAYS" in citus("bare", code=2)
    assert "is on several nodes, as in a reference table" in citus("ref", code=2)
    assert "choose one with --column" in citus("two", code=2)
    assert "CREATE INDEX CONCURRENTLY ON public.two (x)" in citus("two", "--column", "x", code=2)
    assert f"inorder citus {events}" in tail(events, "--shards", "--position", "p", code=2)
    assert f"inorder citus {events}" in count("show", events, "--shards", code=2)
    assert "give --shards" not in tail(events, "--position", "p", code=2)
