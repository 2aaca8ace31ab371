"""Two results of one experiment: what became better or worse, and how sure that is. Pure.

Their measurements are not paired: they were measured at two times. The ratio is the
median of the ratios of every value of the one to every value of the other
(Hodges-Lehmann), its interval that of the Mann-Whitney test: exact, whatever
the distribution, if the two differ by a factor only. Of 2,000 simulated
comparisons of equals it called 4.7, 3.6 and 4.3 % different at 6, 9 and 15
measurements each. The percentile bootstrap of the ratio of medians kept its promise,
too (4.2, 2.9 and 2.5 %), but nothing guarantees that it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from inorder.errors import InputError
from inorder.lab.analysis.model import few_images
from inorder.lab.analysis.stats import ERROR, LEAST_ROUNDS, Estimate
from inorder.lab.results import Result, Run

# Whether more of a metric is better; what is not here is named as not compared.
METRICS = {
    "tps": True,
    "rows_per_second": True,
    "latency_ms": False,
    "p50_ms": False,
    "p99_ms": False,
    "lock_ms": False,
    "cpu_us": False,
    "cpu_seconds": False,
    "seconds": False,
    "wal_bytes": False,
    "full_page_images": False,
    "index_reads": False,
    "touched_blocks": False,
    "index_bytes": False,
    "total_bytes": False,
    "leaf_density": True,
    "lost": False,
    "twice": False,
    "misplaced": False,
    "median_wait_ms": False,
    "longest_wait_ms": False,
}

# What is divided by the rows or transactions of a measurement, where that is a number of its own. Elsewhere the plan
# says how many there are, and both have the same.
COUNTED = ("wal_bytes", "full_page_images", "index_reads", "touched_blocks", "lost", "twice", "misplaced")
DIVISORS = {"inserts": "row", "written": "row", "committed": "row", "transactions": "transaction"}

# Rows that a reader lost or got twice, or that are out of order, are no matter of chance: none in A and one in B is
# worse however few rounds there are.
FAULTS = ("lost", "twice", "misplaced")

# What says the same as another, is the length of a measurement, or what others are divided by.
NOT_TOLD = ("wal_records", "record_bytes", "image_bytes", "rows", "rows_before", "calls", *DIVISORS)

# What may differ between plans that are compared; lists may hold different kinds and sizes as long as some are common.
# Threads follow from the machine's cores, which are reported as part of the surroundings; a table has more rows later.
FREE = ("rounds", "seed", "fill_workers", "threads", "tables", "found")

WORSE, BETTER, SAME, WITHIN, FEW = "worse", "better", "no difference", "within threshold", "too few samples"
TOO_FEW_IMAGES = "too few images"

INSERT = "insert"  # the step whose name has the number of clients, but for the first of the plan

Place = tuple[str, str, int, str]  # step, kind, rows, metric


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
        shares = np.convolve(shares, uniform_step(second + size))[: first * second + 1]
        shares = divide(shares, size)
    within = np.cumsum(shares / shares.sum())
    return max(0, int(np.searchsorted(within, ERROR / 2, side="right")) - 1)


def uniform_step(size: int) -> np.ndarray:
    """1 - x^size as coefficients."""
    step = np.zeros(size + 1)
    step[0], step[size] = 1, -1
    return step


def divide(shares: np.ndarray, size: int) -> np.ndarray:
    """Divided by 1 - x^size."""
    divided = shares.copy()
    for place in range(size, len(divided)):
        divided[place] += divided[place - size]
    return divided


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


def verdict(ratio: Estimate, more_is_better: bool, threshold: float) -> str:
    """Worse or better only if the whole interval is beyond the threshold.

    >>> [verdict(Estimate(0.8, 0.7, high, rounds), True, 0.1) for high, rounds in ((0.85, 6), (0.95, 6), (0.85, 5))]
    ['worse', 'within threshold', 'too few samples']
    """
    if ratio.rounds < LEAST_ROUNDS or ratio.low is None or ratio.high is None:
        return FEW
    if not ratio.differs_from(1.0):
        return SAME
    if ratio.high < 1 - threshold:
        return WORSE if more_is_better else BETTER
    if ratio.low > 1 + threshold:
        return BETTER if more_is_better else WORSE
    return WITHIN


def divisor_of(run: Run, metric: str) -> str:
    """By which of its metrics one of a run is divided; "" for none.

    >>> divisor_of(Run("alone", "plain", 600, 1, {"written": 1200.0}), "wal_bytes")
    'written'
    """
    return next((name for name in DIVISORS if metric in COUNTED and run.metrics.get(name)), "")


def compared_metrics(run: Run) -> list[str]:
    """Those of a run that can be compared. Rows a second stand for statements a second.

    How long a reader's load took is no cost of anything.
    """
    doubled = {"tps"} if "rows_per_second" in run.metrics else {"seconds"} if "committed" in run.metrics else set()
    return [metric for metric in METRICS if metric in run.metrics and metric not in doubled]


def samples(result: Result) -> dict[Place, list[tuple[Run, str]]]:
    """The runs of every metric that can be compared, by step, kind, rows and name, each with its divisor."""
    found: dict[Place, list[tuple[Run, str]]] = {}
    for run in result.runs:
        if run.step == "fill":
            continue  # it is not measured with care
        for metric in compared_metrics(run):
            place = (loaded_step(result, run.step), run.kind, run.rows, metric)
            found.setdefault(place, []).append((run, divisor_of(run, metric)))
    return found


def not_compared(a: Result, b: Result) -> list[str]:
    """Names of what both have and nothing is said of."""
    both = [
        {name for run in one.runs if run.step != "fill" for name in run.metrics if name not in compared_metrics(run)}
        for one in (a, b)
    ]
    known = {*NOT_TOLD, *METRICS}
    return sorted(name for name in both[0] & both[1] if name not in known and " " not in name)  # "wal_bytes …": a part


def loaded_step(result: Result, step: str) -> str:
    """With its number of clients where the plan has several, of which the first has the plain step.

    >>> plan = {"clients": [8, 1]}
    >>> loaded_step(Result("insert", "", "", 1, plan, {}, {}, ""), "insert")
    'insert@8'
    """
    clients = result.plan.get("clients")
    return f"{INSERT}@{clients[0]}" if step == INSERT and isinstance(clients, list | tuple) else step


def check_comparable(a: Result, b: Result) -> None:
    """An error that says what differs, if the two did not do the same."""
    if a.experiment != b.experiment:
        raise InputError(f"cannot compare: A is of the experiment '{a.experiment}', B of '{b.experiment}'")
    for name in sorted(a.plan.keys() | b.plan.keys()):
        one, other = a.plan.get(name), b.plan.get(name)
        if name in FREE or one == other:
            continue
        if not isinstance(one, list | tuple) or not isinstance(other, list | tuple) or not set(one) & set(other):
            raise InputError(f"cannot compare: {name} is {shown(one)} in A and {shown(other)} in B")


def shown(value: Any) -> str:
    """A plan's value in a sentence.

    >>> shown([1000, 2000]), shown(None), shown(8)
    ('1000,2000', 'not set', '8')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "not set" if value is None else str(value)


def compare(a: Result, b: Result, threshold: float) -> list[Comparison]:
    """Everything that both have measured; an error if that is nothing."""
    check_comparable(a, b)
    first, second = samples(a), samples(b)
    few = few_images(a.clients + b.clients)
    found = [compared(place, first[place], second[place], threshold, few) for place in first if place in second]
    if not found:
        raise InputError("cannot compare: A and B have nothing in common that was measured")
    return found


def compared(
    place: Place, a: Sequence[tuple[Run, str]], b: Sequence[tuple[Run, str]], threshold: float, few: int
) -> Comparison:
    """One metric at one place; of no more than ``few`` that were counted no ratio is judged."""
    metric = place[3]
    base, values = ([run.metrics[metric] / (run.metrics[per] if per else 1.0) for run, per in runs] for runs in (a, b))
    ratio = unpaired_ratio(values, base)
    judged = verdict(ratio, METRICS[metric], threshold)
    most = max(run.metrics[metric] for run, _ in (*a, *b))
    if metric in FAULTS and any(base) != any(values):
        judged = WORSE if any(values) else BETTER
    elif metric in COUNTED and metric not in FAULTS and most <= few and judged != FEW:
        judged = TOO_FEW_IMAGES
    per = DIVISORS.get(a[0][1], "")
    return Comparison(*place, per, float(np.median(base)), float(np.median(values)), ratio, judged)


def surroundings(a: Result, b: Result) -> list[str]:
    """What differs around the measurement and may be why: server, machine, method, tool; and what is incomplete."""
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
