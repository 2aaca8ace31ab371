"""The feed experiment as tables: writers, readers, and looks at a large table, each beside what was aimed at."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

from inorder.lab.experiments.feed import (
    BATCH,
    BATCH_ROWS,
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
from inorder.lab.results import Result
from inorder.lab.stats import Estimate, estimate, paired_ratio
from inorder.report.section import interval_text
from inorder.report.terminal import plain_table

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
    rounds = sorted(values.keys() & bases.keys()) if base != kind else []
    ratio = paired_ratio([values[n] for n in rounds], [bases[n] for n in rounds]) if rounds else None
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


def number_text(value: float) -> str:
    """A number of three digits or a little more.

    >>> [number_text(value) for value in (0.0512, 1.234, 56.78, 1234.5)]
    ['0.051', '1.23', '56.8', '1,234']
    """
    return f"{value:,.{3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0}f}"


def cell(row: FeedRow | None) -> str:
    """A median."""
    return "" if row is None else number_text(row.value.median)


def ratio_cell(row: FeedRow | None) -> str:
    """A ratio with its interval; the baseline's is 1."""
    if row is None:
        return ""
    return "1" if row.ratio is None else interval_text(row.ratio, 2)


def target_text(*targets: float | None) -> str:
    """What was aimed at.

    >>> target_text(1.0, 0.9), target_text(None)
    ('1 / 0.9', '')
    """
    return " / ".join(f"{target:g}" for target in targets if target is not None)


def table_of(title: str, columns: tuple[str, ...], caption: str = "") -> Table:
    """An empty table, its first column to the left."""
    table = plain_table(title, caption)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


def write_table(rows: Rows) -> Table:
    """A line a key, both ways to write."""
    table = table_of(
        "Writing a log of 256 bytes a row, CPU µs a row, and the ratio to bigserial",
        ("", "1 row", "ratio", f"{BATCH_ROWS}", "ratio", "target"),
        f"1 row: one a statement. {BATCH_ROWS}: so many a statement. Each is a transaction. Guarded unless it says no.",
    )
    for kind, label in WRITTEN.items():
        single, batch = (rows.get((step, kind, CPU)) for step in (SINGLE, BATCH))
        if single or batch:
            targets = [row.ratio_target for row in (single, batch) if row]
            table.add_row(
                label, cell(single), ratio_cell(single), cell(batch), ratio_cell(batch), target_text(*targets)
            )
    return table


def read_table(rows: Rows, step: str) -> Table:
    """A line a reader."""
    amount = next((row.rows for row in rows.values() if row.step == step), 0)
    table = table_of(
        f"{amount:,} new rows {SUMMARIES[step]}, seconds, and the ratio to a plain query",
        ("", "CPU", "ratio", "wall", "ratio", "target"),
    )
    for kind, label in READERS.items():
        cpu, wall = (rows.get((step, kind, metric)) for metric in (CPU, WALL))
        if cpu and wall:
            target = target_text(cpu.ratio_target)
            table.add_row(label, cell(cpu), ratio_cell(cpu), cell(wall), ratio_cell(wall), target)
    return table


def look_table(result: Result, rows: Rows) -> Table:
    """A line a look and form of table."""
    table = table_of(
        f"Looks at a table of {result.plan['rows']:,} rows, milliseconds of a call",
        ("", "form", "ms", "held: ratio", "target"),
        "held: the same while one transaction is open since before the newest rows came, to the time without it. "
        "A median of several calls is a round's sample; a call and its answer included.",
    )
    for step, label in LOOK_LABELS.items():
        for form in FORMS:
            row, held = (rows.get((step, looked(form, state), WALL)) for state in (ENDED, HELD))
            any_row = row or held
            if any_row:
                ms = interval_text(row.value, 3 if row.value.median < 10 else 1) if row else ""
                ratio = ratio_cell(held) if row else ""
                table.add_row(
                    label.format(f"{any_row.rows:,}"), FORM_LABELS[form], ms, ratio, target_text(any_row.target)
                )
    return table


def feed_tables(result: Result) -> Iterator[Table]:
    """For the terminal, as far as things are measured."""
    rows = {(row.step, row.kind, row.metric): row for row in summarise_feed(result)}
    tables = (write_table(rows), *(read_table(rows, step) for step in SUMMARIES), look_table(result, rows))
    return (table for table in tables if table.row_count)
