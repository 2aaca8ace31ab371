"""Charts as SVG: bars with intervals, stacked bars, lines. Pure; colours come from the page's style sheet.

Each chart is a picture of a table that stands beneath it, so it carries a title
for screen readers and no numbers that are not in the table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 760
LABEL_WIDTH = 210
VALUE_WIDTH = 150
BAR_HEIGHT = 22
BAR_STEP = 34
TOP = 8
LEGEND_HEIGHT = 28
LEGEND_CHARACTER = 7.5  # a character of the style sheet's 12 px, rather too wide than too narrow

# Marks without a colour of their own get one of these by turns.
SERIES = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6")


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
class Stack:
    """One bar of several parts, laid end to end."""

    label: str
    parts: tuple[float, ...]
    text: str


def series(place: int) -> str:
    """The style of the n-th mark.

    >>> series(0), series(7)
    ('series-1', 'series-2')
    """
    return SERIES[place % len(SERIES)]


def svg(title: str, height: float, body: Sequence[str]) -> Markup:
    """The frame of every chart."""
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def bar_chart(title: str, bars: Sequence[Bar]) -> Markup:
    """Horizontal bars from zero, each with its label before and its value behind; nothing for none."""
    if not bars:
        return Markup("")
    largest = max(max(bar.value, bar.high or 0) for bar in bars)
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / (largest if largest > 0 else 1)
    body = [bar_svg(bar, TOP + number * BAR_STEP, scale) for number, bar in enumerate(bars)]
    return svg(title, TOP + len(bars) * BAR_STEP, body)


def bar_svg(bar: Bar, top: float, scale: float) -> str:
    """One bar with its whisker; what is not above zero has no length, and the least that is can be seen."""
    middle = top + BAR_HEIGHT / 2
    end = LABEL_WIDTH + max(bar.value, bar.high or 0) * scale
    whisker = ""
    if bar.low is not None and bar.high is not None:
        left, right = (LABEL_WIDTH + max(x, 0) * scale for x in (bar.low, bar.high))
        whisker = f'<path class="whisker" d="M{left:.1f} {middle:.1f}H{right:.1f}"/>'
        whisker += "".join(f'<path class="whisker" d="M{x:.1f} {middle - 5:.1f}v10"/>' for x in (left, right))
    return (
        label_svg(bar.label, middle)
        + rect_svg(bar.css, LABEL_WIDTH, top, max(bar.value * scale, 1) if bar.value > 0 else 0)
        + whisker
        + value_svg(bar.text, max(end, LABEL_WIDTH), middle)
    )


def label_svg(text: str, middle: float) -> str:
    """What a bar is of, before it."""
    return f'<text class="label" x="{LABEL_WIDTH - 10}" y="{middle + 5:.1f}">{escape(text)}</text>'


def value_svg(text: str, end: float, middle: float) -> str:
    """What a bar says, behind it."""
    return f'<text class="value" x="{end + 10:.1f}" y="{middle + 5:.1f}">{escape(text)}</text>'


def rect_svg(css: str, left: float, top: float, width: float) -> str:
    """The bar itself."""
    return (
        f'<rect class="{escape(css)}" x="{left:.1f}" y="{top:.1f}" rx="3" width="{width:.1f}"'
        f' height="{BAR_HEIGHT}"/>'
    )


def stacked_chart(title: str, names: Sequence[str], stacks: Sequence[Stack]) -> Markup:
    """Horizontal bars of parts on one scale, with a legend that names the parts; nothing for none."""
    if not stacks:
        return Markup("")
    largest = max(sum(stack.parts) for stack in stacks)
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / (largest if largest > 0 else 1)
    body = [legend_svg(names)]
    for number, stack in enumerate(stacks):
        top, left = LEGEND_HEIGHT + TOP + number * BAR_STEP, float(LABEL_WIDTH)
        middle = top + BAR_HEIGHT / 2
        body.append(label_svg(stack.label, middle))
        for place, part in enumerate(stack.parts):
            body.append(rect_svg(series(place), left, top, part * scale))
            left += part * scale
        body.append(value_svg(stack.text, left, middle))
    return svg(f"{title}: {', '.join(names)}", LEGEND_HEIGHT + TOP + len(stacks) * BAR_STEP, body)


def legend_svg(names: Sequence[str]) -> str:
    """A square and a name for each series, in a row above the chart."""
    body, left = [], float(LABEL_WIDTH)
    for place, name in enumerate(names):
        body.append(f'<rect class="{series(place)}" x="{left:.1f}" y="{TOP}" width="12" height="12"/>')
        body.append(f'<text class="axis" x="{left + 18:.1f}" y="{TOP + 11}">{escape(name)}</text>')
        left += 18 + LEGEND_CHARACTER * len(name) + 20
    return "".join(body)


MAP_COLUMNS = 64
MAP_SHADES = 4


def page_map(title: str, counts: Sequence[float], touched: int, blocks: int) -> Markup:
    """An index as a grid of its blocks in order, row by row, darker where more often touched.

    ``counts`` is of equal ranges of its ``blocks``, of which ``touched`` were touched at all.
    """
    if not counts:
        return Markup("")
    most, size = max(counts), (WIDTH - 2 * TOP) / MAP_COLUMNS
    body = []
    for place, count in enumerate(counts):
        # Logarithmic, so that one block that every insert touches does not hide all others.
        shade = math.ceil(MAP_SHADES * math.log1p(count) / math.log1p(most)) if most else 0
        left, top = TOP + place % MAP_COLUMNS * size, TOP + place // MAP_COLUMNS * size
        body.append(
            f'<rect class="shade-{shade}" x="{left:.2f}" y="{top:.2f}" width="{size - 1:.2f}" height="{size - 1:.2f}"/>'
        )
    bottom = TOP + math.ceil(len(counts) / MAP_COLUMNS) * size
    span = math.ceil(blocks / len(counts))
    cell = "a block" if span == 1 else f"{span:,} blocks"
    told = f"{touched:,} of {blocks:,} blocks touched; a cell is {cell}, the darkest touched {most:,.0f} times"
    body.append(f'<text class="axis" x="{TOP}" y="{bottom + 16:.1f}">{escape(told)}</text>')
    return svg(f"{title}: {told}", bottom + 24, body)
