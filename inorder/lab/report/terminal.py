"""Sections as tables for a terminal."""

from rich.markup import escape
from rich.table import Table

from inorder.lab.report.section import Section


def section_table(section: Section) -> Table:
    """A table without lines, one blank between columns, with the columns a terminal has room for."""
    section = section.of_columns(lambda column: column.terminal)
    table = Table(
        title=escape(section.title), caption=escape(section.caption), title_justify="left", caption_justify="left",
        box=None, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for place, column in enumerate(section.columns):
        left = column.wrap or not place
        table.add_column(column.name, justify="left" if left else "right", no_wrap=not column.wrap, vertical="bottom")
    for row in section.shown():
        table.add_row(*map(escape, row))
    return table
