"""Run one experiment on a throw-away server, from the empty folder to the saved result."""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from inorder import __version__
from inorder.errors import InputError
from inorder.lab.capabilities import Capabilities
from inorder.lab.experiment import Experiment, P
from inorder.lab.extensions import has_extension
from inorder.lab.instruments import machine
from inorder.lab.journal import Journal
from inorder.lab.plan import Plan
from inorder.lab.progress import Progress
from inorder.lab.results import OWN_SERVER, Result
from inorder.lab.runner import Runner
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import Server
from inorder.lab.server.temporary import service_account, temporary_folder
from inorder.lab.setting import settings_of
from inorder.lab.targets.own_server import OwnServer, described
from inorder.lab.targets.throw_away import ThrowAway
from inorder.session import explained


def new_result(kind: type[Experiment[P]], plan: P, server: Server) -> Result:
    """An empty result that says what is about to run."""
    return Result(
        experiment=kind.name,
        created=machine.now(),
        inorder=__version__,
        seed=int(plan.seed),
        plan=plan.as_dict(),
        server={"version": server.version, "origin": server.origin, "settings": {}},
        machine={},
        method=kind.method_with(plan, server),
    )


# An empty server with 40 MB, its programs with up to 35, the WAL files that are kept for later (min_wal_size).
SERVER_BYTES = 160 * 2**20

# Percent of what a row of an insert table needs when it is filled (253 bytes) that are its index: 48 of char(32) in
# pages 70 % full.
INDEX_SHARE = 28

# What a measurement's speed depends on, of what is known of the machine.
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
        raise InputError(f"{what} need about {needed / 2**30:.1f} GB in {folder}, where {free / 2**30:.1f} GB are free")


def require_room(kind: type[Experiment[P]], plan: P) -> None:
    """An error if the tables and the server itself, or indexes on a tablespace of their own, do not fit."""
    needed, what = kind.room(plan)
    if folder := kind.index_folder(plan):
        require_free(needed * INDEX_SHARE // 100, f"the indexes of {what}", Path(folder))
    require_free(needed + SERVER_BYTES, what)


def require_extensions(plan: Plan, server: Server) -> None:
    """An error if the server lacks an extension of PostgreSQL's own that the plan names."""
    for field, one in settings_of(type(plan)).items():
        for name in getattr(plan, field) if one.contrib else ():
            if (needed := one.contrib and one.contrib(name)) and not has_extension(server, needed):
                raise InputError(
                    f"{one.option(field)} {name} needs the extension {needed}, which {server.name} does not have"
                )


def run_session(
    kind: type[Experiment[P]], plan: P, server: Server, result: Result, progress: Progress, path: Path
) -> None:
    """An experiment on a server of its own; the result is filled and saved as it goes, what it has is left out."""
    require_room(kind, plan)
    require_extensions(plan, server)
    for program in kind.programs_for(plan):
        server.program(program)
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        Runner(kind(plan, ThrowAway(cluster, kind.role), progress), result, partial(Journal(path).save, result)).run()


def own_result(kind: type[Experiment[P]], plan: P, found: Capabilities, notes: Sequence[str]) -> Result:
    """An empty result of the user's own server. The machine it is on is not known."""
    result = Result(
        experiment=kind.name,
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
    kind: type[Experiment[P]], plan: P, own: OwnServer, result: Result, progress: Progress, path: Path
) -> None:
    """An experiment in a schema on the user's own server, removed afterwards; else as ``run_session``."""
    if kind.alone:
        raise InputError(f"{kind.name} needs a server to itself: it has no --dsn")
    for program in kind.programs:
        own.program(program)
    with own:
        try:
            Runner(kind(plan, own, progress), result, partial(Journal(path).save, result)).run()
        except psycopg.Error as error:
            raise explained(error) from error
