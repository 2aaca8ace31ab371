"""inorder lab run all: every experiment one after the other, and one page of them all."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from inorder.commands.options import bindir_option, size_given, size_options
from inorder.commands.run import run_and_show
from inorder.errors import InputError
from inorder.files import require_writable
from inorder.installations import find_installation
from inorder.lab.experiment import Experiment
from inorder.lab.experiments import all_experiments
from inorder.lab.hosts import Host, ThrowAwayHost
from inorder.lab.journal import load, load_all, usual_name
from inorder.lab.report import html
from inorder.lab.report.catalogue import Labelled, distinct
from inorder.lab.results import Result
from inorder.lab.runner import WholeRun
from inorder.options import FOLDER, option


def begun(kind: type[Experiment[Any]], size: str, file: Path, host: Host) -> WholeRun:
    """The run that a file has, if it is of the same plan and server; a new one if there is no file."""
    plan = kind.Plan.of_size(size, {})
    fresh = WholeRun(kind, plan, host, host.result(kind, plan), file)
    if not file.exists():
        return fresh
    there = load(file)
    if there.experiment != kind.name or kind.plan_in(there) != kind.plan_in(fresh.result):
        raise InputError(f"{file} is of another run: remove it, or choose another folder by --out")
    if there.server.get("version") != fresh.result.server["version"] or there.method != fresh.result.method:
        raise InputError(f"{file} is of another server or method: remove it, or choose another folder by --out")
    if not there.complete:
        host.resume(kind, plan, there)
    return replace(fresh, plan=kind.plan_in(there), result=there)


def require_own(page: Path, results: Iterable[Result]) -> None:
    """An error if there is a page that holds other results than these: it would be overwritten."""
    held = {(one.experiment, one.created) for one in load_all(page)} if page.exists() else set()
    if not held <= {(one.experiment, one.created) for one in results}:
        raise InputError(f"{page} is of another run: remove it, or choose another folder by --out")


quick, full = size_options("Short runs: about ten minutes on two cores.", "The published sizes: days.")


@click.command("all")
@bindir_option
@quick
@full
@option("--out", type=FOLDER, default=".", help="Folder for its files.")
def lab_run_all(bindir: Path | None, quick: bool, full: bool, out: Path) -> None:
    """Run every experiment but like one after the other, for a page of all.

    Writes a file for each, and inorder-lab.html.
    What the folder has of the same run is kept: after an interruption the same command resumes it.
    """
    size, host = size_given(quick, full), ThrowAwayHost(find_installation(bindir))
    kinds = {name: kind for name, kind in all_experiments().items() if not kind.needs}
    out.mkdir(parents=True, exist_ok=True)
    page = out / "inorder-lab.html"
    runs = [begun(kind, size, out / usual_name(name), host) for name, kind in kinds.items()]
    require_own(page, [one.result for one in runs])
    require_writable(page)
    aside = Console(stderr=True)
    try:
        for one in runs:
            if one.result.complete:
                aside.print(f"{one.file}: complete already", highlight=False, markup=False)
            else:
                run_and_show(one, None, "table")
    finally:  # once, since drawing the charts of all takes seconds
        done = [Labelled(one.file.name, one.result) for one in runs if one.result.runs or one.result.complete]
        if done:
            html.write(distinct(done), page)
            aside.print(f"Written: {page}", highlight=False, markup=False)
