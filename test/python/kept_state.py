"""Feeds and a count in an intermediate state, which must continue after an update or pg_upgrade."""

from typing import Any

from inorder.connection.database import Connection

from waiting import wait_for
from world.sql import value

# Tables whose rows an update must not change.
STATE_TABLES = ("feed_table", "feed", "feed_state", "worker_batch", "share_worker", "counted_table", "count_part")
MADE = """
CREATE TABLE events (
    id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    stream text NOT NULL, n int
);
SELECT feed_create(name, 'events') FROM unnest(ARRAY['read', 'pending', 'untouched']) AS name;
SELECT feed_create('ordered', 'events', order_column => 'seq');
SELECT exact_count_start('events');
"""
WORKERS = """
SELECT feed_create('workers', 'events'),
       feed_create('shares', 'events', partition_by => 'stream', shares => 4);
"""
TAKE = "SELECT number, token FROM feed_take_batch(%s, %s, %s, '1 day', %s)"
FINISH = "SELECT feed_finish_batch(%s, %s, %s)"
ROWS = "SELECT n FROM feed_batch_rows(%s, %s, null::events) ORDER BY seq"


def wait_until_alone(connection: Connection) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    wait_for(lambda: value(connection, query) == 0)


def alike(value: Any, before: Any) -> Any:
    if isinstance(value, list) and isinstance(before, list):
        return [alike(element, other) for element, other in zip(value, before, strict=True)]
    if isinstance(value, dict) and isinstance(before, dict):
        return {name: old if name == "format" else alike(value[name], old) for name, old in before.items()}
    return value


class Kept:
    """A table with all kinds of feeds.

    Some rows of the table have been read. Other rows are in batches of a sink or a worker.
    """

    def __init__(self, connection: Connection) -> None:
        self.written = 0
        self.delivered: dict[str, list[int]] = {"read": [], "pending": [], "untouched": [], "ordered": []}
        connection.execute(MADE.encode())
        self.insert(connection, 6)
        self.read(connection, "read", 2)
        self.read(connection, "ordered", 4)
        self.pending, _ = self.take(connection, "pending", 2, worker="w")
        self.pending_rows = self.rows(connection, "pending", self.pending)
        self.take_batches(connection)
        connection.execute("SELECT exact_count_fold('events')")
        self.insert(connection, 2)

    def take_batches(self, connection: Connection) -> None:
        connection.execute(WORKERS.encode())
        self.delivered |= {"workers": [], "shares": []}
        self.taken = {feed: self.take(connection, feed, 2) for feed in ("workers", "shares")}
        self.dead, token = self.take(connection, "workers", 1, worker="other", tries=1)
        failed = "SELECT feed_fail_batch('workers', %s, %s, 'bad')"
        assert value(connection, failed, self.dead, token) is True

    def insert(self, connection: Connection, rows: int) -> None:
        for _ in range(rows):
            self.written += 1
            parameters = ["abc"[self.written % 3], self.written]
            connection.execute("INSERT INTO events (stream, n) VALUES (%s, %s)", parameters)

    def read(self, connection: Connection, feed: str, rows: int | None = None) -> int:
        fetched = connection.execute("SELECT n FROM feed_read(%s, null::events, %s)", [feed, rows]).fetchall()
        self.delivered[feed] += [int(str(n)) for (n,) in fetched]
        return len(fetched)

    @staticmethod
    def take(
        connection: Connection, feed: str, rows: int | None, worker: str = "one", tries: int | None = None
    ) -> tuple[int, int]:
        (row,) = connection.execute(TAKE.encode(), [feed, worker, rows, tries]).fetchall()
        return int(str(row[0] or 0)), int(str(row[1] or 0))

    @staticmethod
    def rows(connection: Connection, feed: str, batch: int) -> list[int]:
        return [int(str(n)) for (n,) in connection.execute(ROWS.encode(), [feed, batch])]

    def finish(self, connection: Connection, feed: str, batch: int, token: int) -> None:
        self.delivered[feed] += self.rows(connection, feed, batch)
        assert value(connection, FINISH, feed, batch, token) is True

    @staticmethod
    def state(connection: Connection, like: dict[str, list[Any]] | None = None) -> dict[str, list[Any]]:
        """Return the rows of the state. Columns that were added after the earlier state ``like`` are left out."""
        by_table: dict[str, list[Any]] = {}
        for name in STATE_TABLES:
            query = f"SELECT to_jsonb(t) FROM inorder_internal.{name} AS t ORDER BY t::text"
            by_table[name] = [row for (row,) in connection.execute(query.encode())]
            if like:
                by_table[name] = [alike(row, before) for row, before in zip(by_table[name], like[name], strict=True)]
        return by_table

    def goes_on(self, connection: Connection) -> None:
        self.insert(connection, 1)
        wait_until_alone(connection)
        pending, token = self.take(connection, "pending", None, worker="w")
        assert pending == self.pending
        assert self.rows(connection, "pending", pending) == self.pending_rows
        self.finish(connection, "pending", pending, token)
        self.finish(connection, "pending", *self.take(connection, "pending", None, worker="w"))
        for feed in ("read", "untouched", "ordered"):
            while self.read(connection, feed):
                pass
        self.workers_go_on(connection)
        everything = list(range(1, self.written + 1))
        assert {feed: sorted(rows) for feed, rows in self.delivered.items()} == dict.fromkeys(
            self.delivered, everything
        )
        assert self.delivered["ordered"] == everything
        assert value(connection, "SELECT exact_count('events')") == self.written

    def workers_go_on(self, connection: Connection) -> None:
        dead = "SELECT number, reason FROM feed_batches WHERE name = 'workers' AND dead_since IS NOT NULL"
        assert connection.execute(dead.encode()).fetchall() == [(self.dead, "bad")]
        connection.execute("SELECT feed_retry_batch('workers', %s)", [self.dead])
        for feed, (batch, token) in self.taken.items():
            self.finish(connection, feed, batch, token)
            while (more := self.take(connection, feed, None)) != (0, 0):
                self.finish(connection, feed, *more)
