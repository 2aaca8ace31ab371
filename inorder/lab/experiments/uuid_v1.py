"""COPY, VACUUM and REINDEX of tables of version-1 UUIDs, in time order and out of time order."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median as middle
from typing import NamedTuple

from inorder.connection.database import Connection, execute, one_row
from inorder.errors import InorderError
from inorder.lab.analysis.figures import median_of, per, ratio_of, ratios_of
from inorder.lab.analysis.stats import LEAST_ROUNDS, Estimate
from inorder.lab.instruments.counters import VERBOSE, index_pages, primary_message, read_leaf_density, read_sizes
from inorder.lab.plan import setting
from inorder.lab.plan.capabilities import THROUGH_HERE, VACUUMED, Adapted, Capabilities, OwnRun
from inorder.lab.plan.keys import KeyKind
from inorder.lab.plan.turn import Metrics, Stage, every_round, several
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Column, Section, Value, data_only, figures
from inorder.lab.report.verdict import Compared, Verdict, bars_of, costs, how_sure
from inorder.lab.results.result import Result
from inorder.lab.run.experiment import Experiment
from inorder.lab.tables.key_files import V1, V7, own, simulated, write_keys, write_numbers
from inorder.lab.targets.server_settings import Small
from inorder.units import MB, short

SUBJECT = "uuid_v1"
BASELINE = "uuid"

KINDS = {
    kind.name: kind
    for kind in (
        KeyKind("uuid_v1", "uuid_v1", "uuid_v1"),
        KeyKind("uuid", "uuid v1", "uuid"),
        KeyKind("uuid_v7", "uuid v7", "uuid"),
        KeyKind("bigint", "bigint", "bigint"),
    )
}

# Steps run in this order. SIZES and SIZES_AFTER read the size of the index, and all other steps are timed and counted.
COPY_FROM = "copy_from"
COPY_MORE = "copy_more"
COPY_TO = "copy_to"
ANALYZE = "analyze"
SIZES = "sizes"
VACUUM_OLDEST = "vacuum_oldest"
VACUUM_RANDOM = "vacuum_random"
REINDEX = "reindex"
SIZES_AFTER = "sizes_after"
RECENT = "recent"
STEPS = {  # the description of each step, and a name that is short enough for a table in a terminal with 80 columns
    COPY_FROM: ("COPY FROM", "COPY FROM"),
    COPY_MORE: ("COPY FROM of the next 10 %", "next 10 %"),
    COPY_TO: ("COPY TO", "COPY TO"),
    ANALYZE: ("ANALYZE", "ANALYZE"),
    SIZES: ("index size", "index"),
    VACUUM_OLDEST: ("VACUUM after deleting the oldest 10 %", "VACUUM oldest"),
    VACUUM_RANDOM: ("VACUUM after deleting a random 10 %", "VACUUM random"),
    REINDEX: ("REINDEX", "REINDEX"),
    SIZES_AFTER: ("index size afterwards", "index then"),
    RECENT: ("count of the newest tenth by time", "newest tenth"),
}
VACUUMS = (VACUUM_OLDEST, VACUUM_RANDOM)


@dataclass(frozen=True, kw_only=True)
class UuidV1Plan(setting.Plan):
    kinds: tuple[str, ...] = setting.choices(
        "Kinds of key, comma-separated.", tuple(KINDS), flag="--keys", label=lambda kind: KINDS[kind].label
    )
    rows: int = setting.count(
        "Rows of the first COPY; the second COPY has a tenth as many.", 1000, 10**10, 10_000_000, quick=1_000_000,
        full=200_000_000,
    )  # fmt: skip
    nodes: int = setting.count("Number of nodes.", 1, 1000, 9)
    lag: float = setting.duration("Time by which the clock of the slowest node is behind.", 0, lowest=0)
    file: str = setting.file("Version-1 UUIDs, one per line in the order of arrival. Default: simulated UUIDs.")
    rounds: int = setting.rounds(1)
    memory_bytes: int = setting.memory(128 * MB)
    max_wal_size: int | None = setting.optional_bytes(
        "max_wal_size while measuring, to limit the WAL on the disk. Default: WAL causes no checkpoint.", 32 * MB
    )

    @property
    def more_rows(self) -> int:
        return self.rows // 10

    @property
    def total(self) -> int:
        return self.rows + self.more_rows


STATEMENTS = {ANALYZE: "ANALYZE {table}", REINDEX: "REINDEX INDEX {index}", **dict.fromkeys(VACUUMS, VERBOSE)}

# No parallel workers build indexes or count rows. Any session may change these settings.
SESSION_SETTINGS = {"max_parallel_maintenance_workers": "0", "max_parallel_workers_per_gather": "0"}

# Additional settings. WAL files are not recycled: otherwise, only the first kind would have to create new files.
OWN_SETTINGS = {"wal_recycle": "off"} | SESSION_SETTINGS

# For each kind of key, an expression for its time, and the comparison in a query by time: with the key itself, or with
# a column.
CREATED_AT = "created_at >="
TIMES = {
    "uuid_v1": ("uuid_v1_get_timestamp(id)", "id >=~"),
    "uuid_v7": ("uuid_v7_time(id)", "id >=~"),
    "uuid": ("uuid_v1_get_timestamp(id::uuid_v1)", CREATED_AT),
}
QUERIES = 5
YEAR = 365 * 86_400  # the keys are spread over this number of seconds

# The data set for each kind of key. uuid_v1 and uuid have identical values.
NUMBERS = "numbers"
SETS = {"uuid_v1": V1, "uuid": V1, "uuid_v7": V7, "bigint": NUMBERS}

FILE_BYTES_PER_ROW = 37  # a line with a UUID; only one kind of key is in files at a time
BYTES_PER_ROW = 320  # key files, and the largest table with indexes and WAL: 302 bytes per row with a million rows


class UuidV1Experiment(Experiment[UuidV1Plan]):
    question = "Do version-1 UUIDs cost more if they are not in time order?"
    studies = ("P4",)
    programs = ()
    own = OwnRun(reads_vacuum=True, leaf_density=True, otherwise=f"{THROUGH_HERE} {VACUUMED}")
    control: Connection
    folder: Path

    @classmethod
    def room(cls, plan: UuidV1Plan) -> tuple[int, str]:
        return plan.rows * BYTES_PER_ROW, f"{plan.rows:,} rows, their files and their WAL"

    @classmethod
    def adapt(cls, plan: UuidV1Plan, can: Capabilities) -> Adapted[UuidV1Plan]:
        adaptation = super().adapt(plan, can)
        if not can.has_inorder:
            raise can.no_inorder("the type uuid_v1 needs it")
        return adaptation

    def prepare(self) -> None:
        wal = self.plan.max_wal_size
        settings = OWN_SETTINGS | ({"max_wal_size": f"{wal // MB}MB"} if wal else {})
        self.target.serve_small(Small(self.plan.memory_bytes), settings)
        self.control = self.open_session(**SESSION_SETTINGS)
        self.target.create_schema(self.control)
        self.folder = self.target.file_folder("keys", self.plan.total * FILE_BYTES_PER_ROW)

    def connection(self) -> Connection:
        return self.target.connect(**SESSION_SETTINGS)

    def stages(self) -> list[Stage]:
        labels = {step: label for step, (label, _) in STEPS.items()}
        turns = [
            several(labels, kind, self.plan.rows, key.label, self.measure, self.create, self.drop)
            for kind, key in KINDS.items() if kind in self.plan.kinds
        ]  # fmt: skip
        return [Stage(every_round(turns), self.plan.rounds, whole=False)]

    def write_keys(self, kind: str) -> None:
        plan, name = self.plan, SETS[kind]
        self.progress.step(f"{KINDS[kind].label}: writing {plan.total:,} keys to files")
        if name == NUMBERS:
            write_numbers(plan.rows, plan.total, self.files)
        elif plan.file:
            write_keys(own(name, Path(plan.file), plan.total, plan.seed), plan.rows, self.files)
        else:
            write_keys(simulated(name, plan.total, YEAR, plan.nodes, plan.lag, plan.seed), plan.rows, self.files)
        os.sync()  # otherwise, the files would be written back while COPY is measured

    @property
    def files(self) -> tuple[Path, Path]:
        return self.folder / COPY_FROM, self.folder / COPY_MORE

    def create(self, kind: str) -> None:
        """Create an empty table without autovacuum, so that only the measured VACUUM frees pages."""
        self.write_keys(kind)
        key = KINDS[kind]
        execute(self.control, *key.statements(), f"ALTER TABLE {key.table} SET (autovacuum_enabled = off)")

    def drop(self, kind: str) -> None:
        self.control.execute(f"DROP TABLE {KINDS[kind].table}".encode())
        for file in self.files:
            file.unlink()

    def measure(self, kind: str, step: str, _seed: int) -> Metrics:
        key = KINDS[kind]
        if step in (SIZES, SIZES_AFTER):
            return read_sizes(self.control, key) | read_leaf_density(self.control, key)
        if step == RECENT:
            return self.count_recent(kind)
        deleted = self.delete(key, step) if step in VACUUMS else {}
        notices: list[str] = []
        with self.target.from_checkpoint(self.control, key) as counters, self.connection() as session:
            session.add_notice_handler(primary_message(notices))
            started = time.perf_counter()
            rows = self.do(session, key, step)
            counters["seconds"] = time.perf_counter() - started
        self.check_copied(step, rows)
        if step in (COPY_FROM, COPY_MORE) and "index_hits" in counters:
            counters["blocks_per_row"] = (counters["index_hits"] + counters["index_reads"]) / rows
        if step in VACUUMS:
            counters["pages_freed"] = index_pages(notices)["newly_deleted"]
        return deleted | counters

    def count_recent(self, kind: str) -> Metrics:
        """Time a count by the key, or by an indexed column, and return the median of several queries."""
        if kind not in TIMES:
            return {}
        table, (moment, compared), metrics = KINDS[kind].table, TIMES[kind], Metrics()
        with self.connection() as session:
            if compared == CREATED_AT:
                created = f"{table}_created"
                statement = f"CREATE TABLE {created} AS SELECT id, {moment} AS created_at FROM {table}"
                execute(session, statement, f"CREATE INDEX ON {created} (created_at)")
                table, moment = created, "created_at"
                metrics["time_index_bytes"] = float(one_row(session, f"SELECT pg_indexes_size('{created}')")[0])
            session.execute(f"VACUUM (ANALYZE) {table}".encode())
            newest = f"(SELECT max({moment}) - (max({moment}) - min({moment})) / 10 FROM {table})"
            (since,) = one_row(session, f"SELECT quote_literal({newest})")
            query = f"SELECT count(*) FROM {table} WHERE {compared} {since}::timestamptz"
            seconds = []
            for _ in range(QUERIES):
                started = time.perf_counter()
                metrics["found"] = float(one_row(session, query)[0])
                seconds.append(time.perf_counter() - started)
            if compared == CREATED_AT:
                session.execute(f"DROP TABLE {table}".encode())
        return metrics | {"seconds": middle(seconds)}

    def do(self, session: Connection, key: KeyKind, step: str) -> int:
        if step in (COPY_FROM, COPY_MORE):
            return self.target.copy_in(session, key.table, self.folder / step)
        if step == COPY_TO:
            return self.target.copy_out(session, key.table, None)
        return session.execute(STATEMENTS[step].format(table=key.table, index=key.index).encode()).rowcount

    def check_copied(self, step: str, rows: int) -> None:
        expected = {COPY_FROM: self.plan.rows, COPY_MORE: self.plan.more_rows, COPY_TO: self.plan.total}
        if step in expected and rows != expected[step]:
            raise InorderError(f"{STEPS[step][0]} copied {rows:,} rows instead of {expected[step]:,}")

    def delete(self, key: KeyKind, step: str) -> Metrics:
        with self.connection() as session:
            # A random tenth is chosen by hashing the ctid, which follows the order of arrival. The same rows are
            # therefore deleted from all uuid tables.
            random_tenth = f"(hashtidextended(ctid, {self.plan.seed}) & 2147483647) % 10 = 0"
            chosen = self.oldest(session, key) if step == VACUUM_OLDEST else random_tenth
            return {"deleted": session.execute(f"DELETE FROM {key.table} WHERE {chosen}".encode()).rowcount}

    def oldest(self, session: Connection, key: KeyKind) -> str:
        """Return a condition for the tenth of the rows that arrived first.

        COPY stores rows in the order of arrival, and the same number of rows on every page.
        """
        (on_first_page,) = one_row(session, f"SELECT count(*) FROM {key.table} WHERE ctid < '(1,0)'")
        block, before = divmod(self.plan.total // 10 - 1, on_first_page)
        return f"ctid <= '({block},{before + 1})'"


MOST_SHOWN = 1000  # with a higher ratio, the divisor is almost 0


class Measure(NamedTuple):
    """A metric of a step, with its unit. ``inner``: the line belongs to the line above it."""

    metric: str
    unit: str
    scale: float = 1.0
    inner: bool = False


SECONDS = Measure("seconds", "s")
COUNTED = (
    Measure("wal_bytes", "WAL, MB", MB, inner=True),
    Measure("full_page_images", "FPI, k", 1000.0, inner=True),
    Measure("index_reads", "reads, k", 1000.0, inner=True),
)
FREED = Measure("pages_freed", "pages freed", inner=True)
BLOCKS = Measure("blocks_per_row", "blocks/row", inner=True)
QUERY = Measure("seconds", "ms", 0.001)
TIME_INDEX = Measure("time_index_bytes", "its index, MB", MB, inner=True)
SIZE = (Measure("index_bytes", "MB", MB), Measure("leaf_density", "leaf, %", inner=True))

# The table shows counted metrics only for these steps. The data contain them for all steps.
COUNTED_STEPS = (COPY_FROM, COPY_MORE, *VACUUMS)

MEANINGS = {
    "uuid_v1": "version-1 UUIDs in the type that sorts them by time",
    "uuid": "the same values in the built-in type",
    "uuid_v7": "version-7 UUIDs of the same times in the built-in type",
    "bigint": "a counter",
}


def measures(step: str) -> tuple[Measure, ...]:
    if step in (SIZES, SIZES_AFTER):
        return SIZE
    if step == RECENT:
        return (QUERY, TIME_INDEX)
    if step in (COPY_FROM, COPY_MORE):
        return (SECONDS, *COUNTED, BLOCKS)
    return (SECONDS, *COUNTED, *([FREED] if step in VACUUMS else []))


def line_of(result: Result, step: str, measure: Measure) -> list[Value]:
    medians = [median_of(result, step, kind, per(measure.metric, measure.scale)) for kind in KINDS]
    if not any(medians):
        return []
    ratio = ratio_of(result, step, BASELINE, SUBJECT, measure.metric)
    label = f"  {measure.unit}" if measure.inner else f"{STEPS[step][1]}, {measure.unit}"
    return [label, step, measure.metric, measure.unit, *medians, ratio]


def lines_of(result: Result, aside: bool) -> list[list[Value]]:
    step_measures = [
        (step, measure) for step in STEPS for measure in measures(step)
        if aside == (measure in COUNTED and step not in COUNTED_STEPS)
    ]  # fmt: skip
    return [line for step, measure in step_measures if (line := line_of(result, step, measure))]


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
        "uuid v1: the same values as uuid_v1, in the built-in type. ratio: uuid v1 relative to uuid_v1; above 1, "
        "uuid_v1 takes less. FPI: full-page images. reads: index blocks not found in shared buffers. blocks/row: index "
        "blocks that an insert accessed, 1 with the btree's fastpath. newest tenth: a count by the time in the key "
        "(>=~) or, for uuid v1, by an indexed column created_at. k: thousands. "
        f"{how_sure(result)}"
    )


def columns() -> list[Column]:
    medians = [
        Column(kind.label, f"Median of the rounds: {MEANINGS[name]}.", figures, name, bar=True)
        for name, kind in KINDS.items()
    ]
    ratio = (
        "uuid v1 relative to uuid_v1 in the same round: median, and in brackets its interval or, with fewer than "
        f"{LEAST_ROUNDS} rounds, the range. Empty if the value of uuid_v1 is 0."
    )
    before = [Column("", "The step, and the metric.", data="label"), *map(data_only, ("step", "metric", "unit"))]
    return [*before, *medians, Column("ratio", ratio, ratio_text)]


def sections(result: Result, plan: UuidV1Plan) -> list[Section]:
    shown, aside = lines_of(result, aside=False), lines_of(result, aside=True)
    aside = [[f"{STEPS[str(line[1])][1]}, {line[3]}", *line[1:]] for line in aside]
    title = f"A table of {short(plan.rows)} + {short(plan.more_rows)} rows, by kind of key"
    measured = [
        Section("steps", title, columns(), shown, caption(result), across=True),
        Section("counters", "Counters of the other steps", columns(), aside, terminal=False, across=True),
    ]
    return [*(section for section in measured if section.rows), *published_sections(result, words)]


def words(step: str, kind: str) -> str:
    return f"{STEPS[step][1]}, {KINDS[kind].label}" if step else KINDS[kind].label


def verdicts(result: Result, plan: UuidV1Plan, question: str) -> list[Verdict]:
    base = KINDS[SUBJECT].label
    compared = [
        Compared("WAL", base, ratios_of(result, COPY_FROM, BASELINE, SUBJECT, "wal_bytes"), counted=True),
        Compared("time", base, ratios_of(result, COPY_FROM, BASELINE, SUBJECT, SECONDS.metric)),
    ]
    shown = ((kind.label, median_of(result, COPY_FROM, name, SECONDS.metric), f"kind-{name}")
             for name, kind in KINDS.items() if name != "bigint")  # fmt: skip
    lag = f", clocks up to {plan.lag:g} s apart" if plan.lag else ""
    origin = f"of {Path(plan.file).name}" if plan.file else f"from {plan.nodes} nodes{lag}"
    holds = f"COPY loads {short(plan.rows)} rows {origin} after a checkpoint. The only index is the primary key."
    return costs(question, compared, holds, bars_of(shown, lambda seconds: f"{figures(seconds)} s"))
