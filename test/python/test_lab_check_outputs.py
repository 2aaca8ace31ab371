"""Outputs of inorder lab check for other programs: a protocol, JUnit, SARIF, a record, and a pytest fixture."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from inorder.errors import InputError
from inorder.installations import Installation
from inorder.lab.check import programs, protocol, run
from inorder.lab.check.arena import Arena, Failure, Outcome, conform
from inorder.lab.check.history import Event, History, Judgement
from inorder.lab.check.outputs import as_junit, as_record, as_sarif, hash_of, place_of
from inorder.lab.check.programs import Program
from inorder.lab.check.report import cases_section
from inorder.lab.check.run import Amount, throw_away
from inorder.lab.check.schedule import Step
from inorder.lab.check.verdict import Checked
from inorder.lab.check.ways import FATAL, Way, built_in
from inorder.lab.targets.throw_away import ThrowAway

from conftest import ROOT, text
from tool import inorder

EXAMPLES = ROOT / "docs" / "clients" / "check"


def test_the_schema_beside_the_page_is_that_of_the_tool() -> None:
    structures = (protocol.Poll, protocol.Line)
    (poll, answer), parts = msgspec.json.schema_components(structures, ref_template="#/$defs/{name}")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"inorder lab check, protocol version {protocol.VERSION}",
        "$defs": parts | {"Stdin": poll, "Stdout": answer},
        "anyOf": [{"$ref": "#/$defs/Stdin"}, {"$ref": "#/$defs/Stdout"}],
    }
    assert text("docs/clients/check/protocol.json") == json.dumps(schema, indent=1) + "\n"


def test_a_poll_of_the_first_version_keeps_its_fields() -> None:
    """Changed fields would break readers written for the first version of the protocol."""
    request = json.loads(protocol.ENCODER.encode(protocol.Poll("2001-01-01 00:00:04+00", 17)))
    assert request == {"now": "2001-01-01 00:00:04+00", "last": 17, "version": 1}
    answers = [protocol.DECODER.decode(line) for line in (b"18", b'"k"', b'{"last": [1]}', b"{}")]
    assert answers == [18, "k", protocol.End([1]), protocol.End()]


def printing(*lines: str) -> str:
    """Return a program that prints all of these lines at once in answer to each poll."""
    text = "".join(f"{line}\n" for line in lines)
    return shlex.join([sys.executable, "-uc", f"import sys\nfor _ in sys.stdin:\n    sys.stdout.write({text!r})"])


WRONG = {
    "a list": (printing("[1]", "{}"), "printed a line that is neither a key nor the end of a poll: [1]"),
    "a null": (printing("null", "{}"), "printed a line that is neither a key nor the end of a poll: null"),
    "another field": (printing('{"position": 1}'), "unknown field `position`"),
    "two ends": (printing("{}", "{}"), "printed a line after the end of its poll"),
    "no end": (
        printing("1"),
        'did not end its poll within 1 s; HINT: The program must print an object such as {"last": 17}',
    ),
    "no end of its own": (
        shlex.join(["sh", "-c", "while true; do read -r line && echo '{}'; done"]),
        "did not end within 1 s after the end of its input",
    ),
}

WAITED_FOR = {"no end": "ANSWER_SECONDS", "no end of its own": "END_SECONDS"}


@pytest.fixture(scope="module")
def target(server: Installation) -> Iterator[ThrowAway]:
    with throw_away((), server.bindir) as (new_target, _place):
        yield new_target


@pytest.mark.parametrize("name", WRONG)
def test_a_program_that_breaks_the_protocol_gets_an_error(
    target: ThrowAway, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, message = WRONG[name]
    if name in WAITED_FOR:  # other programs may start slowly, so they get no short timeout
        monkeypatch.setattr(programs, WAITED_FOR[name], 1)
    way = Way("p", "p", program=command)
    with closing(Arena(target, way)) as arena, pytest.raises(InputError, match=re.escape(message)):
        conform(arena)


def test_a_line_between_two_polls_is_an_error() -> None:
    command = shlex.join(["sh", "-c", "read -r line; echo '{}'; sleep 0.2; echo 7; cat"])
    with closing(Program(command, {})) as reader:
        reader.begin(0, "2001-01-01 00:00:00+00", kill=False)
        reader.wait(lambda _pid: ())
        assert reader.rows(0, kill=False) == ()
        assert reader.readable(60)
        with pytest.raises(InputError, match="printed a line after the end of its poll: 7"):
            reader.begin(0, "2001-01-01 00:00:01+00", kill=False)


def checked() -> list[Checked]:
    history = History([Event("A", "begin, insert 1"), Event("reader", "poll: \x1b")])
    lost = Failure((Step("A", "insert"), Step("reader", "poll")), history, Judgement(lost=("1",)))
    stalled = Failure((Step("A", "insert"),), history, Judgement())
    outcomes = [Outcome("overlap", 3, {"lost": lost}), Outcome("long", 2), Outcome("prepared", note="not here")]
    return [Checked(built_in()["id"], [*outcomes, Outcome("random load", 0, {"disorder": stalled})])]


def test_cells_of_cases_say_what_was_not_judged() -> None:
    """A dash for a skipped case, and for a random load that lost no row, would look the same."""
    (prepared, load) = cases_section(checked()[0]).records()[-2:]
    assert {prepared[fault] for fault in ("lost", "twice", "disorder", "stalled")} == {"skipped"}
    assert (load["lost"], load["twice"], load["stalled"]) == ("no", "no", "not judged")
    assert load["disorder"].startswith("out of order")


def test_junit_has_a_test_for_each_case() -> None:
    """A test fails only if it has a fault listed in --fail-on. Characters that XML does not allow are escaped."""
    (suite,) = ElementTree.fromstring(as_junit(checked(), FATAL))
    results = {test.get("name"): [child.tag for child in test] for test in suite}
    assert results == {"overlap": ["failure"], "long": [], "prepared": ["skipped"], "random load": []}
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "lost in 2 steps"
    assert failure.text and "poll: \\x1b" in failure.text and "row 1 is committed" in failure.text


def test_junit_of_a_reader_with_any_name_is_xml() -> None:
    (suite,) = ElementTree.fromstring(as_junit([Checked(Way("n\0", "t\udcff", "SELECT 1"), [Outcome("long")])], FATAL))
    assert (suite.get("name"), suite[0].get("classname")) == ("t\\udcff", "n\\x00")


def test_sarif_has_a_result_for_each_fault() -> None:
    (run,) = json.loads(as_sarif(checked(), "reader.py"))["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("lost", "error"),
        ("disorder", "note"),
    ]
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "reader.py"


def test_a_finding_points_to_the_file_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("reader.py", "ways.toml"):
        Path(name).touch()
    program = Way("p", "p", program="python3 reader.py")
    places = [place_of([program], None), place_of([program], Path("ways.toml")), place_of([built_in()["id"]], None)]
    assert places == ["reader.py", "ways.toml", "."]
    long = Way("p", "p", program=f"python3 -c {'x' * 300}")  # too long for a file name
    assert place_of([long], None) == "." and hash_of(long)


def test_the_hash_of_a_record_changes_with_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash depends on the program, but not on the reader's title or notes."""
    monkeypatch.chdir(tmp_path)
    Path("reader.py").write_text("1")
    program = Way("p", "p", program="python3 reader.py")
    before = hash_of(program)
    assert before == hash_of(Way("q", "another title", program="python3 reader.py", note="a note"))
    Path("reader.py").write_text("2")
    assert before != hash_of(program)
    assert as_record(checked(), "18.6", Amount()) == as_record(checked(), "18.6", Amount())


def test_a_users_own_reader_that_loses_rows_fails(server: Installation, tmp_path: Path) -> None:
    """A user's reader that loses rows fails even without --fail-on. A built-in reader known to lose rows does not."""
    words = ("--schedules", "3", "--load", "0.1s")
    poll = "SELECT id FROM events WHERE id > :last ORDER BY id"
    done = inorder(
        "lab", "check", "--sql", poll, *words, "--format", "junit", "--record", "r.json", folder=tmp_path, server=server
    )
    assert done.returncode == 3, done.stderr
    assert ElementTree.fromstring(done.stdout).find(".//failure") is not None
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["readers"][0]["verdict"].startswith("Yes: the reader loses rows of transactions that commit late")
    built = inorder("lab", "check", "id", *words, folder=tmp_path, server=server)
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("Yes: the reader loses rows of transactions that commit late, for good. Use a feed")


def test_readers_without_inorder_need_no_compiler(server: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    feed = built_in()["feed"]
    with run.throw_away([feed], server.bindir) as (throw_away, place):
        assert run.impossible(place, feed) == "there is no make to compile the extension"
        result = run.check(throw_away, built_in()["id"], Amount(3, 0.1))
        assert result.worst  # found by a schedule, because the load may be too short


def test_a_function_is_checked_in_pytest(server: Installation, tmp_path: Path) -> None:
    """Both tests of the example poll by id, so they fail with a verdict and a diagram.

    Here each case has three schedules.
    """
    example = (EXAMPLES / "test_reader.py").read_text()
    few = "schedules=3, load=0.1"
    short = example.replace("schedules=20", few).replace('id")\n', f'id", {few})\n')
    assert short.count(f"{few})") == 2
    (tmp_path / "test_reader.py").write_text(short)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:inorder",
        "-p",
        "inorder.lab.check.pytest_plugin",
        "-p",
        "no:cacheprovider",
    ]
    # With the same compiler options, the objects compiled by the test run are reused.
    options = {name: value for name, value in os.environ.items() if name == "COPT"}
    environment = options | {"PG_CONFIG": str(server.bindir / "pg_config"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Yes: the reader loses rows of transactions that commit late, for good") >= 2
    assert "is committed, and no poll returns it: lost" in done.stdout
