"""How advice is written: for people, for programs, as sections of the laboratory's reports."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from inorder.advise.cost import Cost
from inorder.advise.facts import Facts
from inorder.advise.findings import Finding, Left
from inorder.lab.plan.keys import KEY_KINDS
from inorder.text import aligned, one_line, plural, widths_of
from inorder.units import size_text

COSTS = ("key", "WAL a day", "reads a second", "index")


class Advice:
    def __init__(self, facts: Facts, findings: Sequence[Finding], left: Sequence[Left]) -> None:
        self.facts, self.findings, self.left = facts, findings, left

    @property
    def title(self) -> str:
        server = self.facts.server
        tables = len({leaf.quoted for leaf in self.facts.leaves})
        return (
            f"{plural(len(self.findings), 'finding')} in {plural(tables, 'table')} of {server.database}, "
            f"PostgreSQL {server.version_text}; rows counted {self.facts.counted}"
        )

    def as_data(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "server": asdict(facts.server) | {"counted": facts.counted, "checkpoint_seconds": facts.checkpoint},
            "findings": [asdict(one) for one in self.findings],
            "leave": [asdict(one) for one in self.left],
            "not_seen": facts.unseen,
        }

    @property
    def others(self) -> list[tuple[str, list[str]]]:
        every = {"Leave as they are": [f"{one.table}: {one.why}" for one in self.left], "Not seen": self.facts.unseen}
        return [(name, texts) for name, texts in every.items() if texts]

    def as_text(self) -> str:
        text = [one_line(self.title)]
        for one in self.findings:
            table = [*parts_of(one), *(("", line) for line in costs_table(one.costs))]
            text += ["", heading(one), *(f"  {label:8}  {one_line(what)}" for label, what in table)]
        for name, found in self.others:
            text += ["", name, *(f"  {one_line(one)}" for one in found)]
        return "\n".join(text)


def heading(one: Finding) -> str:
    return one_line(f"{one.id}: {one.table}")


def parts_of(one: Finding) -> list[tuple[str, str]]:
    parts = {
        "what": [one.what], "evidence": [f"{each.what} ({each.source})" for each in one.evidence], "cost": [one.cost],
        "remedy": [f"{statement};" for statement in one.remedy], "risk": [one.risk], "verify": [one.verify],
        "measure": [one.measure], "see": [one.page],
    }  # fmt: skip
    return [("" if place else label, text) for label, texts in parts.items() for place, text in enumerate(texts)]


def cost_cells(cost: Cost) -> tuple[str, ...]:
    return (KEY_KINDS[cost.kind].label, size_text(cost.wal_bytes_per_day), f"{cost.reads_per_second:,.1f}",
            size_text(cost.index_bytes))  # fmt: skip


def costs_table(costs: Sequence[Cost]) -> list[str]:
    table = [COSTS, *map(cost_cells, costs)]
    return [aligned(cells, widths_of(table), range(1, len(COSTS))) for cells in table] if costs else []
