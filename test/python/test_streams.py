"""The streams of docs/clients/http: clients that drop the connection at random get each row exactly once."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from inorder.connection.database import Connection, connect, one_row
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN, SETTINGS, copy_of, text
from consumers import uri
from streams import FOLDER, PROGRAMS, Clients, Service, collect, keep_copy, unless_missing
from waiting import PATIENCE, wait_for
from world import beside
from world.server import Standby, with_standby
from world.sql import run, value

pytestmark = pytest.mark.server

IS_LONG = "INORDER_TEST_CLIENTS" in os.environ
CLIENTS, WRITERS, PAUSE = (200, 16, 1.0) if IS_LONG else (20, 16, 0.2) if LONG_RUN else (6, 3, 0.1)
# Seconds of load in four parts: during a long transaction, after it, after a crash, and after a failover.
SECONDS = (60, 1, 2, 2) if IS_LONG else (3, 1, 2, 2) if LONG_RUN else (0.5, 0.3, 0.5, 0.5)
# Minimum number of transaction IDs, including those of savepoints, that writers use in each part. The first part must
# insert more than 100 rows.
LEAST_NUMBERS = (200, 20, 20, 50)
LANGUAGES = [pytest.param(language, marks=unless_missing(language)) for language in ("python", "node", "go")]
# Languages of services that run together. A client may present a cursor issued by another service.
TOGETHER = [
    pytest.param(languages, marks=unless_missing(*languages))
    for languages in (["python", "python"], ["python", "node", "go"])
]
ROWS = (
    "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), body text)",
    "SELECT feed_enable('events')",
    text("docs/clients/http/stream.sql"),
)
CHANGED = (
    *ROWS,
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "INSERT INTO customers SELECT n, 'first' FROM generate_series(1, 50) AS n",
    "SELECT changes_enable('customers')",
    text("docs/clients/http/changes.sql"),
)
INSERTS = ("INSERT INTO events (body) SELECT 'x' FROM generate_series(1, {few})",)
UPDATES = (
    "INSERT INTO customers VALUES ({key}, 'new') ON CONFLICT (id) DO UPDATE SET name = 'again'",
    "UPDATE customers SET name = name || 'x' WHERE id % 10 = {few} AND length(name) < 100",
    "DELETE FROM customers WHERE id = {key}",
    "UPDATE customers SET id = id + 1000 WHERE id = {key}",
    "DELETE FROM customers WHERE id > 1000",
)


class Pair:
    """A primary and its standby. The address always leads to the primary, even after a failover."""

    def __init__(self, primary: Cluster, standby: Standby, folder: Path) -> None:
        self.primary, self.standby, self.address = primary, standby, folder / "run"
        self.address.symlink_to(primary.folder / "run")
        self.dsn = primary.dsn.replace(str(primary.folder / "run"), str(self.address))

    def restart(self) -> None:
        self.primary.stop(signal.SIGQUIT)
        self.primary.start(SETTINGS)

    def fail_over(self) -> None:
        """Stop the primary permanently, while clients have rows that the standby lacks."""
        self.standby.stop_streaming()
        with connect(self.standby.dsn) as standby, connect(self.primary.dsn) as primary:
            primary.execute("INSERT INTO events (body) VALUES ('lost')")
            time.sleep(0.1)
            received = value(standby, "SELECT pg_last_wal_receive_lsn()")
            assert value(primary, "SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", received)
        self.primary.stop(signal.SIGQUIT)
        self.standby.promote()
        self.address.unlink()
        self.address.symlink_to(self.standby.folder / "run")


@pytest.fixture
def pair(server: Installation) -> Iterator[Pair]:
    with with_standby(server, SETTINGS, "CREATE EXTENSION inorder") as pair, TemporaryDirectory() as folder:
        yield Pair(*pair, Path(folder))


def source_of(folder: Path, database: str = "postgres") -> str:
    return uri(str(folder), 5432, database, application_name="stream")


@contextmanager
def served(languages: Sequence[str], source: str, folder: Path) -> Iterator[list[Service]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(Service(language, source, folder / f"log{n}")) for n, language in enumerate(languages)
        ]


def write(dsn: str, seed: int, statements: Sequence[str], ended: threading.Event) -> None:
    """Write transactions of several statements until the event is set, even if the server goes down meanwhile."""
    chosen = random.Random(seed)
    while not ended.is_set():
        with suppress(psycopg.OperationalError), connect(dsn) as connection:
            while not ended.wait(chosen.uniform(0.01, PAUSE)):
                texts = chosen.choices(statements, k=chosen.randint(1, 3))
                filled = [text.format(few=chosen.randint(1, 5), key=chosen.randint(1, 60)) for text in texts]
                beside.write(connection, chosen, filled)
        ended.wait(0.1)


def next_number(connection: Connection) -> int:
    return int(value(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))


def let_write(pair: Pair, number: int) -> None:
    with connect(pair.dsn) as connection:
        enough = next_number(connection) + LEAST_NUMBERS[number]
        time.sleep(SECONDS[number])
        wait_for(lambda: next_number(connection) > enough)


def write_beside_clients(pair: Pair, statements: Sequence[str], clients: Clients) -> int:
    """Write during a long transaction, after it, after a crash, and after a failover.

    Return the number of sessions that the services have during the first part.
    """
    with beside.beside(*(partial(write, pair.dsn, seed, statements) for seed in range(WRITERS))):
        with connect(pair.dsn) as late, late.transaction():
            late.execute(statements[0].format(few=3, key=2000).encode())
            let_write(pair, 0)
            sessions = value(late, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stream'")
        let_write(pair, 1)
        pair.restart()
        let_write(pair, 2)
        assert clients.refusals() <= {503}
        pair.fail_over()
        let_write(pair, 3)
    return int(str(sessions))


def assert_asked_once_more(clients: Clients) -> None:
    """Check that each client was told to start over after the failover."""
    assert clients.refusals() <= {410, 503}
    assert all(client.refused[410] for client in clients.all)


def create(dsn: str, statements: Sequence[str]) -> None:
    with connect(dsn) as connection:
        run(connection, *statements)


@pytest.mark.parametrize("languages", TOGETHER, ids="-".join)
def test_each_client_gets_each_row_once(pair: Pair, languages: list[str], tmp_path: Path) -> None:
    create(pair.dsn, ROWS)
    source = source_of(pair.address)
    with served(languages, source, tmp_path) as services, Clients(CLIENTS, services, collect) as clients:
        sessions = write_beside_clients(pair, INSERTS, clients)
        with connect(pair.dsn) as connection:
            rows = Counter(str(key) for (key,) in connection.execute("SELECT id FROM events"))
        # Use dict.__eq__, because the equality of Counter is implemented in Python. The clients' thread could change a
        # Counter during the comparison.
        with suppress(AssertionError):
            wait_for(lambda: all(dict.__eq__(client.arrived, rows) for client in clients.all))
    faults = [(rows - client.arrived, client.arrived - rows) for client in clients.all if client.arrived != rows]
    assert faults == [] and rows.total() > 100
    assert sessions <= 2 * len(services)
    assert_asked_once_more(clients)


@pytest.mark.parametrize("languages", TOGETHER, ids="-".join)
def test_the_copy_of_each_client_equals_the_table(pair: Pair, languages: list[str], tmp_path: Path) -> None:
    create(pair.dsn, CHANGED)
    source = source_of(pair.address)
    with served(languages, source, tmp_path) as services, Clients(CLIENTS, services, keep_copy) as clients:
        write_beside_clients(pair, UPDATES, clients)
        with connect(pair.dsn) as connection:
            fetched = connection.execute("SELECT id, name FROM customers").fetchall()
        rows = {int(str(key)): {"id": key, "name": name} for key, name in fetched}
        with suppress(AssertionError):
            wait_for(lambda: all(client.copy == rows for client in clients.all))
    assert [client.copy for client in clients.all if client.copy != rows] == [] and rows
    assert_asked_once_more(clients)


@pytest.mark.parametrize(("name", "most"), [("stream.py", 100), ("stream.mjs", 100), ("stream.go", 100)])
def test_a_documented_program_is_short(name: str, most: int) -> None:
    lines = (FOLDER / name).read_text().splitlines()
    code = [line for line in lines if line.strip() and not re.match(r'(import|from) |\t"[\w./]+"$', line)]
    assert len(code) < most and max(map(len, lines)) <= 120


def test_the_text_of_a_cursor_is_short(cluster: Cluster, template: str) -> None:
    with copy_of(template, cluster, "shop") as shop:
        create(shop.info.dsn, ROWS)
        start = str(value(shop, "SELECT reader_start('events')::jsonb::text"))
        lengths = {number: [length(shop, start, number, apart) for apart in (10, 100)] for number in (0, 10, 1000)}
    assert max(lengths[0]) <= 51 and max(lengths[10]) < 100 and max(lengths[1000]) < 2000, lengths


def length(connection: Connection, start: str, number: int, apart: int) -> int:
    """Return the length of a cursor with ``number`` open transactions, whose IDs increase by at most ``apart``."""
    chosen = random.Random(number)
    numbers = list(accumulate([987654321, *(chosen.randint(2, apart) for _ in range(number))]))
    ranges = [f"[{first + 1},{last})" for first, last in pairwise([-1, *numbers])]
    position = json.dumps(json.loads(start) | {"transactions": "{" + ",".join(ranges) + "}"})
    cursor = value(connection, "SELECT stream_cursor(%s::jsonb::feed_position)", position)
    same = "SELECT stream_position(%s)::jsonb = %s::jsonb::feed_position::jsonb"
    assert value(connection, same, cursor, position) is True
    return -(-4 * (16 + len(zlib.compress(str(cursor).encode(), 9, -15))) // 3)


def test_a_cursor_of_another_database_is_refused(cluster: Cluster, template: str) -> None:
    """The first cursors of two databases differ, although both servers may start from the same dump."""
    cursors = []
    for name in ("shop", "other"):
        with copy_of(template, cluster, name) as database:
            create(database.info.dsn, ROWS)
            cursors.append(value(database, "SELECT stream_cursor(reader_start('events'))"))
            assert value(database, "SELECT stream_position(%s)::text", cursors[-1])
            if len(cursors) == 2:
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="of another database"):
                    database.execute("SELECT stream_position(%s)", cursors[:1])


def test_a_head_of_another_timeline_is_ignored(cluster: Cluster, template: str) -> None:
    """The process has not noticed a promotion.

    A client continues without a cursor, or with a cursor of the new timeline.
    """
    with copy_of(template, cluster, "shop") as shop:
        create(shop.info.dsn, (*ROWS, INSERTS[0].format(few=3)))
        former = (
            "SELECT stream_cursor((reader_start('events', 'now')::jsonb || '{\"origin\": \"1/1\"}')::feed_position)"
        )
        for head in (value(shop, former), "unknown 1 2"):
            cursor, read = "", []
            for _ in range(2):
                rows, cursor = one_row(shop, "CALL stream_next(%s, %s)", [cursor, head])
                read += json.loads(rows)
            assert len(read) == 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_after_a_failover_clients_begin_again(pair: Pair, language: str, tmp_path: Path) -> None:
    """The service discards the rows that it has cached for clients, even if there are no new rows.

    The new primary may lack some of the cached rows.
    """
    create(pair.dsn, (*ROWS, INSERTS[0].format(few=1500)))
    with served([language], source_of(pair.address), tmp_path) as (service,):
        wait_for(lambda: status_of_second_page(service) == 200)
        cursor = service.get("")[1]["next"]
        pair.fail_over()
        wait_for(lambda: service.get(cursor)[0] == 410)
        wait_for(lambda: status_of_second_page(service) == 200)


def status_of_second_page(service: Service) -> int:
    status, first = service.get("")
    return service.get(first["next"])[0] if status == 200 else status


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_head_request_for_a_stream_ends(cluster: Cluster, template: str, language: str, tmp_path: Path) -> None:
    """A HEAD request for a stream gets the same response as one for a page.

    A service that sends nothing would not notice that the client has disconnected.
    """
    with copy_of(template, cluster, "shop") as shop:
        create(shop.info.dsn, ROWS)
        with served([language], source_of(cluster.folder / "run", "shop"), tmp_path) as (service,):
            wait_for(lambda: service.get("")[0] == 200)
            with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
                client.sendall(b"HEAD /changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
                assert b"200" in client.makefile("rb").read().splitlines()[0]


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_stream_sends_something_to_an_idle_client_every_15_seconds(
    cluster: Cluster, template: str, language: str, tmp_path: Path
) -> None:
    with copy_of(template, cluster, "shop") as shop:
        create(shop.info.dsn, ROWS)
        with served([language], source_of(cluster.folder / "run", "shop"), tmp_path) as (service,):
            wait_for(lambda: service.get("")[0] == 200)
            with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as client:
                began = time.monotonic()
                client.sendall(b"GET /changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
                time.sleep(5)
                client.shutdown(socket.SHUT_WR)
                client.setblocking(False)
                beats = client.recv(100_000).count(b":\n\n")
                assert beats <= (time.monotonic() - began) / 15


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_key_is_refused(language: str) -> None:
    """With an empty key, anyone could sign cursors."""
    command = [*map(str, PROGRAMS[language]), "0"]
    keyless = os.environ | {"SOURCE": "", "STREAM_KEY": "", "PORT": "0"}
    done = subprocess.run(command, env=keyless, check=False, capture_output=True, timeout=PATIENCE)
    assert done.returncode and b"STREAM_KEY is empty" in done.stderr


@pytest.mark.editions
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_cursor_is_invalid_after_a_restore(cluster: Cluster, of_edition: str, language: str, tmp_path: Path) -> None:
    folder = cluster.folder / "run"
    with copy_of(of_edition, cluster, "shop") as shop, copy_of("template0", cluster, "restored") as restored:
        create(shop.info.dsn, (*ROWS, INSERTS[0].format(few=1500)))
        with served([language], source_of(folder, "shop"), tmp_path) as (service,):
            wait_for(lambda: service.get("")[0] == 200)
            status, first = service.get("")
            assert (status, len(first["rows"])) == (200, 1000)
            status, second = service.get(first["next"])
            assert (status, len({row["id"] for row in first["rows"] + second["rows"]})) == (200, 1500)
            assert service.get(second["next"])[1]["rows"] == service.get("now")[1]["rows"] == []
            forged = first["next"][:20] + second["next"][20:]
            assert [service.get(cursor)[0] for cursor in (forged, "x", "%00")] == [400, 400, 400]
        copy_database(cluster, "shop", "restored")
        with served([language], source_of(folder, "restored"), tmp_path) as (service,):
            wait_for(lambda: "restored" in service.log.read_text())
            assert service.get("")[0] == service.get(second["next"])[0] == 503
            restored.execute("SELECT feed_rebase('events')")
            wait_for(lambda: service.get("")[0] == 200)
            status, message = service.get(second["next"])
            assert (status, message.partition(".")[0]) == (410, "This server cannot continue from this cursor")
            assert len(service.get(service.get("")[1]["next"])[1]["rows"]) == 500


def copy_database(cluster: Cluster, source: str, target: str) -> None:
    to = ("-h", str(cluster.folder / "run"), "-U", "postgres")
    pg_dump, psql = (str(cluster.original.program(name)) for name in ("pg_dump", "psql"))
    dump = subprocess.run([pg_dump, *to, source], check=True, capture_output=True).stdout
    subprocess.run([psql, *to, "-qX", target], input=dump, check=True, capture_output=True)
