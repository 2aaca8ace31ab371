"""What the first screen of a page and the last lines of a terminal claim, and when they do not."""

import re
from dataclasses import replace

import pytest
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments import all_experiments
from inorder.lab.report.catalogue import report_of
from inorder.lab.report.html import cell_bars, render
from inorder.lab.report.published import STUDIES
from inorder.lab.report.section import Column, Section
from inorder.lab.report.side_by_side import Labelled, side_by_side
from inorder.lab.report.verdict import Bar, Compared, Verdict, decided
from inorder.lab.results import Result

from conftest import ROOT
from on_paper import a_result, insert_run
from replay import recorded, recorded_names


def cut(result: Result, rounds: int) -> Result:
    return replace(result, runs=[run for run in result.runs if run.round <= rounds])


def test_random_keys_are_judged_as_far_as_the_rounds_carry() -> None:
    """Six rounds of a quarter of the speed decide it; three do not, and say what would."""
    sure, key = report_of(a_result()).verdicts(a_result()), "Do random keys cost you?"
    assert [(one.question, one.answer) for one in sure] == [(key, "Yes")]  # none in order was measured
    assert sure[0].figures.startswith(
        "25 % [25–25 %] of the speed of bigint. 12.0 [12.0–12.0] times the WAL of bigint."
    )
    assert sure[0].holds.startswith("1,000 rows in a table with a primary key alone, 100 rows between two checkpoints.")
    assert [bar.value for bar in sure[0].bars] == [1000.0, 250.0]
    (few,) = report_of(a_result()).verdicts(cut(a_result(), 3))
    assert few.answer == "Not decided" and "3 rounds: not significant. Repeat with --rounds 6." in few.sure


def test_the_wal_of_a_verdict_says_for_how_many_rows_between_checkpoints() -> None:
    result = a_result()
    for run in result.select("insert", "random"):
        run.series["checkpoints"] = [1.0]
    assert "50 rows between two checkpoints" in report_of(result).verdicts(result)[0].holds


def test_a_key_is_advised_where_no_loss_that_matters_is_left_open() -> None:
    for spread, answer in ((1.01, "version 7"), (2.0, "Not decided")):
        result = a_result()
        result.plan["kinds"] = ["bigint", "v7", "random"]
        result.runs += [
            insert_run("v7", run.round, run.metrics["tps"] * spread ** (-1) ** run.round, 18_000.0)
            for run in result.select("insert", "bigint")
        ]
        verdict = report_of(result).verdicts(result)[1]
        assert (verdict.question, verdict.answer) == ("Which key should you use?", answer)
        assert "slower is possible" in verdict.figures
        assert bool(re.search(r"scatter too much. To find a difference of 10 %: ", verdict.sure)) == (spread == 2.0)


def test_an_interval_decides_or_names_the_loss_it_leaves_open() -> None:
    assert decided(Estimate(0.5, 0.4, 0.6, 6)) and not decided(Estimate(0.5, 0.4, 0.6, 5))
    assert not decided(Estimate(0.5, None, None, 1)) and not decided(Estimate(1.0, 0.9, 1.5, 6))
    assert Compared("speed", "bigint", {}).words == Compared("speed", "bigint", {}).to_decide == ""
    with pytest.raises(ValueError, match="4 bars"):
        Verdict("?", "", "", bars=[Bar("a", 1.0, "1", "x")] * 4)


@pytest.mark.parametrize("name", sorted(all_experiments()))
def test_every_experiment_answers_a_question(name: str) -> None:
    result = recorded(name.replace("-", "_"))
    verdicts = report_of(result).verdicts(result)
    assert verdicts and all(one.question.endswith("?") and one.figures.endswith(".") for one in verdicts)
    page = render([Labelled("a", result)])
    head = page[: page.index("</header>")]
    assert all(f">{one.question}</a>" in head for one in verdicts)
    assert not report_of(result).verdicts(replace(result, runs=[]))
    assert set(all_experiments()[name].studies) <= STUDIES.keys()
    assert all(f"Study {study}: " in page for study in all_experiments()[name].studies)


def test_what_explains_is_folded() -> None:
    page = render([Labelled("a", a_result())])
    folded = re.findall(r"<summary>([^<]*)</summary>", page)
    assert folded == ["What the columns mean", "Method and settings", "Raw data"]
    found = re.findall(r'class="bar" style="--part: ([\d.]+)">([\d,]+)<', page)
    assert found[:2] == [("100.0", "1,000"), ("25.0", "250")]


WITHOUT_BARS = {"noise", "quality"}  # of different units, of ratios, or of words


@pytest.mark.parametrize("name", recorded_names())
def test_the_main_columns_of_each_table_have_bars(name: str) -> None:
    result = recorded(name)
    for section in report_of(result).sections(result):
        lengths = [length for row in cell_bars(section) for length in row if length is not None]
        free = section.name in WITHOUT_BARS or section.name.startswith("published")
        assert max(lengths, default=0) == 100 or (free and not lengths), section.name
        assert all(0 <= length <= 100 for length in lengths)


def test_a_scale_is_of_a_column_a_row_or_of_several_results() -> None:
    columns = [Column("a", ""), Column("b", "", bar=True), Column("c", "", bar=True), Column("d", "")]
    section = Section("s", "S", columns, [["x", 1.0, 8.0, 9.0], ["y", 4.0, None, 9.0], ["z", -1.0, 4.0, 9.0]])
    assert [row[1:3] for row in cell_bars(section)] == [[25.0, 100.0], [100.0, None], [0.0, 50.0]]
    assert [row[1:3] for row in cell_bars(replace(section, across=True))] == [[12.5, 100], [100, None], [0, 100]]
    (both,) = side_by_side([("one", [section]), ("two", [replace(section, rows=[["x", 2.0, 2.0, 9.0]])])])
    assert cell_bars(both, both=True)[0][1:5] == [25.0, 50.0, 100.0, 25.0]


def test_the_table_of_the_verdict_comes_first_with_one_picture() -> None:
    result = recorded("insert")
    page = render([Labelled("a", result)])
    titles = re.findall(r'<h3 id="[^"]*">([^<]*)</h3>', page)
    assert titles[:2] == ["Inserting into a table of 12,000 rows", "Inserting into a table of 4,000 rows"]
    top = page[page.index('<div class="top">') : page.index("</table>")]
    assert top.count("<figure>") == 1 and "<figure>" in page[page.index("</table>") :]
    assert page.count("Do random keys cost you?") == 1 and 'class="one"' in page
    both = render([Labelled("a", result), Labelled("b", recorded("reader"))])
    assert both.count("Do random keys cost you?") == 2 and 'class="many"' in both


def test_the_manual_lists_each_question() -> None:
    manual = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    assert all(f"| {name} | {kind.question} |" in manual for name, kind in all_experiments().items())
