"""Groups of commands, whose help shows each summary whole."""

from collections.abc import Iterator

import click


class Group(click.Group):
    """Click itself cuts a summary off at the width of the terminal."""

    def summaries(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            yield name, command.get_short_help_str(limit=1000)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx)))
