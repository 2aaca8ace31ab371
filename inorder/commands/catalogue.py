"""The report of a result: the sections of its experiment, and warnings. Several results get distinct labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group

from inorder.lab.experiments import experiment_named
from inorder.lab.report.formats import section_table
from inorder.lab.report.quality import quality_sections
from inorder.lab.report.section import Section
from inorder.lab.report.verdict import Verdict
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment


@dataclass(frozen=True)
class Report:
    kind: type[Experiment[Any]]

    def sections(self, result: Result) -> Sequence[Section]:
        sections = (
            [*self.kind.sections(result), *quality_sections(result, self.kind.checkpoints)] if result.runs else []
        )
        names = [section.name for section in sections]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"more than one section is called {', '.join(sorted(twice))}")
        return sections

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

    @property
    def report(self) -> Report:
        return report_of(self.result)


def distinct(results: Sequence[Labelled]) -> list[Labelled]:
    """Give results distinct labels: equal labels get a date or, if the dates are equal, a number."""
    names = [labelled.label for labelled in results]
    dated = [
        f"{labelled.label}, {labelled.result.created}" if names.count(labelled.label) > 1 else labelled.label
        for labelled in results
    ]
    labels = [f"{label} ({n})" if dated.count(label) > 1 else label for n, label in enumerate(dated, start=1)]
    return [replace(labelled, label=label) for label, labelled in zip(labels, results, strict=True)]
