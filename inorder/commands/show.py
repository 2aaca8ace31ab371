"""Run an experiment and show its result: live while it runs, then on stdout and as a page."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType

from inorder.display import Display
from inorder.errors import InputError
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import insert
from inorder.lab.results import Result
from inorder.lab.session import new_result, run_session
from inorder.report import formats, html
from inorder.report.catalogue import REPORTS
from inorder.report.summary import memory_note
from inorder.servers import Server, find_server

FILE_WIDTH = 140


def run_experiment(experiment: Experiment, plan: Any, options: dict[str, Any]) -> None:
    """A command's work: the server is found, the experiment run, its result shown and kept."""
    server = find_server(options["bindir"])
    result = new_result(experiment, plan, server)
    run_and_show(experiment, plan, server, result, options["out"], options["page"], options["output"])


def run_and_show(
    experiment: Experiment, plan: Any, server: Server, result: Result, out: Path, page: Path | None, output: str
) -> None:
    """Run an experiment under a live display; what was measured is shown and kept however it ends."""
    check_writable(out, page)
    report = REPORTS[experiment.name]
    aside = Console(stderr=True)
    note = f" · {memory_note(result)}" if "memory_bytes" in result.plan else ""
    aside.print(f"{server.name}, private, removed afterwards{note}", highlight=False)
    try:
        with Display(f"starting {server.name}", lambda: Group(*report.tables(result))) as display:
            run_session(experiment, plan, server, result, display, out)
    finally:
        if any(run.step != "fill" for run in result.runs):
            show(result, output, page)
            written = [str(path) for path in (out, page) if path and path.exists()]
            aside.print(f"Written: {', '.join(written)}", highlight=False)


def check_writable(*paths: Path | None) -> None:
    """An error now rather than after minutes of work."""
    for path in paths:
        if path is None:
            continue
        probe = path.with_name(path.name + ".partial")
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error


def show(result: Result, output: str, page: Path | None) -> None:
    """Print a result as asked, and write its page if asked."""
    report = REPORTS.get(result.experiment)
    if report is None:
        raise InputError(f"this inorder knows no experiment '{result.experiment}'")
    if page and result.experiment != insert.NAME:
        raise InputError(f"there is no page for the experiment '{result.experiment}' yet")
    if output == "table":
        show_tables(report.tables(result), report.headline(result))
    else:
        click.echo(formats.WRITERS[output](report.records(result)))
    if page:
        html.write_insert(result, page)


def output_console() -> Console:
    """Stdout; as wide as its tables need where there is no terminal to fit."""
    return Console(width=None if sys.stdout.isatty() else FILE_WIDTH)


def show_tables(tables: Sequence[RenderableType], headline: str) -> None:
    """An experiment on stdout, as tables."""
    console = output_console()
    for table in tables:
        console.print(table, "")
    if headline:
        console.print(headline, highlight=False)
