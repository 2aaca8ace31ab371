"""Line charts as SVG. The functions are pure.

The x axis has numbers, names, or times with marks. Both axes can be logarithmic. A chart is drawn twice, for a screen
and for a phone, and the style sheet shows one of the drawings. The style sheet also defines the colours and the font.
All numbers in a chart are in the table next to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

SCREEN, PHONE = 760, 330  # width in pixels of a drawing in full size
HEIGHT, TOP, BOTTOM = 260, 34, 44  # height in pixels of the plot, and of the space above and below it
LEFT, RIGHT = 52, 24
TICKS = 5  # approximate number of ticks on an axis
CHARACTER = 7.5  # pixels per character of a tick label, rounded up
MOST_DOTS = 40  # lines with more points are drawn without dots, which would hide the line
MOST_VALUES = 8  # an axis with at most this number of values labels all of them
PERCENTILES_APART = 10.0  # the axis is logarithmic if the largest latency is at least this many times the smallest


def colour(css: str) -> str:
    return f"var(--{css.split(maxsplit=1)[0]}, var(--series-1))"


def short_number(value: float) -> str:
    """Format a number for an axis.

    >>> [short_number(value) for value in (0, 0.25, 800, 150_000, 2_500_000)]
    ['0', '0.25', '800', '150 k', '2.5 M']
    """
    for size, suffix in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"


@dataclass(frozen=True)
class Line:
    """A line through points (x, y), with a diamond at each point whose x is in ``moments``."""

    label: str
    points: tuple[tuple[float, float], ...]
    css: str
    moments: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axis:
    """An axis of a chart. ``names`` replace the numbers 0, 1, and so on."""

    title: str
    logarithmic: bool = False
    names: tuple[str, ...] = ()


def round_numbers(low: float, high: float) -> list[float]:
    """Return round numbers, from the last one at or below ``low`` to the first one at or above ``high``.

    >>> round_numbers(0, 93), round_numbers(0, 0)
    ([0, 20, 40, 60, 80, 100], [0, 1])
    """
    size = 10 ** floor(log10((high - low) / TICKS or 1))
    step = next(size * times for times in (1, 2, 5, 10) if size * times * TICKS >= high - low)
    return [place * step for place in range(floor(low / step), max(ceil(high / step), 1) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Return ticks at powers of ten, from the last tick at or below ``low`` to the first one at or above ``high``.

    If the range has fewer than three powers of ten, there are also ticks at 2 and 5 times the powers.

    >>> powers(3, 4000), powers(20, 30), powers(5100, 22_000)
    ([1.0, 10.0, 100.0, 1000.0, 10000.0], [20.0, 50.0], [5000.0, 10000.0, 20000.0, 50000.0])
    """
    first, last = floor(log10(low)), ceil(log10(high))
    last += first == last
    all_times = (1, 2, 5) if last - first < 3 else (1,)
    ticks = [*(float(f"{times}e{power}") for power in range(first, last) for times in all_times), float(f"1e{last}")]
    begin = max(place for place, tick in enumerate(ticks) if tick <= low)
    end = min(place for place, tick in enumerate(ticks) if tick >= high)
    return ticks[begin : max(end, begin + 1) + 1]


@dataclass(frozen=True)
class Scale:
    """A mapping from values on an axis to pixels. ``ticks`` are the values that have labels."""

    axis: Axis
    ticks: Sequence[float]
    low: float
    high: float
    pixels: tuple[float, float]

    def __call__(self, value: float) -> float:
        ends = (self.low, self.high, value)
        low, high, at = map(log10, ends) if self.axis.logarithmic else ends
        begin, end = self.pixels
        return round(begin + (end - begin) * ((at - low) / (high - low) if high > low else 0.5), 1)

    def name(self, tick: float) -> str:
        return self.axis.names[int(tick)] if self.axis.names else short_number(tick)


def x_scale(axis: Axis, xs: Sequence[float], width: int) -> Scale:
    """Return a scale from the first point to the last, with a few round numbers as ticks."""
    pixels = (LEFT, width - RIGHT)
    if axis.names:
        return Scale(axis, range(len(axis.names)), -0.5, len(axis.names) - 0.5, pixels)
    ticks: Sequence[float] = xs
    if len(xs) > MOST_VALUES or any(float(f"{x:.2g}") != x for x in xs):
        every = powers(xs[0], xs[-1]) if axis.logarithmic else round_numbers(xs[0], xs[-1])
        ticks = [tick for tick in every if xs[0] <= tick <= xs[-1]]
    return Scale(axis, ticks, xs[0], xs[-1], pixels)


@dataclass(frozen=True)
class Chart:
    """Overlaid lines. ``marks``: points in time, all named ``mark``. ``steps``: a value holds until the next point."""

    caption: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    marks: Sequence[float] = ()
    mark: str = ""
    steps: bool = False

    def __bool__(self) -> bool:
        return bool(self.drawn)

    @property
    def drawn(self) -> list[Line]:
        """The lines, ordered by their last values, without points that a logarithmic axis cannot show."""
        lines = []
        for line in self.lines:
            points = tuple((x, y) for x, y in line.points
                           if (x > 0 or not self.x.logarithmic) and (y > 0 or not self.y.logarithmic))  # fmt: skip
            if points:
                lines.append(Line(line.label, points, line.css, line.moments))
        return sorted(lines, key=lambda line: line.points[-1][1], reverse=True)

    def svg(self, width: int = SCREEN) -> Markup:
        if not self.drawn:
            return Markup("")
        x = x_scale(self.x, sorted({px for line in self.drawn for px, _ in line.points} | set(self.marks)), width)
        ys = [py for line in self.drawn for _, py in line.points]
        ticks = powers(min(ys), max(ys)) if self.y.logarithmic else round_numbers(min(0, *ys), max(0, *ys))
        y = Scale(self.y, ticks, ticks[0], ticks[-1], (TOP + HEIGHT, TOP))
        title = f"{self.caption}: {self.y.title} by {self.x.title}"
        shapes = [*self.axes(x, y), *self.marked(x), *(shape for line in self.drawn for shape in self.line(line, x, y))]
        return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
            width, TOP + HEIGHT + BOTTOM, title, title, Markup("").join(shapes)
        )

    def axes(self, x: Scale, y: Scale) -> Iterable[Markup]:
        (left, right), floor = x.pixels, TOP + HEIGHT
        for tick in y.ticks:
            yield rule(left, y(tick), right, y(tick), "var(--line)")
            yield words(left - 8, y(tick) + 4, y.name(tick), "end")
        end = -1.0
        for tick in x.ticks:
            half = CHARACTER * len(x.name(tick)) / 2
            if x(tick) - half > end:
                end = x(tick) + half
                yield rule(x(tick), floor, x(tick), floor + 5, "var(--line)")
                yield words(x(tick), floor + 18, x.name(tick), "middle")
        yield words(0, 12, self.y.title, "start")
        yield words((left + right) / 2, floor + 38, self.x.title, "middle")

    def marked(self, x: Scale) -> Iterable[Markup]:
        for moment in self.marks:
            yield rule(x(moment), TOP, x(moment), TOP + HEIGHT, "var(--soft)", "2,4")
        if self.marks:
            yield words(x(min(self.marks)), TOP - 4, self.mark, "start")

    def line(self, line: Line, x: Scale, y: Scale) -> Iterable[Markup]:
        places = [(x(px), y(py)) for px, py in line.points]
        path = f"M{places[0][0]},{places[0][1]}" + "".join(
            f"H{px}V{py}" if self.steps else f"L{px},{py}" for px, py in places[1:]
        )
        dashes = Markup(' stroke-dasharray="6,4"') if "dashed" in line.css.split() else ""
        yield Markup('<path d="{}" fill="none" stroke="{}" stroke-width="2"{}><title>{}</title></path>').format(
            path, colour(line.css), dashes, line.label
        )
        for (px, py), (at, value) in zip(places, line.points, strict=True):
            shown = short_number(value)
            label = f", {x.name(at)}: {shown}" if x.axis.names else f": {shown} at {short_number(at)}"
            if at in line.moments:
                yield dot(f"M{px},{py - 6}l6,6l-6,6l-6,-6z", line, label, "var(--panel)")
            elif len(places) <= MOST_DOTS:
                yield dot(f"M{px - 3.3:.1f},{py}a3.3,3.3,0,1,1,6.6,0a3.3,3.3,0,1,1,-6.6,0", line, label, "transparent")

    def __html__(self) -> str:
        if not self:
            return ""
        legend = Markup("").join(
            Markup('<span class="{}" style="--fill: {}">{}</span>').format(
                "dashed" if "dashed" in line.css.split() else "", colour(line.css), line.label
            )
            for line in self.drawn
        )
        both = Markup('<div class="screen">{}</div><div class="phone">{}</div>').format(self.svg(), self.svg(PHONE))
        return both + Markup('<p class="legend">{}</p>').format(legend)


def rule(x1: float, y1: float, x2: float, y2: float, css: str, dashes: str = "") -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}"{}/>').format(
        x1, y1, x2, y2, css, Markup(' stroke-dasharray="{}"').format(dashes) if dashes else ""
    )


def words(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" font-size="12" fill="var(--soft)" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def dot(path: str, line: Line, label: str, border: str) -> Markup:
    return Markup('<path d="{}" fill="{}" stroke="{}"><title>{}{}</title></path>').format(
        path, colour(line.css), border, line.label, label
    )


def line_chart(
    caption: str, x_title: str, y_title: str, lines: Sequence[Line], log_x: bool = False, log_y: bool = False
) -> Chart:
    return Chart(caption, Axis(x_title, log_x), Axis(y_title, log_y), lines)


def percentile_chart(
    caption: str, y_title: str, names: Sequence[str], curves: Sequence[tuple[str, Sequence[float | None], str]]
) -> Chart:
    """Return a chart of latencies by percentile, with a line for each (label, values, css).

    Values of None are left out.
    """
    lines = [
        Line(label, tuple((float(n), value) for n, value in enumerate(values) if value is not None), css)
        for label, values, css in curves
    ]
    values = [y for line in lines for _, y in line.points]
    apart = bool(values) and min(values) > 0 and max(values) / min(values) >= PERCENTILES_APART
    return Chart(caption, Axis("percentile", names=tuple(names)), Axis(y_title, apart), lines)
