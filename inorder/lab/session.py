"""Run one experiment on a throw-away server, from the empty folder to the saved result."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inorder import __version__
from inorder.cluster import Cluster
from inorder.errors import InputError
from inorder.lab import machine
from inorder.lab.experiment import Experiment
from inorder.lab.progress import Progress
from inorder.lab.results import Result
from inorder.servers import Server
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


def require_free(needed: int, what: str) -> None:
    """An error if so many bytes are not free where servers live."""
    folder = temporary_folder(service_account())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(f"{what} need about {needed / 2**30:.0f} GB in {folder}, where {free / 2**30:.0f} GB are free")


def run_session(
    experiment: Experiment, plan: Any, server: Server, result: Result, progress: Progress, path: Path
) -> None:
    """An experiment on a server of its own; the result is filled and saved as it goes, what it has is left out."""
    require_free(*experiment.needs(plan))
    for program in experiment.programs:
        server.program(program)
    with Cluster(server) as cluster:
        result.machine = machine.describe_machine(cluster.folder)
        experiment.run(plan, cluster, result, progress, saver(result, path))


def saver(result: Result, path: Path) -> Callable[[], None]:
    """What an experiment calls after each run."""
    return lambda: result.save(path)
