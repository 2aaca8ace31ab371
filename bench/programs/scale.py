"""What reads cost as a table grows: counters and CPU time, on a throw-away server. Run by script/scale."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inorder.connection.database import Connection, connect
from inorder.installations import find_installation
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster
from inorder.units import parse_count

SETTINGS = {"fsync": "off", "shared_buffers": "1GB", "max_wal_size": "8GB", "max_locks_per_transaction": "256"}
SETTINGS["max_parallel_workers_per_gather"] = "0"  # the CPU time is that of one process
TRANSACTION = 100_000  # rows, of those that are there at first
CALLS = 15

READ = "SELECT count(*) FROM feed_read('f', null::events, {})"
READ_LAST = "SELECT count(*) FROM feed_read('last', null::events)"
FEEDS = "SELECT feed_create('f', 'events')", "SELECT feed_create('last', 'events')", "SELECT feed_seek('last', 'now')"


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/scale")
    parser.add_argument("--rows", default="1M,10M", help="sizes of the table")
    parser.add_argument("--partitions", default="10,100,1000", help="numbers of partitions, with a million rows in all")
    options = parser.parse_args()
    with Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
            for size in options.rows.split(","):
                rows = parse_count(size, "--rows", 1000, 2**40)
                show(connection, f"{rows:,} rows", lambda rows=rows: fill(connection, rows))  # type: ignore[misc]
            for size in options.partitions.split(","):
                parts = parse_count(size, "--partitions", 1, 10_000)
                show(
                    connection,
                    f"{parts:,} partitions",
                    lambda parts=parts: fill(connection, 1_000_000, parts),  # type: ignore[misc]
                )


def show(connection: Connection, what: str, make: Callable[[], None]) -> None:
    begin = time.monotonic()
    make()
    print(f"\n{what} ({time.monotonic() - begin:.0f} s to fill)")
    print(f"{'':44}{'CPU ms':>10}{'pages':>10}")
    for name, milliseconds, pages in measured(connection):
        print(f"{name:44}{milliseconds:10.3f}{pages:10,.0f}", flush=True)
    connection.execute("SELECT feed_drop(name) FROM feeds")
    connection.execute("SELECT exact_count_stop('events')")
    connection.execute("DROP TABLE events")


def fill(connection: Connection, rows: int, partitions: int = 0) -> None:
    """A table of so many rows, 76 bytes each with the key; then its index and its feeds."""
    columns = "(id uuid NOT NULL DEFAULT uuid_xact_nextval(), part int NOT NULL DEFAULT 0, body text NOT NULL)"
    connection.execute(f"CREATE TABLE events {columns} {'PARTITION BY LIST (part)' if partitions else ''}".encode())
    for part in range(partitions):
        connection.execute(f"CREATE TABLE events_{part} PARTITION OF events FOR VALUES IN ({part})".encode())
    for first in range(0, rows, TRANSACTION):
        connection.execute(
            "INSERT INTO events (part, body) SELECT n %% %s, 'row ' || n FROM generate_series(%s::bigint, %s) AS n",
            [max(partitions, 1), first, min(first + TRANSACTION, rows) - 1],
        )
    connection.execute(f"ALTER TABLE events ADD PRIMARY KEY (id{', part' if partitions else ''})".encode())
    connection.execute("VACUUM ANALYZE events")
    for statement in FEEDS:
        connection.execute(statement.encode())
    connection.execute("SELECT exact_count_start('events')")


def insert(connection: Connection, transactions: int, rows: int) -> None:
    for _ in range(transactions):
        connection.execute("INSERT INTO events (body) SELECT 'new' FROM generate_series(1, %s)", [rows])


def measured(connection: Connection) -> Iterator[tuple[str, float, float]]:
    """What is done: its name, CPU time of a call, and pages that it accesses."""
    yield "read, nothing new", *cost(connection, READ_LAST)
    yield "read 100 new rows of one transaction", *cost(connection, READ_LAST, lambda: insert(connection, 1, 100))
    yield "read 10,000 new rows of 100 transactions", *cost(connection, READ_LAST, lambda: insert(connection, 100, 100))
    yield "read 10,000 rows at the beginning", *cost(connection, READ.format(10_000))
    with opened(connection):
        yield "exact_count, 1,000 rows since the fold", *cost(connection, "SELECT exact_count('events')")
    yield "count(*)", *cost(connection, "SELECT count(*) FROM events", calls=1)


@contextmanager
def opened(connection: Connection) -> Iterator[None]:
    """A count that was folded, and rows since."""
    connection.execute("SELECT exact_count_fold('events')")
    insert(connection, 10, 100)
    yield


def cost(
    connection: Connection, statement: str, before: Callable[[], None] = lambda: None, calls: int = CALLS
) -> tuple[float, float]:
    """Medians of some calls, after one more: milliseconds of CPU time, and pages found in memory or read."""
    process = ServerProcess(connection)
    times, pages = [], []
    for number in range(-1, calls):
        before()
        took = process.timed(lambda: connection.execute(statement.encode()).fetchall())["cpu_seconds"]
        before()
        row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()).fetchone()
        assert row is not None
        plan = (row[0] if isinstance(row[0], list) else json.loads(str(row[0])))[0]["Plan"]
        if number >= 0:
            times.append(took * 1000)
            pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return statistics.median(times), statistics.median(pages)


if __name__ == "__main__":
    main()
