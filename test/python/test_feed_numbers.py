"""No number of a batch comes again under a name: who had a feed of this name would finish rows unread."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection, one_row
from inorder.lab.server.cluster import Cluster

from conftest import scalar
from ground import PLAIN, run, state
from restoring import copied

pytestmark = [pytest.mark.server, pytest.mark.editions]

ABSENT = "22023"  # invalid_parameter_value: no such unfinished batch
UNFINISHED = "55000"  # object_not_in_prerequisite_state
SNAPSHOT = "40001"  # serialization_failure
RESTORED = 10**15  # microseconds since 1970, from 2001 on
NEXT = "SELECT feed_next_batch('{}')"
GONE = "SELECT count(*) FROM inorder_internal.gone_feed"


def batch(connection: Connection, feed: str = "z", finish: bool = True) -> int:
    run(connection, "INSERT INTO t (n) VALUES (1)")
    number = scalar(connection, NEXT.format(feed))
    assert isinstance(number, int)
    if finish:
        run(connection, f"SELECT feed_finish_batch('{feed}', {number})")
    return number


@pytest.fixture
def used(fresh: Connection) -> Connection:
    run(fresh, PLAIN.replace("note int", "note text DEFAULT current_user"), "SELECT feed_create('z', 't', 'now')")
    assert [batch(fresh) for _ in range(3)] == [1, 2, 3]
    assert scalar(fresh, GONE) == 0
    return fresh


def goes_on(connection: Connection, number: int) -> None:
    assert batch(connection, finish=False) == number
    for old in range(1, number) if number < 10 else (1, 2, 3):
        assert state(connection, f"SELECT feed_finish_batch('z', {old})") == ABSENT
    run(connection, f"SELECT feed_finish_batch('z', {number})")
    assert scalar(connection, GONE + " WHERE name = 'z'") == 0


def test_a_feed_that_was_dropped(used: Connection) -> None:
    for number in (4, 5):
        run(used, "SELECT feed_drop('z')", "SELECT feed_create('z', 't', 'now')", "SELECT feed_drop('z')")
        run(used, "SELECT feed_create('z', 't', 'now')")
        goes_on(used, number)
    run(used, "SELECT feed_create('y', 't', 'now')")
    assert batch(used, "y") == 1


@pytest.mark.parametrize("unfinished", ["none", "pending", "worker's"])
def test_a_table_that_was_made_again(used: Connection, unfinished: str) -> None:
    said: list[str] = []
    used.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    number = 4 if unfinished == "none" else 5
    if unfinished == "pending":
        assert batch(used, finish=False) == 4
    elif unfinished == "worker's":
        run(used, "INSERT INTO t DEFAULT VALUES")
        assert scalar(used, "SELECT number FROM feed_take_batch('z', 'w')") == 4
    run(used, "DROP TABLE t", PLAIN, "SELECT feed_create('z', 't')")
    warning = "discarding unfinished batches of feed 'z', whose table was dropped"
    assert said == ([] if unfinished == "none" else [warning])
    goes_on(used, number)


def test_a_batch_of_a_table_that_was_dropped(used: Connection) -> None:
    run(used, "INSERT INTO t DEFAULT VALUES")
    number, token = one_row(used, "SELECT number, token FROM feed_take_batch('z', 'w')")
    run(used, "DROP TABLE t")
    for given in (token, "NULL"):
        assert state(used, f"SELECT feed_finish_batch('z', {number}, {given})", "42P01") == "42P01"
    assert scalar(used, "SELECT count(*) FROM feed_batches") == 1


def test_a_name_that_is_free_again(used: Connection) -> None:
    run(used, "SELECT feed_rename('z', 'y')", "SELECT feed_create('z', 't', 'now')")
    goes_on(used, 4)
    assert batch(used, "y") == 4
    run(used, "SELECT feed_drop('z')", "SELECT feed_create('x', 't', 'now')")
    assert batch(used, "x") == 1
    run(used, "SELECT feed_rename('x', 'z')")
    goes_on(used, 5)
    run(used, "SELECT feed_rename('z', 'x')", "SELECT feed_rename('x', 'z')")
    assert batch(used) == 6


@pytest.mark.parametrize("take", [NEXT, "SELECT number FROM feed_take_batch('{}', 'w')"], ids=["pending", "worker's"])
def test_unfinished_batches_keep_their_numbers(used: Connection, take: str) -> None:
    run(used, "SELECT feed_drop('z')", "SELECT feed_create('y', 't', 'now')", "INSERT INTO t DEFAULT VALUES")
    assert scalar(used, take.format("y")) == 1
    assert state(used, "SELECT feed_rename('y', 'z')") == UNFINISHED
    run(used, "SELECT feed_rename('y', 'x')", "SELECT feed_seek('x', 'now')", "SELECT feed_rename('x', 'z')")
    goes_on(used, 4)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("gone", ["SELECT feed_drop('z')", "SELECT feed_rename('z', 'y')"], ids=["drop", "rename"])
def test_an_older_snapshot(used: Connection, other: Connection, level: str, gone: str) -> None:
    run(other, f"BEGIN ISOLATION LEVEL {level}")
    assert scalar(other, GONE) == 0
    run(used, gone)
    assert state(other, "SELECT feed_create('z', 't', 'now')") == SNAPSHOT
    run(other, "ROLLBACK", f"BEGIN ISOLATION LEVEL {level}", "SELECT feed_create('z', 't', 'now')", "COMMIT")
    goes_on(used, 4)


@pytest.fixture
def roles(cluster: Cluster, used: Connection) -> Iterator[Connection]:
    names = "numbers_one, numbers_two"
    run(used, "DROP ROLE IF EXISTS numbers_one, numbers_two, numbers_new",
        "CREATE ROLE numbers_one", "CREATE ROLE numbers_two", f"GRANT ALL ON t TO {names}")  # fmt: skip
    yield used
    run(used, "RESET ROLE", "DROP OWNED BY numbers_two", "DROP TABLE IF EXISTS t")
    run(used, "DROP ROLE IF EXISTS numbers_one, numbers_two, numbers_new")


def feed_of(connection: Connection, role: str) -> int:
    run(connection, "RESET ROLE", f"SET ROLE {role}", "SELECT feed_create('z', 't', 'now')")
    return batch(connection)


def test_names_are_those_of_a_role(roles: Connection) -> None:
    """Each role has its own numbers. The owner of a table drops feeds of others, whose numbers stay.

    So they do if the role gets another name.
    """
    assert feed_of(roles, "numbers_one") == 1
    run(roles, "RESET ROLE", "SELECT feed_drop('z')", "ALTER TABLE t OWNER TO numbers_two")
    assert feed_of(roles, "numbers_two") == 1
    run(roles, "SELECT feed_drop('z', 'numbers_one')")
    assert feed_of(roles, "numbers_one") == 2
    run(roles, "SELECT feed_drop('z')", "RESET ROLE", "ALTER ROLE numbers_one RENAME TO numbers_new")
    assert feed_of(roles, "numbers_new") == 3
    run(roles, "RESET ROLE")
    assert feed_of(roles, str(scalar(roles, "SELECT session_user"))) == 4


def test_a_forged_row(roles: Connection, edition_name: str) -> None:
    assert feed_of(roles, "numbers_one") == 1
    forged = (
        "INSERT INTO inorder_internal.gone_feed (name, owner, owner_name, batch) VALUES ('{}', '{}'::regrole, '{}', 9)"
    )
    names = ("numbers_one", "numbers_two")
    run(roles, "RESET ROLE", "SET ROLE numbers_two")
    allowed = [(owner, name) for owner in names for name in names
               if state(roles, forged.format("z", owner, name)) == ""]  # fmt: skip
    assert allowed == ([("numbers_two", "numbers_two")] if edition_name == "sql" else [])
    run(roles, "RESET ROLE", "SET ROLE numbers_one", "SELECT feed_drop('z')", "RESET ROLE", "SET ROLE numbers_two")
    if edition_name == "sql":
        for change in ("gone_feed SET batch = 0", "gone_feed SET name = 'x'", "removable_gone_feed SET removed = true"):
            changed = roles.execute(f"UPDATE inorder_internal.{change} WHERE batch = 1".encode())
            assert changed.rowcount == 0, change
    number = feed_of(roles, "numbers_two")
    assert number > RESTORED if edition_name == "sql" else number == 1
    assert feed_of(roles, "numbers_one") == 2


def test_the_owner_of_the_table_forges_no_number(roles: Connection, edition_name: str) -> None:
    assert feed_of(roles, "numbers_one") == 1
    run(roles, "RESET ROLE", "SELECT feed_drop('z')", "ALTER TABLE t OWNER TO numbers_two", "SET ROLE numbers_two")
    denied, broken = "42501", "23514" if edition_name == "sql" else "42501"  # insufficient_privilege, check_violation
    feed = "UPDATE inorder_internal.feed_state SET batch = {}"
    gone = (
        "INSERT INTO inorder_internal.gone_feed (name, owner, owner_name, batch, batch_origin) "
        "SELECT name, owner, owner_name, {}, {} FROM inorder_internal.feed AS f "
        "JOIN inorder_internal.feed_state AS s ON s.feed = f.id"
    )
    own = f"INSERT INTO inorder_internal.gone_feed VALUES ('x', 'numbers_two'::regrole, 'numbers_two', {2**53})"
    for statement, refused in (
        (feed.format(0), denied), (feed.format(2**53), broken), (gone.format(9, "batch_origin"), denied),
        (gone.format("batch", "'x'"), denied), (own, broken),
    ):  # fmt: skip
        assert state(roles, statement) == refused, statement
    if edition_name == "sql":
        run(roles, gone.format("batch", "batch_origin"))  # what feed_drop() writes
        forged = roles.execute(b"UPDATE inorder_internal.gone_feed SET batch = batch")
        assert forged.rowcount == 1
        assert state(roles, "UPDATE inorder_internal.gone_feed SET batch = 9") == denied
    run(roles, "SELECT feed_drop('z', 'numbers_one')")
    assert feed_of(roles, "numbers_one") == 2


def test_a_forged_row_prevents_no_drop(roles: Connection, edition_name: str) -> None:
    assert feed_of(roles, "numbers_one") == 1
    if edition_name == "sql":
        run(roles, "INSERT INTO inorder_internal.gone_feed VALUES ('z', 'numbers_one'::regrole, 'numbers_one', 9)")
    run(roles, "RESET ROLE", "SELECT feed_drop('z')", "ALTER TABLE t OWNER TO numbers_two", "SET ROLE numbers_two",
        "SELECT feed_drop('z', 'numbers_one')")  # fmt: skip
    number = feed_of(roles, "numbers_one")
    assert number > RESTORED if edition_name == "sql" else number == 2


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_dump_and_restore(cluster: Cluster, used: Connection, tmp_path: Path, form: str) -> None:
    """Batches that the other database has returned since are not known: the numbers go on above any of them."""
    run(used, "SELECT feed_drop('z')")
    with copied(cluster, used.info.dbname, cluster, "numbers_copy", form, tmp_path) as restored:
        assert scalar(restored, GONE) == 1
        run(restored, "ALTER TABLE t RENAME TO old", PLAIN)
        run(restored, "SELECT feed_create('z', 't')", "SELECT feed_create('y', 't')")
        assert batch(restored, "y") == 1
        number = batch(restored)  # as other feeds of a restored database
        assert number > RESTORED
        run(restored, "SELECT feed_drop('z')", "SELECT feed_create('z', 't')")
        assert batch(restored) == number + 1
