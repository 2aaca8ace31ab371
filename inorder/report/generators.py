"""The generators experiment as sections: cost per value above the floor, and cost of a bulk insert."""

from collections.abc import Sequence
from dataclasses import dataclass

from inorder.lab.experiments.generators import BASELINE_CALL, BASELINE_INSERT, FLOOR, TYPES
from inorder.lab.results import OWN_SERVER, Result
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report import charts
from inorder.report.certainty import too_few
from inorder.report.section import Chart, Column, Section, Value, interval_text, number

NANOSECONDS = 1e9
TASK_LABELS = {
    "in": "text in", "out": "text out", "sort": "ORDER BY", "group": "GROUP BY, hashed", "join": "hash join",
}  # fmt: skip


def as_part(value: Value) -> str:
    """How a column shows a part of something.

    >>> as_part(Estimate(0.2, None, None, 1)), as_part(Estimate(-0.1, None, None, 1)), as_part(None)
    ('1/5.0', '', '')
    """
    return f"1/{1 / value.median:.1f}" if isinstance(value, Estimate) and value.median > 0 else ""


SURE = f"Median and interval; below {LEAST_ROUNDS} rounds the range."


def by_cpu(result: Result) -> bool:
    """Whether the server's process was timed by its CPU; on the user's own server it is by the wall clock."""
    return result.method != OWN_SERVER


def nanoseconds(result: Result) -> str:
    """What is told in the columns, as they begin."""
    return "CPU nanoseconds" if by_cpu(result) else "Nanoseconds"


def call_columns(result: Result) -> tuple[Column, ...]:
    """As narrow as a terminal of 80 columns needs."""
    spent = nanoseconds(result)
    floor = "a C function that returns a constant" if by_cpu(result) else "pg_backend_pid()"
    return (
        Column("generator", "The function, called in one statement for many values.", data="name"),
        Column(
            "ns/value", f"{spent} of a value, less those of {floor} (the floor). {SURE}", number(0, interval=True),
            "call_ns",
        ),
        Column("of random", "That to gen_random_uuid()'s in the same round.", as_part, "part_of_random"),
        Column(
            "bulk ns", f"{spent} of a row of INSERT … SELECT into a table with a primary key.", number(),
            "insert_ns_per_row",
        ),
        Column(
            "vs nextval", f"That to bigint by nextval of a sequence with CACHE 100, in the same round. {SURE}",
            interval_text, "insert_ratio",
        ),
    )  # fmt: skip


def task_columns(result: Result) -> tuple[Column, ...]:
    """A type beside the other."""
    spent = nanoseconds(result)
    return (
        Column("task", "What is done with the values: a million each."),
        *(Column(name, f"{spent} of a value of type {name}. {SURE}", number(0, interval=True)) for name in TYPES),
        Column("ratio", f"The second to the first, in the same round. {SURE}", interval_text),
    )


@dataclass(frozen=True)
class GeneratorSummary:
    """One generator. Costs are nanoseconds, of CPU time where it was seen; ratios are paired within rounds."""

    name: str
    call_ns: Estimate | None
    part_of_random: Estimate | None
    insert_ns_per_row: Estimate | None
    insert_ratio: Estimate | None


def costs(result: Result, step: str, name: str) -> dict[int, float]:
    """Nanoseconds per value or row, of CPU time where it was seen, by round."""
    clock = "cpu_seconds" if by_cpu(result) else "seconds"
    return {run.round: NANOSECONDS * run.metrics[clock] / run.rows for run in result.select(step, name)}


def above_floor(result: Result, name: str) -> dict[int, float]:
    """Cost per value less the floor's in the same round."""
    values, floors = (costs(result, "call", one) for one in (name, FLOOR))
    return {number: values[number] - floors[number] for number in sorted(values.keys() & floors.keys())}


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
                estimate(list(calls.values())) if calls and name != FLOOR else None,
                ratio_by_round(calls, random) if name != FLOOR else None,
                estimate(list(inserts.values())) if inserts else None,
                ratio_by_round(inserts, bulk),
            )
        )
    return [summary for summary in summaries if summary.name != FLOOR]


def bars(rows: Sequence[tuple[str, Estimate | None]]) -> list[charts.Bar]:
    """Nanoseconds with their intervals; what was not measured has no bar."""
    return [
        charts.Bar(label, one.median, f"{one.median:,.0f} ns", charts.series(0), one.low, one.high)
        for label, one in rows
        if one is not None
    ]


def calls_section(result: Result) -> Section:
    """What a value and a row cost by each generator."""
    floor = costs(result, "call", FLOOR)
    time = "CPU time" if by_cpu(result) else "Time"
    title = f"{'CPU time of the server process' if by_cpu(result) else 'Time by the wall clock'}, median and interval"
    if floor:
        title += f". Floor, subtracted: {estimate(list(floor.values())).median:.0f} ns a value"
    summaries = summarise_generators(result)
    called = [(s.name, s.call_ns) for s in summaries]
    inserted = [(s.name, s.insert_ns_per_row) for s in summaries]
    return Section(
        "generators",
        title,
        call_columns(result),
        [[s.name, s.call_ns, s.part_of_random, s.insert_ns_per_row, s.insert_ratio] for s in summaries],
        "of random: of gen_random_uuid(). bulk: a row of INSERT … SELECT with a primary key, "
        "against bigint by nextval of a sequence with CACHE 100.",
        [
            Chart(f"{time} of a value, above the floor", charts.bar_chart(f"{time} of a value", bars(called))),
            Chart(f"{time} of a row of INSERT … SELECT", charts.bar_chart(f"{time} of a row", bars(inserted))),
        ],
    )


def task_section(result: Result) -> Section:
    """What is done with values of uuid_v1 and of uuid."""
    rows: list[list[Value]] = []
    for task, label in TASK_LABELS.items():
        base, own = (costs(result, "task", f"{type_name} {task}") for type_name in TYPES)
        if base and own:
            rows.append([label, *(estimate(list(one.values())) for one in (base, own)), ratio_by_round(own, base)])
    spent = "CPU ns" if by_cpu(result) else "ns"
    return Section("tasks", f"Work with values, {spent} a value", task_columns(result), rows)


def generators_sections(result: Result) -> list[Section]:
    """Making values, then working with them."""
    return [section for section in (calls_section(result), task_section(result)) if section.rows]


def generators_headline(result: Result) -> str:
    """The cost of a version-7 key beside a random one, as sure as the rounds allow."""
    v7 = next((s for s in summarise_generators(result) if s.name == "uuid_v7_nextval"), None)
    if v7 is None or v7.call_ns is None or v7.part_of_random is None:
        return ""
    clock = " of CPU time" if by_cpu(result) else ""
    cost = f"A version-7 key takes {v7.call_ns.median:,.0f} ns{clock} above the floor"
    if few := too_few(v7.part_of_random.rounds):
        return f"{cost}. {few}"
    if not v7.part_of_random.differs_from(1.0):
        return f"{cost}; no difference from gen_random_uuid() shows."
    return f"{cost}, {interval_text(v7.part_of_random)} times that of gen_random_uuid()."
