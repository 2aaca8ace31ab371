"""Options that the lab's commands share, and how the settings of a plan become options."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from inorder.errors import InputError
from inorder.files import require_new, unused
from inorder.lab.plan.setting import FULL, QUICK, SIZES, Plan, settings_of
from inorder.lab.report import formats
from inorder.lab.results.journal import usual_name
from inorder.lab.run.experiment import Experiment
from inorder.options import DSN, FILE, format_option, option

COMMON = ("rounds", "seed")
SET = "set_"  # before the name of a field, so that no option of the command has it

bindir_option = option(
    "--bindir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the PostgreSQL programs to run. "
    "Default: that of PG_CONFIG, a system PostgreSQL with headers, the embedded one.",
)
show_option = format_option(formats.FORMATS, "What to print.")


def new_page(_context: click.Context, _option: click.Parameter, page: Path | None) -> Path | None:
    """The page that was asked for; an error before anything else is done if it exists."""
    if page:
        require_new(page, "remove it, or give another --html")
    return page


page_option = option(
    "--html", "page", type=FILE, callback=new_page, help="Also write the report to this file, a new one."
)


def size_options(quick: str, full: str) -> list[Callable[[Any], Any]]:
    return [option("--quick", is_flag=True, excludes=["--full"], help=quick), option("--full", is_flag=True, help=full)]


def described(kind: type[Experiment[Any]], name: str) -> str:
    one = settings_of(kind.Plan)[name]
    values = {size: getattr(kind.Plan.of_size(size, {}), name) for size in SIZES}
    shown = [f"{size} {one.type.show(value)}".strip() for size, value in values.items()
             if value not in (None, "") and (not size or value != values[""])]  # fmt: skip
    return one.help + (f"  [{'; '.join(shown)}]" if shown else "")


def size_given(quick: bool, full: bool) -> str:
    return QUICK if quick else FULL if full else ""


def plan_given(plan: type[Plan], size: str, own: bool, settings: Mapping[str, Any]) -> Plan:
    given = {name.removeprefix(SET): value for name, value in settings.items() if value is not None}
    for name in given if own else ():
        if (one := settings_of(plan)[name]).of_server:
            raise InputError(f"{one.option(name)} is for a throw-away server; with --dsn the server is as it is")
    return plan.of_size(size, given)


def options_of(kind: type[Experiment[Any]]) -> list[Callable[[Any], Any]]:
    out, settings = usual_name(kind.name), {name: one for name, one in settings_of(kind.Plan).items() if one.asked}
    return [
        bindir_option,
        # An experiment that needs a server to itself says so when asked, and does not offer it.
        option("-d", "--dsn", type=DSN, hidden=kind.alone,
               help="Run on your own server instead, in a schema inorder_lab that is removed afterwards: connection "
               "string, URI or service=NAME; '' for libpq's environment."),
        *size_options("A short run.", "The published sizes: days."),
        *(
            option(settings[name].option(name), SET + name, type=settings[name].type, help=described(kind, name))
            for name in sorted(settings, key=lambda name: name in COMMON)
        ),
        option("-o", "--out", type=FILE, help=f"The result file, a new one.  [{out}, with a number if it exists]"),
        page_option,
        show_option,
    ]  # fmt: skip


def new_file(given: Path | None, usual: str) -> Path:
    """The file that was asked for, or one of the usual name; an error if it exists: no run overwrites another's."""
    if given is not None:
        require_new(given, f"inorder lab resume {given}, or another --out")
    return given or unused(Path(usual))


def experiment_command(kind: type[Experiment[Any]], run: Callable[..., None]) -> click.Command:
    command: Any = partial(run, kind)
    for decorate in reversed(options_of(kind)):
        command = decorate(command)
    study = "studies" if len(kind.studies) > 1 else "study"
    which = f" ({study} {', '.join(kind.studies)})" if kind.studies else ""
    return click.command(kind.name, help=f"{kind.summary.removesuffix('.')}{which}.")(command)
