"""Functions that run as the owner of the state: PL/pgSQL caches their plans, whichever role calls them first."""

import re

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from world.sql import run

pytestmark = pytest.mark.server

# Functions that a caller can execute by OID although their schema is not accessible.
EXECUTABLE = """SELECT p.proname, p.prosrc, p.proconfig FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
                CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                WHERE p.pronamespace = 'inorder_internal'::regnamespace AND l.lanname = 'plpgsql'
                  AND a.grantee <> p.proowner AND a.privilege_type = 'EXECUTE'"""
# Patterns whose meaning depends on a setting: standard_conforming_strings and backslash_quote, transform_null_equals,
# array_nulls, DateStyle and IntervalStyle.
DEPENDS = (r"\\", r"(?:=|<>)\s*NULL\b", r"\bNULL\s*(?:=|<>)", r"'\{[^':]*NULL", r"'[^']*'::(?:interval|date|time)")


def test_functions_of_callers_are_parsed_the_same_under_every_setting(cluster: Cluster) -> None:
    """A caller could execute one of these functions under different settings.

    The session would cache plans from this call, and use them later when it runs as the owner.
    """
    with connect(cluster.dsn) as connection:
        functions = connection.execute(EXECUTABLE.encode()).fetchall()
    # Do not add a function to this list unless callers must be able to execute it.
    assert {name for name, _, _ in functions} == {
        "tree", "few_of", "say_not_following", "say_beyond", "of_jsonb", "is_state", "time_steps",
    }  # fmt: skip
    for name, body, settings in functions:
        if name == "time_steps":
            continue  # called by uuid_time_partitions(), which runs as the caller
        assert settings == ["search_path=pg_catalog, pg_temp"], name
        assert [pattern for pattern in DEPENDS if re.search(pattern, str(body), re.I)] == [], name


# Functions without a fixed search_path that look up names when they run, and that roles other than the owner can run,
# either directly or through a trigger or a constraint.
UNPINNED = """SELECT p.proname FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
              WHERE p.pronamespace = 'inorder_internal'::regnamespace AND l.lanname IN ('plpgsql', 'sql')
                AND p.prosqlbody IS NULL AND 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig) IS NOT TRUE
                AND (EXISTS (SELECT FROM pg_roles AS r WHERE r.oid <> p.proowner AND NOT r.rolsuper
                             AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))
                     OR EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_proc'::regclass
                                AND d.refobjid = p.oid AND d.classid <> 'pg_proc'::regclass))"""


def test_only_functions_that_run_as_the_owner_rely_on_the_path_of_the_caller(fresh: Connection) -> None:
    assert fresh.execute(UNPINNED.encode()).fetchall() == []
    for change in ("GRANT EXECUTE ON FUNCTION inorder_internal.read_state(bigint, oid, oid, boolean) TO PUBLIC",
                   "ALTER FUNCTION inorder_internal.leave_out_missing() RESET search_path"):  # fmt: skip
        run(fresh, "BEGIN", change)
        assert len(fresh.execute(UNPINNED.encode()).fetchall()) == 1
        run(fresh, "ROLLBACK")


def test_only_the_owner_executes_functions_that_take_the_caller(cluster: Cluster) -> None:
    """These functions take the caller as an argument, so a role with EXECUTE could impersonate any other role."""
    with connect(cluster.dsn) as connection:
        rows = connection.execute(
            b"SELECT p.oid::regprocedure::text, has_function_privilege('pg_monitor', p.oid, 'EXECUTE') "
            b"FROM pg_proc AS p "
            b"WHERE p.pronamespace = 'inorder_internal'::regnamespace AND 'caller' = ANY (p.proargnames)"
        ).fetchall()
    assert len(rows) > 40
    assert [name for name, executable in rows if executable] == []


WRONG = (
    "SELECT feed_take_batch('f', '')", "SELECT feed_finish_batch('no feed', 1, 1)", "SELECT feed_seek('f', 'then')",
    "SELECT count(*) FROM feed_read('f', NULL::t, 0)", "SELECT feed_apply('f', 'SELECT 1', -1)",
    "SELECT exact_count('t')", "SELECT reader_start('pg_class')", "INSERT INTO t VALUES (gen_random_uuid())",
    "DELETE FROM t", "SELECT feed_create('f', 't')",
)  # fmt: skip


def test_an_error_names_no_internal_function(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())",
            "SELECT feed_create('f', 't')", "INSERT INTO t DEFAULT VALUES")  # fmt: skip
    for call in WRONG:
        with pytest.raises(psycopg.Error) as raised:
            fresh.execute(call.encode())
        assert (raised.value.diag.context, raised.value.diag.internal_query) == (None, None), call
        with pytest.raises(psycopg.Error) as raised:
            fresh.execute(f"DO $do$ BEGIN EXECUTE $call${call}$call$; END $do$".encode())
        context = raised.value.diag.context or ""
        assert "inline_code_block" in context and "inorder_internal" not in context, call


def test_an_error_of_the_callers_function_names_this_function(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())",
            "SELECT feed_create('f', 't')", "INSERT INTO t DEFAULT VALUES",
            "CREATE FUNCTION mine(uuid) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1 / 0; END'")  # fmt: skip
    with pytest.raises(psycopg.errors.DivisionByZero) as raised:
        fresh.execute(b"SELECT feed_apply('f', 'SELECT mine(id) FROM batch')")
    assert "function mine(uuid)" in (raised.value.diag.context or "")
