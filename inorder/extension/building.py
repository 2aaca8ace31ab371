"""Build the extension outside the source tree, from a checkout or from the sources in the wheel."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inorder import sources
from inorder.errors import InorderError, InputError
from inorder.installations import Installation

# make cannot handle paths with spaces or quotes, no matter how they are escaped.
UNUSABLE = set("'\"$`\\#:;&|<>()*?")


def source_folder() -> Path | None:
    """Return the folder with the C sources: the checkout, or else the copy in the wheel.

    Return None for a distribution package, which has no C sources.
    """
    folder = sources.checkout() or sources.PACKAGE / "extension" / "source"
    return folder if (folder / "src").is_dir() else None


def require_plain(*paths: Path) -> None:
    for path in paths:
        if any(letter.isspace() or letter in UNUSABLE for letter in str(path)):
            raise InputError(f"make cannot work below a path with spaces, quotes or shell metacharacters: {path}")


def has_library_headers(compiler: str) -> bool:
    """Return whether the C library headers are installed, which Debian's compiler package does not require."""
    command = [compiler, "-xc", "-E", "-o", os.devnull, "-"]
    return subprocess.run(command, check=False, capture_output=True, input=b"#include <stdio.h>\n").returncode == 0


def require_tools(server: Installation) -> None:
    missing = {}
    if shutil.which("make") is None:
        missing["make"] = "make"
    compiler = server.compiler.split()[0]
    if shutil.which(compiler) is None:
        missing[f"the C compiler {compiler}"] = "gcc libc6-dev"
    elif not has_library_headers(compiler):
        missing["the headers of the C library"] = "libc6-dev"
    if not (server.headers / "postgres.h").exists() or not server.pgxs.exists():
        missing[f"the headers of {server.name}"] = f"postgresql-server-dev-{server.major}"
    if missing:
        raise InputError(
            f"building the extension requires {', '.join(missing)}\n"
            f"HINT:  apt-get install {' '.join(missing.values())}   (Debian's names)"
        )


def run_make(server: Installation, makefile: Path, build: Path, *arguments: str) -> None:
    build.mkdir(parents=True, exist_ok=True)
    command = ["make", "-s", "-C", str(build), "-f", str(makefile), f"PG_CONFIG={server.bindir / 'pg_config'}"]
    command += ["-j", str(len(os.sched_getaffinity(0)))]
    # Bitcode requires clang, and lets JIT-compiled queries inline functions. Key generators are never inlined.
    command += ["with_llvm=no", *arguments]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode != 0:
        raise InorderError(f"building {makefile.parent} failed:\n{process.stdout}{process.stderr}")


def build_folder(server: Installation, source: Path) -> Path:
    """Return the folder for objects, which depends on server and options. A later build compiles only changed files."""
    options = os.environ.get("COPT", "")
    installation = hashlib.sha256(f"{server.bindir} {options}".encode()).hexdigest()[:8]
    return source / "build" / f"{server.version}-{installation}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_into(
    server: Installation, source: Path, build: Path, target: Path, more_sources: Sequence[Path] = ()
) -> None:
    """Build into the folder ``target``, where each file has the same path as on the server.

    Objects are kept in ``build``.
    """
    require_plain(source, server.bindir, build)
    require_tools(server)
    stage = build / "stage"  # an intermediate folder, because make cannot handle every target path
    with locked(build):
        for folder in (source, *more_sources):
            run_make(server, folder / "Makefile", build / folder.relative_to(source), "install", f"DESTDIR={stage}")
        shutil.copytree(stage, target, dirs_exist_ok=True)
