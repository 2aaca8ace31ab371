"""inorder tail --format binary writes the same bytes as COPY for the same rows."""

import os

import psycopg
import pytest
from inorder.connection.database import Connection

from tail_runs import Tail, insert
from waiting import PATIENCE
from world.sql import run, value

pytestmark = pytest.mark.server

RUN = ("events", "--position", "p", "--format", "binary")


def copied(connection: Connection, rows: str = "events ORDER BY id") -> bytes:
    with connection.cursor().copy(f"COPY (SELECT * FROM {rows}) TO STDOUT (FORMAT binary)".encode()) as copy:
        return b"".join(bytes(block) for block in copy)


@pytest.mark.editions
@pytest.mark.parametrize("count", [0, 1, 25])
def test_a_pipe_gets_what_copy_writes(fresh: Connection, tail: Tail, count: int) -> None:
    insert(fresh, count)
    assert tail.written(*RUN, "--batch-rows", "10") == copied(fresh)


def test_feeds_commands_and_frames_get_what_copy_writes(fresh: Connection, tail: Tail) -> None:
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


@pytest.mark.parametrize("form", ["csv", "binary"])
def test_generated_columns_are_read_back_as_the_manual_says(fresh: Connection, tail: Tail, form: str) -> None:
    """COPY accepts no values for a generated column. CREATE TABLE … (LIKE …) turns it into a plain column."""
    run(fresh, "CREATE TABLE g (xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, n int, "
               "twice int GENERATED ALWAYS AS (2 * n) STORED, PRIMARY KEY (n))", "CREATE INDEX ON g (xact)",
        "SELECT feed_enable('g')", "INSERT INTO g (n) VALUES (1), (2)", "CREATE TABLE copy (LIKE g)")  # fmt: skip
    written = tail.written("g", "--position", "p", "--format", form)
    options = "FORMAT csv, HEADER" if form == "csv" else "FORMAT binary"
    with fresh.cursor().copy(f"COPY copy FROM STDIN ({options})".encode()) as copy:
        copy.write(written)
    assert fresh.execute("SELECT n, twice FROM copy ORDER BY n").fetchall() == [(1, 2), (2, 4)]
    assert value(fresh, "SELECT count(*) FROM (TABLE g EXCEPT TABLE copy) AS others") == 0
    run(fresh, "TRUNCATE copy", "CREATE TABLE anew (LIKE g INCLUDING GENERATED)")
    with pytest.raises(psycopg.Error), fresh.cursor().copy(f"COPY anew FROM STDIN ({options})".encode()) as copy:
        copy.write(written)


@pytest.mark.parametrize("form", ["csv", "binary", "arrow"])
def test_rows_with_other_columns_are_not_written_into_the_same_pipe(fresh: Connection, tail: Tail, form: str) -> None:
    """The reader of the pipe could not tell where these rows begin."""
    insert(fresh, 3)
    with tail.started("events", "--position", "p", "--format", form, "--follow") as running:
        assert running.stdout and running.stderr
        before = os.read(running.stdout.fileno(), 100_000)
        fresh.execute("ALTER TABLE events ADD more int")
        insert(fresh, 1, 4)
        assert running.wait(PATIENCE) == 1
        assert b"all rows of an output must have the same columns: run the command" in running.stderr.read()
        assert before and running.stdout.read() == b""
