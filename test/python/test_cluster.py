"""The throw-away server: private, and gone however the program ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from inorder.cluster import OWNER_FILE, PREFIX, Cluster, sweep, temporary_folder
from inorder.database import connect
from inorder.errors import InorderError
from inorder.servers import Server

pytestmark = pytest.mark.server
WAIT_SECONDS = 60

PROGRAM = """
import signal, sys, time
from pathlib import Path
from inorder.cli import terminate
from inorder.cluster import Cluster
from inorder.servers import find_server
signal.signal(signal.SIGTERM, terminate)
with Cluster(find_server()) as cluster:
    cluster.start()
    print(cluster.folder, cluster.process.pid, flush=True)
    time.sleep(600)
"""


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    """Whether the process ends in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(pid)


def test_nothing_is_left(server: Server) -> None:
    """No folder and no process after the block."""
    with Cluster(server) as cluster:
        cluster.start()
        assert cluster.process is not None
        pid, folder = cluster.process.pid, cluster.folder
        assert running(pid) and folder.exists()
    assert not running(pid)
    assert not folder.exists()


def test_nothing_is_left_after_an_error(server: Server) -> None:
    """An exception inside the block passes through."""
    with pytest.raises(ValueError, match="inside"), Cluster(server) as cluster:
        cluster.start()
        folder = cluster.folder
        raise ValueError("inside")
    assert not folder.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_nothing_is_left_after_a_signal(server: Server, how: signal.Signals) -> None:
    """Ctrl-C and termination clean up; after a kill the server ends by itself and the next run removes the folder."""
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as program:
        assert program.stdout
        folder, pid = program.stdout.readline().split()
        assert running(int(pid))
        program.send_signal(how)
        program.wait(WAIT_SECONDS)
    assert wait_until_gone(int(pid))
    if how == signal.SIGKILL:
        assert Path(folder).exists()
        sweep(temporary_folder())
    assert not Path(folder).exists()


def test_sweep_spares_the_living(tmp_path: Path) -> None:
    """Only a folder whose owner is gone is removed, and only one that says who owns it."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name, owner in (("living", os.getpid()), ("dead", ended.pid)):
        (tmp_path / f"{PREFIX}{name}").mkdir()
        (tmp_path / f"{PREFIX}{name}" / OWNER_FILE).write_text(str(owner))
    (tmp_path / f"{PREFIX}unknown").mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}living", f"{PREFIX}unknown"]


def test_no_port_is_opened(cluster: Cluster) -> None:
    """The server listens on its private socket only, in a folder others cannot enter."""
    with connect(cluster.dsn) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        port = int(str(connection.execute("SHOW port").fetchone()[0]))  # type: ignore[index]
    assert (cluster.folder / "run").stat().st_mode & 0o077 == 0
    sockets = (cluster.folder / "run").glob(".s.PGSQL.*")
    assert [path.name for path in sockets if path.is_socket()] == [f".s.PGSQL.{port}"]
    assert cluster.process is not None
    held = {os.readlink(fd) for fd in Path(f"/proc/{cluster.process.pid}/fd").iterdir()}
    assert not held & listening_sockets()


def listening_sockets() -> set[str]:
    """The TCP sockets that listen on this machine, as /proc/PID/fd names them: column 4 is the state, 10 the inode."""
    tables = [path.read_text() for path in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}


def test_a_server_that_does_not_start_shows_its_log(server: Server) -> None:
    """The reason is in the error."""
    with pytest.raises(InorderError, match="shared_buffers"), Cluster(server) as cluster:
        cluster.start({"shared_buffers": "none"})


def test_system_folders_are_not_written(server: Server, cluster: Cluster) -> None:
    """The extension is in the copy and not in the installation."""
    assert (cluster.server.sharedir / "extension" / "inorder.control").exists()
    assert cluster.server.sharedir.is_relative_to(cluster.folder)
    assert not (server.sharedir / "extension" / "inorder.control").exists()


def test_settings_reach_the_server(cluster: Cluster) -> None:
    """Also over a restart."""
    cluster.restart({"work_mem": "7MB", "max_prepared_transactions": "10", "fsync": "off"})
    with psycopg.connect(cluster.dsn) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
