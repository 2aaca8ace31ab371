"""The insert experiment as sections: a table a size, and the sizes side by side."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from inorder.lab.keys import INDEX_KINDS, KEY_KINDS
from inorder.lab.legacy import Series
from inorder.lab.results import Result
from inorder.lab.stats import LEAST_ROUNDS, Estimate
from inorder.report import charts, plots
from inorder.report.insert_details import clients_sections, detail_sections
from inorder.report.insert_published import published_sections
from inorder.report.model import model_sections
from inorder.report.section import (
    Chart,
    Column,
    Section,
    Value,
    data_only,
    interval_text,
    number,
    percent,
    to_base,
)
from inorder.report.summary import KindSummary, headline, summarise, times_memory, variants_of

# The names are as narrow as a terminal of 80 columns needs.
COLUMNS = (
    data_only("kind"),
    Column("key", "Kind of key of the table.", data="label"),
    data_only("rows"),
    Column(
        "inserts/s", "Transactions of one INSERT each per second (pgbench), median of the rounds.", number(), "tps"
    ),
    Column(
        "vs bigint",
        "Ratio to bigint in the same round: median, and in brackets its interval of 95 % or more (order statistics). "
        f"Below {LEAST_ROUNDS} rounds the brackets hold their range, and no difference is claimed.",
        to_base,
        "ratio",
    ),
    Column(
        "WAL/row", "Bytes of write-ahead log per inserted row (pg_stat_wal.wal_bytes).", number(0, "B"), "wal_per_row"
    ),
    Column("WAL vs bigint", "Ratio of these bytes to those of bigint in the same round.", to_base, "wal_ratio", False),
    Column(
        "FPI/row",
        "Full-page images per inserted row (pg_stat_wal.wal_fpi): pages written whole to the WAL because they "
        "changed for the first time since a checkpoint.",
        number(4),
        "fpi_per_row",
    ),
    Column(
        "hits",
        "Share of index block accesses that found the block in shared buffers (pg_statio_all_indexes).",
        percent,
        "index_hit_percent",
    ),
    Column(
        "index", "Size of the primary key's index at that number of rows, before the first round.", number(0, "MB"),
        "index_mb",
    ),
    Column(
        "leaf",
        "Leaf density: how full the index's leaf pages are after the last round "
        "(pgstatindex; where there is no pgstattuple, btree_leaf_pages of the extension, which counts alike).",
        percent,
        "leaf_density",
    ),
)  # fmt: skip


GROWN = 1.1  # from where on a table that grows from round to round is said to have done so


def css_class(kind: str) -> str:
    """The style of a kind's marks.

    >>> css_class("v7"), css_class("v7_plain")
    ('kind-v7', 'kind-v7')
    """
    return f"kind-{kind.removesuffix(INDEX_KINDS[KEY_KINDS[kind].index_kind][0])}"


def row_of(kind: KindSummary) -> list[Value]:
    """As the columns have it."""
    return [
        kind.kind, kind.label, kind.rows, kind.tps, kind.ratio, kind.wal_per_row, kind.wal_ratio, kind.fpi_per_row,
        kind.index_hit_percent, kind.index_mb, kind.leaf_density,
    ]  # fmt: skip


def bars(
    title: str,
    kinds: Sequence[KindSummary],
    value: Callable[[KindSummary], Estimate | None],
    show: Callable[[Value], str],
) -> Chart:
    """One estimate of every kind, with its interval."""
    some = [(kind, one) for kind in kinds if (one := value(kind))]
    drawn = [charts.Bar(k.label, one.median, show(one), css_class(k.kind), one.low, one.high) for k, one in some]
    return Chart(title, charts.bar_chart(title, drawn))


MOST_SECONDS = 600  # that are drawn one by one; of a longer run each point is the mean of several


def over_time(result: Result, kinds: Sequence[KindSummary]) -> Chart:
    """Inserts per second, second by second, with all checkpoints: one before each round, and those that ended within.

    Or a point a round where that is all.
    """
    caption = "Inserts per second"
    rounds: dict[int, dict[str, Series]] = {}
    for kind in kinds:
        for run in result.select("insert", kind.kind, kind.rows):
            rounds.setdefault(run.round, {})[kind.kind] = run.series
    speeds: dict[str, dict[int, float]] = {kind.kind: {} for kind in kinds}
    ended: dict[str, list[int]] = {kind.kind: [] for kind in kinds}
    marks, start = [], 0
    for _, by_kind in sorted(rounds.items()):  # as long as the longest in it, so that all begin together
        marks.append(float(start))
        for name, series in by_kind.items():
            speeds[name] |= {start + second: tps for second, tps in enumerate(series.get("tps", []))}
            ended[name] += [start + int(second) - 1 for second in series.get("checkpoints", [])]
        start += max(len(series.get("tps", [])) for series in by_kind.values())
    if start > len(marks):
        each = math.ceil(start / MOST_SECONDS)
        lines = [seconds_line(kind, speeds[kind.kind], ended[kind.kind], each) for kind in kinds]
        drawn = "second by second" if each == 1 else f"means of {each} seconds"
        told = "; a diamond: a checkpoint ended" if any(ended.values()) else ""
        mark = "a round begins with a checkpoint"
        chart = plots.time_chart(caption, caption.lower(), lines, marks, mark)
        return Chart(f"{caption}, {drawn}; the rounds end to end{told}", chart)
    lines = [plots.Line(k.label, tuple(enumerate(k.tps_by_round, start=1)), css_class(k.kind)) for k in kinds]
    return Chart(f"{caption}, round by round", plots.line_chart("Rounds", "round", caption.lower(), lines))


def seconds_line(kind: KindSummary, speeds: Mapping[int, float], ended: Sequence[int], each: int) -> plots.Line:
    """A kind's speed, a point for ``each`` so many seconds, with the moments at which a checkpoint ended."""
    parts: dict[int, list[float]] = {}
    for second, tps in speeds.items():
        parts.setdefault(second // each * each, []).append(tps)
    points = tuple((float(second), sum(some) / len(some)) for second, some in parts.items())
    moments = tuple(float(second // each * each) for second in ended)
    return plots.Line(kind.label, points, css_class(kind.kind), moments)


def grown(result: Result, rows: int) -> str:
    """How large the tables were when the last turns began, if that is another size."""
    most = max((run.metrics.get("rows_before", 0) for run in result.select("insert", rows=rows)), default=0)
    return f"Later rounds began with up to {most:,.0f} rows." if most > GROWN * rows else ""


def size_section(result: Result, rows: int, kinds: Sequence[KindSummary]) -> Section:
    """Every kind at one size of table."""
    return Section(
        f"rows_{rows}",
        f"Inserting into a table of {rows:,} rows",
        COLUMNS,
        [row_of(kind) for kind in kinds],
        charts=[
            bars("Inserts per second", kinds, lambda kind: kind.tps, number()),
            bars("WAL bytes per inserted row", kinds, lambda kind: kind.wal_per_row, number(0, "B")),
            bars("Index blocks found in shared buffers", kinds, lambda kind: kind.index_hit_percent, percent),
            over_time(result, kinds),
        ],
        note=times_memory(result, list(kinds)),
        caption=grown(result, rows),
    )


def growth_section(result: Result, sizes: dict[int, list[KindSummary]]) -> Section:
    """Does it get slower as the table grows: the sizes side by side, and the speed over index size to memory."""
    columns = [Column("key", "Kind of key of the table.")]
    columns += [
        Column(f"{rows:,} rows", "Inserts per second into a table of so many rows, median of the rounds.", number())
        for rows in sizes
    ]
    found = {(rows, kind.kind): kind for rows, kinds in sizes.items() for kind in kinds}
    wanted = [kind for kind in variants_of(result) if any((rows, kind) in found for rows in sizes)]
    table: list[list[Value]] = []
    by_rows, by_memory = [], []
    for name in wanted:
        some = [found.get((rows, name)) for rows in sizes]
        label, css = KEY_KINDS[name].label, css_class(name)
        table.append([label, *(kind.tps if kind else None for kind in some)])
        there = [kind for kind in some if kind]
        by_rows.append(plots.Line(label, tuple((kind.rows, kind.tps.median) for kind in there), css))
        memory = result.plan["memory_bytes"] / 2**20
        by_memory.append(
            plots.Line(label, tuple((k.index_mb / memory, k.tps.median) for k in there if k.index_mb), css)
        )
    y = "inserts per second"
    return Section(
        "growth", "Does it get slower as the table grows?", columns, table, terminal=False, data=False,
        charts=[
            Chart("Inserts per second by rows in the table, both logarithmic",
                  plots.line_chart("Growth", "rows in the table before the first round", y, by_rows, True, True)),
            Chart("Inserts per second by size of the index, in times the memory of the server, both logarithmic",
                  plots.line_chart("The cliff", "size of the index / shared buffers", y, by_memory, True, True)),
        ],
    )  # fmt: skip


def insert_sections(result: Result) -> list[Section]:
    """Every size, the smallest first; of several the comparison behind them; details, published figures, the model."""
    sizes = summarise(result)
    css = {name: css_class(name) for name in KEY_KINDS}
    more = [
        *(one for rows, kinds in sizes.items() for one in detail_sections(result, rows, kinds, css)),
        *clients_sections(result),
        *published_sections(result),
        *model_sections(result),
    ]
    in_terminal = bool(result.plan.get("dump_wal", True))  # of the demo the page alone has them
    return [
        *(size_section(result, rows, kinds) for rows, kinds in sizes.items()),
        *([growth_section(result, sizes)] if len(sizes) > 1 else []),
        *(replace(section, terminal=in_terminal) for section in more),
    ]


def insert_headline(result: Result) -> str:
    """About the largest table: random keys, and then those in order."""
    sizes = list(summarise(result).values())
    if not sizes:
        return headline([])
    return " ".join([headline(sizes[-1]), *in_order(sizes[-1])])


def in_order(kinds: Sequence[KindSummary]) -> list[str]:
    """How fast the keys in order are beside bigint, where the rounds allow to say it."""
    told = []
    for kind in kinds:
        one = kind.ratio
        if kind.kind.startswith(("bigint", "random")) or one is None or one.rounds < LEAST_ROUNDS:
            continue
        same = "" if one.differs_from(1.0) else ", no difference"
        told.append(f"{kind.label} {interval_text(one)}{same}")
    return [f"Keys in order, speed to bigint's: {'; '.join(told)}."] if told else []
