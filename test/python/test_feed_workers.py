"""Several workers on one feed: each batch is in the hands of one of them, as long as that one lives."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg import sql

from attack import refusal
from conftest import scalar
from waiting import wait_for

pytestmark = pytest.mark.server

NEXT = "SELECT feed_next_batch('work', %s)"
FINISH = "SELECT feed_finish_batch('work', %s)"
ROWS = 1199


@pytest.fixture
def feed(connection: Connection) -> Iterator[Connection]:
    connection.execute("CREATE TABLE work (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    connection.execute("DELETE FROM inorder_internal.gone_feed")  # the numbers of the test before
    connection.execute("SELECT feed_create('work', 'work')")
    yield connection
    connection.execute("SELECT feed_drop('work')")
    connection.execute("DROP TABLE work")


def insert(connection: Connection, amount: int) -> None:
    connection.execute("INSERT INTO work (n) SELECT generate_series(1, %s)", [amount])


class Worker:
    def __init__(self, dsn: str, written: threading.Event, dies: int) -> None:
        self.dsn, self.written, self.dies = dsn, written, dies
        self.rows: Counter[int] = Counter()
        self.refused = 0

    def run(self) -> "Worker":
        while not self.session():
            pass
        return self

    def session(self) -> bool:
        with connect(self.dsn) as connection:
            batches = 0
            while True:
                last = self.written.is_set()
                try:
                    number = scalar(connection, NEXT, 10)
                except psycopg.errors.ObjectInUse:
                    self.refused += 1
                    continue
                if number is None and last:
                    return True
                batches += number is not None
                if batches == self.dies:
                    return False
                if number is not None:
                    self.work(connection, number)

    def work(self, connection: Connection, number: object) -> None:
        for (n,) in connection.execute("SELECT n FROM feed_batch_rows('work', %s, null::work)", [number]):
            self.rows[int(str(n))] += 1
        time.sleep(0.001)
        assert scalar(connection, FINISH, number) is True


@pytest.mark.parametrize("dies", [0, 7])
def test_three_workers_get_each_row_once(feed: Connection, cluster: Cluster, dies: int) -> None:
    written = threading.Event()
    workers = [Worker(cluster.dsn, written, dies) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(worker.run) for worker in workers]
        for first in range(1, ROWS + 1, 11):
            feed.execute("INSERT INTO work (n) SELECT generate_series(%s::int, %s)", [first, min(first + 10, ROWS)])
        written.set()
        for run in runs:
            run.result()
    rows = sum((worker.rows for worker in workers), Counter[int]())
    assert rows == Counter(range(1, ROWS + 1))
    assert sum(worker.refused for worker in workers) > 0


def test_the_refusal_names_batch_and_holder(feed: Connection, cluster: Cluster) -> None:
    insert(feed, 3)
    with connect(cluster.dsn) as holder:
        assert scalar(holder, NEXT, 2) == 1
        with pytest.raises(psycopg.errors.ObjectInUse, match="batch 1 of feed 'work' is in use by another session") as (
            caught
        ):
            feed.execute(NEXT.encode(), [2])
        pid = holder.info.backend_pid
        assert caught.value.diag.message_detail == f"It belongs to the session with process ID {pid}."
        feed.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])
        assert scalar(feed, NEXT, 2) == 1
        assert scalar(feed, FINISH, 1) is True


def test_a_holder_that_crashes_leaves_its_batch(feed: Connection, cluster: Cluster) -> None:
    insert(feed, 3)
    with connect(cluster.dsn) as holder:
        assert scalar(holder, NEXT, 2) == 1
    wait_for(lambda: refusal(feed, "SELECT feed_next_batch('work', 2)") == "")
    assert scalar(feed, NEXT, 2) == 1


def test_a_batch_is_free_once_more_after_a_restart(feed: Connection, cluster: Cluster) -> None:
    insert(feed, 3)
    assert scalar(feed, NEXT, 2) == 1
    held = "(SELECT s FROM inorder_internal.feed AS f, inorder_internal.state_of(f.id) AS s WHERE f.name = 'work')"
    number = scalar(feed, f"SELECT ({held}).holder")
    assert scalar(feed, f"SELECT ({held}).holder_pid") == feed.info.backend_pid
    with connect(cluster.dsn) as other:
        # A session of that process ID, as after a restart, that is not the one.
        other.execute(
            sql.SQL("UPDATE inorder_internal.feed_state SET holder = {}, holder_pid = {}").format(
                (int(str(number)) + 1) % 2**32, feed.info.backend_pid
            )
        )
        assert scalar(other, NEXT, 2) == 1
        with pytest.raises(psycopg.errors.ObjectInUse):
            feed.execute(NEXT.encode(), [2])


def test_a_session_holds_one_lock_for_all(feed: Connection, cluster: Cluster) -> None:
    insert(feed, 40)
    feed.execute("SELECT feed_create('work ' || i, 'work') FROM generate_series(1, 20) AS i")
    with connect(cluster.dsn) as holder:
        for name in [f"work {i}" for i in range(1, 21)]:
            holder.execute("SELECT feed_next_batch(%s, 1)", [name])
        for i in range(1, 21):
            number = scalar(holder, NEXT, 1)
            assert (number, scalar(feed, FINISH, i)) == (i, True)
        locks = (
            "FROM pg_locks WHERE (classid = 'inorder_internal.feed'::regclass OR locktype = 'advisory') AND pid = %s"
        )
        assert scalar(feed, f"SELECT count(*) {locks}", holder.info.backend_pid) == 1
        # One that was finished elsewhere does not hold up the next.
        assert scalar(feed, NEXT, 1) == 21
        with pytest.raises(psycopg.errors.ObjectInUse):
            holder.execute(NEXT.encode(), [1])
    feed.execute("SELECT feed_drop('work ' || i) FROM generate_series(1, 20) AS i")


def test_one_transaction_does_not_need_two_locks(feed: Connection) -> None:
    insert(feed, 3)
    feed.execute("BEGIN")
    assert scalar(feed, NEXT, 2) == 1
    feed.execute("PREPARE TRANSACTION 'work'")
    feed.execute("COMMIT PREPARED 'work'")
    assert (scalar(feed, NEXT, 2), scalar(feed, FINISH, 1)) == (1, True)


def test_the_view_shows_who_has_a_batch(feed: Connection, cluster: Cluster) -> None:
    shown = "SELECT unfinished_batch, batch_pid FROM feeds WHERE name = 'work'"
    insert(feed, 5)
    assert feed.execute(shown).fetchone() == (None, None)
    with connect(cluster.dsn) as worker:
        assert scalar(worker, NEXT, 2) == 1
        pid = worker.info.backend_pid
        for session in (feed, worker):
            assert session.execute(shown.encode()).fetchone() == (1, pid)
    wait_for(lambda: feed.execute(shown).fetchone() == (1, None))  # it lets go of its number last
    assert scalar(feed, NEXT, 2) == 1
    assert feed.execute(shown).fetchone() == (1, feed.info.backend_pid)
    scalar(feed, FINISH, 1)
    assert feed.execute(shown).fetchone() == (None, None)
