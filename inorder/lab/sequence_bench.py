"""What the sequence experiment does, done to a server."""

from pathlib import Path

from inorder.cluster import Cluster
from inorder.database import Connection
from inorder.errors import InorderError
from inorder.lab import pgbench
from inorder.lab.legacy import Metrics
from inorder.lab.experiments.sequence import CONSTANT, INSERT, SELECT, SequencePlan, kind_of
from inorder.lab.keys import SCHEMA
from inorder.lab.place import Bench, Place, place_of, since

TABLE = f"{SCHEMA}.tb1"
SPARE_CONNECTIONS = 20  # beside the load's: this tool's own, and those the server reserves

STATEMENTS = {SELECT: "SELECT {value};\n", INSERT: f"INSERT INTO {TABLE} VALUES ({{value}});\n"}


def settings(plan: SequencePlan) -> dict[str, str]:
    """The server as it comes, but that it takes so many clients and makes no checkpoint by itself."""
    return {
        "max_connections": str(max(plan.clients) + SPARE_CONNECTIONS),
        "synchronous_commit": plan.synchronous_commit,
        "max_wal_size": "16GB",
        "checkpoint_timeout": "1d",
    }


def value_of(kind: str) -> str:
    """The expression that a statement evaluates.

    >>> value_of("constant"), value_of("cache_100")
    ('1', "nextval('inorder_lab.cache_100')")
    """
    return "1" if kind == CONSTANT else f"nextval('{SCHEMA}.{kind}')"


class SequenceBench(Bench):
    """A bench of the sequence experiment over a throw-away server or the user's own."""

    def __init__(self, server: Cluster | Place, plan: SequencePlan) -> None:
        self.place = place_of(server)
        self.plan = plan
        self.place.serve(settings(plan))
        self.control = self.connection()

    def close(self) -> None:
        """End the session that looks at the counters."""
        self.control.close()

    def connection(self) -> Connection:
        """A new connection to the server."""
        return self.place.connect()

    def create(self) -> None:
        """One table without an index, a sequence for each CACHE."""
        self.place.create_schema(self.control)
        self.control.execute(f"CREATE TABLE {TABLE} (c1 bigint)".encode())
        for cache in self.plan.caches:
            self.control.execute(f"CREATE SEQUENCE {SCHEMA}.{kind_of(cache)} CACHE {cache}".encode())

    def clear(self) -> None:
        """An empty table, and nothing left to write back."""
        self.control.execute(f"TRUNCATE {TABLE}".encode())
        self.place.checkpoint(self.control)

    def load(self, statement: str, kind: str, clients: int, seed: int) -> Metrics:
        """pgbench with the simple protocol, as published."""
        self.clear()
        before, cpu_before = self.place.wal(self.control), self.place.ended_cpu(self.control)
        load = pgbench.run(
            self.place.program("pgbench"),
            self.script(statement, kind),
            pgbench.Load(clients, self.plan.threads, self.plan.seconds, protocol="simple"),
            seed,
            self.place.environment(),
            database=self.place.database,
        )
        written, cpu = since(self.place.wal(self.control), before), self.place.ended_cpu(self.control)
        if load.transactions == 0:
            raise InorderError(f"pgbench did nothing in {self.plan.seconds} s")
        self.check(kind, load.transactions if statement == INSERT else 0)
        metrics = {"tps": load.tps, "latency_ms": load.latency_ms, "transactions": load.transactions}
        if cpu is not None and cpu_before is not None:
            metrics["cpu_us"] = 1e6 * (cpu - cpu_before) / load.transactions
        return metrics | written

    def script(self, statement: str, kind: str) -> Path:
        """What pgbench runs."""
        path = self.place.folder / f"{statement}_{kind}.sql"
        path.write_text(STATEMENTS[statement].format(value=value_of(kind)), encoding="utf-8")
        return path

    def bulk(self, kind: str) -> Metrics:
        """One INSERT … SELECT in a session of its own, by the wall clock and by the CPU time of its process."""
        self.clear()
        before = self.place.wal(self.control)
        statement = f"INSERT INTO {TABLE} SELECT {value_of(kind)} FROM generate_series(1, {self.plan.rows})"
        with self.connection() as session:
            metrics = self.place.timed(session, lambda: session.execute(statement.encode()))
        written = since(self.place.wal(self.control), before)
        self.check(kind, self.plan.rows)
        return metrics | written

    def check(self, kind: str, rows: int) -> None:
        """An error unless the table holds so many rows, each with a value of its own if they come from a sequence."""
        row = self.control.execute(f"SELECT count(*), count(DISTINCT c1) FROM {TABLE}".encode()).fetchone()
        expected = (rows, min(rows, 1) if kind == CONSTANT else rows)
        if row != expected:
            raise InorderError(f"{kind}: {row} rows and values in the table instead of {expected}")
