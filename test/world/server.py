"""Temporary servers that tests kill and restart, and their hot standbys."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from inorder.connection.database import connect
from inorder.errors import InorderError
from inorder.installations import Installation
from inorder.lab.instruments.timing import children_of, stat_of
from inorder.lab.server.cluster import Cluster, Limit

from world.sql import run, value

# No query on the standby is canceled: replay waits for queries, and VACUUM on the primary keeps rows that the queries
# can see.
STANDBY_SETTINGS = {"hot_standby": "on", "hot_standby_feedback": "on", "max_standby_streaming_delay": "-1"}
REPLAY_SECONDS = 120
LINES_BEFORE = 8  # number of log lines before a crash that may show its cause
# Delay the WAL writer, so that asynchronous commits reach the disk only after seconds unless they are flushed.
UNFLUSHED = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}


class Standby(Cluster):
    """A standby that streams from a running cluster, with its own data directory and socket.

    >>> with Cluster(find_installation()) as cluster, Standby(cluster) as standby:      # doctest: +SKIP
    ...     cluster.start()
    ...     standby.start()
    """

    def __init__(self, primary: Cluster) -> None:
        super().__init__(primary.original)
        self.primary = primary

    def __enter__(self) -> "Standby":
        super().__enter__()
        return self

    def _create(self) -> None:
        self.folder.chmod(0o755)
        (self.folder / "run").mkdir(mode=0o700)
        if self.account:
            for path in (self.folder, self.folder / "run"):
                os.chown(path, self.account.pw_uid, self.account.pw_gid)
        self.server = self.primary.server  # its private installation, with the extension
        command: list[str | Path] = [self.original.program("pg_basebackup"), "-d", self.primary.dsn, "-D", self.data]
        completed = self._run(
            [*command, "--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--wal-method=stream"]
        )
        if completed.returncode != 0:
            raise InorderError(f"pg_basebackup failed:\n{completed.stdout}{completed.stderr}")

    def start(self, settings: Mapping[str, str] | None = None, limit: Limit | None = None) -> None:
        """Start with these settings and the standby settings.

        Limits such as max_connections must not be lower than on the primary.
        """
        super().start(STANDBY_SETTINGS | dict(settings or {}), limit)

    def catch_up(self) -> None:
        with connect(self.primary.dsn) as primary, connect(self.dsn) as standby:
            row = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            deadline = time.monotonic() + REPLAY_SECONDS
            while time.monotonic() < deadline:
                replayed = standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [row[0]]).fetchone()
                if replayed == (True,):
                    return
                time.sleep(0.02)
        raise InorderError(f"the standby did not catch up within {REPLAY_SECONDS} s:\n{self.log_tail()}")

    def stop_streaming(self) -> None:
        with connect(self.dsn) as connection:
            run(connection, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
            while value(connection, "SELECT count(*) FROM pg_stat_wal_receiver"):
                time.sleep(0.02)

    def become_subscriber(self, tool: Path, database: str, settings: Mapping[str, str]) -> None:
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        command: list[str | Path] = [tool, "-D", self.data, "-P", self.primary.dsn, "-d", database]
        completed = self._run([*command, "-s", str(self.folder / "run"), "-U", "postgres"])
        if completed.returncode != 0:
            raise InorderError(f"pg_createsubscriber failed:\n{completed.stdout}{completed.stderr}")
        self.start(settings)

    def promote(self) -> None:
        with connect(self.dsn) as connection:
            if connection.execute("SELECT pg_promote()").fetchone() != (True,):
                raise InorderError(f"the standby was not promoted:\n{self.log_tail()}")


def has_ended(process: int) -> bool:
    """Return True if a process has ended, even if its parent has not waited for it yet."""
    try:
        return stat_of(process)[0] == "Z"
    except OSError:
        return True


def kill_all(cluster: Cluster) -> None:
    assert cluster.process is not None
    cluster.process.send_signal(signal.SIGSTOP)  # so that the postmaster starts no other process
    children = children_of(cluster.process.pid)
    for child in children:
        os.kill(child, signal.SIGKILL)
    cluster.process.kill()
    cluster.process.wait()
    cluster.process = None
    # On a busy machine, killed processes end with a delay. The server cannot start while a process uses the old shared
    # memory.
    while not all(map(has_ended, children)):
        time.sleep(0.01)


def kill_one(cluster: Cluster, rng: random.Random) -> None:
    """Kill one session, after which the server ends all other sessions and runs crash recovery."""
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
    """Return log lines, with context, about failed assertions, PANICs, and signals other than SIGKILL."""
    lines = cluster.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        "\n".join(lines[max(number - LINES_BEFORE, 0) : number + 1]) for number, line in enumerate(lines)
        if ("terminated by signal" in line and "signal 9" not in line) or "TRAP:" in line or "PANIC:" in line
    ]  # fmt: skip


def run_program(
    cluster: Cluster, program: str, *arguments: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [cluster.original.program(program), *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, input=stdin, env=cluster.environment(), timeout=300
    )


@contextmanager
def with_standby(server: Installation, settings: dict[str, str], *statements: str) -> Iterator[tuple[Cluster, Standby]]:
    """Yield a server on which the statements were executed, and its standby."""
    with Cluster(server) as primary:
        primary.start(settings)
        with connect(primary.dsn) as connection:
            run(connection, *statements)
        with Standby(primary) as standby:
            standby.start(settings)
            yield primary, standby
