"""The figures of published studies, and the tables in docs/results that name commands to reproduce these figures.

A published figure is shown next to a measured figure, if there is one. The commands exist, and the reports have their
tables.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

import click
import pytest
from inorder.cli import cli
from inorder.commands.catalogue import report_of
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.summary import places_of
from inorder.lab.plan.setting import settings_of
from inorder.lab.report.published import STUDIES, Published, cells_of, of_table, published_sections
from inorder.lab.results.result import Result, Run
from inorder.lab.targets.target import Target

import study_pages
from on_paper import a_result, insert_run
from replay import Counting, Nowhere, recorded, recorded_names
from tool import inorder

TABLES = [(study, table) for study, about in STUDIES.items() for table in about["tables"]]
SIZES = {"small": 1000, "medium": 2000, "large": 3000}


def measured(experiment: str, cells: list[Published]) -> Result:
    result = Result(experiment, "now", "0", 1, {}, {}, {}, "mock", [], [], True)
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    names = dict.fromkeys(name for cell in cells for name in cell.metric.replace("*", "/").replace("+", "/").split("/"))
    for cell in cells:
        rows = SIZES.get(str(cell.rows)) or int(cell.rows or 1000)
        for number in range(1, 7):
            metrics = {name: float(1 + kinds.index(cell.kind)) for name in names}
            result.runs.append(Run(cell.step, cell.kind, rows, number, metrics))
    return result


def test_every_figure_is_shown_where_it_was_measured() -> None:
    for study, table in TABLES:
        cells = cells_of(study, table)
        result = measured(table["experiment"], cells + of_base(cells))
        sections = published_sections(result, lambda step, kind: f"{step} {kind}", sizes=SIZES)
        section = next(candidate for candidate in sections if candidate.name == f"published_{table['name']}")
        shown = {(record["figure"], record.get("rows", "")) for record in section.records()}
        assert len(section.rows) == len(cells) and {(f"{cell.step} {cell.kind}", cell.rows) for cell in cells} >= shown
        assert section.title == f"Beside study {study}: {table['title']}"
        measured_records = [record for record in section.records() if record.get("here") or record.get("ratio_here")]
        assert measured_records == section.records()


def of_base(cells: list[Published]) -> list[Published]:
    return [replace(cell, step=cell.base_place[0], kind=cell.base_place[1]) for cell in cells if "base" in cell.table]


def places(name: str) -> set[tuple[str, str, int]]:
    kind = all_experiments()[name]
    experiment = kind(kind.Plan.of_size("full", {}), cast(Target, Nowhere()), Counting())
    return {
        (place.step, place.kind, place.rows)
        for stage in experiment.stages() for turn in stage.turns(1) for place in turn.places
    }  # fmt: skip


def test_the_full_runs_measure_every_published_figure() -> None:
    for experiment in {table["experiment"] for _, table in TABLES}:
        measured = places(experiment)
        for study, table in TABLES:
            for cell in cells_of(study, table) if table["experiment"] == experiment else ():
                place = (cell.step.partition("@")[0], cell.kind)
                rows = {rows for step, kind, rows in measured if (step, kind) == place}
                # Keys of an extension that some servers lack, and the table that was loaded with such keys, are left
                # out.
                if "random_ossp" not in cell.kind and table["name"] != "loaded":
                    least = 10_000 if cell.rows == 0 else 0
                    assert rows and (not isinstance(cell.rows, int) or cell.rows in rows or min(rows) <= least), cell


def test_a_figure_is_shown_beside_the_nearest_number_of_rows() -> None:
    result = a_result()
    result.runs = [insert_run(kind, number, 100.0, 1.0, rows) for kind in ("random_char", "time_char", "bigint")
                   for rows in (5000, 9000, 1_000_000) for number in range(1, 7)]  # fmt: skip
    (keys,) = (
        candidate
        for candidate in published_sections(result, lambda _, kind: kind)
        if candidate.name == "published_keys"
    )
    figures = [(record["figure"], record["rows"], record["rows_here"]) for record in keys.records()]
    assert figures[:2] == [("random_char", 0, 5000), ("random_char", 1_000_000, 1_000_000)] and len(figures) == 6
    cells = [cell for cell in of_table("P1", "bulk add_key") if cell.kind != "random_ossp"]
    bulk = measured("bulk", cells)
    for run in bulk.runs:
        bulk.runs[bulk.runs.index(run)] = Run(run.step, run.kind, 6000, run.round, run.metrics)
    assert {record["rows_here"] for section in published_sections(bulk, lambda _, kind: kind)
            for record in section.records()} == {6000}  # fmt: skip


def test_keys_with_a_unique_index_are_compared_with_study_p3() -> None:
    """The study uses unique indexes: its figures are compared with measurements of unique indexes on the same keys."""
    result = a_result()
    result.plan |= {"kinds": ["time60", "random"], "indexes": ["unique"], "rows": [1000, 2000]}
    result.runs = [insert_run(f"{kind}_unique", number, tps, 1.0, rows) for rows in (1000, 2000)
                   for kind, tps in (("time60", 100.0), ("random", 25.0)) for number in range(1, 7)]  # fmt: skip
    (speeds,) = (
        candidate for candidate in report_of(result).sections(result) if candidate.name == "published_generators"
    )
    figures = [(record["figure"], record["rows"], record["ratio_here"]) for record in speeds.records()]
    assert figures == [("random", "small", 0.25), ("random", "large", 0.25)]


def test_a_study_without_a_measured_key_is_not_shown() -> None:
    result = a_result()
    result.runs = [insert_run("bigint", number, 100.0, 1.0, 1000) for number in range(1, 7)]
    assert published_sections(result, lambda _, kind: kind) == []


def test_a_figure_of_another_size_is_shown_without_its_base() -> None:
    """No ratio is shown if its base was measured with another size. A measurement of the base alone is not shown."""
    result = a_result()
    result.runs = [insert_run("random_char_plain_packed", number, 90.0, 1.0, 3_000_000) for number in range(1, 7)]
    (indexes,) = (
        section for section in published_sections(result, lambda _, kind: kind) if section.name == "published_indexes"
    )
    figures = [(record["figure"], record["here"], record["rows_here"]) for record in indexes.records()]
    assert figures == [("random_char_plain_packed", 90.0, 3_000_000)] and "ratio_here" not in indexes.records()[0]
    result.runs = [insert_run("bigint_none", number, 100.0, 1.0, 1_000_000) for number in range(1, 7)]
    names = [section.name for section in published_sections(result, lambda _, kind: kind)]
    assert "published_no_index" not in names


def test_ratios_of_published_figures_are_printed_or_computed() -> None:
    assert [round(float(cell.ratio or 0), 2) for cell in of_table("P1", "insert keys")[:2]] == [0.70, 0.31]
    assert round(float(of_table("P1", "bulk builds")[0].ratio or 0), 2) == 2.06
    assert [cell.ratio for cell in of_table("P4", "uuid-v1 steps")][5] == "4–5"
    wal = {(cell.rows, cell.kind): cell for cell in of_table("P3", "insert wal")}
    assert round(float(wal["medium", "random"].ratio or 0), 1) == 25.8 and wal["large", "sequence256"].ratio is None
    assert {cell.how for cell in wal.values()} == {"computed"}
    assert [cell.how for cell in of_table("P5", "writers speed")].count("computed") == 1


def test_sizes_of_study_p3_are_assigned_by_the_memory_that_they_fit_into() -> None:
    result = a_result()
    for rows, size in ((1000, 2**19), (2000, 2**20 + 1), (3000, 5 * 2**20), (4000, 5 * 2**20 + 1)):
        result.runs.append(Run("fill", "random", rows, 1, {"table_bytes": 0.0, "index_bytes": size}))

    def found(page_cache: int | None, *rows: int) -> dict[str, int]:
        return places_of(result, InsertPlan(rows=rows, memory_bytes=2**20, page_cache=page_cache))

    assert found(2**22, 1000, 2000, 3000, 4000) == {"small": 1000, "medium": 3000, "large": 4000}
    assert found(None, 1000, 2000, 3000, 4000) == {"small": 1000, "medium": 3000, "large": 4000}
    assert (found(2**22, 1000), found(None, 1000)) == ({"small": 1000}, {"small": 1000})
    assert found(None, 1000, 2000) == {"small": 1000, "large": 2000}


# --- docs/results/p1.md to p5.md ----------------------------------------------


KINDS = all_experiments()
MISSING = "not reproduced, because "
SAME = "the same here: ["
PARTS = {"system", "parameter", "table", "claim", "question"}
OF_RUNS = {"--quick": 0, "--full": 0, "--dsn": 1}  # number of arguments of the options that every experiment has
COUNT = re.compile(r"\d[\d,]*( [kM])?\b")


@dataclass(frozen=True)
class Line:
    study: str
    part: str
    what: str
    answer: str
    title: str

    @property
    def commands(self) -> list[list[str]]:
        return [command.split() for command in re.findall(r"`([^`]+)`", self.answer) if command[0] != "-"]

    @property
    def answering(self) -> list[list[str]]:
        return [] if self.answer.startswith((MISSING, SAME)) else self.commands


def lines() -> Iterator[Line]:
    for study, parts in study_pages.PARTS.items():
        yield from (Line(study, *cells) for cells in parts)


LINES = list(lines())


def pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(words):
        takes = OF_RUNS.get(words[place], 1)
        yield words[place], words[place + 1] if takes else ""
        place += 1 + takes


def title_pattern(title: str) -> str:
    """Numbers of rows are left out, because they differ from run to run.

    >>> title_pattern("10 M rows: a plain btree"), title_pattern("3,000 rows by one")
    ('N rows: a plain btree', 'N rows by one')
    """
    return COUNT.sub("N", title)


@cache
def titles() -> dict[str, set[str]]:
    by_experiment: dict[str, set[str]] = {name: set() for name in KINDS}
    for name in recorded_names():
        result = recorded(name)
        if result.experiment == "insert":
            result.plan["max_wal_size"] = 2**30
        by_experiment[result.experiment] |= {section.title for section in report_of(result).sections(result)}
    for study, about in STUDIES.items():
        for table in about["tables"]:
            by_experiment[table["experiment"]].add(f"Beside study {study}: {table['title']}")
    return by_experiment


def test_each_study_has_its_source_and_all_its_parts() -> None:
    assert list(STUDIES) == ["P1", "P2", "P3", "P4", "P5"]
    assert all(about[name] for about in STUDIES.values() for name in ("title", "author", "address", "summary"))
    for study in STUDIES:
        of_study = [line for line in LINES if line.study == study]
        parts = {line.part for line in of_study}
        assert parts <= PARTS and {"system", "parameter", "table", "claim"} <= parts
        assert len({line.what for line in of_study}) == len(of_study)
    unanswered = [
        line for line in LINES if not line.answering and (line.title or not line.answer.startswith((MISSING, SAME)))
    ]
    assert unanswered == []


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def named(words: list[str]) -> click.Command:
    group: click.Command = cli
    for word in words:
        if not isinstance(group, click.Group):
            break
        subcommand = group.get_command(click.Context(group), word)
        assert subcommand, word
        group = subcommand
    return group


COMMANDS = {" ".join(command): command for line in LINES for command in line.commands}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_runs_as_written(command: list[str], tmp_path: Path) -> None:
    if command[0] == "inorder":
        assert {word for word in command if word.startswith("--")} <= options_of(named(command[1:]))
        few = [{"217M": "217"}.get(word, word) for word in command[1:]]
        done = inorder(*few, folder=tmp_path)
        assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr
        return
    kind, size = KINDS[command[0]], "full" if "--full" in command else ""
    settings = {
        setting.option(name): (name, setting) for name, setting in settings_of(kind.Plan).items() if setting.asked
    }
    assert {option for option, _ in pairs(command[1:])} <= options_of(named(["lab", "run", command[0]]))
    parameters = {
        settings[option][0]: settings[option][1].type.read(str(tmp_path) if value == "DIR" else value, option)
        for option, value in pairs(command[1:])
        if option not in OF_RUNS
    }
    plan = kind.Plan.of_size(size, parameters)
    plan.require_allowed(own=False)
    assert kind.room(plan)[0] > 0 and {name: getattr(plan, name) for name in parameters} == parameters


def test_the_tables_are_in_the_reports_and_all_of_them_are_listed() -> None:
    for line in LINES:
        shown_titles = [title_pattern(title) for title in titles()[line.answering[0][0]]] if line.title else [""]
        assert any(title.startswith(title_pattern(line.title)) for title in shown_titles), (line, sorted(shown_titles))
    listed = {line.title for line in LINES if line.title.startswith("Beside study")}
    beside = {
        title for of_experiment in titles().values() for title in of_experiment if title.startswith("Beside study")
    }
    assert {title for title in beside if not any(title.startswith(title_listed) for title_listed in listed)} == set()
    commands = {(line.study, command[0]) for line in LINES for command in line.answering}
    assert {(study, name) for name, kind in KINDS.items() for study in kind.studies} <= commands
