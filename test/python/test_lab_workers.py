"""The workers experiment: what its workers process on a server, and its figures."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection
from inorder.errors import InorderError
from inorder.lab.experiments.workers import WorkersExperiment, WorkersPlan
from inorder.lab.progress import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway
from inorder.servers import Server

from replay import recorded
from tool import LabRun

PLAN = WorkersPlan(workers=(1, 3), rows=60, batch_rows=7, call_us=1000)


@pytest.fixture
def experiment(server: Server) -> Iterator[WorkersExperiment]:
    with Cluster(server) as cluster:
        made = WorkersExperiment(PLAN, ThrowAway(cluster), Progress())
        made.prepare()
        yield made
        made.close()


@pytest.mark.server
def test_each_row_is_processed_once(experiment: WorkersExperiment) -> None:
    assert experiment.work(1, 0)["seconds"] > 0.06
    shared = experiment.work(3, 0)
    assert shared["seconds"] > 0.02 and 0 <= shared["least_share"] <= 1


@pytest.mark.server
def test_rows_that_are_left_are_an_error(experiment: WorkersExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    process = WorkersExperiment.process

    def twice(made: WorkersExperiment, session: Connection, number: int) -> list[str]:
        done = process(made, session, number)
        return [*done, *done[:3]]

    monkeypatch.setattr(WorkersExperiment, "process", twice)
    with pytest.raises(InorderError, match="1 worker processed 60 rows of 60, 3 again"):
        experiment.work(1, 0)
    monkeypatch.setattr(WorkersExperiment, "process", lambda *_: [])
    with pytest.raises(InorderError, match="3 workers processed 0 rows of 60, 0 again"):
        experiment.work(3, 0)


def test_what_the_report_says() -> None:
    result = recorded("workers")
    (section,) = WorkersExperiment.sections(result)
    assert [(row[0], row[3]) for row in section.shown()] == [("1 worker", ""), ("2 workers", ""), ("4 workers", "2.5")]
    (verdict,) = WorkersExperiment.verdicts(result)
    assert verdict.answer == "Yes" and "of the speed of 4 workers" in verdict.figures


@pytest.mark.server
def test_a_small_run_from_start_to_end(lab_run: LabRun) -> None:
    _, printed = lab_run("workers --rows 40 --workers 1,2 --rounds 1")
    assert "40 rows in batches of 20, a call of 1,000 µs" in printed
