"""The generators experiment: its turns and its figures."""

from collections import Counter

from inorder.lab.experiments.generators import CALLS, EVERY_TASK, FLOOR, INSERTS, GeneratorsExperiment, GeneratorsPlan
from inorder.lab.plan.turn import Metrics
from inorder.lab.results.result import Run

from on_paper import empty_result, on_paper, run_on_paper


class WithoutV7(GeneratorsExperiment):
    missing = ("uuidv7",)


def called(_name: str, _seed: int) -> Metrics:
    return {"seconds": 2.0, "cpu_seconds": 1.0}


OnPaper = on_paper(WithoutV7, call=called, insert=called, task=called)


def test_each_round_after_a_warm_up_round_measures_everything() -> None:
    result, bench = run_on_paper(OnPaper, GeneratorsPlan(rounds=3))
    each = [*(name for name in CALLS if name != "uuidv7"), *INSERTS, *EVERY_TASK]
    assert Counter(name for name, _ in bench.asked) == {name: 4 * count for name, count in Counter(each).items()}
    assert Counter(run.kind for run in result.runs) == {name: 3 * count for name, count in Counter(each).items()}
    assert [run.round for run in result.select("call", FLOOR)] == [1, 2, 3]


def test_costs_are_shown_above_the_cost_of_an_empty_function() -> None:
    result = empty_result(OnPaper, GeneratorsPlan())
    for number in range(1, 7):
        for name, seconds in ((FLOOR, 1e-6), ("gen_random_uuid", 21e-6), ("uuid_v7_nextval", 5e-6)):
            metrics = {"cpu_seconds": number * seconds, "seconds": 10 * seconds}
            result.runs.append(Run("call", name, 1000, number, metrics))
    (section,) = GeneratorsExperiment.sections(result)
    shown = {row[0]: row[1:] for row in section.shown()}
    assert shown["uuid_v7_nextval"] == ["14 [4–24]", "1/5.0", "", ""]
    assert "CPU time" in section.title and section.title.endswith("The floor of 4 ns a value is subtracted")
    (verdict,) = GeneratorsExperiment.verdicts(result)
    figures = "the CPU time is 0.20 [0.20–0.20] times that of gen_random_uuid()."
    assert (verdict.answer, verdict.figures) == ("14 ns", f"This is the cost of a version-7 key: {figures}")
    for run in result.runs:
        del run.metrics["cpu_seconds"]
    (section,) = GeneratorsExperiment.sections(result)
    assert section.shown()[1][1] == "40 [40–40]" and "wall clock" in section.title
