"""Cost of a feed and an exact count: for writers, for readers, and of single calls on a large table.

Writers and readers are measured in shuffled order. The queries then run twice in each round, for either form of
table: after many rows arrived while one transaction was open, which still is; and after as many arrived without.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from statistics import median
from typing import ClassVar

import psycopg

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab import log_tables
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.feed import report, tables
from inorder.lab.experiments.feed.tables import FeedPlan, question
from inorder.lab.instruments.machine import available_cores
from inorder.lab.instruments.timing import Prepared
from inorder.lab.keys import SCHEMA
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.server_settings import fill_settings
from inorder.lab.turn import Measured, Metrics, Place, Stage, Turn, every_round, seed_of, single

FILL_TRANSACTION = 100  # rows of one transaction while the tables are filled
NEW_TRANSACTION = 10  # and afterwards
WRITTEN_TABLE = f"{SCHEMA}.written"

# Two tables of 256 bytes a row with their indexes, what arrives later, and the WAL kept of it.
BYTES_PER_ROW = 1200


class FeedExperiment(Experiment[FeedPlan]):
    question = "Does a feed cost writers?"
    studies = ("P5",)
    programs = ()
    alone = True
    method = "CPU time and latency"
    Plan: ClassVar = FeedPlan
    reports: ClassVar = report
    session: Connection
    holder: Connection | None = None

    @classmethod
    def room(cls, plan: FeedPlan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW, f"{plan.rows:,} rows of two tables"

    # --- the server and its tables --------------------------------------------

    def prepare(self) -> None:
        self.target.serve(fill_settings())
        self.session = self.open_session()
        self.target.create_schema(self.session)
        # The first transaction of the rows that are read, and of those that came last.
        self.read_from = self.new_from = "0"
        self.since = dict.fromkeys(tables.FORMS, 0)  # rows since the last fold

    def close(self) -> None:
        with suppress(psycopg.Error):
            if self.holder:
                self.holder.close()
        super().close()

    def execute(self, *statements: str) -> None:
        execute(self.session, *statements)

    def value(self, query: str) -> str:
        return str(one_row(self.session, query)[0])

    def check(self, what: str, query: str, expected: int) -> None:
        if self.value(query) != str(expected):
            raise InorderError(f"{what}: {self.value(query)} rows instead of {expected:,}")

    def fill(self) -> None:
        """Both forms with all their rows. The plain table has twice those that are read, so that its index is used."""
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
        """Rows in transactions of so many, from one session a core; a last, smaller one brings the rest."""
        workers = available_cores()
        transactions, rest = divmod(rows, each)
        calls = [(transactions // workers + (n < transactions % workers), each) for n in range(workers)] + [(1, rest)]
        self.target.execute_all(
            [
                log_tables.in_transactions(amount, log_tables.insert(tables.log_table(kind), size))
                for amount, size in calls if amount * size
                for kind in kinds
            ]
        )  # fmt: skip
        if tables.BRIN in kinds:  # autovacuum would, which is off
            self.execute(f"SELECT brin_summarize_new_values('{tables.log_table(tables.BRIN)}_xact_idx')")

    # --- what is measured -----------------------------------------------------

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
        each = 1 if step == tables.SINGLE else BATCH_ROWS
        self.execute(*form.statements(WRITTEN_TABLE))
        if form.guarded:
            self.execute(f"SELECT feed_enable('{WRITTEN_TABLE}')")
        self.target.checkpoint(self.session)
        with Prepared(self.session, log_tables.insert(WRITTEN_TABLE, each)) as insert:
            metrics = self.target.timed(self.session, lambda: insert.repeat(rows // each))
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
        """Set a feed to where all transactions are read that have ended and come before this one."""
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
        """The open transaction has written to both tables: it holds back its own rows, and must nothing else."""
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
            self.let_arrive_since_fold(form, rows)
        set_back = (lambda: self.seek(form, self.new_from)) if step == tables.NEW else (lambda: None)
        with Prepared(self.session, question(step, form, rows)) as ask:
            seconds = ask.latencies(tables.QUERIES[step].calls, set_back)
        right = (
            str(rows)
            if step in (tables.IDLE, tables.PIECE, tables.NEW)
            else self.value(question(tables.OTHER_COUNT[step], form, 0))
        )
        if ask.answer != right:
            raise InorderError(f"{ask.statement}: {ask.answer} instead of {right}")
        return {"seconds": median(seconds), "calls": len(seconds)}

    def let_arrive_since_fold(self, form: str, rows: int) -> None:
        if rows == 0:
            self.execute(f"SELECT exact_count_fold('{tables.log_table(form)}')")
        else:
            self.arrive(rows - self.since[form], NEW_TRANSACTION, form)
        self.since[form] = rows
