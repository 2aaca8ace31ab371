"""What the writers experiment does, done to a server."""

from collections.abc import Callable, Iterable
from pathlib import Path

from psycopg import sql

from inorder.cluster import Cluster
from inorder.database import Connection, query
from inorder.errors import InorderError
from inorder.lab import pgbench
from inorder.lab.experiments.writers import LOCKS, XACT, WritersPlan
from inorder.lab.extensions import release_tables
from inorder.lab.keys import SCHEMA
from inorder.lab.legacy import Metrics
from inorder.lab.serving import fill_memory, measuring_settings
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.target import since
from inorder.lab.targets.throw_away import Bench, place_of
from inorder.lab.writer_tables import WRITER_FORMS, WriterForm, removal


def count_misplaced(connection: Connection, tables: Iterable[str]) -> tuple[int, int]:
    """The rows of all the tables, and how many have another place by id than by transaction, within each table."""
    rows = misplaced = 0
    for table in tables:
        statement = query("misplaced").format(table=sql.Identifier(*table.split(".")))
        found = connection.execute(statement).fetchone()
        assert found is not None
        rows, misplaced = rows + int(str(found[0])), misplaced + int(str(found[1]))
    return rows, misplaced


class SerialBench(Bench):
    """A WritersBench over a throw-away server or the user's own: pgbench writes, into tables made for the turn."""

    def __init__(self, server: Cluster | Place, plan: WritersPlan) -> None:
        self.place = place_of(server)
        self.plan = plan
        # Much memory: the table is new, and what is measured is how writers wait for one another.
        self.place.serve(measuring_settings(fill_memory(), direct_io=False))
        with self.connection() as connection:
            self.place.create_extensions(connection)
            self.place.create_schema(connection)

    def connection(self) -> Connection:
        """A new connection to the server, with memory to sort what was written."""
        return self.place.connect(work_mem="256MB")

    def create(self, connection: Connection, form: WriterForm, clients: int) -> None:
        """The form's empty tables instead of those there are."""
        if XACT in self.plan.forms:
            release_tables(connection, SCHEMA)
        for statement in (*removal(self.plan.clients), *form.setup(clients)):
            connection.execute(statement.encode())

    def script(self, form: WriterForm, clients: int, rows: int) -> Path:
        """What each writer does again and again."""
        path = self.place.folder / "writer.sql"
        path.write_text("\n".join(form.script(clients, rows)) + "\n", encoding="utf-8")
        return path

    def load(self, clients: int) -> pgbench.Load:
        """What each turn does to the server."""
        return pgbench.Load(clients, self.plan.threads, self.plan.seconds)

    def measure(self, form: str, clients: int, rows: int, seed: int, told: Callable[[float], None]) -> Metrics:
        """One run of pgbench between a checkpoint and a look at the counters; then what it wrote is checked."""
        how = WRITER_FORMS[form]
        with self.connection() as connection:
            self.create(connection, how, clients)
            self.place.checkpoint(connection)
            before = self.place.wal(connection)
            done = pgbench.run(
                self.place.program("pgbench"),
                self.script(how, clients, rows),
                self.load(clients),
                seed,
                self.place.environment(),
                told,
                by_statement=True,
                database=self.place.database,
            )
            wal = since(self.place.wal(connection), before)
            written, misplaced = count_misplaced(connection, how.tables(clients))
        if written != done.transactions * rows or written == 0:
            raise InorderError(f"{form}: {written:,} rows of {done.transactions:,} statements of {rows}")
        speed = {"rows_per_second": done.tps * rows, "tps": done.tps, "latency_ms": done.latency_ms}
        if form in LOCKS:
            speed["lock_ms"] = done.statements_ms[0]
        return speed | {"written": written, "misplaced": misplaced} | wal
