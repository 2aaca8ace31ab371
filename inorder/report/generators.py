"""The generators experiment as a table: cost per value above the floor, and cost of a bulk insert."""

from dataclasses import dataclass

from rich.table import Table

from inorder.lab.experiments.generators import BASELINE_CALL, BASELINE_INSERT, FLOOR, TYPES
from inorder.lab.results import Result
from inorder.lab.stats import Estimate, estimate, paired_ratio
from inorder.report.section import interval_text
from inorder.report.terminal import plain_table

# As narrow as a terminal of 80 columns needs.
COLUMNS = ("generator", "ns/value", "of random", "bulk ns", "vs nextval")
NANOSECONDS = 1e9
TASK_LABELS = {
    "in": "text in", "out": "text out", "sort": "ORDER BY", "group": "GROUP BY, hashed", "join": "hash join",
}  # fmt: skip


@dataclass(frozen=True)
class GeneratorSummary:
    """One generator. Costs are CPU nanoseconds; ratios are paired within rounds."""

    name: str
    call_ns: Estimate | None
    part_of_random: Estimate | None
    insert_ns_per_row: Estimate | None
    insert_ratio: Estimate | None


def costs(result: Result, step: str, name: str) -> list[float]:
    """CPU nanoseconds per value or row, round by round."""
    return [NANOSECONDS * run.metrics["cpu_seconds"] / run.rows for run in result.select(step, name)]


def above_floor(result: Result, name: str) -> list[float]:
    """Cost per value less the floor's in the same round."""
    both = zip(costs(result, "call", name), costs(result, "call", FLOOR), strict=False)
    return [cost - floor for cost, floor in both]


def common(values: list[float], base: list[float]) -> Estimate | None:
    """Their paired ratio over the rounds both have."""
    rounds = min(len(values), len(base))
    return paired_ratio(values[:rounds], base[:rounds]) if rounds else None


def summarise_generators(result: Result) -> list[GeneratorSummary]:
    """Every generator that was timed, by name."""
    runs = sorted((run for run in result.runs if run.step != "task"), key=lambda run: (run.step, run.round, run.kind))
    names = dict.fromkeys(run.kind for run in runs)
    random = above_floor(result, BASELINE_CALL)
    bulk = costs(result, "insert", BASELINE_INSERT)
    summaries = []
    for name in names:
        calls, inserts = above_floor(result, name), costs(result, "insert", name)
        summaries.append(
            GeneratorSummary(
                name,
                estimate(calls) if calls and name != FLOOR else None,
                common(calls, random) if name != FLOOR else None,
                estimate(inserts) if inserts else None,
                common(inserts, bulk) if inserts else None,
            )
        )
    return [summary for summary in summaries if summary.name != FLOOR]


def task_table(result: Result) -> Table:
    """What is done with values of uuid_v1 and of uuid, for the terminal."""
    table = plain_table("Work with values, CPU ns a value")
    for name in ("task", *TYPES, "ratio"):
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=True)
    for task, label in TASK_LABELS.items():
        base, own = (costs(result, "task", f"{type_name} {task}") for type_name in TYPES)
        if base and own:
            times = [interval_text(estimate(one), 0) for one in (base, own)]
            table.add_row(label, *times, interval_text(common(own, base), 2))
    return table


def generators_table(result: Result) -> Table:
    """For the terminal."""
    floor = costs(result, "call", FLOOR)
    title = "CPU time of the server process, median and interval"
    if floor:
        title += f". Floor, subtracted: {estimate(floor).median:.0f} ns a value"
    caption = (
        "of random: of gen_random_uuid(). bulk: a row of INSERT … SELECT with a primary key, "
        "against bigint by nextval of a sequence with CACHE 100."
    )
    table = plain_table(title, caption)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "generator" else "right", no_wrap=True)
    for summary in summarise_generators(result):
        part = summary.part_of_random
        table.add_row(
            summary.name,
            interval_text(summary.call_ns, 0),
            "" if part is None or part.median <= 0 else f"1/{1 / part.median:.1f}",
            "" if summary.insert_ns_per_row is None else f"{summary.insert_ns_per_row.median:,.0f}",
            interval_text(summary.insert_ratio, 2),
        )
    return table
