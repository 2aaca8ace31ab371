"""The sequence experiment: its turns, its comparison with study P2, and its verdict."""

import os
from dataclasses import replace

import pytest
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.experiments.sequence import CONSTANT, TABLE, SequenceExperiment, SequencePlan
from inorder.lab.plan.turn import Metrics, Progress
from inorder.lab.report.section import Section
from inorder.lab.results.result import Result, Run
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.throw_away import ThrowAway

from on_paper import empty_result, on_paper, run_on_paper
from waiting import PATIENCE
from world.sql import value

SMALL = SequencePlan(clients=(1, 10), caches=(1, 100), rounds=2)


def tps_table(result: Result) -> Section:
    return SequenceExperiment.sections(result)[0]


def bulk_table(result: Result) -> Section:
    return SequenceExperiment.sections(result)[1]


def load(_statement: str, kind: str, clients: int, _seed: int) -> Metrics:
    """Return measurements of a load in which nextval has half the TPS of a constant and takes twice the CPU time."""
    tps = 1000.0 * clients * (1.0 if kind == CONSTANT else 0.5)
    gaps = {} if kind == CONSTANT else {"gaps": 99.0 if kind != "cache_1" else 0.0}
    return {"tps": tps, "latency_ms": 1.0, "cpu_us": 2e6 / tps, "transactions": 100, "wal_bytes": 9800} | gaps


def bulk(kind: str, _seed: int) -> Metrics:
    seconds = 0.05 if kind == CONSTANT else 0.1
    return {"seconds": seconds, "cpu_seconds": seconds, "wal_bytes": 1}


OnPaper = on_paper(SequenceExperiment, load=load, bulk=bulk)
NO_DIFFERENCE = "The TPS does not differ significantly from that of a constant with 1 client"


@pytest.mark.parametrize(
    ("rounds", "tps", "claim"),
    [
        (2, [500.0] * 2, "Not decided. The TPS is 50 % of that of a constant with 1 client (2 rounds)."),
        (6, [500.0] * 6, "Yes. The TPS is 50 % [50–50 %] of that of a constant with 1 client."),
        (6, [900.0, 1100.0] * 3, f"No. {NO_DIFFERENCE}, but may be up to 10 % lower."),
        (6, [300.0, 3000.0] * 3, f"Not decided. {NO_DIFFERENCE}, but may be up to 70 % lower."),
        (6, [1500.0] * 6, "No. The TPS is 150 % [150–150 %] of that of a constant with 1 client."),
    ],
)
def test_the_verdict_claims_only_what_was_measured(rounds: int, tps: list[float], claim: str) -> None:
    plan = SequencePlan(clients=(1,), caches=(1,), rounds=rounds)
    result = empty_result(OnPaper, plan)
    for number, rate in enumerate(tps, 1):
        result.runs.append(Run("insert_1", CONSTANT, 0, number, {"tps": 1000.0, "cpu_us": 5.0}))
        result.runs.append(Run("insert_1", "cache_1", 0, number, {"tps": rate, "cpu_us": 10.0}))
    (verdict,) = SequenceExperiment.verdicts(result)
    assert f"Does a sequence slow inserts? {claim}" in verdict.lines


def test_a_cpu_time_of_zero_is_a_measurement() -> None:
    result, _ = run_on_paper(OnPaper, replace(SMALL, rounds=3))
    for run in result.runs:
        if run.kind == CONSTANT and (run.round == 1 or run.step == "insert_10"):
            run.metrics.update(cpu_us=0.0, cpu_seconds=0.0)
    rows = {(row[0], row[1]): row[4] for row in tps_table(result).shown()}
    assert rows["insert nextval, CACHE 1", "1"] == "2.00 [2.00–2.00]"
    assert rows["insert nextval, CACHE 1", "10"] == ""
    assert [row[3] for row in bulk_table(result).shown()] == ["", "2.00 [2.00–2.00]", "2.00 [2.00–2.00]"]
    verdict, _ = SequenceExperiment.verdicts(result)
    assert verdict.figures.endswith("INSERT … SELECT, the CPU time is 2.00 times that of a constant (2 rounds).")


def test_each_cache_has_its_own_verdict() -> None:
    result, _ = run_on_paper(OnPaper, SequencePlan(clients=(1,), caches=(1, 100, 1000), rounds=6))
    for run in result.select("insert_1", "cache_1000"):
        run.metrics["tps"] *= 2
    _, hundred, thousand = SequenceExperiment.verdicts(result)
    assert (hundred.question, hundred.answer) == ("Is CACHE 100 needed for inserts?", "No")
    assert "gaps of up to 99 numbers in a measurement. The TPS were measured with nextval, CACHE 1." in hundred.holds
    assert thousand.answer == "Yes" and "is 50 % [50–50 %] of that of CACHE 1000 with 1 client" in thousand.figures
    assert "Oracle, where CACHE 50 was a hundred times as fast" in tps_table(result).caption


@pytest.mark.server
def test_the_statements_that_are_run_are_those_that_are_printed(server: Installation) -> None:
    plan = SequencePlan(clients=(110,), caches=(1, 100), rows=9600, seconds=1)
    with Cluster(server) as cluster:
        bench = SequenceExperiment(plan, ThrowAway(cluster), Progress())
        bench.prepare()
        figures = bench.load("insert", "cache_1", 110, 1)
        assert figures["transactions"] == value(bench.control, f"SELECT count(*) FROM {TABLE}")
        # The CPU time is positive, and at most that of all cores during the test.
        assert 1 <= figures["cpu_us"] <= 1e6 * (os.cpu_count() or 1) * PATIENCE / figures["transactions"]
        assert figures["gaps"] == 0 and "gaps" not in bench.bulk(CONSTANT)
        cached = bench.load("insert", "cache_100", 110, 1)
        assert 0 < cached["gaps"] < 110 * 100 and (cached["gaps"] + cached["transactions"]) % 100 == 0
        bulk = [bench.bulk(kind) for kind in plan.kinds]
        assert bulk[1]["gaps"] == 0 <= bulk[2]["gaps"] < 100  # gaps caused by this statement only
        constant, each, hundred = (metrics["wal_records"] for metrics in bulk)
        # For 9,600 values, CACHE 1 writes a WAL record for every 32 or 33 values. CACHE 100 writes a record for every
        # 100 values.
        assert 9600 / 33 - 5 <= each - constant <= 9600 / 32 + 20
        assert 96 / 2 <= hundred - constant <= 96 + 20
        with pytest.raises(InorderError, match="instead of"):
            bench.check("cache_1", 1)
        bench.close()


@pytest.mark.parametrize(("field", "value"), [("rows", 10**9), ("seconds", 86_400)])
def test_the_required_disk_space_grows_with_rows_and_seconds(field: str, value: int) -> None:
    needed, _ = SequenceExperiment.room(SequencePlan.of_size("", {field: value}))
    small, _ = SequenceExperiment.room(SequencePlan.of_size("quick", {}))
    assert needed >= 130 * 10**9 and small < 10**9
