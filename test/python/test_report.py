"""The figures of raw runs, and the page that displays them."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from inorder.commands.catalogue import Labelled, Report, distinct
from inorder.errors import InputError
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertExperiment
from inorder.lab.experiments.insert.report import seconds_line
from inorder.lab.experiments.insert.summary import KindRow, lines_of, times_memory
from inorder.lab.report.formats import as_csv, as_json
from inorder.lab.report.html import memory_note, render
from inorder.lab.report.side_by_side import side_by_side
from inorder.lab.results.journal import load_all
from inorder.lab.results.result import EXACT_COUNTERS, Result, Run

from on_paper import a_result, insert_run

INSERT = Report(all_experiments()["insert"])

VOID = {"meta", "path", "rect", "circle", "br", "link", "input", "img"}


def kinds_of(result: Result) -> list[KindRow]:
    return lines_of(result, InsertExperiment.plan_in(result))[1000]


def page_of(result: Result) -> str:
    return render([Labelled("r.json", result)])


def figures_of(result: Result) -> list[dict[str, Any]]:
    return INSERT.sections(result)[0].records()


def test_a_table_without_an_index_has_no_figures_of_an_index() -> None:
    result = a_result()
    result.plan["kinds"] = ["bigint_none"]
    metrics = result.runs[0].metrics | {"index_hits": 0.0, "index_reads": 0.0}
    result.runs = [
        Run("insert", "bigint_none", 1000, 1, metrics),
        Run("fill", "bigint_none", 1000, 1, {"index_bytes": 0.0}),
    ]
    (kind,) = figures_of(result)
    assert (kind["index_hit_percent"], kind["index_mb"], kind["leaf_density"]) == (None, None, None)


def test_the_method_of_measuring_is_shown() -> None:
    assert memory_note(a_result()).endswith("other blocks are read from the device.")
    limited = a_result()
    limited.plan["iops"] = 3000
    assert "limited to 3,000 reads and 3,000 writes a second" in memory_note(limited)
    assert "page cache" in memory_note(a_result(method=EXACT_COUNTERS))
    assert times_memory(kinds_of(a_result()), 32 * 2**20) == (
        "The smallest index is 2.0 times as large as the memory, the largest 2.0 times."
    )


class Page(HTMLParser):
    """Checks that elements are closed in order, and collects the addresses that a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.count: dict[str, int] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore an element like <br/>, which is neither opened nor closed."""


def test_the_page_is_whole_and_needs_no_network() -> None:
    text = page_of(a_result())
    page = Page(text)
    assert page.open == []
    assert all(link.startswith(("#", "data:,")) for link in page.fetched)
    assert not re.search(r"url\(|@import|https?://", text)
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert page.count["svg"] == 2 and page.count["table"] == 2  # one svg for a screen and one for a phone
    assert "2,040 B" in text and "0.25 [0.25–0.25]" in text
    assert "was interrupted" not in text
    assert "&lt;A &amp; B&gt;" in text and "<A & B>" not in text.replace("\\u003cA & B>", "")


def test_the_page_holds_every_raw_number(tmp_path: Path) -> None:
    page, other = tmp_path / "page.html", a_result()
    other.notes = ["</script><b>"]
    page.write_text(render([Labelled("a", a_result()), Labelled("b", other)]), encoding="utf-8")
    assert load_all(page) == [a_result(), other]
    page.write_text("<!DOCTYPE html><p>", encoding="utf-8")
    with pytest.raises(InputError, match="is a page without results"):
        load_all(page)


def test_two_sizes_make_a_line_chart() -> None:
    result = a_result()
    result.plan["rows"] = [1000, 4000]
    result.runs += [insert_run(kind, 1, 100.0, 17_000.0, rows=4000) for kind in ("bigint", "random")]
    assert Page(page_of(result)).count["svg"] == 2 * 4


def test_the_caption_says_that_a_table_grew() -> None:
    for before, caption in ((1100.0, ""), (5400.0, "Later rounds began with up to 5,400 rows.")):
        result = a_result()
        result.select("insert")[-1].metrics["rows_before"] = before
        assert INSERT.sections(result)[0].caption == caption


def test_csv_and_json_have_the_same_records() -> None:
    records = INSERT.records(a_result())
    lines = as_csv(records).splitlines()
    assert [line.split(",")[0] for line in lines] == ["table", "rows_1000", "rows_1000", "quality"]
    assert lines[0].startswith("table,kind,label,rows,tps,tps_low,tps_high,ratio")
    assert '"ratio": 0.25' in as_json(records)


def test_latencies_and_costs_of_the_device_are_shown() -> None:
    result = a_result()
    for run in result.select("insert", "random"):
        run.metrics.update(p50_ms=0.1, p90_ms=0.2, p95_ms=0.3, p99_ms=0.4, record_bytes=19 * 2**20,
                           image_bytes=61 * 2**20, touched_blocks=40, read_bytes=819_200,
                           device_busy_percent=12.0, device_writes_per_s=50.0)  # fmt: skip
    details = INSERT.sections(result)[1]
    assert details.shown() == [
        ["bigint", *[""] * 18],
        ["random", "0.100", "0.200", "0.300", "0.400", "", "199,229 B", "639,631 B", "19.0 MB", "61.0 MB", "400.0",
         "8,192 B", "", "12 %", "", "", "50", "", ""],
    ]  # fmt: skip
    (latency,) = details.charts
    assert "p99" in latency.svg()


def test_results_of_one_experiment_are_side_by_side() -> None:
    other = a_result()
    other.plan["kinds"] = ["random", "sequence"]
    randoms = other.select("insert", "random")
    other.runs += [Run(run.step, "sequence", run.rows, run.round, run.metrics) for run in randoms]
    sections = [INSERT.sections(result) for result in (a_result(), other)]
    both, quality = side_by_side([("a", sections[0]), ("b", sections[1])])
    assert [column.name for column in both.columns[:3]] == ["key", "inserts/s\na", "inserts/s\nb"]
    assert {row[0]: row[1:3] for row in both.shown()} == {
        "bigint": ["1,000", ""], "random": ["250", "250"], "sequence-prefixed": ["", "250"]
    }  # fmt: skip
    reader = Result("reader", "now", "0", 1, {"writers": 1, "rounds": 1, "seconds": 1}, {}, {}, "m")
    text = render([Labelled("a", a_result()), Labelled("b", other), Labelled("c", reader)])
    assert Page(text).open == [] and text.count('<script type="application/jsonl"') == 3
    assert text.count("<small>a</small>") == len(both.columns) // 2 + len(quality.columns) // 2
    assert "Side by side" not in render([Labelled("a", a_result()), Labelled("c", reader)])


def test_results_of_the_same_name_get_distinct_labels() -> None:
    first, later = a_result(), a_result()
    later.created = "later"
    assert [r.label for r in distinct([Labelled("a", first), Labelled("b", first)])] == ["a", "b"]
    assert [r.label for r in distinct([Labelled("a", first), Labelled("a", later)])] == ["a, now", "a, later"]
    assert [r.label for r in distinct([Labelled("a", first), Labelled("a", first)])] == ["a, now (1)", "a, now (2)"]


def test_in_the_chart_of_speed_a_round_begins_at_the_same_second_for_all_kinds() -> None:
    result = a_result()
    for run in result.select("insert"):
        run.series["tps"] = [1.0, 2.0, 3.0] if (run.kind, run.round) == ("random", 1) else [1.0, 2.0]
    svg = INSERT.sections(result)[0].charts[-1].svg()
    marks = re.findall(r'<line x1="([\d.]+)" [^>]*stroke-dasharray="2,4"', svg)
    assert len(marks) == 6
    places = points(svg)
    for kind in ("bigint", "random"):
        starts = [round(places[kind, second][0], 1) for second in (0, 3, 5, 7, 9, 11)]
        assert [round(float(mark), 1) for mark in marks] == starts


def points(svg: str) -> dict[tuple[str, int], tuple[float, float]]:
    matches = re.findall(r'd="M([\d.]+),([\d.]+)a[^>]*><title>(\w+): \S+ at (\d+)</title>', svg)
    return {(label, int(second)): (float(x) + 3.3, float(y)) for x, y, label, second in matches}


def test_checkpoints_are_marked_where_they_ended() -> None:
    result = a_result()
    for run in result.select("insert"):
        run.series["tps"] = [10.0, 20.0, 40.0]
    assert "var(--panel)" not in INSERT.sections(result)[0].charts[-1].svg()
    result.select("insert", "random")[1].series["checkpoints"] = [2.0]  # after two seconds
    chart = INSERT.sections(result)[0].charts[-1]
    assert chart.caption.endswith(
        "Second by second; the rounds follow one another; a diamond marks the end of a checkpoint"
    )
    ((second, rate),) = re.findall(
        r'var\(--kind-random[^>]*var\(--panel\)"><title>random: (\S+) at (\d+)<', chart.svg()
    )
    assert (second, rate) == ("20", "4")


def test_a_long_run_is_drawn_as_means_of_several_seconds() -> None:
    kind = kinds_of(a_result())[0]
    line = seconds_line(kind, {second: float(second) for second in range(9)}, [4], 3)
    assert line.points == ((0.0, 1.0), (3.0, 4.0), (6.0, 7.0)) and line.moments == (3.0,)
    result = a_result()
    for run in result.select("insert"):
        run.series["tps"] = [1.0] * 400
    assert "Means of 4 seconds" in INSERT.sections(result)[0].charts[-1].caption


def test_the_page_says_how_each_experiment_was_measured() -> None:
    reader = Result("reader", "now", "0", 1, {"writers": 1, "rounds": 6, "seconds": 1}, {}, {}, "m")
    assert "in shuffled order" in page_of(a_result()) and "in shuffled order" not in page_of(reader)
    result = a_result()
    result.runs = [run for run in result.runs if run.round <= 5 or run.kind == "bigint"]
    assert "Brackets hold the range of 5 rounds" in page_of(result)
