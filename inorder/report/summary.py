"""From the raw runs of the insert experiment to the figures that are shown.

Pure: a Result in, dataclasses out. Every view shows these and computes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inorder.lab.keys import KEY_KINDS, PRIMARY, with_indexes
from inorder.lab.results import CGROUP, DIRECT_IO, OWN_SERVER, Result, Run
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report.certainty import too_few
from inorder.units import MB


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
    tps_by_round: tuple[float, ...]


def paired(result: Result, kind: str, rows: int, metric: str) -> Estimate | None:
    """The ratio of a per-row or per-second metric to the baseline's, over the rounds both have."""
    values, base = (
        {run.round: per_insert(run, metric) for run in result.select("insert", one, rows) if metric in run.metrics}
        for one in (kind, KEY_KINDS[kind].baseline)
    )
    return ratio_by_round(values, base)


def per_insert(run: Run, metric: str) -> float:
    """A counter divided by the rows inserted while it counted; TPS is a rate already."""
    return run.metrics[metric] if metric == "tps" else run.metrics[metric] / run.metrics["inserts"]


def measured(runs: Sequence[Run], metric: str) -> Estimate | None:
    """Of a row, over the rounds; None where the server did not show it."""
    values = [per_insert(run, metric) for run in runs if metric in run.metrics]
    return estimate(values) if values else None


def hit_percent(runs: Sequence[Run]) -> Estimate | None:
    """The share of index block accesses that found the block in shared buffers, in percent; None without an index."""
    accesses = [(run.metrics["index_hits"], run.metrics["index_reads"]) for run in runs if "index_hits" in run.metrics]
    shares = [100 * hits / (hits + reads) for hits, reads in accesses if hits + reads]
    return estimate(shares) if shares else None


def summarise_kind(result: Result, kind: str, rows: int) -> KindSummary | None:
    """The figures of one kind at one size, or None before its first run."""
    runs = result.select("insert", kind, rows)
    if not runs:
        return None
    filled = {name: value for run in result.select("fill", kind, rows) for name, value in run.metrics.items()}
    sizes = {name: value for run in result.select("sizes", kind, rows) for name, value in run.metrics.items()}
    return KindSummary(
        kind=kind,
        label=KEY_KINDS[kind].label,
        rows=rows,
        tps=estimate([run.metrics["tps"] for run in runs]),
        ratio=paired(result, kind, rows, "tps"),
        wal_per_row=measured(runs, "wal_bytes"),
        wal_ratio=paired(result, kind, rows, "wal_bytes"),
        fpi_per_row=measured(runs, "full_page_images"),
        index_hit_percent=hit_percent(runs),
        index_mb=filled["index_bytes"] / MB if filled.get("index_bytes") else None,
        leaf_density=sizes.get("leaf_density"),
        tps_by_round=tuple(run.metrics["tps"] for run in runs),
    )


def summarise(result: Result) -> dict[int, list[KindSummary]]:
    """By size of table, smallest first: the kinds in the order they were asked for."""
    sizes = {}
    for rows in sorted(result.plan["rows"]):
        kinds = [summarise_kind(result, kind, rows) for kind in variants_of(result)]
        if any(kinds):
            sizes[rows] = [kind for kind in kinds if kind is not None]
    return sizes


def variants_of(result: Result) -> tuple[str, ...]:
    """The kinds of key with each of their indexes."""
    return with_indexes(tuple(result.plan["kinds"]), tuple(result.plan.get("indexes", (PRIMARY,))))


def headline(kinds: list[KindSummary]) -> str:
    """One sentence about random keys against the baseline, as sure as the rounds allow.

    >>> headline([])
    'Random keys and bigint were not both measured.'
    """
    random = next((kind for kind in kinds if kind.kind == "random"), None)
    if random is None or random.ratio is None or random.wal_ratio is None:
        return "Random keys and bigint were not both measured."
    ratio, wal = random.ratio, f"write {random.wal_ratio.median:.1f} times the WAL of bigint per row"
    if ratio.rounds < LEAST_ROUNDS or ratio.low is None or ratio.high is None:
        return f"Random keys {wal}. {too_few(ratio.rounds)}"
    if not ratio.differs_from(1.0):
        return f"Random keys {wal}; no difference in speed shows in {ratio.rounds} rounds here."
    speed = f"reach {100 * ratio.median:.0f} % [{100 * ratio.low:.0f}–{100 * ratio.high:.0f} %] of its speed here"
    return f"Use keys in order: random ones {wal} and {speed}." if ratio.high < 1 else f"Random keys {wal} and {speed}."


def own_buffers(result: Result) -> str:
    """The shared buffers that a user's own server has, as far as it told.

    >>> own_buffers(Result("insert", "now", "0", 1, {}, {"settings": {"shared_buffers": "16384 8kB"}}, {}, OWN_SERVER))
    '128 MB of shared buffers'
    """
    pages, _, unit = str(result.server.get("settings", {}).get("shared_buffers", "")).partition(" ")
    return f"{int(pages) * 8192 / MB:.0f} MB of shared buffers" if pages.isdigit() and unit == "8kB" else "Its memory"


def memory_note(result: Result) -> str:
    """How "larger than memory" was made, for the reader to judge the speeds by."""
    memory = f"{result.plan['memory_bytes'] / MB:.0f} MB of shared buffers"
    if result.method == DIRECT_IO:
        iops = result.plan.get("iops")
        limit = f", which does no more than {iops:,} reads and as many writes a second for the server" if iops else ""
        return f"{memory} without a page cache behind them: a block that is not there is read from the device{limit}."
    if result.method == CGROUP:
        return (
            f"{result.plan['memory_bytes'] / MB:.0f} MB in all, page cache included, by a memory control group; "
            f"{result.plan['memory_bytes'] / MB / 4:.0f} MB of it are shared buffers."
        )
    if result.method == OWN_SERVER:
        return f"{own_buffers(result)} and whatever cache its machine has: speeds are those of your server as it is."
    return (
        f"{memory}, and the kernel's page cache behind them: direct I/O needs PostgreSQL 16 and a file system on a "
        "device, a memory control group the right to make one and 64 MB. So speeds hide what a table larger than all "
        "memory would cost; WAL, full-page images and block counts are exact."
    )


def times_memory(result: Result, kinds: list[KindSummary]) -> str:
    """How the indexes compare with the memory, before the first round."""
    sizes = [kind.index_mb * MB / result.plan["memory_bytes"] for kind in kinds if kind.index_mb]
    if not sizes:
        return ""
    return f"The smallest index is {min(sizes):.1f}, the largest {max(sizes):.1f} times as large as that memory."
