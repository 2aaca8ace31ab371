"""The uuid-v1 experiment as sections: a line a step and counter, a column a kind, the published ratios beside."""

from dataclasses import dataclass

from inorder.lab.experiments import uuid_v1 as experiment
from inorder.lab.experiments.uuid_v1 import BASELINE, KINDS, STEPS, SUBJECT
from inorder.lab.results import Result
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report import charts
from inorder.report.certainty import how_sure, too_few
from inorder.report.published import COPY_ROWS_PER_SECOND
from inorder.report.section import Chart, Column, Section, Value, data_only, figures, number
from inorder.units import MB, short

MOST_TOLD = 1000  # a ratio above it says that the other has next to nothing

# Ratio of uuid to uuid_v1 as published, by step and metric. 217 M rows on an SSD; of the next rows: 623 k
# rows/s to 26 k. Bloat of more than 30 % against 10 to 20 % is a leaf density of less than 70 to 80-90.
SOURCE = "published with the type uuid_v1, 2019: 217 M version-1 UUIDs of 9 nodes"
PUBLISHED = {
    (experiment.COPY_FROM, "seconds"): "7.8",
    (experiment.COPY_MORE, "seconds"): "23.8",
    (experiment.COPY_TO, "seconds"): "1.5",
    (experiment.ANALYZE, "seconds"): "1",
    (experiment.SIZES, "leaf_density"): "<70:80–90",
    (experiment.VACUUM_OLDEST, "seconds"): "4–5",
    (experiment.VACUUM_RANDOM, "seconds"): "4–5",
    (experiment.REINDEX, "seconds"): "1.1–1.2",
}

SECONDS = ("seconds", "s", 1.0)
COUNTED = (("wal_bytes", "WAL, MB", MB), ("full_page_images", "FPI, k", 1000.0), ("index_reads", "reads, k", 1000.0))
FREED = ("pages_freed", "pages freed", 1.0)
SIZE = (("index_bytes", "MB", MB), ("leaf_density", "leaf, %", 1.0))

MEASURES = {
    experiment.COPY_FROM: (SECONDS, *COUNTED),
    experiment.COPY_MORE: (SECONDS, *COUNTED),
    experiment.COPY_TO: (SECONDS, *COUNTED),
    experiment.ANALYZE: (SECONDS, *COUNTED),
    experiment.SIZES: SIZE,
    experiment.VACUUM_OLDEST: (SECONDS, *COUNTED, FREED),
    experiment.VACUUM_RANDOM: (SECONDS, *COUNTED, FREED),
    experiment.REINDEX: (SECONDS, *COUNTED),
    experiment.SIZES_AFTER: SIZE,
}

# Short enough for a terminal of 80 columns, with the unit behind.
LABELS = {
    experiment.COPY_FROM: "COPY FROM",
    experiment.COPY_MORE: "next 10 %",
    experiment.COPY_TO: "COPY TO",
    experiment.ANALYZE: "ANALYZE",
    experiment.SIZES: "index",
    experiment.VACUUM_OLDEST: "VACUUM oldest",
    experiment.VACUUM_RANDOM: "VACUUM random",
    experiment.REINDEX: "REINDEX",
    experiment.SIZES_AFTER: "index then",
}

MEANINGS = {
    "uuid_v1": "version-1 UUIDs in the type that sorts them by time",
    "uuid": "the same values in the built-in type",
    "uuid_v7": "version-7 UUIDs of the same times in the built-in type",
    "bigint": "a counter",
}

# In the table only where they say something; data has them all.
COUNTED_STEPS = (experiment.COPY_FROM, experiment.COPY_MORE, experiment.VACUUM_OLDEST, experiment.VACUUM_RANDOM)


@dataclass(frozen=True)
class UuidV1Row:
    """One metric of one step: a median a kind, the paired ratio of uuid to uuid_v1, and what was published."""

    step: str
    metric: str
    unit: str
    uuid_v1: Estimate | None
    uuid: Estimate | None
    uuid_v7: Estimate | None
    bigint: Estimate | None
    ratio: Estimate | None
    published: str
    published_source: str

    @property
    def kinds(self) -> tuple[Estimate | None, ...]:
        """In the order of the table's columns."""
        return (self.uuid_v1, self.uuid, self.uuid_v7, self.bigint)


def samples(result: Result, step: str, kind: str, metric: str) -> dict[int, float]:
    """One metric by round."""
    return {run.round: float(run.metrics[metric]) for run in result.select(step, kind) if metric in run.metrics}


def ratio_to_subject(result: Result, step: str, metric: str) -> Estimate | None:
    """How many times what uuid_v1 takes the built-in type takes, over the rounds that have both."""
    base, subject = (samples(result, step, kind, metric) for kind in (BASELINE, SUBJECT))
    return ratio_by_round(base, subject)


def summarise_uuid_v1(result: Result) -> list[UuidV1Row]:
    """Every metric of every step that any kind has done."""
    rows = []
    for step in STEPS:
        for metric, unit, scale in MEASURES[step]:
            values = {kind: list(samples(result, step, kind, metric).values()) for kind in KINDS}
            if not any(values.values()):
                continue
            medians = {kind: estimate([x / scale for x in some]) if some else None for kind, some in values.items()}
            published = PUBLISHED.get((step, metric), "")
            ratio, source = ratio_to_subject(result, step, metric), SOURCE if published else ""
            rows.append(
                UuidV1Row(step, metric, unit, **medians, ratio=ratio, published=published, published_source=source)
            )
    return rows


def ratio_text(value: Estimate | None) -> str:
    """A ratio, with its interval where there is one; one to next to nothing as what it surely is.

    >>> ratio_text(Estimate(7.84, 7.5, 8.1, 6)), ratio_text(Estimate(1.04, None, None, 1)), ratio_text(None)
    ('7.8 [7.5–8.1]', '1.04', '')
    >>> ratio_text(Estimate(3015319.0, None, None, 1))
    '>1,000'
    """
    if value is None:
        return ""
    if value.median > MOST_TOLD:
        return f">{MOST_TOLD:,}"
    if value.low is None or value.high is None:
        return f"{value.median:.2f}" if value.median < 10 else f"{value.median:.1f}"
    return f"{value.median:.1f} [{value.low:.1f}–{value.high:.1f}]"


def caption(result: Result) -> str:
    """What the columns are."""
    return (
        "uuid v1: the same values as uuid_v1, in the built-in type. ratio: uuid v1 to uuid_v1, so above 1 uuid_v1 "
        "takes less. publ.: the same ratio as published in 2019 for 217 M rows, its bloat as leaf density; the rows "
        "deleted before its VACUUM are not told. FPI: full-page images. reads: index blocks not found in shared "
        f"buffers. k: thousands. {how_sure(result)}"
    )


def columns() -> list[Column]:
    """Of both tables: the label, then for programs what it is made of, then the kinds."""
    medians = [
        Column(kind.label, f"Median of the rounds: {MEANINGS[name]}.", figures, name) for name, kind in KINDS.items()
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
        Column("publ.", f"The same ratio as {SOURCE}. Empty: not published.", data="published"),
        data_only("published_source"),
    ]


def line_of(row: UuidV1Row) -> list[Value]:
    """As the columns have it; what belongs to a step's first line is indented."""
    inner = is_counter(row) or row.metric in ("pages_freed", "leaf_density")
    label = f"  {row.unit}" if inner else f"{LABELS[row.step]}, {row.unit}"
    return [
        label, row.step, row.metric, row.unit, *row.kinds, row.ratio, row.published, row.published_source
    ]  # fmt: skip


def is_counter(row: UuidV1Row) -> bool:
    """Whether it is one of the counters that every step has."""
    return row.metric in [metric for metric, _, _ in COUNTED]


def ratio_bars(rows: list[UuidV1Row]) -> list[charts.Bar]:
    """The ratios of times; those that uuid_v1 has none for have no bar."""
    return [
        charts.Bar(LABELS[row.step], one.median, ratio_text(one), charts.series(0), one.low, one.high)
        for row in rows
        if row.metric == "seconds" and (one := row.ratio) is not None
    ]


def uuid_v1_sections(result: Result) -> list[Section]:
    """The steps, with counters where they say something; and on the page the counters of the others."""
    amount = int(result.plan["rows"])
    rows = summarise_uuid_v1(result)
    aside = [row for row in rows if is_counter(row) and row.step not in COUNTED_STEPS]
    shown = [row for row in rows if row not in aside]
    title = f"A table of {short(amount)} + {short(amount // 10)} rows, by kind of key"
    ratios = charts.bar_chart("Time of uuid v1 to that of uuid_v1", ratio_bars(shown))
    sections = [
        Section(
            "steps", title, columns(), [line_of(row) for row in shown], caption(result),
            [Chart("How many times as long uuid v1 takes as uuid_v1, by step", ratios)],
        ),
        Section(
            "counters", "Counters of the other steps", columns(),
            [[f"{LABELS[row.step]}, {row.unit}", *line_of(row)[1:]] for row in aside], terminal=False,
        ),
    ]  # fmt: skip
    return [section for section in (*sections, *([rates_section(result)] if rows else [])) if section.rows]


RATES = (
    Column("", "Which rows COPY FROM brings."),
    *(
        column
        for name, key in KINDS.items() if name in (SUBJECT, BASELINE)
        for column in (
            Column(key.label, f"Rows a second here, median of the rounds: {MEANINGS[name]}.", number()),
            Column(f"publ. {key.label}", f"Rows a second, about, as {SOURCE}.", number()),
        )
    ),
)  # fmt: skip


def rates_section(result: Result) -> Section:
    """Rows a second of both COPYs beside those of study P4: its first 200 M rows, and the next 17 M."""
    first = int(result.plan["rows"])
    table: list[list[Value]] = []
    for step, rows in ((experiment.COPY_FROM, first), (experiment.COPY_MORE, first // 10)):
        line: list[Value] = [f"{LABELS[step]}, {short(rows)}"]
        for kind in (SUBJECT, BASELINE):
            seconds = samples(result, step, kind, "seconds").values()
            line += [estimate([rows / one for one in seconds]) if seconds else None, COPY_ROWS_PER_SECOND[step][kind]]
        table.append(line)
    caption = "publ.: study P4, about, of its first 200 M rows and of the next 17 M."
    return Section("published_rates", "Beside study P4: rows a second", RATES, table, caption)


def uuid_v1_headline(result: Result) -> str:
    """What the order of time gains in the first COPY, as sure as the rounds allow."""
    ratio = ratio_to_subject(result, experiment.COPY_FROM, "seconds")
    if ratio is None:
        return ""
    if few := too_few(ratio.rounds):
        return f"COPY of version-1 UUIDs took {ratio_text(ratio)} times as long in uuid as in uuid_v1. {few}"
    if not ratio.differs_from(1.0):
        return f"No difference shows between COPY of version-1 UUIDs into uuid and into uuid_v1: {ratio_text(ratio)}."
    return f"COPY of version-1 UUIDs takes {ratio_text(ratio)} times as long in uuid as in uuid_v1."
