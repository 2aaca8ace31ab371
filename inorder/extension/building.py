"""Build the extension, out of tree, from the checkout or from the sources that the wheel carries."""

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

# make knows no path with blanks or quotes, whatever they are escaped by.
UNUSABLE = set("'\"$`\\#:;&|<>()*?")


def checkout_folder() -> Path | None:
    folder = sources.PACKAGE.parent
    return folder if (folder / "inorder.control").exists() else None


def source_folder() -> Path | None:
    """The checkout, else what the wheel carries. The tool of a distribution may carry no C."""
    try:
        folder = sources.folder()
    except InputError:
        return None
    return folder if (folder / "src").is_dir() else None


def require_plain(*paths: Path) -> None:
    for path in paths:
        if any(letter.isspace() or letter in UNUSABLE for letter in str(path)):
            raise InputError(f"make cannot work below a path with spaces, quotes or signs of the shell: {path}")


def has_library_headers(compiler: str) -> bool:
    """Whether those of the C library are there: Debian's compiler comes without."""
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
    # Bitcode is for inlining into JIT-compiled queries, which a key never is; it needs clang.
    command += ["with_llvm=no", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise InorderError(f"building {makefile.parent} failed:\n{done.stdout}{done.stderr}")


def build_folder(server: Installation, source: Path) -> Path:
    """Where the objects for this server and these options are kept, so that the next run need not compile."""
    options = os.environ.get("COPT", "")
    installation = hashlib.sha256(f"{server.bindir} {options}".encode()).hexdigest()[:8]
    return source / "build" / f"{server.version}-{installation}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_into(server: Installation, source: Path, build: Path, target: Path, others: Sequence[Path] = ()) -> None:
    """Objects are kept in ``build``. Below target each file has the path that it has on the server."""
    require_plain(source, server.bindir, build)
    require_tools(server)
    stage = build / "stage"  # the target's path may be one that make does not know
    with locked(build):
        for folder in (source, *others):
            run_make(server, folder / "Makefile", build / folder.relative_to(source), "install", f"DESTDIR={stage}")
        shutil.copytree(stage, target, dirs_exist_ok=True)
