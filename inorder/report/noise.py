"""The noise experiment as tables: what was called different, how much turns scatter, what could be resolved."""

from math import log

import numpy as np

from inorder.lab.experiments.noise import STEP, NoisePlan
from inorder.lab.keys import KEY_KINDS
from inorder.lab.power import FOUND, ROUNDS, TO_FIND, rounds_for, smallest_found
from inorder.lab.results import Result
from inorder.lab.stats import ERROR, LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report.section import Column, Section, Value, number, ratio

METRIC = "tps"


def speeds(result: Result, name: str) -> dict[int, float]:
    """TPS of one table, by round."""
    return {run.round: run.metrics[METRIC] for run in result.select(STEP, name)}


def plan_of(result: Result) -> NoisePlan:
    """What says which tables there are."""
    return NoisePlan(kinds=tuple(result.plan["kinds"]), tables=int(result.plan["tables"]))


def comparison(result: Result, one: str, other: str) -> Estimate | None:
    """The paired ratio of two tables over the rounds that both have."""
    first, second = speeds(result, one), speeds(result, other)
    return ratio_by_round(first, second)


def comparisons(result: Result) -> list[tuple[str, Estimate]]:
    """Every pair of equal tables that can be compared, by what it is called: bigint A/B."""
    plan, copies = plan_of(result), plan_of(result).copies()
    found = []
    for kind, one, other in plan.pairs():
        value = comparison(result, one, other)
        if value is not None:
            letters = "/".join(copies[name].label.rsplit(" ", 1)[1] for name in (one, other))
            found.append((f"{KEY_KINDS[kind].label} {letters}", value))
    return found


def complete_rounds(result: Result, kind: str) -> np.ndarray:
    """Logarithms of TPS: a line a round that every table of the kind has, a column a table."""
    tables = [speeds(result, name) for name in plan_of(result).copies() if name.rsplit("_", 1)[0] == kind]
    rounds = sorted(set.intersection(*(set(table) for table in tables)))
    return np.array([[log(table[number]) for table in tables] for number in rounds]).reshape(-1, len(tables))


def scatter(values: np.ndarray) -> tuple[float | None, float | None]:
    """Standard deviations in percent: of a turn about its round's mean, and of the rounds' means; None if too few.

    >>> within, between = scatter(np.log([[100.0, 100.0], [200.0, 200.0]]))
    >>> within, round(between)
    (0.0, 63)
    """
    rounds, tables = values.shape
    if rounds < 2:
        return None, None
    within = np.sum((values - values.mean(axis=1, keepdims=True)) ** 2) / (rounds * (tables - 1))
    between = values.mean(axis=1).std(ddof=1)
    return float(100 * np.expm1(within**0.5)), float(100 * np.expm1(between))


def paired_logs(values: np.ndarray) -> list[float]:
    """The logarithms of the ratios of every two tables in the same round."""
    rounds, tables = values.shape
    return [
        float(values[n, j] - values[n, i]) for n in range(rounds) for i in range(tables) for j in range(i + 1, tables)
    ]


def comparisons_section(result: Result) -> Section:
    """A line a pair."""
    rows: list[list[Value]] = [[name, value, verdict(value)] for name, value in comparisons(result)]
    return Section(
        "noise",
        "Equal tables compared",
        (
            Column("tables", "two tables that are the same but for their names"),
            Column("TPS ratio", "median of the ratios within the rounds, with its interval", number(3, interval=True)),
            Column("verdict", "what a report would say"),
        ),
        rows,
        words(result),
    )


def verdict(value: Estimate) -> str:
    """What a report would say of a ratio.

    >>> [verdict(Estimate(1.2, 1.1, 1.3, rounds)) for rounds in (3, 6)], verdict(Estimate(1.0, 0.9, 1.1, 6))
    (['too few rounds', 'different (wrongly)'], 'no difference')
    """
    if value.rounds < LEAST_ROUNDS:
        return "too few rounds"
    return "different (wrongly)" if value.differs_from(1.0) else "no difference"


def scatter_section(result: Result) -> Section:
    """A line a kind of key."""
    rows: list[list[Value]] = []
    for kind in plan_of(result).kinds:
        values = complete_rounds(result, kind)
        if len(values):
            within, between = scatter(values)
            rows.append([KEY_KINDS[kind].label, estimate([float(x) for x in np.exp(values).ravel()]), within, between])
    return Section(
        "scatter",
        "How much equal turns scatter",
        (
            Column("key", "kind of key"),
            Column("inserts/s", "median of all turns", number(0)),
            Column("within rounds", "standard deviation of a turn about the mean of its round, %", number(1, "%")),
            Column("between rounds", "standard deviation of the rounds' means, %", number(1, "%")),
        ),
        rows,
        "Pairing within the round takes away what lies between rounds; what lies within them is left.",
    )


def resolution_section(result: Result) -> Section:
    """A line a kind of key, a column a number of rounds."""
    rows: list[list[Value]] = []
    for kind in plan_of(result).kinds:
        values = complete_rounds(result, kind)
        if len(values) >= LEAST_ROUNDS:
            logs = paired_logs(values)
            rows.append([KEY_KINDS[kind].label, *(smallest_found(logs, rounds) for rounds in ROUNDS), rounds_for(logs)])
    return Section(
        "resolution",
        f"The smallest difference found {100 * FOUND:.0f} times in 100",
        (
            Column("key", "kind of key"),
            *(Column(f"{rounds} rounds", f"with {rounds} rounds, %", number(1, "%")) for rounds in ROUNDS),
            Column(f"for {100 * TO_FIND:.0f} %", "rounds it takes; empty if more than 200", number(0, "rounds")),
        ),
        rows,
        "Simulated: paired ratios of this run drawn again, shifted, and judged by their interval."
        if rows
        else f"Not told: it takes {LEAST_ROUNDS} rounds that every table has.",
    )


def words(result: Result) -> str:
    """The finding in words."""
    judged = [(name, value) for name, value in comparisons(result) if value.rounds >= LEAST_ROUNDS]
    if not judged:
        return f"Fewer than {LEAST_ROUNDS} rounds: nothing can be called different."
    wrong = [f"{name} ({ratio(value)})" for name, value in judged if value.differs_from(1.0)]
    if not wrong:
        return f"No difference in {len(judged)} comparisons of equal tables."
    return (
        f"{len(wrong)} of {len(judged)} comparisons of equal tables wrongly called different: {'; '.join(wrong)}. "
        f"Up to {100 * ERROR:.0f} in 100 are to be expected; pairs that share a table go wrong together."
    )


def noise_headline(result: Result) -> str:
    """The finding, of enough rounds."""
    return words(result) if any(value.rounds >= LEAST_ROUNDS for _, value in comparisons(result)) else ""


def noise_sections(result: Result) -> list[Section]:
    """For every report."""
    return [comparisons_section(result), scatter_section(result), resolution_section(result)]
