"""Line charts as SVG: over numbers or names, linear or logarithmic, over time with marks. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from inorder.report.charts import TOP, WIDTH, svg

PLOT_HEIGHT = 260
PLOT_LEFT = 70
PLOT_RIGHT = 215
PLOT_BOTTOM = 44
MARK_HEIGHT = 18
MOST_DOTS = 40  # of a line; more would hide it
PERCENTILES_APART = 10.0  # largest to smallest latency from which the axis is logarithmic


@dataclass(frozen=True)
class Line:
    """One line through points (x, y), with a diamond on those of the ``moments`` among their x."""

    label: str
    points: tuple[tuple[float, float], ...]
    css: str
    moments: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axis:
    """What stands along one side: a name, whether it is logarithmic, and names for 0, 1, 2 … in place of numbers."""

    title: str
    logarithmic: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scale:
    """From a value to a place between two ends."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The place of a value.

        >>> Scale(0, 10, 100, 200).at(5), Scale(1, 100, 0, 50, True).at(10)
        (150.0, 25.0)
        """
        low, high, x = (math.log10(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.start + (x - low) / ((high - low) or 1) * (self.end - self.start)


def nice_ticks(largest: float, count: int = 4) -> list[float]:
    """Round numbers from zero to at least the largest value.

    >>> nice_ticks(170_000)
    [0.0, 50000.0, 100000.0, 150000.0, 200000.0]
    >>> nice_ticks(0.7)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    >>> nice_ticks(0)
    [0.0, 1.0]
    """
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.9999)
    return [round(number * step, 10) for number in range(math.ceil(largest / step - 1e-9) + 1)]


def log_ticks(smallest: float, largest: float) -> list[float]:
    """Round numbers around values on a logarithmic axis: powers of ten, with 2 and 5 between where they are few.

    >>> log_ticks(30, 2000)
    [10.0, 100.0, 1000.0, 10000.0]
    >>> log_ticks(0.3, 6), log_ticks(5, 5)
    ([0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [5.0, 10.0])
    """
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    powers = [10.0**power for power in range(first, last + 1)]
    if math.log10(largest / smallest) < 1.5:
        between = [round(factor * 10.0**power, 10) for power in range(first, last + 1) for factor in (1, 2, 5)]
        below = [tick for tick in between if tick <= smallest * 1.0001]
        above = [tick for tick in between if tick >= largest * 0.9999]
        inside = [tick for tick in between if smallest * 1.0001 < tick < largest * 0.9999]
        powers = list(dict.fromkeys([below[-1], *inside, above[0]]))
    return powers if len(powers) > 1 else [powers[0], powers[0] * 2]


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
) -> Markup:
    """Lines over a linear axis from zero, or logarithmic ones; each named at its end, names kept apart."""
    return plot(title, Axis(x_title, log_x), Axis(y_title, log_y), lines)


def time_chart(
    title: str, y_title: str, lines: Sequence[Line], marks: Sequence[float] = (), mark: str = "checkpoint"
) -> Markup:
    """Steps over seconds: each point holds until the next; marks are moments, named once."""
    return plot(title, Axis("seconds"), Axis(y_title), lines, marks, mark, stepped)


def percentile_chart(
    title: str, y_title: str, names: Sequence[str], curves: Sequence[tuple[str, Sequence[float | None], str]]
) -> Markup:
    """A line of latencies for each (label, values, css), over the percentiles' names; None is left out."""
    lines = [
        Line(label, tuple((float(n), value) for n, value in enumerate(values) if value is not None), css)
        for label, values, css in curves
    ]
    values = [y for line in lines for _, y in line.points]
    apart = bool(values) and min(values) > 0 and max(values) / min(values) >= PERCENTILES_APART
    return plot(title, Axis("percentile", names=tuple(names)), Axis(y_title, apart), lines)


Places = list[tuple[float, float]]


def straight(places: Places) -> str:
    """A path from point to point.

    >>> straight([(1, 2), (3, 4)])
    'M1.0 2.0L3.0 4.0'
    """
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def stepped(places: Places) -> str:
    """A path that holds each value until the next.

    >>> stepped([(1, 2), (3, 4)])
    'M1.0 2.0H3.0V4.0'
    """
    return straight(places[:1]) + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])


def plot(
    title: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    marks: Sequence[float] = (),
    mark: str = "",
    path: Callable[[Places], str] = straight,
) -> Markup:
    """The one that draws; what a logarithmic axis cannot have is left out, and nothing is drawn of nothing."""
    drawn = [one for one in (drawable(line, x, y) for line in lines) if one.points]
    if not drawn:
        return Markup("")
    xs = sorted({px for line in drawn for px, _ in line.points} | set(marks))
    ys = [py for line in drawn for _, py in line.points]
    ticks = log_ticks(min(ys), max(ys)) if y.logarithmic else nice_ticks(max(ys))
    top = TOP + (MARK_HEIGHT if marks else 0)
    x_scale = Scale(xs[0], xs[-1], PLOT_LEFT, WIDTH - PLOT_RIGHT, x.logarithmic)
    y_scale = Scale(ticks[0], ticks[-1], top + PLOT_HEIGHT, top, y.logarithmic)
    bottom = top + PLOT_HEIGHT + PLOT_BOTTOM
    body = [grid_line(y_scale.at(tick), short_number(tick)) for tick in ticks]
    body += [mark_svg(x_scale.at(moment), top) for moment in marks]
    if marks:
        body.append(f'<text class="axis" x="{x_scale.at(marks[0]):.1f}" y="{top - 6}">{escape(mark)}</text>')
    for at in with_room(x_ticks(x_values(xs, x)), x_scale):
        text = x.names[int(at)] if x.names else short_number(at)
        body.append(x_label(x_scale.at(at), text, top + PLOT_HEIGHT + 18))
    body.append(f'<text class="axis" x="{PLOT_LEFT}" y="{bottom - 6}">{escape(x.title)}</text>')
    places = [[(x_scale.at(px), y_scale.at(py)) for px, py in line.points] for line in drawn]
    heights = keep_apart([some[-1][1] for some in places], highest=top + PLOT_HEIGHT)
    for line, some, height in zip(drawn, places, heights, strict=True):
        body.append(line_svg(line, some, path) + name_svg(line, height))
        body += [diamond_svg(line, x_scale.at(px), y_scale.at(py)) for px, py in line.points if px in line.moments]
    return svg(f"{title}: {y.title} by {x.title}", bottom, body)


def drawable(line: Line, x: Axis, y: Axis) -> Line:
    """Without the points that are not above zero where the axis is logarithmic."""
    points = tuple(
        (px, py) for px, py in line.points if not (x.logarithmic and px <= 0) and not (y.logarithmic and py <= 0)
    )
    return replace(line, points=points)


def line_svg(line: Line, places: Places, path: Callable[[Places], str]) -> str:
    """A line, with dots where they are few."""
    css = escape(line.css)
    dots = [f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
    return f'<path class="line {css}" d="{path(places)}"/>{"".join(dots) if len(dots) <= MOST_DOTS else ""}'


def diamond_svg(line: Line, x: float, y: float) -> str:
    """A moment on a line."""
    return f'<path class="moment {escape(line.css)}" d="M{x:.1f} {y - 7:.1f}l5 7l-5 7l-5 -7z"/>'


def name_svg(line: Line, height: float) -> str:
    """A line's name, behind its end, with a stroke of its colour."""
    left = WIDTH - PLOT_RIGHT + 8
    return (
        f'<path class="line {escape(line.css)}" d="M{left} {height:.1f}h12"/>'
        f'<text class="name" x="{left + 17}" y="{height + 4:.1f}">{escape(line.label)}</text>'
    )


def mark_svg(x: float, top: float) -> str:
    """A moment."""
    return f'<path class="mark" d="M{x:.1f} {top:.1f}v{PLOT_HEIGHT}"/>'


def x_values(xs: list[float], axis: Axis) -> list[float]:
    """Where the x axis is named: at every name; at the points where they are few and round; else at round numbers.

    >>> x_values([0.34, 0.47, 1.6, 2.4], Axis("x", True)), x_values([2.5e5, 1e6], Axis("x", True))
    ([0.5, 1.0, 2.0], [250000.0, 1000000.0])
    """
    if axis.names:
        return [float(n) for n in range(len(axis.names)) if xs[0] <= n <= xs[-1]]
    if not axis.logarithmic and len(xs) <= MOST_DOTS:
        return xs
    if axis.logarithmic and all(float(f"{x:.2g}") == x >= 1 for x in xs):
        return xs
    ticks = log_ticks(xs[0], xs[-1]) if axis.logarithmic else nice_ticks(xs[-1], 6)
    return [tick for tick in ticks if xs[0] <= tick <= xs[-1]] or xs


def x_ticks(xs: list[float], most: int = 8) -> list[float]:
    """The x values to name: all, or every n-th when there are many.

    >>> x_ticks([1, 2, 3]), x_ticks(list(range(20)))
    ([1, 2, 3], [0, 3, 6, 9, 12, 15, 18])
    """
    return xs[:: math.ceil(len(xs) / most)]


def with_room(xs: Sequence[float], scale: Scale, room: float = 44) -> list[float]:
    """Those that are not too near to the one before them to be written beside it.

    >>> with_room([1, 2, 100], Scale(1, 100, 0, 400))
    [1, 100]
    """
    kept: list[float] = []
    for x in xs:
        if not kept or scale.at(x) - scale.at(kept[-1]) >= room:
            kept.append(x)
    return kept


def keep_apart(heights: Sequence[float], gap: float = 16, highest: float = math.inf) -> list[float]:
    """Move labels until none covers another: down, and back up what would be beyond the end; their order stays.

    >>> keep_apart([10, 12, 50]), keep_apart([90, 95], highest=100)
    ([10, 26, 50], [84, 100])
    """
    placed = list(heights)
    order = sorted(range(len(placed)), key=lambda i: heights[i])
    previous = -math.inf
    for index in order:
        placed[index] = previous = max(placed[index], previous + gap)
    following = highest + gap
    for index in reversed(order):
        placed[index] = following = min(placed[index], following - gap)
    return placed


def grid_line(y: float, text: str) -> str:
    """A horizontal line of the grid with its value."""
    return (
        f'<path class="grid" d="M{PLOT_LEFT} {y:.1f}H{WIDTH - PLOT_RIGHT}"/>'
        f'<text class="tick" x="{PLOT_LEFT - 8}" y="{y + 4:.1f}">{escape(text)}</text>'
    )


def x_label(x: float, text: str, y: float) -> str:
    """A value below the x axis."""
    return f'<text class="x" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
