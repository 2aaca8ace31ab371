"""Properties of every experiment: plan and options, turns, resuming, progress, and reports on partial results.

Measurements come from recorded results. A new experiment is tested once one of its results is recorded in
test/python/recorded.
"""

import csv
import io
import json
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from inorder.cli import cli
from inorder.commands.catalogue import Labelled, report_of
from inorder.commands.options import SET, plan_given
from inorder.errors import InputError
from inorder.lab.experiments import all_experiments
from inorder.lab.plan.setting import FULL, QUICK, SIZES, Setting, settings_of
from inorder.lab.plan.turn import Metrics, several
from inorder.lab.report import formats, html
from inorder.lab.results.journal import load, save
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from rich.console import Console

from conftest import LONG_RUN
from on_paper import BARE, FULLY, empty_result
from replay import Key, Replay, emptied, keys, recorded, recorded_names

KINDS = all_experiments()
STOPS = 25 if LONG_RUN else 5  # approximate number of points at which a run is interrupted


@cache
def source(name: str) -> Result:
    return recorded(name)


SOURCES = [name for name in recorded_names() if source(name).experiment in KINDS]


def kind_of(name: str) -> type[Experiment[Any]]:
    return KINDS[source(name).experiment]


def test_each_experiment_has_a_recorded_result() -> None:
    """The other tests in this file would skip an experiment without a recorded result."""
    assert {source(name).experiment for name in SOURCES} == set(KINDS)


# --- plan and options ---------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_plan_of_each_size_is_allowed_and_read_again(name: str, size: str) -> None:
    plan = KINDS[name].Plan.of_size(size, {})
    plan.require_allowed(own=False)
    assert KINDS[name].Plan.read(json.loads(json.dumps(plan.as_dict()))) == plan
    needed, purpose = KINDS[name].room(plan)
    assert 2**20 < needed < 2**50 and purpose


@pytest.mark.parametrize("name", KINDS)
def test_the_short_run_is_shorter_and_the_full_one_longer(name: str) -> None:
    kind = KINDS[name]
    plans = {size: kind.Plan.of_size(size, {}) for size in SIZES}
    room = {size: kind.room(plan)[0] for size, plan in plans.items()}
    sizes = {size: settings_of(kind.Plan) for size in (QUICK, FULL)}
    assert room[QUICK] <= room[""] <= room[FULL] and sizes
    assert plans[""] != plans[FULL]


@pytest.mark.parametrize("name", KINDS)
def test_the_help_names_each_setting(name: str) -> None:
    shown = CliRunner().invoke(cli, ["lab", "run", name, "--help"])
    assert shown.exit_code == 0, shown.output
    for field, setting in settings_of(KINDS[name].Plan).items():
        assert (setting.option(field) in shown.output) == setting.asked
    assert all(study in shown.output for study in KINDS[name].studies)


@pytest.mark.parametrize("name", KINDS)
def test_values_that_no_option_accepts_are_refused(name: str) -> None:
    kind = KINDS[name]
    for field, setting in settings_of(kind.Plan).items():
        if not setting.asked:
            continue
        with pytest.raises((InputError, TypeError)):
            setting.type.read("no such thing \x00", setting.option(field))
    with pytest.raises(TypeError, match="there is no setting nonsense"):
        kind.Plan.read({"nonsense": 1})
    with pytest.raises(InputError, match="--rounds must be a number from 1 to"):
        replace(kind.Plan(), rounds=0).require_allowed(own=False)
    damaged = replace(emptied(source(next(n for n in SOURCES if kind_of(n) is kind))), plan={"rounds": "x"})
    with pytest.raises(InputError, match=f'the result\'s plan is not a plan of the experiment "{name}"'):
        kind.plan_in(damaged)


def awkward(setting: Setting[object], option: str, folder: Path) -> list[str]:
    """Return unusual values for a setting: its limits, values that are not round, and names in a different order."""
    (folder / "a, ü").touch()
    if of_type := {
        "FILE": [str(folder / "a, ü")], "DIRECTORY": [str(folder)], "COLUMN": ["a, ü"], "COLUMN,…": ["b,a,ü ü"],
        "TABLE": ['public."a, ü"'], "SHARES": ["insert=3, update=12345"], "DSN": ["host=a password='b c'"],
    }.get(setting.type.name):  # fmt: skip
        return of_type
    with pytest.raises(InputError) as refused:
        setting.type.read("\x01", option)
    error = str(refused.value)
    if names := re.search(r"choose from (.*)|--\S+ is (.* or .*), not", error):
        allowed = re.split(", | or ", names[1] or names[2])
        return [*allowed, *([",".join(reversed(allowed))] if "…" in setting.type.name else [])]
    bounds = re.search(r"from ([\d.,]+) to ([\d.,]+)", error)
    assert bounds, error
    lowest, highest = (Decimal(bound.replace(",", "")) for bound in bounds.groups())
    odd = ["0.123", "86399.999"] if "DURATION" in setting.type.name else ["12345", "1500000", str(2**20 + 1)]
    fitting = [str(each) for each in (lowest, highest, *map(Decimal, odd)) if lowest <= each <= highest]
    return [*fitting, *([",".join(reversed(fitting))] if "…" in setting.type.name else [])]


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_read_from_the_file_as_it_was_typed(name: str, tmp_path: Path) -> None:
    """Every setting can be typed in the form in which it is shown, so that every run can be resumed."""
    kind = KINDS[name]
    command = cli.commands["lab"].commands["run"].commands[name]  # type: ignore[attr-defined]
    for field, setting in settings_of(kind.Plan).items():
        option = setting.option(field)
        for text in awkward(setting, option, tmp_path) if setting.type.name else []:
            value = setting.type.read(text, option)
            plan = replace(kind.Plan(), **{field: value})  # type: ignore[arg-type]
            if setting.asked:
                params = command.make_context(name, [f"{option}={text}"]).params
                typed = {key: given for key, given in params.items() if key.startswith(SET)}
                assert plan_given(kind.Plan, "", False, typed) == plan
            assert setting.type.read(setting.type.show(value), option) == value
            save(empty_result(kind, plan), tmp_path / "r.jsonl")
            saved_plan = kind.plan_in(load(tmp_path / "r.jsonl"))
            saved_plan.require_allowed(own=False)
            assert saved_plan == (plan if setting.kept else kind.Plan()), (option, text)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_is_adapted_to_the_users_own_server(name: str) -> None:
    kind = KINDS[name]
    if kind.alone:
        pytest.skip("the experiment needs a server of its own")
    plan = kind.Plan()
    able = kind.adapt(plan, FULLY)
    for field, setting in settings_of(kind.Plan).items():
        if setting.capability:
            assert getattr(able.plan, field) == getattr(FULLY, setting.capability)
    assert len(able.notes) == len(set(able.notes))
    try:
        bare = kind.adapt(plan, BARE)
    except InputError as error:
        assert "app" in str(error) or "20" in str(error) or "17" in str(error)
    else:
        assert set(bare.notes) - set(able.notes)
        assert kind.adapt(bare.plan, BARE).plan == bare.plan
    with pytest.raises(InputError, match="sessions"):
        kind.adapt(plan, replace(FULLY, free_sessions=2))


# --- turns --------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_an_experiment_makes_the_recorded_measurements(name: str) -> None:
    replay = Replay(kind_of(name), source(name))
    result = replay.run(emptied(source(name)))
    assert result.complete and keys(result) == keys(source(name)) and replay.closed == 1
    assert replay.progress.announced == replay.progress.finished > 0
    second_replay = Replay(kind_of(name), source(name))
    second_replay.run(emptied(source(name)))
    assert second_replay.asked == replay.asked


def test_the_steps_of_a_kind_follow_each_other() -> None:
    done: list[tuple[object, ...]] = []

    def measure(*words: object) -> Metrics:
        done.append(words)
        return {}

    turn = several({"a": "A", "b": "B"}, "v7", 5, "label", measure, lambda kind: done.append((kind,)), measure)
    assert [place.label for place in turn.places] == ["label: A", "label: B"]
    assert len(list(turn.measure(1))) == 2 and done == [("v7",), ("v7", "a", 1), ("v7", "b", 1), ("v7",)]


@pytest.mark.parametrize("name", SOURCES)
def test_rounds_differ_in_their_order(name: str) -> None:
    """If the order never changed, one measurement would be the first of every round and have an advantage.

    The steps for one kind of key keep their order.
    """
    replay = Replay(kind_of(name), source(name))
    replay.run(emptied(source(name)))
    orders: dict[int, list[tuple[str, str, int]]] = {}
    for step, kind, rows, number in replay.asked:
        orders.setdefault(number, []).append((step, kind, rows))
    rounds = [orders[number] for number in sorted(orders) if number > 0]
    if len(rounds) < 3 or len({kind for _, kind, _ in rounds[-1]}) < 3 or "read" in {step for step, _, _ in rounds[0]}:
        return  # too few rounds or kinds to compare, or a single step reads all kinds
    assert len({tuple(order) for order in rounds[1:]}) > 1


def stops(total: int) -> list[int]:
    """Return the numbers of measurements, all or some, after which a run is interrupted."""
    step = max(1, total // STOPS)
    return list(range(0, total + 1, step))


@pytest.mark.parametrize("name", SOURCES)
def test_a_run_that_is_interrupted_anywhere_is_resumed(name: str) -> None:
    total = len(whole_run(name))
    for stop in stops(total):
        first = Replay(kind_of(name), source(name), stop_before=stop)
        partial = first.run(emptied(source(name)))
        assert partial.complete == (stop >= total) and first.closed == 1
        kept_keys = {key for key in keys(partial)}
        second = Replay(kind_of(name), source(name))
        result = second.run(partial)
        assert result.complete and keys(result) == keys(source(name))
        assert second.progress.announced == second.progress.finished
        check_whole_rounds(name, kept_keys, second.asked)


@pytest.mark.parametrize(("name", "field"), [("uuid_v1", "file"), ("insert", "tablespace")])
def test_a_complete_result_contains_no_path_of_the_machine(name: str, field: str) -> None:
    kind, path = kind_of(name), "/home/someone/keys.txt"
    plan = replace(kind.plan_in(source(name)), **{field: path}).as_dict()
    for stop, shown in ((1, path), (None, "keys.txt")):
        result = Replay(kind, replace(source(name), plan=plan), stop).run(replace(emptied(source(name)), plan=plan))
        assert result.complete == (stop is None) and result.plan == plan | {field: shown}


@cache
def whole_run(name: str) -> list[Key]:
    replay = Replay(kind_of(name), source(name))
    replay.run(emptied(source(name)))
    return replay.asked


def check_whole_rounds(name: str, kept_keys: set[Key], asked_keys: list[Key]) -> None:
    replay = Replay(kind_of(name), source(name))
    amounts = Counter(asked_keys)
    for stage in replay.experiment().stages():
        for number in stage.numbers:
            turns = [{(p.step, p.kind, p.rows, number) for p in turn.places} for turn in stage.turns(number)]
            for places in [set[Key]().union(*turns)] if stage.whole else turns:
                if not stage.redone and number > 0:
                    assert places <= kept_keys or not kept_keys & places or places <= set(asked_keys)
                    assert not places <= kept_keys or not places & set(asked_keys)
    assert max(amounts.values(), default=0) <= 1


# --- reports ------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_a_report_can_be_made_of_any_part_of_a_result(name: str) -> None:
    result = source(name)
    counts = {0, 1, len(result.runs) * 3 // 7} | ({2, len(result.runs) - 1} if LONG_RUN else set())
    for count in sorted(counts):
        partial = replace(result, runs=result.runs[:count], complete=False)
        sections = report_of(partial).sections(partial)
        assert len({section.name for section in sections}) == len(sections)
        assert all(len(row) == len(section.columns) for section in sections for row in section.shown())
        message = " ".join(verdict.lines for verdict in report_of(partial).verdicts(partial))
        page = html.render([Labelled(name, partial)])
        assert "was interrupted" in page and "Traceback" not in page and "nan" not in message


WIDE = {"bulk": 120, "sequence": 120, "lookup": 120, "tail": 140} | dict.fromkeys(
    ("feed", "insert_char", "like", "mixed", "pieces"), 100
)


@pytest.mark.parametrize("name", SOURCES)
def test_every_format_and_the_terminal_have_the_same_data(name: str) -> None:
    records = report_of(source(name)).records(source(name))
    console = Console(width=WIDE.get(name, 80), file=io.StringIO())
    console.print(*report_of(source(name)).tables(source(name)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown and not re.search(r"\S…", shown) and max(map(len, shown.splitlines())) <= console.width
    assert len(json.loads(formats.as_json(records))) == len(records) > 0
    assert len(list(csv.DictReader(io.StringIO(formats.as_csv(records))))) == len(records)


@pytest.mark.parametrize("name", SOURCES)
def test_one_round_claims_no_difference(name: str) -> None:
    result = source(name)
    single = replace(result, runs=[run for run in result.runs if run.round == 1])
    for verdict in report_of(single).verdicts(single):
        sure = "exact" in verdict.sure or "was checked" in verdict.sure
        assert sure or verdict.answer in ("Not decided", "Yes", "Not seen") or verdict.answer.endswith(" ns")
        assert "[" not in verdict.figures and ("too few to decide" in verdict.sure or sure)


def test_the_help_says_why_a_full_run_has_fewer_rounds() -> None:
    """Without a reason, a full run with fewer rounds than the usual run would look like a mistake."""
    for kind in KINDS.values():
        if rounds := settings_of(kind.Plan).get("rounds"):
            usual: Any = kind.Plan().rounds
            full: Any = rounds.sizes.get(FULL, usual)
            assert ("full has fewer" in rounds.help) == (full < usual)
