"""Run an experiment in stages and rounds, and write its result file. Skip measurements that the file already has."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from inorder.lab.plan.setting import Plan
from inorder.lab.plan.turn import Measured, Place, Progress, Stage, Turn, seed_of, shuffled
from inorder.lab.results.journal import Journal
from inorder.lab.results.result import LOAD, Result, Run
from inorder.lab.run.experiment import Experiment, P
from inorder.lab.run.hosts import Host


class Runner:
    def __init__(self, experiment: Experiment[P], result: Result, save: Callable[[], None]) -> None:
        self.experiment, self.result, self.save = experiment, result, save
        self.progress = experiment.progress
        self.keys = {run.key for run in result.runs}  # a set, because a run may have thousands of measurements

    def run(self) -> None:
        with closing(self.experiment):
            self.experiment.prepare()
            self.experiment.target.note(self.result)
            stages = self.experiment.stages()
            self.progress.total(sum(stage.steps for stage in stages))
            for stage in stages:
                stage.begin()
                for number in stage.numbers:
                    for turn in self.turns(stage, number):
                        self.take_turn(stage, turn, number)
            self.result.plan = self.experiment.plan.without_folders()
            self.result.complete = True
            self.save()

    def turns(self, stage: Stage, number: int) -> list[Turn]:
        """Return the turns of a round in the order in which they run.

        An interrupted turn, or its whole round, is measured again.
        """
        turns = list(stage.turns(number))
        if not stage.redone:
            all_places = [place for turn in turns for place in turn.places]
            for places in [all_places] if stage.whole else [turn.places for turn in turns]:
                self.forget_cut_off(places, number)
        return shuffled(turns, self.experiment.plan.seed, number) if stage.shuffled else turns

    def forget_cut_off(self, places: Sequence[Place], number: int) -> None:
        """Remove a round, or one of its turns, from the result if some of its measurements are missing."""
        keys = {place.key(number) for place in places}
        if (measured := keys & self.keys) and measured < keys:
            self.result.runs = [run for run in self.result.runs if run.key not in measured]
            self.keys -= measured

    def take_turn(self, stage: Stage, turn: Turn, number: int) -> None:
        before = f"round {number} of {stage.rounds}: " if stage.rounds > 1 else ""
        in_file = [place.key(number) in self.keys for place in turn.places]
        if all(in_file) and not stage.redone:
            self.skip(turn, before)
            return
        first = turn.places[0]
        seed = seed_of(self.experiment.plan.seed, first.step, first.kind, first.rows, number)
        measured = turn.measure(seed)
        try:
            for place, is_kept in zip(turn.places, in_file, strict=True):
                self.experiment.measuring = before + place.label
                self.progress.step(self.experiment.measuring)
                result = next(measured)
                if number > 0 and not is_kept:
                    self.keep(place, number, result)
                if turn.weight is None:
                    self.progress.step(self.experiment.measuring)
                    self.progress.done(self.experiment.outcome(result.metrics))
            next(measured, None)  # runs the code after the last yield, and raises a delayed interrupt
        finally:
            if isinstance(measured, Generator):
                measured.close()  # ends the threads of the measurement

    def skip(self, turn: Turn, before: str) -> None:
        for step in range(turn.steps):
            self.progress.step(before + turn.places[min(step, len(turn.places) - 1)].label)
            self.progress.done("already in the file")

    def keep(self, place: Place, number: int, measured: Measured) -> None:
        run = Run(*place.key(number), measured.metrics | {LOAD: os.getloadavg()[0]}, measured.series)
        self.result.runs.append(run)
        self.keys.add(run.key)
        self.save()


@dataclass(frozen=True)
class WholeRun:
    kind: type[Experiment[Any]]
    plan: Plan
    host: Host
    result: Result
    file: Path

    def run(self, progress: Progress) -> None:
        """Run all measurements that the result does not have yet. Save the result after each measurement."""
        with self.host.open(self.kind, self.plan) as target:
            experiment = self.kind(self.plan, target, progress)
            Runner(experiment, self.result, partial(Journal(self.file).save, self.result)).run()
