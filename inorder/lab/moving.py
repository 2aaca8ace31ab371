"""Experiments that are modules of their own, for what still asks for the former kind."""

from typing import Any

from inorder.lab.experiments import all_experiments
from inorder.lab.legacy import Experiment
from inorder.lab.runner import Runner
from inorder.lab.targets.throw_away import place_of


class Moved(Experiment):
    """As the former kind."""

    def run_on(self, plan: Any, server: Any, result: Any, progress: Any, save: Any) -> None:
        """All of it."""
        kind = all_experiments()[self.name]
        Runner(kind(plan, place_of(server), progress), result, save).run()

    def plan_of(self, size: str = "", **given: Any) -> Any:
        """The plan of a size, but for what is given."""
        return self.plan.of_size(size, given)

    def plan_in(self, result: Any) -> Any:
        """The plan of a result."""
        return all_experiments()[self.name].plan_in(result)


def moved() -> list[Experiment]:
    """All of them."""
    return [
        Moved(
            name=kind.name,
            study=", ".join(kind.studies),
            plan=kind.Plan,
            bench=lambda server, plan: None,  # type: ignore[arg-type,return-value]
            run=lambda *_: None,
            needs=kind.room,
            method=lambda server, plan, kind=kind: kind.method(plan, server),  # type: ignore[misc]
            programs=kind.programs,
            takes_dsn=not kind.alone,
        )
        for kind in all_experiments().values()
    ]


