"""``inorder install``: its options, their checks, and the call of what they ask for."""

import re
from typing import Any

import click

from inorder.errors import InputError
from inorder.install.offer import EDITIONS
from inorder.options import Value, dsn_option, lock_timeout_option, option

ACTIONS = ("--check", "--upgrade", "--uninstall", "--script")
OF_INSTALLED = dict.fromkeys(("--upgrade", "--uninstall"), "it is for the edition that is installed")
# Written into the script as it is.
PLAIN_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


def plain_name(text: str, option: str) -> str:
    if PLAIN_NAME.fullmatch(text) is None:
        raise InputError(f"{option} must be 1 to 63 of a-z, 0-9 and _, not begin with a digit or pg_: '{text}'")
    return text


@click.command(epilog="Example: inorder install --check --dsn service=shop")
@option("--edition", type=click.Choice(list(EDITIONS)), excludes=OF_INSTALLED,
        help="C extension, plain SQL.  [default: the first that is possible]")  # fmt: skip
@option("--schema", type=Value("NAME", plain_name, str), excludes=OF_INSTALLED,
        help="Schema of the functions, new if missing.  [default: inorder]")  # fmt: skip
@option("--check", is_flag=True, excludes=ACTIONS,
        help="Print which editions could be installed and what prevents them.")  # fmt: skip
@option("--upgrade", is_flag=True, excludes=ACTIONS, help="Upgrade the edition that is installed.")
@option("--uninstall", is_flag=True, excludes=ACTIONS,
        help="Print what needs inorder or would be lost, ask, and remove it.")  # fmt: skip
@option("--script", is_flag=True, excludes=ACTIONS,
        help="Print the script of the edition, for psql or a migration tool.")  # fmt: skip
@option("--drop-columns", is_flag=True, requires="--uninstall",
        help="With --uninstall: drop the columns that inorder gives values, with all values.")  # fmt: skip
@option("--yes", is_flag=True, requires="--uninstall", help="With --uninstall: do not ask.")
@lock_timeout_option("5s")
@dsn_option()
def install(check: bool, upgrade: bool, uninstall: bool, script: bool, **options: Any) -> None:
    """Install inorder into the database, in one transaction, and print what was installed.

    Does nothing if this version is there already. The C extension must be on the server's disk; the SQL edition needs
    CREATE on the database, and nothing else.
    """
    given = dict(zip(ACTIONS, (check, upgrade, uninstall, script), strict=True))
    action = next((name.removeprefix("--") for name in ACTIONS if given[name]), "install")
    # Loads the driver, which the help does not need.
    from inorder.install.actions import Request, perform  # noqa: PLC0415

    perform(Request(action, **options))
