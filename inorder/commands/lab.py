"""The groups ``inorder lab`` and ``lab run`` with the names of their commands. This module loads no command."""

import click

from inorder.groups import Commands, Group, Modules
from inorder.lab.experiments import experiment_named, names, summary_of

COMMANDS = {
    "check": ("inorder.commands.check", "Check if a reader loses rows."),
    "report": ("inorder.commands.results", "Show results again, from result files or pages."),
    "resume": (
        "inorder.commands.results",
        "Resume an interrupted run: make the measurements that FILE lacks, on a new server.",
    ),
    "run": ("inorder.commands.lab", "Run an experiment, on a throw-away server or, with --dsn, on your own server."),
}
LIKE = click.Option(
    ["--like"], metavar="TABLE", help="Imitate TABLE of your database: see inorder lab run like --help."
)


@click.group(cls=Group, commands=Modules(COMMANDS, "lab_"))
def lab() -> None:
    """Measure: run experiments, report their results."""


class Experiments(Commands):
    def __init__(self) -> None:
        super().__init__(names())

    def load(self, name: str) -> click.Command:
        # The help of the group does not need these packages.
        from inorder.commands.options import experiment_command  # noqa: PLC0415
        from inorder.commands.run import run_experiment  # noqa: PLC0415

        command = experiment_command(experiment_named(name), run_experiment)
        command.params += [LIKE] if name == "insert" else []
        return command

    def summary(self, name: str) -> str:
        return summary_of(name)


class Run(Group):
    """Experiments by name. The experiment ``like`` is also an option of ``insert``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Convert ``insert --like TABLE`` to ``like --table TABLE``. If TABLE is missing, click reports the error."""
        options = [argument.partition("=") for argument in args]
        if args[:1] == ["insert"] and args[-1] != "--like" and any(name == "--like" for name, _, _ in options):
            args = [
                "like",
                *("".join(("--table" if option[0] == "--like" else option[0], *option[1:])) for option in options[1:]),
            ]
        return super().resolve_command(ctx, args)


@click.group("run", cls=Run, commands=Experiments())
def lab_run() -> None:
    """Run an experiment, on a throw-away server or, with --dsn, on your own server.

    In the help of an experiment, the brackets after an option show its values in a usual run, with --quick and with
    --full.
    """
