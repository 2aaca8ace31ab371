"""Show results and sections on stdout and on a page."""

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
        for labelled in results:
            show_tables(labelled, several=len(results) > 1)
    elif output == "markdown":
        print_text("\n\n".join(markdown(labelled, several=len(results) > 1) for labelled in results))
    else:
        several = len(results) > 1
        show_sections((), output, [
            ({"result": labelled.label, "experiment": labelled.result.experiment} if several else {}) | record
            for labelled in results for record in labelled.report.records(labelled.result)
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


def markdown(labelled: Labelled, several: bool) -> str:
    report = labelled.report
    parts = [f"# {labelled.label}: {labelled.result.experiment}"] if several else []
    parts += [verdict.lines for verdict in report.verdicts(labelled.result)]
    parts += [*labelled.result.notes, formats.as_markdown(report.sections(labelled.result))]
    return "\n\n".join(text for text in parts if text)


class Output(Console):
    """Standard output. Rich itself would exit with code 1 if the reader of standard output closed the pipe."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def output_console() -> Console:
    """Return a console for standard output. Without a terminal, lines have FILE_WIDTH characters."""
    return Output(width=None if sys.stdout.isatty() else FILE_WIDTH)


def show_tables(labelled: Labelled, several: bool) -> None:
    report, console = labelled.report, output_console()
    if several:
        title = f"{labelled.label}: {labelled.result.experiment}, {labelled.result.created}"
        console.print(title, "", style="bold", highlight=False, markup=False)
    for table in report.tables(labelled.result):
        console.print(table, "")
    for note in labelled.result.notes:
        console.print(note, highlight=False, markup=False)
    if lines := [verdict.lines for verdict in report.verdicts(labelled.result)]:
        console.print(*lines, *[""] * several, highlight=False, markup=False, sep="\n")
