"""What the insert experiment does, done to a server."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from psycopg import sql

from inorder.cluster import Cluster
from inorder.database import Connection, query
from inorder.errors import InorderError
from inorder.lab import pgbench, waldump
from inorder.lab.counters import CheckpointMarks, read_block_io, read_leaf_density, read_sizes, wal_place
from inorder.lab.device import DeviceTimes, look
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.keys import KEY_KINDS, KeyKind
from inorder.lab.legacy import Metrics, Series
from inorder.lab.progress import Progress
from inorder.lab.results import CHECKPOINT_WAL
from inorder.lab.serving import FILL_SETTINGS, fill_memory, serve_afresh
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of

# Rows of one INSERT while filling: about half a second, which is how soon a cancel is heard.
FILL_BATCH = 250_000

TABLESPACE = sql.Identifier("inorder_indexes")
BLOCK_BYTES = 8192

class ServerBench(Bench):
    """An InsertBench over a throw-away server or the user's own."""

    def __init__(self, server: Cluster | Place, plan: InsertPlan, keys: Mapping[str, KeyKind] = KEY_KINDS) -> None:
        self.place = place_of(server)
        self.cluster = self.place.cluster
        self.plan = plan
        self.keys = keys
        self.rows = dict.fromkeys(keys, 0)
        self.tablespace = ""  # of the indexes, quoted
        self.filling = False

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect()

    def serve_for_filling(self) -> None:
        """Plenty of memory, nothing durable."""
        if not self.filling:
            self.place.serve(FILL_SETTINGS | {"shared_buffers": f"{fill_memory() // 8192}"})
            self.filling = True

    def serve_for_measuring(self) -> None:
        """Small memory, durable, and no page cache where the server can do without."""
        if self.filling:
            with self.connection() as connection:
                self.place.checkpoint(connection)  # so that the stop has little left to write
        if self.cluster:
            serve_afresh(self.cluster, self.plan)
        self.filling = False

    def create(self, kinds: tuple[str, ...]) -> None:
        """The schema, the extensions, the empty tables."""
        self.serve_for_filling()
        with self.connection() as connection:
            self.place.create_extensions(connection)
            self.place.create_schema(connection)
            self.tablespace = self.make_tablespace(connection)
            for kind in kinds:
                for statement in self.keys[kind].statements(self.tablespace):
                    connection.execute(statement.encode())

    def fill(self, kinds: tuple[str, ...], rows: int, filled: Callable[[str, dict[str, float]], None]) -> None:
        """Fill the tables, some at a time; an interrupt ends them all within a batch.

        One that the rounds at a smaller size have made larger than this begins anew: the size says what is in it.
        """
        self.serve_for_filling()
        for kind in kinds:
            if self.rows[kind] > rows:
                self.make_anew(self.keys[kind])
        stop = threading.Event()
        with ThreadPoolExecutor(self.plan.fill_workers) as pool:
            jobs = [(kind, pool.submit(self._fill_one, self.keys[kind], rows, stop)) for kind in kinds]
            try:
                for kind, job in jobs:
                    filled(kind, job.result())
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def make_anew(self, kind: KeyKind) -> None:
        """An empty table, and a sequence at its beginning."""
        with self.connection() as connection:
            for statement in (*kind.removal(), *kind.statements(self.tablespace)):
                connection.execute(statement.encode())
        self.rows[kind.name] = 0

    def _fill_one(self, kind: KeyKind, rows: int, stop: threading.Event) -> dict[str, float]:
        started = time.monotonic()
        with self.connection() as connection:
            while self.rows[kind.name] < rows and not stop.is_set():
                batch = min(FILL_BATCH, rows - self.rows[kind.name])
                connection.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {batch})".encode())
                self.rows[kind.name] += batch
            sizes = read_sizes(connection, kind)
        return {"seconds": time.monotonic() - started, **sizes}

    def make_tablespace(self, connection: Connection) -> str:
        """A tablespace in the folder that the plan names, or "" if it names none; its files go with the cluster."""
        if not self.plan.tablespace or self.cluster is None:
            return ""
        folder = self.cluster.outside(Path(self.plan.tablespace))
        connection.execute(sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(TABLESPACE, sql.Literal(str(folder))))
        return TABLESPACE.as_string(connection)

    def measure(self, kind: str, clients: int, seed: int, progress: Progress) -> tuple[Metrics, Series]:
        """One run of pgbench between a checkpoint and a last look at the counters."""
        key = self.keys[kind]
        with self.connection() as connection:
            if key.in_seconds:
                # Its blocks are seconds. One that the turn before has half filled would cost up to 500 images, in a
                # checkpoint interval of a second or ten and not of minutes, and in one turn of six.
                time.sleep(1 - time.time() % 1)
            self.place.checkpoint(connection)
            before, device = self.counted(connection, key), self.device()
            start = wal_place(connection) if self.plan.dump_wal else ""
            checkpoints = CheckpointMarks(connection) if self.place.marks_checkpoints else None

            def second(tps: float) -> None:
                if checkpoints:
                    checkpoints.look()
                progress.step(f"{key.label}: {tps:,.0f} inserts/s")

            load = self.push(key, clients, seed, second)
            counted = since(self.counted(connection, key), before)
            busy = after.since(device) if device and (after := self.device()) else {}
            # Beyond that a checkpoint came by itself, and the files that were full before it may be gone.
            whole = counted.get("wal_bytes", 0) <= CHECKPOINT_WAL
            wal, series = self.dumped(connection, key, start) if whole else ({}, {})
        if load.transactions == 0:
            raise InorderError(f"pgbench inserted nothing into {key.table} in {self.plan.seconds} s")
        metrics = {
            "tps": load.tps,
            "latency_ms": load.latency_ms,
            "inserts": load.transactions,
            "rows_before": self.rows[kind],
        }
        self.rows[kind] += load.transactions
        series |= {"tps": list(load.tps_by_second)} | ({"checkpoints": checkpoints.seconds} if checkpoints else {})
        return metrics | counted | load.percentiles_ms | busy | wal, series

    def counted(self, connection: Connection, key: KeyKind) -> dict[str, float]:
        """All that the server has counted so far, once the other sessions have ended."""
        return dict(self.place.counters(connection, key)) | read_block_io(connection)

    def push(self, key: KeyKind, clients: int, seed: int, second: Callable[[float], None]) -> pgbench.PgbenchResult:
        """Insert into one table, telling TPS each second."""
        return pgbench.run(
            self.place.program("pgbench"),
            pgbench.insert_script(self.place.folder / f"insert_{key.name}.sql", key.table),
            self.load(clients),
            seed,
            self.place.environment(),
            second,
            log=self.place.folder / "latency",
            database=self.place.database,
        )

    def device(self) -> DeviceTimes | None:
        """What the indexes are on, if that is on this machine."""
        return look(Path(self.plan.tablespace or self.cluster.data)) if self.cluster else None

    def dumped(self, connection: Connection, key: KeyKind, start: str) -> tuple[Metrics, Series]:
        """What is in the WAL since a place: bytes of records and images, and which blocks of the index changed."""
        if not self.plan.dump_wal or self.cluster is None:
            return {}, {}
        folder = self.cluster.data / "pg_wal"
        span = waldump.Span(self.place.program("pg_waldump"), folder, start, wal_place(connection))
        metrics, row = waldump.split(span), connection.execute(query("relation_file"), {"index": key.index}).fetchone()
        if row is None:
            return metrics, {}
        blocks = waldump.touched(span, str(row[0]))
        size = int(read_sizes(connection, key)["index_bytes"]) // BLOCK_BYTES
        metrics |= {"touched_blocks": len(blocks), "index_blocks": size}
        return metrics, {"page_map": waldump.page_map(blocks, size)}

    def load(self, clients: int) -> pgbench.Load:
        """The plan's load, a fixed number of inserts being shared among the clients."""
        plan = self.plan
        each = None if plan.inserts is None else max(1, plan.inserts // clients)
        return pgbench.Load(clients, plan.threads, plan.seconds, each)

    def sizes(self, kind: str) -> dict[str, float]:
        """Sizes with leaf density, and the rows there are; the density takes reading all of the index."""
        if self.cluster and self.cluster.limit:
            self.cluster.limit.lift()
        with self.connection() as connection:
            sizes = read_sizes(connection, self.keys[kind]) | read_leaf_density(connection, self.keys[kind])
        return sizes | {"rows": self.rows[kind]}

