"""The bulk experiment as sections: time, WAL and sizes by kind of key, and P1's tables beside."""

from collections.abc import Mapping
from dataclasses import replace

from inorder.lab.analysis.figures import Metric, median_of, per, ratio_of, ratios_of
from inorder.lab.experiments.bulk import plan as steps
from inorder.lab.experiments.bulk.plan import BulkPlan
from inorder.lab.keys import BASELINE
from inorder.lab.results import Result
from inorder.report.charts import bars_of
from inorder.report.section import Column, Section, Value, figures, number, ratio
from inorder.report.verdict import Compared, Verdict, costs
from inorder.report.wording import how_sure
from inorder.units import MB, short

COLUMNS = {  # their names in tables, short enough for one line
    steps.WITH_KEY: "with key",
    steps.NO_INDEX: "no index",
    steps.ADD_KEY: "add key",
    steps.PLAIN: "btree",
    steps.NO_DEDUP: "no dedup",
    steps.UNIQUE: "unique",
    steps.COPY_OUT: "COPY out",
    steps.COPY_IN: "COPY in",
}
SECONDS = "seconds"
RANDOM, ORDERED = ("random", "random_char"), "v7"  # what the verdicts are of
CPU = "cpu_seconds"
SIZES = ("table_bytes", "index_bytes", "total_bytes")

# P1, PostgreSQL 10.4, 8 CPUs, 32 GB of memory, a spinning disk; UUIDs as char(32). Seconds by step and rows, by key.
# Random keys are those of uuid-ossp's uuid_generate_v4(), bigint those of generate_series, without nextval.
PUBLISHED_SECONDS: dict[tuple[str, int], dict[str, float]] = {
    (steps.WITH_KEY, 1_000_000): {"random_char": 43.390, "time_char": 30.585, steps.SERIES: 9.819},
    (steps.NO_INDEX, 50_000_000): {"random_char": 1159.7, "time_char": 454.0, steps.SERIES: 352.2},
    (steps.ADD_KEY, 50_000_000): {"random_char": 845.2, "time_char": 932.2, steps.SERIES: 148.1},
}
OF_P1 = {"random_ossp": "random_char"}  # it has one figure of random keys
PUBLISHED_KINDS = ("random_ossp", "random_char", "time_char", steps.SERIES)
PUBLISHED_CAPTION = (
    "UUIDs as char(32). P1's random keys are those of uuid_generate_v4() (uuid-ossp), measured here with "
    "--keys random_ossp; its time-prefixed keys have blocks of a minute, here of a second; its bigint is that of "
    "generate_series, without nextval. Empty: not measured."
)
# P1: MB of table and primary key, added afterwards, by key.
PUBLISHED_TOTAL_ROWS = 50_000_000
PUBLISHED_TOTAL_MB: dict[str, float] = {"random_char": 6072, "time_char": 6072, steps.SERIES: 2800}
# P1: seconds to build each index on 10 M random keys: the plain one, which was then dropped, before the unique one.
PUBLISHED_INDEX_KIND = "random_char"
PUBLISHED_INDEX_ROWS = 10_000_000
PUBLISHED_INDEX_SECONDS = {steps.PLAIN: 316.367, steps.UNIQUE: 153.373}
PUBLISHED_INDEX_RATIO = PUBLISHED_INDEX_SECONDS[steps.PLAIN] / PUBLISHED_INDEX_SECONDS[steps.UNIQUE]


def sections(result: Result, plan: BulkPlan) -> list[Section]:
    """Six tables for each number of rows, and P1's beside."""
    found = []
    for rows in sorted(plan.rows):
        wal, images = per("wal_bytes", rows), per("full_page_images", rows / 1000)
        found += [
            replace(steps_section(result, plan, rows, "seconds", "seconds", SECONDS, 2, "by the wall clock"),
                    main=rows == max(plan.rows)),
            ratio_section(result, plan, rows),
            index_section(result, plan, rows),
            steps_section(result, plan, rows, "wal", "bytes of WAL a row", wal, 1, "pg_stat_wal"),
            steps_section(result, plan, rows, "fpi", "full-page images, of 1,000 rows", images, 2, "pg_stat_wal"),
            sizes_section(result, plan, rows),
        ]  # fmt: skip
    return [*found, published_section(result)]


def verdicts(result: Result, plan: BulkPlan, question: str) -> list[Verdict]:
    """What random keys cost a load, and P1's surprise about indexes; of the largest table."""
    rows = max(plan.rows)
    random = next((kind for kind in RANDOM if result.select(steps.WITH_KEY, kind, rows)), RANDOM[0])

    def to_base(metric: str, values: Metric) -> Compared:
        return Compared(
            metric, steps.KINDS[BASELINE].label, ratios_of(result, steps.WITH_KEY, random, BASELINE, values, rows)
        )

    shown = [(steps.KINDS[kind].label, median_of(result, steps.WITH_KEY, kind, SECONDS, rows), f"kind-{kind}")
             for kind in (BASELINE, ORDERED, random)]  # fmt: skip
    drawn = bars_of(shown, lambda seconds: f"{figures(seconds)} s")
    load = f"One INSERT … SELECT of {short(rows)} rows, after a checkpoint, into a table with a primary key alone."
    wal = per("wal_bytes", rows)
    plain = ratios_of(result, steps.PLAIN, random, random, SECONDS, rows, base_step=steps.UNIQUE)
    first = "its plain index was built first, and so the first to read the table"
    built = f"{short(rows)} {steps.KINDS[random].label} keys. P1: {PUBLISHED_INDEX_RATIO:.2f}; {first}."
    return [
        *costs(question, [to_base("time", SECONDS), to_base("WAL", wal)], load, drawn),
        *costs("Is a plain index slower to build than a unique one?",
               [Compared("time", "a unique index", plain)], built),
    ]  # fmt: skip


def steps_section(
    result: Result, plan: BulkPlan, rows: int, name: str, title: str, metric: Metric, digits: int, meaning: str
) -> Section:
    """One metric of every step, a line a kind."""
    columns = [Column("key", "kind of key; of one column, the primary key")]
    columns += [
        Column(COLUMNS[step], f"{label}: {meaning}", number(digits), bar=True) for step, label in steps.STEPS.items()
    ]
    body = [
        [steps.KINDS[kind].label, *(median_of(result, step, kind, metric, rows) for step in steps.STEPS)]
        for kind in plan.kinds
    ]
    return Section(f"bulk-{name}-{rows}", f"{short(rows)} rows: {title}", columns, body)


def ratio_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    """How many times as long as bigint, for the steps that write keys."""
    columns = (
        Column("step", "what was timed"),
        Column("key", "kind of key"),
        Column("seconds", "median of the rounds, by the wall clock", number(2), bar=True),
        Column("vs bigint", "of that time to bigint's in the same round", ratio),
        Column("CPU vs bigint", "the same of the server process's CPU time", ratio),
    )
    body: list[list[Value]] = [
        [
            COLUMNS[step],
            steps.KINDS[kind].label,
            median_of(result, step, kind, SECONDS, rows),
            *(ratio_of(result, step, kind, BASELINE, metric, rows) for metric in (SECONDS, CPU)),
        ]
        for step in (steps.WITH_KEY, steps.NO_INDEX, steps.ADD_KEY, steps.COPY_IN)
        for kind in plan.kinds
    ]
    title = f"{short(rows)} rows: times as long as bigint"
    return Section(f"bulk-ratio-{rows}", title, columns, body, how_sure(result))


def sizes_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    """What is there after inserting with the key, after adding it, and after COPY."""
    columns = (
        Column("key", "kind of key"),
        Column("after", "what the primary key was made by"),
        Column("table MB", "pg_relation_size, without the index", number(1), bar=True),
        Column("index MB", "pg_relation_size of the primary key", number(1), bar=True),
        Column("total MB", "pg_total_relation_size", number(1), bar=True),
        Column("leaf %", "leaf density of the primary key (pgstatindex)", number(1)),
        Column("file MB", "the file that COPY wrote and read", number(1)),
    )
    body: list[list[Value]] = [
        [
            steps.KINDS[kind].label,
            COLUMNS[step],
            *(median_of(result, step, kind, per(name, MB), rows) for name in SIZES),
            median_of(result, step, kind, "leaf_density", rows),
            median_of(result, steps.COPY_OUT, kind, per("file_bytes", MB), rows) if step == steps.COPY_IN else None,
        ]
        for kind in plan.kinds
        for step in steps.LEAVE_KEY
    ]
    keyed = [run for step in steps.LEAVE_KEY for run in result.select(step, rows=rows)]
    missing = bool(keyed) and not any("leaf_density" in run.metrics for run in keyed)
    caption = "Leaf density is left out: this server has no pgstattuple." if missing else ""
    return Section(f"bulk-sizes-{rows}", f"{short(rows)} rows: sizes", columns, body, caption)


def index_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    """A plain btree against a unique index; and whether it matters which build is the first."""
    interval = number(2, interval=True)
    columns = (
        Column("key", "kind of key"),
        Column("plain s", "seconds of CREATE INDEX", number(2), bar=True),
        Column("unique s", "seconds of CREATE UNIQUE INDEX", number(2), bar=True),
        Column("plain : unique", "of those seconds in the same round; their order is drawn by lot", ratio),
        Column("CPU", "plain to unique, CPU time of the server process", interval),
        Column("CPU, no dedup", "plain WITH (deduplicate_items = off) to unique, CPU time", interval),
        Column("first : unique", "seconds to add the primary key, the first to read the table, to unique", interval),
        Column("publ.", "P1: plain to unique", number(2)),
    )
    ratios = ((steps.PLAIN, SECONDS), (steps.PLAIN, CPU), (steps.NO_DEDUP, CPU), (steps.ADD_KEY, SECONDS))
    body: list[list[Value]] = [
        [
            steps.KINDS[kind].label,
            *(median_of(result, step, kind, SECONDS, rows) for step in (steps.PLAIN, steps.UNIQUE)),
            *(ratio_of(result, step, kind, kind, metric, rows, base_step=steps.UNIQUE) for step, metric in ratios),
            PUBLISHED_INDEX_RATIO if kind == PUBLISHED_INDEX_KIND else None,
        ]
        for kind in plan.kinds
    ]
    caption = (
        f"publ.: {PUBLISHED_INDEX_SECONDS[steps.PLAIN]:.0f} s, then {PUBLISHED_INDEX_SECONDS[steps.UNIQUE]:.0f} s on "
        f"{short(PUBLISHED_INDEX_ROWS)} rows, PostgreSQL 10. Since 13 building a plain btree also looks for duplicates "
        f"to merge, a unique index does not: 'no dedup' is without. {how_sure(result)}"
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
        Column("vs series", f"to {steps.KINDS[steps.SERIES].label} in the same round", ratio),
        Column("publ. rows", "P1", short_cell),
        Column("publ.", "P1: seconds, or MB", number(1)),
        Column("publ. vs series", "P1, of the figures beside", number(2)),
    )
    lines: list[tuple[str, str, int, Metric, Mapping[str, float]]] = [
        (f"{COLUMNS[step]}, s", step, rows, SECONDS, values) for (step, rows), values in PUBLISHED_SECONDS.items()
    ]
    lines.append(("table and key, MB", steps.ADD_KEY, PUBLISHED_TOTAL_ROWS, per("total_bytes", MB), PUBLISHED_TOTAL_MB))
    body = [published_row(result, kind, *line) for line in lines for kind in PUBLISHED_KINDS]
    return Section("bulk-published", "Beside study P1", columns, body, PUBLISHED_CAPTION)


def published_row(
    result: Result, kind: str, label: str, step: str, rows: int, metric: Metric, values: Mapping[str, float]
) -> list[Value]:
    """One key in one line of P1's table."""
    there = {run.rows for run in result.select(step, kind)}
    here = rows if rows in there else max(there, default=None)
    return [
        label,
        steps.KINDS[kind].label,
        here,
        median_of(result, step, kind, metric, here) if here else None,
        ratio_of(result, step, kind, steps.SERIES, metric, here) if here else None,
        rows,
        values[OF_P1.get(kind, kind)],
        values[OF_P1.get(kind, kind)] / values[steps.SERIES] if kind != steps.SERIES else None,
    ]


def short_cell(value: Value) -> str:
    """How a column shows a number of rows.

    >>> short_cell(50_000_000), short_cell(None)
    ('50 M', '')
    """
    return short(value) if isinstance(value, int) else ""
