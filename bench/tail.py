"""Speed of inorder tail when it writes to a file in each format, compared with COPY or ADBC for the same rows.

Each program runs in its own process, and its time includes startup. The startup time is also measured separately, with
runs that find no rows.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inorder.connection.database import Connection, execute
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Metric, Row, by_round, estimated, median, median_of, ratios_of, to
from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, Value, figures, number, table, to_base
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.log_tables import in_transactions
from inorder.lab.targets.server_settings import fill_settings

JSON, CSV, PARQUET = "json", "csv", "parquet"
AS_STORED, SAME_ORDER = "as_stored", "same_order"  # baselines: the same rows, read without inorder

TABLE = f"{SCHEMA}.events"
TRANSACTION = 100  # rows per transaction

# Rows are short, only 60 bytes, because the cost per row matters most for short rows.
DEFINITION = f"""CREATE TABLE {TABLE} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), n int NOT NULL,
    body text NOT NULL DEFAULT 'twenty bytes of text')"""
ARRIVE = f"INSERT INTO {TABLE} (n) SELECT generate_series(1, {TRANSACTION})"
NO_ROWS = f"(SELECT * FROM {TABLE} LIMIT 0)"
# inorder tail reads rows in key order, using the index. SAME_ORDER reads them in this order, too. AS_STORED reads the
# table sequentially, and so shows the cost of the key order.
ROWS = {AS_STORED: TABLE, SAME_ORDER: f"(SELECT * FROM {TABLE} ORDER BY id)"}
ADBC = str(Path(__file__).with_name("programs") / "adbc.py")


@dataclass(frozen=True)
class Format:
    """The program and query of a format's baseline, and the target for the relative speed of inorder tail."""

    program: str
    query: str
    target: float
    options: tuple[str, ...] = ()  # further options of inorder tail


FORMATS = {
    JSON: Format("COPY with psql", "COPY (SELECT row_to_json(e) FROM {rows} AS e) TO STDOUT", 0.9),
    CSV: Format("COPY with psql", "COPY {rows} TO STDOUT (FORMAT csv, HEADER)", 0.8),
    PARQUET: Format("ADBC and pyarrow", "SELECT * FROM {rows} AS e", 0.8,
                    ("--directory", "{files}/parquet", "--target-file-size", "64MB")),
}  # fmt: skip
SMALL_ROWS, SMALL_TARGET = 1000, 0.6  # rows per batch, and the target for batches of this size

# Disk space per row for the table and its index, the WAL, and the largest output file.
BYTES_PER_ROW = 420


@dataclass(frozen=True, kw_only=True)
class TailPlan(setting.Plan):
    rows: int = setting.count("Rows of the backlog.", 1000, 10**9, 2_000_000, quick=300_000, full=20_000_000)
    batch_rows: tuple[int, ...] = setting.counts(
        "Values of --batch-rows of tail, comma-separated.", 1, 10**9, (10_000, 1000)
    )
    rounds: int = setting.rounds(6, quick=3, full=9)

    @property
    def transactions(self) -> int:
        return max(1, self.rows // TRANSACTION)

    @property
    def written(self) -> int:
        return self.transactions * TRANSACTION


def kind_of(batch_rows: int) -> str:
    """Return the name for measurements of inorder tail with this batch size.

    >>> kind_of(1000)
    'tail_1000'
    """
    return f"tail_{batch_rows}"


def label_of(step: str, kind: str) -> str:
    """Return the label of a measured program in the report.

    >>> label_of("json", "tail_10000"), label_of("parquet", "same_order")
    ('tail, batches of 10,000', 'ADBC and pyarrow in the same order')
    """
    if kind in ROWS:
        return f"{FORMATS[step].program} {'in the same order' if kind == SAME_ORDER else 'as stored'}"
    return f"tail, batches of {int(kind.removeprefix('tail_')):,}"


def kinds_of(plan: TailPlan) -> list[str]:
    """Return the names of all programs that a plan measures.

    >>> kinds_of(TailPlan(batch_rows=(50,)))
    ['as_stored', 'same_order', 'tail_50']
    """
    return [*ROWS, *map(kind_of, plan.batch_rows)]


def start_of(step: str) -> str:
    """Return the name of the step that measures the startup time."""
    return f"{step}_start"


class TailExperiment(Experiment[TailPlan]):
    question = "Is inorder tail slower than COPY?"
    programs = ("psql",)
    alone = True
    method = "wall-clock and CPU time"
    session: Connection

    @classmethod
    def room(cls, plan: TailPlan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW + 2**20, f"{plan.rows:,} rows, and a file with these rows"

    def prepare(self) -> None:
        self.target.serve(fill_settings())
        self.session = self.open_session()
        self.target.create_schema(self.session)
        self.files = self.target.file_folder("output")

    def fill(self) -> None:
        self.progress.step(f"Filling a table to {self.plan.written:,} rows")
        execute(self.session, DEFINITION, f"SELECT feed_enable('{TABLE}')")
        execute(self.session, in_transactions(self.plan.transactions, ARRIVE), f"VACUUM ANALYZE {TABLE}")
        self.target.checkpoint(self.session)

    def stages(self) -> list[Stage]:
        rows = self.plan.written
        turns = [
            single(step, kind, rows, f"{step}, {label_of(step, kind)}", partial(self.write, step, kind))
            for step in FORMATS for kind in kinds_of(self.plan)
        ]  # fmt: skip
        starts = [
            single(start_of(step), kind, 0, f"{step}, start of {label_of(step, kind)}",
                   partial(self.find_nothing, step, kind))
            for step in FORMATS for kind in (AS_STORED, kind_of(self.plan.batch_rows[0]))
        ]  # fmt: skip
        return [Stage(every_round([*turns, *starts]), self.plan.rounds, begin=self.fill, warm_up=True)]

    def write(self, step: str, kind: str, _seed: int) -> Metrics:
        """Write all rows to a new file. Raise InorderError if a JSON or CSV file has a wrong number of lines."""
        with self.emptied():
            metrics = self.timed(self.without(step, ROWS[kind]) if kind in ROWS else self.tail(step, kind))
            metrics |= {"bytes": sum(file.stat().st_size for file in self.written())}
            expected = {JSON: self.plan.written, CSV: self.plan.written + 1}.get(step)
            if expected is not None and (lines := lines_of(self.files / "rows")) != expected:
                raise InorderError(f"{label_of(step, kind)}: {lines:,} lines instead of {expected:,}")
            return metrics

    def find_nothing(self, step: str, kind: str, _seed: int) -> Metrics:
        """Measure only the startup time, with a run that finds no rows."""
        with self.emptied():
            if kind in ROWS:
                return self.timed(self.without(step, NO_ROWS))
            self.timed(self.tail(step, kind, "--start", "now"))
            return self.timed(self.tail(step, kind))

    def written(self) -> Iterator[Path]:
        return (file for file in self.files.rglob("*") if file.name != "position" and file.is_file())

    @contextmanager
    def emptied(self) -> Iterator[None]:
        try:
            yield
        finally:
            shutil.rmtree(self.files / "parquet", ignore_errors=True)
            for file in self.files.iterdir():
                file.unlink()

    def timed(self, command: Sequence[str]) -> Metrics:
        before = self.target.ended_cpu(self.session)
        metrics = timed_command(command, self.target.environment(), self.files / "rows")
        after = self.target.ended_cpu(self.session)
        if before is None or after is None:
            return metrics
        server = after - before
        return metrics | {"server_cpu_seconds": server, "cpu_seconds": server + metrics["client_cpu_seconds"]}

    def without(self, step: str, rows: str) -> list[str]:
        query = FORMATS[step].query.format(rows=rows)
        if step == PARQUET:
            return [sys.executable, ADBC, query]
        return [str(self.target.program("psql")), "-XqAtc", query]

    def tail(self, step: str, kind: str, *start: str) -> list[str]:
        options = (option.format(files=self.files) for option in FORMATS[step].options)
        return [
            sys.executable, "-m", "inorder", "tail", TABLE, "--position", str(self.files / "position"),
            "--format", step, "--batch-rows", kind.removeprefix("tail_"), *options, *start,
        ]  # fmt: skip


def timed_command(command: Sequence[str], environment: Mapping[str, str], output: Path) -> dict[str, float]:
    """Run a command that appends to a file, and return its wall-clock and CPU seconds.

    If this call is interrupted, the command is killed.
    """
    started = time.perf_counter()
    with output.open("ab") as file, subprocess.Popen(
        list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            assert process.stderr
            message = process.stderr.read()  # returns when the program exits: only the program has this pipe
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            raise
    seconds = time.perf_counter() - started
    if process.returncode:
        words = message.decode(errors="replace").strip()
        raise InorderError(f"{Path(command[0]).name} failed with exit code {process.returncode}: {words}")
    return {"seconds": seconds, "client_cpu_seconds": usage.ru_utime + usage.ru_stime}


def lines_of(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))


def speed_of(run: Run) -> float:
    return run.rows / run.metrics["seconds"]


def micros(metric: str) -> Metric:
    return lambda run: 1e6 * run.metrics[metric] / run.rows if metric in run.metrics else None


def target_of(row: Row) -> Value:
    if row.kind in ROWS:
        return None
    is_small = row.kind == kind_of(SMALL_ROWS)
    return f"{SMALL_TARGET if is_small else FORMATS[row.step].target:g}"


def rate(metric: str) -> Metric:
    return lambda run: 1 / run.metrics[metric] if run.metrics.get(metric) else None


def work_of(result: Result, step: str, kind: str) -> dict[int, float]:
    """Return the time of each round, minus the startup time measured in the same round."""
    starts = {
        run.round: run.metrics["seconds"]
        for run in result.select(start_of(step)) if (run.kind in ROWS) == (kind in ROWS)
    }  # fmt: skip
    all_of = by_round(result, step, kind, "seconds")
    return {n: all_of[n] - starts[n] for n in sorted(all_of.keys() & starts.keys()) if all_of[n] > starts[n]}


def speeds(result: Result, step: str, kind: str, base: str) -> dict[int, float]:
    """Return the speed relative to ``base`` in each round, without startup. Return no rounds for the base itself."""
    seconds, base_seconds = work_of(result, step, kind), work_of(result, step, base)
    return {} if kind == base else {n: base_seconds[n] / seconds[n] for n in seconds.keys() & base_seconds.keys()}


def speed_to(base: str) -> Callable[[Row], Value]:
    return lambda row: estimated(speeds(row.result, row.step, row.kind, base).values())


FIGURES = (
    Figure("reader", "inorder tail with its --batch-rows, or a baseline: COPY with psql, or ADBC, in physical order or "
           "in key order.", value=lambda row: label_of(row.step, row.kind)),
    Figure("rows/s", "Rows per wall-clock second, including startup; median of the rounds.", number(),
           "rows_per_second", bar=True, value=median(speed_of)),
    Figure("to same order", "Speed relative to reading the same rows in the same order without inorder, in the same "
           "round; both speeds exclude startup.", to_base, "to_same_order", value=speed_to(SAME_ORDER)),
    Figure("target", "Target for this ratio; missing it is not an error.", value=target_of),
    Figure("to as stored", "Speed relative to reading the table in the order in which it is stored; both speeds "
           "exclude startup.", to_base, "to_as_stored", value=speed_to(AS_STORED)),
    Figure("CPU µs", "CPU µs of client and server per row.", figures, "cpu_us", bar=True,
           value=median(micros("cpu_seconds"))),
    Figure("server", "CPU µs of the server per row.", figures, "server_cpu_us",
           value=median(micros("server_cpu_seconds"))),
    Figure("server to same order", "The server's CPU time for the same rows in the same order without inorder, divided "
           "by the server's CPU time for this reader, in the same round.", to_base, "server_to_same_order",
           value=to(SAME_ORDER, rate("server_cpu_seconds"))),
    Figure("server to as stored", "The same ratio for the table in the order in which it is stored.", to_base,
           "server_to_as_stored", value=to(AS_STORED, rate("server_cpu_seconds"))),
)  # fmt: skip


def section_of(result: Result, plan: TailPlan, step: str) -> Section:
    kinds = [kind for kind in kinds_of(plan) if result.select(step, kind)]
    title = f"{plan.written:,} rows of 60 bytes into a file, as {step.upper()}"
    query = FORMATS[step].query.format(rows=ROWS[SAME_ORDER])
    return table(
        f"tail_{step}",
        title,
        FIGURES,
        [Row(result, step, kind) for kind in kinds],
        f"{label_of(step, SAME_ORDER)}: {query}. {start_text(result, plan, step)}",
    )


def start_text(result: Result, plan: TailPlan, step: str) -> str:
    start = median_of(result, start_of(step), kind_of(plan.batch_rows[0]), "seconds")
    return f"A run of tail that finds nothing new takes {start.median:.2f} s." if start else ""


def sections(result: Result, plan: TailPlan) -> Sequence[Section]:
    return [section_of(result, plan, step) for step in FORMATS if result.select(step)]


def verdicts(result: Result, plan: TailPlan, question: str) -> Sequence[Verdict]:
    kind = kind_of(max(plan.batch_rows))
    compared = [
        comparison
        for step in FORMATS
        for comparison in (
            Compared(f"speed as {step.upper()}", label_of(step, SAME_ORDER),
                     speeds(result, step, kind, SAME_ORDER), True),
            Compared(f"CPU time as {step.upper()}", label_of(step, SAME_ORDER),
                     ratios_of(result, step, kind, SAME_ORDER, "cpu_seconds")),
        )
    ]  # fmt: skip
    shown = ((label_of(JSON, kind), median_of(result, JSON, kind, speed_of, scale=1e-3), PLAIN)
             for kind in (SAME_ORDER, *map(kind_of, plan.batch_rows[:2])))  # fmt: skip
    holds = (
        f"{plan.written:,} rows of 60 bytes, which are in memory, are written to a file; startup time is "
        f"subtracted. {start_text(result, plan, JSON)}"
    )
    return costs(question, compared, holds, bars_of(shown, number(0, "thousand rows/s as JSON")))
