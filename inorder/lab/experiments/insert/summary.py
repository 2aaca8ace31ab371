"""The figures in the first tables of the insert experiment, computed from its runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inorder.lab.analysis.figures import Metric, Row, by_round, last_of, middle_of, per
from inorder.lab.analysis.stats import Estimate, ratio_by_round
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.plan.keys import INDEX_KINDS, KEY_KINDS
from inorder.lab.results.result import Result, Run
from inorder.lab.tables.insert_tables import FILL, INSERT

WAL_PER_ROW = per("wal_bytes", "inserts")
CHECKPOINTS = "checkpoints_requested"  # checkpoints that WAL caused during a measurement


@dataclass(frozen=True)
class KindRow(Row):
    rows: int = 0

    @property
    def label(self) -> str:
        return KEY_KINDS[self.kind].label

    @property
    def css(self) -> str:
        """The style of marks in charts, which depends on the kind of key but not on the index."""
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
    size = sum(last_of(result, FILL, kind, metric, rows) or 0 for metric in ("table_bytes", "index_bytes"))
    if size <= plan.memory_bytes:
        return "small"
    return "medium" if size <= plan.memory_bytes + (plan.page_cache or 0) else "large"


def times_memory(lines: Sequence[KindRow], memory_bytes: int) -> str:
    sizes = [line.index_bytes / memory_bytes for line in lines if line.index_bytes]
    if not sizes:
        return ""
    return f"The smallest index is {min(sizes):.1f} times as large as the memory, the largest {max(sizes):.1f} times."
