"""Changes to a Citus cluster while Spark and the tool read its shards.

Nodes are added and removed, tables are recreated, shards move back, and many shards move at once. script/citus runs
these tests if script/engines has installed Spark. They are skipped otherwise.
"""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from inorder.citus.shards import Shard
from inorder.connection import database
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.lab.server.cluster import PORT, Cluster
from inorder.spark.columns import types_of

from citus_nodes import (
    MARKS,
    Nodes,
    allow_output_plugin,
    delivered,
    host,
    make_distributed,
    move,
    prepare,
    server_with_citus,
    shards,
    start,
    stored,
    tool,
)
from citus_query import INSERT, Query, places, query_of
from tail_runs import read_until
from waiting import wait_for
from world.sql import run, value

pytestmark = MARKS

CLEAN = "CALL citus_cleanup_orphaned_resources()"
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inorder' AND state = 'idle in transaction'"


@pytest.fixture
def query(nodes: Nodes, events: str, tmp_path: Path) -> Iterator[Query]:
    with query_of(nodes, events, tmp_path) as new_query:
        yield new_query


def insert(coordinator: Connection, table: str, token: str) -> None:
    coordinator.execute(INSERT.format(table).encode(), [token])


# --- shards that come back ------------------------------------------------------


@pytest.mark.parametrize("stays", [True, False])
def test_a_shard_that_was_moved_away_and_back_is_refused(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path, stays: bool
) -> None:
    tail, arguments = tool(nodes, tmp_path, "tail"), (query.table, "--shards", "--position", "p")
    insert(coordinator, query.table, "a")
    query.run()
    tail.appended(*arguments)
    before = query.offsets[-1].keys()
    for _ in range(2):
        move(coordinator, query.table)
        run(coordinator, CLEAN)
    assert places(coordinator, query.table) == before
    if not stays:
        query.restart()
    prepare(nodes, tmp_path, query.table)
    insert(coordinator, query.table, "b")
    with pytest.raises(InputError, match=r"^shard \d+ on .*(is gone|this position belongs to another table)"):
        query.run()
    assert "another table" in tail(*arguments, code=2)


def test_a_shard_that_was_moved_back_is_followed_again(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    number, name, first = shards(coordinator, events)[0]
    with tool(nodes, tmp_path, "tail").started(events, "--shards", "--position", "p", "--follow", to="out") as running:
        wait_for((tmp_path / "p").exists)
        for place in range(2):
            insert(coordinator, events, f"{place}-")
            move(coordinator, events)
            prepare(nodes, tmp_path, events)
            read_until(running, f"continuing in shard {number} ".encode())
            run(coordinator, CLEAN)
        assert shards(coordinator, events)[0][2] == first
        os.kill(running.pid, signal.SIGSTOP)
        move(coordinator, events)
        prepare(nodes, tmp_path, events)
        with connect(nodes.worker(first).dsn) as late:
            run(late, "SET citus.enable_manual_changes_to_shards = on", "BEGIN",
                f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE")  # fmt: skip
            os.kill(running.pid, signal.SIGCONT)
            assert b"is still written to" in read_until(running, f"shard {number} ".encode())
        read_until(running, f"continuing in shard {number} ".encode())
        insert(coordinator, events, "last-")
        wait_for(lambda: delivered(tmp_path) == stored(coordinator, events))


# --- tables ---------------------------------------------------------------------


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("rows", [True, False])
def test_a_table_that_was_created_again_is_refused(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path, stays: bool, rows: bool
) -> None:
    tail, arguments = tool(nodes, tmp_path, "tail"), (query.table, "--shards", "--position", "p")
    if rows:
        insert(coordinator, query.table, "a")
    query.run()
    tail.appended(*arguments)
    run(coordinator, f"DROP TABLE {query.table}")
    make_distributed(coordinator, query.table)
    prepare(nodes, tmp_path, query.table)
    insert(coordinator, query.table, "b")
    if not stays:
        query.restart()
    with pytest.raises(InputError, match=r"is not distributed|is gone"):
        query.run()
    assert "is gone" in tail(*arguments, code=2)


def test_an_added_column_is_read_after_a_restart(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    tail, arguments = tool(nodes, tmp_path, "tail"), (query.table, "--shards", "--position", "p")
    insert(coordinator, query.table, "a")
    query.run()
    tail.appended(*arguments)
    run(coordinator, f"ALTER TABLE {query.table} ADD COLUMN more int DEFAULT 7")
    insert(coordinator, query.table, "b")
    query.run()
    assert query.delivered() == stored(coordinator, query.table)
    assert "more" not in query.columns
    tail.appended(*arguments)
    assert delivered(tmp_path) == stored(coordinator, query.table)
    assert (tmp_path / "out").read_text().count('"more":7') == 200
    query.restart()
    query.columns = types_of(query.plan.fields())
    assert query.columns["more"] == "int"
    insert(coordinator, query.table, "c")
    query.run()
    assert query.delivered() == stored(coordinator, query.table)


def test_writers_of_a_partition_count_as_writers_of_its_table(
    nodes: Nodes, coordinator: Connection, events: str
) -> None:
    name = f"q_{events}"
    run(
        coordinator, f"CREATE TABLE {name} (n text, k int) PARTITION BY RANGE (k)",
        f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (0) TO (50)",
        f"SELECT create_distributed_table('{name}', 'n', colocate_with => 'none')",
    )  # fmt: skip
    try:
        _, shard_name, node = shards(coordinator, name)[0]
        _, partition, _ = shards(coordinator, f"{name}_1")[0]
        with connect(nodes.worker(node).dsn) as worker, connect(nodes.worker(node).dsn) as other:
            run(worker, "SET citus.override_table_visibility = off")
            assert not has_writers(worker, shard_name)
            run(other, "SET citus.enable_manual_changes_to_shards = on", "BEGIN",
                f"INSERT INTO {partition} VALUES ('a', 1)")  # fmt: skip
            assert has_writers(worker, shard_name)
            run(other, "PREPARE TRANSACTION 'late'")
            assert has_writers(worker, shard_name)
            run(other, "ROLLBACK PREPARED 'late'")
            assert not has_writers(worker, shard_name)
    finally:
        run(coordinator, f"DROP TABLE {name}")


def has_writers(worker: Connection, shard: str) -> bool:
    oid = value(worker, f"SELECT '{shard}'::regclass::oid")
    (row,) = worker.execute(database.query("shard_writers").format(table=oid)).fetchall()
    return bool(row[0])


# --- nodes ----------------------------------------------------------------------


@contextmanager
def another_worker(nodes: Nodes, coordinator: Connection) -> Iterator[Nodes]:
    """Yield the nodes with one more worker, and then move its shards to the other nodes."""
    with Cluster(server_with_citus()) as cluster:
        start(cluster)
        with connect(cluster.dsn) as connection:
            run(connection, "CREATE EXTENSION citus")
            allow_output_plugin(connection)
        where = (host(cluster), int(PORT))
        coordinator.execute("SELECT citus_add_node(%s, %s)", where)
        run(coordinator, "SELECT replicate_reference_tables('block_writes')")  # reference tables of other tests
        try:
            yield Nodes(nodes.coordinator, (*nodes.workers, cluster))
        finally:
            coordinator.execute("SELECT citus_drain_node(%s, %s, 'block_writes')", where)
            run(coordinator, CLEAN)
            coordinator.execute("SELECT citus_remove_node(%s, %s)", where)


def move_to(coordinator: Connection, table: str, to: str) -> None:
    number, _, node = shards(coordinator, table)[0]
    coordinator.execute("SELECT citus_move_shard_placement(%s, %s, 5432, %s, 5432, 'block_writes')", [number, node, to])


def test_shards_are_followed_to_an_added_node(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    arguments = (query.table, "--shards", "--position", "p", "--follow")
    with ExitStack() as stack:
        running = stack.enter_context(tool(nodes, tmp_path, "tail").started(*arguments, to="out"))
        insert(coordinator, query.table, "a")
        query.run()
        with another_worker(nodes, coordinator) as more:
            move_to(coordinator, query.table, host(more.workers[-1]))
            insert(coordinator, query.table, "b")
            prepare(more, tmp_path, query.table)
            query.run()
            read_until(running, b"continuing in")
            assert query.delivered() == stored(coordinator, query.table)
            insert(coordinator, query.table, "c")
            query.run()
            wait_for(lambda: delivered(tmp_path) == stored(coordinator, query.table))
            query.restart()
            query.run()
            assert query.delivered() == stored(coordinator, query.table)
            query.offsets = query.offsets[-1:]  # earlier batches can no longer be read, because their placement is gone
            query.restart()  # the restart reads the last batch again, and releases its placements
            move_to(coordinator, query.table, host(nodes.workers[0]))
            prepare(nodes, tmp_path, query.table)
            query.run()
            read_until(running, b"continuing in")
        insert(coordinator, query.table, "d")
        query.run()
        assert {name[0] for name in query.delivered()} == {"d"}
        wait_for(lambda: delivered(tmp_path) == stored(coordinator, query.table))
        assert query.offsets[-1].keys() == places(coordinator, query.table)


def test_a_read_waits_for_a_node_that_is_down(nodes: Nodes, coordinator: Connection, query: Query) -> None:
    insert(coordinator, query.table, "a")
    query.run()
    with ThreadPoolExecutor(1) as pool:
        nodes.workers[0].stop()
        read = pool.submit(query.delivered)
        time.sleep(2)
        assert not read.done()
        start(nodes.workers[0])  # started in this thread, because a server ends with the thread that started it
        rows = read.result()
    query.run()
    with connect(nodes.dsn) as new_session:  # the session of the fixture still has connections to the stopped node
        insert(new_session, query.table, "b")
        query.run()
        assert rows < query.delivered() == stored(new_session, query.table)


# --- growth ---------------------------------------------------------------------


def test_many_moved_shards_are_followed(nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path) -> None:
    insert(coordinator, query.table, "a")
    query.run()
    _, _, node = shards(coordinator, query.table)[0]
    on_node = [place for place, shard in enumerate(shards(coordinator, query.table)) if shard[2] == node]
    assert len(on_node) == 2
    arguments = (query.table, "--shards", "--position", "p", "--follow")
    with tool(nodes, tmp_path, "tail").started(*arguments, to="out") as running:
        wait_for((tmp_path / "p").exists)
        for which in on_node:
            move(coordinator, query.table, which=which)
            query.run()
            read_until(running, b"is not readable")
        insert(coordinator, query.table, "b")
        with connect(nodes.worker(node).dsn) as worker:
            wait_for(lambda: value(worker, OURS) == 2)  # each poll of inorder tail is a transaction of its own
            held = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessShareLock' AND relation = '{}'::regclass"
            for which in on_node:
                name = shards(coordinator, query.table)[which][1]
                assert value(worker, held.format(name)) == 2
            prepare(nodes, tmp_path, query.table)
            query.run()
            wait_for(lambda: delivered(tmp_path) == stored(coordinator, query.table))
            wait_for(lambda: value(worker, OURS) == 0)
    assert query.delivered() == stored(coordinator, query.table)


def test_a_starting_driver_finds_all_shards_at_once(
    coordinator: Connection, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run()
    query.restart()
    look, looks = query.plan.find_shards, itertools.count()

    def counted() -> dict[str, Shard]:
        next(looks)
        return look()

    monkeypatch.setattr(query.plan, "find_shards", counted)
    monkeypatch.setattr(query.plan, "placed", lambda shard: pytest.fail(f"{shard.key} was asked for by itself"))
    assert query.plan.read(query.offsets[-1]).keys() == places(coordinator, query.table)
    assert next(looks) == 1
