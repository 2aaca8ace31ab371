"""How each experiment's result is shown: its sections, and what they say in a sentence or two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from inorder.errors import InputError
from inorder.lab.experiments import all_experiments
from inorder.lab.results import Result
from inorder.report.quality import quality_sections
from inorder.report.section import Section
from inorder.report.terminal import section_table

TURNS = (
    "What is compared takes turns in shuffled order within a round, so that what disturbs a round disturbs all; "
    "ratios are paired within their round."
)


@dataclass(frozen=True)
class Report:
    """Sections, from which everything is written, and a headline ("" for none): what to use, by how much, how sure.

    ``method`` says in which order things were measured.
    """

    sections: Callable[[Result], Sequence[Section]]
    headline: Callable[[Result], str] = lambda result: ""
    method: str = TURNS

    def tables(self, result: Result) -> list[Table]:
        """For a terminal."""
        return [section_table(section) for section in self.sections(result) if section.terminal]

    def records(self, result: Result) -> list[dict[str, Any]]:
        """As data."""
        return [record for section in self.sections(result) if section.data for record in section.records()]


def of_sections(
    sections: Callable[[Result], Sequence[Section]],
    headline: Callable[[Result], str] = lambda result: "",
    method: str = TURNS,
) -> Report:
    """A report made of sections, and of what to look at before they are believed; of nothing measured nothing."""

    def all_sections(result: Result) -> list[Section]:
        found = [*sections(result), *quality_sections(result)] if result.runs else []
        names = [section.name for section in found]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"more than one section is called {', '.join(sorted(twice))}")
        return found

    return Report(all_sections, headline, method)


REPORTS = {
    name: of_sections(kind.sections, kind.headline, kind.order) for name, kind in all_experiments().items()
}


def report_of(result: Result) -> Report:
    """How a result is shown."""
    if result.experiment not in REPORTS:
        raise InputError(f"this inorder knows no experiment '{result.experiment}'")
    return REPORTS[result.experiment]
