"""The uuid-v1 experiment: order of steps, ratios and published figures, the data, and a small run from start to end."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from inorder.cluster import Cluster
from inorder.lab.experiments import uuid_v1 as experiment
from inorder.lab.experiments.uuid_v1 import KINDS, STEPS, UuidV1Plan, run_uuid_v1
from inorder.lab.results import Result, Run, load
from inorder.lab.uuid_v1_bench import FileBench
from inorder.report.catalogue import REPORTS
from inorder.report.certainty import how_sure
from inorder.report.uuid_v1 import PUBLISHED, SOURCE, UuidV1Row, summarise_uuid_v1, uuid_v1_sections
from inorder.servers import Server
from rich.console import Console

from conftest import Silent, scalar
from test_cli import inorder, surroundings

ROWS = 5000
TIMED = [step for step in STEPS if step not in (experiment.SIZES, experiment.SIZES_AFTER)]


class OnPaper:
    """A bench that only writes down what it is asked."""

    def __init__(self, interrupt_at: int = 0) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.left = interrupt_at

    def prepare(self) -> None:
        """Noted."""
        self.asked.append(("prepare",))

    def create(self, kind: str) -> None:
        """Noted."""
        self.asked.append(("create", kind))

    def measure(self, kind: str, step: str) -> dict[str, float]:
        """Noted; the interrupt comes here."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        self.asked.append((step, kind))
        return {"seconds": 1.0}

    def drop(self, kind: str) -> None:
        """Noted."""
        self.asked.append(("drop", kind))


def empty_result(plan: UuidV1Plan) -> Result:
    """Nothing measured yet."""
    return Result(experiment.NAME, "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")


def test_every_kind_goes_through_all_steps_in_order() -> None:
    """The data once; in each round each kind once, in changing order; no two kinds' steps mixed."""
    plan, bench, saves = UuidV1Plan(rounds=12), OnPaper(), []
    result = empty_result(plan)
    run_uuid_v1(plan, bench, result, Silent(), lambda: saves.append(len(result.runs)))
    assert bench.asked[0] == ("prepare",)
    life = ["create", *STEPS, "drop"]
    lives = [bench.asked[1 + n * len(life) : 1 + (n + 1) * len(life)] for n in range(12 * len(KINDS))]
    assert all([step for step, _ in one] == life and len({kind for _, kind in one}) == 1 for one in lives)
    turns = [one[0][1] for one in lives]
    rounds = [tuple(turns[start : start + len(KINDS)]) for start in range(0, len(turns), len(KINDS))]
    assert all(Counter(one) == Counter(list(KINDS)) for one in rounds) and len(set(rounds)) > 3
    assert saves == [*range(1, len(result.runs) + 1), len(result.runs)] and result.complete


def test_the_steps_are_those_of_the_study() -> None:
    """COPY, a further COPY, COPY TO, ANALYZE, sizes, both VACUUMs, REINDEX, sizes."""
    assert list(STEPS) == [
        "copy_from", "copy_more", "copy_to", "analyze", "sizes", "vacuum_oldest", "vacuum_random", "reindex",
        "sizes_after",
    ]  # fmt: skip


def test_an_interrupt_keeps_the_steps_before_it() -> None:
    """And the table can be shown."""
    plan = UuidV1Plan()
    result = empty_result(plan)
    with pytest.raises(KeyboardInterrupt):
        run_uuid_v1(plan, OnPaper(interrupt_at=4), result, Silent(), lambda: None)
    assert [run.step for run in result.runs] == ["copy_from", "copy_more", "copy_to"] and not result.complete
    assert [len(section.rows) for section in uuid_v1_sections(result)] == [3, 2]


def test_a_round_that_was_cut_off_begins_anew() -> None:
    """With the kinds that were whole in it: ratios are paired within a round, of one server."""
    plan, result, resumed = UuidV1Plan(rounds=2), empty_result(UuidV1Plan(rounds=2)), OnPaper()
    a_round = len(KINDS) * len(STEPS)
    with pytest.raises(KeyboardInterrupt):
        run_uuid_v1(plan, OnPaper(interrupt_at=a_round + len(STEPS) + 2), result, Silent(), lambda: None)
    run_uuid_v1(plan, resumed, result, Silent(), lambda: None)
    assert sum(words[0] in STEPS for words in resumed.asked) == a_round
    assert Counter((run.kind, run.step) for run in result.runs) == {(k, s): 2 for k in KINDS for s in STEPS}


def made_up(rounds: int) -> Result:
    """A result in which uuid takes 8 times as long as uuid_v1, and reads where uuid_v1 does not."""
    result = empty_result(UuidV1Plan(rounds=rounds))
    for number in range(1, rounds + 1):
        for kind, factor in {"uuid_v1": 1.0, "uuid": 8.0, "uuid_v7": 1.1, "bigint": 0.9}.items():
            counted = {"wal_bytes": factor * 2**20, "full_page_images": 500.0, "index_reads": 60.0 * (kind == "uuid")}
            run = Run(experiment.COPY_FROM, kind, 10**7, number, {"seconds": number * 10 * factor, **counted})
            density = {"index_bytes": 2.0**20, "leaf_density": 70.0 if kind == "uuid" else 90.0}
            result.runs += [run, Run(experiment.SIZES, kind, 10**7, number, density)]
    return result


def row_of(result: Result, step: str, metric: str) -> UuidV1Row:
    """One row of the summary."""
    (row,) = [row for row in summarise_uuid_v1(result) if (row.step, row.metric) == (step, metric)]
    return row


def test_ratios_are_paired_and_the_published_ones_beside() -> None:
    """Of uuid to uuid_v1, none where uuid_v1 has nothing; empty where nothing was published."""
    result = made_up(6)
    seconds = row_of(result, experiment.COPY_FROM, "seconds")
    assert seconds.ratio and (seconds.ratio.low, seconds.ratio.median, seconds.ratio.high) == (8.0, 8.0, 8.0)
    assert seconds.uuid_v1 and seconds.uuid_v1.median == 35.0
    assert (seconds.published, seconds.published_source) == ("7.8", SOURCE)
    wal = row_of(result, experiment.COPY_FROM, "wal_bytes")
    assert wal.uuid and (wal.uuid.median, wal.published, wal.published_source) == (8.0, "", "")
    assert row_of(result, experiment.COPY_FROM, "index_reads").ratio is None
    assert row_of(result, experiment.SIZES, "leaf_density").published == "<70:80–90"


def test_the_published_figures_are_those_of_the_study() -> None:
    """P4 has rates for the next rows: 623 k to 26 k rows a second; the rest are ratios."""
    seconds = {step: text for (step, metric), text in PUBLISHED.items() if metric == "seconds"}
    assert seconds == {
        "copy_from": "7.8", "copy_more": f"{618 / 26:.1f}", "copy_to": "1.5", "analyze": "1",
        "vacuum_oldest": "4–5", "vacuum_random": "4–5", "reindex": "1.1–1.2",
    }  # fmt: skip


def test_rates_stand_beside_published_ones() -> None:
    """Rows a second of uuid_v1 and of uuid; of the further rows a tenth of them are meant."""
    result = made_up(1)
    result.runs.append(Run(experiment.COPY_MORE, "uuid", 10**7, 1, {"seconds": 20.0}))
    (section,) = (one for one in uuid_v1_sections(result) if one.name == "published_rates")
    assert section.shown() == [
        ["COPY FROM, 10 M", "1,000,000", "623,000", "125,000", "80,000"],
        ["next 10 %, 1 M", "", "618,000", "50,000", "26,000"],
    ]


def test_few_rounds_claim_nothing() -> None:
    """And say so."""
    claims = ["difference in time is claimed" in how_sure(made_up(rounds)) for rounds in (1, 5, 6)]
    assert claims == [True, True, False]


def test_the_table_fits_a_terminal() -> None:
    """80 columns, with intervals."""
    console = Console(width=80, record=True, file=io.StringIO())
    result = made_up(6)
    result.runs = [
        Run(r.step, r.kind, r.rows, r.round, {n: v * 100 if n == "seconds" else v for n, v in r.metrics.items()})
        for r in result.runs
    ]
    console.print(*REPORTS[experiment.NAME].tables(result))
    text = console.export_text()
    assert "8.0 [8.0–8.0]" in text and "7.8" in text and "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


@pytest.mark.server
def test_the_data_and_what_is_deleted(server: Server) -> None:
    """The same moments in three layouts, ascending over a year, from 9 nodes; the oldest tenth is the oldest."""
    plan = UuidV1Plan(rows=ROWS, memory_bytes=2**25)
    total = ROWS + plan.more_rows
    with Cluster(server) as cluster, closing(FileBench(cluster, plan)) as bench:
        bench.prepare()
        for kind in KINDS:
            bench.create(kind)
            for step in (experiment.COPY_FROM, experiment.COPY_MORE):
                bench.measure(kind, step)
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
        assert bench.measure("bigint", experiment.VACUUM_OLDEST)["deleted"] == total // 10
        assert scalar(one, "SELECT min(id) FROM inorder_lab.bigint") == total // 10 + 1
        assert 350 < bench.measure("bigint", experiment.VACUUM_RANDOM)["deleted"] < 640


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--quick", "--full"), "--quick and --full exclude each other"),
        (("--rows", "999"), "--rows must be a number from 1,000"),
        (("--rows", "10G"), "10,000,000,000 rows, their files and their WAL need about"),
        (("--memory", "1kB"), "--memory must be a number from"),
        (("--out", "no/such/r.json"), "cannot write no/such/r.json"),
    ],
)
def test_bad_options_are_one_clear_sentence(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, and nothing written."""
    done = inorder("lab", "run", "uuid-v1", *arguments, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.server
def test_ctrl_c_prints_and_keeps_what_was_measured(tmp_path: Path, server: Server, shared_folder: Path) -> None:
    """Also while the keys are being made: exit code 130, a result marked incomplete if there is one, no leftovers."""
    command = [sys.executable, "-m", "inorder", "lab", "run", "uuid-v1", "--rows", "400k", "--rounds", "50"]
    path = tmp_path / "inorder-uuid-v1.json"
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
    assert not result.complete and result.select(experiment.COPY_FROM)


@pytest.mark.server
def test_a_small_run_from_start_to_end(tmp_path: Path, server: Server, shared_folder: Path) -> None:
    """Every step of every kind in the file and the table; reported again in every format; nothing left behind."""
    done = inorder(
        "lab", "run", "uuid-v1", "--rows", str(ROWS), "--memory", "32MB",
        folder=tmp_path, server=server, temporary=shared_folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["inorder-uuid-v1.json"]
    assert list(shared_folder.iterdir()) == []
    result = load(tmp_path / "inorder-uuid-v1.json")
    assert result.complete
    assert Counter((run.step, run.kind) for run in result.runs) == Counter((s, k) for s in STEPS for k in KINDS)
    wanted = {"seconds", "wal_bytes", "full_page_images", "index_reads"}
    assert all(wanted <= run.metrics.keys() for run in result.runs if run.step in TIMED)
    freed = {run.kind: run.metrics["pages_freed"] for run in result.select(experiment.VACUUM_OLDEST)}
    assert freed["uuid"] == 0 < min(freed["uuid_v1"], freed["uuid_v7"], freed["bigint"])
    for word in ("COPY FROM, s", "next 10 %, s", "COPY TO, s", "ANALYZE, s", "VACUUM oldest, s", "REINDEX, s", "23.8"):
        assert word in done.stdout
    again = inorder("lab", "report", "inorder-uuid-v1.json", folder=tmp_path)
    assert again.stdout == done.stdout
    records = json.loads(inorder("lab", "report", "inorder-uuid-v1.json", "--format", "json", folder=tmp_path).stdout)
    assert {record["step"] for record in records if record["table"] != "published_rates"} == set(STEPS)
    lines = inorder("lab", "report", "inorder-uuid-v1.json", "--format", "csv", folder=tmp_path).stdout
    assert len(list(csv.DictReader(io.StringIO(lines)))) == len(records)
