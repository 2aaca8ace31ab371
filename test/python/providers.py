"""Privileges that providers of hosted servers revoke, according to their documentation.

test/providers.csv lists them, each with its source.
"""

import csv
from pathlib import Path

from inorder.connection.database import Connection

LIST = Path(__file__).resolve().parents[1] / "providers.csv"
# For each privilege: the kind of object in GRANT, and the type of the object's name. "select" covers tables and views.
KINDS = {"execute": ("function", "regprocedure"), "select": ("table", "regclass")}


def documented() -> list[dict[str, str]]:
    with LIST.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def may_use(connection: Connection, entry: dict[str, str], role: str) -> bool | None:
    kind, name = KINDS[entry["privilege"]]
    row = connection.execute(
        f"SELECT has_{kind}_privilege(%s, o, %s) FROM to_{name}(%s) AS o WHERE o IS NOT NULL".encode(),
        [role, entry["privilege"], f"pg_catalog.{entry['object']}"],
    ).fetchone()
    return None if row is None else bool(row[0])


def revoke(connection: Connection) -> None:
    for entry in documented():
        if may_use(connection, entry, "public") is not None:
            kind, _ = KINDS[entry["privilege"]]
            connection.execute(f"REVOKE ALL ON {kind} pg_catalog.{entry['object']} FROM PUBLIC".encode())
