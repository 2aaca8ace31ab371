"""Experiments without a server: their turns are taken, what they would measure is made up."""

from collections.abc import Callable
from typing import Any, cast

from inorder.lab.experiment import Experiment
from inorder.lab.plan import Plan
from inorder.lab.results import Result
from inorder.lab.runner import Runner
from inorder.lab.targets.target import Target

from conftest import Silent
from replay import Nowhere


def empty_result(kind: type[Experiment[Any]], plan: Plan) -> Result:
    """A result before its first measurement."""
    return Result(kind.name, "now", "0", plan.seed, plan.as_dict(), {}, {}, "mock")


def run_on_paper(
    kind: type[Experiment[Any]], plan: Plan, result: Result | None = None, save: Callable[[], None] = lambda: None
) -> tuple[Result, Any]:
    """A whole run; the experiment, too, for what it wrote down."""
    experiment = kind(plan, cast(Target, Nowhere()), Silent())
    result = result or empty_result(kind, plan)
    Runner(experiment, result, save).run()
    return result, experiment
