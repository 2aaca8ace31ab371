"""The bulk experiment as sections: time, WAL and sizes by kind of key, and P1's tables beside."""

from collections.abc import Callable

from inorder.lab.experiments.bulk import (
    ADD_KEY,
    COPY_IN,
    COPY_OUT,
    KINDS,
    LEAVE_KEY,
    NO_DEDUP,
    NO_INDEX,
    PLAIN,
    STEPS,
    UNIQUE,
    WITH_KEY,
)
from inorder.lab.keys import BASELINE
from inorder.lab.results import Result, Run
from inorder.lab.stats import LEAST_ROUNDS, Estimate, estimate, ratio_by_round
from inorder.report.certainty import how_sure, too_few
from inorder.report.published import (
    BULK_INDEX_KIND,
    BULK_INDEX_ROWS,
    BULK_INDEX_SECONDS,
    BULK_SECONDS,
    BULK_TOTAL_MB,
    BULK_TOTAL_ROWS,
)
from inorder.report.section import Column, Section, Value, number, ratio
from inorder.units import MB, short

# Names of columns, short enough for one line.
COLUMNS = {
    WITH_KEY: "with key",
    NO_INDEX: "no index",
    ADD_KEY: "add key",
    PLAIN: "btree",
    NO_DEDUP: "no dedup",
    UNIQUE: "unique",
    COPY_OUT: "COPY out",
    COPY_IN: "COPY in",
}
SIZES = ("table_bytes", "index_bytes", "total_bytes")
PUBLISHED_KINDS = ("random_char", "time_char", "bigint")

Metric = Callable[[Run], float | None]
Pair = tuple[str, str]  # a step and a kind


def metric(name: str, scale: float = 1.0) -> Metric:
    """Reads one metric of a run, in a unit; None where it was not measured."""
    return lambda run: run.metrics[name] / scale if name in run.metrics else None


def a_row(name: str, rows: int) -> Metric:
    """Reads one metric of a run for each row."""
    return metric(name, rows)


SECONDS = metric("seconds")
CPU = metric("cpu_seconds")


def by_round(result: Result, pair: Pair, rows: int, of: Metric) -> dict[int, float]:
    """What there is, by round."""
    found = ((run.round, of(run)) for run in result.select(*pair, rows))
    return {number: value for number, value in found if value is not None}


def measured(result: Result, pair: Pair, rows: int, of: Metric) -> Estimate | None:
    """Over the rounds there are; None where nothing was measured."""
    values = by_round(result, pair, rows, of)
    return estimate(list(values.values())) if values else None


def compared(result: Result, pair: Pair, base: Pair, rows: int, of: Metric) -> Estimate | None:
    """The ratio of one to another, paired within the round."""
    values, bases = (by_round(result, one, rows, of) for one in (pair, base))
    return ratio_by_round(values, bases) if pair != base else None


def steps_section(result: Result, rows: int, name: str, title: str, of: Metric, digits: int, meaning: str) -> Section:
    """One metric of every step, a line a kind."""
    columns = [Column("key", "kind of key; of one column, the primary key")]
    columns += [Column(COLUMNS[step], f"{label}: {meaning}", number(digits)) for step, label in STEPS.items()]
    body = [
        [KINDS[kind].label, *(measured(result, (step, kind), rows, of) for step in STEPS)]
        for kind in result.plan["kinds"]
    ]
    return Section(f"bulk-{name}-{rows}", f"{short(rows)} rows: {title}", columns, body)


def ratio_section(result: Result, rows: int) -> Section:
    """How many times as long as bigint, for the steps that write keys."""
    columns = (
        Column("step", "what was timed"),
        Column("key", "kind of key"),
        Column("seconds", "median of the rounds, by the wall clock", number(2)),
        Column("vs bigint", "of that time to bigint's in the same round", ratio),
        Column("CPU vs bigint", "the same of the server process's CPU time", ratio),
    )
    body: list[list[Value]] = [
        [
            COLUMNS[step],
            KINDS[kind].label,
            measured(result, (step, kind), rows, SECONDS),
            compared(result, (step, kind), (step, BASELINE), rows, SECONDS),
            compared(result, (step, kind), (step, BASELINE), rows, CPU),
        ]
        for step in (WITH_KEY, NO_INDEX, ADD_KEY, COPY_IN)
        for kind in result.plan["kinds"]
    ]
    title = f"{short(rows)} rows: times as long as bigint"
    return Section(f"bulk-ratio-{rows}", title, columns, body, how_sure(result))


def sizes_section(result: Result, rows: int) -> Section:
    """What is there after inserting with the key, after adding it, and after COPY."""
    columns = (
        Column("key", "kind of key"),
        Column("after", "what the primary key was made by"),
        Column("table MB", "pg_relation_size, without the index", number(1)),
        Column("index MB", "pg_relation_size of the primary key", number(1)),
        Column("total MB", "pg_total_relation_size", number(1)),
        Column("leaf %", "leaf density of the primary key; pgstattuple, else btree_leaf_pages", number(1)),
        Column("file MB", "the file that COPY wrote and read", number(1)),
    )
    body: list[list[Value]] = [
        [
            KINDS[kind].label,
            COLUMNS[step],
            *(measured(result, (step, kind), rows, metric(name, MB)) for name in SIZES),
            measured(result, (step, kind), rows, metric("leaf_density")),
            measured(result, (COPY_OUT, kind), rows, metric("file_bytes", MB)) if step == COPY_IN else None,
        ]
        for kind in result.plan["kinds"]
        for step in LEAVE_KEY
    ]
    keyed = [run for step in LEAVE_KEY for run in result.select(step, rows=rows)]
    missing = bool(keyed) and not any("leaf_density" in run.metrics for run in keyed)
    caption = "Leaf density is left out: this server has no pgstattuple." if missing else ""
    return Section(f"bulk-sizes-{rows}", f"{short(rows)} rows: sizes", columns, body, caption)


def index_section(result: Result, rows: int) -> Section:
    """A plain btree against a unique index; and whether it matters which build is the first."""
    interval = number(2, interval=True)
    columns = (
        Column("key", "kind of key"),
        Column("plain s", "seconds of CREATE INDEX", number(2)),
        Column("unique s", "seconds of CREATE UNIQUE INDEX", number(2)),
        Column("plain : unique", "of those seconds in the same round; their order is drawn by lot", ratio),
        Column("CPU", "plain to unique, CPU time of the server process", interval),
        Column("CPU, no dedup", "plain WITH (deduplicate_items = off) to unique, CPU time", interval),
        Column("first : unique", "seconds to add the primary key, the first to read the table, to unique", interval),
        Column("publ.", "P1: plain to unique", number(2)),
    )
    published = BULK_INDEX_SECONDS[PLAIN] / BULK_INDEX_SECONDS[UNIQUE]
    body: list[list[Value]] = [
        [
            KINDS[kind].label,
            measured(result, (PLAIN, kind), rows, SECONDS),
            measured(result, (UNIQUE, kind), rows, SECONDS),
            compared(result, (PLAIN, kind), (UNIQUE, kind), rows, SECONDS),
            compared(result, (PLAIN, kind), (UNIQUE, kind), rows, CPU),
            compared(result, (NO_DEDUP, kind), (UNIQUE, kind), rows, CPU),
            compared(result, (ADD_KEY, kind), (UNIQUE, kind), rows, SECONDS),
            published if kind == BULK_INDEX_KIND else None,
        ]
        for kind in result.plan["kinds"]
    ]
    caption = (
        f"publ.: {BULK_INDEX_SECONDS[PLAIN]:.0f} s to {BULK_INDEX_SECONDS[UNIQUE]:.0f} s on "
        f"{short(BULK_INDEX_ROWS)} rows, PostgreSQL 10. Since 13 building a plain btree also looks for duplicates to "
        f"merge, a unique index does not: 'no dedup' is without. {how_sure(result)}"
    )
    title = f"{short(rows)} rows: a plain btree and a unique index"
    return Section(f"bulk-indexes-{rows}", title, columns, body, caption)


def published_section(result: Result) -> Section:
    """P1's bulk table, line by line: of as many rows where they were measured, else of the most there are."""
    columns = (
        Column("step", "what was timed"),
        Column("key", "kind of key"),
        Column("rows", "measured here", short_cell),
        Column("here", "median: seconds, or MB", number(2)),
        Column("vs bigint", "in the same round", ratio),
        Column("publ. rows", "P1", short_cell),
        Column("publ.", "P1: seconds, or MB", number(1)),
        Column("publ. vs bigint", "P1, of the figures beside", number(2)),
    )
    lines = [(f"{COLUMNS[step]}, s", step, rows, SECONDS, values)
             for (step, rows), values in BULK_SECONDS.items()]  # fmt: skip
    lines.append(("table and key, MB", ADD_KEY, BULK_TOTAL_ROWS, metric("total_bytes", MB), BULK_TOTAL_MB))
    body = [
        published_row(result, label, (step, kind), rows, of, values)
        for label, step, rows, of, values in lines for kind in PUBLISHED_KINDS
    ]  # fmt: skip
    return Section("bulk-published", "Beside study P1", columns, body, "UUIDs as char(32). Empty: not measured.")


def published_row(
    result: Result, label: str, pair: Pair, rows: int, of: Metric, values: dict[str, float]
) -> list[Value]:
    """One key in one line of P1's table."""
    step, kind = pair
    there = sorted({run.rows for run in result.select(step, kind)})
    here = rows if rows in there else there[-1] if there else None
    return [
        label,
        KINDS[kind].label,
        here,
        measured(result, pair, here, of) if here else None,
        compared(result, pair, (step, BASELINE), here, of) if here else None,
        rows,
        values[kind],
        values[kind] / values[BASELINE] if kind != BASELINE else None,
    ]


def short_cell(value: Value) -> str:
    """How a column shows a number of rows.

    >>> short_cell(50_000_000), short_cell(None)
    ('50 M', '')
    """
    return short(value) if isinstance(value, int) else ""


def bulk_sections(result: Result) -> list[Section]:
    """The tables of the report."""
    sections = []
    for rows in sorted(result.plan["rows"]):
        wal, images = a_row("wal_bytes", rows), a_row("full_page_images", rows / 1000)
        sections += [
            steps_section(result, rows, "seconds", "seconds", SECONDS, 2, "by the wall clock"),
            ratio_section(result, rows),
            index_section(result, rows),
            steps_section(result, rows, "wal", "bytes of WAL a row", wal, 1, "pg_stat_wal"),
            steps_section(result, rows, "fpi", "full-page images, of 1,000 rows", images, 2, "pg_stat_wal"),
            sizes_section(result, rows),
        ]
    return [*sections, published_section(result)]


def bulk_headline(result: Result) -> str:
    """P1's keys against bigint with the key there, and P1's surprise about indexes; of the largest table."""
    rows = max(result.plan["rows"])
    published = BULK_SECONDS[WITH_KEY, 1_000_000]
    pairs = {kind: compared(result, (WITH_KEY, kind), (WITH_KEY, BASELINE), rows, SECONDS) for kind in PUBLISHED_KINDS}
    keys = [
        f"{KINDS[kind].label} {ratio(found)} (P1: {published[kind] / published[BASELINE]:.2f})"
        for kind, found in pairs.items() if found
    ]  # fmt: skip
    told = [f"Inserting {short(rows)} rows with the key present takes, to bigint: {'; '.join(keys)}."] if keys else []
    index = compared(result, (PLAIN, BULK_INDEX_KIND), (UNIQUE, BULK_INDEX_KIND), rows, SECONDS)
    told += [index_verdict(index)] if index else []
    fewest = min((found.rounds for found in (*pairs.values(), index) if found), default=LEAST_ROUNDS)
    return " ".join([*told, too_few(fewest)]).rstrip()


def index_verdict(index: Estimate) -> str:
    """What is to be said of P1's plain btree that took twice as long as the unique index.

    >>> index_verdict(Estimate(2.0, 1.9, 2.2, 6))
    'Building a plain btree takes, to a unique index: 2.00 [1.90–2.20] (P1: 2.07).'
    >>> index_verdict(Estimate(1.0, 0.9, 1.1, 6)).partition("(P1: 2.07)")[2]
    ", which does not reappear: P1's plain one may have been the first to read the table."
    """
    published = BULK_INDEX_SECONDS[PLAIN] / BULK_INDEX_SECONDS[UNIQUE]
    missing = index.differs_from(published) and index.median < published
    cause = ", which does not reappear: P1's plain one may have been the first to read the table" if missing else ""
    return f"Building a plain btree takes, to a unique index: {ratio(index)} (P1: {published:.2f}){cause}."
