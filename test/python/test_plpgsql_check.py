"""plpgsql_check examines all PL/pgSQL statements, which the server itself checks only when they run."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import copy_of
from world.sql import value

# Allowed findings: the function, a part of the finding, and the reason.
BY_NAME = "The row is one of several results, and callers read it by name."
CALLER = "Every internal function that implements a public function gets the caller as an argument."
ALLOWED: dict[tuple[str, str], str] = {
    ("inorder_internal.leave_out_others()", 'record "new" has no field "owner_name"'): "for the trigger on feeds only",
    ("inorder_internal.leave_out_others()", 'record "new" has no field "owner"'): "for the trigger on names only",
    ("inorder_internal.leave_out_others()", 'record "new" has no field "system"'): "for the trigger on feeds only",
    ("inorder_internal.leave_out_others()", 'record "new" has no field "relation"'): "for the triggers on tables only",
    ("inorder_internal.leave_out_others()", 'record "new" has no field "feed"'): "for the trigger on batches only",
    ("inorder_internal.rewrite_state(oid,boolean)", 'unused parameter "caller"'): CALLER,
    (
        "inorder_internal.unread_rows(inorder_internal.feed_table,int8multirange,boolean)",
        'unused parameter "asked"',
    ): "for the SQL edition",
    ("inorder_internal.feed_prepare(oid,regclass,name)", 'unused parameter "caller"'): CALLER,
    ("inorder_internal.exact_count_proof(oid,regclass,regclass,name[])", 'unused parameter "caller"'): CALLER,
    ("inorder_internal.reader_batch_between(oid,feed_position,feed_position)", 'unused parameter "caller"'): CALLER,
    ("inorder_internal.describe_restored(regclass,bigint)", 'composite OUT variable "t"'): BY_NAME,
    ("inorder_internal.next_changes(oid,text,oid,integer,oid)", 'composite OUT variable "t"'): BY_NAME,
    ("inorder_internal.unfinished_changes(oid,text,bigint,oid,oid,text)", 'composite OUT variable "t"'): BY_NAME,
}

DATABASE = "checked"
FUNCTIONS = """
    SELECT p.oid::int8, p.oid::regprocedure::text
    FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang JOIN pg_depend AS d ON d.objid = p.oid
    JOIN pg_extension AS e ON e.oid = d.refobjid
    WHERE l.lanname = 'plpgsql' AND d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
      AND d.deptype = 'e' AND e.extname = 'inorder'
    ORDER BY 2"""
CHECK = """
    SELECT concat_ws(' ', level, 'in line', lineno::text, sqlstate, message, detail, hint, query)
    FROM (SELECT %s::oid AS oid) AS f LEFT JOIN pg_trigger AS g ON g.tgfoid = f.oid,
         plpgsql_check_function_tb(f.oid, coalesce(g.tgrelid, 0), fatal_errors => false, security_warnings => true,
                                   performance_warnings => false, extra_warnings => true)"""


@pytest.fixture(scope="module")
def checked(cluster: Cluster, template: str) -> Iterator[Connection]:
    """Yield a database with the extension and plpgsql_check, or skip the test if plpgsql_check is not available."""
    with connect(cluster.dsn) as connection:
        if not value(connection, "SELECT count(*) FROM pg_available_extensions WHERE name = 'plpgsql_check'"):
            pytest.skip(f"{cluster.server.name} has no plpgsql_check")
    with copy_of(template, cluster, DATABASE) as connection:
        connection.execute("CREATE EXTENSION plpgsql_check")
        yield connection


def findings(connection: Connection, function: object) -> list[str]:
    return [" ".join(str(text).split()) for (text,) in connection.execute(CHECK.encode(), [function])]


@pytest.mark.regress
@pytest.mark.server
def test_plpgsql_check_finds_nothing(checked: Connection) -> None:
    functions = {str(name): oid for oid, name in checked.execute(FUNCTIONS.encode())}
    assert len(functions) > 20
    assert {name for name, _ in ALLOWED} <= set(functions)
    complaints = [(name, text) for name, oid in functions.items() for text in findings(checked, oid)]
    unexpected = [
        each for each in complaints if not any(each[0] == name and words in each[1] for name, words in ALLOWED)
    ]
    assert not unexpected, "\n".join(": ".join(each) for each in unexpected)


FAULTS = {
    "RETURN nowhere()": "nowhere",
    "RETURN 'a' || (SELECT relname FROM pg_class WHERE relowner = missing)": "missing",
    "EXECUTE 'SELECT ' || a; RETURN NULL": "injection",
    "DECLARE unused int; BEGIN RETURN NULL; END": "unused",
}


@pytest.mark.regress
@pytest.mark.server
@pytest.mark.parametrize("body", FAULTS)
def test_plpgsql_check_finds_a_planted_fault(checked: Connection, body: str) -> None:
    checked.execute(
        f"CREATE FUNCTION pg_temp.f(a text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN {body}; END $$".encode()
    )
    try:
        complaints = findings(checked, value(checked, "SELECT 'pg_temp.f(text)'::regprocedure::oid"))
        assert any(FAULTS[body] in text for text in complaints), complaints
    finally:
        checked.execute("DROP FUNCTION pg_temp.f")
