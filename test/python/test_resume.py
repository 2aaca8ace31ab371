"""inorder lab resume: an interrupted run is gone on with where it may be, and refused where it may not."""

import json
from pathlib import Path

import pytest
from inorder.errors import InputError
from inorder.lab.results import Result, load
from inorder.lab.session import check_same_place
from inorder.servers import Server

from test_cli import inorder

MACHINE = {"cpu": "A 9000", "cores": 4, "memory_bytes": 2**34, "filesystem": "ext4", "commit": "abc", "kernel": "6"}


def a_result(machine: dict[str, object]) -> Result:
    """Measured on PostgreSQL 18.6 by direct I/O."""
    return Result("insert", "now", "0", 1, {}, {"version": "18.6"}, machine, "direct I/O")


@pytest.mark.parametrize(
    ("version", "method", "here", "message"),
    [
        ("15.9", "direct I/O", {}, "PostgreSQL 18.6 there, 15.9 here"),
        ("18.6", "exact counters", {}, "method direct I/O there, exact counters here"),
        ("18.6", "direct I/O", {"cores": 8}, "cores 4 there, 8 here"),
        ("18.6", "direct I/O", {"filesystem": "tmpfs"}, "filesystem ext4 there, tmpfs here"),
    ],
)
def test_halves_that_do_not_fit_are_refused(version: str, method: str, here: dict[str, object], message: str) -> None:
    """Another server, method or machine."""
    with pytest.raises(InputError, match=message):
        check_same_place(a_result(MACHINE), version, method, MACHINE | here)


def test_what_fits_goes_on() -> None:
    """Another commit or kernel is no other machine; nor is one of which nothing was noted yet."""
    check_same_place(a_result(MACHINE), "18.6", "direct I/O", MACHINE | {"commit": "def", "kernel": "7"})
    check_same_place(a_result({}), "18.6", "direct I/O", MACHINE)


@pytest.mark.server
def test_an_interrupted_run_is_resumed(tmp_path: Path, server: Server) -> None:
    """The whole round is kept, the one that was cut off is made anew; a complete file is refused."""
    asked = ("--keys", "bigint,v7", "--rows", "1000", "--inserts", "80", "--rounds", "2", "--out", "r.json")
    done = inorder("lab", "run", "insert", *asked, folder=tmp_path, server=server)
    assert done.returncode == 0, done.stderr
    again = inorder("lab", "resume", "r.json", folder=tmp_path, server=server)
    assert again.returncode == 2 and "r.json is complete" in again.stderr

    content = json.loads((tmp_path / "r.json").read_text())
    places = [place for place, run in enumerate(content["runs"]) if run["step"] == "insert"]
    content["runs"] = content["runs"][: places[2] + 1]  # a turn of the second round is there
    content["runs"][places[2]]["metrics"]["tps"] = -1.0
    (tmp_path / "r.json").write_text(json.dumps(content | {"complete": False}))
    done = inorder("lab", "resume", "r.json", folder=tmp_path, server=server)
    assert done.returncode == 0, done.stderr
    result = load(tmp_path / "r.json")
    turns = [(run.kind, run.round) for run in result.select("insert")]
    assert result.complete and sorted(turns) == [("bigint", 1), ("bigint", 2), ("v7", 1), ("v7", 2)]
    assert all(run.metrics["tps"] > 0 for run in result.select("insert"))
    assert result.select("insert")[0].metrics in [
        run["metrics"] for run in content["runs"] if run["round"] == 1
    ]
    assert "resumed" in result.notes[0]
