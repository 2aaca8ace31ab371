"""Advice as a page: a card for each finding."""

from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader

from inorder.advise.finding import Finding
from inorder.advise.report import COSTS, Advice, cost_cells, heading, parts_of
from inorder.text import one_line

CODE = ("remedy", "or", "measure")


def card(number: int, finding: Finding) -> dict[str, Any]:
    """The parts of a finding by label; ``parts_of`` repeats none that goes on."""
    label, parts = "", list[tuple[str, str]]()
    for name, text in parts_of(finding):
        label = name or label
        parts.append((label, one_line(text)))
    (_, (what,)), *others = ((name, [text for _, text in same]) for name, same in groupby(parts, lambda one: one[0]))
    return {
        "id": f"finding-{number}", "heading": heading(finding), "what": what,
        "parts": [(name, texts, name in CODE) for name, texts in others],
        "costs": [*map(cost_cells, finding.costs)],
    }  # fmt: skip


def page(advice: Advice) -> str:
    environment = Environment(
        loader=PackageLoader("inorder.lab.report", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("advice.html").render(
        title=one_line(advice.title), columns=COSTS,
        cards=[card(number, one) for number, one in enumerate(advice.findings, start=1)],
        others=[(name, [*map(one_line, texts)]) for name, texts in advice.others],
    )  # fmt: skip
