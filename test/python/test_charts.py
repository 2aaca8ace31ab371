"""Line charts: coordinates of lines and labels, names that look like markup, and the colours of the page."""

import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from inorder.lab.report import plots
from inorder.lab.report.plots import HEIGHT, PHONE, SCREEN, TOP, Axis, Chart, Line, line_chart, percentile_chart

EVIL = '<b a="1">&'


def root_of(chart: Chart, width: int = SCREEN) -> ET.Element:
    return ET.fromstring(chart.svg(width))


def dots(chart: Chart, width: int = SCREEN) -> dict[str, tuple[float, float]]:
    places = {}
    for element in root_of(chart, width).iter("path"):
        if match := re.match(r"M([\d.]+),([\d.]+)([al])", element.attrib["d"]):
            x, y = float(match[1]), float(match[2])
            places[element.findtext("title", "")] = (x + 3.3, y) if match[3] == "a" else (x, y + 6)
    return places


def paths(chart: Chart) -> list[str]:
    return [element.attrib["d"] for element in root_of(chart).iter("path") if element.get("fill") == "none"]


def texts(chart: Chart, width: int = SCREEN) -> list[str]:
    return [element.text or "" for element in root_of(chart, width).iter("text")]


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    line = Line("a", tuple((10.0**n, 10.0**n) for n in range(4)), "x")
    for chart in (line_chart("t", "x", "y", [line], True, True), line_chart("t", "x", "y", [line], False, True)):
        ys = [y for _, y in dots(chart).values()]
        assert [a - b for a, b in pairwise(ys)] == pytest.approx([HEIGHT / 3] * 3, abs=0.2)
    xs = [x for x, _ in dots(line_chart("t", "x", "y", [line], True)).values()]
    assert [b - a for a, b in pairwise(xs)] == pytest.approx([xs[1] - xs[0]] * 3, abs=0.2)


def test_a_logarithmic_axis_leaves_out_values_that_it_cannot_show() -> None:
    chart = line_chart("t", "x", "y", [Line("a", ((0.0, 1.0), (1.0, 0.0), (2.0, 3.0)), "x")], True, True)
    assert list(dots(chart)) == ["a: 3 at 2"]


def test_a_linear_axis_begins_at_zero_and_ends_at_a_round_number() -> None:
    chart = line_chart("t", "x", "y", [Line("a", ((0.0, 50.0), (1.0, 100.0)), "x")])
    assert dots(chart)["a: 100 at 1"][1] == TOP and dots(chart)["a: 50 at 0"][1] == TOP + HEIGHT / 2
    assert {"0", "20", "100"} <= set(texts(chart))


def test_lines_over_time_are_steps_with_marks() -> None:
    line = Line("a", ((0.0, 10.0), (1.0, 20.0), (2.0, 10.0)), "x", (1.0,))
    chart = Chart("t", Axis("seconds"), Axis("TPS"), [line], (0.0, 2.0), "checkpoint", steps=True)
    (path,) = paths(chart)
    assert re.sub(r"[\d.]+", "", path) == "M,HVHV"
    marks = [element for element in root_of(chart).iter("line") if element.get("stroke-dasharray") == "2,4"]
    places = dots(chart)
    assert [float(mark.attrib["x1"]) for mark in marks] == [pytest.approx(places[f"a: 10 at {n}"][0]) for n in (0, 2)]
    assert texts(chart).count("checkpoint") == 1
    (diamond,) = (element for element in root_of(chart).iter("path") if element.get("stroke") == "var(--panel)")
    assert diamond.findtext("title") == "a: 20 at 1"


def test_percentiles_are_drawn_at_equal_distances() -> None:
    names = ("p50", "p95", "p99", "p99.9")
    near = percentile_chart("t", "ms", names, [("a", (1.0, 2.0, None, 4.0), "x")])
    x1, x2, x4 = (dots(near)[f"a, {name}: {value}"][0] for name, value in (("p50", 1), ("p95", 2), ("p99.9", 4)))
    assert x4 - x2 == pytest.approx(2 * (x2 - x1), abs=0.2)
    assert set(names) <= set(texts(near))
    far = percentile_chart("t", "ms", names, [("a", (1.0, 10.0, 100.0, 1000.0), "x")])
    ys = [y for _, y in dots(far).values()]
    assert ys[0] - ys[1] == pytest.approx(ys[2] - ys[3], abs=0.2)


def test_the_legend_is_in_the_order_in_which_the_lines_end() -> None:
    lines = [Line(f"line {n}", ((0.0, 1.0), (1.0, float(n))), f"series-{n}") for n in (2, 1, 3)]
    legend = line_chart("t", "x", "y", lines).__html__().partition('class="legend"')[2]
    assert re.findall(r">(line \d)<", legend) == ["line 3", "line 2", "line 1"]


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_labels_of_an_axis_do_not_overlap(width: int) -> None:
    sizes = (1000.0, 1e6, 1e7, 5e7, 1e8)
    chart = line_chart("t", "rows", "y", [Line("a", tuple((size, 1.0) for size in sizes), "x")], True)
    named = [element for element in root_of(chart, width).iter("text") if element.get("y") == str(TOP + HEIGHT + 18)]
    ends = [(float(element.attrib["x"]), 3.75 * len(element.text or "")) for element in named]
    assert all(a + half < b - other for (a, half), (b, other) in pairwise(ends)) and len(ends) >= 3


DRAWN: dict[str, Callable[[str], Chart]] = {
    "lines": lambda text: line_chart(text, text, text, [Line(text, ((1.0, 1.0),), "x dashed")]),
    "time": lambda text: Chart(text, Axis(text), Axis(text), [Line(text, ((1.0, 1.0),), "x")], (1.0,), text, True),
    "percentiles": lambda text: percentile_chart(text, text, [text], [(text, (1.0,), "x")]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_text_is_escaped_and_colours_are_those_of_the_page(name: str) -> None:
    html = DRAWN[name](EVIL).__html__()
    root = ET.fromstring(f"<div>{html}</div>")
    assert not list(root.iter("b")) and not any("a" in element.attrib for element in root.iter())
    assert "&lt;b a=" in html
    for colour in re.findall(r'(?:fill|stroke)="([^"]*)"', html):
        assert colour in ("none", "transparent") or re.fullmatch(r"var\(--[\w-]+(, var\(--series-1\))?\)", colour)
    assert not re.search(r"\sid=|font-family|url\(|href|<script|<style", html)


@pytest.mark.parametrize(
    "chart",
    [line_chart("t", "x", "y", []), percentile_chart("t", "ms", ["p50"], [("a", (None,), "x")]),
     line_chart("t", "x", "y", [Line("a", ((0.0, 0.0),), "x")], True)],
)  # fmt: skip
def test_no_chart_is_drawn_without_values(chart: Chart) -> None:
    assert (bool(chart), chart.svg(), chart.__html__()) == (False, "", "")


@pytest.mark.parametrize("points", [((0.0, 0.0),), ((7.0, 7.0),), ((0.0, 0.0), (1.0, 0.0)), ((1.0, -2.0), (3.0, 5e-7))])
@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_all_values_are_drawn_within_the_chart(points: tuple[tuple[float, float], ...], width: int) -> None:
    chart = line_chart("t", "x", "y", [Line("a", points, "x")])
    for x, y in dots(chart, width).values():
        assert 0 <= x <= width and TOP <= y <= TOP + HEIGHT


def test_a_line_of_many_points_has_no_dots() -> None:
    many = tuple((float(n), float(n)) for n in range(plots.MOST_DOTS + 1))
    assert not dots(line_chart("t", "x", "y", [Line("a", many, "x")]))
    assert len(dots(line_chart("t", "x", "y", [Line("a", many[1:], "x")]))) == plots.MOST_DOTS
