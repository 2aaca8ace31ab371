"""Counters are compared with inserts of known cost. CPU times are read while a process waits or after it has ended."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InorderError
from inorder.lab.instruments import counters, timing
from inorder.lab.instruments.counters import (
    read_blocks,
    read_index_pages,
    read_leaf_density,
    read_sizes,
    read_wal,
    wal_place,
)
from inorder.lab.instruments.timing import ServerProcess, children_of, ended_cpu
from inorder.lab.plan.keys import KEY_KINDS, KeyKind
from inorder.lab.server.cluster import Cluster
from inorder.lab.targets.target import since

from conftest import has_pgstattuple
from waiting import wait_for
from world.beside import beside
from world.sql import run, value

pytestmark = pytest.mark.server
ROWS = 2000
WORK = "SELECT count(*) FROM generate_series(1, 2000000)"


def read_counters(connection: Connection, kind: KeyKind) -> dict[str, float]:
    return read_blocks(connection, kind) | read_wal(connection)


@pytest.fixture
def random_keys(without_lab: Connection) -> Connection:
    without_lab.execute("CREATE SCHEMA inorder_lab")
    run(without_lab, *KEY_KINDS["random"].statements())
    return without_lab


def test_a_known_load_is_counted(cluster: Cluster, random_keys: Connection) -> None:
    kind = KEY_KINDS["random"]
    random_keys.execute("CHECKPOINT")
    before = read_counters(random_keys, kind)
    position = value(random_keys, "SELECT pg_current_wal_insert_lsn()")
    with connect(cluster.dsn) as other:
        for _ in range(ROWS):
            other.execute(f"INSERT INTO {kind.table} DEFAULT VALUES".encode())
    counted = since(read_counters(random_keys, kind), before)
    written = float(str(value(random_keys, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", position)))
    # The WAL also contains up to 7 bytes of padding per record, and 24 to 40 bytes of header per 8 kB page.
    assert (
        counted["wal_bytes"] <= written <= counted["wal_bytes"] + 7 * counted["wal_records"] + 40 * (written / 8192 + 2)
    )
    assert counted["wal_records"] >= 3 * ROWS  # heap, index, commit
    assert counted["index_hits"] + counted["index_reads"] >= ROWS
    assert counted["heap_hits"] + counted["heap_reads"] >= ROWS


def test_earlier_work_of_this_session_is_not_counted(random_keys: Connection) -> None:
    kind = KEY_KINDS["random"]
    random_keys.execute("SELECT pg_stat_force_next_flush()")
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
    before = read_counters(random_keys, kind)
    time.sleep(1.2)
    random_keys.execute("SELECT 1")
    counted = since(read_counters(random_keys, kind), before)
    assert counted["wal_records"] < ROWS / 10 and counted["heap_hits"] == counted["index_hits"] == 0


def test_all_wal_before_a_position_is_on_disk(cluster: Cluster, connection: Connection) -> None:
    """pg_waldump reads only WAL that is on disk, so WAL written by other sessions meanwhile must also be flushed."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS inorder")

    def log(ended: threading.Event) -> None:
        with connect(cluster.dsn) as other:
            while not ended.is_set():
                other.execute("SELECT count(pg_logical_emit_message(false, 'x', 'x')) FROM generate_series(1, 1000)")

    with beside(log):
        behind = [
            place for place in (wal_place(connection) for _ in range(100))
            if not value(connection, "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", place)
        ]  # fmt: skip
    assert not behind


def test_no_position_is_just_after_the_header_of_a_page(connection: Connection) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS inorder")

    def logged(size: int) -> int:
        connection.execute("SELECT pg_logical_emit_message(false, '', repeat('x', %s))", (size,))
        return int(value(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'"))

    # The server logs a snapshot every 15 s, which may come between the steps. The test therefore repeats them.
    end = logged(8)
    least = min(after - before for before, after in pairwise([end, logged(8), logged(8), logged(8)])
                if before // 8192 == after // 8192)  # fmt: skip
    for _ in range(1000):
        room = 8192 - end % 8192 - least
        end = logged(8 + (room if 0 <= room <= 128 else 64))
        place = int(value(connection, "SELECT %s::pg_lsn - '0/0'", wal_place(connection)))
        if end % 8192 == 24 and end == int(value(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'")):
            break
    assert end % 8192 == 24 and place == end - 24


def test_the_first_change_of_a_page_after_a_checkpoint_counts_an_image(
    cluster: Cluster, random_keys: Connection
) -> None:
    kind = KEY_KINDS["random"]
    random_keys.execute(
        f"ALTER TABLE {kind.table} SET (autovacuum_enabled = off)".encode()
    )  # autovacuum would write pages as well
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, 100000)".encode())
    # Only pages that exist at the checkpoint get full-page images. Pages created by later splits get none.
    index_pages = read_sizes(random_keys, kind)["index_bytes"] / 8192
    images = []
    for checkpoint in (True, False):
        if checkpoint:
            random_keys.execute("CHECKPOINT")
        before = read_counters(random_keys, kind)
        with connect(cluster.dsn) as other:
            other.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
        images.append(since(read_counters(random_keys, kind), before)["full_page_images"])
    assert images[0] > 0.9 * index_pages
    assert images[1] < 0.1 * images[0]


def test_counters_are_not_read_while_another_session_is_open(
    cluster: Cluster, random_keys: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open session's share would only be counted by the next reading, so the reading raises an error."""
    monkeypatch.setattr(counters, "SESSION_SECONDS", 0.2)
    with connect(cluster.dsn), pytest.raises(InorderError, match="other sessions are still connected"):
        read_counters(random_keys, KEY_KINDS["random"])


def test_the_size_of_an_index_agrees_with_the_server(random_keys: Connection) -> None:
    kind = KEY_KINDS["random"]
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
    assert read_sizes(random_keys, kind)["index_bytes"] == value(random_keys, "SELECT pg_relation_size(%s)", kind.index)


def test_leaf_density_is_read_if_pgstattuple_is_installed(cluster: Cluster, random_keys: Connection) -> None:
    kind = KEY_KINDS["random"]
    random_keys.execute("DROP EXTENSION IF EXISTS pgstattuple")
    assert read_index_pages(random_keys, kind) == {}
    if not has_pgstattuple(cluster.server):
        pytest.skip("this server has no pgstattuple")
    random_keys.execute("CREATE EXTENSION pgstattuple")
    assert read_index_pages(random_keys, kind) == {"leaf_pages": 0}
    random_keys.execute(f"INSERT INTO {kind.table} SELECT FROM generate_series(1, {ROWS})".encode())
    density, blocks = read_leaf_density(random_keys, kind), read_sizes(random_keys, kind)["index_bytes"] / 8192
    assert 40 < density["leaf_density"] <= 100
    # all blocks except the metapage and the root page
    assert read_index_pages(random_keys, kind) == density | {"leaf_pages": blocks - 2}
    assert read_leaf_density(random_keys, KEY_KINDS["random_none"]) == {}
    random_keys.execute("CREATE ROLE density_owner")
    random_keys.execute("GRANT USAGE ON SCHEMA inorder_lab TO density_owner")
    try:
        random_keys.execute(f"ALTER TABLE {kind.table} OWNER TO density_owner; SET ROLE density_owner".encode())
        assert read_index_pages(random_keys, kind) == {}  # only members of pg_stat_scan_tables may read it
    finally:
        random_keys.execute("RESET ROLE")
        random_keys.execute("DROP OWNED BY density_owner")
        random_keys.execute("DROP ROLE density_owner")


def test_reading_cpu_waits_for_a_running_process(cluster: Cluster) -> None:
    with connect(cluster.dsn) as session, ThreadPoolExecutor(1) as pool:
        process = ServerProcess(session)
        before = process.cpu_seconds()
        work = pool.submit(session.execute, WORK)
        wait_for(lambda: process.nanoseconds() / 1e9 > before + 0.01)
        spent = process.cpu_seconds() - before
        work.result()
        assert process.cpu_seconds() - before == spent > 0.05


def test_reading_cpu_waits_for_sessions_that_are_ending(cluster: Cluster, connection: Connection) -> None:
    assert cluster.process is not None
    earlier = connect(cluster.dsn)
    read_cpu = partial(ended_cpu, cluster.process.pid, connection)
    earlier.close()
    before = read_cpu()
    session = connect(cluster.dsn)
    process = session.info.backend_pid
    session.execute(WORK)
    spent = ServerProcess(session).cpu_seconds()
    os.kill(process, signal.SIGSTOP)  # keep the process from ending
    session.close()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_cpu)
        time.sleep(0.3)
        waited = not reading.done()
        os.kill(process, signal.SIGCONT)
        assert reading.result() - before > 0.9 * spent - 0.02  # both CPU times are rounded to ticks of 10 ms
    assert waited and process not in children_of(cluster.process.pid)


def test_reading_cpu_fails_if_a_session_continues(
    cluster: Cluster, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the reading would include only part of the CPU time of the session that continues."""
    assert cluster.process is not None
    monkeypatch.setattr(timing, "ENDING_SECONDS", 0.2)
    with connect(cluster.dsn), pytest.raises(InorderError, match="sessions of the server have not ended"):
        ended_cpu(cluster.process.pid, connection)
