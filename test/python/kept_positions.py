"""Positions that are kept by their readers: as text and jsonb, in Spark, and in inorder tail.

An updated extension must be able to read these positions.
"""

import json
from pathlib import Path

from inorder.connection.database import Connection
from inorder.lab.server.cluster import Cluster
from inorder.spark.driver import Driver
from inorder.spark.offsets import Offset
from inorder.spark.options import parsed

from tail_runs import Tail, numbers
from world.sql import value

NEXT = "SELECT reader_next_batch('events', %s::text::feed_position, 2)::text"
ADVANCE = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
READ = "SELECT n FROM reader_batch_rows('events', %s::text::feed_batch, null::events)"
TAIL = ("events", "--position", "p", "--order-by", "seq", "--batch-rows", "2")
# A command that appends each batch to a file, and fails when the file has three rows.
FAILING = ("--exec", "cat >> got; test $(wc -l < got) -lt 3")


class Reader:
    """A reader that keeps its position and its next batch, whose rows have not been read, in jsonb columns."""

    def __init__(self, connection: Connection, order_column: str | None) -> None:
        self.delivered: list[int] = []
        self.position = str(value(connection, "SELECT reader_start('events', 'beginning', %s)::text", order_column))
        self.batch = str(value(connection, NEXT, self.position))
        self.step(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS kept (position jsonb, batch jsonb)")
        connection.execute("INSERT INTO kept VALUES (%s::jsonb, %s::jsonb)", [self.position, self.batch])

    def step(self, connection: Connection) -> bool:
        rows = connection.execute(READ.encode(), [self.batch]).fetchall()
        self.delivered += [int(str(n)) for (n,) in rows]
        self.position = str(value(connection, ADVANCE, self.position, self.batch))
        self.batch = str(value(connection, NEXT, self.position))
        return bool(rows)

    def goes_on(self, connection: Connection) -> list[int]:
        while self.step(connection):
            pass
        return self.delivered


class KeptPositions:
    def __init__(
        self, connection: Connection, cluster: Cluster, folder: Path, columns: str, user: str = "postgres"
    ) -> None:
        self.dsn = f"{cluster.dsn} dbname={connection.info.dbname} user={user}"
        self.readers = [Reader(connection, order_column) for order_column in (None, "seq")]
        self.ordering = json.loads(self.readers[1].position)["ordering"]
        with self.plan() as plan:
            self.start = plan.start()
            self.offset = plan.next(self.start, 2)
            self.spark = self.rows_between(connection, plan, self.start, self.offset)
        self.tail = Tail(cluster, folder, connection.info.dbname)
        self.tail.environment["PGUSER"] = user
        self.tail(*TAIL, *FAILING, code=1)
        connection.execute(f"CREATE TABLE typed {columns}".encode())
        value = "(position::feed_position).*" if columns.startswith("OF") else "position::feed_position"
        connection.execute(f"INSERT INTO typed SELECT {value} FROM kept".encode())

    def plan(self) -> Driver:
        return Driver(parsed({"dsn": self.dsn, "table": "events"}))

    @staticmethod
    def rows_between(connection: Connection, plan: Driver, start: Offset, end: Offset) -> list[int]:
        batches = [connection.execute(READ.encode(), [task.slice.batch]).fetchall() for task in plan.tasks(start, end)]
        return [int(str(n)) for rows in batches for (n,) in rows]

    def go_on(self, connection: Connection) -> None:
        everything = numbers_of(connection)
        assert self.ordering["frozen"] and not value(connection, "SELECT bool_or(position ? 'noted') FROM kept")
        noted = (
            "SELECT bool_and(position::feed_position::jsonb ? 'noted' AND batch::feed_batch::jsonb ? 'noted') FROM kept"
        )
        assert value(connection, noted) is True
        assert value(connection, "SELECT count(*) FROM typed AS t WHERE to_jsonb(t)::text ~ '\"noted\": null'") == 2
        assert [sorted(reader.goes_on(connection)) for reader in self.readers] == [everything] * 2
        assert self.readers[1].delivered == everything
        with self.plan() as plan:
            end = plan.next(self.offset, None)
            assert sorted(self.spark + self.rows_between(connection, plan, self.offset, end)) == everything
        before = (self.tail.folder / "got").read_text()
        assert numbers(before)[:2] + numbers(self.tail(*TAIL)) == everything
        connection.execute("DROP TABLE kept, typed")


def numbers_of(connection: Connection) -> list[int]:
    return [int(str(n)) for (n,) in connection.execute("SELECT n FROM events ORDER BY n").fetchall()]
