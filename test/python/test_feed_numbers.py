"""A later feed of the same name reuses no batch number, because a sink would skip the rows of a known number."""

import time
from pathlib import Path

import pytest
from inorder.connection.database import Connection, one_row
from inorder.lab.server.cluster import Cluster

from ground import FROM_CLOCK, PLAIN, state
from restoring import copied
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

ABSENT = "22023"  # invalid_parameter_value: no such unfinished batch
JUMP = 10**9
LIMIT = 2**53 - 1
TAKE = "SELECT number, token FROM feed_take_batch('{}', 'w', 1)"


def now() -> int:
    return time.time_ns() // 1000


def batch(connection: Connection, feed: str = "z") -> int:
    run(connection, "INSERT INTO t (n) VALUES (1)")
    number, token = one_row(connection, TAKE.format(feed))
    assert isinstance(number, int)
    run(connection, f"SELECT feed_finish_batch('{feed}', {number}, {token})")
    return number


@pytest.fixture
def used(fresh: Connection) -> Connection:
    """Return a session in which batch numbers begin at the current time, as after an installation.

    In other tests they begin at 1.
    """
    run(fresh, *FROM_CLOCK, PLAIN, "SELECT feed_create('z', 't', 'now')")
    return fresh


def test_batch_numbers_start_at_the_current_time_and_count_up(used: Connection) -> None:
    before = now()
    run(used, "SELECT feed_create('y', 't', 'now')")
    first = batch(used, "y")
    assert before < first < now()
    assert [batch(used, "y") for _ in range(3)] == [first + 1, first + 2, first + 3]


@pytest.mark.parametrize("freed", [
    ["SELECT feed_drop('z')"],
    ["SELECT feed_rename('z', 'y')"],
    ["DROP TABLE t", PLAIN],
    ["SELECT feed_rename('z', 'y')", "SELECT feed_drop('y')"],
])  # fmt: skip
def test_numbers_grow_if_a_name_is_used_again(used: Connection, freed: list[str]) -> None:
    last = [batch(used) for _ in range(3)][-1]
    run(used, *freed, "SELECT feed_create('z', 't', 'now')")
    assert batch(used) > last


def test_numbers_grow_if_a_feed_is_renamed_to_a_former_name(used: Connection) -> None:
    run(used, "SELECT feed_create('old', 't', 'now')", "SELECT feed_drop('z')", "SELECT feed_create('z', 't', 'now')")
    last = batch(used)
    run(used, "SELECT feed_drop('z')", "SELECT feed_rename('old', 'z')")
    assert batch(used) > last


def test_numbers_grow_if_the_extension_is_created_again(used: Connection, edition_name: str) -> None:
    if edition_name == "sql":
        pytest.skip("the SQL edition is no extension")
    last = batch(used)
    run(used, "DROP EXTENSION inorder CASCADE", "DROP TABLE t", "CREATE EXTENSION inorder", PLAIN)
    run(used, "SELECT feed_create('z', 't', 'now')")
    assert batch(used) > last


def test_numbers_grow_if_the_role_is_created_again(used: Connection) -> None:
    make = ("CREATE ROLE numbers_one", "GRANT ALL ON t TO numbers_one", "SET ROLE numbers_one",
            "SELECT feed_create('z', 't', 'now')")  # fmt: skip
    run(used, "DROP ROLE IF EXISTS numbers_one", *make)
    last = batch(used)
    run(used, "SELECT feed_drop('z')", "RESET ROLE", "DROP OWNED BY numbers_one", "DROP ROLE numbers_one", *make)
    assert batch(used) > last
    run(used, "SELECT feed_drop('z')", "RESET ROLE", "DROP OWNED BY numbers_one", "DROP ROLE numbers_one")


def elsewhere(connection: Connection, ahead: int) -> int:
    """Store a last batch number as if it came from a server whose clock was ahead, and return this number."""
    last = now() + ahead
    run(connection, f"UPDATE inorder_internal.feed_state SET batch = {last}, batch_origin = '1/1'")
    return last


def test_numbers_grow_if_the_clock_is_behind_that_of_the_former_server(used: Connection) -> None:
    """The clock of the other server was a day ahead.

    New batch numbers must still be higher than those of the other server.
    """
    last = elsewhere(used, 86_400_000_000)
    assert batch(used) == last + JUMP
    assert batch(used) == last + JUMP + 1


def test_numbers_follow_the_clock_if_it_is_ahead_of_the_former_server(used: Connection) -> None:
    old = "UPDATE inorder_internal.feed_state SET batch_origin = '1/1', batch = batch - 86400000000"
    run(used, "SET session_replication_role = replica", old, "RESET session_replication_role")
    before = now()
    assert before < batch(used) < now()


def test_numbers_are_exact_in_json(used: Connection) -> None:
    run(used, f"UPDATE inorder_internal.feed_state SET batch = {LIMIT - 1}")
    assert batch(used) == LIMIT
    run(used, "INSERT INTO t (n) VALUES (1)")
    assert state(used, TAKE.format("z")) == "54000"  # program_limit_exceeded
    run(used, f"UPDATE inorder_internal.feed_state SET batch_origin = '1/1', batch = {LIMIT}")
    assert state(used, TAKE.format("z")) == "54000"


def test_a_batch_of_a_dropped_table_cannot_be_finished(used: Connection) -> None:
    run(used, "INSERT INTO t DEFAULT VALUES")
    number, token = one_row(used, TAKE.format("z"))
    run(used, "DROP TABLE t")
    for batch_token in (token, "NULL"):
        assert state(used, f"SELECT feed_finish_batch('z', {number}, {batch_token})", "42P01") == "42P01"
    assert value(used, "SELECT count(*) FROM feed_batches") == 1


def test_unfinished_batches_keep_their_numbers(used: Connection) -> None:
    run(used, "INSERT INTO t DEFAULT VALUES")
    number, token = one_row(used, TAKE.format("z"))
    run(used, "SELECT feed_rename('z', 'y')")
    assert state(used, f"SELECT feed_finish_batch('y', {number + 1}, {token})") == ABSENT
    run(used, f"SELECT feed_finish_batch('y', {number}, {token})")


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_numbers_grow_after_a_restore(cluster: Cluster, used: Connection, tmp_path: Path, form: str) -> None:
    """The dumped database may hand out further batches after the dump. New numbers must be higher than theirs."""
    last = batch(used)
    with copied(cluster, used.info.dbname, cluster, "numbers_copy", form, tmp_path) as restored:
        run(restored, "SELECT feed_rebase('t')")
        assert batch(restored) >= last + JUMP
