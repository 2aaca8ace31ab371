"""A call that waits for a lock takes its snapshot after the wait, and therefore sees what was committed meanwhile."""

import pytest
from inorder.connection.database import Connection

from ground import roles, state
from waiting import blocked
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

TABLE = "CREATE TABLE waited (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)"


def test_a_feed_created_during_a_wait_still_needs_all_rows(fresh: Connection, other: Connection) -> None:
    run(fresh, TABLE, "SELECT feed_create('first', 'waited')", "INSERT INTO waited (n) VALUES (1)")
    run(fresh, "SELECT feed_apply('first', 'SELECT FROM batch')")
    assert int(value(other, "SELECT feed_passed('waited')")) > 0
    run(fresh, "BEGIN", "LOCK TABLE waited", "SELECT feed_create('second', 'waited')")
    with blocked(value, other, "SELECT feed_passed('waited')") as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == 0


@pytest.mark.parametrize("change", ["SELECT feed_rebase('waited')", "SELECT feed_enable('waited')"])
def test_a_call_that_waits_for_a_new_guard_finds_it(fresh: Connection, other: Connection, change: str) -> None:
    """Only the owner may create a guard.

    A reading role that waits for a new guard must not get the error that it is not the owner.
    """
    with roles(fresh, "waiting_reader"):
        run(fresh, TABLE, "SELECT feed_enable('waited')", "GRANT SELECT ON waited TO waiting_reader")
        run(fresh, "BEGIN", change, "LOCK TABLE waited", *_dropped(fresh), "SELECT feed_enable('waited')")
        run(other, "SET ROLE waiting_reader")
        with blocked(state, other, "SELECT feed_create('new', 'waited')") as waiting:
            assert not waiting.done()
            run(fresh, "COMMIT")
            assert waiting.result() == ""
        run(other, "RESET ROLE")


def _dropped(connection: Connection) -> list[str]:
    statements = connection.execute(
        b"SELECT format('DROP TRIGGER %I ON waited', tgname) FROM pg_trigger WHERE tgrelid = 'waited'::regclass "
        b"AND tgname IN ('zz_inorder_guard', 'zz_inorder_update', 'zz_inorder_delete')"
    )
    return [str(statement) for (statement,) in statements]


def test_a_batch_finished_during_a_wait_is_not_handed_out_again(fresh: Connection, other: Connection) -> None:
    run(fresh, TABLE, "SELECT feed_create('f', 'waited')", "INSERT INTO waited (n) VALUES (1)")
    run(fresh, "SELECT feed_take_batch('f', 'a', 1)", "INSERT INTO waited (n) VALUES (2)", "BEGIN")
    run(
        fresh,
        "SELECT feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'a', 1)",
        "SELECT feed_seek('f', 'here')",
    )
    with blocked(value, other, "SELECT (feed_take_batch('f', 'b', 1)).number") as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        number = waiting.result()
    assert value(other, f"SELECT n FROM feed_batch_rows('f', {number}, null::waited)") == 2


def test_a_reader_that_waits_for_another_gets_the_next_rows(fresh: Connection, other: Connection) -> None:
    read = "SELECT n FROM feed_read('f', null::waited, 1)"
    run(fresh, TABLE, "SELECT feed_create('f', 'waited')", *[f"INSERT INTO waited (n) VALUES ({n})" for n in range(4)])
    for n in (0, 2):
        run(fresh, "BEGIN")
        assert value(fresh, read) == n
        with blocked(value, other, read) as waiting:
            assert not waiting.done()
            run(fresh, "COMMIT")
            assert waiting.result() == n + 1


def test_a_worker_that_waits_for_another_gets_the_next_batch(fresh: Connection, other: Connection) -> None:
    run(fresh, TABLE, "SELECT feed_create('f', 'waited')", *[f"INSERT INTO waited (n) VALUES ({n})" for n in range(2)])
    run(fresh, "BEGIN")
    first = int(value(fresh, "SELECT number FROM feed_take_batch('f', 'a', 1)"))
    with blocked(value, other, "SELECT number FROM feed_take_batch('f', 'b', 1)") as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == first + 1
    assert [value(fresh, f"SELECT n FROM feed_batch_rows('f', {first + n}, null::waited)") for n in range(2)] == [0, 1]
