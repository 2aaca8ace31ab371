"""Ways of writing that keep ids in order for readers: rows a second, WAL, and rows that are out of order."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median as middle

from psycopg import sql

from inorder.connection.database import Connection, execute, one_row, query
from inorder.errors import InorderError, InputError
from inorder.lab.analysis.figures import Row, median, median_of, per, ratios_of, to
from inorder.lab.experiments.writers.forms import (
    ALONE_FORMS,
    BASELINE,
    FORMS,
    SERIAL_FORMS,
    STATEMENTS,
    TABLE_FORMS,
    XACT,
    WriterForm,
    WritersPlan,
    any_writer,
    removal,
)
from inorder.lab.instruments import pgbench
from inorder.lab.plan.capabilities import Adapted
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, Turn, every_round, single
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Figure, Section, Value, number, ratio, table
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, answer_of, bars_of, surety
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.log_tables import BATCH_ROWS
from inorder.lab.targets.server_settings import fill_memory, measuring_settings
from inorder.lab.targets.target import release_tables

# Disk space for each second of a measurement: table, index, sort, and the WAL of this and the previous measurement. The
# fastest form writes 1.2 million rows per second.
BYTES_PER_SECOND = 5 * 2**28


def count_misplaced(connection: Connection, tables: Iterable[str]) -> tuple[int, int]:
    rows = misplaced = 0
    for name in tables:
        statement = query("misplaced").format(table=sql.Identifier(*name.split(".")))
        counts = one_row(connection, statement)
        rows, misplaced = rows + int(counts[0]), misplaced + int(counts[1])
    return rows, misplaced


class WritersExperiment(Experiment[WritersPlan]):
    question = "Does keeping ids in order slow writers?"
    studies = ("P5",)
    method = "rows per second, and the order of their ids"

    @classmethod
    def room(cls, plan: WritersPlan) -> tuple[int, str]:
        return plan.seconds * BYTES_PER_SECOND, f"the rows of {plan.seconds} s"

    @classmethod
    def completed(cls, plan: WritersPlan, own: bool) -> Adapted[WritersPlan]:
        if plan.tables and not set(plan.forms) & set(TABLE_FORMS):
            raise InputError(f"--tables requires one of these forms: {', '.join(TABLE_FORMS)}")
        return super().completed(plan, own)

    def prepare(self) -> None:
        """Start the server with plenty of memory. The experiment measures only how long writers wait for each other."""
        self.target.serve(measuring_settings(fill_memory(), direct_io=False))
        with self.connection() as connection:
            self.target.create_schema(connection)

    def connection(self) -> Connection:
        return self.target.connect(work_mem="256MB")

    def stages(self) -> list[Stage]:
        alone = [form for form in self.plan.forms if form in ALONE_FORMS]
        several = [form for form in self.plan.forms if form in TABLE_FORMS]
        together = [(step, count, 0, self.plan.forms) for count, step in steps_of(self.plan.clients).items()]
        apart = [(f"{TABLES_STEP}@{count}", 1, count, several) for count in self.plan.tables]
        turns = [
            self.turn(step, form, rows, count, tables)
            for step, count, tables, forms in ((ALONE, 1, 0, alone), *(apart or together))
            for form in forms for rows in STATEMENT_ROWS
        ]  # fmt: skip
        return [Stage(every_round(turns), self.plan.rounds)]

    def turn(self, step: str, form: str, rows: int, clients: int, tables: int) -> Turn:
        into = f" into {tables} tables" if tables else ""
        label = f"{FORMS[form].label}, {rows} a statement, {clients} at once{into}"
        return single(step, form, rows, label, lambda seed: self.measure(form, clients, rows, seed, tables))

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['rows_per_second']:,.0f} rows/s, {metrics['misplaced']:,.0f} rows out of order"

    def create(self, connection: Connection, form: WriterForm, clients: int) -> None:
        if XACT in self.plan.forms:
            release_tables(connection, SCHEMA)
        execute(connection, *removal(max(self.plan.clients + self.plan.tables)), *form.setup(clients))

    def script(self, lines: Sequence[str]) -> Path:
        path = self.target.folder / "writer.sql"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def load(self, clients: int) -> pgbench.Load:
        return pgbench.Load(clients, self.plan.threads, self.plan.seconds)

    def measure(self, name: str, clients: int, rows: int, seed: int, tables: int = 0) -> Metrics:
        form, writers = FORMS[name], tables or clients
        lines = [any_writer(tables)] * bool(tables) + form.script(writers, rows)
        with self.connection() as connection:
            self.create(connection, form, writers)
            with self.target.from_checkpoint(connection) as counted:
                result = self.target.pgbench(
                    self.script(lines), self.load(clients), seed,
                    lambda tps: self.show_step(f"{tps * rows:,.0f} rows/s"), by_statement=name in STATEMENTS,
                )  # fmt: skip
            written, misplaced = count_misplaced(connection, form.tables(writers))
        if written != result.transactions * rows:
            raise InorderError(f"{name}: {written:,} rows of {result.transactions:,} statements of {rows}")
        speed = {"rows_per_second": result.tps * rows, "tps": result.tps, "latency_ms": result.latency_ms}
        statements = zip(STATEMENTS.get(name, ()), result.statements_ms, strict=name in STATEMENTS)
        speed |= {f"{statement}_ms": latency for statement, latency in statements}
        return speed | {"written": written, "misplaced": misplaced} | counted


# The steps: one session writes, the sessions of the plan write, or one session writes into several tables.
ALONE = "alone"
TOGETHER = "together"
TABLES_STEP = "tables"

STATEMENT_ROWS = (1, BATCH_ROWS)

STATEMENT_WORDS = {
    "lock": "The statement that takes the lock", "discard": "DISCARD SEQUENCES", "insert": "The INSERT",
    "unlock": "The statement that releases the lock",
}  # fmt: skip


def sessions_of(row: Row) -> int:
    step, _, count = row.step.partition("@")
    if step in (ALONE, TABLES_STEP):
        return 1
    return int(count or WritersPlan.read(row.result.plan).clients[0])


def tables_of(row: Row) -> int | None:
    step, _, count = row.step.partition("@")
    return int(count) if step == TABLES_STEP else None


def total(metric: str) -> Callable[[Row], Value]:
    return lambda row: sum(run.metrics[metric] for run in row.result.select(row.step, row.kind, row.rows))


FORM = Figure("form", "How the rows are written.", value=lambda row: FORMS[row.kind].label)
SESSIONS = Figure("sessions", "Number of pgbench sessions that write at the same time.", number(), value=sessions_of)

TABLES_FIGURE = Figure("tables", "Number of tables or partitions among which one session chooses at random.", number(),
                       value=tables_of)  # fmt: skip
WHERE = (FORM, SESSIONS, TABLES_FIGURE)

SPEED = (
    *WHERE,
    Figure("rows/s", "Transactions per second (pgbench), multiplied by the rows per statement.", number(), bar=True,
           value=median("rows_per_second")),
    Figure("vs one table", "Ratio to plain inserts by the same number of sessions in the same round.", ratio,
           value=to(BASELINE, "rows_per_second")),
    Figure("TPS", "Transactions per second (pgbench).", number(1), terminal=False, value=median("tps")),
)  # fmt: skip
ORDER = (
    *WHERE,
    Figure("WAL/row", "Bytes of write-ahead log per row (pg_stat_wal).", number(0, "B"), bar=True,
           value=median(per("wal_bytes", "written"))),
    Figure("rows", "Rows written in all rounds.", number(), value=total("written")),
    Figure("misplaced", "Rows whose rank by id differs from their rank by (xmin, id), within their table.", number(),
           bar=True, value=total("misplaced")),
)  # fmt: skip
LATENCY = (
    *WHERE,
    Figure("ms", "Duration of a transaction, with its wait for the lock (pgbench).", number(3), bar=True,
           value=median("latency_ms")),
    *(
        Figure(f"{name} ms", f"{words} (pgbench -r).", number(3), terminal=name == "lock", bar=name == "lock",
               value=median(f"{name}_ms"))
        for name, words in STATEMENT_WORDS.items()
    ),
)  # fmt: skip
SPEED_CAPTION = (
    "vs one table: relative to plain inserts by the same number of sessions in the same round, median and interval."
)
ORDER_CAPTION = (
    "misplaced: rows whose rank by id differs from their rank by (xmin, id), within the table of a writer if writers "
    "have separate tables. "
    "If writers do not take turns, polling by id may lose rows even with 0 misplaced rows: for example, a table with "
    f"{FORMS[XACT].label} must be read by a feed."
)


def rows_text(rows: int) -> str:
    return "one row a statement" if rows == 1 else f"{rows} rows a statement"


def steps_of(clients: Sequence[int]) -> dict[int, str]:
    return {count: TOGETHER if place == 0 else f"{TOGETHER}@{count}" for place, count in enumerate(clients)}


def lines(result: Result, rows: int, plan: WritersPlan) -> list[Row]:
    together = [step for _, step in sorted(steps_of(plan.clients).items())]
    apart = [f"{TABLES_STEP}@{count}" for count in sorted(plan.tables)]
    candidates = [Row(result, step, form, rows) for step in (ALONE, *together, *apart) for form in FORMS]
    return [line for line in candidates if result.select(line.step, line.kind, rows)]


TABLES = (
    ("speed", "Writing a log", SPEED, SPEED_CAPTION),
    ("latency", "Time of a transaction", LATENCY, ""),
    ("order", "Order of the ids", ORDER, ORDER_CAPTION),
)


def words_of(step: str, form: str) -> str:
    sessions = step.partition("@")[2] or "1"
    return FORMS[form].label if not step else f"{FORMS[form].label}, {sessions} session{'s' * (sessions != '1')}"


def sections(result: Result, plan: WritersPlan) -> list[Section]:
    report_sections = [
        table(f"writers_{name}_{rows}", f"{title}, {rows_text(rows)}", figures, lines(result, rows, plan), words)
        for name, title, figures, words in TABLES
        for rows in STATEMENT_ROWS
    ]
    together = {f"{TOGETHER}@{count}": step for count, step in steps_of(plan.clients).items()}
    report_sections += published_sections(result, words_of, together)
    return [section for section in report_sections if section.rows]


def in_order(result: Result, form: str) -> bool:
    return not any(run.metrics["misplaced"] for run in result.runs if run.kind == form)


def verdicts(result: Result, plan: WritersPlan, question: str) -> list[Verdict]:
    compared, figures = [], []
    shown = [BASELINE, XACT]
    for rows in STATEMENT_ROWS:
        to_plain = {form: speed_of(result, form, rows) for form in SERIAL_FORMS}
        if serial := [form for form in SERIAL_FORMS if to_plain[form].ratio and in_order(result, form)]:
            best = max(serial, key=lambda form: middle(to_plain[form].ratios.values()))
            compared.append(to_plain[best])
            fastest = f'the fastest form that keeps the order is "{FORMS[best].label}"'
            figures.append(f"With {rows_text(rows)}, {fastest}: {to_plain[best].words}.")
            if rows == 1:
                shown.insert(1, best)
    if not compared:
        return []
    feed = speed_of(result, XACT, 1)
    figures += [f"With {FORMS[XACT].label} and a feed, which needs no order, {feed.words}."] if feed.ratio else []
    holds = f"{plan.clients[0]} sessions write into tables that are empty at first; commits do not wait for the disk."
    bars = bars_of(
        ((FORMS[form].label, median_of(result, TOGETHER, form, "rows_per_second", 1), PLAIN) for form in shown),
        number(0, "rows/s"),
    )
    return [Verdict(question, answer_of(compared), " ".join(figures), holds, surety(compared), bars)]


def speed_of(result: Result, form: str, rows: int) -> Compared:
    ratios = ratios_of(result, TOGETHER, form, BASELINE, "rows_per_second", rows)
    return Compared("speed", FORMS[BASELINE].label, ratios, speed=True)
