"""Throughput of several workers that share a feed, if each row needs a call of one millisecond.

The call only sleeps, as if it waited for another server. The result therefore shows the overhead of the feed, and does
not depend on the number of cores.
"""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Row, median, ratio_of, ratios_of
from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, Value, number, table, to_base
from inorder.lab.report.verdict import Compared, Verdict, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.log_tables import in_transactions
from inorder.text import plural

WORK = "work"
TABLE, FEED = f"{SCHEMA}.jobs", "inorder lab workers"
TARGET = {4: 2.5}  # number of workers -> target for the speed relative to one worker

TAKE = f"SELECT number, token FROM feed_take_batch('{FEED}', %s, %s)"
ROWS = f"SELECT id FROM feed_batch_rows('{FEED}', %s, null::{TABLE})"
FINISH = f"SELECT feed_finish_batch('{FEED}', %s, %s)"


@dataclass(frozen=True, kw_only=True)
class WorkersPlan(setting.Plan):
    workers: tuple[int, ...] = setting.counts(
        "Numbers of workers of one feed, comma-separated.", 1, 64, (1, 2, 4), full=(1, 2, 4, 8), sessions=True
    )
    rows: int = setting.count("Rows of each measurement.", 10, 10**6, 2000, quick=400, full=10_000)
    batch_rows: int = setting.count("Rows per batch.", 1, 10_000, 20)
    call_us: int = setting.count("Microseconds of the call for each row.", 1, 10**6, 1000)
    rounds: int = setting.rounds(6, quick=3, full=9)


def kind_of(workers: int) -> str:
    """Return the name for measurements with this number of workers.

    >>> kind_of(4)
    'workers_4'
    """
    return f"workers_{workers}"


class WorkersExperiment(Experiment[WorkersPlan]):
    question = "Is one worker of a feed slower than several?"
    programs = ()
    alone = True
    method = "rows a second"
    session: Connection

    @classmethod
    def room(cls, plan: WorkersPlan) -> tuple[int, str]:
        return plan.rows * 400 + 2**24, f"{plan.rows:,} rows"

    def prepare(self) -> None:
        self.target.serve({"max_connections": str(max(self.plan.workers) + 20)})
        self.session = self.open_session()
        self.target.create_schema(self.session)
        execute(
            self.session,
            f"CREATE TABLE {TABLE} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body text DEFAULT 'a job')",
            f"SELECT feed_create('{FEED}', '{TABLE}')",
            in_transactions(self.plan.rows, f"INSERT INTO {TABLE} DEFAULT VALUES"),
        )

    def stages(self) -> list[Stage]:
        turns = [
            single(WORK, kind_of(count), self.plan.rows, plural(count, "worker"), partial(self.work, count))
            for count in self.plan.workers
        ]
        return [Stage(every_round(turns), self.plan.rounds)]

    def work(self, workers: int, _seed: int) -> Metrics:
        """Let the workers process all rows. Raise InorderError unless each row was processed exactly once."""
        execute(self.session, f"SELECT feed_seek('{FEED}', 'beginning')")
        sessions = [self.target.connect() for _ in range(workers)]
        try:
            with ThreadPoolExecutor(workers) as threads:
                started = time.perf_counter()
                shares = list(threads.map(self.process, sessions, range(workers)))
                seconds = time.perf_counter() - started
        finally:
            for session in sessions:
                session.close()
        processed = Counter(row for share in shares for row in share)
        (expected,) = one_row(self.session, f"SELECT count(*) FROM {TABLE}")
        if len(processed) != expected or max(processed.values(), default=0) > 1:
            raise InorderError(
                f"{plural(workers, 'worker')} processed {len(processed):,} of {expected:,} rows, "
                f"with {sum(processed.values()) - len(processed):,} repetitions"
            )
        least = min(len(share) for share in shares)
        return {"seconds": seconds, "least_share": least / (len(processed) / workers)}

    def process(self, session: Connection, number: int) -> list[str]:
        done: list[str] = []
        while True:
            batch, token = one_row(session, TAKE, (f"worker {number}", self.plan.batch_rows))
            if batch is None:
                return done
            for (row,) in session.execute(ROWS.encode(), (batch,)).fetchall():
                time.sleep(self.plan.call_us / 1e6)
                done.append(str(row))
            session.execute(FINISH.encode(), (batch, token))


def speed_of(run: Run) -> float:
    return run.rows / run.metrics["seconds"]


def many_of(kind: str) -> int:
    return int(kind.removeprefix("workers_"))


def target_of(row: Row) -> Value:
    target = TARGET.get(many_of(row.kind))
    return f"{target:g}" if target else None


def to_fewest(row: Row) -> Value:
    return ratio_of(row.result, row.step, row.kind, kind_of(min(WorkersPlan.read(row.result.plan).workers)), speed_of)


def row_ms(run: Run) -> float:
    return 1e3 * run.metrics["seconds"] / (run.rows / many_of(run.kind))


FIGURES = (
    Figure("workers", "Sessions that take batches of one feed at once.",
           value=lambda row: plural(many_of(row.kind), "worker")),
    Figure("rows/s", "Rows per second, median of the rounds.", number(), "rows_per_second", bar=True,
           value=median(speed_of)),
    Figure("to the fewest", "Ratio to the speed of the fewest workers in the same round.", to_base, "ratio",
           value=to_fewest),
    Figure("target", "Target for the ratio to one worker; missing it is not an error.", value=target_of),
    Figure("ms", "Milliseconds that one worker takes for a row, including processing.", number(3), "row_ms",
           value=median(row_ms)),
    Figure("least", "Rows of the worker with the fewest rows, relative to an equal share.", number(2), "least_share",
           value=median("least_share")),
)  # fmt: skip


def sections(result: Result, plan: WorkersPlan) -> Sequence[Section]:
    title = f"{plan.rows:,} rows in batches of {plan.batch_rows:,}, and {plan.call_us:,} µs to process each row"
    return [
        table(
            "workers",
            title,
            FIGURES,
            [Row(result, WORK, kind_of(count)) for count in plan.workers if result.select(WORK, kind_of(count))],
            "For each batch, a worker runs feed_take_batch and feed_batch_rows, processes the rows, and runs "
            "feed_finish_batch. Each statement is a transaction.",
        )
    ]


def verdicts(result: Result, plan: WorkersPlan, question: str) -> Sequence[Verdict]:
    least, most = min(plan.workers), max(plan.workers)
    ratios = ratios_of(result, WORK, kind_of(least), kind_of(most), speed_of)
    holds = f"Processing a row takes {plan.call_us:,} µs; a batch has {plan.batch_rows:,} rows."
    return costs(question, [Compared("speed", plural(most, "worker"), ratios, speed=True)], holds)
