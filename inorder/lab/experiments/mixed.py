"""Inserts into a table full of random keys after a switch to another generator, before and after REINDEX.

Every kind starts from the same table. Its index has grown by the same random keys in the same order, as in production;
an index built by CREATE INDEX would be packed. Each kind goes through all steps before the next kind begins.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inorder.connection.database import execute
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Metric, Row, by_round, middle, middle_of, per, ratios_of, to
from inorder.lab.analysis.stats import estimate
from inorder.lab.instruments import pgbench
from inorder.lab.instruments.counters import read_index_pages, read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import OwnRun
from inorder.lab.plan.keys import KeyKind
from inorder.lab.plan.turn import Metrics, Stage, every_round, several
from inorder.lab.report.section import Figure, Section, Value, number, ratio, table
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.targets.server_settings import Small, fill_settings
from inorder.units import MB

BASELINE = "random"
WAL_PER_ROW = per("wal_bytes", "inserts")

# For each kind of key: the column default that is set after the table was filled, and the label of this default.
GENERATORS = {
    "random": ("gen_random_uuid()", "random as before"),
    "v7": ("uuid_v7_nextval()", "version 7"),
    "time": ("uuid_time_nextval(1)", "time-prefixed"),
    "after": ("uuid_after_random_nextval()", "after all random"),
}
KINDS = {name: KeyKind(name, label, "uuid") for name, (_, label) in GENERATORS.items()}

# Steps run in this order. The index is measured after each step.
FILL = "fill"
SWITCH = "switch"
REINDEX = "reindex"
AGAIN = "again"
STEPS = {
    FILL: "filling with random keys",
    SWITCH: "inserts with the new generator",
    REINDEX: "REINDEX",
    AGAIN: "further inserts",
}
BEFORE = {SWITCH: FILL, AGAIN: REINDEX}  # the step whose index is the starting point of an insert step

# Disk space per row of one table at a time: heap, index, the new index that REINDEX builds, and WAL with full-page
# images.
BYTES_PER_ROW = 800

FILL_BATCH = 100_000  # rows per statement while filling; a statement delays an interrupt by about a second

# The same random keys for every table and run, with the version and variant that gen_random_uuid() sets.
FILL_KEYS = """
SELECT (substr(h, 1, 12) || '4' || substr(h, 14, 3)
        || translate(substr(h, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab') || substr(h, 18))::uuid
FROM (SELECT md5('{seed} ' || i) FROM generate_series({low}, {high}) AS i) AS hashes (h)
"""


@dataclass(frozen=True, kw_only=True)
class MixedPlan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key to switch to, comma-separated.", tuple(KINDS), flag="--keys",
        needs_inorder=lambda kind: "_nextval(" in GENERATORS[kind][0], label=lambda kind: KINDS[kind].label,
    )  # fmt: skip
    rows: int = setting.count("Rows with random keys.", 1000, 10**10, 2_000_000, quick=500_000, full=20_000_000)
    more: int | None = setting.optional_count(
        "Rows to insert after the switch, and again after REINDEX. Default: a fifth of --rows.", 8, 10**10
    )
    rounds: int = setting.rounds(1, full=6)
    clients: int = setting.count("Number of pgbench sessions.", 1, 90, 8, sessions=True)
    threads: int = setting.threads()
    memory_bytes: int = setting.memory(32 * MB, full=256 * MB)

    @property
    def inserts(self) -> int:
        return max(1, (self.rows // 5 if self.more is None else self.more) // self.clients) * self.clients

    def rows_after(self, step: str) -> int:
        return self.rows + self.inserts * {FILL: 0, AGAIN: 2}.get(step, 1)


class MixedExperiment(Experiment[MixedPlan]):
    question = "Do random keys cost more than switching to version 7?"
    studies = ("P3",)
    own = OwnRun(
        leaf_density=True,
        otherwise="Inserts find blocks of the fill in memory, because the server was not restarted in between.",
    )

    @classmethod
    def room(cls, plan: MixedPlan) -> tuple[int, str]:
        rows = plan.rows_after(AGAIN)
        return rows * BYTES_PER_ROW, f"{rows:,} rows and their WAL"

    def prepare(self) -> None:
        self.serve_small()
        with self.target.connect() as session:
            self.target.create_schema(session)

    def stages(self) -> list[Stage]:
        turns = [
            several(STEPS, kind, self.plan.rows, KINDS[kind].label, self.measure, end=self.drop)
            for kind in self.plan.kinds
        ]
        return [Stage(every_round(turns), self.plan.rounds)]

    def outcome(self, metrics: Metrics) -> str:
        return f"index {metrics['index_bytes'] / MB:,.1f} MB"

    def serve_small(self) -> None:
        self.target.serve_small(Small(self.plan.memory_bytes))

    def measure(self, kind: str, step: str, seed: int) -> Metrics:
        key, expected = KINDS[kind], self.plan.rows_after(step)
        do = {FILL: self.fill, REINDEX: self.reindex}.get(step)
        metrics = do(key) if do else self.insert(key, seed)
        with self.target.connect() as session:
            rows = session.execute(f"SELECT count(*) FROM {key.table}".encode()).fetchone()
            sizes = read_sizes(session, key) | read_index_pages(session, key)
        if rows != (expected,):
            raise InorderError(f"{key.table} has {rows} rows instead of {expected:,}")
        return {"rows": float(expected), **metrics, **sizes}

    def fill(self, key: KeyKind) -> Metrics:
        self.target.serve(fill_settings())
        started = time.perf_counter()
        with self.target.connect() as session:
            execute(session, f"DROP TABLE IF EXISTS {key.table}", *key.statements())
            for low in range(1, self.plan.rows + 1, FILL_BATCH):
                high = min(low + FILL_BATCH - 1, self.plan.rows)
                keys = FILL_KEYS.format(seed=self.plan.seed, low=low, high=high)
                session.execute(f"INSERT INTO {key.table} {keys}".encode())
            session.execute(f"ALTER TABLE {key.table} ALTER id SET DEFAULT {GENERATORS[key.name][0]}".encode())
            self.target.checkpoint(session)  # little is left to write when the server stops
        return {"seconds": time.perf_counter() - started}

    def insert(self, key: KeyKind, seed: int) -> Metrics:
        self.serve_small()
        script = pgbench.insert_script(self.target.folder / f"mixed_{key.name}.sql", key.table)
        load = pgbench.Load(self.plan.clients, self.plan.threads, transactions=self.plan.inserts // self.plan.clients)
        with self.target.connect() as session, self.target.from_checkpoint(session, key) as counted:
            result = self.target.pgbench(script, load, seed)
        return {"tps": result.tps, "latency_ms": result.latency_ms, "inserts": result.transactions, **counted}

    def reindex(self, key: KeyKind) -> Metrics:
        with self.target.connect() as session:
            self.target.checkpoint(session)
            started = time.perf_counter()
            session.execute(f"REINDEX INDEX {key.index}".encode())
            return {"seconds": time.perf_counter() - started}

    def drop(self, kind: str) -> None:
        with self.target.connect() as session:
            session.execute(f"DROP TABLE {KINDS[kind].table}".encode())


def growth_text(result: Result) -> str:
    grown = growth(result, SWITCH, "v7")
    if grown["percent"] is None:
        return ""
    metrics = result.select(SWITCH, "v7")[0].metrics
    share = 100 * metrics["inserts"] / (metrics["rows"] - metrics["inserts"])
    density = "" if grown["density"] is None else f"; its new pages are {grown['density']:.0f} % full"
    growth_by = f"{grown['percent']:.0f} % for {share:.0f} % more rows"
    return f"After the switch to version 7, the index grew by {growth_by}{density}."


def growth(result: Result, step: str, kind: str) -> dict[str, float | None]:
    """Return the growth of an index in percent and in bytes per new row, and the density of its new pages.

    A value is None if it is unknown.
    """
    changes: dict[str, list[float]] = {"percent": [], "bytes": [], "density": []}
    earlier, later = ({run.round: run.metrics for run in result.select(phase, kind)} for phase in (BEFORE[step], step))
    for place in sorted(earlier.keys() & later.keys()):
        before, after = earlier[place], later[place]
        added = after["index_bytes"] - before["index_bytes"]
        changes["percent"].append(100 * added / before["index_bytes"])
        changes["bytes"].append(added / after["inserts"])
        if kind != BASELINE and "leaf_pages" in before and after.get("leaf_pages", 0) > before["leaf_pages"]:
            filled = [index["leaf_pages"] * index["leaf_density"] for index in (before, after)]
            changes["density"].append((filled[1] - filled[0]) / (after["leaf_pages"] - before["leaf_pages"]))
    return {measure: estimate(values).median if values else None for measure, values in changes.items()}


def of_growth(measure: str) -> Callable[[Row], Value]:
    return lambda row: growth(row.result, row.step, row.kind)[measure]


def before(metric: Metric) -> Callable[[Row], Value]:
    return lambda row: middle_of(row.result, BEFORE[row.step], row.kind, metric)


KEY = Figure("key", "The new default of the column.", value=lambda row: KINDS[row.kind].label)
GROWTH = (
    KEY,
    Figure("before", "Size of the index before the inserts (pg_relation_size).", number(1, "MB"),
           value=before(per("index_bytes", MB))),
    Figure("after", "Size of the index after the inserts.", number(1, "MB"), bar=True,
           value=middle(per("index_bytes", MB))),
    Figure("growth", "Growth in percent.", number(1, "%"), bar=True, value=of_growth("percent")),
    Figure("B/row", "Growth in bytes per new row; 31 in a packed index.", number(0), bar=True,
           value=of_growth("bytes")),
    Figure("leaf was", "Leaf density before the inserts (pgstatindex).", number(1, "%"), value=before("leaf_density")),
    Figure("leaf is", "Leaf density after the inserts (pgstatindex).", number(1, "%"), value=middle("leaf_density")),
    Figure("new", "Density of the new leaf pages: the share of their bytes that is used.", number(0, "%"),
           value=of_growth("density")),
)  # fmt: skip


COST = (
    KEY,
    Figure("inserts/s", "Transactions of one insert per second (pgbench).", number(0), bar=True, value=middle("tps")),
    Figure("vs random", "Ratio to random in the same round.", ratio, value=to(BASELINE, "tps", itself=1)),
    Figure("WAL/row", "Bytes of write-ahead log per row (pg_stat_wal).", number(0, "B"), bar=True,
           value=middle(WAL_PER_ROW)),
    Figure("FPI/row", "Full-page images per row, after a checkpoint (pg_stat_wal).", number(4), bar=True,
           value=middle(per("full_page_images", "inserts"))),
    Figure("reads/row", "Index blocks read per row; shared buffers are empty at the start (pg_statio).", number(4),
           bar=True, value=middle(per("index_reads", "inserts"))),
)  # fmt: skip


def sections(result: Result, _plan: MixedPlan) -> Sequence[Section]:
    sections = []
    for step, before in BEFORE.items():
        if lines := [Row(result, step, kind) for kind in KINDS if result.select(step, kind)]:
            rows = int(result.select(before, lines[0].kind)[0].metrics["rows"])
            inserts = int(result.select(step, lines[0].kind)[0].metrics["inserts"])
            filled = "after REINDEX" if step == AGAIN else "with random keys"
            title = f"{rows:,} rows {filled}, then {inserts:,} more"
            caption = "The server has no pgstattuple: leaf density is not known."
            if any(by_round(result, step, kind, "leaf_pages") for kind in KINDS):
                caption = "new: density of the new leaf pages; unknown for random keys, which also fill the old pages."
            sections += [
                table(f"mixed_growth_{step}", f"Index of {title}", GROWTH, lines, caption),
                table(f"mixed_cost_{step}", f"Cost of an insert: {title}", COST, lines),
            ]
    return sections


def verdicts(result: Result, plan: MixedPlan, question: str) -> Sequence[Verdict]:
    base = KINDS["v7"].label
    compared = [
        Compared("WAL", base, ratios_of(result, SWITCH, BASELINE, "v7", WAL_PER_ROW), counted=True),
        Compared("speed", base, ratios_of(result, SWITCH, BASELINE, "v7", "tps"), speed=True),
    ]
    holds = (
        f"The table is filled with {plan.rows:,} random keys; {plan.inserts:,} rows are inserted after a restart and a "
        "checkpoint."
    )
    shown = ((KINDS[kind].label, middle_of(result, SWITCH, kind, WAL_PER_ROW), f"kind-{kind}")
             for kind in ("v7", BASELINE))  # fmt: skip
    return costs(question, compared, holds, bars_of(shown, number(0, "B WAL/row")), growth_text(result))
