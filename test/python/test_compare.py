"""Two results compared: what can be, what is a regression, and the exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inorder.commands.compare import compare_records, compare_section
from inorder.errors import InputError
from inorder.lab.analysis.compare import (
    BETTER,
    FEW,
    SAME,
    TOO_FEW_IMAGES,
    WITHIN,
    WORSE,
    Comparison,
    outer_pairs,
    surroundings,
)
from inorder.lab.analysis.compare import compare as compare_by
from inorder.lab.analysis.compare import not_compared as not_compared_by
from inorder.lab.experiments import all_experiments, experiment_named
from inorder.lab.journal import save
from inorder.lab.report.catalogue import report_of
from inorder.lab.report.formats import as_json
from inorder.lab.report.section import Figure
from inorder.lab.results import Result, Run

from replay import recorded, recorded_names
from tool import inorder


def compare(a: Result, b: Result, threshold: float) -> list[Comparison]:
    return compare_by(a, b, threshold, experiment_named(a.experiment).compared_by())


def not_compared(a: Result, b: Result) -> list[str]:
    return not_compared_by(a, b, experiment_named(a.experiment).compared_by())


def result_of(factor: float = 1.0, rounds: int = 6, seed: int = 1, **plan: object) -> Result:
    generator = np.random.default_rng(seed)
    settings = {"kinds": ["bigint", "random"], "rows": [1000], "rounds": rounds, "seconds": 1, "seed": seed} | plan
    runs = [
        Run("insert", kind, 1000, number, {
            "tps": float(100 * generator.lognormal(0, 0.01) * (factor if kind == "random" else 1)),
            "wal_bytes": 10_000.0, "inserts": 100.0,
        })
        for kind in ("bigint", "random") for number in range(1, rounds + 1)
    ]  # fmt: skip
    return Result("insert", "now", "0", 1, settings, {"version": "18.6"}, {"cores": 2}, "mock", [], runs, True)


@pytest.mark.parametrize(
    ("factor", "rounds", "verdict"),
    [(0.7, 6, WORSE), (1.5, 6, BETTER), (1.0, 6, SAME), (0.95, 6, WITHIN), (0.1, 5, FEW)],
)
def test_what_the_interval_supports(factor: float, rounds: int, verdict: str) -> None:
    compared = compare(result_of(rounds=rounds), result_of(factor, rounds, 2), 0.1)
    found = {(one.kind, one.metric): one for one in compared}
    assert found["random", "tps"].verdict == verdict
    assert found["random", "tps"].ratio.median == pytest.approx(factor, rel=0.02)
    assert found["random", "wal_bytes"].a == 100.0
    assert found["bigint", "wal_bytes"].verdict == (FEW if rounds < 6 else SAME)


def test_more_wal_is_worse() -> None:
    other = result_of(seed=2)
    for run in other.runs:
        run.metrics.update({"wal_bytes": 30_000.0, "inserts": 200.0})
    verdicts = {one.verdict for one in compare(result_of(), other, 0.1) if one.metric == "wal_bytes"}
    assert verdicts == {WORSE}
    assert {one.verdict for one in compare(result_of(), other, 0.6) if one.metric == "wal_bytes"} == {WITHIN}


def test_what_cannot_be_compared_says_why() -> None:
    other = result_of()
    other.experiment = "reader"
    with pytest.raises(InputError, match="A is of the experiment 'insert', B of 'reader'"):
        compare(result_of(), other, 0.1)
    with pytest.raises(InputError, match="seconds is 1 in A and 2 in B"):
        compare(result_of(), result_of(seconds=2), 0.1)
    with pytest.raises(InputError, match="rows is 1000 in A and 2000 in B"):
        compare(result_of(), result_of(rows=[2000]), 0.1)
    empty = result_of()
    empty.runs = []
    with pytest.raises(InputError, match="nothing in common"):
        compare(result_of(), empty, 0.1)
    assert compare(result_of(), result_of(rounds=9, seed=3, rows=[1000, 5000]), 0.1)


def test_clients_are_compared_by_their_number() -> None:
    a, b = result_of(clients=[8, 1], threads=4), result_of(0.5, clients=[1, 8], threads=8)
    b.runs = [replace(run, step="insert@8") for run in b.runs]
    assert {one.step for one in compare(a, b, 0.1)} == {"insert@8"}
    with pytest.raises(InputError, match="nothing in common"):
        compare(a, result_of(clients=[1, 8]), 0.1)


def test_what_differs_around_it_is_reported() -> None:
    other = result_of()
    other.server, other.complete = {"version": "15.1"}, False
    assert surroundings(result_of(), other) == ["server: 18.6 in A, 15.1 in B", "B was interrupted"]


def runs_of(experiment: str, metrics: dict[str, float], rounds: int = 6, step: str = "s", rows: int = 600) -> Result:
    runs = [Run(step, "k", rows, number, dict(metrics)) for number in range(1, rounds + 1)]
    return Result(experiment, "now", "0", 1, {}, {}, {}, "mock", [], runs, True)


@pytest.mark.parametrize(
    ("experiment", "metrics", "worse", "metric", "values"),
    [
        ("bulk", {"seconds": 1.0, "wal_bytes": 100.0}, {"wal_bytes": 200.0}, "wal_bytes", (100, 200)),
        ("uuid-v1", {"wal_bytes": 100.0, "full_page_images": 50.0}, {"full_page_images": 90.0},
         "full_page_images", (50, 90)),
        ("writers", {"rows_per_second": 600.0, "tps": 1.0, "written": 10.0, "wal_bytes": 100.0},
         {"wal_bytes": 200.0}, "wal_bytes", (10, 20)),
        ("writers", {"rows_per_second": 600.0, "tps": 1.0}, {"rows_per_second": 300.0, "tps": 0.5},
         "rows_per_second", (600, 300)),
        ("writers", {"lock_ms": 1.0}, {"lock_ms": 2.0}, "lock_ms", (1, 2)),
        ("sequence", {"tps": 1.0, "transactions": 50.0, "wal_bytes": 100.0}, {"wal_bytes": 200.0},
         "wal_bytes", (2, 4)),
        ("sequence", {"cpu_us": 1.0}, {"cpu_us": 2.0}, "cpu_us", (1, 2)),
        ("reader", {"committed": 100.0, "lost": 10.0, "seconds": 5.0}, {"lost": 20.0}, "lost", (0.1, 0.2)),
        ("insert", {"inserts": 10.0, "index_reads": 0.0}, {"index_reads": 50.0}, "index_reads", (0, 5)),
    ],
)  # fmt: skip
def test_every_experiment_is_compared(
    experiment: str, metrics: dict[str, float], worse: dict[str, float], metric: str, values: tuple[float, float]
) -> None:
    a, b = runs_of(experiment, metrics), runs_of(experiment, metrics | worse)
    found = {one.metric: one for one in compare(a, b, 0.1)}
    assert (found[metric].a, found[metric].b) == pytest.approx(values)
    assert [one.metric for one in found.values() if one.verdict == WORSE] == [metric]
    assert not ({"tps"} & set(found) and "rows_per_second" in found)  # of which one follows from the other
    assert experiment != "reader" or "seconds" not in found  # the length of the load


# A figure of each, and what makes it worse; most of them no list of metrics had.
FORGOTTEN = {
    "like": ("hot", "hot", 0.1), "lookup": ("blocks", "hits", 10.0), "nodes": ("late", "late", 10.0),
    "waves": ("peak_splits", "peak_splits", 10.0), "uuid_v1": ("blocks_per_row", "blocks_per_row", 10.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGOTTEN)
def test_no_figure_is_forgotten(name: str) -> None:
    result, (figure, metric, factor) = recorded(name), FORGOTTEN[name]
    runs = [replace(run, round=number) for run in result.runs for number in range(1, 7)]  # each as often as it takes
    worse = [replace(run, metrics=run.metrics | {metric: factor * run.metrics.get(metric, 0.0)}) for run in runs]
    found = compare(replace(result, runs=runs), replace(result, runs=worse), 0.1)
    assert {one.metric for one in found if one.verdict != SAME and one.ratio.median != 1} == {figure}
    assert WORSE in {one.verdict for one in found if one.metric == figure}


@pytest.mark.parametrize("name", recorded_names())
def test_the_figures_of_the_tables_are_those_that_are_compared(name: str) -> None:
    result = recorded(name)
    known = {one.place for one in experiment_named(result.experiment).compared_by() if one.better}
    columns = [one for section in report_of(result).sections(result) for one in section.columns]
    shown = {one.judged.place for one in columns if isinstance(one, Figure) and one.judged and one.better}
    assert known and shown <= known and compare(result, result, 0.1)


def test_every_experiment_has_figures() -> None:
    assert [name for name, kind in all_experiments().items() if not any(one.better for one in kind.compared_by())] == []


@pytest.mark.parametrize(("before", "after", "verdict"), [(0, 1, WORSE), (3, 0, BETTER), (0, 0, FEW), (3, 9, FEW)])
def test_a_lost_row_is_no_noise(before: int, after: int, verdict: str) -> None:
    a, b = (runs_of("reader", {"committed": 100.0, "lost": float(lost)}, 1) for lost in (before, after))
    (found,) = compare(a, b, 0.1)
    assert (found.metric, found.verdict) == ("lost", verdict)
    assert json.loads(as_json(compare_records([found])))[0]["ratio"] == (None if before == 0 < after else
                                                                         found.ratio.median)  # fmt: skip


def test_a_handful_is_no_regression() -> None:
    few, handful, more = (
        runs_of("insert", {"inserts": 1000.0, "full_page_images": images}) for images in (4.0, 9.0, 25.0)
    )
    assert [one.verdict for one in compare(few, handful, 0.1)] == [TOO_FEW_IMAGES]
    assert [one.verdict for one in compare(few, more, 0.1)] == [WORSE]


def test_what_is_not_compared_is_named() -> None:
    result = runs_of("reuse", {"inserts": 9.0, "wal_bytes": 9.0, "wal_records": 3.0, "pages_freed": 2.0})
    assert not_compared(result, result) == ["pages_freed"]
    section = compare_section(compare(result, result, 0.1), 0.1, [], not_compared(result, result))
    assert "Not compared: pages_freed." in section.caption and section.shown()[0][1] == "WAL/row"


def test_critical_values() -> None:
    table = {(6, 6): 5, (7, 7): 8, (8, 8): 13, (10, 10): 23, (6, 9): 10, (9, 6): 10, (20, 20): 127}
    assert {sizes: outer_pairs(*sizes) for sizes in table} == table


def test_exit_codes(tmp_path: Path) -> None:
    for name, result in {"a": result_of(), "worse": result_of(0.7, seed=2), "few": result_of(0.1, 3)}.items():
        save(result, tmp_path / f"{name}.json")

    def run(*arguments: str) -> tuple[int, str, str]:
        done = inorder("lab", "compare", *arguments, folder=tmp_path)
        return done.returncode, done.stdout, done.stderr

    assert run("a.json", "a.json")[0] == 0
    status, out, _ = run("a.json", "worse.json")
    assert status == 3 and "B against A: 1 of 4 worse" in out
    assert run("worse.json", "a.json")[0] == 0
    assert run("a.json", "worse.json", "--threshold", "50%")[0] == 0
    status, out, _ = run("a.json", "few.json")
    assert status == 0 and "too few samples" in out and "fewer than 6" in " ".join(out.split()).lower()
    status, out, _ = run("a.json", "worse.json", "--format", "json")
    assert status == 3 and [one["verdict"] for one in json.loads(out)].count("worse") == 1
    assert "| random |" not in out and "|---|" in run("a.json", "worse.json", "--format", "markdown")[1]
    status, _, err = run("a.json", "none.json")
    assert status == 2 and "cannot read" in err and "Traceback" not in err
    assert run("a.json", "a.json", "--threshold", "10")[0] == 2
