"""TPS of nextval, alone and in inserts, by CACHE of the sequence and number of clients.

The same statement with a constant and with nextval of sequences that differ in CACHE: SELECT alone, an insert of one
row, an insert of many.
"""

from pathlib import Path
from typing import ClassVar

from inorder.connection.database import Connection
from inorder.errors import InorderError
from inorder.lab.capabilities import OwnRun
from inorder.lab.experiment import Experiment
from inorder.lab.experiments.sequence import plan as steps
from inorder.lab.experiments.sequence import report
from inorder.lab.experiments.sequence.plan import SequencePlan
from inorder.lab.instruments import pgbench
from inorder.lab.keys import SCHEMA
from inorder.lab.turn import Metrics, Stage, Turn, every_round, single

SPARE_CONNECTIONS = 20  # beside the load's: this tool's own, and those the server reserves

# A row of one bigint with its WAL; and how many of them a fast machine inserts in a second.
BYTES_PER_ROW = 140
ROWS_PER_SECOND = 200_000


class SequenceExperiment(Experiment[SequencePlan]):
    question = "Does a sequence slow inserts?"
    studies = ("P2",)
    method = "TPS and CPU time"
    own = OwnRun(unseen="CPU time")
    Plan: ClassVar = SequencePlan
    reports: ClassVar = report
    control: Connection

    @classmethod
    def room(cls, plan: SequencePlan) -> tuple[int, str]:
        rows = max(plan.rows, plan.seconds * ROWS_PER_SECOND)
        return rows * BYTES_PER_ROW, f"the rows of {plan.seconds} s, or {plan.rows:,} at once"

    def prepare(self) -> None:
        """The server as it comes, but with so many connections and no checkpoint by itself; one table, sequences."""
        self.target.serve(
            {
                "max_connections": str(max(self.plan.clients) + SPARE_CONNECTIONS),
                "synchronous_commit": self.plan.synchronous_commit,
                "max_wal_size": "16GB",
                "checkpoint_timeout": "1d",
            }
        )
        self.control = self.open_session()
        self.target.create_schema(self.control)
        self.control.execute(f"CREATE TABLE {steps.TABLE} (c1 bigint)".encode())
        for cache in self.plan.caches:
            self.control.execute(f"CREATE SEQUENCE {SCHEMA}.{steps.kind_of(cache)} CACHE {cache}".encode())

    def stages(self) -> list[Stage]:
        loads = [
            self.load_turn(statement, kind, clients)
            for statement in steps.STATEMENTS for kind in self.plan.kinds for clients in self.plan.clients
        ]  # fmt: skip
        return [Stage(every_round([*loads, *map(self.bulk_turn, self.plan.kinds)]), self.plan.rounds)]

    def load_turn(self, statement: str, kind: str, clients: int) -> Turn:
        text = f"{statement}, {kind}, {clients} clients"
        step = steps.step_of(statement, clients)
        return single(step, kind, 0, text, lambda seed: self.load(statement, kind, clients, seed))

    def bulk_turn(self, kind: str) -> Turn:
        rows = self.plan.rows
        return single(steps.BULK, kind, rows, f"{rows:,} rows at once, {kind}", lambda _seed: self.bulk(kind))

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['tps']:,.0f} TPS" if "tps" in metrics else f"{1000 * metrics['seconds']:.1f} ms"

    def load(self, statement: str, kind: str, clients: int, seed: int) -> Metrics:
        self.control.execute(f"TRUNCATE {steps.TABLE}".encode())
        before = self.reserved(kind)
        with self.target.from_checkpoint(self.control) as found:
            cpu_before = self.target.ended_cpu(self.control)
            load = pgbench.Load(clients, self.plan.threads, self.plan.seconds, protocol="simple")
            done = self.target.pgbench(self.script(statement, kind), load, seed)
        cpu = self.target.ended_cpu(self.control)
        self.check(kind, done.transactions if statement == steps.INSERT else 0)
        metrics = {"tps": done.tps, "latency_ms": done.latency_ms, "transactions": done.transactions}
        if cpu is not None and cpu_before is not None:
            metrics["cpu_us"] = 1e6 * (cpu - cpu_before) / done.transactions
        return metrics | found | self.gaps(kind, before, done.transactions)

    def script(self, statement: str, kind: str) -> Path:
        path = self.target.folder / f"{statement}_{kind}.sql"
        path.write_text(steps.STATEMENTS[statement].format(value=steps.value_of(kind)), encoding="utf-8")
        return path

    def bulk(self, kind: str) -> Metrics:
        self.control.execute(f"TRUNCATE {steps.TABLE}".encode())
        before = self.reserved(kind)
        statement = f"INSERT INTO {steps.TABLE} SELECT {steps.value_of(kind)} FROM generate_series(1, {self.plan.rows})"
        with self.target.from_checkpoint(self.control) as found, self.target.connect() as session:
            metrics = self.target.timed(session, lambda: session.execute(statement.encode()))
        self.check(kind, self.plan.rows)
        return metrics | found | self.gaps(kind, before, self.plan.rows)

    def reserved(self, kind: str) -> int:
        if kind == steps.CONSTANT:
            return 0
        statement = f"SELECT coalesce(pg_sequence_last_value('{SCHEMA}.{kind}'), 0)"
        return int(str((self.control.execute(statement.encode()).fetchone() or (0,))[0]))

    def gaps(self, kind: str, before: int, used: int) -> Metrics:
        return {} if kind == steps.CONSTANT else {"gaps": self.reserved(kind) - before - used}

    def check(self, kind: str, rows: int) -> None:
        row = self.control.execute(f"SELECT count(*), count(DISTINCT c1) FROM {steps.TABLE}".encode()).fetchone()
        expected = (rows, min(rows, 1) if kind == steps.CONSTANT else rows)
        if row != expected:
            raise InorderError(f"{kind}: {row} rows and values in the table instead of {expected}")
