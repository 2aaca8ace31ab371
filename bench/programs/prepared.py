"""Measure inorder on existing tables: `inorder prepare`, the first pass over a table, and polling of a steady stream.

script/scale --prepared runs this program. Reads are measured in CPU time of the server process. Lock waits of writers
are read from the server log. Tables to be compared are measured alternately.
"""

import gzip
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.instruments.timing import ServerProcess
from inorder.lab.server.cluster import Cluster
from inorder.prepare.steps import Request, prepare
from inorder.units import size_text

SETTINGS = {
    "fsync": "off", "shared_buffers": "1GB", "max_wal_size": "8GB", "max_locks_per_transaction": "256",
    "max_parallel_workers_per_gather": "0", "autovacuum": "on", "log_lock_waits": "on", "deadlock_timeout": "1ms",
}  # fmt: skip
BODY = "body text NOT NULL DEFAULT repeat('x', 32)"
TABLES = {  # columns, and the ALTER TABLE action to run once the table is filled
    "random": (f"(id uuid DEFAULT gen_random_uuid(), account int, {BODY})", "ADD PRIMARY KEY (id)"),
    "switched": (f"(id uuid DEFAULT gen_random_uuid(), account int, {BODY})", "ADD PRIMARY KEY (id)"),
    "pair": (f"(account int, number bigint, {BODY})", "ADD PRIMARY KEY (account, number)"),
    "ordered": (f"(id uuid DEFAULT uuid_xact_nextval(), account int, {BODY})", "ADD PRIMARY KEY (id)"),
}
STREAMS = {
    "random": "prepared, keys stay random", "switched": "prepared, keys of `uuid_after_random_nextval()`",
    "ordered": "`uuid` key from the beginning",
}  # fmt: skip
LABELS = {"random": "random `uuid` key", "pair": "key of two columns", "parts": "1,000 partitions"}
VALUES = {
    "random": ("account", "n %% 1000"),
    "switched": ("account", "n %% 1000"),
    "ordered": ("account", "n %% 1000"),
    "parts": ("part", "n %% 1000"),
}
VALUES["pair"] = ("account, number", "n %% 1000, n")
PARTITIONS, PARTITIONED_ROWS = 1000, 1_000_000
LOAD_ROWS = 1_000_000  # rows per transaction while tables are filled
PIECE = 10_000
SECONDS_BEFORE = 10  # time that the writers run before inorder prepare starts
WRITERS, PAUSE = 4, 0.005
STREAM_TABLE_ROWS = 2_000_000  # rows in each table before the stream starts
RATE, STREAM_ROWS = 10_000, 100  # rows per second, and rows per transaction
MINUTES = slice(60), slice(-60, None)  # polls of the first and of the last minute
WAITED = re.compile(r"process (\d+) acquired .* after ([\d.]+) ms")

Samples = dict[str, Any]


class Writer(Thread):
    """A thread that inserts rows into a table, one transaction after another, until ``stop`` is called."""

    def __init__(self, dsn: str, table: str, rows: int, pause: float, first: int) -> None:
        super().__init__(daemon=True)
        self.connection = connect(dsn)
        self.pid = self.connection.info.backend_pid
        columns, values = VALUES[table]
        self.statement = f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(%s::bigint, %s) AS n"
        self.rows, self.pause, self.next = rows, pause, first
        self.took: list[float] = []  # ms
        self.error: Exception | None = None
        self.ended = Event()

    def run(self) -> None:
        due = time.monotonic()
        try:
            while not self.ended.is_set():
                begin = time.perf_counter()
                self.connection.execute(self.statement.encode(), [self.next, self.next + self.rows - 1])
                self.took.append((time.perf_counter() - begin) * 1000)
                self.next += self.rows
                due += self.pause
                self.ended.wait(max(due - time.monotonic(), 0))
        except Exception as error:  # stop() raises it
            self.error = error

    def stop(self) -> None:
        self.ended.set()
        self.join()
        self.connection.close()
        if self.error:
            raise self.error


@contextmanager
def writing(cluster: Cluster, table: str, rows: int = 1, pause: float = PAUSE, writers: int = WRITERS,
            ) -> Iterator[list[Writer]]:  # fmt: skip
    """Run threads that insert into a table during the block, with numbers greater than any in the table."""
    first = 10**12 * (1 + time.time_ns() % 10**5)
    threads = [Writer(cluster.dsn, table, rows, pause, first + number * 10**10) for number in range(writers)]
    with ExitStack() as stack:
        for thread in threads:
            stack.callback(thread.stop)
            thread.start()
        yield threads


def measured(rows: int, seconds: int, keep: Callable[[Samples], None]) -> Samples:
    samples: Samples = {"rows": rows, "seconds": seconds, "prepare": {}, "pieces": {}, "polls": {}, "load": []}
    with Cluster(find_installation()) as cluster:
        cluster.start(SETTINGS)
        samples["server"] = cluster.server.version
        with connect(cluster.dsn) as connection:
            connection.execute("CREATE EXTENSION inorder")
            say(samples, f"filling two tables: {rows:,} rows each")
            fill_all(cluster, ("random", "pair"), rows)
            for table in ("random", "pair"):
                say(samples, f"preparing {table}")
                samples["prepare"][table] = prepared(cluster, connection, table)
                keep(samples)
            for table in ("random", "pair"):
                say(samples, f"first pass over {table}")
                samples["pieces"][table] = pieces(cluster, table, rows)
                keep(samples)
            execute(connection, "DROP TABLE random, pair")
            say(samples, f"filling {len(STREAMS)} tables for the stream")
            fill_all(cluster, STREAMS, min(rows, STREAM_TABLE_ROWS))
            say(samples, f"stream for {seconds} s")
            samples["polls"] = polls(cluster, connection, seconds)
            keep(samples)
            say(samples, f"filling {PARTITIONS} partitions")
            fill_parts(connection)
            say(samples, "preparing parts")
            samples["prepare"]["parts"] = prepared(cluster, connection, "parts")
            say(samples, "done")
            keep(samples)
    return samples


def say(samples: Samples, step: str) -> None:
    """Print the next step, and record the machine's load average."""
    samples["load"].append(os.getloadavg()[0])
    print(f"{time.strftime('%H:%M:%S')} load {samples['load'][-1]:.1f}: {step}", flush=True)


def fill_all(cluster: Cluster, tables: Iterable[str], rows: int) -> None:
    """Fill tables in parallel, each through its own connection."""

    def fill_one(table: str) -> None:
        with connect(cluster.dsn) as connection:
            fill(connection, table, rows)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill_one, tables))


def fill(connection: Connection, table: str, rows: int) -> None:
    columns, key = TABLES[table]
    execute(connection, f"CREATE TABLE {table} {columns}")
    load(connection, table, rows)
    execute(connection, f"ALTER TABLE {table} {key}", f"VACUUM ANALYZE {table}")


def fill_parts(connection: Connection) -> None:
    execute(
        connection,
        f"CREATE TABLE parts (id uuid DEFAULT gen_random_uuid(), part int, {BODY}, PRIMARY KEY (id, part)) "
        "PARTITION BY HASH (part)",
        *(
            f"CREATE TABLE part_{number} PARTITION OF parts FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
            for number in range(PARTITIONS)
        ),
    )
    load(connection, "parts", PARTITIONED_ROWS)
    execute(connection, "ANALYZE parts")


def load(connection: Connection, table: str, rows: int) -> None:
    columns, values = VALUES[table]
    for first in range(0, rows, LOAD_ROWS):
        connection.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(%s::bigint, %s) AS n".encode(),
            [first, min(first + LOAD_ROWS, rows) - 1],
        )


def prepared(cluster: Cluster, connection: Connection, table: str) -> Samples:
    """Prepare a table while writers insert, and return the times of the statements, lock waits and INSERTs."""
    with writing(cluster, table) as writers:
        time.sleep(SECONDS_BEFORE)
        before = [took for writer in writers for took in writer.took]
        for writer in writers:
            writer.took = []
        size = cluster.log.stat().st_size
        lines: list[tuple[str, float]] = []
        request = Request(table, "xact", 0.5, 30, undo=False, drop_column=False, dsn=cluster.dsn)
        prepare(request, lambda text: lines.append((text, time.monotonic())))
        lines.append(("", time.monotonic()))
        time.sleep(3)  # let writers that waited for the last statement finish their INSERT
        pids = {writer.pid for writer in writers}
        meanwhile = [took for writer in writers for took in writer.took]
    statements = [(text, end - begin) for (text, begin), (_, end) in pairwise(lines) if is_statement(text)]
    with cluster.log.open() as log:
        log.seek(size)
        waits = [float(ms) for pid, ms in WAITED.findall(log.read())
                 if int(pid) in pids]  # fmt: skip
    return {
        "statements": statements, "waits_ms": sorted(waits, reverse=True)[:100], "before_ms": longest(before),
        "meanwhile_ms": longest(meanwhile), "index_bytes": index_bytes(connection, table),
        "tries": sum("trying again" in text for text, _ in lines),
    }  # fmt: skip


def is_statement(text: str) -> bool:
    return text.startswith(("ALTER ", "CREATE ", "ANALYZE ", "SELECT ", "DROP "))


def longest(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    return {"count": len(ordered), "median": median(ordered), "of_1000": ordered[-1 - len(ordered) // 1000],
            "longest": ordered[-1]}  # fmt: skip


def index_bytes(connection: Connection, table: str) -> int:
    """Return the size of the index on the transaction number, summed over all partitions."""
    (size,) = one_row(
        connection,
        f"""
        SELECT sum(pg_relation_size(i.indexrelid))::bigint FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE right(c.relname, 7) = '_number' AND (i.indrelid = '{table}'::regclass OR i.indrelid IN (
            SELECT h.inhrelid FROM pg_inherits AS h WHERE h.inhparent = '{table}'::regclass))""",
    )
    return int(size)


def pieces(cluster: Cluster, table: str, rows: int) -> list[tuple[int, float]]:
    """Read a table piece by piece while a writer inserts, and return the rows and the CPU time in ms of each piece.

    The reader reconnects after every 500 pieces.
    """
    reads: list[tuple[int, float]] = []
    with writing(cluster, table, pause=0.05, writers=1):
        with connect(cluster.dsn) as connection:
            connection.execute(f"SELECT feed_create('{table}', '{table}')".encode())
        while sum(count for count, _ in reads) < rows:
            with connect(cluster.dsn) as connection:
                process = ServerProcess(connection)
                for _ in range(500):
                    count, took = read(connection, process, table, PIECE)
                    reads.append((count, took))
                    if sum(count for count, _ in reads) >= rows:
                        break
    with connect(cluster.dsn) as connection:
        reads.append(read(connection, ServerProcess(connection), table, 10**6))
        (expected,) = one_row(connection, f"SELECT count(*) FROM {table}")
    if sum(count for count, _ in reads) != expected:
        raise AssertionError(f"{sum(count for count, _ in reads)} rows of {expected} were read")
    return reads


def read(connection: Connection, process: ServerProcess, feed: str, rows: int) -> tuple[int, float]:
    text = f"SELECT count(*) FROM feed_read('{feed}', null::{feed}, {rows})"
    counts: list[int] = []
    took = process.timed(lambda: counts.append(one_row(connection, text)[0]))["cpu_seconds"]
    return counts[0], took * 1000


def polls(cluster: Cluster, connection: Connection, seconds: int) -> dict[str, list[tuple[int, float]]]:
    """Poll each table once a second while a writer inserts; return the rows and the CPU time in ms of each poll."""
    for table in ("random", "switched"):
        steps = connection.execute(f"SELECT feed_prepare('{table}')".encode()).fetchall()
        execute(connection, *(step for (step,) in steps))
    execute(
        connection, "ALTER TABLE switched ALTER id SET DEFAULT uuid_after_random_nextval()",
        *(f"SELECT feed_create('{name}', '{name}', start => 'now')" for name in STREAMS),
    )  # fmt: skip
    by_table: dict[str, list[tuple[int, float]]] = {name: [] for name in STREAMS}
    with ExitStack() as stack:
        sides = {}
        for table in by_table:
            reader = stack.enter_context(connect(cluster.dsn))
            sides[table] = reader, ServerProcess(reader)
            stack.enter_context(writing(cluster, table, STREAM_ROWS, STREAM_ROWS / RATE, 1))
        due = time.monotonic()
        for second in range(-5, seconds):  # polls before second 0 are a warm-up
            due += 1
            time.sleep(max(due - time.monotonic(), 0))
            for table in sorted(by_table, reverse=second % 2 == 0):
                poll = read(*sides[table], table, 10**6)
                if second >= 0:
                    by_table[table].append(poll)
    return by_table


def table_of(samples: Samples) -> list[str]:
    """Return the tables of docs/results/prepared-18.md, as lines of Markdown."""
    sides = samples["polls"]
    return [
        *headed("`inorder prepare`", "rows", "time", "time of the index", "size of the index",
                "longest wait for a lock", "longest INSERT before", "longest INSERT during prepare"),
        *(row(LABELS[name], *shown_steps(samples["rows"], name, prepared))
          for name, prepared in samples["prepare"].items()),
        *headed("first pass: CPU time per 10,000 rows", "pieces", "first 50", "middle 50", "last 50",
                "last relative to first"),
        *(row(LABELS[name], *shown_pieces(reads)) for name, reads in samples["pieces"].items()),
        *headed("polls, one per second: CPU time per 10,000 rows", "first minute", "last minute",
                "last relative to first", "rows per poll"),
        *(row(label, *shown_polls(sides[name])) for name, label in STREAMS.items()),
        *(row(f"{STREAMS[name]}: ratio to the third row", *shown_ratios(sides[name], sides["ordered"]))
          for name in ("random", "switched")),
    ]  # fmt: skip


def headed(*names: str) -> list[str]:
    return ["", row(*names), row(*["---"] + ["---:"] * (len(names) - 1))]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def shown_steps(rows: int, name: str, prepared: Samples) -> Iterator[str]:
    yield f"{PARTITIONED_ROWS if name == 'parts' else rows:,}"
    yield f"{sum(took for _, took in prepared['statements']):.1f} s"
    yield f"{sum(took for text, took in prepared['statements'] if 'INDEX' in text):.1f} s"
    yield size_text(prepared["index_bytes"])
    yield f"{max(prepared['waits_ms']):.1f} ms" if prepared["waits_ms"] else "under 1 ms"
    yield f"{prepared['before_ms']['longest']:.0f} ms"
    yield f"{prepared['meanwhile_ms']['longest']:.0f} ms"


def shown_pieces(reads: list[tuple[int, float]]) -> Iterator[str]:
    took = [cpu for count, cpu in reads if count == PIECE]
    middle = len(took) // 2
    parts = [median(took[span]) for span in (slice(50), slice(middle - 25, middle + 25), slice(-50, None))]
    yield f"{len(took):,}"
    yield from (f"{value:.1f} ms" for value in parts)
    yield f"{parts[2] / parts[0]:.2f}"


def shown_polls(polls: list[tuple[int, float]]) -> Iterator[str]:
    first, last = (median(of_10_000(polls[minute])) for minute in MINUTES)
    yield from (f"{first:.1f} ms", f"{last:.1f} ms", f"{last / first:.2f}")
    yield f"{median(count for count, _ in polls[MINUTES[1]]):,.0f}"


def of_10_000(polls: list[tuple[int, float]]) -> list[float]:
    """Return milliseconds per 10,000 rows, because polls on a busy machine return different numbers of rows."""
    return [took / max(count, 1) * 10_000 for count, took in polls]


def shown_ratios(polls: list[tuple[int, float]], base: list[tuple[int, float]]) -> Iterator[str]:
    ratios = [a / b for a, b in zip(of_10_000(polls), of_10_000(base), strict=True)]
    first, last = (median(ratios[minute]) for minute in MINUTES)
    yield from (f"{first:.2f}", f"{last:.2f}", f"{last / first:.2f}", "")


def print_prepared(rows: int, seconds: int, raw: Path | None, show: Path | None) -> None:
    def keep(samples: Samples) -> None:
        if raw:
            raw.write_bytes(gzip.compress(json.dumps(samples).encode(), mtime=0))

    samples = load_samples(show) if show else measured(rows, seconds, keep)
    print("\n".join(table_of(samples)[1:]))


def load_samples(path: Path) -> Samples:
    samples: Samples = json.loads(gzip.decompress(path.read_bytes()))
    return samples
