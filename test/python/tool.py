"""The tool as a user runs it, but that it is loaded already."""

import os
import subprocess
from pathlib import Path

from inorder.lab.server.servers import Server

import preloaded


def surroundings(server: Server | None, temporary: Path | None) -> dict[str, str]:
    """The environment: which server, and where it lives."""
    choice = {"PG_CONFIG": str(server.bindir / "pg_config")} if server else {}
    return os.environ | choice | ({"TMPDIR": str(temporary)} if temporary else {})


def inorder(
    *arguments: str, folder: Path, server: Server | None = None, temporary: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the tool as a user does, but that it is loaded already."""
    done = preloaded.run(arguments, folder, surroundings(server, temporary))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
