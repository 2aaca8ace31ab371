"""Option types with ranges and messages, options shared by several commands, and combinations of options."""

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import click

from inorder.errors import InorderError, InputError
from inorder.text import quoted
from inorder.units import parse_bytes, parse_count, parse_duration, typed_count, typed_seconds, typed_size

T = TypeVar("T")
MOST_TRIES = 1000
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def long_name(names: Sequence[str]) -> str:
    """Return the name that messages use for an option.

    >>> long_name(["-d", "--dsn"]), long_name(["table"])
    ('--dsn', 'table')
    """
    return next((name for name in names if name.startswith("--")), names[-1])


@dataclass(frozen=True)
class Value(click.ParamType, Generic[T]):  # type: ignore[type-arg]  # generic since click 8.4
    """An option type, with its metavariable in the help.

    ``read`` converts a string from the command line into a value, or raises an error that begins with the name of the
    option. ``show`` is the inverse: it returns a string that ``read`` converts into exactly this value.
    """

    name: str
    read: Callable[[str, str], T]
    show: Callable[[T], str]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        return self.read(value, long_name(param.opts) if param else self.name)


def count(lowest: int = 1, highest: int = 10**12, name: str = "COUNT") -> Value[int]:
    return Value(name, lambda text, option: parse_count(text, option, lowest, highest), typed_count)


def size(lowest: int) -> Value[int]:
    return Value("SIZE", lambda text, option: parse_bytes(text, option, lowest), typed_size)


def duration(lowest: float = 0.01, highest: float = 86_400) -> Value[float]:
    return Value("DURATION", lambda text, option: parse_duration(text, option, lowest, highest), typed_seconds)


def one_of(names: Collection[str], listed: Collection[str] = ()) -> Value[str]:
    """Accept one of the given names. The error for another name lists ``names`` or, if given, ``listed``."""

    def read(text: str, option: str) -> str:
        if text not in names:
            raise InputError(f"{option}: unknown value {quoted(text)}; choose from {', '.join(listed or names)}")
        return text

    return Value("NAME", read, str)


def several(element: Value[T]) -> Value[tuple[T, ...]]:
    """Accept comma-separated values, each of them once.

    >>> several(count(1, 9)).read("2,1,2", "--n")
    (2, 1)
    """

    def read(text: str, option: str) -> tuple[T, ...]:
        return tuple(dict.fromkeys(element.read(item.strip(), option) for item in text.split(",")))

    return Value(f"{element.name},…", read, lambda values: ",".join(map(element.show, values)))


def connection_string(text: str, option: str) -> str:
    from psycopg import ProgrammingError  # noqa: PLC0415  # loads the driver, which --help does not need
    from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415

    if "\0" in text:
        raise InputError(f"{option}: {text!r} contains a null character")
    try:
        conninfo_to_dict(text)
    except ProgrammingError as error:
        hint = "" if "=" in text or ":" in text else f"\nHINT:  {option} {shlex.quote(make_conninfo(dbname=text))}"
        raise InputError(f"{option}: {str(error).strip()}{hint}") from error
    return text


DSN = Value("DSN", connection_string, str)


class Option(click.Option):
    """An option that ``requires`` or ``excludes`` other options. ``excludes`` may map other options to reasons.

    ``section`` is a heading in the help, above this option and all options up to the next option with a section.
    """

    def __init__(
        self, *names: Any, requires: str = "", excludes: Sequence[str] | Mapping[str, str] = (),
        section: str = "", **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(*names, **more)
        self.section = section
        self.requires = requires
        self.excludes = excludes if isinstance(excludes, Mapping) else dict.fromkeys(excludes, "")

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Refuse invalid combinations. ``opts`` contains the options given on the command line."""
        if self.name in opts and not ctx.resilient_parsing:
            self.check({name for parameter in ctx.command.params if parameter.name in opts for name in parameter.opts})
        return super().handle_parse_result(ctx, opts, args)

    def check(self, given: Iterable[str]) -> None:
        option, others_given = long_name(self.opts), set(given) - set(self.opts)
        if self.requires and self.requires not in others_given:
            raise InputError(f"{option} requires {self.requires}")
        for excluded in (name for name in self.excludes if name in others_given):
            reason = self.excludes[excluded]
            raise InputError(f"{option} cannot be used with {excluded}{': ' if reason else ''}{reason}")


class Sections(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section. --help, which click adds without a section, is listed under Options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        name = "Options"
        for parameter in self.get_params(ctx):
            name = getattr(parameter, "section", "Options") or name
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
                sections.setdefault(name, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def confirmed(question: str, to_stderr: bool = False) -> None:
    """Ask before something is removed. Without a terminal, raise an error that names --yes."""
    try:
        agreed = click.confirm(question, err=to_stderr)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise InputError("nothing was removed: there is no terminal for the confirmation; HINT: Use --yes.") from None
    if not agreed:
        raise InorderError("nothing was removed")


def option(*names: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=Option, **{"show_default": bool(more.get("default")), **more})


def dsn_option(server: str = "") -> Callable[[Any], Any]:
    text = f"Connection string, URI or service=NAME{server}.  [default: libpq's environment]"
    return option("-d", "--dsn", type=DSN, default="", help=text)


def format_option(formats: Iterable[str], help: str = "Output format.", **more: Any) -> Callable[[Any], Any]:
    names = list(formats)
    return option("--format", "output", type=click.Choice(names), default=names[0], help=help, **more)


def lock_timeout_option(usual: str) -> Callable[[Any], Any]:
    text = "Maximum time that a statement waits for a lock; writers may queue behind it."
    return option("--lock-timeout", type=duration(), default=usual, help=text)


def tries_option(scope: str = "") -> Callable[[Any], Any]:
    text = f"Maximum number of tries{scope}, with pauses of up to 10 s."
    return option("--tries", type=count(1, MOST_TRIES), default="30", help=text)
