"""What ``inorder install`` writes: it installs, upgrades and drops an edition, each in one transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import sql

from inorder.errors import InputError
from inorder.install import edition
from inorder.install.edition import made
from inorder.install.offer import SQL, C, Installed
from inorder.install.target import Target
from inorder.install.update import update
from inorder.text import listed

Row = Mapping[str, Any]


def install(target: Target, kind: str) -> Installed:
    name = sql.Identifier(target.schema)
    if kind == SQL:
        target.run(edition.script(target.sources, target.schema))
    else:
        if target.offer().schema_owner is None:
            target.run(sql.SQL("CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO PUBLIC").format(name))
        target.run(sql.SQL("CREATE EXTENSION inorder SCHEMA {}").format(name))
    installed = target.offer().installed
    assert installed is not None
    return installed


def upgrade(target: Target, installed: Installed) -> Installed:
    """The version of the tool or, of the C extension, the one that the server has."""
    if installed.edition == C:
        target.run("ALTER EXTENSION inorder UPDATE")
    else:
        target.run(update(target.sources, installed.version, installed.schema))
    after = target.offer().installed
    assert after is not None
    return after


def release(target: Target, dependents: Iterable[Row]) -> None:
    for item in dependents:
        if item["kind"] in ("guard", "notify"):
            table = sql.SQL(item["relation_name"])  # by regclass, quoted
            target.run(sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(item["definition"]), table))


def drop(target: Target, installed: Installed) -> None:
    """The edition itself. Nothing of the user's depends on it any more; an extension is dropped with RESTRICT."""
    schema = sql.Identifier(installed.schema)
    if installed.edition == SQL:
        target.run(sql.SQL("DROP SCHEMA {}, inorder_internal CASCADE").format(schema))
        return
    target.run("DROP EXTENSION inorder")
    if not target.rows("install_schema_kept", schema=installed.schema):
        target.run(sql.SQL("DROP SCHEMA {}").format(schema))


def refuse_others(target: Target, installed: Installed, what: str) -> None:
    """An error if the schemas of the SQL edition, which are dropped as a whole, have what is not inorder's."""
    if installed.edition != SQL:
        return
    schemas = [installed.schema, "inorder_internal"]
    if found := [
        row["described"] for row in target.rows("install_others", schemas=schemas, names=made(target.sources))
    ]:
        raise InputError(
            f"{what}: its schema has what is not inorder's: {listed(found)}\n"
            "HINT: move it into another schema, or drop it"
        )


def refuse(dependents: Iterable[Row], kinds: tuple[str, ...], what: str) -> None:
    items = list(dependents)
    if others := [item["described"] for item in items if item["kind"] not in kinds]:
        raise InputError(f"{what}: these depend on it: {listed(others)}; HINT: drop or change them first")
    if foreign := sorted({item["relation_name"] for item in items if not item["is_owner"]}):
        raise InputError(f"{what}: the role must own {listed(foreign)}, or be a member of the role that does")
