"""Capabilities of the user's server, and the changes of a plan for it; impossible measurements are named.

Pure. An experiment declares by ``OwnRun`` what it does on such a server, and adds what only it knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from inorder.errors import InputError
from inorder.lab.plan.setting import Plan, Setting, settings_of

P = TypeVar("P", bound=Plan)

SPARE_SESSIONS = 3  # sessions of this tool, besides those of the load
NO_INORDER = "Left out, since the database has no extension inorder that this role may use"
VACUUMED = (
    "VACUUM frees no page while a transaction open elsewhere on that server may still see its rows. Autovacuum was off "
    "for the lab's tables."
)
THROUGH_HERE = "COPY went through this tool: its times are those of the network and of this machine, too."


@dataclass(frozen=True)
class Capabilities:
    """The rights and settings of this role on the server, in the order of the query own_server."""

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
    language: str  # lc_messages
    tracks_commits: bool
    leaves_database: bool = False  # can read and write files or run programs, like a superuser
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        return self.free_sessions - SPARE_SESSIONS

    def too_few(self, than: str) -> InputError:
        return InputError(f"the server has {self.sessions} sessions left for '{self.role}', {than}")

    def no_inorder(self, what: str) -> InputError:
        return InputError(
            f"the database '{self.database}' has no extension inorder that '{self.role}' may use, and {what}; "
            "HINT: inorder install"
        )


@dataclass(frozen=True)
class Adapted(Generic[P]):
    plan: P
    notes: tuple[str, ...] = ()

    def but(self, *notes: str, **changes: object) -> "Adapted[P]":
        """The same with other settings and more notes ("" for none)."""
        plan = replace(self.plan, **changes)  # type: ignore[arg-type]
        return Adapted(plan, (*self.notes, *filter(None, notes)))


@dataclass(frozen=True)
class OwnRun:
    """An experiment on the user's own server: what it counts and reads there, and what the report says of it.

    ``counts``: WAL and blocks are counted. ``reads_vacuum``: VACUUM's output is read. ``leaf_density``: it is measured.
    ``checkpoints``: one is asked for before each measurement. ``unseen`` is what only a throw-away server shows,
    ``otherwise`` what comes out otherwise than there.
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
        raise InputError(f"the server has {max(can.free_sessions, 0)} sessions left for '{can.role}', too few")
    found = without_contrib(plan)
    for name, one in settings_of(type(plan)).items():
        found = adapted_setting(found, name, one, can)
    return found.but(
        *seen(can, own),
        f"Left out: {own.unseen}, to be seen only from within the server's machine." if own.unseen else "",
        own.otherwise,
    )


def adapted_setting(found: Adapted[P], name: str, one: "Setting[object]", can: Capabilities) -> Adapted[P]:
    value = getattr(found.plan, name)
    if one.found:
        return found.but(**{name: getattr(can, one.found)})
    if one.sessions:
        return with_sessions(found, name, one, can)
    if one.needs_inorder and not can.has_inorder and isinstance(value, tuple):
        return without_inorder(found, name, one, can)
    return found


def with_sessions(found: Adapted[P], name: str, one: "Setting[object]", can: Capabilities) -> Adapted[P]:
    value, option = getattr(found.plan, name), one.option(name)
    if isinstance(value, int):
        if one.asked and value > can.sessions:
            raise can.too_few(f"fewer than {option}")
        return found.but(**{name: min(value, can.sessions)})
    kept = tuple(count for count in value if count <= can.sessions)
    if not kept:
        raise can.too_few(f"fewer than any of {option}")
    left = ", ".join(str(count) for count in value if count not in kept)
    note = f"Left out, since {can.sessions} sessions were free: {left} {name}." if left else ""
    return found.but(note, **{name: kept})


def without_inorder(found: Adapted[P], name: str, one: "Setting[object]", can: Capabilities) -> Adapted[P]:
    assert one.needs_inorder
    value = getattr(found.plan, name)
    kept = tuple(each for each in value if not one.needs_inorder(each))
    if not kept:
        raise can.no_inorder(f"all of {one.option(name)} need it")
    left = ", ".join(one.label(each) for each in value if each not in kept)
    return found.but(f"{NO_INORDER}: {left}." if left else "", **{name: kept})


def without_contrib(plan: P) -> Adapted[P]:
    found = Adapted(plan)
    for name, one in settings_of(type(plan)).items():
        if not one.contrib:
            continue
        value = getattr(plan, name)
        left = {each: one.contrib(each) for each in value if one.contrib(each)}
        if left and len(left) == len(value):
            raise InputError(f"{one.option(name)}: {', '.join(left)} can be measured on a throw-away server only")
        note = ", ".join(f"{one.label(each)} ({needed})" for each, needed in left.items())
        kept = tuple(each for each in value if each not in left)
        found = found.but(f"Left out, since no extension is created on your server: {note}." if left else "",
                          **{name: kept})  # fmt: skip
    return found


def require_english(can: Capabilities) -> None:
    if not (can.language in ("", "C", "POSIX") or can.language.startswith(("C.", "en_", "English"))):
        raise InputError(
            f"the server speaks {can.language} (lc_messages), but what VACUUM says is read in English; "
            f"a superuser may add options='-c lc_messages=C' to --dsn"
        )


def seen(can: Capabilities, own: OwnRun) -> list[str]:
    notes = []
    if own.counts and can.sees_wal:
        notes.append(
            "WAL is counted for the whole server: what its other sessions wrote meanwhile is in it. Blocks are those "
            "of the lab's own tables and indexes."
        )
    elif own.counts:
        notes.append(f"Left out: WAL, since '{can.role}' may not read pg_stat_wal.")
    if own.checkpoints and not can.may_checkpoint:
        notes.append(
            f"No checkpoint before each measurement: '{can.role}' has not the rights of pg_checkpoint. Full-page "
            "images depend on when the server made its own."
        )
    if own.leaf_density and not can.has_pgstattuple:
        notes.append(f"Left out: leaf density: the database has no pgstattuple that '{can.role}' may use.")
    return notes


def whole_run(needed: int) -> str:
    return (
        f"On your own server: it was neither restarted nor reconfigured, its settings are those found, and its free "
        f"disk space was not checked; about {needed / 2**20:,.0f} MB were needed at most."
    )
