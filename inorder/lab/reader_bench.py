"""What the reader experiment does, done to a throw-away server."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files

from inorder.cluster import Cluster
from inorder.database import Connection, connect
from inorder.lab import pgbench
from inorder.lab.experiments.reader import ReaderPlan, Reading, compare
from inorder.lab.machine import available_cores
from inorder.lab.readers import SETUP, TABLE, Reader, all_readers

POLL_PAUSE = 0.01
QUIET = 0.5  # seconds without anything new after which a reader has read all there is

# The server as it comes, with commits that wait for the disk, but for the moment
# of each commit, and an index for each reader: nothing ever analyzes the table.
READER_SETTINGS = {"track_commit_timestamp": "on", "enable_seqscan": "off", "enable_bitmapscan": "off"}


class PollingBench:
    """A ReaderBench over a Cluster: pgbench writes, a thread for each reader polls."""

    def __init__(self, cluster: Cluster, plan: ReaderPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.readers = all_readers()
        self.rows_before = 0
        cluster.start(READER_SETTINGS)

    def connection(self) -> Connection:
        """A new connection to the server."""
        return connect(self.cluster.dsn)

    def create(self) -> None:
        """The empty table."""
        with self.connection() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())

    def measure(
        self, seed: int, second: Callable[[float], None], keep: Callable[[dict[str, dict[str, float]]], None]
    ) -> None:
        """Read while pgbench writes, and on until nothing new comes. Also when the writers are interrupted."""
        writing = threading.Event()
        writing.set()
        with ThreadPoolExecutor(len(self.readers)) as pool:
            jobs = {name: pool.submit(self.follow, reader, writing) for name, reader in self.readers.items()}
            started = time.monotonic()
            try:
                self.write(seed, second)
            finally:
                seconds = time.monotonic() - started
                writing.clear()
                readings = {name: job.result() for name, job in jobs.items()}
                committed = self.committed()
                keep({name: compare(committed, one) | {"seconds": seconds} for name, one in readings.items()})

    def write(self, seed: int, second: Callable[[float], None]) -> None:
        """The load; every transaction has ended when this returns."""
        load = pgbench.Load(self.plan.writers, available_cores(), self.plan.seconds)
        with as_file(files("inorder.lab").joinpath("workloads", "writers.sql")) as script:
            program, environment = self.cluster.original.program("pgbench"), self.cluster.environment()
            pgbench.run(program, script, load, seed, environment, second)

    def follow(self, reader: Reader, writing: threading.Event) -> Reading:
        """Poll until the writers have ended and nothing new has come for a while."""
        reading, quiet_since = Reading(), time.monotonic()
        with self.connection() as connection:
            while time.monotonic() - quiet_since < QUIET:
                started = time.monotonic()
                rows = reader.poll(connection)
                now = time.monotonic()
                if rows:
                    reading.deliveries.append((time.time(), rows))
                if rows or writing.is_set():
                    quiet_since = now
                reading.polls += 1
                reading.longest_poll = max(reading.longest_poll, now - started)
                time.sleep(POLL_PAUSE)
        return reading

    def committed(self) -> dict[int, float]:
        """The rows of this round and the moments of their commits, of this machine's clock as the readers' are."""
        query = f"SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM {TABLE} WHERE id > %s"
        with self.connection() as connection:
            rows = connection.execute(query.encode(), (self.rows_before,)).fetchall()
        moments = {int(str(row)): float(str(moment)) for row, moment in rows}
        self.rows_before = max(moments, default=self.rows_before)
        return moments
