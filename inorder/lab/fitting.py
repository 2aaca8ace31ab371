"""What becomes of a plan on the user's own server: what it cannot do or show is left out and named. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inorder.errors import InputError
from inorder.lab.capabilities import Capabilities as Found
from inorder.lab.experiments import all_experiments
from inorder.lab.experiments.insert import InsertPlan
from inorder.lab.experiments.noise import NoisePlan
from inorder.lab.keys import KEY_KINDS
from inorder.lab.plan import Plan

# What an experiment measures on a throw-away server, and only there.
UNSEEN: Mapping[type, str] = {
    InsertPlan: "what is in the WAL (pg_waldump) and the device",
    NoisePlan: "the device",
}

MEASURE_LEAVES = (InsertPlan,)

SPARE_SESSIONS = 3  # beside the load's: this tool's own


def fitted(plan: Any, found: Found, needed: int) -> tuple[Any, list[str]]:
    """The plan that can be run there, and what is to be said of it; an error where nothing is left of it."""
    notes = [
        f"On your own server: it was neither restarted nor reconfigured, its settings are those found, and its free "
        f"disk space was not looked at; about {needed / 2**20:,.0f} MB were needed at most."
    ]
    if isinstance(plan, Plan):
        kind = next(kind for kind in all_experiments().values() if kind.Plan is type(plan))
        found_plan = kind.adapt(plan, found)
        return found_plan.plan, [*notes, *found_plan.notes]
    changes: dict[str, Any] = {}
    for part in (
        fit_kinds,
        fit_clients,
        fit_settings,
    ):
        changed, told = part(plan, found)
        changes |= changed
        notes += told
    return replace(plan, **changes), [*notes, *blind_spots(plan, found)]


Fit = tuple[dict[str, Any], list[str]]


def no_inorder(found: Found, what: str) -> InputError:
    """What to say where nothing is left of a plan without the extension."""
    return InputError(
        f"the database '{found.database}' has no extension inorder that '{found.role}' may use, and {what}; "
        f"CREATE EXTENSION inorder makes it"
    )


def fit_kinds(plan: Any, found: Found) -> Fit:
    """Without the extension only the kinds of key that do without it."""
    if not hasattr(plan, "kinds") or isinstance(type(plan).__dict__.get("kinds"), property) or found.has_inorder:
        return {}, []
    kept = tuple(kind for kind in plan.kinds if not KEY_KINDS[kind].needs_inorder)
    if not kept:
        raise no_inorder(found, "all of these kinds of key need it")
    left = [KEY_KINDS[kind].label for kind in plan.kinds if kind not in kept]
    told = f"Left out, since the database has no extension inorder that this role may use: {', '.join(left)}."
    return ({"kinds": kept}, [told]) if left else ({}, [])


def fit_clients(plan: Any, found: Found) -> Fit:
    """As many sessions as the server, the database and the role have left."""
    free, changes, notes = found.free_sessions - SPARE_SESSIONS, {}, []
    if free < 1:
        raise InputError(f"the server has {max(found.free_sessions, 0)} sessions left for '{found.role}', too few")
    if hasattr(plan, "fill_workers"):
        changes["fill_workers"] = min(plan.fill_workers, free)
    if isinstance(getattr(plan, "clients", None), int):
        if plan.clients > free:
            raise InputError(f"the server has {free} sessions left for '{found.role}', fewer than --clients")
    elif hasattr(plan, "clients"):
        changes["clients"] = kept = tuple(count for count in plan.clients if count <= free)
        if not kept:
            raise InputError(f"the server has {free} sessions left for '{found.role}', fewer than any of --clients")
        left = [str(count) for count in plan.clients if count not in kept]
        notes = [f"Left out, since {free} sessions were free: {', '.join(left)} clients."] if left else []
    return changes, notes


def fit_settings(plan: Any, found: Found) -> Fit:
    """A plan says what memory there was, and how commits waited: here what was found."""
    given = {
        "memory_bytes": found.shared_buffers,
        "shared_buffers": found.shared_buffers,
        "synchronous_commit": found.synchronous_commit,
        "dump_wal": False,
        "tablespace": "",
    }
    return {name: value for name, value in given.items() if hasattr(plan, name)}, []


def blind_spots(plan: Any, found: Found) -> list[str]:
    """What is not counted, or not as elsewhere."""
    whole = (
        "WAL is counted for the whole server: what its other sessions wrote meanwhile is in it. Blocks are those of "
        "the lab's own tables and indexes."
    )
    notes = []
    notes.append(whole if found.sees_wal else f"Left out: WAL, since '{found.role}' may not read pg_stat_wal.")
    if type(plan) in UNSEEN:
        notes.append(f"Left out: {UNSEEN[type(plan)]}, to be seen only from within the server's machine.")
    if not found.may_checkpoint:
        notes.append(
            f"No checkpoint before each turn: '{found.role}' has not the rights of pg_checkpoint. Full-page images "
            "depend on when the server made its own."
        )
    if hasattr(plan, "dump_wal") and not found.sees_checkpoints:
        notes.append(f"Left out: when checkpoints ended; '{found.role}' may not call pg_control_checkpoint().")
    if isinstance(plan, MEASURE_LEAVES) and not found.has_pgstattuple and not found.has_inorder:
        notes.append("Left out: leaf density: neither pgstattuple nor inorder is in the database for this role to use.")
    return notes
