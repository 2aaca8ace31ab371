"""inorder tail --format parquet writes one file per batch, with the same values as on the server."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from inorder.connection.database import Connection
from inorder.tail.parquet import ParquetSink
from inorder.tail.request import Request
from inorder.tail.source import Source
from pyarrow import parquet

from conftest import LONG_RUN
from tail_runs import Tail, insert
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.server

RUN = ("events", "--position", "p", "--format", "parquet", "--directory", "out")
FILES = "*.parquet"


def rows(folder: Path) -> list[int]:
    return sorted(n for path in (folder / "out").glob(FILES) for n in parquet.read_table(path).column("n").to_pylist())


def has_files(folder: Path, least: int) -> bool:
    return len(list((folder / "out").glob(FILES))) >= least


def test_each_batch_is_a_file(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 25)
    assert tail(*RUN, "--batch-rows", "10") == ""
    assert rows(tail.folder) == list(range(1, 26))
    insert(fresh, 2, 26)
    tail(*RUN)
    tail(*RUN)
    assert rows(tail.folder) == list(range(1, 28))
    assert sorted(parquet.read_metadata(path).num_rows for path in (tail.folder / "out").glob(FILES)) == [2, 5, 10, 10]
    assert {path.name for path in (tail.folder / "out").iterdir() if path.suffix != ".parquet"} == {".inorder"}


def test_a_feed_names_its_files_by_batch(fresh: Connection, tail: Tail) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    run = ("--feed", "f", "--format", "parquet", "--directory", "out")
    tail(*run, "--batch-rows", "2")
    assert {path.name for path in (tail.folder / "out").glob(FILES)} == {"1.parquet", "2.parquet"}
    assert rows(tail.folder) == [1, 2, 3]
    assert 'has the files of the feed "f" of role "postgres" in database "tail"' in tail(*RUN, code=2)


def test_a_repeated_batch_replaces_its_file(fresh: Connection, tail: Tail) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    run = ("--feed", "f", "--format", "parquet", "--directory", "out")
    fresh.execute("ALTER FUNCTION feed_finish_batch RENAME TO away")
    assert "feed_finish_batch" in tail(*run, code=2)
    fresh.execute("ALTER FUNCTION away RENAME TO feed_finish_batch")
    (path,) = (tail.folder / "out").glob(FILES)
    assert rows(tail.folder) == [1, 2, 3]
    (elsewhere := tail.folder / "elsewhere").touch()
    (tail.folder / "out" / f".{path.stem}.partial").symlink_to(elsewhere)  # the link must not be followed
    with path.open() as before:
        tail(*run)
        assert not os.path.samestat(os.fstat(before.fileno()), path.stat()) and elsewhere.stat().st_size == 0
    assert rows(tail.folder) == [1, 2, 3]


def test_each_row_is_in_one_file_after_a_kill_at_any_moment(fresh: Connection, tail: Tail) -> None:
    for first in range(1, 1000, 100):
        insert(fresh, 100, first)
    for kills in range(1, 4 if LONG_RUN else 3):
        with tail.started(*RUN, "--follow", "--batch-rows", "50") as running:
            wait_for(partial(has_files, tail.folder, 4 * kills))
            running.kill()
            running.wait()
    assert len(rows(tail.folder)) < 1000
    tail(*RUN, "--batch-rows", "50")
    assert rows(tail.folder) == list(range(1, 1001))
    assert not [path for path in (tail.folder / "out").iterdir() if path.name.endswith(".partial")]


def test_null_and_empty_text_differ_in_a_table_of_one_column(fresh: Connection, tail: Tail) -> None:
    fresh.execute("CREATE TABLE v (t text, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)")
    fresh.execute("CREATE INDEX ON v (xact)")
    fresh.execute("SELECT feed_enable('v')")
    fresh.execute("INSERT INTO v VALUES (null), (''), (E'\\n')")
    tail("v", *RUN[1:])
    (path,) = (tail.folder / "out").glob(FILES)
    assert parquet.read_table(path).column("t").to_pylist() == [None, "", "\n"]


def test_another_reader_is_refused(fresh: Connection, tail: Tail) -> None:
    """Files of two readers would be mixed, and a reader that starts over would write rows a second time."""
    insert(fresh, 3)
    tail(*RUN)
    assert f"not of the position file {tail.folder.resolve() / 'q'}" in tail(*RUN[:2], "q", *RUN[3:], code=2)
    (tail.folder / "p").unlink()
    for _ in range(2):  # a rejected run must not save a position, because the next run would continue from it
        assert "rows would be duplicated" in tail(*RUN, code=2)
    assert rows(tail.folder) == [1, 2, 3]
    (tail.folder / "out" / ".inorder").write_bytes(b"\xff")
    assert "has the files of the \ufffd" in tail(*RUN, code=2)


def test_added_columns_are_in_later_files(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 1)
    with tail.started(*RUN, "--follow") as running:
        wait_for(lambda: (tail.folder / "out").exists() and rows(tail.folder) == [1])
        fresh.execute("ALTER TABLE events ADD COLUMN more text DEFAULT 'm'")
        insert(fresh, 1, 2)
        wait_for(lambda: running.poll() is not None or rows(tail.folder) == [1, 2])
    tail(*RUN)
    tables = [parquet.read_table(path) for path in (tail.folder / "out").glob(FILES)]
    assert sorted(table.column_names for table in tables) == [["id", "n"], ["id", "n", "more"]]


def test_a_directory_that_cannot_be_written_is_an_error(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 3)
    assert "cannot write /proc/.inorder" in tail(*RUN[:-1], "/proc", code=2)
    (tail.folder / "p").unlink()
    tail(*RUN)
    assert rows(tail.folder) == [1, 2, 3]


def test_an_older_copy_of_the_position_file_is_refused(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 20)
    tail(*RUN, "--batch-rows", "10")
    older, before = (tail.folder / "p").read_bytes(), set((tail.folder / "out").glob(FILES))
    for first, count in ((21, 20), (41, 10)):
        insert(fresh, count, first)
        tail(*RUN, "--batch-rows", "10")
    newest = (tail.folder / "p").read_bytes()
    for size in ("10", "50"):
        (tail.folder / "p").write_bytes(older)
        assert "which p does not have: " in tail(*RUN, "--batch-rows", size, code=2)
        assert (tail.folder / "p").read_bytes() == older
    assert rows(tail.folder) == list(range(1, 51))
    (tail.folder / "p").write_bytes(newest)
    tail(*RUN)
    (tail.folder / "p").write_bytes(older)
    for path in set((tail.folder / "out").glob(FILES)) - before:
        path.unlink()
    tail(*RUN, "--accept-output")
    insert(fresh, 5, 51)
    tail(*RUN)
    assert rows(tail.folder) == list(range(1, 56))


def test_another_directory_is_refused(fresh: Connection, tail: Tail) -> None:
    """With a misspelled directory, the rows of an export would be in two directories."""
    insert(fresh, 3)
    tail(*RUN)
    insert(fresh, 3, 4)
    other = (*RUN[:-1], "other")
    for _ in range(2):
        error = tail(*other, code=2)
        assert "other is not the directory that p belongs to: it has no batch\n" in error
        assert f"HINT:  Use --directory {tail.folder.resolve() / 'out'}. Or use --accept-output" in error
        assert not (tail.folder / "other").exists()
    tail(*other, "--accept-output")
    insert(fresh, 3, 7)
    tail(*other)
    insert(fresh, 3, 10)
    error = tail(*RUN, code=2)
    assert "out does not have the last batch of p\n" in error
    assert f"HINT:  Use --directory {tail.folder.resolve() / 'other'}. Or use --accept-output" in error
    for path in (tail.folder / "other").glob(FILES):
        path.rename(tail.folder / "out" / path.name)
    tail(*RUN, "--accept-output")
    tail(*RUN)
    assert rows(tail.folder) == list(range(1, 13))


def test_a_directory_may_be_moved(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 3)
    out, name = tail.folder / "out", os.fsdecode(b"o'\xff")
    tail(*RUN)
    out.rename(tail.folder / name)
    insert(fresh, 3, 4)
    error = tail(*RUN, code=2)  # as if the file system of the directory were not mounted
    assert "HINT:  Use the directory with the last batch. Or use --accept-output" in error
    for first in (4, 7):
        tail(*RUN[:-1], name)
        insert(fresh, 3, first + 3)
    assert name not in tail(*RUN, code=2)
    (tail.folder / name).rename(out)
    tail(*RUN)
    assert rows(tail.folder) == list(range(1, 13))


def test_a_file_and_a_directory_are_different_outputs(fresh: Connection, tail: Tail) -> None:
    insert(fresh, 3)
    tail(*RUN)
    insert(fresh, 3, 4)
    with tail.started(*RUN[:3], to="file") as running:
        assert running.wait(PATIENCE) == 2 and running.stderr
        assert f"the position belongs to the directory {tail.folder.resolve() / 'out'}, not" in (
            running.stderr.read().decode()
        )
    tail.appended(*RUN[:3], "--accept-output", to="file")
    insert(fresh, 3, 7)
    assert "p belongs to a file, not to the directory new" in tail(*RUN[:-1], "new", code=2)
    tail.appended(*RUN[:3], to="file")
    assert rows(tail.folder) == [1, 2, 3] and tail.rows("file") == list(range(4, 10))


def test_a_file_of_another_feed_stays(fresh: Connection, tail: Tail) -> None:
    run = ("--feed", "f", "--format", "parquet", "--directory", "out", "--batch-rows", "1")
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 2)
    tail(*run)
    (tail.folder / "out" / "3.parquet").write_bytes(b"another")
    insert(fresh, 1, 3)
    assert '3.parquet exists, and was not written for batch 3 of feed "f"' in tail(*run, code=2)
    assert (tail.folder / "out" / "3.parquet").read_bytes() == b"another"


def test_files_have_about_the_target_size(fresh: Connection, tail: Tail) -> None:
    """The number of rows in the first file is an estimate.

    For each further file, it is derived from the size of the previous file.
    """
    for first in range(1, 60_001, 1000):
        insert(fresh, 1000, first)
    tail(*RUN, "--batch-rows", "1000", "--target-file-size", "200kB")
    sizes = [path.stat().st_size for path in (tail.folder / "out").glob(FILES)]
    assert 2 < len(sizes) < 12 and sorted(sizes)[len(sizes) // 2] in range(100_000, 300_000), sizes
    assert rows(tail.folder) == list(range(1, 60_001))


def test_new_rows_are_collected_for_a_file_of_the_target_size(fresh: Connection, tail: Tail) -> None:
    with tail.started(*RUN, "--follow", "--target-file-size", "1MB", "--interval", "1s") as running:
        for first in range(1, 31):
            insert(fresh, 1, first)
        wait_for(lambda: (tail.folder / "out").exists() and rows(tail.folder) == list(range(1, 31)))
        running.kill()
    assert len(list((tail.folder / "out").glob(FILES))) < 5


def test_a_batch_may_end_with_a_group_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder.tail.parquet.GROUP_BYTES", 1)
    request = Request("", "events", tmp_path / "p", None, output="parquet", directory=tmp_path / "out")
    sink = ParquetSink(lambda _count: None, request)
    sink.resume(cast(Source, SimpleNamespace(is_new=True, output=lambda: None, begun=None)), accept=False)
    sink.check()
    sink.begin("batch", b"", b"")
    sink.write(pa.record_batch({"n": [1, 2]}), b"")
    sink.finish()
    assert rows(tmp_path) == [1, 2]


def test_without_disk_space_a_directory_is_unchanged(fresh: Connection, tail: Tail) -> None:
    """Closing the incomplete file must not cause a second error."""
    insert(fresh, 4_000)
    message = tail.without_room(20_000, *RUN)
    assert "cannot write out/" in message and "File too large" in message, message
    assert [path.name for path in (tail.folder / "out").iterdir()] == [".inorder"]
