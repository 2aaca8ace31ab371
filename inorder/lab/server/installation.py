"""A private copy of a PostgreSQL installation with the extension in it.

PostgreSQL finds its libraries and extensions relative to its own program, so a
copy that keeps the layout below another root is an installation of its own:
nothing is written into the system's folders, and every major version works
alike. A copy is 20 to 35 MB.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from inorder.errors import InorderError, InputError
from inorder.lab.server.servers import Server

# Parts that only a build needs, and that are large.
NOT_COPIED = shutil.ignore_patterns("pgxs", "bitcode", "*.a", "doc", "llvmjit*")

# What a private server runs; the folder may hold all programs of the system. Clients run from the original.
PROGRAMS = ("postgres", "initdb")


def source_folder() -> Path | None:
    """The checkout this package runs from, if it does."""
    folder = Path(__file__).resolve().parents[3]
    return folder if (folder / "inorder.control").exists() and (folder / "Makefile").exists() else None


def run_make(server: Server, makefile: Path, build: Path, *arguments: str) -> None:
    """Run make out of tree; its output is shown only if it fails."""
    build.mkdir(parents=True, exist_ok=True)
    command = ["make", "-s", "-C", str(build), "-f", str(makefile), f"PG_CONFIG={server.bindir / 'pg_config'}"]
    # Bitcode is for inlining into JIT-compiled queries, which a key never is; it needs clang.
    command += ["with_llvm=no", *arguments]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise InputError("make is not installed: building the extension needs make and a C compiler") from error
    if done.returncode != 0:
        raise InorderError(f"building {makefile.parent} failed:\n{done.stdout}{done.stderr}")


def build_folder(server: Server, source: Path) -> Path:
    """Where the objects for this server and these options are kept, so that the next run need not compile."""
    options = os.environ.get("COPT", "")
    installation = hashlib.sha256(f"{server.bindir} {options}".encode()).hexdigest()[:8]
    return source / "build" / f"{server.version}-{installation}"


def relocate(server: Server, root: Path) -> Server:
    """The same server below another root."""

    def below(path: Path) -> Path:
        return root / path.resolve().relative_to("/")

    return replace(
        server, bindir=below(server.bindir), sharedir=below(server.sharedir), pkglibdir=below(server.pkglibdir)
    )


def copy_server(server: Server, root: Path) -> Server:
    """Copy programs, libraries and shared files below root."""
    copy = relocate(server, root)
    copy.bindir.mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(server.program(name), copy.bindir / name)
    folders = [(server.pkglibdir, copy.pkglibdir), (server.sharedir, copy.sharedir)]
    folders += [(libraries, root / libraries.relative_to("/")) for libraries in bundled_libraries(server)]
    for source, target in folders:
        shutil.copytree(source, target, ignore=NOT_COPIED, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    return copy


def bundled_libraries(server: Server) -> list[Path]:
    """What a wheel keeps in <package>.libs beside the package, for the programs in <package>/pginstall/bin."""
    above = server.bindir.resolve().parents
    return list(above[2].glob(f"{above[1].name}*.libs")) if len(above) > 3 else []


def install_extension(server: Server, root: Path, sources: Sequence[Path] = ()) -> None:
    """Build the extension (and whatever else is named) and install it into the copy below root."""
    source = source_folder()
    if source is None:
        if not (server.sharedir / "extension" / "inorder.control").exists():
            raise InputError(
                f"the extension is not installed in {server.name}, and its sources are not beside this tool: "
                "run `make install` there, or run the tool from a checkout"
            )
        return  # it was copied with the rest
    for path in (source, server.bindir):
        if any(letter.isspace() or letter in "'\"$`\\#:;&|<>()*?" for letter in str(path)):
            raise InputError(f"make cannot work below a path with spaces, quotes or signs of the shell: {path}")
    build = build_folder(server, source)
    stage = build / "stage"  # make knows no path with blanks or quotes, which the temporary folder's may have
    with locked(build):
        for folder in (source, *sources):
            run_make(server, folder / "Makefile", build / folder.relative_to(source), "install", f"DESTDIR={stage}")
        shutil.copytree(stage, root, dirs_exist_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One build at a time in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def private_installation(server: Server, root: Path, sources: Sequence[Path] | None = ()) -> Server:
    """A copy of the server below root, with the extension installed into it, unless sources are None."""
    copy = copy_server(server, root)
    if sources is not None:
        install_extension(server, root, sources)
    make_readable(root)
    return copy


def make_readable(folder: Path) -> None:
    """For the server's account: the originals may have been made under a narrow umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
