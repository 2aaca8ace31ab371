"""A logical subscriber of another major version: what it receives and rejects, and the switchover to it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import buildable_installations, embedded_installation
from inorder.lab.server.cluster import Cluster

from clusters import quick_options
from conftest import EDITIONS
from load.replicas import (
    NUMBERED,
    SCHEMA,
    SETTINGS,
    TABLES,
    Consumer,
    Pair,
    Writer,
    advance_sequences,
    wait_until_confirmed,
)  # fmt: skip
from sql_edition import create
from waiting import wait_for
from world.server import Standby
from world.sql import run, value
from world.world import World, targets_of

pytestmark = pytest.mark.server

NAMES = count(1)
ALL = "ALL TABLES"
OWN = "TABLE keys, parts, numbers, made"
Refused = psycopg.errors.ObjectNotInPrerequisiteState


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    old, new = next(buildable_installations(), None), embedded_installation()
    if old is None or new is None:
        pytest.skip("needs the system's PostgreSQL with headers, and the embedded one")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COPT", quick_options())
            publisher = stack.enter_context(Cluster(old, ()))
        subscriber = stack.enter_context(Cluster(new, ()))
        publisher.start(SETTINGS)
        subscriber.start(SETTINGS)
        yield publisher, subscriber


@pytest.fixture
def pair(clusters: tuple[Cluster, Cluster]) -> Iterator[Pair]:
    new_pair = Pair(*clusters, f"pair_{next(NAMES)}")
    for cluster in clusters:
        with connect(cluster.dsn) as admin:
            admin.execute(f"CREATE DATABASE {new_pair.name} TEMPLATE template0 STRATEGY file_copy".encode())
    yield new_pair
    new_pair.drop()


def world_of(dsn: str) -> World:
    return World(dsn, seed=1, targets=targets_of(TABLES))


def write(writers: list[Writer], transactions: int, readers: list[Consumer]) -> None:
    with ThreadPoolExecutor(len(writers)) as pool, connect(writers[0].world.primary) as connection:
        running = [pool.submit(writer.write, transactions) for writer in writers]
        while not all(done.done() for done in running):
            for reader in readers:
                reader.read(connection, 40)
        for done in running:
            done.result()


def check_refused(connection: Connection, table: str) -> None:
    """Check that reads and writes on the subscriber before feed_rebase() raise an error that gives the reason."""
    for call in (f"reader_start('{table}')", f"exact_count_fold('{table}')", f"feed_create('other', '{table}')"):
        with pytest.raises(Refused, match="was restored from a dump") as refused:
            connection.execute(f"SELECT {call}".encode())
        assert "feed_rebase(" in str(refused.value.diag.message_hint)
    with pytest.raises(Refused, match="accepts no rows yet"):
        connection.execute(f"INSERT INTO {table} (region, token) VALUES (0, 0)".encode())


def accept(connection: Connection, consumer: Consumer, with_state: bool) -> None:
    table, numbered = consumer.table, consumer.table in NUMBERED
    beyond = "greatest(upper((p).transactions), (p).partial)"
    rebase = f"SELECT feed_rebase(%s, {beyond if numbered else '0'}) FROM (SELECT %s::text::feed_position AS p) AS s"
    connection.execute(rebase.encode(), [table, consumer.position])
    if not with_state:
        consumer.generation += 1
        for feed in ("moved", "steps"):
            connection.execute("SELECT feed_create(%s, %s, 'now')", [f"{table} {feed}", table])
    elif not numbered:
        with pytest.raises(Refused, match="was restored from a dump"):
            consumer.read(connection, 1)
        connection.execute("SELECT feed_seek('made moved', 'now'), feed_seek('made steps', 'now')")
    start = "SELECT reader_start(%s, 'now')::text"
    if numbered:
        start = """SELECT jsonb_set(jsonb_set(%s::text::feed_position::jsonb, '{origin}', 'null'), '{members}',
                                    reader_start(%s)::jsonb -> 'members')::feed_position::text"""
        consumer.position = str(value(connection, start, consumer.position, table))
    else:
        consumer.position = str(value(connection, start, table))


def leave(source: Connection, consumer: Consumer, with_state: bool) -> None:
    if with_state and consumer.table in NUMBERED:
        consumer.read(source, 7)
        consumer.take(source, 7)
    else:
        consumer.drain(source)


def accept_all(world: World, target: Connection, consumers: list[Consumer], with_state: bool) -> None:
    """Call feed_rebase() during an older transaction, which writes afterwards.

    The numbers of its rows are below those of transactions that have ended.
    """
    with connect(world.primary) as before:
        before.execute("BEGIN; SELECT pg_current_xact_id()")
        target.execute("CREATE TABLE later (n int)")
        for consumer in consumers:
            accept(target, consumer, with_state)
        Writer(world, 0).write_late(before)


def switch_over(pair: Pair, edition: str, tables: str, writers: int, transactions: int, options: str = "") -> None:
    pair.make(edition)
    world = world_of(pair.source)
    crowd = [Writer(world, number) for number in range(1, writers + 1)]
    consumers = [Consumer(table) for table in TABLES]
    with connect(pair.source) as source, connect(pair.source) as reader:
        for consumer in consumers:
            consumer.create(source, "beginning")
            source.execute("SELECT exact_count_start(%s)", [consumer.table])
        write(crowd, transactions, consumers)
        pair.copy_schema()
        pair.subscribe(tables, options)
        write(crowd, transactions, consumers)
        for consumer in consumers:
            leave(reader, consumer, tables == ALL)
    pair.wait()
    with connect(pair.target) as target:
        advance_sequences(target)
        for consumer in consumers:
            committed = world.ledger.committed[consumer.table]
            assert value(target, f"SELECT count(*) FROM {consumer.table}") == len(committed) > 0
            if tables == ALL and consumer.table in NUMBERED:
                check_refused(target, consumer.table)
        assert value(target, "SELECT count(*) > 0 FROM keys WHERE note = 'changed'")
        pair.unsubscribe()
        world.superuser = pair.target
        accept_all(world, target, consumers, tables == ALL)
        write(crowd, transactions, consumers)
        for consumer in consumers:
            consumer.drain(target)
            consumer.check(world.ledger.committed[consumer.table])
            if tables == OWN:
                target.execute("SELECT exact_count_start(%s)", [consumer.table])
            target.execute("SELECT exact_count_fold(%s)", [consumer.table])
            assert value(target, f"SELECT exact_count('{consumer.table}') = count(*) FROM {consumer.table}")


@pytest.mark.parametrize("tables", [ALL, OWN], ids=["all tables", "own tables"])
@pytest.mark.parametrize("edition", EDITIONS)
def test_no_row_is_lost_in_a_switch_over(pair: Pair, edition: str, tables: str) -> None:
    switch_over(pair, edition, tables, 4, 12)


@pytest.mark.parametrize("tables", [ALL, OWN], ids=["all tables", "own tables"])
@pytest.mark.parametrize("edition", EDITIONS)
def test_no_row_is_lost_in_a_switch_over_with_many_writers(pair: Pair, edition: str, tables: str) -> None:
    switch_over(pair, edition, tables, 16, 40, "streaming = parallel, two_phase = true")


def state_of(connection: Connection) -> list[object]:
    return [
        value(connection, query)
        for query in (
            "SELECT array_agg(name ORDER BY name) FROM inorder_internal.feed",
            "SELECT array_agg(f.name || ' ' || s.batch || ' ' || s.position ORDER BY f.name) "
            "FROM inorder_internal.feed_state AS s JOIN inorder_internal.feed AS f ON f.id = s.feed",
            "SELECT array_agg(number ORDER BY number) FROM inorder_internal.worker_batch",
        )
    ]


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_state_of_a_subscriber_follows_each_change_of_a_feed(pair: Pair, edition: str) -> None:
    pair.make(edition)
    with connect(pair.source) as source, connect(pair.target) as target:
        run(source, "SELECT feed_enable('keys'), feed_create('a', 'keys', 'beginning')")
        run(source, "INSERT INTO keys (region, token) VALUES (0, 1)")
        pair.copy_schema()
        pair.subscribe(ALL)
        pair.wait()
        for statement in (
            "SELECT feed_finish_batch('a', number, token) FROM feed_take_batch('a', 'w')",
            "SELECT feed_rename('a', 'b')",
            "SELECT feed_create('a', 'keys', 'beginning')",
            "SELECT feed_finish_batch('a', number, token) FROM feed_take_batch('a', 'w')",
            "SELECT feed_rename('a', 'c')", "SELECT feed_rename('c', 'a')", "SELECT feed_rename('b', 'c')",
            "SELECT feed_drop('a')", "SELECT feed_create('a', 'keys', 'beginning')",
            "SELECT feed_take_batch('a', 'w')", "SELECT feed_drop('a'), feed_drop('c')",
            "SELECT feed_create('b', 'keys', 'beginning')", "SELECT feed_take_batch('b', 'w')",
        ):  # fmt: skip
            source.execute(statement.encode())
            pair.wait()
            assert state_of(target) == state_of(source), statement


OLD = "'00000000-0001-8000-8000-000000000000'"
MARK = "UPDATE inorder_internal.feed_table SET base = base"


def change_unread(pair: Pair, source: Connection) -> None:
    """Let the publisher call feed_disable() and change rows, and wait until these changes are replicated."""
    source.execute("SELECT feed_disable('numbers'); TRUNCATE numbers, made")
    source.execute("INSERT INTO numbers (region, token) SELECT 0, g FROM generate_series(1, 9) AS g")
    source.execute("UPDATE numbers SET xact = 7 WHERE token = 1; DELETE FROM numbers WHERE token > 5")
    source.execute("SELECT feed_enable('numbers')")
    pair.wait()


def check_live(target: Connection) -> None:
    """Check that deletes and numbers of another server are rejected even with session_replication_role = replica."""
    target.execute("SET session_replication_role = replica")
    for forged in (
        f"INSERT INTO keys (id, region, token) VALUES ({OLD}, 0, 0)", "DELETE FROM keys",
        f"INSERT INTO parts (id, region, token) VALUES ({OLD}, 1, 1)", "TRUNCATE parts_0",
        "INSERT INTO parts (id, region, token) SELECT id, 1 - region, token FROM parts",
        "UPDATE numbers SET xact = 1", "INSERT INTO numbers (region, token, xact) VALUES (0, -1, 1)",
        "INSERT INTO numbers (region, token, xact) VALUES (0, -1, null)",
    ):  # fmt: skip
        with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.RestrictViolation)):
            target.execute(forged.encode())
    target.execute("RESET session_replication_role")


def receive_again(pair: Pair, target: Connection) -> None:
    for table in ("keys", "parts"):
        for feed in ("moved", "steps"):
            target.execute("SELECT feed_drop(%s)", [f"{table} {feed}"])
        target.execute("SELECT exact_count_stop(%s), feed_disable(%s)", [table, table])
    target.execute(f"{MARK} WHERE relation = 'numbers'::regclass".encode())
    target.execute(f"ALTER SUBSCRIPTION {pair.name} ENABLE".encode())
    pair.wait()
    pair.unsubscribe()


@pytest.mark.parametrize("edition", EDITIONS)
def test_an_enabled_table_accepts_no_rows_of_a_subscription(pair: Pair, edition: str) -> None:
    pair.make(edition)
    world, consumers = world_of(pair.source), [Consumer(table) for table in NUMBERED]
    lane = Writer(world, 1)
    with connect(pair.source) as source, connect(pair.target) as target:
        source.execute(";".join(f"SELECT feed_enable('{table}')" for table in NUMBERED).encode())
        pair.copy_schema()
        pair.subscribe(OWN)
        lane.write(10)
        change_unread(pair, source)
        world.ledger.committed |= {"numbers": {1, 2, 3, 4, 5}, "made": set()}
        assert value(target, "SELECT array_agg(token ORDER BY token) FROM numbers") == [1, 2, 3, 4, 5]
        for consumer in consumers:
            with pytest.raises(Refused, match="is not enabled"):
                value(target, "SELECT reader_start(%s)", consumer.table)
            target.execute("SELECT feed_rebase(%s)", [consumer.table])
            consumer.create(target, "beginning")
            consumer.drain(target)
            target.execute("SELECT exact_count_start(%s)", [consumer.table])
        check_live(target)
        target.execute(f"ALTER SUBSCRIPTION {pair.name} SET (disable_on_error = true)".encode())
        lane.write(5)
        wait_for(lambda: value(target, "SELECT NOT subenabled FROM pg_subscription WHERE subname = %s", pair.name))
        assert "call feed_disable()" in pair.subscriber.log.read_text()
        receive_again(pair, target)
        for consumer in consumers:
            with pytest.raises(psycopg.Error, match=r"was restored|does not exist"):
                consumer.read(target, None)
            target.execute("SELECT feed_rebase(%s)", [consumer.table])
        check_read_anew(pair, target, lane)


def check_read_anew(pair: Pair, target: Connection, lane: Writer) -> None:
    numbers = Consumer("numbers")
    for feed in ("moved", "steps"):
        with pytest.raises(Refused, match="remembers no partitions"):
            numbers.tokens(target, "feed_read(%s, TYPE)", f"numbers {feed}")
        target.execute("SELECT feed_drop(%s)", [f"numbers {feed}"])
    consumers = [Consumer(table) for table in NUMBERED]
    for consumer in consumers:
        consumer.create(target, "beginning")
    lane.world.superuser = pair.target
    lane.write(5)
    for consumer in consumers:
        consumer.drain(target)
        consumer.check(lane.world.ledger.committed[consumer.table])
    assert value(target, "SELECT exact_count('numbers') = count(*) FROM numbers")


@pytest.fixture
def subscribing_clone(pair: Pair) -> Iterator[Callable[[], Cluster]]:
    primary = pair.subscriber
    tool = primary.original.bindir / "pg_createsubscriber"
    if not tool.exists():
        pytest.skip("needs pg_createsubscriber of PostgreSQL 17 or later")

    with ExitStack() as stack:

        def make() -> Cluster:
            standby = stack.enter_context(Standby(primary))
            standby.become_subscriber(tool, pair.name, SETTINGS)
            return standby

        yield make
    with connect(pair.target) as source:
        source.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


@pytest.mark.parametrize("edition", EDITIONS)
def test_feeds_continue_if_a_clone_becomes_a_subscriber(
    pair: Pair, edition: str, subscribing_clone: Callable[[], Cluster]
) -> None:
    world = world_of(pair.target)
    lane = Writer(world, 1)
    moved, still = both = Consumer("keys"), Consumer("numbers")
    with connect(pair.target) as source:
        create(source, edition)
        source.execute(SCHEMA.encode())
        for consumer in both:
            consumer.create(source, "beginning")
            source.execute("SELECT exact_count_start(%s)", [consumer.table])
        lane.write(10)
        for consumer in both:
            consumer.read(source, 20)
        clone = Pair(pair.subscriber, subscribing_clone(), pair.name)
        lane.write(5)
        moved.read(source, 20)
        with connect(clone.target) as target:
            subscription = str(value(target, "SELECT subname FROM pg_subscription"))
            wait_for(lambda: "was not made by this transaction" in clone.subscriber.log.read_text())
            target.execute(MARK.encode())
            wait_until_confirmed(source, subscription)
            target.execute(f"DROP SUBSCRIPTION {subscription}".encode())
            advance_sequences(target)
            for consumer in both:
                check_refused(target, consumer.table)
                target.execute("SELECT feed_rebase(%s)", [consumer.table])
            target.execute("SELECT feed_seek('numbers moved', 'here')")  # this feed's table is no longer replicated
            world.superuser = clone.target
            lane.write(5)
            for consumer in both:
                consumer.moved += consumer.tokens(target, "feed_read(%s, TYPE)", f"{consumer.table} moved")
                assert sorted(consumer.moved) == sorted(world.ledger.committed[consumer.table]), consumer.table
    assert still.moved
