"""Internal functions: EXECUTE on them confers no other right. C and SQL agree on the columns of the state."""

import re

import pytest
from inorder.connection.database import Connection

from attack import refusal
from conftest import ROOT
from ground import roles
from world.sql import run

pytestmark = pytest.mark.server

TABLE = "CREATE TABLE guarded (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)"
GRANTS = (
    "GRANT USAGE ON SCHEMA inorder_internal TO granted_stranger",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA inorder_internal TO granted_stranger",
)
OWNER = "'postgres'::regrole"
# Calls that write the state, or that name another role as the caller.
CALLS = {
    "run_statements": f"inorder_internal.run_statements(ARRAY['CREATE TABLE public.stolen ()'], {OWNER})",
    "as_caller": f"inorder_internal.as_caller(k.t, 'SELECT ARRAY[current_user::text]', false, {OWNER}) FROM known AS k",
    "count_as_caller": f"inorder_internal.count_as_caller(k.t, 'SELECT 1::int8', false, {OWNER}) FROM known AS k",
    "movable_feed": f"inorder_internal.movable_feed('f', {OWNER}, {OWNER})",
    "view_feed": f"inorder_internal.view_feed(f.id, f.relation, {OWNER}, false) FROM feeds_kept AS f",
    "keep_batch": "inorder_internal.keep_batch(ROW(f.id, 1, f.relation, b.b, 'w', 1, NULL, 1, NULL, NULL, now(), NULL, "
                  "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::inorder_internal.worker_batch) "
                  "FROM feeds_kept AS f, next_batch AS b",
    "delete_batch": f"inorder_internal.delete_batch(f.id, f.relation, {OWNER}, 1, 1) FROM feeds_kept AS f",
}  # fmt: skip


def test_execute_on_internal_functions_gives_no_other_right(fresh: Connection) -> None:
    with roles(fresh, "granted_stranger"):
        run(fresh, TABLE, "SELECT feed_create('f', 'guarded')", "INSERT INTO guarded (n) VALUES (1)", *GRANTS)
        run(
            fresh,
            "CREATE TABLE known AS SELECT t FROM inorder_internal.feed_table AS t",
            "CREATE VIEW feeds_kept AS SELECT f.* FROM inorder_internal.feed AS f",
            "CREATE TABLE next_batch AS SELECT reader_next_batch('guarded', reader_start('guarded')) AS b",
            "GRANT SELECT ON known, feeds_kept, next_batch TO granted_stranger",
            "SET ROLE granted_stranger",
        )
        outcomes = {name: refusal(fresh, f"SELECT {call}") for name, call in CALLS.items()}
        run(fresh, "RESET ROLE")
        assert outcomes == dict.fromkeys(CALLS, "42501")
        # The owner of the state can make each of these calls.
        assert refusal(fresh, f"SELECT {CALLS['run_statements']}") == ""
        run(fresh, "DROP TABLE known", "DROP VIEW feeds_kept")


# Prefixes of enumerations in src/ports, with the table or type whose columns the enumeration numbers.
KNOWN = {
    "FEED": "feed", "STATE": "feed_state", "KEPT": "worker_batch", "TABLE": "feed_table", "ROLE": "role_ref",
    "VIEW": "feed_view", "SHARE": "share_key", "NEXT": "found_batch", "POSITION": "feed_position",
    "BATCH": "feed_batch", "ORDER": "feed_order", "KNOWN": "known_count", "MEMBER": "feed_member",
}  # fmt: skip
# Columns with a different name in C, because the SQL name would be too long or has another meaning in C.
OTHERWISE = {
    "FEED_WHOLE": "whole_transactions", "SHARE_COUNT": "shares", "VIEW_TABLE": "t", "VIEW_POSITION": "at_position",
    "ORDER_COLUMN_NAME": "column_name",
}  # fmt: skip
COLUMNS = b"""
SELECT a.attname::text FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
WHERE c.relname = %s AND a.attnum > 0 ORDER BY a.attnum"""


def enumerations() -> dict[str, list[str]]:
    by_prefix = {}
    for path in sorted((ROOT / "src" / "ports").glob("*.[ch]")):
        for body in re.findall(r"\benum\n\{\n(.*?)\n\};", path.read_text(), re.DOTALL):
            names = re.findall(r"[A-Z_]+", body)
            if names[-1].endswith("_COLUMNS"):
                by_prefix[names[-1].removesuffix("_COLUMNS")] = names[:-1]
    return by_prefix


def test_enumerations_in_c_list_the_columns_of_the_state_tables(fresh: Connection) -> None:
    by_prefix = enumerations()
    assert set(by_prefix) == set(KNOWN)
    for prefix, names in by_prefix.items():
        of_sql = fresh.execute(COLUMNS, [KNOWN[prefix]]).fetchall()
        columns = [OTHERWISE.get(name, name.removeprefix(f"{prefix}_").lower()) for name in names]
        assert columns == [name for (name,) in of_sql]


def test_a_function_is_replaced_only_if_there_was_one(fresh: Connection) -> None:
    """The owner of the function is compared first.

    If another role creates the function after that, the statement must fail.
    """
    statement = "SELECT inorder_internal.function_statement('public.made', 'BEGIN RETURN NULL; END')"
    first = fresh.execute(statement).fetchall()[0][0]
    fresh.execute(str(first).encode())
    second = fresh.execute(statement).fetchall()[0][0]
    assert ("OR REPLACE" in str(first), "OR REPLACE" in str(second)) == (False, True)
    fresh.execute(str(second).encode())
