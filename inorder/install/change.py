"""What ``inorder install`` writes: it installs, upgrades and removes an edition, each in one transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

from psycopg import sql

from inorder.errors import InputError
from inorder.install.edition import COMMENT, made
from inorder.install.offer import SQL, TLE, C, Installed
from inorder.install.target import Target
from inorder.install.update import tle_update, update

Row = Mapping[str, Any]
ON_TABLES = ("guard", "notify", "default", "generated", "clone")


def install(target: Target, kind: str) -> Installed:
    """An edition that can be installed, in the transaction that is open."""
    {C: create_extension, TLE: create_tle, SQL: run_script}[kind](target)
    installed = target.offer().installed
    assert installed is not None
    return installed


def create_schema(target: Target) -> None:
    """The schema of the public functions of an extension, if it is not there."""
    if target.offer().schema_owner is None:
        name = sql.Identifier(target.schema)
        target.run(sql.SQL("CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO PUBLIC").format(name))


def create_extension(target: Target) -> None:
    """The C extension."""
    create_schema(target)
    target.run(sql.SQL("CREATE EXTENSION inorder SCHEMA {}").format(sql.Identifier(target.schema)))


def create_tle(target: Target) -> None:
    """The SQL edition, registered with pg_tle and created by it."""
    register(target)
    create_schema(target)
    target.run(
        sql.SQL("CREATE EXTENSION inorder SCHEMA {} VERSION {}").format(
            sql.Identifier(target.schema), sql.Literal(target.version)
        )
    )


def register(target: Target) -> None:
    """Tell pg_tle of this version, unless it knows it."""
    known = target.connection.execute(
        "SELECT version FROM pgtle.available_extension_versions() WHERE name = 'inorder'"
    ).fetchall()
    if (target.version,) in known:
        return
    script = target.script(TLE)
    if known:
        target.connection.execute(
            "SELECT pgtle.install_extension_version_sql('inorder', %s, %s)", (target.version, script)
        )
        target.connection.execute("SELECT pgtle.set_default_version('inorder', %s)", (target.version,))
    else:
        target.connection.execute(
            "SELECT pgtle.install_extension('inorder', %s, %s, %s)", (target.version, COMMENT, script)
        )


def run_script(target: Target) -> None:
    """The SQL edition."""
    target.run(target.script(SQL))


def upgrade(target: Target, installed: Installed) -> Installed:
    """The version of the tool or, of the C extension, the one that the server has."""
    if installed.edition == C:
        target.run("ALTER EXTENSION inorder UPDATE")
    elif installed.edition == SQL:
        target.run(update(target.sources, installed.version, installed.schema))
    else:
        update_tle(target, installed)
    after = target.offer().installed
    assert after is not None
    return after


def update_tle(target: Target, installed: Installed) -> None:
    """By pg_tle, which afterwards creates this version, too: pg_dump does not say which one to restore."""
    script = tle_update(target.sources, installed.version)
    versions = (installed.version, target.version)
    target.connection.execute("SELECT pgtle.uninstall_update_path_if_exists('inorder', %s, %s)", versions)
    target.connection.execute("SELECT pgtle.install_update_path('inorder', %s, %s, %s)", (*versions, script))
    target.connection.execute("SELECT pgtle.set_default_version('inorder', %s)", (target.version,))
    target.run(sql.SQL("ALTER EXTENSION inorder UPDATE TO {}").format(sql.Literal(target.version)))


def release(target: Target, dependents: Iterable[Row]) -> None:
    """Take what depends on inorder off the tables: triggers and defaults. Generated columns keep their values."""
    for item in dependents:
        table = sql.SQL(item["relation_name"])  # by regclass, quoted
        if item["kind"] in ("guard", "notify"):
            text = sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(item["definition"]), table)
        elif item["kind"] == "default":
            text = sql.SQL("ALTER TABLE ONLY {1} ALTER COLUMN {0} DROP DEFAULT").format(
                sql.Identifier(item["column_name"]), table
            )
        elif item["kind"] == "generated" and not item["is_inherited"]:
            text = sql.SQL("ALTER TABLE {1} ALTER COLUMN {0} DROP EXPRESSION").format(
                sql.Identifier(item["column_name"]), table
            )
        else:
            continue
        target.run(text)


def drop(target: Target, installed: Installed) -> None:
    """The edition itself. Nothing of the user's depends on it any more; an extension is dropped with RESTRICT."""
    schema = sql.Identifier(installed.schema)
    if installed.edition == SQL:
        target.run(sql.SQL("DROP SCHEMA {}, inorder_internal CASCADE").format(schema))
        return
    target.run("DROP EXTENSION inorder")
    if installed.edition == TLE:
        target.run("SELECT pgtle.uninstall_extension('inorder')")
    if not target.rows("install_schema_kept", schema=installed.schema):
        target.run(sql.SQL("DROP SCHEMA {}").format(schema))


def lost(target: Target, installed: Installed) -> list[str]:
    """What an uninstallation takes from the user, a line each."""
    lines = [f"{installed}, of role {installed.owner}"]
    for row in target.rows("install_contents"):
        if row["kind"] == "feed":
            lines.append(f"feed '{row['name']}' of {row['owner']} on table {row['relation']}: its position")
        else:
            what = "its exact count" if row["kind"] == "count" else "can be updated and deleted from, and not read"
            lines.append(f"table {row['relation']}: {what}")
    for item in target.dependents(installed):
        if item["kind"] == "default":
            lines.append(f"column {item['column_name']} of {item['relation_name']}: its default {item['definition']}")
        elif item["kind"] == "generated" and not item["is_inherited"]:
            lines.append(
                f"column {item['column_name']} of {item['relation_name']}: no longer generated; keeps its values"
            )
    return lines


def uninstall(target: Target, installed: Installed, expected: list[str]) -> None:
    """Remove it, if that takes no more than was confirmed."""
    refuse_others(target, installed, f"{installed} cannot be removed")
    dependents = target.dependents(installed)
    refuse(dependents, ON_TABLES, f"{installed} cannot be removed")
    if lost(target, installed) != expected:
        raise InputError(
            "inorder is used differently from what was confirmed: a feed, a count or a default has changed"
        )
    release(target, dependents)
    drop(target, installed)


def refuse_others(target: Target, installed: Installed, what: str) -> None:
    """An error if the schemas of the SQL edition, which are dropped as a whole, have what is not inorder's."""
    if installed.edition != SQL:
        return
    schemas = [installed.schema, "inorder_internal"]
    if found := [
        row["described"] for row in target.rows("install_others", schemas=schemas, names=made(target.sources))
    ]:
        raise InputError(
            f"{what}: its schema has what is not inorder's: {', '.join(found)}\n"
            "HINT: move it into another schema, or drop it"
        )


def refuse(dependents: Iterable[Row], kinds: tuple[str, ...], what: str) -> None:
    """An error if something else depends on inorder, or something of another role."""
    items = list(dependents)
    if others := [item["described"] for item in items if item["kind"] not in kinds]:
        raise InputError(f"{what}: these depend on it: {', '.join(others)}; HINT: drop or change them first")
    if foreign := sorted({item["relation_name"] for item in items if not item["is_owner"]}):
        raise InputError(f"{what}: the role must own {', '.join(foreign)}, or be a member of the role that does")
