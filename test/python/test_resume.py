"""inorder lab resume resumes an interrupted run if possible, and otherwise reports an error."""

from pathlib import Path

import pytest
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.experiments.uuid_v1 import STEPS, UuidV1Experiment, UuidV1Plan
from inorder.lab.results.journal import load, save
from inorder.lab.results.result import Result, Run
from inorder.lab.run.hosts import check_same_place

from on_paper import on_paper, run_on_paper
from tool import inorder

MACHINE = {"cpu": "A 9000", "cores": 4, "memory_bytes": 2**34, "filesystem": "ext4", "commit": "abc", "kernel": "6"}


def a_result(machine: dict[str, object]) -> Result:
    return Result("insert", "now", "0", 1, {}, {"version": "18.6"}, machine, "direct I/O")


@pytest.mark.parametrize(
    ("version", "method", "here", "message"),
    [
        ("15.9", "direct I/O", {}, "PostgreSQL was 18.6, and is 15.9 here"),
        ("18.6", "exact counters", {}, "method was direct I/O, and is exact counters here"),
        ("18.6", "direct I/O", {"cores": 8}, "cores was 4, and is 8 here"),
        ("18.6", "direct I/O", {"filesystem": "tmpfs"}, "filesystem was ext4, and is tmpfs here"),
    ],
)
def test_a_run_is_not_resumed_under_other_conditions(
    version: str, method: str, here: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_same_place(a_result(MACHINE), version, method, MACHINE | here)


def test_a_run_is_resumed_under_the_same_conditions() -> None:
    check_same_place(a_result(MACHINE), "18.6", "direct I/O", MACHINE | {"commit": "def", "kernel": "7"})
    check_same_place(a_result({}), "18.6", "direct I/O", MACHINE)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rounds", "x", 'not a plan of the experiment "insert": Expected `int`, got `str` - at `$.rounds`'),
        ("rows", [1000, None], "got `null` - at `$.rows[1]`"),
        ("seconds", True, "got `bool` - at `$.seconds`"),
        ("rounds", 0, "--rounds must be a number from 1 to 1,000"),
        ("rows", [-5], "--rows must be a number from 1,000 to"),
        ("clients", [], "--clients must be a number from 1 to 90"),
        ("memory_bytes", 5, "--memory must be a number from 1,048,576"),
        ("kinds", ["no"], "no"),
        ("threads", 0, "--threads must be a number from 1 to 1,024"),
        ("indexes", ["no"], '--index: unknown value "no"'),
        ("tablespace", "/does/not/exist", 'must be an existing folder, not "/does/not/exist"'),
    ],
)
def test_a_plan_that_no_option_could_produce_is_refused(tmp_path: Path, name: str, value: object, message: str) -> None:
    result = a_result({})
    result.plan = InsertPlan().as_dict() | {name: value}
    save(result, tmp_path / "r.json")
    done = inorder("lab", "resume", "r.json", folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


OnPaper = on_paper(
    UuidV1Experiment, create=lambda _kind: None, drop=lambda _kind: None, measure=lambda *_words: {"seconds": 2.0}
)


def test_complete_kinds_of_a_long_round_are_kept() -> None:
    """Each kind of key has its own table and may take hours, so only the interrupted kind is measured again."""
    plan = UuidV1Plan(kinds=("uuid_v1", "uuid"), rounds=1)
    result, _ = run_on_paper(OnPaper, plan)
    first, second = dict.fromkeys(run.kind for run in result.runs)
    result.runs = [Run(run.step, run.kind, run.rows, 1, {"seconds": 1.0}) for run in result.runs][: len(STEPS) + 3]
    result.complete = False
    result, bench = run_on_paper(OnPaper, plan, result)
    assert {words[0] for words in bench.asked} == {second} and result.complete
    seconds = {kind: {run.metrics["seconds"] for run in result.runs if run.kind == kind} for kind in (first, second)}
    assert seconds == {first: {1.0}, second: {2.0}} and len(result.runs) == 2 * len(STEPS)


@pytest.mark.server
def test_an_interrupted_run_is_resumed(tmp_path: Path, server: Installation) -> None:
    options = ("--keys", "bigint,v7", "--rows", "1000", "--inserts", "80", "--rounds", "2", "--out", "r.json")
    done = inorder("lab", "run", "insert", *options, folder=tmp_path, server=server)
    assert done.returncode == 0, done.stderr
    repeated = inorder("lab", "resume", "r.json", folder=tmp_path, server=server)
    assert repeated.returncode == 2 and "r.json is complete" in repeated.stderr

    cut = load(tmp_path / "r.json")
    places = [place for place, run in enumerate(cut.runs) if run.step == "insert"]
    cut.runs, cut.complete = cut.runs[: places[2] + 1], False  # the file has one turn of the second round
    cut.runs[places[2]].metrics["tps"] = -1.0
    save(cut, tmp_path / "r.json")
    done = inorder("lab", "resume", "r.json", folder=tmp_path, server=server)
    assert done.returncode == 0, done.stderr
    result = load(tmp_path / "r.json")
    turns = [(run.kind, run.round) for run in result.select("insert")]
    assert result.complete and sorted(turns) == [("bigint", 1), ("bigint", 2), ("v7", 1), ("v7", 2)]
    assert all(run.metrics["tps"] > 0 for run in result.select("insert"))
    assert result.select("insert")[0].metrics in [run.metrics for run in cut.runs if run.round == 1]
    assert "resumed" in result.notes[0]
