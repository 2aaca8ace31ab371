"""One experiment on one server, into one file."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from inorder.lab.experiment import Experiment
from inorder.lab.hosts import Host
from inorder.lab.journal import Journal
from inorder.lab.plan import Plan
from inorder.lab.progress import Progress
from inorder.lab.results import Result
from inorder.lab.runner import Runner


@dataclass(frozen=True)
class Session:
    """A run: what it is of, where, and what it fills."""

    kind: type[Experiment[Any]]
    plan: Plan
    host: Host
    result: Result
    file: Path

    def run(self, progress: Progress) -> None:
        """All of it; the result is saved as it is filled, and what it has is left out."""
        with self.host.open(self.kind, self.plan) as target:
            experiment = self.kind(self.plan, target, progress)
            Runner(experiment, self.result, partial(Journal(self.file).save, self.result)).run()
