"""The model: its formulas against a simulation, its command, and its predictions against a server's counters."""

import bisect
import random
from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.installations import Installation
from inorder.lab.analysis.model import (
    Conditions,
    distinct,
    few_images,
    leaf_capacity,
    leaf_fill,
    predict,
    record_bytes,
    shape_of,
)
from inorder.lab.experiments.insert import InsertExperiment
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.insert.report import model_sections
from inorder.lab.plan.keys import USUAL as KINDS
from inorder.lab.plan.keys import USUAL_KINDS
from inorder.lab.plan.turn import Progress
from inorder.lab.report.section import Section
from inorder.lab.report.side_by_side import side_by_side
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

USUAL = Conditions(rows=1e8, rate=10_000, memory_bytes=2**30, checkpoint=300)
IN_ORDER = ("bigint", "xact", "v7")
TOLERANCE = 15  # maximum difference in percent


def simulated_fill(inserts: int, block: int, capacity: int) -> float:
    """Return the leaf density of a simulated B-tree after this number of inserts, as a fraction.

    ``block`` is the number of inserts per block of keys (0: random keys). The rightmost page is split at 90 %, and all
    other pages in the middle.
    """
    generator = random.Random(1)
    lows, pages = [-1.0], [list[float]()]
    for number in range(inserts):
        key = (number // block if block else 0) + generator.random()
        place = bisect.bisect_right(lows, key) - 1
        page = pages[place]
        bisect.insort(page, key)
        if len(page) > capacity:
            at = round(capacity * 0.9) if block and place == len(pages) - 1 else len(page) // 2
            pages.insert(place + 1, page[at:])
            lows.insert(place + 1, page[at])
            del page[at:]
    return inserts / len(pages) / capacity


@pytest.mark.parametrize("block", [1, 64, 256, 1024, 8192, 0])
def test_the_predicted_fill_of_leaf_pages_agrees_with_a_simulation(block: int) -> None:
    capacity = leaf_capacity("sequence")
    expected = leaf_fill("sequence", block) if block else leaf_fill("random")
    assert simulated_fill(140_000, block, capacity) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(("pages", "inserts"), [(10, 5), (1000, 300), (1000, 3000)])
def test_the_predicted_number_of_distinct_pages_agrees_with_a_simulation(pages: int, inserts: int) -> None:
    generator = random.Random(1)
    page_counts = [len({generator.randrange(pages) for _ in range(inserts)}) for _ in range(100)]
    assert sum(page_counts) / 100 == pytest.approx(distinct(pages, inserts), rel=0.03)


@given(st.floats(1, 1e12), st.floats(1, 1e12))
def test_there_are_at_most_as_many_distinct_pages_as_pages_and_inserts(pages: float, inserts: float) -> None:
    pages_hit = distinct(pages, inserts)
    assert 0 < pages_hit <= min(pages, inserts) * (1 + 1e-9)
    if pages > 1e6:
        assert pages_hit == pytest.approx(pages * (1 - exp(-inserts / pages)), rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "without_splits"), [("bigint", 63 + 64 + 34 + 3), ("v7", 71 + 72 + 34), ("sequence", 71 + 72 + 34 + 3)]
)
def test_records_are_as_long_as_the_server_writes_them(kind: str, without_splits: int) -> None:
    shape = shape_of(kind, USUAL)
    full = replace(shape, fill=1e9)  # with this fill, pages never split
    assert record_bytes(full) == pytest.approx(without_splits, abs=0.01)
    assert record_bytes(shape) > without_splits


def test_random_keys_touch_all_pages_of_a_small_table_and_another_page_for_each_row_of_a_large_one() -> None:
    small, large = (predict("random", replace(USUAL, rows=rows)) for rows in (1e5, 1e13))
    assert small.leaf_pages_touched == pytest.approx(1e5 / (290 * 0.693), rel=0.01)
    assert small.images_per_row < 0.001 and large.images_per_row == pytest.approx(1, abs=0.01)
    assert large.wal_per_row > 5000 and large.misses_per_row > 0.99
    for kind in IN_ORDER:
        assert predict(kind, replace(USUAL, rows=1e13)).images < 10


@pytest.mark.parametrize(("position", "pages"), [(0, 1), (20_000, 99), (60_000, 298)])
def test_a_block_touches_only_its_own_pages(position: int, pages: int) -> None:
    for rows in (1e6, 1e9):
        predicted = predict("sequence", replace(USUAL, rows=rows, position=position, checkpoint=10))
        assert predicted.leaf_pages_touched == pytest.approx(pages, rel=0.05)


def test_an_unknown_position_within_a_block_is_averaged() -> None:
    predicted = predict("sequence", USUAL)
    assert predicted.leaf_pages_touched == pytest.approx(65536 / 2 / (290 * 0.693), rel=0.02)


def test_a_prefix_that_begins_again_touches_its_old_pages() -> None:
    once = predict("sequence", replace(USUAL, rows=1e7, block_size=256))
    predicted = predict("sequence", replace(USUAL, rows=1e9, block_size=256))
    assert once.images < 10 and once.misses_per_row == 0
    # After 59 passes, a block has 15,104 rows in 75 pages. The next pass inserts 256 rows, and touches nearly all of
    # these pages.
    assert predicted.images_per_row == pytest.approx(73 / 256, rel=0.02) and predicted.misses_per_row > 0.25


@given(
    st.sampled_from(USUAL_KINDS), st.integers(1, 10**15), st.integers(1, 10**9),
    st.integers(20, 50), st.floats(1, 86_400), st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1),
)  # fmt: skip
def test_every_prediction_is_possible(
    kind: str, rows: int, rate: int, memory: int, checkpoint: float, block: int, count: int
) -> None:
    conditions = Conditions(rows, rate, 2**memory, checkpoint, block, count, block, count)
    prediction = predict(kind, conditions)
    assert 1 - 1e-9 <= prediction.leaf_pages_touched <= prediction.index_bytes / 8192
    assert 0 < prediction.images < 4 * conditions.inserts + 12
    assert 100 < prediction.record_bytes_per_row < 4000 and prediction.image_bytes_per_row > 0
    assert 0 <= prediction.misses_per_row < 12
    assert 69 < prediction.leaf_density <= 90


def a_result(images: float, rows_before: float | None = 1_000_000) -> Result:
    metrics = {"tps": 50_000.0, "inserts": 100_000.0, "wal_bytes": 25e6}
    if rows_before is not None:
        metrics["rows_before"] = rows_before
    runs = [
        Run("insert", "random", 1_000_000, 1, metrics | {"full_page_images": images}),
        Run("insert", "bigint", 1_000_000, 1, metrics | {"full_page_images": 7.0}),
    ]
    plan = {"rows": [1_000_000, 4_000_000], "kinds": ["bigint", "random", "v7"], "memory_bytes": 2**27}
    return Result("insert", "now", "0", 1, plan, {}, {}, "mock", runs=runs)


def compared(result: Result) -> list[Section]:
    return model_sections(result, InsertExperiment.plan_in(result))


def test_the_model_is_compared_with_the_measurement() -> None:
    (section,) = compared(a_result(images=10_000.0))
    assert section.title == "Model against measurement, 1,000,000 rows"
    bigint, random_keys = section.of_columns(lambda column: column.terminal).shown()
    assert bigint[0] == "bigint" and bigint[-1] == "few" and str(few_images((8,))) in section.caption
    assert random_keys[0] == "random" and random_keys[1] == "250.0 B" and random_keys[4] == "0.10000"
    assert float(random_keys[-1].split()[0]) == pytest.approx(-50, abs=1)
    assert max(sum(map(len, row)) + len(row) for row in (bigint, random_keys)) <= 80
    record = section.records()[1]
    assert record["rows"] == 1_000_000 and record["wal_per_row"] == 250 and record["wal_per_row_model"] != 250


def test_each_size_has_its_own_table_in_the_report() -> None:
    result = a_result(images=10_000.0)
    result.runs += [replace(run, rows=4_000_000) for run in result.runs]
    small, large = compared(result)
    assert (small.name, large.name) == ("model_1000000", "model_4000000")
    assert side_by_side([("a", (small, large))]) == []


def test_a_result_without_the_initial_number_of_rows_is_not_compared() -> None:
    assert compared(a_result(images=1.0, rows_before=None)) == []


def test_a_measurement_during_a_checkpoint_is_not_compared() -> None:
    """The server counted a checkpoint, although the amount of WAL is too small for one."""
    result = a_result(images=1.0)
    assert compared(result)
    for run in result.runs:
        run.metrics["checkpoints_requested"] = 1.0
    assert compared(result) == []


@pytest.mark.server
def test_the_model_predicts_what_the_server_counts(server: Installation) -> None:
    plan = InsertPlan(rows=(230_000,), rounds=1, inserts=20_000)
    result = Result("insert", "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")
    with Cluster(server) as cluster:
        experiment = InsertExperiment(plan, ThrowAway(cluster), Progress())
        assert len(list(experiment.tables.fill(plan.rows[0]))) == len(plan.kinds)
        experiment.tables.serve_for_measuring()
        for number, kind in enumerate((*plan.kinds, "time", "time")):  # each run of "time" waits for the next second
            metrics = experiment.measurement(kind, 8)(1).metrics
            result.runs.append(Run("insert", kind, plan.rows[0], number, metrics))
    (section,) = compared(result)
    by_label = {str(row[0]): row for row in section.rows}
    assert list(by_label) == [kind.label for kind in KINDS]
    for label, row in by_label.items():
        wal, images = row[4], row[7]
        assert isinstance(wal, float) and abs(wal) < TOLERANCE, section.shown()
        assert images == "few" or (isinstance(images, float) and abs(images) < TOLERANCE), section.shown()
        assert (images == "few") == (label not in ("sequence-prefixed", "random")), section.shown()
