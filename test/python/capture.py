"""Schemas whose objects capture unqualified names. The server log reports each use of such an object.

The schema before pg_catalog in search_path has a copy of each operator, function, aggregate and view in pg_catalog, a
domain for each type, and the relations that inorder's queries name. For each column name, it has a function that
``t.id`` calls if the row has no such column. The schema after pg_catalog has no copies, because the server would never
find them. Its operators and functions are a better match for some types than those in pg_catalog, because they need no
cast.

The test module reports the names in a statement before the statement is executed, even if no row causes a call.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from inorder.connection.database import Connection, literal

from sources import ROOT

BEFORE, BEHIND = "capturing_before", "capturing_behind"
PATH = f'{BEFORE}, pg_catalog, "$user", public, {BEHIND}'
CALLED = "LANGUAGE c AS $a$$libdir/inorder_test$a$, $a$test_captured$a$"
# Some copies fail with these errors on every version. Only the server's own functions may have a result type that the
# arguments do not determine, and the states of some aggregates have such a type.
NOT_MADE = (
    "cannot determine result data type", 'unsafe use of pseudo-type "internal"',
    "aggregate transition data type cannot be", "return type of transition function", "has pseudo-type anyarray",
)  # fmt: skip
# For each pair of these types and each of these names, an operator is created that the server does not have.
TYPES = (
    '"char"', "name", "text", "varchar", "bool", "int2", "int4", "int8", "numeric", "float8", "oid", "xid", "xid8",
    "regclass", "regproc", "regprocedure", "regtype", "regrole", "regnamespace", "uuid", "pg_lsn", "timestamptz",
    "interval", "jsonb", "int8range", "int8multirange", "text[]", "name[]", "oid[]", "int8[]", "oidvector",
    "int2vector",
)  # fmt: skip
SIGNS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "@>", "<@", "&&", "~", "->", "->>")

MAKE = """
DO $make$
DECLARE
    statement text;
BEGIN
    FOR statement IN {statements}
    LOOP
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO {before}.not_made VALUES (statement, SQLERRM);
        END;
    END LOOP;
END $make$
"""
FUNCTIONS = f"""
SELECT format('CREATE FUNCTION {BEFORE}.%I(%s) RETURNS %s %s {CALLED}', p.proname, pg_get_function_arguments(p.oid),
              pg_get_function_result(p.oid), CASE WHEN p.prokind = 'w' THEN 'WINDOW' END)
FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'w')
"""
OPERATORS = f"""
SELECT format('CREATE OPERATOR {BEFORE}.%s (%s RIGHTARG = %s, FUNCTION = {BEFORE}.%I)', o.oprname,
              CASE WHEN o.oprleft <> 0 THEN concat('LEFTARG = ', o.oprleft::regtype, ',') END, o.oprright::regtype,
              p.proname)
FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode WHERE o.oprnamespace = 'pg_catalog'::regnamespace
"""
# The type of an aggregate's state is the type of the argument or of the result.
AGGREGATES = f"""
SELECT unnest(ARRAY[
    format('CREATE FUNCTION {BEFORE}.%I(%s) RETURNS %s {CALLED}', name, concat_ws(', ', state, types), state),
    format('CREATE AGGREGATE {BEFORE}.%I(%s) (SFUNC = {BEFORE}.%I, STYPE = %s)', p.proname,
           coalesce(types, '*'), name, state)])
FROM pg_proc AS p
CROSS JOIN LATERAL (SELECT concat('state of ', p.oid),
                           (SELECT string_agg(t::regtype::text, ', ' ORDER BY place)
                            FROM unnest(p.proargtypes) WITH ORDINALITY AS k(t, place)),
                           p.prorettype::regtype) AS a(name, types, state)
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'a'
  AND EXISTS (SELECT FROM pg_aggregate AS g WHERE g.aggfnoid = p.oid AND g.aggkind = 'n')
"""
RELATIONS = f"""
SELECT format('CREATE VIEW {BEFORE}.%I AS SELECT %s FROM pg_catalog.%I', c.relname,
              (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a
               WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.atttypid <> 'anyarray'::regtype), c.relname)
FROM pg_class AS c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
"""
DOMAINS = f"""
SELECT format('CREATE DOMAIN {BEFORE}.%I AS %s', t.typname, t.oid::regtype)
FROM pg_type AS t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm')
  AND t.typelem = 0
"""
CLOSER = f"""
SELECT format('CREATE FUNCTION {BEHIND}.%I(%s, %s) RETURNS bool {CALLED}', 'closer', l, r)
FROM unnest({{types}}) AS l CROSS JOIN unnest({{types}}) AS r
"""
CLOSER_OPERATORS = f"""
SELECT format('CREATE OPERATOR {BEHIND}.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = {BEHIND}.closer)', s, l, r)
FROM unnest({{types}}) AS l CROSS JOIN unnest({{types}}) AS r CROSS JOIN unnest({{signs}}) AS s
WHERE NOT EXISTS (SELECT FROM pg_operator AS o
                  WHERE o.oprname = s AND o.oprleft = l::regtype AND o.oprright = r::regtype)
"""
CLOSER_FUNCTIONS = f"""
SELECT format('CREATE FUNCTION {BEHIND}.%I(%s) RETURNS text {CALLED}', n.name, t.type)
FROM unnest({{names}}) AS n(name) CROSS JOIN unnest({{types}}) AS t(type)
WHERE EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = n.name AND p.pronargs = 1)
  AND NOT EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = n.name AND p.pronargs = 1
                  AND p.proargtypes[0] = t.type::regtype)
"""
NAMED_RELATIONS = f"""
SELECT format('CREATE VIEW %I.%I AS SELECT 1 AS id, 2 AS xact', s, n)
FROM unnest({{names}}) AS n CROSS JOIN unnest(ARRAY['{BEFORE}', '{BEHIND}']) AS s
WHERE to_regclass(format('{BEFORE}.%I', n)) IS NULL AND to_regtype(format('{BEFORE}.%I', n)) IS NULL
"""
COLUMNS = f"""
SELECT format('CREATE FUNCTION %I.%I(%s) RETURNS int8 {CALLED}', s, n.name, t)
FROM (SELECT unnest({{names}}) UNION SELECT attname FROM pg_attribute WHERE attnum > 0) AS n(name)
CROSS JOIN unnest(ARRAY['{BEFORE}', '{BEHIND}']) AS s CROSS JOIN unnest(ARRAY['anyelement', 'record']) AS t
WHERE to_regprocedure(format('%I.%I(%s)', s, n.name, t)) IS NULL
"""


def texts() -> Iterator[str]:
    for folder, pattern in (("sql", "*.sql"), ("inorder", "*.sql"), ("inorder", "*.py"), ("src", "*.c")):
        yield from (path.read_text(encoding="utf-8") for path in Path(ROOT, folder).rglob(pattern))


def words(pattern: str) -> list[str]:
    return sorted(set(chain.from_iterable(re.findall(pattern, text) for text in texts())))


def array(names: list[str] | tuple[str, ...]) -> str:
    return f"{literal(list(names))}::text[]"


def make_schemas(connection: Connection) -> list[tuple[str, str]]:
    """Create the schemas. Return the objects that could not be created, and why."""
    connection.execute("SET search_path = pg_catalog; SET check_function_bodies = off")
    for name in (BEFORE, BEHIND):
        connection.execute(f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO PUBLIC".encode())
    connection.execute(f"CREATE TABLE {BEFORE}.not_made (statement text, why text)".encode())
    parts = {"types": array(TYPES), "signs": array(SIGNS)}
    for query in (
        FUNCTIONS, OPERATORS, AGGREGATES, RELATIONS, DOMAINS, CLOSER.format(**parts), CLOSER_OPERATORS.format(**parts),
        CLOSER_FUNCTIONS.format(names=array(words(r"\b([a-z]\w+)\(")), **parts),
        NAMED_RELATIONS.format(names=array(words(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|AS) ([a-z]\w+)\b"))),
        COLUMNS.format(names=array(words(r"\w\.([a-z]\w*)\b"))),
    ):  # fmt: skip
        connection.execute(MAKE.format(statements=query, before=BEFORE).encode())
    for name in (BEFORE, BEHIND):
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO PUBLIC".encode())
    rows = connection.execute(f"DELETE FROM {BEFORE}.not_made RETURNING statement, why".encode()).fetchall()
    connection.execute(f"DROP TABLE {BEFORE}.not_made".encode())
    return [(str(statement), str(why)) for statement, why in rows]


@dataclass(frozen=True)
class Captured:
    """An unqualified name that resolved to an object in one of these schemas, with the role and the statement."""

    name: str
    role: str
    where: str


REPORT = re.compile(r"LOG:  captured: (.*) as (\w+)$")
STARTS = re.compile(r"^\d{4}-\d\d-\d\d \S+ \S+ \[\d+\] ", re.MULTILINE)


def read_captured(log: str) -> Iterator[Captured]:
    """Yield the reports in a server log, each with the context and the statement that follow it."""
    lines = [line.strip() for line in STARTS.split(log)]
    for number, line in enumerate(lines):
        if report := REPORT.match(line):
            following = lines[number + 1 : number + 3]
            where = [text for text in following if text.startswith(("CONTEXT:", "STATEMENT:"))]
            yield Captured(report[1], report[2], " ".join(" ".join(where).split())[:400])
