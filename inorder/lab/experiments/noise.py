"""Resolution of this machine: equal tables are compared with one another, and every difference is noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from math import log
from string import ascii_uppercase

import numpy as np

from inorder.lab.analysis.figures import by_round, ratio_of
from inorder.lab.analysis.stats import (
    ERROR,
    FOUND,
    LEAST_ROUNDS,
    ROUNDS,
    TO_FIND,
    Estimate,
    estimate,
    rounds_for,
    smallest_found,
)
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import OwnRun
from inorder.lab.plan.keys import KEY_KINDS, KeyKind
from inorder.lab.plan.turn import Measured, Metrics, Stage, every_round, single
from inorder.lab.report.section import Figure, Section, number, ratio, table
from inorder.lab.report.verdict import UNDECIDED, Verdict, to_detect, too_few
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables import insert_tables
from inorder.lab.tables.insert_tables import INSERT, InsertTables, bytes_needed, load_of, speed_text
from inorder.lab.targets.server_settings import Small
from inorder.text import plural
from inorder.units import MB


@dataclass(frozen=True, kw_only=True)
class NoisePlan(setting.Plan):
    """The number of equal tables for each kind of key, and the settings of the insert experiment.

    Many short measurements are best. Paired ratios of measurements of 3 s scattered by 13 to 20 %, and ratios of
    measurements of 1 s by 15 to 25 %. With such noise, 99 rounds detect a difference of 10 % with a probability of 80
    %, even if the measured speeds cluster around two values. With 15 rounds, the probability is below 20 %.
    """

    kinds: tuple[str, ...] = insert_tables.keys(("bigint", "random"))
    tables: int = setting.count("Number of equal tables for each kind of key.", 2, len(ascii_uppercase), 3)
    rows: int = setting.count("Rows in each table.", 1000, 10**11, 1_000_000, quick=250_000, full=10_000_000)
    rounds: int = setting.rounds(99, quick=6, full=90)
    seconds: int = setting.seconds(1, full=10)
    inserts: int | None = insert_tables.inserts()
    clients: int = setting.count("Number of pgbench sessions.", 1, insert_tables.MOST_CLIENTS, 8, sessions=True)
    threads: int = setting.threads()
    memory_bytes: int = setting.memory(128 * MB)
    fill_workers: int = insert_tables.fill_workers()

    def copies(self) -> dict[str, KeyKind]:
        copies = [copy_of(KEY_KINDS[kind], letter) for kind in self.kinds for letter in ascii_uppercase[: self.tables]]
        return {copy.name: copy for copy in copies}

    def pairs(self) -> list[tuple[str, str, str]]:
        return [
            (kind, copy_of(KEY_KINDS[kind], letter).name, copy_of(KEY_KINDS[kind], other).name)
            for kind in self.kinds
            for letter, other in combinations(ascii_uppercase[: self.tables], 2)
        ]


def copy_of(kind: KeyKind, letter: str) -> KeyKind:
    return replace(kind, name=f"{kind.name}_{letter.lower()}", label=f"{kind.label} {letter}")


class NoiseExperiment(Experiment[NoisePlan]):
    question = "Which differences can this machine detect?"
    own = OwnRun(unseen="the device")

    @classmethod
    def room(cls, plan: NoisePlan) -> tuple[int, str]:
        tables = plan.copies()
        needed, _ = bytes_needed(tables.values(), plan.rows, plan.rounds, plan.seconds, plan.inserts)
        return needed, f"{plan.rows:,} rows of {len(tables)} tables"

    @cached_property
    def tables(self) -> InsertTables:
        return InsertTables(self.target, self.plan.copies(), Small(self.plan.memory_bytes), self.plan.fill_workers)

    def prepare(self) -> None:
        self.tables.serve_for_measuring()

    def stages(self) -> list[Stage]:
        rows = self.plan.rows
        turns = [
            single(INSERT, name, rows, f"{rows:,} rows: {copy.label}", partial(self.measure, name))
            for name, copy in self.plan.copies().items()
        ]
        return [
            self.tables.fill_stage(rows, recorded=False),
            Stage(every_round(turns), self.plan.rounds, begin=self.tables.serve_for_measuring),
        ]

    def measure(self, name: str, seed: int) -> Measured:
        load = load_of(self.plan.clients, self.plan.threads, self.plan.seconds, self.plan.inserts)
        return self.tables.measure(name, load, seed, self.show_step)

    def outcome(self, metrics: Metrics) -> str:
        return speed_text(metrics)


def comparisons(result: Result, plan: NoisePlan) -> list[tuple[str, Estimate]]:
    copies, pairs = plan.copies(), []
    for kind, copy, other in plan.pairs():
        value = ratio_of(result, INSERT, copy, other, "tps")
        if value is not None:
            letters = "/".join(copies[name].label.rsplit(" ", 1)[1] for name in (copy, other))
            pairs.append((f"{KEY_KINDS[kind].label} {letters}", value))
    return pairs


def complete_rounds(result: Result, plan: NoisePlan, kind: str) -> np.ndarray:
    tables = [by_round(result, INSERT, name, "tps") for name in plan.copies() if name.rsplit("_", 1)[0] == kind]
    rounds = sorted(set.intersection(*(set(table) for table in tables)))
    return np.array([[log(table[number]) for table in tables] for number in rounds]).reshape(-1, len(tables))


def scatter(values: np.ndarray) -> tuple[float | None, float | None]:
    """Return the standard deviations, in percent, within rounds and of the round means.

    Both are None if there are too few values.
    """
    rounds, tables = values.shape
    if rounds < 2:
        return None, None
    within = np.sum((values - values.mean(axis=1, keepdims=True)) ** 2) / (rounds * (tables - 1))
    between = values.mean(axis=1).std(ddof=1)
    return float(100 * np.expm1(within**0.5)), float(100 * np.expm1(between))


def paired_logs(values: np.ndarray) -> list[float]:
    rounds, tables = values.shape
    return [
        float(values[n, j] - values[n, i]) for n in range(rounds) for i in range(tables) for j in range(i + 1, tables)
    ]


COMPARISONS = (
    Figure("tables", "two tables that differ only in their names", value=lambda pair: pair[0]),
    Figure("TPS ratio", "median of the ratios within the rounds, with its interval", number(3, interval=True),
           value=lambda pair: pair[1]),
    Figure("verdict", "the verdict of a report", value=lambda pair: verdict(pair[1])),
)  # fmt: skip
SCATTER = (
    Figure("key", "kind of key", value=lambda line: KEY_KINDS[line[0]].label),
    Figure("inserts/s", "median of all measurements", number(0), bar=True,
           value=lambda line: estimate([float(x) for x in np.exp(line[1]).ravel()])),
    Figure("within rounds", "standard deviation of a measurement about the mean of its round, %", number(1, "%"),
           bar=True, value=lambda line: scatter(line[1])[0]),
    Figure("between rounds", "standard deviation of the rounds' means, %", number(1, "%"), bar=True,
           value=lambda line: scatter(line[1])[1]),
)  # fmt: skip


def verdict(value: Estimate) -> str:
    if value.rounds < LEAST_ROUNDS:
        return "too few rounds"
    return "different (wrongly)" if value.differs_from(1.0) else "no difference"


def smallest(rounds: int, line: tuple[str, Sequence[float]]) -> float | None:
    return smallest_found(line[1], rounds)


RESOLUTION = (
    Figure("key", "kind of key", value=lambda line: KEY_KINDS[line[0]].label),
    *(
        Figure(f"{rounds} rounds", f"with {rounds} rounds, %", number(1, "%"), bar=True,
               value=partial(smallest, rounds))
        for rounds in ROUNDS
    ),
    Figure(f"for {100 * TO_FIND:.0f} %", "number of rounds needed; empty if more than 200", number(0, "rounds"),
           value=lambda line: rounds_for(tuple(line[1]))),
)  # fmt: skip


def words(pairs: Sequence[tuple[str, Estimate]]) -> str:
    judged = [(name, value) for name, value in pairs if value.rounds >= LEAST_ROUNDS]
    if not judged:
        return f"With fewer than {LEAST_ROUNDS} rounds, no difference can be significant."
    wrong = [f"{name} ({ratio(value)})" for name, value in judged if value.differs_from(1.0)]
    if not wrong:
        return f"No difference was found in {len(judged)} comparisons of equal tables."
    return (
        f"{len(wrong)} of {len(judged)} comparisons of equal tables were wrongly reported as significant: "
        f"{'; '.join(wrong)}. "
        f"Up to {100 * ERROR:.0f} in 100 are expected; the errors of pairs with a common table are correlated."
    )


def sections(result: Result, plan: NoisePlan) -> Sequence[Section]:
    pairs = comparisons(result, plan)
    values = [(kind, complete_rounds(result, plan, kind)) for kind in plan.kinds]
    logs = [(kind, paired_logs(speeds)) for kind, speeds in values if len(speeds) >= LEAST_ROUNDS]
    paired = "Pairing within a round removes differences between rounds; differences within a round remain."
    method = "The rounds are simulated: paired ratios are drawn from this run, shifted, and judged by their interval."
    unknown = f"The difference is unknown: a simulation needs {LEAST_ROUNDS} rounds with measurements of every table."
    title = f"The smallest difference found {100 * FOUND:.0f} times in 100"
    return [
        table("noise", "Equal tables compared", COMPARISONS, pairs, words(pairs)),
        table("scatter", "Scatter of equal measurements", SCATTER, [pair for pair in values if len(pair[1])], paired),
        table("resolution", title, RESOLUTION, logs, method if logs else unknown),
    ]


def verdicts(result: Result, plan: NoisePlan, question: str) -> Sequence[Verdict]:
    values = [complete_rounds(result, plan, kind) for kind in plan.kinds]
    rounds = min(map(len, values), default=0)
    logs = [paired_logs(speeds) for speeds in values]
    smallest = [smallest_found(ratios, rounds) for ratios in logs if ratios]
    if not rounds or not smallest:
        return []
    difference = max((candidate for candidate in smallest if candidate is not None), default=None)
    needed = [rounds_for(tuple(ratios)) for ratios in logs]
    most = None if None in needed else max(count for count in needed if count)
    return [
        Verdict(
            question,
            UNDECIDED if difference is None else f"Differences of {difference:.0f} % and more",
            words(comparisons(result, plan)),
            f"With {plural(rounds, 'round')} and {plan.rows:,} rows in each table, such a difference is found "
            f"{100 * FOUND:.0f} times in 100."
            if difference is not None
            else f"Each table has {plan.rows:,} rows.",
            too_few(rounds) if difference is None else to_detect(most),
        )
    ]
