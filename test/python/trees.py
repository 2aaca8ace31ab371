"""Pristine Debian systems in folders: overlays on systems from debootstrap, entered with chroot."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import ROOT

KEPT = ROOT / "build" / "packages"
SUITES = {"debian-12": "bookworm", "debian-13": "trixie", "debian-sid": "sid"}
# Files that are copied from this machine, so that the system can download packages.
REACH = ("etc/apt/apt.conf.d", "etc/apt/auth.conf.d", "etc/pip.conf", "etc/resolv.conf", "etc/hosts", "etc/ssl/certs",
         "usr/local/share/ca-certificates")  # fmt: skip
# Directories with temporary files, logs and caches that the installation of a package writes.
NOISE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/cache", "/var/log", "/var/lib/apt", "/var/lib/dpkg",
         "/var/lib/postgresql", "/etc/ssl", "/root/.cache", "/home/user/.cache")  # fmt: skip
MOUNTS = """
mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/changes,workdir=$folder/work" "$folder/root"
mount -t proc proc "$folder/root/proc"
mount --bind /dev "$folder/root/dev"
mount --bind /dev/pts "$folder/root/dev/pts"
mount -t tmpfs tmpfs "$folder/root/dev/shm"
mount --bind "$archives" "$folder/root/var/cache/apt/archives"
exec chroot "$folder/root" /bin/su - "$user" -c "$script"
"""


def missing() -> str:
    if os.geteuid() != 0:
        return "a system in a folder needs root"
    lacking = [name for name in ("debootstrap", "unshare", "apt-get") if shutil.which(name) is None]
    return f"this system has no {lacking[0]}" if lacking else ""


def call(*command: str | Path) -> str:
    """Run a program on this machine, and return its output. If the program fails, the error contains the output."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Tree:
    def __init__(self, name: str, base: Path, folder: Path) -> None:
        self.name, self.base, self.folder = name, base, folder
        self.changes = folder / "changes"
        for subfolder in ("changes", "work", "root"):
            (folder / subfolder).mkdir(parents=True, exist_ok=True)

    def bring(self, folder: Path, place: str) -> None:
        shutil.copytree(folder, self.changes / place.lstrip("/"), dirs_exist_ok=True)

    def attempt(self, script: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        archives = KEPT / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        facts = {"base": self.base, "folder": self.folder, "archives": archives, "user": user}
        environment = {name: str(value) for name, value in facts.items()} | {"script": f"set -eu\n{script}"}
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", MOUNTS],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **environment},
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, script: str, user: str = "root") -> str:
        done = self.attempt(script, user)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def install(self, packages: str) -> None:
        options = "-y -qq -o Dpkg::Options::=--force-confold --no-install-recommends"
        self.run(f"export DEBIAN_FRONTEND=noninteractive; apt-get install {options} {packages}")

    def files(self) -> set[str]:
        """Return all paths in the system, except logs, caches and package lists."""
        pruned = " -o ".join(f"-path {name}" for name in NOISE)
        return set(self.run(f"find / \\( {pruned} \\) -prune -o -print").splitlines())


@contextmanager
def alone() -> Iterator[None]:
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def pristine(name: str, use: str = "system") -> Iterator[Tree]:
    folder = KEPT / f"{name}-{use}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield Tree(name, base(name), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def base(name: str) -> Path:
    """Return the folder of a system with a PostgreSQL server and a user who may use sudo. It is created only once."""
    folder = KEPT / name
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder / "tree", SUITES[name])
        (folder / "made").touch()
    return folder / "tree"


def make(tree: Path, suite: str) -> None:
    """Create a system from this machine's Debian mirror, with this machine's network settings."""
    mirror = call(
        "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"
    ).split()[0]
    call("debootstrap", "--variant=minbase", suite, tree, mirror)
    for name in REACH:
        source = Path("/") / name
        if source.is_dir():
            shutil.copytree(source, tree / name, dirs_exist_ok=True, symlinks=True, ignore=hooks)
        elif source.exists():
            shutil.copy(source, tree / name)
    # These commands write into an overlay, which merge() makes part of the base.
    making = Tree(suite, tree, tree.parent / "making")
    making.run("apt-get update -qq")
    making.install("postgresql sudo ca-certificates")
    making.run(
        "useradd --create-home --shell /bin/bash user\necho 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user\n"
    )
    merge(making, tree)


def hooks(folder: str, names: list[str]) -> set[str]:
    """Return the apt settings that run commands from packages that the system lacks."""
    files = [Path(folder) / name for name in names if folder.endswith("apt.conf.d")]
    return {path.name for path in files if "Invoke" in path.read_text(errors="replace")}


def merge(making: Tree, tree: Path) -> None:
    merged = tree.with_name("merged")
    script = MOUNTS.split("mount -t proc", maxsplit=1)[0] + 'cp -a "$folder/root/." "$merged"'
    merged.mkdir()
    subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script], check=True,
        env=os.environ | {"base": str(tree), "folder": str(making.folder), "merged": str(merged)},
    )  # fmt: skip
    shutil.rmtree(making.folder)
    shutil.rmtree(tree)
    merged.rename(tree)
