"""The waves experiment: its model against a simulation, its counts against the WAL, and a run on a server."""

import bisect
import math
import random
import subprocess
from dataclasses import replace
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.installations import Installation
from inorder.lab.analysis.fringe import built_entries, density, leaf_pages
from inorder.lab.analysis.model import leaf_capacity
from inorder.lab.experiments.waves import (
    FILLFACTORS,
    GROWN,
    ORDERED,
    WAVES,
    WavesExperiment,
    WavesPlan,
    index_statement,
    insert,
    key_of,
    misplaced,
    predicted,
    splits_of,
)
from inorder.lab.instruments.counters import read_index_pages, read_sizes
from inorder.lab.plan.turn import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

from replay import recorded
from tool import LabRun

CAPACITY = leaf_capacity("random")


def simulated_pages(start: int, rows: int, sizes: tuple[int, ...]) -> list[int]:
    generator = random.Random(1)
    keys = sorted(generator.random() for _ in range(rows))
    pages = [keys[place : place + start] for place in range(0, rows, start)]
    lows, counts = [-1.0, *(page[0] for page in pages[1:])], []
    for size in sizes:
        while rows < size:
            key, rows = generator.random(), rows + 1
            place = bisect.bisect_right(lows, key) - 1
            page = pages[place]
            bisect.insort(page, key)
            if len(page) > CAPACITY:
                half = len(page) // 2
                pages.insert(place + 1, page[half:])
                lows.insert(place + 1, page[half])
                del page[half:]
        counts.append(len(pages))
    return counts


@pytest.mark.parametrize("fillfactor", [70, 90, 100])
def test_the_model_agrees_with_a_simulated_btree(fillfactor: int) -> None:
    start = built_entries(fillfactor)
    rows = 400 * start
    sizes = tuple(rows * percent // 100 for percent in range(105, 300, 5))
    pages = simulated_pages(start, rows, sizes)
    assert leaf_pages(start, rows, sizes) == pytest.approx(pages, rel=0.02)


@given(st.integers(146, CAPACITY), st.integers(1, 20))
def test_waves_end_at_the_density_of_random_keys(start: int, growth: int) -> None:
    sizes = (1000 * start, 1000 * start * growth, 1000 * start * 1000)
    pages = leaf_pages(start, 1000 * start, sizes)
    assert pages[0] == pytest.approx(1000) and list(pages) == sorted(pages)
    assert sizes[1] / pages[1] <= CAPACITY * (1 + 1e-6)
    assert sizes[2] / pages[2] / CAPACITY == pytest.approx(0.693, rel=0.15)


@pytest.mark.server
def test_the_number_of_added_pages_equals_the_splits_in_the_wal(server: Installation) -> None:
    with Cluster(server) as cluster:
        experiment = WavesExperiment(WavesPlan(rows=20_000), ThrowAway(cluster), Progress())
        experiment.prepare()
        for kind in (GROWN, *FILLFACTORS):
            key = key_of(kind)
            with experiment.target.connect() as session:
                for statement in (*key.table_statements(), *([index_statement(kind)] if kind == GROWN else [])):
                    session.execute(statement.encode())
                insert(session, key, 20_000)
                if kind != GROWN:
                    session.execute(index_statement(kind).encode())
                    entries = 20_000 / read_index_pages(session, key)["leaf_pages"]
                    assert entries == pytest.approx(built_entries(FILLFACTORS[kind]), rel=0.02)
                    assert read_index_pages(session, key)["leaf_density"] == pytest.approx(density(entries), abs=0.5)
                start, before = experiment.target.wal_place(session), read_sizes(session, key)["index_bytes"]
                insert(session, key, 10_000)
                added = (read_sizes(session, key)["index_bytes"] - before) / 8192
                end = experiment.target.wal_place(session)
            folder, program = str(cluster.data / "pg_wal"), str(server.program("pg_waldump"))
            command = [program, "-p", folder, "-s", start, "-e", end, "-r", "Btree"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            assert added == done.stdout.count("desc: SPLIT_") + done.stdout.count("desc: NEWROOT ") > 10, kind


@pytest.mark.server
def test_a_small_run_completes(lab_run: LabRun) -> None:
    result, _ = lab_run(f"{WAVES} --indexes built90,grown,v7 --rows 40k --growth 60")
    plan = WavesPlan(rows=40_000, growth=60)
    runs = {run.kind: run for run in result.runs}
    assert set(runs) == {"built90", GROWN, ORDERED}
    for kind, run in runs.items():
        model = predicted(kind, plan)
        assert run.series["pages"][-1] == pytest.approx(model["pages"][-1], rel=0.05 if kind != GROWN else 0.15)
        assert sum(run.series["wal_bytes"]) == pytest.approx(sum(model["wal_bytes"]), rel=0.05)
        if kind != GROWN:
            # The number of pages that one step of a wave splits is random. With n pages, its standard deviation is
            # sqrt(n) / 4 (2 % of 156 pages in ten runs). Over all steps the deviations cancel out. Because there are
            # many steps, the limit is 7 standard deviations, which one run in 10^9 exceeds.
            chance = 1.75 / math.sqrt(run.series["pages"][0])
            assert run.series["leaf_density"] == pytest.approx(model["leaf_density"], rel=chance)
            assert mean(run.series["leaf_density"]) == pytest.approx(mean(model["leaf_density"]), rel=0.02)
    built = runs["built90"]
    assert (
        misplaced(*(splits_of(series["pages"], plan.batch) for series in (built.series, predicted("built90", plan))))
        < 25
    )
    assert built.metrics["peak_splits"] > 8 * built.metrics["mean_splits"] and 8 <= built.metrics["peak_at"] <= 16
    assert built.metrics["peak_wal"] > 1.5 * built.metrics["mean_wal"]
    for kind in (GROWN, ORDERED):  # in 60 simulated B-trees, the maximum was 5.7 times the mean
        assert runs[kind].metrics["peak_splits"] < 8 * runs[kind].metrics["mean_splits"]


def test_a_verdict_names_the_wave_that_is_higher_than_the_mean() -> None:
    result = recorded(WAVES)
    for kind, answer in ((GROWN, ""), ("built90", "Yes")):
        partial = replace(result, runs=result.select(WAVES, kind))
        assert WavesExperiment.verdicts(partial)[0].answer == answer
    for run in partial.runs:
        run.metrics["peak_splits"] = run.metrics["mean_splits"]
    assert WavesExperiment.verdicts(partial)[0].answer == "No"
