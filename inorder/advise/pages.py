"""Advice as an HTML page with a card for each finding."""

from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader

from inorder.advise.finding import Finding
from inorder.advise.report import COSTS, Advice, cost_cells, heading, parts_of
from inorder.text import one_line

CODE = ("remedy", "or", "measure")


def card(number: int, finding: Finding) -> dict[str, Any]:
    """Group the parts of a finding by label. parts_of() leaves out a label that repeats the previous label."""
    label, parts = "", list[tuple[str, str]]()
    for name, text in parts_of(finding):
        label = name or label
        parts.append((label, one_line(text)))
    (_, (description,)), *sections = (
        (name, [text for _, text in same]) for name, same in groupby(parts, lambda pair: pair[0])
    )
    return {
        "id": f"finding-{number}", "heading": heading(finding), "what": description,
        "parts": [(name, texts, name in CODE) for name, texts in sections],
        "costs": [*map(cost_cells, finding.costs)],
    }  # fmt: skip


def page(advice: Advice) -> str:
    environment = Environment(
        loader=PackageLoader("inorder.lab.report", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("advice.html").render(
        title=one_line(advice.title), columns=COSTS,
        cards=[card(number, finding) for number, finding in enumerate(advice.findings, start=1)],
        others=[(name, [*map(one_line, texts)]) for name, texts in advice.others],
    )  # fmt: skip
