"""The nodes experiment: the contents of its files, and the number of late rows."""

import uuid
from pathlib import Path

import pytest
from inorder.installations import Installation
from inorder.lab.experiments.nodes import V1, V7, NodesExperiment, NodesPlan
from inorder.lab.plan.turn import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

PLAN = NodesPlan(kinds=(V1, V7), rows=80_000, lag=(0, 0.05, 5), nodes=4, memory_bytes=2**22)


def late(keys: list[tuple[int, ...]]) -> int:
    count, greatest = 0, keys[0]
    for key in keys:
        count += key < greatest
        greatest = max(greatest, key)
    return count


def keys_in(files: tuple[Path, Path], kind: str) -> list[tuple[int, ...]]:
    values = [uuid.UUID(line) for file in files for line in file.read_text().splitlines()]
    if kind == V1:
        return [(value.time, value.clock_seq, value.node) for value in values]
    return [(value.int,) for value in values]


@pytest.mark.server
def test_late_rows_touch_more_blocks_and_write_more_wal(server: Installation) -> None:
    with Cluster(server) as cluster:
        experiment = NodesExperiment(PLAN, ThrowAway(cluster), Progress())
        experiment.prepare()
        for kind in PLAN.kinds:
            files = {lag: experiment.files(kind, lag) for lag in PLAN.lag}
            assert [len(file.read_text().splitlines()) for file in files[5]] == [80_000, 40_000]
            measured = {lag: experiment.measure(kind, lag, 1) for lag in PLAN.lag}
            for lag, metrics in measured.items():
                assert metrics["late"] == late(keys_in(files[lag], kind))
            blocks = {
                lag: (metrics["index_hits"] + metrics["index_reads"]) / 40_000 for lag, metrics in measured.items()
            }
            assert measured[0]["late"] == 0 and blocks[0] == pytest.approx(1, abs=0.1)
            assert measured[5]["late"] > 80_000 and blocks[5] > 2.9
            assert blocks[0.05] < 1.5  # late by 50 rows, all in the last leaf page
            assert measured[0]["leaf_density"] > 88 and measured[5]["leaf_density"] < 76
            assert measured[5]["wal_bytes"] > measured[0]["wal_bytes"]
