"""The figures of the published studies: each is shown, beside ours where that was measured."""

from dataclasses import replace
from typing import Any, cast

import pytest
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import places_of
from inorder.lab.report.published import STUDIES, Published, cells_of, of_table, published_sections
from inorder.lab.results import Result, Run
from inorder.lab.targets.target import Target

from on_paper import a_result, insert_run
from replay import Counting, Nowhere

TABLES = [(study, one) for study, about in STUDIES.items() for one in about["tables"]]
SIZES = {"small": 1000, "medium": 2000, "large": 3000}


def measured(experiment: str, cells: list[Published]) -> Result:
    """A result with every metric of these, a round after the other; the n-th kind has n times as much."""
    result = Result(experiment, "now", "0", 1, {}, {}, {}, "mock", [], [], True)
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    names = dict.fromkeys(name for cell in cells for name in cell.metric.replace("*", "/").replace("+", "/").split("/"))
    for cell in cells:
        rows = SIZES.get(str(cell.rows)) or int(cell.rows or 1000)
        for number in range(1, 7):
            metrics = {name: float(1 + kinds.index(cell.kind)) for name in names}
            result.runs.append(Run(cell.step, cell.kind, rows, number, metrics))
    return result


@pytest.mark.parametrize(("study", "table"), TABLES, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_every_figure_is_shown_where_it_was_measured(study: str, table: dict[str, Any]) -> None:
    cells = cells_of(study, table)
    result = measured(table["experiment"], cells + of_base(cells))
    section = next(one for one in published_sections(result, lambda step, kind: f"{step} {kind}", sizes=SIZES)
                   if one.name == f"published_{table['name']}")  # fmt: skip
    shown = {(record["figure"], record.get("rows", "")) for record in section.records()}
    assert len(section.rows) == len(cells) and {(f"{one.step} {one.kind}", one.rows) for one in cells} >= shown
    assert section.title == f"Beside study {study}: {table['title']}"
    known = [record for record in section.records() if record.get("here") or record.get("ratio_here")]
    assert known == section.records()


def of_base(cells: list[Published]) -> list[Published]:
    return [replace(cell, step=cell.base_place[0], kind=cell.base_place[1]) for cell in cells if "base" in cell.table]


def places(name: str) -> set[tuple[str, str, int]]:
    """Step, kind and rows of all that the full run measures."""
    kind = all_experiments()[name]
    experiment = kind(kind.Plan.of_size("full", {}), cast(Target, Nowhere()), Counting())
    return {
        (place.step, place.kind, place.rows)
        for stage in experiment.stages() for turn in stage.turns(1) for place in turn.places
    }  # fmt: skip


def test_the_full_runs_measure_every_published_figure() -> None:
    for experiment in {one["experiment"] for _, one in TABLES}:
        there = places(experiment)
        for study, one in TABLES:
            for cell in cells_of(study, one) if one["experiment"] == experiment else ():
                place = (cell.step.partition("@")[0], cell.kind)
                rows = {rows for step, kind, rows in there if (step, kind) == place}
                if cell.kind != "random_ossp":  # of an extension that is not everywhere
                    least = 10_000 if cell.rows == 0 else 0
                    assert rows and (not isinstance(cell.rows, int) or cell.rows in rows or min(rows) <= least), cell


def test_beside_which_rows_a_figure_stands() -> None:
    result = a_result()
    result.runs = [insert_run(kind, number, 100.0, 1.0, rows) for kind in ("random_char", "time_char", "bigint")
                   for rows in (5000, 9000, 1_000_000) for number in range(1, 7)]  # fmt: skip
    (keys,) = (one for one in published_sections(result, lambda _, kind: kind) if one.name == "published_keys")
    found = [(one["figure"], one["rows"], one["rows_here"]) for one in keys.records()]
    assert found[:2] == [("random_char", 0, 5000), ("random_char", 1_000_000, 1_000_000)] and len(found) == 6
    cells = [cell for cell in of_table("P1", "bulk add_key") if cell.kind != "random_ossp"]
    bulk = measured("bulk", cells)
    for run in bulk.runs:
        bulk.runs[bulk.runs.index(run)] = Run(run.step, run.kind, 6000, run.round, run.metrics)
    assert {one["rows_here"] for section in published_sections(bulk, lambda _, kind: kind)
            for one in section.records()} == {6000}  # fmt: skip


def test_a_study_is_not_shown_of_whose_keys_none_was_measured() -> None:
    result = a_result()
    result.runs = [insert_run("bigint", number, 100.0, 1.0, 1000) for number in range(1, 7)]
    assert published_sections(result, lambda _, kind: kind) == []


def test_ratios_of_published_figures() -> None:
    assert [round(float(cell.ratio or 0), 2) for cell in of_table("P1", "insert keys")[:2]] == [0.70, 0.31]
    assert round(float(of_table("P1", "bulk builds")[0].ratio or 0), 2) == 2.06
    assert [cell.ratio for cell in of_table("P4", "uuid-v1 steps")][5] == "4–5"
    wal = {(cell.rows, cell.kind): cell for cell in of_table("P3", "insert wal")}
    assert round(float(wal["medium", "random"].ratio or 0), 1) == 26.7 and wal["large", "time60"].ratio is None
    assert {cell.how for cell in wal.values()} == {"reckoned"}
    assert [cell.how for cell in of_table("P5", "writers speed")].count("reckoned") == 1


def test_tables_of_study_p3_by_what_they_fit_into() -> None:
    result = a_result()
    for rows, size in ((1000, 2**19), (2000, 2**20 + 1), (3000, 5 * 2**20), (4000, 5 * 2**20 + 1)):
        result.runs.append(Run("fill", "random", rows, 1, {"table_bytes": 0.0, "index_bytes": size}))

    def found(page_cache: int | None, *rows: int) -> dict[str, int]:
        return places_of(result, InsertPlan(rows=rows, memory_bytes=2**20, page_cache=page_cache))

    assert found(2**22, 1000, 2000, 3000, 4000) == {"small": 1000, "medium": 3000, "large": 4000}
    assert found(None, 1000, 2000, 3000, 4000) == {"small": 1000, "medium": 3000, "large": 4000}
    assert (found(2**22, 1000), found(None, 1000)) == ({"small": 1000}, {"small": 1000})
    assert found(None, 1000, 2000) == {"small": 1000, "large": 2000}


def test_each_study_has_its_source() -> None:
    assert list(STUDIES) == ["P1", "P2", "P3", "P4", "P5"]
    assert all(about[name] for about in STUDIES.values() for name in ("title", "author", "address", "summary"))
