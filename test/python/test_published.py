"""The figures of the published studies: that they are whole, and shown as they were told."""

import pytest
from inorder.report import published
from inorder.report.catalogue import REPORTS

from test_report import a_result, insert_run


def test_published_figures_agree_with_each_other() -> None:
    """Means with their runs but for one, rates with their rows; what is told in words stands there as words."""
    assert [
        (kind, rows) for kind, by_rows in published.INSERT_TPS.items() for rows, tps in by_rows.items()
        if abs(tps - sum(published.INSERT_RUNS[kind][rows]) / 3) > 1
    ] == [("time_char", 10_000_000)]  # fmt: skip
    for case, tps in published.WRITERS_TPS.items():
        assert published.WRITERS_ROWS_PER_SECOND[case] == pytest.approx(case[1] * tps, rel=0.001)
    result = a_result()
    result.runs += [insert_run("time60", 1, 1.0, 1.0)]
    (section,) = (one for one in REPORTS["insert"].sections(result) if one.name == "published_generators")
    assert [row[4] for row in section.shown()][4:] == [
        "20.0 GB", "2.5 GB", "2.5 GB", "5.0 GB", "13.0 GB", "less", "20.0 GB", "less"
    ]  # fmt: skip
    assert "under 0.30" in section.caption and "260 TPS to 840" in section.caption
    assert {"published_generators"} < {record["table"] for record in REPORTS["insert"].records(result)}
