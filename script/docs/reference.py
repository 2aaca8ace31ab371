"""docs/reference.md: objects that users call, by their comments in the database. Run by ``script/reference``."""

import re
from collections.abc import Iterator

from inorder.connection.database import Connection, connect
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

from sources import ROOT, sql_file

FILE = ROOT / "docs" / "reference.md"
HEAD = """# Reference

The comments of the extension's objects, as psql shows them by `\\df+` and `\\dd`. This file is written by
`script/reference`. Privileges: [security.md](security.md). What differs in the SQL edition:
[hosted.md](hosted.md#what-does-it-lack).
"""
# The files of sql/ with objects for users, in the order of the page, and their headings.
SECTIONS = {
    "keys": "Keys",
    "after_random": "Keys for tables full of random ones",
    "mask": "Masks of keys",
    "uuid_v1": "The type uuid_v1",
    "time_bounds": "Comparing keys with a time",
    "uuid_extras": "Columns of type uuid",
    "readable": "Making a table readable",
    "prepare": "Existing tables",
    "feed": "Feeds",
    "workers": "Workers of a feed",
    "batches": "Batches of workers",
    "feeds": "Lag of feeds",
    "reader": "Positions kept by the reader",
    "position": "Positions and batches",
    "jsonb": "Positions and batches as jsonb",
    "split": "Readers in parallel",
    "logging": "Logs of changes",
    "changes": "Reading changes",
    "count": "Exact counts",
    "retention": "Retention",
    "restore": "After a restore",
    "snapshot": "Sets of transactions",
}
INNER = ("Internal", "implementation of", "planner support", "I/O", "less-equal-greater", "sort support",
         "skip support", "smaller of two", "larger of two", "hash", "BRIN")  # fmt: skip
# Casts in defaults as the server shows them, which readers need not see: '10'::integer, NULL::text.
CAST = re.compile(r"(?<=')::[a-z ]+|(?<=NULL)::[a-z ]+")
OBJECTS = """
SELECT d.classid::regclass::text, coalesce(p.proname, t.typname, c.relname),
       CASE WHEN p.oid IS NULL THEN '' ELSE format(
           '%s(%s) → %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) END,
       obj_description(d.objid, d.classid::regclass::name)
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
    AND p.prorettype <> ALL ('{trigger,internal}'::regtype[]) AND p.prokind = 'f'
LEFT JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid AND t.typcategory <> 'A'
LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'v'
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND coalesce(p.pronamespace, t.typnamespace, c.relnamespace) <> 'inorder_internal'::regnamespace
ORDER BY 2, pg_get_function_arguments(p.oid) COLLATE "C"
"""
OPERATORS = """
SELECT format('`%s %s %s`', format_type(o.oprleft, NULL), o.oprname, format_type(o.oprright, NULL)),
       obj_description(o.oid, 'pg_operator')
FROM pg_depend AS d JOIN pg_operator AS o ON d.classid = 'pg_operator'::regclass AND o.oid = d.objid
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder' AND d.refclassid = 'pg_extension'::regclass
WHERE o.oprname ~ '~' 
ORDER BY o.oprname COLLATE "C", format_type(o.oprleft, NULL) COLLATE "C", format_type(o.oprright, NULL) COLLATE "C"
"""
COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid AND c.relname = %s AND c.relkind IN ('v', 'c')
WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def is_for_users(comment: str | None) -> bool:
    """True if users call the object themselves.

    >>> is_for_users("implementation of <~ operator"), is_for_users("A new key.")
    (False, True)
    """
    return comment is not None and not comment.startswith(INNER)


def described_in(name: str) -> list[str]:
    """The objects that a file of sql/ comments on, in order."""
    text = sql_file(name).read_text()
    return list(dict.fromkeys(re.findall(r"COMMENT ON (?:FUNCTION|TYPE|VIEW) @extschema@\.(\w+)", text)))


def page(connection: Connection) -> str:
    connection.execute("SET search_path = public, pg_catalog")
    found: dict[str, list[tuple[str, str, str]]] = {}
    for kind, name, signature, comment in connection.execute(OBJECTS).fetchall():
        if is_for_users(comment if comment is None else str(comment)):
            found.setdefault(str(name), []).append((str(kind), str(signature), str(comment)))
    parts = [HEAD]
    for file, title in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in described_in(file):
            for kind, signature, comment in found.pop(name, []):
                parts += entry(connection, kind, name, signature, comment)
        if file == "time_bounds":
            parts += operators(connection)
    assert not found, f"no file of SECTIONS comments on {', '.join(found)}"
    return "\n".join(parts)


def entry(connection: Connection, kind: str, name: str, signature: str, comment: str) -> Iterator[str]:
    what = {"pg_type": "type ", "pg_class": "view "}.get(kind, "")
    yield f"### {what}`{name}`\n"
    if signature:
        yield f"`{CAST.sub('', signature)}`\n"
    yield comment.replace("\n", "\n\n") + "\n"
    if kind != "pg_proc":
        rows = connection.execute(COLUMNS, [name]).fetchall()
        if rows:
            yield "| column | type | |\n|---|---|---|"
            yield "\n".join(f"| `{column}` | {of_type} | {text or ''} |" for column, of_type, text in rows) + "\n"


def operators(connection: Connection) -> Iterator[str]:
    yield "| operator | true if |\n|---|---|"
    yield "\n".join(f"| {form} | {text} |" for form, text in connection.execute(OPERATORS).fetchall()) + "\n"


def main() -> None:
    """Write the page, from a throw-away server."""
    with Cluster(find_installation()) as running:
        running.start({"fsync": "off"})
        with connect(running.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
            FILE.write_text(page(connection))


if __name__ == "__main__":
    main()
