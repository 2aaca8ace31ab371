"""TPS of nextval, alone and in inserts, by CACHE of the sequence and number of clients."""

from dataclasses import dataclass
from functools import partial

from inorder.connection.database import Connection, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Row, median, median_of, per, ratios_of, to
from inorder.lab.instruments import pgbench
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import OwnRun
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Figure, Section, number, ratio, table
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, capital, costs, how_sure
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.text import plural

SELECT = "select"
INSERT = "insert"
BULK = "bulk"  # one INSERT … SELECT
TABLE = f"{SCHEMA}.tb1"
STATEMENTS = {SELECT: "SELECT {value};\n", INSERT: f"INSERT INTO {TABLE} VALUES ({{value}});\n"}
CONSTANT = "constant"  # the baseline for ratios: the same statement without nextval


@dataclass(frozen=True, kw_only=True)
class SequencePlan(setting.Plan):
    """The plan of the experiment.

    The quick run has fewer clients and sequences, but six rounds, the minimum for an interval.
    """

    clients: tuple[int, ...] = setting.counts(
        "Numbers of pgbench sessions, comma-separated.", 1, 1000, (1, 10, 100), quick=(1, 10), sessions=True
    )
    caches: tuple[int, ...] = setting.counts(
        "CACHE of the sequences, comma-separated.", 1, 10**6, (1, 100, 1000), quick=(1, 100), flag="--cache"
    )
    rows: int = setting.count("Rows of one INSERT … SELECT.", 1000, 10**9, 100_000)
    seconds: int = setting.seconds(2, quick=1)
    rounds: int = setting.rounds(6, full=15)
    synchronous_commit: str = setting.synchronous_commit("on")
    threads: int = setting.threads()

    @property
    def kinds(self) -> tuple[str, ...]:
        return (CONSTANT, *map(kind_of, self.caches))


def kind_of(cache: int) -> str:
    return f"cache_{cache}"


def step_of(statement: str, clients: int) -> str:
    return f"{statement}_{clients}"


def value_of(kind: str) -> str:
    return "1" if kind == CONSTANT else f"nextval('{SCHEMA}.{kind}')"


def label(kind: str) -> str:
    return "1" if kind == CONSTANT else f"nextval, CACHE {kind.removeprefix('cache_')}"


SPARE_CONNECTIONS = 20  # for the sessions of this tool and those that the server reserves

# Disk space for a row with one bigint and its WAL, and the number of rows that a fast machine inserts per second.
BYTES_PER_ROW = 140
ROWS_PER_SECOND = 200_000


class SequenceExperiment(Experiment[SequencePlan]):
    question = "Does a sequence slow inserts?"
    studies = ("P2",)
    method = "TPS and CPU time"
    own = OwnRun(unseen="CPU time")
    control: Connection

    @classmethod
    def room(cls, plan: SequencePlan) -> tuple[int, str]:
        rows = max(plan.rows, plan.seconds * ROWS_PER_SECOND)
        return rows * BYTES_PER_ROW, f"the rows of {plan.seconds} s, or {plan.rows:,} rows at once"

    def prepare(self) -> None:
        """Start the server with default settings, except for connections, checkpoints and synchronous_commit.

        Create a table and the sequences.
        """
        more = {"synchronous_commit": self.plan.synchronous_commit, "max_wal_size": "16GB", "checkpoint_timeout": "1d"}
        self.target.serve({"max_connections": str(max(self.plan.clients) + SPARE_CONNECTIONS)} | more)
        self.control = self.open_session()
        self.target.create_schema(self.control)
        self.control.execute(f"CREATE TABLE {TABLE} (c1 bigint)".encode())
        for cache in self.plan.caches:
            self.control.execute(f"CREATE SEQUENCE {SCHEMA}.{kind_of(cache)} CACHE {cache}".encode())

    def stages(self) -> list[Stage]:
        rows = self.plan.rows
        turns = [
            single(step_of(statement, clients), kind, 0, f"{statement}, {kind}, {clients} clients",
                   partial(self.load, statement, kind, clients))
            for statement in STATEMENTS for kind in self.plan.kinds for clients in self.plan.clients
        ]  # fmt: skip
        turns += [
            single(BULK, kind, rows, f"{rows:,} rows at once, {kind}", partial(self.bulk, kind))
            for kind in self.plan.kinds
        ]
        return [Stage(every_round(turns), self.plan.rounds)]

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['tps']:,.0f} TPS" if "tps" in metrics else f"{1000 * metrics['seconds']:.1f} ms"

    def load(self, statement: str, kind: str, clients: int, seed: int) -> Metrics:
        self.control.execute(f"TRUNCATE {TABLE}".encode())
        before, script = self.reserved(kind), self.target.folder / f"{statement}_{kind}.sql"
        script.write_text(STATEMENTS[statement].format(value=value_of(kind)), encoding="utf-8")
        with self.target.from_checkpoint(self.control) as counters:
            cpu_before = self.target.ended_cpu(self.control)
            load = pgbench.Load(clients, self.plan.threads, self.plan.seconds, protocol="simple")
            result = self.target.pgbench(script, load, seed)
        cpu = self.target.ended_cpu(self.control)
        self.check(kind, result.transactions if statement == INSERT else 0)
        metrics = {"tps": result.tps, "latency_ms": result.latency_ms, "transactions": result.transactions}
        if cpu is not None and cpu_before is not None:
            metrics["cpu_us"] = 1e6 * (cpu - cpu_before) / result.transactions
        return metrics | counters | self.gaps(kind, before, result.transactions)

    def bulk(self, kind: str, _seed: int = 0) -> Metrics:
        self.control.execute(f"TRUNCATE {TABLE}".encode())
        before = self.reserved(kind)
        statement = f"INSERT INTO {TABLE} SELECT {value_of(kind)} FROM generate_series(1, {self.plan.rows})"
        with self.target.from_checkpoint(self.control) as counters, self.target.connect() as session:
            metrics = self.target.timed(session, lambda: session.execute(statement.encode()))
        self.check(kind, self.plan.rows)
        return metrics | counters | self.gaps(kind, before, self.plan.rows)

    def reserved(self, kind: str) -> int:
        if kind == CONSTANT:
            return 0
        return int(one_row(self.control, f"SELECT coalesce(pg_sequence_last_value('{SCHEMA}.{kind}'), 0)")[0])

    def gaps(self, kind: str, before: int, inserted: int) -> Metrics:
        return {} if kind == CONSTANT else {"gaps": self.reserved(kind) - before - inserted}

    def check(self, kind: str, rows: int) -> None:
        row = one_row(self.control, f"SELECT count(*), count(DISTINCT c1) FROM {TABLE}")
        expected = (rows, min(rows, 1) if kind == CONSTANT else rows)
        if tuple(row) != expected:
            counts = [f"{count:,} rows and {values:,} values" for count, values in (row, expected)]
            raise InorderError(f"{kind}: the table has {counts[0]} instead of {counts[1]}")


def words(step: str, kind: str) -> str:
    statement, _, clients = step.partition("_")
    return f"{statement} {label(kind)}, {plural(int(clients), 'client')}" if clients else label(kind)


def of_inserts(result: Result, plan: SequencePlan, kind: str, base: str, words: str) -> list[Compared]:
    return [
        Compared("TPS", f"{words} with {plural(clients, 'client')}",
                 ratios_of(result, step_of(INSERT, clients), kind, base, "tps"), speed=True)
        for clients in sorted(plan.clients)
    ]  # fmt: skip


def verdicts(result: Result, plan: SequencePlan, question: str) -> list[Verdict]:
    kind = kind_of(min(plan.caches))
    bulk = Compared("CPU time", "a constant", ratios_of(result, BULK, kind, CONSTANT, "cpu_seconds"))
    more = f"For {plan.rows:,} rows by one INSERT … SELECT, {bulk.words}." if bulk.ratio else ""
    shown = ((name, median_of(result, step_of(INSERT, max(plan.clients)), value, "tps"), PLAIN)
             for name, value in (("a constant", CONSTANT), (label(kind), kind)))  # fmt: skip
    holds = (
        f"Each transaction inserts one row ({label(kind)}) into a table without an index; {commits(plan)}. P2 finds "
        "that nextval is not the bottleneck."
    )
    compared = of_inserts(result, plan, kind, CONSTANT, "a constant")
    return [
        *costs(question, compared, holds, bars_of(shown, number(0, "TPS")), more),
        *(verdict for cache in sorted(plan.caches)[1:] for verdict in cache_verdict(result, plan, cache)),
    ]


def cache_verdict(result: Result, plan: SequencePlan, cache: int) -> list[Verdict]:
    least, kind = kind_of(min(plan.caches)), kind_of(cache)
    compared = of_inserts(result, plan, least, kind, f"CACHE {cache}")
    estimates = (median_of(result, step_of(INSERT, clients), kind, "gaps") for clients in plan.clients)
    gaps = [gap.median for gap in estimates if gap]
    gaps_text = f"CACHE {cache} left gaps of up to {max(gaps):,.0f} numbers in a measurement. " if gaps else ""
    holds = f"{gaps_text}The TPS were measured with {label(least)}. P2 advises against CACHE if it is not needed."
    return costs(f"Is CACHE {cache} needed for inserts?", compared, holds)


def commits(plan: SequencePlan) -> str:
    return f"commits {'wait' if plan.synchronous_commit == 'on' else 'do not wait'} for the disk"


LOAD = (
    Figure("statement", "what each transaction does; insert: into a table of one bigint without an index",
           value=lambda row: f"{row.step.partition('_')[0]} {label(row.kind)}"),
    Figure("clients", "number of pgbench sessions", number(), value=lambda row: int(row.step.partition("_")[2])),
    Figure("TPS", "median of the rounds; pgbench, without connection time", number(), bar=True, value=median("tps")),
    Figure("ratio", "ratio of TPS to the statement with a constant, by the same number of clients in the same round",
           ratio, value=to(CONSTANT, "tps")),
    Figure("CPU ratio", "ratio of the CPU time per transaction of the server's sessions, including their start", ratio,
           value=to(CONSTANT, "cpu_us")),
    Figure("WAL B", "bytes of write-ahead log per transaction; pg_stat_wal", number(1), bar=True,
           value=median(per("wal_bytes", "transactions"))),
    Figure("gaps", "numbers that sessions reserved by CACHE and did not use, per measurement", number(),
           value=median("gaps")),
)  # fmt: skip


def sections(result: Result, plan: SequencePlan) -> list[Section]:
    kinds = [CONSTANT, *map(kind_of, sorted(plan.caches))]
    rows = [
        Row(result, step_of(statement, clients), kind) for statement in STATEMENTS
        for clients in sorted(plan.clients) for kind in kinds
    ]  # fmt: skip
    caption = (
        f"ratio: relative to the same statement with 1 instead of nextval. {capital(commits(plan))}. "
        f"P2 mentions Oracle, where CACHE 50 was a hundred times as fast; this is not measured here. {how_sure(result)}"
    )
    title = f"nextval or a constant: pgbench, simple protocol, {plan.seconds} s each"
    bulk = table("sequence-bulk", f"{plan.rows:,} rows by one INSERT … SELECT, without an index", BULK_FIGURES,
                 [Row(result, BULK, kind) for kind in kinds])  # fmt: skip
    return [table("sequence-tps", title, LOAD, rows, caption), bulk, *published_sections(result, words)]


BULK_FIGURES = (
    Figure("value", "the value that is inserted", value=lambda row: label(row.kind)),
    Figure("ms", "median of the rounds, by the wall clock", number(1), bar=True,
           value=median("seconds", scale=1000.0)),
    Figure("ratio", "ratio of this time to the time with a constant in the same round", ratio,
           value=to(CONSTANT, "seconds")),
    Figure("CPU ratio", "ratio of the CPU time of the server process", ratio, value=to(CONSTANT, "cpu_seconds")),
)  # fmt: skip
