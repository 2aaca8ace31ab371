"""Two results of one experiment: what became better or worse, and how sure that is. Pure.

Their measurements are not paired: they were measured at two times. The ratio is the median of the ratios of every
value of the one to every value of the other (Hodges-Lehmann), its interval that of the Mann-Whitney test: exact,
whatever the distribution, if the two differ by a factor only. Of 2,000 simulated comparisons of equals it called 4.7,
3.6 and 4.3 % different at 6, 9 and 15 measurements each. The percentile bootstrap of the ratio of medians kept its
promise, too (4.2, 2.9 and 2.5 %), but nothing guarantees that it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from inorder.errors import InputError
from inorder.lab.analysis.figures import Judged
from inorder.lab.analysis.model import few_images
from inorder.lab.analysis.stats import ERROR, LEAST_ROUNDS, Estimate
from inorder.lab.results import Result

# What is counted for a row or a transaction of a measurement has its word. Of few that were counted no ratio is judged.
COUNTED = ("wal_bytes", "full_page_images", "index_reads", "touched_blocks")
DIVISORS = dict.fromkeys(("inserts", "written", "committed", "copied", "all_rows"), "row") | {
    "transactions": "transaction", "updated": "update",
}  # fmt: skip

# What may differ between plans that are compared; lists may hold different kinds and sizes as long as some are common.
# Threads follow from the machine's cores, which are reported as part of the surroundings; a table has more rows later.
FREE = ("rounds", "seed", "fill_workers", "threads", "tables", "found")

MORE, NONE = "more", "none"  # which is better
WORSE, BETTER, SAME, WITHIN, FEW = "worse", "better", "no difference", "within threshold", "too few samples"
TOO_FEW_IMAGES = "too few images"

INSERT = "insert"  # the step whose name has the number of clients, but for the first of the plan

Place = tuple[str, str, int, str, str]  # step, kind, rows, metric, by what it is divided


@dataclass(frozen=True)
class Comparison:
    """One metric of one kind in both results; the ratio is B to A. ``per`` is what it is divided by, "" for nothing."""

    step: str
    kind: str
    rows: int
    metric: str
    per: str
    a: float
    b: float
    ratio: Estimate
    verdict: str


@cache
def outer_pairs(first: int, second: int) -> int:
    """How many of the ratios of so many values to so many lie outside the interval on either side.

    The critical value of the Mann-Whitney test, by counting all orders: exact.

    >>> [outer_pairs(6, 6), outer_pairs(9, 9), outer_pairs(15, 15), outer_pairs(3, 3)]
    [5, 17, 64, 0]
    """
    # The share of orders in which U is 0, 1, 2, …: a product of one fraction for each value of the first.
    shares = np.ones(1)
    for size in range(1, first + 1):
        step = np.zeros(second + size + 1)
        step[0], step[-1] = 1, -1
        shares = np.convolve(shares, step)[: first * second + 1]
        for place in range(size, len(shares)):
            shares[place] += shares[place - size]
    within = np.cumsum(shares / shares.sum())
    return max(0, int(np.searchsorted(within, ERROR / 2, side="right")) - 1)


def unpaired_ratio(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """The ratio of values to a base measured apart, with its interval.

    Something to nothing is infinitely more, nothing to nothing as much: the ranks, of which the interval is, know both.

    >>> unpaired_ratio([50.0] * 6, [100.0] * 6)
    Estimate(median=0.5, low=0.5, high=0.5, rounds=6)
    >>> unpaired_ratio([5.0], [0.0]), unpaired_ratio([0.0], [0.0])
    (Estimate(median=inf, low=None, high=None, rounds=1), Estimate(median=1.0, low=None, high=None, rounds=1))
    """
    above, below = np.asarray(values, dtype=float)[:, None], np.asarray(base, dtype=float)[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sort(np.where(above == below, 1.0, above / below).ravel())
    fewer, middle = min(len(values), len(base)), (len(ratios) - 1) // 2
    # The mean of two infinities is one, of infinity and a number, too.
    median = float((ratios[middle] + ratios[-1 - middle]) / 2)
    if len(ratios) == 1:
        return Estimate(median, None, None, 1)
    outside = outer_pairs(len(base), len(values))
    return Estimate(median, float(ratios[outside]), float(ratios[-1 - outside]), fewer)


def verdict(ratio: Estimate, better: str, threshold: float) -> str:
    """Worse or better only if the whole interval is beyond the threshold.

    >>> [verdict(Estimate(0.8, 0.7, high, rounds), "more", 0.1) for high, rounds in ((0.85, 6), (0.95, 6), (0.85, 5))]
    ['worse', 'within threshold', 'too few samples']
    """
    if ratio.rounds < LEAST_ROUNDS or ratio.low is None or ratio.high is None:
        return FEW
    if not ratio.differs_from(1.0):
        return SAME
    if ratio.high < 1 - threshold:
        return WORSE if better == MORE else BETTER
    if ratio.low > 1 + threshold:
        return BETTER if better == MORE else WORSE
    return WITHIN


def samples(result: Result, figures: Sequence[Judged]) -> dict[Place, list[tuple[float, float]]]:
    """The values of every figure of which one direction is better, each with what was counted, by where it is."""
    found: dict[Place, list[tuple[float, float]]] = {}
    places = {one.place: one for one in figures if one.better}
    for run in result.runs:
        for metric, one in places.items():
            if run.step != "fill" and (value := one.read(run)) is not None:  # a fill is not measured with care
                place = (loaded_step(result, run.step), run.kind, run.rows, *metric)
                found.setdefault(place, []).append((value, run.metrics.get(metric[0], 0.0)))
    return found


def not_compared(a: Result, b: Result, figures: Sequence[Judged]) -> list[str]:
    known = {one.place[0] for one in figures if one.better}
    runs = [[run for run in result.runs if run.step != "fill"] for result in (a, b)]
    return sorted({one.place[0] for one in figures
                   if all(any(one.read(run) is not None for run in some) for some in runs)} - known)  # fmt: skip


def loaded_step(result: Result, step: str) -> str:
    """With its number of clients where the plan has several, of which the first has the plain step."""
    clients = result.plan.get("clients")
    return f"{INSERT}@{clients[0]}" if step == INSERT and isinstance(clients, list | tuple) else step


def check_comparable(a: Result, b: Result) -> None:
    if a.experiment != b.experiment:
        raise InputError(f"cannot compare: A is of the experiment '{a.experiment}', B of '{b.experiment}'")
    for name in sorted(a.plan.keys() | b.plan.keys()):
        one, other = a.plan.get(name), b.plan.get(name)
        if name in FREE or one == other:
            continue
        if not isinstance(one, list | tuple) or not isinstance(other, list | tuple) or not set(one) & set(other):
            raise InputError(f"cannot compare: {name} is {shown(one)} in A and {shown(other)} in B")


def shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "not set" if value is None else str(value)


def compare(a: Result, b: Result, threshold: float, figures: Sequence[Judged]) -> list[Comparison]:
    check_comparable(a, b)
    first, second = samples(a, figures), samples(b, figures)
    better = {one.place: one.better for one in figures if one.better}
    few = few_images(a.clients + b.clients)
    found = [
        compared(place, first[place], second[place], better[place[3:]], threshold, few)
        for place in first if place in second
    ]  # fmt: skip
    if not found:
        raise InputError("cannot compare: A and B have nothing in common that was measured")
    return found


Values = Sequence[tuple[float, float]]


def compared(place: Place, a: Values, b: Values, better: str, threshold: float, few: int) -> Comparison:
    """One figure at one place; of no more than ``few`` that were counted no ratio is judged."""
    base, values = ([value for value, _ in some] for some in (a, b))
    ratio = unpaired_ratio(values, base)
    judged = verdict(ratio, better, threshold)
    if better == NONE and any(base) != any(values):  # no matter of chance, however few rounds there are
        judged = WORSE if any(values) else BETTER
    elif place[3] in COUNTED and judged != FEW and max(count for _, count in (*a, *b)) <= few:
        judged = TOO_FEW_IMAGES
    per = DIVISORS.get(place[4], place[4])
    return Comparison(*place[:4], per, float(np.median(base)), float(np.median(values)), ratio, judged)


def surroundings(a: Result, b: Result) -> list[str]:
    differs = [
        f"{name}: {shown(one)} in A, {shown(other)} in B"
        for name, one, other in (
            ("server", a.server.get("version"), b.server.get("version")),
            ("method", a.method, b.method),
            *((name, a.machine.get(name), b.machine.get(name)) for name in ("cpu", "cores", "memory_bytes", "commit")),
        )
        if one != other
    ]
    return differs + [f"{name} was interrupted" for name, result in (("A", a), ("B", b)) if not result.complete]
