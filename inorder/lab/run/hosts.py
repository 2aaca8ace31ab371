"""The host of an experiment: a throw-away server, or the user's own server."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inorder import __version__
from inorder.connection.session import in_words
from inorder.errors import InputError
from inorder.installations import Installation, find_installation, major_of
from inorder.lab.instruments import machine
from inorder.lab.plan.capabilities import Adapted, whole_run
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.plan.setting import Plan, settings_of
from inorder.lab.results.result import OWN_SERVER, Result
from inorder.lab.run.experiment import Experiment, P
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import require_free, service_account, temporary_folder
from inorder.lab.targets.own_server import OwnServer, described, require_unchanged, require_usable
from inorder.lab.targets.target import Target
from inorder.lab.targets.throw_away import ThrowAway

# The space for an empty server (40 MB), its programs (up to 35 MB), and the WAL files that it keeps (min_wal_size).
SERVER_BYTES = 160 * 2**20

# The properties of a machine that must not change before a run is resumed, because they determine its speed.
SAME = ("cpu", "cores", "memory_bytes", "filesystem")


class Host(ABC):
    """A server on which experiments can run. ``name`` and ``whose`` describe it to the user."""

    name: str
    whose: str

    @abstractmethod
    def adapt(self, kind: type[Experiment[P]], plan: P) -> Adapted[P]:
        """Return the part of a plan that can run on this server, with notes about omitted measurements."""

    @abstractmethod
    def result(self, kind: type[Experiment[P]], plan: P) -> Result:
        """Return an empty result that describes the run to come."""

    @abstractmethod
    def require_same(self, kind: type[Experiment[P]], plan: P, result: Result) -> None:
        """Raise InputError if the rest of an interrupted run would not be comparable with the result so far."""

    @abstractmethod
    def open(self, kind: type[Experiment[P]], plan: P) -> Any:
        """Check the requirements of the experiment, and return a context manager that provides its Target."""

    def begin(self, kind: type[Experiment[P]], completed: Adapted[P]) -> tuple[P, Result]:
        can = self.adapt(kind, completed.plan)
        result = self.result(kind, can.plan)
        result.notes += [*completed.notes, *can.notes]
        return can.plan, result

    def resume(self, kind: type[Experiment[P]], plan: P, result: Result) -> None:
        """Prepare to resume an interrupted run, and add a note to its result.

        Raise InputError if the run cannot be resumed.
        """
        self.require_same(kind, plan, result)
        if result.runs:
            commit = result.machine.get("commit") or "unknown"
            result.notes.append(
                f"The run was interrupted, and resumed at {machine.now()}. Until then it used commit {commit} of the "
                "tool."
            )


class ThrowAwayHost(Host):
    whose = "private, removed afterwards"

    def __init__(self, server: Installation) -> None:
        self.server, self.name = server, server.name

    def adapt(self, kind: type[Experiment[P]], plan: P) -> Adapted[P]:
        require_version(plan, self.server.major)
        return Adapted(plan)

    def result(self, kind: type[Experiment[P]], plan: P) -> Result:
        about = {"version": self.server.version, "origin": self.server.origin, "settings": {}}
        return empty_result(kind, plan, about, {}, kind.method_with(plan, self.server))

    def require_same(self, kind: type[Experiment[P]], plan: P, result: Result) -> None:
        this_machine = machine.describe_machine(temporary_folder(service_account()))
        check_same_place(result, self.server.version, kind.method_with(plan, self.server), this_machine)

    @contextmanager
    def open(self, kind: type[Experiment[P]], plan: P) -> Iterator[Target]:
        require_room(kind, plan)
        require_extensions(plan, self.server)
        for program in (*kind.programs, *["pg_waldump"] * getattr(plan, "dump_wal", False)):
            self.server.program(program)
        with Cluster(self.server) as cluster:
            yield ThrowAway(cluster, kind.role)


class OwnHost(Host):
    whose = f"your own, in a schema {SCHEMA} that is removed afterwards"

    def __init__(self, own: OwnServer) -> None:
        require_usable(own.capabilities)
        self.own, self.name = own, f"PostgreSQL {own.capabilities.version}"

    def adapt(self, kind: type[Experiment[P]], plan: P) -> Adapted[P]:
        require_version(plan, major_of(self.own.capabilities.version))
        can = kind.adapt(plan, self.own.capabilities)
        return Adapted(can.plan, (whole_run(kind.room(plan)[0]), *can.notes))

    def result(self, kind: type[Experiment[P]], plan: P) -> Result:
        return empty_result(kind, plan, described(self.own.capabilities), {"commit": machine.commit()}, OWN_SERVER)

    def require_same(self, kind: type[Experiment[P]], plan: P, result: Result) -> None:
        require_unchanged(result.server, described(self.own.capabilities))
        if kind.adapt(plan, self.own.capabilities).plan != plan:
            raise InputError("the server no longer allows all measurements of the run")

    @contextmanager
    def open(self, kind: type[Experiment[P]], plan: P) -> Iterator[Target]:
        for program in kind.programs:
            self.own.program(program)
        with self.own, in_words():
            yield self.own


def host_for(kind: type[Experiment[Any]], dsn: str | None, bindir: Path | None) -> Host:
    if dsn is None:
        return ThrowAwayHost(find_installation(bindir))
    if kind.alone:
        raise InputError(f"lab run {kind.name} needs a throw-away server, and cannot be used with --dsn")
    return OwnHost(OwnServer(dsn, find_installation(bindir) if kind.programs else None))


def empty_result(
    kind: type[Experiment[P]], plan: P, server: dict[str, Any], of_machine: dict[str, Any], method: str
) -> Result:
    return Result(kind.name, machine.now(), __version__, int(plan.seed), plan.as_dict(), server, of_machine, method)


def check_same_place(result: Result, version: str, method: str, this_machine: Mapping[str, Any]) -> None:
    facts = [
        ("PostgreSQL", result.server.get("version"), version),
        ("method", result.method, method),
        *((name, result.machine[name], this_machine.get(name)) for name in SAME if name in result.machine),
    ]
    for name, before, now in facts:
        if before != now:
            raise InputError(f"cannot resume on another machine or server: {name} was {before}, and is {now} here")


def require_room(kind: type[Experiment[P]], plan: P) -> None:
    needed, purpose = kind.room(plan)
    folder, index_bytes = kind.index_room(plan)
    if folder:
        require_free(index_bytes, f"the indexes of {purpose}", Path(folder))
    require_free(needed + SERVER_BYTES, purpose, temporary_folder(service_account()))


def require_version(plan: Plan, major: int) -> None:
    for field, setting in settings_of(type(plan)).items():
        for name in getattr(plan, field) if setting.since else ():
            if setting.since and setting.since(name) > major:
                raise InputError(
                    f"{setting.option(field)} {name} needs PostgreSQL {setting.since(name)}; this is {major}"
                )


def require_extensions(plan: Plan, server: Installation) -> None:
    for field, setting in settings_of(type(plan)).items():
        for name in getattr(plan, field) if setting.contrib else ():
            if (needed := setting.contrib and setting.contrib(name)) and not server.has_extension(needed):
                raise InputError(
                    f"{setting.option(field)} {name} needs the extension {needed}, which {server.name} does not have"
                )
