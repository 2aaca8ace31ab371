"""Rows that polling readers lose while transactions of mixed lengths write.

Several readers follow a table at the same time, and keep their positions in different ways. A row is lost if the
position of a reader passes the row before the row is committed. ``compare`` judges a reader by the rows that were
committed and the rows that it returned.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from math import fsum
from statistics import median

from inorder.connection.database import Connection, execute
from inorder.errors import InorderError, InputError
from inorder.lab.experiments.reader.readers import READERS, TABLE, ReaderPlan, all_readers, setup
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.machine import available_cores
from inorder.lab.instruments.timing import Apart
from inorder.lab.plan.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.plan.turn import Measured, Metrics, Place, Stage, Turn, every_round
from inorder.lab.report.section import Figure, Section, data_only, number, table
from inorder.lab.report.verdict import PLAIN, Bar, Step, Verdict
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.text import plural, quoted

MILLISECONDS = 1000.0
POLL_PAUSE = 0.01
QUIET = 0.5  # a reader is assumed to be finished after this number of seconds without a new row
CLOCK_ERROR = 0.005  # in seconds; a larger error would hide the usual wait of 5 to 10 ms

# The server uses the default settings, so that commits wait for the disk, and also records commit timestamps. The
# planner is forced to use indexes, because the table is never analyzed.
SETTINGS = {"track_commit_timestamp": "on"}
BY_INDEX = {"enable_seqscan": "off", "enable_bitmapscan": "off"}

TWO_CLOCKS = (
    "The wait of a row is measured by two clocks: the server's at the commit, this machine's at the delivery. The "
    "difference of the clocks is measured before and after each round; waits are left out unless the difference is "
    "known to within 5 ms."
)


@dataclass
class Reading:
    """The rows that a reader returned: for each poll with rows, the time in seconds since 1970 and the ids.

    ``held``: committed rows that the reader had not yet returned at the end, but would return later.
    """

    deliveries: list[tuple[float, list[int]]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    polls: int = 0
    longest_poll: float = 0.0


def compare(committed: Mapping[int, float], reading: Reading, waits: bool = True) -> Metrics:
    """Count the rows that a reader lost or returned twice, and measure how long rows waited after their commit.

    ``committed`` maps every row to its commit time. The wait of a row ends when it is first delivered. ``waits`` is
    False if commit and delivery were timed with clocks that cannot be compared.
    """
    times = Counter(row for _, rows in reading.deliveries for row in rows)
    if not times.keys() <= committed.keys():
        unknown = sorted(times.keys() - committed.keys())[:10]
        raise InorderError(f"delivered, but not committed in this round: {unknown}")
    first = {row: moment for moment, rows in reversed(reading.deliveries) for row in rows}
    undelivered = committed.keys() - first.keys()
    metrics: Metrics = {
        "committed": len(committed),
        "delivered": len(first),
        "held": len(undelivered & reading.held),
        "lost": len(undelivered - reading.held),
        "twice": sum(1 for count in times.values() if count > 1),
        "polls": reading.polls,
        "longest_poll_ms": MILLISECONDS * reading.longest_poll,
    }
    if waits:
        times_ms = [MILLISECONDS * (moment - committed[row]) for row, moment in first.items()] or [0.0]
        metrics |= {"longest_wait_ms": max(times_ms), "median_wait_ms": median(times_ms)}
    return metrics


class ReaderExperiment(Experiment[ReaderPlan]):
    question = "Does polling lose rows?"
    studies = ("P5",)
    order = "All readers follow the same load at the same time."
    method = "commit timestamps"
    own = OwnRun(counts=False, checkpoints=False, otherwise=TWO_CLOCKS)

    @classmethod
    def room(cls, plan: ReaderPlan) -> tuple[int, str]:
        return 2**30, "the rows of the readers"

    @classmethod
    def adapt(cls, plan: ReaderPlan, can: Capabilities) -> Adapted[ReaderPlan]:
        """Refuse a server that does not track commit timestamps, or that has too few sessions."""
        if not can.tracks_commits:
            raise InputError(
                "track_commit_timestamp is off on that server: the commit times of rows are unknown; changing this "
                "setting requires a restart"
            )
        if plan.writers + len(READERS) > can.sessions:
            raise can.too_few("too few for --writers and readers")
        return super().adapt(plan, can)

    def prepare(self) -> None:
        self.target.serve(SETTINGS)
        readers = all_readers()
        self.readers = {name: readers[name] for name in self.plan.readers}
        self.rows_before = 0
        self.held: dict[str, set[int]] = {name: set() for name in self.readers}  # rows held back in earlier rounds
        with self.connection() as connection:
            self.target.create_schema(connection)
            execute(connection, *setup(self.plan.readers))

    def connection(self) -> Connection:
        return self.target.connect(**BY_INDEX)

    def stages(self) -> list[Stage]:
        label = f"{self.plan.writers} writers, {self.plan.seconds} s"
        places = tuple(Place(READ, name, 0, label) for name in self.plan.readers)
        return [Stage(every_round([Turn(places, self.measure, weight=self.plan.seconds)]), self.plan.rounds)]

    def measure(self, seed: int) -> Iterator[Measured]:
        """Read while pgbench writes, and continue until no new rows arrive.

        If the writers are interrupted, yield the figures of the shorter load, then raise the interrupt again.
        """
        interrupt: BaseException | None = None
        writing, clocks = threading.Event(), self.target.clock()
        writing.set()
        with ThreadPoolExecutor(len(self.readers)) as pool:
            jobs = {name: pool.submit(self.follow, name, writing) for name in self.readers}
            started = time.monotonic()
            try:
                self.write(seed)
            except BaseException as error:
                interrupt = error
            seconds = time.monotonic() - started
            writing.clear()
            readings = {name: job.result() for name, job in jobs.items()}
        judgements = self.judged(readings, clocks | self.target.clock(), seconds)
        if not interrupt:
            self.progress.step(self.measuring)
            self.progress.done(f"{judgements[self.plan.readers[-1]]['committed']:,} rows committed")
        yield from map(Measured, judgements.values())
        if interrupt:
            raise interrupt

    def write(self, seed: int) -> None:
        """Run the load, and report progress each second. Return after all transactions have ended."""
        remaining = self.plan.seconds

        def second(tps: float) -> None:
            nonlocal remaining
            if remaining > 1:
                remaining -= 1
                self.progress.done()
            self.show_step(f"{tps:,.0f} transactions/s")

        self.load(seed, second)
        for _ in range(remaining - 1):
            self.progress.done()

    def load(self, seed: int, second: Callable[[float], None]) -> None:
        load = pgbench.Load(self.plan.writers, available_cores(), self.plan.seconds)
        with as_file(files("inorder.lab").joinpath("workloads", "writers.sql")) as script:
            self.target.pgbench(script, load, seed, second)

    def judged(self, readings: Mapping[str, Reading], clocks: Apart, seconds: float) -> dict[str, Metrics]:
        """Return the metrics of each reader. Leave out waits if the clock difference is not known accurately."""
        committed = {row: moment - clocks.seconds for row, moment in self.committed().items()}
        more = {"seconds": seconds} | ({"clock_error_ms": MILLISECONDS * clocks.error} if clocks.error else {})
        for name, reading in readings.items():
            self.held[name] |= reading.held
        waits = clocks.error <= CLOCK_ERROR
        return {name: compare(committed, reading, waits) | more for name, reading in readings.items()}

    def follow(self, name: str, writing: threading.Event) -> Reading:
        reader = self.readers[name]
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
        query = f"SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM {TABLE} WHERE id > %s"
        with self.connection() as connection:
            rows = connection.execute(query.encode(), (self.rows_before,)).fetchall()
        moments = {int(row): float(moment) for row, moment in rows}
        self.rows_before = max(moments, default=self.rows_before)
        return moments


READ = "read"  # the only step of a round

CAPTION = (
    "lost: rows that were committed, but never delivered. twice: rows that were delivered more than once. wait: the "
    "time from a row's commit to its delivery. "
    "xmin horizon: rows below the oldest open transaction of the server."
)
NO_WAIT = "wait: left out, since the server's clock could not be compared with this machine's to within 5 ms."


milliseconds = number(lambda size: int(size < 100), "ms")


def of(metric: str) -> Callable[[Run], float | None]:
    return lambda run: run.metrics.get(metric)


FIGURES = (
    data_only("reader", lambda run: run.kind),
    Figure("reader", "How the reader keeps its position.", data="name",
           value=lambda run: READERS[run.kind]),
    data_only("round", lambda run: run.round),
    data_only("seconds", lambda run: run.metrics["seconds"]),
    data_only("held", lambda run: run.metrics["held"]),
    Figure("lost", "Rows committed after the reader's position had passed them.", number(), bar=True,
           value=of("lost")),
    Figure("twice", "Rows that were delivered more than once.", number(), value=of("twice")),
    Figure("longest\nwait", "The longest time from a row's commit to its first delivery.", milliseconds,
           "longest_wait_ms", bar=True, value=of("longest_wait_ms")),
    Figure("median\nwait", "The median time from a row's commit to its first delivery.", milliseconds,
           "median_wait_ms", value=of("median_wait_ms")),
    Figure("longest\npoll", "The longest time of one query of the reader.", milliseconds, "longest_poll_ms",
           value=of("longest_poll_ms")),
    Figure("committed", "Rows in the table at the end.", number(), value=of("committed")),
    Figure("delivered", "Committed rows that were delivered at least once.", number(), value=of("delivered")),
    Figure("polls", "Queries of the reader.", number(), terminal=False, value=of("polls")),
)  # fmt: skip


def caption(runs: Sequence[Run]) -> str:
    words = [CAPTION] if any("longest_wait_ms" in run.metrics for run in runs) else [CAPTION, NO_WAIT]
    words += [
        f"{READERS[run.kind]}: a transaction that is open elsewhere held back {plural(round(held), 'row')}."
        for run in runs if (held := run.metrics.get("held", 0))
    ]  # fmt: skip
    return " ".join(words)


def round_section(runs: Sequence[Run], plan: ReaderPlan) -> Section:
    load_seconds = min(runs[0].metrics["seconds"], float(plan.seconds))  # an interrupt shortens the load
    of_rounds = f", round {runs[0].round} of {plan.rounds}" if plan.rounds > 1 else ""
    title = f"Losing rows: {plan.writers} writers, {load_seconds:.0f} s{of_rounds}"
    return table(f"round_{runs[0].round}", title, FIGURES, runs, caption(runs))


def sections(result: Result, plan: ReaderPlan) -> list[Section]:
    numbers = sorted({run.round for run in result.select(READ)})
    runs = [run for name in READERS for run in result.select(READ, name)]
    return [round_section([run for run in runs if run.round == number], plan) for number in numbers]


LOSING = "series-6"
STEPS = (
    Step("A new table that a feed reads: xact (transaction-ordered)",
         "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body jsonb);", "docs/feed.md"),
    Step("An existing table that a feed reads", "inorder prepare events", "docs/feed-tables.md"),
    Step("The feed, which loses no row", "SELECT feed_create('reader', 'events');", "docs/feed.md"),
)  # fmt: skip
WAIT, LOSSLESS = "longest_wait_ms", ("horizon", "feed")
SHOWN = ("id", "created", "feed")  # the two usual ways to poll, and a feed, which loses no rows


def longest_waits(runs: Mapping[str, Sequence[Run]]) -> str:
    waits = {name: [run.metrics[WAIT] for run in runs.get(name, ()) if WAIT in run.metrics] for name in LOSSLESS}
    words = [f"{milliseconds(max(times))} with {quoted(READERS[name])}" for name, times in waits.items() if times]
    return f" The longest wait of a row was {' and '.join(words)}." if len(words) == len(LOSSLESS) else ""


def verdicts(result: Result, _plan: ReaderPlan, question: str) -> list[Verdict]:
    runs = {name: runs for name in READERS if (runs := result.select(READ, name))}
    if not runs:
        return []
    lost = {name: int(sum(run.metrics["lost"] for run in its_runs)) for name, its_runs in runs.items()}
    committed = sum(run.metrics["committed"] for run in next(iter(runs.values())))
    shown = [name for name in SHOWN if name in lost] or list(lost)[:3]
    *losses, last = [f"{quoted(READERS[name])} lost {lost[name]:,}" for name in shown]
    losses_text = f"{', '.join(losses)}, and {last}" if losses else last
    seconds = fsum(run.metrics["seconds"] for run in next(iter(runs.values())))
    waits = longest_waits(runs)
    loses = any(lost.values())
    return [
        Verdict(
            question,
            "Yes" if loses else "Not seen",
            f"Of {committed:,.0f} committed rows, {losses_text}.{waits}",
            f"{result.plan['writers']} writers inserted rows for {seconds:.0f} s.",
            "Each row was checked." if loses else "A loss is still possible: repeat with --seconds 60.",
            [Bar(READERS[name], lost[name], f"{lost[name]:,}", LOSING if lost[name] else PLAIN)
             for name in shown],
            STEPS,
        )
    ]  # fmt: skip
