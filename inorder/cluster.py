"""A throw-away PostgreSQL server: private folder, private socket, no port.

Whatever happens, nothing stays: the server ends with this process (also when it
is killed), and the folder is removed on the way out or, after a kill, by the
next run.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psycopg

from inorder.errors import InorderError
from inorder.installation import private_installation
from inorder.servers import Server

PREFIX = "inorder-"
OWNER_FILE = "owner"
START_SECONDS = 60
STOP_SECONDS = 60
LOG_LINES = 20

# What a throw-away server differs in, whatever it is used for.
BASE_SETTINGS = {
    "listen_addresses": "",
    "autovacuum": "off",  # its WAL and reads would be counted as the load's
    "restart_after_crash": "off",  # a crash is to be seen
    "max_connections": "100",
    "log_min_messages": "warning",
    "jit": "off",
}


def temporary_folder() -> Path:
    """TMPDIR, /tmp, or /var/tmp where /tmp is memory: direct I/O would measure nothing there."""
    folder = Path(tempfile.gettempdir())
    if "TMPDIR" not in os.environ and filesystem_of(folder) == "tmpfs" and Path("/var/tmp").exists():
        return Path("/var/tmp")
    return folder


def filesystem_of(folder: Path, mounts: str | None = None) -> str:
    """The type of the file system a folder is on, by the longest mount point above it.

    >>> filesystem_of(Path("/tmp/x"), "a / ext4 rw 0 0\\nb /tmp tmpfs rw 0 0\\nc /tmpfiles xfs rw 0 0\\n")
    'tmpfs'
    >>> filesystem_of(Path("/home"), "a / ext4 rw 0 0\\nb /tmp tmpfs rw 0 0\\n")
    'ext4'
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text()
        except OSError:
            return "unknown"
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, point, fstype, *_ = line.split()
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fstype
    return kind


def service_account() -> pwd.struct_passwd | None:
    """The account to run the server as: none of its own unless this is root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise InorderError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def sweep(folder: Path) -> None:
    """Remove what earlier runs left that were killed before they could."""
    for leftover in folder.glob(f"{PREFIX}*/{OWNER_FILE}"):
        try:
            owner = int(leftover.read_text())
            mine = leftover.stat().st_uid == os.geteuid()
        except (OSError, ValueError):
            continue
        if mine and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(leftover.parent, ignore_errors=True)


class Cluster:
    """A server that lives as long as the ``with`` block.

    >>> with Cluster(find_server()) as cluster:      # doctest: +SKIP
    ...     cluster.start({"shared_buffers": "1GB"})
    ...     psycopg.connect(cluster.dsn)
    """

    def __init__(self, server: Server, extra_sources: Sequence[Path] = ()) -> None:
        self.original = server
        self.server = server
        self.extra_sources = extra_sources
        self.account = service_account()
        self.process: subprocess.Popen[bytes] | None = None
        self.folder = Path()

    def __enter__(self) -> "Cluster":
        parent = temporary_folder()
        sweep(parent)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            self._create()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop(signal.SIGQUIT)
        finally:
            self._remove()

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    @property
    def dsn(self) -> str:
        """A libpq connection string for the superuser."""
        return f"host={self.folder / 'run'} user=postgres dbname=postgres"

    def environment(self) -> dict[str, str]:
        """An environment in which libpq programs reach this server, whatever the caller's says."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return own | {"PGHOST": str(self.folder / "run"), "PGUSER": "postgres", "PGDATABASE": "postgres"}

    def _create(self) -> None:
        (self.folder / OWNER_FILE).write_text(str(os.getpid()))
        self.folder.chmod(0o755)
        for name in ("data", "run"):
            (self.folder / name).mkdir(mode=0o700)
            if self.account:
                os.chown(self.folder / name, self.account.pw_uid, self.account.pw_gid)
        self.server = private_installation(self.original, self.folder / "server", self.extra_sources)
        command: list[str | Path] = [self.server.program("initdb"), "-D", self.data]
        done = self._run([*command, "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"])
        if done.returncode != 0:
            raise InorderError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _identity(self) -> dict[str, object]:
        """Popen arguments that run a program as the service account."""
        if self.account is None:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": [], "cwd": self.folder}

    def _run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, check=False, capture_output=True, text=True, **self._identity())  # type: ignore[call-overload,no-any-return]

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server with these settings over the base ones, and wait until it answers."""
        options = BASE_SETTINGS | {"unix_socket_directories": str(self.folder / "run")} | dict(settings or {})
        # The server is told to stop when this process dies, however it dies.
        command: list[str | Path] = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        command += [self.server.program("postgres"), "-D", self.data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # type: ignore[call-overload]
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, **self._identity()
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise InorderError(f"the server did not start:\n{self.log_tail()}")
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise InorderError(f"the server did not answer within {START_SECONDS} s:\n{self.log_tail()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends it cleanly, SIGQUIT at once."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop cleanly, then start with other settings."""
        self.stop()
        self.start(settings)

    def log_tail(self) -> str:
        """The end of the server's log, for an error message."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        except OSError:
            return "(no log)"
