"""Rows that left the database survive a crash unchanged, even if they were updated after the batch was taken.

Writers commit asynchronously, and no other session flushes their commits.
"""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS, install_edition
from copies import Copy
from ground import FINISH
from world.server import UNFLUSHED, kill_all
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

LAZY = SETTINGS | UNFLUSHED
TABLES = (
    "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
    "SELECT feed_create('f', 'events')",
    "CREATE TABLE t (id int PRIMARY KEY, note text)",
    "SELECT changes_enable('t')",
    "SELECT feed_create('copy', 't_changes')",
)
WRITES = "INSERT INTO events (n) VALUES (0)", "INSERT INTO t VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET note = 'b'"
UPDATES = "UPDATE events SET n = n + 1", "UPDATE t SET note = note || '!'"
KEPT = "SELECT b::text FROM reader_next_batch('{log}', reader_start('{log}')) AS b"
BATCH, CHANGES = "'{batch}'::text::feed_batch", "'{changes}'::text::feed_batch"
# Calls through which rows leave the database after another call has determined the batch.
HANDED_OUT = {
    "feed_batch_rows": "SELECT * FROM feed_batch_rows('f', {number}, null::events)",
    "reader_batch_rows": f"SELECT * FROM reader_batch_rows('events', {BATCH}, null::events)",
    "reader_batch_query": f"SELECT reader_batch_query('events', {BATCH})",
    "changes_batch_rows": "SELECT * FROM changes_batch_rows('copy', {change}, null::t)",
    "reader_changes_query": f"SELECT reader_changes_query('t', reader_start('t_changes'), {CHANGES})",
}
ONE_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"


@pytest.fixture
def lazy(server: Installation, edition_name: str) -> Iterator[Cluster]:
    with Cluster(server) as running:
        running.start(LAZY)
        install_edition(edition_name, server, running, "postgres")
        with connect(running.dsn) as connection:
            run(connection, *TABLES)
        yield running


@pytest.fixture
def writer(lazy: Cluster) -> Iterator[Connection]:
    with connect(lazy.dsn) as connection:
        connection.execute("SET synchronous_commit = off")
        yield connection


def test_the_wal_of_rows_that_were_read_is_on_disk(lazy: Cluster, writer: Connection) -> None:
    lost = []
    with connect(lazy.dsn) as reader:
        run(writer, *WRITES)
        positions: dict[str, object] = {
            "batch": value(reader, KEPT.format(log="events")), "changes": value(reader, KEPT.format(log="t_changes")),
            "number": value(reader, "SELECT (feed_take_batch('f', 'w')).number"),
            "change": value(reader, "SELECT (feed_take_batch('copy', 'w')).number"),
        }  # fmt: skip
        reader.execute("SET synchronous_commit = off")
        for name, call in HANDED_OUT.items():
            for begin in (ONE_SNAPSHOT,) if name.endswith("query") else ("BEGIN", ONE_SNAPSHOT):
                run(writer, *UPDATES)
                end = value(writer, "SELECT pg_current_wal_insert_lsn()")
                run(reader, begin, call.format(**positions), "COMMIT")
                # The header of a page that is not written yet takes at most 40 bytes.
                if not value(reader, "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn - 40", end):
                    lost.append((name, begin))
    assert lost == []


def test_the_commit_of_a_read_is_on_disk(lazy: Cluster, writer: Connection, edition_name: str) -> None:
    """A committed transaction that moved a feed is never lost, because its rows may have left the database."""
    # The SQL edition has neither feed_read nor changes_read.
    reads = ("feed_read('f', null::events)", "changes_read('copy', null::t)") if edition_name == "c" else ()
    lost = []
    with connect(lazy.dsn) as reader:
        reader.execute("SET synchronous_commit = off")
        for call in (*reads, "feed_take_batch('f', 'w')"):
            run(writer, *WRITES)
            run(reader, f"SELECT * FROM {call}")
            end = value(writer, "SELECT pg_current_wal_insert_lsn()")
            if not value(reader, "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn - 40", end):
                lost.append(call)
    assert lost == []


def test_a_crash_between_batch_and_rows_leaves_the_copy_right(lazy: Cluster, writer: Connection) -> None:
    """Without a flush, the copy would have rows that the crash undid.

    Once the batch is finished, nothing would repair it.
    """
    copy = Copy()
    with connect(lazy.dsn) as reader:
        run(reader, "INSERT INTO t VALUES (1, 'first')")
        copy.follow(reader)
        run(reader, "UPDATE t SET note = 'second'")
        number = value(reader, "SELECT (feed_take_batch('copy', 'w')).number")
        run(writer, "UPDATE t SET note = 'third'")
        copy.apply(copy.changes(reader, number), by_version=True)
    kill_all(lazy)
    lazy.start(LAZY)
    with connect(lazy.dsn) as reader:
        reader.execute(FINISH, ["copy", number])
        for _ in range(2):
            copy.follow(reader)
        assert copy.rows == copy.table_now(reader)
