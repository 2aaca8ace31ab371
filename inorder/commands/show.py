"""Run an experiment and show its result: live while it runs, then on stdout and as a page."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console, Group

from inorder.commands.options import new_file, plan_given, size_given, studies
from inorder.display import Display
from inorder.errors import InputError
from inorder.files import only_writer, require_writable
from inorder.lab.capabilities import Adapted, whole_run
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import all_experiments
from inorder.lab.journal import usual_name
from inorder.lab.keys import SCHEMA
from inorder.lab.plan import Plan
from inorder.lab.results import Result
from inorder.lab.server.servers import Server, find_server
from inorder.lab.session import new_result, own_result, run_own_session, run_session
from inorder.lab.targets.own_server import OwnServer, described, require_unchanged, require_usable
from inorder.report import formats, html
from inorder.report.catalogue import report_of
from inorder.report.memory import memory_note
from inorder.report.section import Section
from inorder.report.side_by_side import Labelled, distinct
from inorder.report.terminal import section_table

FILE_WIDTH = 140


def run_experiment(kind: type[Experiment[Any]], quick: bool, full: bool, **options: Any) -> None:
    """A command's work: the server is found, the experiment run, its result shown and kept."""
    found = kind.completed(plan_given(kind, size_given(quick, full), options), options["dsn"] is not None)
    plan = found.plan
    options["out"] = new_file(options["out"], usual_name(kind.name))
    if options["dsn"] is not None:
        run_own(kind, found, options)
        return
    server = find_server(options["bindir"])
    result = new_result(kind, plan, server)
    result.notes += found.notes
    run_and_show(kind, plan, server, result, options["out"], options["page"], options["output"])


def run_own(kind: type[Experiment[Any]], found: Adapted[Any], options: dict[str, Any]) -> None:
    """The same on the user's own server, with what it allows of the plan."""
    tools = find_server(options["bindir"]) if kind.programs else None
    own = OwnServer(options["dsn"], tools)
    require_usable(own.found)
    can = kind.adapt(found.plan, own.found)
    notes = [whole_run(kind.room(found.plan)[0]), *found.notes, *can.notes]
    result = own_result(kind, can.plan, own.found, notes)
    run_and_show(kind, can.plan, own, result, options["out"], options["page"], options["output"])


def resume_own(kind: type[Experiment[Any]], plan: Plan, result: Result, file: Path, options: dict[str, Any]) -> None:
    """Go on with a run on the user's own server, which must be as it was."""
    own = OwnServer(options["dsn"], find_server(options["bindir"]) if kind.programs else None)
    require_usable(own.found)
    require_unchanged(result.server, described(own.found))
    if kind.adapt(plan, own.found).plan != plan:
        raise InputError(f"the server does not allow all of what {file} asks for any more")
    run_and_show(kind, plan, own, result, file, options["page"], options["output"])


def run_and_show(
    kind: type[Experiment[Any]],
    plan: Plan,
    server: Server | OwnServer,
    result: Result,
    out: Path,
    page: Path | None,
    output: str,
    before: Sequence[Labelled] = (),
) -> None:
    """Run an experiment under a live display; what was measured is shown and kept however it ends.

    On the page it stands behind what was measured ``before``.
    """
    report = report_of(result)
    aside = Console(stderr=True)
    note = f" · {memory_note(result)}" if "memory_bytes" in result.plan else ""
    own = isinstance(server, OwnServer)
    name = f"PostgreSQL {result.server['version']}" if isinstance(server, OwnServer) else server.name
    whose = f"your own, in a schema {SCHEMA} that is removed afterwards" if own else "private, removed afterwards"
    with writing(out, page):
        aside.print(f"{name}, {whose}{note}", highlight=False, markup=False)
        try:
            with Display(f"starting {name}", lambda: Group(*report.tables(result))) as display:
                if isinstance(server, OwnServer):
                    run_own_session(kind, plan, server, result, display, out)
                else:
                    run_session(kind, plan, server, result, display, out)
        finally:
            if any(run.step != "fill" for run in result.runs):
                show([named(out, result)], output, None)
                if page:
                    html.write(distinct([*before, named(out, result)]), page)
                written = [str(path) for path in (out, page) if path and path.exists()]
                aside.print(f"Written: {', '.join(written) or 'nothing'}", highlight=False, markup=False)


@contextmanager
def writing(out: Path, page: Path | None) -> Iterator[None]:
    """Both files can be written, and no other run writes the result meanwhile; an error at once if not."""
    if page and page.resolve() == out.resolve():
        raise InputError(f"--out and --html are the same file: {page}")
    with only_writer(out):
        for path in filter(None, (out, page)):
            require_writable(path)
        yield


def named(path: Path, result: Result) -> Labelled:
    """A result by the name of its file."""
    kind = all_experiments().get(result.experiment)
    return Labelled(path.name, result, studies(kind.studies) if kind else "")


def show(results: Sequence[Labelled], output: str, page: Path | None) -> None:
    """Print results as asked, one after the other, and write their page if asked."""
    results = distinct(results)
    if output == "table":
        for one in results:
            show_tables(one, several=len(results) > 1)
    elif output == "markdown":
        click.echo("\n\n".join(markdown(one, several=len(results) > 1) for one in results))
    else:
        click.echo(formats.WRITERS[output](records(results)))
    if page:
        html.write(results, page)


def show_sections(sections: Sequence[Section], output: str, data: Sequence[dict[str, Any]]) -> None:
    """Print sections that are of no result file, or their data, as asked."""
    if output == "table":
        console = output_console()
        for section in sections:
            console.print(section_table(section), "")
    elif output == "markdown":
        click.echo(formats.as_markdown(sections))
    else:
        click.echo(formats.WRITERS[output](data))


def records(results: Sequence[Labelled]) -> list[dict[str, Any]]:
    """As data; of several each row says which it is of."""
    return [
        ({"result": one.label, "experiment": one.result.experiment} if len(results) > 1 else {}) | record
        for one in results
        for record in report_of(one.result).records(one.result)
    ]


def markdown(one: Labelled, several: bool) -> str:
    """A result as Markdown; one of several with its name above."""
    report = report_of(one.result)
    parts = [f"# {one.label}: {one.result.experiment}"] if several else []
    parts += [verdict.lines for verdict in report.verdicts(one.result)]
    parts += [*one.result.notes, formats.as_markdown(report.sections(one.result))]
    return "\n\n".join(part for part in parts if part)


class Output(Console):
    """Standard output. Rich would exit with 1 if its reader has closed it."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line, as for everything that writes."""
        raise BrokenPipeError


def output_console() -> Console:
    """Stdout; as wide as its tables need where there is no terminal to fit."""
    return Output(width=None if sys.stdout.isatty() else FILE_WIDTH)


def show_tables(one: Labelled, several: bool) -> None:
    """An experiment on stdout, as tables; one of several with its name above."""
    report, console = report_of(one.result), output_console()
    if several:
        title = f"{one.label}: {one.result.experiment}, {one.result.created}"
        console.print(title, "", style="bold", highlight=False, markup=False)
    for table in report.tables(one.result):
        console.print(table, "")
    for note in one.result.notes:
        console.print(note, highlight=False, markup=False)
    if lines := [verdict.lines for verdict in report.verdicts(one.result)]:
        console.print(*lines, *[""] * several, highlight=False, markup=False, sep="\n")
