"""PgBouncer between clients and a server: its settings, and a running instance."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import service_account

from ports import free_port
from waiting import wait_for

SETTINGS = "ignore_startup_parameters = extra_float_digits\nserver_login_retry = 1\nquery_wait_timeout = 120\n"


def program() -> str:
    """Return the path of PgBouncer, or skip the test if it is not installed."""
    if (path := shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")) is None:
        pytest.skip("this system has no pgbouncer")
    return path


@contextmanager
def pooled(
    cluster: Cluster, folder: Path, mode: str = "transaction", more: str = "", roles: Sequence[str] = ("postgres",)
) -> Iterator[int]:
    """Run a pooler in this mode for these roles, and yield its port."""
    command = program()
    port = free_port()
    settings, users = folder / "pgbouncer.ini", folder / "users"
    users.write_text("".join(f'"{role}" ""\n' for role in roles))
    settings.write_text(
        f"[databases]\n* = host={cluster.folder / 'run'} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = {mode}\n"
        f"{SETTINGS}{more}"
    )
    account = service_account()
    process = subprocess.Popen(
        [command, "-q", settings], user=account.pw_uid if account else None, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: answers(port))
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
