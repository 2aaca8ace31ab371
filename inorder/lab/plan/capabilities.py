"""The capabilities of the user's server, and the plans adapted to them, with notes about omitted measurements.

An experiment declares with ``OwnRun`` how it uses the user's server, and may adapt its plan further. The functions are
pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from inorder.errors import InputError
from inorder.lab.plan.setting import Plan, Setting, settings_of
from inorder.text import quoted

P = TypeVar("P", bound=Plan)

SPARE_SESSIONS = 3  # sessions of this tool, in addition to the sessions of the load
NO_INORDER = "Left out, since the database has no extension inorder that this role may use"
VACUUMED = (
    "VACUUM does not free a page while a transaction that is open elsewhere on the server may still see its rows. "
    "Autovacuum was off for the lab's tables."
)
THROUGH_HERE = "COPY ran through this tool: the times of COPY include the network and this machine."


@dataclass(frozen=True)
class Capabilities:
    """The privileges and settings of this role on the server, in the column order of the query own_server."""

    version: str
    role: str
    database: str
    in_recovery: bool
    counts: bool
    may_create: bool
    schema_comment: str | None  # None if the schema does not exist
    may_checkpoint: bool
    sees_wal: bool
    sees_checkpoints: bool
    has_inorder: bool
    has_pgstattuple: bool
    free_sessions: int
    shared_buffers: int
    synchronous_commit: str
    language: str  # the value of lc_messages
    tracks_commits: bool
    leaves_database: bool = False  # like a superuser, the role can read and write files or run programs
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        return self.free_sessions - SPARE_SESSIONS

    def too_few(self, than: str) -> InputError:
        return InputError(f"the server has {self.sessions} free sessions for {quoted(self.role)}, {than}")

    def no_inorder(self, need: str) -> InputError:
        return InputError(
            f"the database {quoted(self.database)} has no extension inorder that {quoted(self.role)} may use, "
            f"and {need}; HINT: Run inorder install."
        )


@dataclass(frozen=True)
class Adapted(Generic[P]):
    plan: P
    notes: tuple[str, ...] = ()

    def but(self, *notes: str, **changes: object) -> "Adapted[P]":
        """Return the adaptation with changed settings and more notes. A note of "" is ignored."""
        plan = replace(self.plan, **changes)  # type: ignore[arg-type]
        return Adapted(plan, (*self.notes, *filter(None, notes)))


@dataclass(frozen=True)
class OwnRun:
    """How an experiment uses the user's own server, and notes for the report.

    * ``counts``: the experiment counts WAL and blocks.
    * ``reads_vacuum``: it reads the output of VACUUM.
    * ``leaf_density``: it measures leaf density.
    * ``checkpoints``: it requests a checkpoint before each measurement.
    * ``unseen``: the figures that only a throw-away server can provide.
    * ``otherwise``: the differences from a run on a throw-away server.
    """

    counts: bool = True
    reads_vacuum: bool = False
    leaf_density: bool = False
    checkpoints: bool = True
    unseen: str = ""
    otherwise: str = ""


def adapted(plan: P, can: Capabilities, own: OwnRun) -> Adapted[P]:
    if own.reads_vacuum:
        require_english(can)
    if can.sessions < 1:
        raise InputError(f"the server has {max(can.free_sessions, 0)} free sessions for {quoted(can.role)}, too few")
    adaptation = without_contrib(plan)
    for name, setting in settings_of(type(plan)).items():
        adaptation = adapted_setting(adaptation, name, setting, can)
    return adaptation.but(
        *unseen_notes(can, own),
        f"Left out: {own.unseen} (visible only on the server's machine)." if own.unseen else "",
        own.otherwise,
    )


def adapted_setting(adaptation: Adapted[P], name: str, setting: "Setting[object]", can: Capabilities) -> Adapted[P]:
    value = getattr(adaptation.plan, name)
    if setting.capability:
        return adaptation.but(**{name: getattr(can, setting.capability)})
    if setting.sessions:
        return with_sessions(adaptation, name, setting, can)
    if setting.needs_inorder and not can.has_inorder and isinstance(value, tuple):
        return without_inorder(adaptation, name, setting, can)
    return adaptation


def with_sessions(adaptation: Adapted[P], name: str, setting: "Setting[object]", can: Capabilities) -> Adapted[P]:
    value, option = getattr(adaptation.plan, name), setting.option(name)
    if isinstance(value, int):
        if setting.asked and value > can.sessions:
            raise can.too_few(f"fewer than {option}")
        return adaptation.but(**{name: min(value, can.sessions)})
    possible = tuple(count for count in value if count <= can.sessions)
    if not possible:
        raise can.too_few(f"fewer than any of {option}")
    omitted = ", ".join(str(count) for count in value if count not in possible)
    note = f"Left out, since only {can.sessions} sessions were free: {omitted} {name}." if omitted else ""
    return adaptation.but(note, **{name: possible})


def without_inorder(adaptation: Adapted[P], name: str, setting: "Setting[object]", can: Capabilities) -> Adapted[P]:
    assert setting.needs_inorder
    value = getattr(adaptation.plan, name)
    possible = tuple(choice for choice in value if not setting.needs_inorder(choice))
    if not possible:
        raise can.no_inorder(f"all values of {setting.option(name)} need the extension")
    omitted = ", ".join(setting.label(choice) for choice in value if choice not in possible)
    return adaptation.but(f"{NO_INORDER}: {omitted}." if omitted else "", **{name: possible})


def without_contrib(plan: P) -> Adapted[P]:
    adaptation = Adapted(plan)
    for name, setting in settings_of(type(plan)).items():
        if not setting.contrib:
            continue
        value = getattr(plan, name)
        omitted = {choice: setting.contrib(choice) for choice in value if setting.contrib(choice)}
        if omitted and len(omitted) == len(value):
            names = ", ".join(omitted)
            raise InputError(f"{setting.option(name)}: {names} can be measured on a throw-away server only")
        needs = ", ".join(f"{setting.label(choice)} ({needed})" for choice, needed in omitted.items())
        possible = tuple(choice for choice in value if choice not in omitted)
        note = f"Left out, since no extension is created on your server: {needs}." if omitted else ""
        adaptation = adaptation.but(note, **{name: possible})
    return adaptation


def require_english(can: Capabilities) -> None:
    if not (can.language in ("", "C", "POSIX") or can.language.startswith(("C.", "en_", "English"))):
        raise InputError(
            f"lc_messages of the server is {can.language}, and the output of VACUUM is only understood in English; "
            f"HINT: A superuser can add options='-c lc_messages=C' to --dsn."
        )


def unseen_notes(can: Capabilities, own: OwnRun) -> list[str]:
    notes = []
    if own.counts and can.sees_wal:
        notes.append(
            "WAL is counted for the whole server: the WAL of other sessions is included. Blocks are counted "
            "only for the lab's own tables and indexes."
        )
    elif own.counts:
        notes.append(f"Left out: WAL, since {quoted(can.role)} may not read pg_stat_wal.")
    if own.checkpoints and not can.may_checkpoint:
        notes.append(
            f"No checkpoint before each measurement: {quoted(can.role)} lacks the privileges of pg_checkpoint. "
            "Full-page images depend on the times of the server's own checkpoints."
        )
    if own.leaf_density and not can.has_pgstattuple:
        notes.append(f"Left out: leaf density, since the database has no pgstattuple that {quoted(can.role)} may use.")
    return notes


def whole_run(needed: int) -> str:
    return (
        "The run used your own server, which was neither restarted nor reconfigured. The free disk space of the server "
        f"was not checked; the run needed at most about {needed / 2**20:,.0f} MB."
    )
