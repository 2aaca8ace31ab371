"""The table check that uses the relation cache rejects every table that the queries of prove_table() reject."""

from collections.abc import Callable
from functools import partial

import psycopg
import pytest
from inorder.connection.database import Connection

from ground import Place
from world.sql import run, value

pytestmark = pytest.mark.server

# Statements that create a table t, for each kind of key.
KINDS = {
    "uuid": ("CREATE TABLE t (a int, b int, note text, x uuid PRIMARY KEY DEFAULT uuid_xact_nextval())",),
    "default": (
        "CREATE TABLE t (a int, b int, note text, x bigint NOT NULL DEFAULT xact_id(), PRIMARY KEY (a, b))",
        "CREATE INDEX t_x ON t (x)",
    ),
    "partial": (
        "CREATE TABLE t (a int, b int, note text, x bigint DEFAULT xact_id(), PRIMARY KEY (b) INCLUDE (a))",
        "CREATE INDEX t_x ON t (x, b) WHERE x <> 0",
    ),
    "generated": (
        "CREATE TABLE t (a int, note text PRIMARY KEY, b int)",
        "ALTER TABLE t ADD x bigint GENERATED ALWAYS AS (xact_id_generated(0)) STORED",
        "CREATE INDEX t_x ON t (x)",
    ),
    "partitions": (
        "CREATE TABLE t (a int, b int, note text, x bigint DEFAULT xact_id(), PRIMARY KEY (a, x)) "
        "PARTITION BY LIST (a)",
        "CREATE TABLE t_2 (drop_me int, x bigint NOT NULL, note text, b int, a int NOT NULL)",
        "ALTER TABLE t_2 DROP drop_me, ALTER x SET DEFAULT xact_id()",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)", "CREATE INDEX t_x ON t (x)",
        "ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES IN (2)",
    ),
}  # fmt: skip
COLUMNS = (
    "ALTER x DROP DEFAULT", "ALTER x SET DEFAULT 7", "ALTER x DROP EXPRESSION", "RENAME x TO y", "RENAME a TO c",
    "RENAME a TO c; ALTER TABLE t RENAME b TO a", "ALTER x SET EXPRESSION AS (xact_id_generated(7))",
)  # fmt: skip
# The server allows these column types to be changed only if no trigger refers to the columns.
TYPES = ("x TYPE int", "x TYPE whole", "a TYPE money", "b TYPE whole", "a TYPE oid", "b TYPE numeric(9, 2)")
NEW_COLUMNS = (
    "DEFAULT xact_id()",
    *(f"GENERATED ALWAYS AS ({expression}) STORED"
      for expression in ("xact_id_generated()", "xact_id_generated(7)", "xact_id_generated() + 0", "abs(0::bigint)")),
)  # fmt: skip
INDEXES = (
    "t (x) WHERE x > 0", "t (x DESC)", "t (x) WHERE x <> 0 AND a > 0", "t (x) WHERE x <> 1", "t (x) WHERE x >= 0",
    "t (x) WHERE '0'::bigint < x", "t (x) WHERE x OPERATOR(<>) 0", "t (x) WHERE x > '0'", "t USING hash (x)",
    "t (abs(x))", "t_1 (x)",
)  # fmt: skip
KEYS = ("UNIQUE (b, a)", "PRIMARY KEY (b, a)", "PRIMARY KEY (a)", "PRIMARY KEY (a, b) DEFERRABLE", "PRIMARY KEY (b, x)")
CHANGES = (
    "SELECT 1", *(f"ALTER TABLE t {change}" for change in COLUMNS),
    "ALTER TABLE t DISABLE TRIGGER zz_inorder_guard", "ALTER TABLE t ENABLE REPLICA TRIGGER zz_inorder_truncate",
    "DROP TRIGGER zz_inorder_truncate ON t", "DROP INDEX t_x",
    *(f"DROP INDEX t_x; CREATE INDEX ON {index}" for index in INDEXES),
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_x'::regclass",
    "ALTER TABLE t DROP CONSTRAINT t_pkey", *(f"ALTER TABLE t DROP CONSTRAINT t_pkey, ADD {key}" for key in KEYS),
    "ALTER TABLE t SET UNLOGGED", "CREATE TABLE child () INHERITS (t)",
    "CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3)", "ALTER TABLE t_2 DISABLE TRIGGER zz_inorder_guard",
    "ALTER TABLE t_2 ALTER x DROP DEFAULT", "ALTER TABLE t_2 SET UNLOGGED",
)  # fmt: skip
CHANGES_BELOW_GUARD = (
    "SELECT 1", *(f"ALTER TABLE t ALTER {column} USING 1" for column in TYPES),
    *(f"ALTER TABLE t DROP x; ALTER TABLE t ADD x bigint {column}; CREATE INDEX ON t (x)" for column in NEW_COLUMNS),
)  # fmt: skip
# Replacements in the definitions of the guard's triggers, so that the created triggers differ from the guard's own.
OTHER_TRIGGERS = (
    ("FOR EACH ROW", "FOR EACH ROW WHEN (true)"), ("('0')", "('7')"), ("('0')", "('0', '0')"), ("OF x", "OF note, x"),
    ("OF x", "OF a"), ("DELETE OR ", ""), ("BEFORE", "AFTER"), ("feed_guard('0')", "trust()"),
)  # fmt: skip

# The internal functions are called with this search_path.
PROOF = """SET LOCAL search_path = pg_catalog, pg_temp;
           SELECT inorder_internal.prove_table(f, 10) FROM inorder_internal.feed_table AS f
           WHERE relation = '{0}.t'::regclass"""
READ = "SELECT reader_next_batch('t', reader_start('t'))"
TRIGGERS = """SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
              WHERE tgrelid = 't'::regclass AND tgname LIKE 'zz_inorder%'"""


def message(connection: Connection, statement: str) -> str:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        return str(error.diag.message_primary)
    return ""


def make(place: Place, kind: str) -> Connection:
    owner = place.session()
    run(owner, "CREATE DOMAIN whole AS bigint", "CREATE FUNCTION trust() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN new; END'", *KINDS[kind], "SELECT feed_create('f', 't')",
        "INSERT INTO t (a, b, note) VALUES (1, 1, 'x'), (2, 2, 'y')")  # fmt: skip
    return owner


def change_below_guard(owner: Connection, change: str, old: str = "", new: str = "") -> None:
    """Drop the guard's triggers, change the table and create the triggers again.

    If ``old`` is given, replace it in their definitions.
    """
    triggers = [(str(name), str(text)) for name, text in owner.execute(TRIGGERS.encode()).fetchall()]
    run(owner, *(f"DROP TRIGGER {name} ON t" for name, _text in triggers), *change.split("; "))
    for name, text in triggers:
        run(owner, text.replace(old, new) if old else text, f"ALTER TABLE t ENABLE ALWAYS TRIGGER {name}")


def messages(place: Place, owner: Connection, change: Callable[[], None]) -> tuple[str, str] | None:
    """Return the errors of the queries and of a read after a change, then undo the change.

    Return None if the server does not allow the change.
    """
    run(owner, "BEGIN")
    try:
        change()
        run(owner, "SAVEPOINT s")
        of_queries = message(owner, PROOF.format(place.schema))
        run(owner, "ROLLBACK TO s")
        return of_queries, message(owner, READ)
    except psycopg.Error:
        return None
    finally:
        run(owner, "ROLLBACK")


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_refuses_each_table_that_the_queries_refuse(place: Place, kind: str) -> None:
    owner = make(place, kind)
    changes = {change: partial(run, owner, *change.split("; ")) for change in CHANGES}
    changes |= {f"+{change}": partial(change_below_guard, owner, change) for change in CHANGES_BELOW_GUARD}
    changes |= {str(texts): partial(change_below_guard, owner, "SELECT 1", *texts) for texts in OTHER_TRIGGERS}
    both = {name: errors for name, change in changes.items() if (errors := messages(place, owner, change)) is not None}
    assert {name: errors for name, errors in both.items() if errors[0] != errors[1]} == {}
    refused = [name for name, errors in both.items() if errors[0]]
    assert len(refused) >= 10 and len(both) >= len(refused) + 4


@pytest.mark.parametrize(
    "keys",
    [
        "x uuid PRIMARY KEY DEFAULT uuid_xact_nextval()", "x bigint DEFAULT xact_id()",
        """x bigint DEFAULT xact_id(), "A ""b" numeric(8, 2), c timestamptz(3), PRIMARY KEY (c, "A ""b")""",
        "x bigint DEFAULT xact_id(), c varchar(9) PRIMARY KEY", "x bigint DEFAULT xact_id(), c bit(3) PRIMARY KEY",
        "x bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, y uuid PRIMARY KEY",
    ],
)  # fmt: skip
def test_the_members_of_a_table_equal_those_found_by_queries(place: Place, keys: str) -> None:
    """The test compares bytes, as each read does, because the queries may run at a different isolation level."""
    owner = place.session()
    run(owner, f"CREATE TABLE t ({keys})", "CREATE INDEX ON t (x)", "SELECT feed_enable('t')")
    same = f"""SELECT NOT inorder_internal.differ(inorder_internal.members(f), inorder_internal.proved_members(f, 10))
               FROM inorder_internal.feed_table AS f WHERE relation = '{place.schema}.t'::regclass"""
    for isolation in ("READ COMMITTED", "REPEATABLE READ"):
        run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SET LOCAL search_path = pg_catalog, pg_temp")
        assert value(owner, same)
        run(owner, "ROLLBACK")
