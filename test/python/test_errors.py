"""Error messages about wrong usage have one form.

The tests use the cases of errors.toml, and the names and options of all commands.
"""

import os
import re
import shlex
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from inorder.cli import cli, main
from inorder.options import Option, Value, long_name

from conftest import ROOT

CASES = ROOT / "test" / "python" / "errors.toml"
# values that only a server or the file system can check
ANY_TEXT = {"NAME", "TABLE", "COLUMN", "COLUMN,…", "FILE", "DIRECTORY"}
CHECKED = (Value, click.Choice, click.types.IntParamType, click.types.FloatParamType)
ALLOWED = r"from [\d.,]+ to [\d.,]+|choose from \w|is not one of [\w']|missing \"=\""
Run = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the tool in this process, with pipes as its streams.

    A fork for each case would take 35 ms of CPU time.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.setenv("PG_CONFIG", "/nowhere/pg_config")

    def called(arguments: Sequence[str]) -> tuple[int, str, str]:
        standard_outputs, pipes = [os.dup(1), os.dup(2)], [os.pipe(), os.pipe()]
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as exit_info:
            patch.setattr(sys, "argv", ["inorder", *arguments])
            for number, name, (_, end) in zip((1, 2), ("stdout", "stderr"), pipes, strict=True):
                os.dup2(end, number)
                os.close(end)
                patch.setattr(sys, name, os.fdopen(number, "w", closefd=False))
            try:
                main()
            finally:
                for number, stream, descriptor in zip((1, 2), (sys.stdout, sys.stderr), standard_outputs, strict=True):
                    stream.close()
                    os.dup2(descriptor, number)
                    os.close(descriptor)
        with open(pipes[0][0]) as out, open(pipes[1][0]) as err:
            assert isinstance(exit_info.value.code, int)
            return exit_info.value.code, out.read(), err.read()

    return called


def faults(
    run: Run, arguments: Sequence[str], words: str, code: int = 2, without: str = "Usage:", pattern: str = ""
) -> list[str]:
    """Run the tool with invalid arguments, and return the rules for error messages that its message breaks."""
    exit_code, out, err = run(arguments)
    first, *more = err.splitlines() or [""]
    typed = re.split("[ =()]", " ".join(arguments[-2:]))
    rules = {
        f"exit code {code}": exit_code == code,
        "nothing on standard output": out == "",
        "no file": [*Path().iterdir()] == [],
        "the form of every message": first.startswith("inorder: ")
        and all(line.startswith(("HINT:  ", "DETAIL:  ", " ")) for line in more),
        "what was typed or is missing": any(
            word in first for word in (*filter(None, typed), " give", " Give", ": Missing ")
        ),
        words: words in err,
        pattern: re.search(pattern, err),
        f"no {without}": without not in err,
    }
    return [f"{shlex.join(arguments)}: not {rule}: {err}" for rule, holds in rules.items() if not holds]


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def wrong_value(option: click.Parameter) -> str | None:
    """Return a value that the option's type rejects, or None if there is no such value."""
    refuses = isinstance(option.type, CHECKED) and option.type.name not in ANY_TEXT
    return "nonsense" if refuses and isinstance(option, click.Option) else None


def required(command: click.Command, option: click.Parameter) -> list[str]:
    """Return the options that this option requires, because a missing option is reported first."""
    requires = option.requires if isinstance(option, Option) else None
    for other in command.params:
        if requires in other.opts and isinstance(other, click.Option):
            return [*required(command, other), other.opts[0], *([] if other.is_flag else ["x"])]
    return []


def test_each_case_is_refused_with_the_expected_message(run: Run) -> None:
    failures = []
    for command, cases in tomllib.loads(CASES.read_text()).items():
        for typed, case in cases.items():
            expected = case if isinstance(case, dict) else {"words": case}
            failures += faults(run, [*command.split(), *shlex.split(typed)], **expected)
    assert "\n".join(failures) == ""


def test_every_command_reports_unknown_options_and_suggests_similar_names(run: Run) -> None:
    failures = []
    for path, _ in commands():
        hint = f"\nHINT:  {' '.join(('inorder', *path))} --help\n"
        failures += faults(run, [*path, "--zzz"], f"No such option '--zzz'{hint}")
        failures += faults(run, [*path, "--helpp"], "'--help'", pattern="Did you mean")
        failures += faults(run, [*path[:-1], f"{path[-1]}x"], f"'{path[-1]}'", pattern="Did you mean")
    assert "\n".join(failures) == ""


def test_every_option_says_which_values_it_takes(run: Run) -> None:
    failures, options = [], 0
    for path, command in commands():
        for option, value in ((each, wrong_value(each)) for each in command.params):
            if value is not None:
                name = long_name(option.opts)
                arguments = [*path, *required(command, option), f"{name}={value}"]
                failures += faults(run, arguments, value, pattern=f"{name}.*({ALLOWED})|cannot be used with {name}")
                options += 1
    assert "\n".join(failures) == "" and options > 150
