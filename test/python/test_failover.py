"""After a promotion or pg_upgrade, earlier state of feeds and sinks is either valid or rejected."""

import json
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

import upgraded_tables
from conftest import SETTINGS, copy_of
from ground import FINISH, FROM_CLOCK
from pg_upgrading import upgrade
from sql_edition import BUILT, create
from waiting import PATIENCE, wait_for
from world.server import Standby
from world.sql import run, value

pytestmark = pytest.mark.server

TABLE = """
CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
SELECT feed_create(name, 'events') FROM unnest(ARRAY['f', 'untouched', 'pending', 'both']) AS name;
"""
NEXT = "SELECT (feed_take_batch(%s, 'w', %s)).number"


class Pair:
    def __init__(self, primary: Cluster, standby: Standby, old: Connection, new: Connection) -> None:
        self.primary, self.standby, self.old, self.new = primary, standby, old, new

    def cut_off(self) -> None:
        self.standby.catch_up()
        self.standby.stop_streaming()


@pytest.fixture
def pair(server: Installation) -> Iterator[Pair]:
    """Yield a primary and a standby.

    Each test needs a new pair, because it promotes the standby.
    """
    with Cluster(server, BUILT) as primary:
        primary.start(SETTINGS)
        with connect(primary.dsn) as old:
            create(old)
            old.execute(TABLE.encode())
            with Standby(primary) as standby:
                standby.start(SETTINGS)
                with connect(standby.dsn) as new:
                    yield Pair(primary, standby, old, new)


def insert(connection: Connection, *numbers: int) -> None:
    for n in numbers:
        connection.execute("INSERT INTO events (n) VALUES (%s)", [n])


def take(connection: Connection, feed: str, rows: int | None = None) -> tuple[int, list[object]]:
    number = int(value(connection, NEXT, feed, rows))
    fetched = connection.execute("SELECT n FROM feed_batch_rows(%s, %s, null::events)", [feed, number])
    return number, [n for (n,) in fetched]


def bare(position: str) -> str:
    """Return a position or a batch without its origin, the server that created it."""
    return json.dumps(json.loads(position) | {"origin": None})


def unknown(connection: Connection, feed: str, number: int) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"batch {number} of feed"):
        connection.execute("SELECT feed_finish_batch(%s, %s, 1)", [feed, number])


def drained(connection: Connection, feed: str, seen_numbers: set[int]) -> list[object]:
    delivered: list[object] = []
    last = 0
    while value(connection, NEXT, feed, 2) is not None:
        number, rows = take(connection, feed, 2)
        assert number not in seen_numbers, f"{feed}: number {number} was used for another batch before"
        assert number == last + 1 or last == 0
        last = number
        delivered += rows
        assert value(connection, FINISH, feed, number) is True
    return delivered


def test_batch_numbers_are_not_reused_after_a_promotion(pair: Pair) -> None:
    insert(pair.old, 1, 2, 3, 4)
    for feed in ("f", "pending", "both"):
        assert take(pair.old, feed, 1) == (1, [1])
        assert value(pair.old, FINISH, feed, 1) is True
    assert take(pair.old, "pending", 2) == (2, [2, 3])
    pair.cut_off()
    # Batch numbers that each feed's sink has received.
    seen_numbers = {feed: {1} for feed in ("f", "untouched", "pending", "both")}
    assert value(pair.old, FINISH, "pending", 2) is True
    insert(pair.old, 101, 102)
    for feed, numbers in seen_numbers.items():
        for _ in range(2):
            number, rows = take(pair.old, feed, 1)
            numbers.add(number)
            assert rows, feed
            assert value(pair.old, FINISH, feed, number) is True
    pair.standby.promote()
    insert(pair.new, 5, 6, 7)

    assert value(pair.new, NEXT, "pending", 1) == 2, "an unfinished batch must keep its number"
    assert take(pair.new, "pending") == (2, [2, 3])
    assert value(pair.new, FINISH, "pending", 2) is True
    assert [n for (n,) in pair.new.execute("SELECT n FROM feed_read('both', null::events, 1)")] == [2]
    for feed, left_rows in (("f", [2, 3, 4, 5, 6, 7]), ("untouched", [1, 2, 3, 4, 5, 6, 7]), ("pending", [4, 5, 6, 7]),
                       ("both", [3, 4, 5, 6, 7])):  # fmt: skip
        for number in seen_numbers[feed] - {1, 2}:
            unknown(pair.new, feed, number)
        assert drained(pair.new, feed, seen_numbers[feed]) == left_rows, feed
    pair.new.execute("SELECT feed_create('later', 'events')")
    assert value(pair.new, NEXT, "later", 1) == 1


def test_a_feed_created_again_after_a_promotion_has_higher_numbers(pair: Pair) -> None:
    """The first number after a promotion may be ahead of the clock by up to 10^9."""
    run(pair.old, *FROM_CLOCK, "SELECT feed_create('z', 'events')")
    insert(pair.old, 1, 2, 3)
    first, _ = take(pair.old, "z", 1)
    assert value(pair.old, FINISH, "z", first) is True
    pair.cut_off()
    pair.standby.promote()
    second, _ = take(pair.new, "z", 1)
    assert second >= first + 10**9
    run(pair.new, "SELECT feed_drop('z')", "SELECT feed_create('z', 'events')")
    assert take(pair.new, "z", 1)[0] > second


GIVEN = "SELECT number, token FROM feed_take_batch(%s, %s, %s)"
DONE = "SELECT feed_finish_batch(%s, %s, %s)"


def given(connection: Connection, feed: str, worker: str, rows: int = 2) -> tuple[int, int, list[int]]:
    number, token = (
        int(str(value)) for value in connection.execute(GIVEN.encode(), [feed, worker, rows]).fetchall()[0]
    )
    fetched = connection.execute("SELECT n FROM feed_batch_rows(%s, %s, null::events)", [feed, number])
    return number, token, sorted(int(str(n)) for (n,) in fetched)


@pytest.mark.parametrize("shares", [None, 2])
def test_workers_keep_batches_that_the_standby_knows_across_a_promotion(pair: Pair, shares: int | None) -> None:
    """A worker keeps its batch if the batch was replicated to the standby.

    The rows of all other batches are delivered again, in batches with new numbers.
    """
    divided = "" if shares is None else f", partition_by => 'n', shares => {shares}"
    pair.old.execute("ALTER TABLE events ALTER n SET NOT NULL")
    pair.old.execute(f"SELECT feed_create('w', 'events'{divided})".encode())
    insert(pair.old, *range(1, 9))
    batches = {worker: given(pair.old, "w", worker) for worker in ("a", "b")}
    pair.cut_off()
    # These changes are not replicated to the standby: the first batch is finished, the second is returned and then
    # finished by another worker, and two new batches are taken.
    assert value(pair.old, DONE, "w", *batches["a"][:2]) is True
    pair.old.execute("SELECT feed_fail_batch('w', %s, %s, 'no')", batches["b"][:2])
    returned = given(pair.old, "w", "c")
    assert returned[::2] == batches["b"][::2] and value(pair.old, DONE, "w", *returned[:2]) is True
    insert(pair.old, 101, 102, 103, 104)
    lost = [given(pair.old, "w", worker) for worker in ("a", "b")]
    pair.standby.promote()
    insert(pair.new, 9, 10)
    assert all(rows for *_, rows in lost) and {number for number, *_ in lost}.isdisjoint({1, 2})
    for number, token, _ in [*lost, returned]:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="does not belong to the worker"):
            pair.new.execute(DONE.encode(), ["w", number, token])
    # A worker that polls under the same name gets its batch again immediately, with the same rows.
    batch = given(pair.new, "w", "a")
    assert batch[0] == batches["a"][0] and batch[2] == batches["a"][2] and batch[1] != batches["a"][1]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="does not belong to the worker"):
        pair.new.execute(DONE.encode(), ["w", *batches["a"][:2]])
    assert value(pair.new, DONE, "w", *batch[:2]) is True
    assert value(pair.new, DONE, "w", *batches["b"][:2]) is True, "the token must still be valid"
    rest_of_rows: list[int] = []
    while value(pair.new, "SELECT number IS NULL FROM feed_take_batch('w', 'e', 2)") is False:
        number, token, rows = given(pair.new, "w", "e")
        assert number > 1 << 40, "the number must be new"
        assert value(pair.new, DONE, "w", number, token) is True
        rest_of_rows += rows
    finished_rows = [*batches["a"][2], *batches["b"][2]]
    assert sorted(rest_of_rows) == [n for n in range(1, 11) if n not in finished_rows]


def test_feeds_continue_after_a_second_promotion(pair: Pair) -> None:
    seen_numbers, positions = set[int](), list[str]()
    begin = "SELECT reader_advance(p, reader_next_batch('events', p))::text FROM reader_start('events') AS p"
    insert(pair.old, 1)
    seen_numbers.add(take(pair.old, "f")[0])
    positions.append(str(value(pair.old, begin)))
    pair.cut_off()
    pair.standby.promote()
    assert take(pair.new, "f") == (1, [1]) and value(pair.new, FINISH, "f", 1) is True
    insert(pair.new, 2, 3)
    batch = take(pair.new, "f", 1)
    positions.append(str(value(pair.new, begin)))
    with Standby(pair.standby) as third:
        third.start(SETTINGS)
        with connect(third.dsn) as last:
            Pair(pair.standby, third, pair.new, last).cut_off()
            assert value(pair.new, FINISH, "f", batch[0]) is True
            insert(pair.new, 101)
            seen_numbers |= {batch[0], take(pair.new, "f", 1)[0]}
            third.promote()
            insert(last, 4)
            assert take(last, "f") == batch and value(last, FINISH, "f", batch[0]) is True
            assert drained(last, "f", seen_numbers) == [3, 4] and drained(last, "untouched", {1}) == [1, 2, 3, 4]
            for position in positions:
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="another server or timeline"):
                    last.execute("SELECT reader_next_batch('events', %s::text::feed_position)", [position])


def test_promotions_within_a_second_give_different_numbers(cluster: Cluster) -> None:
    number = "SELECT inorder_internal.next_number(%s, %s)"
    with copy_of("template1", cluster, "promotions") as connection:
        create(connection)
        lost = int(value(connection, number, 1, "a lost timeline")) + 100
        time.sleep(0.001)
        assert int(value(connection, number, 2, "another lost timeline")) > lost


# On a standby each call waits for a lock, either on the table itself or, in the middle of a query, on the partition.
CALLS = {
    "reader_start": "SELECT reader_start('events', 'now')",
    "reader_next_batch": "SELECT reader_next_batch('parts', %(position)s::text::feed_position)",
    "without origin": "SELECT reader_next_batch('parts', %(bare)s::text::feed_position)",
    "idle": "SELECT reader_next_batch('events', %(last)s::text::feed_position)",
    "reader_batch_rows": "SELECT n FROM reader_batch_rows('parts', %(batch)s::text::feed_batch, null::parts)",
    "rows without origin": "SELECT n FROM reader_batch_rows('parts', %(bare_batch)s::text::feed_batch, null::parts)",
}
PARTS = """
CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n);
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
CREATE INDEX ON parts (id);
SELECT feed_create('parts', 'parts');
"""


def test_a_promotion_during_a_call_is_noticed(pair: Pair) -> None:
    pair.old.execute(PARTS.encode())
    position = str(value(pair.old, "SELECT reader_start('parts')::text"))
    pair.old.execute("INSERT INTO parts (n) VALUES (1), (2)")
    batch = str(value(pair.old, "SELECT reader_next_batch('parts', %s::text::feed_position)::text", position))
    last = str(value(pair.old, "SELECT reader_start('events', 'now')::text"))
    values = {"position": position, "batch": batch, "last": last, "bare": bare(position), "bare_batch": bare(batch)}
    outcome: dict[str, str | None] = {}

    def call(name: str) -> None:
        try:
            sessions[name].execute(CALLS[name].encode(), values)
            outcome[name] = None
        except psycopg.Error as error:
            outcome[name] = error.sqlstate

    with connect(pair.primary.dsn) as locker:
        locker.execute("BEGIN; LOCK TABLE events, ONLY parts_1; SELECT pg_current_xact_id()")
        pair.old.execute("SELECT inorder_internal.make_durable(false)")
        pair.standby.catch_up()
        sessions = {name: connect(pair.standby.dsn) for name in CALLS}
        threads = [threading.Thread(target=call, args=[name]) for name in CALLS]
        for thread in threads:
            thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_for(lambda: value(pair.new, waiting) == len(CALLS))
        pair.cut_off()
        pair.standby.promote()
        for thread in threads:
            thread.join(PATIENCE)
    assert outcome == dict.fromkeys(CALLS, "40001")
    for name in ("reader_next_batch", "idle", "reader_batch_rows"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="another server or timeline"):
            sessions[name].execute(CALLS[name].encode(), values)
    for name in ("reader_start", "without origin", "rows without origin"):
        sessions[name].execute(CALLS[name].encode(), values)
    for session in sessions.values():
        session.close()


def test_pg_upgrade_keeps_the_state(server: Installation) -> None:
    with Cluster(server, BUILT) as before, Cluster(server, BUILT) as after:
        before.start(SETTINGS)
        with connect(before.dsn) as old:
            create(old)
            upgraded_tables.make(old)
            old.execute(TABLE.encode())
            insert(old, 1, 2, 3)
            assert take(old, "f", 1) == (1, [1])
            assert value(old, FINISH, "f", 1) is True
            assert take(old, "pending", 2) == (1, [1, 2])
            position = str(value(old, "SELECT reader_start('events', 'now')::text"))
        before.stop()
        upgrade(before, after)
        after.start(SETTINGS)
        with connect(after.dsn) as new:
            insert(new, 4)
            assert [n for (n,) in new.execute("SELECT n FROM feed_read('both', null::events)")] == [1, 2, 3, 4]
            assert take(new, "pending") == (1, [1, 2])
            assert value(new, FINISH, "pending", 1) is True
            number, rows = take(new, "f")
            assert rows == [2, 3, 4]
            assert number > 1 << 40
            after_it = "SELECT reader_next_batch('events', %s::text::feed_position)"
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="another server") as refused:
                new.execute(after_it.encode(), [position])
            assert "pg_upgrade" in str(refused.value.diag.message_hint)
            read = f"SELECT n FROM reader_batch_rows('events', ({after_it}), null::events)"
            assert new.execute(read.encode(), [bare(position)]).fetchall() == [(4,)]
            upgraded_tables.check(new)
