"""SQL strings that functions generate: all names are schema-qualified, and all literals have a type.

The checkers of the install script (test_install_script.py) do not see these strings. They are run as the reader, under
the search_path of feed_apply()'s caller, so an unqualified name could resolve to an object of another role.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inorder.connection.database import Connection, queries, query
from inorder.lab.server.cluster import Cluster
from pglast import ast, parse_sql
from pglast.visitors import Ancestor, Visitor
from psycopg import sql

from conftest import copy_of
from script_rules import exact_calls
from sources import sql_source
from world.sql import run

pytestmark = pytest.mark.server

TABLES = {
    "keyed": "CREATE TABLE o.keyed (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
    "quoted": """CREATE TABLE o."it's %s a ""named"" table" (k int, "o'k %I" text, xact bigint DEFAULT xact_id(),
                 PRIMARY KEY (k, "o'k %I")); CREATE INDEX ON o."it's %s a ""named"" table" (xact)""",
    "partial": """CREATE TABLE o.partial (k int PRIMARY KEY,
                                          xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
                  CREATE INDEX ON o.partial (xact) WHERE xact > 0""",
    "plainkeyed": """CREATE TABLE o.plainkeyed (id uuid DEFAULT uuid_xact_nextval()); CREATE INDEX ON o.plainkeyed
                     (id)""",
    "parted": """CREATE TABLE o.parted (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n))
                 PARTITION BY LIST (n); CREATE TABLE o.p1 PARTITION OF o.parted FOR VALUES IN (1, 2);
                 CREATE TABLE o.p2 PARTITION OF o.parted DEFAULT""",
    "typed": """CREATE TYPE o.e AS ENUM ('a'); CREATE TYPE o.r AS RANGE (subtype = int4); CREATE DOMAIN o.d AS o.e;
                CREATE TYPE o.c AS (n int, e o.e, d o.d[]); CREATE COLLATION o.ci FROM "C";
                CREATE TABLE o.typed (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), "a b" o.e, c o.c[], d o.d,
                                      j json, r o.r, m o.r_multirange, t text COLLATE o.ci, n int[], cc o.c)""",
}
ROOT = Path(__file__).resolve().parents[2]
# A type, collation or operator whose name is a parameter of format(). Null arrays are an exception, because no domain
# constraint is evaluated for their elements.
NAMED = re.compile(r"(::|COLLATE |OPERATOR\()%\d*\$?[sI](?!\[\]\)\[1\])")
ONCE = re.compile(r"^DO \$(\w*)\$$.*?^END \$\1\$;$", re.M | re.S)
OURS = {"pg_catalog", "public", "inorder_internal", "inorder_text"}
# For a value of a user-defined type, these functions may call a user-defined cast to json.
TO_JSON = re.compile(r"(to|row_to|array_to)_jsonb?|jsonb?_((object_)?agg|build_(object|array))")
COLUMNS = {"a b", "c", "d", "j", "r", "m", "t", "n", "cc"}
# Queries whose rows have only types of the extension.
OUR_ROWS = {"feeds", "tail_start"}
ONE, GAPS = "'{[3,9)}'", "'{[3,9),[20,30),[1000,2000)}'"
BATCHES = (
    f"ROW(1, {ONE}, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    f"ROW(1, {GAPS}, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    f"ROW(1, {GAPS}, 3, key, 25, key, NULL, NULL, NULL)",
    f"ROW(1, {ONE}, 3, key, 3, key, NULL, NULL, NULL)",
    "ROW(1, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)
# Calls that generate a query over a table t. The array "key" has one value for each column of the key.
QUERIES = (
    "inorder_internal.beyond_query(t)", "inorder_internal.unnumbered_query(t)",
    *(f"inorder_internal.batch_query(t, NULL, {b}::public.feed_batch, '''1''::pg_catalog.int4', {order})"
      for b in BATCHES for order in ("true", "false")),
    *(f"inorder_internal.place_query(t, NULL, {b}::public.feed_batch, 7)" for b in BATCHES),
    "'SELECT e.* ' || inorder_internal.from_ranges(t, inorder_internal.whole_table(t), '{[0,9),[20,30)}', '')",
    f"inorder_internal.passed_query(t, {GAPS}, 5, key, t.relation, 10, 'passed')",
    f"inorder_internal.joined_query(t, ROW(1, {GAPS}, NULL, NULL, NULL, NULL, NULL, '{{}}', NULL)::public.feed_batch, "
    "inorder_internal.members(t), 10)",
    f"inorder_internal.probe_query(t, ROW(1, {GAPS}, NULL, NULL, NULL, '{{}}', NULL)::public.feed_position, "
    "ROW(1, '{}', NULL, NULL, NULL, NULL, NULL, inorder_internal.members(t), NULL)::public.feed_batch, "
    "'text_reader'::regrole)",
    f"'SELECT ' || inorder_internal.count_of(t, m, {ONE}, 10)",
    f"'SELECT ' || inorder_internal.count_of(t, m, {GAPS}, 10)",
    f"'SELECT ' || inorder_internal.count_of(t, m, {GAPS}, 'text_reader'::regrole)",
    "inorder_internal.passed_parts_query(t, 10)", "inorder_internal.passed_parts_query(t, 'text_reader'::regrole)",
    "(SELECT inorder_internal.count_query(t, 10, k.leaves, k.others, k.stored, NULL)"
    " FROM inorder_internal.known_parts(t) AS k)",
    "CASE WHEN NOT t.is_generated THEN (inorder_internal.describe_restored(t.relation, 0)).highest_query END",
)  # fmt: skip
LOG = (
    "CASE WHEN inorder_internal.log_problem(t.relation) IS NULL"
    " THEN inorder_internal.log_statement(t.relation, 'o.log') END"
)
STATEMENTS = (
    "(SELECT string_agg(s, ';') FROM inorder_internal.guard_statements(t) AS s)",
    "(SELECT string_agg(s, ';') FROM inorder_internal.unguard_statements(t.relation) AS s)",
    "(SELECT string_agg(s, ';') FROM inorder_internal.index_statements(t.relation, 'm''ore') AS s)",
    """(SELECT string_agg(s, ';') FROM inorder_internal.feed_prepare(10, 'o."not yet"', 'm''ore') AS s)""",
    "inorder_internal.base_statement(t, 281474976710655)",
)


# The visitor's methods have the names of the parser's nodes.
# ruff: noqa: N802
class Unqualified(Visitor):
    """Collects names without a schema, and literals without a type.

    Unqualified column names are safe, because columns belong to the table.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def note(self, kind: str, names: Any) -> None:
        """Collect a name unless it is qualified with pg_catalog or a schema of the extension."""
        parts = [name.sval for name in names or ()]
        if len(parts) < 2 or parts[0] not in OURS:
            self.found.append(f"{kind} {'.'.join(parts)}")

    def visit_CollateClause(self, _: Ancestor, node: ast.CollateClause) -> None:
        self.note("collation", node.collname)

    def visit_FuncCall(self, _: Ancestor, node: ast.FuncCall) -> None:
        self.note("function", node.funcname)

    def visit_A_Expr(self, _: Ancestor, node: ast.A_Expr) -> None:
        self.note("operator", node.name)

    def visit_TypeName(self, _: Ancestor, node: ast.TypeName) -> None:
        self.note("type", node.names)

    def visit_CreateTrigStmt(self, _: Ancestor, node: ast.CreateTrigStmt) -> None:
        self.note("trigger function", node.funcname)

    def visit_RangeVar(self, ancestors: Ancestor, node: ast.RangeVar) -> None:
        if node.schemaname is None:
            self.found.append(f"relation {node.relname}")

    def visit_A_Const(self, ancestors: Ancestor, node: ast.A_Const) -> None:
        """Collect a string unless a cast is applied to it directly. Numbers need no cast."""
        if isinstance(ancestors.node, ast.TypeCast) or not isinstance(node.val, ast.String):
            return
        self.found.append(f"literal {node.val.sval!r}")


class Foreign(Unqualified):
    """Collects names that may refer to objects of a user, and calls that may use a user-defined cast."""

    def note(self, kind: str, names: Any) -> None:
        """Collect a function in another schema. Unqualified functions are found through a pinned search_path."""
        parts = [name.sval for name in names or ()]
        if (len(parts) > 1 and parts[0] not in OURS) or (parts and TO_JSON.fullmatch(parts[-1])):
            self.found.append(f"{kind} {'.'.join(parts)}")

    def visit_TypeName(self, ancestors: Ancestor, node: ast.TypeName) -> None:
        """Collect a type, except the type of a null array, whose elements are never evaluated."""
        cast = ancestors.node
        if not (node.arrayBounds and isinstance(cast, ast.TypeCast) and getattr(cast.arg, "isnull", False)):
            super().visit_TypeName(ancestors, node)

    def visit_TypeCast(self, _: Ancestor, node: ast.TypeCast) -> None:
        if isinstance(node.arg, ast.ColumnRef) and getattr(node.arg.fields[-1], "sval", "") in COLUMNS:
            self.found.append(f"cast of {node.arg.fields[-1].sval}")

    def visit_RangeVar(self, ancestors: Ancestor, node: ast.RangeVar) -> None:
        """Ignore relations in FROM, because the tables belong to users."""

    def visit_A_Const(self, ancestors: Ancestor, node: ast.A_Const) -> None:
        """Ignore literals."""


def foreign(text: str) -> list[str]:
    visitor = Foreign()
    visitor(parse_sql(text))
    return visitor.found


def unqualified(text: str) -> list[str]:
    visitor = Unqualified()
    visitor(parse_sql(text))
    return visitor.found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lower(e.x) FROM s.t AS e", "SELECT 1 FROM t", "SELECT FROM s.t AS e WHERE e.x > e.y", "SELECT 'x'",
        "SELECT pg_catalog.concat('x')", "SELECT e.x::text FROM s.t AS e",
        "SELECT (e.x, e.y) > (e.y, e.x) FROM s.t AS e", "SELECT NULL::s.t", "SELECT s.f()",
        "CREATE TRIGGER t BEFORE INSERT ON s.t EXECUTE FUNCTION f()",
    ],
)  # fmt: skip
def test_the_checker_finds_unqualified_names(text: str) -> None:
    assert unqualified(text)


@pytest.fixture(scope="module")
def tables(cluster: Cluster, template: str) -> Iterator[Connection]:
    """Yield a database with tables of every form.

    The role that reads them has no privileges on their partitions.
    """
    with copy_of(template, cluster, "texts") as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'text_reader'").rowcount == 0:
            connection.execute("CREATE ROLE text_reader")
        connection.execute("CREATE SCHEMA o")
        run(connection, *TABLES.values())
        connection.execute(
            "SELECT exact_count_start(oid) FROM pg_class"
            " WHERE relnamespace = 'o'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
        )
        connection.execute("CREATE TABLE o.p3 PARTITION OF o.parted FOR VALUES IN (3)")
        connection.execute('CREATE TABLE o."not yet" (k int)')
        yield connection


def texts(connection: Connection, makers: tuple[str, ...]) -> Iterator[str]:
    connection.execute(
        "SET search_path = pg_catalog, pg_temp"
    )  # the search_path with which functions of the state are called
    for maker in makers:
        query_rows = connection.execute(
            f"SELECT {maker} FROM inorder_internal.feed_table AS t,"
            " LATERAL (SELECT ARRAY(SELECT CASE WHEN t.is_uuid THEN gen_random_uuid()::text ELSE '1' END"
            " FROM unnest(t.order_columns)) AS key) AS k,"
            " LATERAL unnest(inorder_internal.leaves(t.relation)) AS m".encode()
        ).fetchall()
        yield from (str(text) for (text,) in query_rows if text is not None)


@pytest.mark.parametrize(
    "text",
    ["SELECT NULL::s.t", "SELECT x::s.t[]", "SELECT to_json(x)", "SELECT e.c::text FROM s.t AS e", "SELECT s.f()"],
)
def test_the_checker_finds_names_that_a_user_may_have_created(text: str) -> None:
    assert foreign(text)


def filled(text: str, schema: str = "public") -> str:
    parts = {"columns": "SELECT 1", "options": "HEADER", "key": "e.c", "rows": "public.rows()"}
    text = re.sub(r"--.*|%(?=%)", "", text.replace("{inorder}", schema).replace("{inorder_text}", "inorder_text"))
    text = text.replace("SELECT {columns}", "SELECT e.*")
    text = re.sub(r"(ONLY |FROM |TABLE |NULL::)\{(?!rows)\w+\}", r"\1s.t", text.replace("{{", "{").replace("}}", "}"))
    text = re.sub(r"%(\(\w+\))?s", "NULL", re.sub(r"(?<=[.])\{column\}", "c", text))
    text = re.sub(r"\{(\w+)\}", lambda match: parts.get(match[1], "'{}'"), text).strip()
    return f"SELECT FROM {text}" if text.startswith("inorder_text.") else text


def test_queries_of_the_tool_use_no_object_of_a_user() -> None:
    texts = {name: text.as_string() for name, text in queries().items() if name not in OUR_ROWS}
    assert len(texts) > 50
    # This query converts names, numbers and batches to json, but no value of a user's table.
    of_names = {"reader_columns": [f"function pg_catalog.json_{name}" for name in ("agg", "agg", "build_array")]}
    assert {name: names for name, text in texts.items() if (names := foreign(filled(text)))} == of_names


def inexact_calls(texts: Iterable[str]) -> list[str]:
    """Return calls of public functions that could resolve to an overload of another role."""
    return [f"{subject}: {problem}" for _, subject, problem in exact_calls(";\n".join(texts), sql_source())]


def test_calls_of_the_tool_match_the_declared_argument_types() -> None:
    assert inexact_calls(filled(text.as_string(), "@extschema@") for text in queries().values()) == []


def test_no_source_builds_sql_text_from_the_name_of_a_type() -> None:
    """A type, collation or operator name would be looked up again when the query string is parsed.

    DO blocks are an exception: they run once, while the install script creates the objects that they name.
    """
    sources = [path for folder in ("sql", "src", "inorder") for path in (ROOT / folder).rglob("*.[cs]*")]
    assert len(sources) > 100
    texts = {path: ONCE.sub("", path.read_text()) for path in sources
             if path.suffix in (".c", ".sql") and "lab" not in path.parts}  # fmt: skip
    lines = [(path.name, line) for path, text in texts.items() for line in text.splitlines()
             if NAMED.search(line) and "errmsg(" not in line]  # fmt: skip
    assert not lines


def test_json_of_the_tool_uses_no_object_of_a_user(tables: Connection) -> None:
    with tables.transaction():
        for name, is_plain in (("typed", False), ("keyed", True)):
            tables.execute(f"LOCK TABLE o.{name} IN ACCESS SHARE MODE".encode())
            row = tables.execute("SELECT %s::regclass::oid", [f"o.{name}"]).fetchone()
            assert row is not None
            answer = tables.execute(query("tail_json").format(table=row[0], of_changes=False)).fetchone()
            assert answer is not None
            text = f"SELECT {answer[1]} FROM o.{name} AS e"
            assert foreign(text) == ["function pg_catalog.row_to_json"]
            assert ("row_to_json(e.*)" in text) == is_plain
            assert tables.execute(text.encode()).rowcount == 0


def test_queries_qualify_every_name(tables: Connection) -> None:
    queries = set(texts(tables, QUERIES))
    bounds = tables.execute(
        "SELECT pg_get_partition_constraintdef(c.oid) FROM pg_class AS c WHERE c.relispartition AND c.relkind = 'r'"
    ).fetchall()
    assert len(queries) > 100
    for text in queries:
        checked_text = text
        for (bound,) in bounds:
            checked_text = checked_text.replace(str(bound), "true")
        assert not unqualified(checked_text), text
        tables.execute(f"SET search_path = pg_temp; EXPLAIN {text}".encode())


def test_statements_qualify_every_name(tables: Connection) -> None:
    allowed = {"type bigint", "type int8"}
    statements = set(texts(tables, STATEMENTS))
    for text in statements:
        assert not [name for name in unqualified(text) if name not in allowed], text
    statements.update(texts(tables, (LOG,)))
    tables.execute("CREATE TABLE o.plain (id int PRIMARY KEY)")
    parts = {"schema": "public", "quoted": "o.plain", "table": sql.SQL("'o.plain'::pg_catalog.regclass")}
    for undo, feed in ((True, None), (False, None), (False, "f")):
        statement = query("prepare_changes").format(inorder=sql.Identifier("public"), undo=undo, feed=feed, **parts)
        statements.add(str(tables.execute(statement).fetchall()[0][0]))
    assert inexact_calls(text.replace("public.", "@extschema@.") for text in statements) == []
