"""The noise experiment: identical tables, their order, and its statements about differences."""

import numpy as np
import pytest
from inorder.lab.analysis.stats import lower_ends, outer_rank, paired_ratio, share_found, smallest_found
from inorder.lab.experiments.noise import (
    NoiseExperiment,
    NoisePlan,
    comparisons,
    complete_rounds,
    paired_logs,
    scatter,
    words,
)
from inorder.lab.results.result import Result, Run

from on_paper import empty_result

KINDS = ("bigint", "sequence")


def nothing_measured(plan: NoisePlan) -> Result:
    return empty_result(NoiseExperiment, plan)


def noisy_result(plan: NoisePlan, deviation: float, shift: float = 1.0, seed: int = 1) -> Result:
    generator, result = np.random.default_rng(seed), nothing_measured(plan)
    for number in range(1, plan.rounds + 1):
        load = generator.lognormal(0, 0.5)  # a load that stays the same for a whole round
        for name in plan.copies():
            speed = 1000 * load * generator.lognormal(0, deviation) * (shift if name.endswith("_b") else 1.0)
            result.runs.append(Run("insert", name, plan.rows, number, {"tps": float(speed)}))
    return result


def test_equal_tables_differ_in_nothing_but_their_names() -> None:
    a, b, _ = (copy.statements() for copy in NoisePlan(kinds=("sequence",)).copies().values())
    assert len(a) == 3 and [line.replace("_a", "_b") for line in a] == b != a


def said(result: Result) -> str:
    return words(comparisons(result, NoiseExperiment.plan_in(result)))


def complete(result: Result, kind: str) -> np.ndarray:
    return complete_rounds(result, NoiseExperiment.plan_in(result), kind)


def test_the_text_names_the_differences_if_any() -> None:
    plan = NoisePlan(kinds=KINDS, tables=2, rounds=9)
    assert said(noisy_result(plan, 0.05)) == "No difference was found in 2 comparisons of equal tables."
    wrong = said(noisy_result(plan, 0.01, shift=1.5))
    assert wrong.startswith("2 of 2 comparisons of equal tables were wrongly reported as significant: bigint A/B (0.6")
    assert said(noisy_result(NoisePlan(rounds=5), 0.01, shift=1.5)).startswith("With fewer than 6 rounds")
    assert said(nothing_measured(plan)).startswith("With fewer than 6 rounds")
    (verdict,) = NoiseExperiment.verdicts(noisy_result(plan, 0.05))
    assert verdict.figures == said(noisy_result(plan, 0.05)) and verdict.answer.startswith("Differences of ")
    (few,) = NoiseExperiment.verdicts(noisy_result(NoisePlan(rounds=5), 0.01))
    assert few.answer == "Not decided" and few.sure == "5 rounds are too few to decide. Repeat with --rounds 6."
    assert NoiseExperiment.verdicts(nothing_measured(plan)) == []


def test_the_text_leaves_out_what_was_not_measured() -> None:
    plan = NoisePlan(rounds=9)
    assert [section.rows for section in NoiseExperiment.sections(nothing_measured(plan))] == [[], [], []]
    result = noisy_result(plan, 0.05)
    result.runs = [run for run in result.runs if run.round == 1]
    compared, scattered, resolved = NoiseExperiment.sections(result)
    assert [row[2] for row in compared.rows] == ["too few rounds"] * 6 and resolved.rows == []
    assert scattered.shown()[0][2:] == ["", ""] and "6 rounds" in resolved.caption
    result = noisy_result(plan, 0.05)
    result.runs = [run for run in result.runs if (run.kind, run.round) != ("bigint_c", 4)]
    assert complete(result, "bigint").shape == (8, 3) and complete(result, "random").shape == (9, 3)


def test_the_scatter_is_split_into_within_and_between_rounds() -> None:
    values = complete(noisy_result(NoisePlan(rounds=400), 0.05), "bigint")
    within, between = scatter(values)
    assert within == pytest.approx(5.1, abs=0.4) and between == pytest.approx(65, abs=6)
    assert len(paired_logs(values)) == 400 * 3


@pytest.mark.parametrize("rounds", [6, 9, 15, 30])
def test_the_smallest_detectable_difference_is_detected_as_often_as_stated(rounds: int) -> None:
    logs = list(np.random.default_rng(3).normal(0, 0.07, 2000))
    size = smallest_found(logs, rounds)
    assert size is not None
    fresh = np.random.default_rng(rounds)
    detected = sum(
        paired_ratio(list(np.exp(fresh.normal(np.log1p(size / 100), 0.07, rounds))), [1.0] * rounds).differs_from(1.0)
        for _ in range(1500)
    )
    assert detected / 1500 == pytest.approx(0.8, abs=0.045)
    assert share_found(logs, rounds, size / 100) == pytest.approx(0.8, abs=0.001)


def test_more_rounds_find_smaller_differences() -> None:
    logs = list(np.random.default_rng(3).normal(0.05, 0.05, 200))
    sizes = [smallest_found(logs, rounds) or 0.0 for rounds in (6, 9, 15, 30)]
    assert sizes == sorted(sizes, reverse=True)
    assert np.array_equal(lower_ends(logs, 9), lower_ends(logs, 9)) and outer_rank(9) == 1
