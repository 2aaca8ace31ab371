"""Long Fork: a primary and its synchronous standby show two commits in different orders.

Positions that are sets of transactions allow for such orders, but a single last value does not. A commit that waits for
a standby is visible on the standby before it is visible on the primary. In this test a commit also waits for a standby
that does not exist, and replay on the existing standby is paused between the two commits. Each server then shows one of
them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS
from ground import numbers
from waiting import wait_for
from world.server import Standby, with_standby
from world.sql import value

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def pair(server: Installation) -> Iterator[tuple[Cluster, Standby]]:
    with with_standby(server, SETTINGS | {"track_commit_timestamp": "on"}, "CREATE EXTENSION inorder") as pair:
        yield pair


def by_set(connection: Connection, position: str) -> tuple[list[int], str]:
    batch = str(value(connection, "SELECT reader_next_batch('events', %s::text::feed_position)::text", position))
    query = "SELECT n FROM reader_batch_rows('events', %s::text::feed_batch, null::events)"
    rows = [int(str(n)) for (n,) in connection.execute(query.encode(), [batch])]
    advance = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
    return rows, str(value(connection, advance, position, batch))


def by_scalar(connection: Connection, mark: str, last: str) -> tuple[list[int], str]:
    query = f"SELECT n, {mark} FROM events WHERE {mark} > %s ORDER BY {mark}"
    rows = connection.execute(query.encode(), [last]).fetchall()
    return [int(str(n)) for n, _ in rows], str(rows[-1][1]) if rows else last


class Reader:
    def __init__(self, mark: str, start: str) -> None:
        self.mark, self.position = mark, start
        self.rows: list[int] = []

    def poll(self, connection: Connection) -> list[int]:
        rows, self.position = (
            by_scalar(connection, self.mark, self.position) if self.mark else by_set(connection, self.position)
        )
        self.rows += rows
        return rows


@contextmanager
def fork(primary: Connection, standby: Connection, waits: Connection, passes: Connection) -> Iterator[None]:
    with ThreadPoolExecutor(1) as pool:
        try:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '2 (walreceiver, missing)'")
            primary.execute("SELECT pg_reload_conf()")
            wait_for(lambda: value(waits, "SHOW synchronous_standby_names") != "")
            # Wait until all server processes have the new setting. Commits wait only once the checkpointer has read it.
            # A new session does not wait.
            with connect(primary.info.dsn) as new:
                new.execute("CHECKPOINT")
            for session in (waits, passes):
                session.execute("BEGIN; SET LOCAL synchronous_commit = on")
                session.execute("INSERT INTO events DEFAULT VALUES")
            passes.execute("SET LOCAL synchronous_commit = local")
            committed = pool.submit(waits.execute, "COMMIT")
            wait_for(lambda: value(standby, "SELECT count(*) FROM events") == 1)
            standby.execute("SELECT pg_wal_replay_pause()")
            wait_for(lambda: value(standby, "SELECT pg_get_wal_replay_pause_state()") == "paused")
            passes.execute("COMMIT")
            assert not committed.done()
            yield
        finally:
            standby.execute("SELECT pg_wal_replay_resume()")
            primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
            primary.execute("SELECT pg_reload_conf()")
        committed.result()


@pytest.mark.parametrize("first", ["primary", "standby"])
def test_sets_survive_a_long_fork_and_scalars_do_not(pair: tuple[Cluster, Standby], first: str) -> None:
    with (
        connect(pair[0].dsn) as primary, connect(pair[1].dsn) as standby, connect(pair[0].dsn) as waits,
        connect(pair[0].dsn) as passes,
    ):  # fmt: skip
        primary.execute("DROP TABLE IF EXISTS events")
        primary.execute("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigserial)")
        primary.execute("SELECT feed_enable('events')")
        pair[1].catch_up()
        beginning = str(value(primary, "SELECT reader_start('events')::text"))
        readers = {
            "set": Reader("", beginning), "id": Reader("n", "0"),
            "commit time": Reader("pg_xact_commit_timestamp(xmin)", "-infinity"),
        }  # fmt: skip
        nodes = {"primary": primary, "standby": standby}
        second = "standby" if first == "primary" else "primary"
        with fork(primary, standby, waits, passes):
            forked = {name: numbers(node, "SELECT n FROM events") for name, node in nodes.items()}
            (row,), (other,) = forked["standby"], forked["primary"]
            assert row < other

            polled = {name: reader.poll(nodes[first]) for name, reader in readers.items()}
            assert polled == dict.fromkeys(readers, forked[first])
            assert readers["set"].poll(nodes[second]) == forked[second]
            for name in ("id", "commit time"):
                assert readers[name].poll(nodes[second]) == ([] if first == "primary" else forked[second])
        pair[1].catch_up()
        for node in (primary, standby) * 2:
            assert [reader.poll(node) for reader in readers.values()] == [[], [], []]
        assert sorted(readers["set"].rows) == [row, other]
        lost = [other] if first == "primary" else [row, other]
        assert readers["id"].rows == readers["commit time"].rows == lost
