"""The result file: round trip, atomic writing, and files that are not one."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from inorder.errors import InputError
from inorder.lab.experiments.bulk import BulkPlan
from inorder.lab.results import SCHEMA_VERSION, Result, Run, load

from test_cli import inorder


def result() -> Result:
    """A small one."""
    runs = [Run("insert", "v7", 1000, 1, {"tps": 1.5}, {"tps": [1.0, 2.0]})]
    return Result("insert", "now", "0", 1, {"rows": [1000]}, {"version": "18"}, {"cores": 2}, "mock", ["a note"], runs)


def test_round_trip(tmp_path: Path) -> None:
    """What is loaded equals what was saved."""
    path = tmp_path / "r.json"
    result().save(path)
    assert load(path) == result()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    """And no partial one."""
    path = tmp_path / "r.json"
    result().save(path)
    before = path.read_text()
    broken = result()
    broken.plan = {"not": object()}
    with pytest.raises(TypeError):
        broken.save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a result file"),
        ("[1, 2]", "has no schema version"),
        ('{"a": 1}', "has no schema version"),
        ('{"schema": "1"}', "has no schema version"),
        (json.dumps({"schema": SCHEMA_VERSION + 1}), f"has schema version {SCHEMA_VERSION + 1}"),
        (json.dumps({"schema": SCHEMA_VERSION}), "is damaged"),
        ("[" * 100_000, "is not a result file: maximum recursion"),
        (json.dumps({"schema": int("9" * 4000)}), "has schema version 9{79}…;"),
        (json.dumps({"schema": 1, "a": "\ud800"}), "is not a result file: .*surrogate"),
        (json.dumps({"schema": SCHEMA_VERSION, "runs": [{"step": "x", "other": 1}]}), "is damaged"),
    ],
)
def test_what_is_no_result_file_says_so(tmp_path: Path, content: str, message: str) -> None:
    """One sentence with the file's name."""
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(InputError, match=rf"r\.json.*{message}"):
        load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, 10**400], ids=["nan", "inf", "1e308", "10**400"])
@pytest.mark.parametrize("part", ["metrics", "series"])
def test_what_cannot_have_been_measured_is_damage(tmp_path: Path, value: float, part: str) -> None:
    """No report and no page can be made of it."""
    path = tmp_path / "r.json"
    content = asdict(result())
    content["runs"][0][part]["tps"] = value if part == "metrics" else [value]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"r\.json is damaged: no figure") as raised:
        load(path)
    assert len(str(raised.value)) < 200 + len(str(path))


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(InputError, match=r"cannot read .*none\.json: No such file"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(("part", "damage"), [("server", {"settings": [0]}), ("machine", {"memory_bytes": "x"})])
def test_what_only_the_page_shows_is_looked_at_too(tmp_path: Path, part: str, damage: dict[str, object]) -> None:
    """Before the page is written, or a run is gone on with whose page could not be."""
    path = tmp_path / "r.json"
    content = asdict(result()) | {"experiment": "bulk", "plan": BulkPlan().as_dict()}
    content[part] |= damage
    path.write_text(json.dumps(content))
    for arguments in (("report", "r.json", "--html", "p.html"), ("resume", "r.json")):
        done = inorder("lab", *arguments, folder=tmp_path)
        assert done.returncode == 2 and "r.json is damaged: " in done.stderr
    assert list(tmp_path.iterdir()) == [path]
