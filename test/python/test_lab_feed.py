"""The feed experiment: the order of its measurements, its ratios and targets, and its checks."""

from collections import Counter
from contextlib import closing

import pytest
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.experiments.feed import FeedExperiment
from inorder.lab.experiments.feed.tables import (
    ENDED,
    FORMS,
    HELD,
    QUERIES,
    READERS,
    SUMMARIES,
    WRITES,
    WRITTEN,
    FeedPlan,
    log_table,
    query_kind,
)
from inorder.lab.instruments.timing import Prepared
from inorder.lab.plan.turn import Metrics, Progress
from inorder.lab.report.section import Section
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.tables.log_tables import BATCH_ROWS
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import empty_result, on_paper, run_on_paper
from world.sql import value

TURNS = [(s, k) for s in WRITES for k in WRITTEN] + [(s, k) for s in SUMMARIES for k in READERS]


def taken(*_words: object) -> Metrics:
    return {"seconds": 1.0, "cpu_seconds": 1.0}


OnPaper = on_paper(FeedExperiment, **dict.fromkeys(("write", "read", "time_query", "fill", "hold", "release"), taken))


def test_writers_and_readers_take_turns_and_each_query_runs_twice() -> None:
    result, bench = run_on_paper(OnPaper, FeedPlan(rounds=3))
    assert bench.asked[0] == ("fill",)
    turns = [turn[:2] for turn in bench.asked[1:]]
    rounds = [tuple(turns[n * len(TURNS) : (n + 1) * len(TURNS)]) for n in range(4)]
    assert all(Counter(order) == Counter(TURNS) for order in rounds) and len(set(rounds)) == 4
    queries = bench.asked[1 + 4 * len(TURNS) :]
    half = 1 + len(FORMS) * len(QUERIES)
    assert [queries[n * half][0] for n in range(6)] == ["hold", "release"] * 3
    for n in range(6):
        steps = queries[n * half + 1 : (n + 1) * half]
        assert [step for step, _ in steps] == list(QUERIES) * len(FORMS)
        assert {form for _, form in steps} == set(FORMS)
    kinds = [(s, query_kind(f, state)) for s in QUERIES for f in FORMS for state in (HELD, ENDED)]
    assert Counter((run.step, run.kind) for run in result.runs) == Counter([*TURNS, *kinds] * 3)


def test_the_forms_are_queried_in_random_order() -> None:
    _, bench = run_on_paper(OnPaper, FeedPlan(rounds=20))
    assert {words[1] for words in bench.asked if words[0] == next(iter(QUERIES))} == set(FORMS)
    first = [bench.asked[place + 1][1] for place, words in enumerate(bench.asked) if words in (("hold",), ("release",))]
    assert 4 <= first.count(FORMS[0]) <= 36


def test_rows_to_read_are_as_requested_if_the_table_is_large_enough() -> None:
    plan = FeedPlan()
    assert (plan.read_rows, plan.new_rows) == (1_000_000, 500_000)
    amounts = {"piece": 10_000, "count": 0, "count_few": 1000, "count_many": 100_000}
    assert {step: plan.queried[step] for step in amounts} == amounts
    small = FeedPlan(rows=10_000)
    assert all(p.written["write_batch"] % BATCH_ROWS == 0 for p in (small, plan))
    assert min(*small.written.values(), small.read_rows, small.new_rows, small.queried["count_few"]) > 0
    # Every query of the step "piece", including the warm-up, must find a full piece of rows.
    assert all((QUERIES["piece"].calls + 1) * p.queried["piece"] <= p.rows for p in (small, plan))


def made_up(rounds: int = 6) -> Result:
    plan = FeedPlan(rounds=rounds)
    result = empty_result(FeedExperiment, plan)
    for number in range(1, rounds + 1):
        for step, kind in TURNS:
            seconds = number * (1.0 if kind in ("bigserial", "plain") else 2.0)
            rows = plan.written.get(step, plan.read_rows)
            result.runs.append(Run(step, kind, rows, number, {"seconds": seconds, "cpu_seconds": seconds / 2}))
        for step in QUERIES:
            for form in FORMS:
                for state, factor in ((HELD, 0.003), (ENDED, 0.001)):
                    metrics = {"seconds": number * factor, "calls": 1.0}
                    result.runs.append(Run(step, query_kind(form, state), plan.queried[step], number, metrics))
    return result


def shown(result: Result, name: str) -> dict[tuple[str, ...], list[str]]:
    """Return the cells of a section, keyed by step and form (section "queries") or by kind (other sections)."""
    (section,) = (candidate for candidate in FeedExperiment.sections(result) if candidate.name == name)
    return {key_of(section, row): row[4 if name == "queries" else 2 :] for row in section.shown()}


def key_of(section: Section, row: list[str]) -> tuple[str, ...]:
    return (row[0], row[3]) if section.name == "queries" else (row[0],)


def test_there_is_no_ratio_without_a_baseline() -> None:
    result = made_up()
    result.runs = [run for run in result.runs if run.kind in ("uuid", "uuid_apply") or run.step in QUERIES]
    assert shown(result, "write") == {("uuid",): ["70.0", "", "29.2", "", ""]}
    assert shown(result, "read_rows") == {("uuid_apply",): ["3.50", "", "7.00", "", ""]}
    assert FeedExperiment.verdicts(result) == []


@pytest.mark.server
def test_all_rows_arrive_and_are_checked(server: Installation) -> None:
    plan = FeedPlan(rows=10_000)
    with Cluster(server) as cluster, closing(FeedExperiment(plan, ThrowAway(cluster), Progress())) as bench:
        bench.prepare()
        bench.fill()
        session = bench.session
        for form in FORMS:
            assert value(session, f"SELECT count(*) FROM {log_table(form)}") == 10_000
        assert value(session, "SELECT count(DISTINCT xact) FROM inorder_lab.log_number") == 100
        assert value(session, "SELECT max(length(c5)) + max(length(c10)) FROM inorder_lab.log_uuid") == 64
        assert value(session, "SELECT count(*) FROM inorder_lab.log_bigserial") == 2 * plan.read_rows
        for step, kind in (("read_rows", "plain"), ("read_seconds", "uuid_apply"), ("read_rows", "number_read")):
            assert bench.read(step, kind).keys() == {"seconds", "cpu_seconds"}
        bench.hold()
        assert value(session, "SELECT count(*) FROM inorder_lab.log_uuid") == 15_000
        for step in QUERIES:
            assert bench.time_query(step, "uuid")["calls"] == QUERIES[step].calls
        bench.release()
        assert value(session, "SELECT count(*) FROM inorder_lab.log_uuid") == 21_001
        assert bench.time_query("new", "uuid")["seconds"] > 0
        session.execute("UPDATE inorder_internal.count_part SET rows = rows + 1")
        with pytest.raises(InorderError, match=r"count\('inorder_lab.log_uuid'\): 21002 instead of 21001"):
            bench.time_query("count", "uuid")
        with Prepared(session, "SELECT 1 / (SELECT 0)") as wrong, pytest.raises(InorderError, match="division by zero"):
            wrong()
        with pytest.raises(InorderError, match="2 rows instead of 3"):
            bench.check("it", "SELECT 2", 3)
