"""Show results and sections: on stdout, and as a page."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from inorder.commands.catalogue import Labelled, distinct
from inorder.lab.report import formats, html
from inorder.lab.report.formats import section_table
from inorder.lab.report.section import Section
from inorder.text import print_text

FILE_WIDTH = 140


def show(results: Sequence[Labelled], output: str, page: Path | None) -> None:
    results = distinct(results)
    if output == "table":
        for one in results:
            show_tables(one, several=len(results) > 1)
    elif output == "markdown":
        print_text("\n\n".join(markdown(one, several=len(results) > 1) for one in results))
    else:
        several = len(results) > 1
        show_sections((), output, [
            ({"result": one.label, "experiment": one.result.experiment} if several else {}) | record
            for one in results for record in one.report.records(one.result)
        ])  # fmt: skip
    if page:
        html.write(results, page)


def show_sections(sections: Sequence[Section], output: str, data: Sequence[dict[str, Any]]) -> None:
    if output == "table":
        console = output_console()
        for section in sections:
            console.print(section_table(section), "")
    elif output == "markdown":
        print_text(formats.as_markdown(sections))
    else:
        print_text(formats.WRITERS[output](data))


def markdown(one: Labelled, several: bool) -> str:
    report = one.report
    parts = [f"# {one.label}: {one.result.experiment}"] if several else []
    parts += [verdict.lines for verdict in report.verdicts(one.result)]
    parts += [*one.result.notes, formats.as_markdown(report.sections(one.result))]
    return "\n\n".join(part for part in parts if part)


class Output(Console):
    """Standard output. Rich would exit with 1 if its reader has closed it."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def output_console() -> Console:
    """Stdout; as wide as its tables need where there is no terminal to fit."""
    return Output(width=None if sys.stdout.isatty() else FILE_WIDTH)


def show_tables(one: Labelled, several: bool) -> None:
    report, console = one.report, output_console()
    if several:
        title = f"{one.label}: {one.result.experiment}, {one.result.created}"
        console.print(title, "", style="bold", highlight=False, markup=False)
    for table in report.tables(one.result):
        console.print(table, "")
    for note in one.result.notes:
        console.print(note, highlight=False, markup=False)
    if lines := [verdict.lines for verdict in report.verdicts(one.result)]:
        console.print(*lines, *[""] * several, highlight=False, markup=False, sep="\n")
