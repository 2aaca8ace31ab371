"""The folders of throw-away servers: create them, check access to them, and remove those left by earlier runs."""

import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from inorder.errors import InorderError, InputError
from inorder.interrupts import SIGNALS, uninterrupted

PREFIX = "inorder-"
OWNER_FILE = "owner"
UNCLAIMED_SECONDS = 3600  # a folder is normally claimed a millisecond after its creation
CLEAR_SECONDS, CLEAR_PAUSE = 120, 0.1  # time limit and interval for attempts to remove a killed run's files
MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")

# libpq splits lists of hosts at commas. initdb and postgres pass program names to a shell in double quotes.
UNUSABLE = set(',"$`\n')

# The path of a socket can have 107 bytes (sun_path). The folder is followed by /inorder-XXXXXXXX/run/.s.PGSQL.5432.
LONGEST_FOLDER = 107 - len("/inorder-XXXXXXXX/run/.s.PGSQL.5432")


def service_account() -> pwd.struct_passwd | None:
    """Return the account that runs a server, or None for the current account.

    PostgreSQL refuses to run as root. If the current account is root, the server runs as postgres or nobody.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise InorderError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def run_as(account: pwd.struct_passwd | None) -> tuple[list[str], dict[str, object]]:
    """Return arguments that precede a command, and Popen options, to run the command as another account.

    setpriv changes the user where possible, because Popen would copy the page tables of this process to do so.
    """
    if account is None:
        return [], {}
    if shutil.which("setpriv"):
        return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"], {}
    return [], {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def filesystem_of(folder: Path, mounts: str | None = None) -> str:
    """Return the type of a folder's file system, which is that of the longest mount point above the folder.

    >>> filesystem_of(Path("/tmp/x"), "a / ext4 rw 0 0\\nb /tmp tmpfs rw 0 0\\nc /tmpfiles xfs rw 0 0\\n")
    'tmpfs'
    >>> filesystem_of(Path("/home"), "a / ext4 rw 0 0\\nb /tmp tmpfs rw 0 0\\n")
    'ext4'
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "unknown"
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, point, fstype, *_ = line.split()
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fstype
    return kind


def takes_direct_io(folder: Path) -> bool:
    if filesystem_of(folder.resolve()) in MEMORY_FILESYSTEMS:
        return False
    probe = folder / f"{PREFIX}direct-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def candidates() -> Iterator[Path]:
    """Yield folders in order of preference: TMPDIR or /tmp, then /var/tmp.

    If /tmp is in memory, where direct I/O is impossible, /var/tmp comes first.
    """
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" not in os.environ and filesystem_of(usual) in MEMORY_FILESYSTEMS:
        yield Path("/var/tmp")
    yield from (usual, Path("/tmp"), Path("/var/tmp"))


def may_enter(folder: Path, account: pwd.struct_passwd | None) -> bool:
    if account is None:
        return os.access(folder, os.W_OK | os.X_OK)
    before, options = run_as(account)
    process = subprocess.run([*before, "test", "-x", str(folder)], check=False, **options)  # type: ignore[call-overload]
    return bool(process.returncode == 0)


def temporary_folder(account: pwd.struct_passwd | None = None) -> Path:
    """Return the first candidate that the server can enter, and whose name can be part of a socket path."""
    for folder in candidates():
        nameable = len(os.fsencode(folder)) <= LONGEST_FOLDER and not UNUSABLE & set(str(folder))
        if nameable and folder.is_dir() and may_enter(folder, account):
            return folder
    raise InputError(
        f"no temporary folder: TMPDIR, /tmp or /var/tmp must be writable, at most {LONGEST_FOLDER} bytes long, "
        f"without a comma, a double quote, $, ` or a line break, and open to {account.pw_name if account else 'you'}"
    )


def require_free(needed: int, purpose: str, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{purpose} need about {needed / 2**30:.1f} GB in {folder}, where {free / 2**30:.1f} GB are free"
        )


def claim(folder: Path) -> TextIO:
    """Lock a folder while the returned file is open. The lock ends with the process, and spans PID namespaces."""
    unseen = folder / f".{OWNER_FILE}"
    owner = unseen.open("w", encoding="utf-8")
    fcntl.flock(owner, fcntl.LOCK_EX)
    unseen.rename(folder / OWNER_FILE)
    return owner


@contextmanager
def claimed_folder(parent: Path) -> Iterator[Path]:
    """Create a folder, and remove it at the end of the block.

    If this process is killed, a helper process or the next run removes the folder.
    """
    sweep(parent)
    with ExitStack() as stack:
        with uninterrupted():
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            stack.callback(remove, folder)  # removes the folder if the next steps fail
            stack.enter_context(claim(folder))
            stack.enter_context(cleared_after_a_kill(folder))
            stack.callback(remove, folder)  # runs while the folder is still locked and watched
        try:
            yield folder
        finally:
            with uninterrupted():
                stack.close()


@contextmanager
def cleared_after_a_kill(path: Path) -> Iterator[None]:
    """Start a helper process that removes the path if this process ends within the block.

    When this process ends for any reason, the kernel closes the pipe that the helper reads as its stdin. The helper has
    its own session, so that signals to the process group of this process, such as Ctrl-C, do not reach it. The helper
    ignores signals. It loads its code only when it has to remove the path, because loading takes CPU time.
    """
    code = (
        "import sys; sys.stdin.buffer.read(); "
        f"sys.path = {sys.path!r}; from inorder.lab.server.temporary import clear; clear({str(path)!r})"
    )
    ignore = f"trap '' {' '.join(number.name.removeprefix('SIG') for number in SIGNALS)}; exec \"$@\""
    with subprocess.Popen(
        ["sh", "-c", ignore, "sh", sys.executable, "-IS", "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as watcher:  # fmt: skip
        try:
            yield
        finally:
            watcher.kill()


def clear(name: str) -> None:
    path, deadline = Path(name), time.monotonic() + CLEAR_SECONDS
    while path.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            if (path / OWNER_FILE).exists():
                sweep_one(path)
            else:
                path.rmdir()
        time.sleep(CLEAR_PAUSE)


def remove(folder: Path) -> None:
    """Remove a folder, and its owner file last, so that a later run can continue after a failure or an interrupt."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.name == OWNER_FILE:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if all(entry.name == OWNER_FILE for entry in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # the folder is in use, belongs to another user, or has already been removed
            if is_own(folder, stat.S_ISDIR):
                sweep_one(folder)


def sweep_one(folder: Path) -> None:
    """Remove a folder that belongs to this user and is not locked.

    A folder without an owner file is removed only if it is old and was never claimed.
    """
    owner = folder / OWNER_FILE
    if owner.exists():
        if is_own(owner, stat.S_ISREG):
            with owner.open(encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
    elif time.time() - folder.stat().st_mtime > UNCLAIMED_SECONDS:
        if [entry.name for entry in folder.iterdir()] == [f".{OWNER_FILE}"]:
            remove(folder)
        folder.rmdir()


def is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return True if a path has this type and belongs to this user.

    Links are not followed, because anyone can create links in /tmp.
    """
    status = path.lstat()
    return kind(status.st_mode) and status.st_uid == os.geteuid()
