"""Output formats for sections: tables for a terminal, rows in JSON or CSV, and Markdown."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader
from rich.console import Group
from rich.table import Table
from rich.text import Text

from inorder.lab.report.section import Section

FORMATS = ("table", "json", "csv", "markdown")


def as_json(records: Sequence[dict[str, Any]]) -> str:
    return json.dumps(list(records), indent=1)


def as_csv(records: Sequence[dict[str, Any]]) -> str:
    """Return CSV with a header that contains the columns of all rows.

    >>> as_csv([{"a": 1}, {"a": 2, "b": 3}]).splitlines()
    ['a,b', '1,', '2,3']
    """
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().rstrip("\n")


def as_markdown(sections: Sequence[Section]) -> str:
    """Return a heading and a table for each section, with the columns of the HTML page.

    >>> from inorder.lab.report.section import Column
    >>> print(as_markdown([Section("s", "S", [Column("a", ""), Column("b|c", "")], [["x", "1"]], "note")]))
    ## S
    <BLANKLINE>
    | a | b\\|c |
    |---|---:|
    | x | 1 |
    <BLANKLINE>
    note
    """
    paragraphs = []
    for section in sections:
        shown = section.of_columns(lambda column: column.page)
        lines = [markdown_line([column.name.replace("\n", " ") for column in shown.columns])]
        lines.append("|---" + "|---:" * (len(shown.columns) - 1) + "|")
        lines += [markdown_line(row) for row in shown.shown()]
        paragraphs += [f"## {section.title}", "\n".join(lines), *([section.caption] if section.caption else [])]
    return "\n\n".join(paragraphs)


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def templates() -> Environment:
    return Environment(
        loader=PackageLoader("inorder.lab.report", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def sections_page(
    title: str, subtitle: str, sections: Sequence[Section], drawings: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return an HTML page for data other than a result.

    The page begins with ``sentences`` and the first section. Drawings with titles and the other sections follow.
    """
    page = templates().get_template("sections.html")
    return page.render(title=title, subtitle=subtitle, sections=sections, drawings=drawings, sentences=sentences)


WRITERS = {"json": as_json, "csv": as_csv}


def section_table(section: Section) -> Group:
    """Return the section as a table for a terminal, without the columns that appear only on the HTML page.

    The title is a separate text, because a table title would be cut to the width of the table.
    """
    section = section.of_columns(lambda column: column.terminal)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for place, column in enumerate(section.columns):
        is_left = column.wrap or not place
        table.add_column(
            column.name, justify="left" if is_left else "right", no_wrap=not column.wrap, vertical="bottom"
        )
    for row in section.shown():
        cells = zip(section.columns, row, strict=True)
        table.add_row(*(Text(cell, style="bold red" if column.alarms(cell) else "") for column, cell in cells))
    caption = [Text(section.caption, style="table.caption")] if section.caption else []
    return Group(Text(section.title, style="table.title"), table, *caption)
