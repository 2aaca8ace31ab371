"""The reader experiment: the definition of a lost row, the order of its steps, its table, and a small run."""

import threading
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inorder.commands.catalogue import report_of
from inorder.connection.database import Connection
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.experiments.reader import READ, ReaderExperiment, Reading, compare
from inorder.lab.experiments.reader.readers import READERS, TABLE, ReaderPlan, all_readers
from inorder.lab.instruments.timing import SAME, Apart, apart
from inorder.lab.plan.turn import Progress
from inorder.lab.results.result import Result, Run
from inorder.lab.run.runner import Runner
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway

from conftest import Counting
from on_paper import empty_result
from replay import Nowhere
from tool import LabRun, table_lines

LOSING = ("id", "created", "v7")
COMMITTED = {1: 100.0, 2: 100.5, 3: 101.0}


@pytest.mark.parametrize(
    ("deliveries", "delivered", "lost", "twice"),
    [
        ([], 0, 3, 0),
        ([(101.0, [1, 2, 3])], 3, 0, 0),
        ([(101.0, [3]), (102.0, [1, 2])], 3, 0, 0),
        ([(101.0, [1, 3])], 2, 1, 0),
        ([(101.0, [1, 2, 3]), (102.0, [2])], 3, 0, 1),
        ([(101.0, [1, 1, 1])], 1, 2, 1),
        ([(101.0, [2, 3]), (102.0, [2, 3])], 2, 1, 2),
    ],
)
def test_lost_and_repeated_rows_are_counted(
    deliveries: list[tuple[float, list[int]]], delivered: int, lost: int, twice: int
) -> None:
    metrics = compare(COMMITTED, Reading(deliveries))
    assert (metrics["committed"], metrics["delivered"], metrics["lost"], metrics["twice"]) == (
        3,
        delivered,
        lost,
        twice,
    )


def test_a_wait_ends_with_the_first_delivery() -> None:
    metrics = compare(COMMITTED, Reading([(100.25, [1]), (102.0, [2, 3, 1])], polls=7, longest_poll=0.5))
    assert (metrics["longest_wait_ms"], metrics["median_wait_ms"]) == (1500.0, 1000.0)
    assert (metrics["polls"], metrics["longest_poll_ms"]) == (7, 500.0)
    assert compare({}, Reading())["longest_wait_ms"] == 0.0


def test_a_row_that_is_held_back_is_not_lost() -> None:
    metrics = compare(COMMITTED, Reading([(102.0, [1])], held={1, 3}), waits=False)
    assert (metrics["delivered"], metrics["held"], metrics["lost"]) == (1, 1, 1)
    assert "longest_wait_ms" not in metrics and "median_wait_ms" not in metrics


def test_unknown_waits_are_shown_as_empty_cells() -> None:
    result = empty_result(ReaderExperiment, ReaderPlan())
    metrics = compare(COMMITTED, Reading([(102.0, [1, 2])], held={3}), waits=False) | {"seconds": 9.0}
    result.runs = [Run(READ, "horizon", 0, 1, metrics)]
    (section,) = ReaderExperiment.sections(result)
    assert section.shown()[0][-6:-3] == ["", "", "0.0 ms"]
    assert "could not be compared" in section.caption and "open elsewhere held back 1 row." in section.caption


class Told:
    def __init__(self, *seconds: float) -> None:
        self.seconds = iter(seconds)

    def execute(self, *_query: object) -> "Told":
        return self

    def fetchall(self) -> list[tuple[float]]:
        return [(next(self.seconds),)]


def test_clocks_are_compared_by_the_quickest_reading() -> None:
    here = iter([x for look in range(19) for x in (look, look + 0.9)] + [50.0, 50.25])
    difference = apart(cast("Connection", Told(*[107.0] * 19, 60.125)), lambda: next(here))
    assert (difference.least, difference.most, difference.seconds, difference.error) == (9.875, 10.125, 10.0, 0.125)
    assert (difference | SAME).error > 5


def test_a_row_that_was_never_committed_is_an_error() -> None:
    """If only row counts were compared, this row would hide a lost row."""
    with pytest.raises(InorderError, match=r"not committed in this round: \[4\]"):
        compare(COMMITTED, Reading([(101.0, [1, 2, 4])]))


@given(st.lists(st.lists(st.integers(1, 20), min_size=1)))
def test_delivered_and_lost_rows_add_up_to_committed_rows(polls: list[list[int]]) -> None:
    metrics = compare(dict.fromkeys(range(1, 21), 0.0), Reading([(1.0, rows) for rows in polls]))
    assert metrics["delivered"] + metrics["lost"] == metrics["committed"] == 20
    assert metrics["twice"] <= metrics["delivered"]


class OnPaper(ReaderExperiment):
    interrupt_in = 0

    def prepare(self) -> None:
        self.readers, self.held, self.seeds = all_readers(), {name: set() for name in READERS}, list[int]()

    def follow(self, name: str, writing: threading.Event) -> Reading:
        return Reading([(101.5, [1, 2, 3])])

    def committed(self) -> dict[int, float]:
        return COMMITTED

    def load(self, seed: int, second: Callable[[float], None]) -> None:
        self.seeds.append(seed)
        second(10.0)
        second(20.0)
        if len(self.seeds) == self.interrupt_in:
            raise KeyboardInterrupt


class Interrupted(OnPaper):
    interrupt_in = 2


class Here(Nowhere):
    def clock(self) -> Apart:
        return SAME


def run_it(kind: type[OnPaper], plan: ReaderPlan, result: Result, progress: Progress | None = None) -> OnPaper:
    experiment = kind(plan, cast(Target, Here()), progress or Progress())
    Runner(experiment, result, lambda: None).run()
    return experiment


def test_every_round_has_every_reader_and_a_load_of_its_own() -> None:
    plan = ReaderPlan(rounds=3)
    result = empty_result(OnPaper, plan)
    bench = run_it(OnPaper, plan, result)
    assert len(set(bench.seeds)) == 3 and result.complete
    assert [(run.round, run.kind) for run in result.runs] == [(n, name) for n in (1, 2, 3) for name in READERS]
    assert run_it(OnPaper, plan, empty_result(OnPaper, plan)).seeds == bench.seeds


def test_the_round_in_which_an_interrupt_arrives_is_kept() -> None:
    plan = ReaderPlan(rounds=5)
    result = empty_result(OnPaper, plan)
    with pytest.raises(KeyboardInterrupt):
        run_it(Interrupted, plan, result)
    assert len(result.runs) == 2 * len(READERS) and not result.complete
    assert [section.title.partition(" s, ")[2] for section in ReaderExperiment.sections(result)] == [
        "round 1 of 5", "round 2 of 5"
    ]  # fmt: skip
    assert len(run_it(OnPaper, plan, result).seeds) == 3 and result.complete


@pytest.mark.parametrize("seconds", [1, 2, 10])
def test_progress_counts_every_second(seconds: int) -> None:
    plan, counting = ReaderPlan(seconds=seconds, rounds=2), Counting()
    run_it(OnPaper, plan, empty_result(OnPaper, plan), counting)
    assert counting.ended == counting.totals == 2 * seconds


@pytest.mark.server
def test_all_readers_but_horizon_and_feed_lose_the_row_of_an_open_transaction(server: Installation) -> None:
    with Cluster(server) as cluster:
        bench = ReaderExperiment(ReaderPlan(), ThrowAway(cluster), Progress())
        bench.prepare()
        with bench.connection() as control, bench.connection() as first:
            readers = bench.readers
            insert = f"INSERT INTO {TABLE} DEFAULT VALUES".encode()
            with first.transaction():
                first.execute(insert)
                control.execute(insert)
                first_polls = {name: reader.poll(control) for name, reader in readers.items()}
            later_polls = {name: reader.poll(control) for name, reader in readers.items()}
            assert all((first_polls[name], later_polls[name]) == ([2], []) for name in LOSING)
            assert first_polls["horizon"] == [] and later_polls["horizon"] == [1, 2]
            assert first_polls["feed"] == [2] and later_polls["feed"] == [1]
            assert all(reader.poll(control) == [] for reader in readers.values())


@pytest.mark.server
def test_a_small_run_completes(lab_run: LabRun) -> None:
    result, printed = lab_run("reader --seconds 2 --rounds 2")
    assert len(result.runs) == 2 * len(READERS)
    for run in result.runs:
        assert run.metrics["committed"] > 0 and run.metrics["twice"] == 0
        assert run.metrics["lost"] == 0 or run.kind in LOSING, run
    assert len({run.metrics["committed"] for run in result.select(READ) if run.round == 1}) == 1
    for label in READERS.values():
        assert table_lines(printed, label) == 2
    records = report_of(result).records(result)
    assert [record["reader"] for record in records] == 2 * list(READERS)
