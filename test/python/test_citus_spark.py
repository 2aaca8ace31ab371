"""Spark reads the shards of a Citus table as one stream, even while shards are moved and split.

script/citus runs these tests if script/engines has installed Spark. They are skipped otherwise.
"""

import itertools
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.spark.columns import ddl
from inorder.spark.offsets import Offset

from citus_nodes import MARKS, Nodes, Writers, move, prepare, shards, split, stored
from citus_query import INSERT, NEEDED, Query, places, query_of
from world.sql import run

if TYPE_CHECKING:
    from load.engines.driver import Driver

pytestmark = MARKS


@pytest.fixture
def query(nodes: Nodes, events: str, tmp_path: Path) -> Iterator[Query]:
    with query_of(nodes, events, tmp_path) as new_query:
        yield new_query


def test_all_shards_are_one_stream(coordinator: Connection, query: Query) -> None:
    coordinator.execute(INSERT.format(query.table).encode(), ["a"])
    query.run()
    assert len(query.offsets) > 2 and query.delivered() == stored(coordinator, query.table)
    assert all(query.batch(*ends).total() <= 150 for ends in itertools.pairwise(query.offsets))
    assert query.plan.next(query.offsets[-1], None) == query.offsets[-1]
    query.restart()
    coordinator.execute(INSERT.format(query.table).encode(), ["b"])
    query.run()
    assert query.delivered() == stored(coordinator, query.table)
    assert ddl(query.plan.fields()).split(", ") == [
        "`tenant` int", "`id` bigint", "`n` string", "`xact` bigint",
    ]  # fmt: skip
    assert {key for backlog in query.plan.backlog(query.offsets[-1]).values() for key in backlog} >= {
        "backlog_transactions"
    }


@pytest.mark.parametrize("change", [move, split])
def test_a_query_continues_on_another_node(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path, change: Callable[[Connection, str], None]
) -> None:
    insert = INSERT.format(query.table).encode()
    coordinator.execute(insert, ["read"])
    query.run()
    coordinator.execute(insert, ["moved unread"])
    change(coordinator, query.table)
    coordinator.execute(insert, ["before the guard"])
    query.run()
    assert query.delivered() < stored(coordinator, query.table)
    query.restart()
    prepare(nodes, tmp_path, query.table)
    coordinator.execute(insert, ["after the guard"])
    query.run()
    query.restart()
    assert query.delivered() == stored(coordinator, query.table)
    with pytest.raises(InputError, match="was moved or split between these offsets"):
        query.batch(query.offsets[0], query.offsets[-1])
    # A batch that contains a handover can be read again after the old shard was removed.
    run(coordinator, "CALL citus_cleanup_orphaned_resources()")
    (handover,) = [ends for ends in itertools.pairwise(query.offsets) if ends[0].keys() != ends[1].keys()]
    query.restart()
    query.batch(*handover)


def test_a_query_of_the_rows_available_now_reads_no_later_rows(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    insert = INSERT.format(query.table).encode()
    coordinator.execute(insert, ["a"])
    query.plan.stop_here()
    coordinator.execute(insert, ["too late"])
    query.run(max_rows=None)
    assert {name[0] for name in query.delivered()} == {"a"}
    move(coordinator, query.table)
    with pytest.raises(InputError, match=f"inorder citus public.{query.table}"):
        query.run()
    prepare(nodes, tmp_path, query.table)
    coordinator.execute(insert, ["far too late"])
    query.run()
    kinds = Counter(name[0] for name in query.delivered())
    assert (kinds["a"], kinds["f"]) == (200, 0) and 0 < kinds["t"] < 200  # only rows of the moved shard
    query.restart()
    query.run()
    assert query.delivered() == stored(coordinator, query.table)


def test_the_handover_waits_for_writers_to_the_old_placement(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    insert = INSERT.format(query.table).encode()
    coordinator.execute(insert, ["a"])
    query.run()
    _, name, node = shards(coordinator, query.table)[0]
    move(coordinator, query.table)
    prepare(nodes, tmp_path, query.table)
    with connect(nodes.worker(node).dsn) as late:
        run(late, "SET citus.enable_manual_changes_to_shards = on", "BEGIN", f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE")
        coordinator.execute(insert, ["b"])
        query.run()
        assert query.offsets[-1].keys() == query.offsets[0].keys()
        assert query.delivered().total() > 200
    query.run()
    assert query.offsets[-1].keys() == places(coordinator, query.table)
    assert query.delivered() == stored(coordinator, query.table)


def test_the_error_about_a_removed_placement_names_the_setting(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    coordinator.execute(INSERT.format(query.table).encode(), ["a"])
    query.run()
    query.plan.close()
    move(coordinator, query.table)
    run(coordinator, "CALL citus_cleanup_orphaned_resources()")
    prepare(nodes, tmp_path, query.table)
    query.restart()
    with pytest.raises(InputError, match=r"citus\.defer_shard_delete_interval"):
        query.run()


def test_the_old_placement_is_kept_until_it_is_read(
    nodes: Nodes, coordinator: Connection, query: Query, tmp_path: Path
) -> None:
    """A running query prevents Citus from removing the old shard."""
    insert = INSERT.format(query.table).encode()
    coordinator.execute(insert, ["a"])
    move(coordinator, query.table)
    query.run(max_rows=20)  # the new shard is not readable yet, so there is no handover
    run(coordinator, "CALL citus_cleanup_orphaned_resources()")
    prepare(nodes, tmp_path, query.table)
    query.run()
    assert query.offsets[-1].keys() == places(coordinator, query.table)


@pytest.mark.parametrize("offset", [
    {"server": {"database": "d", "position": "{}"}},
    {"7@1": {"database": "d", "position": "{}", "shard": "{}"}},
    {"7@1": {"database": "d", "position": "{}", "shard": '{"id": 8, "group": 1, "low": 0, "high": 1}'}},
    {"7@1": {"database": "d", "position": "{}", "shard": '{"id": 7, "group": 1, "low": "0", "high": 1}'}},
])  # fmt: skip
def test_offsets_of_other_shards_or_databases_are_refused(
    coordinator: Connection, query: Query, offset: Offset
) -> None:
    (database,) = {position["database"] for position in query.offsets[0].values()}
    offsets = {key: position | {"database": database} for key, position in offset.items()}
    with pytest.raises(InputError, match="which is not a shard"):
        query.plan.next(offsets, None)
    with pytest.raises(InputError, match='belongs to the database "d"'):
        query.plan.next(offset, None)
    shard = {"id": 7, "group": 1, "low": 0, "high": 1}
    other = {"7@1": {"database": database, "position": "{}", "shard": json.dumps(shard)}}
    with pytest.raises(InputError, match="the table was distributed again"):
        query.plan.next(other, None)
    assert shards(coordinator, query.table)


def test_each_row_is_delivered_once_under_load(
    nodes: Nodes, coordinator: Connection, events: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason=NEEDED)
    if shutil.which("java") is None:
        pytest.skip("Spark requires Java: script/engines installs it")
    from load.engines.driver import Driver, await_batch, batches, read_to_the_end  # noqa: PLC0415
    from load.engines.stream import Stream  # noqa: PLC0415

    prepare(nodes, tmp_path, events)
    options: dict[str, object] = {"dsn": nodes.dsn, "table": events, "shards": "true", "parts": 2}
    stream = Stream([options], "tenant int, id bigint, n string", ["n"])
    chance = random.Random(seed := random.randrange(10**6))
    with Writers(nodes.dsn, events, seed).running():
        for which, (change, mode) in enumerate(((move, "force_logical"), (split, "block_writes"))):
            with killed_afterwards(Driver(tmp_path, stream)) as driver:
                await_batch(tmp_path, batches(tmp_path), driver)
                change(coordinator, events, mode, which)
                time.sleep(chance.random())
            with killed_afterwards(Driver(tmp_path, stream)) as driver:
                prepare(nodes, tmp_path, events)
                while last_offset(tmp_path).keys() != places(coordinator, events):
                    await_batch(tmp_path, batches(tmp_path), driver)
                time.sleep(chance.random())
    rows, stored_rows = read_to_the_end(tmp_path, stream), stored(coordinator, events)
    delivered = Counter({str(n): times for (n,), times in rows.items()})
    assert (delivered - stored_rows, stored_rows - delivered) == (Counter(), Counter())
    assert stored_rows.total() > 100


@contextmanager
def killed_afterwards(driver: "Driver") -> Iterator["Driver"]:
    try:
        yield driver
    finally:
        driver.kill()


def last_offset(folder: Path) -> Offset:
    logs = folder / "checkpoint" / "offsets"
    last = max(int(path.name) for path in logs.iterdir() if path.name.isdecimal())
    offset: Offset = json.loads((logs / str(last)).read_text().splitlines()[-1])
    return offset
