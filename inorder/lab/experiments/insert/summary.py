"""From the runs of the insert experiment to the figures of its first tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from inorder.lab.analysis.figures import Metric, by_round, last_of, median_of, per
from inorder.lab.analysis.stats import Estimate, ratio_by_round
from inorder.lab.experiments.insert.plan import SIZES, InsertPlan
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.keys import INDEX_KINDS, KEY_KINDS
from inorder.lab.results import Result, Run
from inorder.units import MB

WAL_PER_ROW = per("wal_bytes", "inserts")


@dataclass(frozen=True)
class KindSummary:
    """One kind of key at one size of table. None is what was not measured, or of an index where there is none."""

    kind: str
    label: str
    rows: int
    tps: Estimate
    ratio: Estimate | None
    wal_per_row: Estimate | None
    wal_ratio: Estimate | None
    fpi_per_row: Estimate | None
    index_hit_percent: Estimate | None
    index_mb: float | None
    leaf_density: float | None

    @property
    def css(self) -> str:
        """The style of its marks: that of the kind of key, whatever its index."""
        return f"kind-{self.kind.removesuffix(INDEX_KINDS[KEY_KINDS[self.kind].index_kind][0])}"


def hit_percent(run: Run) -> float | None:
    """The share of index block accesses that found the block in shared buffers; None without an index."""
    hits = run.metrics.get("index_hits", 0.0)
    accesses = hits + run.metrics.get("index_reads", 0.0)
    return 100 * hits / accesses if accesses else None


def to_baseline(result: Result, kind: str, metric: Metric, rows: int) -> Estimate | None:
    values, base = (by_round(result, INSERT, one, metric, rows) for one in (kind, KEY_KINDS[kind].baseline))
    return ratio_by_round(values, base)


def summarise_kind(result: Result, kind: str, rows: int) -> KindSummary | None:
    """The figures of one kind at one size, or None before its first run."""
    tps = median_of(result, INSERT, kind, "tps", rows)
    if tps is None:
        return None
    return KindSummary(
        kind=kind,
        label=KEY_KINDS[kind].label,
        rows=rows,
        tps=tps,
        ratio=to_baseline(result, kind, "tps", rows),
        wal_per_row=median_of(result, INSERT, kind, WAL_PER_ROW, rows),
        wal_ratio=to_baseline(result, kind, WAL_PER_ROW, rows),
        fpi_per_row=median_of(result, INSERT, kind, per("full_page_images", "inserts"), rows),
        index_hit_percent=median_of(result, INSERT, kind, hit_percent, rows),
        index_mb=(last_of(result, FILL, kind, "index_bytes", rows) or 0) / MB or None,
        leaf_density=last_of(result, SIZES, kind, "leaf_density", rows),
    )


def summarise(result: Result, plan: InsertPlan) -> dict[int, list[KindSummary]]:
    sizes = {rows: [summarise_kind(result, kind, rows) for kind in plan.variants] for rows in sorted(plan.rows)}
    return {rows: [kind for kind in kinds if kind] for rows, kinds in sizes.items() if any(kinds)}


def places_of(result: Result, plan: InsertPlan) -> dict[str, int]:
    """The sizes that stand beside study P3's tables: by what they fit into, or else smallest, middle and largest."""
    sizes = sorted(plan.rows)
    if plan.page_cache:
        return {place_of(result, plan, rows): rows for rows in sizes}
    names = {1: ["small"], 2: ["small", "large"]}.get(len(sizes), ["small", "medium", "large"])
    return dict(zip(names, (sizes[0], *sizes[len(sizes) // 2 : -1][:1], sizes[-1]), strict=False))


def place_of(result: Result, plan: InsertPlan, rows: int) -> str:
    size = sum(last_of(result, FILL, "random", part, rows) or 0 for part in ("table_bytes", "index_bytes"))
    if size <= plan.memory_bytes:
        return "small"
    return "medium" if size <= plan.memory_bytes + (plan.page_cache or 0) else "large"


def times_memory(kinds: Sequence[KindSummary], memory_bytes: int) -> str:
    sizes = [kind.index_mb * MB / memory_bytes for kind in kinds if kind.index_mb]
    if not sizes:
        return ""
    return f"The smallest index is {min(sizes):.1f}, the largest {max(sizes):.1f} times as large as that memory."
