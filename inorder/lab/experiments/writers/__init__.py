"""Ways of writing that keep ids in order for readers: rows a second, WAL, and whether they do.

Remedies of the study make inserts serial: one writer to a table, one to a partition, or a lock. Each form of writing
is measured, one row a statement and many, into tables made for it; then the order of its ids is checked.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from psycopg import sql

from inorder.connection.database import Connection, execute, one_row, query
from inorder.errors import InorderError
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.writers import report
from inorder.lab.experiments.writers.forms import ALONE_FORMS, FORMS, STATEMENTS, XACT, WriterForm, WritersPlan, removal
from inorder.lab.experiments.writers.report import ALONE, STATEMENT_ROWS, steps_of
from inorder.lab.extensions import release_tables
from inorder.lab.instruments import pgbench
from inorder.lab.keys import SCHEMA
from inorder.lab.server_settings import fill_memory, measuring_settings
from inorder.lab.turn import Metrics, Stage, Turn, every_round, single

# A second of the fastest form, 1.2 million rows measured: table, index, sort, the WAL of this measurement and the last.
BYTES_PER_SECOND = 5 * 2**28


def count_misplaced(connection: Connection, tables: Iterable[str]) -> tuple[int, int]:
    rows = misplaced = 0
    for table in tables:
        statement = query("misplaced").format(table=sql.Identifier(*table.split(".")))
        found = one_row(connection, statement)
        rows, misplaced = rows + int(found[0]), misplaced + int(found[1])
    return rows, misplaced


class WritersExperiment(Experiment[WritersPlan]):
    question = "Does keeping ids in order slow writers?"
    studies = ("P5",)
    method = "rows per second, and the order of their ids"
    Plan: ClassVar = WritersPlan
    reports: ClassVar = report

    @classmethod
    def room(cls, plan: WritersPlan) -> tuple[int, str]:
        return plan.seconds * BYTES_PER_SECOND, f"the rows of {plan.seconds} s"

    def prepare(self) -> None:
        """Much memory: the tables are new, and what is measured is how writers wait for one another."""
        self.target.serve(measuring_settings(fill_memory(), direct_io=False))
        with self.connection() as connection:
            self.target.create_schema(connection)

    def connection(self) -> Connection:
        return self.target.connect(work_mem="256MB")

    def stages(self) -> list[Stage]:
        alone = [form for form in self.plan.forms if form in ALONE_FORMS]
        together = [(step, count, self.plan.forms) for count, step in steps_of(self.plan.clients).items()]
        return [
            Stage(
                every_round([
                    self.turn(step, form, rows, count)
                    for step, count, forms in ((ALONE, 1, alone), *together)
                    for form in forms for rows in STATEMENT_ROWS
                ]),
                self.plan.rounds,
            )
        ]  # fmt: skip

    def turn(self, step: str, form: str, rows: int, clients: int) -> Turn:
        label = f"{FORMS[form].label}, {rows} a statement, {clients} at once"
        return single(step, form, rows, label, lambda seed: self.measure(form, clients, rows, seed))

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['rows_per_second']:,.0f} rows/s, {metrics['misplaced']:,.0f} rows out of order"

    def create(self, connection: Connection, form: WriterForm, clients: int) -> None:
        if XACT in self.plan.forms:
            release_tables(connection, SCHEMA)
        execute(connection, *removal(max(self.plan.clients)), *form.setup(clients))

    def script(self, form: WriterForm, clients: int, rows: int) -> Path:
        path = self.target.folder / "writer.sql"
        path.write_text("\n".join(form.script(clients, rows)) + "\n", encoding="utf-8")
        return path

    def load(self, clients: int) -> pgbench.Load:
        return pgbench.Load(clients, self.plan.threads, self.plan.seconds)

    def measure(self, name: str, clients: int, rows: int, seed: int) -> Metrics:
        form = FORMS[name]
        with self.connection() as connection:
            self.create(connection, form, clients)
            with self.target.from_checkpoint(connection) as counted:
                done = self.target.pgbench(
                    self.script(form, clients, rows), self.load(clients), seed,
                    lambda tps: self.show_step(f"{tps * rows:,.0f} rows/s"), by_statement=True,
                )  # fmt: skip
            written, misplaced = count_misplaced(connection, form.tables(clients))
        if written != done.transactions * rows:
            raise InorderError(f"{name}: {written:,} rows of {done.transactions:,} statements of {rows}")
        speed = {"rows_per_second": done.tps * rows, "tps": done.tps, "latency_ms": done.latency_ms}
        statements = zip(STATEMENTS.get(name, ()), done.statements_ms, strict=name in STATEMENTS)
        speed |= {f"{statement}_ms": latency for statement, latency in statements}
        return speed | {"written": written, "misplaced": misplaced} | counted
