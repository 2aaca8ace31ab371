"""The bulk experiment: the order of its steps, its comparison with study P1, and its steps on a server."""

from functools import partial
from typing import Any

import pytest
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.experiments.bulk import (
    ADD_KEY,
    BUILDS,
    COPY_OUT,
    KINDS,
    LEAVE_KEY,
    NO_INDEX,
    PLAIN,
    STEPS,
    BulkExperiment,
    BulkPlan,
    check,
    steps_of,
)
from inorder.lab.plan.turn import Metrics, Progress
from inorder.lab.report.section import Section
from inorder.lab.results.result import Result
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import on_paper, run_on_paper
from world.sql import value

SMALL = BulkPlan(kinds=("series", "random_char", "time_char"), rows=(1000, 2000), rounds=2)
FACTORS = {"series": 1.0, "random_char": 4.0, "time_char": 2.0}


def measured(density: bool, kind: str, step: str, rows: int) -> Metrics:
    seconds = FACTORS.get(kind, 1.0) * (1.5 if step == PLAIN else 1.0)
    metrics = {
        "seconds": seconds, "cpu_seconds": seconds, "wal_bytes": 100.0 * rows, "full_page_images": rows / 100,
        "table_bytes": 1e6, "total_bytes": 2e6 * FACTORS.get(kind, 1.0),
    }  # fmt: skip
    if step in LEAVE_KEY:
        metrics |= {"index_bytes": 1e6} | ({"leaf_density": 90.0} if density else {})
    return metrics | ({"file_bytes": 5e5} if step == COPY_OUT else {})


OnPaper, WithoutDensity = (
    on_paper(BulkExperiment, measure=partial(measured, density), clear=lambda _kind: None) for density in (True, False)
)


def lives_of(bench: Any) -> list[list[tuple[object, ...]]]:
    lives: list[list[tuple[object, ...]]] = [[]]
    for call in bench.asked:
        lives[-1].append(call)
        if len(call) == 1:  # a call of clear()
            lives.append([])
    return lives[:-1]


def test_every_kind_goes_through_all_steps() -> None:
    result, bench = run_on_paper(OnPaper, SMALL)
    lives = lives_of(bench)
    assert len(lives) == 2 * 2 * 3 and result.complete
    for life in lives:
        assert len({(kind, rows) for kind, _, rows in life[:-1]}) == 1
        steps = [str(step) for _, step, _ in life[:-1]]
        assert sorted(steps) == sorted(STEPS) and set(steps[3:6]) == set(BUILDS)
        assert steps[:3] + steps[6:] == [step for step in STEPS if step not in BUILDS]
    assert [life[0][2] for life in lives] == 6 * [1000] + 6 * [2000]
    orders = [tuple(life[0][0] for life in lives[start : start + 3]) for start in range(0, 12, 3)]
    assert all(set(order) == set(SMALL.kinds) for order in orders) and len(set(orders)) > 1
    assert len({tuple(step for _, step, _ in life[3:6]) for life in lives}) > 1


def section(result: Result, name: str) -> Section:
    return next(candidate for candidate in BulkExperiment.sections(result) if candidate.name == name)


def test_what_the_server_cannot_report_is_left_out_and_named() -> None:
    result, _ = run_on_paper(WithoutDensity, SMALL)
    assert all(row[5] == "" for row in section(result, "bulk-sizes-1000").shown())
    assert "no pgstattuple" in section(result, "bulk-sizes-1000").caption
    assert section(run_on_paper(OnPaper, SMALL)[0], "bulk-sizes-1000").caption == ""


@pytest.mark.server
def test_each_step_writes_the_expected_amount(server: Installation) -> None:
    """WAL, sizes and files are within certain limits. A wrong number of rows is an error."""
    # With 7,000 random keys few leaves are full. With 5,000, some indexes are as dense as those built by CREATE INDEX.
    rows = 7000
    plan = BulkPlan(kinds=("random_char",), rows=(rows,), shared_buffers=2**24)
    with Cluster(server) as cluster:
        bench = BulkExperiment(plan, ThrowAway(cluster), Progress())
        bench.prepare()
        steps = steps_of(1, rows, "random_char", 1)
        by_step = {step: bench.measure("random_char", step, rows) for step in steps}
        table = KINDS["random_char"].table
        assert value(bench.control, f"SELECT count(DISTINCT id) FROM {table}") == rows
        assert value(bench.control, f"SELECT every(length(id) = 32) FROM {table}") is True
        with pytest.raises(InorderError, match=r"COPY TO a file: 1 rows instead of 7,000"):
            check(COPY_OUT, 1, rows)
        bench.clear("random_char")
        assert not bench.file.exists()
        assert bench.measure("series", NO_INDEX, rows)["wal_records"] < 1.1 * rows
        assert value(bench.control, f"SELECT sum(id) FROM {KINDS['series'].table}") == rows * (rows + 1) // 2
        bench.close()
    assert by_step["copy_out"]["file_bytes"] == 33 * rows
    assert by_step["with_key"]["wal_records"] >= 2 * rows  # a record for the table and one for the index
    assert rows <= by_step["no_index"]["wal_records"] < 1.1 * rows
    for step in LEAVE_KEY:
        assert by_step[step]["index_bytes"] > 33 * rows
        assert by_step[step]["total_bytes"] >= by_step[step]["index_bytes"] + by_step[step]["table_bytes"]
    for step in (ADD_KEY, *BUILDS):  # CREATE INDEX logs whole pages
        assert by_step[step]["full_page_images"] >= 33 * rows / 8192
    assert all("index_bytes" not in by_step[step] for step in (*BUILDS, NO_INDEX))
    if "leaf_density" in by_step["add_key"]:
        assert by_step["add_key"]["leaf_density"] > 85 > by_step["with_key"]["leaf_density"]
