"""The files of the SQL edition, generated when this tool is built or, in a checkout, when a command needs them."""

import json
import subprocess
import sys
from pathlib import Path

from inorder import __version__, sources
from inorder.errors import InorderError, InputError


def folder() -> Path:
    checkout = sources.checkout()
    if checkout is None:
        return sources.PACKAGE / "install" / "sql"
    target = checkout / "build" / "sql-edition"
    command: list[str | Path] = [sys.executable, "-S", checkout / "script" / "sql-edition", "--files", target]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode != 0:
        raise InorderError(process.stderr.strip())
    return target


def filled(path: Path, schema: str) -> str:
    return path.read_text(encoding="utf-8").replace("@extschema@", schema)


def script(schema: str) -> str:
    return filled(folder() / f"inorder-sql--{__version__}.sql", schema)


def update(old: str, schema: str) -> str:
    path = folder() / f"inorder-sql--{old}--{__version__}.sql"
    if not path.exists():
        raise InputError(f"no update of the SQL edition begins with version {old}")
    return filled(path, schema)


def names(kind: str) -> list[str]:
    """Return names of server objects: those that the script calls ("called"), or that a version created ("made")."""
    lists: dict[str, list[str]] = json.loads((folder() / "names.json").read_text(encoding="utf-8"))
    return lists[kind]
