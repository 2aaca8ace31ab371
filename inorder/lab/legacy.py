"""What every experiment is: a plan, a way to run it on a server, and what it needs; and the order of its turns."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_origin, get_type_hints

from inorder.cluster import Cluster
from inorder.errors import InputError
from inorder.lab.progress import Progress
from inorder.lab.results import Result, Run, shortened
from inorder.lab.targets.target import Target as Place
from inorder.lab.targets.throw_away import Bench
from inorder.servers import Server

Metrics = dict[str, float]
Series = dict[str, list[float]]
Measured = Metrics | tuple[Metrics, Series]


@dataclass(frozen=True)
class Experiment:
    """One experiment of the lab.

    ``plan`` is a frozen dataclass of tuples, numbers and strings; its defaults are the usual run, ``quick`` and
    ``full`` what differs in the short one and in the one of the published sizes. ``bench`` takes the server, which it
    starts, or the user's own, and the plan. ``run`` takes the plan, the bench, the result to fill, the progress to
    tell, and what saves the result; it leaves out what the result has. ``needs`` says how many bytes on disk, and for
    what; ``takes_dsn`` whether it may be run on the user's own server, or needs one to itself.
    """

    name: str
    study: str
    plan: type[Any]
    bench: Callable[[Any, Any], Bench]
    run: Callable[[Any, Any, Result, Progress, Callable[[], None]], None]
    needs: Callable[[Any], tuple[int, str]]
    method: Callable[[Server, Any], str]
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[str, ...] = ("pgbench",)
    takes_dsn: bool = True

    def run_on(
        self, plan: Any, server: Cluster | Place, result: Result, progress: Progress, save: Callable[[], None]
    ) -> None:
        """All of it, on a server that is not started yet or on the user's."""
        with closing(self.bench(server, plan)) as bench:
            bench.place.note(result)
            self.run(plan, bench, result, progress, save)

    def plan_of(self, size: str = "", **given: Any) -> Any:
        """The plan of a size ("", "quick" or "full"), but for what is given."""
        return replace(self.plan(), **{**{"quick": self.quick, "full": self.full}.get(size, {}), **given})

    def plan_in(self, result: Result) -> Any:
        """The plan that a result file was made by; JSON has lists for tuples."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in result.plan.items()}
        try:
            for name, kind in get_type_hints(self.plan).items():
                if name in values and not fits(values[name], kind):
                    raise TypeError(f"{name} is {shortened(repr(values[name]))}")
            return self.plan(**values)
        except TypeError as error:
            raise InputError(f"the result's plan is not one of the experiment '{self.name}': {error}") from error


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type as plans have them.

    >>> fits((1, 2), tuple[int, ...]), fits(None, int | None), fits(1, float)
    (True, True, True)
    >>> fits(("1",), tuple[int, ...]), fits(None, int), fits(True, int)
    (False, False, False)
    """
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(fits(one, parts[0]) for one in value)
    if parts:
        return any(fits(value, part) for part in parts)
    return type(value) in ((int, float) if kind is float else (kind,))


@dataclass(frozen=True)
class Turn:
    """One of the things that take turns in a round; ``measure`` is given a seed."""

    step: str
    kind: str
    rows: int
    label: str
    measure: Callable[[int], Measured]


def seed_of(seed: int, *place: object) -> int:
    """A seed for one place of an experiment, the same whatever was left out before it.

    >>> seed_of(1, "insert", 2) == seed_of(1, "insert", 2) != seed_of(1, "insert", 3)
    True
    """
    return random.Random(repr((seed, *place))).randrange(2**31)


def shuffled(turns: Iterable[Turn], seed: int, number: int) -> list[Turn]:
    """The turns of a round in an order of its own, which does not depend on the rounds before."""
    turns = list(turns)
    random.Random(repr((seed, "order", number, [(turn.step, turn.rows) for turn in turns]))).shuffle(turns)
    return turns


def forget_cut_off(places: Iterable[tuple[str, str, int]], number: int, result: Result) -> None:
    """Take a round, of so many steps, kinds and rows, out of the result if some of them are missing there.

    Ratios are paired within it, and half of it on another server would be no pair.
    """
    whole = {(*place, number) for place in places}
    there = [run for run in result.runs if (run.step, run.kind, run.rows, run.round) in whole]
    if len(there) < len(whole):
        result.runs = [run for run in result.runs if run not in there]


def run_rounds(
    turns: Sequence[Turn],
    rounds: int,
    seed: int,
    result: Result,
    progress: Progress,
    save: Callable[[], None],
    found: Callable[[Metrics], str] = lambda metrics: "",
    whole: bool = True,
) -> None:
    """Each turn once a round, in shuffled order, saved as soon as it is measured; what the result has is left out.

    A round that was cut off begins anew unless it need not be ``whole``: ratios are paired within it, and turns on
    two servers, at two times, on tables that have grown by different numbers of rows, are no pairs.
    """
    for number in range(1, rounds + 1):
        if whole:
            forget_cut_off(((turn.step, turn.kind, turn.rows) for turn in turns), number, result)
        for turn in shuffled(turns, seed, number):
            if result.has(turn.step, turn.kind, turn.rows, number):
                progress.step(f"round {number} of {rounds}: {turn.label}")
                progress.done("in the file already")
                continue
            progress.step(f"round {number} of {rounds}: {turn.label}")
            measured = turn.measure(seed_of(seed, turn.step, turn.kind, turn.rows, number))
            metrics, series = measured if isinstance(measured, tuple) else (measured, {})
            result.runs.append(Run(turn.step, turn.kind, turn.rows, number, metrics, series))
            save()
            progress.done(found(metrics))
