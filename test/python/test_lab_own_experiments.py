"""Experiments on the user's own server: the parts that each one leaves out. Nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from inorder.commands.catalogue import report_of
from inorder.connection.database import connect
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.experiments.generators import FLOOR, INSERTS
from inorder.lab.experiments.mixed import AGAIN, MixedPlan
from inorder.lab.experiments.mixed import STEPS as STEPS_OF_MIXED
from inorder.lab.experiments.reader import ReaderExperiment
from inorder.lab.experiments.reader.readers import READERS, ReaderPlan
from inorder.lab.experiments.uuid_v1 import KINDS as UUID_V1_KINDS
from inorder.lab.experiments.uuid_v1 import STEPS as LIFE
from inorder.lab.experiments.uuid_v1 import UuidV1Plan
from inorder.lab.experiments.writers import WritersExperiment
from inorder.lab.experiments.writers.forms import WritersPlan
from inorder.lab.instruments.pgbench import Load
from inorder.lab.instruments.timing import Apart
from inorder.lab.plan.turn import Metrics, Progress
from inorder.lab.results.journal import load
from inorder.lab.results.result import LOAD
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import require_free
from inorder.lab.targets.own_server import OwnServer

from conftest import has_pgstattuple
from own_server_runs import but, fitted, plain, run_there, traces
from waiting import PATIENCE, wait_for
from world.sql import value


@pytest.mark.server
def test_the_writers_experiment_needs_the_extension_only_for_its_forms(
    tmp_path: Path, users: Cluster, server: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--clients", "2", "--seconds", "1")
    monkeypatch.setattr(WritersExperiment, "load", lambda _self, clients: Load(clients, 1, transactions=5))
    with OwnServer(users.dsn, server) as own_server:
        bench = WritersExperiment(WritersPlan(clients=(2,)), own_server, Progress())
        bench.prepare()
        turns = [bench.measure(form, 2, 1, 1) for form in ("partition_trigger", "xact", "xact")]
    assert [(turn["written"], turn["misplaced"]) for turn in turns] == [(10, 0)] * 3 and traces(users.dsn) == []
    assert all(turn["wal_bytes"] > 200 * turn["written"] for turn in turns)
    result, message = run_there(tmp_path, server, plain(users), "writers", "--forms", "lock,xact", *options)
    assert {run.kind for run in result.runs} == {"lock"} and traces(users.dsn + " dbname=bare") == []
    assert all("wal_bytes" not in run.metrics and run.metrics["misplaced"] == 0 for run in result.runs)
    assert "no extension inorder that this role may use: uuid_xact_nextval()" in message
    with pytest.raises(InputError, match="HINT: Run inorder install"):
        fitted(WritersPlan(forms=("xact",)), but(has_inorder=False))


@pytest.mark.server
def test_the_mixed_experiment_needs_privileges_for_wal(tmp_path: Path, users: Cluster, server: Installation) -> None:
    options = ("--rows", "2k", "--more", "400", "--clients", "2")
    result, _ = run_there(tmp_path, server, users.dsn, "mixed", *options)
    assert Counter(run.step for run in result.runs) == dict.fromkeys(STEPS_OF_MIXED, len(MixedPlan().kinds))
    assert all(run.metrics["index_hits"] >= 400 and run.metrics["wal_records"] >= 800 for run in result.select(AGAIN))
    assert traces(users.dsn) == []
    assert all(("leaf_density" in run.metrics) == has_pgstattuple(server) for run in result.runs)
    result, message = run_there(tmp_path, server, plain(users), "mixed", *options)
    assert {run.kind for run in result.runs} == {"random"} and "version 7, time-prefixed, after all random." in message
    assert all("wal_bytes" not in run.metrics for run in result.runs) and traces(users.dsn + " dbname=bare") == []


@pytest.mark.server
def test_the_reuse_experiment_needs_the_extension_only_for_its_keys(
    tmp_path: Path, users: Cluster, server: Installation
) -> None:
    options = ("--rows", "20k", "--turns", "3", "--pace", "10ms")
    result, _ = run_there(tmp_path, server, users.dsn, "reuse", "--keys", "v7,sequence,bigint", *options)
    assert len(result.runs) == 6 and all(run.metrics["wal_bytes"] > 0 for run in result.runs)
    assert all(run.metrics["pages_freed"] > 5 for run in result.select("oldest", "v7")) and traces(users.dsn) == []
    result, message = run_there(tmp_path, server, plain(users), "reuse", *options)
    assert {run.kind for run in result.runs} == {"bigint", "random"} and "sequence, no wrap." in message
    assert traces(users.dsn + " dbname=bare") == []


@pytest.mark.server
def test_rows_held_back_beside_an_open_transaction_are_not_lost(
    users: Cluster, server: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the horizon reader holds back are not lost. They are read in the next round, and not counted there.

    Waits are corrected by the difference of the clocks. They are left out if the difference is not known precisely
    enough.
    """
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 5000)
    # The tolerance is wide, because the difference of the clocks is less precise on a busy machine.
    monkeypatch.setattr("inorder.lab.experiments.reader.CLOCK_ERROR", 0.9)
    plan = ReaderPlan(writers=4, seconds=1)
    rounds: list[dict[str, Metrics]] = []
    with OwnServer(users.dsn, server) as own_server:
        bench = ReaderExperiment(plan, own_server, Progress())
        bench.prepare()
        with connect(f"{users.dsn} dbname=bare") as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            rounds.append(measured(bench, 1))
        monkeypatch.setattr(own_server, "clock", lambda: Apart(-1.0, 1.0))
        rounds.append(measured(bench, 2))
    assert traces(users.dsn) == []
    first, second = rounds
    assert first["horizon"]["held"] == first["horizon"]["committed"] > 0 and second["horizon"]["held"] == 0
    assert second["horizon"]["delivered"] == second["horizon"]["committed"] > 0
    assert all(-1000 < metrics["longest_wait_ms"] < 1_000_000 for metrics in first.values())
    assert all("longest_wait_ms" not in metrics and metrics["clock_error_ms"] == 1000 for metrics in second.values())
    assert all(
        by_name[name]["lost"] == by_name[name]["twice"] == 0 for by_name in rounds for name in ("horizon", "feed")
    )


def measured(bench: ReaderExperiment, seed: int) -> dict[str, Metrics]:
    return {
        name: measurement.metrics for name, measurement in zip(bench.plan.readers, bench.measure(seed), strict=True)
    }


@pytest.mark.server
def test_the_reader_experiment_needs_the_extension_only_for_feeds(
    tmp_path: Path, users: Cluster, server: Installation
) -> None:
    result, message = run_there(tmp_path, server, plain(users), "reader", "--writers", "4", "--seconds", "1")
    assert [run.kind for run in result.runs] == ["id", "created"] and traces(users.dsn + " dbname=bare") == []
    assert all(run.metrics["committed"] > 0 for run in result.runs) and "by two clocks" in message
    assert "inorder feed" in message and set(result.plan["readers"]) < set(READERS)


@pytest.mark.server
def test_a_feed_is_dropped_after_ctrl_c(tmp_path: Path, users: Cluster, server: Installation) -> None:
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config")}
    command = [sys.executable, "-m", "inorder", "lab", "run", "reader", "--dsn", users.dsn, "--writers", "4",
               "--seconds", "60", "--rounds", "2"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-3, stderr=-3) as process:
        wait_for(lambda: "inorder_lab" in feeds(users.dsn))
        with connect(users.dsn) as connection:  # before the first row, no measurement is kept
            wait_for(lambda: value(connection, "SELECT count(*) FROM inorder_lab.events"))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    result = load(tmp_path / "inorder-reader.jsonl")
    assert {run.kind for run in result.runs} == set(READERS) and not result.complete and traces(users.dsn) == []


def feeds(dsn: str) -> list[object]:
    with connect(dsn) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM elsewhere.feeds")]


@pytest.mark.server
def test_the_uuid_v1_experiment_needs_the_extension_and_disk_space(
    tmp_path: Path, users: Cluster, server: Installation
) -> None:
    result, _ = run_there(tmp_path, server, users.dsn, "uuid-v1", "--rows", "2k")
    assert len(result.runs) == len(LIFE) * len(UUID_V1_KINDS) and traces(users.dsn) == []
    assert all(run.metrics["wal_records"] > 0 for run in result.select("copy_from"))
    with pytest.raises(InputError, match="and the type uuid_v1 needs it"):
        fitted(UuidV1Plan(), but(has_inorder=False))
    with pytest.raises(InputError, match=r"the files on this machine need about .* GB"):
        require_free(10**16, "the files on this machine", tmp_path)


@pytest.mark.server
def test_the_generators_experiment_needs_the_extension_only_for_its_functions(
    tmp_path: Path, users: Cluster, server: Installation
) -> None:
    options = ("--values", "2k", "--rows", "1k")
    result, message = run_there(tmp_path, server, users.dsn, "generators", *options)
    assert {run.kind for run in result.select("call")} >= {FLOOR, *INSERTS} and traces(users.dsn) == []
    assert {run.kind.split()[1] for run in result.select("task")} == {"sort", "group", "join"}
    assert all(run.metrics.keys() == {"seconds", LOAD} for run in result.runs) and "pg_backend_pid()" in message
    result, message = run_there(tmp_path, server, plain(users), "generators", *options)
    assert {run.kind for run in result.select("insert")} == {"gen_random_uuid", "nextval"}
    assert not result.select("task") and "uuid_v7_nextval" in message and traces(users.dsn + " dbname=bare") == []
    assert all("CPU" not in section.title for section in report_of(result).sections(result))
