"""Delay between the commit of a row and its delivery by a feed, and CPU time of a reader that waits for rows.

``feed_wait`` is compared with polling at several intervals, both under a load with a fixed commit rate and without
load.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Row, median, median_of, ratios_of
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.machine import available_cores
from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, figures, number, table
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment

LOADED, IDLE = "loaded", "idle"
WAIT = "wait"
TABLE, FEED = f"{SCHEMA}.signals", "inorder lab delivery"
QUIET = 1.0  # time in seconds for the reader to read the last rows after the load
TARGETS_MS = {"p50_ms": 5, "p99_ms": 25}
MOST_IDLE_PERCENT = 1
LOOKS_MS = 5  # interval at which feed_wait checks the transaction counter

READ = f"SELECT n FROM feed_read('{FEED}', null::{TABLE}, 10000)".encode()
WAITING = f"SELECT feed_wait('{FEED}')".encode()
MOMENTS = f"SELECT n, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM {TABLE} WHERE n > %s".encode()


@dataclass(frozen=True, kw_only=True)
class DeliveryPlan(setting.Plan):
    rate: int = setting.count("Commits a second, each of one row.", 1, 10**5, 1000)
    writers: int = setting.count("Number of pgbench sessions.", 1, 100, 4)
    intervals: tuple[float, ...] = setting.durations("Polling intervals.", (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1))
    seconds: int = setting.count("Seconds of each measurement.", 1, 300, 5, quick=2, full=20, metavar=setting.SECONDS)
    rounds: int = setting.rounds(6, quick=3, full=9)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The waiting methods: ``feed_wait``, and polling at each interval.

        >>> DeliveryPlan(intervals=(0.005,)).kinds
        ('wait', 'poll_5')
        """
        return (WAIT, *map(kind_of, self.intervals))


def kind_of(interval: float) -> str:
    """Return the name for measurements of polling at this interval.

    >>> kind_of(0.0005)
    'poll_0.5'
    """
    return f"poll_{1000 * interval:g}"


def label_of(kind: str) -> str:
    """Return the label of a waiting method in the report.

    >>> label_of("wait"), label_of("poll_5")
    ('feed_wait', 'every 5 ms')
    """
    return "feed_wait" if kind == WAIT else f"every {kind.removeprefix('poll_')} ms"


def pause_of(kind: str, session: Connection) -> Callable[[], object]:
    if kind == WAIT:
        return lambda: session.execute(WAITING)
    return partial(time.sleep, float(kind.removeprefix("poll_")) / 1000)


@dataclass
class Followed:
    """A reader of a feed, which records the time and the rows of each delivery, and counts its reads and CPU time."""

    deliveries: list[tuple[float, list[int]]] = field(default_factory=list)
    reads: int = 0
    cpu_seconds: float = 0.0

    def follow(self, session: Connection, pause: Callable[[], object], stopped: threading.Event) -> None:
        """Read and wait alternately until ``stopped`` is set."""
        before = time.thread_time()
        while not stopped.is_set():
            rows = [int(str(n)) for (n,) in session.execute(READ).fetchall()]
            if rows:
                self.deliveries.append((time.time(), rows))
            self.reads += 1
            pause()
        self.cpu_seconds = time.thread_time() - before


def delays_ms(committed: Mapping[int, float], deliveries: Sequence[tuple[float, Sequence[int]]]) -> list[float]:
    """Return the delay of each row from commit to delivery.

    Raise InorderError unless each row was delivered exactly once.

    >>> delays_ms({1: 10.0, 2: 10.5}, [(10.5, [1]), (11.0, [2])])
    [500.0, 500.0]
    """
    delivered = [row for _, rows in deliveries for row in rows]
    if sorted(delivered) != sorted(committed):
        raise InorderError(f"{len(delivered):,} rows were delivered, not the {len(committed):,} committed rows")
    return [1000 * (moment - committed[row]) for moment, rows in deliveries for row in rows]


class DeliveryExperiment(Experiment[DeliveryPlan]):
    question = "Is a row delivered later by feed_wait than by polling?"
    alone = True
    method = "commit timestamps and CPU time"
    session: Connection

    @classmethod
    def room(cls, plan: DeliveryPlan) -> tuple[int, str]:
        rows = plan.rate * plan.seconds * plan.rounds * len(plan.kinds)
        return rows * 300 + 2**24, f"{rows:,} rows"

    def prepare(self) -> None:
        self.target.serve({"track_commit_timestamp": "on", "max_connections": str(self.plan.writers + 20)})
        self.session = self.open_session()
        self.target.create_schema(self.session)
        columns = "id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint GENERATED ALWAYS AS IDENTITY UNIQUE"
        execute(self.session, f"CREATE TABLE {TABLE} ({columns})", f"SELECT feed_create('{FEED}', '{TABLE}')")
        self.script = self.target.folder / "delivery.sql"
        self.script.write_text(f"INSERT INTO {TABLE} DEFAULT VALUES;\n", encoding="utf-8")

    def stages(self) -> list[Stage]:
        turns = [
            single(step, kind, 0, f"{label_of(kind)}, {step}", partial(measure, kind))
            for kind in self.plan.kinds
            for step, measure in ((LOADED, self.load), (IDLE, self.idle))
        ]
        return [Stage(every_round(turns), self.plan.rounds)]

    def outcome(self, metrics: Metrics) -> str:
        if "p99_ms" in metrics:
            return f"p50 {metrics['p50_ms']:.1f} ms, p99 {metrics['p99_ms']:.1f} ms"
        return f"{metrics['server_percent']:.2f} % of a core"

    @contextmanager
    def following(self, kind: str, metrics: Metrics) -> Iterator[Followed]:
        """Run a reader during the block. After the block, the reader has a second to read the last rows."""
        execute(self.session, f"SELECT feed_seek('{FEED}', 'now')")
        stopped, reader = threading.Event(), Followed()
        with self.target.connect() as session, ThreadPoolExecutor(1) as thread:
            pause = pause_of(kind, session)
            for _ in range(2):  # the first calls in a session include planning
                session.execute(READ)
                pause()
            job = thread.submit(self.target.timed, session, partial(reader.follow, session, pause, stopped))
            try:
                yield reader
                time.sleep(QUIET)
            finally:
                stopped.set()
            done = job.result()
        metrics["reads"] = reader.reads / done["seconds"]
        metrics["client_percent"] = 100 * reader.cpu_seconds / done["seconds"]
        metrics["server_percent"] = 100 * done["cpu_seconds"] / done["seconds"]

    def load(self, kind: str, seed: int) -> Metrics:
        (last,) = one_row(self.session, f"SELECT coalesce(max(n), 0) FROM {TABLE}")
        metrics: Metrics = {}
        with self.following(kind, metrics) as reader:
            load = pgbench.Load(self.plan.writers, available_cores(), self.plan.seconds, rate=self.plan.rate)
            done = self.target.pgbench(self.script, load, seed)
        rows = self.session.execute(MOMENTS, (last,)).fetchall()
        delays = delays_ms({int(str(n)): float(str(moment)) for n, moment in rows}, reader.deliveries)
        if not delays:
            raise InorderError(f"pgbench committed no row in {self.plan.seconds} s")
        p50, p99 = np.percentile(delays, [50, 99])
        return metrics | {"p50_ms": float(p50), "p99_ms": float(p99), "most_ms": max(delays), "tps": done.tps}

    def idle(self, kind: str, _seed: int) -> Metrics:
        metrics: Metrics = {}
        with self.following(kind, metrics):
            time.sleep(self.plan.seconds)
        return metrics


def holds_text(result: Result, plan: DeliveryPlan) -> str:
    p50, p99 = (median_of(result, LOADED, WAIT, name) for name in TARGETS_MS)
    load = f"{plan.writers} sessions commit {plan.rate:,} rows a second."
    if not p50 or not p99:
        return load
    return f"{load} With feed_wait, p50 is {p50.median:.1f} ms and p99 is {p99.median:.1f} ms."


def interval_of(kind: str) -> float:
    return float(kind.removeprefix("poll_"))


FIGURES = (
    Figure("waiting", "What the reader does between two reads: feed_wait, or sleep.",
           value=lambda row: label_of(row.kind)),
    Figure("p50 ms", "Delay of a row from commit to delivery: median of a measurement, then median of the rounds.",
           figures, "p50_ms", bar=True, value=median("p50_ms")),
    Figure("p99 ms", "Delay of a row from commit to delivery: 99th percentile of a measurement, then median of the "
           "rounds.", figures, "p99_ms", bar=True, value=median("p99_ms")),
    Figure("reads/s", "Reads per second under the load.", number(), "reads", value=median("reads")),
    Figure("server %", "CPU of the reader's server process under the load, percent of a core.", figures,
           "server_percent", value=median("server_percent")),
    Figure("idle %", "CPU of the reader's server process while nothing is committed, percent of a core.", figures,
           "idle_percent", value=median("server_percent", IDLE)),
    Figure("client %", "CPU of the reader, a Python thread, under the load.", figures, "client_percent",
           terminal=False, value=median("client_percent")),
    Figure("client idle %", "CPU of the reader while nothing is committed.", figures, "client_idle_percent",
           terminal=False, value=median("client_percent", IDLE)),
    Figure("TPS", "Commits per second, as pgbench counts them.", number(), "tps", value=median("tps")),
)  # fmt: skip


def sections(result: Result, plan: DeliveryPlan) -> Sequence[Section]:
    kinds = [kind for kind in plan.kinds if result.select(LOADED, kind) or result.select(IDLE, kind)]
    title = f"From commit to delivery at {plan.rate:,} commits a second, and the reader's CPU"
    return [
        table(
            "delivery", title, FIGURES, [Row(result, LOADED, kind) for kind in kinds],
            f"Targets: p50 {TARGETS_MS['p50_ms']} ms, p99 {TARGETS_MS['p99_ms']} ms, idle {MOST_IDLE_PERCENT} % "
            "of a core. Each commit waits for the disk, including those of the reader, which advance the feed.",
        )
    ]  # fmt: skip


def verdicts(result: Result, plan: DeliveryPlan, question: str) -> Sequence[Verdict]:
    base = min(plan.kinds[1:], key=lambda kind: abs(interval_of(kind) - LOOKS_MS))
    compared = [
        Compared(metric, f"a poll {label_of(base)}", ratios_of(result, step, WAIT, base, values))
        for metric, step, values in (("median delay", LOADED, "p50_ms"), ("idle CPU time", IDLE, "server_percent"))
    ]
    shown = ((label_of(kind), median_of(result, LOADED, kind, "p50_ms"), PLAIN) for kind in (WAIT, base))
    return costs(question, compared, holds_text(result, plan), bars_of(shown, number(1, "ms")))
