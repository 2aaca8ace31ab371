"""The shards of a Citus table are read as one stream and one count, even while shards are moved and split.

script/citus runs these tests on a server with Citus. They are skipped elsewhere.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from psycopg.conninfo import make_conninfo

import preloaded
from citus_nodes import (
    MARKS,
    NUMBER,
    Nodes,
    Writers,
    delivered,
    move,
    prepare,
    shards,
    split,
    start,
    stored,
    tool,
)  # fmt: skip
from tail_runs import read_until
from waiting import PATIENCE, wait_for
from world.sql import run

pytestmark = MARKS


def test_all_shards_are_one_stream(nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path) -> None:
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, g FROM generate_series(1, 1000) AS g")
    tail.appended(events, "--shards", "--position", "p", "--batch-rows", "50")
    assert delivered(tmp_path) == stored(coordinator, events)
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, 1000 + g FROM generate_series(1, 100) AS g")
    tail.appended(events, "--shards", "--position", "p")
    tail.appended(events, "--shards", "--position", "p")
    assert delivered(tmp_path) == stored(coordinator, events)
    hosts = [tenant_shards(coordinator, events)[json.loads(line)["tenant"]]
             for line in (tmp_path / "out").read_text().splitlines()[:200]]  # fmt: skip
    assert [len(set(hosts[turn * 50 : turn * 50 + 50])) for turn in range(4)] == [1] * 4
    assert len(set(hosts)) == 4
    assert "give --shards" in tail(events, "--position", "p", code=2)


def tenant_shards(coordinator: Connection, table: str) -> dict[int, int]:
    rows = coordinator.execute(
        "SELECT g, get_shard_id_for_distribution_column(%s, g) FROM generate_series(0, 1000) AS g", [table]
    )
    return {int(str(tenant)): int(str(shard)) for tenant, shard in rows}


def test_a_shard_is_read_as_a_table_of_its_node(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, g FROM generate_series(1, 100) AS g")
    _, name, node = shards(coordinator, events)[0]
    shown = "-c citus.override_table_visibility=off -c citus.enable_manual_changes_to_shards=on"
    dsn = make_conninfo(nodes.worker(node).dsn, options=shown)
    tool(nodes, tmp_path, "tail").appended(name, "--position", "p", "--dsn", dsn)
    with connect(dsn) as worker:
        assert delivered(tmp_path) == stored(worker, name)


def test_a_reader_reconnects_to_a_restarted_node(nodes: Nodes, events: str, tmp_path: Path) -> None:
    prepare(nodes, tmp_path, events)
    with tool(nodes, tmp_path, "tail").started(events, "--shards", "--position", "p", "--follow", to="out") as running:
        insert_and_wait(nodes, events, tmp_path, "before")
        for place, node in enumerate((nodes.workers[0], nodes.coordinator)):
            node.stop()
            read_until(running, b"trying again")
            start(node)
            read_until(running, b"reconnected")
            insert_and_wait(nodes, events, tmp_path, f"{place}-")


def insert_and_wait(nodes: Nodes, table: str, folder: Path, token: str) -> None:
    insert = f"INSERT INTO {table} (tenant, n) SELECT g, %s || g FROM generate_series(1, 100) AS g"
    with connect(nodes.dsn) as connection:
        connection.execute(insert.encode(), [token])
        stored_rows = stored(connection, table)
    wait_for(lambda: delivered(folder) == stored_rows)


def test_a_command_gets_each_batch_as_csv(nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path) -> None:
    prepare(nodes, tmp_path, events)
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, g FROM generate_series(1, 400) AS g")
    command = 'cat >> out.csv; echo "$INORDER_BATCH $INORDER_ROWS" >> names'
    tool(nodes, tmp_path, "tail")(events, "--shards", "--position", "p", "--exec", command, "--format", "csv",
                                  "--batch-rows", "40")  # fmt: skip
    names = [line.split() for line in (tmp_path / "names").read_text().splitlines()]
    assert len({name for name, _ in names}) == len(names) >= 10
    assert sum(int(rows) for _, rows in names) == 400
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len([line for line in lines if line.startswith("tenant,")]) == len(names)
    assert len(lines) == 400 + len(names)


def test_the_count_is_the_sum_over_the_shards(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    count = tool(nodes, tmp_path, "count")
    insert = f"INSERT INTO {events} (tenant, n) SELECT g, g FROM generate_series(1, 400) AS g"
    run(coordinator, insert)
    assert count("start", events, "--shards") == "400\n"
    run(coordinator, insert)
    assert (count("show", events, "--shards"), count("fold", events, "--shards")) == ("800\n", "400\n")
    move(coordinator, events)
    assert f"inorder count start --shards {events}" in count("show", events, "--shards", code=2)
    prepare(nodes, tmp_path, events)
    assert count("start", events, "--shards")
    assert count("show", events, "--shards") == "800\n"
    count("stop", events, "--shards")


# --- shards that are moved and split --------------------------------------------


@pytest.mark.parametrize("change", [move, split])
def test_a_reader_continues_on_another_node(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path, change: Callable[[Connection, str], None]
) -> None:
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    insert = f"INSERT INTO {events} (tenant, n) SELECT g, %s || g FROM generate_series(1, 200) AS g"
    coordinator.execute(insert, ["read"])
    tail.appended(events, "--shards", "--position", "p")
    coordinator.execute(insert, ["moved unread"])
    change(coordinator, events)
    coordinator.execute(insert, ["before the guard"])
    with tail.started(events, "--shards", "--position", "p", to="out") as running:
        assert running.wait(PATIENCE) == 2
        assert running.stderr and f"inorder citus public.{events}".encode() in running.stderr.read()
    prepare(nodes, tmp_path, events)
    coordinator.execute(insert, ["after the guard"])
    for _ in range(2):
        with tail.started(events, "--shards", "--position", "p", to="out") as running:
            assert running.wait(PATIENCE) == 0
    assert delivered(tmp_path) == stored(coordinator, events)


def test_the_error_about_a_removed_placement_names_the_setting(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    run(coordinator, f"INSERT INTO {events} (tenant, n) SELECT g, g FROM generate_series(1, 100) AS g")
    tail.appended(events, "--shards", "--position", "p")
    move(coordinator, events)
    run(coordinator, "CALL citus_cleanup_orphaned_resources()")
    prepare(nodes, tmp_path, events)
    assert "citus.defer_shard_delete_interval" in tail(events, "--shards", "--position", "p", code=2)


def test_the_reader_waits_for_writers_to_the_old_placement(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    """The reader never returns to the old placement, so it must first wait for the writer and read its rows."""
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    insert = f"INSERT INTO {events} (tenant, n) SELECT g, %s || g FROM generate_series(1, 100) AS g"
    coordinator.execute(insert, ["a"])
    tail.appended(events, "--shards", "--position", "p")
    _, name, node = shards(coordinator, events)[0]
    move(coordinator, events)
    prepare(nodes, tmp_path, events)
    with connect(nodes.worker(node).dsn) as late:
        run(late, "SET citus.enable_manual_changes_to_shards = on", "BEGIN", f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE")
        with tail.started(events, "--shards", "--position", "p", to="out") as running:
            assert running.wait(PATIENCE) == 1
            assert running.stderr and b"is still written to" in running.stderr.read()
    with tail.started(events, "--shards", "--position", "p", to="out") as running:
        assert running.wait(PATIENCE) == 0
    assert delivered(tmp_path) == stored(coordinator, events)


def test_a_reader_follows_a_shard_with_any_kind_of_key(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    run(coordinator, f"ALTER TABLE {events} RENAME TO was_{events}")
    run(
        coordinator, f"CREATE TABLE {events} (n text, at timestamptz, f float8, u uuid, "
        f"\"Odd \"\"'{{k}}\" numeric(20, 3), {NUMBER}, PRIMARY KEY (n, at, f, u, \"Odd \"\"'{{k}}\"))",
        f"CREATE INDEX ON {events} (xact)",
        f"SELECT create_distributed_table('{events}', 'n', colocate_with => 'none')",
    )  # fmt: skip
    insert = (
        f"INSERT INTO {events} SELECT %s || g, now(), random(), gen_random_uuid(), g FROM generate_series(1, 100) AS g"
    )
    try:
        for worker, zone in zip(nodes.workers, ("Asia/Kolkata", "America/New_York"), strict=True):
            with connect(worker.dsn) as connection:
                run(connection, f"ALTER SYSTEM SET timezone = '{zone}'", "SELECT pg_reload_conf()")
        prepare(nodes, tmp_path, events)
        tail = tool(nodes, tmp_path, "tail")
        coordinator.execute(insert, ["a"])
        tail.appended(events, "--shards", "--position", "p")
        move(coordinator, events)
        coordinator.execute(insert, ["b"])
        prepare(nodes, tmp_path, events)
        with tail.started(events, "--shards", "--position", "p", to="out") as running:
            assert running.wait(PATIENCE) == 0
        assert delivered(tmp_path) == stored(coordinator, events)
    finally:
        run(coordinator, f"DROP TABLE {events}", f"ALTER TABLE was_{events} RENAME TO {events}")


def test_partitions_of_a_moved_shard_are_followed(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    name = f"p_{events}"
    run(
        coordinator, f"CREATE TABLE {name} (n text, k int, {NUMBER}, PRIMARY KEY (n, k)) PARTITION BY RANGE (k)",
        f"CREATE INDEX ON {name} (xact)", f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (0) TO (50)",
        f"SELECT create_distributed_table('{name}', 'n', colocate_with => 'none')",
    )  # fmt: skip
    try:
        prepare(nodes, tmp_path, name)
        tail = tool(nodes, tmp_path, "tail")
        insert = f"INSERT INTO {name} SELECT %s || g, g %% %s FROM generate_series(1, 100) AS g"
        coordinator.execute(insert, ["a", 50])
        tail.appended(name, "--shards", "--position", "p")
        run(coordinator, f"CREATE TABLE {name}_2 PARTITION OF {name} FOR VALUES FROM (50) TO (100)")
        coordinator.execute(insert, ["b", 100])
        tail.appended(name, "--shards", "--position", "p")
        assert delivered(tmp_path) == stored(coordinator, name)
        move(coordinator, name)
        prepare(nodes, tmp_path, name)
        coordinator.execute(insert, ["c", 100])
        with tail.started(name, "--shards", "--position", "p", to="out") as running:
            assert running.wait(PATIENCE) == 0
        assert delivered(tmp_path) == stored(coordinator, name)
    finally:
        run(coordinator, f"DROP TABLE {name}")


def test_a_shard_that_was_moved_twice_is_refused(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    """The reader fails instead of silently losing rows, because rows that it has not read were copied.

    While the reader runs, it keeps the first placement. Citus would otherwise remove that placement before the shard is
    moved again.
    """
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    insert = f"INSERT INTO {events} (tenant, n) SELECT g, %s || g FROM generate_series(1, 200) AS g"
    coordinator.execute(insert, ["a"])
    with tail.started(events, "--shards", "--position", "p", "--follow", to="out") as running:
        wait_for(lambda: delivered(tmp_path) == stored(coordinator, events))
        move(coordinator, events)
        read_until(running, b"is not readable")
        coordinator.execute(insert, ["b"])
        split(coordinator, events)
        prepare(nodes, tmp_path, events)
        read_until(running, b"was moved again")
        assert running.wait(PATIENCE) == 2
    assert delivered(tmp_path) - stored(coordinator, events) == Counter()


def test_moved_shards_are_prepared_continuously(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    insert = f"INSERT INTO {events} (tenant, n) SELECT g, %s || g FROM generate_series(1, 200) AS g"
    prepare(nodes, tmp_path, events)
    with (
        tool(nodes, tmp_path, "citus").started(events, "--every", "200ms") as citus,
        tool(nodes, tmp_path, "tail").started(events, "--shards", "--position", "p", "--follow", to="out") as running,
    ):
        for which, (number, _, _) in enumerate(shards(coordinator, events)):
            coordinator.execute(insert, [f"{which}-"])
            move(coordinator, events, which=which)
            read_until(running, f"continuing in shard {number} ".encode())
        wait_for(lambda: delivered(tmp_path) == stored(coordinator, events))
        assert citus.poll() is None


def test_each_row_is_delivered_once_under_load(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    prepare(nodes, tmp_path, events)
    tail = tool(nodes, tmp_path, "tail")
    arguments = (events, "--shards", "--position", "p", "--follow")
    with Writers(nodes.dsn, events, seed=random.randrange(10**6)).running():
        for which, (change, mode) in enumerate(itertools.product((move, split), ("force_logical", "block_writes"))):
            with tail.started(*arguments, to="out") as running:
                change(coordinator, events, mode, which)
                prepare(nodes, tmp_path, events)
                wait_until_read(coordinator, events, tmp_path, running)
                running.kill()
    tail.appended(events, "--shards", "--position", "p")
    rows, stored_rows = delivered(tmp_path), stored(coordinator, events)
    assert (rows - stored_rows, stored_rows - rows) == (Counter(), Counter())
    assert sum(stored_rows.values()) > 100


def wait_until_read(coordinator: Connection, table: str, folder: Path, running: preloaded.Run) -> None:
    now = {number for number, _, _ in shards(coordinator, table)}
    places = {(number, node) for number, _, node in shards(coordinator, table)}

    def is_there() -> bool:
        assert running.poll() is None, running.stderr and running.stderr.read()
        saved_shards = json.loads((folder / "p").read_text())["shards"]
        return {(entry["id"], entry["host"]) for entry in saved_shards} == places

    wait_for(is_there)
    assert {number for number, _, _ in shards(coordinator, table)} == now
