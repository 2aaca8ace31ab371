"""What the reader experiment does, done to a server."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.lab import pgbench
from inorder.lab.clocks import SAME, Apart, apart
from inorder.lab.experiments.reader import ReaderPlan, Reading, compare
from inorder.lab.machine import available_cores
from inorder.lab.readers import TABLE, Reader, all_readers, setup
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.throw_away import Bench, place_of

POLL_PAUSE = 0.01
QUIET = 0.5  # seconds without anything new after which a reader has read all there is

# The server as it comes, with commits that wait for the disk, but for the moment
# of each commit; and an index for each reader: nothing ever analyzes the table.
READER_SETTINGS = {"track_commit_timestamp": "on"}
BY_INDEX = {"enable_seqscan": "off", "enable_bitmapscan": "off"}

CLOCK_ERROR = 0.005  # seconds; by more, a wait of the usual 5 to 10 ms would say nothing


class PollingBench(Bench):
    """A ReaderBench over a throw-away server or the user's own: pgbench writes, a thread for each reader polls."""

    def __init__(self, server: Cluster | Place, plan: ReaderPlan) -> None:
        self.place = place_of(server)
        self.plan = plan
        self.readers = {name: reader for name, reader in all_readers().items() if name in plan.readers}
        self.rows_before = 0
        self.held: dict[str, set[int]] = {name: set() for name in self.readers}  # in the rounds before
        self.place.serve(READER_SETTINGS)

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect(**BY_INDEX)

    def create(self) -> None:
        """The empty table."""
        with self.connection() as connection:
            self.place.create_extensions(connection)
            self.place.create_schema(connection)
            for statement in setup(self.plan.readers):
                connection.execute(statement.encode())

    def clocks(self) -> Apart:
        """How far the server's is from this machine's."""
        if self.place.cluster:
            return SAME
        with self.connection() as connection:
            return apart(connection, time.time)

    def measure(
        self, seed: int, second: Callable[[float], None], keep: Callable[[dict[str, dict[str, float]]], None]
    ) -> None:
        """Read while pgbench writes, and on until nothing new comes. Also when the writers are interrupted."""
        writing, clocks = threading.Event(), self.clocks()
        writing.set()
        with ThreadPoolExecutor(len(self.readers)) as pool:
            jobs = {name: pool.submit(self.follow, name, writing) for name in self.readers}
            started = time.monotonic()
            try:
                self.write(seed, second)
            finally:
                seconds = time.monotonic() - started
                writing.clear()
                readings = {name: job.result() for name, job in jobs.items()}
                keep(self.judged(readings, clocks | self.clocks(), seconds))

    def judged(self, readings: dict[str, Reading], clocks: Apart, seconds: float) -> dict[str, dict[str, float]]:
        """Each reader's metrics; without waits where the clocks are too far from being known."""
        committed = {row: moment - clocks.seconds for row, moment in self.committed().items()}
        more = {"seconds": seconds} | ({} if self.place.cluster else {"clock_error_ms": 1000 * clocks.error})
        waits = clocks.error <= CLOCK_ERROR
        for name, reading in readings.items():
            self.held[name] |= reading.held
        return {name: compare(committed, reading, waits) | more for name, reading in readings.items()}

    def write(self, seed: int, second: Callable[[float], None]) -> None:
        """The load; every transaction has ended when this returns."""
        load = pgbench.Load(self.plan.writers, available_cores(), self.plan.seconds)
        with as_file(files("inorder.lab").joinpath("workloads", "writers.sql")) as script:
            program, environment = self.place.program("pgbench"), self.place.environment()
            pgbench.run(program, script, load, seed, environment, second, database=self.place.database)

    def follow(self, name: str, writing: threading.Event) -> Reading:
        """Poll until the writers have ended and nothing new has come for a while."""
        reader: Reader = self.readers[name]
        reading, quiet_since = Reading(), time.monotonic()
        with self.connection() as connection:
            while time.monotonic() - quiet_since < QUIET:
                started = time.monotonic()
                rows = [row for row in reader.poll(connection) if row not in self.held[name]]
                now = time.monotonic()
                if rows:
                    reading.deliveries.append((time.time(), rows))
                if rows or writing.is_set():
                    quiet_since = now
                reading.polls += 1
                reading.longest_poll = max(reading.longest_poll, now - started)
                time.sleep(POLL_PAUSE)
            reading.held = reader.held(connection)
        return reading

    def committed(self) -> dict[int, float]:
        """The rows of this round and the moments of their commits by the server's clock."""
        query = f"SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM {TABLE} WHERE id > %s"
        with self.connection() as connection:
            rows = connection.execute(query.encode(), (self.rows_before,)).fetchall()
        moments = {int(str(row)): float(str(moment)) for row, moment in rows}
        self.rows_before = max(moments, default=self.rows_before)
        return moments
