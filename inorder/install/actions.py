"""The actions of ``inorder install``, ``upgrade`` and ``uninstall``, and their output."""

from collections.abc import Callable
from dataclasses import dataclass

import click
from psycopg.sql import Identifier

from inorder import __version__
from inorder.connection.session import distrust
from inorder.errors import InputError
from inorder.install import change, edition
from inorder.install.offer import EDITIONS, SQL, C, Installed, Offer, chosen
from inorder.install.target import Target, opened
from inorder.options import confirmed
from inorder.text import one_line, print_text, quoted

USUAL_SCHEMA = "inorder"
CHANGE = "docs/hosted.md has a script that changes the edition"


@dataclass(frozen=True)
class Request:
    action: str
    lock_timeout: float
    dsn: str
    edition: str | None = None
    schema: str | None = None
    drop_columns: bool = False
    yes: bool = False


def perform(request: Request) -> None:
    if request.action == "script":
        click.echo(script(request), nl=False)
        return
    with opened(request.dsn, request.schema or USUAL_SCHEMA, request.lock_timeout) as target:
        ACTIONS[request.action](target, request)


def script(request: Request) -> str:
    if request.edition == C:
        raise InputError("--script is for the SQL edition; HINT: CREATE EXTENSION inorder installs the C extension")
    if request.schema == "public":
        raise InputError(
            "schema public already exists, and the SQL edition creates its schema itself; HINT: choose another --schema"
        )
    return edition.script(request.schema or USUAL_SCHEMA)


def install(target: Target, request: Request) -> None:
    with target.transaction():
        offer = target.offer()
        if offer.installed is not None:
            check_owner(offer)
            say_installed(target, offer.installed, request.edition)
            return
        reason = without_c(offer) if request.edition is None else ""
        change.install(target, chosen(offer, request.edition))
        installed = present(target.offer())
        warning = warning_of(target)
    print_text(f"installed {installed}")
    if reason:
        click.echo(one_line(reason), err=True)
    say_hints(target, installed, warning)


def without_c(offer: Offer) -> str:
    """Return why the plain SQL edition is installed instead of the C extension. Return "" if it is not."""
    problems = offer.problems(C) if offer.best() == SQL else []
    return f"not the C extension: {'; '.join(problems)}" if problems else ""


def check_owner(offer: Offer) -> None:
    """Raise InputError if an untrusted role owns the installation.

    Calling a function to verify that the installation is inorder would already be unsafe.
    """
    if offer.installed is not None and not offer.is_trusted_owner:
        raise InputError(
            f"{offer.installed} (not verified) belongs to role {quoted(offer.installed.owner)}, "
            "which is not trusted\n"
            "HINT: Connect as that role. If this is not inorder, let the owner of the database drop the schema "
            f"inorder_internal and the functions of that role in schema {quoted(offer.installed.schema)}"
        )


def say_installed(target: Target, installed: Installed, requested: str | None) -> None:
    if requested not in (None, installed.edition):
        raise InputError(f"{installed} is already installed; HINT: {CHANGE}")
    if installed.version != __version__:
        raise InputError(
            f"{installed} is already installed, and this tool has version {__version__}\nHINT: Run inorder upgrade."
        )
    print_text(f"{installed} is already installed")
    say_hints(target, installed, warning_of(target))


def warning_of(target: Target) -> str:
    """Return a warning if commands such as inorder feeds would refuse the installation for the current role."""
    rows = target.rows("edition_other")
    if not rows:
        return ""
    row = rows[0]
    reason = distrust(target.connection.info.dbname, row["quoted"], row["owner"], row["schema"], row["functions_owner"])
    return f"WARNING:  role {quoted(target.connection.info.user)} cannot use it with other commands: {reason}"


def say_hints(target: Target, installed: Installed, warning: str = "") -> None:
    if warning:
        click.echo(warning, err=True)
    if installed.schema != "public":
        database = Identifier(target.connection.info.dbname).as_string(target.connection)
        path = f'"$user", public, {installed.quoted}'
        click.echo(one_line(f"HINT:  ALTER DATABASE {database} SET search_path = {path};"), err=True)
    if installed.edition == SQL:
        admit = f"SELECT {installed.quoted}.feed_admit('ROLE');"
        click.echo(f"HINT:  {admit} for each other role that uses inorder", err=True)


def check(target: Target, request: Request) -> None:
    """Print which editions can be installed.

    Raise InputError if no edition can be installed, or if the requested edition cannot be installed.
    """
    with target.transaction(keep=False):
        offer = target.offer()
    click.echo(one_line(f"database {offer.database}, PostgreSQL {offer.version}, role {offer.role}"))
    print_text(f"installed: {offer.installed or 'no'}")
    print_text(f"available: C extension {offer.c_version or 'no'}, SQL edition {__version__}")
    replaces = offer.installed is not None
    for kind, name in EDITIONS.items():
        problems = offer.problems(kind, replaces)
        click.echo(one_line(f"{kind}: {name}: {'; '.join(problems) or possible(offer.installed, kind)}"))
    check_owner(offer)
    if request.edition or not replaces:
        chosen(offer, request.edition, replaces)


def possible(installed: Installed | None, kind: str) -> str:
    if installed is None:
        return "can be installed"
    return "is installed" if installed.edition == kind else f"can replace it; {CHANGE}"


def present(offer: Offer) -> Installed:
    if offer.installed is None:
        raise InputError(f"the database {quoted(offer.database)} has no inorder; HINT: Run inorder install.")
    check_owner(offer)
    return offer.installed


def upgrade(target: Target, _request: Request) -> None:
    with target.transaction():
        before = present(target.offer())
        newest = target.offer().c_version if before.edition == C else __version__
        if before.version == newest:
            print_text(f"{before} is already installed")
            return
        change.upgrade(target, before)
        after = present(target.offer())
    print_text(f"upgraded {before.version} to {after}")


def uninstall(target: Target, request: Request) -> None:
    with target.transaction(keep=False):
        installed = present(target.offer())
        losses = change.checked(target, installed, request.drop_columns)
    click.echo("This removes:")
    for line in losses:
        click.echo(f"  {one_line(line)}")
    if not request.yes:
        confirmed("Remove inorder?")
    with target.transaction():
        if change.checked(target, installed, request.drop_columns) != losses:
            raise InputError("the list of losses has changed since the confirmation: nothing was removed")
        change.remove(target, installed)
    print_text(f"removed {installed}")
    if installed.schema != "public" and target.rows("install_search_path", schema=installed.schema):
        database = Identifier(target.connection.info.dbname).as_string(target.connection)
        hint = f"search_path of the database still has {installed.quoted}: ALTER DATABASE {database} RESET search_path;"
        click.echo(one_line(f"HINT:  {hint}"), err=True)


ACTIONS: dict[str, Callable[[Target, Request], None]] = {
    "install": install, "check": check, "upgrade": upgrade, "uninstall": uninstall,
}  # fmt: skip
