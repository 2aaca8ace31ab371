"""Outliers and drifts: found where they are, rarely where they are not, and reported with a next step."""

import numpy as np
import pytest
from inorder.lab.analysis.quality import Finding, findings
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertExperiment
from inorder.lab.experiments.insert.report import model_sections
from inorder.lab.report.catalogue import Report, quality_sections
from inorder.lab.results import CHECKPOINT_WAL, OWN_SERVER, Result, Run

INSERT = Report(all_experiments()["insert"])

KINDS = ("bigint", "v7", "random")


def result_of(values: dict[str, list[float]], metric: str = "tps") -> Result:
    runs = [
        Run("insert", kind, 1000, number, {metric: value})
        for kind, some in values.items()
        for number, value in enumerate(some, 1)
    ]
    return Result("insert", "now", "0", 1, {"kinds": list(values), "rows": [1000]}, {}, {}, "mock", [], runs)


def test_an_outlier_is_reported_with_its_round_and_number() -> None:
    slow = [100.0, 101.0, 99.0, 100.5, 50.0, 99.5]
    result = result_of({"bigint": slow, "v7": [100.0, 98.0, 103.0, 99.0, 101.0, 97.0]})
    (found,) = findings(result)
    assert found.percent is not None
    assert (found.what, found.kind, found.round, round(found.percent)) == ("outlier", "bigint", 5, -50)
    assert found.next_step.startswith("run more rounds")
    turn = next(run for run in result.runs if run.metrics["tps"] == 50.0)
    turn.series["tps"] = [100.0, 100.0, 0.0, 99.0]
    assert findings(result)[0].next_step.startswith("second 3 of round 5 had 0 of 100")


@pytest.mark.parametrize(("metric", "why"), [("tps", "perhaps caches"), ("seconds", "perhaps a growing table")])
def test_a_drift_is_reported_with_its_size(metric: str, why: str) -> None:
    (found,) = findings(result_of({"bigint": [100.0, 104.0, 108.0, 113.0, 117.0, 122.0]}, metric))
    assert isinstance(found, Finding) and (found.what, found.round) == ("drift", None)
    assert found.percent == pytest.approx(22, abs=1) and found.next_step.startswith(why)


def test_too_few_rounds_show_nothing() -> None:
    assert findings(result_of({"bigint": [1.0, 100.0, 1000.0, 10_000.0]})) == []
    assert findings(result_of({"bigint": [1.0]})) == []
    assert findings(result_of({"bigint": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, "wal_bytes")) == []
    assert findings(result_of({"bigint": [100.0] * 8})) == [] == quality_sections(result_of({"bigint": [100.0] * 8}))


@pytest.mark.parametrize("rounds", [5, 6, 9, 15])
@pytest.mark.parametrize("deviation", [0.02, 0.3])
def test_false_alarms_are_rare(rounds: int, deviation: float) -> None:
    generator, told = np.random.default_rng(rounds), {"outlier": 0, "drift": 0}
    trials = 400
    for _ in range(trials):
        some = {kind: list(1000 * generator.lognormal(0, deviation, rounds)) for kind in KINDS}
        for what in {found.what for found in findings(result_of(some))}:
            told[what] += 1
    slack = 3 * (trials * 0.05 * 0.95) ** 0.5
    assert told["outlier"] <= trials * 0.05 + slack and told["drift"] <= trials * 0.05 + slack


@pytest.mark.parametrize(("wal", "method", "told"), [(1, "mock", 1), (0, "mock", 0), (1, OWN_SERVER, 0)])
def test_a_checkpoint_within_a_turn_is_reported(wal: int, method: str, told: int) -> None:
    result = with_inserts(result_of({"bigint": [100.0]}))
    result.method = method
    result.runs[0].metrics.update(rows_before=1000.0, wal_bytes=CHECKPOINT_WAL + wal, full_page_images=1.0)
    assert [(one.what, one.round, one.percent) for one in findings(result)] == [("checkpoint", 1, None)] * told
    assert len(model_sections(result, InsertExperiment.plan_in(result))) == 1 - told
    assert findings(result, checkpoints=True) == []  # an experiment that makes some itself
    assert told == 0 or quality_sections(result)[0].shown()[0][5:8] == ["checkpoint in round 1", "full_page_images", ""]


def test_data_report_it_too() -> None:
    """Who reads only JSON or CSV must not take an outlier for a figure."""
    result = result_of({"bigint": [100.0, 101.0, 99.0, 100.5, 50.0, 99.5]})
    (found,) = [record for record in INSERT.records(with_inserts(result)) if record["table"] == "quality"]
    assert (found["kind"], found["rows"], found["round"], found["of"]) == ("bigint", 1000, 5, "tps")
    assert found["percent"] == pytest.approx(-50, abs=1) and found["next"].startswith("run more rounds")


def with_inserts(result: Result) -> Result:
    for run in result.runs:
        run.metrics["inserts"] = 1.0
    result.plan["memory_bytes"] = 2**20
    return result
