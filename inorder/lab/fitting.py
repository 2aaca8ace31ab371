"""What becomes of a plan on the user's own server: what it cannot do or show is left out and named. Pure."""

from typing import Any

from inorder.lab.capabilities import Capabilities, whole_run
from inorder.lab.experiments import all_experiments


def fitted(plan: Any, found: Capabilities, needed: int) -> tuple[Any, list[str]]:
    """The plan that can be run there, and what is to be said of it; an error where nothing is left of it."""
    kind = next(kind for kind in all_experiments().values() if kind.Plan is type(plan))
    can_run = kind.adapt(plan, found)
    return can_run.plan, [whole_run(needed), *can_run.notes]
