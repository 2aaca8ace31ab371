"""The result file: writing and reading, atomic replacement, and invalid files."""

import gzip
import json
import os
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import pytest
from inorder.errors import InorderError, InputError
from inorder.files import only_writer, require_writable
from inorder.lab.experiments.bulk import BulkPlan
from inorder.lab.results.journal import SCHEMA_VERSION, Journal, lines_of, load, load_all, save
from inorder.lab.results.result import Result, Run

from tool import inorder


def result() -> Result:
    runs = [Run("insert", "v7", 1000, 1, {"tps": 1.5}, {"tps": [1.0, 2.0]})]
    return Result("insert", "now", "0", 1, {"rows": [1000]}, {"version": "18"}, {"cores": 2}, "mock", ["a note"], runs)


def test_a_saved_result_is_read_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save(result(), path)
    assert load(path) == result()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save(result(), path)
    before = path.read_text()
    broken = result()
    broken.plan = {"not": object()}
    with pytest.raises(TypeError):
        save(broken, path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_a_device_refused(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "r.json")
    save(result(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and load(tmp_path / "r.json") == result()
    os.mkfifo(tmp_path / "pipe")
    for write in (lambda path: save(result(), path), require_writable):
        with pytest.raises(InputError, match=r"cannot write .*pipe: it is not a regular file"):
            write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(result(), tmp_path / "r.json")

    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InorderError, match=r"cannot write .*r\.json: No space left"):
        save(Result("insert", "now", "0", 1, {}, {}, {}, "mock"), tmp_path / "r.json")
    assert load(tmp_path / "r.json") == result() and len(list(tmp_path.iterdir())) == 1


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "r.json")
    for _ in range(2):
        with only_writer(tmp_path / "r.json"), only_writer(tmp_path / "other.json"):
            done = inorder("lab", "run", "bulk", "--rows", "1000", "--out", "link.json", folder=tmp_path)
            assert done.returncode == 1 and "cannot write link.json: another run writes it" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["link.json"]


def test_the_page_is_not_written_over_the_result(tmp_path: Path) -> None:
    done = inorder("lab", "run", "bulk", "--out", "x", "--html", "../" + tmp_path.name + "/x", folder=tmp_path)
    assert done.returncode == 2 and "--out and --html are the same file" in done.stderr
    save(result(), tmp_path / "x")
    done = inorder("lab", "report", "x", "--html", "x", folder=tmp_path)
    assert done.returncode == 2 and "x exists; HINT: " in done.stderr and load(tmp_path / "x")


HEAD = lines_of(Result("insert", "now", "0", 1, {}, {}, {}, "mock")).decode().strip()


def test_each_measurement_adds_a_line(tmp_path: Path) -> None:
    path, grown = tmp_path / "r.jsonl", result()
    journal = Journal(path)
    journal.save(grown)
    inode, first = path.stat().st_ino, path.read_bytes()
    grown.runs.append(Run("insert", "v7", 1000, 2, {"tps": 2}))
    journal.save(grown)
    added = path.read_bytes().removeprefix(first)
    assert path.stat().st_ino == inode and json.loads(added)["run"]["metrics"] == {"tps": 2} and load(path) == grown
    grown.complete = True
    journal.save(grown)
    assert path.stat().st_ino == inode and path.read_bytes().endswith(b'\n{"complete":true}\n') and load(path) == grown
    del grown.runs[0]
    journal.save(grown)
    assert load(path) == grown and path.read_bytes() == lines_of(grown)


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path, packed = tmp_path / "r.jsonl.gz", gzip.compress(lines_of(result()))
    path.write_bytes(packed)
    assert load(path) == result() and load_all(path) == [result()]
    for damaged in (packed[:-20], packed[:12] + b"\xff\xff" + packed[14:], packed[:2] + b"?"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"r\.jsonl\.gz is damaged"):
            load(path)


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path, content = tmp_path / "r.jsonl", lines_of(result())
    for end in range(content.index(b"\n") + 1, len(content)):
        path.write_bytes(content[:end])
        assert load(path).runs == [] and not load(path).complete
    Journal(path).save(result())
    assert path.read_bytes() == content


def head_of_version(version: int, **more: str) -> str:
    return json.dumps({"result": {"schema": version} | more}) + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a result file"),
        ("[1, 2]", "has no schema version"),
        ('{"a": 1}', "has no schema version"),
        ('{"result":{"schema":"1"}}', "has no schema version"),
        ('{"result":1}\n', "has no schema version"),
        ('{"result":{"schema":', "is not a result file"),
        (head_of_version(SCHEMA_VERSION + 1), f"has schema version {SCHEMA_VERSION + 1}"),
        (head_of_version(SCHEMA_VERSION), "is damaged"),
        ("[" * 100_000, "is not a result file: maximum recursion"),
        (head_of_version(int("9" * 4000)), "has schema version 9{79}…;"),
        (head_of_version(SCHEMA_VERSION, a="\ud800"), "is not a result file"),
        (head_of_version(SCHEMA_VERSION, a="\udc00"), "is not a result file: .*surrogate"),
        (HEAD.replace('"plan":{}', '"plan":7') + "\n", "is damaged: .*plan"),
        (HEAD + '\n{"run":{"step":"x"}}\n', "is damaged: .*kind"),
        (HEAD + '\n{"other":1}\n', "is damaged: .*other"),
        (HEAD + "\n\n", "is damaged"),
        (HEAD + "\n" + HEAD + "\n", "is damaged: only the first line can describe the run"),
        (HEAD, "is damaged: only the first line"),
    ],
)
def test_a_file_that_is_not_a_result_is_refused_with_the_reason(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(InputError, match=rf"r\.json.*{message}"):
        load(path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e308", "1" + 400 * "0"], ids=["nan", "inf", "1e308", "10**400"])
@pytest.mark.parametrize("field", ["metrics", "series"])
def test_impossible_measurements_are_refused_as_damage(tmp_path: Path, value: str, field: str) -> None:
    path, damaged = tmp_path / "r.json", result()
    damaged.runs = [replace(damaged.runs[0], metrics={"tps": 4711}, series={"tps": [4712]})]
    path.write_text(lines_of(damaged).decode().replace("4711" if field == "metrics" else "4712", value))
    with pytest.raises(InputError, match=r"r\.json is damaged: ") as raised:
        load(path)
    assert len(str(raised.value)) < 200 + len(str(path))


@pytest.mark.parametrize(("field", "damage"), [("server", {"settings": [0]}), ("machine", {"memory_bytes": "x"})])
def test_data_that_only_the_page_shows_are_checked_too(tmp_path: Path, field: str, damage: dict[str, object]) -> None:
    path = tmp_path / "r.json"
    damaged = replace(result(), experiment="bulk", plan=BulkPlan().as_dict())
    getattr(damaged, field).update(damage)
    save(damaged, path)
    for arguments in (("report", "r.json", "--html", "p.html"), ("resume", "r.json")):
        done = inorder("lab", *arguments, folder=tmp_path)
        assert done.returncode == 2 and "r.json is damaged: " in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_names_are_not_interpreted_as_markup(tmp_path: Path) -> None:
    """The terminal library would treat [/y] in a name as the end of a style."""
    for name in ("a.json", "[red].json"):
        save(replace(result(), experiment="bulk", plan=BulkPlan().as_dict(), created="[/y]"), tmp_path / name)
    done = inorder("lab", "report", "a.json", "[red].json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a.json: bulk, [/y]" in done.stdout and "[red].json: bulk" in done.stdout
