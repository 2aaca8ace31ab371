"""Privileges revoked while a call waits for a lock: the call then reads nothing and changes nothing."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection

from ground import roles, state
from waiting import blocked
from waiting_calls import OF_CHANGES, OF_OWNERS, OF_READERS, TABLES, begin, is_sql, prepare
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

DENIED = "42501"  # insufficient_privilege
HIDDEN = "42704"  # undefined_object: a feed that the role may neither move nor see
# Statements that revoke a privilege, and statements that grant it again.
LOSSES = {
    "SELECT": ("REVOKE SELECT ON s.t FROM lost_team", "GRANT SELECT ON s.t TO lost_team"),
    "USAGE": ("REVOKE USAGE ON SCHEMA s FROM lost_team", "GRANT USAGE ON SCHEMA s TO lost_team"),
    "membership": ("REVOKE lost_team FROM lost_reader", "GRANT lost_team TO lost_reader"),
}


@pytest.fixture
def reader(fresh: Connection, other: Connection) -> Iterator[Connection]:
    """Yield a session of a role that may read only as a member of another role.

    The owner's session is ``fresh``.
    """
    with roles(fresh, "lost_reader", "lost_team"):
        run(fresh, "CREATE SCHEMA s", "GRANT lost_team TO lost_reader", "GRANT USAGE ON SCHEMA s TO lost_team")
        run(other, "SET ROLE lost_reader", "SET lock_timeout = '1min'")
        yield other
        run(other, "RESET ROLE", "DROP TABLE IF EXISTS kept")


def outcomes(
    owner: Connection, reader: Connection, calls: dict[str, str], lock: str, loss: tuple[str, str]
) -> dict[str, str]:
    """Return the SQLSTATE of each call.

    While the call waits for a lock, another session revokes the privilege and inserts rows.
    """
    sqlstates = {}
    for name, call in calls.items():
        run(owner, "BEGIN", lock, loss[0], "INSERT INTO s.t (n) VALUES (1)")
        run(reader, begin(call))
        with blocked(state, reader, call) as waiting:
            waited = not waiting.done()
            run(owner, "COMMIT")
            sqlstates[name] = waiting.result() if waited else "has not waited"
        run(reader, "ROLLBACK")
        run(owner, loss[1])
        run(reader, begin(call))
        second_state = state(reader, call)
        assert second_state == "", (name, second_state)
        run(reader, "ROLLBACK")
    return sqlstates


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("table", TABLES)
def test_a_reader_that_waited_for_a_table_still_needs_select(
    fresh: Connection, reader: Connection, table: str, lost: str
) -> None:
    prepare(fresh, reader, table)
    sqlstates = outcomes(fresh, reader, OF_READERS, "LOCK TABLE s.t", LOSSES[lost])
    assert sqlstates == dict.fromkeys(OF_READERS, DENIED)


def test_a_reader_that_waited_for_a_partition_still_needs_select(fresh: Connection, reader: Connection) -> None:
    """The calls fail even if the role still has privileges on the partition itself."""
    prepare(fresh, reader, "partitions")
    run(fresh, "GRANT SELECT ON s.t_1 TO lost_team")
    sqlstates = outcomes(fresh, reader, OF_READERS, "LOCK TABLE s.t_1", LOSSES["SELECT"])
    assert sqlstates == dict.fromkeys(OF_READERS, DENIED)


def test_a_reader_of_changes_that_waited_for_a_table_still_needs_select(fresh: Connection, reader: Connection) -> None:
    run(fresh, "CREATE TABLE s.t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)",
        "SELECT changes_enable('s.t')", "GRANT SELECT ON ALL TABLES IN SCHEMA s TO lost_team")  # fmt: skip
    run(reader, "SELECT feed_create('f', 's.t_changes')")
    run(reader, "CREATE TEMP TABLE kept AS SELECT p, reader_next_batch('s.t_changes', p) AS b "
                "FROM reader_start('s.t_changes') AS p")  # fmt: skip
    calls = {name: call for name, call in OF_CHANGES.items() if name != "changes_read" or not is_sql(fresh)}
    assert outcomes(fresh, reader, calls, "LOCK TABLE s.t", LOSSES["SELECT"]) == dict.fromkeys(calls, DENIED)


@pytest.mark.parametrize("name", OF_OWNERS)
def test_a_call_that_waited_for_a_table_still_needs_its_ownership(
    fresh: Connection, reader: Connection, name: str
) -> None:
    run(fresh, "CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)", "SELECT feed_enable('s.t')")
    run(fresh, "GRANT CREATE ON SCHEMA s TO lost_team", "ALTER TABLE s.t OWNER TO lost_team")
    run(reader, "SET ROLE lost_team")
    run(fresh, "BEGIN", "LOCK TABLE s.t", "ALTER TABLE s.t OWNER TO CURRENT_USER")
    with blocked(state, reader, OF_OWNERS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED


# Calls for a feed that another session is moving. Each call waits for that session and then checks the privileges
# again.
OF_FEEDS = {
    "feed_apply": "SELECT feed_apply('m', 'SELECT FROM batch', owner => 'lost_team')",
    "feed_read": "SELECT count(*) FROM feed_read('m', null::s.t, owner => 'lost_team')",
    "feed_take_batch": "SELECT * FROM feed_take_batch('m', 'w', owner => 'lost_team')",
    "feed_finish_batch": "SELECT feed_finish_batch('m', number, token, 'lost_team') "
    "FROM feed_take_batch('m', 'w', owner => 'lost_team')",
    "feed_retry_batch": "SELECT feed_retry_batch('m', 1, 'lost_team')",
    "feed_seek": "SELECT feed_seek('m', 'here', 'lost_team')",
    "feed_rename": "SELECT feed_rename('m', 'other', 'lost_team')",
    "feed_grant": "SELECT feed_grant('m', 'lost_reader', 'lost_team')",
    "feed_revoke": "SELECT feed_revoke('m', 'lost_reader', 'lost_team')",
    "feed_drop": "SELECT feed_drop('m', 'lost_team')",
}


@pytest.mark.parametrize("name", OF_FEEDS)
def test_a_call_that_waited_for_a_feed_still_needs_its_grant(fresh: Connection, reader: Connection, name: str) -> None:
    run(fresh, *TABLES["plain"], "SELECT feed_enable('s.t')", "GRANT SELECT ON s.t TO lost_team")
    run(reader, "SET ROLE lost_team", "SELECT feed_create('m', 's.t')", "RESET ROLE", "SET ROLE lost_reader")
    run(fresh, "INSERT INTO s.t (n) VALUES (1)", "BEGIN", "SELECT feed_seek('m', 'here', 'lost_team')")
    run(fresh, LOSSES["membership"][0])
    with blocked(state, reader, OF_FEEDS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() in (DENIED, HIDDEN)


# Calls for a feed of the other session's role. The feed is granted to the team that owns the table, and the caller is a
# member of the team. Each call waits for the row of the batch, and calls in COUNTS wait for the row of the count.
TOKEN = "(SELECT token FROM kept)"
OF_MOVERS = {
    "feed_finish_batch": f"SELECT feed_finish_batch('m', 1, {TOKEN}, 'postgres')",
    "feed_renew_batch": f"SELECT feed_renew_batch('m', 1, {TOKEN}, owner => 'postgres')",
    "feed_fail_batch": f"SELECT feed_fail_batch('m', 1, {TOKEN}, 'no', owner => 'postgres')",
    "feed_seek": "SELECT feed_seek('m', 'beginning', 'postgres')",
    "feed_drop": "SELECT feed_drop('m', 'postgres')",
    "feed_enable": "SELECT feed_enable('s.t')",
}
COUNTS = {"exact_count_fold": "SELECT exact_count_fold('s.t')", "exact_count_stop": "SELECT exact_count_stop('s.t')"}
FOR_ROWS = "SELECT feed_renew_batch('m', number, token) FROM inorder_internal.worker_batch"


@pytest.mark.parametrize("name", OF_MOVERS)
def test_a_call_that_waited_for_a_batch_still_needs_the_grant_of_its_feed(
    fresh: Connection, reader: Connection, name: str
) -> None:
    run(fresh, "CREATE TABLE s.t (a int, b int, xact bigint DEFAULT xact_id(), PRIMARY KEY (a))",
        "CREATE INDEX ON s.t (xact)", "SELECT feed_create('m', 's.t'), feed_grant('m', 'lost_team')",
        "GRANT CREATE ON SCHEMA s TO lost_team", "ALTER TABLE s.t OWNER TO lost_team",
        "INSERT INTO s.t (a, b) VALUES (1, 1)")  # fmt: skip
    run(reader, "CREATE TEMP TABLE kept AS SELECT token FROM feed_take_batch('m', 'w', owner => 'postgres')")
    if name == "feed_enable":  # a different key changes the guard, which the batches remember
        run(reader, "ALTER TABLE s.t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a, b)")
    run(fresh, "BEGIN", FOR_ROWS, LOSSES["membership"][0])
    with blocked(state, reader, OF_MOVERS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() in (DENIED, HIDDEN)


@pytest.mark.parametrize("name", COUNTS)
def test_a_call_that_waited_for_a_count_still_needs_its_privilege(
    fresh: Connection, reader: Connection, name: str
) -> None:
    run(fresh, *TABLES["plain"], "SELECT exact_count_start('s.t')", "GRANT CREATE ON SCHEMA s TO lost_team")
    run(fresh, "ALTER TABLE s.t OWNER TO lost_team", "INSERT INTO s.t (n) VALUES (1)")
    run(fresh, "BEGIN", "SELECT exact_count_fold('s.t')", LOSSES["membership"][0])
    with blocked(state, reader, COUNTS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED


@pytest.mark.parametrize("call", ["SELECT exact_count_stop('s.t')", "SELECT feed_drop('f', 'postgres')"])
def test_a_role_that_lost_a_table_after_its_snapshot_is_refused(
    fresh: Connection, reader: Connection, call: str
) -> None:
    run(fresh, *TABLES["plain"], "SELECT exact_count_start('s.t'), feed_create('f', 's.t')")
    run(fresh, "GRANT CREATE ON SCHEMA s TO lost_team", "ALTER TABLE s.t OWNER TO lost_team")
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, "ALTER TABLE s.t OWNER TO CURRENT_USER")
    assert state(reader, call) in (DENIED, HIDDEN)
    run(reader, "ROLLBACK")


# Functions that do not wait for a lock on a table, a feed or a count, with the reason.
WITHOUT_A_WAIT = {
    "feed_prepare": "reads the catalog, for any role", "feed_holders": "reads the catalog and the locks, for any role",
    "changes_prepare": "reads the catalog, for the owner",
    "exact_count_proof": "reads the catalog, for readers of a view",
    "exact_count_writes": "reads the catalog, for writers",
    "exact_count_fold_soon": "takes a lock immediately or not at all",
    "feed_is_table": "uses only its arguments", "feed_guard": "a trigger",
    "feed_admit": "GRANT checks the privileges again", "feed_dismiss": "REVOKE checks the privileges again",
    "changes_trigger": "a trigger", "exact_count_trigger": "a trigger",
    "reader_advance": "uses only its arguments", "reader_batch_between": "uses only its arguments",
}  # fmt: skip


def test_every_function_that_waits_is_tested(fresh: Connection) -> None:
    tried = {*OF_READERS, *OF_CHANGES, *OF_OWNERS, *OF_FEEDS, *OF_MOVERS, *COUNTS, *WITHOUT_A_WAIT}
    functions = fresh.execute(
        b"SELECT DISTINCT p.proname::text FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace "
        b"AND p.proname ~ '^(feed|reader|exact|changes)_'"
    ).fetchall()
    assert len(functions) > 40
    assert [name for (name,) in functions if name not in tried] == []
