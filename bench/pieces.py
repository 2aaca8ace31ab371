"""Compare the cost of the first and the last pieces when a backlog is read in pieces of equal size.

Several forms of tables are measured. For each form there are two backlogs, one written by many transactions and one
written by a single transaction. The CPU time of the server process is recorded for each piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from statistics import mean
from statistics import median as middle

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Row, estimated, median, to
from inorder.lab.instruments.timing import Prepared
from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Measured, Metrics, Stage, Turn, every_round, single
from inorder.lab.report.section import Figure, Section, figures, number, table, to_base
from inorder.lab.report.verdict import Compared, Verdict, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.log_tables import in_transactions
from inorder.lab.targets.server_settings import fill_settings

MANY, ONE, LAST = "many", "one", "last"
BACKLOGS = {MANY: "many transactions", ONE: "one transaction"}
TRANSACTION = 100  # rows per transaction in a backlog of many transactions, and in the last transaction
LOOKS = 60  # reads of the last transaction per measurement

# Each form has a label, the columns for the key and the transaction number, and the definition of a second index.
PLAIN, ORDERED = "uuid", "ordered"
NUMBERED = "k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id()"
FORMS = {
    PLAIN: ("uuid key", "id uuid PRIMARY KEY DEFAULT uuid_xact_nextval()", ""),
    ORDERED: (
        "uuid key, in the order of a column",
        "id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS IDENTITY",
        "(seq)",
    ),
    "btree": ("number, btree", NUMBERED, "(xact)"),
    "btree_key": ("number, btree with the key", NUMBERED, "(xact, k)"),
    "partial": ("number, btree on numbers above 0", NUMBERED, "(xact) WHERE xact > 0"),
}

# Disk space per row for both tables of a form, with their indexes and WAL.
BYTES_PER_ROW = 500


@dataclass(frozen=True, kw_only=True)
class PiecesPlan(setting.Plan):
    forms: tuple[str, ...] = setting.choices("Forms of table.", tuple(FORMS), label=lambda form: FORMS[form][0])
    rows: int = setting.count("Rows of each backlog.", 10_000, 10**9, 1_000_000, quick=100_000, full=10_000_000)
    piece_rows: int = setting.count("Rows per piece.", 100, 10**6, 10_000, quick=1000)
    rounds: int = setting.rounds(6, quick=3, full=6)

    @property
    def pieces(self) -> int:
        return self.rows // self.piece_rows

    @property
    def filled(self) -> int:
        return self.pieces * self.piece_rows // TRANSACTION * TRANSACTION


def table_of(step: str, form: str) -> str:
    """Return the name of the table that holds a backlog. The feed has the same name.

    >>> table_of("many", "uuid")
    'inorder_lab.many_uuid'
    """
    return f"{SCHEMA}.{step}_{form}"


class PiecesExperiment(Experiment[PiecesPlan]):
    question = "Do pieces near the end of a backlog take longer?"
    programs = ()
    alone = True
    method = "CPU time"
    session: Connection

    @classmethod
    def room(cls, plan: PiecesPlan) -> tuple[int, str]:
        return plan.rows * len(
            plan.forms
        ) * BYTES_PER_ROW + 2**20, f"{plan.rows:,} rows of {2 * len(plan.forms)} tables"

    def prepare(self) -> None:
        self.target.serve(fill_settings())
        self.session = self.open_session()
        self.target.create_schema(self.session)

    def execute(self, *statements: str) -> None:
        execute(self.session, *statements)

    def value(self, query: str) -> str:
        return str(one_row(self.session, query)[0])

    def fill(self) -> None:
        self.last: dict[str, str] = {}  # form -> number of the transaction that follows its backlogs
        for form in self.plan.forms:
            for step, words in BACKLOGS.items():
                self.progress.step(f"Filling {self.plan.filled:,} rows: {FORMS[form][0]}, {words}")
                self.fill_one(table_of(step, form), form, TRANSACTION if step == MANY else self.plan.filled)
            self.last[form] = self.value("SELECT pg_snapshot_xmax(pg_current_snapshot())")
            self.execute(insert(table_of(MANY, form), TRANSACTION))
        self.target.checkpoint(self.session)

    def fill_one(self, table: str, form: str, each: int) -> None:
        _, key, index = FORMS[form]
        order = ", order_column => 'seq'" if form == ORDERED else ""
        self.execute(
            f"CREATE TABLE {table} ({key}, body text NOT NULL DEFAULT 'twenty bytes of text')",
            *([f"CREATE INDEX ON {table} {index}"] if index else []),
            f"SELECT feed_create('{table}', '{table}'{order})",
            in_transactions(self.plan.filled // each, insert(table, each)),
            f"VACUUM ANALYZE {table}",
        )

    def stages(self) -> list[Stage]:
        turns: list[Turn] = []
        for form in self.plan.forms:
            turns += [
                single(step, form, self.plan.filled, f"{FORMS[form][0]}, {words}", partial(self.read, step, form))
                for step, words in BACKLOGS.items()
            ]
            turns.append(single(LAST, form, TRANSACTION, f"{FORMS[form][0]}, last rows", partial(self.look, form)))
        return [Stage(every_round(turns), self.plan.rounds, begin=self.fill)]

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['seconds']:.2f} s" if "pieces" in metrics else f"{1000 * metrics['seconds']:.2f} ms"

    def read(self, step: str, form: str, _seed: int) -> Measured:
        """Read each piece in its own transaction. Raise InorderError if a piece has a wrong number of rows."""
        table = table_of(step, form)
        self.execute(f"SELECT feed_seek('{table}', 'beginning')")
        calls: list[Metrics] = []
        with Prepared(self.session, read_of(table, self.plan.piece_rows)) as piece:
            for place in range(self.plan.pieces):
                calls.append(self.target.timed(self.session, piece))
                if piece.answer != str(self.plan.piece_rows):
                    expected = f"{self.plan.piece_rows} rows"
                    raise InorderError(f"piece {place + 1} of {table} has {piece.answer} rows instead of {expected}")
        tenth = max(1, len(calls) // 10)
        metrics = {"pieces": len(calls), "seconds": fsum(call["seconds"] for call in calls)}
        series = {"ms": [1e3 * call["seconds"] for call in calls]}
        if "cpu_seconds" in calls[0]:
            series["cpu_ms"] = [1e3 * call["cpu_seconds"] for call in calls]
            metrics["cpu_seconds"] = fsum(call["cpu_seconds"] for call in calls)
            metrics["first_ms"], metrics["last_ms"] = mean(series["cpu_ms"][:tenth]), mean(series["cpu_ms"][-tenth:])
        return Measured(metrics, series)

    def look(self, form: str, _seed: int) -> Metrics:
        table = table_of(MANY, form)

        def set_back() -> None:
            self.execute(f"SELECT feed_seek('{table}', ended_transactions() * '{{[0,{self.last[form]})}}')")

        calls: list[Metrics] = []
        with Prepared(self.session, read_of(table, self.plan.piece_rows)) as ask:
            for _ in range(LOOKS + 1):
                set_back()
                calls.append(self.target.timed(self.session, ask))
            if ask.answer != str(TRANSACTION):
                raise InorderError(f"the last rows of {table} are {ask.answer} instead of {TRANSACTION}")
        times = {name: middle(call[name] for call in calls[1:]) for name in calls[0]}  # the first call plans the query
        return times | {"calls": LOOKS}


def insert(table: str, rows: int) -> str:
    """Return an INSERT statement for this number of rows.

    >>> insert("t", 3)
    'INSERT INTO t SELECT FROM generate_series(1, 3)'
    """
    return f"INSERT INTO {table} SELECT FROM generate_series(1, {rows})"


def read_of(table: str, rows: int) -> str:
    return f"SELECT count(*) FROM feed_read('{table}', null::{table}, {rows})"


def slopes(result: Result, step: str, form: str) -> dict[int, float]:
    """Return, for each round, the CPU time of the last tenth of the pieces relative to the first tenth."""
    runs = (run for run in result.select(step, form) if run.metrics.get("first_ms"))
    return {run.round: run.metrics["last_ms"] / run.metrics["first_ms"] for run in runs}


def steepest(result: Result, plan: PiecesPlan, step: str) -> Compared | None:
    """Return the comparison for the form whose last pieces take longest relative to its first pieces."""
    by_form = {form: slopes(result, step, form) for form in plan.forms}
    measured = {form: ratios for form, ratios in by_form.items() if ratios}
    if not measured:
        return None
    form = max(measured, key=lambda form: middle(measured[form].values()))
    return Compared(f"CPU time of the last tenth ({BACKLOGS[step]}, {FORMS[form][0]})", "the first", measured[form])


def micros(run: Run) -> float | None:
    return 1e6 * run.metrics["cpu_seconds"] / run.rows if "cpu_seconds" in run.metrics else None


FORM = Figure("form", "The column with the transaction's number, and its index.",
              value=lambda row: FORMS[row.kind][0])  # fmt: skip
TO_PLAIN = f"Ratio to the {FORMS[PLAIN][0]} in the same round."
BACKLOG = (
    FORM,
    Figure("CPU µs", "CPU µs of the server per row, for count(*) of feed_read; median of the rounds.", figures,
           "cpu_us", bar=True, value=median(micros)),
    Figure("to uuid", TO_PLAIN, to_base, "ratio", value=to(PLAIN, micros)),
    Figure("first", "CPU ms of a piece, mean of the first tenth.", figures, "first_ms", value=median("first_ms")),
    Figure("last", "CPU ms of a piece, mean of the last tenth.", figures, "last_ms", value=median("last_ms")),
    Figure("last to first", "Ratio of the last to the first tenth in the same round; target: 0.8 to 1.2.", to_base,
           "slope", value=lambda row: estimated(slopes(row.result, row.step, row.kind).values())),
    Figure("s", "Wall-clock seconds for the whole backlog.", number(2), "seconds", value=median("seconds")),
)  # fmt: skip
CALL = (
    FORM,
    Figure("CPU ms", f"CPU milliseconds of the server for a call that reads the last rows, median of {LOOKS} calls; "
           "target with an order column: 1.", number(3, interval=True), "cpu_ms", bar=True,
           value=median("cpu_seconds", scale=1e3)),
    Figure("to uuid", TO_PLAIN, to_base, "ratio", value=to(PLAIN, "cpu_seconds")),
    Figure("ms", "Wall-clock milliseconds of a call, including its answer.", number(3, interval=True), "ms",
           value=median("seconds", scale=1e3)),
)  # fmt: skip


def backlog_section(result: Result, plan: PiecesPlan, step: str) -> Section:
    rows = [Row(result, step, form) for form in plan.forms if result.select(step, form)]
    title = f"{plan.filled:,} rows of {BACKLOGS[step]}, in {plan.pieces:,} pieces of {plan.piece_rows:,}"
    caption = f"Each of many transactions has {TRANSACTION} rows. Each piece is a feed_read in its own transaction."
    return table(
        f"pieces_{step}", title, BACKLOG, rows, caption,
    )  # fmt: skip


def last_section(result: Result, plan: PiecesPlan) -> Section:
    rows = [Row(result, LAST, form) for form in plan.forms if result.select(LAST, form)]
    title = f"The last {TRANSACTION} rows of {plan.filled + TRANSACTION:,}, in one call"
    return table("pieces_last", title, CALL, rows, "The rows of one transaction; all other rows have been read.")


def sections(result: Result, plan: PiecesPlan) -> Sequence[Section]:
    report_sections = [backlog_section(result, plan, step) for step in BACKLOGS if result.select(step)]
    return [*report_sections, *([last_section(result, plan)] if result.select(LAST) else [])]


def verdicts(result: Result, plan: PiecesPlan, question: str) -> Sequence[Verdict]:
    compared = [comparison for step in BACKLOGS if (comparison := steepest(result, plan, step))]
    holds = (
        f"Backlogs of {plan.filled:,} rows are read in pieces of {plan.piece_rows:,} rows. Of {len(plan.forms)} "
        "forms of table, the figures are those of the form with the largest ratio."
    )
    return costs(question, compared, holds)
