"""Connections of inorder tail: their number after the tool has reconnected, and connections through poolers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import repeat
from pathlib import Path

import pytest
from inorder.arrow.reader import Connection as ArrowConnection
from inorder.connection import reconnect
from inorder.connection.database import TIMEOUTS, Connection
from inorder.connection.session import Session
from inorder.errors import Terminated
from inorder.lab.server.cluster import Cluster
from inorder.prepare import steps
from inorder.tail.request import Request
from inorder.tail.run import Delivery, run
from psycopg import sql

import pooler
from conftest import LONG_RUN
from tail_runs import Tail, insert, numbers
from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server

RECONNECTS = 100 if LONG_RUN else 6
OURS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'tail' AND application_name = 'inorder'"
FORMATS = ("json", "csv", "binary", "arrow", "parquet")


class Counted:
    """Replaces Delivery.pause(): counts connections and files, and terminates the run's session at each pause."""

    def __init__(self, database: Connection) -> None:
        self.database, self.connections, self.files = database, list[int](), list[int]()

    def number(self) -> int:
        return int(value(self.database, OURS))

    def pause(self, delivery: Delivery) -> None:
        with suppress(AssertionError):  # a closed session may need a moment to end
            wait_for(lambda: self.number() <= max(self.connections[1:2], default=self.number()))
        self.connections.append(self.number())
        self.files.append(len(os.listdir("/proc/self/fd")))
        if len(self.connections) > RECONNECTS:
            raise Terminated
        insert(self.database, 1)
        pid = delivery.source.session.connection.info.backend_pid
        self.database.execute("SELECT pg_terminate_backend(%s)", [pid])
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        wait_for(lambda: value(self.database, sessions, pid) == 0)
        delivery.source.wait()


@pytest.mark.parametrize("output", FORMATS)
def test_reconnects_leave_no_connection(
    fresh: Connection, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    counted = Counted(fresh)
    monkeypatch.setattr(reconnect, "pauses", lambda: repeat(0.0))

    def pause(delivery: Delivery) -> None:
        counted.pause(delivery)

    monkeypatch.setattr(Delivery, "pause", pause)
    sink = {"directory": tmp_path / "d"} if output == "parquet" else {"command": "cat > /dev/null"}
    delivered = list[int]()
    dsn = f"{cluster.dsn} dbname=tail"
    run(Request(dsn, "events", tmp_path / "p", None, output=output, follow=True, **sink), delivered.append)
    assert sum(delivered) == RECONNECTS
    assert max(counted.connections) <= counted.connections[1], counted.connections
    assert max(counted.files[1:]) <= counted.files[1] + 2, counted.files


@pytest.fixture
def behind(fresh: Connection, cluster: Cluster, tmp_path: Path, shared_folder: Path) -> Iterator[Tail]:
    """Yield the tool behind a pooler in transaction mode, which gives each transaction one of two server sessions.

    The Arrow driver needs a search_path that the pooler would not accept from the client, so it is set for the role.
    """
    fresh.execute("ALTER ROLE postgres IN DATABASE tail SET search_path = pg_catalog, pg_temp")
    with pooler.pooled(cluster, shared_folder, more="server_round_robin = 1\nmin_pool_size = 2\n") as port:
        tail = Tail(cluster, tmp_path)
        tail.environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres"}
        yield tail


@pytest.mark.parametrize("output", FORMATS)
def test_behind_a_pooler_each_row_comes_once(fresh: Connection, behind: Tail, output: str) -> None:
    options = ["public.events", "--position", "p", "--format", output, "--batch-rows", "7"]
    options += ["--directory", "d"] if output == "parquet" else []
    for first in (1, 26):
        insert(fresh, 25, first)
        written = behind.written(*options)
    if output == "json":
        assert numbers(written.decode()) == list(range(26, 51))
    elif output == "arrow":
        import pyarrow as pa  # noqa: PLC0415  # only the Arrow tests need it

        assert pa.ipc.open_stream(written).read_all().column("n").to_pylist() == list(range(26, 51))
    assert len(list((behind.folder / "d").glob("*.parquet"))) == (8 if output == "parquet" else 0)


READS = """
import os, sys, threading
from inorder.arrow import reader
from inorder.connection.session import Session

dsn, batch = sys.argv[1:]
session, lines, ended = Session(dsn), 0, threading.Event()

def write():
    global lines
    while not ended.is_set():
        lines += os.write(2, b".")

writer = threading.Thread(target=write)
writer.start()
table, rows = session.table("events"), reader.ArrowReader(None)
for _ in range(20):
    assert sum(map(len, rows.of_batch(session, table, batch))) == 3
ended.set()
writer.join()
(connection,) = rows.connections.values()
connection.hold(table.identifier)
connection.run("DO 'BEGIN RAISE WARNING $$loud$$; END'")
connection.commit()
rows.close()
print(lines)
"""


def test_standard_error_is_not_replaced(fresh: Connection, cluster: Cluster) -> None:
    """The thread that reads rows does not redirect standard error, and writes no server messages to it."""
    insert(fresh, 3)
    batch = value(fresh, "SELECT to_jsonb(reader_next_batch('events', reader_start('events')))::text")
    done = subprocess.run(
        [sys.executable, "-c", READS, f"{cluster.dsn} dbname=tail", str(batch)],
        check=True, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == "." * int(done.stdout)


SHOWN = """SELECT pg_catalog.string_agg(s.setting, ' ')::pg_catalog.text FROM pg_catalog.pg_settings AS s
           WHERE s.name = ANY ({names})"""


def test_timeouts_of_the_role_do_not_apply_to_reads(fresh: Connection, cluster: Cluster) -> None:
    """Connections that read, and sessions of inorder prepare, disable the timeouts in their transactions."""
    names = [name for name, first in TIMEOUTS.items() if fresh.info.server_version >= first]
    for name in names:
        fresh.execute(f"ALTER DATABASE tail SET {name} = '10min'".encode())
    shown, none = sql.SQL(SHOWN), " ".join("0" for _ in names)
    dsn = f"{cluster.dsn} dbname=tail"
    with closing(Session(dsn)) as session:
        assert session.row(shown, names=names) == (none,)
        with closing(ArrowConnection(dsn)) as connection:
            assert connection.asked(shown, names=names) == [(" ".join("600000" for _ in names),)]
            connection.hold(session.table("events").identifier, session.settings)
            assert connection.rows(shown, names=names) == [(none,)]
            connection.commit()
    fresh.execute("CREATE TABLE old (id int PRIMARY KEY)")
    request = steps.Request("old", "xact", 0.5, 1, undo=False, drop_column=False, dsn=dsn)
    preparation = steps.Preparation(request, lambda _text: None)
    with closing(Session(dsn, writes=True)) as session:
        preparation.attach(session)
        preparation.run()
        (timeouts,) = session.connection.execute(shown.format(names=names)).fetchone() or ()
        assert set(str(timeouts).split()) <= {"0", "500"}
