"""Batches of workers: the example in the docs, crashed workers, roles, restores and forged rows."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.lab.server.cluster import Cluster

from conftest import copy_of
from examples import python_with
from pooler import pooled
from restoring import copied, dsn_of
from sql_edition import TESTED, create
from waiting import wait_for
from world.sql import value

pytestmark = pytest.mark.server

NEXT = "SELECT number, token FROM feed_take_batch('mailer', %s, %s)"
FINISH = "SELECT feed_finish_batch('mailer', %s, %s)"
ROWS = "SELECT array_agg(body ORDER BY id) FROM feed_batch_rows('mailer', %s, null::events)"

# Calls whose result (a batch number or the end of a lease) is used outside the database, with the statement to run
# before each call.
HANDED_OUT = {
    "feed_take_batch('one', 'w', 1)": "",
    "feed_take_batch('two', 'w', 1)": "SELECT feed_take_batch('two', 'w', 1)",
    "feed_renew_batch('three', 1, current_setting('my.token')::bigint)":
        "SELECT set_config('my.token', token::text, false) FROM feed_take_batch('three', 'w', 1)",
}  # fmt: skip
# Functions for a reader that stores its position outside the database, together with the rows received.
READ = ("reader_start('events')", "reader_next_batch('events', reader_start('events', 'beginning'), 1)")
FUNCTIONS = {"plain": "", "async": "SET synchronous_commit = off", "sync": "SET synchronous_commit = on"}
# For each case: statements before the call, the function that makes the call (see FUNCTIONS), and statements after it.
OFF = "SET LOCAL synchronous_commit = off"
NOT_FLUSHED = (
    (OFF, "plain", ""), ("", "async", ""), ("", "plain", OFF), (OFF, "sync", ""), (OFF, "sync", OFF),
    (f"SAVEPOINT s; {OFF}", "async", "RELEASE s"), ("SAVEPOINT s", "async", "SAVEPOINT t; ROLLBACK TO t"),
)  # fmt: skip
Rows = list[tuple[object, ...]]


@pytest.fixture
def feed(cluster: Cluster) -> Iterator[Connection]:
    """Yield a connection to a separate database with a feed.

    Dropping the database ends the sessions of all workers.
    """
    with copy_of("template1", cluster, "mails") as connection:
        create(connection)
        connection.execute("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body int)")
        connection.execute("SELECT feed_create('mailer', 'events')")
        yield connection


def insert(connection: Connection, first: int, last: int) -> None:
    connection.execute("INSERT INTO events (body) SELECT generate_series(%s::int, %s)", [first, last])


def take(connection: Connection, worker: str, rows: int | None = None) -> tuple[Any, ...]:
    return tuple(one_row(connection, NEXT, [worker, rows]))


def let_die(connection: Connection, worker: str, rows: int | None = None) -> int:
    """Take a batch, fail it on its only try so that it becomes dead, and return its number."""
    statement = """SELECT b.number, feed_fail_batch('mailer', b.number, b.token, 'body 7')
                   FROM feed_take_batch('mailer', %s, %s, max_tries => 1) AS b"""
    number, is_dead = one_row(connection, statement, [worker, rows])
    assert is_dead is True
    return int(number)


def example() -> dict[str, Any]:
    code = python_with("docs/feed-workers.md", "feed_take_batch")
    assert code.count("\n") < 40
    names: dict[str, Any] = {}
    exec(code.replace("1000, lease", "10, lease").replace("'30 seconds'", "'0'"), names)
    return names


def test_the_example_of_the_manual_works(feed: Connection, cluster: Cluster) -> None:
    process_all: Callable[..., None] = example()["process_all"]
    sent: Counter[int] = Counter()

    def send(batch: int, rows: Rows) -> None:
        numbers = [int(str(number)) for _, number in rows]
        if 77 in numbers:
            raise ValueError("number 77")
        sent.update(numbers)

    def work(worker: str) -> None:
        with psycopg.connect(dsn_of(cluster, "mails"), autocommit=True) as connection:
            for _ in range(60):
                process_all(connection, worker, send)

    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(work, f"worker {i}") for i in range(3)]
        for first in range(1, 400, 7):
            insert(feed, first, first + 6)
        for run in runs:
            run.result()
    with psycopg.connect(dsn_of(cluster, "mails"), autocommit=True) as connection:
        process_all(connection, "last", send)
    shown = feed.execute("SELECT number, tries, reason FROM feed_batches WHERE dead_since IS NOT NULL").fetchall()
    assert [row[1:] for row in shown] == [(5, "ValueError('number 77')")]
    poison = value(feed, ROWS, shown[0][0])
    assert isinstance(poison, list) and 77 in poison
    assert sent + Counter(poison) == Counter(range(1, 400))
    assert value(feed, "SELECT feed_finish_batch('mailer', %s)", shown[0][0]) is True
    assert value(feed, "SELECT count(*) FROM feed_batches") == 0


class Altered(psycopg.Connection[Any]):
    """A connection whose calls fail once per statement, the way they fail while the table is altered."""

    failed: Counter[str]

    def execute(self, query: Any, *args: Any, **options: Any) -> psycopg.Cursor[Any]:
        self.failed[query] += 1
        if self.failed[query] == 1:
            raise psycopg.errors.SerializationFailure("columns of public.events were changed")
        return super().execute(query, *args, **options)


def test_the_example_works_through_a_pooler_and_tries_again(
    feed: Connection, cluster: Cluster, shared_folder: Path
) -> None:
    names = example()
    names["psycopg"] = SimpleNamespace(connect=Altered.connect, errors=psycopg.errors)
    Altered.failed = Counter()
    insert(feed, 1, 200)
    sent: dict[int, set[int]] = {}
    ended = Event()

    def send(batch: int, rows: Rows) -> None:
        sent[batch] = {int(str(number)) for _, number in rows}
        if 300 in sent[batch]:
            raise SystemExit

    def insert_more() -> None:
        wait_for(lambda: Altered.failed["SELECT feed_wait('mailer')"] > 1 or ended.is_set())
        insert(feed, 300, 300)

    reset = "server_reset_query = DISCARD ALL\nserver_reset_query_always = 1\n"
    with pooled(cluster, shared_folder, more=reset) as port, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(insert_more)
        try:
            with pytest.raises(SystemExit):
                names["run"](f"host=127.0.0.1 port={port} user=postgres dbname=mails", "worker", send)
        finally:
            ended.set()
        waiting.result()
    assert {number for batch in sent.values() for number in batch} == {*range(1, 201), 300}
    assert [Altered.failed[names[name]] > 1 for name in ("TAKE", "ROWS", "FINISH")] == [True] * 3


def test_a_worker_that_waits_gets_the_batch_that_another_lost(feed: Connection) -> None:
    insert(feed, 1, 5)
    number, _ = take(feed, "one")
    assert value(feed, "SELECT feed_wait('mailer', '0')") is False
    feed.execute("UPDATE inorder_internal.worker_batch SET lease_end = clock_timestamp()")
    assert value(feed, "SELECT feed_wait('mailer', '0')") is True
    assert take(feed, "two")[0] == number


def test_partitions_stay_while_a_batch_needs_them(feed: Connection) -> None:
    feed.execute(
        """CREATE TABLE days (id uuid DEFAULT uuid_xact_nextval(), day int) PARTITION BY LIST (day);
           CREATE INDEX ON days (id);
           CREATE TABLE day_1 PARTITION OF days FOR VALUES IN (1);
           CREATE TABLE day_2 PARTITION OF days FOR VALUES IN (2);
           SELECT feed_drop('mailer'), feed_create('mailer', 'days')"""
    )
    passed = "SELECT array_agg(p::text ORDER BY p::text) FROM feed_passed_partitions('days') AS p"
    feed.execute("INSERT INTO days (day) VALUES (1)")
    dead = let_die(feed, "one")
    feed.execute("INSERT INTO days (day) VALUES (2)")
    batch = take(feed, "two")
    assert (value(feed, FINISH, *batch), value(feed, passed)) == (True, None)
    assert value(feed, "SELECT feed_finish_batch('mailer', %s)", dead) is True
    assert value(feed, passed) == ["day_1", "day_2"]


def test_only_some_roles_see_batches_workers_and_reasons(feed: Connection, cluster: Cluster) -> None:
    for role in ("b_stranger", "b_monitor", "b_grantee", "b_reader"):
        feed.execute(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN".encode())
    feed.execute("GRANT pg_monitor TO b_monitor; GRANT SELECT ON events TO b_grantee, b_reader")
    feed.execute("SELECT feed_grant('mailer', 'b_grantee')")
    insert(feed, 1, 3)
    number = let_die(feed, "secret", 1)
    batch, token = take(feed, "secret", 1)
    query = "SELECT count(*), count(worker), count(reason) FROM feed_batches"
    owner = str(feed.info.user)
    calls = (
        f"SELECT feed_take_batch('mailer', 'secret', 1, owner => '{owner}')",
        f"SELECT feed_renew_batch('mailer', {batch}, {token}, owner => '{owner}')",
        f"SELECT feed_fail_batch('mailer', {batch}, {token}, 'mine', owner => '{owner}')",
        f"SELECT feed_retry_batch('mailer', {number}, owner => '{owner}')",
        f"SELECT feed_finish_batch('mailer', {number}, owner => '{owner}')",
        f"SELECT feed_finish_batch('mailer', {batch}, {token}, '{owner}')",
    )
    expected = {"b_stranger": (0, 0, 0), "b_monitor": (2, 1, 0), "b_reader": (2, 1, 1), "b_grantee": (2, 1, 1)}
    for role, counts in expected.items():
        with connect(dsn_of(cluster, "mails", role)) as session:
            assert session.execute(query.encode()).fetchone() == counts, role
            if TESTED == "c":
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(b"SELECT FROM inorder_internal.worker_batch")
            for call in calls if role != "b_grantee" else ():
                with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject)) as refused:
                    session.execute(call.encode())
                assert role != "b_stranger" or "does not exist" in str(refused.value)
            if role == "b_grantee":
                for guess in (token - 1, 0, -token):
                    with pytest.raises(psycopg.errors.InvalidParameterValue):
                        session.execute(calls[5].replace(str(token), str(guess)).encode())
                assert value(session, calls[5]) is True
    feed.execute("DROP OWNED BY b_grantee, b_reader; DROP ROLE b_stranger, b_monitor, b_grantee, b_reader")


def test_unfinished_batches_are_taken_again_after_a_restore(feed: Connection, cluster: Cluster, tmp_path: Path) -> None:
    insert(feed, 1, 9)
    dead, (number, token) = let_die(feed, "one", 2), take(feed, "two", 3)
    with copied(cluster, "mails", cluster, "mails_again", "custom", tmp_path) as restored:
        for call in (FINISH, "SELECT feed_fail_batch('mailer', %s, %s, '')"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="was restored"):
                restored.execute(call.encode(), [number, token])
        assert value(restored, "SELECT count(*) FROM feed_batches") == 0
        restored.execute("SELECT feed_rebase('events')")
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            restored.execute(FINISH.encode(), [number, token])
        new_number, new_token = take(restored, "three")
        assert new_number == number
        assert (value(restored, ROWS, number), value(restored, ROWS, dead)) == ([3, 4, 5], [1, 2])
        assert value(restored, FINISH, new_number, new_token) is True
        later, _ = take(restored, "three")
        assert later > 1 << 40 and value(restored, ROWS, later) == [6, 7, 8, 9]
        assert value(restored, "SELECT feed_finish_batch('mailer', %s)", dead) is True


def test_forged_batches_are_ignored(feed: Connection) -> None:
    insert(feed, 1, 4)
    batch, token = take(feed, "one", 2)
    forge = """INSERT INTO inorder_internal.worker_batch (feed, number, relation, batch, token, tries, max_tries,
                                                           lease_end, dead_since)
               SELECT f.id, {}, f.relation, ROW(1, '{{[0,9)}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)::feed_batch,
                      1, 0, 1, '-infinity', {} FROM inorder_internal.feed AS f"""
    for number, dead in ((batch + 1, "NULL"), (batch + 2, "now()"), (batch + 900, "now()")):
        feed.execute(forge.format(number, dead).encode())
    assert value(feed, "SELECT count(*) FROM feed_batches") == 1
    for call in (f"SELECT feed_finish_batch('mailer', {batch + 1}, 1)",
                 f"SELECT feed_finish_batch('mailer', {batch + 2})", f"SELECT feed_retry_batch('mailer', {batch + 2})",
                 f"SELECT feed_batch_rows('mailer', {batch + 2}, null::events)"):  # fmt: skip
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            feed.execute(call.encode())
    assert value(feed, FINISH, batch, token) is True
    for number in (batch + 1, batch + 2):
        insert(feed, 5, 5)
        next_batch = take(feed, "two", 2)
        assert next_batch[0] == number
        assert value(feed, FINISH, *next_batch) is True
    feed.execute("SELECT feed_seek('mailer', 'now')")
    assert value(feed, "SELECT count(*) FROM inorder_internal.worker_batch") == 0


def make_callers(connection: Connection, statements: str) -> None:
    for name, settings in FUNCTIONS.items():
        head = f"CREATE OR REPLACE FUNCTION {name}() RETURNS void LANGUAGE plpgsql {settings}"
        connection.execute(f"{head} AS $$BEGIN {statements} END$$".encode())


@pytest.mark.editions
@pytest.mark.parametrize("then", ["", "SET CONSTRAINTS ALL IMMEDIATE;"])
def test_the_commit_flushes_a_batch_that_was_handed_out(fresh: Connection, then: str) -> None:
    """The commit flushes the batch regardless of synchronous_commit.

    Otherwise a crash could lose the batch, and its number could be used again for a batch with other rows.
    """
    fresh.execute("INSERT INTO events (n) SELECT generate_series(1, 5)")
    for name in ("one", "two", "three"):
        fresh.execute("SELECT feed_create(%s, 'events')", [name])
    for call, before in HANDED_OUT.items():
        fresh.execute(before.encode() or b"SELECT 1")
        make_callers(fresh, f"PERFORM {call}; {then}")
        for first, made, last in NOT_FLUSHED:
            fresh.execute(f"BEGIN; {first}".encode())
            fresh.execute(f"SELECT {made}()".encode())
            fresh.execute(last.encode() or b"SELECT 1")
            end = value(fresh, "SELECT pg_current_wal_insert_lsn()")
            fresh.execute("COMMIT")
            assert value(fresh, "SELECT pg_current_wal_flush_lsn() > %s", end), (call, first, made, last)


@pytest.mark.editions
def test_the_commit_flushes_only_what_is_not_flushed_yet(fresh: Connection) -> None:
    """The commit flushes the batch and its transactions unless both were flushed before."""
    before = []
    fresh.execute("SELECT feed_create('one', 'events')")
    with connect(fresh.info.dsn) as writer:
        writer.execute("SET synchronous_commit = off")
        for _ in range(20):
            writer.execute("INSERT INTO events (n) VALUES (1)")
            end = value(writer, "SELECT pg_current_wal_insert_lsn()")
            with fresh.transaction():
                fresh.execute("SELECT feed_take_batch('one', 'worker')")
                before.append(value(fresh, "SELECT pg_current_wal_flush_lsn() >= %s", end))
            assert value(fresh, "SELECT pg_current_wal_flush_lsn() >= %s", end)
    assert False in before


@pytest.mark.editions
def test_the_commit_flushes_rows_that_a_reader_saw(fresh: Connection) -> None:
    begins = ("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN; SELECT reader_start('events')")
    with connect(fresh.info.dsn) as writer:
        writer.execute("INSERT INTO events (n) VALUES (0)")
        writer.execute("SET synchronous_commit = off")
        for call, begin, (first, made, last), again in product(READ, begins, NOT_FLUSHED, (False, True)):
            lost = f"SAVEPOINT again; SELECT {made}(); ROLLBACK TO again" if again else ""
            make_callers(fresh, f"PERFORM {call};")
            writer.execute("BEGIN; INSERT INTO events (n) VALUES (1)")
            end = value(writer, "SELECT pg_current_wal_insert_lsn()")
            writer.execute("COMMIT")
            for text in (begin, first, f"SELECT {made}()", lost, last, "COMMIT"):
                fresh.execute(text.encode() or b"SELECT 1")
            assert value(fresh, "SELECT pg_current_wal_flush_lsn() > %s", end), (call, begin, first, made, lost, last)
            assert value(fresh, "SHOW synchronous_commit") == "on"
