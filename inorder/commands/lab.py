"""inorder lab: run experiments, resume interrupted ones, report their results."""

from dataclasses import replace
from pathlib import Path

import click
from jinja2 import TemplateError

from inorder.commands.all import lab_run_all
from inorder.commands.compare import lab_compare
from inorder.commands.model import lab_model
from inorder.commands.options import FILE, bindir_option, experiment_command, format_option, page_option
from inorder.commands.show import named, resume_own, run_and_show, run_experiment, show
from inorder.errors import InputError
from inorder.lab.experiments import all_experiments, experiment_named
from inorder.lab.journal import load, load_all
from inorder.lab.results import OWN_SERVER, Result, shortened
from inorder.lab.server.servers import find_server
from inorder.lab.session import go_on
from inorder.report import html
from inorder.report.catalogue import report_of
from inorder.report.side_by_side import Labelled


@click.group()
def lab() -> None:
    """Measure: run experiments, report their results."""


lab.add_command(lab_model)
lab.add_command(lab_compare)


@lab.group("run")
def lab_run() -> None:
    """Run an experiment, on a throw-away server unless one of yours is named."""


for kind in all_experiments().values():
    lab_run.add_command(experiment_command(kind, run_experiment))
lab_run.add_command(lab_run_all)


@lab.command("resume")
@click.argument("file", type=FILE)
@bindir_option
@click.option("--dsn", help="Your own server, if FILE is of it: connection string, URI or service=NAME.")
@page_option
@format_option
def lab_resume(file: Path, bindir: Path | None, dsn: str | None, page: Path | None, output: str) -> None:
    """Go on with an interrupted run: what FILE has is kept, the rest is measured on a new server and added to it."""
    result = load(file)
    kind = experiment_named(result.experiment)
    if result.complete:
        raise InputError(f"{file} is complete")
    if (result.method == OWN_SERVER) != (dsn is not None):
        raise InputError(f"{file} is of your own server: give its --dsn" if dsn is None else
                         f"{file} is of a throw-away server: give no --dsn")  # fmt: skip
    try:
        plan = kind.plan_in(result)
        plan.require_allowed(own=dsn is not None)
    except InputError as error:
        raise InputError(f"{file} is damaged: {error}") from error
    require_reportable(file, result, True)  # what cannot be reported now cannot be when all is measured
    if dsn is not None:
        resume_own(kind, result, file, {"dsn": dsn, "bindir": bindir, "page": page, "output": output})
        return
    server = find_server(bindir)
    go_on(result, server.version, kind.method_with(plan, server))
    run_and_show(kind, plan, server, result, file, page, output)


@lab.command("report")
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE…")
@page_option
@format_option
def lab_report(files: tuple[Path, ...], page: Path | None, output: str) -> None:
    """Show results again, of result files and of pages: several one after the other, on a page side by side, too."""
    show([one for file in files for one in readable(file, page is not None)], output, page)


def readable(file: Path, page: bool = True) -> list[Labelled]:
    """The results of a file whose report can be made, as a page, too; an error that names the file if not."""
    results = load_all(file)
    for result in results:
        require_reportable(file, result, page)
    several = len(results) > 1
    labelled = [named(file, result) for result in results]
    return [replace(one, label=f"{one.label}: {one.result.experiment}") if several else one for one in labelled]


def require_reportable(file: Path, result: Result, page: bool) -> None:
    """An error that names the file if it is damaged."""
    report = report_of(result)
    try:
        report.kind.plan_in(result)
        report.sections(result)
        report.verdicts(result)
        if page:
            html.render([named(file, result)])
    except InputError as error:  # its plan
        raise InputError(f"{file} is damaged: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError) as error:
        raise InputError(f"{file} is damaged: {type(error).__name__} {shortened(error)}") from error
