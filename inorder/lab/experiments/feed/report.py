"""The report on feeds: writers, readers, and single queries of a large table, each beside its target."""

from collections.abc import Iterable, Sequence

from inorder.lab.analysis.figures import median_of, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiments.feed import tables
from inorder.lab.experiments.feed.tables import FeedPlan
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.results import Result, Run
from inorder.report import charts
from inorder.report.section import Chart, Column, Section, Value, data_only, figures, interval_text, number, text
from inorder.report.verdict import Compared, Verdict, costs

# What was aimed at: ratios to the baseline.
GUARDED_TARGETS = {tables.SINGLE: 1.1, tables.BATCH: 0.95}
UNGUARDED_TARGETS = {tables.SINGLE: 1.0, tables.BATCH: 0.9}
READ_TARGET = 1.1

CPU, WALL = "cpu_seconds", "seconds"
FORM_LABELS = {tables.UUID: "uuid", tables.BRIN: "BRIN"}

TARGET = Column("target", "What was aimed at, for tables of 20 million rows; nothing fails when it is missed.")
SURE = f"Median and interval of the rounds; below {LEAST_ROUNDS} rounds the range."


def micros_a_row(run: Run) -> float:
    """CPU time of a row that was written."""
    return 1e6 * run.metrics[CPU] / run.rows


def milliseconds(run: Run) -> float:
    """By the clock."""
    return 1e3 * run.metrics[WALL]


def target_text(*targets: float | None) -> str:
    """What was aimed at.

    >>> target_text(1.0, 0.9), target_text(None)
    ('1 / 0.9', '')
    """
    return " / ".join(f"{target:g}" for target in targets if target is not None)


def ratio_text(value: Value) -> str:
    """A ratio with its interval; the baseline's without.

    >>> ratio_text(Estimate(2.0, 1.0, 3.0, 6)), ratio_text(1), ratio_text(None)
    ('2.00 [1.00–3.00]', '1', '')
    """
    return interval_text(value) if isinstance(value, Estimate) else text(value)


def query_text(value: Value) -> str:
    """Milliseconds of a query.

    >>> query_text(Estimate(0.05, 0.04, 0.06, 6)), query_text(Estimate(12.0, None, None, 1)), query_text(None)
    ('0.050 [0.040–0.060]', '12.0 (once)', '')
    """
    return interval_text(value, 3 if value.median < 10 else 1) if isinstance(value, Estimate) else ""


def ratio_column(base: str, data: str) -> Column:
    """A ratio, paired in the round."""
    return Column("ratio", f"That to {base}'s in the same round. {SURE}", ratio_text, data)


def bars(values: Iterable[tuple[str, Value]], unit: str) -> list[charts.Bar]:
    """Times with their intervals, by label."""
    drawn = ((label, one, charts.series(0)) for label, one in values if isinstance(one, Estimate))
    return charts.bars_of(drawn, lambda one: f"{figures(one)} {unit}")


def write_row(result: Result, kind: str) -> list[Value]:
    """A key, both ways to write."""
    targets = GUARDED_TARGETS if tables.WRITTEN[kind].guarded else UNGUARDED_TARGETS
    row: list[Value] = [kind, tables.WRITTEN[kind].label]
    aims = []
    for step in tables.WRITES:
        value = median_of(result, step, kind, micros_a_row)
        to_base = ratio_of(result, step, kind, tables.WRITE_BASELINE, micros_a_row)
        row += [value, 1 if value and kind == tables.WRITE_BASELINE else to_base]
        aims.append(targets[step] if to_base else None)
    return [*row, target_text(*aims)]


def write_section(result: Result) -> Section:
    """A line a key."""
    rows = [row for kind in tables.WRITTEN if any((row := write_row(result, kind))[2:6])]
    pictures = [
        Chart(
            f"CPU µs a row, {words}",
            charts.bar_chart(f"Writing, {words}", bars(((str(row[1]), row[place]) for row in rows), "µs")),
        )
        for place, words in zip((2, 4), tables.WRITES.values(), strict=True)
    ]
    return Section(
        "write",
        "Writing a log of 256 bytes a row, CPU µs a row, and the ratio to bigserial",
        [
            data_only("kind"),
            Column("", "The key, and whether a guard keeps the table readable by a feed.", data="label"),
            Column("1 row", "CPU µs of the server for a row, one row a transaction.", figures, tables.SINGLE, bar=True),
            ratio_column("bigserial", f"{tables.SINGLE}_ratio"),
            Column(
                f"{BATCH_ROWS}", f"CPU µs of the server for a row, {BATCH_ROWS} rows a statement and transaction.",
                figures, tables.BATCH, bar=True),
            ratio_column("bigserial", f"{tables.BATCH}_ratio"),
            TARGET,
        ],
        rows,
        f"1 row: one a statement. {BATCH_ROWS}: so many a statement. Each is a transaction. Guarded unless noted.",
        pictures,
    )  # fmt: skip


def read_row(result: Result, step: str, kind: str) -> list[Value]:
    """A reader, by the CPU time and by the clock."""
    row: list[Value] = [kind, tables.READERS[kind]]
    for metric in (CPU, WALL):
        to_base = ratio_of(result, step, kind, tables.READ_BASELINE, metric)
        row += [median_of(result, step, kind, metric), 1 if kind == tables.READ_BASELINE else to_base]
    return [*row, target_text(READ_TARGET if isinstance(row[3], Estimate) else None)]


def read_section(result: Result, step: str) -> Section:
    """A line a reader."""
    rows = [read_row(result, step, kind) for kind in tables.READERS if result.select(step, kind)]
    amount = next((run.rows for run in result.select(step)), 0)
    words = f"{amount:,} new rows {tables.SUMMARIES[step]}"
    picture = charts.bar_chart(words, bars(((str(row[1]), row[4]) for row in rows), "s"))
    return Section(
        step,
        f"{words}, seconds, and the ratio to a plain query",
        [
            data_only("kind"),
            Column("", "How the new rows are found.", data="label"),
            Column("CPU", "CPU seconds of the server.", figures, CPU, bar=True),
            ratio_column("the plain query", f"{CPU}_ratio"),
            Column("wall", "Seconds by the clock.", figures, WALL, bar=True),
            ratio_column("the plain query", f"{WALL}_ratio"),
            TARGET,
        ],
        rows,
        charts=[Chart(f"Seconds by the clock, {words}", picture)],
    )


def query_row(result: Result, step: str, form: str) -> list[Value]:
    """A query of one form of table."""
    kinds = [tables.query_kind(form, state) for state in (tables.ENDED, tables.HELD)]
    rows = next((run.rows for kind in kinds for run in result.select(step, kind)), 0)
    values = [median_of(result, step, kind, milliseconds) for kind in kinds]
    held = ratio_of(result, step, kinds[1], kinds[0], milliseconds)
    label, target = tables.QUERIES[step].label.format(f"{rows:,}"), target_text(tables.QUERIES[step].target_ms)
    return [step, label, rows, FORM_LABELS[form], *values, held, target]


def query_section(result: Result, table_rows: int) -> Section:
    """A line for each query and form of table."""
    rows = [row for step in tables.QUERIES for form in tables.FORMS if any((row := query_row(result, step, form))[4:6])]
    return Section(
        "queries",
        f"Single queries of a table of {table_rows:,} rows, milliseconds of a call",
        [
            data_only("step"),
            Column("", "What is asked of the table.", data="label"),
            data_only("rows"),
            Column("form", "The key: uuid of the transaction's number, or a number with a BRIN index."),
            Column(
                "ms", f"Milliseconds of a call and its answer, the middle one of several. {SURE}", query_text, bar=True
            ),
            Column(
                "held: ms",
                f"The same while one transaction is held open. {SURE}",
                query_text,
                "held_ms",
                False,
                bar=True,
            ),
            Column(
                "held: ratio",
                "Milliseconds while one transaction is open since before the newest rows came, to those without.",
                ratio_text,
                "held_ratio",
            ),
            TARGET,
        ],
        rows,
        "held: the same while one transaction is open since before the newest rows came, to the time without it. "
        "A median of several calls is a round's sample; a call and its answer included.",
    )


def sections(result: Result, plan: FeedPlan) -> Sequence[Section]:
    """As far as things are measured."""
    made = (
        write_section(result),
        *(read_section(result, step) for step in tables.SUMMARIES),
        query_section(result, plan.rows),
    )
    return [section for section in made if section.rows]


def verdicts(result: Result, _plan: FeedPlan, question: str) -> list[Verdict]:
    """What a feed costs a writer of single rows."""
    ratios = ratios_of(result, tables.SINGLE, tables.UUID, tables.WRITE_BASELINE, micros_a_row)
    values = [(tables.WRITTEN[kind].label, median_of(result, tables.SINGLE, kind, micros_a_row), charts.series(0))
              for kind in (tables.WRITE_BASELINE, tables.UUID)]  # fmt: skip
    holds = "Rows written one by one into a table with a uuid key and a feed, one index, nothing flushed to the disk."
    shown = charts.bars_of(values, number(1, "µs"))
    return costs(question, [Compared("CPU time", tables.WRITTEN[tables.WRITE_BASELINE].label, ratios)], holds, shown)
