"""Charts of numbers by name: bars with intervals, stacked bars, the map of an index. Pure.

Each chart is a picture of a table that stands beneath it, so it carries a title
for screen readers and no numbers that are not in the table.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from inorder.lab.analysis.stats import Estimate
from inorder.lab.report.drawing import NOTHING, Drawing, Spec, breadth, colour, narrow
from inorder.lab.report.section import Chart, Value

BAR_HEIGHT = 22
BAR_STEP = 34
LEAST = 0.002  # of the longest bar: what can be seen
LABEL_HEIGHT = 22  # on a phone the label is above its bar

# Marks without a colour of their own get the next of these.
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

    @property
    def on_hover(self) -> str:
        """What is shown on hover.

        >>> Bar("random", 2.0, "2 ms", "", 1.0, 3.0).on_hover
        'random: 2 ms [1–3]'
        """
        whole = self.low is not None and self.high is not None and "[" not in self.text
        return f"{self.label}: {self.text}" + (f" [{self.low:,.4g}–{self.high:,.4g}]" if whole else "")


def bars_of(values: Iterable[tuple[str, Value, str]], show: Callable[[Value], str]) -> list[Bar]:
    """Bars by label, each with its style; what was not measured has none.

    >>> bars_of([("a", Estimate(2.0, 1.0, 3.0, 6), "x"), ("b", None, "x")], str)[0].low
    1.0
    """
    return [
        Bar(label, one.median, show(one), css, one.low, one.high) if isinstance(one, Estimate)
        else Bar(label, float(one), show(one), css)
        for label, one, css in values if isinstance(one, Estimate | float | int)
    ]  # fmt: skip


def bars_chart(
    caption: str, title: str, values: Iterable[tuple[str, Value, str]], show: Callable[[Value], str]
) -> Chart:
    return Chart(caption, bar_chart(title, bars_of(values, show)))


@dataclass(frozen=True)
class Stack:
    """One bar of several parts, laid end to end."""

    label: str
    parts: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Row:
    label: str
    text: str
    end: float


def series(place: int) -> str:
    """The style of the n-th mark.

    >>> series(0), series(7)
    ('series-1', 'series-2')
    """
    return SERIES[place % len(SERIES)]


def number(field: str) -> Spec:
    return {"field": field, "type": "quantitative"}


def text_layer(rows: Sequence[Row], field: str, x: Spec, **mark: float) -> Spec:
    values = [{"row": place, "text": getattr(row, field), "end": row.end} for place, row in enumerate(rows)]
    return {
        "data": {"values": values},
        "mark": {"type": "text", "align": "left"} | mark,
        "encoding": {"x": x, "text": {"field": "text"}},
    }


def bars_spec(width: int, rows: Sequence[Row], layers: Sequence[Spec]) -> Spec:
    phone = narrow(width)
    left = 0 if phone else round(max(breadth(row.label) for row in rows)) + 18
    room = width - left - max(breadth(row.text) for row in rows) - 20
    axis: Spec | None = None
    words = [text_layer(rows, "text", number("end"), dx=8)]
    if phone:
        words.append(text_layer(rows, "label", {"value": 0}, dy=-LABEL_HEIGHT))
    else:
        names = json.dumps([row.label for row in rows])
        axis = {"labelExpr": f"{names}[datum.value]", "minExtent": left, "maxExtent": left} | NAMES
    scale = {"domain": [0, max(0, *(row.end for row in rows)) or 1], "range": [0, room]}
    return {
        "width": width - left,
        "height": {"step": BAR_STEP + (LABEL_HEIGHT if phone else 0)},
        "padding": {"left": 0, "right": 0, "top": LABEL_HEIGHT // 2 if phone else 4, "bottom": 0},
        "encoding": {
            "y": {"field": "row", "type": "ordinal", "axis": axis},
            "x": {"type": "quantitative", "axis": None, "scale": scale},
        },
        "layer": [*layers, *words],
    }


NAMES: Spec = {
    "title": None, "domain": False, "ticks": False, "labelPadding": 10, "labelColor": "var(--text)",
    "labelFontSize": 14, "labelLimit": 0,
}  # fmt: skip


def bar_chart(title: str, bars: Sequence[Bar]) -> Drawing:
    """Horizontal bars from zero, each with its label before and its value behind; nothing for none.

    What is not above zero has no length, and the least that is can be seen.
    """
    if not bars:
        return NOTHING
    rows = [Row(bar.label, bar.text, max(bar.value, bar.high or 0, 0)) for bar in bars]
    least = LEAST * max(row.end for row in rows)
    values = [
        {
            "row": place,
            "value": max(bar.value, least) if bar.value > 0 else 0,
            "fill": colour(bar.css),
            "words": bar.on_hover,
        }
        for place, bar in enumerate(bars)
    ]
    intervals = [
        {"row": place, "low": max(bar.low, 0), "high": max(bar.high, 0)}
        for place, bar in enumerate(bars)
        if bar.low is not None and bar.high is not None
    ]
    layers: list[Spec] = [
        {
            "data": {"values": values},
            "mark": {"type": "bar", "height": BAR_HEIGHT},
            "encoding": {
                "x": number("value") | {"stack": None}, "fill": {"field": "fill", "type": "nominal", "scale": None},
                "description": {"field": "words"},
            },
        },
        {
            "data": {"values": intervals},
            "mark": {"type": "errorbar", "ticks": {"size": 10}, "color": "var(--text)", "thickness": 1.5},
            "encoding": {"x": number("low"), "x2": {"field": "high"}},
        },
    ]  # fmt: skip
    return Drawing(title, lambda width: bars_spec(width, rows, layers if intervals else layers[:1]))


def stacked_chart(title: str, names: Sequence[str], stacks: Sequence[Stack]) -> Drawing:
    """Horizontal bars of parts on one scale, with a legend that names the parts; nothing for none."""
    if not stacks:
        return NOTHING
    rows = [Row(stack.label, stack.text, math.fsum(stack.parts)) for stack in stacks]
    values = [
        {"row": row, "value": part, "part": names[place], "words": f"{stack.label}, {names[place]}: {part:,.4g}"}
        for row, stack in enumerate(stacks)
        for place, part in enumerate(stack.parts)
    ]
    colours = {"domain": list(names), "range": [colour(series(place)) for place in range(len(names))]}
    parts: Spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": BAR_HEIGHT},
        "encoding": {
            "x": number("value") | {"stack": "zero"},
            "fill": {"field": "part", "scale": colours, "legend": {"orient": "top"}},
            "description": {"field": "words"},
        },
    }
    return Drawing(f"{title}: {', '.join(names)}", lambda width: bars_spec(width, rows, [parts]))


MAP_COLUMNS = 64
MAP_SHADES = 4
MAP_CELL = "h.9v.9h-.9z"


def page_map(title: str, counts: Sequence[float], touched: int, blocks: int) -> Drawing:
    """An index as a grid of its blocks in order, row by row, darker where more often touched.

    ``counts`` is of equal ranges of its ``blocks``, of which ``touched`` were touched at all. It has no scale to draw,
    so it is made here: a path for all cells of a shade, a tenth of what a mark for each would be.
    """
    if not counts:
        return NOTHING
    most, span = max(counts), math.ceil(blocks / len(counts))
    cell = "a block" if span == 1 else f"{span:,} blocks"
    words = f"{touched:,} of {blocks:,} blocks touched; a cell is {cell}, the darkest touched {most:,.0f} times"
    cells: dict[int, list[str]] = {}
    for place, count in enumerate(counts):
        # Logarithmic, so that one block that every insert touches does not hide all others.
        shade = math.ceil(MAP_SHADES * math.log1p(count) / math.log1p(most)) if most else 0
        cells.setdefault(shade, []).append(f"M{place % MAP_COLUMNS} {place // MAP_COLUMNS}{MAP_CELL}")
    paths = [f'<path fill="var(--shade-{shade})" d="{"".join(some)}"/>' for shade, some in sorted(cells.items())]
    height = math.ceil(len(counts) / MAP_COLUMNS)
    return Drawing(f"{title}: {words}", words=words, picture=(f"0 0 {MAP_COLUMNS} {height}", "".join(paths)))
