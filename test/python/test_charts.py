"""Charts: where things are, and that no text can be markup."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from inorder.report import charts, plots
from inorder.report.charts import Bar, Stack
from inorder.report.plots import Line
from markupsafe import Markup

EVIL = '<b a="1">&'


def numbers(svg: str, pattern: str) -> list[float]:
    """Every number that the pattern's group holds."""
    return [float(found) for found in re.findall(pattern, svg)]


def test_the_parts_of_a_stack_lie_end_to_end() -> None:
    """On one scale for all stacks; the largest fills the room there is."""
    stacks = [Stack("a", (30.0, 10.0), "40"), Stack("b", (5.0, 15.0), "20")]
    chart = charts.stacked_chart("WAL", ("images", "records"), stacks)
    bars = re.findall(r'class="(series-\d)" x="([\d.]+)" y="[\d.]+" rx="3" width="([\d.]+)"', chart)
    room = charts.WIDTH - charts.LABEL_WIDTH - charts.VALUE_WIDTH
    assert [(css, float(width)) for css, _, width in bars] == [
        ("series-1", pytest.approx(room * 0.75)), ("series-2", pytest.approx(room * 0.25)),
        ("series-1", pytest.approx(room * 0.125, abs=0.1)), ("series-2", pytest.approx(room * 0.375, abs=0.1)),
    ]  # fmt: skip
    for first, second in ((bars[0], bars[1]), (bars[2], bars[3])):
        assert float(second[1]) == pytest.approx(float(first[1]) + float(first[2]), abs=0.1)
    assert "images" in chart and "records" in chart


def test_a_logarithmic_axis_gives_every_factor_the_same_room() -> None:
    """Ten times is as far from 1 to 10 as from 10 to 100; what is not above zero is left out."""
    line = Line("a", ((0.0, 5.0), (1.0, 1.0), (10.0, 10.0), (100.0, 100.0)), "x")
    chart = plots.line_chart("t", "size", "speed", [line], log_x=True, log_y=True)
    xs, ys = numbers(chart, r'<circle class="x" cx="([\d.]+)"'), numbers(chart, r'cy="([\d.]+)"')
    assert len(xs) == 3
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2) and ys[0] > ys[2]


def test_a_linear_axis_begins_at_zero() -> None:
    """Half the value is half the height."""
    chart = plots.line_chart("t", "x", "y", [Line("a", ((0.0, 50.0), (1.0, 100.0)), "x")])
    bottom = plots.TOP + plots.PLOT_HEIGHT
    half, whole = numbers(chart, r'cy="([\d.]+)"')
    assert bottom - half == pytest.approx((bottom - whole) / 2)


def test_time_goes_in_steps_with_marks() -> None:
    """Across, then up; a mark at each checkpoint, named once."""
    chart = plots.time_chart("t", "TPS", [Line("a", ((0.0, 10.0), (1.0, 20.0), (2.0, 10.0)), "x")], (0.0, 2.0))
    path = re.search(r'<path class="line x" d="(M[^"]*)"', chart)
    assert path and re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+){2}", path.group(1))
    marks = numbers(chart, r'<path class="mark" d="M([\d.]+)')
    assert marks == [plots.PLOT_LEFT, plots.WIDTH - plots.PLOT_RIGHT]
    assert chart.count(">checkpoint<") == 1


def test_percentiles_stand_at_equal_distances_by_name() -> None:
    """p50 to p99.9; a missing one has no dot; far apart the axis is logarithmic."""
    names = ("p50", "p95", "p99", "p99.9")
    near = plots.percentile_chart("t", "ms", names, [("a", (1.0, 2.0, None, 4.0), "x")])
    xs = numbers(near, r'cx="([\d.]+)"')
    assert len(xs) == 3 and xs[2] - xs[1] == pytest.approx(2 * (xs[1] - xs[0]), abs=0.2)
    assert all(f">{name}<" in near for name in names)
    far = plots.percentile_chart("t", "ms", names, [("a", (1.0, 10.0, 100.0, 1000.0), "x")])
    ys = numbers(far, r'cy="([\d.]+)"')
    assert ys[0] - ys[1] == pytest.approx(ys[2] - ys[3], abs=0.2)


def test_the_page_map_has_a_cell_a_range_of_blocks() -> None:
    """Row by row, darkest where most often touched."""
    chart = charts.page_map("t", [8.0, *[0.0] * 498, 1.0], 2, 10_000)
    cells = re.findall(r'class="shade-(\d)" x="([\d.]+)" y="([\d.]+)"', chart)
    assert len(cells) == 500  # of 20 blocks each
    assert [place for place, (shade, _, _) in enumerate(cells) if shade != "0"] == [0, 499]
    assert (cells[0][0], cells[-1][0]) == ("4", "2")
    assert "2 of 10,000 blocks touched; a cell is 20 blocks" in chart
    assert len({y for _, _, y in cells}) == 8 and cells[0][2] == cells[63][2] != cells[64][2]


def test_a_map_of_few_blocks_has_a_cell_each() -> None:
    """And one of none is not drawn."""
    few = charts.page_map("t", [0.0] * 3, 0, 3)
    assert few.count("shade-0") == 3 and "a cell is a block" in few
    assert charts.page_map("t", [], 0, 0) == ""


def test_labels_do_not_cover_one_another() -> None:
    """Six lines that end at one point."""
    lines = [Line(str(n), ((0.0, 1.0), (1.0, 0.0)), "x") for n in range(6)]
    heights = sorted(numbers(str(plots.line_chart("t", "x", "y", lines)), r'class="name" x="\d+" y="([\d.]+)"'))
    assert all(b - a >= 15.9 for a, b in pairwise(heights))
    assert heights[-1] <= plots.TOP + plots.PLOT_HEIGHT + 5


DRAWN: dict[str, Callable[[str], Markup]] = {
    "bars": lambda text: charts.bar_chart(text, [Bar(text, 1.0, text, text, 0.5, 1.5)]),
    "stacks": lambda text: charts.stacked_chart(text, [text], [Stack(text, (1.0,), text)]),
    "lines": lambda text: plots.line_chart(text, text, text, [Line(text, ((1.0, 1.0),), text)]),
    "time": lambda text: plots.time_chart(text, text, [Line(text, ((1.0, 1.0),), text)], (1.0,), text),
    "percentiles": lambda text: plots.percentile_chart(text, text, [text], [(text, (1.0,), text)]),
    "map": lambda text: charts.page_map(text, [1.0], 1, 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_is_markup(name: str) -> None:
    """Wherever a chart takes text."""
    chart = DRAWN[name](EVIL)
    assert "<b" not in chart and 'a="1"' not in chart and "&lt;b a=&#34;1&#34;&gt;&amp;" in chart


@pytest.mark.parametrize(
    "chart",
    [
        charts.bar_chart("t", []), charts.stacked_chart("t", ["a"], []), plots.line_chart("t", "x", "y", []),
        plots.percentile_chart("t", "ms", ["p50"], [("a", (None,), "x")]), plots.time_chart("t", "y", [], (1.0,)),
    ],
)  # fmt: skip
def test_nothing_is_drawn_of_nothing(chart: Markup) -> None:
    """No axes without values."""
    assert chart == ""


@pytest.mark.parametrize(
    "chart",
    [
        charts.bar_chart("t", [Bar("a", 0.0, "0", "x", 0.0, 0.0), Bar("b", -3.0, "-3", "x", -4.0, 1.0)]),
        charts.stacked_chart("t", ["a"], [Stack("a", (0.0,), "0")]),
        plots.line_chart("t", "x", "y", [Line("a", ((0.0, 0.0),), "x")]),
        plots.line_chart("t", "x", "y", [Line("a", ((7.0, 7.0),), "x")], True, True),
    ],
)
def test_zero_is_drawn(chart: Markup) -> None:
    """With no width below none."""
    assert "nan" not in chart and "inf" not in chart and not re.search(r'(width|cx|cy|x)="-', chart)
