"""Charts as SVG: bars with intervals, and lines. Pure; colours come from the page's style sheet.

Each chart is a picture of a table that stands beside it, so it carries a title
for screen readers and no numbers that are not in the table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 760
LABEL_WIDTH = 140
VALUE_WIDTH = 130
BAR_HEIGHT = 22
BAR_STEP = 34
TOP = 8
PLOT_HEIGHT = 260
PLOT_LEFT = 70
PLOT_RIGHT = 150
PLOT_BOTTOM = 44


@dataclass(frozen=True)
class Bar:
    """One bar; low and high draw its interval."""

    label: str
    value: float
    text: str
    css: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One line through points (x, y)."""

    label: str
    points: tuple[tuple[float, float], ...]
    css: str


def svg(title: str, height: float, body: Sequence[str]) -> Markup:
    """The frame of every chart."""
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def bar_chart(title: str, bars: Sequence[Bar]) -> Markup:
    """Horizontal bars from zero, each with its label before and its value behind."""
    largest = max((max(bar.value, bar.high or 0) for bar in bars), default=0) or 1
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / largest
    body = []
    for number, bar in enumerate(bars):
        top = TOP + number * BAR_STEP
        body.append(bar_svg(bar, top, scale))
    return svg(title, TOP + len(bars) * BAR_STEP, body)


def bar_svg(bar: Bar, top: float, scale: float) -> str:
    """One bar with its whisker."""
    middle = top + BAR_HEIGHT / 2
    end = LABEL_WIDTH + max(bar.value, bar.high or 0) * scale
    whisker = ""
    if bar.low is not None and bar.high is not None:
        left, right = LABEL_WIDTH + bar.low * scale, LABEL_WIDTH + bar.high * scale
        whisker = f'<path class="whisker" d="M{left:.1f} {middle:.1f}H{right:.1f}"/>'
        whisker += "".join(f'<path class="whisker" d="M{x:.1f} {middle - 5:.1f}v10"/>' for x in (left, right))
    return (
        f'<text class="label" x="{LABEL_WIDTH - 10}" y="{middle + 5:.1f}">{escape(bar.label)}</text>'
        f'<rect class="{bar.css}" x="{LABEL_WIDTH}" y="{top}" rx="3" width="{max(bar.value * scale, 1):.1f}"'
        f' height="{BAR_HEIGHT}"/>{whisker}'
        f'<text class="value" x="{end + 10:.1f}" y="{middle + 5:.1f}">{escape(bar.text)}</text>'
    )


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


def short_number(value: float) -> str:
    """A number for an axis.

    >>> [short_number(value) for value in (0, 0.25, 800, 150_000, 2_500_000)]
    ['0', '0.25', '800', '150 k', '2.5 M']
    """
    for size, suffix in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def line_chart(title: str, x_title: str, y_title: str, lines: Sequence[Line]) -> Markup:
    """Lines over a linear axis from zero; each named at its end, names kept apart."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return Markup("")
    xs = [x for line in drawn for x, _ in line.points]
    ticks = nice_ticks(max(y for line in drawn for _, y in line.points))
    low, span = min(xs), (max(xs) - min(xs)) or 1
    plot_width = WIDTH - PLOT_LEFT - PLOT_RIGHT

    def x_at(x: float) -> float:
        return PLOT_LEFT + (x - low) / span * plot_width

    def y_at(y: float) -> float:
        return TOP + PLOT_HEIGHT * (1 - y / ticks[-1])

    body = [grid_line(y_at(tick), short_number(tick)) for tick in ticks]
    body += [x_label(x_at(x), short_number(x)) for x in x_ticks(sorted(set(xs)))]
    bottom = TOP + PLOT_HEIGHT + PLOT_BOTTOM
    body.append(f'<text class="axis" x="{PLOT_LEFT}" y="{bottom - 6}">{escape(x_title)}</text>')
    heights = keep_apart([y_at(line.points[-1][1]) for line in drawn])
    for line, height in zip(drawn, heights, strict=True):
        places = [(x_at(x), y_at(y)) for x, y in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dots = "".join(f'<circle class="{line.css}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places)
        body.append(f'<path class="line {line.css}" d="M{path}"/>{dots}')
        name_x = WIDTH - PLOT_RIGHT + 10
        body.append(f'<text class="name" x="{name_x}" y="{height + 4:.1f}">{escape(line.label)}</text>')
    return svg(f"{title}: {y_title} by {x_title}", bottom, body)


def x_ticks(xs: list[float], most: int = 8) -> list[float]:
    """The x values to name: all, or every n-th when there are many.

    >>> x_ticks([1, 2, 3]), x_ticks(list(range(20)))
    ([1, 2, 3], [0, 3, 6, 9, 12, 15, 18])
    """
    return xs[:: math.ceil(len(xs) / most)]


def keep_apart(heights: Sequence[float], gap: float = 16) -> list[float]:
    """Move labels down until none covers another; their order stays.

    >>> keep_apart([10, 12, 50])
    [10, 26, 50]
    """
    placed = list(heights)
    previous = -math.inf
    for index in sorted(range(len(placed)), key=lambda i: heights[i]):
        placed[index] = max(placed[index], previous + gap)
        previous = placed[index]
    return placed


def grid_line(y: float, text: str) -> str:
    """A horizontal line of the grid with its value."""
    return (
        f'<path class="grid" d="M{PLOT_LEFT} {y:.1f}H{WIDTH - PLOT_RIGHT}"/>'
        f'<text class="tick" x="{PLOT_LEFT - 8}" y="{y + 4:.1f}">{escape(text)}</text>'
    )


def x_label(x: float, text: str) -> str:
    """A value below the x axis."""
    return f'<text class="x" x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 18}">{escape(text)}</text>'
