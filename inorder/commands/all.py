"""inorder lab run all: every experiment one after the other, and one page of them all."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from inorder.commands.options import bindir_option, size_given
from inorder.commands.show import named, run_and_show
from inorder.errors import InputError
from inorder.files import require_writable
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import all_experiments
from inorder.lab.journal import load, load_all, usual_name
from inorder.lab.results import Result
from inorder.lab.server.servers import Server, find_server
from inorder.lab.session import go_on, new_result
from inorder.report import html
from inorder.report.side_by_side import distinct


def begun(kind: type[Experiment[Any]], size: str, file: Path, server: Server) -> Result:
    """The result in a file, if it is of the same plan and server; an empty one if there is no file."""
    fresh = new_result(kind, kind.Plan.of_size(size, {}), server)
    if not file.exists():
        return fresh
    there = load(file)
    if there.experiment != kind.name or kind.plan_in(there) != kind.plan_in(fresh):
        raise InputError(f"{file} is of another run: remove it, or choose another folder by --out")
    if there.server.get("version") != server.version or there.method != fresh.method:
        raise InputError(f"{file} is of another server or method: remove it, or choose another folder by --out")
    if not there.complete:
        go_on(there, server.version, fresh.method)
    return there


def file_in(folder: Path, name: str) -> Path:
    """The result file of an experiment; one of an earlier version has another ending, and is kept."""
    path = folder / usual_name(name)
    earlier = path.with_suffix(".json")
    return earlier if earlier.exists() and not path.exists() else path


def require_own(page: Path, results: Iterable[Result]) -> None:
    """An error if there is a page that holds other results than these: it would be overwritten."""
    held = {(one.experiment, one.created) for one in load_all(page)} if page.exists() else set()
    if not held <= {(one.experiment, one.created) for one in results}:
        raise InputError(f"{page} is of another run: remove it, or choose another folder by --out")


@click.command("all")
@bindir_option
@click.option("--quick", is_flag=True, help="Short runs: about ten minutes on two cores.")
@click.option("--full", is_flag=True, help="The published sizes: days.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", help="Folder for its files.")
def lab_run_all(bindir: Path | None, quick: bool, full: bool, out: Path) -> None:
    """Run every experiment but lab run like one after the other; writes a file for each, and inorder-lab.html of all.

    What the folder has of the same run is kept: after an interruption the same command resumes it.
    """
    size, server = size_given(quick, full), find_server(bindir)
    kinds = {name: kind for name, kind in all_experiments().items() if not kind.needs}
    out.mkdir(parents=True, exist_ok=True)
    page = out / "inorder-lab.html"
    files = {name: file_in(out, name) for name in kinds}
    results = {name: begun(kinds[name], size, files[name], server) for name in kinds}
    require_own(page, results.values())
    require_writable(page)
    try:
        for name, kind in kinds.items():
            run_or_keep(kind, server, results[name], files[name])
    finally:  # once, since drawing the charts of all takes seconds
        done = [named(files[name], result) for name, result in results.items() if result.runs or result.complete]
        if done:
            html.write(distinct(done), page)
            Console(stderr=True).print(f"Written: {page}", highlight=False, markup=False)


def run_or_keep(kind: type[Experiment[Any]], server: Server, result: Result, file: Path) -> None:
    """One experiment, unless its result is complete."""
    if result.complete:
        Console(stderr=True).print(f"{file}: complete already", highlight=False, markup=False)
    else:
        run_and_show(kind, kind.plan_in(result), server, result, file, None, "table")
