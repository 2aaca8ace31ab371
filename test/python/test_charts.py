"""Charts: where things are, that they are drawn when shown, and that no text can be markup."""

import re
from collections.abc import Callable
from unittest.mock import Mock
from xml.etree import ElementTree as ET

import pytest
import vl_convert
from inorder.lab.report import charts, plots
from inorder.lab.report.charts import Bar, Stack
from inorder.lab.report.drawing import PHONE, SCREEN, Drawing
from inorder.lab.report.plots import Line

EVIL = '<b a="1">&'


def marks(drawing: Drawing, width: int = SCREEN) -> dict[str, ET.Element]:
    root = ET.fromstring(drawing.svg(width))
    return {told.text or "": one for one in root.iter() if one is not root and (told := one.find("title")) is not None}


def rect(mark: ET.Element) -> tuple[float, float]:
    found = re.match(r"M([\d.]+),[\d.]+h([\d.]+)", mark.attrib["d"])
    assert found
    return float(found[1]), float(found[2])


def place(mark: ET.Element) -> tuple[float, float]:
    x, y = re.findall(r"[\d.]+", mark.attrib["transform"])
    return float(x), float(y)


def lines_of(drawing: Drawing) -> list[ET.Element]:
    return [one for told, one in marks(drawing).items() if ":" not in told and one.attrib.get("d", "").startswith("M")]


def texts(drawing: Drawing, width: int = SCREEN) -> list[str]:
    return [one.text or "" for one in ET.fromstring(drawing.svg(width)).iter("text")]


def test_bars_are_drawn_to_scale_with_their_intervals() -> None:
    drawing = charts.bar_chart("t", [Bar("a", 100, "100 B", "x"), Bar("b", 50, "50 B", "x", 40, 60)])
    (first, whole), (second, half) = map(rect, marks(drawing).values())
    assert first == second and half == pytest.approx(whole / 2, abs=0.1)
    assert list(marks(drawing)) == ["a: 100 B", "b: 50 B [40–60]"]
    assert drawing.svg().count("role-mark layer_1") == 3
    assert texts(drawing) == ["a", "b", "100 B", "50 B"]
    alone = charts.bar_chart("t", [Bar("a", 100, "100 B", "x"), Bar("b", 0.001, "0 B", "x")])
    assert "<line" not in alone.svg() and rect(marks(alone)["b: 0 B"])[1] >= 1


def test_a_phone_has_labels_above_the_bars() -> None:
    drawing = charts.bar_chart("t", [Bar("a name of some length", 100, "100 B", "x")])
    (phone,), (screen,) = marks(drawing, PHONE).values(), marks(drawing).values()
    assert rect(phone)[1] > PHONE * 0.7 and rect(screen)[1] < SCREEN * 0.8
    assert sorted(texts(drawing, PHONE)) == sorted(texts(drawing)) == ["100 B", "a name of some length"]
    for width in (PHONE, SCREEN):
        assert f'viewBox="0 0 {width} ' in drawing.svg(width)


def test_the_parts_of_a_stack_lie_end_to_end() -> None:
    stacks = [Stack("a", (30.0, 10.0), "40"), Stack("b", (5.0, 15.0), "20")]
    drawing = charts.stacked_chart("WAL", ("images", "records"), stacks)
    bars = {told: rect(mark) for told, mark in marks(drawing).items()}
    scale = bars["a, images: 30"][1] / 30
    for stack, (first, second) in {"a": (30, 10), "b": (5, 15)}.items():
        one, other = bars[f"{stack}, images: {first}"], bars[f"{stack}, records: {second}"]
        assert one[0] == 0 and one[1] == pytest.approx(first * scale, abs=0.1)
        assert other == pytest.approx((one[1], second * scale), abs=0.1)
    assert {"images", "records", "40", "20"} <= set(texts(drawing))


def test_a_logarithmic_axis_gives_every_factor_the_same_room() -> None:
    line = Line("a", ((0.0, 5.0), (1.0, 1.0), (10.0, 10.0), (100.0, 100.0)), "x")
    drawing = plots.line_chart("t", "size", "speed", [line], log_x=True, log_y=True)
    points = [place(mark) for told, mark in marks(drawing).items() if " at " in told]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2) and y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert y1 > y3


def test_a_linear_axis_begins_at_zero() -> None:
    drawing = plots.line_chart("t", "x", "y", [Line("a", ((0.0, 50.0), (1.0, 100.0)), "x")])
    found = marks(drawing)
    assert place(found["a: 100 at 1"])[1] == pytest.approx(0, abs=0.1)
    assert place(found["a: 50 at 0"])[1] == pytest.approx(plots.PLOT_HEIGHT / 2, abs=0.1)


def test_time_goes_in_steps_with_marks() -> None:
    line = Line("a", ((0.0, 10.0), (1.0, 20.0), (2.0, 10.0)), "x", (1.0,))
    drawing = plots.time_chart("t", "TPS", [line], (0.0, 2.0))
    (path,) = lines_of(drawing)
    corners = [tuple(map(float, pair.split(","))) for pair in re.findall(r"[\d.]+,[\d.]+", path.attrib["d"])]
    assert [y for _, y in corners] == [130, 130, 0, 0, 130]
    root = ET.fromstring(drawing.svg())
    ruled = [one for group in root.iter("g") if "mark-rule role-mark" in group.get("class", "") for one in group]
    assert [place(one)[0] for one in ruled] == [corners[0][0], pytest.approx(corners[-1][0], abs=0.2)]
    assert texts(drawing).count("checkpoint") == 1
    (diamond,) = (place(one) for one in root.iter("path") if one.get("stroke") == "var(--panel)")
    assert diamond[0] == pytest.approx(corners[2][0], abs=0.2) and diamond[1] == 0


def test_percentiles_stand_at_equal_distances_by_name() -> None:
    names = ("p50", "p95", "p99", "p99.9")
    near = plots.percentile_chart("t", "ms", names, [("a", (1.0, 2.0, None, 4.0), "x")])
    x1, x2, x4 = (place(marks(near)[f"a, {name}: {value}"])[0] for name, value in
                  (("p50", 1), ("p95", 2), ("p99.9", 4)))  # fmt: skip
    assert x4 - x2 == pytest.approx(2 * (x2 - x1), abs=0.2)
    assert set(names) <= set(texts(near))
    far = plots.percentile_chart("t", "ms", names, [("a", (1.0, 10.0, 100.0, 1000.0), "x")])
    ys = [place(mark)[1] for told, mark in marks(far).items() if "," in told]
    assert ys[0] - ys[1] == pytest.approx(ys[2] - ys[3], abs=0.2)


def test_the_legend_is_in_the_order_in_which_the_lines_end() -> None:
    lines = [Line(f"line {n}", ((0.0, 1.0), (1.0, float(n))), f"series-{n}") for n in (2, 1, 3)]
    drawing = plots.line_chart("t", "x", "y", lines)
    assert [text for text in texts(drawing) if text.startswith("line")] == ["line 3", "line 2", "line 1"]
    height = {width: float(drawing.svg(width).split('"')[1].split()[3]) for width in (SCREEN, PHONE)}
    assert height[PHONE] > height[SCREEN] + 15


def test_the_page_map_has_a_cell_a_range_of_blocks() -> None:
    drawing = charts.page_map("t", [8.0, *[0.0] * 498, 1.0], 2, 10_000)
    paths = dict(re.findall(r'fill="var\(--shade-(\d)\)" d="([^"]*)"', drawing.svg()))
    cells = {shade: re.findall(r"M(\d+) (\d+)h", path) for shade, path in paths.items()}
    assert {shade: len(some) for shade, some in cells.items()} == {"0": 498, "2": 1, "4": 1}  # of 20 blocks each
    assert cells["4"] == [("0", "0")] and cells["2"] == [("51", "7")]
    assert drawing.words.startswith("2 of 10,000 blocks touched; a cell is 20 blocks")
    assert drawing.words in drawing.__html__()


def test_a_map_of_few_blocks_has_a_cell_each() -> None:
    few = charts.page_map("t", [0.0] * 3, 0, 3)
    assert few.svg().count("M") == 3 and "a cell is a block" in few.words
    assert not charts.page_map("t", [], 0, 0)


DRAWN: dict[str, Callable[[str], Drawing]] = {
    "bars": lambda text: charts.bar_chart(text, [Bar(text, 1.0, text, "x", 0.5, 1.5)]),
    "stacks": lambda text: charts.stacked_chart(text, [text], [Stack(text, (1.0,), text)]),
    "lines": lambda text: plots.line_chart(text, text, text, [Line(text, ((1.0, 1.0),), "x")]),
    "time": lambda text: plots.time_chart(text, text, [Line(text, ((1.0, 1.0),), "x")], (1.0,), text),
    "percentiles": lambda text: plots.percentile_chart(text, text, [text], [(text, (1.0,), "x")]),
    "map": lambda text: charts.page_map(text, [1.0], 1, 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_is_markup(name: str) -> None:
    chart = DRAWN[name](EVIL).__html__()
    root = ET.fromstring(f"<div>{chart}</div>")
    assert not list(root.iter("b")) and not any("a" in one.attrib for one in root.iter())
    assert "&lt;b a=" in chart


@pytest.mark.parametrize("name", DRAWN)
def test_colours_and_fonts_are_of_the_page(name: str) -> None:
    chart = DRAWN[name]("text").__html__()
    for colour in re.findall(r'(?:fill|stroke)="([^"]*)"', chart):
        assert colour in ("none", "transparent") or re.fullmatch(r"var\(--[\w-]+(, var\(--series-1\))?\)", colour)
    assert not re.search(r'\sid=|font-family|url\(|href|<script|<style|style="[^"]*(?:fill|stroke)', chart)


@pytest.mark.parametrize(
    "chart",
    [
        charts.bar_chart("t", []), charts.stacked_chart("t", ["a"], []), plots.line_chart("t", "x", "y", []),
        plots.percentile_chart("t", "ms", ["p50"], [("a", (None,), "x")]), plots.time_chart("t", "y", [], (1.0,)),
    ],
)  # fmt: skip
def test_nothing_is_drawn_of_nothing(chart: Drawing) -> None:
    assert (bool(chart), chart.svg(), chart.__html__()) == (False, "", "")


@pytest.mark.parametrize(
    "chart",
    [
        charts.bar_chart("t", [Bar("a", 0.0, "0", "x", 0.0, 0.0), Bar("b", -3.0, "-3", "x", -4.0, 1.0)]),
        charts.stacked_chart("t", ["a"], [Stack("a", (0.0,), "0")]),
        plots.line_chart("t", "x", "y", [Line("a", ((0.0, 0.0),), "x")]),
        plots.line_chart("t", "x", "y", [Line("a", ((7.0, 7.0),), "x")], True, True),
    ],
)
@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_zero_is_drawn(chart: Drawing, width: int) -> None:
    svg = chart.svg(width)
    assert svg and "NaN" not in svg and "Infinity" not in svg and not re.search(r'width="-', svg)


def test_a_chart_is_drawn_when_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Mock(side_effect=vl_convert.vegalite_to_svg)
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", drawn)
    chart = charts.bar_chart("only here", [Bar("only here", 17.0, "17", "x")])
    assert chart and not drawn.called
    assert chart.__html__() == chart.__html__() and drawn.call_count == 2
