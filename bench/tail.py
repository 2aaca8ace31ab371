"""Speed of inorder tail into a file, as JSON, CSV and binary, beside COPY of the same table.

Both are run as from a shell, start included. Of tail that is measured alone, too: a run that finds nothing new.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inorder.connection.database import Connection, execute
from inorder.errors import InorderError
from inorder.lab import setting
from inorder.lab.analysis.figures import Metric, Row, by_round, estimated, median, median_of, ratios_of, to
from inorder.lab.experiment import Experiment
from inorder.lab.keys import SCHEMA
from inorder.lab.log_tables import in_transactions
from inorder.lab.report.section import Figure, Section, Value, figures, number, table, to_base
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, costs
from inorder.lab.results import Result, Run
from inorder.lab.server_settings import fill_settings
from inorder.lab.turn import Metrics, Stage, every_round, single

JSON, CSV, BINARY, NOTHING = "json", "csv", "binary", "nothing_new"
COPY, IN_ORDER = "copy", "copy_in_order"
READERS = {COPY: "COPY by psql", IN_ORDER: "COPY in order of the key"}

TABLE = f"{SCHEMA}.events"
TRANSACTION = 100  # rows of one

# Of 60 bytes: the shorter the rows, the more their number counts.
DEFINITION = f"""CREATE TABLE {TABLE} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), n int NOT NULL,
    body text NOT NULL DEFAULT 'twenty bytes of text')"""
ARRIVE = f"INSERT INTO {TABLE} (n) SELECT generate_series(1, {TRANSACTION})"
# tail writes rows in the order of their keys, by the index: what that alone costs shows COPY in the same order.
COPIES = {
    JSON: {
        COPY: f"COPY (SELECT row_to_json(e) FROM {TABLE} AS e) TO STDOUT",
        IN_ORDER: f"COPY (SELECT row_to_json(e) FROM {TABLE} AS e ORDER BY id) TO STDOUT",
    },
    CSV: {
        COPY: f"COPY {TABLE} TO STDOUT (FORMAT csv, HEADER)",
        IN_ORDER: f"COPY (SELECT * FROM {TABLE} ORDER BY id) TO STDOUT (FORMAT csv, HEADER)",
    },
    BINARY: {
        COPY: f"COPY {TABLE} TO STDOUT (FORMAT binary)",
        IN_ORDER: f"COPY (SELECT * FROM {TABLE} ORDER BY id) TO STDOUT (FORMAT binary)",
    },
}
TARGETS = {10_000: 0.8, 1000: 0.5}  # of the speed of COPY, by rows of a batch

# Heap and index of a row, its WAL, and the largest output.
BYTES_PER_ROW = 420


@dataclass(frozen=True, kw_only=True)
class TailPlan(setting.Plan):
    rows: int = setting.count("Rows of the backlog.", 1000, 10**9, 2_000_000, quick=300_000, full=20_000_000)
    batch_rows: tuple[int, ...] = setting.counts(
        "--batch-rows of tail, several comma-separated.", 1, 10**9, (10_000, 1000)
    )
    rounds: int = setting.rounds(6, quick=3, full=9)

    @property
    def transactions(self) -> int:
        return max(1, self.rows // TRANSACTION)

    @property
    def written(self) -> int:
        return self.transactions * TRANSACTION


def kind_of(batch_rows: int) -> str:
    """tail with batches of so many rows.

    >>> kind_of(1000)
    'tail_1000'
    """
    return f"tail_{batch_rows}"


def label_of(kind: str) -> str:
    """A kind in words.

    >>> label_of("tail_10000"), label_of("copy")
    ('tail, batches of 10,000', 'COPY by psql')
    """
    return READERS.get(kind) or f"tail, batches of {int(kind.removeprefix('tail_')):,}"


def kinds_of(plan: TailPlan) -> list[str]:
    """All of a run.

    >>> kinds_of(TailPlan(batch_rows=(50,)))
    ['copy', 'copy_in_order', 'tail_50']
    """
    return [*READERS, *map(kind_of, plan.batch_rows)]


class TailExperiment(Experiment[TailPlan]):
    question = "Is inorder tail slower than COPY?"
    programs = ("psql",)
    alone = True
    method = "wall-clock and CPU time"
    session: Connection

    @classmethod
    def room(cls, plan: TailPlan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW + 2**20, f"{plan.rows:,} rows and a file of them"

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
            single(step, kind, rows, f"{step}, {label_of(kind)}", partial(self.write, step, kind))
            for step in COPIES for kind in kinds_of(self.plan)
        ]  # fmt: skip
        idle = single(NOTHING, kind_of(self.plan.batch_rows[0]), 0, "tail, nothing new", self.find_nothing)
        return [Stage(every_round([*turns, idle]), self.plan.rounds, begin=self.fill, warm_up=True)]

    def write(self, step: str, kind: str, _seed: int) -> Metrics:
        """All rows into a new file; an error unless each is a line of it, if it has lines."""
        output, position = self.files / "rows", self.files / "position"
        command = self.copy(step, kind) if kind in READERS else self.tail(step, kind)
        try:
            found = self.timed(command)
            found |= {"bytes": output.stat().st_size}
            expected = {JSON: self.plan.written, CSV: self.plan.written + 1}.get(step)
            if expected is not None and (lines := lines_of(output)) != expected:
                raise InorderError(f"{label_of(kind)}: {lines:,} lines instead of {expected:,}")
            return found
        finally:
            output.unlink(missing_ok=True)
            position.unlink(missing_ok=True)

    def find_nothing(self, _seed: int) -> Metrics:
        kind, position = kind_of(self.plan.batch_rows[0]), self.files / "position"
        try:
            self.timed(self.tail(JSON, kind, "--start", "now"))
            return self.timed(self.tail(JSON, kind))
        finally:
            (self.files / "rows").unlink(missing_ok=True)
            position.unlink(missing_ok=True)

    def timed(self, command: Sequence[str]) -> Metrics:
        before = self.target.ended_cpu(self.session)
        found = timed_command(command, self.target.environment(), self.files / "rows")
        after = self.target.ended_cpu(self.session)
        if before is None or after is None:
            return found
        server = after - before
        return found | {"server_cpu_seconds": server, "cpu_seconds": server + found["client_cpu_seconds"]}

    def copy(self, step: str, kind: str) -> list[str]:
        return [str(self.target.program("psql")), "-XqAtc", COPIES[step][kind]]

    def tail(self, step: str, kind: str, *start: str) -> list[str]:
        return [
            sys.executable, "-m", "inorder", "tail", TABLE, "--position", str(self.files / "position"),
            "--format", step, "--batch-rows", kind.removeprefix("tail_"), *start,
        ]  # fmt: skip


def timed_command(command: Sequence[str], environment: Mapping[str, str], output: Path) -> dict[str, float]:
    """Wall-clock and CPU seconds of a command that appends to a file; it never outlives this call."""
    started = time.perf_counter()
    with output.open("ab") as file, subprocess.Popen(
        list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            assert process.stderr
            said = process.stderr.read()  # until it ends: nobody else has it
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            raise
    seconds = time.perf_counter() - started
    if process.returncode:
        words = said.decode(errors="replace").strip()
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
    target = None if row.kind in READERS else TARGETS.get(int(row.kind.removeprefix("tail_")))
    return f"{target:g}" if target else None


def rate(metric: str) -> Metric:
    return lambda run: 1 / run.metrics[metric] if run.metrics.get(metric) else None


def started(result: Result, step: str, kind: str) -> dict[int, float]:
    """The ratio of speed to COPY's without the time of a start, in each round that has all three; none of COPY."""
    if kind in READERS:
        return {}
    copied, written = (by_round(result, step, one, "seconds") for one in (COPY, kind))
    idle = {run.round: run.metrics["seconds"] for run in result.select(NOTHING)}
    rounds = copied.keys() & written.keys() & idle.keys()
    return {n: copied[n] / (written[n] - idle[n]) for n in sorted(rounds) if written[n] > idle[n]}


FIGURES = (
    Figure("reader", "COPY by psql, as the table is or in the order of its key; or inorder tail with --batch-rows.",
           value=lambda row: label_of(row.kind)),
    Figure("rows/s", "Rows in a second by the clock, start included; median of the rounds.", number(),
           "rows_per_second", bar=True, value=median(speed_of), better="less", compared="seconds"),
    Figure("vs COPY", "Ratio of that to COPY's in the same round.", to_base, "speed_ratio", value=to(COPY, speed_of)),
    Figure("target", "What was aimed at; nothing fails when it is missed.", value=target_of),
    Figure("started", "The same, without the time of a run of tail that finds nothing new in this round.", to_base,
           "started_ratio", value=lambda row: estimated(started(row.result, row.step, row.kind).values())),
    Figure("CPU µs", "CPU µs of client and server for a row.", figures, "cpu_us", bar=True,
           value=median(micros("cpu_seconds")), better="less", compared="cpu_seconds"),
    Figure("CPU vs COPY", "Ratio of COPY's CPU time to that in the same round, which shows a busy machine: "
           "client and server can work at the same time.", to_base, "cpu_ratio", value=to(COPY, rate("cpu_seconds"))),
    Figure("server", "Of these, CPU µs of the server.", figures, "server_cpu_us",
           value=median(micros("server_cpu_seconds")), better="less", compared="server_cpu_seconds"),
    Figure("server vs COPY", "Ratio of COPY's CPU time of the server to that in the same round.", to_base,
           "server_ratio", value=to(COPY, rate("server_cpu_seconds"))),
)  # fmt: skip


def section_of(result: Result, plan: TailPlan, step: str) -> Section:
    kinds = [kind for kind in kinds_of(plan) if result.select(step, kind)]
    title = f"{plan.written:,} rows of 60 bytes into a file, as {step.upper()}"
    return table(
        f"tail_{step}",
        title,
        FIGURES,
        [Row(result, step, kind) for kind in kinds],
        f"{COPIES[step][COPY]}, by psql. {idle_text(result, plan)}",
    )


def idle_text(result: Result, plan: TailPlan) -> str:
    found = median_of(result, NOTHING, kind_of(plan.batch_rows[0]), "seconds")
    return f"A run of tail that finds nothing new takes {found.median:.2f} s." if found else ""


def sections(result: Result, plan: TailPlan) -> Sequence[Section]:
    return [section_of(result, plan, step) for step in COPIES if result.select(step)]


def verdicts(result: Result, plan: TailPlan, question: str) -> Sequence[Verdict]:
    kind = kind_of(max(plan.batch_rows))
    compared = [
        one
        for step in COPIES
        for one in (
            Compared(f"speed as {step.upper()}", "COPY", ratios_of(result, step, kind, COPY, speed_of), True),
            Compared(f"CPU time as {step.upper()}", "COPY", ratios_of(result, step, kind, COPY, "cpu_seconds")),
        )
    ]
    shown = ((label_of(kind), median_of(result, JSON, kind, speed_of, scale=1e-3), PLAIN)
             for kind in (COPY, *map(kind_of, plan.batch_rows[:2])))  # fmt: skip
    holds = f"{plan.written:,} rows of 60 bytes, in memory, into a file, start included. {idle_text(result, plan)}"
    return costs(question, compared, holds, bars_of(shown, number(0, "thousand rows/s as JSON")))
