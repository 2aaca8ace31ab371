"""``inorder install``: its options, their checks, and the call of what they ask for."""

import re

import click

from inorder.errors import InputError
from inorder.install.offer import EDITIONS
from inorder.units import parse_duration

ACTIONS = ("check", "upgrade", "verify", "uninstall", "script")
# Written into the script as it is.
PLAIN_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@click.command()
@click.option("--edition", type=click.Choice(list(EDITIONS)),
              help="C extension, plain SQL.  [default: the first that is possible]")  # fmt: skip
@click.option("--schema", metavar="NAME", help="Schema of the functions, new if missing.  [default: inorder]")
@click.option("--check", is_flag=True, help="Print which editions could be installed and what prevents them.")
@click.option("--upgrade", is_flag=True, help="Upgrade the edition that is installed.")
@click.option("--verify", is_flag=True, help="Compare the installed objects with those of this version.")
@click.option("--uninstall", is_flag=True, help="Print what needs inorder or would be lost, ask, and remove it.")
@click.option("--script", is_flag=True, help="Print the script of the edition, for psql or a migration tool.")
@click.option("--drop-columns", is_flag=True,
              help="With --uninstall: drop the columns that inorder gives values, with all values.")  # fmt: skip
@click.option("--yes", is_flag=True, help="With --uninstall: do not ask.")
@click.option("--lock-timeout", metavar="DURATION", default="5s", show_default=True,
              help="How long to wait for a lock.")  # fmt: skip
@click.option(
    "--dsn", metavar="DSN", default="", help="Connection string, URI or service=NAME.  [default: libpq's environment]"
)
def install(
    edition: str | None, schema: str | None, check: bool, upgrade: bool, verify: bool, uninstall: bool, script: bool,
    drop_columns: bool, yes: bool, lock_timeout: str, dsn: str,
) -> None:  # fmt: skip
    """Install inorder into the database, in one transaction, and print what was installed.

    Does nothing if this version is there already. The C extension must be on the server's disk; the SQL edition needs
    CREATE on the database, and nothing else.
    """
    given = {"check": check, "upgrade": upgrade, "verify": verify, "uninstall": uninstall, "script": script}
    action = require(given, edition, schema)
    for name, is_given in {"drop-columns": drop_columns, "yes": yes}.items():
        if is_given and action != "uninstall":
            raise InputError(f"--{name} requires --uninstall")
    seconds = parse_duration(lock_timeout, "--lock-timeout")
    # Loads the driver, which the help does not need.
    from inorder.install.actions import Request, perform  # noqa: PLC0415

    perform(Request(action, edition, schema, drop_columns, yes, seconds, dsn))


def require(given: dict[str, bool], edition: str | None, schema: str | None) -> str:
    """The one thing that is asked for; an error for options that do not go together."""
    actions = [name for name, is_given in given.items() if is_given]
    if len(actions) > 1:
        raise InputError(f"--{actions[0]} excludes --{actions[1]}")
    action = actions[0] if actions else "install"
    if schema is not None and PLAIN_NAME.fullmatch(schema) is None:
        raise InputError(f"--schema must be 1 to 63 of a-z, 0-9 and _, not begin with a digit or pg_: '{schema}'")
    if action in ("upgrade", "verify", "uninstall"):
        for name, value in {"edition": edition, "schema": schema}.items():
            if value is not None:
                raise InputError(f"--{name} excludes --{action}, which is for the edition that is installed")
    return action
