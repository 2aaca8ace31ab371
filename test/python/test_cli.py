"""The commands: their help, clear errors with exit code 2, and a complete run of a small demo."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner
from inorder import sources
from inorder.cli import cli, main
from inorder.commands.demo import LEAST_ROWS, MOST_READING, MOST_ROUNDS, MOST_ROWS, MOST_SECONDS, plans
from inorder.connection import patience
from inorder.errors import InputError
from inorder.files import replacing, write_whole
from inorder.groups import Group
from inorder.installations import Installation
from inorder.lab.analysis.stats import paired_ratio
from inorder.lab.experiments.insert.plan import InsertPlan
from inorder.lab.results.journal import load, save
from inorder.lab.results.result import DIRECT_IO, EXACT_COUNTERS
from inorder.lab.server.temporary import takes_direct_io
from inorder.text import lines

from conftest import LONG_RUN, ROOT
from load.soak.samples import cpu_seconds
from replay import recorded
from tool import inorder, surroundings, table_lines
from waiting import PATIENCE, wait_for


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    paths = []
    for name, command in group.commands.items():
        here = (*path, name)
        paths += commands(command, here) if isinstance(command, click.Group) else [here]
    return paths


def test_every_command_and_option_has_help() -> None:
    for words in commands(cli):
        command: click.Command = cli
        for word in words:
            assert isinstance(command, click.Group)
            command = command.commands[word]
        assert command.help, words
        options = [p for p in command.get_params(click.Context(command)) if isinstance(p, click.Option)]
        assert [p.name for p in options if not p.help] == [], words


def test_every_command_has_an_example_that_can_be_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    for words in (words for words in commands(cli) if words[0] not in ("lab", "demo")):
        command: click.Command = cli
        for word in words:
            assert isinstance(command, click.Group)
            command = command.commands[word]
        example = " ".join((command.epilog or "").removeprefix("\b\n").split()).removeprefix("Example: ")
        called = shlex.split(example.partition(" >> ")[0])
        assert tuple(called[: len(words) + 1]) == ("inorder", *words), words
        command.make_context(words[-1], called[len(words) + 1 :])


def test_a_command_under_nohup_outlives_its_terminal() -> None:
    program = """import os, signal; from inorder import cli; signal.signal(signal.SIGHUP, signal.SIG_IGN)
cli.cli = lambda **_: os.kill(os.getpid(), signal.SIGHUP); cli.main()"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_options_of_tail_are_in_sections() -> None:
    output = inorder("tail", "--help", folder=Path()).stdout
    options = re.findall(r"^(\w+):$|^  (?:-[a-z], )?(--[a-z-]+)", output, re.MULTILINE)
    assert [name for name, _ in options if name][:6] == [
        "Source", "Position", "Batches", "Output", "Following", "Options",
    ]  # fmt: skip
    assert options[-2:] == [("Options", ""), ("", "--help")]
    assert set(options) >= {("", "--feed"), ("", "--dsn"), ("", "--format"), ("", "--interval")}


@pytest.mark.parametrize(("given", "command"), [
    (None, "pip install 'inorder[x]'"),
    ({"url": "file:///a%20b", "dir_info": {}}, "pip install '/a b[x]'"),
    ({"url": "file:///a", "dir_info": {"editable": True}}, "pip install --editable '/a[x]'"),
    ({"url": "https://h/r.git", "vcs_info": {"vcs": "git"}}, "pip install 'inorder[x] @ git+https://h/r.git'"),
])  # fmt: skip
@pytest.mark.parametrize("is_pipx", [True, False])
def test_the_hint_installs_an_extra_from_the_source_of_the_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, object] | None, command: str, is_pipx: bool
) -> None:
    (tmp_path / "inorder-0.dist-info").mkdir()
    (tmp_path / "inorder-0.dist-info" / "METADATA").write_text("Name: inorder\n")
    if given is not None:
        (tmp_path / "inorder-0.dist-info" / "direct_url.json").write_text(json.dumps(given))
    if is_pipx:
        (tmp_path / "pipx_metadata.json").write_text('{"main_package": {"package_or_url": "inorder"}}')
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    pip = f"{sys.executable} -m pip install"
    assert sources.installer("x") == command.replace("pip install", "pipx install --force" if is_pipx else pip)


@pytest.mark.parametrize("asked", ["inorder[demo]", "/a[b]/inorder[demo]", "inorder[demo] @ git+https://h/r.git"])
def test_the_hint_keeps_the_extras_that_pipx_has_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str
) -> None:
    """The HINT lists the installed extras, because reinstalling with pipx would otherwise remove them."""
    (tmp_path / "pipx_metadata.json").write_text(json.dumps({"main_package": {"package_or_url": asked}}))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert "[advise,demo]'" in sources.installer("advise")


def test_the_hint_fits_a_package_of_debian_and_a_checkout_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(_name: str) -> NoReturn:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", refused)
    monkeypatch.setattr(sources, "PACKAGE", tmp_path / "inorder")
    assert sources.installer("x") == f"{sys.executable} -m pip install --editable '{tmp_path}[x]'"
    monkeypatch.setattr(sources, "PACKAGE", Path("/usr/lib/python3/dist-packages/inorder"))
    assert sources.installer("advise") == "apt install python3-jinja2 python3-pglast"
    assert sources.installer("lab") == "pipx install 'inorder[lab]'"


def test_help_is_also_a_command(tmp_path: Path) -> None:
    for words, same in (("help count show", "count show --help"), ("help", "--help"), ("-V", "--version")):
        printed = [inorder(*each.split(), folder=tmp_path).stdout for each in (words, same)]
        assert printed[0] == printed[1] != ""


def test_documents_name_only_existing_options() -> None:
    groups: list[click.Command] = [cli]
    # options of other programs, and options of every command
    options = {"--no-locale", "--relation", "--stats", "--help"}
    options |= set(re.findall(r"^#   (--[a-z]+) ", (ROOT / "script" / "test").read_text(), re.MULTILINE))
    while groups:
        command = groups.pop()
        options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        groups += command.commands.values() if isinstance(command, click.Group) else []
    for name in (
        "README.md",
        "docs/lab.md",
        "docs/tail.md",
        "docs/count.md",
        "docs/uuid_v1.md",
        "docs/choose.md",
        "docs/advice.md",
    ):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / name).read_text()))
        assert named - options == set(), name


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("generate uuid-v1 --count 3 >&-", 1, "cannot write to standard output: Bad file descriptor"),
        ("generate uuid-v1 --count 3 >/dev/full", 1, "cannot write to standard output: No space left on device"),
        ("--help >&-", 1, "cannot write to standard output: Bad file descriptor"),
        ("--version >/dev/full", 1, "No space left on device"),
        ("generate uuid-v1 --count 3 --out uuids >&- 2>&- <&-", 0, ""),
        ("generate uuid-v1 --count 3 --out uuids <&-", 0, ""),
        ("tail t --position p >&-", 2, "standard output is closed, or cannot be written to"),
        ("tail t --position p 1<p.in", 2, "standard output is closed, or cannot be written to"),
        ("tail t 2>&-", 2, ""),
        ("generate uuid-v1 --count x >&- 2>&-", 2, ""),
        ("tail t --position p --exec cat --dsn $'host=\\xff'", 2, "this is not UTF-8: b'host=\\xff"),
    ],
)
def test_closed_or_full_standard_streams_cause_one_clear_error_message(
    tmp_path: Path, command: str, code: int, message: str
) -> None:
    (tmp_path / "p.in").touch()
    script = f"{shlex.join([sys.executable, '-m', 'inorder'])} {command}"
    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr and (message or not done.stderr)


@pytest.mark.parametrize("rows", [LEAST_ROWS, 10_000, 16_000, MOST_ROWS])
def test_an_interrupted_demo_can_be_resumed(rows: int) -> None:
    """The experiments accept all values of the demo's options.

    Otherwise, resuming would report the plan of the demo as damaged.
    """
    for settings in ((1, 1, 1), (MOST_SECONDS, MOST_ROUNDS, MOST_READING)):
        for plan in plans(rows, *settings):
            saved_plan = type(plan).read(plan.as_dict())
            saved_plan.require_allowed(own=False)
            assert saved_plan == plan


DEMO_FILES = ["inorder-demo-reader.jsonl", "inorder-demo.jsonl", "inorder-report.html"]


@pytest.mark.server
def test_a_small_demo_completes(
    tmp_path: Path, server: Installation, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each measurement performs a fixed number of inserts. A timed measurement would use all processors."""
    monkeypatch.setattr("inorder.commands.demo.InsertPlan", partial(InsertPlan, inserts=1000))
    for name, setting in surroundings(server, shared_folder).items():
        monkeypatch.setenv(name, setting)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    # Writers and readers use all the CPU time they can get. On one core, that is half as much.
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        done = CliRunner().invoke(cli, ["demo", "--rows", "32k", "--seconds", "1", "--rounds", "1", "--reading", "1"])
    finally:
        os.sched_setaffinity(0, cores)
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == DEMO_FILES
    assert done.stdout.startswith("Losing rows: 16 writers, 1 s")
    assert load(tmp_path / "inorder-demo-reader.jsonl").complete
    assert "Inserting into a table of 2,000 rows" in done.stdout
    assert "Inserting into a table of 32,000 rows" in done.stdout
    for label in ("bigint", "xact", "version 7", "time-prefixed", "sequence-prefixed", "random"):
        assert table_lines(done.stdout, label) == 2
    result = load(tmp_path / "inorder-demo.jsonl")
    assert result.complete and len(result.select("insert")) == 12
    direct = server.has_direct_io and takes_direct_io(shared_folder)
    assert result.method == (DIRECT_IO if direct else EXACT_COUNTERS)
    assert result.server["settings"]["shared_buffers"] == "4096 8kB"
    assert list(shared_folder.iterdir()) == []

    report = inorder("lab", "report", "inorder-demo.jsonl", "--format", "csv", folder=tmp_path)
    tables = Counter(row["table"] for row in csv.DictReader(StringIO(report.stdout)))
    # The tables of each size, their details and the model each have six rows, one per kind of key.
    assert sorted(tables.values()) == [6] * 6
    page = (tmp_path / "inorder-report.html").read_text()
    assert "Losing rows: 16 writers, 1 s" in page and "Inserting into a table of 32,000 rows" in page
    as_json = inorder("lab", "report", "inorder-demo.jsonl", "--format", "json", folder=tmp_path)
    assert len(json.loads(as_json.stdout)) == 36


DEMO = [sys.executable, "-m", "inorder", "demo", "--rows", "16k", "--seconds", "1", "--rounds", "50", "--reading", "1"]


@pytest.mark.server
def test_ctrl_c_prints_and_keeps_what_was_measured(tmp_path: Path, server: Installation, shared_folder: Path) -> None:
    with subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=surroundings(server, shared_folder),
    ) as demo:  # fmt: skip
        path = tmp_path / "inorder-demo.jsonl"
        wait_for(lambda: path.exists() and len(load(path).select("insert")) >= 2)
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130, err
    assert "interrupted" in err and "Traceback" not in err
    assert "Inserting into a table of 1,000 rows" in out
    result = load(path)
    assert not result.complete and len(result.select("insert")) >= 2
    assert "was interrupted" in (tmp_path / "inorder-report.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == DEMO_FILES
    assert list(shared_folder.iterdir()) == []


@pytest.mark.server
@pytest.mark.parametrize("moment", [0.3, 0.5, 0.7, 0.9, 1.2, 1.6, 2.0] if LONG_RUN else [0.5, 0.9, 1.6])
def test_ctrl_c_at_any_moment_leaves_no_files(
    tmp_path: Path, server: Installation, shared_folder: Path, moment: float
) -> None:
    with subprocess.Popen(
        DEMO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=surroundings(server, shared_folder),
    ) as demo:  # fmt: skip
        wait_for(lambda: cpu_seconds(demo.pid) >= 0.1)  # wait until Python has started
        time.sleep(moment)
        demo.send_signal(signal.SIGINT)
        time.sleep(0.05)
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=PATIENCE)
    # while commands are loaded, the signal terminates Python itself
    assert demo.returncode in (130, -signal.SIGINT), err
    assert list(shared_folder.iterdir()) == []
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".partial"]


HEAD = {
    "schema": 2, "experiment": "insert", "created": "", "inorder": "", "seed": 1, "plan": {}, "server": {},
    "machine": {}, "method": "",
}  # fmt: skip


def file_of(head: dict[str, object], *runs: dict[str, object]) -> str:
    return "".join(json.dumps(line) + "\n" for line in [{"result": head}, *({"run": run} for run in runs)])


def test_a_damaged_result_causes_one_clear_error_message(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(file_of(HEAD | {"plan": {"rows": 7}}))
    done = inorder("lab", "report", "r.json", folder=tmp_path)
    assert done.returncode == 2 and "r.json is damaged" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "g.json").write_text(file_of(HEAD | {"plan": {"rows": 7}, "experiment": "generators"}))
    done = inorder("lab", "report", "g.json", "r.json", "--html", "p.html", folder=tmp_path)
    assert done.returncode == 2 and "r.json is damaged" in done.stderr and not (tmp_path / "p.html").exists()
    done = inorder("lab", "report", "g.json", "--html", "p.html", folder=tmp_path)
    assert done.returncode == 0 and "Nothing was measured" in (tmp_path / "p.html").read_text()


def with_tps(value: object) -> dict[str, object]:
    return {"step": "insert", "kind": "bigint", "rows": 1000, "round": 1, "metrics": {"tps": value}}


@pytest.mark.parametrize("command", ["report", "resume"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\xff", "r.json is not a result file"),
        (file_of({"schema": 99}), "r.json has schema version 99; this version of inorder reads 2"),
        (file_of(HEAD | {"server": []}), "r.json is damaged: Expected `object`, got `array` - at `$.result.server`"),
        (file_of(HEAD, with_tps(10**400)), "is damaged: "),
        (file_of(HEAD | {"experiment": "fly"}), '"fly"'),
    ],
)
def test_a_file_that_cannot_be_used_causes_one_clear_error_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, content: bytes | str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = content if isinstance(content, bytes) else content.encode()
    Path("r.json").write_bytes(before)
    with pytest.raises((InputError, click.ClickException)) as caught:
        cli(["lab", command, "r.json"], standalone_mode=False)
    assert getattr(caught.value, "exit_code", None) == 2
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert Path("r.json").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


PG_CONFIG = """#!/bin/sh
printf '%s = %s\\n' BINDIR {folder} SHAREDIR /s PKGLIBDIR /l INCLUDEDIR-SERVER /i PGXS /p CC gcc {version}
"""


@pytest.mark.usefixtures("on_a_disk")  # 10 M rows might not fit into memory, which would be a different error
@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("VERSION 'PostgreSQL 14.11'", "PostgreSQL 14.11 (--bindir) is too old: inorder needs PostgreSQL 15 or later"),
        ("VERSION 'PostgreSQL 15.4'", "PostgreSQL 15.4 (--bindir) has no program pgbench in "),
        ("VERSION devel", "pg_config reports no version: devel"),
        ("", "pg_config (--bindir) did not report VERSION"),
    ],
)
def test_a_server_that_cannot_be_used_causes_one_clear_error_message(
    tmp_path: Path, version: str, message: str
) -> None:
    program = tmp_path / "pg_config"
    program.write_text(PG_CONFIG.format(folder=tmp_path, version=version))
    program.chmod(0o755)
    done = inorder("lab", "run", "insert", "--bindir", ".", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"inorder: {message}" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [program]


def test_several_results_are_distinguished_in_every_format(tmp_path: Path) -> None:
    plan = {"writers": 16, "seconds": 3, "rounds": 1}
    metrics = dict.fromkeys(
        ("seconds", "committed", "delivered", "lost", "twice", "longest_wait_ms", "median_wait_ms", "longest_poll_ms",
         "polls", "held"), 3,
    )  # fmt: skip
    run = {"step": "read", "kind": "feed", "rows": 0, "round": 1, "metrics": metrics}
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(file_of(HEAD | {"experiment": "reader", "plan": plan}, run))
    done = inorder("lab", "report", "a.json", "b.json", "--html", "p.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("a.json: reader") < done.stdout.index("b.json: reader")
    assert done.stdout.count("Losing rows: 16 writers, 3 s") == 2
    assert "Side by side" in (tmp_path / "p.html").read_text()
    rows = json.loads(inorder("lab", "report", "a.json", "b.json", "--format", "json", folder=tmp_path).stdout)
    assert [(row["result"], row["experiment"], row["lost"]) for row in rows] == [
        ("a.json", "reader", 3), ("b.json", "reader", 3)
    ]  # fmt: skip
    words = inorder("lab", "report", "a.json", "b.json", "--format", "markdown", folder=tmp_path).stdout
    assert "# b.json: reader" in words and words.count("| inorder feed | 3 | 3 | 3.0 ms | 3.0 ms |") == 2


@pytest.mark.parametrize(
    "words", ["--help", "lab run --help", "choose --rows 1M --rate 10", "generate uuid-v4 --count 9", "lab report r"]
)
def test_a_closed_output_pipe_ends_any_command_without_a_message(tmp_path: Path, words: str) -> None:
    save(recorded("reader"), tmp_path / "r")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "inorder", *words.split()], cwd=tmp_path, check=False, stdout=writing,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("module", "status", "message"),
    [("inorder.cli", -signal.SIGINT, ""), ("inorder.generate.command", 130, "inorder: interrupted\n"),
     ("numpy", 130, "inorder: interrupted\n")],
)  # fmt: skip
def test_an_interrupt_while_modules_load_prints_one_line_at_most(module: str, status: int, message: str) -> None:
    program = (
        "import os, runpy, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == '{module}': os.kill(os.getpid(), 2)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['inorder', 'generate', 'uuid-v4', '--count', '1']\n"
        "runpy.run_module('inorder', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr.lstrip("\n")) == (status, message)


@pytest.mark.parametrize("words", ["", "lab", "lab run", "extension"])
def test_the_help_of_a_group_shows_whole_summaries_and_imports_no_command(words: str) -> None:
    group: click.Command = cli
    for word in words.split():
        assert isinstance(group, Group)
        group = group.commands[word]
    program = f"import sys; from inorder.cli import cli\ntry: cli({[*words.split(), '--help']})"
    program += "\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    output = done.stdout.partition("Commands:")[2]
    assert output and "..." not in output
    assert not {"numpy", "psycopg", "jinja2", "inorder.tail.command"} & set(output.split())
    assert isinstance(group, Group)
    for name, summary in group.summaries(click.Context(group)) if words else ():  # the top level has shorter summaries
        assert group.commands[name].get_short_help_str(1000).startswith(summary.removesuffix(".")), name


def test_two_processes_may_replace_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with replacing(path) as slow:
        slow.write(b"1" * 100_000)
        write_whole(path, "2" * 10)
        assert path.read_text() == "2" * 10
    assert path.read_text() == "1" * 100_000 and list(tmp_path.iterdir()) == [path]


def test_there_is_no_pause_after_the_last_try(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert list(patience.attempts()) == list(range(1, patience.TRIES + 1))
    assert len(pauses) == patience.TRIES - 1


def test_an_unexpected_answer_of_a_server_causes_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """inorder lab shows a traceback, so that nobody has to repeat a long run to get one."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("inorder.cli.cli", lambda **_: lines(b"\x1b"))  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match=r"^1$"):
        main()
    stderr = capsys.readouterr().err
    assert stderr.startswith("inorder: TypeError at text.py, line ") and "; HINT: Either the server has" in stderr
    monkeypatch.setattr("inorder.cli.cli", lambda **_: paired_ratio([1.0, 2.0], None))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        main()
