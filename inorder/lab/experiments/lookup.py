"""Blocks and time of reads by kind of key: the newest rows, pages, one row, counts by time."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from statistics import median as middle

from inorder.connection.database import Connection, execute, one_row
from inorder.lab.analysis.figures import Row, last, median, median_of, per, ratios_of, to
from inorder.lab.instruments.counters import read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import OwnRun
from inorder.lab.plan.keys import BASELINE, KEY_KINDS, USUAL_KINDS, KeyKind
from inorder.lab.plan.turn import Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, number, table, to_base
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.targets.server_settings import Small, fill_settings
from inorder.units import MB

FILL = "fill"
NEWEST_KEY = "newest_key"
PAGE = "page"
RECENT = "recent"
ANY = "any"
COUNT_KEY = "count_key"

LIMIT = 100  # rows per result page
SAMPLES = 1000  # rows drawn from each table for lookups, unless there are more queries
RECENT_SHARE = 0.01  # fraction of rows that count as the newest

# The description and the SQL of each query. Values from the table replace {key} and {moment}.
LOOKS = {
    NEWEST_KEY: (f"The newest {LIMIT} rows by the key", f"SELECT * FROM {{table}} ORDER BY id DESC LIMIT {LIMIT}"),
    "newest_created": (
        f"The newest {LIMIT} rows by created_at", f"SELECT * FROM {{table}} ORDER BY created_at DESC LIMIT {LIMIT}"
    ),
    PAGE: (
        f"A page of {LIMIT} rows after a key", f"SELECT * FROM {{table}} WHERE id > {{key}} ORDER BY id LIMIT {LIMIT}"
    ),
    RECENT: ("One row of the newest hundredth", "SELECT * FROM {table} WHERE id = {key}"),
    ANY: ("Any one row", "SELECT * FROM {table} WHERE id = {key}"),
    COUNT_KEY: (
        "Counting the newest hundredth by the time in the key", "SELECT count(*) FROM {table} WHERE id >=~ {moment}"
    ),
    "count_created": (
        "Counting the newest hundredth by created_at", "SELECT count(*) FROM {table} WHERE created_at >= {moment}"
    ),
}  # fmt: skip
IN_TIME_ORDER = ("bigint", "xact", "v7")  # kinds of key whose greatest key belongs to the newest row
WITH_TIME = "v7"

# Without these settings, a count would use JIT compilation and a parallel plan, for which EXPLAIN adds up the times of
# all processes.
SESSION = {"max_parallel_workers_per_gather": "0", "jit": "off"}

# Disk space per row: the heap with a payload of 60 bytes, both indexes, and the WAL kept from filling the table.
BYTES_PER_ROW = 450
FILL_BATCH = 100_000


@dataclass(frozen=True, kw_only=True)
class LookupPlan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key, comma-separated.", USUAL_KINDS, flag="--keys",
        needs_inorder=lambda kind: KEY_KINDS[kind].needs_inorder, label=lambda kind: KEY_KINDS[kind].label,
    )  # fmt: skip
    rows: int = setting.count("Rows in each table.", 1000, 10**10, 2_000_000, quick=300_000, full=50_000_000)
    queries: int = setting.count("Queries of each measurement.", 1, 100_000, 200, quick=50)
    rounds: int = setting.rounds(9, quick=6)
    memory_bytes: int = setting.memory(32 * MB, quick=8 * MB, full=256 * MB)


def steps_of(kind: str) -> list[str]:
    left_out = [NEWEST_KEY] * (kind not in IN_TIME_ORDER) + [COUNT_KEY] * (kind != WITH_TIME)
    return [step for step in LOOKS if step not in left_out]


@dataclass(frozen=True)
class Drawn:
    keys: tuple[str, ...]
    recent: tuple[str, ...]
    moment: str


class LookupExperiment(Experiment[LookupPlan]):
    question = "Do random keys slow down reads of recent rows?"
    own = OwnRun(
        counts=False, checkpoints=False,
        otherwise="Queries find blocks in memory, because the server was not restarted between filling and reading.",
    )  # fmt: skip

    @classmethod
    def room(cls, plan: LookupPlan) -> tuple[int, str]:
        return plan.rows * len(plan.kinds) * BYTES_PER_ROW, f"{plan.rows:,} rows of {len(plan.kinds)} kinds of key"

    def prepare(self) -> None:
        self.drawn: dict[str, Drawn] = {}
        self.serve_small()
        with self.target.connect() as session:
            self.target.create_schema(session)
            for kind in self.plan.kinds:
                execute(session, *statements(KEY_KINDS[kind]))

    def stages(self) -> list[Stage]:
        rows = self.plan.rows
        fills = [
            single(FILL, kind, rows, f"Filling {KEY_KINDS[kind].label}", partial(self.fill, kind))
            for kind in self.plan.kinds
        ]
        looks = [
            single(step, kind, rows, f"{LOOKS[step][0]}: {KEY_KINDS[kind].label}", partial(self.look, kind, step))
            for kind in self.plan.kinds for step in steps_of(kind)
        ]  # fmt: skip
        return [
            Stage(every_round(fills), 1, begin=lambda: self.target.serve(fill_settings()), shuffled=False, redone=True),
            Stage(every_round(looks), self.plan.rounds, begin=self.serve_small),
        ]

    def outcome(self, metrics: Metrics) -> str:
        return f"{metrics['reads']:.2f} blocks read a query" if "reads" in metrics else f"{metrics['seconds']:.1f} s"

    def serve_small(self) -> None:
        self.target.serve_small(Small(self.plan.memory_bytes))

    def fill(self, kind: str, _seed: int) -> Metrics:
        """Fill a table, VACUUM it so that counts can use index-only scans, and draw the keys to look up."""
        key, started = KEY_KINDS[kind], time.monotonic()
        with self.target.connect() as session:
            for low in range(0, self.plan.rows, FILL_BATCH):
                batch = min(FILL_BATCH, self.plan.rows - low)
                session.execute(f"INSERT INTO {key.table} SELECT FROM generate_series(1, {batch})".encode())
            session.execute(f"CREATE INDEX ON {key.table} (created_at)".encode())
            session.execute(f"VACUUM (ANALYZE) {key.table}".encode())
            self.drawn[kind] = drawn(session, key, self.plan)
            sizes = read_sizes(session, key)
            self.target.checkpoint(session)  # little is left to write when the server stops
        return {"seconds": time.monotonic() - started, **sizes}

    def look(self, kind: str, step: str, seed: int) -> Metrics:
        rng, sample = random.Random(seed), self.drawn[kind]
        keys = sample.recent if step == RECENT else sample.keys
        with self.target.connect(**SESSION) as session:
            explained = [
                explain(session, LOOKS[step][1].format(
                    table=KEY_KINDS[kind].table, key=rng.choice(keys), moment=sample.moment,
                ))
                for _ in range(self.plan.queries)
            ]  # fmt: skip
        return {
            "hits": sum(plan["Shared Hit Blocks"] for plan in explained) / len(explained),
            "reads": sum(plan["Shared Read Blocks"] for plan in explained) / len(explained),
            "rows": fsum(plan["Actual Rows"] for plan in explained) / len(explained),
            "latency_ms": middle(plan["Execution Time"] for plan in explained),
        }


def statements(key: KeyKind) -> list[str]:
    return [
        *key.statements(),
        f"ALTER TABLE {key.table} ADD created_at timestamptz NOT NULL DEFAULT clock_timestamp(), "
        f"ADD payload text NOT NULL DEFAULT repeat('x', 60), SET (autovacuum_enabled = off)",
    ]


def drawn(session: Connection, key: KeyKind, plan: LookupPlan) -> Drawn:
    """Draw keys from random blocks, because the index pages of the first rows alone would fit into memory."""
    (pages,), rng = one_row(session, f"SELECT pg_relation_size('{key.table}') / 8192"), random.Random(plan.seed)
    newest = max(0, int(pages * (1 - RECENT_SHARE)))
    lines = max(1, plan.rows // pages)

    def keys(low: int) -> tuple[str, ...]:
        places = [f"({rng.randrange(low, pages)},{rng.randint(1, lines)})" for _ in range(max(SAMPLES, plan.queries))]
        query = f"SELECT DISTINCT quote_literal(id) FROM {key.table} WHERE ctid = ANY (%s::tid[])"
        return tuple(sorted(str(key) for (key,) in session.execute(query.encode(), (places,))))

    query = f"SELECT quote_literal(created_at) || '::timestamptz' FROM {key.table} WHERE ctid = '({newest},1)'"
    return Drawn(keys(0), keys(newest), str(one_row(session, query)[0]))


def explain(session: Connection, statement: str) -> Mapping[str, float]:
    ((explained,),) = one_row(session, f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement}")
    return {**explained["Plan"], "Execution Time": explained["Execution Time"]}


def accesses(run: Run) -> float | None:
    return run.metrics["hits"] + run.metrics["reads"] if "hits" in run.metrics else None


FIGURES = (
    Figure("key", "Kind of key of the table.", value=lambda row: KEY_KINDS[row.kind].label),
    Figure("blocks", "Blocks that a query accessed, in shared buffers or not; mean of a measurement.", number(2),
           "blocks", bar=True, value=median(accesses)),
    Figure("read", "Accessed blocks that were not in shared buffers (EXPLAIN, Shared Read Blocks).", number(2), "reads",
           bar=True, value=median("reads")),
    Figure("vs bigint", "Blocks accessed, relative to bigint in the same round.", to_base, "blocks_ratio",
           value=to(BASELINE, accesses)),
    Figure("ms", "Execution time of a query: median of a measurement (EXPLAIN, without timing of nodes).",
           number(3, interval=True), "latency_ms", bar=True, value=median("latency_ms")),
    Figure("time vs bigint", "Ratio to the execution time of bigint in the same round.", to_base, "latency_ratio",
           value=to(BASELINE, "latency_ms")),
    Figure("rows", "Rows that a query returned, or counted.", number(), "rows", terminal=False, value=last("rows")),
    Figure("index", "Size of the index on the key.", number(0, "MB"), "index_mb",
           value=last(per("index_bytes", MB), FILL)),
)  # fmt: skip


def memory(result: Result) -> str:
    sizes = [run.metrics["index_bytes"] for run in result.select(FILL)]
    times = max(sizes, default=0) / result.plan["memory_bytes"]
    return f"The largest index is {times:.1f} times the memory of the server."


def sections(result: Result, plan: LookupPlan) -> Sequence[Section]:
    tables = []
    for step, (words, query) in LOOKS.items():
        if lines := [Row(result, step, kind) for kind in plan.kinds if result.select(step, kind)]:
            caption = f"{query.format(table='…', key='…', moment='…')}. {memory(result)}"
            tables.append(table(f"lookup_{step}", f"{words}, {plan.rows:,} rows", FIGURES, lines, caption))
    return tables


def verdicts(result: Result, plan: LookupPlan, question: str) -> Sequence[Verdict]:
    base = "v7" if result.select(RECENT, "v7") else BASELINE
    compared = [
        Compared(metric, KEY_KINDS[base].label, ratios_of(result, RECENT, "random", base, values))
        for metric, values in (("number of reads", "reads"), ("time", "latency_ms"))
    ]
    rows = f"Each query reads one row of the newest hundredth of {plan.rows:,} rows."
    shown = ((KEY_KINDS[kind].label, median_of(result, RECENT, kind, "reads"), f"kind-{kind}")
             for kind in dict.fromkeys((BASELINE, base, "random")))  # fmt: skip
    return costs(question, compared, f"{rows} {memory(result)}", bars_of(shown, number(2, "reads")))
