"""Copy the extension's files to a server's folders, or remove them, with sudo if the user may not write there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from inorder.errors import InorderError, InputError
from inorder.installations import Installation
from inorder.text import lines, listed

LIBRARIES = (".so", ".dylib")
# Only files with these names are copied. Otherwise, a malicious folder could make an administrator overwrite any file.
OF_EXTENSION = re.compile(r"inorder(\.control|--[\w.-]+\.sql|\.so|\.dylib)")
PACKAGE_MANAGERS = (("dpkg-query", "-S"), ("rpm", "-qf"))


def built_files(stage: Path) -> list[tuple[Path, Path]]:
    """Return the files and their targets in the order of copying: the library first, the control file last.

    The control file makes the new version visible.
    """
    paths = (path for path in stage.rglob("*") if path.is_file())
    files = sorted(paths, key=lambda path: (path.suffix == ".control", path.suffix not in LIBRARIES, path))
    return [(path, Path("/") / path.relative_to(stage)) for path in files]


def installed_files(server: Installation) -> list[Path]:
    """Return the extension's files in the server's folders, the control file first, however they were installed."""
    folder = server.sharedir / "extension"
    paths = [folder / "inorder.control", *sorted(folder.glob("inorder--*.sql"))]
    paths += [server.pkglibdir / f"inorder.{suffix}" for suffix in ("so", "dylib")]
    # make installs the bitcode, a file and a folder, if it finds clang.
    paths += [server.pkglibdir / "bitcode" / name for name in ("inorder.index.bc", "inorder")]
    return [path for path in paths if path.exists()]


def package_of(path: Path) -> str | None:
    for command in PACKAGE_MANAGERS:
        if shutil.which(command[0]):
            process = subprocess.run([*command, path], check=False, capture_output=True, text=True)
            if process.returncode == 0:
                return process.stdout.split(":")[0].strip()
    return None


def require_unpackaged(paths: Sequence[Path]) -> None:
    """Raise InputError if a file belongs to a package, because only the package manager may change it."""
    for path in paths:
        if path.exists() and (package := package_of(path)):
            raise InputError(f"{path} belongs to the package {package}\nHINT:  Upgrade or remove the package.")


def require_control(stage: Path, targets: Sequence[Path]) -> None:
    """Raise InputError unless all files belong to the extension, and the server has a folder for each file."""
    if not any(target.name == "inorder.control" for target in targets):
        raise InputError(f"{stage} has no inorder.control below it\nHINT:  inorder extension build writes the files.")
    if foreign := [target for target in targets if OF_EXTENSION.fullmatch(target.name) is None]:
        raise InputError(f"{stage} has files that inorder extension build does not write: {listed(foreign)}")
    for target in targets:
        if not target.parent.is_dir():
            raise InputError(
                f"folder {target.parent} does not exist: the PostgreSQL for which the files were built is not installed"
            )


def is_writable(paths: Sequence[Path]) -> bool:
    return all(os.access(path.parent, os.W_OK | os.X_OK) for path in paths)


def as_administrator(commands: Sequence[Sequence[str | Path]], folder: Path) -> None:
    """Run commands with sudo, which may ask for a password. Raise InputError without sudo or without a terminal."""
    script = "\n".join(shlex.join(map(str, command)) for command in commands)
    silently = ["sudo", "-n", "true"]
    if shutil.which("sudo") is None or (
        not sys.stdin.isatty() and subprocess.run(silently, check=False, capture_output=True).returncode
    ):
        own_command = shlex.join(map(str, [Path(sys.argv[0]).resolve(), *sys.argv[1:]]))
        raise InputError(f"only an administrator can write to {folder}\nHINT:  Run as administrator: {own_command}")
    print(lines(f"As administrator:\n{script}"), file=sys.stderr, flush=True)
    process = subprocess.run(["sudo", "sh", "-ec", script], check=False)
    if process.returncode != 0:
        raise InorderError(f"sudo failed with status {process.returncode}")


def mode_of(path: Path) -> int:
    return 0o755 if path.suffix in LIBRARIES else 0o644


def place(stage: Path) -> list[Path]:
    """Copy the files to their targets, and return these. A running server keeps the library that it has loaded."""
    files = built_files(stage)
    targets = [target for _, target in files]
    require_control(stage, targets)
    require_unpackaged(targets)
    if is_writable(targets):
        for source, target in files:
            replace_file(source, target)
    else:
        # The program "install" unlinks the old file before it writes the new file.
        copies: list[list[str | Path]] = [
            ["install", "-m", f"{mode_of(target):o}", source, target] for source, target in files
        ]
        as_administrator(copies, targets[0].parent)
    return targets


def replace_file(source: Path, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    try:
        shutil.copyfile(source, partial)
        partial.chmod(mode_of(target))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def removable_files(server: Installation) -> list[Path]:
    """Return the extension's files in a server's folders.

    Raise InputError if there are no such files, or if a package owns them.
    """
    files = installed_files(server)
    if not files:
        raise InputError(f"the extension is not installed in {server.name}: no inorder.control in {server.sharedir}")
    require_unpackaged(files)
    return files


def remove(files: Sequence[Path]) -> None:
    if is_writable(files):
        for path in files:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    else:
        as_administrator([["rm", "-r", *files]], files[0].parent)
