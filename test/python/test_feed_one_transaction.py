"""A table is changed before and after a read, all in one transaction: later reads see each change."""

import pytest
from inorder.connection.database import Connection

from ground import FORGED, GROUND, SWITCH, state
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

TABLES = (
    "CREATE TABLE t (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
    "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)", "CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2)",
)  # fmt: skip
FEEDS = (
    "SELECT feed_create('f', 't'), feed_create('w', 't'), feed_create('s', 't', partition_by => 'n', shares => 2), "
    "exact_count_start('t')",
    "CREATE TABLE kept AS SELECT reader_start('t') AS p",
)
ROWS = "INSERT INTO t (n) SELECT 1 + i % 2 FROM generate_series(1, 20) AS i"
# These reads store state: positions of each kind, and counts.
READ = (
    "SELECT count(*) FROM feed_read('f', null::t)",
    "SELECT feed_finish_batch('w', b.number, b.token) FROM feed_take_batch('w', 'me') AS b",
    "SELECT feed_finish_batch('s', b.number, b.token) FROM feed_take_batch('s', 'me') AS b",
    "SELECT exact_count_fold('t')",
    "UPDATE kept SET p = reader_advance(p, reader_next_batch('t', p))",
)
ATTACHED = ("ALTER TABLE t DETACH PARTITION t_1", "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1)")
OFF, ON = SWITCH.format("t", "DISABLE"), SWITCH.format("t", "ENABLE ALWAYS")
OFF_BELOW, ON_BELOW = SWITCH.format("t_1", "DISABLE"), SWITCH.format("t_1", "ENABLE ALWAYS")
UNGUARDED = (OFF, f"INSERT INTO t {FORGED}", ON)
# Statements of the transaction, before and after the read.
CHANGES = {
    "attached": (ATTACHED, (ATTACHED[0], f"INSERT INTO t_1 {FORGED}", ATTACHED[1])),
    "guard": ((OFF, ON), UNGUARDED),
    "guard of a partition": ((OFF_BELOW, ON_BELOW), (OFF_BELOW, f"INSERT INTO t_1 {FORGED}", ON_BELOW)),
    "guard made anew": ((OFF, "SELECT feed_enable('t')"), UNGUARDED),
    "attached and guard": (ATTACHED, UNGUARDED),
}
LATER = (
    READ[0], "SELECT (feed_take_batch('w', 'w')).number", "SELECT * FROM feed_take_batch('w', 'me')",
    "SELECT * FROM feed_take_batch('s', 'me')", "SELECT reader_next_batch('t', p) FROM kept",
)  # fmt: skip


# True if the stored counts belong to the current tables.
VALID = """
SELECT bool_and((inorder_internal.known_part(t, p.part)).part IS NOT NULL)
FROM inorder_internal.count_part AS p JOIN inorder_internal.feed_table AS t ON t.relation = p.relation
"""
AGAIN = ("SELECT feed_drop(name) FROM feeds", "DROP TABLE IF EXISTS t, kept")


@pytest.fixture(autouse=True)
def made_again(fresh: Connection, other: Connection) -> None:
    """Turn off prepared statements, because the tests create the same tables again and again."""
    other.prepare_threshold = fresh.prepare_threshold = None


def test_a_change_after_a_read_is_noticed(fresh: Connection, other: Connection) -> None:
    for name, (first, second) in CHANGES.items():
        run(fresh, *AGAIN, *TABLES, *FEEDS, ROWS, "BEGIN", *first, *READ)
        assert value(fresh, "SELECT exact_count('t')") == 20
        run(fresh, *second, "COMMIT", ROWS)
        for reader in (fresh, other):
            assert {read: state(reader, read) for read in LATER} == dict.fromkeys(LATER, GROUND), name
            assert value(reader, "SELECT exact_count('t')") == value(reader, "SELECT count(*) FROM t") == 45, name


def test_a_read_after_all_changes_stays_valid(fresh: Connection, other: Connection) -> None:
    for name, (first, second) in CHANGES.items():
        run(fresh, *AGAIN, *TABLES, *FEEDS, ROWS, "BEGIN", *first, *READ, "SAVEPOINT s", *second, "ROLLBACK TO s")
        run(fresh, "COMMIT", ROWS)
        for reader in (other, fresh):
            # A transaction stores no count for a file that it may have created, because its own TRUNCATE would empty
            # that file in place.
            assert value(reader, VALID) or first == ATTACHED, name
            assert value(reader, "SELECT exact_count('t')") == 40, name
            run(reader, "BEGIN", *LATER, "ROLLBACK")
        assert value(other, READ[0]) == 20, name


def test_a_change_after_a_feed_was_created_is_noticed(fresh: Connection) -> None:
    run(fresh, "BEGIN", *TABLES, ROWS, "SELECT feed_create('f', 't', 'now'), exact_count_start('t')")
    run(fresh, *UNGUARDED, "COMMIT", ROWS)
    assert state(fresh, READ[0]) == GROUND
    assert value(fresh, "SELECT exact_count('t')") == 45


def test_a_migration_can_create_change_and_enable_a_table(fresh: Connection, other: Connection) -> None:
    run(fresh, "BEGIN", *TABLES, ROWS, "SELECT feed_create('now', 't', 'now')", *FEEDS, ROWS, "COMMIT", ROWS)
    run(fresh, "SELECT feed_enable('t')", "ALTER TABLE t RENAME n TO m", "SELECT feed_enable('t')")
    assert value(other, "SELECT count(*) FROM feed_read('now', null::t)") == 60
    assert value(other, READ[0]) == 60
    assert value(other, "SELECT exact_count('t')") == 60
