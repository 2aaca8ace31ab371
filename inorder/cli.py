"""The command line: commands, exit codes and signals. No command module imports this module."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from inorder import __version__
from inorder.errors import PIPE_CLOSED, InorderError, InputError, Terminated
from inorder.groups import Group, Modules
from inorder.sources import installer
from inorder.text import lines, quoted

INTERRUPTED = 130  # the exit code that shells use for SIGINT
TERMINATED = 143

# For each command: its module, which is imported on first use, and its summary, so that the help needs no import.
# Importing all modules takes 0.75 s. Importing the module of tail takes less than half of this time.
COMMANDS = {
    "demo": ("inorder.commands.demo", "Show in about three minutes what polling readers lose and what each key costs."),
    "lab": ("inorder.commands.lab", "Measure: run experiments, report their results."),
    "generate": ("inorder.generate.command", "Write a data set of UUIDs."),
    "advise": ("inorder.advise.command", "Find tables whose kind of key is expensive, and readers that lose rows."),
    "choose": ("inorder.choose.command", "Choose a kind of key, and its parameters."),
    "tail": ("inorder.tail.command", "Write the new rows of an insert-only table."),
    "count": ("inorder.count.command", "Count the rows of a table exactly, all of them or by group."),
    "feeds": ("inorder.feeds.command", "Show which feed is behind, and what delays its rows."),
    "prepare": ("inorder.prepare.command", "Make an existing table readable by feeds, online."),
    "citus": ("inorder.citus.command", "Make the shards of a distributed table readable (Citus)."),
    "extension": ("inorder.extension.command", "Build and install the extension's files on a server."),
    "install": ("inorder.install.command", "Install inorder into a database: the C extension, or as plain SQL."),
    "upgrade": ("inorder.install.command", "Upgrade inorder in a database to the version of this tool."),
    "uninstall": ("inorder.install.command", "Remove inorder from a database."),
}
# commands that need an extra, each with a package of that extra
OF_EXTRA = {"demo": "msgspec", "lab": "msgspec", "generate": "numpy"}


def installer_of(name: str) -> str:
    return installer("demo" if name == "demo" else "lab")


def missing(name: str, package: str) -> click.Command:
    hint = installer_of(name)

    def refuse(**_arguments: object) -> NoReturn:
        raise InputError(f"inorder {name} needs {package}, which is not installed; HINT: {hint}")

    return click.Command(
        name, callback=refuse, params=[click.Argument(["words"], nargs=-1)], add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )  # fmt: skip


class Installed(Modules):
    def is_there(self, name: str) -> bool:
        return name not in OF_EXTRA or find_spec(OF_EXTRA[name]) is not None

    def load(self, name: str) -> click.Command:
        if not self.is_there(name):
            return missing(name, OF_EXTRA[name])
        try:
            return super().load(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "inorder":
                raise
            return missing(name, str(error.name))

    def summary(self, name: str) -> str:
        return super().summary(name) if self.is_there(name) else f"Not installed: {installer_of(name)}"


def open_closed_streams() -> None:
    """Open /dev/null for closed standard streams. Otherwise, a file or connection would get their descriptors.

    Standard output is opened such that writing to it fails. Child processes inherit the streams.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # open() returns the lowest free number
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115  # stays open


def discard_output() -> None:
    """Drop output that cannot be written. The interpreter would report the failure again, and exit with code 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def enough_read() -> Iterator[None]:
    """Exit quietly if the reader of standard output has closed the pipe. click itself would exit with code 1."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(PIPE_CLOSED) from None
    except OSError:
        require_written()
        raise


def require_written() -> None:
    """Raise an error that names standard output if its buffer cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise InorderError(f"cannot write to standard output: {error.strerror}") from error


class Program(Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat inorder help COMMAND as inorder COMMAND --help."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with enough_read():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> object:
        with enough_read():
            return super().invoke(ctx)


@click.group(cls=Program, commands=Installed(COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="inorder")
def cli() -> None:
    """Read and count insert-only tables of PostgreSQL, and measure what each kind of key costs.

    Begin with "inorder demo", which needs no database, or with "inorder advise", which examines a database.
    "inorder install" installs the extension in a database, "inorder prepare" makes a table readable, and "inorder tail"
    reads the table. "inorder COMMAND --help" explains a command.

    Exit codes: 0 success, 1 failure, 2 invalid usage or unsupported configuration, 3 a check found a problem (feeds
    --check, advise --fail-on), 130 interrupted, 141 output pipe closed by its reader, 143 terminated.
    """


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def server_errors() -> tuple[type[Exception], ...]:
    """Return the driver's exception classes, or none if no command has loaded the driver."""
    driver = sys.modules.get("psycopg")
    return (driver.Error,) if driver else ()


def unexpected(error: Exception) -> str | None:
    """Return the message for an unexpected error.

    Return None to show a traceback: for an error in the lab, or if the driver was not loaded.
    """
    program = Path(__file__).parent
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own_places = [(path.relative_to(program), line) for path, line in places if path.is_relative_to(program)]
    folders = {path.parts[0] for path, _ in own_places}
    if not server_errors() or ("lab" in folders and "advise" not in folders):  # advise uses the lab's model
        return None
    path, line = own_places[-1]
    return (
        f"{type(error).__name__} at {path}, line {line}: {str(error)[:200]}; "
        "HINT: Either the server has sent an unexpected answer, or this is a bug in inorder."
    )


def not_encoded(error: UnicodeEncodeError) -> InorderError:
    """Build the error for an argument or variable that is not UTF-8, or for text that the locale cannot encode."""
    excerpt = error.object[max(0, error.start - 20) : error.end + 20]
    if error.encoding.replace("-", "") == "utf8":
        return InputError(f"this is not UTF-8: {os.fsencode(excerpt)!r}")
    shown = quoted(excerpt)
    return InorderError(
        f"the locale's encoding {error.encoding} cannot represent {shown}; HINT: Set LC_ALL to C.UTF-8."
    )


def show_usage_error(error: click.ClickException) -> None:
    """Print a click error in the format of other errors, with the command whose help explains the usage."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if type(error).__name__ == "NoArgsIsHelpError":  # raised by click 8.2 and later, with the help as its message
        error.show()
        return
    hint = f"\nHINT:  {context.command_path} --help" if context else ""
    click.echo(f"inorder: {lines(error.format_message().removesuffix('.') + hint)}", err=True)


def cannot_import(error: ImportError) -> str | None:
    """Return the message for a missing package or library, or None for a module of this tool.

    psycopg raises an ImportError without a name if it can load neither its C modules nor a libpq. Packages of the lab
    are imported only when its commands run.
    """
    if error.name is None:
        return f"the driver psycopg cannot load libpq; HINT: apt install libpq5, or {installer('binary')}"
    if not isinstance(error, ModuleNotFoundError) or error.name.partition(".")[0] == "inorder":
        return None
    return f"this command needs {error.name}, which is not installed; HINT: {installer('lab')}"


def main() -> NoReturn:
    open_closed_streams()
    try:
        run()
    finally:
        discard_output()


def run() -> NoReturn:
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # do not print the driver's warnings
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore SIGINT for background jobs
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores SIGHUP
        signal.signal(signal.SIGHUP, terminate)
    try:
        cli(prog_name="inorder", standalone_mode=False)  # this name is used for shell completion
    except InorderError as error:
        click.echo(f"inorder: {lines(str(error))}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        show_usage_error(error)
        sys.exit(error.exit_code)
    except ImportError as error:
        reason = cannot_import(error)
        if reason is None:
            raise
        click.echo(f"inorder: {reason}", err=True)
        sys.exit(InputError.exit_code)
    except UnicodeDecodeError as error:  # a server with encoding SQL_ASCII does not convert text
        click.echo(f"inorder: text that is not UTF-8: {error.object[error.start :][:40]!r}", err=True)
        sys.exit(1)
    except UnicodeEncodeError as error:
        failure = not_encoded(error)
        click.echo(f"inorder: {failure}", err=True)
        sys.exit(failure.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("inorder: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        text = str(error) if isinstance(error, (OSError, *server_errors())) else unexpected(error)
        if text is None:
            raise
        click.echo(f"inorder: {lines(text)}", err=True)
        sys.exit(1)
    except Terminated:
        click.echo("inorder: terminated", err=True)
        sys.exit(TERMINATED)
    sys.exit(0)
