"""inorder tail --format binary: what COPY of the same rows writes, byte for byte, whatever happens in between."""

import os
from functools import partial

import psycopg
import pytest
from inorder.connection.database import Connection

from conftest import scalar
from ground import run
from tail_runs import Tail, insert
from waiting import PATIENCE, wait_for

pytestmark = pytest.mark.server

RUN = ("events", "--position", "p", "--format", "binary")


def copied(connection: Connection, rows: str = "events ORDER BY id") -> bytes:
    with connection.cursor().copy(f"COPY (SELECT * FROM {rows}) TO STDOUT (FORMAT binary)".encode()) as copy:
        return b"".join(bytes(block) for block in copy)


def size_of(tail: Tail) -> int:
    return (tail.folder / "out").stat().st_size


def has_bytes(tail: Tail, least: int) -> bool:
    return size_of(tail) > least


@pytest.mark.editions
@pytest.mark.parametrize("count", [0, 1, 25])
def test_a_pipe_gets_what_copy_writes(fresh: Connection, tail: Tail, count: int) -> None:
    insert(fresh, count)
    assert tail.written(*RUN, "--batch-rows", "10") == copied(fresh)


def test_a_feed_and_a_command(fresh: Connection, tail: Tail) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    assert tail.written("--feed", "f", "--format", "binary") == copied(fresh)
    tail(*RUN, "--batch-rows", "2", "--exec", "cat > $INORDER_ROWS.$INORDER_BYTES")
    for place in ("n < 3", "n = 3"):
        expected = copied(fresh, f"events WHERE {place} ORDER BY id")
        rows = 2 if place == "n < 3" else 1
        assert (tail.folder / f"{rows}.{len(expected)}").read_bytes() == expected
    framed = tail.written(*RUN[:2], "framed", *RUN[3:], "--frame")
    assert framed.partition(b"}\n")[2] == copied(fresh)


def test_a_file_is_a_whole_one_after_each_run(fresh: Connection, tail: Tail) -> None:
    tail.appended(*RUN)
    assert (tail.folder / "out").read_bytes() == b""
    for first in (1, 26, 51):
        insert(fresh, 25, first)
        for _ in range(2):
            tail.appended(*RUN, "--batch-rows", "10")
            assert (tail.folder / "out").read_bytes() == copied(fresh)
    fresh.execute("CREATE TABLE again (LIKE events)")
    with fresh.cursor().copy("COPY again FROM STDIN (FORMAT binary)") as copy:
        copy.write((tail.folder / "out").read_bytes())
    assert fresh.execute("TABLE events EXCEPT TABLE again").fetchall() == []


@pytest.mark.parametrize("form", ["csv", "binary"])
def test_generated_columns_are_read_back_as_the_manual_says(fresh: Connection, tail: Tail, form: str) -> None:
    """COPY takes no value of a generated column, and CREATE TABLE … (LIKE …) makes a plain column of it."""
    run(fresh, "CREATE TABLE g (xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, n int, "
               "twice int GENERATED ALWAYS AS (2 * n) STORED, PRIMARY KEY (n))", "CREATE INDEX ON g (xact)",
        "SELECT feed_enable('g')", "INSERT INTO g (n) VALUES (1), (2)", "CREATE TABLE copy (LIKE g)")  # fmt: skip
    written = tail.written("g", "--position", "p", "--format", form)
    options = "FORMAT csv, HEADER" if form == "csv" else "FORMAT binary"
    with fresh.cursor().copy(f"COPY copy FROM STDIN ({options})".encode()) as copy:
        copy.write(written)
    assert fresh.execute("SELECT n, twice FROM copy ORDER BY n").fetchall() == [(1, 2), (2, 4)]
    assert scalar(fresh, "SELECT count(*) FROM (TABLE g EXCEPT TABLE copy) AS others") == 0
    run(fresh, "TRUNCATE copy", "CREATE TABLE anew (LIKE g INCLUDING GENERATED)")
    with pytest.raises(psycopg.Error), fresh.cursor().copy(f"COPY anew FROM STDIN ({options})".encode()) as copy:
        copy.write(written)


def test_killed_at_any_moment_a_file_has_each_row_once(fresh: Connection, tail: Tail) -> None:
    (tail.folder / "out").touch()
    for first in range(1, 40_000, 1000):
        insert(fresh, 1000, first)
    for kills in range(1, 6):
        with tail.started(*RUN, "--follow", "--batch-rows", "50", to="out") as running:
            wait_for(partial(has_bytes, tail, kills * 50_000))
            running.kill()
            running.wait()
    for _ in range(2):
        tail.appended(*RUN)
        assert (tail.folder / "out").read_bytes() == copied(fresh)
        os.truncate(tail.folder / "out", size_of(tail) - 1)  # a crash of the host kept half of what ends the file


def tail_error(tail: Tail) -> str:
    with tail.started(*RUN, to="out") as running:
        running.wait(PATIENCE)
        assert running.stderr
        return running.stderr.read().decode()


def test_rows_of_another_form_are_refused(fresh: Connection, tail: Tail) -> None:
    """A reader of the file could not find where they begin."""
    insert(fresh, 3)
    tail.appended(*RUN)
    before = (tail.folder / "out").read_bytes()
    fresh.execute("ALTER TABLE events ADD more int")
    insert(fresh, 1, 4)
    assert "or of other columns, or another header\nHINT:  Start a new file." in tail_error(tail)
    assert (tail.folder / "out").read_bytes() == before[:-2]
    (tail.folder / "out").rename(tail.folder / "former")
    tail.appended(*RUN)
    assert (tail.folder / "out").read_bytes() == copied(fresh, "events WHERE n = 4")
    (tail.folder / "p").unlink()
    assert "which binary rows cannot follow" in tail_error(tail)
