"""The readers of docs/clients/check, and their tests, in every language: inorder lab check finds their lost rows."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import inorder.lab.server.cluster as cluster_module
import pytest
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import ROOT
from ports import free_port
from tool import inorder

EXAMPLES = ROOT / "docs" / "clients" / "check"
BUILT = ROOT / "build" / "clients" / "check"  # created by script/clients
JAVA = f"{BUILT / 'java'}:{BUILT.parent / 'java' / 'postgresql.jar'}"
READERS: dict[str, list[str | Path]] = {
    "python": [sys.executable, EXAMPLES / "reader.py"],
    "shell": [EXAMPLES / "reader.sh"],
    "go": [BUILT / "go" / "reader"],
    "node": ["node", BUILT / "node" / "reader.mjs"],
    "java": ["java", "-cp", JAVA, "Reader"],
}
JUNIT: list[str | Path] = ["-jar", BUILT / "java" / "junit.jar", "execute", "-cp", BUILT / "java", "-c", "ReaderTest"]
MADE = {"go": BUILT / "go" / "reader", "node": BUILT / "node" / "node_modules", "java": BUILT / "java" / "Reader.class"}
SHORT = ("--schedules", "3", "--load", "0.1s", "--format", "json")


def require_built(language: str) -> None:
    if language in MADE and "INORDER_TEST_CLIENTS" not in os.environ:
        pytest.skip("only script/clients runs this test")
    if language in MADE and not MADE[language].exists():
        pytest.skip(f"script/clients has not built {MADE[language].relative_to(ROOT)}")


@pytest.fixture
def on_tcp(server: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield a TCP connection string, because the Java driver does not support Unix sockets."""
    require_built("java")
    port = str(free_port())
    monkeypatch.setattr(cluster_module, "PORT", port)
    with Cluster(server, None) as cluster:
        cluster.start({"listen_addresses": "127.0.0.1", "port": port, "fsync": "off"})
        yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"


def checked(server: Installation, folder: Path, language: str, *more: str) -> str:
    command = shlex.join(map(str, READERS[language]))
    done = inorder("lab", "check", "--program", command, *SHORT, *more, folder=folder, server=server)
    assert done.returncode == 3, done.stderr
    return done.stdout


@pytest.mark.parametrize("language", [name for name in READERS if name != "java"])
def test_check_finds_that_a_reader_loses_rows(
    server: Installation, tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_built(language)
    monkeypatch.setenv("PATH", f"{server.bindir}:{os.environ['PATH']}")  # the reader runs psql
    (record,) = json.loads(checked(server, tmp_path, language))
    assert "lost" in record["faults"]


def test_check_finds_that_a_reader_in_java_loses_rows(server: Installation, tmp_path: Path, on_tcp: str) -> None:
    (record,) = json.loads(checked(server, tmp_path, "java", "--dsn", on_tcp))
    assert "lost" in record["faults"]


def fails(command: Sequence[str | Path], folder: Path, server: Installation) -> None:
    """Run the reader's test, and check that it fails and prints the verdict."""
    tool = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{tool}:{os.environ['PATH']}", "PG_CONFIG": str(server.bindir / "pg_config")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Yes: the reader loses rows of transactions that commit late" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("language", "command"), [("go", ["go", "test", "-count=1", "."]), ("node", ["npx", "vitest", "run"])]
)
def test_the_test_of_a_reader_that_loses_rows_fails(server: Installation, language: str, command: list[str]) -> None:
    require_built(language)
    fails(command, BUILT / language, server)


def test_the_test_of_a_reader_in_java_that_loses_rows_fails(server: Installation, on_tcp: str) -> None:
    reader = shlex.join(map(str, READERS["java"]))
    fails(["java", f"-Ddsn={on_tcp}", f"-Dreader={reader}", *JUNIT], BUILT / "java", server)
