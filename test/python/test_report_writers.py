"""The writers experiment without a server: its rounds and its report."""

from collections import Counter

import pytest
from inorder.commands.catalogue import Labelled
from inorder.errors import InputError
from inorder.lab.experiments.writers import ALONE, TOGETHER, WritersExperiment
from inorder.lab.experiments.writers.forms import (
    BASELINE,
    LOCK,
    LOCK_CACHED,
    LOCK_KEPT,
    OWN_TABLE,
    PARTITION_TRIGGER,
    XACT,
    WritersPlan,
)
from inorder.lab.plan.turn import Metrics
from inorder.lab.report.html import load_range, render
from inorder.lab.report.section import Section
from inorder.lab.results.result import LOAD, Result, Run

from on_paper import empty_result, on_paper, run_on_paper


def turn_metrics(speed: float, misplaced: float = 0) -> Metrics:
    return {
        "rows_per_second": speed, "tps": speed, "latency_ms": 1.5, "written": 200, "misplaced": misplaced,
        "wal_bytes": 80_000, "wal_records": 600, "full_page_images": 2,
    }  # fmt: skip


OnPaper = on_paper(WritersExperiment, measure=lambda *_words: turn_metrics(100.0))


def test_each_measurement_keeps_the_load_of_the_machine() -> None:
    result, _ = run_on_paper(OnPaper, WritersPlan(forms=(BASELINE,), rounds=1))
    assert result.runs and all(run.metrics[LOAD] >= 0 for run in result.runs)
    page = render([Labelled("a", result)])
    assert f"Load average of the machine: {load_range(result)}." in page


def a_result(clients: int = 16) -> Result:
    """Return a result of six rounds, each at a different speed.

    The lock halves the TPS, and forms that keep ids have misplaced rows.
    """
    result = empty_result(WritersExperiment, WritersPlan(clients=(clients,)))
    for number in range(1, 7):
        for form, speed, wrong in ((BASELINE, 1000.0, 7), (LOCK, 500.0, 0), (LOCK_KEPT, 500.0, 200)):
            metrics = turn_metrics(speed * number, wrong) | ({"lock_ms": 1.25} if form != BASELINE else {})
            result.runs.append(Run(TOGETHER, form, 1, number, metrics))
        result.runs.append(Run(ALONE, BASELINE, 1, number, turn_metrics(2000.0)))
    return result


def section(result: Result, name: str) -> Section:
    return next(candidate for candidate in WritersExperiment.sections(result) if candidate.name == name)


def test_what_was_not_measured_is_not_shown() -> None:
    result = a_result()
    names = [section.name for section in WritersExperiment.sections(result)]
    assert [name for name in names if "published" not in name] == [
        "writers_speed_1", "writers_latency_1", "writers_order_1"
    ]  # fmt: skip
    result.runs = [run for run in result.runs if (run.kind, run.round) != (BASELINE, 1)]
    lock = section(result, "writers_speed_1").rows[2]
    assert lock[4] is not None and getattr(lock[4], "rounds", 0) == 5
    result.runs = [run for run in result.runs if run.kind != BASELINE]
    assert [row[4] for row in section(result, "writers_speed_1").rows] == [None, None]
    assert WritersExperiment.sections(empty_result(WritersExperiment, WritersPlan())) == []


def test_each_number_of_sessions_is_compared_with_the_same_number() -> None:
    plan = WritersPlan(forms=(BASELINE, LOCK_CACHED), clients=(16, 2), rounds=1)
    result, bench = run_on_paper(OnPaper, plan)
    expected = Counter([(BASELINE, 1), *((form, clients) for form in plan.forms for clients in plan.clients)] * 2)
    assert Counter((form, clients) for form, clients, *_ in bench.asked) == expected
    assert [row[:2] for row in section(result, "writers_speed_1").shown()] == [
        ["one table", "1"], ["one table", "2"], ["lock + DISCARD, CACHE 1000", "2"], ["one table", "16"],
        ["lock + DISCARD, CACHE 1000", "16"],
    ]  # fmt: skip


def test_one_session_writes_into_several_numbers_of_tables() -> None:
    """A log that a trigger distributes over tables is measured with one session, for several numbers of tables."""
    plan = WritersPlan(forms=(BASELINE, PARTITION_TRIGGER), tables=(512, 2), rounds=1)
    result, bench = run_on_paper(OnPaper, plan)
    loads = Counter((form, clients, tables) for form, clients, _rows, _seed, tables in bench.asked)
    assert loads == {(BASELINE, 1, 0): 2, (PARTITION_TRIGGER, 1, 2): 2, (PARTITION_TRIGGER, 1, 512): 2}
    shown = section(result, "writers_speed_1")
    assert [column.name for column in shown.columns][:3] == ["form", "sessions", "tables"]
    assert [row[:3] for row in shown.shown()] == [
        ["one table", "1", ""], ["partition, trigger", "1", "2"], ["partition, trigger", "1", "512"]
    ]  # fmt: skip
    assert WritersExperiment.verdicts(result) == []


def test_the_option_tables_needs_a_form_with_several_tables() -> None:
    with pytest.raises(InputError, match="--tables requires one of these forms: own_table, partition_application"):
        WritersExperiment.completed(WritersPlan(forms=(BASELINE, LOCK), tables=(2,)), own=False)
    plan = WritersPlan(forms=(BASELINE, OWN_TABLE), tables=(2,))
    assert WritersExperiment.completed(plan, own=False).plan == plan


def test_the_verdict_names_the_fastest_form_with_and_without_order() -> None:
    result = a_result()
    assert WritersExperiment.verdicts(empty_result(WritersExperiment, WritersPlan())) == []
    (verdict,) = WritersExperiment.verdicts(result)
    assert (verdict.answer, verdict.figures) == (
        "Yes", 'With one row a statement, the fastest form that keeps the order is "lock + DISCARD": the speed is 50 % '
        "[50–50 %] of that of one table."
    )  # fmt: skip
    for number in range(1, 7):
        for form, speed, wrong in ((OWN_TABLE, 900.0, 0), (XACT, 980.0, 0), (LOCK_KEPT, 2000.0, 1)):
            result.runs.append(Run(TOGETHER, form, 1, number, turn_metrics(speed * number, wrong)))
    (verdict,) = WritersExperiment.verdicts(result)
    assert '"table per writer": the speed is 90 % [90–90 %] of that of one table.' in verdict.figures
    assert verdict.figures.endswith("which needs no order, the speed is 98 % [98–98 %] of that of one table.")
    for run in result.select(TOGETHER, OWN_TABLE):
        run.metrics["misplaced"] = 1
    assert '"lock + DISCARD": the speed is 50 %' in WritersExperiment.verdicts(result)[0].figures
