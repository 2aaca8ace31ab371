"""Compare the handwritten docs/reference.md with the catalog, and update its signatures. Run by script/reference."""

import re
from collections.abc import Iterator

from inorder.connection.database import Connection, connect
from inorder.installations import find_installation
from inorder.lab.server.cluster import Cluster

from sources import ROOT

FILE = ROOT / "docs" / "reference.md"
INNER = ("Internal", "implementation of", "planner support", "I/O", "less-equal-greater", "sort support",
         "skip support", "smaller of two", "larger of two", "hash", "BRIN")  # fmt: skip
# The page omits casts in default values, such as '10'::integer and NULL::text.
CAST = re.compile(r"(?<=')::[a-z ]+|(?<=NULL)::[a-z ]+")
OBJECTS = """
SELECT format('%s`%s`', CASE WHEN t.oid IS NOT NULL THEN 'type ' WHEN c.oid IS NOT NULL THEN 'view ' ELSE '' END,
              coalesce(p.proname, t.typname, c.relname)),
       CASE WHEN p.oid IS NULL THEN '' ELSE format(
           '`%s(%s) → %s`', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) END,
       obj_description(d.objid, d.classid::regclass::name), coalesce(c.oid, t.typrelid, 0)
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder'
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
    AND p.prorettype <> ALL ('{trigger,internal}'::regtype[]) AND p.prokind = 'f'
LEFT JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid AND t.typcategory <> 'A'
LEFT JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'v'
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND coalesce(p.pronamespace, t.typnamespace, c.relnamespace) <> 'inorder_internal'::regnamespace
ORDER BY 1, pg_get_function_arguments(p.oid) COLLATE "C"
"""
OPERATORS = """
SELECT format('`%s %s %s`', format_type(o.oprleft, NULL), o.oprname, format_type(o.oprright, NULL)), '',
       obj_description(o.oid, 'pg_operator')
FROM pg_depend AS d JOIN pg_operator AS o ON d.classid = 'pg_operator'::regclass AND o.oid = d.objid
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'inorder' AND d.refclassid = 'pg_extension'::regclass
WHERE o.oprname ~ '~'
ORDER BY o.oprname COLLATE "C", format_type(o.oprleft, NULL) COLLATE "C", format_type(o.oprright, NULL) COLLATE "C"
"""
COLUMNS = """
SELECT concat('`', attname, '`'), format_type(atttypid, atttypmod), col_description(attrelid, attnum)
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
SIGNATURE = re.compile(r"^### (`\w+`)\n\n`.*`$", re.M)
# A table row has an object, its type (absent for operators), and the description.
ROW = re.compile(r"^\| (`[^`]+`) \| (?:(.*?) \| )?(.*?) ?\|$", re.M)

Row = tuple[str, str, str]
Entry = tuple[str, str, list[Row]]  # signature, comment, columns


def is_for_users(comment: str | None) -> bool:
    """Return True if the comment describes an object for users.

    >>> is_for_users("implementation of <~ operator"), is_for_users("A new key.")
    (False, True)
    """
    return comment is not None and not comment.startswith(INNER)


def rows(connection: Connection, query: str, *parameters: object) -> list[Row]:
    result = connection.execute(query.encode(), parameters or None).fetchall()
    return [(str(name), str(kind), str(text or "")) for name, kind, text in result]


def entries(connection: Connection) -> dict[str, list[Entry]]:
    """Group the public objects by heading. Functions with the same name are sorted by their arguments."""
    connection.execute("SET search_path = public, pg_catalog")
    by_heading: dict[str, list[Entry]] = {}
    for heading, signature, comment, relation in connection.execute(OBJECTS).fetchall():
        if is_for_users(comment if comment is None else str(comment)):
            columns = rows(connection, COLUMNS, relation)
            by_heading.setdefault(str(heading), []).append((CAST.sub("", str(signature)), str(comment), columns))
    return by_heading


def with_signatures(connection: Connection, page: str) -> str:
    """Replace the signatures on the page with those in the catalog."""
    signatures = {heading: [entry[0] for entry in group] for heading, group in entries(connection).items()}

    def rewritten(section: re.Match[str]) -> str:
        remaining = signatures.get(section[1])
        return f"### {section[1]}\n\n{remaining.pop(0)}" if remaining else section[0]

    return SIGNATURE.sub(rewritten, page)


def sections(page: str) -> list[tuple[str, str]]:
    """Return the heading of each object, with the text below it.

    >>> sections("# A\\n\\n### `b`\\n\\nOne.\\n\\n## C\\n\\n### type `d`\\n\\nTwo.\\n")
    [('`b`', 'One.\\n\\n'), ('type `d`', 'Two.\\n')]
    """
    return re.findall(r"^### (.*)\n\n((?:(?!^##).*\n?)*)", page, re.M)


def agrees(body: str, entry: Entry) -> bool:
    """Return True if a section begins with the signature and comment of an object, and lists its columns."""
    signature, comment, columns = entry
    begins = f"{' '.join(body.split())} ".startswith(f"{signature} {comment} ".lstrip())
    return begins and (not columns or rows_agree(ROW.findall(body), columns))


def rows_agree(written: list[Row], described: list[Row]) -> bool:
    """Return True if the rows list the same columns, and each begins with the comment. More sentences may follow.

    >>> rows_agree([("a", "int", "its size. Never 0")], [("a", "int", "its size")])
    True
    """
    return [row[:2] for row in written] == [row[:2] for row in described] and all(
        f"{mine[2]}. ".startswith(f"{theirs[2]}. ") for mine, theirs in zip(written, described, strict=True)
    )


def faults(connection: Connection, page: str) -> Iterator[str]:
    """Yield a message for each object that is missing on the page, described differently, or not in the catalog."""
    described = entries(connection)
    for heading, body in sections(page):
        group = described.get(heading)
        if not group:
            yield f"no such object: {heading}"
        elif not agrees(body, entry := group.pop(0)):
            yield f"{heading} does not begin with: {entry}"
    yield from (f"no section: {heading} {entry[0]}" for heading, group in described.items() for entry in group)
    operators = rows(connection, OPERATORS)
    if [row for row in ROW.findall(page) if "~" in row[0]] != operators:
        yield f"the operators are: {operators}"


def main() -> None:
    """Update the signatures on the page from a throw-away server, and print the remaining differences."""
    with Cluster(find_installation()) as running:
        running.start({"fsync": "off"})
        with connect(running.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
            FILE.write_text(with_signatures(connection, FILE.read_text()))
            print("".join(f"{fault}\n" for fault in faults(connection, FILE.read_text())), end="")


if __name__ == "__main__":
    main()
