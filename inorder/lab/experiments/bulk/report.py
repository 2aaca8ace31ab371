"""The bulk experiment as sections: time, WAL and sizes by kind of key, and P1's tables beside."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from inorder.lab.analysis.figures import Metric, Reading, Row, median, median_of, per, ratios_of, to
from inorder.lab.experiments.bulk import plan as steps
from inorder.lab.experiments.bulk.plan import BulkPlan
from inorder.lab.keys import BASELINE
from inorder.lab.report.published import of_table, published_sections
from inorder.lab.report.section import Figure, Section, Value, figures, number, ratio, table
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs
from inorder.lab.report.wording import how_sure
from inorder.lab.results import Result
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


def sections(result: Result, plan: BulkPlan) -> list[Section]:
    found = []
    for rows in sorted(plan.rows):
        found += [
            replace(steps_section(result, plan, rows, TIMED), main=rows == max(plan.rows)),
            ratio_section(result, plan, rows),
            index_section(result, plan, rows),
            steps_section(result, plan, rows, WAL),
            steps_section(result, plan, rows, IMAGES),
            sizes_section(result, plan, rows),
        ]
    return [*found, *published_sections(result, words)]


def words(step: str, kind: str) -> str:
    return f"{steps.KINDS[kind].label}, {COLUMNS[step]}" if step else steps.KINDS[kind].label


def verdicts(result: Result, plan: BulkPlan, question: str) -> list[Verdict]:
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
    published = of_table("P1", "bulk builds")[0].ratio
    built = f"{short(rows)} {steps.KINDS[random].label} keys. P1: {published:.2f}; {first}."
    return [
        *costs(question, [to_base("time", SECONDS), to_base("WAL", wal)], load, drawn),
        *costs("Is a plain index slower to build than a unique one?",
               [Compared("time", "a unique index", plain)], built),
    ]  # fmt: skip


def a_row(metric: str, rows: int = 1) -> Metric:
    return lambda run: run.metrics[metric] / (run.rows / rows) if metric in run.metrics else None


TIMED = Figure("seconds", "by the wall clock", number(2), "seconds", value=median(SECONDS), better="less")
WAL = Figure("bytes of WAL a row", "pg_stat_wal", number(1), "wal", value=median(a_row("wal_bytes")), better="less",
             compared="wal_bytes")  # fmt: skip
IMAGES = Figure("full-page images, of 1,000 rows", "pg_stat_wal", number(2), "fpi", better="less",
                value=median(a_row("full_page_images", 1000)), compared="full_page_images")  # fmt: skip


def rows_of(result: Result, plan: BulkPlan, rows: int, which: Sequence[str] = ("",)) -> list[Row]:
    return [Row(result, step, kind, rows) for step in which for kind in plan.kinds]


def key(meaning: str) -> Figure:
    return Figure("key", meaning, value=lambda row: steps.KINDS[row.kind].label)


def in_step(one: Figure, step: str) -> Callable[[Row], Value]:
    return lambda row: one.value(replace(row, step=step))


def steps_section(result: Result, plan: BulkPlan, rows: int, one: Figure) -> Section:
    columns = [key("kind of key; of one column, the primary key")]
    columns += [
        Figure(COLUMNS[step], f"{label}: {one.meaning}", one.show, bar=True, value=in_step(one, step))
        for step, label in steps.STEPS.items()
    ]
    return table(f"bulk-{one.data}-{rows}", f"{short(rows)} rows: {one.name}", columns, rows_of(result, plan, rows))


RATIOS = (
    Figure("step", "what was timed", value=lambda row: COLUMNS[row.step]),
    key("kind of key"),
    Figure("seconds", "median of the rounds, by the wall clock", number(2), bar=True, value=median(SECONDS)),
    Figure("vs bigint", "of that time to bigint's in the same round", ratio, value=to(BASELINE, SECONDS)),
    Figure("CPU vs bigint", "the same of the server process's CPU time", ratio, value=to(BASELINE, CPU),
           better="less"),
)  # fmt: skip


def ratio_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    lines = rows_of(result, plan, rows, (steps.WITH_KEY, steps.NO_INDEX, steps.ADD_KEY, steps.COPY_IN))
    return table(f"bulk-ratio-{rows}", f"{short(rows)} rows: times as long as bigint", RATIOS, lines, how_sure(result))


WRITTEN_FILE = median(per("file_bytes", MB), steps.COPY_OUT)
SIZES = (
    key("kind of key"),
    Figure("after", "what the primary key was made by", value=lambda row: COLUMNS[row.step]),
    Figure("table MB", "pg_relation_size, without the index", number(1), bar=True,
           value=median(per("table_bytes", MB))),
    Figure("index MB", "pg_relation_size of the primary key", number(1), bar=True,
           value=median(per("index_bytes", MB)), better="less"),
    Figure("total MB", "pg_total_relation_size", number(1), bar=True, value=median(per("total_bytes", MB)),
           better="less"),
    Figure("leaf %", "leaf density of the primary key (pgstatindex)", number(1), value=median("leaf_density"),
           better="more"),
    Figure("file MB", "the file that COPY wrote and read", number(1), compared="file_bytes",
           value=lambda row: WRITTEN_FILE(row) if row.step == steps.COPY_IN else None),
)  # fmt: skip


def sizes_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    lines = [Row(result, step, kind, rows) for kind in plan.kinds for step in steps.LEAVE_KEY]
    keyed = [run for step in steps.LEAVE_KEY for run in result.select(step, rows=rows)]
    missing = bool(keyed) and not any("leaf_density" in run.metrics for run in keyed)
    caption = "Leaf density is left out: this server has no pgstattuple." if missing else ""
    return table(f"bulk-sizes-{rows}", f"{short(rows)} rows: sizes", SIZES, lines, caption)


def to_unique(metric: Metric, step: str) -> Reading:
    return to("", metric, step, base_step=steps.UNIQUE)


INTERVAL = number(2, interval=True)
BUILDS = (
    key("kind of key"),
    Figure("plain s", "seconds of CREATE INDEX", number(2), bar=True, value=median(SECONDS, steps.PLAIN)),
    Figure("unique s", "seconds of CREATE UNIQUE INDEX", number(2), bar=True, value=median(SECONDS, steps.UNIQUE)),
    Figure("plain : unique", "of those seconds in the same round; their order is drawn by lot", ratio,
           value=to_unique(SECONDS, steps.PLAIN)),
    Figure("CPU", "plain to unique, CPU time of the server process", INTERVAL, value=to_unique(CPU, steps.PLAIN)),
    Figure("CPU, no dedup", "plain WITH (deduplicate_items = off) to unique, CPU time", INTERVAL,
           value=to_unique(CPU, steps.NO_DEDUP)),
    Figure("first : unique", "seconds to add the primary key, the first to read the table, to unique", INTERVAL,
           value=to_unique(SECONDS, steps.ADD_KEY)),
)  # fmt: skip
FIGURES = (TIMED, WAL, IMAGES, *RATIOS, *SIZES)


def index_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    """A plain btree against a unique index; and whether it matters which build is the first."""
    caption = (
        "Since PostgreSQL 13 building a plain btree also looks for duplicates to merge, a unique index does not: "
        f"'no dedup' is without. {how_sure(result)}"
    )
    title = f"{short(rows)} rows: a plain btree and a unique index"
    return table(f"bulk-indexes-{rows}", title, BUILDS, rows_of(result, plan, rows), caption)
