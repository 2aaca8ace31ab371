"""A batch is leased to a worker name, not to a session. The lease expires according to the server's clock."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.lab.server.cluster import Cluster

from ground import PLAIN, state
from pooler import pooled
from waiting import blocked
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

LOST = "22023"  # invalid_parameter_value
TAKE = "SELECT number, token FROM feed_take_batch('work', %s, %s, lease => '1 hour')"
FINISH = "SELECT feed_finish_batch('work', %s, %s)"
RESETS = ("DISCARD ALL", "SELECT pg_advisory_unlock_all()", "RESET ALL; CLOSE ALL; UNLISTEN *; DISCARD TEMP")
ROWS = 599


@pytest.fixture
def feed(fresh: Connection) -> Connection:
    run(fresh, "DROP TABLE IF EXISTS t", PLAIN, "SELECT feed_create('work', 't')")
    return fresh


def insert(connection: Connection, amount: int) -> None:
    connection.execute("INSERT INTO t (n) SELECT generate_series(1, %s)", [amount])


def take(connection: Connection, worker: str, rows: int = 2) -> tuple[Any, Any]:
    number, token = one_row(connection, TAKE, [worker, rows])
    return number, token


class Worker:
    """A process that is killed after some batches, before it finishes the last one, and is then restarted."""

    def __init__(self, dsn: str, name: str, written: threading.Event, dies: int) -> None:
        self.dsn, self.name, self.written, self.dies = dsn, name, written, dies
        self.rows: Counter[int] = Counter()
        self.again: set[int] = set()
        self.left: int | None = None

    def run(self) -> "Worker":
        while not self.process():
            pass
        return self

    def process(self) -> bool:
        with connect(self.dsn) as connection:
            for batches in range(1, ROWS):
                last = self.written.is_set()
                number, token = take(connection, self.name, 10)
                if number is None and last:
                    return True
                assert self.left is None or number == self.left
                self.left = number if batches == self.dies else None
                if self.left is not None:
                    return False
                if number is not None:
                    self.work(connection, number, token)
        return False

    def work(self, connection: Connection, number: int, token: int) -> None:
        for (n,) in connection.execute("SELECT n FROM feed_batch_rows('work', %s, null::t)", [number]):
            self.rows[int(str(n))] += 1
        assert value(connection, FINISH, number, token) is True


@pytest.mark.parametrize("dies", [0, 7])
def test_three_workers_get_each_row_once(feed: Connection, dies: int) -> None:
    written = threading.Event()
    workers = [Worker(feed.info.dsn, name, written, dies) for name in "abc"]
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(worker.run) for worker in workers]
        for first in range(1, ROWS + 1, 11):
            feed.execute("INSERT INTO t (n) SELECT generate_series(%s::int, %s)", [first, min(first + 10, ROWS)])
        written.set()
        for worker in runs:
            worker.result()
    rows = sum((worker.rows for worker in workers), Counter[int]())
    assert rows == Counter(range(1, ROWS + 1))
    assert value(feed, "SELECT count(*) FROM feed_batches") == 0


@pytest.mark.parametrize("reset", RESETS)
def test_a_lease_outlives_its_session(feed: Connection, other: Connection, reset: str) -> None:
    """A pool resets connections.

    It may pass a connection to another client, or give the worker a different connection.
    """
    insert(feed, 3)
    number, token = take(feed, "a")
    for statement in reset.split("; "):
        run(feed, statement)
    for connection in (feed, other):
        assert take(connection, "b", 9)[0] == number + 1
    with connect(feed.info.dsn) as third:
        assert take(third, "c") == (None, None)
        assert value(third, FINISH, number, token) is True
    shown = "SELECT worker, tries FROM feed_batches"
    assert feed.execute(shown).fetchall() == [("b", 1)]


def test_a_lease_outlives_the_session_behind_a_pooler(feed: Connection, cluster: Cluster, shared_folder: Path) -> None:
    """The pooler assigns a session to each transaction and resets it. A client gets a different session each time."""
    insert(feed, 3)
    reset = "server_reset_query = DISCARD ALL\nserver_reset_query_always = 1\ndefault_pool_size = 2\n"
    with pooled(cluster, shared_folder, more=reset) as port:
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname={feed.info.dbname}"
        with ExitStack() as stack:
            first, two, three = (
                stack.enter_context(psycopg.connect(dsn, autocommit=True, prepare_threshold=None)) for _ in range(3)
            )
            number, token = take(first, "a")
            for _ in range(5):
                assert take(two, "b", 9)[0] == number + 1
                assert take(three, "c") == (None, None)
            same_number, other_token = take(three, "a")
            assert same_number == number
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                first.execute(FINISH.encode(), [number, token])
            assert value(two, FINISH, number, other_token) is True
    assert feed.execute("SELECT worker, tries FROM feed_batches").fetchall() == [("b", 1)]


def test_a_lease_outlives_the_process(feed: Connection, cluster: Cluster) -> None:
    insert(feed, 3)
    with connect(feed.info.dsn) as worker:
        number, token = take(worker, "a")
        feed.execute("SELECT pg_terminate_backend(%s, 60000)", [worker.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            worker.execute("SELECT 1")
    assert take(feed, "b", 9)[0] == number + 1
    for _ in range(9):
        with connect(feed.info.dsn) as new_session:  # a process with this name continues immediately
            assert take(new_session, "a")[0] == number
    assert one_row(feed, "SELECT worker, tries FROM feed_batches ORDER BY number LIMIT 1") == ("a", 1)
    assert state(feed, f"SELECT feed_finish_batch('work', {number}, {token})") == LOST


def test_a_later_process_of_the_same_name_invalidates_the_token(feed: Connection, other: Connection) -> None:
    insert(feed, 3)
    number, token = take(feed, "a")
    same_number, other_token = take(other, "a")
    assert same_number == number
    for call in ("feed_finish_batch('work', %s, %s)", "feed_renew_batch('work', %s, %s)",
                 "feed_fail_batch('work', %s, %s, 'bad')"):  # fmt: skip
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            feed.execute(f"SELECT {call}".encode(), [number, token])
        diagnostics = caught.value.diag
        assert diagnostics.message_detail == 'A later call of feed_take_batch() gave the batch to worker "a".'
        assert "another process has the same name" in str(diagnostics.message_hint)
    assert value(other, FINISH, number, other_token) is True


def test_a_batch_is_finished_only_once(feed: Connection, other: Connection) -> None:
    insert(feed, 1)
    number, token = take(feed, "a")
    run(feed, "BEGIN")
    assert value(feed, FINISH, number, token) is True
    with blocked(state, other, f"SELECT feed_finish_batch('work', {number}, {token})") as waiting:
        assert not waiting.done()
        run(feed, "COMMIT")
        assert waiting.result() == LOST


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_one_statement_renews_and_finishes_a_batch(feed: Connection, level: str) -> None:
    insert(feed, 1)
    number, token = take(feed, "a")
    run(feed, f"BEGIN ISOLATION LEVEL {level}")
    renew = f"SELECT feed_renew_batch('work', {number}, {token}) IS NOT NULL"
    finish = f"feed_finish_batch('work', {number}, {token})"
    assert one_row(feed, f"{renew}, {finish}") == (True, True)
    assert state(feed, f"SELECT {finish}") == LOST
    run(feed, "ROLLBACK", f"BEGIN ISOLATION LEVEL {level}")
    assert state(feed, f"SELECT {finish}, {finish}") == LOST
    run(feed, "ROLLBACK")
    assert value(feed, FINISH, number, token) is True


def test_another_worker_gets_the_batch_when_the_lease_is_over(feed: Connection, other: Connection) -> None:
    insert(feed, 2)
    number, token = take(feed, "a")
    assert take(other, "b") == (None, None)
    run(feed, "UPDATE inorder_internal.worker_batch SET lease_end = clock_timestamp()")
    assert take(other, "b")[0] == number
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        feed.execute(FINISH.encode(), [number, token])
    assert "If this worker has another name, its lease has expired" in str(caught.value.diag.message_hint)


def test_the_hint_says_what_became_of_the_batch(feed: Connection) -> None:
    insert(feed, 5)
    cases: dict[str, tuple[int, int]] = {}
    number, token = take(feed, "a")
    value(feed, FINISH, number, token)
    cases["The batch was finished"] = number, token
    cases["no batch of this number yet"] = number + 10**9, token
    number, token = take(feed, "b", 1)
    run(feed, f"SELECT feed_fail_batch('work', {number}, {token}, 'bad')")
    cases["The batch was returned"] = number, token
    take(feed, "b", 1)
    number, token = one_row(feed, "SELECT number, token FROM feed_take_batch('work', 'c', 1, max_tries => 1)")
    run(feed, f"SELECT feed_fail_batch('work', {number}, {token}, 'bad')")
    cases["The batch is dead after 1 tries"] = number, token
    number, token = take(feed, "d", 1)
    cases["The token belongs to batch"] = number - 1, token
    run(feed, f"SELECT feed_fail_batch('work', {cases['The batch was returned'][0]}, t.token, 'bad') "
              "FROM inorder_internal.worker_batch AS t WHERE t.worker = 'b'")  # fmt: skip
    details = {}
    for detail, (batch, batch_token) in cases.items():
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            feed.execute(FINISH.encode(), [batch, batch_token])
        details[detail] = str(caught.value.diag.message_detail)
        assert caught.value.diag.message_hint
    assert [detail for detail in cases if detail not in details[detail]] == [], details


def test_the_same_call_repeated_in_a_transaction_returns_the_same_batch(feed: Connection) -> None:
    """(f(...)).* calls f once per column. For the client this is a single call, which returns one row."""
    insert(feed, 5)
    expanded = "SELECT (feed_take_batch('work', 'a', 2)).*"
    number, token, tries, lease_end = one_row(feed, expanded)
    assert tries == 1
    assert one_row(feed, "SELECT number, worker, tries, lease_end FROM feed_batches") == (number, "a", 1, lease_end)
    assert value(feed, FINISH, number, token) is True
    with feed.transaction():
        batches = [take(feed, "a") for _ in range(3)]
        assert len(set(batches)) == 1
        assert value(feed, FINISH, *batches[0]) is True
        assert take(feed, "a")[0] == batches[0][0] + 1
    assert take(feed, "a")[1] != batches[0][1]


def test_batch_numbers_and_tokens_are_json_numbers(feed: Connection) -> None:
    insert(feed, 40)
    text = "SELECT to_json(b) FROM feed_take_batch('work', %s, 1) AS b"
    for i in range(40):
        batch = json.loads(json.dumps(value(feed, text, f"w{i}")), parse_int=float)
        assert value(feed, FINISH, int(batch["number"]), int(batch["token"])) is True


def test_a_worker_that_crashes_each_time_is_tried_once_for_each_lease(feed: Connection) -> None:
    insert(feed, 3)
    tries = "SELECT number, tries FROM feed_take_batch('work', 'a', 2, max_tries => 2)"
    number, first = one_row(feed, tries)
    assert (first, one_row(feed, tries)) == (1, (number, 1))
    over = "UPDATE inorder_internal.worker_batch SET tried = clock_timestamp()"
    run(feed, over)
    assert [one_row(feed, tries) for _ in range(2)] == [(number, 2)] * 2
    run(feed, over)
    assert one_row(feed, tries) == (number + 1, 1)
    assert one_row(feed, "SELECT number, worker FROM feed_batches WHERE dead_since IS NOT NULL") == (number, None)


def test_a_batch_delayed_by_a_wrong_clock_can_be_retried_at_once(feed: Connection) -> None:
    """feed_retry_batch() makes a batch available immediately, even if its next try is far in the future.

    The time of that try is wrong if the batch was returned while the clock was ahead.
    """
    insert(feed, 3)
    number, token = take(feed, "a")
    run(feed, f"SELECT feed_fail_batch('work', {number}, {token}, 'bad', retry_after => '1 day')")
    assert take(feed, "b", 9)[0] == number + 1
    assert take(feed, "c") == (None, None)
    assert state(feed, f"SELECT feed_retry_batch('work', {number + 1})") == LOST  # a worker has this batch
    run(feed, f"SELECT feed_retry_batch('work', {number})")
    assert one_row(feed, "SELECT number, tries FROM feed_take_batch('work', 'c', 2)") == (number, 1)


def test_a_batch_can_be_taken_in_a_prepared_transaction(feed: Connection) -> None:
    insert(feed, 3)
    feed.execute("BEGIN")
    number, token = take(feed, "a")
    run(feed, "PREPARE TRANSACTION 'work'", "COMMIT PREPARED 'work'")
    assert value(feed, FINISH, number, token) is True


def test_a_taken_batch_holds_no_lock(feed: Connection) -> None:
    insert(feed, 3)
    take(feed, "a")
    locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND (locktype IN ('advisory', 'object'))"
    assert value(feed, locks) == 0


def test_the_view_shows_who_has_a_batch(feed: Connection) -> None:
    shown = "SELECT unfinished_batch, batch_worker FROM feeds WHERE name = 'work'"
    insert(feed, 5)
    assert feed.execute(shown).fetchone() == (None, None)
    number, token = take(feed, "a")
    assert feed.execute(shown).fetchone() == (number, "a")
    run(feed, f"SELECT feed_fail_batch('work', {number}, {token}, 'bad')")
    assert feed.execute(shown).fetchone() == (number, None)
    value(feed, FINISH, *take(feed, "b"))
    assert feed.execute(shown).fetchone() == (None, None)
