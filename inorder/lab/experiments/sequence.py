"""Whether a sequence is the bottleneck of inserts (published study P2).

The same statement with a constant and with nextval of sequences that differ in CACHE: SELECT alone, an insert of one
row, an insert of many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

from inorder.database import Connection
from inorder.errors import InorderError
from inorder.lab import setting
from inorder.lab.analysis.figures import median_of, per, ratio_of, ratios_of
from inorder.lab.capabilities import Adapted, Capabilities, adapted
from inorder.lab.experiment import Experiment
from inorder.lab.instruments import pgbench
from inorder.lab.keys import SCHEMA
from inorder.lab.plan import Plan
from inorder.lab.results import Result
from inorder.lab.turn import Metrics, Stage, Turn, every_round, single
from inorder.report.charts import bars_of, series
from inorder.report.section import Column, Section, Value, number, ratio
from inorder.report.verdict import Compared, Verdict, capital, costs
from inorder.report.wording import how_sure

SELECT = "select"
INSERT = "insert"
BULK = "bulk"  # one INSERT … SELECT
TABLE = f"{SCHEMA}.tb1"
STATEMENTS = {SELECT: "SELECT {value};\n", INSERT: f"INSERT INTO {TABLE} VALUES ({{value}});\n"}
CONSTANT = "constant"  # what the ratios are to: the same statement without nextval

SPARE_CONNECTIONS = 20  # beside the load's: this tool's own, and those the server reserves

# A row of one bigint with its WAL; and how many of them a fast machine inserts in a second.
BYTES_PER_ROW = 140
ROWS_PER_SECOND = 200_000

# P2, PostgreSQL 9.3.4, 4 cores: TPS by number of clients, by statement and source of the value.
PUBLISHED_TPS: dict[tuple[str, str], dict[int, float]] = {
    (SELECT, "constant"): {1: 26991, 10: 97749, 100: 97019},
    (SELECT, "cache_1"): {1: 17336, 10: 61615, 100: 69211},
    (SELECT, "cache_100"): {1: 19379, 10: 69693, 100: 76410},
    (INSERT, "constant"): {1: 4042, 10: 19792, 100: 30982},
    (INSERT, "cache_1"): {1: 4083, 10: 18822, 100: 27365},
    (INSERT, "cache_100"): {1: 3953, 10: 18145, 100: 28701},
}
# P2: milliseconds of one INSERT … SELECT of so many rows, by source of the value, three runs.
PUBLISHED_ROWS = 100_000
PUBLISHED_MS: dict[str, tuple[float, ...]] = {
    "constant": (145.6, 156.1, 172.9),
    "cache_1": (184.0, 183.7, 183.4),
    "cache_100": (181.2, 144.6, 198.5),
}
PUBLISHED_CLIENTS = (1, 10, 100)
PUBLISHED_CACHES = (1, 100)


@dataclass(frozen=True, kw_only=True)
class SequencePlan(Plan):
    """Six rounds in the short run, too, since fewer allow no difference; so fewer clients and sequences."""

    clients: tuple[int, ...] = setting.counts(
        "Sessions of pgbench, several comma-separated.", 1, 1000, (1, 10, 100), quick=(1, 10), sessions=True
    )
    caches: tuple[int, ...] = setting.counts(
        "CACHE of the sequences.", 1, 10**6, (1, 100, 1000), quick=(1, 100), flag="--cache"
    )
    rows: int = setting.count("Rows of one INSERT … SELECT.", 1000, 10**9, 100_000)
    seconds: int = setting.count("Seconds of each measurement.", 1, setting.MOST_SECONDS, 2, quick=1)
    rounds: int = setting.rounds(6, full=15)
    synchronous_commit: str = setting.synchronous_commit("on")
    threads: int = setting.threads()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Where the value comes from: nowhere, or a sequence for each CACHE.

        >>> SequencePlan(caches=(1, 100)).kinds
        ('constant', 'cache_1', 'cache_100')
        """
        return (CONSTANT, *map(kind_of, self.caches))


def kind_of(cache: int) -> str:
    """The kind, and the name, of a sequence with this CACHE."""
    return f"cache_{cache}"


def step_of(statement: str, clients: int) -> str:
    """A statement under the load of so many sessions.

    >>> step_of("select", 10)
    'select_10'
    """
    return f"{statement}_{clients}"


def value_of(kind: str) -> str:
    """The expression that a statement evaluates.

    >>> value_of("constant"), value_of("cache_100")
    ('1', "nextval('inorder_lab.cache_100')")
    """
    return "1" if kind == CONSTANT else f"nextval('{SCHEMA}.{kind}')"


def label(kind: str) -> str:
    """Where the value comes from, for a reader.

    >>> label("constant"), label("cache_100")
    ('1', 'nextval, CACHE 100')
    """
    return "1" if kind == CONSTANT else f"nextval, CACHE {kind.removeprefix('cache_')}"


class SequenceExperiment(Experiment[SequencePlan]):
    """pgbench with the simple protocol, as published; and one statement of many rows."""

    name = "sequence"
    summary = "TPS of nextval, alone and in inserts, by CACHE of the sequence and number of clients."
    question = "Does a sequence slow inserts?"
    studies = ("P2",)
    method = "TPS and CPU time"
    Plan: ClassVar = SequencePlan
    control: Connection

    @classmethod
    def room(cls, plan: SequencePlan) -> tuple[int, str]:
        """The rows of a turn with their WAL."""
        rows = max(plan.rows, plan.seconds * ROWS_PER_SECOND)
        return rows * BYTES_PER_ROW, f"the rows of {plan.seconds} s, or {plan.rows:,} at once"

    @classmethod
    def adapt(cls, plan: SequencePlan, can: Capabilities) -> Adapted[SequencePlan]:
        """The CPU time of its processes is not to be seen."""
        return adapted(plan, can, unseen="CPU time")

    # --- what it does ---------------------------------------------------------

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
        self.control.execute(f"CREATE TABLE {TABLE} (c1 bigint)".encode())
        for cache in self.plan.caches:
            self.control.execute(f"CREATE SEQUENCE {SCHEMA}.{kind_of(cache)} CACHE {cache}".encode())

    def stages(self) -> list[Stage]:
        """All statements, kinds and numbers of clients in shuffled order, once a round."""
        loads = [
            self.load_turn(statement, kind, clients)
            for statement in STATEMENTS for kind in self.plan.kinds for clients in self.plan.clients
        ]  # fmt: skip
        return [Stage(every_round([*loads, *map(self.bulk_turn, self.plan.kinds)]), self.plan.rounds)]

    def load_turn(self, statement: str, kind: str, clients: int) -> Turn:
        """One statement with so many clients."""
        text = f"{statement}, {kind}, {clients} clients"
        step = step_of(statement, clients)
        return single(step, kind, 0, text, lambda seed: self.load(statement, kind, clients, seed))

    def bulk_turn(self, kind: str) -> Turn:
        """One kind in bulk."""
        rows = self.plan.rows
        return single(BULK, kind, rows, f"{rows:,} rows at once, {kind}", lambda _seed: self.bulk(kind))

    def outcome(self, metrics: Metrics) -> str:
        """TPS, or how long it took."""
        return f"{metrics['tps']:,.0f} TPS" if "tps" in metrics else f"{1000 * metrics['seconds']:.1f} ms"

    def clear(self) -> None:
        """An empty table, and nothing left to write back."""
        self.control.execute(f"TRUNCATE {TABLE}".encode())
        self.target.checkpoint(self.control)

    def load(self, statement: str, kind: str, clients: int, seed: int) -> Metrics:
        """A statement from so many sessions at once, again and again, for the plan's seconds."""
        self.clear()
        found: Metrics = {}
        before = self.reserved(kind)
        cpu_before = self.target.ended_cpu(self.control)
        with self.target.counted(self.control, None, found):
            load = pgbench.Load(clients, self.plan.threads, self.plan.seconds, protocol="simple")
            done = self.target.pgbench(self.script(statement, kind), load, seed)
        cpu = self.target.ended_cpu(self.control)
        if done.transactions == 0:
            raise InorderError(f"pgbench did nothing in {self.plan.seconds} s")
        self.check(kind, done.transactions if statement == INSERT else 0)
        metrics = {"tps": done.tps, "latency_ms": done.latency_ms, "transactions": done.transactions}
        if cpu is not None and cpu_before is not None:
            metrics["cpu_us"] = 1e6 * (cpu - cpu_before) / done.transactions
        return metrics | found | self.gaps(kind, before, done.transactions)

    def script(self, statement: str, kind: str) -> Path:
        """What pgbench runs."""
        path = self.target.folder / f"{statement}_{kind}.sql"
        path.write_text(STATEMENTS[statement].format(value=value_of(kind)), encoding="utf-8")
        return path

    def bulk(self, kind: str) -> Metrics:
        """One INSERT … SELECT in a session of its own, by the wall clock and by the CPU time of its process."""
        self.clear()
        found: Metrics = {}
        before = self.reserved(kind)
        statement = f"INSERT INTO {TABLE} SELECT {value_of(kind)} FROM generate_series(1, {self.plan.rows})"
        with self.target.counted(self.control, None, found), self.target.connect() as session:
            metrics = self.target.timed(session, lambda: session.execute(statement.encode()))
        self.check(kind, self.plan.rows)
        return metrics | found | self.gaps(kind, before, self.plan.rows)

    def reserved(self, kind: str) -> int:
        """The last number that a session has reserved, 0 before the first."""
        if kind == CONSTANT:
            return 0
        statement = f"SELECT coalesce(pg_sequence_last_value('{SCHEMA}.{kind}'), 0)"
        return int(str((self.control.execute(statement.encode()).fetchone() or (0,))[0]))

    def gaps(self, kind: str, before: int, used: int) -> Metrics:
        """Numbers that sessions reserved and did not use."""
        return {} if kind == CONSTANT else {"gaps": self.reserved(kind) - before - used}

    def check(self, kind: str, rows: int) -> None:
        """An error unless the table holds so many rows, each with a value of its own if they come from a sequence."""
        row = self.control.execute(f"SELECT count(*), count(DISTINCT c1) FROM {TABLE}".encode()).fetchone()
        expected = (rows, min(rows, 1) if kind == CONSTANT else rows)
        if row != expected:
            raise InorderError(f"{kind}: {row} rows and values in the table instead of {expected}")

    # --- what it reports ------------------------------------------------------

    @classmethod
    def sections(cls, result: Result) -> Sequence[Section]:
        """TPS by statement and clients, and one bulk statement; with P2 beside."""
        plan = cls.plan_in(result)
        return [load_section(result, plan), bulk_section(result, plan)]

    @classmethod
    def verdicts(cls, result: Result) -> Sequence[Verdict]:
        """Whether nextval of the plainest sequence slows inserts of one row, and whether each CACHE is needed."""
        plan = cls.plan_in(result)
        kind = kind_of(min(plan.caches))
        steps = {step_of(INSERT, many): many for many in sorted(plan.clients)}
        compared = [
            Compared(
                "TPS", f"a constant with {clients_text(many)}", ratios_of(result, step, kind, CONSTANT, "tps"), True
            )
            for step, many in steps.items()
        ]
        bulk = Compared("CPU time", "a constant", ratios_of(result, BULK, kind, CONSTANT, "cpu_seconds"))
        more = f"{plan.rows:,} rows by one INSERT … SELECT: {bulk.words}." if bulk.found else ""
        shown = ((name, median_of(result, step_of(INSERT, max(plan.clients)), one, "tps"), series(0))
                 for name, one in (("a constant", CONSTANT), (label(kind), kind)))  # fmt: skip
        holds = f"{label(kind)}; a row a transaction, no index, {commits(plan)}. P2: nextval is not the bottleneck."
        return [
            *costs(cls.question, compared, holds, bars_of(shown, number(0, "TPS")), more),
            *(one for cache in sorted(plan.caches)[1:] for one in cache_verdict(result, plan, cache)),
        ]


def cache_verdict(result: Result, plan: SequencePlan, cache: int) -> list[Verdict]:
    """Whether an insert with the least CACHE measured is slower than with this one, and which gaps this one leaves."""
    least, kind = kind_of(min(plan.caches)), kind_of(cache)
    steps = {step_of(INSERT, many): many for many in sorted(plan.clients)}
    compared = [
        Compared("TPS", f"CACHE {cache} with {clients_text(many)}", ratios_of(result, step, least, kind, "tps"), True)
        for step, many in steps.items()
    ]
    gaps = [gap.median for step in steps if (gap := median_of(result, step, kind, "gaps"))]
    left = f"It left gaps of up to {max(gaps):,.0f} numbers in a measurement. " if gaps else ""
    holds = f"{left}P2 asks whether CACHE is needed at all, and advises against it unless it is: {label(least)}."
    return costs(f"Is CACHE {cache} needed for inserts?", compared, holds)


def commits(plan: SequencePlan) -> str:
    """Whether they wait for the disk."""
    return f"commits {'wait' if plan.synchronous_commit == 'on' else 'do not wait'} for the disk"


def kinds_shown(plan: SequencePlan) -> list[str]:
    """Those of the plan and those published, in order of CACHE."""
    return [CONSTANT, *map(kind_of, sorted({*PUBLISHED_CACHES, *plan.caches}))]


def load_row(result: Result, statement: str, kind: str, clients: int) -> list[Value]:
    """One statement of one kind under one load."""
    step = step_of(statement, clients)
    published = PUBLISHED_TPS.get((statement, kind), {}).get(clients)
    base = PUBLISHED_TPS[statement, CONSTANT].get(clients)
    return [
        f"{statement} {label(kind)}",
        clients,
        median_of(result, step, kind, "tps"),
        ratio_of(result, step, kind, CONSTANT, "tps"),
        ratio_of(result, step, kind, CONSTANT, "cpu_us"),
        published,
        published / base if published and base and kind != CONSTANT else None,
        median_of(result, step, kind, per("wal_bytes", "transactions")),
        median_of(result, step, kind, "gaps"),
    ]


def load_section(result: Result, plan: SequencePlan) -> Section:
    """Every statement, its kinds, and its numbers of clients."""
    many = sorted({*PUBLISHED_CLIENTS, *plan.clients})
    columns = (
        Column("statement", "what each transaction does; insert: into a table of one bigint without an index"),
        Column("clients", "sessions of pgbench", number()),
        Column("TPS", "median of the rounds; pgbench, without connection time", number(), bar=True),
        Column("ratio", "of TPS to that with a constant in the same round and with as many clients", ratio),
        Column("CPU ratio", "of the CPU time of the server's sessions a transaction, their start included", ratio),
        Column("publ. TPS", "P2", number()),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("WAL B", "bytes of write-ahead log a transaction; pg_stat_wal", number(1), bar=True),
        Column("gaps", "numbers of a measurement that sessions reserved by CACHE and did not use", number()),
    )
    rows = [
        load_row(result, statement, kind, clients) for statement in STATEMENTS for clients in many
        for kind in kinds_shown(plan)
    ]  # fmt: skip
    caption = (
        f"ratio: to the same statement with 1 instead of nextval. publ.: study P2, PostgreSQL 9.3.4 on 4 cores. Empty: "
        f"not measured, or not published. {capital(commits(plan))}. P2 mentions Oracle, where CACHE 50 brought "
        f"a hundredfold; that is not measured here. {how_sure(result)}"
    )
    title = f"nextval or a constant: pgbench, simple protocol, {plan.seconds} s each"
    return Section("sequence-tps", title, columns, rows, caption)


def bulk_row(result: Result, plan: SequencePlan, kind: str) -> list[Value]:
    """One kind in bulk."""
    comparable = plan.rows == PUBLISHED_ROWS
    published = median(PUBLISHED_MS[kind]) if comparable and kind in PUBLISHED_MS else None
    base = median(PUBLISHED_MS[CONSTANT])
    return [
        label(kind),
        median_of(result, BULK, kind, "seconds", scale=1000.0),
        ratio_of(result, BULK, kind, CONSTANT, "seconds"),
        ratio_of(result, BULK, kind, CONSTANT, "cpu_seconds"),
        published,
        published / base if published and kind != CONSTANT else None,
        " ".join(map(str, PUBLISHED_MS[kind])) if published else None,
    ]


def bulk_section(result: Result, plan: SequencePlan) -> Section:
    """One INSERT … SELECT."""
    columns = (
        Column("value", "what is inserted"),
        Column("ms", "median of the rounds, by the wall clock", number(1), bar=True),
        Column("ratio", "of that time to that with a constant in the same round", ratio),
        Column("CPU ratio", "the same of the server process's CPU time", ratio),
        Column("publ. ms", "P2, median of its three runs", number(1)),
        Column("publ. ratio", "P2, of the figures beside", number(2)),
        Column("publ. runs", "P2, its three runs, ms", terminal=False),
    )
    title = f"{plan.rows:,} rows by one INSERT … SELECT, without an index"
    return Section("sequence-bulk", title, columns, [bulk_row(result, plan, kind) for kind in kinds_shown(plan)])


def clients_text(many: int) -> str:
    """So many of them.

    >>> clients_text(1), clients_text(10)
    ('1 client', '10 clients')
    """
    return f"{many} client{'s' if many > 1 else ''}"
