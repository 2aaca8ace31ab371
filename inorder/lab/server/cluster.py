"""A throw-away PostgreSQL server in a private folder, with a private socket and no TCP port.

Nothing remains afterwards. The server ends when this process ends, even if this process is killed. This process removes
the folder when it ends. If it is killed, a helper process or the next run removes the folder.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

import psycopg
from psycopg.conninfo import make_conninfo

from inorder.errors import InorderError
from inorder.files import failed
from inorder.installations import Installation
from inorder.interrupts import uninterrupted
from inorder.lab.server.installation import private_installation
from inorder.lab.server.temporary import claimed_folder, run_as, service_account, temporary_folder

PORT = "5432"  # part of the socket's file name; the server has no TCP port
START_SECONDS = 120
STOP_SECONDS = 600  # a fast shutdown writes dirty buffers
QUIT_SECONDS = 60
LOG_LINES = 20

# The settings of every throw-away server that differ from the defaults.
BASE_SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "autovacuum": "off",  # WAL and reads by autovacuum would be counted
    "restart_after_crash": "off",  # after a restart, a crash might go unnoticed
    "max_connections": "100",
    "log_min_messages": "warning",
    "jit": "off",
}


@contextmanager
def without_libpq_environment() -> Iterator[None]:
    """Hide the caller's PGHOST, PGSERVICE, PGOPTIONS and so on, which could lead to a server of the user."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PG") and name != "PG_CONFIG"}
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextmanager
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


class Limit(Protocol):
    """A limit on the memory or the disks of a server. ``take`` applies the limit to the server.

    ``memory_bytes``: the memory limit, or 0 for none.
    """

    memory_bytes: int

    @property
    def kills(self) -> int:
        """The number of processes that the kernel killed because the memory limit was exceeded."""

    def take(self, process: int) -> None: ...

    def lift(self) -> None: ...

    def close(self) -> None: ...


class Cluster:
    """A server that runs during the ``with`` block.

    ``extra_sources``: folders whose extensions are built in addition to inorder, or None for a server without
    extensions.
    """

    def __init__(self, server: Installation, extra_sources: Sequence[Path] | None = ()) -> None:
        self.original = server
        self.server = server
        self.extra_sources = extra_sources
        self.account = service_account()
        self.process: subprocess.Popen[bytes] | None = None
        self.limit: Limit | None = None
        self.folder = Path()
        self.surroundings = ExitStack()
        self.folders_outside = ExitStack()

    def __enter__(self) -> "Cluster":
        with ExitStack() as stack:
            stack.enter_context(without_libpq_environment())
            self.folder = stack.enter_context(self._place())
            stack.enter_context(self.folders_outside)
            stack.callback(self._end)
            with open_umask():
                self._create()
            self.surroundings = stack.pop_all()
        return self

    def _place(self) -> AbstractContextManager[Path]:
        """Return a context manager for the folder that contains the whole server."""
        return claimed_folder(temporary_folder(self.account))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with uninterrupted():
            crashed = self.process is not None and self.process.poll() is not None
            log, limit = self.log_tail(), self.limit
            killed = limit is not None and limit.kills > 0
            self.surroundings.close()
        if limit and killed and isinstance(error, psycopg.OperationalError):
            room = f"{limit.memory_bytes // 2**20} MB of memory in all: --memory is too small for this"
            raise InorderError(f"the kernel killed a process of the server, which has {room}\n{log}") from error
        if crashed and isinstance(error, psycopg.OperationalError):
            raise InorderError(f"the server ended unexpectedly: {error}\n{log}") from error

    def _end(self) -> None:
        with uninterrupted():
            self.stop(signal.SIGQUIT, QUIT_SECONDS)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def dsn(self) -> str:
        return make_conninfo(host=str(self.folder / "run"), port=PORT, user="postgres", dbname="postgres")

    def outside(self, parent: Path) -> Path:
        """Create a folder for a tablespace inside a folder of the user. It is removed together with the cluster."""
        try:
            folder = self.folders_outside.enter_context(claimed_folder(parent))
        except OSError as error:
            raise failed(f"cannot create a folder in {parent}", error) from error
        inner = folder / "tablespace"
        inner.mkdir(mode=0o700)
        folder.chmod(0o755)
        if self.account:
            os.chown(inner, self.account.pw_uid, self.account.pw_gid)
        return inner

    def environment(self) -> dict[str, str]:
        """Return an environment in which libpq programs connect to this server, whatever the caller's environment."""
        with without_libpq_environment():
            environment = dict(os.environ)
        own = {"PGHOST": str(self.folder / "run"), "PGPORT": PORT, "PGUSER": "postgres", "PGDATABASE": "postgres"}
        return environment | own

    def _create(self) -> None:
        self.folder.chmod(0o755)
        for name in ("data", "run"):
            (self.folder / name).mkdir(mode=0o700)
            if self.account:
                os.chown(self.folder / name, self.account.pw_uid, self.account.pw_gid)
        self.server = private_installation(self.original, self.folder / "server", self.extra_sources)
        self._initdb()

    def _initdb(self) -> None:
        command: list[str | Path] = [self.server.program("initdb"), "-D", self.data]
        process = self._run([*command, "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"])
        if process.returncode != 0:
            raise InorderError(f"initdb failed:\n{process.stdout}{process.stderr}")

    def _run_as(self) -> tuple[list[str], dict[str, object]]:
        before, options = run_as(self.account)
        return before, options | ({"cwd": self.folder} if self.account else {})

    def _run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        before, options = self._run_as()
        return subprocess.run([*before, *command], check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]

    def start(self, settings: Mapping[str, str] | None = None, limit: Limit | None = None) -> None:
        self.limit = limit
        # The folder is quoted, because the setting is a comma-separated list.
        options = BASE_SETTINGS | {"unix_socket_directories": f'"{self.folder / "run"}"'} | dict(settings or {})
        # The server receives SIGQUIT when this process ends for any reason, because its data is no longer needed.
        before, identity = self._run_as()
        command: list[str | Path] = [*before, *(["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else [])]
        command += [self.server.program("postgres"), "-D", self.data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self.log.touch(mode=0o600)  # error messages may contain rows copied from a table of the user
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # type: ignore[call-overload]
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, **identity
            )
        self.wait_until_ready()
        if limit is not None:
            limit.take(self.process.pid)

    def wait_until_ready(self) -> None:
        deadline, reason = time.monotonic() + START_SECONDS, ""
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise InorderError(f"the server did not start:\n{self.log_tail()}")
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError as error:
                reason = str(error)
                time.sleep(0.02)
            else:
                return
        raise InorderError(f"the server did not answer within {START_SECONDS} s: {reason}\n{self.log_tail()}")

    def stop(self, how: signal.Signals = signal.SIGINT, seconds: int = STOP_SECONDS) -> None:
        """Stop the server: SIGINT shuts it down cleanly, SIGQUIT immediately.

        After a timeout, kill the server and raise InorderError.
        """
        if self.process is None:
            return
        process, self.process = self.process, None
        try:
            self._end_process(process, how, seconds)
        finally:
            if self.limit is not None:
                self.limit.close()

    def _end_process(self, process: subprocess.Popen[bytes], how: signal.Signals, seconds: int) -> None:
        if process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):  # the process may have just ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise InorderError(f"the server did not stop within {seconds} s:\n{self.log_tail()}") from error
            raise

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        self.stop()
        self.start(settings)

    def log_tail(self) -> str:
        try:
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
        except OSError:
            return "(no log)"
