"""``inorder extension``: build the extension's files, install and uninstall them."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from inorder import __version__
from inorder.errors import InputError
from inorder.extension.building import build_into, source_folder
from inorder.extension.placing import place, removable_files, remove
from inorder.groups import Group
from inorder.installations import Installation, target_installation
from inorder.options import FILE, FOLDER, confirmed, dsn_option, option

pg_config_option = option(
    "--pg-config", type=FILE, metavar="FILE", help="pg_config of the server.  [default: PG_CONFIG, or the pg_config of "
    "the system's only PostgreSQL]",
)  # fmt: skip


@click.group(cls=Group)
def extension() -> None:
    """Build the extension from the sources in this tool; install its files on a server, or remove them.

    The server must be on this machine, because a server loads an extension from its own folders. Afterwards, run CREATE
    EXTENSION inorder in a database.
    """


@extension.command(epilog="Example: inorder extension build --directory files")
@pg_config_option
@option("--directory", type=FOLDER, metavar="DIR", default=f"inorder-{__version__}",
        help="Folder for the files; new or empty.")  # fmt: skip
def build(pg_config: Path | None, directory: Path) -> None:
    """Compile the extension, and write its files into a folder.

    Each file has the same path below that folder as on the server. inorder extension install --directory copies the
    files to the server. Requires make, a C compiler and the headers of the server.
    """
    server = target_installation(pg_config)
    if directory.exists() and any(directory.iterdir()):
        raise InputError(f"{directory} is not empty")
    build_here(server, directory)
    listed(path for path in sorted(directory.rglob("*")) if path.is_file())


@extension.command(epilog="Example: inorder extension install --pg-config /usr/lib/postgresql/18/bin/pg_config")
@pg_config_option
@option(
    "--directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    excludes={"--pg-config": "the paths of the files determine the server"},
    help="Install the files that inorder extension build has written into DIR, without compiling.",
)  # fmt: skip
def install(pg_config: Path | None, directory: Path | None) -> None:
    """Compile the extension, and install its files on the server.

    Compiles as the current user. Copies the files with sudo if the user may not write to the folders of the server.
    Prints the files. A running server need not be restarted.
    """
    if directory is not None:
        listed(place(directory))
    else:
        with tempfile.TemporaryDirectory(prefix="inorder-build-") as folder:
            build_here(target_installation(pg_config), Path(folder) / "stage")
            listed(place(Path(folder) / "stage"))
    click.echo("Now run inorder install in each database, or inorder upgrade.", err=True)


@extension.command(epilog="Example: inorder extension uninstall --yes")
@pg_config_option
@dsn_option(" of the server, whose databases must no longer use the library")
@option("--yes", is_flag=True, help="Do not ask.")
def uninstall(pg_config: Path | None, dsn: str, yes: bool) -> None:
    """Remove the extension's files from the server's folders, with sudo if the user may not write to them.

    First run DROP EXTENSION inorder in each database: without the library, INSERT fails for tables whose keys or
    guards call it. Fails if a database uses the library; warns if this cannot be checked. Prints the files.
    """
    # This import loads the driver, which the other commands do not need.
    from inorder.extension.users import require_unused  # noqa: PLC0415

    server = target_installation(pg_config)
    files = removable_files(server)
    for unknown in require_unused(server, dsn):
        click.echo(f"inorder: {unknown}", err=True)
    if not yes:
        confirmed(f"Remove inorder from {server.name}, {server.sharedir}?", to_stderr=True)
    remove(files)
    listed(files)


def build_here(server: Installation, target: Path) -> None:
    """Compile in a temporary folder. The target gets only the files that a server reads."""
    source = source_folder()
    if source is None:
        raise InputError(
            "this installation of the tool does not include the sources of the extension\n"
            f"HINT:  apt-get install postgresql-{server.major}-inorder   (Debian's name)"
        )
    click.echo(f"Building the extension for {server.name}", err=True)
    with tempfile.TemporaryDirectory(prefix="inorder-build-") as folder:
        build_into(server, source, Path(folder), target)


def listed(paths: Iterable[Path]) -> None:
    for path in paths:
        click.echo(path)
