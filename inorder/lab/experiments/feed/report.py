"""The report on feeds: writers, readers, and single queries of a large table, each beside its target."""

from collections.abc import Callable, Sequence

from inorder.lab.analysis.figures import Row, median, median_of, ratio_of, ratios_of, to
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.experiments.feed import tables
from inorder.lab.experiments.feed.tables import FeedPlan
from inorder.lab.log_tables import BATCH_ROWS
from inorder.lab.report.section import Figure, Section, Value, data_only, figures, number, table, to_base
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, costs
from inorder.lab.results import Result, Run

# What was aimed at: ratios to the baseline.
GUARDED_TARGETS = {tables.SINGLE: 1.1, tables.BATCH: 0.95}
UNGUARDED_TARGETS = {tables.SINGLE: 1.0, tables.BATCH: 0.9}
READ_TARGET = 1.1

CPU, WALL = "cpu_seconds", "seconds"
FORM_LABELS = {tables.UUID: "uuid", tables.BRIN: "BRIN"}

SURE = f"Median and interval of the rounds; below {LEAST_ROUNDS} rounds the range."


def micros_a_row(run: Run) -> float:
    return 1e6 * run.metrics[CPU] / run.rows


def milliseconds(run: Run) -> float:
    return 1e3 * run.metrics[WALL]


def target_text(*targets: float | None) -> str:
    return " / ".join(f"{target:g}" for target in targets if target is not None)


query_text = number(lambda size: 3 if size < 10 else 1, interval=True)  # milliseconds of a query


def ratio_column(base: str, data: str, value: Callable[[Row], Value]) -> Figure:
    return Figure("ratio", f"That to {base}'s in the same round. {SURE}", to_base, data, value=value)


def target(aim: Callable[[Row], str]) -> Figure:
    return Figure("target", "What was aimed at, for tables of 20 million rows; nothing fails when it is missed.",
                  value=aim)  # fmt: skip


def written(row: Row, step: str) -> Value:
    if row.kind == tables.WRITE_BASELINE and row.result.select(step, row.kind):
        return 1
    return to(tables.WRITE_BASELINE, micros_a_row, step)(row)


def write_target(row: Row) -> str:
    targets = GUARDED_TARGETS if tables.WRITTEN[row.kind].guarded else UNGUARDED_TARGETS
    return target_text(*(targets[step] if isinstance(written(row, step), Estimate) else None for step in tables.WRITES))


WRITING = (
    data_only("kind", lambda row: row.kind),
    Figure("", "The key, and whether a guard keeps the table readable by a feed.", data="label",
           value=lambda row: tables.WRITTEN[row.kind].label),
    Figure("1 row", "CPU µs of the server for a row, one row a transaction.", figures, tables.SINGLE, bar=True,
           value=median(micros_a_row, tables.SINGLE), better="less", compared=CPU),
    ratio_column("bigserial", f"{tables.SINGLE}_ratio", lambda row: written(row, tables.SINGLE)),
    Figure(f"{BATCH_ROWS}", f"CPU µs of the server for a row, {BATCH_ROWS} rows a statement and transaction.", figures,
           tables.BATCH, bar=True, value=median(micros_a_row, tables.BATCH)),
    ratio_column("bigserial", f"{tables.BATCH}_ratio", lambda row: written(row, tables.BATCH)),
    target(write_target),
)  # fmt: skip


def write_section(result: Result) -> Section:
    kinds = [kind for kind in tables.WRITTEN if any(result.select(step, kind) for step in tables.WRITES)]
    lines = [Row(result, "", kind) for kind in kinds]
    return table(
        "write",
        "Writing a log of 256 bytes a row, CPU µs a row, and the ratio to bigserial",
        WRITING,
        lines,
        f"1 row: one a statement. {BATCH_ROWS}: so many a statement. Each is a transaction. Guarded unless noted.",
    )


def read(metric: str) -> Callable[[Row], Value]:
    ratio = to(tables.READ_BASELINE, metric)
    return lambda row: 1 if row.kind == tables.READ_BASELINE else ratio(row)


READING = (
    data_only("kind", lambda row: row.kind),
    Figure("", "How the new rows are found.", data="label", value=lambda row: tables.READERS[row.kind]),
    Figure("CPU", "CPU seconds of the server.", figures, CPU, bar=True, value=median(CPU), better="less"),
    ratio_column("the plain query", f"{CPU}_ratio", read(CPU)),
    Figure("wall", "Seconds by the clock.", figures, WALL, bar=True, value=median(WALL), better="less"),
    ratio_column("the plain query", f"{WALL}_ratio", read(WALL)),
    target(lambda row: target_text(READ_TARGET if isinstance(read(CPU)(row), Estimate) else None)),
)


def read_section(result: Result, step: str) -> Section:
    lines = [Row(result, step, kind) for kind in tables.READERS if result.select(step, kind)]
    amount = next((run.rows for run in result.select(step)), 0)
    words = f"{amount:,} new rows {tables.SUMMARIES[step]}"
    return table(step, f"{words}, seconds, and the ratio to a plain query", READING, lines)


def count_of(row: Row) -> int:
    kinds = [tables.query_kind(row.kind, state) for state in (tables.ENDED, tables.HELD)]
    return next((run.rows for kind in kinds for run in row.result.select(row.step, kind)), 0)


def query(state: str) -> Callable[[Row], Value]:
    return lambda row: median_of(row.result, row.step, tables.query_kind(row.kind, state), milliseconds)


def held_ratio(row: Row) -> Value:
    held, ended = (tables.query_kind(row.kind, state) for state in (tables.HELD, tables.ENDED))
    return ratio_of(row.result, row.step, held, ended, milliseconds)


QUERIES = (
    data_only("step", lambda row: row.step),
    Figure("", "What is asked of the table.", data="label",
           value=lambda row: tables.QUERIES[row.step].label.format(f"{count_of(row):,}")),
    data_only("rows", count_of),
    Figure("form", "The key: uuid of the transaction's number, or a number with a BRIN index.",
           value=lambda row: FORM_LABELS[row.kind]),
    Figure("ms", f"Milliseconds of a call and its answer, the middle one of several. {SURE}", query_text, bar=True,
           value=query(tables.ENDED)),
    Figure("held: ms", f"The same while one transaction is held open. {SURE}", query_text, "held_ms", False, bar=True,
           value=query(tables.HELD)),
    Figure("held: ratio", "Milliseconds while one transaction is open since before the newest rows came, to those "
           "without.", to_base, "held_ratio", value=held_ratio),
    target(lambda row: target_text(tables.QUERIES[row.step].target_ms)),
)  # fmt: skip
FIGURES = (*WRITING, *READING, *QUERIES)


def query_section(result: Result, table_rows: int) -> Section:
    lines = [Row(result, step, form) for step in tables.QUERIES for form in tables.FORMS]
    return table(
        "queries",
        f"Single queries of a table of {table_rows:,} rows, milliseconds of a call",
        QUERIES,
        [line for line in lines if query(tables.ENDED)(line) or query(tables.HELD)(line)],
        "held: the same while one transaction is open since before the newest rows came, to the time without it. "
        "A median of several calls is a round's sample; a call and its answer included.",
    )


def sections(result: Result, plan: FeedPlan) -> Sequence[Section]:
    made = (
        write_section(result),
        *(read_section(result, step) for step in tables.SUMMARIES),
        query_section(result, plan.rows),
    )
    return [section for section in made if section.rows]


def verdicts(result: Result, _plan: FeedPlan, question: str) -> list[Verdict]:
    ratios = ratios_of(result, tables.SINGLE, tables.UUID, tables.WRITE_BASELINE, micros_a_row)
    values = [(tables.WRITTEN[kind].label, median_of(result, tables.SINGLE, kind, micros_a_row), PLAIN)
              for kind in (tables.WRITE_BASELINE, tables.UUID)]  # fmt: skip
    holds = "Rows written one by one into a table with a uuid key and a feed, one index, nothing flushed to the disk."
    shown = bars_of(values, number(1, "µs"))
    return costs(question, [Compared("CPU time", tables.WRITTEN[tables.WRITE_BASELINE].label, ratios)], holds, shown)
