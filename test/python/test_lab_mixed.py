"""The mixed experiment: the order of its steps, growth, sections with missing figures, and a small run."""

import pytest
from inorder.commands.catalogue import report_of
from inorder.lab.experiments.mixed import (
    AGAIN,
    FILL,
    KINDS,
    REINDEX,
    STEPS,
    SWITCH,
    MixedExperiment,
    MixedPlan,
    growth,
)
from inorder.lab.results.result import Result, Run

from on_paper import empty_result
from tool import LabRun, table_lines

ROWS, MORE = 20_000, 4_000


def a_result(leaf: bool = True) -> Result:
    """Return a result in which the index of version 7 grows by 30 %, with its new pages half full.

    The result has no REINDEX of random keys, and no other kinds of key.
    """
    result = empty_result(MixedExperiment, MixedPlan(rows=1000, more=200))
    inserted = {"inserts": 200.0, "tps": 100.0, "wal_bytes": 40_000.0, "full_page_images": 2.0, "index_reads": 4.0}
    looks = (
        ("random", FILL, {"rows": 1000.0, "index_bytes": 1000.0, "leaf_density": 70.0, "leaf_pages": 10.0}),
        ("random", SWITCH, {"rows": 1200.0, "index_bytes": 1100.0, "leaf_density": 75.0, "leaf_pages": 11.0}),
        ("v7", FILL, {"rows": 1000.0, "index_bytes": 1000.0, "leaf_density": 70.0, "leaf_pages": 10.0}),
        ("v7", SWITCH, {"rows": 1200.0, "index_bytes": 1300.0, "leaf_density": 850 / 13, "leaf_pages": 13.0}),
        ("v7", REINDEX, {"rows": 1200.0, "index_bytes": 900.0}),
    )
    for kind, step, look in looks:
        metrics = look | (inserted if step == SWITCH else {"seconds": 1.0})
        if not leaf:
            metrics = {name: value for name, value in metrics.items() if not name.startswith("leaf")}
        result.runs.append(Run(step, kind, 1000, 1, metrics))
    return result


@pytest.mark.parametrize(("rows", "more", "clients", "inserts"), [(1000, None, 8, 200), (99, 30, 8, 24), (9, 1, 8, 8)])
def test_every_client_inserts_the_same_number_of_rows(rows: int, more: int | None, clients: int, inserts: int) -> None:
    """Without --more, a fifth of the rows is inserted."""
    assert MixedPlan(rows=rows, more=more, clients=clients).inserts == inserts


def test_growth_and_density_refer_only_to_added_pages() -> None:
    grown = growth(a_result(), SWITCH, "v7")
    assert (grown["percent"], grown["bytes"]) == (30.0, 1.5)
    assert grown["density"] == pytest.approx(50.0)
    assert growth(a_result(), SWITCH, "random")["density"] is None
    assert growth(a_result(), SWITCH, "time") == dict.fromkeys(("percent", "bytes", "density"))


def test_the_verdict_says_how_the_index_grew() -> None:
    (verdict,) = MixedExperiment.verdicts(a_result())
    assert verdict.figures.endswith(
        "After the switch to version 7, the index grew by 30 % for 20 % more rows; its new pages are 50 % full."
    )
    assert "its new pages" not in MixedExperiment.verdicts(a_result(leaf=False))[0].figures
    assert MixedExperiment.verdicts(empty_result(MixedExperiment, MixedPlan())) == []


def test_cells_without_a_measurement_are_empty() -> None:
    assert MixedExperiment.sections(empty_result(MixedExperiment, MixedPlan())) == []
    grown, cost = MixedExperiment.sections(a_result())
    assert [row[0] for row in grown.shown()] == [KINDS[kind].label for kind in ("random", "v7")]
    assert grown.shown()[0][-1] == "" and grown.shown()[1][-1] == "50 %"
    assert cost.shown()[1] == ["version 7", "100", "1.00 (once)", "200 B", "0.0100", "0.0200"]
    without, _ = MixedExperiment.sections(a_result(leaf=False))
    assert [row[-3:] for row in without.shown()] == [["", "", ""]] * 2 and "no pgstattuple" in without.caption


@pytest.mark.server
def test_a_small_run_completes(lab_run: LabRun) -> None:
    result, printed = lab_run(f"mixed --rows {ROWS} --more {MORE} --clients 2")
    assert len(result.runs) == len(KINDS) * len(STEPS)
    metrics = {(run.kind, run.step): run.metrics for run in result.runs}
    assert len({metrics[kind, FILL]["index_bytes"] for kind in KINDS}) == 1
    for step, rows in {FILL: ROWS, SWITCH: ROWS + MORE, REINDEX: ROWS + MORE, AGAIN: ROWS + 2 * MORE}.items():
        assert {metrics[kind, step]["rows"] for kind in KINDS} == {rows}
    size = {kind: metrics[kind, SWITCH]["index_bytes"] for kind in KINDS}
    assert metrics["v7", FILL]["index_bytes"] < size["after"] < size["v7"]
    images = {kind: metrics[kind, SWITCH]["full_page_images"] for kind in KINDS}
    assert images["random"] > 5 * max(images["v7"], images["time"], images["after"])
    assert len({metrics[kind, REINDEX]["index_bytes"] for kind in KINDS}) == 1
    if "leaf_density" in metrics["v7", FILL]:
        fresh = {kind: growth(result, SWITCH, kind)["density"] or 0 for kind in ("v7", "after")}
        assert 40 < fresh["v7"] < 65 and 80 < fresh["after"] < 95
    assert table_lines(printed, "version 7") == 4 and "Switched to version 7 the index grew" in printed
    records = report_of(result).records(result)
    assert len(records) == 4 * len(KINDS)
