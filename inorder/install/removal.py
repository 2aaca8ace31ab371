"""What an uninstallation takes from the user's tables, and what is in its way."""

from typing import Any

from psycopg import sql

from inorder.errors import InputError
from inorder.install import change
from inorder.install.offer import Installed
from inorder.install.target import Target
from inorder.text import listed

ON_TABLES = ("guard", "notify", "default", "generated", "clone")


def checked(target: Target, installed: Installed, drop_columns: bool) -> list[str]:
    """What is lost, a line each; an error if something of the user's would fail afterwards."""
    what = f"{installed} cannot be removed"
    change.refuse_others(target, installed, what)
    dependents = target.dependents(installed)
    change.refuse(dependents, ON_TABLES, what)
    columns = given_values(dependents)
    if kept := [item for item in columns if item["is_inherited"] or not drop_columns]:
        names = listed((f"{named(item)}: {item['kind']}, {item['definition']}" for item in kept), "; ")
        raise InputError(
            f"{what}: an INSERT would store null in these columns, or fail if they are NOT NULL: {names}\n"
            "HINT: give each a default of its own (of a generated column ALTER TABLE … ALTER COLUMN … DROP EXPRESSION "
            "keeps the values), or drop it; --drop-columns drops all of them"
        )
    callers = target.rows("install_callers", schemas=target.own_schemas(installed))
    if used := [row["described"] for row in callers if row["is_used"]]:
        raise InputError(
            f"{what}: functions that triggers, defaults or views of yours use call it: {listed(used)}\n"
            "HINT: change these functions, or drop them"
        )
    return lost(target, installed, columns) + [f"what {row['described']} calls of it" for row in callers]


def given_values(dependents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns with a default or an expression of inorder's; those of a partition only if its parent has none."""
    return [item for item in dependents if item["kind"] in ("default", "generated") and not item["follows_parent"]]


def named(column: dict[str, Any]) -> str:
    return f"column {column['column_name']} of {column['relation_name']}"


def lost(target: Target, installed: Installed, columns: list[dict[str, Any]]) -> list[str]:
    lines = [f"{installed}, of role {installed.owner}"]
    for row in target.rows("install_contents"):
        if row["kind"] == "feed":
            lines.append(f"feed '{row['name']}' of {row['owner']} on table {row['relation']}: its position")
        else:
            what = "its exact count" if row["kind"] == "count" else "can be updated and deleted from, and not read"
            lines.append(f"table {row['relation']}: {what}")
    return lines + [", ".join([f"{named(item)}: all its values", *item["goes_along"]]) for item in columns]


def remove(target: Target, installed: Installed) -> None:
    """The columns that inorder gives values, the guards, and inorder."""
    dependents = target.dependents(installed)
    change.release(target, dependents)
    for item in given_values(dependents):
        target.run(
            sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(
                sql.SQL(item["relation_name"]), sql.Identifier(item["column_name"])
            )
        )
    change.drop(target, installed)
