"""The streams of docs/clients/http: clients that drop at random lose nothing, and get nothing twice."""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import SETTINGS, copy_of, install_edition, scalar, text
from consumers import uri
from streams import FOLDER, Clients, Service, collect, keep_copy, missing
from waiting import wait_for

pytestmark = pytest.mark.server

IS_LONG = "INORDER_TEST_CLIENTS" in os.environ
CLIENTS, SECONDS, PAUSE = (200, 60, 1.0) if IS_LONG else (20, 3, 0.2)
WRITERS = 16
# Two processes of the one, so that clients come with cursors of another process; all three languages together.
TOGETHER = [["python", "python"], ["python", "node", "go"]]
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


@pytest.fixture
def own(server: Installation) -> Iterator[Cluster]:
    """A server that may be stopped."""
    with Cluster(server) as running:
        running.start(SETTINGS)
        install_edition("c", server, running, "postgres")
        yield running


def source_of(cluster: Cluster, database: str = "postgres") -> str:
    return uri(str(cluster.folder / "run"), 5432, database, application_name="stream")


@contextmanager
def served(languages: Sequence[str], source: str, folder: Path) -> Iterator[list[Service]]:
    if reasons := [reason for language in languages if (reason := missing(language))]:
        pytest.skip(reasons[0])
    with ExitStack() as stack:
        yield [
            stack.enter_context(Service(language, source, folder / f"log{n}")) for n, language in enumerate(languages)
        ]


def write(dsn: str, seed: int, statements: Sequence[str], ended: threading.Event) -> None:
    """Transactions of several statements, some of which are rolled back, until the event; the server may go away."""
    chosen = random.Random(seed)
    while not ended.is_set():
        with suppress(psycopg.OperationalError, psycopg.IntegrityError), connect(dsn) as connection:
            while not ended.wait(chosen.uniform(0.01, PAUSE)):
                with connection.transaction(force_rollback=chosen.random() < 0.1):
                    for _ in range(chosen.randint(1, 3)):
                        statement = chosen.choice(statements).format(
                            few=chosen.randint(1, 5), key=chosen.randint(1, 60)
                        )
                        with connection.transaction():  # a savepoint
                            connection.execute(statement.encode())
        ended.wait(0.1)


@contextmanager
def load(cluster: Cluster, statements: Sequence[str]) -> Iterator[None]:
    ended = threading.Event()
    threads = [threading.Thread(target=write, args=[cluster.dsn, n, statements, ended]) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def write_beside_clients(own: Cluster, statements: Sequence[str]) -> int:
    """Load, first beside a transaction that stays open, then beside a crash. Returns the sessions of the services."""
    with load(own, statements):
        with connect(own.dsn) as late, late.transaction():
            late.execute(statements[0].format(few=3, key=2000).encode())
            time.sleep(SECONDS)
            sessions = scalar(late, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stream'")
        time.sleep(1)
        own.stop(signal.SIGQUIT)
        own.start(SETTINGS)
        time.sleep(2)
    return int(str(sessions))


def create(dsn: str, statements: Sequence[str]) -> None:
    with connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.mark.parametrize("languages", TOGETHER, ids="-".join)
def test_each_client_gets_each_row_once(own: Cluster, languages: list[str], tmp_path: Path) -> None:
    create(own.dsn, ROWS)
    with served(languages, source_of(own), tmp_path) as services, Clients(CLIENTS, services, collect) as clients:
        sessions = write_beside_clients(own, INSERTS)
        with connect(own.dsn) as connection:
            rows = Counter(str(key) for (key,) in connection.execute("SELECT id FROM events"))
        with suppress(AssertionError):
            wait_for(lambda: all(client.arrived.total() >= rows.total() for client in clients.all))
    faults = [(rows - client.arrived, client.arrived - rows) for client in clients.all if client.arrived != rows]
    assert faults == [] and rows.total() > 100
    assert sessions <= 2 * len(services) and {status for client in clients.all for status in client.refused} <= {503}


@pytest.mark.parametrize("languages", TOGETHER, ids="-".join)
def test_each_client_keeps_a_copy(own: Cluster, languages: list[str], tmp_path: Path) -> None:
    create(own.dsn, CHANGED)
    with served(languages, source_of(own), tmp_path) as services, Clients(CLIENTS, services, keep_copy) as clients:
        write_beside_clients(own, UPDATES)
        with connect(own.dsn) as connection:
            found = connection.execute("SELECT id, name FROM customers").fetchall()
        rows = {int(str(key)): {"id": key, "name": name} for key, name in found}
        with suppress(AssertionError):
            wait_for(lambda: all(client.copy == rows for client in clients.all))
    assert [client.copy for client in clients.all if client.copy != rows] == [] and rows


@pytest.mark.parametrize(("name", "most"), [("stream.py", 100), ("stream.mjs", 100), ("stream.go", 160)])
def test_a_program_is_short(name: str, most: int) -> None:
    lines = (FOLDER / name).read_text().splitlines()
    code = [line for line in lines if line.strip() and not re.match(r'(import|from) |\t"[\w./]+"$', line)]
    assert len(code) < most and max(map(len, lines)) <= 120


@pytest.mark.editions
@pytest.mark.parametrize("language", ["python", "node", "go"])
def test_after_a_restore_a_cursor_is_gone(cluster: Cluster, of_edition: str, language: str, tmp_path: Path) -> None:
    with copy_of(of_edition, cluster, "shop") as shop, copy_of("template0", cluster, "restored") as restored:
        create(shop.info.dsn, (*ROWS, INSERTS[0].format(few=1500)))
        with served([language], source_of(cluster, "shop"), tmp_path) as (service,):
            wait_for(lambda: service.get("")[0] == 200)
            status, first = service.get("")
            assert (status, len(first["rows"])) == (200, 1000)
            status, second = service.get(first["next"])
            assert (status, len({row["id"] for row in first["rows"] + second["rows"]})) == (200, 1500)
            assert service.get(second["next"])[1]["rows"] == service.get("now")[1]["rows"] == []
            forged = first["next"][:20] + second["next"][20:]
            assert [service.get(cursor)[0] for cursor in (forged, "x", "%00")] == [400, 400, 400]
        to = ("-h", str(cluster.folder / "run"), "-U", "postgres")
        tool = str(cluster.original.program("pg_dump"))
        dump = subprocess.run([tool, *to, "shop"], check=True, capture_output=True).stdout
        psql = str(cluster.original.program("psql"))
        subprocess.run([psql, *to, "-qX", "restored"], input=dump, check=True, capture_output=True)
        with served([language], source_of(cluster, "restored"), tmp_path) as (service,):
            wait_for(lambda: "restored" in service.log.read_text())
            assert service.get("")[0] == service.get(second["next"])[0] == 503
            restored.execute("SELECT feed_rebase('events')")
            wait_for(lambda: service.get("")[0] == 200)
            status, said = service.get(second["next"])
            assert (status, said.partition(".")[0]) == (410, "This server does not continue from that cursor")
            assert len(service.get(service.get("")[1]["next"])[1]["rows"]) == 500
