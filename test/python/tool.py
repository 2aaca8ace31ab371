"""Runs of the command inorder in a process that has already imported the tool."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from inorder.installations import Installation
from inorder.lab.results.journal import load
from inorder.lab.results.result import Result

import preloaded


def surroundings(server: Installation | None, temporary: Path | None) -> dict[str, str]:
    choice = {"PG_CONFIG": str(server.bindir / "pg_config")} if server else {}
    return os.environ | choice | ({"TMPDIR": str(temporary)} if temporary else {})


def inorder(
    *arguments: str, folder: Path, server: Installation | None = None, temporary: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command inorder in a process that has already imported it, to save time."""
    done = preloaded.run(arguments, folder, surroundings(server, temporary))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


LabRun = Callable[[str], tuple[Result, str]]


def run_experiment(folder: Path, server: Installation, temporary: Path, words: str) -> tuple[Result, str]:
    """Run an experiment, given by its name and options, from start to end. Return its result and its output.

    Check that the result is complete, that its file is the only file left, and that a report of the file equals the
    output of the run.
    """
    done = inorder("lab", "run", *words.split(), folder=folder, server=server, temporary=temporary)
    assert done.returncode == 0, done.stderr
    assert list(temporary.iterdir()) == []
    (file,) = folder.iterdir()
    result = load(file)
    assert result.complete and inorder("lab", "report", file.name, folder=folder).stdout == done.stdout
    return result, done.stdout


def table_lines(printed: str, label: str) -> int:
    """Count the table lines that begin with a label. Lines of prose that begin with it do not count.

    >>> table_lines("bigint 1.2, random 1.3\\nbigint   1,200 0.4 MB", "bigint")
    1
    """
    return len(re.findall(rf"^{re.escape(label)} +[\d.–-](?!.*, )", printed, re.MULTILINE))
