"""The report of a result: the sections of its experiment, then outliers and drifts."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rich.console import Group

from inorder.lab.analysis.quality import Finding, findings
from inorder.lab.analysis.stats import ERROR
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import experiment_named
from inorder.lab.keys import KEY_KINDS
from inorder.lab.report.formats import section_table
from inorder.lab.report.section import Figure, Section, data_only, number, table
from inorder.lab.report.verdict import Verdict
from inorder.lab.results import CHECKPOINT_WAL, Result


def where(finding: Finding) -> str:
    label = KEY_KINDS[finding.kind].label if finding.kind in KEY_KINDS else finding.kind
    return f"{finding.step}, {label}" + (f", {finding.rows:,} rows" if finding.rows else "")


FIGURES = (
    *(data_only(name, attrgetter(name)) for name in ("step", "kind", "rows", "round")),
    Figure("where", "step, kind and rows", value=where),
    Figure("what", "an outlier by median absolute deviation, a drift by Mann-Kendall over the rounds, or a checkpoint "
           f"that came by itself after {CHECKPOINT_WAL / 2**30:.0f} GB of WAL",
           value=lambda one: one.what if one.round is None else f"{one.what} in round {one.round}"),
    Figure("of", "the metric", value=attrgetter("metric")),
    Figure("by", "outlier: from the kind's median; drift: from the first round to the last",
           number(0, "%", sign="+"), "percent", value=attrgetter("percent")),
    Figure("next", "what to do", wrap=True, value=attrgetter("next_step")),
)  # fmt: skip


def quality_sections(result: Result, checkpoints: bool = False) -> list[Section]:
    found = findings(result, checkpoints)
    note = f"On plain noise {100 * ERROR:.0f} reports in 100 note an outlier, and as many a drift."
    return [table("quality", "Outliers, drifts and checkpoints to check", FIGURES, found, note)] if found else []


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

    @property
    def method(self) -> str:
        return self.kind.order

    def tables(self, result: Result) -> list[Group]:
        return [section_table(section) for section in self.sections(result) if section.terminal]

    def records(self, result: Result) -> list[dict[str, Any]]:
        return [record for section in self.sections(result) if section.data for record in section.records()]


def report_of(result: Result) -> Report:
    return Report(experiment_named(result.experiment))
