"""A table is dropped while a call waits for it: the error says that the table does not exist.

For a statement with ``null::t``, the server's parser opens the table if the session has not opened it before. In that
case only the server's own error is possible. In these tests the session has opened the table before.
"""

import pytest
from inorder.connection.database import Connection

from ground import roles
from waiting import blocked
from waiting_calls import CALLS, OF_CHANGES, begin, drop_feeds, is_sql, prepare, sqlstate
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

GONE = "42P01"  # undefined_table


def outcome(owner: Connection, reader: Connection, tables: str, call: str) -> str | None:
    """Return the SQLSTATE of a call that waits for a table while another session drops it."""
    if "null::" in call:
        run(reader, begin(call), call, "ROLLBACK")
    run(owner, "BEGIN", f"DROP TABLE {tables}")
    run(reader, begin(call))
    with blocked(sqlstate, reader, call) as waiting:
        waited = not waiting.done()
        run(owner, "COMMIT")
        state = waiting.result() if waited else "has not waited"
    run(reader, "ROLLBACK")
    return state


def test_a_call_that_waited_for_a_dropped_table_reports_it(fresh: Connection, other: Connection) -> None:
    sqlstates = {}
    with roles(fresh, "lost_reader", "lost_team"):
        run(fresh, "GRANT lost_team TO lost_reader")
        for name, call in CALLS.items():
            run(fresh, "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO lost_team")
            prepare(fresh, other, "plain")
            sqlstates[name] = outcome(fresh, other, "s.t", call)
            run(other, "DROP TABLE kept")
            drop_feeds(fresh)
            run(fresh, "DROP SCHEMA s CASCADE")
    assert sqlstates == dict.fromkeys(CALLS, GONE)


@pytest.mark.editions("sql")
def test_a_table_that_does_not_exist_cannot_be_locked(fresh: Connection) -> None:
    assert sqlstate(fresh, "SELECT inorder_internal.lock_tree(4294967295::oid, 'ACCESS SHARE')") == GONE


@pytest.mark.parametrize("name", OF_CHANGES)
def test_a_call_that_waited_for_a_dropped_log_reports_it(fresh: Connection, other: Connection, name: str) -> None:
    run(fresh, "CREATE SCHEMA s", "CREATE TABLE s.t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)",
        "SELECT changes_enable('s.t')", "SELECT feed_create('f', 's.t_changes')")  # fmt: skip
    run(other, "CREATE TEMP TABLE kept AS SELECT p, reader_next_batch('s.t_changes', p) AS b "
               "FROM reader_start('s.t_changes') AS p")  # fmt: skip
    if name != "changes_read" or not is_sql(fresh):
        assert outcome(fresh, other, "s.t, s.t_changes", OF_CHANGES[name]) == GONE
