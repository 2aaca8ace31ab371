"""The command line: its commands, its exit codes, its signals. Nothing imports this."""

import logging
import signal
import sys
from types import FrameType
from typing import NoReturn

import click
import psycopg

from inorder import __version__
from inorder.commands.demo import demo
from inorder.commands.lab import lab
from inorder.count import count
from inorder.errors import InorderError
from inorder.generate.command import generate
from inorder.tail.command import tail

INTERRUPTED = 130  # as a shell reports SIGINT
TERMINATED = 143


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="inorder")
def cli() -> None:
    """Keys that arrive in order: see on a real PostgreSQL what each kind of key costs.

    Exit codes: 0 done, 1 it failed, 2 it cannot be done as asked, 3 a regression (lab compare),
    130 interrupted, 143 terminated.
    """


for command in (demo, lab, generate, tail, count):
    cli.add_command(command)


class Terminated(BaseException):
    """SIGTERM or SIGHUP: unwinds like an interrupt, so that every server is stopped."""


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    raise Terminated


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
    except (psycopg.Error, OSError) as error:  # the server went away, the disk is full
        click.echo(f"inorder: {error}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("inorder: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Terminated:
        click.echo("inorder: terminated", err=True)
        sys.exit(TERMINATED)
    sys.exit(0)
