"""The insert experiment's steps on a real server."""

import tempfile
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from inorder.cluster import Cluster
from inorder.commands.lab import MOST_SECONDS
from inorder.database import connect
from inorder.lab import server_bench
from inorder.lab.counters import CheckpointMarks
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.keys import INDEX_KINDS
from inorder.lab.pgbench import PERCENTILES
from inorder.lab.server_bench import ServerBench
from inorder.servers import Server
from inorder.temporary import PREFIX, service_account, temporary_folder

from conftest import Silent

pytestmark = pytest.mark.server
ROWS = 60_000
INSERTS = 2_000
PLAN = InsertPlan(kinds=("bigint", "random"), rows=(ROWS,), inserts=INSERTS, clients=(4,), memory_bytes=2**20)
INDEXES = """
    SELECT t.relname::text, indisprimary, indisunique, spcname::text
    FROM pg_index JOIN pg_class AS t ON t.oid = indrelid JOIN pg_class AS i ON i.oid = indexrelid
    LEFT JOIN pg_tablespace AS s ON s.oid = i.reltablespace
    WHERE t.relnamespace = 'inorder_lab'::regnamespace ORDER BY 1"""


def test_fill_and_measure(server: Server) -> None:
    """Tables hold what was asked; every measurement follows a checkpoint and counts its own inserts alone."""
    filled = {}
    with Cluster(server) as cluster:
        bench = ServerBench(cluster, PLAN)
        bench.create(PLAN.kinds)
        bench.fill(PLAN.kinds, ROWS, filled.__setitem__)
        bench.serve_for_measuring()
        runs = [bench.measure("random", 4, seed, Silent()) for seed in (1, 2)]
        ordered = bench.measure("bigint", 4, 1, Silent())
        sizes = bench.sizes("random")
        with connect(cluster.dsn) as connection:
            rows = connection.execute("SELECT count(*) FROM inorder_lab.random").fetchone()
            settings = dict(connection.execute("SELECT name, setting FROM pg_settings").fetchall())
        bench.fill(PLAN.kinds, ROWS + INSERTS, filled.__setitem__)
        with connect(cluster.dsn) as connection:
            again = [
                connection.execute(f"SELECT count(*) FROM inorder_lab.{kind}".encode()).fetchone()
                for kind in PLAN.kinds
            ]
    assert again == [(ROWS + INSERTS,)] * 2  # also where two turns had made more of it
    assert set(filled) == {"bigint", "random"} and filled["random"]["index_bytes"] > 2**20
    assert rows == (ROWS + 2 * INSERTS,) and sizes["rows"] == ROWS + 2 * INSERTS
    for metrics, series in runs:  # without a checkpoint between, the second has few
        assert metrics["inserts"] == INSERTS
        assert metrics["full_page_images"] > 100
        assert metrics["index_reads"] > INSERTS / 2  # 1 MB of shared buffers hold a part of 2.5 MB of index
        # What pg_waldump finds is what the server has counted, but for the checkpoint's own records at the edges.
        assert metrics["record_bytes"] + metrics["image_bytes"] == pytest.approx(metrics["wal_bytes"], rel=0.02)
        assert metrics["full_page_images"] * 8192 >= metrics["image_bytes"] > metrics["full_page_images"] * 1000
        assert 100 < metrics["touched_blocks"] <= INSERTS * 1.1 and series["checkpoints"] == []
        assert sum(series["page_map"]) >= INSERTS and min(series["page_map"]) >= 0
        times = [metrics[name] for name in PERCENTILES if name in metrics]
        assert times and times == sorted(times) and times[0] > 0
        read, written = metrics.get("read_bytes"), metrics.get("written_bytes")
        assert (read is None) == (written is None) == (server.major < 16)
        if read is not None:  # of the whole server: the catalogs' blocks, too
            assert 0 <= read / 8192 - metrics["index_reads"] - metrics["heap_reads"] < 1000
            assert INSERTS / 4 < written / 8192 <= metrics["evictions"]  # most blocks that go have been changed
    assert ordered[0]["full_page_images"] < 20 and ordered[0]["touched_blocks"] < 20
    # Ordered keys are written at the end of the index alone, random ones all over it.
    places = ordered[1]["page_map"]
    assert sum(places[:-20]) < 0.01 * sum(places)  # the root, at each split
    assert min(sum(runs[0][1]["page_map"][part : part + 32]) for part in range(0, 256, 32)) > 0.05 * INSERTS
    assert settings["shared_buffers"] == "128" and settings["fsync"] == "on"
    assert settings.get("debug_io_direct", "") == ("data" if server.has_direct_io else "")


def test_wal_that_may_be_gone_is_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a turn into which a checkpoint of the server's own fell; what was counted stays."""
    monkeypatch.setattr(server_bench, "CHECKPOINT_WAL", 1)
    plan = replace(PLAN, kinds=("bigint",))
    with Cluster(server) as cluster:
        bench = ServerBench(cluster, plan)
        bench.create(plan.kinds)
        bench.serve_for_measuring()
        metrics, series = bench.measure("bigint", 4, 1, Silent())
        with connect(cluster.dsn) as connection:
            (timeout,) = connection.execute("SHOW checkpoint_timeout").fetchone() or ("",)
    assert metrics["wal_bytes"] > 1 and "record_bytes" not in metrics and "page_map" not in series
    assert timeout == "1d" and MOST_SECONDS < 24 * 3600  # none comes by the clock


def test_kinds_of_index_on_a_tablespace(server: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each index is of its kind and in the folder that was named, of which nothing is left."""
    with tempfile.TemporaryDirectory(dir=temporary_folder(service_account())) as name:
        folder = Path(name)
        folder.chmod(0o755)
        plan = replace(PLAN, kinds=("random",), indexes=tuple(INDEX_KINDS), tablespace=name)
        with Cluster(server) as cluster:
            bench = ServerBench(cluster, plan)
            bench.create(plan.variants)
            assert [path.name.startswith(PREFIX) for path in folder.iterdir() if path.is_dir()] == [True]
            with connect(cluster.dsn) as connection:
                found = connection.execute(INDEXES.encode()).fetchall()
            without = bench.measure("random_none", 1, 1, Silent())
        left = [path for path in folder.rglob("*") if path.is_dir()]
    assert found == [
        ("random", True, True, "inorder_indexes"),
        ("random_plain", False, False, "inorder_indexes"),
        ("random_unique", False, True, "inorder_indexes"),
    ]
    assert without[0]["inserts"] == INSERTS and "touched_blocks" not in without[0] and without[0]["index_reads"] == 0
    assert left == []


def test_a_checkpoint_during_a_run_is_marked(server: Server) -> None:
    """In the second in which it was seen to have ended."""
    with Cluster(server) as cluster:
        cluster.start()
        with connect(cluster.dsn) as connection:
            marks = CheckpointMarks(connection)
            marks.look()
            connection.execute("CREATE TABLE written (n int)")
            connection.execute("CHECKPOINT")
            marks.look()
            marks.look()
    assert marks.seconds == [2.0]


def test_a_failing_fill_ends_all_others(server: Server) -> None:
    """The error passes through, and no thread goes on inserting."""
    with Cluster(server) as cluster:
        bench = ServerBench(cluster, PLAN)
        bench.create(PLAN.kinds)
        with connect(cluster.dsn) as connection:
            connection.execute("DROP TABLE inorder_lab.bigint")
        with pytest.raises(psycopg.errors.UndefinedTable, match="bigint"):
            bench.fill(PLAN.kinds, 100 * ROWS, lambda kind, metrics: None)
        with connect(cluster.dsn) as connection:
            counts = [connection.execute("SELECT count(*) FROM inorder_lab.random").fetchone() for _ in range(2)]
        assert counts[0] == counts[1] and counts[0] is not None and int(str(counts[0][0])) < 100 * ROWS
