"""Line charts: over numbers or names, linear or logarithmic, over time with marks. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inorder.lab.report.drawing import NOTHING, Drawing, Spec, colour, narrow

PLOT_HEIGHT = 260
MOST_DOTS = 40  # of a line; more would hide it
MOST_VALUES = 8  # that are all named along an axis
PERCENTILES_APART = 10.0  # largest to smallest latency from which the axis is logarithmic
MARGIN = 6
DASHES, WHOLE = [6, 4], [1, 0]
# Where the name of the y axis stands: above it, from left to right.
ABOVE = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": -44, "titleY": -22}

# A number for an axis, as short_number has it, in Vega's expressions.
SHORT = (
    "abs(datum.value) >= 1e6 ? format(datum.value / 1e6, '.4~g') + ' M'"
    " : abs(datum.value) >= 1e3 ? format(datum.value / 1e3, '.4~g') + ' k' : format(datum.value, '.4~g')"
)


@dataclass(frozen=True)
class Line:
    """One line through points (x, y), with a diamond on those of the ``moments`` among their x."""

    label: str
    points: tuple[tuple[float, float], ...]
    css: str
    moments: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axis:
    """One side: its name, whether it is logarithmic, and names for 0, 1, 2 … in place of numbers."""

    title: str
    logarithmic: bool = False
    names: tuple[str, ...] = ()


def short_number(value: float) -> str:
    """A number for an axis.

    >>> [short_number(value) for value in (0, 0.25, 800, 150_000, 2_500_000)]
    ['0', '0.25', '800', '150 k', '2.5 M']
    """
    for size, suffix in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"


def line_chart(
    title: str, x_title: str, y_title: str, lines: Sequence[Line], log_x: bool = False, log_y: bool = False
) -> Drawing:
    """Lines over a linear axis from zero, or logarithmic ones, with a legend in the order of their ends."""
    return plot(title, Axis(x_title, log_x), Axis(y_title, log_y), lines)


def time_chart(
    title: str, y_title: str, lines: Sequence[Line], marks: Sequence[float] = (), mark: str = "checkpoint"
) -> Drawing:
    """Steps over seconds: each point holds until the next; marks are moments, named once."""
    return plot(title, Axis("seconds"), Axis(y_title), lines, marks, mark, "step-after")


def percentile_chart(
    title: str, y_title: str, names: Sequence[str], curves: Sequence[tuple[str, Sequence[float | None], str]]
) -> Drawing:
    """A line of latencies for each (label, values, css), over the percentiles' names; None is left out."""
    lines = [
        Line(label, tuple((float(n), value) for n, value in enumerate(values) if value is not None), css)
        for label, values, css in curves
    ]
    values = [y for line in lines for _, y in line.points]
    apart = bool(values) and min(values) > 0 and max(values) / min(values) >= PERCENTILES_APART
    return plot(title, Axis("percentile", names=tuple(names)), Axis(y_title, apart), lines)


def plot(
    title: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    marks: Sequence[float] = (),
    mark: str = "",
    interpolate: str = "linear",
) -> Drawing:
    """The one that draws; what a logarithmic axis cannot have is left out, and nothing is drawn of nothing."""
    drawn = [one for one in (drawable(line, x, y) for line in lines) if one.points]
    if not drawn:
        return NOTHING
    layers = [lines_layer(drawn, interpolate), *dots_layers(drawn, x)]
    layers += [mark_layer(marks), mark_name(min(marks), mark)] if marks else []

    def spec(width: int) -> Spec:
        return {
            "width": width,
            "height": PLOT_HEIGHT,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "padding": padding(drawn, width),
            "encoding": {"x": x_encoding(drawn, x), "y": y_encoding(y)},
            "layer": [layers[0] | {"encoding": layers[0]["encoding"] | colours(drawn, width)}, *layers[1:]],
        }

    return Drawing(f"{title}: {y.title} by {x.title}", spec)


def padding(lines: Sequence[Line], width: int) -> Spec:
    """Beside a legend there is room for a wider font than the one that Vega-Lite measures by."""
    beside = 0 if narrow(width) else 2 * max(len(line.label) for line in lines)
    return {"left": MARGIN, "right": MARGIN + beside, "top": MARGIN, "bottom": MARGIN}


def drawable(line: Line, x: Axis, y: Axis) -> Line:
    """Without the points that are not above zero where the axis is logarithmic."""
    points = tuple(
        (px, py) for px, py in line.points if not (x.logarithmic and px <= 0) and not (y.logarithmic and py <= 0)
    )
    return replace(line, points=points)


def points_of(line: Line) -> list[Spec]:
    return [
        {"x": px, "y": py, "line": line.label, "color": colour(line.css),
         "words": f"{line.label}: {short_number(py)} at {short_number(px)}"}
        for px, py in line.points
    ]  # fmt: skip


def lines_layer(lines: Sequence[Line], interpolate: str) -> Spec:
    """The lines; of each its name is shown on hover."""
    values = [
        {"x": px, "y": py, "line": line.label, "dash": DASHES if "dashed" in line.css.split() else WHOLE}
        for line in lines
        for px, py in line.points
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": interpolate, "strokeWidth": 2, "strokeJoin": "round"},
        "encoding": {"strokeDash": {"field": "dash", "scale": None}, "description": {"field": "line"}},
    }


def dots_layers(lines: Sequence[Line], x: Axis) -> list[Spec]:
    """A dot on each point of the lines that have few, and diamonds on the moments, with their values on hover."""
    few = [line for line in lines if len(line.points) <= MOST_DOTS]
    dots = [point for line in few for point in points_of(line)]
    moments = [point for line in lines for point in points_of(line) if point["x"] in line.moments]
    for point in dots if x.names else ():
        point["words"] = f"{point['line']}, {x.names[int(point['x'])]}: {short_number(point['y'])}"
    kinds: list[tuple[list[Spec], Spec]] = [
        (dots, {"shape": "circle", "size": 34, "stroke": "transparent", "strokeWidth": 0}),
        (moments, {"shape": "diamond", "size": 130, "stroke": "var(--panel)", "strokeWidth": 1}),
    ]
    return [
        {
            "data": {"values": points},
            "mark": {"type": "point", "opacity": 1} | shape,
            "encoding": {
                "fill": {"field": "color", "type": "nominal", "scale": None}, "description": {"field": "words"},
            },
        }
        for points, shape in kinds
        if points
    ]  # fmt: skip


def mark_layer(marks: Sequence[float]) -> Spec:
    return {
        "data": {"values": [{"x": moment} for moment in marks]},
        "mark": {"type": "rule", "color": "var(--soft)", "strokeDash": [2, 4]},
        "encoding": {"y": None},
    }


def mark_name(moment: float, name: str) -> Spec:
    return {
        "data": {"values": [{"x": moment, "text": name}]},
        "mark": {"type": "text", "align": "left", "dy": -8, "fontSize": 12, "fill": "var(--soft)"},
        "encoding": {"text": {"field": "text"}, "y": {"value": 0}},
    }


def x_encoding(lines: Sequence[Line], axis: Axis) -> Spec:
    """Along the bottom: names; the points themselves where they are few and round; else what Vega-Lite chooses."""
    shown: Spec = {"title": axis.title, "grid": False, "labelExpr": SHORT, "labelFlush": False}
    if axis.names:
        shown |= {"labelExpr": f"{json.dumps(axis.names)}[datum.value]", "labelAngle": 0}
        scale: Spec = {"type": "point", "domain": list(range(len(axis.names)))}
        return {"field": "x", "type": "ordinal", "scale": scale, "axis": shown}
    xs = sorted({px for line in lines for px, _ in line.points})
    if len(xs) <= MOST_VALUES and all(float(f"{px:.2g}") == px for px in xs):
        shown["values"] = xs
    scale = {"type": "log" if axis.logarithmic else "linear", "nice": False, "zero": False}
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": shown}


def y_encoding(axis: Axis) -> Spec:
    """Along the left: from zero, or logarithmic; its name above."""
    shown: Spec = {"title": axis.title, "labelExpr": SHORT, "tickCount": 5, "domain": False} | ABOVE
    scale = {"type": "log", "nice": True} if axis.logarithmic else {"zero": True, "nice": True}
    return {"field": "y", "type": "quantitative", "scale": scale, "axis": shown}


def colours(lines: Sequence[Line], width: int) -> Spec:
    """The legend, in the order in which the lines end, the highest first; on a phone below."""
    ordered = sorted(lines, key=lambda line: line.points[-1][1], reverse=True)
    scale = {"domain": [line.label for line in ordered], "range": [colour(line.css) for line in ordered]}
    longest = max(len(line.label) for line in lines)
    legend: Spec = {"orient": "right", "symbolType": "stroke", "symbolStrokeWidth": 3}
    if narrow(width):
        legend |= {"orient": "bottom", "columns": 1 if longest > 14 else 2}
    return {"color": {"field": "line", "type": "nominal", "scale": scale, "legend": legend}}
