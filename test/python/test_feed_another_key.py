"""Another primary key, while batches are unfinished: each row comes once, or an error says how it does."""

import psycopg
import pytest
from inorder.connection.database import Connection, one_row

from conftest import scalar
from ground import GROUND, run, state

pytestmark = [pytest.mark.server, pytest.mark.editions]

KEYS = {"other": "n", "wider": "xact, id", "longer": "id, n"}
SHARED = ", partition_by => 'n', shares => 2"
ROWS = list(range(1, 21))


def make(connection: Connection, options: str) -> None:
    run(connection, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, xact bigint NOT NULL DEFAULT xact_id())",
        "CREATE INDEX ON t (xact)", f"SELECT feed_create('z', 't'{options})",
        "INSERT INTO t SELECT i, 21 - i FROM generate_series(1, 10) AS i",
        "INSERT INTO t SELECT i, 21 - i FROM generate_series(11, 20) AS i")  # fmt: skip


def change_key(connection: Connection, columns: str) -> None:
    run(connection, "ALTER TABLE t DROP CONSTRAINT t_pkey", f"ALTER TABLE t ADD PRIMARY KEY ({columns})",
        "SELECT feed_enable('t')")  # fmt: skip


def rows_of(connection: Connection, batch: object) -> list[int]:
    found = connection.execute(f"SELECT id FROM feed_batch_rows('z', {batch}, null::t)".encode()).fetchall()
    return [int(str(row[0])) for row in found]


def take(connection: Connection, worker: str, limit: object) -> tuple[object, object]:
    number, token = one_row(connection, f"SELECT number, token FROM feed_take_batch('z', '{worker}', {limit})")
    return number, token


def finish(connection: Connection, batch: object, token: object) -> list[int]:
    found = rows_of(connection, batch)
    assert scalar(connection, f"SELECT feed_finish_batch('z', {batch}, {token})") is True
    return found


def rest(connection: Connection) -> list[int]:
    found: list[int] = []
    while (given := take(connection, "rest", 4))[0] is not None:
        found += finish(connection, *given)
    return found


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
@pytest.mark.parametrize("key", KEYS)
def test_batches_of_whole_transactions_stay(fresh: Connection, key: str, options: str) -> None:
    make(fresh, options)
    held = take(fresh, "w", "NULL")
    before = rows_of(fresh, held[0])
    assert before
    change_key(fresh, KEYS[key])
    assert sorted(rows_of(fresh, held[0])) == sorted(before)
    run(fresh, "INSERT INTO t SELECT i, 100 - i FROM generate_series(21, 30) AS i")
    assert sorted(finish(fresh, *held) + rest(fresh)) == list(range(1, 31))


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
@pytest.mark.parametrize("key", KEYS)
def test_batches_that_are_cut_inside_a_transaction(fresh: Connection, key: str, options: str) -> None:
    make(fresh, options)
    held = [take(fresh, worker, 3) for worker in ("v", "w")]
    before = [rows_of(fresh, batch) for batch, _ in held]
    assert all(0 < len(found) <= 3 for found in before)
    change_key(fresh, KEYS[key])
    if key == "wider":  # the number and then the id, as before
        assert [rows_of(fresh, batch) for batch, _ in held] == before
    else:
        assert state(fresh, f"SELECT feed_batch_rows('z', {held[0][0]}, null::t)") == GROUND
        with pytest.raises(Exception, match=r"is not the one by which transaction .* was read in part") as refused:
            take(fresh, "rest", 3)
        assert "Give the table that key back" in str(refused.value)
        run(fresh, f"SELECT feed_fail_batch('z', {held[1][0]}, {held[1][1]}, 'unreadable')")
        change_key(fresh, "id")
        assert [rows_of(fresh, batch) for batch, _ in held] == before
        held[1] = take(fresh, "w", 3)
    found = [row for given in held for row in finish(fresh, *given)]
    assert sorted(found + rest(fresh)) == ROWS
    change_key(fresh, KEYS[key])
    run(fresh, "INSERT INTO t SELECT i, 100 - i FROM generate_series(21, 30) AS i")
    assert sorted(rest(fresh)) == list(range(21, 31))


@pytest.mark.parametrize("options", ["", SHARED], ids=["workers", "shares"])
def test_a_key_that_does_not_come_back(fresh: Connection, options: str) -> None:
    """The other way of the hint: from what has been finished on, so that rows come again, and none is lost."""
    make(fresh, options)
    finished = finish(fresh, *take(fresh, "v", 3))
    assert finished
    take(fresh, "w", 3)
    change_key(fresh, "n")
    assert state(fresh, "SELECT feed_seek('z', 'here')") == GROUND
    run(fresh, "SELECT feed_seek('z', (SELECT position FROM feeds WHERE name = 'z'))")
    assert sorted(rest(fresh)) == ROWS


def test_a_batch_is_split_by_the_key_that_it_remembers(fresh: Connection) -> None:
    """Not by another one, which its parts would not know of."""
    make(fresh, "")
    batch = scalar(fresh, "SELECT reader_next_batch('t', reader_start('t'))::text")
    split = (
        f"SELECT e.id FROM reader_split('t', '{batch}'::text::feed_batch, 4) AS p, "
        "reader_batch_rows('t', p, null::t) AS e"
    )
    assert sorted(int(str(row[0])) for row in fresh.execute(split.encode())) == ROWS
    change_key(fresh, KEYS["other"])
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is not the one by which transaction"):
        run(fresh, f"SELECT reader_split('t', '{batch}'::text::feed_batch, 4)")
