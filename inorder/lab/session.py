"""Run one experiment on a throw-away server, from the empty folder to the saved result."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from inorder import __version__
from inorder.cluster import Cluster
from inorder.errors import InputError
from inorder.lab import machine
from inorder.lab.capabilities import Capabilities as Found
from inorder.lab.journal import Journal
from inorder.lab.legacy import Experiment
from inorder.lab.progress import Progress
from inorder.lab.results import OWN_SERVER, Result
from inorder.lab.targets.own_server import OwnServer, described
from inorder.servers import Server
from inorder.session import explained
from inorder.temporary import service_account, temporary_folder


def new_result(experiment: Experiment, plan: Any, server: Server) -> Result:
    """An empty result that says what is about to run."""
    return Result(
        experiment=experiment.name,
        created=machine.now(),
        inorder=__version__,
        seed=int(plan.seed),
        plan=plan.as_dict(),
        server={"version": server.version, "origin": server.origin, "settings": {}},
        machine={},
        method=experiment.method(server, plan),
    )


# An empty server with 40 MB, its programs with up to 35, the WAL files that are kept for later (min_wal_size).
SERVER_BYTES = 160 * 2**20

# Percent of what a row of an insert table needs when it is filled (253 bytes) that are its index: 48 of char(32) in
# pages 70 % full.
INDEX_SHARE = 28

# What a turn's speed depends on, of what is known of the machine.
SAME = ("cpu", "cores", "memory_bytes", "filesystem")


def check_same_place(result: Result, version: str, method: str, here: Mapping[str, Any]) -> None:
    """An error if an interrupted run would go on with another server, on another machine or by another method."""
    facts = [
        ("PostgreSQL", result.server.get("version"), version),
        ("method", result.method, method),
        *((name, result.machine[name], here.get(name)) for name in SAME if name in result.machine),
    ]
    for name, there, now in facts:
        if there != now:
            raise InputError(f"the rest would not be like what the file has: {name} {there} there, {now} here")


def go_on(result: Result, version: str, method: str) -> None:
    """Make an interrupted run ready to go on with here, and let it say so; an error if it may not."""
    check_same_place(result, version, method, machine.describe_machine(temporary_folder(service_account())))
    if result.runs:
        commit = result.machine.get("commit") or "unknown"
        result.notes.append(f"Interrupted, and resumed at {machine.now()}; before that by commit {commit} of the tool.")


def require_free(needed: int, what: str, folder: Path | None = None) -> None:
    """An error if so many bytes are not free in a folder, or else where servers live."""
    folder = folder or temporary_folder(service_account())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{what} need about {needed / 2**30:.1f} GB in {folder}, where {free / 2**30:.1f} GB are free"
        )


def require_room(experiment: Experiment, plan: Any) -> None:
    """An error if the tables and the server itself, or indexes on a tablespace of their own, do not fit."""
    needed, what = experiment.needs(plan)
    if tablespace := getattr(plan, "tablespace", ""):
        require_free(needed * INDEX_SHARE // 100, f"the indexes of {what}", Path(tablespace))
    require_free(needed + SERVER_BYTES, what)


def run_session(
    experiment: Experiment, plan: Any, server: Server, result: Result, progress: Progress, path: Path
) -> None:
    """An experiment on a server of its own; the result is filled and saved as it goes, what it has is left out."""
    require_room(experiment, plan)
    for program in (*experiment.programs, *(("pg_waldump",) if getattr(plan, "dump_wal", False) else ())):
        server.program(program)
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        experiment.run_on(plan, cluster, result, progress, saver(result, path))


def own_result(experiment: Experiment, plan: Any, found: Found, notes: list[str]) -> Result:
    """An empty result of the user's own server. The machine it is on is not known."""
    result = Result(
        experiment=experiment.name,
        created=machine.now(),
        inorder=__version__,
        seed=int(plan.seed),
        plan=plan.as_dict(),
        server=described(found),
        machine={"commit": machine.commit()},
        method=OWN_SERVER,
    )
    result.notes += notes
    return result


def run_own_session(
    experiment: Experiment, plan: Any, own: OwnServer, result: Result, progress: Progress, path: Path
) -> None:
    """An experiment in a schema on the user's own server, removed afterwards; else as ``run_session``."""
    if not experiment.takes_dsn:
        raise InputError(f"{experiment.name} needs a server to itself: it has no --dsn")
    for program in experiment.programs:
        own.program(program)
    with own:
        try:
            experiment.run_on(plan, own, result, progress, saver(result, path))
        except psycopg.Error as error:
            raise explained(error) from error


def saver(result: Result, path: Path) -> Callable[[], None]:
    """What an experiment calls after each run."""
    journal = Journal(path)
    return lambda: journal.save(result)
