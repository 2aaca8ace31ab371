"""The report of a result: the sections of its experiment, then a warning; and several side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group

from inorder.lab.analysis.quality import outliers, with_checkpoint
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import experiment_named
from inorder.lab.keys import KEY_KINDS
from inorder.lab.report.formats import section_table
from inorder.lab.report.section import Column, Section, Value
from inorder.lab.report.verdict import Verdict
from inorder.lab.results import CHECKPOINT_WAL, Result, Run

SHOWN = 3  # measurements of a kind; their number is shown with them


def where(runs: Sequence[Run]) -> str:
    """Measurements by step, kind, rows and round.

    >>> where([Run("fill", "v7", 90, number, {}) for number in range(1, 5)])
    'fill, version 7, 90 rows, round 1; fill, version 7, 90 rows, round 2; fill, version 7, 90 rows, round 3; 1 more'
    """
    found = [
        f"{run.step}, {KEY_KINDS[run.kind].label if run.kind in KEY_KINDS else run.kind}"
        + (f", {run.rows:,} rows" if run.rows else "") + f", round {run.round}"
        for run in runs[:SHOWN]
    ]  # fmt: skip
    return "; ".join([*found, *([f"{len(runs) - SHOWN} more"] if len(runs) > SHOWN else [])])


def quality_sections(result: Result, checkpoints: bool = False) -> list[Section]:
    """One warning, also for programs: who reads JSON or CSV must not take an outlier for a figure."""
    words = {
        "Outliers, run more rounds on a quiet machine": outliers(result),
        f"A checkpoint came by itself after {CHECKPOINT_WAL / 2**30:.0f} GB of WAL, ask for less at once":
            with_checkpoint(result, checkpoints),
    }  # fmt: skip
    said = [f"{text}: {where(runs)}." for text, runs in words.items() if runs]
    return [Section("quality", "Warning", [Column("warning", "", wrap=True)], [[" ".join(said)]])] if said else []


@dataclass(frozen=True)
class Report:
    kind: type[Experiment[Any]]

    def sections(self, result: Result) -> Sequence[Section]:
        found = [*self.kind.sections(result), *quality_sections(result, self.kind.checkpoints)] if result.runs else []
        names = [section.name for section in found]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"more than one section is called {', '.join(sorted(twice))}")
        return found

    def verdicts(self, result: Result) -> Sequence[Verdict]:
        return self.kind.verdicts(result) if result.runs else []

    def tables(self, result: Result) -> list[Group]:
        return [section_table(section) for section in self.sections(result) if section.terminal]

    def records(self, result: Result) -> list[dict[str, Any]]:
        return [record for section in self.sections(result) if section.data for record in section.records()]


def report_of(result: Result) -> Report:
    return Report(experiment_named(result.experiment))


@dataclass(frozen=True)
class Labelled:
    label: str
    result: Result


def distinct(results: Sequence[Labelled]) -> list[Labelled]:
    """The same, with their date where names are the same, and a number where that is not enough."""
    names = [one.label for one in results]
    dated = [f"{one.label}, {one.result.created}" if names.count(one.label) > 1 else one.label for one in results]
    labels = [f"{label} ({n})" if dated.count(label) > 1 else label for n, label in enumerate(dated, start=1)]
    return [replace(one, label=label) for label, one in zip(labels, results, strict=True)]


def side_by_side(named: Sequence[tuple[str, Sequence[Section]]]) -> list[Section]:
    """Tables that more than one has. Rows that begin alike belong together, the n-th with the n-th."""
    sections: dict[str, list[tuple[str, Section]]] = {}
    for label, some in named:
        for section in some:
            sections.setdefault(section.name, []).append((label, section.of_columns(lambda column: column.page)))
    return [merged(pairs) for pairs in sections.values() if len(pairs) > 1]


def merged(pairs: Sequence[tuple[str, Section]]) -> Section:
    first = pairs[0][1]
    heads = list(dict.fromkeys(column.name for _, section in pairs for column in section.columns[1:]))
    columns, picked = [first.columns[0]], []
    for head in heads:
        for place, (label, section) in enumerate(pairs):
            if column := next((one for one in section.columns[1:] if one.name == head), None):
                columns.append(Column(f"{head}\n{label}", column.meaning, column.show, bar=column.bar))
                picked.append((place, list(section.columns).index(column)))
    by_key = [numbered(section) for _, section in pairs]
    keys = list(dict.fromkeys(key for rows in by_key for key in rows))
    rows: list[list[Value]] = []
    for key in keys:
        found = [rows_of.get(key) for rows_of in by_key]
        rows.append([key[0], *(row[at] if (row := found[place]) else None for place, at in picked)])
    return replace(first, columns=columns, rows=rows, caption="", charts=(), note="")


def numbered(section: Section) -> dict[tuple[Value, int], Sequence[Value]]:
    seen: dict[Value, int] = {}
    rows = {}
    for row in section.rows:
        rows[row[0], seen.setdefault(row[0], 0)] = row
        seen[row[0]] += 1
    return rows
