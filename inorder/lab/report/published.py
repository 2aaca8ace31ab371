"""The figures of published studies, read from published.toml and shown next to the measured figures."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from pathlib import Path
from typing import Any

from inorder.lab.analysis.figures import Metric, Row, median, to
from inorder.lab.report.section import Figure, Section, Value, figures, number, table, to_base
from inorder.lab.results.result import Result, Run


def with_tables(about: Mapping[str, Any]) -> dict[str, Any]:
    tables = []
    by_experiment = {name: entries for name, entries in about.items() if isinstance(entries, dict)}
    for experiment, entries in by_experiment.items():
        general = {name: entry for name, entry in entries.items() if not isinstance(entry, dict)}
        tables += [{"experiment": experiment, "name": name} | general | entry
                   for name, entry in entries.items() if name not in general]  # fmt: skip
    return {name: words for name, words in about.items() if isinstance(words, str)} | {"tables": tables}


FILE = Path(__file__).with_suffix(".toml")
STUDIES = {study: with_tables(about) for study, about in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}
SMALLEST = 10_000  # an empty table in a study is compared with a measured table of at most this number of rows
RATIO = "ratio"

Label = Callable[[str, str], str]  # a function that returns the label of a step and a kind of key


@dataclass(frozen=True)
class Published:
    """A figure from a study: its place in the study and in a result, its value, and remarks in the study."""

    study: str
    table: Mapping[str, Any]
    step: str
    kind: str
    metric: str
    rows: int | str
    value: float | str
    detail: str = ""

    @property
    def unit(self) -> str:
        return str(self.table.get("unit", ""))

    @property
    def how(self) -> str:
        return "computed" if "computed" in self.detail else str(self.table.get("as", "printed"))

    @property
    def base_place(self) -> tuple[str, str]:
        step, _, kind = self.table.get("base", "").rpartition("/")
        return step or self.step, kind

    @property
    def ratio(self) -> float | str | None:
        if self.unit == RATIO:
            return self.value
        base = next((cell for cell in cells_of(self.study, self.table)
                     if (cell.step, cell.kind) == self.base_place and cell.rows == self.rows), None)  # fmt: skip
        is_known = base and base != self and isinstance(self.value, int | float) and isinstance(base.value, int | float)
        return self.value / base.value if base and is_known else None  # type: ignore[operator]


def cells_of(study: str, table: Mapping[str, Any]) -> list[Published]:
    cells = []
    for place, *values in table["cells"]:
        where, _, metric = place.partition(":")
        step, _, kind = where.rpartition("/")
        step, metric = step or table.get("step", "insert"), metric or table.get("metric", "")
        cells.append(Published(study, table, step, kind, metric, *values))
    return cells


def of_table(study: str, name: str) -> list[Published]:
    return [
        cell for study_table in STUDIES[study]["tables"] if f"{study_table['experiment']} {study_table['name']}" == name
        for cell in cells_of(study, study_table)
    ]  # fmt: skip


def metric_of(words: str) -> Metric:
    """Return the metric that an expression in published.toml defines.

    >>> run = Run("insert", "v7", 600, 1, {"hits": 3.0, "reads": 1.0, "seconds": 2.0})
    >>> [metric_of(words)(run) for words in ("hits", "hits/hits+reads*100", "rows/seconds", "hits/2", "lost/hits")]
    [3.0, 75.0, 300.0, 1.5, None]
    """
    quotient, _, factor = words.partition("*")
    name, _, divisor = quotient.partition("/")

    def value(run: Run) -> float | None:
        values = {"rows": float(run.rows)} | run.metrics
        terms = [float(term) if term.isdigit() else values.get(term) for term in divisor.split("+") if term]
        total = fsum(addend for addend in terms if addend is not None) if terms else 1.0
        return values[name] / total * float(factor or 1) if name in values and None not in terms and total else None

    return value


@dataclass(frozen=True)
class PublishedRow(Row):
    label: str = ""
    cell: Published = field(kw_only=True)
    base: tuple[str, str] = field(kw_only=True)

    @property
    def here(self) -> Value:
        is_comparable = self.rows is not None and self.cell.unit != RATIO
        return median(metric_of(self.cell.metric))(self) if is_comparable else None

    @property
    def ratio(self) -> Value:
        step, kind = self.base
        is_comparable = self.rows is not None and kind
        return to(kind, metric_of(self.cell.metric), base_step=step)(self) if is_comparable else None


def rows_here(result: Result, cell: Published, step: str, sizes: Mapping[str, int]) -> int | None:
    """Return the measured number of rows that matches the number in the study, or None if there is no match.

    For an empty table, the smallest measured number matches, unless it exceeds SMALLEST. If the study gives no number,
    the largest measured number matches. In a table with ``nearest``, the largest measured number also matches a number
    that was not measured.
    """
    measured = {run.rows for run in result.select(step, cell.kind)}
    if cell.rows == 0:
        return min((rows for rows in measured if rows <= SMALLEST), default=None)
    expected = sizes.get(str(cell.rows), cell.rows)
    if isinstance(expected, int) and expected in measured:
        return expected
    return max(measured, default=None) if cell.table.get("nearest") or expected == "" else None


def of_cell(name: str) -> Callable[[PublishedRow], Value]:
    return lambda line: getattr(line.cell, name)


shown = number(lambda _size: ",.12g")

COLUMNS = (
    Figure("figure", "Subject of the figure.", value=lambda line: line.label),
    Figure("rows", "Rows in the study's table.", shown, value=of_cell("rows")),
    Figure("published", "Figure of the study.", shown, bar=True,
           value=lambda line: None if line.cell.unit == RATIO else line.cell.value),
    Figure("ratio\nthere", "Ratio to the base in the caption, printed by the study or computed from its figures.",
           number(2), "ratio_published", value=lambda line: line.cell.ratio),
    Figure("detail", "Further figures of the study.", value=of_cell("detail"), terminal=False),
    Figure("as", "Printed by the study, or computed from printed figures.", value=of_cell("how"), terminal=False,
           page=False),
    Figure("rows\nhere", "Rows in our table.", number(), "rows_here", terminal=False,
           value=lambda line: line.rows or None),
    Figure("here", "Median of the rounds here, in the same unit.", figures, bar=True, value=lambda line: line.here),
    Figure("ratio\nhere", "Ratio to the same base in the same round.", to_base, "ratio_here",
           value=lambda line: line.ratio),
)  # fmt: skip


def published_sections(
    result: Result, label: Label, steps: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None, kinds: Callable[[str], str] = str,
) -> list[Section]:  # fmt: skip
    """Return a section for each table of a study.

    ``steps``, ``sizes`` and ``kinds`` map names in published.toml to names in the result.
    """
    steps, sizes, sections = steps or {}, sizes or {}, []
    for study, about in STUDIES.items():
        for study_table in about["tables"]:
            lines = []
            for cell in cells_of(study, study_table) if study_table["experiment"] == result.experiment else ():
                step, (base_step, base) = steps.get(cell.step, cell.step), cell.base_place
                kind, base = kinds(cell.kind), kinds(base)
                rows = rows_here(result, replace(cell, kind=kind), step, sizes)
                lines.append(PublishedRow(result, step, kind, rows, label(cell.step, cell.kind), cell=cell,
                                    base=(steps.get(base_step, base_step), base)))  # fmt: skip
            lines = [line for line in lines if line.here or line.ratio]
            if tells_something(study_table, lines):
                sections.append(section_of(study, study_table, lines, label))
    return sections


def tells_something(study_table: Mapping[str, Any], lines: Sequence[PublishedRow]) -> bool:
    """Return True if a table has something to compare.

    If the table compares figures with a base, only a ratio counts or, if sizes may differ, a figure besides the base.
    """
    if "base" not in study_table:
        return bool(lines)
    nearest = "nearest" in study_table
    return any(line.ratio or (nearest and (line.step, line.kind) != line.base) for line in lines)


def section_of(study: str, study_table: Mapping[str, Any], lines: Sequence[PublishedRow], label: Label) -> Section:
    step, _, kind = study_table.get("base", "").rpartition("/")
    sentences = [f"Ratios are relative to {label(step, kind)}." if kind else "", study_table.get("note", "")]
    sentences += ["Some published figures are computed from printed figures."] * any(
        line.cell.how != "printed" for line in lines
    )
    columns = [column for column in COLUMNS if any(column.value(line) not in (None, "") for line in lines)]
    title = f"Beside study {study}: {study_table['title']}"
    return table(f"published_{study_table['name']}", title, columns, lines, " ".join(filter(None, sentences)))
