"""The report of a result: the sections of its experiment, then outliers and drifts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from inorder.lab.experiment import Experiment
from inorder.lab.experiments import experiment_named
from inorder.lab.report.formats import section_table
from inorder.lab.report.quality import quality_sections
from inorder.lab.report.section import Section
from inorder.lab.report.verdict import Verdict
from inorder.lab.results import Result


@dataclass(frozen=True)
class Report:
    """The report of an experiment's results."""

    kind: type[Experiment[Any]]

    def sections(self, result: Result) -> Sequence[Section]:
        found = [*self.kind.sections(result), *quality_sections(result, self.kind.checkpoints)] if result.runs else []
        names = [section.name for section in found]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"more than one section is called {', '.join(sorted(twice))}")
        return found

    def verdicts(self, result: Result) -> Sequence[Verdict]:
        return self.kind.verdicts(result) if result.runs else []

    @property
    def method(self) -> str:
        return self.kind.order

    def tables(self, result: Result) -> list[Table]:
        return [section_table(section) for section in self.sections(result) if section.terminal]

    def records(self, result: Result) -> list[dict[str, Any]]:
        return [record for section in self.sections(result) if section.data for record in section.records()]


def report_of(result: Result) -> Report:
    return Report(experiment_named(result.experiment))
