"""kill -9 of a whole server, which is then restarted, or of one of its processes, after which it restarts itself."""

import os
import random
import signal
import time
from contextlib import suppress

import psycopg
from inorder.connection.database import connect
from inorder.lab.instruments.timing import children_of, stat_of
from inorder.lab.server.cluster import Cluster

# Delay the WAL writer: asynchronous commits reach the disk after seconds, unless they are flushed.
LINES_BEFORE = 8  # lines of the log before a crash that may show its reason
UNFLUSHED = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}


def has_ended(process: int) -> bool:
    """True if a process has ended, even if its parent has not waited for it yet."""
    try:
        return stat_of(process)[0] == "Z"
    except OSError:
        return True


def kill_all(cluster: Cluster) -> None:
    assert cluster.process is not None
    cluster.process.send_signal(signal.SIGSTOP)  # it must not start other processes meanwhile
    children = children_of(cluster.process.pid)
    for child in children:
        os.kill(child, signal.SIGKILL)
    cluster.process.kill()
    cluster.process.wait()
    cluster.process = None
    # On a busy machine processes end later, and the server does not start while one has its shared memory.
    while not all(map(has_ended, children)):
        time.sleep(0.01)


def kill_one(cluster: Cluster, rng: random.Random) -> None:
    """Kill one session: the server ends all others, because shared memory may be damaged, and recovers."""
    with suppress(psycopg.OperationalError), connect(cluster.dsn) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        sessions = [int(str(pid)) for (pid,) in connection.execute(query)]
        os.kill(rng.choice(sessions), signal.SIGKILL)
        while True:  # until the server ends this session, too
            connection.execute("SELECT pg_sleep(0.01)")
    cluster.wait_until_ready()


def crash(cluster: Cluster, settings: dict[str, str], rng: random.Random) -> None:
    if rng.random() < 0.5:
        kill_all(cluster)
        cluster.start(settings)
    else:
        kill_one(cluster, rng)


def other_crashes(cluster: Cluster) -> list[str]:
    """Log lines, with context, about processes ended by another signal than kill -9, or a failed assertion."""
    lines = cluster.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        "\n".join(lines[max(number - LINES_BEFORE, 0) : number + 1]) for number, line in enumerate(lines)
        if ("terminated by signal" in line and "signal 9" not in line) or "TRAP:" in line or "PANIC:" in line
    ]  # fmt: skip
