"""No run overwrites the file of another."""

from pathlib import Path

import pytest
from inorder.commands.demo import embedded_one, hidden, new_files
from inorder.commands.options import new_file
from inorder.errors import InputError
from inorder.files import unused
from inorder.lab.results import DIRECT_IO, EXACT_COUNTERS, Result
from inorder.lab.server.servers import Server


def test_the_usual_name_gets_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that is free."""
    monkeypatch.chdir(tmp_path)
    for name in ("r.json", "r-2.json", "r-3.json"):
        assert unused(Path("r.json")).name == new_file(None, "r.json").name == name
        Path(name).touch()


def test_a_file_that_was_asked_for_is_not_overwritten(tmp_path: Path) -> None:
    """The hint is the command that goes on with it. What is no file can be written to."""
    file = tmp_path / "r.json"
    assert new_file(file, "") == file and new_file(Path("/dev/null"), "") == Path("/dev/null")
    file.touch()
    with pytest.raises(InputError, match=r"r\.json exists; HINT: inorder lab resume .*r\.json, or another --out"):
        new_file(file, "")


def test_the_files_of_a_demo_have_the_same_number(tmp_path: Path) -> None:
    """Also where one of the earlier ones is missing."""
    assert [path.name for path in new_files(tmp_path)] == [
        "inorder-report.html", "inorder-demo-reader.json", "inorder-demo.json"
    ]  # fmt: skip
    (tmp_path / "inorder-demo-reader.json").touch()
    assert [path.name for path in new_files(tmp_path)] == [
        "inorder-report-2.html", "inorder-demo-reader-2.json", "inorder-demo-2.json"
    ]  # fmt: skip


def test_the_demo_says_what_this_machine_hides(server: Server) -> None:
    """Without direct I/O; where the server is too old for it, the embedded one shows it."""
    result = Result("insert", "now", "0", 1, {}, {}, {}, DIRECT_IO)
    assert hidden(result, server) == []
    result.method = EXACT_COUNTERS
    (told,) = hidden(result, server)
    assert ("inorder demo --embedded" in told) != server.has_direct_io
    with pytest.raises(InputError, match="exclude each other"):
        embedded_one(Path())
