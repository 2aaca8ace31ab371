"""A private copy of a PostgreSQL installation that includes the extension.

PostgreSQL finds its libraries and extensions relative to its program. A copy with the same layout under another root is
therefore a separate installation, and nothing is written to the system's folders. A copy takes 20 to 35 MB.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from inorder.errors import InputError
from inorder.extension.building import build_folder, build_into, source_folder
from inorder.installations import Installation
from inorder.sources import checkout

# Large files that are needed only to build extensions.
NOT_COPIED = ("pgxs", "bitcode", "*.a", "doc", "llvmjit*")

# Folders with many files that never change. Copying them would take half of the time.
LINKED = ("timezone", "timezonesets", "tsearch_data")

# Programs that a private server needs. The original folder may contain all programs of the system. Client programs are
# run from the original folder.
PROGRAMS = ("postgres", "initdb")


def relocate(server: Installation, root: Path) -> Installation:
    def below(path: Path) -> Path:
        return root / path.resolve().relative_to("/")

    return replace(
        server, bindir=below(server.bindir), sharedir=below(server.sharedir), pkglibdir=below(server.pkglibdir)
    )


def may_be_linked(folder: Path) -> bool:
    path = folder.resolve()
    return path.is_dir() and all(ancestor.stat().st_mode & 0o005 == 0o005 for ancestor in (path, *path.parents))


def copy_server(server: Installation, root: Path) -> Installation:
    """Copy programs, libraries and shared files to a folder under root. Link files that never change."""
    copy = relocate(server, root)
    copy.bindir.mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(server.program(name), copy.bindir / name)
    folders = [(server.pkglibdir, copy.pkglibdir), (server.sharedir, copy.sharedir)]
    above = server.bindir.resolve().parents
    bundled = above[2].glob(f"{above[1].name}*.libs") if len(above) > 3 else ()
    folders += [(libraries, root / libraries.relative_to("/")) for libraries in bundled]
    linked = [name for name in LINKED if may_be_linked(server.sharedir / name)]
    ignore = shutil.ignore_patterns(*NOT_COPIED, *linked)
    for source, target in folders:
        shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    for name in linked:
        (copy.sharedir / name).symlink_to((server.sharedir / name).resolve())
    return copy


def install_extension(server: Installation, root: Path, sources: Sequence[Path] = ()) -> None:
    source = source_folder()
    if source is None:
        if not server.has_extension("inorder"):
            raise InputError(
                f"the extension is not installed in {server.name}, and this tool does not carry its sources: "
                "install it there, or run the tool from a checkout"
            )
        return  # the extension was copied together with the other files
    # A checkout keeps its object files for the next run. Other object files are removed together with the server.
    build = build_folder(server, source) if source == checkout() else root.parent / "build"
    build_into(server, source, build, root, sources)


def private_installation(server: Installation, root: Path, sources: Sequence[Path] | None = ()) -> Installation:
    """Copy the server to a folder under root. Install the extension unless ``sources`` is None."""
    copy = copy_server(server, root)
    if sources is not None:
        install_extension(server, root, sources)
    make_readable(root)
    return copy


def make_readable(folder: Path) -> None:
    """Make files readable for the server's account. They may have been installed with a strict umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
