"""The reuse experiment: its plan and order, its sections with missing figures, and a small complete run."""

import pytest
from inorder.commands.catalogue import report_of
from inorder.lab.experiments.reuse import (
    BATCHES,
    BLOCKS,
    DELETED,
    KINDS,
    NEED_INORDER,
    OLDEST,
    SCATTERED,
    ReuseExperiment,
    ReusePlan,
)
from inorder.lab.results.result import Run

from on_paper import empty_result
from tool import LabRun, table_lines

ROWS, TURNS = 10_000, 30
PLAN = ReusePlan(rows=ROWS, turns=TURNS)


@pytest.mark.parametrize("size", ["", "quick", "full"])
def test_prefixes_wrap_within_the_run_and_not_before_the_oldest_rows_are_gone(size: str) -> None:
    plan = ReusePlan.of_size(size, {})
    values = plan.rows + plan.turns * plan.batch
    assert 1.2 * plan.rows < plan.block_size * BLOCKS < values / 2
    assert 1.2 * BATCHES * plan.pace < plan.interval_count < (BATCHES + plan.turns) * plan.pace / 2
    assert values < plan.block_size * 65536 and plan.column("sequence_on").count(",") == 1
    assert {kind for kind in KINDS if "_nextval(" in plan.column(kind)} == set(NEED_INORDER)


def test_cells_without_a_measurement_are_empty() -> None:
    result = empty_result(ReuseExperiment, PLAN)
    assert ReuseExperiment.sections(result) == []
    counted = {"pages_freed": 9.0, "pages_taken_again": 7.0, "wal_bytes": 1000.0, "inserts": 10.0}
    sizes = {"index_bytes_filled": 1234.5 * 2**20, "index_bytes": 2469.0 * 2**20}
    result.runs = [
        Run(SCATTERED, "sequence_on", ROWS, 1, sizes | counted, {"index_bytes": [2.0**20, 2.0**21]}),
        Run(SCATTERED, "bigint", ROWS, 1, sizes, {}),
    ]
    (section,) = ReuseExperiment.sections(result)
    assert section.shown() == [
        ["bigint", "1,234.5 MB", "2,469.0 MB", "2.00", "", "", "", "", ""],
        ["sequence, no wrap", "1,234.5 MB", "2,469.0 MB", "2.00", "", "9", "7", "100 B", ""],
    ]
    assert "no pgstattuple" in section.caption
    (verdict,) = ReuseExperiment.verdicts(result)
    assert verdict.answer == "No" and verdict.figures.endswith("bigint 2.0; sequence, no wrap 2.0.")
    result.runs[0].metrics["index_bytes"] /= 2
    assert ReuseExperiment.verdicts(result)[0].answer == "With some keys"
    result.runs[0].metrics["index_bytes"] *= 2
    # The line of a sequence that does not wrap is dashed, in the colour of the sequence that wraps.
    (chart,) = section.charts
    assert chart.svg().count('stroke-dasharray="6,4"') == 1 and ">sequence, no wrap<" in chart.svg()
    assert "bigint" not in chart.svg()


@pytest.mark.server
def test_a_small_run_completes(lab_run: LabRun) -> None:
    result, printed = lab_run(f"reuse --rows {ROWS} --turns {TURNS} --pace 20ms")
    assert len(result.runs) == len(DELETED) * len(KINDS)
    for run in result.runs:
        assert all(len(series) == TURNS + 1 for series in run.series.values())
        assert run.series["index_bytes"][-1] == run.metrics["index_bytes"] > 0
        assert run.metrics["inserts"] == TURNS * ROWS // BATCHES and run.metrics["wal_bytes"] > 0
        assert ("leaf_density" in run.metrics) == ("leaf_density" in run.series)
    oldest, scattered = (
        {run.kind: run.metrics | {"grown": run.metrics["index_bytes"] / run.metrics["index_bytes_filled"]}
         for run in result.select(deleted)} for deleted in (OLDEST, SCATTERED)
    )  # fmt: skip
    for kind in ("bigint", "xact", "v7", "sequence_on"):
        assert oldest[kind]["pages_taken_again"] > 20 and oldest[kind]["grown"] < 1.5
        assert scattered[kind]["grown"] > 2
    assert oldest["random"]["pages_freed"] == scattered["random"]["pages_freed"] == 0
    assert scattered["random"]["index_bytes"] < 0.6 * scattered["v7"]["index_bytes"]
    assert oldest["sequence"]["wraps"] == pytest.approx((1 + TURNS / BATCHES) / 1.6, rel=0.01)
    assert scattered["sequence"]["index_bytes"] < 0.75 * scattered["sequence_on"]["index_bytes"]
    assert table_lines(printed, "sequence, no wrap") == 2
    records = report_of(result).records(result)
    assert [record["key"] for record in records] == 2 * list(KINDS.values())
