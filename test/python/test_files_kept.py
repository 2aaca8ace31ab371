"""No run overwrites a file that another run has written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from inorder.commands.demo import hidden, new_files
from inorder.commands.options import new_file
from inorder.errors import InputError
from inorder.files import require_writable, unused, write_whole
from inorder.installations import Installation
from inorder.lab.results.result import DIRECT_IO, EXACT_COUNTERS, Result

from tool import inorder


def test_an_unused_number_is_added_to_the_default_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("r.json", "r-2.json", "r-3.json"):
        assert unused(Path("r.json")).name == new_file(None, "r.json").name == name
        Path(name).touch()


def test_a_file_named_by_the_user_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    assert new_file(file, "") == file and new_file(Path("/dev/null"), "") == Path("/dev/null")
    file.touch()
    with pytest.raises(
        InputError, match=r"r\.json exists; HINT: Run inorder lab resume .*r\.json, or give another --out"
    ):
        new_file(file, "")


@pytest.mark.parametrize(
    "command", [("run", "reader"), ("run", "feed", "--quick"), ("report", "r.json"), ("resume", "r.json")]
)
def test_no_command_overwrites_an_existing_page(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "p.html").write_text("mine")
    done = inorder("lab", *command, "--html", "p.html", folder=tmp_path)
    assert done.returncode == 2 and "p.html exists; HINT: Remove the file, or give another --html" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"] and (tmp_path / "p.html").read_text() == "mine"


def test_the_files_of_a_demo_have_the_same_number(tmp_path: Path) -> None:
    assert [path.name for path in new_files(tmp_path)] == [
        "inorder-report.html", "inorder-demo-reader.jsonl", "inorder-demo.jsonl"
    ]  # fmt: skip
    (tmp_path / "inorder-demo-reader.jsonl").touch()
    assert [path.name for path in new_files(tmp_path)] == [
        "inorder-report-2.html", "inorder-demo-reader-2.jsonl", "inorder-demo-2.jsonl"
    ]  # fmt: skip


def test_the_demo_says_which_effects_the_method_cannot_show(server: Installation) -> None:
    result = Result("insert", "now", "0", 1, {}, {}, {}, DIRECT_IO)
    assert hidden(result, server) == []
    result.method = EXACT_COUNTERS
    (message,) = hidden(result, server)
    assert ("inorder demo --embedded" in message) != server.has_direct_io


def test_a_file_is_complete_even_if_several_threads_write_it(tmp_path: Path) -> None:
    path, texts = tmp_path / "f", [letter * 10_000 for letter in "ab"]

    def write(text: str) -> set[str]:
        texts_read = set()
        for _ in range(200):
            require_writable(path)
            write_whole(path, text)
            texts_read.add(path.read_text())
        return texts_read

    with ThreadPoolExecutor() as pool:
        assert set().union(*pool.map(write, texts)) == set(texts)
    assert list(tmp_path.iterdir()) == [path]
