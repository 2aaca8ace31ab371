"""The table in docs/lab.md of what the studies have: its commands exist, and its tables are in the reports."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from inorder.cli import cli
from inorder.lab.experiments import all_experiments
from inorder.lab.report.catalogue import report_of
from inorder.lab.report.published import STUDIES
from inorder.lab.setting import settings_of

from conftest import text
from replay import recorded, recorded_names
from tool import inorder

KINDS = all_experiments()
MISSING = "not reproduced, because "
PARTS = {"system", "parameter", "table", "claim", "question"}
OF_RUNS = {"--quick": 0, "--full": 0, "--dsn": 1}  # the arguments of options that every experiment has
COUNT = re.compile(r"\d[\d,]*( [kM])?\b")


@dataclass(frozen=True)
class Line:
    study: str
    part: str
    what: str
    answer: str
    title: str

    @property
    def commands(self) -> list[list[str]]:
        return [command.split() for command in re.findall(r"`([^`]+)`", self.answer) if command[0] != "-"]

    @property
    def answering(self) -> list[list[str]]:
        return [] if self.answer.startswith(MISSING) else self.commands


def lines() -> Iterator[Line]:
    section = text("docs/lab.md").split("## Which command reproduces which table?\n")[1].split("\n## ")[0]
    for row in re.findall(r"^\| (P\d .*) \|$", section, re.M):
        yield Line(*(cell.strip() for cell in row.split("|")))


LINES = list(lines())


def pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(words):
        takes = OF_RUNS.get(words[place], 1)
        yield words[place], words[place + 1] if takes else ""
        place += 1 + takes


def title_pattern(title: str) -> str:
    """Without numbers of rows, which differ from run to run.

    >>> title_pattern("10 M rows: a plain btree"), title_pattern("3,000 rows by one")
    ('N rows: a plain btree', 'N rows by one')
    """
    return COUNT.sub("N", title)


def titles() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in KINDS}
    for name in recorded_names():
        result = recorded(name)
        if result.experiment == "insert":
            result.plan["max_wal_size"] = 2**30
        found[result.experiment] |= {section.title for section in report_of(result).sections(result)}
    for study, about in STUDIES.items():
        for one in about["tables"]:
            found[one["experiment"]].add(f"Beside study {study}: {one['title']}")
    return found


TITLES = titles()


@pytest.mark.parametrize("study", ["P1", "P2", "P3", "P4", "P5"])
def test_each_study_has_all_its_parts(study: str) -> None:
    of_study = [line for line in LINES if line.study == study]
    parts = {line.part for line in of_study}
    assert parts <= PARTS and {"system", "parameter", "table", "claim"} <= parts
    assert len({line.what for line in of_study}) == len(of_study)
    for line in of_study:
        assert line.answer.startswith(MISSING) or line.answering, line.what
        assert not line.title or line.answering, line.what


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def named(words: list[str]) -> click.Command:
    group: click.Command = cli
    for word in words:
        if not isinstance(group, click.Group):
            break
        found = group.get_command(click.Context(group), word)
        assert found, word
        group = found
    return group


COMMANDS = {" ".join(command): command for line in LINES for command in line.commands}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_commands_run_as_written(command: list[str], tmp_path: Path) -> None:
    if command[0] == "inorder":
        assert {word for word in command if word.startswith("--")} <= options_of(named(command[1:]))
        few = [{"217M": "217"}.get(word, word) for word in command[1:]]
        done = inorder(*few, folder=tmp_path)
        assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr
        return
    kind, size = KINDS[command[0]], "full" if "--full" in command else ""
    settings = {one.option(name): (name, one) for name, one in settings_of(kind.Plan).items() if one.asked}
    assert {option for option, _ in pairs(command[1:])} <= options_of(named(["lab", "run", command[0]]))
    given = {
        settings[option][0]: settings[option][1].type.read(str(tmp_path) if value == "DIR" else value, option)
        for option, value in pairs(command[1:])
        if option not in OF_RUNS
    }
    plan = kind.Plan.of_size(size, given)
    plan.require_allowed(own=False)
    assert kind.room(plan)[0] > 0 and {name: getattr(plan, name) for name in given} == given


@pytest.mark.parametrize("line", [line for line in LINES if line.title], ids=lambda line: f"{line.study}-{line.what}")
def test_the_tables_are_in_the_reports(line: Line) -> None:
    (command, *_) = line.answering
    found = {title_pattern(title) for title in TITLES[command[0]]}
    assert any(title.startswith(title_pattern(line.title)) for title in found), sorted(found)


def test_every_table_beside_a_study_is_listed() -> None:
    listed = {line.title for line in LINES if line.title.startswith("Beside study")}
    beside = {title for found in TITLES.values() for title in found if title.startswith("Beside study")}
    assert {title for title in beside if not any(title.startswith(one) for one in listed)} == set()
    commands = {(line.study, command[0]) for line in LINES for command in line.answering}
    assert {(study, name) for name, kind in KINDS.items() for study in kind.studies} <= commands
