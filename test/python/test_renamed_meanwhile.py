"""A table is renamed while a call waits for it: the call has the same result as before."""

from collections.abc import Callable

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from ground import roles
from waiting import blocked
from waiting_calls import CALLS, begin, drop_feeds, prepare
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

RENAME = "ALTER TABLE s.t RENAME TO renamed"
# Further statements of the transaction that renames the table.
TAKEOVERS = {
    "no relation has the name": (),
    "a table has the name": ("ALTER TABLE s.other RENAME TO t",),
    "a sequence has the name": ("ALTER SEQUENCE s.numbers RENAME TO t",),
    "no schema has the name": ("ALTER SCHEMA s RENAME TO renamed",),
}
# Calls that return the number of rows.
COUNTS = ("SELECT count(", "SELECT feed_apply(", "SELECT exact_count(")
# The statements of each role. The first one waits, and the last one returns true.
STATEMENTS = {
    "lost_reader": ("SELECT (reader_next_batch('s.t', (SELECT p FROM kept))).transactions <> '{}'",),
    "postgres": (
        "SELECT inorder_internal.lock_tree('s.t', 'SHARE ROW EXCLUSIVE')",
        "SELECT count(*) = 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation "
        "WHERE l.pid = pg_backend_pid() AND l.mode = 'ShareRowExclusiveLock' AND c.relname = 'renamed'",
    ),
}


def result(connection: Connection, *statements: str) -> object:
    """Return the value of the last statement, or the SQLSTATE of an error. Undo the statements."""
    try:
        return [value(connection, statement) for statement in statements][-1]
    except psycopg.Error as error:
        return error.sqlstate
    finally:
        run(connection, "ROLLBACK")


def result_of_call(connection: Connection, call: str) -> object:
    """Return the number of rows that a call reads, or true if the call returns other values."""
    return result(connection, call if call.startswith(COUNTS) else f"SELECT count(*) > 0 FROM ({call}) AS c")


def waited(
    owner: Connection, renamer: Connection, reader: Connection, takeover: tuple[str, ...], is_first: bool,
    call: Callable[..., object], *statements: str,
) -> object:  # fmt: skip
    """Return the result of a call that waits for a table while another session also waits, and renames the table.

    ``is_first``: the call begins to wait before the other session.
    """
    run(owner, "BEGIN", "LOCK TABLE s.t")
    run(renamer, "BEGIN")
    run(reader, begin(statements[0]))
    calls: list[tuple[Callable[..., object], Connection, tuple[str, ...]]]
    calls = [(call, reader, statements), (run, renamer, (RENAME, *takeover))]
    (function, session, texts), (next_function, next_session, next_texts) = calls if is_first else calls[::-1]
    with (
        blocked(function, session, *texts) as first,
        blocked(next_function, next_session, *next_texts) as second,
    ):
        assert not first.done() and not second.done()
        run(owner, "COMMIT")
        (second if is_first else first).result()
        # A session that has not yet locked the table waits for the end of this transaction.
        run(renamer, "COMMIT")
        return (first if is_first else second).result()


@pytest.mark.parametrize("is_first", [True, False], ids=["call first", "rename first"])
def test_a_call_that_waited_for_a_renamed_table_has_the_same_result(
    fresh: Connection, other: Connection, is_first: bool
) -> None:
    after_wait, before_wait = {}, {}
    with roles(fresh, "lost_reader", "lost_team"), connect(fresh.info.dsn) as renamer:
        for name, call in CALLS.items():
            run(fresh, "CREATE SCHEMA s")
            prepare(fresh, other, "plain")
            run(other, begin(call))
            before_wait[name] = result_of_call(other, call)
            after_wait[name] = waited(fresh, renamer, other, (), is_first, result_of_call, call)
            run(other, "DROP TABLE kept")
            drop_feeds(fresh)
            run(fresh, "DROP SCHEMA s CASCADE")
    assert after_wait == before_wait


@pytest.mark.parametrize("role", STATEMENTS)
@pytest.mark.parametrize("takeover", TAKEOVERS.values(), ids=list(TAKEOVERS))
def test_a_relation_that_takes_the_name_of_the_table_is_not_locked_instead(
    fresh: Connection, other: Connection, role: str, takeover: tuple[str, ...]
) -> None:
    with roles(fresh, "lost_reader", "lost_team"), connect(fresh.info.dsn) as renamer:
        run(fresh, "GRANT lost_team TO lost_reader", "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO lost_team",
            "CREATE TABLE s.other (n int)", "CREATE SEQUENCE s.numbers")  # fmt: skip
        run(other, f"SET ROLE {role}")
        prepare(fresh, other, "plain")
        assert waited(fresh, renamer, other, takeover, False, result, *STATEMENTS[role]) is True
        run(other, "RESET ROLE", "DROP TABLE kept")
        drop_feeds(fresh)
        run(fresh, "DROP SCHEMA IF EXISTS s, renamed CASCADE")


@pytest.mark.editions("sql")
def test_a_table_that_gets_its_name_back_is_locked(fresh: Connection, other: Connection) -> None:
    """While the call looks for the table after an error, the table is renamed back to the name in the call."""
    definition = value(fresh, "SELECT pg_get_functiondef('inorder_internal.check_exists'::regproc)")
    wait = "PERFORM pg_advisory_xact_lock_shared(1);"
    run(fresh, str(definition).replace("BEGIN", f"BEGIN {wait}", 1), "CREATE TABLE named (n int)",
        "SELECT pg_advisory_lock(1)", "BEGIN", "ALTER TABLE named RENAME TO renamed")  # fmt: skip
    with blocked(run, other, "SELECT inorder_internal.lock_tree('named', 'ACCESS SHARE')") as waiting:
        run(fresh, "COMMIT", "BEGIN", "ALTER TABLE renamed RENAME TO named", "COMMIT", "SELECT pg_advisory_unlock(1)")
        waiting.result()
