"""The command line: its commands, its exit codes, its signals. Nothing imports this."""

import logging
import signal
import sys
from collections import UserDict
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

from inorder import __version__
from inorder.errors import InorderError, InputError

INTERRUPTED = 130  # as a shell reports SIGINT
TERMINATED = 143

# Where each command is. All of them take three quarters of a second to load, tail by itself less than half of that.
MODULES = {
    "demo": "inorder.commands.demo",
    "lab": "inorder.commands.lab",
    "generate": "inorder.generate.command",
    "tail": "inorder.tail.command",
    "count": "inorder.count.command",
}
UNLOADED = click.Command("unloaded")


def missing(name: str, package: str) -> click.Command:
    """A command of the laboratory where that is not installed."""

    def refuse(words: tuple[str, ...]) -> NoReturn:
        raise InputError(f"inorder {name} needs {package}, which is not installed; HINT: pip install 'inorder[lab]'")

    return click.Command(
        name, callback=refuse, params=[click.Argument(["words"], nargs=-1)], add_help_option=False,
        short_help="Not installed: pip install 'inorder[lab]'", context_settings={"ignore_unknown_options": True},
    )  # fmt: skip


class Commands(UserDict[str, click.Command]):
    """The commands by name; each is loaded when it is looked up."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(MODULES, UNLOADED))

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is UNLOADED:
            try:
                self.data[name] = getattr(import_module(MODULES[name]), name)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] == "inorder":
                    raise
                self.data[name] = missing(name, str(error.name))
        return self.data[name]


@click.group(commands=Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="inorder")
def cli() -> None:
    """Keys that arrive in order: see on a real PostgreSQL what each kind of key costs.

    Exit codes: 0 done, 1 it failed, 2 it cannot be done as asked, 3 a regression (lab compare),
    130 interrupted, 143 terminated.
    """


class Terminated(BaseException):
    """SIGTERM or SIGHUP: unwinds like an interrupt, so that every server is stopped."""


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    raise Terminated


def server_errors() -> tuple[type[Exception], ...]:
    """Those of the driver (the server went away), which a command that needs no server has not loaded."""
    driver = sys.modules.get("psycopg")
    return (driver.Error,) if driver else ()


def main() -> NoReturn:
    """The console script: errors are one sentence, signals clean up."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what is raised is told, and nothing else
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit it ignored
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, terminate)
    try:
        cli(standalone_mode=False)
    except InorderError as error:
        click.echo(f"inorder: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("inorder: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not isinstance(error, (OSError, *server_errors())):
            raise
        click.echo(f"inorder: {error}", err=True)
        sys.exit(1)
    except Terminated:
        click.echo("inorder: terminated", err=True)
        sys.exit(TERMINATED)
    sys.exit(0)
