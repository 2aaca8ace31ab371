"""The mixed experiment as sections: how the index grew under each generator, and what an insert cost."""

from collections.abc import Sequence

from inorder.lab.experiments.mixed import AGAIN, BASELINE, FILL, INSERTING, KINDS, REINDEX, SWITCH
from inorder.lab.results import Result
from inorder.lab.stats import Estimate, estimate, ratio_by_round
from inorder.report.section import Column, Section, Value, number, ratio

# What is claimed of a switch to version 7 when a fifth more rows come: growth in percent, density of the new part.
CLAIMED_GROWTH = (15.0, 25.0)
CLAIMED_DENSITY = (40.0, 60.0)

BEFORE = {SWITCH: FILL, AGAIN: REINDEX}  # the look at the index that an insert step starts from
WHEN = {SWITCH: "switched", AGAIN: "after REINDEX"}

GROWTH_COLUMNS = (
    Column("key", "What the column's default was switched to."),
    Column("before", "Size of the index before (pg_relation_size).", number(1, "MB")),
    Column("after", "Size of the index after the inserts.", number(1, "MB")),
    Column("growth", "By how much it grew.", number(1, "%")),
    Column("B/row", "Bytes it grew by for each new row; 31 is a packed index.", number(0)),
    Column("leaf was", "How full its leaf pages were (pgstatindex).", number(1, "%")),
    Column("leaf is", "How full its leaf pages are (pgstatindex).", number(1, "%")),
    Column("new", "Bytes used in leaf pages that came, per byte of leaf pages that came.", number(0, "%")),
)
COST_COLUMNS = (
    Column("key", "What the column's default was switched to."),
    Column("inserts/s", "Transactions of one insert a second (pgbench).", number(0)),
    Column("vs random", "Ratio to random in the same round.", ratio),
    Column("WAL/row", "Bytes of write-ahead log a row (pg_stat_wal).", number(0, "B")),
    Column("FPI/row", "Full-page images a row since the checkpoint before (pg_stat_wal).", number(4)),
    Column("reads/row", "Index blocks read a row, shared buffers being empty at first (pg_statio).", number(4)),
)


def looks(result: Result, step: str, kind: str, metric: str) -> dict[int, float]:
    """One metric of a step by round, where it was measured."""
    return {run.round: run.metrics[metric] for run in result.select(step, kind) if metric in run.metrics}


def middle(values: Sequence[float]) -> float | None:
    """The median, or None of nothing: exact counters, whose spread is not shown."""
    return estimate(values).median if values else None


def growth(result: Result, step: str, kind: str) -> dict[str, float | None]:
    """How the index of a kind grew in an insert step; None for what is not known."""
    rounds: dict[str, list[float]] = {"percent": [], "bytes": [], "density": []}
    earlier, later = (
        {run.round: run.metrics for run in result.select(one, kind)} for one in (BEFORE[step], step)
    )
    for place in sorted(earlier.keys() & later.keys()):
        before, after = earlier[place], later[place]
        came = after["index_bytes"] - before["index_bytes"]
        rounds["percent"].append(100 * came / before["index_bytes"])
        rounds["bytes"].append(came / after["inserts"])
        if kind != BASELINE and "leaf_pages" in before and after.get("leaf_pages", 0) > before["leaf_pages"]:
            used = [look["leaf_pages"] * look["leaf_density"] for look in (before, after)]
            rounds["density"].append((used[1] - used[0]) / (after["leaf_pages"] - before["leaf_pages"]))
    return {name: middle(values) for name, values in rounds.items()}


def growth_row(result: Result, step: str, kind: str) -> list[Value]:
    """One line of the table of growth."""
    grown = growth(result, step, kind)
    size, leaf = (
        [middle(list(looks(result, one, kind, metric).values())) for one in (BEFORE[step], step)]
        for metric in ("index_bytes", "leaf_density")
    )
    megabytes = [None if one is None else one / 2**20 for one in size]
    return [KINDS[kind].label, *megabytes, grown["percent"], grown["bytes"], *leaf, grown["density"]]


def per_row(result: Result, step: str, kind: str, metric: str) -> float | None:
    """A counter divided by the rows inserted."""
    runs = [run.metrics for run in result.select(step, kind) if metric in run.metrics]
    return middle([run[metric] / run["inserts"] for run in runs])


def cost_row(result: Result, step: str, kind: str) -> list[Value]:
    """One line of the table of costs."""
    speed, base = (looks(result, step, one, "tps") for one in (kind, BASELINE))
    relative: Estimate | int | None = 1 if kind == BASELINE and speed else None
    if kind != BASELINE:
        relative = ratio_by_round(speed, base)
    counters = (per_row(result, step, kind, name) for name in ("wal_bytes", "full_page_images", "index_reads"))
    return [KINDS[kind].label, middle(list(speed.values())), relative, *counters]


def measured_kinds(result: Result, step: str) -> list[str]:
    """In the order of KINDS."""
    return [kind for kind in KINDS if result.select(step, kind)]


def mixed_sections(result: Result) -> list[Section]:
    """Growth and cost, before REINDEX and after it, as far as they are measured."""
    sections = []
    for step in INSERTING:
        kinds = measured_kinds(result, step)
        if not kinds:
            continue
        rows = int(result.select(BEFORE[step], kinds[0])[0].metrics["rows"])
        inserts = int(result.select(step, kinds[0])[0].metrics["inserts"])
        title = f"{rows:,} rows{' after REINDEX' if step == AGAIN else ' with random keys'}, then {inserts:,} more"
        sections += [
            Section(
                f"mixed_growth_{step}",
                f"Index of {title}",
                GROWTH_COLUMNS,
                [growth_row(result, step, kind) for kind in kinds],
                growth_caption(result, step),
            ),
            Section(
                f"mixed_cost_{step}",
                f"Cost of an insert: {title}",
                COST_COLUMNS,
                [cost_row(result, step, kind) for kind in kinds],
            ),
        ]
    return sections


def growth_caption(result: Result, step: str) -> str:
    """What the new part is, and why cells of it are empty."""
    known = any(looks(result, step, kind, "leaf_pages") for kind in KINDS)
    if not known:
        return "The server has no pgstattuple: leaf density is not known."
    return "new: how full the leaf pages are that came; of random unknown, since it fills those there were, too."


def verdict(value: float, claimed: tuple[float, float]) -> str:
    """Whether a claim reappears.

    >>> verdict(20.0, CLAIMED_GROWTH), verdict(28.0, CLAIMED_GROWTH)
    ('as claimed', 'more than claimed')
    """
    low, high = claimed
    return "less than claimed" if value < low else "more than claimed" if value > high else "as claimed"


def mixed_headline(result: Result) -> str:
    """About the switch to version 7: what was claimed, and whether it reappears."""
    grown = growth(result, SWITCH, "v7")
    runs = result.select(SWITCH, "v7")
    if grown["percent"] is None:
        return ""
    metrics = runs[0].metrics
    share = 100 * metrics["inserts"] / (metrics["rows"] - metrics["inserts"])
    sentence = f"Switched to version 7 the index grew by {grown['percent']:.0f} % for {share:.0f} % more rows"
    if 15 <= share <= 25:
        sentence += f" (claimed: about a fifth; {verdict(grown['percent'], CLAIMED_GROWTH)})"
    if grown["density"] is not None:
        word = verdict(grown["density"], CLAIMED_DENSITY)
        sentence += f", its new part being {grown['density']:.0f} % full (claimed: half empty; {word})"
    return sentence + "."
