"""Measure how the pages accessed and the CPU time of reads change as a table grows. Run by script/scale.

The program also computes the sizes of a table and its index, even for tables that are too large to create.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.analysis.model import PAGE, leaf_capacity, leaf_fill, upper_levels
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster
from inorder.units import parse_count

from prepared import print_prepared

SETTINGS = {"fsync": "off", "shared_buffers": "1GB", "max_wal_size": "8GB", "max_locks_per_transaction": "256"}
SETTINGS["max_parallel_workers_per_gather"] = "0"  # CPU time is measured for one process only
TRANSACTION = 100_000  # rows per transaction while the table is filled
CALLS = 15

COMPUTED = "1M", "10M", "100M", "1G", "10G"
UUID = 16  # bytes per key
TALL_ROWS, USUAL_ROWS = 3_000_000, 400_000

READ = "SELECT count(*) FROM feed_read('f', null::events, {})"
READ_LAST = "SELECT count(*) FROM feed_read('last', null::events)"
FEEDS = (
    "VACUUM ANALYZE events", "SELECT feed_create('f', 'events'), feed_create('last', 'events')",
    "SELECT feed_seek('last', 'now'), exact_count_start('events')",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/scale")
    parser.add_argument("--rows", help="sizes of the table (default: 1M,10M; with --prepared 20M)")
    parser.add_argument("--partitions", default="10,100,1000", help="numbers of partitions, with a million rows in all")
    parser.add_argument("--tall", action="store_true", help="also measure an index as high as that of a billion rows")
    parser.add_argument(
        "--prepared", action="store_true", help="measure existing tables instead: prepare, first pass, stream"
    )
    parser.add_argument("--seconds", default="600", help="duration of the stream in seconds")
    parser.add_argument(
        "--raw", type=Path, metavar="FILE.json.gz", help="with --prepared: write each sample to this file"
    )
    parser.add_argument(
        "--show", type=Path, metavar="FILE.json.gz", help="with --prepared: print the table of the samples in this file"
    )
    options = parser.parse_args()
    if options.prepared:
        seconds = parse_count(options.seconds, "--seconds", 1, 10**6)
        print_prepared(parse_count(options.rows or "20M", "--rows", 1000, 2**40), seconds, options.raw, options.show)
        return
    show_computed()
    with Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder; CREATE EXTENSION pgstattuple")
            for size in (options.rows or "1M,10M").split(","):
                rows = parse_count(size, "--rows", 1000, 2**40)
                show(connection, f"{rows:,} rows", partial(fill, connection, rows))
            if options.tall:
                show(connection, f"{TALL_ROWS:,} rows, a high index", partial(fill_tall, connection))
            for size in options.partitions.split(","):
                parts = parse_count(size, "--partitions", 1, 10_000)
                show(connection, f"{parts:,} partitions", partial(fill, connection, 1_000_000, parts))


def show_computed() -> None:
    """Print the computed sizes, in pages, of tables like those that fill() creates."""
    print(f"{'computed':14}{'table':>14}{'index':>14}{'levels':>8}  pages")
    for size in COMPUTED:
        rows = parse_count(size, "--rows", 1000, 2**40)
        leaves = rows / (leaf_fill("xact") * leaf_capacity("xact"))
        upper = [*upper_levels("xact", leaves)]
        index = 1 + math.fsum(map(math.ceil, (leaves, *upper)))
        print(f"{rows:<14,}{table_pages(rows, UUID):14,}{index:14,.0f}{1 + len(upper):8}")


def table_pages(rows: int, key: int) -> int:
    """Return the computed size of a table with this number of rows, in pages.

    A row has a header of 24 bytes, the key, an int, a text with 'row ' and the row number, and a line pointer of 4
    bytes.

    >>> table_pages(10_000_000, UUID)
    73530
    """
    pages, first = 0.0, 0
    for digits in range(1, len(str(rows)) + 1):
        last = min(rows, 10**digits)
        row = 24 + key + 4 + 1 + len("row ") + digits
        pages += (last - first) / ((PAGE - 24) // (-(-row // 8) * 8 + 4))
        first = last
    return math.ceil(pages)


def show(connection: Connection, title: str, make: Callable[[], None]) -> None:
    begin = time.monotonic()
    make()
    print(f"\n{title} ({time.monotonic() - begin:.0f} s to fill)")
    print(f"{'':44}{'CPU ms':>10}{'pages':>10}")
    for name, milliseconds, pages in measured(connection):
        took = "" if math.isnan(milliseconds) else f"{milliseconds:.3f}"
        print(f"{name:44}{took:>10}{pages:10,.0f}", flush=True)
    execute(connection, "SELECT feed_drop(name) FROM feeds", "SELECT exact_count_stop('events')", "DROP TABLE events")


def fill(connection: Connection, rows: int, partitions: int = 0) -> None:
    """Create a table with this number of rows, then its primary key and its feeds."""
    columns = "(id uuid NOT NULL DEFAULT uuid_xact_nextval(), part int NOT NULL DEFAULT 0, body text NOT NULL)"
    execute(
        connection,
        f"CREATE TABLE events {columns} {'PARTITION BY LIST (part)' if partitions else ''}",
        *(f"CREATE TABLE events_{n} PARTITION OF events FOR VALUES IN ({n})" for n in range(partitions)),
    )
    load(connection, 0, rows, partitions)
    execute(connection, f"ALTER TABLE events ADD PRIMARY KEY (id{', part' if partitions else ''})", *FEEDS)


def fill_tall(connection: Connection) -> None:
    """Create a table whose index has as many levels as that of a billion rows.

    Few rows are enough, because most leaf pages are nearly empty.
    """
    connection.execute("CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), part int, body text NOT NULL)")
    load(connection, 0, USUAL_ROWS)
    execute(connection, "ALTER TABLE events ADD PRIMARY KEY (id)", "ALTER INDEX events_pkey SET (fillfactor = 10)")
    load(connection, USUAL_ROWS, TALL_ROWS)
    execute(connection, "ALTER INDEX events_pkey SET (fillfactor = 90)", *FEEDS)


def load(connection: Connection, begin: int, end: int, partitions: int = 0) -> None:
    for first in range(begin, end, TRANSACTION):
        connection.execute(
            "INSERT INTO events (part, body) SELECT n %% %s, 'row ' || n FROM generate_series(%s::bigint, %s) AS n",
            [max(partitions, 1), first, min(first + TRANSACTION, end) - 1],
        )


def insert(connection: Connection, transactions: int, rows: int) -> None:
    for _ in range(transactions):
        connection.execute("INSERT INTO events (body) SELECT 'new' FROM generate_series(1, %s)", [rows])


def measured(connection: Connection) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each operation, its CPU time in ms and the pages accessed. Sizes have no CPU time."""
    for name, pages in sizes(connection):
        yield name, math.nan, pages
    wrote_elsewhere = partial(execute, connection, "SELECT pg_current_xact_id()")
    yield "read, nothing new", *cost(connection, READ_LAST, wrote_elsewhere)
    yield "read 100 new rows of one transaction", *cost(connection, READ_LAST, lambda: insert(connection, 1, 100))
    yield "read 10,000 new rows of 100 transactions", *cost(connection, READ_LAST, lambda: insert(connection, 100, 100))
    yield "read 10,000 rows at the beginning", *cost(connection, READ.format(10_000))
    with opened(connection):
        yield "exact_count, 1,000 rows since the fold", *cost(connection, "SELECT exact_count('events')")
    state = number(connection, "max(pg_column_size(s)) FROM inorder_internal.feed_state s")
    yield "state of a feed, bytes", math.nan, state
    yield "count(*)", *cost(connection, "SELECT count(*) FROM events", calls=1)


def sizes(connection: Connection) -> Iterator[tuple[str, float]]:
    if number(connection, "count(*) FROM pg_class WHERE oid = 'events'::regclass AND relkind = 'p'"):
        return
    yield "pages of the table", number(connection, f"pg_relation_size('events') / {PAGE}")
    yield "pages of the index", number(connection, f"pg_relation_size('events_pkey') / {PAGE}")
    of_index = "amname = 'btree' FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relname = 'events_pkey'"
    if number(connection, of_index):
        yield "levels of the index", number(connection, "tree_level + 1 FROM pgstatindex('events_pkey')")


def number(connection: Connection, expression: str) -> float:
    return float(one_row(connection, f"SELECT {expression}")[0])


@contextmanager
def opened(connection: Connection) -> Iterator[None]:
    """Fold the count, and insert rows that are not folded."""
    connection.execute("SELECT exact_count_fold('events')")
    insert(connection, 10, 100)
    yield


def cost(
    connection: Connection, statement: str, before: Callable[[], None] = lambda: None, calls: int = CALLS
) -> tuple[float, float]:
    """Return the median CPU time in ms and the median number of pages accessed, after a warm-up call."""
    process = ServerProcess(connection)
    times, pages = [], []
    for number in range(-1, calls):
        before()
        took = process.timed(lambda: connection.execute(statement.encode()).fetchall())["cpu_seconds"]
        before()
        (explained,) = one_row(connection, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
        plan = explained[0]["Plan"]
        if number >= 0:
            times.append(took * 1000)
            pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return statistics.median(times), statistics.median(pages)


if __name__ == "__main__":
    main()
