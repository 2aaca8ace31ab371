"""Two columns swap names after a snapshot is taken.

Queries look columns up by their new names, but the snapshot still shows the old names in the catalog.
"""

import pytest
from inorder.connection.database import Connection

from ground import state
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

TABLE = (
    "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), a bigint NOT NULL, b bigint NOT NULL)",
    "CREATE INDEX ON t (a)", "CREATE INDEX ON t (b)",
)  # fmt: skip
SWAP = (
    "BEGIN", "ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME c TO b", "COMMIT"
)  # fmt: skip
READS = {
    "order": ("feed_create('f', 't', order_column => 'a')", "SELECT feed_apply('f', 'SELECT FROM batch', 2)"),
    "order, by a reader": ("reader_start('t', order_column => 'a')", "SELECT reader_next_batch('t', p, 2) FROM kept"),
    "shares": ("feed_create('f', 't', partition_by => 'a', shares => 2)", "SELECT * FROM feed_take_batch('f', 'w', 2)"),
}
CHANGED = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')",
    "SELECT changes_enable('t')", "SELECT feed_create('f', 't_changes')",
)  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_reads_fail_while_columns_have_swapped_names(fresh: Connection, other: Connection, read: str) -> None:
    create, call = READS[read]
    run(fresh, *TABLE, "SELECT feed_enable('t')")
    run(fresh, f"CREATE TABLE kept AS SELECT {create} AS p" if "reader" in create else f"SELECT {create}")
    run(fresh, "INSERT INTO t (a, b) SELECT n, -n FROM generate_series(1, 4) AS n")
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, *SWAP)
    assert state(other, call) == "55000"
    run(other, "ROLLBACK")
    run(fresh, *SWAP)
    assert state(other, call) == ""


def test_changes_have_the_columns_of_their_snapshot(fresh: Connection, other: Connection) -> None:
    call = (
        "SELECT changed FROM changes_batch_rows('f', (feed_take_batch('f', 'w')).number, null::t) WHERE op = 'upsert'"
    )
    run(fresh, *CHANGED)
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, *SWAP)
    assert state(other, call) == "40001"
    run(other, "ROLLBACK", "SELECT changes_resync('t')")
    assert state(other, call) == ""
