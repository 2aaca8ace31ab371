"""Options that the lab's commands share, and options for the settings of a plan."""

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
SET = "set_"  # prefix of parameters that are fields of the plan

bindir_option = option(
    "--bindir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the PostgreSQL programs to run. "
    "Default: the folder of PG_CONFIG, of a system PostgreSQL with headers, or of the embedded PostgreSQL.",
)
show_option = format_option(formats.FORMATS, "What to print.")


def new_page(_context: click.Context, _option: click.Parameter, page: Path | None) -> Path | None:
    """Return the requested page. Raise InputError if the file exists, before anything else is done."""
    if page:
        require_new(page, "Remove the file, or give another --html.")
    return page


page_option = option("--html", "page", type=FILE, callback=new_page, help="Also write the report to this new file.")


def size_options(quick: str, full: str) -> list[Callable[[Any], Any]]:
    return [option("--quick", is_flag=True, excludes=["--full"], help=quick), option("--full", is_flag=True, help=full)]


def described(kind: type[Experiment[Any]], name: str) -> str:
    setting = settings_of(kind.Plan)[name]
    values = {size: getattr(kind.Plan.of_size(size, {}), name) for size in SIZES}
    shown = [f"{size} {setting.type.show(value)}".strip() for size, value in values.items()
             if value not in (None, "") and (not size or value != values[""])]  # fmt: skip
    return setting.help + (f"  [{'; '.join(shown)}]" if shown else "")


def size_given(quick: bool, full: bool) -> str:
    return QUICK if quick else FULL if full else ""


def plan_given(plan: type[Plan], size: str, own: bool, settings: Mapping[str, Any]) -> Plan:
    values = {name.removeprefix(SET): value for name, value in settings.items() if value is not None}
    for name in values if own else ():
        if (setting := settings_of(plan)[name]).of_server:
            raise InputError(f"{setting.option(name)} is for a throw-away server, and cannot be used with --dsn")
    return plan.of_size(size, values)


def options_of(kind: type[Experiment[Any]]) -> list[Callable[[Any], Any]]:
    out = usual_name(kind.name)
    settings = {name: setting for name, setting in settings_of(kind.Plan).items() if setting.asked}
    return [
        bindir_option,
        # For an experiment that needs its own server, the option is hidden and raises an error.
        option("-d", "--dsn", type=DSN, hidden=kind.alone,
               help="Run on your own server instead, in a schema inorder_lab that is removed afterwards: connection "
               "string, URI or service=NAME; '' for libpq's environment."),
        *size_options("A short run, of about a minute.", "A run of the published size, which takes hours or days."),
        *(
            option(settings[name].option(name), SET + name, type=settings[name].type, help=described(kind, name))
            for name in sorted(settings, key=lambda name: name in COMMON)
        ),
        option("-o", "--out", type=FILE, help=f"A new file for the result.  [{out}, with a number if the file exists]"),
        page_option,
        show_option,
    ]  # fmt: skip


def new_file(requested: Path | None, usual: str) -> Path:
    """Return the requested file, or the default name with a free number.

    Raise InputError if the requested file exists.
    """
    if requested is not None:
        require_new(requested, f"Run inorder lab resume {requested}, or give another --out.")
    return requested or unused(Path(usual))


def experiment_command(kind: type[Experiment[Any]], run: Callable[..., None]) -> click.Command:
    command: Any = partial(run, kind)
    for decorate in reversed(options_of(kind)):
        command = decorate(command)
    study = "studies" if len(kind.studies) > 1 else "study"
    studies = f" ({study} {', '.join(kind.studies)})" if kind.studies else ""
    return click.command(kind.name, help=f"{kind.summary.removesuffix('.')}{studies}.")(command)
