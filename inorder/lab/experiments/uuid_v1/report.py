"""The uuid-v1 experiment as sections: a line a step and counter, a column a kind, the published ratios beside."""

from pathlib import Path
from typing import Literal, NamedTuple

from inorder.lab.analysis.figures import median, median_of, per, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiments.uuid_v1 import plan as steps
from inorder.lab.experiments.uuid_v1.plan import UuidV1Plan
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Column, Figure, Section, Value, data_only, figures
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs
from inorder.lab.report.wording import how_sure
from inorder.lab.results import Result
from inorder.units import MB, short

MOST_SHOWN = 1000  # a ratio above it means that the other has next to nothing


class Measure(NamedTuple):
    """A metric of a step, in a unit; one that is ``inner`` belongs to the line above."""

    metric: str
    unit: str
    scale: float = 1.0
    inner: bool = False
    better: Literal["more", "less", ""] = "less"


SECONDS = Measure("seconds", "s")
COUNTED = (
    Measure("wal_bytes", "WAL, MB", MB, inner=True),
    Measure("full_page_images", "FPI, k", 1000.0, inner=True),
    Measure("index_reads", "reads, k", 1000.0, inner=True),
)
FREED = Measure("pages_freed", "pages freed", inner=True, better="")
BLOCKS = Measure("blocks_per_row", "blocks/row", inner=True)
QUERY = Measure("seconds", "ms", 0.001)
TIME_INDEX = Measure("time_index_bytes", "its index, MB", MB, inner=True)
SIZE = (Measure("index_bytes", "MB", MB), Measure("leaf_density", "leaf, %", inner=True, better="more"))

FIGURES = tuple(
    Figure(one.unit, "", value=median(one.metric), better=one.better)
    for one in (SECONDS, *COUNTED, FREED, BLOCKS, TIME_INDEX, *SIZE)
)

# In the table only where they matter; data has them all.
COUNTED_STEPS = (steps.COPY_FROM, steps.COPY_MORE, *steps.VACUUMS)

MEANINGS = {
    "uuid_v1": "version-1 UUIDs in the type that sorts them by time",
    "uuid": "the same values in the built-in type",
    "uuid_v7": "version-7 UUIDs of the same times in the built-in type",
    "bigint": "a counter",
}


def measures(step: str) -> tuple[Measure, ...]:
    if step in (steps.SIZES, steps.SIZES_AFTER):
        return SIZE
    if step == steps.RECENT:
        return (QUERY, TIME_INDEX)
    if step in (steps.COPY_FROM, steps.COPY_MORE):
        return (SECONDS, *COUNTED, BLOCKS)
    return (SECONDS, *COUNTED, *([FREED] if step in steps.VACUUMS else []))


def line_of(result: Result, step: str, measure: Measure) -> list[Value]:
    medians = [median_of(result, step, kind, per(measure.metric, measure.scale)) for kind in steps.KINDS]
    if not any(medians):
        return []
    ratio = ratio_of(result, step, steps.BASELINE, steps.SUBJECT, measure.metric)
    label = f"  {measure.unit}" if measure.inner else f"{steps.STEPS[step][1]}, {measure.unit}"
    return [label, step, measure.metric, measure.unit, *medians, ratio]


def lines_of(result: Result, aside: bool) -> list[list[Value]]:
    wanted = [
        (step, measure) for step in steps.STEPS for measure in measures(step)
        if aside == (measure in COUNTED and step not in COUNTED_STEPS)
    ]  # fmt: skip
    return [line for step, measure in wanted if (line := line_of(result, step, measure))]


def ratio_text(value: Value) -> str:
    if not isinstance(value, Estimate):
        return ""
    if value.median > MOST_SHOWN:
        return f">{MOST_SHOWN:,}"
    if value.low is None or value.high is None:
        return f"{value.median:.2f}" if value.median < 10 else f"{value.median:.1f}"
    return f"{value.median:.1f} [{value.low:.1f}–{value.high:.1f}]"


def caption(result: Result) -> str:
    return (
        "uuid v1: the same values as uuid_v1, in the built-in type. ratio: uuid v1 to uuid_v1, so above 1 uuid_v1 "
        "takes less. FPI: full-page images. reads: index blocks not found in shared buffers. blocks/row: index "
        "blocks that an insert accessed; 1: the btree's fastpath. newest tenth: "
        "count by time, by the key (>=~); uuid v1 by a column created_at with an index. k: thousands. "
        f"{how_sure(result)}"
    )


def columns() -> list[Column]:
    medians = [
        Column(kind.label, f"Median of the rounds: {MEANINGS[name]}.", figures, name, bar=True)
        for name, kind in steps.KINDS.items()
    ]
    return [
        Column("", "The step, and what of it.", data="label"),
        *(data_only(name) for name in ("step", "metric", "unit")),
        *medians,
        Column(
            "ratio",
            "uuid v1 to uuid_v1 in the same round: median, and in brackets its interval; below "
            f"{LEAST_ROUNDS} rounds their range. Empty where uuid_v1 has nothing.",
            ratio_text,
        ),
    ]


def sections(result: Result, plan: UuidV1Plan) -> list[Section]:
    shown, aside = lines_of(result, aside=False), lines_of(result, aside=True)
    aside = [[f"{steps.STEPS[str(line[1])][1]}, {line[3]}", *line[1:]] for line in aside]
    title = f"A table of {short(plan.rows)} + {short(plan.more_rows)} rows, by kind of key"
    measured = [
        Section("steps", title, columns(), shown, caption(result), across=True),
        Section("counters", "Counters of the other steps", columns(), aside, terminal=False, across=True),
    ]
    return [*(section for section in measured if section.rows), *published_sections(result, words)]


def words(step: str, kind: str) -> str:
    return f"{steps.STEPS[step][1]}, {steps.KINDS[kind].label}" if step else steps.KINDS[kind].label


def verdicts(result: Result, plan: UuidV1Plan, question: str) -> list[Verdict]:
    base = steps.KINDS[steps.SUBJECT].label
    compared = [
        Compared(
            "WAL", base, ratios_of(result, steps.COPY_FROM, steps.BASELINE, steps.SUBJECT, "wal_bytes"), counted=True
        ),
        Compared("time", base, ratios_of(result, steps.COPY_FROM, steps.BASELINE, steps.SUBJECT, SECONDS.metric)),
    ]
    shown = ((kind.label, median_of(result, steps.COPY_FROM, name, SECONDS.metric), f"kind-{name}")
             for name, kind in steps.KINDS.items() if name != "bigint")  # fmt: skip
    lag = f", clocks up to {plan.lag:g} s apart" if plan.lag else ""
    whose = f"of {Path(plan.file).name}" if plan.file else f"from {plan.nodes} nodes{lag}"
    holds = f"COPY of {short(plan.rows)} rows {whose} after a checkpoint, a primary key alone."
    return costs(question, compared, holds, bars_of(shown, lambda seconds: f"{figures(seconds)} s"))
