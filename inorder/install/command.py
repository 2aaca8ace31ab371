"""The commands ``inorder install``, ``upgrade`` and ``uninstall``, and their options."""

import re
from typing import Any

import click

from inorder.errors import InputError
from inorder.install.offer import EDITIONS
from inorder.options import Value, dsn_option, lock_timeout_option, option
from inorder.text import quoted

# The script contains the schema name unquoted.
PLAIN_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


def plain_name(text: str, option: str) -> str:
    if PLAIN_NAME.fullmatch(text) is None:
        raise InputError(
            f"{option} must be 1 to 63 characters of a-z, 0-9 and _, not beginning with a digit or pg_: {quoted(text)}"
        )
    return text


@click.command(epilog="Example: inorder install --check --dsn service=shop")
@option("--edition", type=click.Choice(list(EDITIONS)),
        help="The C extension or the plain SQL edition.  [default: the first that can be installed]")  # fmt: skip
@option("-n", "--schema", type=Value("NAME", plain_name, str),
        help="Schema of the functions, created if missing.  [default: inorder]")  # fmt: skip
@option("--check", is_flag=True, excludes=["--script"],
        help="Print which editions can be installed, and what prevents the others.")  # fmt: skip
@option("--script", is_flag=True, help="Print the script of the SQL edition, for psql or a migration tool.")
@lock_timeout_option("5s")
@dsn_option()
def install(check: bool, script: bool, **options: Any) -> None:
    """Install inorder into the database, in one transaction, and print what was installed.

    Does nothing if this version is installed already. The C extension must be on the server's disk; the SQL edition
    only needs CREATE on the database.
    """
    perform("check" if check else "script" if script else "install", **options)


@click.command(epilog="Example: inorder upgrade --dsn service=shop")
@lock_timeout_option("5s")
@dsn_option()
def upgrade(**options: Any) -> None:
    """Upgrade inorder in the database to the version of this tool, in one transaction."""
    perform("upgrade", **options)


@click.command(epilog="Example: inorder uninstall --dsn service=shop")
@option("--drop-columns", is_flag=True,
        help="Drop the columns whose values inorder generates, except primary keys, with all values.")  # fmt: skip
@option("--yes", is_flag=True, help="Do not ask.")
@lock_timeout_option("5s")
@dsn_option()
def uninstall(**options: Any) -> None:
    """Print what depends on inorder or would be lost, ask for confirmation, and remove inorder from the database."""
    perform("uninstall", **options)


def perform(action: str, **options: Any) -> None:
    # This import loads the driver, which --help does not need.
    from inorder.install import actions  # noqa: PLC0415

    actions.perform(actions.Request(action, **options))
