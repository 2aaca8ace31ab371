"""A hot standby of a throw-away server, itself thrown away."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from inorder.connection.database import connect
from inorder.errors import InorderError
from inorder.lab.server.cluster import Cluster, Limit

# Replay waits for queries on the standby, and VACUUM on the primary for rows that they still see: nothing is cancelled.
STANDBY_SETTINGS = {"hot_standby": "on", "hot_standby_feedback": "on", "max_standby_streaming_delay": "-1"}
REPLAY_SECONDS = 120


class Standby(Cluster):
    """A standby that streams from a running cluster, in a folder and with a socket of its own.

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
        done = self._run([*command, "--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--wal-method=stream"])
        if done.returncode != 0:
            raise InorderError(f"pg_basebackup failed:\n{done.stdout}{done.stderr}")

    def start(self, settings: Mapping[str, str] | None = None, limit: Limit | None = None) -> None:
        """Start with the primary's settings that a standby must not fall below, and its own."""
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

    def become_subscriber(self, tool: Path, database: str, settings: Mapping[str, str]) -> None:
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        command: list[str | Path] = [tool, "-D", self.data, "-P", self.primary.dsn, "-d", database]
        done = self._run([*command, "-s", str(self.folder / "run"), "-U", "postgres"])
        if done.returncode != 0:
            raise InorderError(f"pg_createsubscriber failed:\n{done.stdout}{done.stderr}")
        self.start(settings)

    def promote(self) -> None:
        with connect(self.dsn) as connection:
            if connection.execute("SELECT pg_promote()").fetchone() != (True,):
                raise InorderError(f"the standby was not promoted:\n{self.log_tail()}")
