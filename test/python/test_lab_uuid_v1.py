"""The uuid-v1 experiment: the order of its steps, ratios and published figures, its data, and a small run."""

import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from inorder.commands.catalogue import report_of
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.experiments.uuid_v1 import (
    COPY_FROM,
    COPY_MORE,
    KINDS,
    RECENT,
    SIZES,
    SIZES_AFTER,
    STEPS,
    VACUUM_OLDEST,
    VACUUM_RANDOM,
    UuidV1Experiment,
    UuidV1Plan,
)
from inorder.lab.plan.turn import Progress
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import empty_result
from tool import LabRun
from world.sql import value

ROWS = 5000
TIMED = [step for step in STEPS if step not in (SIZES, SIZES_AFTER, RECENT)]


def made_up(rounds: int) -> Result:
    result = empty_result(UuidV1Experiment, UuidV1Plan(rounds=rounds))
    for number in range(1, rounds + 1):
        for kind, factor in {"uuid_v1": 1.0, "uuid": 8.0, "uuid_v7": 1.1, "bigint": 0.9}.items():
            counted = {"wal_bytes": factor * 2**20, "full_page_images": 500.0, "index_reads": 60.0 * (kind == "uuid")}
            run = Run(COPY_FROM, kind, 10**7, number, {"seconds": number * 10 * factor, **counted})
            density = {"index_bytes": 2.0**20, "leaf_density": 70.0 if kind == "uuid" else 90.0}
            result.runs += [run, Run(SIZES, kind, 10**7, number, density)]
    return result


@pytest.mark.server
def test_all_kinds_have_the_same_rows_and_times(server: Installation) -> None:
    plan = UuidV1Plan(rows=ROWS, memory_bytes=2**25)
    total = ROWS + plan.more_rows
    with (
        Cluster(server) as cluster,
        closing(UuidV1Experiment(plan, ThrowAway(cluster), Progress())) as bench,
    ):
        bench.prepare()
        for kind in KINDS:
            bench.create(kind)
            for step in (COPY_FROM, COPY_MORE):
                bench.measure(kind, step, 1)
        session = bench.control
        both = "SELECT count(*) FROM inorder_lab.uuid_v1 AS a JOIN inorder_lab.uuid AS b ON b.id = a.id::uuid"
        assert value(session, both) == total
        ranked = (
            "SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY ctid) AS up FROM inorder_lab.{}) AS t WHERE up"
        )
        for kind in ("uuid_v1", "uuid_v7", "bigint"):
            assert value(session, ranked.format(kind)) == total - 1
        assert value(session, "SELECT count(DISTINCT uuid_v1_get_node(id)) FROM inorder_lab.uuid_v1") == 9
        assert value(session, "SELECT count(DISTINCT uuid_v1_get_clockseq(id)) FROM inorder_lab.uuid_v1") == 9
        days = (
            "SELECT extract(epoch FROM uuid_v1_get_timestamp(max(id)) - uuid_v1_get_timestamp(min(id))) / 86400 "
            "FROM inorder_lab.uuid_v1"
        )
        assert 364 < float(str(value(session, days))) <= 365
        same = (
            "SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY ctid) AS n FROM inorder_lab.uuid_v1) AS a "
            "JOIN (SELECT id, row_number() OVER (ORDER BY ctid) AS n FROM inorder_lab.uuid_v7) AS b USING (n) "
            "WHERE abs(extract(epoch FROM uuid_v1_get_timestamp(a.id) - uuid_v7_time(b.id))) < 0.002"
        )
        assert value(session, same) == total
        assert bench.measure("bigint", VACUUM_OLDEST, 1)["deleted"] == total // 10
        assert value(session, "SELECT min(id) FROM inorder_lab.bigint") == total // 10 + 1
        assert 350 < bench.measure("bigint", VACUUM_RANDOM, 1)["deleted"] < 640


@pytest.mark.server
def test_keys_come_from_several_nodes_or_from_a_file(server: Installation, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    for plan in (
        UuidV1Plan(rows=ROWS, nodes=3, lag=7 * 86_400, memory_bytes=2**25),
        UuidV1Plan(rows=ROWS // 2, file=str(file), memory_bytes=2**25),
    ):
        with Cluster(server) as cluster, closing(UuidV1Experiment(plan, ThrowAway(cluster), Progress())) as bench:
            bench.prepare()
            for kind in KINDS:
                bench.create(kind)
                assert all(bench.measure(kind, step, 1)["blocks_per_row"] >= 1 for step in (COPY_FROM, COPY_MORE))
            arrived = "SELECT id::text FROM inorder_lab.uuid ORDER BY ctid"
            keys = [uuid.UUID(str(row[0])) for row in bench.control.execute(arrived.encode())]
            late = sum(key.time < before.time for before, key in pairwise(keys))
            assert len({key.node for key in keys}) == 3 and late > plan.total // 10
            if plan.file:
                assert "\n".join(map(str, keys)) == "\n".join(file.read_text().splitlines()[: plan.total])
                wrong = {str(keys[0]): "has 1 keys, and 2,750 are needed", "x": "a line is not a UUID of 36",
                         str(uuid.uuid4()): "not a UUID of version 1"}  # fmt: skip
                for text, error in wrong.items():
                    file.write_text(f"{text}\n")
                    with pytest.raises(InputError, match=error):
                        bench.write_keys("uuid")
            else:
                file.write_text("".join(f"{key}\n" for key in keys))
            recent = {kind: bench.measure(kind, RECENT, 1) for kind in KINDS}
            counted = {kind: metrics["found"] for kind, metrics in recent.items() if metrics}
            assert len(set(counted.values())) == 1 and counted["uuid"] > plan.total // 20
            assert recent["bigint"] == {}
            assert [kind for kind, metrics in recent.items() if "time_index_bytes" in metrics] == ["uuid"]
            result = made_up(6)
            holds = UuidV1Experiment.verdicts(replace(result, plan=plan.as_dict()))[0].holds
            assert ("of keys.txt" in holds) == bool(plan.file) != ("3 nodes, clocks up to 604800 s apart" in holds)


@pytest.mark.server
def test_two_kinds_can_be_measured_with_a_small_max_wal_size(server: Installation, lab_run: LabRun) -> None:
    """The files contain keys of one kind at a time. Steps that were not measured have no columns and no ratios."""
    result, printed = lab_run(f"uuid-v1 --rows {ROWS} --memory 32MB --keys uuid_v7,uuid --max-wal-size 32MB")
    assert {run.kind for run in result.runs} == {"uuid", "uuid_v7"} and "bigint" not in printed
    plan = UuidV1Plan(rows=ROWS, memory_bytes=2**25, max_wal_size=2**25)
    with Cluster(server) as cluster, closing(UuidV1Experiment(plan, ThrowAway(cluster), Progress())) as bench:
        bench.prepare()
        for kind in KINDS:
            bench.create(kind)
            assert [file.exists() for file in bench.files] == [True, True]
            assert bench.measure(kind, COPY_FROM, 1)["wal_bytes"] > 0
            bench.drop(kind)
            assert list(bench.folder.iterdir()) == []
        assert value(bench.control, "SHOW max_wal_size") == "32MB"


@pytest.mark.server
def test_a_small_run_completes(lab_run: LabRun) -> None:
    result, printed = lab_run(f"uuid-v1 --rows {ROWS} --memory 32MB")
    assert Counter((run.step, run.kind) for run in result.runs) == Counter((s, k) for s in STEPS for k in KINDS)
    required_metrics = {"seconds", "wal_bytes", "full_page_images", "index_reads"}
    assert all(required_metrics <= run.metrics.keys() for run in result.runs if run.step in TIMED)
    freed = {run.kind: run.metrics["pages_freed"] for run in result.select(VACUUM_OLDEST)}
    assert freed["uuid"] == 0 < min(freed["uuid_v1"], freed["uuid_v7"], freed["bigint"])
    for word in ("COPY FROM, s", "next 10 %, s", "COPY TO, s", "ANALYZE, s", "VACUUM oldest, s", "REINDEX, s", "23.8"):
        assert word in printed
    records = report_of(result).records(result)
    assert {record["step"] for record in records if not record["table"].startswith("published")} == set(STEPS)
