"""Tests of bench/: steps of its experiments, the adapter for a harness, and pages generated from recorded runs."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, one_row
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.plan.turn import Progress
from inorder.lab.results.journal import load
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

import delivery
import groups
import masks
import pictures
import pieces
import prepared
import price
import queues_page
import tail
import workers
from conftest import ROOT
from replay import RECORDED
from study_pages import with_parts
from tool import surroundings
from waiting import PATIENCE

FOLDER = ROOT / "bench" / "harness"
REQUIRED = {"claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate", "queue_depth"}
JOBS = 30
RUNS = {
    "delivery": ("--rate 20 --seconds 1 --rounds 1 --intervals 10ms", "at 20 commits a second"),
    "pieces": ("--rows 10k --piece-rows 5k --rounds 1 --forms uuid,ordered",
               "10,000 rows of one transaction, in 2 pieces of 5,000"),
    "tail": ("--rows 2k --batch-rows 1k --rounds 1", "2,000 rows of 60 bytes into a file, as CSV"),
    "workers": ("--rows 40 --workers 1,2 --rounds 1", "40 rows in batches of 20, and 1,000 µs to process"),
}  # fmt: skip


def with_benchmarks(*arguments: str, folder: Path, server: Installation | None = None) -> str:
    """Return the output of a Python process that can also load the experiments of bench/."""
    environment = surroundings(server, None) | {"INORDER_EXPERIMENTS": str(ROOT / "bench")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def test_reports_of_recorded_benchmarks_have_the_recorded_tables(tmp_path: Path) -> None:
    program = "import sys; from inorder.cli import cli; "
    program += "[cli(['lab', 'report', file, '--format', 'json'], standalone_mode=False) for file in sys.argv[1:]]"
    files = [RECORDED / "bench" / f"{name}.json.gz" for name in RUNS]
    printed = with_benchmarks("-c", program, *map(str, files), folder=tmp_path)
    for file in files:
        tables = json.loads(gzip.decompress((RECORDED / "bench" / "tables" / file.name).read_bytes()))
        rows, end = json.JSONDecoder().raw_decode(printed)
        assert rows == [row for table in tables for row in table["data"]], file.name
        printed = printed[end:].lstrip()
    assert not printed


@pytest.mark.server
@pytest.mark.parametrize("name", RUNS)
def test_a_small_run_completes(name: str, server: Installation, tmp_path: Path) -> None:
    options, message = RUNS[name]
    assert message in " ".join(
        with_benchmarks("-m", "inorder", "lab", "run", name, *options.split(), folder=tmp_path, server=server).split()
    )
    (file,) = tmp_path.iterdir()
    assert load(file).complete


DELIVERY = delivery.DeliveryPlan(rate=50, writers=2, seconds=1, intervals=(0.02,))
WORK = workers.WorkersPlan(workers=(1, 3), rows=60, batch_rows=7, call_us=1000)


@pytest.mark.parametrize("rows", [[1], [1, 2, 2], [1, 3]])
def test_missing_or_repeated_rows_are_an_error(rows: list[int]) -> None:
    with pytest.raises(InorderError, match=f"{len(rows)} rows were delivered, not the 2 committed rows"):
        delivery.delays_ms({1: 10.0, 2: 10.0}, [(11.0, rows)])


@pytest.fixture
def delivering(server: Installation) -> Iterator[delivery.DeliveryExperiment]:
    with Cluster(server) as cluster:
        experiment = delivery.DeliveryExperiment(DELIVERY, ThrowAway(cluster), Progress())
        experiment.prepare()
        yield experiment
        experiment.close()


@pytest.mark.server
@pytest.mark.parametrize("kind", DELIVERY.kinds)
def test_each_row_is_delivered_after_its_commit(delivering: delivery.DeliveryExperiment, kind: str) -> None:
    for seed in (1, 2):
        metrics = delivering.load(kind, seed)
        assert 0 < metrics["p50_ms"] <= metrics["p99_ms"] <= metrics["most_ms"]
        assert metrics["server_percent"] > 0 and metrics["client_percent"] > 0
    idle = delivering.idle(kind, 0)
    assert idle["reads"] < 60
    (behind,) = delivering.session.execute("SELECT count(*) FROM feeds WHERE name = %s", (delivery.FEED,)).fetchall()
    assert behind == (1,)


@pytest.fixture
def working(server: Installation) -> Iterator[workers.WorkersExperiment]:
    with Cluster(server) as cluster:
        experiment = workers.WorkersExperiment(WORK, ThrowAway(cluster), Progress())
        experiment.prepare()
        yield experiment
        experiment.close()


@pytest.mark.server
def test_each_row_is_processed_once(working: workers.WorkersExperiment) -> None:
    assert working.work(1, 0)["seconds"] > 0.06
    shared = working.work(3, 0)
    assert shared["seconds"] > 0.02 and 0 <= shared["least_share"] <= 1


@pytest.mark.server
def test_rows_processed_twice_are_an_error(working: workers.WorkersExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    process = workers.WorkersExperiment.process

    def twice(experiment: workers.WorkersExperiment, session: Connection, number: int) -> list[str]:
        done = process(experiment, session, number)
        return [*done, *done[:3]]

    monkeypatch.setattr(workers.WorkersExperiment, "process", twice)
    with pytest.raises(InorderError, match="1 worker processed 60 of 60 rows, with 3 repetitions"):
        working.work(1, 0)
    monkeypatch.setattr(workers.WorkersExperiment, "process", lambda *_: [])
    with pytest.raises(InorderError, match="3 workers processed 0 of 60 rows, with 0 repetitions"):
        working.work(3, 0)


def test_the_form_whose_times_grow_most_is_named() -> None:
    plan = pieces.PiecesPlan(forms=("uuid", "partial"))
    times = {("uuid", 1): (2.0, 2.0), ("uuid", 2): (2.0, 3.0), ("partial", 1): (4.0, 8.0), ("partial", 2): (4.0, 6.0)}
    runs = [
        Run(pieces.MANY, form, 10, number, {"first_ms": first, "last_ms": last})
        for (form, number), (first, last) in times.items()
    ]
    result = Result("pieces", "now", "0", 1, {}, {}, {}, "", runs=runs)
    assert pieces.slopes(result, pieces.MANY, "partial") == {1: 2.0, 2: 1.5}
    comparison = pieces.steepest(result, plan, pieces.MANY)
    assert comparison and comparison.ratios == {1: 2.0, 2: 1.5} and pieces.FORMS["partial"][0] in comparison.metric
    bare = Result("pieces", "now", "0", 1, {}, {}, {}, "", runs=[Run(pieces.ONE, "uuid", 10, 1, {"seconds": 1.0})])
    assert pieces.steepest(bare, plan, pieces.ONE) is None


@pytest.mark.server
def test_each_backlog_is_read_to_its_end(server: Installation) -> None:
    plan = pieces.PiecesPlan(rows=1000, piece_rows=200)
    with Cluster(server) as cluster:
        experiment = pieces.PiecesExperiment(plan, ThrowAway(cluster), Progress())
        experiment.prepare()
        experiment.fill()
        for form in pieces.FORMS:
            for step in (pieces.MANY, pieces.ONE):
                measured = experiment.read(step, form, 0)
                assert measured.metrics["pieces"] == len(measured.series["cpu_ms"]) == 5
                assert measured.metrics["first_ms"] == measured.series["cpu_ms"][0] > 0
            assert experiment.look(form, 0)["seconds"] > 0
        transactions = experiment.value(f"SELECT count(DISTINCT xact) FROM {pieces.table_of(pieces.ONE, 'partial')}")
        assert transactions == "1"
        experiment.execute(f"INSERT INTO {pieces.table_of(pieces.MANY, 'uuid')} DEFAULT VALUES")
        with pytest.raises(InorderError, match=r"the last rows of inorder_lab\.many_uuid are 101 instead of 100"):
            experiment.look("uuid", 0)
        experiment.close()


def test_a_failing_command_is_reported_with_its_standard_error(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo row; echo no such table >&2; exit 3"]
    with pytest.raises(InorderError, match="sh failed with exit code 3: no such table"):
        tail.timed_command(command, os.environ, tmp_path / "rows")
    assert tail.lines_of(tmp_path / "rows") == 1


def test_the_startup_time_in_the_same_round_is_subtracted() -> None:
    seconds = {
        (tail.JSON, tail.SAME_ORDER, 1): 1.75, (tail.JSON, "tail_7", 1): 3.0,
        (tail.start_of(tail.JSON), tail.AS_STORED, 1): 0.25, (tail.start_of(tail.JSON), "tail_8", 1): 1.0,
        (tail.JSON, tail.SAME_ORDER, 2): 1.0, (tail.JSON, "tail_7", 2): 2.0,
    }  # fmt: skip
    runs = [Run(step, kind, 10, number, {"seconds": value}) for (step, kind, number), value in seconds.items()]
    result = Result("tail", "now", "0", 1, {}, {}, {}, "", runs=runs)
    assert tail.speeds(result, tail.JSON, "tail_7", tail.SAME_ORDER) == {1: 0.75}
    assert tail.speeds(result, tail.JSON, tail.SAME_ORDER, tail.SAME_ORDER) == {}
    assert tail.speed_of(runs[0]) == pytest.approx(5.71, abs=0.01)


@pytest.mark.server
def test_each_command_writes_all_rows(server: Installation) -> None:
    plan = tail.TailPlan(rows=1050, batch_rows=(100,))
    assert plan.written == 1000
    with Cluster(server) as cluster:
        experiment = tail.TailExperiment(plan, ThrowAway(cluster), Progress())
        experiment.prepare()
        experiment.fill()
        written = {
            (step, kind): experiment.write(step, kind, 0) for step in tail.FORMATS for kind in tail.kinds_of(plan)
        }
        starts = [experiment.find_nothing(step, kind, 0) for step, kind in written]
        assert list(experiment.files.iterdir()) == []
        experiment.plan = replace(plan, rows=1200)
        with pytest.raises(InorderError, match="COPY with psql as stored: 1,000 lines instead of 1,200"):
            experiment.write(tail.JSON, tail.AS_STORED, 0)
        experiment.close()
    for step in (tail.JSON, tail.CSV):
        assert len({written[step, kind]["bytes"] for kind in tail.kinds_of(plan)}) == 1
    for metrics in (*written.values(), *starts):
        assert metrics["seconds"] > 0 and metrics["cpu_seconds"] >= metrics["server_cpu_seconds"]


@pytest.mark.server
def test_the_adapter_describes_itself_processes_the_due_jobs_and_ends(cluster: Cluster, fresh: Connection) -> None:
    """The harness sets the pace: each line that it writes to stdin is a number of jobs."""
    environment = os.environ | {
        "DATABASE_URL": f"{cluster.dsn} dbname={fresh.info.dbname}", "PRODUCER_PACING": "harness",
        "WORKER_COUNT": "2", "SAMPLE_EVERY_S": "1",
    }  # fmt: skip
    command = [sys.executable, str(FOLDER / "main.py")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        try:
            descriptor = json.loads(process.stdout.readline())
            assert json.loads((FOLDER / "adapter.json").read_text()).items() <= descriptor.items()
            assert descriptor["kind"] == "descriptor"
            process.stdin.write(f"ENQUEUE {JOBS}\n")
            process.stdin.flush()
            done, metrics = 0.0, set[str]()
            while done < JOBS * 0.9 or not metrics >= REQUIRED:
                sample = json.loads(process.stdout.readline())
                assert sample["kind"] == sample["subject_kind"] == "adapter" and sample["instance_id"] == 0
                metrics.add(sample["metric"])
                done += sample["value"] * (sample["metric"] == "completion_rate")
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert one_row(fresh, "SELECT count(*) FROM jobs") == (JOBS,)
    assert one_row(fresh, "SELECT count(*) FROM feed_batches") == (0,)


def test_the_page_and_its_pictures_agree_with_the_recorded_run() -> None:
    page, run = queues_page.PAGE.read_text(), queues_page.kept()
    assert with_parts(page, queues_page.parts(run)) == page
    for curve in queues_page.DRAWN:
        for theme in ("light", "dark"):
            picture = pictures.with_legend(queues_page.chart(curve, run), theme)
            assert picture == (pictures.IMAGES / f"queues-{curve}-{theme}.svg").read_text()


def test_the_table_agrees_with_the_recorded_samples() -> None:
    samples = price.load(ROOT / "docs" / "results" / "price-18.json.gz")
    rounds = {len(values) for kinds in samples.values() for kind in kinds.values() for values in kind.values()}
    assert samples.keys() == price.MEASUREMENTS.keys() and min(rounds) == max(rounds) >= 15
    assert {
        edition for kinds in samples.values() for kind in kinds.values() for edition in kind
    } == price.EDITIONS.keys()
    assert "\n".join(price.table(samples)) in (ROOT / "docs" / "results" / "price-18.md").read_text()


def test_the_table_of_counts_by_group_agrees_with_the_recorded_samples() -> None:
    samples = json.loads(gzip.decompress((ROOT / "docs" / "results" / "groups-18.json.gz").read_bytes()))
    assert min(len(values) for sides in samples.values() for values in sides.values()) >= 9
    assert "\n".join(groups.table(samples)) in (ROOT / "docs" / "results" / "groups-18.md").read_text()


@pytest.mark.server
def test_the_cost_of_masks_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The masks are the view and the function shown in docs/mask.md."""
    monkeypatch.setattr(masks, "ROWS", 2000)
    try:
        masks.print_masks(2)
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(str(error))
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line[:26].strip() for line in shown] == [name for name in masks.WORK if name != masks.FLOOR]
    assert all(float(line[26:]) > 0 for line in shown)


def test_the_table_of_existing_tables_agrees_with_the_recorded_samples() -> None:
    samples = prepared.load_samples(ROOT / "docs" / "results" / "prepared-18.json.gz")
    page = (ROOT / "docs" / "results" / "prepared-18.md").read_text()
    assert "\n".join(prepared.table_of(samples)) in page


@pytest.mark.server
def test_existing_tables_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The check in pieces() fails unless each row is read exactly once."""
    for name, value in {"PARTITIONS": 3, "PARTITIONED_ROWS": 300, "PIECE": 500, "SECONDS_BEFORE": 0.1}.items():
        monkeypatch.setattr(prepared, name, value)
    prepared.print_prepared(2000, 2, None, None)
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(shown) == 3 + len(prepared.LABELS) + 2 + len(prepared.STREAMS) + 2


@pytest.mark.server
def test_the_cost_of_counts_by_group_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts on each side are compared with GROUP BY at the end. Ratios are relative to a table without counts."""
    few = tuple(text.replace("200000", "2000") for text in groups.FILL)
    for name, value in (("FILL", few), ("UNFOLDED", 20), ("LOAD", replace(groups.LOAD, clients=4, seconds=1))):
        monkeypatch.setattr(groups, name, value)
    samples = groups.measured(1, ("no counts", "slotted counters", "C extension"))
    lines = groups.table(samples)
    assert lines[0] == "| | no counts | slotted counters | C extension |" and len(lines) == 2 + len(samples)
    assert all(line.count(" ×") == 2 for line in lines[2:] if not line.startswith(f"| {groups.READ}"))
