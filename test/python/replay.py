"""Experiments that replay the measurements of a recorded result. The runner needs no server for such an experiment."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from inorder.commands.catalogue import report_of
from inorder.lab.plan.turn import Measured, Metrics, Progress, Stage, Turn
from inorder.lab.results import journal
from inorder.lab.results.result import Result, Run
from inorder.lab.run.experiment import Experiment
from inorder.lab.run.runner import Runner
from inorder.lab.targets.target import Target

RECORDED = Path(__file__).parent / "recorded"

Key = tuple[str, str, int, int]  # step, kind, rows, round


def recorded_names() -> list[str]:
    return sorted(path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.json.gz"))


def recorded(name: str) -> Result:
    return journal.parse(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()), name)


def key_of(run: Run) -> Key:
    return run.step, run.kind, run.rows, run.round


def keys(result: Result) -> list[Key]:
    return sorted(map(key_of, result.runs))


def emptied(result: Result) -> Result:
    return replace(result, runs=[], notes=[], complete=False)


class Nowhere:
    """A target that measures nothing. The runner only asks it to note facts about the server."""

    folder = Path()

    def note(self, result: Result) -> None:
        """Do nothing: no server has facts to note."""


class Counting(Progress):
    def __init__(self) -> None:
        self.announced = self.finished = 0
        self.texts: list[str] = []

    def total(self, steps: int) -> None:
        self.announced = steps

    def step(self, text: str) -> None:
        self.texts.append(text)

    def done(self, text: str = "") -> None:
        self.finished += 1


class Stopped(BaseException):
    """Raised to interrupt the run."""


class Replay:
    """A run of an experiment that replays recorded measurements in any order, and stops before a given measurement.

    ``asked`` lists the keys of the requested measurements in order.
    """

    def __init__(self, kind: type[Experiment[Any]], source: Result, stop_before: int | None = None) -> None:
        self.source = {key_of(run): run for run in source.runs}
        self.asked: list[Key] = []
        self.stop_before = stop_before
        self.progress = Counting()
        self.closed = 0
        self.kind = self.played(kind)
        self.plan = kind.plan_in(source)

    def played(self, kind: type[Experiment[Any]]) -> type[Experiment[Any]]:
        replayed = self

        class Played(kind):  # type: ignore[misc,valid-type]
            def prepare(self) -> None:
                """Do nothing: no server is prepared."""

            def stages(self) -> Sequence[Stage]:
                return [replayed.stage(stage) for stage in super().stages()]

            def outcome(self, metrics: Metrics) -> str:
                return super().outcome(metrics) if metrics else ""

            def close(self) -> None:
                replayed.closed += 1

        return Played

    def stage(self, stage: Stage) -> Stage:
        return replace(
            stage, begin=lambda: None, turns=lambda number: [self.turn(turn, number) for turn in stage.turns(number)]
        )

    def turn(self, turn: Turn, number: int) -> Turn:
        """Return the turn with results from the source.

        Progress that belongs to no measurement is counted before the first measurement.
        """

        def measure(_seed: int) -> Iterator[Measured]:
            for _ in range(turn.weight or 0):
                self.progress.done()
            for place in turn.places:
                key = (place.step, place.kind, place.rows, number)
                if self.stop_before is not None and len(self.asked) >= self.stop_before:
                    raise Stopped
                self.asked.append(key)
                run = self.source.get(key)
                assert run or number == 0, f"{key} is not recorded"
                yield Measured(run.metrics, run.series) if run else Measured({})

        return replace(turn, measure=measure)

    def run(self, result: Result) -> Result:
        with suppress(Stopped):
            Runner(self.experiment(), result, lambda: None).run()
        return result

    def experiment(self) -> Experiment[Any]:
        return self.kind(self.plan, cast(Target, Nowhere()), self.progress)


def tables_of(result: Result) -> list[dict[str, Any]]:
    tables = [
        {
            "name": section.name,
            "data": section.records() if section.data else [],
            "page": section.of_columns(lambda column: column.page).shown(),
        }
        for section in report_of(result).sections(result)
    ]
    verdicts = [
        [
            verdict.question,
            verdict.answer,
            verdict.figures,
            verdict.holds,
            verdict.sure,
            *((bar.label, bar.value) for bar in verdict.bars),
        ]
        for verdict in report_of(result).verdicts(result)
    ]
    return [*tables, {"name": "verdicts", "data": [], "page": verdicts}]
