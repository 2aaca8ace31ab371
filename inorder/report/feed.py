"""The feed experiment as sections: writers, readers, and looks at a large table, each beside what was aimed at."""

from collections.abc import Sequence
from dataclasses import dataclass

from inorder.lab.experiments.feed import (
    BATCH,
    BRIN,
    COUNT,
    COUNT_FEW,
    COUNT_MANY,
    COUNT_STAR,
    ENDED,
    FORMS,
    HELD,
    IDLE,
    LOOKS,
    NEW,
    PIECE,
    READ_BASELINE,
    READERS,
    SINGLE,
    SUMMARIES,
    UUID,
    WRITE_BASELINE,
    WRITES,
    WRITTEN,
    looked,
)
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.results import Result
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report import charts
from inorder.report.certainty import too_few
from inorder.report.section import Chart, Column, Section, Value, data_only, figures, interval_text, text

# What was aimed at: ratios to the baseline, and milliseconds of a look at 20 million rows.
GUARDED_TARGETS = {SINGLE: 1.1, BATCH: 0.95}
UNGUARDED_TARGETS = {SINGLE: 1.0, BATCH: 0.9}
READ_TARGET = 1.1
LOOK_TARGETS = {IDLE: 0.2, PIECE: 10.0, COUNT: 0.1, COUNT_FEW: 0.25, COUNT_MANY: 20.0}
HELD_TARGET = 1.0

CPU, WALL = "cpu_seconds", "seconds"
SCALES = {"us/row": 1e6, "s": 1.0, "ms": 1e3}

LOOK_LABELS = {
    IDLE: "feed_read, nothing new",
    PIECE: "feed_read, {} rows",
    NEW: "feed_read, all {} new",
    COUNT_STAR: "count(*)",
    COUNT: "exact_count, just folded",
    COUNT_FEW: "exact_count, {} since",
    COUNT_MANY: "exact_count, {} since",
}
FORM_LABELS = {UUID: "uuid", BRIN: "BRIN"}


@dataclass(frozen=True)
class FeedRow:
    """What something took, and its ratio to what another kind took, paired within rounds.

    The other is the baseline of writers and readers; of a look while a transaction
    was held open (a kind with _held) it is the same look without.
    """

    step: str
    kind: str
    rows: int
    metric: str
    unit: str
    value: Estimate
    target: float | None
    ratio_of: str
    ratio: Estimate | None
    ratio_target: float | None


Rows = dict[tuple[str, str, str], FeedRow]  # by step, kind and metric


def samples(result: Result, step: str, kind: str, metric: str, unit: str) -> dict[int, float]:
    """One metric in a unit, by round."""
    runs = result.select(step, kind)
    return {run.round: SCALES[unit] * run.metrics[metric] / (run.rows if unit == "us/row" else 1) for run in runs}


def feed_row(
    result: Result, step: str, kind: str, metric: str, unit: str, base: str,
    target: float | None = None, ratio_target: float | None = None,
) -> FeedRow | None:  # fmt: skip
    """The figures of one kind in one step, or None before its first run."""
    values, bases = (samples(result, step, one, metric, unit) for one in (kind, base))
    if not values:
        return None
    ratio = ratio_by_round(values, bases) if base != kind else None
    rows, value = result.select(step, kind)[0].rows, estimate(list(values.values()))
    if ratio is None:
        return FeedRow(step, kind, rows, metric, unit, value, target, "", None, None)
    return FeedRow(step, kind, rows, metric, unit, value, target, base, ratio, ratio_target)


def summarise_feed(result: Result) -> list[FeedRow]:
    """Everything that was measured: writers, readers, looks."""
    rows = []
    for step in WRITES:
        for kind in WRITTEN:
            targets = UNGUARDED_TARGETS if kind.endswith("_unguarded") else GUARDED_TARGETS
            rows.append(feed_row(result, step, kind, CPU, "us/row", WRITE_BASELINE, ratio_target=targets[step]))
    for step in SUMMARIES:
        for kind in READERS:
            for metric in (CPU, WALL):
                rows.append(feed_row(result, step, kind, metric, "s", READ_BASELINE, ratio_target=READ_TARGET))
    for step in LOOKS:
        for form in FORMS:
            for state in (ENDED, HELD):
                kind, aim = looked(form, state), LOOK_TARGETS.get(step)
                rows.append(feed_row(result, step, kind, WALL, "ms", form, aim, HELD_TARGET))
    return [row for row in rows if row is not None]


def target_text(*targets: float | None) -> str:
    """What was aimed at.

    >>> target_text(1.0, 0.9), target_text(None)
    ('1 / 0.9', '')
    """
    return " / ".join(f"{target:g}" for target in targets if target is not None)


def value_of(row: FeedRow | None) -> Estimate | None:
    """What something took."""
    return row.value if row else None


def ratio_of(row: FeedRow | None) -> Value:
    """A ratio; the baseline's is 1."""
    if row is None:
        return None
    return row.ratio or 1


def ratio_text(value: Value) -> str:
    """A ratio with its interval; the baseline's without.

    >>> ratio_text(Estimate(2.0, 1.0, 3.0, 6)), ratio_text(1), ratio_text(None)
    ('2.00 [1.00–3.00]', '1', '')
    """
    return interval_text(value) if isinstance(value, Estimate) else text(value)


def look_text(value: Value) -> str:
    """Milliseconds of a look.

    >>> look_text(Estimate(0.05, 0.04, 0.06, 6)), look_text(Estimate(12.0, None, None, 1)), look_text(None)
    ('0.050 [0.040–0.060]', '12.0 (once)', '')
    """
    return interval_text(value, 3 if value.median < 10 else 1) if isinstance(value, Estimate) else ""


TARGET = Column("target", "What was aimed at, for tables of 20 million rows; nothing fails when it is missed.")
SURE = f"Median and interval of the rounds; below {LEAST_ROUNDS} rounds the range."


def ratio_column(base: str, data: str, what: str = "That") -> Column:
    """A ratio, paired in the round."""
    return Column("ratio", f"{what} to {base}'s in the same round. {SURE}", ratio_text, data)


def bars(rows: Sequence[tuple[str, FeedRow | None]]) -> list[charts.Bar]:
    """Times with their intervals."""
    return [
        charts.Bar(label, one.median, f"{figures(one)} {row.unit.split('/')[0]}", charts.series(0), one.low, one.high)
        for label, row in rows
        if row is not None and (one := row.value)
    ]


def write_section(rows: Rows) -> Section:
    """A line a key, both ways to write."""
    table: list[list[Value]] = []
    for kind, label in WRITTEN.items():
        single, batch = (rows.get((step, kind, CPU)) for step in (SINGLE, BATCH))
        if single or batch:
            target = target_text(*(row.ratio_target for row in (single, batch) if row))
            pairs = [value_of(single), ratio_of(single), value_of(batch), ratio_of(batch)]
            table.append([kind, label, *pairs, target])
    figure = [
        Chart(f"CPU µs a row, {words}", charts.bar_chart(f"Writing, {words}", bars(
            [(label, rows.get((step, kind, CPU))) for kind, label in WRITTEN.items()]
        )))
        for step, words in WRITES.items()
    ]  # fmt: skip
    return Section(
        "write",
        "Writing a log of 256 bytes a row, CPU µs a row, and the ratio to bigserial",
        [
            data_only("kind"),
            Column("", "The key, and whether a guard keeps the table readable by a feed.", data="label"),
            Column("1 row", "CPU µs of the server for a row, one row a statement and transaction.", figures, SINGLE),
            ratio_column("bigserial", f"{SINGLE}_ratio"),
            Column(
                f"{BATCH_ROWS}", f"CPU µs of the server for a row, {BATCH_ROWS} rows a statement and transaction.",
                figures, BATCH,
            ),
            ratio_column("bigserial", f"{BATCH}_ratio"),
            TARGET,
        ],
        table,
        f"1 row: one a statement. {BATCH_ROWS}: so many a statement. Each is a transaction. Guarded unless it says no.",
        figure,
    )  # fmt: skip


def read_section(rows: Rows, step: str) -> Section:
    """A line a reader."""
    amount = next((row.rows for row in rows.values() if row.step == step), 0)
    table: list[list[Value]] = []
    for kind, label in READERS.items():
        cpu, wall = (rows.get((step, kind, metric)) for metric in (CPU, WALL))
        if cpu and wall:
            pairs = [cpu.value, ratio_of(cpu), wall.value, ratio_of(wall)]
            table.append([kind, label, *pairs, target_text(cpu.ratio_target)])
    words = f"{amount:,} new rows {SUMMARIES[step]}"
    return Section(
        step,
        f"{words}, seconds, and the ratio to a plain query",
        [
            data_only("kind"),
            Column("", "How the new rows are found.", data="label"),
            Column("CPU", "CPU seconds of the server.", figures, CPU),
            ratio_column("the plain query", f"{CPU}_ratio"),
            Column("wall", "Seconds by the clock.", figures, WALL),
            ratio_column("the plain query", f"{WALL}_ratio"),
            TARGET,
        ],
        table,
        charts=[
            Chart(f"Seconds by the clock, {words}", charts.bar_chart(words, bars(
                [(label, rows.get((step, kind, WALL))) for kind, label in READERS.items()]
            )))
        ],
    )  # fmt: skip


def look_section(result: Result, rows: Rows) -> Section:
    """A line a look and form of table."""
    table: list[list[Value]] = []
    for step, label in LOOK_LABELS.items():
        for form in FORMS:
            row, held = (rows.get((step, looked(form, state), WALL)) for state in (ENDED, HELD))
            any_row = row or held
            if any_row:
                words = label.format(f"{any_row.rows:,}")
                values = [value_of(row), value_of(held), held.ratio if held else None]
                table.append([step, words, any_row.rows, FORM_LABELS[form], *values, target_text(any_row.target)])
    return Section(
        "looks",
        f"Looks at a table of {result.plan['rows']:,} rows, milliseconds of a call",
        [
            data_only("step"),
            Column("", "What is asked of the table.", data="label"),
            data_only("rows"),
            Column("form", "The key: uuid of the transaction's number, or a number with a BRIN index."),
            Column("ms", f"Milliseconds of a call and its answer, the middle one of several. {SURE}", look_text),
            Column("held: ms", f"The same while one transaction is held open. {SURE}", look_text, "held_ms", False),
            Column(
                "held: ratio",
                "Milliseconds while one transaction is open since before the newest rows came, to those without.",
                ratio_text,
                "held_ratio",
            ),
            TARGET,
        ],
        table,
        "held: the same while one transaction is open since before the newest rows came, to the time without it. "
        "A median of several calls is a round's sample; a call and its answer included.",
    )


def feed_sections(result: Result) -> list[Section]:
    """As far as things are measured."""
    rows = {(row.step, row.kind, row.metric): row for row in summarise_feed(result)}
    sections = (write_section(rows), *(read_section(rows, step) for step in SUMMARIES), look_section(result, rows))
    return [section for section in sections if section.rows]


def feed_headline(result: Result) -> str:
    """What a feed costs who writes single rows, as sure as the rounds allow."""
    row = next((r for r in summarise_feed(result) if (r.step, r.kind, r.metric) == (SINGLE, UUID, CPU)), None)
    if row is None or row.ratio is None:
        return ""
    what = f"Single rows into a table with a uuid key and a feed cost {interval_text(row.ratio)} times bigserial's CPU"
    if few := too_few(row.ratio.rounds):
        return f"{what}. {few}"
    return f"{what}." if row.ratio.differs_from(1.0) else f"{what}: no difference shows."
