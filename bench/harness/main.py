"""Adapter that runs inorder as a job queue in hardbyte/postgresql-job-queue-benchmarking.

A producer inserts jobs into a table, and workers share a feed of the table. The adapter reads its settings from
environment variables, and prints JSON Lines until it receives SIGTERM.
"""

import json
import math
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

MANIFEST = json.loads(Path(__file__).with_name("adapter.json").read_text())
FEED = "jobs"
TABLE = "CREATE TABLE jobs (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), made float8, padding text)"
INSERT = "INSERT INTO jobs (made, padding) SELECT %s, %s FROM generate_series(1, %s)"
TAKE = "SELECT number, token FROM feed_take_batch('jobs', %s, %s)"
ROWS = "SELECT made FROM feed_batch_rows('jobs', %s, null::jobs)"
FINISH = "SELECT feed_finish_batch('jobs', %s, %s)"
WINDOW = 30  # a percentile covers the samples of this many seconds
PATIENCE = 0.2  # seconds between attempts to connect
Connection = psycopg.Connection[tuple[Any, ...]]


class Settings:
    """Settings that the harness passes in environment variables."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        def number(name: str, default: int) -> int:
            return int(environment.get(name, default))

        self.dsn = environment["DATABASE_URL"]
        self.mode = environment.get("PRODUCER_MODE", "fixed")
        self.is_paced = self.mode == "fixed" and environment.get("PRODUCER_PACING") == "harness"
        self.rate_file = environment.get("PRODUCER_RATE_CONTROL_FILE")
        self.rate = number("PRODUCER_RATE", 800)
        self.most = number("PRODUCER_BATCH_MAX", 128)
        self.tick = number("PRODUCER_BATCH_MS", 25) / 1000
        self.depth = number("TARGET_DEPTH", 1000)
        self.workers = number("WORKER_COUNT", 32)
        self.batch = number("CONSUMER_BATCH_SIZE", 64)
        self.padding = "x" * max(0, number("JOB_PAYLOAD_BYTES", 256) - 32)
        self.work = number("JOB_WORK_MS", 1) / 1000
        self.every = number("SAMPLE_EVERY_S", 5)
        self.instance = number("BENCH_INSTANCE_ID", 0)

    def rate_now(self) -> float:
        """Return the current rate. The harness can change it during a run by writing a file."""
        try:
            return float(Path(self.rate_file).read_text()) if self.rate_file else self.rate
        except (OSError, ValueError):
            return self.rate


class Latencies:
    """Recent samples in milliseconds, rounded to three significant digits to save memory."""

    def __init__(self, ticks: int) -> None:
        self.ticks = deque([Counter[float]()], maxlen=ticks)
        self.lock = threading.Lock()

    def add(self, seconds: float, times: int = 1) -> None:
        milliseconds = max(1000 * seconds, 0.001)
        with self.lock:
            self.ticks[-1][round(milliseconds, 2 - math.floor(math.log10(milliseconds)))] += times

    def turn(self, *shares: float) -> list[float]:
        """Return the quantiles of the window, and advance the window by one tick."""
        with self.lock:
            counts = sum(self.ticks, Counter[float]())
            self.ticks.append(Counter())
        return [quantile(counts, share) for share in shares]


def quantile(counts: Counter[float], share: float) -> float:
    """Return the quantile for this share of the samples, or 0 if there are no samples.

    >>> quantile(Counter({1.0: 98, 7.0: 2}), 0.5), quantile(Counter({1.0: 98, 7.0: 2}), 0.99), quantile(Counter(), 0.5)
    (1.0, 7.0, 0.0)
    """
    remaining = share * counts.total()
    for value in sorted(counts):
        remaining -= counts[value]
        if remaining <= 0:
            return value
    return 0.0


class Adapter:
    """The adapter's threads and counters."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stop = threading.Event()
        self.tokens: queue.SimpleQueue[int] = queue.SimpleQueue()
        ticks = math.ceil(WINDOW / settings.every)
        self.latencies = {name: Latencies(ticks) for name in ("producer", "claim", "end_to_end")}
        self.counts = Counter[str]()
        self.lock = threading.Lock()

    def count(self, counter: str, amount: int) -> None:
        with self.lock:
            self.counts[counter] += amount

    def put(self, record: Mapping[str, Any]) -> None:
        head = {"system": MANIFEST["system"], "instance_id": self.settings.instance}
        sys.stdout.write(json.dumps(head | dict(record)) + "\n")
        sys.stdout.flush()

    def connected(self, work: Callable[[Connection], None]) -> None:
        """Call ``work`` repeatedly until the adapter stops. Reconnect after a database error."""
        while not self.stop.is_set():
            try:
                with psycopg.connect(self.settings.dsn, autocommit=True) as connection:
                    while not self.stop.is_set():
                        work(connection)
            except psycopg.Error as error:
                print(f"trying again: {error}", file=sys.stderr)
                self.stop.wait(PATIENCE)

    def prepare(self) -> str:
        """Create the table and the feed if they do not exist, and return the version of the extension."""
        with psycopg.connect(self.settings.dsn) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('jobs'))")
            if connection.execute("SELECT to_regclass('jobs')").fetchone() == (None,):
                connection.execute(TABLE)
                connection.execute("SELECT feed_create('jobs', 'jobs')")
            row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'inorder'").fetchone()
        return str(row and row[0])

    def listen(self) -> None:
        """Read from stdin how many jobs are due. The harness writes lines such as ``ENQUEUE 10``."""
        for line in sys.stdin:
            word, _, amount = line.partition(" ")
            if word == "ENQUEUE":
                self.tokens.put(int(amount))

    def due(self, credit: float, since: float) -> float:
        """Wait until jobs are due or one tick has passed, and return the number of jobs to insert."""
        if self.settings.is_paced:
            try:
                return credit + self.tokens.get(timeout=0.5)
            except queue.Empty:
                return credit
        self.stop.wait(self.settings.tick)
        if self.settings.mode == "depth-target":
            return float(self.settings.depth - self.waiting())
        return credit + self.settings.rate_now() * (time.monotonic() - since)

    def produce(self) -> None:
        credit, since = 0.0, time.monotonic()

        def work(connection: Connection) -> None:
            nonlocal credit, since
            credit, since = self.due(credit, since), time.monotonic()
            while credit >= 1 and not self.stop.is_set():
                amount = min(int(credit), self.settings.most)
                began = time.monotonic()
                connection.execute(INSERT, [time.time(), self.settings.padding, amount])
                self.latencies["producer"].add((time.monotonic() - began) / amount, amount)
                self.count("enqueued", amount)
                credit -= amount

        self.connected(work)

    def consume(self, number: int) -> None:
        name = f"{self.settings.instance}.{number}"

        def work(connection: Connection) -> None:
            row = connection.execute(TAKE, [name, self.settings.batch]).fetchone()
            if row is None or row[0] is None:
                connection.execute("SELECT feed_wait('jobs')")
                return
            times = [float(at) for (at,) in connection.execute(ROWS, [row[0]])]
            self.count("claimed", len(times))
            for at in times:
                self.latencies["claim"].add(time.time() - at)
                time.sleep(self.settings.work)
            connection.execute(FINISH, row)
            for at in times:
                self.latencies["end_to_end"].add(time.time() - at)
            self.count("completed", len(times))

        self.connected(work)

    def waiting(self) -> int:
        """Return the number of this replica's jobs that no worker has claimed."""
        return self.counts["enqueued"] - self.counts["claimed"]

    def sample(self, before: Counter[str], seconds: float) -> None:
        metrics: dict[str, tuple[float, int]] = {}
        for name, latencies in self.latencies.items():
            for percent, value in zip((50, 95, 99), latencies.turn(0.5, 0.95, 0.99), strict=True):
                metrics[f"{name}_p{percent}_ms"] = value, WINDOW
        for name, counter in (("enqueue_rate", "enqueued"), ("completion_rate", "completed")):
            metrics[name] = (self.counts[counter] - before[counter]) / seconds, self.settings.every
        metrics |= {"queue_depth": (self.waiting(), 0), "producer_target_rate": (self.settings.rate_now(), 0)}
        head = {"t": now(), "kind": "adapter", "subject_kind": "adapter", "subject": ""}
        for metric, (value, window) in metrics.items():
            self.put(head | {"metric": metric, "value": value, "window_s": window})

    def run(self) -> None:
        descriptor = {"kind": "descriptor", "version": self.prepare(), "started_at": now()}
        self.put(MANIFEST | descriptor | {"schema_version": descriptor["version"]})
        workers = [threading.Thread(target=self.consume, args=[number]) for number in range(self.settings.workers)]
        threads = [threading.Thread(target=self.produce), threading.Thread(target=self.listen, daemon=True)]
        for thread in (*threads, *workers):
            thread.start()
        every = self.settings.every
        while True:
            before, began = self.counts.copy(), time.monotonic()
            if self.stop.wait(every - time.time() % every):
                break
            self.sample(before, time.monotonic() - began)
        for thread in (threads[0], *workers):
            thread.join()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main() -> None:
    adapter = Adapter(Settings(os.environ))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: adapter.stop.set())
    adapter.run()


if __name__ == "__main__":
    main()
