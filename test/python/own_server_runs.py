"""Runs on a user's own server, and the traces that such runs leave."""

from pathlib import Path
from typing import Any

from inorder.connection.database import connect
from inorder.installations import Installation
from inorder.lab.experiments import all_experiments
from inorder.lab.plan.capabilities import Capabilities as Found
from inorder.lab.plan.setting import Plan
from inorder.lab.results.journal import load
from inorder.lab.results.result import OWN_SERVER, Result
from inorder.lab.server.cluster import Cluster

from tool import inorder
from waiting import wait_for
from world.sql import value

SESSIONS = "SELECT application_name FROM pg_stat_activity WHERE application_name ~ '^inorder_lab'"
ALL = Found("15.1", "me", "shop", False, True, True, None, True, True, True, True, True, 90, 2**27, "off", "C", True)


def fitted(plan: Plan, can: Found) -> tuple[Any, list[str]]:
    adaptation = next(kind for kind in all_experiments().values() if kind.Plan is type(plan)).adapt(plan, can)
    return adaptation.plan, list(adaptation.notes)


def but(**changes: object) -> Found:
    return Found(**{**vars(ALL), **changes})


def plain(users: Cluster, database: str = "bare") -> str:
    return f"host={users.folder / 'run'} port=5432 user=plain dbname={database}"


def traces(dsn: str) -> list[object]:
    with connect(dsn) as connection:
        connection.execute("SET search_path = elsewhere, pg_catalog")
        # The server shows a session for a moment after it was closed.
        wait_for(lambda: not connection.execute(SESSIONS.encode()).fetchall())
        queries = ["SELECT nspname FROM pg_namespace WHERE nspname = 'inorder_lab'", SESSIONS]
        if value(connection, "SELECT to_regclass('inorder_internal.feed') IS NOT NULL"):
            queries += [
                "SELECT name FROM inorder_internal.feed", "SELECT relation::text FROM inorder_internal.feed_table"
            ]  # fmt: skip
        return [row[0] for text in queries for row in connection.execute(text.encode())]


def run_there(folder: Path, server: Installation, dsn: str, name: str, *options: str) -> tuple[Result, str]:
    for file in (f"inorder-{name}.jsonl", "page.html"):
        (folder / file).unlink(missing_ok=True)
    words = ("lab", "run", name, "--dsn", dsn, "--rounds", "1", "--html", "page.html", *options)
    done = inorder(*words, folder=folder, server=server)
    assert done.returncode == 0, done.stderr
    result = load(folder / f"inorder-{name}.jsonl")
    assert result.complete and result.method == OWN_SERVER == result.server["origin"]
    assert result.notes and all(note.split(".")[0][:60] in done.stdout for note in result.notes)
    assert "host" not in str(result.server) and (folder / "page.html").exists()
    return result, " ".join(result.notes)
