"""Convert the help of all commands to the man page docs/inorder.1 and to a page of the site."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
from inorder.cli import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"  # exists while script/site builds the site
MAN = ROOT / "docs" / "inorder.1"
WIDE = 10_000  # no line breaks: the program that displays the page adds them
HEAD = """# Commands

This is the `--help` of each command. The man page `inorder(1)` of pip and of the Debian package has the same text.

What the commands are for: [tail and count](tail.md), [the lab](lab.md), [choosing a key](choose.md),
[advice](advice.md), [data sets](uuid_v1.md#data-sets-of-uuids), [existing tables](feed-tables.md),
[feeds](feed-operations.md#which-feed-is-behind-and-why), [Citus](citus.md), [installing](install.md),
[hosted servers](hosted.md).

## Completion in the shell

The tool writes the script itself. For bash (4.4 or later), zsh and fish:

```sh
_INORDER_COMPLETE=bash_source inorder > inorder.bash      # source it in ~/.bashrc
_INORDER_COMPLETE=zsh_source inorder > inorder.zsh        # source it in ~/.zshrc, after compinit
_INORDER_COMPLETE=fish_source inorder > inorder.fish      # into ~/.config/fish/completions
```
"""
CODES = "Exit codes: "
SECTIONS = {
    "ENVIRONMENT": "The variables of libpq select the server (PGHOST, PGDATABASE, PGSERVICE, PGPASSFILE and so on); "
    "PG_CONFIG selects the PostgreSQL that the lab runs.",
    "SEE ALSO": "psql(1), pgbench(1)",
}


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from commands(below, click.Context(below, parent=context, info_name=name, max_content_width=WIDE))


def every_command() -> Iterator[tuple[click.Command, click.Context]]:
    return commands(cli, click.Context(cli, info_name="inorder", max_content_width=WIDE))


def usage(command: click.Command, context: click.Context) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def paragraphs(command: click.Command) -> list[str]:
    text = f"{command.help or ''}\n\n{command.epilog or ''}".replace("\b\n", "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return each option except --help, with its help text, range and default value."""
    listed = [
        option
        for option in command.get_params(context)
        if isinstance(option, click.Option) and "--help" not in option.opts
    ]
    records = [option.get_help_record(context) for option in listed]
    return [(name, " ".join(says.split())) for name, says in filter(None, records)]


def page() -> str:
    parts = [HEAD]
    for command, context in every_command():
        parts += [f"## {context.command_path}\n", f"`{usage(command, context)}`\n"]
        parts += [f"{escaped(text)}\n" for text in paragraphs(command)]
        rows = [
            "| `{}` | {} |".format(name.replace("|", "\\|"), escaped(says)) for name, says in options(command, context)
        ]
        if rows:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def escaped(text: str) -> str:
    """Escape a string for Markdown.

    >>> escaped("a | b_c *")
    'a \\\\| b\\\\_c \\\\*'
    """
    return re.sub(r"([|_*<\[\]`])", r"\\\1", text)


def roff(text: str) -> str:
    """Escape a string for a man page.

    >>> roff(".a --b\\\\c")
    '\\\\&.a \\\\-\\\\-b\\\\ec'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"([|,])(?=\S)", r"\1\\:", text)  # allow a line break after these characters
    return f"\\&{text}" if text.startswith((".", "'")) else text


def manual() -> str:
    # The text is left-aligned, because groff warns about long lists of values that it cannot justify. groff 1.23 takes
    # this setting from AD, and groff 1.22 from .ad.
    lines = ['.TH INORDER 1 "" inorder "User Commands"', ".ds AD l", ".ad l", ".nh", ".SH NAME"]
    lines += [roff("inorder - read, count and measure insert-only tables of PostgreSQL"), ".SH SYNOPSIS"]
    lines += [".B inorder", roff("COMMAND [OPTIONS] [ARGS]..."), ".SH DESCRIPTION"]
    for command, context in every_command():
        below = context.parent is not None
        lines += [f".SS {roff(context.command_path)}", roff(usage(command, context))] if below else []
        for text in paragraphs(command):
            lines += [".PP", roff(text)] if not text.startswith(CODES) else []
        for name, says in options(command, context):
            lines += [".TP", f".B {roff(name)}", roff(says)]
        lines += [] if below else [".SH COMMANDS"]
    (codes,) = (text.removeprefix(CODES) for text in paragraphs(cli) if text.startswith(CODES))
    for name, text in {"EXIT STATUS": codes, **SECTIONS}.items():
        lines += [f".SH {name}", roff(text)]
    return "\n".join(lines) + "\n"


def main() -> None:
    MAN.write_text(manual(), encoding="utf-8")


if __name__ == "__main__":
    main()
