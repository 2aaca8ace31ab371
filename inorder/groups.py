"""Groups of commands. The help of a group shows each summary in full without loading a command."""

from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

import click

UNLOADED = click.Command("unloaded")


class Commands(UserDict[str, click.Command], ABC):
    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names, UNLOADED))

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is UNLOADED:
            self.data[name] = self.load(name)
        return self.data[name]

    @abstractmethod
    def load(self, name: str) -> click.Command:
        """Import a command with everything that it needs."""

    @abstractmethod
    def summary(self, name: str) -> str:
        """Return the summary of a command for the help of its group."""


class Modules(Commands):
    """Commands in modules. The function of a command is named after the command, with a prefix."""

    def __init__(self, modules: Mapping[str, tuple[str, str]], prefix: str = "") -> None:
        """Take the module and the summary of each command, keyed by the name of the command."""
        super().__init__(modules)
        self.modules, self.prefix = modules, prefix

    def load(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(self.modules[name][0]), self.prefix + name)
        return command

    def summary(self, name: str) -> str:
        return self.modules[name][1]


class Group(click.Group):
    """A group whose help shows summaries in full. click itself truncates summaries at the width of the terminal."""

    def summaries(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        for name in self.list_commands(ctx):
            commands = self.commands
            yield (
                name,
                commands.summary(name)
                if isinstance(commands, Commands)
                else commands[name].get_short_help_str(limit=1000),
            )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx)))
