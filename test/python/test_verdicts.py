"""Verdicts on the first screen of a page and in the last lines of a terminal, and undecided results."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from inorder.cli import cli
from inorder.commands.catalogue import Labelled, report_of
from inorder.connection.database import Connection
from inorder.lab.analysis.stats import Estimate
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert.verdicts import LIKE
from inorder.lab.report.html import YOURS, cell_bars, render
from inorder.lab.report.published import STUDIES
from inorder.lab.report.section import Column, Section
from inorder.lab.report.side_by_side import side_by_side
from inorder.lab.report.verdict import Bar, Compared, Verdict, decided
from inorder.lab.results.result import Result
from markupsafe import escape

from conftest import ROOT
from examples import parsed
from on_paper import a_result, insert_run
from replay import recorded, recorded_names
from world.sql import run


def verdicts_of(name: str) -> Sequence[Verdict]:
    return report_of(recorded(name)).verdicts(recorded(name))


def cut(result: Result, rounds: int) -> Result:
    return replace(result, runs=[run for run in result.runs if run.round <= rounds])


def test_random_keys_are_judged_only_after_enough_rounds() -> None:
    """If random keys have a quarter of the speed of bigint, six rounds decide the question.

    Three rounds do not, and the report says how many are needed.
    """
    sure, key = report_of(a_result()).verdicts(a_result()), "Are random keys expensive?"
    assert [(verdict.question, verdict.answer) for verdict in sure] == [(key, "Yes")]  # no ordered kind was measured
    assert sure[0].figures.startswith(
        "The speed is 25 % [25–25 %] of that of bigint. The WAL is 12.0 [12.0–12.0] times that of bigint with a "
        "checkpoint every 100 rows. By the model, the WAL is 1.2 times that of bigint with a checkpoint every 5 minutes"
    )
    assert sure[0].holds.startswith("The table has 1,000 rows, and its only index is the primary key. ")
    assert [bar.value for bar in sure[0].bars] == [1000.0, 250.0]
    (few,) = report_of(a_result()).verdicts(cut(a_result(), 3))
    assert few.answer == "Not decided" and "3 rounds are too few to decide. Repeat with --rounds 6." in few.sure


def test_the_wal_in_a_verdict_names_the_rows_between_checkpoints() -> None:
    result = a_result()
    for measured in result.select("insert", "random"):
        measured.series["checkpoints"] = [1.0]
    assert "a checkpoint every 50 rows" in report_of(result).verdicts(result)[0].figures
    for measured in result.select("insert", "random"):  # the server has counted more checkpoints than have ended
        measured.metrics["checkpoints_requested"] = 3.0
    assert "a checkpoint every 25 rows" in report_of(result).verdicts(result)[0].figures


def with_ordered(**kinds: tuple[float, float, float]) -> Result:
    result = a_result()
    result.plan["kinds"] = ["bigint", *kinds, "random"]
    for kind, (share, spread, wal) in kinds.items():
        result.runs += [
            insert_run(kind, run.round, share * run.metrics["tps"] * spread ** (-1) ** run.round, wal)
            for run in result.select("insert", "bigint")
        ]
    return result


def test_wal_decides_the_key_if_noise_hides_the_speed() -> None:
    for spread in (1.01, 2.0):
        result = with_ordered(v7=(1, spread, 18_000), sequence=(1, 1.001, 23_000))
        verdict = report_of(result).verdicts(result)[1]
        assert (verdict.question, verdict.answer) == ("Which key should you use?", "version 7")
        assert verdict.figures.startswith("With version 7 keys (uuid_v7_nextval()), the WAL is 1.06 ")
        assert "sequence" not in verdict.figures
        noisy = spread == 2.0
        assert ("too noisy to compare" if noisy else "% lower") in verdict.figures
        scattered = r"The WAL determines this answer.*vary too much to decide. To detect a difference of 10 %, use "
        assert bool(re.match(scattered, verdict.sure)) == noisy
        assert {bar.text.partition(" ")[2] for bar in verdict.bars} == {"B WAL/row" if noisy else "inserts/s"}


def test_a_key_that_is_certainly_slower_is_not_recommended_to_save_wal() -> None:
    for share, answer in ((0.95, "version 7"), (0.7, "sequence-prefixed")):
        result = with_ordered(v7=(share, 1.01, 18_000), sequence=(1, 1.01, 23_000))
        assert report_of(result).verdicts(result)[1].answer == answer
    slow = with_ordered(v7=(0.7, 1.01, 18_000))
    assert report_of(slow).verdicts(slow)[1].answer == "bigint"


@pytest.mark.parametrize(("share", "answer"), [(0.25, "Yes"), (1.0, "No")])
def test_slowdown_is_judged_relative_to_bigint(share: float, answer: str) -> None:
    """While the large table is measured, the whole machine is four times slower.

    This must not count as a slowdown of a kind of key.
    """
    result = a_result()
    result.plan["rows"] = [1000, 10_000]
    for small in result.select("insert"):
        slower = 0.25 * (share if small.kind == "random" else 1.0)
        result.runs.append(replace(small, rows=10_000, metrics=small.metrics | {"tps": slower * small.metrics["tps"]}))
    verdict = report_of(result).verdicts(result)[-1]
    assert (verdict.question, verdict.answer) == ("Do inserts get slower as the table grows?", answer)
    assert [round(bar.value) for bar in verdict.bars] == [25, round(25 * share)]


def test_noisy_measurements_show_a_sentence_instead_of_bars() -> None:
    few = cut(a_result(), 3)
    assert not report_of(few).verdicts(few)[0].bars
    assert "The measurements are too noisy to compare." in render([Labelled("a", few)])


def test_each_factor_in_the_verdict_is_in_the_manual() -> None:
    """Each factor is in a table row of docs/like.md."""
    manual = (ROOT / "docs" / "like.md").read_text(encoding="utf-8")
    factors = re.findall(r"^\|.*\| ([0-9.]+) \[[0-9.–]+\] \|", manual, re.M)
    assert {str(factor) for factor in LIKE.values()} <= set(factors)


def test_the_first_card_names_the_wait_caused_by_the_horizon() -> None:
    result = recorded("reader")
    (verdict,) = report_of(result).verdicts(result)
    assert re.search(
        r'The longest wait of a row was [\d,.]+ ms with "xmin horizon" and [\d,.]+ ms with "inorder feed"\.$',
        verdict.figures,
    )


def test_the_confidence_interval_decides_or_shows_the_possible_loss() -> None:
    assert decided(Estimate(0.5, 0.4, 0.6, 6)) and not decided(Estimate(0.5, 0.4, 0.6, 5))
    assert not decided(Estimate(0.5, None, None, 1)) and not decided(Estimate(1.0, 0.9, 1.5, 6))
    assert Compared("speed", "bigint", {}).words == Compared("speed", "bigint", {}).to_decide == ""
    with pytest.raises(ValueError, match="4 bars"):
        Verdict("?", "", "", bars=[Bar("a", 1.0, "1", "x")] * 4)


@pytest.mark.parametrize("name", sorted(all_experiments()))
def test_every_experiment_answers_a_question(name: str) -> None:
    result = recorded(name.replace("-", "_"))
    verdicts = report_of(result).verdicts(result)
    assert verdicts and all(verdict.question.endswith("?") and verdict.figures.endswith(".") for verdict in verdicts)
    page = render([Labelled("a", result)])
    head = page[: page.index("</header>")]
    assert all(f">{verdict.question}</a>" in head for verdict in verdicts)
    assert not report_of(result).verdicts(replace(result, runs=[]))
    assert set(all_experiments()[name].studies) <= STUDIES.keys()
    assert all(f"Study {study}: " in page for study in all_experiments()[name].studies)


def test_explanations_are_collapsed() -> None:
    page = render([Labelled("a", a_result())])
    folded = re.findall(r"<summary>([^<]*)</summary>", page)
    assert folded == ["What the columns mean", "Method and settings", "Raw data"]
    bars = re.findall(r'class="bar" style="--part: ([\d.]+)">([\d,]+)<', page)
    assert bars[:2] == [("100.0", "1,000"), ("25.0", "250")]


WITHOUT_BARS = {"noise", "quality"}  # tables with several units, ratios, or words


@pytest.mark.parametrize("name", recorded_names())
def test_the_main_columns_of_each_table_have_bars(name: str) -> None:
    result = recorded(name)
    for section in report_of(result).sections(result):
        lengths = [length for row in cell_bars(section) for length in row if length is not None]
        free = section.name in WITHOUT_BARS or section.name.startswith("published")
        assert max(lengths, default=0) == 100 or (free and not lengths), section.name
        assert all(0 <= length <= 100 for length in lengths)


def test_bars_are_scaled_by_column_by_row_or_over_several_results() -> None:
    columns = [Column("a", ""), Column("b", "", bar=True), Column("c", "", bar=True), Column("d", "")]
    section = Section("s", "S", columns, [["x", 1.0, 8.0, 9.0], ["y", 4.0, None, 9.0], ["z", -1.0, 4.0, 9.0]])
    assert [row[1:3] for row in cell_bars(section)] == [[25.0, 100.0], [100.0, None], [0.0, 50.0]]
    assert [row[1:3] for row in cell_bars(replace(section, across=True))] == [[12.5, 100], [100, None], [0, 100]]
    (both,) = side_by_side([("one", [section]), ("two", [replace(section, rows=[["x", 2.0, 2.0, 9.0]])])])
    assert cell_bars(both, both=True)[0][1:5] == [25.0, 50.0, 100.0, 25.0]


@pytest.mark.parametrize("name", recorded_names())
def test_no_table_has_a_column_without_a_value(name: str) -> None:
    for section in report_of(recorded(name)).sections(recorded(name)):
        shown = section.of_columns(lambda column: column.page).shown()
        assert all(any(cells) for cells in zip(*shown, strict=True)), section.name


def test_the_table_of_the_verdict_comes_first_with_one_picture() -> None:
    result = recorded("insert")
    page = render([Labelled("a", result)])
    titles = re.findall(r'<h3 id="[^"]*">([^<]*)</h3>', page)
    assert titles[:2] == ["Inserting into a table of 12,000 rows", "Inserting into a table of 4,000 rows"]
    top = page[page.index('<div class="top">') : page.index("</table>")]
    assert top.count("<figure>") == 1 and "<figure>" in page[page.index("</table>") :]
    assert page.count("Are random keys expensive?") == 1 and 'class="one"' in page
    both = render([Labelled("a", result), Labelled("b", recorded("reader"))])
    assert both.count("Are random keys expensive?") == 1 and 'class="many"' in both


@pytest.mark.server
def test_the_next_commands_follow_from_the_answers(connection: Connection) -> None:
    """Each step is shown once, and its page exists. Steps that can be run are run."""
    verdicts = [verdict for name in ("insert", "reader") for verdict in verdicts_of(name)]
    steps = [*dict.fromkeys(step for verdict in verdicts for step in verdict.steps)]
    page = render([Labelled(f"{name}.json", recorded(name)) for name in ("reader", "insert")])
    texts = ["What now?", *(step.text for step in (*steps, YOURS))]
    assert {text: page.count(str(escape(text))) for text in texts} == dict.fromkeys(texts, 1) and len(texts) == 7
    assert page.index("CREATE TABLE events") < page.index("SELECT feed_create")
    for step in (*steps, YOURS):
        assert (ROOT / step.page).is_file()
        if step.text.startswith("inorder "):
            parsed(cli, step.text.split()[1:])
    created = next(step.text for step in steps if "uuid_xact_nextval" in step.text)
    of_readers = [
        step.text for verdict in verdicts_of("reader") for step in verdict.steps
    ]  # this step is shown even if no keys were measured
    assert created in of_readers
    for text in (step.text for step in steps if step.text.startswith(("SELECT", "ALTER"))):
        run(connection, "BEGIN", created, text, "ROLLBACK")
    assert "What now?" not in render([Labelled("none.json", recorded("noise"))])


def test_each_answer_appears_once_on_the_page() -> None:
    page = render([Labelled(f"{name}.json", recorded(name)) for name in ("reader", "insert")])
    answers = [verdict for name in ("reader", "insert") for verdict in verdicts_of(name)]
    assert [page.count(str(escape(verdict.figures))) for verdict in answers] == [1] * len(answers)


def test_a_machine_that_slowed_down_is_reported() -> None:
    """In a_result, the third round is four times as fast as the second."""
    message = "the fastest round was 4 times as fast as the slowest round"
    assert message in render([Labelled("a.json", a_result())])
    assert "the slowest round" not in render([Labelled("a.json", recorded("insert"))])


def test_bars_of_enough_rounds_have_their_intervals() -> None:
    """The longest interval ends at the edge. Bars for too few rounds, or for row counts, have no interval."""
    result = with_ordered(v7=(1, 1.01, 18_000))
    bars = [bar for verdict in report_of(result).verdicts(result) for bar in verdict.bars]
    page = render([Labelled("a", result)])
    assert bars and all(bar.interval for bar in bars) and page.count('<i style="--low: ') == len(bars)
    lines = re.findall(r"<i style=\"--low: (.*?)%; --part: (.*?)%", page)
    assert max(float(low) + float(width) for low, width in lines) == pytest.approx(100, abs=0.2)
    assert "lines show intervals of 95 % or more." in page
    few = cut(result, 3)
    assert any(verdict.bars for verdict in report_of(few).verdicts(few))
    for other in (few, recorded("reader")):
        assert "<i style" not in render([Labelled("a", other)]) and "lines show" not in render([Labelled("a", other)])


def test_a_short_name_is_explained_where_it_first_occurs() -> None:
    for wal in (18_000, 18_200):  # xact has less WAL than version 7 at first, and then more
        page = render([Labelled("a", with_ordered(v7=(1, 1.01, 18_100), xact=(1, 1.01, wal)))])
        assert page[page.index("xact", page.index("<main>")) :].startswith("xact (transaction-ordered)")
