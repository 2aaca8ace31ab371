"""Install, upgrade or remove an edition in one transaction."""

from collections.abc import Iterator
from typing import Any

from psycopg import sql

from inorder.connection.database import literal
from inorder.errors import InputError
from inorder.install import edition
from inorder.install.offer import SQL, C, Installed
from inorder.install.target import Target
from inorder.text import listed, one_line, quoted

Row = dict[str, Any]


def install(target: Target, kind: str) -> None:
    name = sql.Identifier(target.schema)
    if kind == SQL:
        target.run(edition.script(target.schema))
    else:
        if target.offer().schema_owner is None:
            target.run(sql.SQL("CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO PUBLIC").format(name))
        target.run(sql.SQL("CREATE EXTENSION inorder SCHEMA {}").format(name))


def upgrade(target: Target, installed: Installed) -> None:
    """Upgrade to the version of this tool or, for the C extension, to the version of the server's files."""
    if installed.edition == C:
        target.run("ALTER EXTENSION inorder UPDATE")
    else:
        target.run(edition.update(installed.version, installed.schema))


ON_TABLES = ("guard", "default", "generated", "clone")


def checked(target: Target, installed: Installed, drop_columns: bool) -> list[str]:
    """Return what a removal would destroy, one loss per line.

    If user objects would fail after the removal, raise InputError with a list of these objects and remedies.
    """
    dependents = target.dependents(installed)
    callers = target.rows("install_callers", schemas=target.own_schemas(installed))
    counts = target.rows("install_counts")
    parts = {name for row in counts for name in row["parts"]}
    dependents = [item for item in dependents if not {item["described"], item["relation_name"]} & parts]
    callers = [row for row in callers if row["described"] not in parts]
    columns = given_values(dependents)
    obstacles = [
        *of_others(target, installed), *of_counts(counts, installed), *of_dependents(dependents, installed),
        *of_columns(columns, drop_columns),
        *of_callers([row["described"] for row in callers if row["is_used"]]),
    ]  # fmt: skip
    if obstacles:
        lines = [f"DETAIL:  {one_line(obstacle)}\nHINT:  {one_line(hint)}" for obstacle, hint in obstacles]
        raise InputError("\n".join([f"{installed} cannot be removed", *lines]))
    return lost(target, installed, columns) + [f"{row['described']}: its calls of inorder" for row in callers]


Obstacles = Iterator[tuple[str, str]]  # pairs: an obstacle, and its remedy


def of_others(target: Target, installed: Installed) -> Obstacles:
    """Yield user objects in the schemas of the SQL edition. A removal drops these schemas as a whole."""
    schemas = target.own_schemas(installed)
    if schemas and (rows := target.rows("install_others", schemas=schemas, names=edition.names("made"))):
        names = listed(row["described"] for row in rows)
        yield f"the schema has objects that are not part of inorder: {names}", "move them elsewhere, or drop them"


def of_counts(counts: list[Row], installed: Installed) -> Obstacles:
    if counts:
        names = listed((f"{row['relation_name']} by {row['columns'] or 'no column'}" for row in counts), "; ")
        stop = f"SELECT {installed.quoted}.exact_count_stop"
        calls = [f"{stop}({literal(row['relation_name'])}, by => {literal(row['given'])});" for row in counts]
        yield f"the counts of these groups depend on inorder: {names}", " ".join(calls)


# Triggers on a log, which changes_disable() drops together with the triggers on the logged table.
OF_LOGS = ("trigger zz_inorder_changes on ", "trigger zz_inorder_marker on ")


def of_dependents(dependents: list[Row], installed: Installed) -> Obstacles:
    objects = [item for item in dependents if item["kind"] not in ON_TABLES]
    if columns := [item for item in objects if item["kind"] == "uuid_v1"]:
        tables = {item["relation_name"] for item in columns}
        indexes = [
            item for item in objects if item["relation_name"] in tables and item["described"].startswith("index ")
        ]
        objects = [item for item in objects if item not in columns and item not in indexes]
        with_default = {(item["relation_name"], item["column_name"]) for item in given_values(dependents)}
        yield (
            f"these columns have the type uuid_v1 of inorder: {listed(map(named, columns))}",
            " ".join(as_uuid(item, with_default) for item in columns if not item["is_inherited"]),
        )
    logged = [item for item in objects if item["described"].startswith("trigger zz_inorder_changes_")]
    if logged:
        objects = [item for item in objects if not item["described"].startswith(OF_LOGS)]
        logged_tables = sorted({item["relation_name"] for item in logged})
        calls = " ".join(f"SELECT {installed.quoted}.changes_disable({literal(table)});" for table in logged_tables)
        yield f"these objects depend on inorder: {listed(item['described'] for item in logged)}", calls
    if dependent_objects := [item["described"] for item in objects if item not in logged]:
        yield f"these objects depend on inorder: {listed(dependent_objects)}", "drop or change them first"
    owned_by_others = {item["relation_name"] for item in dependents if not item["is_owner"]}
    if foreign := sorted(owned_by_others - {"-"}):  # a function or a type is not a relation
        yield f"the role must own {listed(foreign)}", "connect as the owner, or as a member of that role"


def of_columns(columns: list[Row], drop_columns: bool) -> Obstacles:
    kept_columns = [item for item in columns if item["is_inherited"] or item["is_primary"] or not drop_columns]
    if kept_columns:
        names = listed(map(explained, kept_columns), "; ")
        examples = [
            f" ALTER TABLE {item['relation_name']} ALTER COLUMN {quoted_name(item)} SET DEFAULT gen_random_uuid();"
            for item in kept_columns if item["is_uuid"] and item["kind"] == "default"
        ]  # fmt: skip
        yield (
            f"an INSERT would store null in these columns, or fail if they are NOT NULL: {names}",
            "give each column another default, or drop it; --drop-columns drops these columns, except primary keys and "
            "inherited columns; ALTER TABLE … ALTER COLUMN … DROP EXPRESSION keeps the values of a generated column"
            + "".join([";", *examples] if examples else []),
        )


def explained(column: Row) -> str:
    definition = " ".join(column["definition"].split())  # the server splits a long expression into lines
    return f"{named(column)}: {column['kind']}, {definition}{' (primary key)' * column['is_primary']}"


def quoted_name(column: Row) -> str:
    return sql.Identifier(column["column_name"]).as_string(None)


def as_uuid(column: Row, with_default: set[tuple[str, str]]) -> str:
    """Return the statement that converts a column of type uuid_v1 to uuid."""
    name = quoted_name(column)
    actions = [f"ALTER COLUMN {name} TYPE uuid USING {name}::uuid"]
    if (column["relation_name"], column["column_name"]) in with_default:
        actions = [
            f"ALTER COLUMN {name} DROP DEFAULT", *actions, f"ALTER COLUMN {name} SET DEFAULT gen_random_uuid()"
        ]  # fmt: skip
    return f"ALTER TABLE {column['relation_name']} {', '.join(actions)};"


def of_callers(functions: list[str]) -> Obstacles:
    if functions:
        yield (
            f"these functions call inorder, and triggers, defaults or views use them: {listed(functions)}",
            "change these functions, or drop them",
        )


def given_values(dependents: list[Row]) -> list[Row]:
    """Return columns with a default or an expression of inorder, except in partitions where they follow the parent."""
    return [item for item in dependents if item["kind"] in ("default", "generated") and not item["follows_parent"]]


def named(column: Row) -> str:
    return f"column {column['column_name']} of {column['relation_name']}"


def lost(target: Target, installed: Installed, columns: list[Row]) -> list[str]:
    lines = [f"{installed}, owned by role {installed.owner}"]
    for row in target.rows("install_contents"):
        if row["kind"] == "feed":
            lines.append(f"feed {quoted(row['name'])} of {row['owner']} on {row['relation']}: its position")
        else:
            loss = "its exact count" if row["kind"] == "count" else "its guard, which keeps the table insert-only"
            lines.append(f"table {row['relation']}: {loss}")
    return lines + [", ".join([f"{named(item)}: all its values", *item["goes_along"]]) for item in columns]


def remove(target: Target, installed: Installed) -> None:
    """Drop the guards, the columns whose values inorder generates, and inorder itself.

    DROP EXTENSION without CASCADE fails if other objects depend on the extension.
    """
    dependents, schema = target.dependents(installed), sql.Identifier(installed.schema)

    def alter(item: Row, statement: str, name: str) -> None:
        table = sql.SQL(item["relation_name"])  # regclass has already quoted the name
        target.run(sql.SQL(statement).format(table=table, name=sql.Identifier(item[name])))

    for item in dependents:
        if item["kind"] == "guard":
            alter(item, "DROP TRIGGER {name} ON {table}", "definition")
    for item in given_values(dependents):
        alter(item, "ALTER TABLE {table} DROP COLUMN {name}", "column_name")
    if installed.edition == SQL:
        target.run(sql.SQL("DROP SCHEMA {}, inorder_internal CASCADE").format(schema))
        return
    target.run("DROP EXTENSION inorder")
    if not target.rows("install_schema_kept", schema=installed.schema):
        target.run(sql.SQL("DROP SCHEMA {}").format(schema))
