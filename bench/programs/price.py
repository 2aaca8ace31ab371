"""Measure the cost of keys, guards, reads and counts: in the C extension, in the SQL edition, and without inorder.

script/price runs this program. The cost is the CPU time of the server process; one measurement is the wall-clock time
of a commit that waits for the disk. Each round runs every measurement once, in random order.
"""

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from inorder.connection.database import Connection, connect, execute, one_row
from inorder.installations import find_installation
from inorder.lab.analysis.stats import estimate, paired_ratio
from inorder.lab.instruments.timing import Prepared, ServerProcess
from inorder.lab.server.cluster import Cluster
from inorder.lab.tables.log_tables import BATCH_ROWS, BY_UUID, COLUMNS, SERIAL, insert
from inorder.units import parse_count

from changes import print_changes
from groups import print_groups
from masks import print_masks
from sql_edition import create
from updates import print_updates

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "jit": "off", "synchronous_commit": "off"}
SETTINGS["max_parallel_workers_per_gather"] = "0"  # CPU time is measured for one process only
NUMBERED = f"{SERIAL}, xact bigint"
KEYS = {
    "bigserial": SERIAL,
    "uuid": BY_UUID,
    "default": f"{NUMBERED} NOT NULL DEFAULT xact_id()",
    "generated": f"{NUMBERED} GENERATED ALWAYS AS (xact_id_generated()) STORED",
}
LABELS = {"uuid": "`uuid` key", "default": "`bigint DEFAULT xact_id()`", "generated": "generated column"}
NONE, C, SQL = "bigserial", "C extension", "SQL edition"
EDITIONS = {NONE: ("bigserial",), C: tuple(LABELS), SQL: tuple(LABELS)}
READ_ROWS = 10_000
SOME_ROWS = 500
CALLS = 10
FEEDS = 13  # number of feeds in the database whose view "feeds" is read

Samples = dict[str, dict[str, dict[str, list[float]]]]  # measurement -> kind of key -> edition -> µs in each round


@dataclass(frozen=True)
class Side:
    """The tables for one kind of key in one edition, with the measured session and a second session."""

    edition: str
    kind: str
    connection: Connection
    process: ServerProcess
    other: Connection

    def microseconds(self, statement: str, calls: int = 1, prepare: bool = True) -> float:
        text = statement.encode()

        def work() -> None:
            for _ in range(calls):
                self.connection.execute(text, prepare=prepare)

        return self.process.timed(work)["cpu_seconds"] / calls * 1e6


def key(side: Side) -> float | None:
    function = {"bigserial": "gen_random_uuid", "uuid": "uuid_xact_nextval", "default": "xact_id"}.get(side.kind)
    calls = 20_000
    text = f"SELECT count({function}()) FROM generate_series(1, {calls})"
    return side.microseconds(text) / calls if function else None


def prepared(table: str) -> Callable[[Side], float]:
    return lambda side: side.microseconds(insert(f"{table}_{side.kind}", 1), 200)


def not_prepared(side: Side) -> float:
    return side.microseconds(insert(f"small_{side.kind}", 1), 150, prepare=False)


def committed(side: Side) -> float:
    """Return the wall-clock time of a prepared single-row INSERT in µs, until its commit is on disk."""
    calls = 100
    side.connection.execute("SET synchronous_commit = on")
    with Prepared(side.connection, insert(f"log_{side.kind}", 1)) as call:
        took = side.process.timed(lambda: call.repeat(calls))["seconds"] / calls * 1e6
    side.connection.execute("RESET synchronous_commit")
    return took


def many(table: str) -> Callable[[Side], float]:
    return lambda side: side.microseconds(insert(f"{table}_{side.kind}", BATCH_ROWS), 8) / BATCH_ROWS


def piece(side: Side, rows: int) -> str:
    """Return a statement that reads this many new rows. With a bigserial key, it reads rows above the last key."""
    if side.kind != "bigserial":
        return f"SELECT feed_apply('{side.kind}', 'SELECT count(*) FROM batch', {rows})"
    last = one_row(side.other, "SELECT max(id) FROM read_bigserial")[0]
    return f"SELECT count(*) FROM (SELECT * FROM read_bigserial WHERE id > {last} ORDER BY id LIMIT {rows}) AS new"


def read(side: Side) -> float:
    """Measure a read of READ_ROWS new rows. The next measurement skips any rows left over."""
    skip(side)
    text = piece(side, READ_ROWS)
    for _ in range(READ_ROWS // BATCH_ROWS + 1):
        side.other.execute(insert(f"read_{side.kind}", BATCH_ROWS).encode())
    return side.microseconds(text)


def read_new(rows: int) -> Callable[[Side], float]:
    """Return a function that measures reads of the rows of a transaction that has just ended."""

    def took(side: Side) -> float:
        skip(side)
        times = []
        for _ in range(CALLS):
            text = read_text(side, side.kind)
            side.other.execute(insert(f"read_{side.kind}", rows))
            times.append(side.microseconds(text))
        return mean(times)

    return took


def read_text(side: Side, feed: str) -> str:
    """Return the statement that reads all new rows, for a client that does not store its position."""
    if side.kind != "bigserial":
        return f"SELECT count(*) FROM feed_read('{feed}', null::read_{side.kind}, {READ_ROWS})"
    return piece(side, READ_ROWS)


def skip(side: Side) -> None:
    """Skip rows left over by other measurements. Read once, because only a read records that the feed is up to date."""
    if side.kind != "bigserial":
        side.connection.execute(f"SELECT feed_seek('{side.kind}', 'now')".encode())
        side.connection.execute(piece(side, READ_ROWS).encode())


def worker(side: Side) -> float | None:
    """Measure the three statements with which a worker takes, reads and finishes a batch."""
    if side.kind == "bigserial":
        return None
    feed = f"{side.kind}_worker"
    side.connection.execute(f"SELECT feed_seek('{feed}', 'now')".encode())
    times = []
    for _ in range(CALLS):
        side.other.execute(insert(f"read_{side.kind}", SOME_ROWS))
        times.append(side.process.timed(lambda: give_and_finish(side, feed))["cpu_seconds"] * 1e6)
    return mean(times)


def give_and_finish(side: Side, feed: str) -> None:
    execute = side.connection.execute
    take = f"SELECT number, token FROM feed_take_batch('{feed}', 'worker', {READ_ROWS})"
    number, token = one_row(side.connection, take)
    rows = f"SELECT count(*) FROM feed_batch_rows('{feed}', %s, null::read_{side.kind})"
    execute(rows.encode(), [number], prepare=True)
    execute(f"SELECT feed_finish_batch('{feed}', %s, %s)".encode(), [number, token], prepare=True)


def first_call(side: Side) -> float:
    """Measure the first statement of a session, which reads one new row."""
    skip(side)
    text = read_text(side, side.kind)
    side.other.execute(insert(f"read_{side.kind}", 1))
    with connect(side.connection.info.dsn) as session:
        return ServerProcess(session).timed(lambda: session.execute(text.encode()))["cpu_seconds"] * 1e6


def view(side: Side) -> float | None:
    if side.kind != "uuid":
        return None
    side.connection.execute(b"SELECT feed_seek(name, 'now') FROM feeds")
    return repeated(side, "SELECT * FROM feeds")


def poll(side: Side) -> float:
    """Measure a read that finds no rows, although a transaction has ended since the last read."""
    skip(side)
    return repeated(side, piece(side, READ_ROWS))


def repeated(side: Side, text: str) -> float:
    """Return the mean CPU time of several calls. Another session runs a transaction before each call."""
    times = []
    for _ in range(CALLS):
        side.other.execute("SELECT pg_current_xact_id()")
        times.append(side.microseconds(text))
    return mean(times)


def count(side: Side) -> float:
    """Measure a count soon after a fold, or a plain count if the key is a bigserial."""
    if side.kind == "bigserial":
        return side.microseconds("SELECT count(*) FROM read_bigserial")
    side.connection.execute(f"SELECT exact_count_fold('read_{side.kind}')".encode())
    return repeated(side, f"SELECT exact_count('read_{side.kind}')")


MEASUREMENTS: dict[str, Callable[[Side], float | None]] = {
    "one key, or number": key,
    "insert of one row, prepared": prepared("small"),
    "insert of one row, not prepared": not_prepared,
    f"row of an insert of {BATCH_ROWS}": many("small"),
    "insert of one row of 256 bytes, prepared": prepared("log"),
    "insert of one row of 256 bytes, until it is on disk": committed,
    f"row of 256 bytes, of an insert of {BATCH_ROWS}": many("log"),
    f"read of {READ_ROWS:,} rows": read,
    "read of one new row": read_new(1),
    f"read of {SOME_ROWS} new rows": read_new(SOME_ROWS),
    f"batch of {SOME_ROWS} rows of a worker": worker,
    "first read of a session": first_call,
    "poll that finds nothing": poll,
    f"the view feeds, {FEEDS} feeds": view,
    "count with nothing new": count,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/price")
    parser.add_argument(
        "--rounds", default="15", help="number of rounds, each of which measures everything once (default: %(default)s)"
    )
    parser.add_argument("--rows", default="1M", help="rows of the tables that are read and counted")
    parser.add_argument("--masks", action="store_true", help="measure the cost of masks")
    parser.add_argument("--raw", type=Path, metavar="FILE.json.gz", help="write each sample to this file")
    parser.add_argument("--show", type=Path, metavar="FILE.json.gz", help="print the table of the samples in this file")
    parser.add_argument("--changes", action="store_true", help="measure the cost of a log of changes")
    parser.add_argument("--updates", action="store_true", help="measure the cost of the guard for an UPDATE")
    parser.add_argument(
        "--groups", action="store_true", help="measure the cost of counts by group, and of other methods"
    )
    options = parser.parse_args()
    rounds = parse_count(options.rounds, "--rounds", 1, 10_000)
    if options.groups:
        print_groups(rounds, options.raw, options.show)
        return
    for is_chosen, measure in (
        (options.changes, print_changes), (options.masks, print_masks), (options.updates, print_updates)
    ):  # fmt: skip
        if is_chosen:
            measure(rounds)
            return
    rows = parse_count(options.rows, "--rows", READ_ROWS, 2**40)
    samples = load(options.show) if options.show else measured(rows, rounds)
    if options.raw:
        options.raw.write_bytes(gzip.compress(json.dumps(samples).encode(), mtime=0))
    print("\n".join(table(samples)))


def load(path: Path) -> Samples:
    samples: Samples = json.loads(gzip.decompress(path.read_bytes()))
    return samples


def measured(rows: int, rounds: int) -> Samples:
    samples: Samples = {}
    with Cluster(find_installation()) as cluster, ExitStack() as stack:
        cluster.start(SETTINGS)
        sides = [side for edition in EDITIONS for side in stack.enter_context(opened(cluster, edition, rows))]
        work = [(name, side) for name in MEASUREMENTS for side in sides]
        for number in range(-1, rounds):  # round -1 is a warm-up
            print(f"\rround {number + 1} of {rounds}", end="", flush=True)
            for name, side in random.sample(work, len(work)):
                took = MEASUREMENTS[name](side)
                if number >= 0 and took is not None:
                    kinds = samples.setdefault(name, {}).setdefault(side.kind, {})
                    kinds.setdefault(side.edition, []).append(took)
        print("\r", end="")
    return {name: samples[name] for name in MEASUREMENTS}


@contextmanager
def opened(cluster: Cluster, edition: str, rows: int) -> Iterator[list[Side]]:
    name = edition.partition(" ")[0].lower()
    with connect(cluster.dsn) as admin:
        execute(admin, f"CREATE DATABASE price_{name}")
    with connect(f"{cluster.dsn} dbname=price_{name}") as connection, connect(connection.info.dsn) as other:
        if edition != NONE:
            create(connection, name)
        process = ServerProcess(connection)
        for kind in EDITIONS[edition]:
            print(f"\r{edition}, {kind}: {rows:,} rows", end="", flush=True)
            fill(connection, kind, rows)
        yield [Side(edition, kind, connection, process, other) for kind in EDITIONS[edition]]


def fill(connection: Connection, kind: str, rows: int) -> None:
    """Create the tables for one kind of key. Many transactions fill the table to be read, before it has a guard."""
    for table, columns in (
        ("small", "c1 int"),
        ("log", COLUMNS),
        ("read", "c1 int, body text DEFAULT repeat('x', 32)"),
    ):
        execute(connection, f"CREATE TABLE {table}_{kind} ({KEYS[kind]}, {columns})")
        if kind in ("default", "generated"):
            execute(connection, f"CREATE INDEX ON {table}_{kind} (xact, id) WHERE xact <> 0")
        if table == "read":
            transaction = f"{insert(f'read_{kind}', BATCH_ROWS)}; COMMIT;"
            loop = f"FOR n IN 1 .. {rows // BATCH_ROWS} LOOP {transaction} END LOOP"
            execute(connection, f"DO $$ BEGIN {loop}; END $$", f"VACUUM ANALYZE read_{kind}")
        if kind != "bigserial":
            execute(connection, f"SELECT feed_enable('{table}_{kind}')")
    if kind != "bigserial":
        more = FEEDS - 2 * len(LABELS) if kind == "uuid" else 0
        names = [kind, f"{kind}_worker", *(f"other_{number}" for number in range(more))]
        feeds = ", ".join(f"feed_create('{name}', 'read_{kind}', start => 'now')" for name in names)
        execute(connection, f"SELECT {feeds}, exact_count_start('read_{kind}')")


def table(samples: Samples) -> list[str]:
    """Return the table of docs/results/price-18.md: medians, with ratios to bigserial in the same round."""
    lines = [f"| | | {NONE} | {C} | {SQL} |", "|---|---|---:|---:|---:|"]
    for name, kinds in samples.items():
        base = kinds.get("bigserial", {}).get(NONE)
        shown = {kind: editions for kind, editions in kinds.items() if kind != "bigserial"}
        for place, (kind, editions) in enumerate(sorted(shown.items(), key=lambda item: list(LABELS).index(item[0]))):
            first = (name, text(base) if base else "") if place == 0 else ("", "")
            cells = [text(editions[side]) + times(editions[side], base) for side in (C, SQL)]
            lines.append("| " + " | ".join([first[0], LABELS[kind], first[1], *cells]) + " |")
    return lines


def times(values: list[float], base: list[float] | None) -> str:
    return f", {float(f'{paired_ratio(values, base).median:.2g}'):g} ×" if base else ""


def text(values: list[float]) -> str:
    """Format the median of times in µs with two significant digits.

    >>> text([1.234]), text([287.0]), text([1240.0]), text([24000.0])
    ('1.2 µs', '290 µs', '1.2 ms', '24 ms')
    """
    median = float(f"{estimate(values).median:.2g}")
    return f"{median / 1000:g} ms" if median >= 1000 else f"{median:g} µs"


if __name__ == "__main__":
    main()
