"""Advice as a page, which the reports of the laboratory write."""

from inorder.advise.report import COSTS, Advice, cost_cells, heading, parts_of
from inorder.lab.report.formats import sections_page
from inorder.lab.report.section import Column, Section
from inorder.text import one_line


def sections(advice: Advice) -> list[Section]:
    found = []
    for number, one in enumerate(advice.findings):
        parts = [[label, one_line(what)] for label, what in parts_of(one)]
        found.append(Section(f"f{number}", heading(one), [Column(" ", ""), Column("  ", "", wrap=True)], parts))
        if one.costs:
            columns = [Column(name, "By the model: docs/model.md.") for name in COSTS]
            found.append(Section(f"c{number}", f"{heading(one)}: kinds of key", columns, [*map(cost_cells, one.costs)]))
    for name, texts in advice.others:
        found.append(Section(name, name, [Column(" ", "", wrap=True)], [[one_line(one)] for one in texts]))
    return found


def page(advice: Advice) -> str:
    return sections_page("inorder advise", one_line(advice.title), sections(advice))
