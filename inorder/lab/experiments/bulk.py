"""INSERT … SELECT, building indexes and COPY, by kind of key: time, WAL, sizes.

Each kind goes through all steps before the next kind begins, because most steps need the results of earlier steps.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import Metric, Reading, Row, median, median_of, per, ratios_of, to
from inorder.lab.instruments.counters import read_leaf_density, read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import Adapted, Capabilities, OwnRun
from inorder.lab.plan.keys import BASELINE, KEY_KINDS, SCHEMA, USUAL_KINDS, KeyKind
from inorder.lab.plan.turn import Metrics, Stage, Turn, several
from inorder.lab.report.published import of_table, published_sections
from inorder.lab.report.section import Figure, Section, Value, figures, number, ratio, table
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs, how_sure
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.targets.server_settings import measuring_settings
from inorder.units import MB, short

SERIES = "series"  # the bigint keys that study P1 uses in bulk inserts: numbers from generate_series instead of nextval
KINDS = {name: KEY_KINDS[name] for name in (*USUAL_KINDS, "time_char", "random_char", "random_ossp")}
KINDS[SERIES] = KeyKind(SERIES, "bigint, series", "bigint")

# Steps run in this order, except that the indexes for comparison are built in random order.
WITH_KEY = "with_key"
NO_INDEX = "no_index"
ADD_KEY = "add_key"
PLAIN = "plain"
NO_DEDUP = "no_dedup"
UNIQUE = "unique"
COPY_OUT = "copy_out"
COPY_IN = "copy_in"
STEPS = {  # the description of each step, and a short name for use in tables
    WITH_KEY: ("INSERT … SELECT, primary key present", "with key"),
    NO_INDEX: ("INSERT … SELECT, no index", "no index"),
    ADD_KEY: ("adding the primary key", "add key"),
    PLAIN: ("a plain btree", "btree"),
    NO_DEDUP: ("a plain btree without deduplication", "no dedup"),
    UNIQUE: ("a unique index", "unique"),
    COPY_OUT: ("COPY TO a file", "COPY out"),
    COPY_IN: ("COPY FROM the file, primary key present", "COPY in"),
}
BUILDS = (PLAIN, NO_DEDUP, UNIQUE)
LEAVE_KEY = (WITH_KEY, ADD_KEY, COPY_IN)  # steps that end with a primary key, whose size and leaf density are recorded


@dataclass(frozen=True, kw_only=True)
class BulkPlan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key, comma-separated.", tuple(KINDS), tuple(name for name, kind in KINDS.items() if not kind.contrib),
        flag="--keys", needs_inorder=lambda kind: KINDS[kind].needs_inorder, contrib=lambda kind: KINDS[kind].contrib,
        label=lambda kind: KINDS[kind].label,
    )  # fmt: skip
    rows: tuple[int, ...] = setting.counts(
        "Numbers of rows of the table, comma-separated.", 1000, 10**10, (1_000_000,), quick=(100_000,),
        full=(1_000_000, 10_000_000, 50_000_000),
    )  # fmt: skip
    rounds: int = setting.rounds(6, quick=3)
    shared_buffers: int = setting.memory(512 * MB, "shared_buffers; the page cache is used in addition.")
    steps: tuple[str, ...] = setting.choices("", tuple(STEPS), asked=False)


def steps_of(seed: int, rows: int, kind: str, number: int) -> list[str]:
    """Return the steps for a kind in a round. The indexes for comparison are built in random order.

    >>> len({tuple(steps_of(1, 1000, "random", number)) for number in range(50)})
    6
    """
    builds = random.Random(repr((seed, "indexes", rows, kind, number))).sample(BUILDS, len(BUILDS))
    return [WITH_KEY, NO_INDEX, ADD_KEY, *builds, COPY_OUT, COPY_IN]


INDEX = "bulk_idx"  # an index that is built for comparison, then dropped
STATEMENTS = {
    WITH_KEY: "INSERT INTO {table} SELECT {value} FROM generate_series(1, {rows}) AS n",
    NO_INDEX: "INSERT INTO {table} SELECT {value} FROM generate_series(1, {rows}) AS n",
    ADD_KEY: "ALTER TABLE {table} ADD PRIMARY KEY (id)",
    PLAIN: f"CREATE INDEX {INDEX} ON {{table}} (id)",
    NO_DEDUP: f"CREATE INDEX {INDEX} ON {{table}} (id) WITH (deduplicate_items = off)",
    UNIQUE: f"CREATE UNIQUE INDEX {INDEX} ON {{table}} (id)",
}
DROP_INDEX = f"DROP INDEX IF EXISTS {SCHEMA}.{INDEX}"

# Additional settings. WAL files are not recycled: otherwise, only the first kind would have to create new files.
# Indexes are built without parallel workers.
OWN_SETTINGS = {"wal_recycle": "off", "max_parallel_maintenance_workers": "0"}

# Disk space per row: a table with a char(32) key, its index, the WAL of both, and the file that COPY writes.
BYTES_PER_ROW = 600


class BulkExperiment(Experiment[BulkPlan]):
    question = "Are random keys slower to load in bulk?"
    studies = ("P1",)
    programs = ()
    method = "time and WAL"
    own = OwnRun(leaf_density=True, unseen="CPU time")
    control: Connection
    file: Path

    @classmethod
    def room(cls, plan: BulkPlan) -> tuple[int, str]:
        return max(plan.rows) * BYTES_PER_ROW, f"{max(plan.rows):,} rows with their WAL"

    @classmethod
    def adapt(cls, plan: BulkPlan, can: Capabilities) -> Adapted[BulkPlan]:
        adaptation = super().adapt(plan, can)
        return adaptation.but(
            "Left out: COPY to and from a file. The server would write the file with the rights of "
            "pg_write_server_files, and no statement could remove it.",
            steps=tuple(step for step in plan.steps if step not in (COPY_OUT, COPY_IN)),
        )

    def prepare(self) -> None:
        """Start the server, and create a folder for the file.

        The server uses the page cache, because this experiment does not compare memory sizes.
        """
        self.target.serve(measuring_settings(self.plan.shared_buffers, direct_io=False) | OWN_SETTINGS)
        self.control = self.open_session()
        self.target.create_schema(self.control)
        self.file = self.target.file_folder("copies") / "keys"

    def stages(self) -> list[Stage]:
        return [Stage(partial(self.turns, rows), self.plan.rounds) for rows in sorted(self.plan.rows)]

    def turns(self, rows: int, number: int) -> list[Turn]:
        turns = []
        for kind in self.plan.kinds:
            chosen = [step for step in steps_of(self.plan.seed, rows, kind, number) if step in self.plan.steps]
            turns.append(several(
                {step: STEPS[step][0] for step in chosen}, kind, rows, f"{rows:,} rows: {KINDS[kind].label}",
                lambda kind, step, _seed: self.measure(kind, step, rows), end=self.clear,
            ))  # fmt: skip
        return turns

    def clear(self, kind: str) -> None:
        execute(self.control, *KINDS[kind].removal())
        self.file.unlink(missing_ok=True)

    def measure(self, kind: str, step: str, rows: int) -> Metrics:
        key, counts = KINDS[kind], list[int]()
        execute(self.control, *beforehand(key, step))
        with self.target.from_checkpoint(self.control) as counters, self.target.connect() as session:
            metrics = self.target.timed(session, lambda: counts.append(self.do(session, key, step, rows)))
        check(step, counts[0], rows)
        if step == COPY_OUT:
            with self.file.open("rb") as written:
                os.fsync(written.fileno())  # otherwise, the kernel could write the file back during COPY FROM
            counters["file_bytes"] = self.file.stat().st_size
        return metrics | counters | self.sizes(key, step)

    def do(self, session: Connection, key: KeyKind, step: str, rows: int) -> int:
        if step == COPY_OUT:
            return self.target.copy_out(session, key.table, self.file)
        if step == COPY_IN:
            return self.target.copy_in(session, key.table, self.file)
        value = "n" if key.name == SERIES else ""
        return session.execute(STATEMENTS[step].format(table=key.table, rows=rows, value=value).encode()).rowcount

    def sizes(self, key: KeyKind, step: str) -> Metrics:
        query = f"SELECT pg_total_relation_size('{key.table}'), pg_relation_size('{key.table}')"
        sizes = Metrics(zip(("total_bytes", "table_bytes"), one_row(self.control, query), strict=True))
        if step in LEAVE_KEY:
            sizes |= read_sizes(self.control, key) | read_leaf_density(self.control, key)
        return sizes


def beforehand(key: KeyKind, step: str) -> list[str]:
    """Return the statements that prepare a step. They are not timed.

    The column is NOT NULL before the primary key is added.
    """
    if step in (WITH_KEY, NO_INDEX, COPY_IN):
        return [*key.removal(), *(key.table_statements() if step == NO_INDEX else key.statements())]
    if step in BUILDS:
        return [f"ALTER TABLE {key.table} DROP CONSTRAINT IF EXISTS {key.name}_pkey", DROP_INDEX]
    return [DROP_INDEX] if step == COPY_OUT else []


def check(step: str, counted: int, rows: int) -> None:
    if step not in (ADD_KEY, *BUILDS) and counted != rows:
        raise InorderError(f"{STEPS[step][0]}: {counted:,} rows instead of {rows:,}")


SECONDS = "seconds"
RANDOM, ORDERED = ("random", "random_char"), "v7"  # the kinds that the verdicts compare
CPU = "cpu_seconds"


def sections(result: Result, plan: BulkPlan) -> list[Section]:
    by_rows = []
    for rows in sorted(plan.rows):
        by_rows += [
            replace(steps_section(result, plan, rows, TIMED), main=rows == max(plan.rows)),
            table(f"bulk-ratio-{rows}", f"{short(rows)} rows: time relative to bigint", RATIOS,
                  rows_of(result, plan, rows, (WITH_KEY, NO_INDEX, ADD_KEY, COPY_IN)), how_sure(result)),
            index_section(result, plan, rows),
            steps_section(result, plan, rows, WAL),
            steps_section(result, plan, rows, IMAGES),
            sizes_section(result, plan, rows),
        ]  # fmt: skip
    return [*by_rows, *published_sections(result, words)]


def words(step: str, kind: str) -> str:
    return f"{KINDS[kind].label}, {STEPS[step][1]}" if step else KINDS[kind].label


def verdicts(result: Result, plan: BulkPlan, question: str) -> list[Verdict]:
    rows = max(plan.rows)
    random = next((kind for kind in RANDOM if result.select(WITH_KEY, kind, rows)), RANDOM[0])

    def to_base(metric: str, values: Metric) -> Compared:
        return Compared(metric, KINDS[BASELINE].label, ratios_of(result, WITH_KEY, random, BASELINE, values, rows))

    shown = [(KINDS[kind].label, median_of(result, WITH_KEY, kind, SECONDS, rows), f"kind-{kind}")
             for kind in (BASELINE, ORDERED, random)]  # fmt: skip
    bars = bars_of(shown, lambda seconds: f"{figures(seconds)} s")
    load = f"One INSERT … SELECT inserts {short(rows)} rows after a checkpoint. The only index is the primary key."
    wal = per("wal_bytes", rows)
    plain = ratios_of(result, PLAIN, random, random, SECONDS, rows, base_step=UNIQUE)
    first = "P1 built its plain index first, and this build was the first read of the table"
    published = of_table("P1", "bulk builds")[0].ratio
    keys = f"{short(rows)} {KINDS[random].label} keys"
    built = f"The indexes are built on {keys}. In P1 the factor is {published:.2f}; {first}."
    return [
        *costs(question, [to_base("time", SECONDS), to_base("WAL", wal)], load, bars),
        *costs("Is a plain index slower to build than a unique index?",
               [Compared("time", "a unique index", plain)], built),
    ]  # fmt: skip


def a_row(metric: str, rows: int = 1) -> Metric:
    return lambda run: run.metrics[metric] / (run.rows / rows) if metric in run.metrics else None


TIMED = Figure("seconds", "by the wall clock", number(2), "seconds", value=median(SECONDS))
WAL = Figure("bytes of WAL per row", "pg_stat_wal", number(1), "wal", value=median(a_row("wal_bytes")))
IMAGES = Figure("full-page images per 1,000 rows", "pg_stat_wal", number(2), "fpi",
                value=median(a_row("full_page_images", 1000)))  # fmt: skip


def rows_of(result: Result, plan: BulkPlan, rows: int, steps: Sequence[str] = ("",)) -> list[Row]:
    return [Row(result, step, kind, rows) for step in steps for kind in plan.kinds]


def key(meaning: str) -> Figure:
    return Figure("key", meaning, value=lambda row: KINDS[row.kind].label)


def in_step(figure: Figure, step: str) -> Callable[[Row], Value]:
    return lambda row: figure.value(replace(row, step=step))


def steps_section(result: Result, plan: BulkPlan, rows: int, figure: Figure) -> Section:
    columns = [key("kind of key; the key is the table's only column")]
    columns += [
        Figure(name, f"{label}: {figure.meaning}", figure.show, bar=True, value=in_step(figure, step))
        for step, (label, name) in STEPS.items()
    ]  # fmt: skip
    return table(
        f"bulk-{figure.data}-{rows}", f"{short(rows)} rows: {figure.name}", columns, rows_of(result, plan, rows)
    )


RATIOS = (
    Figure("step", "the step that was timed", value=lambda row: STEPS[row.step][1]),
    key("kind of key"),
    Figure("seconds", "median of the rounds, by the wall clock", number(2), bar=True, value=median(SECONDS)),
    Figure("vs bigint", "ratio to the time of bigint in the same round", ratio, value=to(BASELINE, SECONDS)),
    Figure("CPU vs bigint", "ratio of the CPU time of the server process", ratio, value=to(BASELINE, CPU)),
)  # fmt: skip
WRITTEN_FILE = median(per("file_bytes", MB), COPY_OUT)
SIZES = (
    key("kind of key"),
    Figure("after", "the step that created the primary key", value=lambda row: STEPS[row.step][1]),
    Figure("table MB", "pg_relation_size, without the index", number(1), bar=True,
           value=median(per("table_bytes", MB))),
    Figure("index MB", "pg_relation_size of the primary key", number(1), bar=True,
           value=median(per("index_bytes", MB))),
    Figure("total MB", "pg_total_relation_size", number(1), bar=True, value=median(per("total_bytes", MB))),
    Figure("leaf %", "leaf density of the primary key (pgstatindex)", number(1), value=median("leaf_density")),
    Figure("file MB", "the file that COPY wrote and read", number(1),
           value=lambda row: WRITTEN_FILE(row) if row.step == COPY_IN else None),
)  # fmt: skip


def sizes_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    lines = [Row(result, step, kind, rows) for kind in plan.kinds for step in LEAVE_KEY]
    keyed = [run for step in LEAVE_KEY for run in result.select(step, rows=rows)]
    missing = bool(keyed) and not any("leaf_density" in run.metrics for run in keyed)
    caption = "Leaf density is left out: this server has no pgstattuple." if missing else ""
    return table(f"bulk-sizes-{rows}", f"{short(rows)} rows: sizes", SIZES, lines, caption)


def to_unique(metric: Metric, step: str) -> Reading:
    return to("", metric, step, base_step=UNIQUE)


INTERVAL = number(2, interval=True)
BUILD_FIGURES = (
    key("kind of key"),
    Figure("plain s", "seconds of CREATE INDEX", number(2), bar=True, value=median(SECONDS, PLAIN)),
    Figure("unique s", "seconds of CREATE UNIQUE INDEX", number(2), bar=True, value=median(SECONDS, UNIQUE)),
    Figure("plain : unique", "seconds of plain, relative to unique in the same round; the order of the builds is "
           "random", ratio, value=to_unique(SECONDS, PLAIN)),
    Figure("CPU", "the server's CPU time for plain, relative to unique", INTERVAL, value=to_unique(CPU, PLAIN)),
    Figure("CPU, no dedup", "CPU time for plain WITH (deduplicate_items = off), relative to unique",
           INTERVAL, value=to_unique(CPU, NO_DEDUP)),
    Figure("first : unique", "seconds to add the primary key, relative to unique; adding the key is the first read of "
           "the table", INTERVAL, value=to_unique(SECONDS, ADD_KEY)),
)  # fmt: skip


def index_section(result: Result, plan: BulkPlan, rows: int) -> Section:
    caption = (
        "Since PostgreSQL 13, building a plain btree also looks for duplicates to merge, and building a unique index "
        f"does not. no dedup: a plain btree without deduplication. {how_sure(result)}"
    )
    title = f"{short(rows)} rows: a plain btree and a unique index"
    return table(f"bulk-indexes-{rows}", title, BUILD_FIGURES, rows_of(result, plan, rows), caption)
