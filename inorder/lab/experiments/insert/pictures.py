"""The charts of the insert experiment."""

import math
from collections.abc import Mapping, Sequence

from inorder.lab.analysis.figures import by_round
from inorder.lab.experiments.insert.summary import Line
from inorder.lab.insert_tables import INSERT
from inorder.lab.report import plots
from inorder.lab.report.plots import Axis, Chart, line_chart
from inorder.lab.results import Result
from inorder.lab.turn import Series

MOST_SECONDS = 600  # that are drawn one by one; of a longer run each point is the mean of several


def over_time(result: Result, kinds: Sequence[Line]) -> Chart:
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
        said = f"{caption}, {drawn}; the rounds end to end{marked}"
        return Chart(said, Axis("seconds"), Axis(caption.lower()), lines, marks, mark, steps=True)
    lines = [
        plots.Line(kind.label, tuple(by_round(result, INSERT, kind.kind, "tps", kind.rows).items()), kind.css)
        for kind in kinds
    ]
    return line_chart(f"{caption}, round by round", "round", caption.lower(), lines)


def seconds_line(kind: Line, speeds: Mapping[int, float], ended: Sequence[int], each: int) -> plots.Line:
    parts: dict[int, list[float]] = {}
    for second, tps in speeds.items():
        parts.setdefault(second // each * each, []).append(tps)
    points = tuple((float(second), math.fsum(some) / len(some)) for second, some in parts.items())
    moments = tuple(float(second // each * each) for second in ended)
    return plots.Line(kind.label, points, kind.css, moments)


def by_size(lines: Sequence[Sequence[Line]], memory_bytes: int) -> list[Chart]:
    by_rows, by_memory = [], []
    for kinds in lines:
        label, css = kinds[0].label, kinds[0].css
        by_rows.append(plots.Line(label, tuple((kind.rows, kind.tps) for kind in kinds), css))
        by_memory.append(
            plots.Line(label, tuple((k.index_bytes / memory_bytes, k.tps) for k in kinds if k.index_bytes), css)
        )
    y = "inserts per second"
    return [
        line_chart("Inserts per second by rows in the table, both logarithmic",
                   "rows in the table before the first round", y, by_rows, True, True),
        line_chart("Inserts per second by size of the index, in times the memory of the server, both logarithmic",
                   "size of the index / shared buffers", y, by_memory, True, True),
    ]  # fmt: skip
