"""CPU times of the server's processes: read when one waits, or has surely ended."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InorderError
from inorder.lab.instruments import timing
from inorder.lab.instruments.timing import ServerProcess, children_of, ended_cpu
from inorder.lab.server.cluster import Cluster

pytestmark = pytest.mark.server
WORK = "SELECT count(*) FROM generate_series(1, 2000000)"


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_process_that_runs_is_waited_for(cluster: Cluster) -> None:
    with connect(cluster.dsn) as session, ThreadPoolExecutor(1) as pool:
        process = ServerProcess(session)
        before = process.cpu_seconds()
        work = pool.submit(session.execute, WORK)
        wait_for(lambda: process.nanoseconds() / 1e9 > before + 0.01)
        spent = process.cpu_seconds() - before
        work.result()
        assert process.cpu_seconds() - before == spent > 0.05


def test_sessions_that_still_end_are_waited_for(cluster: Cluster, connection: Connection) -> None:
    assert cluster.process is not None
    earlier = connect(cluster.dsn)
    ended = partial(ended_cpu, cluster.process.pid, connection)
    earlier.close()
    before = ended()
    session = connect(cluster.dsn)
    process = session.info.backend_pid
    session.execute(WORK)
    spent = ServerProcess(session).cpu_seconds()
    os.kill(process, signal.SIGSTOP)  # so that it cannot end yet
    session.close()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(ended)
        time.sleep(0.3)
        waited = not reading.done()
        os.kill(process, signal.SIGCONT)
        assert reading.result() - before > 0.9 * spent - 0.02  # in ticks of 10 ms, at both ends
    assert waited and process not in children_of(cluster.process.pid)


def test_a_session_that_goes_on_is_an_error(
    cluster: Cluster, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of its time would be in this reading."""
    assert cluster.process is not None
    monkeypatch.setattr(timing, "ENDING_SECONDS", 0.2)
    with connect(cluster.dsn), pytest.raises(InorderError, match="sessions of the server have not ended"):
        ended_cpu(cluster.process.pid, connection)
