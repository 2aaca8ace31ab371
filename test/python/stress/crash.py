"""kill -9: of a whole server, which is started again, or of one of its processes, after which it begins anew."""

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import psycopg
from inorder.database import connect
from inorder.lab.server.cluster import Cluster


def children_of(process: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            if int(stat.rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.name))
    return found


def kill_all(cluster: Cluster) -> None:
    """The server with all its processes, at once; nothing is written any more."""
    assert cluster.process is not None
    cluster.process.send_signal(signal.SIGSTOP)  # it must not start another one meanwhile
    for child in children_of(cluster.process.pid):
        os.kill(child, signal.SIGKILL)
    cluster.process.kill()
    cluster.process.wait()
    cluster.process = None


def kill_one(cluster: Cluster, rng: random.Random) -> None:
    """One session: the server ends all others, since shared memory may be damaged, and recovers."""
    with suppress(psycopg.OperationalError), connect(cluster.dsn) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        found = [int(str(pid)) for (pid,) in connection.execute(query)]
        os.kill(rng.choice(found), signal.SIGKILL)
        while True:  # until this one is ended, too
            connection.execute("SELECT pg_sleep(0.01)")
    cluster.wait_until_ready()


def crash(cluster: Cluster, settings: dict[str, str], rng: random.Random) -> None:
    """Either; afterwards the server answers again."""
    if rng.random() < 0.5:
        kill_all(cluster)
        cluster.start(settings)
    else:
        kill_one(cluster, rng)


def other_crashes(cluster: Cluster) -> list[str]:
    """What the log says of processes that ended by another signal than kill -9, or by a failed assertion."""
    lines = cluster.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        line for line in lines
        if ("terminated by signal" in line and "signal 9" not in line) or "TRAP:" in line or "PANIC:" in line
    ]  # fmt: skip
