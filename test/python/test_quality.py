"""Reports warn about outliers, but rarely if there are none."""

import numpy as np
import pytest
from inorder.commands.catalogue import Report
from inorder.lab.analysis.quality import outliers, with_checkpoint
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertExperiment
from inorder.lab.experiments.insert.report import model_sections
from inorder.lab.report.quality import quality_sections
from inorder.lab.results.result import CHECKPOINT_WAL, OWN_SERVER, Result, Run

INSERT = Report(all_experiments()["insert"])

KINDS = ("bigint", "v7", "random")


def result_of(values: dict[str, list[float]], metric: str = "tps") -> Result:
    runs = [
        Run("insert", kind, 1000, number, {metric: value})
        for kind, series in values.items()
        for number, value in enumerate(series, 1)
    ]
    return Result("insert", "now", "0", 1, {"kinds": list(values), "rows": [1000]}, {}, {}, "mock", [], runs)


def test_an_outlier_is_reported_with_its_round() -> None:
    """The data of the report also contain the warning."""
    slow = [100.0, 101.0, 99.0, 100.5, 50.0, 99.5]
    result = result_of({"bigint": slow, "v7": [100.0, 98.0, 103.0, 99.0, 101.0, 97.0]})
    assert [(run.kind, run.round) for run in outliers(result)] == [("bigint", 5)]
    (warning,) = [record for record in INSERT.records(with_inserts(result)) if record["table"] == "quality"]
    words = "These measurements are outliers (run more rounds on a quiet machine)"
    assert warning["warning"] == f"{words}: insert, bigint, 1,000 rows, round 5."


def test_too_few_rounds_show_no_difference() -> None:
    assert outliers(result_of({"bigint": [100.0, 101.0, 99.0, 100.5, 50.0]})) == []
    assert outliers(result_of({"bigint": [1.0]})) == []
    assert outliers(result_of({"bigint": [100.0, 101.0, 99.0, 100.5, 50.0, 99.5]}, "wal_bytes")) == []
    assert outliers(result_of({"bigint": [100.0] * 8})) == [] == quality_sections(result_of({"bigint": [100.0] * 8}))


@pytest.mark.parametrize("rounds", [5, 6, 9, 15])
@pytest.mark.parametrize("deviation", [0.02, 0.3])
def test_false_alarms_are_rare(rounds: int, deviation: float) -> None:
    """If three kinds of key do not differ, at most 5 % of the reports about them contain a warning."""
    generator, trials = np.random.default_rng(rounds), 400
    alarms = sum(
        bool(outliers(result_of({kind: list(1000 * generator.lognormal(0, deviation, rounds)) for kind in KINDS})))
        for _ in range(trials)
    )
    assert alarms <= trials * 0.05


@pytest.mark.parametrize(("wal", "method", "reported"), [(1, "mock", 1), (0, "mock", 0), (1, OWN_SERVER, 0)])
def test_a_checkpoint_within_a_turn_is_reported(wal: int, method: str, reported: int) -> None:
    result = with_inserts(result_of({"bigint": [100.0]}))
    result.method = method
    result.runs[0].metrics.update(rows_before=1000.0, wal_bytes=CHECKPOINT_WAL + wal, full_page_images=1.0)
    assert len(with_checkpoint(result)) == reported
    assert len(model_sections(result, InsertExperiment.plan_in(result))) == 1 - reported
    assert with_checkpoint(result, expected=True) == []  # an experiment may cause checkpoints itself
    assert reported == 0 or "insert, bigint, 1,000 rows, round 1." in quality_sections(result)[0].shown()[0][0]


def with_inserts(result: Result) -> Result:
    for run in result.runs:
        run.metrics["inserts"] = 1.0
    result.plan["memory_bytes"] = 2**20
    return result
