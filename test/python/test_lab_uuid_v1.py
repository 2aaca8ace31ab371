"""The uuid-v1 experiment: order of steps, ratios and published figures, the data, and a small run from start to end."""

import io
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from inorder.errors import InputError
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.uuid_v1 import UuidV1Experiment
from inorder.lab.experiments.uuid_v1.plan import (
    COPY_FROM,
    COPY_MORE,
    KINDS,
    RECENT,
    SIZES,
    SIZES_AFTER,
    STEPS,
    VACUUM_OLDEST,
    VACUUM_RANDOM,
    UuidV1Plan,
)
from inorder.lab.journal import load
from inorder.lab.progress import Progress
from inorder.lab.report.catalogue import Report, report_of
from inorder.lab.report.section import Value
from inorder.lab.report.wording import how_sure
from inorder.lab.results import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway
from inorder.servers import Server
from rich.console import Console

from conftest import scalar
from on_paper import empty_result
from tool import LabRun, inorder, surroundings

ROWS = 5000
TIMED = [step for step in STEPS if step not in (SIZES, SIZES_AFTER, RECENT)]


def test_the_steps_are_those_of_the_study() -> None:
    assert list(STEPS) == [
        "copy_from", "copy_more", "copy_to", "analyze", "sizes", "vacuum_oldest", "vacuum_random", "reindex",
        "sizes_after", "recent",
    ]  # fmt: skip


def made_up(rounds: int) -> Result:
    """A result in which uuid takes 8 times as long as uuid_v1, and reads where uuid_v1 does not."""
    result = empty_result(UuidV1Experiment, UuidV1Plan(rounds=rounds))
    for number in range(1, rounds + 1):
        for kind, factor in {"uuid_v1": 1.0, "uuid": 8.0, "uuid_v7": 1.1, "bigint": 0.9}.items():
            counted = {"wal_bytes": factor * 2**20, "full_page_images": 500.0, "index_reads": 60.0 * (kind == "uuid")}
            run = Run(COPY_FROM, kind, 10**7, number, {"seconds": number * 10 * factor, **counted})
            density = {"index_bytes": 2.0**20, "leaf_density": 70.0 if kind == "uuid" else 90.0}
            result.runs += [run, Run(SIZES, kind, 10**7, number, density)]
    return result


def line_of(result: Result, step: str, metric: str) -> list[Value]:
    """One line of the table: uuid_v1, uuid, uuid_v7, bigint, the ratio."""
    lines = [line for section in UuidV1Experiment.sections(result)[:2] for line in section.rows]
    (line,) = [line for line in lines if tuple(line[1:3]) == (step, metric)]
    return list(line[4:])


def beside(result: Result, name: str) -> list[list[str]]:
    """The published figures of a table with ours: of what, as published, the ratio there, ours, our ratio."""
    (section,) = (one for one in UuidV1Experiment.sections(result) if one.name == name)
    return section.of_columns(lambda column: column.page and "rows" not in column.name).shown()


def test_ratios_are_paired_and_the_published_ones_beside() -> None:
    result = made_up(6)
    uuid_v1, *_, ratio = line_of(result, COPY_FROM, "seconds")
    assert ratio == Estimate(8.0, 8.0, 8.0, 6)
    assert isinstance(uuid_v1, Estimate) and uuid_v1.median == 35.0
    uuid = line_of(result, COPY_FROM, "wal_bytes")[1]
    assert isinstance(uuid, Estimate) and uuid.median == 8.0
    assert line_of(result, COPY_FROM, "index_reads")[4] is None
    assert beside(result, "published_steps") == [
        ["COPY FROM, uuid v1", "7.80", "8.00 [8.00–8.00]"], ["index, uuid v1", "<70:80–90", "0.78 [0.78–0.78]"]
    ]  # fmt: skip


def test_rates_stand_beside_published_ones() -> None:
    result = made_up(1)
    result.runs.append(Run(COPY_MORE, "uuid", 10**7, 1, {"seconds": 20.0}))
    assert beside(result, "published_rates") == [
        ["COPY FROM, uuid_v1", "623,000", "", "1,000,000", ""],
        ["COPY FROM, uuid v1", "80,000", "0.13", "125,000", "0.12 (once)"],
        ["next 10 %, uuid v1", "26,000", "0.04", "50,000", ""],
    ]


def test_few_rounds_claim_nothing() -> None:
    claims = ["difference in time is claimed" in how_sure(made_up(rounds)) for rounds in (1, 5, 6)]
    assert claims == [True, True, False]


def test_the_table_fits_a_terminal() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    result = made_up(6)
    result.runs = [
        Run(r.step, r.kind, r.rows, r.round, {n: v * 100 if n == "seconds" else v for n, v in r.metrics.items()})
        for r in result.runs
    ]
    console.print(*Report(all_experiments()["uuid-v1"]).tables(result))
    text = console.export_text()
    assert "8.0 [8.0–8.0]" in text and "7.8" in text and "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


@pytest.mark.server
def test_the_data_and_what_is_deleted(server: Server) -> None:
    plan = UuidV1Plan(rows=ROWS, memory_bytes=2**25)
    total = ROWS + plan.more_rows
    with (
        Cluster(server) as cluster,
        closing(UuidV1Experiment(plan, ThrowAway(cluster), Progress())) as bench,
    ):
        bench.prepare()
        bench.write_keys()
        for kind in KINDS:
            bench.create(kind)
            for step in (COPY_FROM, COPY_MORE):
                bench.measure(kind, step, 1)
        one = bench.control
        both = "SELECT count(*) FROM inorder_lab.uuid_v1 AS a JOIN inorder_lab.uuid AS b ON b.id = a.id::uuid"
        assert scalar(one, both) == total
        ranked = (
            "SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY ctid) AS up FROM inorder_lab.{}) AS t WHERE up"
        )
        for kind in ("uuid_v1", "uuid_v7", "bigint"):
            assert scalar(one, ranked.format(kind)) == total - 1
        assert scalar(one, "SELECT count(DISTINCT uuid_v1_get_node(id)) FROM inorder_lab.uuid_v1") == 9
        assert scalar(one, "SELECT count(DISTINCT uuid_v1_get_clockseq(id)) FROM inorder_lab.uuid_v1") == 9
        days = (
            "SELECT extract(epoch FROM uuid_v1_get_timestamp(max(id)) - uuid_v1_get_timestamp(min(id))) / 86400 "
            "FROM inorder_lab.uuid_v1"
        )
        assert 364 < float(str(scalar(one, days))) <= 365
        same = (
            "SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY ctid) AS n FROM inorder_lab.uuid_v1) AS a "
            "JOIN (SELECT id, row_number() OVER (ORDER BY ctid) AS n FROM inorder_lab.uuid_v7) AS b USING (n) "
            "WHERE abs(extract(epoch FROM uuid_v1_get_timestamp(a.id) - uuid_v7_time(b.id))) < 0.002"
        )
        assert scalar(one, same) == total
        assert bench.measure("bigint", VACUUM_OLDEST, 1)["deleted"] == total // 10
        assert scalar(one, "SELECT min(id) FROM inorder_lab.bigint") == total // 10 + 1
        assert 350 < bench.measure("bigint", VACUUM_RANDOM, 1)["deleted"] < 640


@pytest.mark.long
@pytest.mark.server
def test_nodes_with_clocks_apart_and_keys_of_ones_own(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    for plan in (
        UuidV1Plan(rows=ROWS, nodes=3, lag=7 * 86_400, memory_bytes=2**25),
        UuidV1Plan(rows=ROWS // 2, file=str(file), memory_bytes=2**25),
    ):
        with Cluster(server) as cluster, closing(UuidV1Experiment(plan, ThrowAway(cluster), Progress())) as bench:
            bench.prepare()
            bench.write_keys()
            for kind in KINDS:
                bench.create(kind)
                assert all(bench.measure(kind, step, 1)["blocks_per_row"] >= 1 for step in (COPY_FROM, COPY_MORE))
            arrived = "SELECT id::text FROM inorder_lab.uuid ORDER BY ctid"
            keys = [uuid.UUID(str(row[0])) for row in bench.control.execute(arrived.encode())]
            late = sum(key.time < before.time for before, key in pairwise(keys))
            assert len({key.node for key in keys}) == 3 and late > plan.total // 10
            if plan.file:
                assert "\n".join(map(str, keys)) == "\n".join(file.read_text().splitlines()[: plan.total])
                file.write_text(f"{keys[0]}\n")
                with pytest.raises(InputError, match="has 1 keys, --rows 2,500 needs 2,750"):
                    bench.read_own()
            else:
                file.write_text("".join(f"{key}\n" for key in keys))
            recent = {kind: bench.measure(kind, RECENT, 1) for kind in KINDS}
            counted = {kind: one["found"] for kind, one in recent.items() if one}
            assert len(set(counted.values())) == 1 and counted["uuid"] > plan.total // 20
            assert recent["bigint"] == {}
            assert [kind for kind, one in recent.items() if "time_index_bytes" in one] == ["uuid"]
            result = made_up(6)
            holds = UuidV1Experiment.verdicts(replace(result, plan=plan.as_dict()))[0].holds
            assert ("of keys.txt" in holds) == bool(plan.file) != ("3 nodes, clocks up to 604800 s apart" in holds)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--file", "none.txt"), "none.txt is not a file"),
        (("--lag", "soon"), "--lag must be from 0 to 86,400 seconds"),
        (("--quick", "--full"), "--quick excludes --full"),
        (("--rows", "999"), "--rows must be a number from 1,000"),
        (("--rows", "10G"), "10,000,000,000 rows, their files and their WAL need about"),
        (("--memory", "1kB"), "--memory must be a number from"),
        (("--out", "no/such/r.json"), "cannot write no/such/r.json"),
    ],
)
def test_bad_options_are_one_clear_sentence(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = inorder("lab", "run", "uuid-v1", *arguments, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.server
def test_ctrl_c_prints_and_keeps_what_was_measured(tmp_path: Path, server: Server, shared_folder: Path) -> None:
    command = [sys.executable, "-m", "inorder", "lab", "run", "uuid-v1", "--rows", "400k", "--rounds", "50"]
    path = tmp_path / "inorder-uuid-v1.jsonl"
    for wait_for_steps in (False, True):
        folder, pattern = (tmp_path, path.name) if wait_for_steps else (shared_folder, "inorder-*/keys")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=surroundings(server, shared_folder),
        ) as running:  # fmt: skip
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and not list(folder.glob(pattern)):
                time.sleep(0.05)
            time.sleep(0.5)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=120)
        assert running.returncode == 130, err
        assert "interrupted" in err and "Traceback" not in err
        assert ("COPY FROM, s" in out) == wait_for_steps == path.exists()
        assert list(shared_folder.iterdir()) == []
    result = load(path)
    assert not result.complete and result.select(COPY_FROM)


@pytest.mark.server
def test_a_small_run_from_start_to_end(lab_run: LabRun) -> None:
    result, printed = lab_run(f"uuid-v1 --rows {ROWS} --memory 32MB")
    assert Counter((run.step, run.kind) for run in result.runs) == Counter((s, k) for s in STEPS for k in KINDS)
    wanted = {"seconds", "wal_bytes", "full_page_images", "index_reads"}
    assert all(wanted <= run.metrics.keys() for run in result.runs if run.step in TIMED)
    freed = {run.kind: run.metrics["pages_freed"] for run in result.select(VACUUM_OLDEST)}
    assert freed["uuid"] == 0 < min(freed["uuid_v1"], freed["uuid_v7"], freed["bigint"])
    for word in ("COPY FROM, s", "next 10 %, s", "COPY TO, s", "ANALYZE, s", "VACUUM oldest, s", "REINDEX, s", "23.8"):
        assert word in printed
    records = report_of(result).records(result)
    assert {record["step"] for record in records if not record["table"].startswith("published")} == set(STEPS)
