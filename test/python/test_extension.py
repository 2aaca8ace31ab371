"""inorder extension builds, installs and removes the extension's files, and reports each obstacle."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from inorder.errors import InputError
from inorder.extension import building, placing
from inorder.installations import Installation, only_one, target_installation
from inorder.lab.server import cluster as cluster_module
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import copy_server, make_readable

from conftest import ROOT
from first_use import REMOVAL, STATEMENTS, printed, script
from tool import inorder
from world.server import run_program

pytestmark = pytest.mark.server


def bare_installation(server: Installation, root: Path, sources: object = ()) -> Installation:
    copy = copy_server(server, root)
    for path in (*(copy.sharedir / "extension").glob("inorder*"), *copy.pkglibdir.glob("inorder*")):
        path.unlink()
    make_readable(root)
    return copy


@pytest.fixture
def bare(server: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(cluster_module, "private_installation", bare_installation)
    with Cluster(server) as running:
        running.start({"fsync": "off"})
        yield running


def pg_config_of(copy: Installation, original: Installation, folder: Path) -> Path:
    program = folder / "pg_config"
    program.write_text(
        f"#!/bin/sh\ncase ${{1-}} in\n--sharedir) echo {copy.sharedir} ;;\n--pkglibdir) echo {copy.pkglibdir} ;;\n"
        f'--*) exec {original.bindir}/pg_config "$@" ;;\n*) {original.bindir}/pg_config | sed -e '
        f"'s#^SHAREDIR = .*#SHAREDIR = {copy.sharedir}#' -e 's#^PKGLIBDIR = .*#PKGLIBDIR = {copy.pkglibdir}#' "
        f"-e 's#^BINDIR = .*#BINDIR = {folder}#' ;;\nesac\n"
    )
    program.chmod(0o755)
    return program


COMPILED = "src/ports/version.o"
# A compiler that compiles only this object, and copies all other objects.
COMPILER = """#!/bin/sh
for word; do [ "$last" = -o ] && object=$word; last=$word; done
case " $* " in *" -c "*) [ "$object" = {compiled} ] || exec cp {kept}/"$object" "$object" ;; esac
exec {compiler} "$@"
"""


@pytest.fixture
def pg_config(bare: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of pg_config for a server whose objects are already compiled, except one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    build_folder, name = building.build_folder(bare.original, ROOT), bare.original.compiler.split()[0]
    with building.locked(build_folder):
        building.run_make(bare.original, ROOT / "Makefile", build_folder)
    (folder / name).write_text(COMPILER.format(compiled=COMPILED, kept=build_folder, compiler=shutil.which(name)))
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return str(pg_config_of(bare.server, bare.original, folder))


def psql(cluster: Cluster, statements: dict[str, str | None]) -> str:
    done = run_program(cluster, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", stdin=script(statements))
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_the_extension_is_built_installed_used_and_removed(bare: Cluster, pg_config: str, tmp_path: Path) -> None:
    """The files are installed from a folder on a running server without a compiler, and removed completely."""
    before = installed_below(bare.folder / "server")
    for outcome in (0, 2):
        done = inorder("extension", "build", "--pg-config", pg_config, "--directory", "made", folder=tmp_path)
        assert done.returncode == outcome, done.stderr
    assert "made is not empty" in done.stderr and installed_below(bare.folder / "server") == before

    done = inorder("extension", "install", "--directory", "made", folder=tmp_path)
    assert done.returncode == 0 and "inorder install in each database, or inorder upgrade" in done.stderr, done.stderr
    new = {Path(line) for line in done.stdout.splitlines()}
    assert installed_below(bare.folder / "server") - before == new
    modes = {path.suffix: oct(path.stat().st_mode & 0o777) for path in new}
    assert modes == {".so": "0o755", ".sql": "0o644", ".control": "0o644"}
    assert psql(bare, STATEMENTS) == printed(STATEMENTS)
    uninstall = ("extension", "uninstall", "--pg-config", pg_config)
    used = inorder(*uninstall, "--yes", "--dsn", bare.dsn, folder=tmp_path)
    assert used.returncode == 2 and "these databases still use the library: postgres\n" in used.stderr
    assert installed_below(bare.folder / "server") == before | new
    assert psql(bare, REMOVAL) == printed(REMOVAL)

    refused = inorder(*uninstall, "--dsn", "host=/nowhere", folder=tmp_path)
    assert refused.returncode == 2 and installed_below(bare.folder / "server") == before | new
    assert (
        "cannot determine whether a database uses the library: " in refused.stderr
        and "HINT: Use --yes." in refused.stderr
    )
    removed = inorder(*uninstall, "--yes", "--dsn", bare.dsn, folder=tmp_path)
    assert (removed.returncode, removed.stderr) == (0, "") and {
        Path(line) for line in removed.stdout.splitlines()
    } == new
    assert installed_below(bare.folder / "server") == before
    repeated = inorder(*uninstall, "--yes", folder=tmp_path)
    assert repeated.returncode == 2 and "is not installed" in repeated.stderr


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """Return a folder with the extension's files, ready to be copied to a server."""
    stage, there = tmp_path / "stage", tmp_path / "there"
    for name, text in (("inorder--1.sql", "new"), ("inorder.control", "new"), ("inorder.so", "new")):
        path = stage / there.relative_to("/") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return stage


def programs(folder: Path, **scripts: str) -> str:
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for name in ("sh", "install", "rm", "cat"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return str(folder)


def test_sudo_only_copies_the_files(stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.mkdir()
    calls = tmp_path / "calls"
    monkeypatch.setattr(placing, "is_writable", lambda _paths: False)
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", sudo=f'echo "$*" >>{calls}\n[ "$1" = -n ] || exec "$@"'))
    assert placing.place(stage) == [there / name for name in ("inorder.so", "inorder--1.sql", "inorder.control")]
    assert {path.name: path.read_text() for path in there.iterdir()}.keys() == {
        "inorder.so", "inorder.control", "inorder--1.sql"
    }  # fmt: skip
    assert (there / "inorder.so").stat().st_mode & 0o777 == 0o755
    placing.remove(sorted(there.iterdir()))
    assert list(there.iterdir()) == []
    assert [line.split()[0] for line in calls.read_text().splitlines()].count("sh") == 2


def test_without_sudo_the_command_for_an_administrator_is_named(
    stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(placing, "is_writable", lambda _paths: False)
    monkeypatch.setenv("PATH", programs(tmp_path / "bin"))
    monkeypatch.setattr("sys.argv", ["/opt/tools/inorder", "extension", "install"])
    with pytest.raises(InputError, match="Run as administrator: /opt/tools/inorder extension install"):
        placing.place(stage)
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("manager", ["dpkg-query", "rpm"])
def test_files_of_a_package_are_neither_replaced_nor_removed(
    stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Installation, manager: str
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "inorder.control").write_text("old")
    answer = "postgresql-15-inorder: /x" if manager == "dpkg-query" else "inorder_15"
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", **{manager: f"echo {answer}"}))
    with pytest.raises(InputError, match=f"belongs to the package {answer.split(':', maxsplit=1)[0]}"):
        placing.place(stage)
    (there / "extension").mkdir()
    (there / "extension" / "inorder.control").write_text("old")
    with pytest.raises(InputError, match="belongs to the package"):
        placing.removable_files(replace(server, sharedir=there, pkglibdir=there))
    assert (there / "inorder.control").read_text() == "old"


def test_files_that_do_not_belong_to_the_extension_are_refused(stage: Path, tmp_path: Path) -> None:
    """The user who runs the command may write into any folder, and the files may come from another machine."""
    there = tmp_path / "there"
    there.mkdir()
    for name in ("inorder", "inorder.sh", "other.control"):
        other = stage / there.relative_to("/") / name
        other.write_text("* * * * * root id")
        with pytest.raises(InputError, match=f"files that inorder extension build does not write: {there / name}"):
            placing.place(stage)
        other.unlink()
    assert list(there.iterdir()) == []


def test_a_missing_folder_is_not_created(stage: Path) -> None:
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        placing.place(stage)


def test_a_running_server_keeps_the_library_it_has_loaded(stage: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    old = there / "inorder.so"
    old.write_text("old")
    with old.open() as loaded:
        placing.place(stage)
        assert loaded.read() == "old" and old.read_text() == "new"
    assert not list(there.glob("*.partial"))


def test_bitcode_of_make_install_is_removed(server: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "bitcode" / "inorder" / "src"
    folder.mkdir(parents=True)
    (folder / "v7.bc").touch()
    (tmp_path / "bitcode" / "inorder.index.bc").touch()
    (tmp_path / "bitcode" / "other").mkdir()
    files = placing.removable_files(replace(server, sharedir=tmp_path, pkglibdir=tmp_path))
    placing.remove(files)
    assert [path.name for path in (tmp_path / "bitcode").iterdir()] == ["other"]


@pytest.mark.parametrize(
    ("there", "packages"),
    [
        ({}, "make gcc libc6-dev postgresql-server-dev-99"),
        ({"make": "", "gcc": "exit 1"}, "libc6-dev postgresql-server-dev-99"),
        ({"make": "", "gcc": ""}, "postgresql-server-dev-99"),
        ({"gcc": ""}, "make postgresql-server-dev-99"),
    ],
)
def test_missing_packages_for_building_are_named(
    there: dict[str, str], packages: str, server: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", **there))
    other = replace(server, headers=tmp_path, compiler="gcc -std=gnu17", version="99.1")
    with pytest.raises(InputError, match=rf"apt-get install {packages}   \(Debian"):
        building.require_tools(other)


def test_the_server_is_chosen_if_there_are_several(server: Installation, tmp_path: Path) -> None:
    other = replace(server, bindir=tmp_path)
    with pytest.raises(InputError, match=f"--pg-config {server.bindir}/pg_config or --pg-config {tmp_path}/pg_config"):
        only_one([server, other])
    with pytest.raises(InputError, match="postgresql-server-dev-NN"):
        only_one([])
    assert only_one([server]) == server
    path = str(server.bindir / "pg_config")
    assert target_installation(None, {"PG_CONFIG": path}).origin == "PG_CONFIG"
    assert target_installation(Path(path), {"PG_CONFIG": "/nowhere"}).origin == "--pg-config"


def test_a_tool_without_sources_says_so(server: Installation, tmp_path: Path) -> None:
    program = (
        f"from pathlib import Path; from inorder import sources; sources.PACKAGE = Path('{tmp_path}/inorder'); "
        "from inorder.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "extension", "install", "--pg-config", server.bindir / "pg_config"],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 2 and f"apt-get install postgresql-{server.major}-inorder" in done.stderr
