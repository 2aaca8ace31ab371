"""Format advice as text, as data, or as sections of the lab's reports."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inorder.advise.cost import Cost
from inorder.advise.facts import Facts
from inorder.advise.finding import Finding, Unadvised
from inorder.lab.plan.keys import KEY_KINDS
from inorder.text import aligned_table, one_line, plural
from inorder.units import size_text

MOST_NAMES = 3  # maximum number of names in a title
COSTS = ("key", "WAL a day", "reads a second", "index")


@dataclass(frozen=True)
class Advice:
    """All findings of a run. ``read`` is the server or the files that were examined."""

    title: str
    read: dict[str, Any]
    findings: Sequence[Finding]
    unadvised: Sequence[Unadvised]
    unseen: Sequence[str]

    def as_data(self) -> dict[str, Any]:
        return {
            **self.read,
            "findings": [asdict(finding) for finding in self.findings],
            "leave": [asdict(entry) for entry in self.unadvised if not entry.undecided],
            "undecided": [asdict(entry) for entry in self.unadvised if entry.undecided],
            "not_seen": list(self.unseen),
        }

    @property
    def others(self) -> list[tuple[str, list[str]]]:
        texts_by_name: dict[str, list[str]] = {"Undecided": [], "Leave as they are": [], "Not seen": [*self.unseen]}
        for entry in self.unadvised:
            texts_by_name["Undecided" if entry.undecided else "Leave as they are"].append(f"{entry.table}: {entry.why}")
        return [(name, texts) for name, texts in texts_by_name.items() if texts]

    def as_text(self) -> str:
        text = [one_line(self.title)]
        for finding in self.findings:
            table = [*parts_of(finding), *(("", line) for line in costs_table(finding.costs))]
            text += ["", heading(finding), *(f"  {label:8}  {one_line(cell)}" for label, cell in table)]
        for name, texts in self.others:
            text += ["", name, *(f"  {one_line(line)}" for line in texts)]
        return "\n".join(text)


def of_server(facts: Facts, findings: Sequence[Finding], unadvised: Sequence[Unadvised]) -> Advice:
    server = facts.server
    tables = len({leaf.quoted for leaf in facts.leaves})
    title = (
        f"{plural(len(findings), 'finding')} in {plural(tables, 'table')} of {server.database}, "
        f"PostgreSQL {server.version_text}; rows counted {facts.counted}"
    )
    read = asdict(server) | {"counted": facts.counted, "checkpoint_seconds": facts.checkpoint}
    return Advice(title, {"server": read}, findings, unadvised, facts.unseen)


def of_files(names: Sequence[str], statements: int, findings: Sequence[Finding], unseen: Sequence[str]) -> Advice:
    files = ", ".join(names) if len(names) <= MOST_NAMES else plural(len(names), "file")
    title = f"{plural(len(findings), 'finding')} in {plural(statements, 'statement')} of {files}"
    return Advice(title, {"files": list(names), "statements": statements}, findings, [], unseen)


def heading(finding: Finding) -> str:
    return one_line(f"{finding.id}: {finding.table}")


def parts_of(finding: Finding) -> list[tuple[str, str]]:
    parts = {
        "what": [finding.what], "evidence": [f"{item.what} ({item.source})" for item in finding.evidence],
        "caution": [finding.caution] * bool(finding.caution), "cost": [finding.cost],
        "remedy": [f"{statement};" for statement in finding.remedy],
        "or": [f"{statement};" for statement in finding.instead],
        "choice": [finding.choice] * bool(finding.instead), "risk": [finding.risk], "verify": [finding.verify],
        "measure": [finding.measure], "see": [finding.page],
    }  # fmt: skip
    return [("" if place else label, text) for label, texts in parts.items() for place, text in enumerate(texts)]


def cost_cells(cost: Cost) -> tuple[str, ...]:
    return (KEY_KINDS[cost.kind].label, size_text(cost.wal_bytes_per_day), f"{cost.reads_per_second:,.1f}",
            size_text(cost.index_bytes))  # fmt: skip


def costs_table(costs: Sequence[Cost]) -> list[str]:
    return aligned_table([COSTS, *map(cost_cells, costs)], range(1, len(COSTS))) if costs else []
