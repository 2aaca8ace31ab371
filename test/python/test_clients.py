"""The consumers of docs/clients are killed, disconnected and stopped under load: each row arrives exactly once."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import connect
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN
from consumers import COMMANDS, FOLDER, POISON, REFUSED, Consumer, Shop, missing, uri
from far_server import PORT, FarServer, far_server
from pooler import pooled
from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server

COMMANDED = {
    language: pytest.param(language, marks=pytest.mark.skipif(bool(reason := missing(language)), reason=reason or ""))
    for language in COMMANDS
}
# the Java driver does not support Unix sockets
DIRECT = [COMMANDED[language] for language in COMMANDS if language != "java"]
POOLED = list(COMMANDED.values())
only_in_script_clients = pytest.mark.skipif(
    "INORDER_TEST_CLIENTS" not in os.environ, reason="only script/clients runs this test"
)
# Settings that keep a driver from preparing named statements, which fail behind a pooler. The Python programs contain
# this setting. pg for Node and query_typed() in Rust prepare no named statements.
UNPREPARED = {"go": {"default_query_exec_mode": "exec"}, "java": {"prepareThreshold": "0"}}
BATCH = "SELECT number FROM feed_batches WHERE dead_since IS NULL"


@pytest.fixture
def shop(cluster: Cluster, edition_name: str, request: pytest.FixtureRequest) -> Iterator[Shop]:
    new_shop = Shop(cluster, request.getfixturevalue({"c": "template", "sql": "sql_template"}[edition_name]))
    yield new_shop
    new_shop.close()


@pytest.fixture
def pooler(cluster: Cluster, shared_folder: Path) -> Iterator[int]:
    with pooled(cluster, shared_folder) as port:
        yield port


@pytest.mark.parametrize("language", DIRECT)
def test_a_consumer_gets_each_row_once_despite_kills(shop: Shop, language: str, tmp_path: Path) -> None:
    source, sink = (uri(str(shop.cluster.folder / "run"), 5432, name) for name in ("shop", "mail"))
    check(shop, Consumer(language, source, sink, tmp_path / "log"))


@only_in_script_clients
@pytest.mark.parametrize("language", POOLED)
def test_a_consumer_behind_pgbouncer_gets_each_row_once(shop: Shop, pooler: int, language: str, tmp_path: Path) -> None:
    source, sink = (uri("127.0.0.1", pooler, name, **UNPREPARED.get(language, {})) for name in ("shop", "mail"))
    if language == "java":
        source, sink = map(of_jdbc, (source, sink))
    check(shop, Consumer(language, source, sink, tmp_path / "log"), keep_sink_away)


def of_jdbc(address: str) -> str:
    return re.sub(r"^postgresql:///(\w+)\?host=(.+?)&port=(\d+)", r"jdbc:postgresql://\2:\3/\1?", address)


@pytest.mark.parametrize("key", [None, "stream"])
def test_several_consumers_get_each_row_once(shop: Shop, key: str | None, tmp_path: Path) -> None:
    if key is not None:
        shop.source.execute("ALTER TABLE events ADD COLUMN stream int NOT NULL DEFAULT floor(random() * 50)")
        shop.source.execute("SELECT feed_drop('mailer'), feed_create('mailer', 'events', partition_by => 'stream')")
    source, sink = (uri(str(shop.cluster.folder / "run"), 5432, name) for name in ("shop", "mail"))
    workers = [Consumer("python", source, sink, tmp_path / name, name) for name in ("one", "two", "three")]
    try:
        with shop.load():
            for worker in workers:
                worker.start()
            for worker in workers:
                wait_for(partial(has_had_a_batch, shop, worker.command[-1]))
            with shop.sink.transaction():
                shop.sink.execute("LOCK TABLE batches IN SHARE MODE")
                wait_for(lambda: shop.waiting("mail"))
                (killed_worker,) = (worker for worker in workers if worker.command[-1] == holder(shop))
                killed_worker.kill()
                killed_worker.start()  # a worker restarted under the same name gets its batch again
                shop.end_sessions(shop.waiting("mail"))
            shop.wait_for_more()
        # A batch that was stored is delivered again if the acknowledgement was lost.
        wait_for(lambda: len(shop.arrived()) == len(shop.committed) and shop.unfinished() == 0)
        assert [worker.stop() for worker in workers] == [0, 0, 0]
    finally:
        for worker in workers:
            worker.kill()
    assert shop.arrived() == Counter(shop.committed)


def holder(shop: Shop) -> object:
    return value(shop.source, "SELECT worker FROM feed_batches WHERE worker IS NOT NULL ORDER BY number LIMIT 1")


def has_had_a_batch(shop: Shop, name: str) -> bool:
    return bool(value(shop.source, "SELECT count(*) FROM feed_batches WHERE worker = %s", name))


def check(shop: Shop, consumer: Consumer, *steps: Callable[[Shop, Consumer], None]) -> None:
    try:
        with shop.load():
            consumer.start()
            shop.wait_for_more()
            kill_before_finish(shop, consumer)
            kill_before_store(shop, consumer)
            for _ in range(3 if LONG_RUN else 1):
                shop.wait_for_more()
                consumer.kill()
                consumer.start()
            stop_in_mid_batch(shop, consumer)
            shop.wait_for_more()
            shop.end_sessions(shop.sessions("shop") + shop.sessions("mail"))
            shop.wait_for_more()
            for other in steps:
                other(shop, consumer)
            assert consumer.process.poll() is None
            (dead,) = shop.insert(shop.source, [POISON])
            wait_for(lambda: value(shop.sink, "SELECT count(*) FROM dead_letters"))
            refused = shop.insert(shop.source, [REFUSED])
            wait_for(lambda: value(shop.source, "SELECT count(*) FROM feed_batches WHERE dead_since IS NOT NULL"))
        check_the_end(shop, consumer, dead, refused)
    except BaseException as error:
        error.add_note(consumer.log.read_text()[-2000:])
        raise
    finally:
        consumer.kill()


def test_a_row_that_a_deferred_constraint_refuses_is_a_dead_letter(shop: Shop) -> None:
    """The row must be rejected before the commit, because an error at commit would lose all rows of the batch."""
    shop.sink.execute("ALTER TABLE mails ADD UNIQUE (body) DEFERRABLE INITIALLY DEFERRED")
    rows = json.dumps([{"body": body} for body in ("a", "b", "a", "c")])
    assert value(shop.sink, "SELECT store_batch(1, %s, 2)", rows) == 1
    assert value(shop.sink, "SELECT array_agg(body ORDER BY body) FROM mails") == ["a", "b", "c"]


def kill_before_finish(shop: Shop, consumer: Consumer) -> None:
    with shop.sink.transaction():
        shop.sink.execute("LOCK TABLE batches IN SHARE MODE")
        wait_for(lambda: shop.waiting("mail"))
        with shop.source.transaction():
            shop.source.execute("SELECT FROM inorder_internal.worker_batch FOR UPDATE")
            (number,) = (row[0] for row in shop.source.execute(BATCH))
            shop.sink.execute("COMMIT; BEGIN")
            wait_for(lambda: shop.waiting("shop"))
            consumer.kill()
            shop.end_sessions(shop.waiting("shop"))
    assert value(shop.sink, "SELECT count(*) FROM batches WHERE number = %s", number) == 1
    assert [row[0] for row in shop.source.execute(BATCH)] == [number]
    consumer.start()
    wait_for(lambda: value(shop.source, "SELECT count(*) FROM feed_batches WHERE number = %s", number) == 0)


def kill_before_store(shop: Shop, consumer: Consumer) -> None:
    with shop.sink.transaction():
        shop.sink.execute("LOCK TABLE batches IN SHARE MODE")
        wait_for(lambda: shop.waiting("mail"))
        (number,) = (row[0] for row in shop.source.execute(BATCH))
        consumer.kill()
        shop.end_sessions(shop.waiting("mail"))
    assert value(shop.sink, "SELECT count(*) FROM batches WHERE number = %s", number) == 0
    consumer.start()
    wait_for(lambda: value(shop.sink, "SELECT count(*) FROM batches WHERE number = %s", number) == 1)


def stop_in_mid_batch(shop: Shop, consumer: Consumer) -> None:
    # Wait for a session of the new process: until it connects, the process might not have set its signal handler. First
    # end the sessions that the killed process left behind, so that they are not counted.
    consumer.kill()
    shop.end_sessions(shop.sessions("mail"))
    consumer.start()
    with shop.sink.transaction():
        shop.sink.execute("LOCK TABLE batches IN SHARE MODE")
        wait_for(lambda: shop.waiting("mail"))
        (number,) = (row[0] for row in shop.source.execute(BATCH))
        consumer.process.terminate()
        time.sleep(0.2)
        assert consumer.process.poll() is None
    assert consumer.process.wait(PATIENCE) == consumer.stopped
    assert value(shop.sink, "SELECT max(number) FROM batches") == number
    assert shop.source.execute(BATCH).fetchall() == []
    consumer.start()


def has_tried_again(consumer: Consumer, times: int = 1) -> bool:
    return consumer.log.read_text().count("trying again") >= times


def keep_sink_away(shop: Shop, consumer: Consumer) -> None:
    tried = consumer.log.read_text().count("trying again")
    with connect(shop.cluster.dsn) as admin:
        admin.execute("ALTER DATABASE mail ALLOW_CONNECTIONS false")
        shop.end_sessions(shop.sessions("mail"))
        wait_for(lambda: has_tried_again(consumer, tried + 2))
        tries = shop.source.execute("SELECT number, tries FROM feed_batches").fetchall()
        wait_for(lambda: has_tried_again(consumer, tried + 4))
        assert shop.source.execute("SELECT number, tries FROM feed_batches").fetchall() == tries
        admin.execute("ALTER DATABASE mail ALLOW_CONNECTIONS true")
    shop.wait_for_more()


def check_the_end(shop: Shop, consumer: Consumer, dead: str, refused: list[str]) -> None:
    letters = "SELECT content ->> 'id', error LIKE '%%readable%%', batch FROM dead_letters"
    ((key, is_named, number),) = shop.sink.execute(letters.encode()).fetchall()
    assert (key, is_named) == (dead, True)
    ((batch, tries, reason),) = shop.source.execute(
        "SELECT number, tries, reason FROM feed_batches WHERE dead_since IS NOT NULL"
    ).fetchall()
    assert tries == 5 and REFUSED in str(reason) and "CONTEXT" not in str(reason)
    log = consumer.log.read_text()
    assert re.search(rf"batch {number}, try 1 of 5, \d+ rows: will be tried again", log)
    assert re.search(rf"batch {number}, try 2 of 5, \d+ rows: stored", log)
    rows = shop.source.execute("SELECT id::text FROM feed_batch_rows('mailer', %s, null::events)", [batch]).fetchall()
    in_batch = {str(key) for (key,) in rows}
    assert set(refused) <= in_batch
    assert f"batch {batch}, try 5 of 5, {len(in_batch)} rows: dead" in log
    committed = {*shop.committed, *refused}
    wait_for(lambda: len(shop.arrived()) == len(committed - in_batch))
    assert shop.arrived() == Counter(committed - in_batch)
    shop.sink.execute("DROP TRIGGER refuse ON mails")
    shop.source.execute("SELECT feed_retry_batch('mailer', %s)", [batch])
    wait_for(lambda: len(shop.arrived()) == len(committed) and shop.unfinished() == 0)
    assert consumer.stop() == consumer.stopped
    assert shop.arrived() == Counter(committed)


@pytest.mark.editions
def test_a_waiting_worker_holds_no_lock_on_the_feed(shop: Shop) -> None:
    """The waiting transaction has no ID, and therefore no lock on the feed.

    The wait ends as soon as new rows arrive.
    """
    with connect(f"{shop.cluster.dsn} dbname=shop") as worker, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: worker.execute("CALL take_batch('one')").fetchall())
        state = (
            "SELECT backend_xid FROM pg_stat_activity WHERE pid = %s AND query LIKE 'CALL%%' AND state = 'active' "
            "AND wait_event_type IN ('Extension', 'Timeout')"  # in feed_wait(), after it has looked for rows
        )
        wait_for(lambda: shop.source.execute(state.encode(), [worker.info.backend_pid]).fetchall() == [(None,)])
        (key,) = shop.insert(shop.source, ["new"])
        assert waiting.result(PATIENCE) == [(None,) * 5]
        ((batch, token, rows, tries, label),) = worker.execute("CALL take_batch('one')")
        assert (tries, label) == (1, f"batch {batch}, try 1 of 5, 1 rows")
        assert json.loads(str(rows)) == [{"id": key, "body": "new"}]
        worker.execute("SELECT end_batch(%s, %s, null)", [batch, token])
    assert shop.unfinished() == 0


UNREADABLE = """
CREATE TYPE unreadable AS ENUM ('');
CREATE FUNCTION fail(unreadable) RETURNS json LANGUAGE plpgsql AS 'BEGIN RAISE ''cannot be read''; END';
CREATE CAST (unreadable AS json) WITH FUNCTION fail(unreadable);
ALTER TABLE events ADD COLUMN bad unreadable;
INSERT INTO events (bad) VALUES ('')
"""


@pytest.mark.editions
def test_a_batch_that_cannot_be_read_becomes_dead(shop: Shop) -> None:
    shop.source.execute(UNREADABLE.encode())
    for _ in range(5):
        with pytest.raises(psycopg.errors.RaiseException, match="cannot be read"):
            shop.source.execute("CALL take_batch('one')")
        shop.source.execute("UPDATE inorder_internal.worker_batch SET tried = clock_timestamp()")
    shop.insert(shop.source, ["new"])
    ((batch, token, *_),) = shop.source.execute("CALL take_batch('one')")
    shop.source.execute("SELECT end_batch(%s, %s, '')", [batch, token])
    query = b"SELECT tries, reason, dead_since IS NULL, lease_end > failed FROM feed_batches ORDER BY number"
    assert shop.source.execute(query).fetchall() == [(5, None, False, None), (1, "", True, True)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[cC]onsumer*")), ids=lambda path: path.name)
def test_a_documented_consumer_is_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) < 70 and max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["consumer.py", "consumer_async.py"])
@pytest.mark.parametrize("arguments", [(), ("worker",)])
def test_a_consumer_without_its_settings_prints_its_usage(name: str, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, str(FOLDER / name), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={"SOURCE": "dbname=shop"})
    assert (done.returncode, done.stderr) == (1, f"usage: SOURCE=DSN SINK=DSN {name} WORKER\n")


LIBPQ = ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
# Settings that make a program detect that the server has silently vanished, by file name or suffix.
NOTICED = {
    ".py": LIBPQ,
    ".go": ("Timeout:  ", "KeepAliveConfig{", "IPPROTO_TCP, 18, 20000"),
    ".java": ("connectTimeout", "socketTimeout", "tcpKeepAlive"),
    ".mjs": ("connectionTimeoutMillis", "keepAlive: true", "keepAliveInitialDelayMillis", "query_timeout"),
    ".rs": ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_retries", "tcp_user_timeout"),
    ".cs": ("Timeout=", "Command Timeout=", "Tcp Keepalive=true", "Tcp Keepalive Time=", "Tcp Keepalive Interval="),
    "stream.go": ("QueryRowContext(ctx,",),
}
# Settings whose sum is the time until a program detects a silent network, each with its unit in seconds.
AFTER = {
    ".java": [(r'"socketTimeout", "(\d+)"', 1.0)],
    ".mjs": [(r"query_timeout: (\d+)", 0.001)],
    ".cs": [(r"Command Timeout=(\d+)", 1.0), (r"\bTimeout=(\d+)", 1.0)],
    ".go": [(r"IPPROTO_TCP, 18, (\d+)", 0.001)],
    ".rs": [(r"tcp_user_timeout\(Duration::from_secs\((\d+)", 1.0)],
    ".py": [(r"tcp_user_timeout\D+(\d+)", 0.001)],
    "stream.go": [(r"context\.WithTimeout\(context\.Background\(\), (\d+)\*time\.Second\)", 1.0)],
}
MOST_SECONDS = 30
# Calls that open a connection. Each program contains one such call.
OPENED = "|".join((
    r"psycopg\.connect\(", r"AsyncConnection\.connect\(", r"create_engine\(", r"getConnection\(",
    r"\w+\.connect\(NoTls", r"new pg\.(?:Client|Pool)\(", r"new NpgsqlConnection\(", r"OpenDB\(", r"sql\.Open\(",
))  # fmt: skip


def test_every_documented_program_notices_a_silent_network() -> None:
    """The readers in check/ are left out, because inorder lab check starts their server on the same machine."""
    faults = []
    for path in sorted((*FOLDER.glob("*.*"), *(FOLDER / "http").glob("*.*"))):
        if path.suffix in (".md", ".sql"):
            continue
        kind = path.name if path.name in NOTICED else path.suffix
        content = path.read_text()
        opened = len(re.findall(OPENED, content))
        if path.stem == "worker_django":  # Django opens connections according to its settings: see orm.md
            content = (FOLDER / "orm.md").read_text().partition("# django: settings of the database")[2]
            opened += 1
        faults += [f"{path.name} lacks {name}" for name in NOTICED[kind] if name not in content]
        after = sum(float(re.findall(text, content)[0]) * unit for text, unit in AFTER[kind])
        faults += [f"{path.name} notices it after {after} s"] if not 0 < after <= MOST_SECONDS else []
        faults += [f"{path.name} opens connections in {opened} places"] if opened != 1 else []
    of_docs = [
        (path.name, call) for path in FOLDER.parent.glob("*.md") for call in re.findall(OPENED, path.read_text())
    ]
    assert not faults and of_docs == [("feed-workers.md", "psycopg.connect(")]


@only_in_script_clients
def test_consumers_notice_a_silent_network(shop: Shop, tmp_path: Path) -> None:
    """All consumers wait at the same time, for most of a minute, while the host vanishes.

    The host then comes back with the same address.
    """
    with far_server(shop.cluster) as server:
        consumers = [of_far_server(server, language, tmp_path) for language in COMMANDS if not missing(language)]
        try:
            for consumer in consumers:
                consumer.start()
            for consumer in consumers:
                wait_for(partial(has_stored, shop, consumer))
            server.cut()
            server.stop()
            for consumer in consumers:
                wait_for(partial(has_tried_again, consumer))
            server.start()
            server.mend()
            for consumer in consumers:
                wait_for(partial(has_stored, shop, consumer))
            assert [consumer.stop() for consumer in consumers] == [consumer.stopped for consumer in consumers]
        finally:
            for consumer in consumers:
                consumer.kill()


def of_far_server(server: FarServer, language: str, folder: Path) -> Consumer:
    source, sink = (uri("127.0.0.1", PORT, name) for name in ("shop", "mail"))
    if language == "java":
        source, sink = map(of_jdbc, (source, sink))
    consumer = Consumer(language, source, sink, folder / language, language)
    consumer.command = [*server.inside, *consumer.command]
    return consumer


def has_stored(shop: Shop, consumer: Consumer) -> bool:
    """Insert a row, and return True if the consumer has stored another batch a moment later."""
    stored = consumer.log.read_text().count("stored") if consumer.log.exists() else 0
    shop.insert(shop.source, ["for anybody"])
    time.sleep(0.05)
    return consumer.log.exists() and consumer.log.read_text().count("stored") > stored
