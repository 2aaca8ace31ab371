"""An order column whose default draws from another sequence: the order may suffer, but each row comes once."""

import pytest
from inorder.connection.database import Connection

from conftest import scalar
from ground import GROUND, run, state

pytestmark = [pytest.mark.server, pytest.mark.editions]

INSERT = "INSERT INTO t (n) SELECT generate_series({}, {})"


def batch(connection: Connection) -> list[int]:
    number = scalar(connection, "SELECT feed_next_batch('z', 3)")
    if number is None:
        return []
    found = connection.execute(f"SELECT n FROM feed_batch_rows('z', {number}, null::t)".encode()).fetchall()
    run(connection, f"SELECT feed_finish_batch('z', {number})")
    return [int(str(row[0])) for row in found]


@pytest.mark.parametrize("start", ["-100", "1", "1000"], ids=["below", "equal", "above"])
def test_no_row_is_lost(fresh: Connection, start: str) -> None:
    run(fresh, "CREATE SEQUENCE s", "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, "
        "seq bigint NOT NULL DEFAULT nextval('s'))", "CREATE INDEX ON t (seq)",
        "SELECT feed_create('z', 't', order_column => 'seq')", INSERT.format(1, 10))  # fmt: skip
    assert batch(fresh) == [1, 2, 3]
    run(fresh, f"CREATE SEQUENCE other MINVALUE -100 START {start}",
        "ALTER TABLE t ALTER seq SET DEFAULT nextval('other')", INSERT.format(11, 20))  # fmt: skip
    assert scalar(fresh, "SELECT min(seq) FROM t WHERE n > 10") == int(start)
    # A set is frozen: rows that are committed later come after it, whatever their values.
    assert batch(fresh) + batch(fresh) + batch(fresh) == [4, 5, 6, 7, 8, 9, 10]
    run(fresh, "ALTER TABLE t ALTER seq SET DEFAULT nextval('s')", INSERT.format(21, 30))
    found: list[int] = []
    while rows := batch(fresh):
        found += rows
    assert sorted(found) == list(range(11, 31))
    # The sequence of now must give values in the order in which they are drawn.
    run(fresh, "ALTER SEQUENCE other CACHE 10", INSERT.format(31, 31))
    assert batch(fresh) == [31]
    run(fresh, "ALTER TABLE t ALTER seq SET DEFAULT nextval('other')", INSERT.format(32, 32))
    assert state(fresh, "SELECT feed_next_batch('z')") == GROUND


def test_a_sequence_that_another_session_changes(fresh: Connection, other: Connection) -> None:
    """What was proved of the column is kept, and its sequence is not locked."""
    run(fresh, "CREATE SEQUENCE s", "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, "
        "seq bigint NOT NULL DEFAULT nextval('s'))", "CREATE INDEX ON t (seq)",
        "SELECT feed_create('z', 't', order_column => 'seq')", INSERT.format(1, 10))  # fmt: skip
    read = "SELECT n FROM feed_read('z', null::t, 2)"
    run(fresh, read, "BEGIN", read, read)
    run(other, "ALTER SEQUENCE s CACHE 10")
    assert state(fresh, read) == GROUND
    run(other, "ALTER SEQUENCE s CACHE 1")
    run(fresh, "ROLLBACK")
    assert scalar(fresh, read.replace("n FROM", "count(*) FROM")) == 2
