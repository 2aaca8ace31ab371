"""The readers of docs/clients/check, each in its language, and their tests: each is found to lose rows."""

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import ROOT
from tool import inorder

EXAMPLES = ROOT / "docs" / "clients" / "check"
BUILT = ROOT / "build" / "clients" / "check"  # built by script/clients
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
SHORT = ("--schedules", "5", "--load", "0.1s", "--format", "json")


def require_built(language: str) -> None:
    if language in MADE and "INORDER_TEST_CLIENTS" not in os.environ:
        pytest.skip("script/clients runs it")
    if language in MADE and not MADE[language].exists():
        pytest.skip(f"script/clients has not built {MADE[language].relative_to(ROOT)}")


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # a program was killed
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def relay(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        answers = threading.Thread(target=copy, args=(server, client))
        answers.start()
        copy(client, server)
        answers.join()


@contextmanager
def on_tcp(cluster: Cluster) -> Iterator[str]:
    """A connection string by TCP, for a driver that has no sockets of Unix."""
    relays: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = listener.accept()
                relays.append(threading.Thread(target=relay, args=(client, f"{cluster.folder}/run/.s.PGSQL.5432")))
                relays[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"host=127.0.0.1 port={listener.getsockname()[1]} user=postgres dbname=postgres"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    for thread in (accepting, *relays):
        thread.join()


def checked(server: Installation, folder: Path, language: str, *more: str) -> str:
    command = shlex.join(map(str, READERS[language]))
    done = inorder("lab", "check", "--program", command, *SHORT, *more, folder=folder, server=server)
    assert done.returncode == 3, done.stderr
    return done.stdout


@pytest.mark.parametrize("language", [name for name in READERS if name != "java"])
def test_a_reader_is_found_to_lose_rows(
    server: Installation, tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_built(language)
    monkeypatch.setenv("PATH", f"{server.bindir}:{os.environ['PATH']}")  # psql
    (found,) = json.loads(checked(server, tmp_path, language))
    assert "lost" in found["faults"]


def test_a_reader_in_java_is_found_to_lose_rows(server: Installation, cluster: Cluster, tmp_path: Path) -> None:
    require_built("java")
    with on_tcp(cluster) as dsn:
        (found,) = json.loads(checked(server, tmp_path, "java", "--dsn", dsn))
    assert "lost" in found["faults"]


def fails(command: Sequence[str | Path], folder: Path, server: Installation) -> None:
    """The test of the reader fails, and prints the verdict."""
    tool = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{tool}:{os.environ['PATH']}", "PG_CONFIG": str(server.bindir / "pg_config")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Yes: it loses rows of transactions that commit late" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("language", "command"), [("go", ["go", "test", "-count=1", "."]), ("node", ["npx", "vitest", "run"])]
)
def test_the_test_of_a_reader_fails(server: Installation, language: str, command: list[str]) -> None:
    require_built(language)
    fails(command, BUILT / language, server)


def test_the_test_of_a_reader_in_java_fails(server: Installation, cluster: Cluster) -> None:
    require_built("java")
    reader = shlex.join(map(str, READERS["java"]))
    with on_tcp(cluster) as dsn:
        fails(["java", f"-Ddsn={dsn}", f"-Dreader={reader}", *JUNIT], BUILT / "java", server)
