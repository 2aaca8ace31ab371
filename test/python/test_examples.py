"""The examples in README and docs run in page order, and print what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.cli import cli
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg import sql

import preloaded
from conftest import ROOT
from examples import NEW_DATABASE, RUN_HERE, Block, blocks, documents, is_printed, parsed
from examples_not_run import NOT_RUN
from waiting import PATIENCE

ALL = {document: blocks(document) for document in documents()}
# These examples also run on the system's servers, because the embedded server is built without OpenSSL.
ON_EACH_SERVER = ("docs/mask.md",)
SERVICES = ("prod", "shop")  # service names that the examples use to connect
# Without --follow, tail ends when there are no new rows. A command that folds until it is stopped is interrupted.
TOOL = """#!/bin/bash
for word; do
    shift
    [ "$word" = --follow ] || set -- "$@" "$word"
done
case " $* " in
    *" --every "*|*" --watch "*)
        timeout --preserve-status --signal INT 2 {inorder} "$@"
        code=$?
        [ $code = 130 ] || exit $code ;;
    *) exec {inorder} "$@" ;;
esac
"""


def entry(block: Block) -> tuple[str, str]:
    beginnings = [begins for page, begins in NOT_RUN if page == block.document and block.name.startswith(begins)]
    return (block.document, max(beginnings, default=block.name))


def runs(block: Block) -> bool:
    return block.language in RUN_HERE and entry(block) not in NOT_RUN


def test_every_code_block_is_run_or_has_a_reason_not_to_be_run() -> None:
    left_out = {
        entry(block) for page in ALL.values() for block in page if not runs(block) and block.language != NEW_DATABASE
    }
    assert left_out - set(NOT_RUN) == set(), "neither run, nor in examples_not_run.py"
    assert set(NOT_RUN) - left_out == set(), "not in the pages any more"


def test_every_code_block_names_its_language() -> None:
    assert [block.name for page in ALL.values() for block in page if not block.language] == []


def test_a_test_that_runs_a_code_block_reads_its_page() -> None:
    for (document, _), reason in NOT_RUN.items():
        for name in re.findall(r"^test_\w+", reason):
            test = (ROOT / "test" / "python" / f"{name}.py").read_text()
            folder = str(Path(document).parent)
            assert document in test or (folder != "docs" and folder in test), f"{name} does not read {document}"


def called(block: Block) -> Iterator[list[str]]:
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["inorder"]:
            end = next((place for place, word in enumerate(words) if word in ("|", ">", ">>", ";", "&&")), len(words))
            yield words[1:end]


@pytest.mark.parametrize(
    "document", [name for name, page in ALL.items() if any(block.language == "sh" for block in page)]
)
def test_every_command_can_be_parsed(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "service=shop")
    for block in ALL[document]:
        for words in called(block) if block.language == "sh" else ():
            for name in words:
                if name.endswith((".sql", ".bench")):
                    (tmp_path / name).touch()
            if "--help" not in words:
                parsed(cli, [os.path.expandvars(word) for word in words])


class Page:
    def __init__(self, cluster: Cluster, template: str, folder: Path, text: str) -> None:
        self.cluster, self.template, self.folder = cluster, template, folder
        self.channel = preloaded.loaded(any(name in text for name in preloaded.ARROW)).fileno()
        programs = folder / ".bin"
        programs.mkdir()
        inorder = [sys.executable, "-IS", preloaded.__file__, "pass_on", str(self.channel)]
        (programs / "inorder").write_text(TOOL.format(inorder=shlex.join(inorder)))
        (programs / "inorder").chmod(0o755)
        path = f"{programs}:{cluster.original.bindir}:{os.environ['PATH']}"
        services = folder / ".pg_service.conf"
        services.write_text("".join(f"[{name}]\ndbname=examples\n" for name in SERVICES))
        self.environment = cluster.environment() | {
            "PGDATABASE": "examples", "PATH": path, "PGTZ": "UTC", "PGSERVICEFILE": str(services),
            "DATABASE_URL": "dbname=examples",
        }  # fmt: skip

    def new_database(self) -> None:
        with connect(self.cluster.dsn) as admin:
            admin.execute("DROP DATABASE IF EXISTS examples WITH (FORCE)")
            admin.execute(f"CREATE DATABASE examples TEMPLATE {self.template} STRATEGY file_copy".encode())

    def run(self, block: Block) -> None:
        """Run a block, and check that it prints what the page shows.

        The block must succeed unless the page shows an error.
        """
        fails = block.prints is not None and "ERROR:" in block.prints
        if block.language == "sql":
            program = ["psql", "-Xq", *([] if fails else ["-v", "ON_ERROR_STOP=1"]), "-f", "-"]
        else:
            program = ["bash", *([] if fails else ["-eo", "pipefail"])]
        done = subprocess.run(
            program, check=False, input=block.text, cwd=self.folder, env=self.environment, text=True, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[self.channel],
        )  # fmt: skip
        where = f"{block.document}:{block.line}"
        printed = re.sub(r"^psql:<stdin>:\d+: ", "", done.stdout, flags=re.MULTILINE)
        if "this server cannot mask keys" in printed:
            pytest.skip(f"{where}: the server has no OpenSSL")
        assert fails or done.returncode == 0, f"{where}: {done.stdout}"
        if block.prints is not None:
            assert is_printed(block.prints, printed), f"{where} prints\n{printed}"


def roles(admin: Connection) -> set[str]:
    return {str(name) for (name,) in admin.execute("SELECT rolname FROM pg_roles").fetchall()}


@pytest.mark.server
@pytest.mark.parametrize("document", [
    pytest.param(name, marks=pytest.mark.regress if name in ON_EACH_SERVER else ())
    for name, page in ALL.items() if any(map(runs, page))
])  # fmt: skip
def test_all_code_blocks_of_a_page_run(document: str, cluster: Cluster, template: str, tmp_path: Path) -> None:
    page = Page(cluster, template, tmp_path, "".join(block.text for block in ALL[document]))
    with connect(cluster.dsn) as admin:
        before = roles(admin)
        try:
            page.new_database()
            for block in ALL[document]:
                if block.language == NEW_DATABASE:
                    page.new_database()
                elif runs(block):
                    page.run(block)
        finally:
            admin.execute("DROP DATABASE IF EXISTS examples WITH (FORCE)")
            for role in roles(admin) - before:
                admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
