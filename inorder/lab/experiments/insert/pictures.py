"""The charts of the insert experiment."""

import math
from collections.abc import Callable, Mapping, Sequence

from inorder.lab.analysis.figures import by_round, last_of
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments.insert.summary import KindSummary
from inorder.lab.insert_tables import FILL, INSERT
from inorder.lab.report import charts, plots
from inorder.lab.report.section import Chart, Value
from inorder.lab.results import Result
from inorder.lab.turn import Series
from inorder.units import MB

BLOCK_BYTES = 8192
MOST_SECONDS = 600  # that are drawn one by one; of a longer run each point is the mean of several


def bars(
    title: str,
    kinds: Sequence[KindSummary],
    value: Callable[[KindSummary], Estimate | None],
    show: Callable[[Value], str],
) -> Chart:
    return charts.bars_chart(title, title, ((kind.label, value(kind), kind.css) for kind in kinds), show)


def over_time(result: Result, kinds: Sequence[KindSummary]) -> Chart:
    """Inserts per second, second by second, with all checkpoints: one before each round, and those that ended within.

    Or a point a round where that is all.
    """
    caption = "Inserts per second"
    rounds: dict[int, dict[str, Series]] = {}
    for kind in kinds:
        for run in result.select(INSERT, kind.kind, kind.rows):
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
        marked = "; a diamond: a checkpoint ended" if any(ended.values()) else ""
        mark = "a round begins with a checkpoint"
        chart = plots.time_chart(caption, caption.lower(), lines, marks, mark)
        return Chart(f"{caption}, {drawn}; the rounds end to end{marked}", chart)
    lines = [
        plots.Line(kind.label, tuple(by_round(result, INSERT, kind.kind, "tps", kind.rows).items()), kind.css)
        for kind in kinds
    ]
    return Chart(f"{caption}, round by round", plots.line_chart("Rounds", "round", caption.lower(), lines))


def seconds_line(kind: KindSummary, speeds: Mapping[int, float], ended: Sequence[int], each: int) -> plots.Line:
    """A kind's speed, a point for ``each`` so many seconds, with the moments at which a checkpoint ended."""
    parts: dict[int, list[float]] = {}
    for second, tps in speeds.items():
        parts.setdefault(second // each * each, []).append(tps)
    points = tuple((float(second), math.fsum(some) / len(some)) for second, some in parts.items())
    moments = tuple(float(second // each * each) for second in ended)
    return plots.Line(kind.label, points, kind.css, moments)


def by_size(lines: Sequence[Sequence[KindSummary]], memory_bytes: int) -> list[Chart]:
    by_rows, by_memory = [], []
    for kinds in lines:
        label, css, memory = kinds[0].label, kinds[0].css, memory_bytes / MB
        by_rows.append(plots.Line(label, tuple((kind.rows, kind.tps.median) for kind in kinds), css))
        by_memory.append(
            plots.Line(label, tuple((k.index_mb / memory, k.tps.median) for k in kinds if k.index_mb), css)
        )
    y = "inserts per second"
    return [
        Chart("Inserts per second by rows in the table, both logarithmic",
              plots.line_chart("Growth", "rows in the table before the first round", y, by_rows, True, True)),
        Chart("Inserts per second by size of the index, in times the memory of the server, both logarithmic",
              plots.line_chart("The cliff", "size of the index / shared buffers", y, by_memory, True, True)),
    ]  # fmt: skip


def wal_chart(title: str, found: Sequence[tuple[KindSummary, Estimate | None, Estimate | None]], unit: str) -> Chart:
    """Records and full-page images laid end to end, of each kind of which both are known."""
    stacks = [
        charts.Stack(kind.label, (one.median, other.median), f"{one.median + other.median:,.0f} {unit}")
        for kind, one, other in found if one and other
    ]  # fmt: skip
    return Chart(title, charts.stacked_chart(title, ("records", "full-page images"), stacks))


def latency_chart(found: Sequence[tuple[KindSummary, Sequence[Estimate | None]]], names: Sequence[str]) -> Chart:
    title = "Latency by percentile"
    curves = [
        (kind.label, [one.median if one else None for one in some], kind.css) for kind, some in found if any(some)
    ]
    return Chart(title, plots.percentile_chart(title, "ms", names, curves))


def maps(result: Result, kinds: Sequence[KindSummary]) -> list[Chart]:
    found = []
    for kind in kinds:
        runs = [run for run in result.select(INSERT, kind.kind, kind.rows) if run.series.get("page_map")]
        size = last_of(result, FILL, kind.kind, "index_bytes", kind.rows)
        if runs and size is not None:
            metrics, counts = runs[-1].metrics, runs[-1].series["page_map"]
            touched = int(metrics["touched_blocks"])
            blocks = max(int(metrics.get("index_blocks", size / BLOCK_BYTES)), touched, len(counts))
            title = f"{kind.label}: blocks of the index written by {metrics['inserts']:,.0f} inserts"
            found.append(Chart(title, charts.page_map(title, counts, touched, blocks)))
    return found
