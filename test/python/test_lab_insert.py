"""The insert experiment: the order of its steps, and these steps on a real server."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.analysis.quality import with_checkpoint
from inorder.lab.analysis.stats import estimate
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertExperiment
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.instruments.counters import CheckpointMarks
from inorder.lab.instruments.pgbench import PERCENTILES, Load
from inorder.lab.plan.keys import FORERUNNERS, INDEX_KINDS, KEY_KINDS, PACKED, PRIMARY, KeyKind
from inorder.lab.plan.setting import MOST_SECONDS
from inorder.lab.plan.turn import Measured, Metrics, Progress
from inorder.lab.results.result import Run
from inorder.lab.run.hosts import SERVER_BYTES, ThrowAwayHost, require_room
from inorder.lab.run.runner import Runner
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import PREFIX, service_account, temporary_folder
from inorder.lab.tables import insert_tables
from inorder.lab.tables.insert_tables import InsertTables, row_bytes
from inorder.lab.targets.server_settings import Small
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import FULLY, empty_result, run_on_paper
from tool import inorder
from waiting import PATIENCE

ROWS = 60_000
INSERTS = 2_000
PLAN = InsertPlan(kinds=("bigint", "random"), rows=(ROWS,), inserts=INSERTS, clients=(4,), memory_bytes=2**20)
INDEXES = """
    SELECT t.relname::text, indisprimary, indisunique, spcname::text
    FROM pg_index JOIN pg_class AS t ON t.oid = indrelid JOIN pg_class AS i ON i.oid = indexrelid
    LEFT JOIN pg_tablespace AS s ON s.oid = i.reltablespace
    WHERE t.relnamespace = 'inorder_lab'::regnamespace ORDER BY 1"""


class TablesOnPaper(InsertTables):
    asked: list[tuple[object, ...]]

    def fill(self, rows: int) -> Iterator[Measured]:
        self.asked.append(("fill", rows))
        for _ in self.kinds:
            yield Measured({"seconds": 1.0})

    def serve_for_measuring(self) -> None:
        self.asked.append(("serve",))

    def measure(self, name: str, load: Load, seed: int, *_: object, **_more: object) -> Measured:
        self.asked.append(("measure", name, load.clients, load.transactions))
        return Measured({"tps": float(seed)})

    def sizes(self, name: str, _seed: int = 0) -> Metrics:
        self.asked.append(("sizes", name))
        return {"index_bytes": 8192.0}


class OnPaper(InsertExperiment):
    @cached_property
    def tables(self) -> TablesOnPaper:
        tables = TablesOnPaper(self.target, dict.fromkeys(self.plan.variants, KEY_KINDS["v7"]), Small(0), 1)
        tables.asked = []
        return tables


def test_the_steps_come_in_order() -> None:
    plan = InsertPlan(kinds=("v7", "random"), rows=(2000, 1000), rounds=2, clients=(8, 1), inserts=80)
    result, done = run_on_paper(OnPaper, plan)
    loads = [("measure", kind, *load) for kind in plan.kinds for load in ((8, 10), (1, 80))]
    one_size = [("serve",), *sorted(loads * 2), ("sizes", "v7"), ("sizes", "random")]
    by_size = [done.tables.asked[1:13], done.tables.asked[13:]]
    # the first start already has the settings for measurements, so that they are recorded
    assert done.tables.asked[0] == ("serve",)
    for rows, steps in zip((1000, 2000), by_size, strict=True):
        assert steps[0] == ("fill", rows)
        assert [steps[1], *sorted(steps[2:10]), *steps[10:]] == one_size
    assert len(result.select("insert@1", "random", 2000)) == 2 and len(result.select("fill")) == 4


class SlowTables(InsertTables):
    started = threading.Event()
    stopped = False

    def serve_for_filling(self) -> None:
        """Do nothing: there is no server to start."""

    def serve_for_measuring(self) -> None:
        """Do nothing: there is no server to start."""

    def create(self, connection: Connection, rows: int) -> None:
        """Do nothing: there is no table to create."""

    def fill_one(self, kind: KeyKind, rows: int, stop: threading.Event) -> Metrics:
        if kind.name != PLAN.kinds[0]:
            self.started.set()
            self.stopped = stop.wait(PATIENCE)
        return {"seconds": 1.0}


def test_an_interrupt_ends_unfinished_fills() -> None:
    experiment = OnPaper(
        PLAN, cast(Target, SimpleNamespace(connect=nullcontext, note=lambda _result: None)), Progress()
    )
    slow = SlowTables(experiment.target, {name: KEY_KINDS[name] for name in PLAN.kinds}, Small(0), 2)
    vars(experiment)["tables"] = slow

    def interrupted() -> None:
        assert slow.started.wait(PATIENCE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupt:
        Runner(experiment, empty_result(OnPaper, PLAN), interrupted).run()
    assert interrupt and slow.stopped


def experiment_on(cluster: Cluster, plan: InsertPlan) -> InsertExperiment:
    return InsertExperiment(plan, ThrowAway(cluster), Progress())


def check_random_inserts(run: Measured, has_io_counters: bool) -> None:
    metrics, series = run.metrics, run.series
    assert metrics["inserts"] == INSERTS
    assert metrics["full_page_images"] > 100  # without a preceding checkpoint, the second run would have few images
    assert metrics["index_reads"] > INSERTS / 2  # the index has 2.5 MB, more than the shared buffers of 1 MB
    # pg_waldump finds as much WAL as the server counted, except for checkpoint records at both ends.
    assert metrics["record_bytes"] + metrics["image_bytes"] == pytest.approx(metrics["wal_bytes"], rel=0.02)
    assert metrics["full_page_images"] * 8192 >= metrics["image_bytes"] > metrics["full_page_images"] * 1000
    assert 100 < metrics["touched_blocks"] <= INSERTS * 1.1 and series["checkpoints"] == []
    times = [metrics[name] for name in PERCENTILES if name in metrics]
    assert times and times == sorted(times) and times[0] > 0
    read, written = metrics.get("read_bytes"), metrics.get("written_bytes")
    assert (read is not None) == (written is not None) == has_io_counters
    if read is not None and written is not None:  # counted for the whole server, including catalog blocks
        assert 0 <= read / 8192 - metrics["index_reads"] - metrics["heap_reads"] < 1000
        assert INSERTS / 4 < written / 8192 <= metrics["evictions"]  # most evicted blocks are dirty


@pytest.mark.server
@pytest.mark.usefixtures("on_a_disk")
def test_filled_tables_give_the_expected_figures(server: Installation) -> None:
    with Cluster(server) as cluster:
        experiment = experiment_on(cluster, PLAN)
        filled = dict(zip(PLAN.kinds, experiment.tables.fill(ROWS), strict=True))
        experiment.tables.serve_for_measuring()
        runs = [experiment.measurement("random", 4)(seed) for seed in (1, 2)]
        ordered = experiment.measurement("bigint", 4)(1)
        sizes = experiment.tables.sizes("random")
        with connect(cluster.dsn) as connection:
            rows = connection.execute("SELECT count(*) FROM inorder_lab.random").fetchone()
            settings = {name: value for name, value in connection.execute("SELECT name, setting FROM pg_settings")}
        assert len(list(experiment.tables.fill(ROWS + INSERTS))) == 2
        with connect(cluster.dsn) as connection:
            counts = [
                connection.execute(f"SELECT count(*) FROM inorder_lab.{kind}".encode()).fetchone()
                for kind in PLAN.kinds
            ]
    assert counts == [(ROWS + INSERTS,)] * 2  # the tables were created again, without the rows of the two earlier turns
    assert filled["random"].metrics["index_bytes"] > 2**20
    assert rows == (ROWS + 2 * INSERTS,) and sizes["rows"] == ROWS + 2 * INSERTS
    for run in runs:
        check_random_inserts(run, has_io_counters=server.major >= 16)
    assert ordered.metrics["full_page_images"] < 20 and ordered.metrics["touched_blocks"] < 20
    assert settings["shared_buffers"] == "128" and settings["fsync"] == "on"
    assert settings.get("debug_io_direct", "") == ("data" if server.has_direct_io else "")


@pytest.mark.server
def test_wal_that_may_have_been_removed_is_not_read(server: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert_tables, "checkpoint_wal", lambda _size: 1)
    with Cluster(server) as cluster:
        experiment = experiment_on(cluster, replace(PLAN, kinds=("bigint",)))
        assert len(list(experiment.tables.fill(0))) == 1
        experiment.tables.serve_for_measuring()
        measured = experiment.measurement("bigint", 4)(1)
        with connect(cluster.dsn) as connection:
            (timeout,) = connection.execute("SHOW checkpoint_timeout").fetchone() or ("",)
    assert measured.metrics["wal_bytes"] > 1 and "record_bytes" not in measured.metrics
    assert timeout == "1d" and MOST_SECONDS < 24 * 3600  # the timeout triggers no checkpoint


@pytest.mark.server
def test_a_limit_of_wal_causes_checkpoints(server: Installation) -> None:
    plan = replace(PLAN, kinds=("random",), max_wal_size=32 * 2**20, inserts=100_000)
    with Cluster(server) as cluster:
        experiment = experiment_on(cluster, plan)
        assert len(list(experiment.tables.fill(5 * ROWS))) == 1
        experiment.tables.serve_for_measuring()
        metrics = experiment.measurement("random", 4)(1).metrics
    assert metrics["wal_bytes"] > 2**24 and "record_bytes" not in metrics
    assert 1 <= metrics["checkpoints_requested"] <= metrics["wal_bytes"] / 2**23
    result = empty_result(InsertExperiment, plan)
    result.runs.append(Run("insert", "random", ROWS, 1, metrics))
    (section,) = (
        candidate for candidate in InsertExperiment.sections(result) if candidate.name == f"checkpoints_{ROWS}"
    )
    assert "max_wal_size 32 MB" in section.title and section.rows[0][2] == estimate([metrics["checkpoints_requested"]])
    assert with_checkpoint(result) == [] and not [
        candidate for candidate in InsertExperiment.sections(result) if "Model" in candidate.title
    ]


@pytest.mark.server
def test_each_kind_of_index_is_built_on_the_tablespace(
    server: Installation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with tempfile.TemporaryDirectory(dir=temporary_folder(service_account())) as name:
        folder = Path(name)
        folder.chmod(0o755)
        plan = replace(PLAN, kinds=("random",), indexes=tuple(INDEX_KINDS), tablespace=name)
        with Cluster(server) as cluster:
            experiment = experiment_on(cluster, plan)
            assert len(list(experiment.tables.fill(0))) == len(INDEX_KINDS)
            assert [path.name.startswith(PREFIX) for path in folder.iterdir() if path.is_dir()] == [True]
            with connect(cluster.dsn) as connection:
                indexes = connection.execute(INDEXES.encode()).fetchall()
            without = experiment.measurement("random_none", 1)(1).metrics
        left_folders = [path for path in folder.rglob("*") if path.is_dir()]
    assert indexes == [
        ("random", True, True, "inorder_indexes"),
        ("random_packed", True, True, "inorder_indexes"),
        ("random_plain", False, False, "inorder_indexes"),
        ("random_plain_packed", False, False, "inorder_indexes"),
        ("random_unique", False, True, "inorder_indexes"),
        ("random_unique_packed", False, True, "inorder_indexes"),
    ]
    assert without["inserts"] == INSERTS and "touched_blocks" not in without and without["index_reads"] == 0
    assert left_folders == []


@pytest.mark.server
def test_a_packed_index_is_built_when_the_table_is_filled(server: Installation) -> None:
    packed_ones = (PACKED, "unique_packed", "plain_packed")
    plan = replace(PLAN, kinds=("random",), indexes=(PRIMARY, *packed_ones), synchronous_commit="on")
    with Cluster(server) as cluster:
        tables = experiment_on(cluster, plan).tables
        for rows in (50_000, 100_000):  # at these sizes, leaves with random keys are far from full
            filled = dict(zip(plan.variants, tables.fill(rows), strict=True))
            grown, *packed = (filled[kind].metrics["index_bytes"] for kind in plan.variants)
            assert len(packed) == 3 and all(25 * rows < size < 0.9 * grown for size in packed)
        tables.serve_for_measuring()
        with connect(cluster.dsn) as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
            counted = connection.execute("SELECT count(*) FROM inorder_lab.random_packed").fetchone()
    assert counted == (100_000,)


def test_an_extension_that_is_missing_is_named(tmp_path: Path, server: Installation) -> None:
    insert, plan, lacking = all_experiments()["insert"], InsertPlan(rows=(1000,)), replace(server, sharedir=tmp_path)
    plan = replace(plan, kinds=("bigint", "random_ossp"))
    host = ThrowAwayHost(lacking)
    missing = pytest.raises(InputError, match="--keys random_ossp needs the extension uuid-ossp, which PostgreSQL")
    with missing, host.open(insert, plan):
        pass
    adapted = InsertExperiment.adapt(plan, FULLY)
    assert adapted.plan.kinds == ("bigint",)
    assert any(
        "no extension is created on your server: random, uuid-ossp (uuid-ossp)." in note for note in adapted.notes
    )
    with pytest.raises(InputError, match="random_ossp can be measured on a throw-away server only"):
        InsertExperiment.adapt(replace(plan, kinds=("random_ossp",)), FULLY)


def test_keys_of_a_later_server_are_refused(server: Installation) -> None:
    insert, plan = all_experiments()["insert"], InsertPlan(kinds=("bigint", "uuidv7"))
    assert ThrowAwayHost(replace(server, version="18.6")).adapt(insert, plan).plan == plan
    with pytest.raises(InputError, match=r"--keys uuidv7 needs PostgreSQL 18; this is 15"):
        ThrowAwayHost(replace(server, version="15.20")).adapt(insert, plan)


@pytest.mark.server
def test_statements_of_many_rows_are_counted_in_rows(server: Installation) -> None:
    with Cluster(server) as cluster:
        experiment = experiment_on(cluster, replace(PLAN, kinds=("bigint",), inserts=1000, clients=(2,), batch=50))
        tables = experiment.tables
        assert len(list(tables.fill(200))) == 1
        tables.serve_for_measuring()
        metrics = experiment.measurement("bigint", 2)(1).metrics
        assert metrics["inserts"] == 1000 and tables.rows["bigint"] == 1200
        with connect(cluster.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM inorder_lab.bigint").fetchone() == (1200,)


@pytest.mark.server
def test_keys_of_other_projects_have_their_prefixes(server: Installation) -> None:
    kinds = {kind.name: kind for kind in FORERUNNERS}
    with Cluster(server) as cluster:
        tables = experiment_on(cluster, replace(PLAN, kinds=tuple(kinds))).tables
        began = time.time()
        assert len(list(tables.fill(200))) == 4
        with connect(cluster.dsn) as connection:
            rows_of_kind = {
                name: connection.execute(f"SELECT id FROM {kind.table} ORDER BY ctid".encode()).fetchall()
                for name, kind in kinds.items()
            }
    keys = {name: [UUID(str(uuid)).bytes for (uuid,) in rows] for name, rows in rows_of_kind.items()}
    for name, width, unit in (("comb", 6, 1000), ("unix32", 4, 1)):
        times = [int.from_bytes(key[:width]) / unit for key in keys[name]]
        assert times == sorted(times) and began - 1 <= times[0] <= times[-1] <= time.time()
    for name in ("sequence64", "newsequential"):
        assert [int.from_bytes(key[:8]) for key in keys[name]] == list(range(1, 201))
    assert {key[8:] for key in keys["newsequential"]} == {bytes.fromhex("80006e6f64650000")}
    assert all(len({key[10:] for key in keys[name]}) == 200 for name in ("comb", "sequence64", "unix32"))


@pytest.mark.server
def test_keys_of_uuid_ossp_are_distinct_and_have_no_hyphens(server: Installation) -> None:
    if not server.has_extension("uuid-ossp"):
        pytest.skip("the server has no uuid-ossp")
    with Cluster(server) as cluster:
        tables = experiment_on(cluster, replace(PLAN, kinds=("random_ossp",))).tables
        assert len(list(tables.fill(10))) == 1
        with connect(cluster.dsn) as connection:
            row = connection.execute("SELECT count(DISTINCT id), min(length(id)) FROM inorder_lab.random_ossp")
            assert row.fetchone() == (10, 32)


@pytest.mark.server
def test_a_checkpoint_during_a_run_is_marked(server: Installation) -> None:
    with Cluster(server) as cluster:
        cluster.start()
        with connect(cluster.dsn) as connection:
            marks = CheckpointMarks(connection)
            marks.second()
            connection.execute("CREATE TABLE written (n int)")
            connection.execute("CHECKPOINT")
            marks.second()
            marks.second()
    assert marks.seconds == [2.0]


@pytest.mark.server
def test_a_failing_fill_stops_all_other_fills(server: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts into the other tables stop after the current batch."""
    monkeypatch.setattr("inorder.lab.tables.insert_tables.FILL_BATCH", 10_000)
    with Cluster(server) as cluster:
        tables = experiment_on(cluster, PLAN).tables
        assert len(list(tables.fill(0))) == 2
        with connect(cluster.dsn) as connection:
            connection.execute("DROP TABLE inorder_lab.bigint")
        with pytest.raises(psycopg.errors.UndefinedTable, match="bigint"):
            list(tables.fill(100 * ROWS))
        with connect(cluster.dsn) as connection:
            counts = [connection.execute("SELECT count(*) FROM inorder_lab.random").fetchone() for _ in range(2)]
        assert counts[0] == counts[1] and counts[0] is not None and int(str(counts[0][0])) < 100 * ROWS


@pytest.mark.server
@pytest.mark.parametrize("kind", ["random", "random_char", "time60_char", "random_char_plain"])
def test_a_table_has_the_computed_size(server: Installation, kind: str) -> None:
    with Cluster(server) as cluster:
        tables = InsertTables(ThrowAway(cluster), {kind: KEY_KINDS[kind]}, Small(2**26), 1)
        # The leaf density rises and falls with the number of rows. The ratio is 0.98 to 1.04 at 70,000 rows, and 1.04
        # to 1.10 at 50,000 rows, when most leaves with random keys have just been split.
        (filled,) = tables.fill(70_000)
        sizes = (filled.metrics["table_bytes"] + filled.metrics["index_bytes"], filled.metrics["index_bytes"])
        for size, computed in zip(sizes, row_bytes(KEY_KINDS[kind]), strict=True):
            assert 0.85 < size / 70_000 / computed < 1.15


def test_disk_space_is_checked_wherever_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free: dict[Path, int] = {}
    monkeypatch.setattr("inorder.lab.server.temporary.shutil.disk_usage",
                        lambda folder: SimpleNamespace(free=free.get(folder, 2**40)))  # fmt: skip
    insert, plan = all_experiments()["insert"], InsertPlan(kinds=("v7",), rows=(100_000_000,), tablespace=str(tmp_path),
                                                     inserts=1000)  # fmt: skip
    require_room(insert, plan)
    free[tmp_path] = 2**30
    message = f"the indexes of 100,000,000 rows of 1 key kinds need about 3.7 GB in {tmp_path}, where 1.0 GB are free"
    with pytest.raises(InputError, match=message):
        require_room(insert, plan)
    free[temporary_folder(service_account())] = SERVER_BYTES
    # includes max_wal_size once
    with pytest.raises(InputError, match=r"100,000,000 rows of 3 key kinds need about 39\.4 GB"):
        require_room(insert, replace(plan, kinds=("v7", "random", "time"), tablespace=""))
    with pytest.raises(InputError, match=r"1,000 rows of 1 key kinds need about 0\.2 GB"):
        require_room(insert, replace(plan, rows=(1000,), tablespace=""))
    with pytest.raises(InputError, match=r"1,000 rows of 1 key kinds need about 9\.4 GB"):  # turns add rows
        require_room(insert, replace(plan, rows=(1000,), tablespace="", inserts=None, rounds=6, seconds=100))
    with pytest.raises(InputError, match=r"100,000,000 rows of 1 key kinds need about 29\.1 GB"):
        require_room(insert, replace(plan, kinds=("random_char",), tablespace=""))


@pytest.mark.server
def test_rows_without_disk_space_are_refused_before_the_fill(tmp_path: Path, server: Installation) -> None:
    done = inorder("lab", "run", "insert", "--rows", "100G", folder=tmp_path, server=server)
    assert done.returncode == 2 and "are free" in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.server
def test_a_missing_program_is_reported_before_the_fill(tmp_path: Path, server: Installation) -> None:
    for name in ("postgres", "initdb", "pgbench"):
        (tmp_path / name).symlink_to(server.program(name))
    insert, plan, lacking = all_experiments()["insert"], InsertPlan(rows=(1000,)), replace(server, bindir=tmp_path)
    with pytest.raises(InputError, match="has no program pg_waldump"), ThrowAwayHost(lacking).open(insert, plan):
        pass
