"""The tail experiment: its commands on a server, and its figures."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from inorder.errors import InorderError
from inorder.lab.experiments.tail import (
    COPY,
    CSV,
    JSON,
    NOTHING,
    TailExperiment,
    TailPlan,
    kinds_of,
    lines_of,
    speed_of,
    started,
)
from inorder.lab.instruments.commands import timed_command
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway
from inorder.servers import Server

from replay import recorded
from tool import LabRun


def test_a_command_that_fails_is_an_error_with_its_words(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo row; echo no such table >&2; exit 3"]
    with pytest.raises(InorderError, match="sh failed with exit code 3: no such table"):
        timed_command(command, os.environ, tmp_path / "rows")
    assert lines_of(tmp_path / "rows") == 1


def test_the_time_of_a_start_is_taken_off_in_its_round() -> None:
    seconds = {(COPY, 1): 1.5, ("tail_7", 1): 3.0, (COPY, 2): 1.0, ("tail_7", 2): 2.0}
    runs = [Run(JSON, kind, 10, number, {"seconds": value}) for (kind, number), value in seconds.items()]
    result = Result("tail", "now", "0", 1, {}, {}, {}, "", runs=[*runs, Run(NOTHING, "tail_7", 0, 1, {"seconds": 1.0})])
    assert started(result, JSON, "tail_7") == {1: 0.75}
    assert speed_of(runs[0]) == pytest.approx(6.67, abs=0.01)


@pytest.mark.server
def test_all_rows_are_written_by_each_command(server: Server) -> None:
    plan = TailPlan(rows=1050, batch_rows=(100,))
    assert plan.written == 1000
    with Cluster(server) as cluster:
        experiment = TailExperiment(plan, ThrowAway(cluster), Progress())
        experiment.prepare()
        experiment.fill()
        found = {(step, kind): experiment.write(step, kind, 0) for step in (JSON, CSV) for kind in kinds_of(plan)}
        idle = experiment.find_nothing(0)
        assert list(experiment.files.iterdir()) == []
        experiment.plan = replace(plan, rows=1200)
        with pytest.raises(InorderError, match="COPY by psql: 1,000 lines instead of 1,200"):
            experiment.write(JSON, COPY, 0)
        experiment.close()
    for step in (JSON, CSV):
        assert len({found[step, kind]["bytes"] for kind in kinds_of(plan)}) == 1
    for metrics in (*found.values(), idle):
        assert metrics["seconds"] > 0 and metrics["cpu_seconds"] >= metrics["server_cpu_seconds"]


def test_what_the_report_says() -> None:
    result = recorded("tail")
    sections = {section.name: section.shown() for section in TailExperiment.sections(result)}
    for name in ("tail_json", "tail_csv"):
        labels = [(row[0], row[3]) for row in sections[name]]
        assert labels == [
            ("COPY by psql", ""),
            ("COPY in order of the key", ""),
            ("tail, batches of 10,000", "0.8"),
            ("tail, batches of 1,000", "0.5"),
        ]
    (verdict,) = TailExperiment.verdicts(result)
    assert "the speed as CSV of COPY" in verdict.figures and "finds nothing new takes" in verdict.holds


@pytest.mark.server
def test_a_small_run_from_start_to_end(lab_run: LabRun) -> None:
    _, printed = lab_run("tail --rows 2k --batch-rows 1k --rounds 1")
    assert "2,000 rows of 60 bytes into a file, as CSV" in printed
