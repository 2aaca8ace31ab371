"""``inorder lab resume`` and ``lab report``, which read result files."""

from dataclasses import replace
from pathlib import Path

import click
from jinja2 import TemplateError

from inorder.commands.catalogue import Labelled, report_of
from inorder.commands.options import bindir_option, page_option, show_option
from inorder.commands.run import run_and_show, writing
from inorder.commands.show import show
from inorder.errors import InputError
from inorder.lab.experiments import experiment_named
from inorder.lab.plan.setting import settings_of
from inorder.lab.report import html
from inorder.lab.results.journal import load, load_all
from inorder.lab.results.result import OWN_SERVER, Result, shortened
from inorder.lab.run.hosts import host_for
from inorder.lab.run.runner import WholeRun
from inorder.options import DSN, FILE, option


@click.command("resume")
@click.argument("file", type=FILE)
@bindir_option
@option("-d", "--dsn", type=DSN, help="Your own server, if it was measured: connection string, URI or service=NAME.")
@option(
    "--source", type=DSN,
    help='For a FILE of "inorder lab run like": server of the table to imitate.  [libpq\'s environment]',
)  # fmt: skip
@page_option
@show_option
def lab_resume(
    file: Path, bindir: Path | None, dsn: str | None, source: str | None, page: Path | None, output: str
) -> None:
    """Resume an interrupted run: make the measurements that FILE lacks, on a new server."""
    result = load(file)
    kind = experiment_named(result.experiment)
    if result.complete:
        raise InputError(f"{file} is complete")
    if (result.method == OWN_SERVER) != (dsn is not None):
        raise InputError(f"{file} was measured on your own server: give its --dsn" if dsn is None else
                         f"{file} was measured on a throw-away server: omit --dsn")  # fmt: skip
    try:
        plan = kind.plan_in(result)
        plan.require_allowed(own=dsn is not None)
    except InputError as error:
        raise InputError(f"{file} is damaged: {error}") from error
    if source is not None and "source" not in settings_of(kind.Plan):
        raise InputError('--source is only for runs of the experiment "like"')
    if source is not None:
        plan = replace(plan, source=source)
    # Fail before the measurements, which may take hours, if the result cannot be shown.
    require_reportable(file, result, True)
    plan = kind.completed(plan, dsn is not None).plan
    with writing(file, page):
        host = host_for(kind, dsn, bindir)
        host.resume(kind, plan, result)
        run_and_show(WholeRun(kind, plan, host, result, file), page, output)


@click.command("report")
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE…")
@page_option
@show_option
def lab_report(files: tuple[Path, ...], page: Path | None, output: str) -> None:
    """Show results again, from result files or pages. With --html, show them side by side."""
    show([entry for file in files for entry in readable(file, page is not None)], output, page)


def readable(file: Path, page: bool = True) -> list[Labelled]:
    """Return the results in a file.

    Raise InputError with the name of the file if a result cannot be shown or, with ``page``, cannot be shown on a page.
    """
    results = load_all(file)
    for result in results:
        require_reportable(file, result, page)
    several = len(results) > 1
    labelled = [Labelled(file.name, result) for result in results]
    return [
        replace(entry, label=f"{entry.label}: {entry.result.experiment}") if several else entry for entry in labelled
    ]


def require_reportable(file: Path, result: Result, page: bool) -> None:
    report = report_of(result)
    try:
        report.kind.plan_in(result)
        report.sections(result)
        report.verdicts(result)
        if page:
            html.render([Labelled(file.name, result)])
    except InputError as error:  # the plan is invalid
        raise InputError(f"{file} is damaged: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError) as error:
        raise InputError(f"{file} is damaged: {type(error).__name__} {shortened(error)}") from error
