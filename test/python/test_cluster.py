"""The throw-away server is private, and is removed regardless of how the program ends."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import connect
from inorder.errors import InorderError, InputError
from inorder.installations import Installation, from_pg_config
from inorder.interrupts import uninterrupted
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import make_readable
from inorder.lab.server.temporary import (
    LONGEST_FOLDER,
    OWNER_FILE,
    PREFIX,
    UNCLAIMED_SECONDS,
    claim,
    claimed_folder,
    remove,
    service_account,
    sweep,
    takes_direct_io,
    temporary_folder,
)

import clusters
from conftest import SETTINGS
from waiting import PATIENCE, running, wait_until_empty, wait_until_gone
from world.sql import value

pytestmark = pytest.mark.server

PROGRAM = """
import signal, sys, time
from pathlib import Path
from inorder.cli import terminate
from inorder.lab.server.cluster import Cluster
from inorder.installations import find_installation
signal.signal(signal.SIGTERM, terminate)
signal.signal(signal.SIGINT, signal.default_int_handler)
with Cluster(find_installation()) as cluster:
    cluster.start()
    print(cluster.folder, cluster.process.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def servers_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters.made_anew(monkeypatch)


def listing(*folders: Path) -> set[tuple[str, int]]:
    return {(str(path), path.lstat().st_mtime_ns) for folder in folders for path in folder.rglob("*")}


@pytest.mark.usefixtures("servers_are_made_anew")
def test_nothing_is_left_and_system_folders_are_not_written(server: Installation) -> None:
    before = listing(server.sharedir, server.pkglibdir, server.bindir)
    with Cluster(server) as cluster:
        assert (cluster.server.sharedir / "extension" / "inorder.control").exists()
        assert cluster.server.sharedir.is_relative_to(cluster.folder)
        cluster.start()
        assert cluster.process is not None
        pid, folder = cluster.process.pid, cluster.folder
        assert running(pid) and folder.exists()
    assert not running(pid)
    assert not folder.exists()
    assert listing(server.sharedir, server.pkglibdir, server.bindir) == before


def test_nothing_is_left_after_an_error(server: Installation) -> None:
    with pytest.raises(ValueError, match="inside"), Cluster(server) as cluster:
        cluster.start()
        folder = cluster.folder
        raise ValueError("inside")
    assert not folder.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_nothing_is_left_after_a_signal(server: Installation, shared_folder: Path, how: signal.Signals) -> None:
    environment = os.environ | {"PG_CONFIG": str(server.bindir / "pg_config"), "TMPDIR": str(shared_folder)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        start_new_session=True,
    ) as program:  # fmt: skip
        assert program.stdout
        _, pid = program.stdout.readline().split()
        assert running(int(pid))
        os.killpg(program.pid, how)
        program.wait(PATIENCE)
    assert wait_until_gone(int(pid))
    assert how == signal.SIGKILL or list(shared_folder.iterdir()) == []
    assert wait_until_empty(shared_folder)


def test_an_interrupt_during_shutdown_is_not_replaced_by_an_error(
    server: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has already exited before it is killed. An error from the kill does not replace the interrupt."""
    with pytest.raises(KeyboardInterrupt), Cluster(server) as cluster:
        cluster.start()
        process = cluster.process
        assert process is not None
        wait = process.wait

        def interrupted(seconds: float | None = None) -> int:
            code = wait(seconds)
            if seconds is not None:
                raise KeyboardInterrupt
            return code

        monkeypatch.setattr(process, "wait", interrupted)
        cluster.stop()


def test_sweep_keeps_folders_of_running_processes(tmp_path: Path) -> None:
    folders = {name: tmp_path / f"{PREFIX}{name}" for name in ("living", "dead", "unknown")}
    for folder in folders.values():
        folder.mkdir()
    claim(folders["dead"]).close()
    with claim(folders["living"]):
        sweep(tmp_path)
        assert sorted(tmp_path.iterdir()) == [folders["living"], folders["unknown"]]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [folders["unknown"]]


def test_the_owner_file_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"{PREFIX}x"
    (folder / "data").mkdir(parents=True)
    claim(folder).close()

    def cut_off(path: Path, **_: object) -> None:
        assert (folder / OWNER_FILE).exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("inorder.lab.server.temporary.shutil.rmtree", cut_off)
    with pytest.raises(KeyboardInterrupt):
        remove(folder)


def test_a_folder_that_cannot_be_removed_stays_claimable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"{PREFIX}x"
    (folder / "data").mkdir(parents=True)
    claim(folder).close()
    rmtree = shutil.rmtree
    monkeypatch.setattr("inorder.lab.server.temporary.shutil.rmtree",
                        lambda path, **options: None if path.name == "data" else rmtree(path, **options))  # fmt: skip
    sweep(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["data", OWNER_FILE]
    monkeypatch.undo()
    sweep(tmp_path)
    assert not folder.exists()


def test_sweep_follows_no_links(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in (OWNER_FILE, "data"):
        (precious / name).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(precious)
    (tmp_path / f"{PREFIX}x").mkdir()
    (tmp_path / f"{PREFIX}x" / OWNER_FILE).symlink_to(precious / OWNER_FILE)
    sweep(tmp_path)
    assert len(list(precious.iterdir())) == 2 and (tmp_path / f"{PREFIX}x" / OWNER_FILE).is_symlink()


@pytest.mark.parametrize("named", [False, True])
def test_a_folder_not_yet_claimed_is_swept_once_it_is_old(tmp_path: Path, named: bool) -> None:
    for name in ("empty", "full"):
        (tmp_path / f"{PREFIX}{name}").mkdir()
    (tmp_path / f"{PREFIX}full" / "x").touch()
    if named:
        (tmp_path / f"{PREFIX}empty" / f".{OWNER_FILE}").touch()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    for folder in tmp_path.iterdir():
        os.utime(folder, (0, time.time() - UNCLAIMED_SECONDS - 1))
    sweep(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == [f"{PREFIX}full"]


def test_an_interrupt_waits_for_cleaning_up_and_is_not_forgotten(tmp_path: Path) -> None:
    """If the interrupt were forgotten, a shell loop would continue with the next run."""
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        done.append("cleaned up")
    assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), claimed_folder(tmp_path) as folder:
        signal.raise_signal(signal.SIGINT)
    assert not folder.exists()


def test_a_folder_half_removed_by_a_killed_process_is_swept(shared_folder: Path) -> None:
    program = (
        "import os, sys, shutil; from pathlib import Path; from inorder.lab.server.temporary import claimed_folder\n"
        "shutil.rmtree = lambda *path, **options: os.kill(os.getpid(), 9)\n"
        "with claimed_folder(Path(sys.argv[1])) as folder: (folder / 'data').mkdir()"
    )
    done = subprocess.run([sys.executable, "-c", program, shared_folder], check=False)
    assert done.returncode == -signal.SIGKILL and wait_until_empty(shared_folder)


def test_no_port_is_opened(cluster: Cluster) -> None:
    with connect(cluster.dsn) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        port = value(connection, "SHOW port")
    assert all((cluster.folder / name).stat().st_mode & 0o077 == 0 for name in ("run", "data", "log"))
    sockets = (cluster.folder / "run").glob(".s.PGSQL.*")
    assert [path.name for path in sockets if path.is_socket()] == [f".s.PGSQL.{port}"]
    assert cluster.process is not None
    held = {os.readlink(fd) for fd in Path(f"/proc/{cluster.process.pid}/fd").iterdir()}
    assert not held & listening_sockets()


def listening_sockets() -> set[str]:
    """Return the TCP sockets that listen on this machine, named as in /proc/PID/fd.

    In the kernel's table, column 4 is the state and column 10 the inode.
    """
    tables = [path.read_text() for path in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}


def test_a_server_that_does_not_start_shows_its_log(server: Installation) -> None:
    with pytest.raises(InorderError, match="shared_buffers"), Cluster(server) as cluster:
        cluster.start({"shared_buffers": "none"})


@pytest.mark.usefixtures("servers_are_made_anew")
def test_the_callers_environment_has_no_effect(
    server: Installation, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "PGHOST": "127.0.0.1", "PGHOSTADDR": "127.0.0.1", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "none",
        "PGSERVICE": "none", "PGOPTIONS": "-c default_transaction_read_only=on", "PGCHANNELBINDING": "require",
        "PGSSLMODE": "require", "PGDATA": "/nowhere",
    }  # fmt: skip
    for name, setting in variables.items():
        monkeypatch.setenv(name, setting)
    with Cluster(server) as cluster:
        cluster.start()
        with connect(cluster.dsn) as connection:
            assert connection.execute("SHOW data_directory").fetchone() == (str(cluster.data),)
            connection.execute("CREATE TABLE t ()")
        psql: list[str | Path] = [cluster.original.program("psql"), "-qXAt", "-c", "SHOW data_directory"]
        shown = subprocess.run(psql, check=True, capture_output=True, text=True, env=cluster.environment()).stdout
        assert shown.strip() == str(cluster.data)
    assert {name: os.environ[name] for name in variables} == variables


@pytest.mark.usefixtures("servers_are_made_anew")
def test_a_server_starts_despite_a_restrictive_umask_and_an_odd_folder(
    server: Installation, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = shared_folder / "a b'c"
    odd.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(odd))
    monkeypatch.setattr("tempfile.tempdir", None)
    narrow = shared_folder / "narrow" / "lib"
    narrow.mkdir(parents=True)
    before = os.umask(0o077)
    (narrow / "x.so").touch(mode=0o700)
    try:
        make_readable(shared_folder / "narrow")
        assert (narrow / "x.so").stat().st_mode & 0o777 == 0o755
        with Cluster(server) as cluster:
            cluster.start()
            assert cluster.folder.parent == odd
            with connect(cluster.dsn) as connection:
                connection.execute("CREATE EXTENSION inorder")
    finally:
        assert os.umask(before) == 0o077


def test_a_folder_that_cannot_be_used_is_skipped(
    server: Installation, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, deep, comma = shared_folder / "closed", shared_folder / ("d" * LONGEST_FOLDER), shared_folder / "a,b"
    closed.mkdir(mode=0o700 if os.geteuid() == 0 else 0o500)
    deep.mkdir()
    signs = [comma, *(shared_folder / f"a{sign}b" for sign in '"$`')]
    for folder in signs:
        folder.mkdir()
    for folder in (closed, deep, *signs):
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr("tempfile.tempdir", None)
        assert temporary_folder(service_account()) != folder
    monkeypatch.setattr("inorder.lab.server.temporary.candidates", lambda: iter([deep]))
    with pytest.raises(InputError, match="no temporary folder"), Cluster(server):
        pass


def test_a_file_system_in_memory_does_not_support_direct_io() -> None:
    assert not takes_direct_io(Path("/dev/shm"))


def test_a_server_that_crashes_shows_its_log(server: Installation) -> None:
    message = r"ended unexpectedly(?s:.*)terminated by signal 9"
    with pytest.raises(InorderError, match=message), Cluster(server) as cluster:
        cluster.start()
        with connect(cluster.dsn) as connection:
            pid = connection.info.backend_pid
            os.kill(pid, signal.SIGKILL)
            assert cluster.process is not None
            cluster.process.wait(PATIENCE)
            connection.execute("SELECT 1")


def test_settings_reach_the_server(cluster: Cluster) -> None:
    cluster.restart(SETTINGS | {"work_mem": "7MB"})
    with psycopg.connect(cluster.dsn) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\nexit 3\n", "it ended with status 3"),
        ("#!/bin/sh\nprintf '\\377\\n'\n", r"pg_config \(a test\) did not report BINDIR"),
        ("nonsense", "Exec format error"),
    ],
)
def test_a_program_other_than_pg_config_causes_one_clear_error_message(tmp_path: Path, script: str, words: str) -> None:
    pg_config = tmp_path / "pg_config"
    pg_config.write_text(script)
    pg_config.chmod(0o755)
    with pytest.raises(InputError, match=words) as raised:
        from_pg_config(pg_config, "a test")
    assert "PosixPath" not in str(raised.value)
