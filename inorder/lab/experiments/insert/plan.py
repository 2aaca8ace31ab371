"""What the insert experiment runs, under which steps it is kept, and the lines of its tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inorder.lab import insert_tables, setting
from inorder.lab.analysis.figures import Metric, Row, by_round, last_of, middle_of, per
from inorder.lab.analysis.stats import Estimate, ratio_by_round
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import FULL_KINDS, INDEX_KINDS, KEY_KINDS, PRIMARY, USUAL_KINDS, with_indexes
from inorder.lab.results import Result, Run
from inorder.units import MB

SIZES = "sizes"

# Study P1's kinds of index, freshly built, and its three keys with every index dropped.
P1_INDEXES = (
    "random_char_unique_packed", "random_char_plain_packed", "random_char_none", "time_char_none", "bigint_none",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InsertPlan(setting.Plan):
    """Rows are of each kind of key with each kind of index; ``dump_wal``: pg_waldump reads the WAL of each measurement.

    99 rounds find a difference of 10 % in the noise of a shared machine 80 times in 100: see the noise experiment.
    """

    kinds: tuple[str, ...] = insert_tables.keys(USUAL_KINDS, full=(*FULL_KINDS, *P1_INDEXES))
    indexes: tuple[str, ...] = setting.choices(
        "Kinds of index on the key.", tuple(INDEX_KINDS), (PRIMARY,), flag="--index"
    )
    rows: tuple[int, ...] = setting.counts(
        "Rows in the table, several comma-separated.", 1000, 10**11, (10_000_000,),
        quick=(100_000, 1_000_000), full=(1000, 1_000_000, 10_000_000, 50_000_000, 100_000_000),
    )  # fmt: skip
    rounds: int = setting.rounds(99, quick=6, full=6)
    seconds: int = setting.seconds(1, full=60)
    inserts: int | None = insert_tables.inserts()
    clients: tuple[int, ...] = setting.counts(
        "Sessions of pgbench, several comma-separated.", 1, insert_tables.MOST_CLIENTS, (8,), sessions=True
    )
    threads: int = setting.threads()
    memory_bytes: int = setting.memory(128 * MB, quick=16 * MB)
    iops: int | None = setting.optional_count(
        "Reads, and writes, per second that the server's disks are throttled to.", 10, 10**7, of_server=True
    )
    page_cache: int | None = setting.optional_bytes(
        "Page cache behind --memory, by a memory control group: for tables that fit into both. Default: none.", 16 * MB
    )
    fill_workers: int = insert_tables.fill_workers()
    max_wal_size: int | None = setting.optional_bytes(
        "max_wal_size while measuring, for several checkpoints in a measurement. Default: none comes.", 32 * MB
    )
    synchronous_commit: str = setting.synchronous_commit("off", full="on")
    tablespace: str = setting.folder("A folder for the indexes.", flag="--index-tablespace")
    dump_wal: bool = setting.switch(True)

    @property
    def variants(self) -> tuple[str, ...]:
        return with_indexes(self.kinds, self.indexes)

    @property
    def steps(self) -> dict[int, str]:
        return {count: INSERT if place == 0 else f"{INSERT}@{count}" for place, count in enumerate(self.clients)}


WAL_PER_ROW = per("wal_bytes", "inserts")
CHECKPOINTS = "checkpoints_requested"  # that WAL caused within a measurement


@dataclass(frozen=True)
class KindRow(Row):
    rows: int = 0

    @property
    def label(self) -> str:
        return KEY_KINDS[self.kind].label

    @property
    def css(self) -> str:
        """The style of its marks: that of the kind of key, whatever its index."""
        return f"kind-{self.kind.removesuffix(INDEX_KINDS[KEY_KINDS[self.kind].index_kind][0])}"

    @property
    def tps(self) -> float:
        return middle_of(self.result, INSERT, self.kind, "tps", self.rows) or 0.0

    @property
    def index_bytes(self) -> float:
        return last_of(self.result, FILL, self.kind, "index_bytes", self.rows) or 0.0


def hit_percent(run: Run) -> float | None:
    hits = run.metrics.get("index_hits", 0.0)
    accesses = hits + run.metrics.get("index_reads", 0.0)
    return 100 * hits / accesses if accesses else None


def to_baseline(metric: Metric) -> Callable[[KindRow], Estimate | None]:
    def value(line: KindRow) -> Estimate | None:
        both = (line.kind, KEY_KINDS[line.kind].baseline)
        return ratio_by_round(*(by_round(line.result, INSERT, kind, metric, line.rows) for kind in both))

    return value


def lines_of(result: Result, plan: InsertPlan) -> dict[int, list[KindRow]]:
    sizes = {rows: [KindRow(result, INSERT, kind, rows) for kind in plan.variants] for rows in sorted(plan.rows)}
    measured = {rows: [line for line in lines if line.tps] for rows, lines in sizes.items()}
    return {rows: lines for rows, lines in measured.items() if lines}


def places_of(result: Result, plan: InsertPlan) -> dict[str, int]:
    sizes = sorted(plan.rows)
    if plan.page_cache:
        return {place_of(result, plan, rows): rows for rows in sizes}
    names = {1: ["small"], 2: ["small", "large"]}.get(len(sizes), ["small", "medium", "large"])
    return dict(zip(names, (sizes[0], *sizes[len(sizes) // 2 : -1][:1], sizes[-1]), strict=False))


def place_of(result: Result, plan: InsertPlan, rows: int) -> str:
    kind = next((kind for kind in plan.variants if kind.startswith("random")), "random")
    size = sum(last_of(result, FILL, kind, part, rows) or 0 for part in ("table_bytes", "index_bytes"))
    if size <= plan.memory_bytes:
        return "small"
    return "medium" if size <= plan.memory_bytes + (plan.page_cache or 0) else "large"


def times_memory(lines: Sequence[KindRow], memory_bytes: int) -> str:
    sizes = [line.index_bytes / memory_bytes for line in lines if line.index_bytes]
    if not sizes:
        return ""
    return f"The smallest index is {min(sizes):.1f}, the largest {max(sizes):.1f} times as large as that memory."
