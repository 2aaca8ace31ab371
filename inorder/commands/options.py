"""Options that the lab's commands share, and how the settings of a plan become options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from inorder.errors import InputError
from inorder.lab.legacy import Experiment
from inorder.lab.plan import Plan
from inorder.lab.setting import settings_of
from inorder.report import formats
from inorder.units import parse_count, short

FILE = click.Path(dir_okay=False, path_type=Path)

bindir_option = click.option(
    "--bindir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the PostgreSQL programs to run. "
    "Default: that of PG_CONFIG, a system PostgreSQL with headers, the embedded one.",
)
format_option = click.option(
    "--format", "output", type=click.Choice(formats.FORMATS), default="table", show_default=True, help="What to print."
)
page_option = click.option("--html", "page", type=FILE, help="Write the page here, too.")


@dataclass(frozen=True)
class Setting:
    """An option that sets a field of a plan: how its text is read, and how a value is shown in the help."""

    field: str
    help: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    flag: str = ""

    @property
    def option(self) -> str:
        """As it is written."""
        return self.flag or "--" + self.field.replace("_", "-")


def typed(count: int) -> str:
    """A number as one would type it.

    >>> typed(2_000_000)
    '2M'
    """
    return short(count).replace(" ", "")


def whole(option: str, lowest: int, highest: int) -> Callable[[str], int]:
    """Reads a number: 8, 10k, 2M."""
    return lambda text: parse_count(text, option, lowest, highest)


def count_setting(field: str, help: str, lowest: int, highest: int, flag: str = "") -> Setting:
    """A number."""
    return Setting(field, help, whole(flag or "--" + field.replace("_", "-"), lowest, highest), typed, flag)


# Fields of plans that say how a throw-away server is started; the user's own is as it is.
SERVER_SETTINGS = ("memory_bytes", "shared_buffers", "iops", "synchronous_commit", "tablespace")

COMMON = (
    count_setting("rounds", "Times of each.", 1, 1000),
    Setting(
        "seed", "Seed of the order, and of pgbench.", lambda text: parse_count(text, "--seed", 0, 2**31 - 1)
    ),
)


# What plans take from the machine; a file can have anything there.
UNASKED = (count_setting("threads", "Threads of pgbench.", 1, 1024), count_setting("fill_workers", "Fillers.", 1, 1024))


def options_of_plan(plan: type[Plan]) -> list[Setting]:
    """Those of a plan, but for what every experiment has."""
    return [
        Setting(
            name, one.help, lambda text, one=one, name=name: one.read(text, one.option(name)),  # type: ignore[misc]
            one.show, one.flag,
        )
        for name, one in settings_of(plan).items() if one.asked and name not in ("rounds", "seed")
    ]  # fmt: skip


def described(setting: Setting, experiment: Experiment) -> str:
    """The help of an option: with its value in each size of run."""
    values = {size: getattr(experiment.plan_of(size), setting.field) for size in ("", "quick", "full")}
    shown = [f"{size} {setting.show(value)}".strip() for size, value in values.items()
             if value not in (None, "") and (not size or value != values[""])]  # fmt: skip
    return setting.help + (f"  [{'; '.join(shown)}]" if shown else "")


def plan_given(experiment: Experiment, every: Sequence[Setting], size: str, options: dict[str, Any]) -> Any:
    """The plan of a size but for the settings among the options, which are taken out."""
    dsn = options["dsn"]
    if dsn is not None and not experiment.takes_dsn:
        raise InputError(f"lab run {experiment.name} needs a server to itself: it has no --dsn")
    given = {s.field: s.parse(value) for s in every if (value := options.pop("set_" + s.field)) is not None}
    if dsn is not None and (wrong := [s.option for s in every if s.field in given and s.field in SERVER_SETTINGS]):
        raise InputError(f"{wrong[0]} is for a throw-away server; with --dsn the server is as it is")
    return experiment.plan_of(size, **given)


def dsn_option(experiment: Experiment) -> Callable[[Any], Any]:
    """On your own server; an experiment that needs one to itself says so when asked, and does not offer it."""
    return click.option(
        "--dsn",
        hidden=not experiment.takes_dsn,
        help="Run on your own server instead, in a schema inorder_lab that is removed afterwards: connection string, "
        "URI or service=NAME; '' for libpq's environment.",
    )


def require_allowed(plan: Any, settings: Sequence[Setting], own: bool) -> None:
    """An error if a plan from a file has a value that its option would refuse; what an own server has is as it is."""
    for setting in (*settings, *COMMON, *(one for one in UNASKED if hasattr(plan, one.field))):
        value = getattr(plan, setting.field)
        if value != getattr(type(plan)(), setting.field) and not (own and setting.field in SERVER_SETTINGS):
            setting.parse(setting.show(value))


def options_of(experiment: Experiment, every: Sequence[Setting]) -> list[Callable[[Any], Any]]:
    """The options of an experiment's command, as the help lists them."""
    out = f"inorder-{experiment.name}.json"
    return [
        bindir_option,
        dsn_option(experiment),
        click.option("--quick", is_flag=True, help="A short run."),
        click.option("--full", is_flag=True, help="The published sizes: hours."),
        *(click.option(s.option, "set_" + s.field, help=described(s, experiment)) for s in every),
        click.option("--out", type=FILE, default=out, show_default=True, help="The result file."),
        page_option,
        format_option,
    ]


def experiment_command(
    experiment: Experiment,
    text: str,
    settings: Sequence[Setting],
    run: Callable[[Experiment, Any, dict[str, Any]], None],
) -> click.Command:
    """The command that runs an experiment: its settings as options, and those of every experiment."""
    every = (*settings, *COMMON)

    def call(quick: bool, full: bool, **options: Any) -> None:
        if quick and full:
            raise InputError("--quick and --full exclude each other")
        plan = plan_given(experiment, every, "quick" if quick else "full" if full else "", options)
        run(experiment, plan, options)

    command: Any = call
    for option in reversed(options_of(experiment, every)):
        command = option(command)
    which = f" ({studies(experiment.study)})" if experiment.study else ""
    return click.command(experiment.name, help=f"{text.removesuffix('.')}{which}.")(command)


def studies(names: str) -> str:
    """As the help and the page say it.

    >>> studies("P1, P3"), studies("P5"), studies("")
    ('studies P1, P3', 'study P5', '')
    """
    return f"{'studies' if ',' in names else 'study'} {names}" if names else ""
