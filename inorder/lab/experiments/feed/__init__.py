"""Cost of a feed and an exact count: for writers, for readers, and for single calls on a large table.

Writers and readers are measured in random order. The queries then run twice in each round, on both forms of tables.
They run first while an open transaction is older than the newest rows. They run again without an open transaction,
after the same number of additional rows has been inserted.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from statistics import median as middle

import psycopg

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Row, median, median_of, ratio_of, ratios_of, to
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiments.feed import tables
from inorder.lab.experiments.feed.tables import FeedPlan, question
from inorder.lab.instruments.machine import available_cores
from inorder.lab.instruments.timing import Prepared
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Measured, Metrics, Place, Stage, Turn, every_round, seed_of, single
from inorder.lab.report.section import Figure, Section, Value, data_only, figures, number, table, to_base
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables import log_tables
from inorder.lab.tables.log_tables import BATCH_ROWS
from inorder.lab.targets.server_settings import fill_settings

FILL_TRANSACTION = 100  # rows per transaction while the tables are filled
NEW_TRANSACTION = 10  # rows per transaction afterwards
WRITTEN_TABLE = f"{SCHEMA}.written"

# Disk space per row: two tables with 256 bytes per row, their indexes, the rows that arrive later, and WAL.
BYTES_PER_ROW = 1200


class FeedExperiment(Experiment[FeedPlan]):
    question = "Does a feed cost writers CPU time?"
    studies = ("P5",)
    programs = ()
    alone = True
    method = "CPU time and latency"
    session: Connection
    holder: Connection | None = None

    @classmethod
    def room(cls, plan: FeedPlan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW, f"{plan.rows:,} rows of two tables"

    def prepare(self) -> None:
        self.target.serve(fill_settings())
        self.session = self.open_session()
        self.target.create_schema(self.session)
        # The first transaction whose rows are read, and the first transaction that inserted the newest rows.
        self.read_from = self.new_from = "0"
        self.since = dict.fromkeys(tables.FORMS, 0)  # rows inserted since the last call of exact_count_fold

    def close(self) -> None:
        with suppress(psycopg.Error):
            if self.holder:
                self.holder.close()
        super().close()

    def execute(self, *statements: str) -> None:
        execute(self.session, *statements)

    def value(self, query: str) -> str:
        return str(one_row(self.session, query)[0])

    def check(self, subject: str, query: str, expected: int) -> None:
        if self.value(query) != str(expected):
            raise InorderError(f"{subject}: {self.value(query)} rows instead of {expected:,}")

    def fill(self) -> None:
        """Fill the tables. The plain table gets twice the rows that are read, so that the planner uses its index."""
        self.progress.step(f"Filling {len(tables.FORMS)} tables to {self.plan.rows:,} rows")
        for kind in (*tables.FORMS, tables.WRITE_BASELINE):
            self.execute(*tables.WRITTEN[kind].statements(tables.log_table(kind)))
        self.arrive(self.plan.rows - self.plan.read_rows, FILL_TRANSACTION, *tables.FORMS)
        self.arrive(self.plan.read_rows, FILL_TRANSACTION, tables.WRITE_BASELINE)
        self.read_from = self.value("SELECT pg_snapshot_xmax(pg_current_snapshot())")
        self.arrive(self.plan.read_rows, FILL_TRANSACTION, *tables.FORMS, tables.WRITE_BASELINE)
        for kind in (*tables.FORMS, tables.WRITE_BASELINE):
            self.execute(f"VACUUM ANALYZE {tables.log_table(kind)}")
        for form in tables.FORMS:
            self.execute(
                f"SELECT feed_create('{form}', '{tables.log_table(form)}', 'now')",
                f"SELECT exact_count_start('{tables.log_table(form)}')",
            )

    def arrive(self, rows: int, each: int, *kinds: str) -> None:
        """Insert rows in transactions of ``each`` rows, with a session per core.

        The last transaction may be smaller.
        """
        workers = available_cores()
        transactions, remainder = divmod(rows, each)
        calls = [(transactions // workers + (n < transactions % workers), each) for n in range(workers)]
        calls.append((1, remainder))
        self.target.execute_all(
            [
                log_tables.in_transactions(amount, log_tables.insert(tables.log_table(kind), size))
                for amount, size in calls if amount * size
                for kind in kinds
            ]
        )  # fmt: skip

    def stages(self) -> list[Stage]:
        turns = [
            single(step, kind, self.plan.written[step], f"{form.label}, {words}", partial(self.write, step, kind))
            for step, words in tables.WRITES.items() for kind, form in tables.WRITTEN.items()
        ]  # fmt: skip
        turns += [
            single(step, kind, self.plan.read_rows, f"{reader}, {words}", partial(self.read, step, kind))
            for step, words in tables.SUMMARIES.items() for kind, reader in tables.READERS.items()
        ]  # fmt: skip
        return [
            Stage(every_round(turns), self.plan.rounds, begin=self.fill, warm_up=True),
            Stage(lambda number: [self.query_turn(number)], self.plan.rounds),
        ]

    def outcome(self, metrics: Metrics) -> str:
        return f"{1000 * metrics['seconds']:.3f} ms" if "calls" in metrics else ""

    def write(self, step: str, kind: str, _seed: int = 0) -> Metrics:
        form, rows = tables.WRITTEN[kind], self.plan.written[step]
        statement_rows = 1 if step == tables.SINGLE else BATCH_ROWS
        self.execute(*form.statements(WRITTEN_TABLE))
        if form.guarded:
            self.execute(f"SELECT feed_enable('{WRITTEN_TABLE}')")
        self.target.checkpoint(self.session)
        with Prepared(self.session, log_tables.insert(WRITTEN_TABLE, statement_rows)) as insert:
            metrics = self.target.timed(self.session, lambda: insert.repeat(rows // statement_rows))
        self.check(f"{step} {kind}", f"SELECT count(*) FROM {WRITTEN_TABLE}", rows)
        if form.guarded:
            self.execute(f"SELECT feed_disable('{WRITTEN_TABLE}')")
        self.execute(f"DROP TABLE {WRITTEN_TABLE}")
        return metrics

    def read(self, step: str, kind: str, _seed: int = 0) -> Metrics:
        summary = tables.SUMMARY_TABLES[step]
        self.execute(f"CREATE TABLE {SCHEMA}.summary ({summary.columns})")
        form = kind.partition("_")[0]
        if form in tables.FORMS:
            self.seek(form, self.read_from)
        statement = tables.reading(summary, kind, (self.plan.read_rows, 2 * self.plan.read_rows))
        self.target.checkpoint(self.session)
        metrics = self.target.timed(self.session, lambda: self.execute(statement))
        self.check(f"{step} {kind}", f"SELECT {summary.total} FROM {SCHEMA}.summary", self.plan.read_rows)
        self.execute(f"DROP TABLE {SCHEMA}.summary")
        return metrics

    def seek(self, form: str, number: str) -> None:
        """Set a feed to the position that includes all transactions below ``number`` that have ended."""
        self.execute(f"SELECT feed_seek('{form}', ended_transactions() * '{{[0,{number})}}')")

    def query_turn(self, number: int) -> Turn:
        order = random.Random(seed_of(self.plan.seed, "queries", number))
        queries = [
            (state, form, step)
            for state in (tables.HELD, tables.ENDED)
            for form in order.sample(tables.FORMS, len(tables.FORMS)) for step in tables.QUERIES
        ]  # fmt: skip
        places = tuple(
            Place(
                step, tables.query_kind(form, state), self.plan.queried[step],
                f"{step} of {tables.WRITTEN[form].label}, transaction {state}",
            )
            for state, form, step in queries
        )  # fmt: skip

        def in_order(_seed: int) -> Iterator[Measured]:
            before = ""
            for state, form, step in queries:
                if state != before:
                    self.show_step("new rows arrive")
                    (self.hold if state == tables.HELD else self.release)()
                before = state
                yield Measured(self.time_query(step, form))

        return Turn(places, in_order)

    def hold(self) -> None:
        """Open a transaction that has written to both tables. It should delay only its own rows."""
        self.holder = self.target.connect()
        self.holder.execute("BEGIN")
        for form in tables.FORMS:
            self.holder.execute(log_tables.insert(tables.log_table(form), 1).encode())
        self.let_new_arrive()

    def release(self) -> None:
        assert self.holder is not None
        self.holder.execute("COMMIT")
        self.holder.close()
        self.holder = None
        self.let_new_arrive()

    def let_new_arrive(self) -> None:
        self.new_from = self.value("SELECT pg_snapshot_xmax(pg_current_snapshot())")
        self.arrive(self.plan.new_rows, NEW_TRANSACTION, *tables.FORMS)

    def time_query(self, step: str, form: str) -> Metrics:
        rows = self.plan.queried[step]
        if step in tables.START:
            self.execute(f"SELECT feed_seek('{form}', '{tables.START[step]}')")
        elif step in tables.SINCE_FOLD:
            if rows == 0:
                self.execute(f"SELECT exact_count_fold('{tables.log_table(form)}')")
            else:
                self.arrive(rows - self.since[form], NEW_TRANSACTION, form)
            self.since[form] = rows
        set_back = (lambda: self.seek(form, self.new_from)) if step == tables.NEW else (lambda: None)
        with Prepared(self.session, question(step, form, rows)) as prepared:
            seconds = prepared.latencies(tables.QUERIES[step].calls, set_back)
        expected = (
            str(rows)
            if step in (tables.IDLE, tables.PIECE, tables.NEW)
            else self.value(question(tables.OTHER_COUNT[step], form, 0))
        )
        if prepared.answer != expected:
            raise InorderError(f"{prepared.statement}: {prepared.answer} instead of {expected}")
        return {"seconds": middle(seconds), "calls": len(seconds)}


# Targets, as ratios to the baseline.
GUARDED_TARGETS = {tables.SINGLE: 1.1, tables.BATCH: 0.95}
UNGUARDED_TARGETS = {tables.SINGLE: 1.0, tables.BATCH: 0.9}
READ_TARGET = 1.1

CPU, WALL = "cpu_seconds", "seconds"
FORM_LABELS = {tables.UUID: "uuid", tables.NUMBER: "xact"}

SURE = f"Median of the rounds with its interval; with fewer than {LEAST_ROUNDS} rounds, with the range."


def micros_a_row(run: Run) -> float:
    return 1e6 * run.metrics[CPU] / run.rows


def milliseconds(run: Run) -> float:
    return 1e3 * run.metrics[WALL]


def target_text(*targets: float | None) -> str:
    return " / ".join(f"{target:g}" for target in targets if target is not None)


query_text = number(lambda size: 3 if size < 10 else 1, interval=True)  # milliseconds of a query


def ratio_column(base: str, data: str, value: Callable[[Row], Value]) -> Figure:
    return Figure("ratio", f"Ratio to {base} in the same round. {SURE}", to_base, data, value=value)


def target(aim: Callable[[Row], str]) -> Figure:
    return Figure("target", "Target for tables of 20 million rows; missing it is not an error.",
                  value=aim)  # fmt: skip


WRITTEN = {step: to(tables.WRITE_BASELINE, micros_a_row, step, itself=1) for step in tables.WRITES}
READ = {metric: to(tables.READ_BASELINE, metric, itself=1) for metric in (CPU, WALL)}


def write_target(row: Row) -> str:
    targets = GUARDED_TARGETS if tables.WRITTEN[row.kind].guarded else UNGUARDED_TARGETS
    ratios = {step: written(row) for step, written in WRITTEN.items()}
    return target_text(*(targets[step] for step, value in ratios.items() if isinstance(value, Estimate)))


WRITING = (
    data_only("kind", lambda row: row.kind),
    Figure("", "The key, and whether a guard keeps the table readable by a feed.", data="label",
           value=lambda row: tables.WRITTEN[row.kind].label),
    Figure("1 row", "CPU µs of the server per row, one row per transaction.", figures, tables.SINGLE, bar=True,
           value=median(micros_a_row, tables.SINGLE)),
    ratio_column("bigserial", f"{tables.SINGLE}_ratio", WRITTEN[tables.SINGLE]),
    Figure(f"{BATCH_ROWS}", f"CPU µs of the server per row, {BATCH_ROWS} rows per statement and transaction.", figures,
           tables.BATCH, bar=True, value=median(micros_a_row, tables.BATCH)),
    ratio_column("bigserial", f"{tables.BATCH}_ratio", WRITTEN[tables.BATCH]),
    target(write_target),
)  # fmt: skip


READING = (
    data_only("kind", lambda row: row.kind),
    Figure("", "How the new rows are found.", data="label", value=lambda row: tables.READERS[row.kind]),
    Figure("CPU", "CPU seconds of the server.", figures, CPU, bar=True, value=median(CPU)),
    ratio_column("the plain query", f"{CPU}_ratio", READ[CPU]),
    Figure("wall", "Seconds by the clock.", figures, WALL, bar=True, value=median(WALL)),
    ratio_column("the plain query", f"{WALL}_ratio", READ[WALL]),
    target(lambda row: target_text(READ_TARGET if isinstance(READ[CPU](row), Estimate) else None)),
)


def count_of(row: Row) -> int:
    kinds = [tables.query_kind(row.kind, state) for state in (tables.ENDED, tables.HELD)]
    return next((run.rows for kind in kinds for run in row.result.select(row.step, kind)), 0)


def query(state: str) -> Callable[[Row], Value]:
    return lambda row: median_of(row.result, row.step, tables.query_kind(row.kind, state), milliseconds)


def held_ratio(row: Row) -> Value:
    held, ended = (tables.query_kind(row.kind, state) for state in (tables.HELD, tables.ENDED))
    return ratio_of(row.result, row.step, held, ended, milliseconds)


QUERIES = (
    data_only("step", lambda row: row.step),
    Figure("", "The query.", data="label",
           value=lambda row: tables.QUERIES[row.step].label.format(f"{count_of(row):,}")),
    data_only("rows", count_of),
    Figure("form", "The key: a uuid that contains the transaction's number, or an indexed column with the number.",
           value=lambda row: FORM_LABELS[row.kind]),
    Figure("ms", f"Milliseconds of a call with its answer, median of several calls. {SURE}", query_text, bar=True,
           value=query(tables.ENDED)),
    Figure("held: ms", f"The same time while a transaction is open. {SURE}", query_text, "held_ms", False, bar=True,
           value=query(tables.HELD)),
    Figure("held: ratio", "Ratio of the time with an open transaction older than the newest rows to the time without "
           "such a transaction.", to_base, "held_ratio", value=held_ratio),
    target(lambda row: target_text(tables.QUERIES[row.step].target_ms)),
)  # fmt: skip


def sections(result: Result, plan: FeedPlan) -> Sequence[Section]:
    kinds = [kind for kind in tables.WRITTEN if any(result.select(step, kind) for step in tables.WRITES)]
    report_sections = [table(
        "write", "Writing a log of 256 bytes a row, CPU µs a row, and the ratio to bigserial", WRITING,
        [Row(result, "", kind) for kind in kinds],
        f"1 row, {BATCH_ROWS}: the number of rows of a statement; each statement is a transaction. Tables have a guard "
        "unless noted.",
    )]  # fmt: skip
    for step, words in tables.SUMMARIES.items():
        title = f"{plan.read_rows:,} new rows {words}: seconds, and the ratio to a plain query"
        lines = [Row(result, step, kind) for kind in tables.READERS if result.select(step, kind)]
        report_sections.append(table(step, title, READING, lines))
    lines = [Row(result, step, form) for step in tables.QUERIES for form in tables.FORMS]
    report_sections.append(table(
        "queries", f"Single queries of a table of {plan.rows:,} rows, milliseconds of a call", QUERIES,
        [line for line in lines if query(tables.ENDED)(line) or query(tables.HELD)(line)],
        "held: the time while a transaction older than the newest rows is open, and its ratio to the time without "
        "such a transaction. Each sample is the median of several calls, including the transfer of their results.",
    ))  # fmt: skip
    return [section for section in report_sections if section.rows]


def verdicts(result: Result, _plan: FeedPlan, question: str) -> list[Verdict]:
    ratios = ratios_of(result, tables.SINGLE, tables.UUID, tables.WRITE_BASELINE, micros_a_row)
    values = [(tables.WRITTEN[kind].label, median_of(result, tables.SINGLE, kind, micros_a_row), PLAIN)
              for kind in (tables.WRITE_BASELINE, tables.UUID)]  # fmt: skip
    holds = (
        "Single rows are written into a table with a uuid key, one index and a feed; nothing is flushed to the disk."
    )
    shown = bars_of(values, number(1, "µs"))
    return costs(question, [Compared("CPU time", tables.WRITTEN[tables.WRITE_BASELINE].label, ratios)], holds, shown)
