"""Tables with each kind of key. They are filled, and then receive inserts between two readings of the counters.

Several experiments share this module, which does not depend on any experiment.
"""

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from inorder.connection.database import Connection, execute
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.counters import (
    CheckpointMarks,
    read_block_io,
    read_checkpoints,
    read_leaf_density,
    read_sizes,
)
from inorder.lab.instruments.machine import available_cores
from inorder.lab.plan import setting
from inorder.lab.plan.keys import BASE_KINDS, KEY_KINDS, KeyKind
from inorder.lab.plan.turn import Measured, Metrics, Place, Stage, Turn, every_round
from inorder.lab.results.result import checkpoint_wal
from inorder.lab.targets.server_settings import FILL_WAL, Small, fill_settings
from inorder.lab.targets.target import Target, since
from inorder.units import MB

INSERT = "insert"
FILL = "fill"

MOST_CLIENTS = 90

# Rows per statement while the tables are filled. A statement delays an interrupt by about half a second.
FILL_BATCH = 250_000

# Bytes per row, measured with 10 million random keys, which leave free space in index pages. For each type of key, the
# first number is for heap and index together, and the second number for the index alone. FILL_WAL_PER_ROW is the WAL
# that filling writes per row.
UUID_BYTES, UUID_INDEX_BYTES = 83, 40
CHAR_BYTES, CHAR_INDEX_BYTES = 141, 74
FILL_WAL_PER_ROW = 170

# Rows per second that a fast machine inserts with bigint keys and 8 sessions on 4 cores: with one row per statement,
# and with many rows per statement.
INSERT_ROWS_PER_SECOND = 200_000
BULK_ROWS_PER_SECOND = 2_000_000


def keys(usual: tuple[str, ...], *, full: tuple[str, ...] | None = None) -> tuple[str, ...]:
    return setting.choices(
        "Kinds of key, comma-separated.", KEY_KINDS, usual, BASE_KINDS, full=full, flag="--keys",
        needs_inorder=lambda kind: KEY_KINDS[kind].needs_inorder, contrib=lambda kind: KEY_KINDS[kind].contrib,
        since=lambda kind: KEY_KINDS[kind].since, label=lambda kind: KEY_KINDS[kind].label,
    )  # fmt: skip


def inserts() -> int | None:
    return setting.optional_count("Inserts per measurement instead of seconds, to compare counts.", 1, 10**12)


def fill_workers() -> int:
    return setting.count(
        "Number of tables that are filled at the same time.",
        1,
        1024,
        asked=False,
        sessions=True,
        factory=available_cores,
    )


def row_bytes(kind: KeyKind) -> tuple[int, int]:
    """Return the bytes of a row together with its index entry, and of the index entry alone."""
    is_char = kind.column.startswith("char(32)")
    return (CHAR_BYTES, CHAR_INDEX_BYTES) if is_char else (UUID_BYTES, UUID_INDEX_BYTES)


def bytes_needed(
    kinds: Collection[KeyKind], rows: int, turns: int, seconds: int, inserts: int | None, batch: int = 1
) -> tuple[int, int]:
    """Return the disk space for all tables with their indexes and WAL, and for the indexes alone.

    The space includes the rows that ``turns`` measurements add, and WAL up to max_wal_size.
    """
    most = rows + turns * (inserts or seconds * (INSERT_ROWS_PER_SECOND if batch == 1 else BULK_ROWS_PER_SECOND))
    table_bytes, index_bytes = (most * sum(sizes) for sizes in zip(*map(row_bytes, kinds), strict=True))
    return table_bytes + min(len(kinds) * rows * FILL_WAL_PER_ROW, FILL_WAL), index_bytes


def load_of(clients: int, threads: int, seconds: int, inserts: int | None, batch: int = 1) -> pgbench.Load:
    return pgbench.Load(clients, threads, seconds, None if inserts is None else max(1, inserts // batch // clients))


def speed_text(metrics: Metrics) -> str:
    if "tps" in metrics:
        return f"{metrics['tps']:,.0f} inserts/s"
    return f"{metrics['seconds']:.1f} s" if "seconds" in metrics else ""


class InsertTables:
    """Tables with each kind of key on a target. ``small`` and ``settings``: resources and settings while measuring."""

    def __init__(
        self, target: Target, kinds: Mapping[str, KeyKind], small: Small, workers: int,
        settings: Mapping[str, str] | None = None, max_wal_size: int | None = None, batch: int = 1,
    ) -> None:  # fmt: skip
        self.target, self.kinds, self.small, self.workers = target, kinds, small, workers
        self.settings = {**(settings or {}), **({"max_wal_size": f"{max_wal_size // MB}MB"} if max_wal_size else {})}
        self.max_wal_size, self.batch = max_wal_size, batch
        self.rows: dict[str, int] = {}  # rows in each existing table
        self.tablespace = ""  # quoted name of the tablespace for indexes
        self.filling = False

    def fill_stage(self, rows: int, recorded: bool = True) -> Stage:
        """Return the stage that fills the tables, which a resumed run repeats. ``recorded``: store its metrics."""
        title = f"Filling {len(self.kinds)} tables to {rows:,} rows"
        places = tuple(Place(FILL, name, rows, f"{title}: {kind.label}") for name, kind in self.kinds.items())
        turns = every_round([Turn(places, lambda _seed: self.fill(rows))])
        return Stage(turns, int(recorded), shuffled=False, warm_up=not recorded, redone=True)

    def fill(self, rows: int) -> Iterator[Measured]:
        """Fill the tables. An interrupt takes effect after a batch. Tables that grew too large are created again."""
        self.serve_for_filling()
        with self.target.connect() as connection:
            self.create(connection, rows)
        stop = threading.Event()
        with ThreadPoolExecutor(self.workers) as pool:
            jobs = [pool.submit(self.fill_one, kind, rows, stop) for kind in self.kinds.values()]
            try:
                for job in jobs:
                    yield Measured(job.result())
            except BaseException:  # includes GeneratorExit, if the caller takes no more results
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def serve_for_filling(self) -> None:
        if not self.filling:
            self.target.serve(fill_settings())
            self.filling = True

    def create(self, connection: Connection, rows: int) -> None:
        if not self.rows:
            self.target.create_schema(connection)
            self.tablespace = self.target.tablespace(connection, self.small.tablespace) if self.small.tablespace else ""
            self.begin(connection)
        for name, kind in self.kinds.items():
            if kind.filled_statements() or self.rows.get(name, sys.maxsize) > rows:
                execute(connection, *kind.removal(), *kind.statements(self.tablespace))
                self.rows[name] = 0

    def begin(self, connection: Connection) -> None:
        """Prepare the database before the first tables are created."""

    def fill_batch(self, connection: Connection, kind: KeyKind, rows: int) -> int:
        batch = min(FILL_BATCH, rows - self.rows[kind.name])
        connection.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {batch})".encode())
        return batch

    def fill_one(self, kind: KeyKind, rows: int, stop: threading.Event) -> Metrics:
        started = time.monotonic()
        with self.target.connect() as connection:
            while self.rows[kind.name] < rows and not stop.is_set():
                self.rows[kind.name] += self.fill_batch(connection, kind, rows)
            if not stop.is_set():
                execute(connection, *kind.filled_statements(self.tablespace))
            sizes = read_sizes(connection, kind)
        return {"seconds": time.monotonic() - started, **sizes}

    def serve_for_measuring(self) -> None:
        """Restart the server with little memory, with fsync and, if possible, without page cache."""
        if self.filling:
            with self.target.connect() as connection:
                self.target.checkpoint(connection)  # little is left to write when the server stops
        self.target.serve_small(self.small, self.settings)
        self.filling = False

    def measure(
        self, name: str, load: pgbench.Load, seed: int, show: Callable[[str], None], dump_wal: bool = False
    ) -> Measured:
        """Insert between two readings of the counters. Call ``show`` with the TPS of each second.

        ``dump_wal``: read the WAL with pg_waldump.
        """
        kind = self.kinds[name]
        with self.target.connect() as connection:
            if kind.in_seconds:
                # Wait for the next block of time-prefixed keys, which lasts a second. In one of six measurements, a
                # block partly filled by the previous measurement would cause up to 500 full-page images. These images
                # would distort a measurement that takes seconds instead of minutes.
                time.sleep(1 - time.time() % 1)
            self.target.checkpoint(connection)
            before, device = self.counted(connection, kind), self.target.device(self.small.tablespace)
            place = self.target.wal_place(connection) if dump_wal else ""
            marks = CheckpointMarks(connection) if self.target.marks_checkpoints else None

            def second(tps: float) -> None:
                if marks:
                    marks.second()
                show(speed_text({"tps": tps * self.batch}))

            result = self.target.pgbench(self.script(kind), load, seed, second, log=True).times(self.batch)
            counted = since(self.counted(connection, kind), before)
            if device and (after := self.target.device(self.small.tablespace)):
                counted |= after.since(device)
            # A checkpoint occurs after checkpoint_wal() bytes of WAL, and may recycle the WAL files of the measurement.
            is_complete = counted.get("wal_bytes", 0) <= checkpoint_wal(self.max_wal_size)
            wal = self.in_wal(connection, kind, place) if place and is_complete else Measured({})
        metrics = {"tps": result.tps, "latency_ms": result.latency_ms, "inserts": result.transactions,
                   "rows_before": self.rows[name]}  # fmt: skip
        self.rows[name] += result.transactions
        series = wal.series | {"tps": list(result.tps_by_second)} | ({"checkpoints": marks.seconds} if marks else {})
        return Measured(metrics | counted | result.percentiles_ms | wal.metrics, series)

    def script(self, kind: KeyKind) -> Path:
        return pgbench.insert_script(self.target.folder / f"insert_{kind.name}.sql", kind.table, self.batch)

    def in_wal(self, connection: Connection, kind: KeyKind, place: str) -> Measured:
        return self.target.wal_since(connection, kind, place)

    def counted(self, connection: Connection, kind: KeyKind) -> Metrics:
        return dict(self.target.counters(connection, kind)) | read_block_io(connection) | read_checkpoints(connection)

    def sizes(self, name: str, _seed: int = 0) -> Metrics:
        """Return the sizes, leaf density and number of rows. Measuring the density reads the whole index."""
        self.target.end_throttling()
        with self.target.connect() as connection:
            metrics = read_sizes(connection, self.kinds[name]) | read_leaf_density(connection, self.kinds[name])
        return metrics | {"rows": self.rows[name]}
