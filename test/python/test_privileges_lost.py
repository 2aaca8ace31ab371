"""Privileges that are revoked while a call waits for a lock: who waited reads nothing, and moves nothing."""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection

from ground import roles, run, state
from waiting import blocked

pytestmark = [pytest.mark.server, pytest.mark.editions]

DENIED = "42501"  # insufficient_privilege
TABLES = {
    "plain": ("CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",),
    "partitions": (
        "CREATE TABLE s.t (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
        "CREATE TABLE s.t_1 PARTITION OF s.t FOR VALUES IN (1)",
    ),
}
START, BATCH = "(SELECT p FROM kept)", "(SELECT b FROM kept)"
OF_READERS = {
    "feed_apply": "SELECT feed_apply('f', 'SELECT FROM batch')",
    "feed_read": "SELECT count(*) FROM feed_read('f', null::s.t)",
    "feed_read of some rows": "SELECT count(*) FROM feed_read('f', null::s.t, 1)",
    "feed_peek": "SELECT count(*) FROM feed_peek('f', null::s.t)",
    "feed_next_batch": "SELECT feed_next_batch('f')",
    "feed_batch_rows": "SELECT count(*) FROM feed_batch_rows('out', 1, null::s.t)",
    "feed_take_batch": "SELECT * FROM feed_take_batch('f', 'w')",
    "a worker's rows": "SELECT count(*) FROM feed_batch_rows('work', 1, null::s.t)",
    "a worker's next batch": "SELECT * FROM feed_take_batch('work', 'other')",
    "feed_wait": "SELECT feed_wait('f', '0')",
    "feed_seek": "SELECT feed_seek('f', 'here')",
    "feed_create": "SELECT feed_create('new', 's.t')",
    "feed_passed": "SELECT feed_passed('s.t')",
    "feed_passed_partitions": "SELECT feed_passed_partitions('s.t')",
    "exact_count": "SELECT exact_count('s.t')",
    "reader_start": "SELECT reader_start('s.t')",
    "reader_next_batch": f"SELECT reader_next_batch('s.t', {START})",
    "reader_batch_rows": f"SELECT count(*) FROM reader_batch_rows('s.t', {BATCH}, null::s.t)",
    "reader_split": f"SELECT reader_split('s.t', {BATCH}, 2)",
    "reader_backlog": f"SELECT reader_backlog('s.t', {START})",
    "reader_wait": f"SELECT reader_wait('s.t', {START}, '0')",
}
# What takes it, and what gives it back.
LOSSES = {
    "SELECT": ("REVOKE SELECT ON s.t FROM lost_team", "GRANT SELECT ON s.t TO lost_team"),
    "USAGE": ("REVOKE USAGE ON SCHEMA s FROM lost_team", "GRANT USAGE ON SCHEMA s TO lost_team"),
    "membership": ("REVOKE lost_team FROM lost_reader", "GRANT lost_team TO lost_reader"),
}


@pytest.fixture
def reader(fresh: Connection, other: Connection) -> Iterator[Connection]:
    """A session of a role that reads by the privileges of another one; ``fresh`` is that of the owner."""
    with roles(fresh, "lost_reader", "lost_team"):
        run(fresh, "CREATE SCHEMA s", "GRANT lost_team TO lost_reader", "GRANT USAGE ON SCHEMA s TO lost_team")
        run(other, "SET ROLE lost_reader", "SET lock_timeout = '1min'")
        yield other
        run(other, "RESET ROLE", "DROP TABLE IF EXISTS kept")


def prepare(owner: Connection, reader: Connection, table: str) -> None:
    run(owner, *TABLES[table], "SELECT exact_count_start('s.t')", "GRANT SELECT ON s.t TO lost_team")
    run(owner, "INSERT INTO s.t (n) VALUES (1)")
    run(reader, *(f"SELECT feed_create('{name}', 's.t')" for name in ("f", "out", "work")))
    run(reader, "CREATE TEMP TABLE kept AS SELECT reader_start('s.t') AS p, NULL::feed_batch AS b")
    run(reader, "UPDATE kept SET b = reader_next_batch('s.t', p)", "SELECT feed_next_batch('out')")
    run(reader, "SELECT * FROM feed_take_batch('work', 'w')")
    # What a call finds again without a look has been found before; the count knows all rows but one.
    run(owner, "SELECT exact_count_fold('s.t')", "INSERT INTO s.t (n) VALUES (1)")
    run(reader, "SELECT exact_count('s.t')")


def outcomes(
    owner: Connection, reader: Connection, calls: dict[str, str], lock: str, loss: tuple[str, str]
) -> dict[str, str]:
    """The SQLSTATE with which each call ends that waits for a lock while the privilege is revoked, and rows come."""
    found = {}
    for name, call in calls.items():
        run(owner, "BEGIN", lock, loss[0], "INSERT INTO s.t (n) VALUES (1)")
        run(reader, "BEGIN")
        with blocked(state, reader, call) as waiting:
            waited = not waiting.done()
            run(owner, "COMMIT")
            found[name] = waiting.result() if waited else "has not waited"
        run(reader, "ROLLBACK")
        run(owner, loss[1])
        run(reader, "BEGIN")
        again = state(reader, call)
        assert again == "", (name, again)
        run(reader, "ROLLBACK")
    return found


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("table", TABLES)
def test_who_waited_for_a_table_may_still_read_it_or_gets_nothing(
    fresh: Connection, reader: Connection, table: str, lost: str
) -> None:
    prepare(fresh, reader, table)
    found = outcomes(fresh, reader, OF_READERS, "LOCK TABLE s.t", LOSSES[lost])
    assert found == dict.fromkeys(OF_READERS, DENIED)


def test_who_waited_for_a_partition_may_still_read_its_table_or_gets_nothing(
    fresh: Connection, reader: Connection
) -> None:
    """Also where the privileges on the partition itself are those by which rows are read."""
    prepare(fresh, reader, "partitions")
    run(fresh, "GRANT SELECT ON s.t_1 TO lost_team")
    found = outcomes(fresh, reader, OF_READERS, "LOCK TABLE s.t_1", LOSSES["SELECT"])
    assert found == dict.fromkeys(OF_READERS, DENIED)


# Of a feed of the other session's: the caller may move it as a member of the team, which owns the table, and to which
# the feed is granted. Each waits for the row of the batch, and the last one for that of the count.
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
def test_who_waited_for_a_batch_may_still_move_its_feed_or_changes_nothing(
    fresh: Connection, reader: Connection, name: str
) -> None:
    run(fresh, "CREATE TABLE s.t (a int, b int, xact bigint DEFAULT xact_id(), PRIMARY KEY (a))",
        "CREATE INDEX ON s.t (xact)", "SELECT feed_create('m', 's.t'), feed_grant('m', 'lost_team')",
        "GRANT CREATE ON SCHEMA s TO lost_team", "ALTER TABLE s.t OWNER TO lost_team",
        "INSERT INTO s.t (a, b) VALUES (1, 1)")  # fmt: skip
    run(reader, "CREATE TEMP TABLE kept AS SELECT token FROM feed_take_batch('m', 'w', owner => 'postgres')")
    if name == "feed_enable":  # another guard, which the batches remember
        run(reader, "ALTER TABLE s.t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (a, b)")
    run(fresh, "BEGIN", FOR_ROWS, LOSSES["membership"][0])
    with blocked(state, reader, OF_MOVERS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        # Row security hides a feed that a role may not move.
        assert waiting.result() in (DENIED, "42704")


@pytest.mark.parametrize("name", COUNTS)
def test_who_waited_for_a_count_may_still_change_it_or_changes_nothing(
    fresh: Connection, reader: Connection, name: str
) -> None:
    run(fresh, *TABLES["plain"], "SELECT exact_count_start('s.t')", "GRANT CREATE ON SCHEMA s TO lost_team")
    run(fresh, "ALTER TABLE s.t OWNER TO lost_team", "INSERT INTO s.t (n) VALUES (1)")
    run(fresh, "BEGIN", "SELECT exact_count_fold('s.t')", LOSSES["membership"][0])
    with blocked(state, reader, COUNTS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED
