"""The pieces experiment: its backlogs on a server, and what is made of their pieces."""

import pytest
from inorder.errors import InorderError
from inorder.lab.experiments.pieces import (
    FORMS,
    LAST,
    MANY,
    ONE,
    PiecesExperiment,
    PiecesPlan,
    slopes,
    steepest,
    table_of,
)
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway
from inorder.servers import Server

from replay import recorded
from tool import LabRun


def test_the_form_with_the_steepest_pieces_is_named() -> None:
    plan = PiecesPlan(forms=("uuid", "brin"))
    times = {("uuid", 1): (2.0, 2.0), ("uuid", 2): (2.0, 3.0), ("brin", 1): (4.0, 8.0), ("brin", 2): (4.0, 6.0)}
    runs = [
        Run(MANY, form, 10, number, {"first_ms": first, "last_ms": last})
        for (form, number), (first, last) in times.items()
    ]
    result = Result("pieces", "now", "0", 1, {}, {}, {}, "", runs=runs)
    assert slopes(result, MANY, "brin") == {1: 2.0, 2: 1.5}
    found = steepest(result, plan, MANY)
    assert found and found.ratios == {1: 2.0, 2: 1.5} and FORMS["brin"][0] in found.metric
    bare = Result("pieces", "now", "0", 1, {}, {}, {}, "", runs=[Run(ONE, "uuid", 10, 1, {"seconds": 1.0})])
    assert steepest(bare, plan, ONE) is None


@pytest.mark.server
def test_each_backlog_is_read_to_its_end(server: Server) -> None:
    plan = PiecesPlan(rows=1000, piece_rows=200)
    with Cluster(server) as cluster:
        experiment = PiecesExperiment(plan, ThrowAway(cluster), Progress())
        experiment.prepare()
        experiment.fill()
        for form in FORMS:
            for step in (MANY, ONE):
                found = experiment.read(step, form, 0)
                assert found.metrics["pieces"] == len(found.series["cpu_ms"]) == 5
                assert found.metrics["first_ms"] == found.series["cpu_ms"][0] > 0
            assert experiment.look(form, 0)["seconds"] > 0
        transactions = experiment.value(f"SELECT count(DISTINCT xact) FROM {table_of(ONE, 'brin')}")
        assert transactions == "1"
        experiment.execute(f"INSERT INTO {table_of(MANY, 'uuid')} DEFAULT VALUES")
        with pytest.raises(InorderError, match=r"the last rows of inorder_lab\.many_uuid are 101 instead of 100"):
            experiment.look("uuid", 0)
        experiment.close()


def test_what_the_report_says() -> None:
    result = recorded("pieces")
    sections = {section.name: section for section in PiecesExperiment.sections(result)}
    assert list(sections) == ["pieces_many", "pieces_one", "pieces_last"]
    for section in sections.values():
        assert [row[0] for row in section.shown()] == [label for label, _, _ in FORMS.values()]
    (row, *_) = sections["pieces_many"].rows
    (run, *_) = result.select(MANY, "uuid")
    assert run.metrics["first_ms"] > 0 and row[5] is not None
    (verdict,) = PiecesExperiment.verdicts(result)
    assert "CPU time of the last tenth (many transactions" in verdict.figures
    assert result.select(LAST, "ordered")


@pytest.mark.server
def test_a_small_run_from_start_to_end(lab_run: LabRun) -> None:
    _, printed = lab_run("pieces --rows 10k --piece-rows 5k --rounds 1 --forms uuid,ordered")
    assert "10,000 rows of one transaction, in 2 pieces of 5,000" in printed
