"""What the feed experiment does, done to a throw-away server."""

from contextlib import suppress
from statistics import median

import psycopg

from inorder.cluster import Cluster
from inorder.database import Connection, connect
from inorder.errors import InorderError
from inorder.lab.experiments.feed import (
    BRIN,
    COUNT,
    COUNT_FEW,
    COUNT_MANY,
    COUNT_STAR,
    FORMS,
    IDLE,
    LOOKS,
    NEW,
    PIECE,
    SINGLE,
    WRITE_BASELINE,
    FeedPlan,
)
from inorder.lab.feed_tables import (
    LOG_FORMS,
    SUMMARY_TABLES,
    WRITE_MANY,
    WRITE_ONE,
    arrivals,
    log_table,
    question,
    reading,
)
from inorder.lab.keys import SCHEMA
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.machine import available_cores
from inorder.lab.parallel import execute_all
from inorder.lab.serving import FILL_SETTINGS, fill_memory
from inorder.lab.targets.throw_away import Bench, place_of
from inorder.lab.timing import Prepared, ServerProcess

FILL_TRANSACTION = 100  # rows of one transaction while the tables are filled
NEW_TRANSACTION = 10  # and afterwards
START = {IDLE: "now", PIECE: "beginning"}  # where a feed is set before it is looked at
SINCE_FOLD = (COUNT, COUNT_FEW, COUNT_MANY)
OTHER_COUNT = dict.fromkeys(SINCE_FOLD, COUNT_STAR) | {COUNT_STAR: COUNT}  # what must say the same
WRITTEN_TABLE = f"{SCHEMA}.written"


class ServerFeedBench(Bench):
    """A FeedBench over a Cluster: one session does everything that is timed."""

    def __init__(self, cluster: Cluster, plan: FeedPlan) -> None:
        self.place = place_of(cluster)
        self.cluster = cluster
        self.plan = plan
        # CPU time is what is measured: nothing waits for the disk.
        cluster.start(FILL_SETTINGS | {"shared_buffers": f"{fill_memory() // 8192}"})
        self.connection = connect(cluster.dsn)
        self.process = ServerProcess(self.connection)
        self.holder: Connection | None = None
        # The first transaction of the rows that are read, and of those that came last.
        self.read_from = self.new_from = "0"
        self.since = dict.fromkeys(FORMS, 0)  # rows since the last fold

    def close(self) -> None:
        """End the sessions."""
        with suppress(psycopg.Error):
            if self.holder:
                self.holder.close()
            self.connection.close()

    def execute(self, *statements: str) -> None:
        """One after the other."""
        for statement in statements:
            self.connection.execute(statement.encode())

    def value(self, query: str) -> str:
        """The one value of a query, as text."""
        row = self.connection.execute(query.encode()).fetchone()
        assert row is not None
        return str(row[0])

    def check(self, what: str, query: str, expected: int) -> None:
        """An error if what was measured is not what it was thought to be."""
        if self.value(query) != str(expected):
            raise InorderError(f"{what}: {self.value(query)} rows instead of {expected:,}")

    # --- the tables -----------------------------------------------------------

    def fill(self) -> None:
        """Both forms with all their rows. The plain table has twice those that are read, so that its index is used."""
        self.execute("CREATE EXTENSION inorder", f"CREATE SCHEMA {SCHEMA}")
        for kind in (*FORMS, WRITE_BASELINE):
            self.execute(*LOG_FORMS[kind].statements(log_table(kind)), arrivals(kind))
        self.arrive(self.plan.rows - self.plan.read_rows, FILL_TRANSACTION, *FORMS)
        self.arrive(self.plan.read_rows, FILL_TRANSACTION, WRITE_BASELINE)
        self.read_from = self.value("SELECT next_transaction()")
        self.arrive(self.plan.read_rows, FILL_TRANSACTION, *FORMS, WRITE_BASELINE)
        for kind in (*FORMS, WRITE_BASELINE):
            self.execute(f"VACUUM ANALYZE {log_table(kind)}")
        for form in FORMS:
            self.execute(
                f"SELECT feed_create('{form}', '{log_table(form)}', 'now')",
                f"SELECT exact_count_start('{log_table(form)}')",
            )

    def arrive(self, rows: int, each: int, *kinds: str) -> None:
        """Rows in transactions of so many, from one session a core; a last, smaller one brings the rest."""
        workers = available_cores()
        transactions, rest = divmod(rows, each)
        calls = [(transactions // workers + (n < transactions % workers), each) for n in range(workers)] + [(1, rest)]
        execute_all(
            self.cluster.dsn,
            [
                f"CALL {SCHEMA}.arrive_{kind}({amount}, {size})"
                for amount, size in calls if amount * size
                for kind in kinds
            ],
        )  # fmt: skip
        if BRIN in kinds:  # autovacuum would, which is off
            self.execute(f"SELECT brin_summarize_new_values('{log_table(BRIN)}_xact_idx')")

    # --- writers --------------------------------------------------------------

    def write(self, step: str, kind: str) -> dict[str, float]:
        """Into a new table each time, after a checkpoint."""
        form, rows = LOG_FORMS[kind], self.plan.written[step]
        self.execute(*form.statements(WRITTEN_TABLE))
        if form.guarded:
            self.execute(f"SELECT feed_enable('{WRITTEN_TABLE}')")
        self.execute("CHECKPOINT")
        statement = (WRITE_ONE if step == SINGLE else WRITE_MANY).format(table=WRITTEN_TABLE)
        with Prepared(self.connection, statement) as insert:
            metrics = self.process.timed(lambda: insert.repeat(rows if step == SINGLE else rows // BATCH_ROWS))
        self.check(f"{step} {kind}", f"SELECT count(*) FROM {WRITTEN_TABLE}", rows)
        if form.guarded:
            self.execute(f"SELECT feed_disable('{WRITTEN_TABLE}')")
        self.execute(f"DROP TABLE {WRITTEN_TABLE}")
        return metrics

    # --- readers --------------------------------------------------------------

    def read(self, step: str, kind: str) -> dict[str, float]:
        """The same rows every time: the feed is set back before them."""
        summary = SUMMARY_TABLES[step]
        self.execute(f"CREATE TABLE {SCHEMA}.summary ({summary.columns})")
        form = kind.partition("_")[0]
        if form in FORMS:
            self.seek(form, self.read_from)
        statement = reading(summary, kind, (self.plan.read_rows, 2 * self.plan.read_rows))
        self.execute("CHECKPOINT")
        metrics = self.process.timed(lambda: self.execute(statement))
        self.check(f"{step} {kind}", f"SELECT {summary.total} FROM {SCHEMA}.summary", self.plan.read_rows)
        self.execute(f"DROP TABLE {SCHEMA}.summary")
        return metrics

    def seek(self, form: str, number: str) -> None:
        """Set a feed to where all transactions are read that have ended and come before this one."""
        self.execute(f"SELECT feed_seek('{form}', ended_transactions() * '{{[0,{number})}}')")

    # --- looks ----------------------------------------------------------------

    def hold(self) -> None:
        """The open transaction has written to both tables: it holds back its own rows, and must nothing else."""
        self.holder = connect(self.cluster.dsn)
        self.holder.execute("BEGIN")
        for form in FORMS:
            self.holder.execute(WRITE_ONE.format(table=log_table(form)).encode())
        self.let_new_arrive()

    def release(self) -> None:
        """It commits, and as much arrives again."""
        assert self.holder is not None
        self.holder.execute("COMMIT")
        self.holder.close()
        self.holder = None
        self.let_new_arrive()

    def let_new_arrive(self) -> None:
        """In both tables."""
        self.new_from = self.value("SELECT next_transaction()")
        self.arrive(self.plan.new_rows, NEW_TRANSACTION, *FORMS)

    def look(self, step: str, form: str) -> dict[str, float]:
        """The median of several calls; an error if the last of them was answered wrongly."""
        rows = self.plan.looked_at[step]
        if step in START:
            self.execute(f"SELECT feed_seek('{form}', '{START[step]}')")
        elif step in SINCE_FOLD:
            self.let_arrive_since_fold(form, rows)
        set_back = (lambda: self.seek(form, self.new_from)) if step == NEW else (lambda: None)
        with Prepared(self.connection, question(step, form, rows)) as ask:
            seconds = ask.latencies(LOOKS[step], set_back)
        right = str(rows) if step in (IDLE, PIECE, NEW) else self.value(question(OTHER_COUNT[step], form, 0))
        if ask.answer != right:
            raise InorderError(f"{ask.statement}: {ask.answer} instead of {right}")
        return {"seconds": median(seconds), "calls": len(seconds)}

    def let_arrive_since_fold(self, form: str, rows: int) -> None:
        """So many rows since the last fold, which is now for none."""
        if rows == 0:
            self.execute(f"SELECT exact_count_fold('{log_table(form)}')")
        else:
            self.arrive(rows - self.since[form], NEW_TRANSACTION, form)
        self.since[form] = rows
