"""The insert experiment's steps on a real server."""

import psycopg
import pytest
from inorder.cluster import Cluster
from inorder.database import connect
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.server_bench import ServerBench
from inorder.servers import Server

from conftest import Silent

pytestmark = pytest.mark.server
ROWS = 60_000
INSERTS = 2_000
PLAN = InsertPlan(kinds=("bigint", "random"), rows=(ROWS,), inserts=INSERTS, clients=4, memory_bytes=2**20)


def test_fill_and_measure(server: Server) -> None:
    """Tables hold what was asked; every measurement follows a checkpoint and counts its own inserts alone."""
    filled = {}
    with Cluster(server) as cluster:
        bench = ServerBench(cluster, PLAN)
        bench.create(PLAN.kinds)
        bench.fill(PLAN.kinds, ROWS, filled.__setitem__)
        bench.serve_for_measuring()
        runs = [bench.measure("random", seed, Silent()) for seed in (1, 2)]
        ordered = bench.measure("bigint", 1, Silent())
        sizes = bench.sizes("random")
        with connect(cluster.dsn) as connection:
            rows = connection.execute("SELECT count(*) FROM inorder_lab.random").fetchone()
            settings = dict(connection.execute("SELECT name, setting FROM pg_settings").fetchall())
    assert set(filled) == {"bigint", "random"} and filled["random"]["index_bytes"] > 2**20
    assert rows == (ROWS + 2 * INSERTS,) and sizes["rows"] == ROWS + 2 * INSERTS
    for run in runs:  # were the second not preceded by a checkpoint, its pages would have been written whole before
        assert run.metrics["inserts"] == INSERTS
        assert run.metrics["full_page_images"] > 100
        assert run.metrics["index_reads"] > INSERTS / 2  # 1 MB of shared buffers hold a part of 2.5 MB of index
    assert ordered.metrics["full_page_images"] < 20
    assert settings["shared_buffers"] == "128" and settings["fsync"] == "on"
    assert settings.get("debug_io_direct", "") == ("data" if server.has_direct_io else "")


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
