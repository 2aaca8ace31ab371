"""The tables of the feed experiment, the statements that write and read them, and the queries on them."""

from dataclasses import dataclass

from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.tables import log_tables
from inorder.lab.tables.log_tables import BATCH_ROWS, BY_UUID, SERIAL

# The ways to write rows: one row or many rows per statement. Each statement is a transaction.
SINGLE = "write_single"
BATCH = "write_batch"
WRITES = {SINGLE: "one row a statement", BATCH: f"{BATCH_ROWS} rows a statement"}


@dataclass(frozen=True)
class LogForm:
    """A log table with one form of key. Tables without a guard are never read.

    ``indexed``: the second column has an index.
    """

    label: str
    key: str
    indexed: bool = False
    guarded: bool = False

    def statements(self, table: str) -> list[str]:
        indexes = [f"CREATE INDEX ON {table} (xact) WHERE xact > 0"] if self.indexed else []
        return [log_tables.create(table, self.key), *indexes]


BY_DEFAULT = f"{SERIAL}, xact bigint NOT NULL DEFAULT xact_id()"
BY_GENERATED = f"{SERIAL}, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED"

WRITE_BASELINE = "bigserial"
UUID = "uuid"
NUMBER = "number"
WRITTEN = {
    WRITE_BASELINE: LogForm("bigserial", SERIAL),
    "uuid_unguarded": LogForm("uuid, no guard", BY_UUID),
    UUID: LogForm("uuid", BY_UUID, guarded=True),
    "number_unguarded": LogForm("xact, no guard", BY_DEFAULT, indexed=True),
    NUMBER: LogForm("xact", BY_DEFAULT, indexed=True, guarded=True),
    "number_generated": LogForm("generated", BY_GENERATED, indexed=True, guarded=True),
}
FORMS = (UUID, NUMBER)  # the keys of the large tables, which are also read

# The ways to read new rows into one of the two summaries.
READ_SECONDS = "read_seconds"
READ_ROWS = "read_rows"
SUMMARIES = {READ_SECONDS: "aggregated by second", READ_ROWS: "copied row by row"}
READ_BASELINE = "plain"
READERS = {
    READ_BASELINE: "WHERE id > … AND id <= …",
    "uuid_apply": "feed_apply, uuid",
    "uuid_read": "feed_read, uuid",
    "number_apply": "feed_apply, xact",
    "number_read": "feed_read, xact",
}


@dataclass(frozen=True)
class Query:
    """A query on a large table: the calls per sample, a label, and the target in milliseconds for 20 million rows."""

    calls: int
    label: str
    target_ms: float | None = None


# The queries run in this order, because each count needs more new rows than the previous one.
IDLE = "idle"
PIECE = "piece"
NEW = "new"
COUNT_STAR = "count_star"
COUNT = "count"
COUNT_FEW = "count_few"
COUNT_MANY = "count_many"
QUERIES = {
    IDLE: Query(300, "feed_read, nothing new", 0.2),
    PIECE: Query(9, "feed_read, {} rows", 10.0),
    NEW: Query(2, "feed_read, all {} new"),
    COUNT_STAR: Query(1, "count(*)"),
    COUNT: Query(300, "exact_count, just folded", 0.1),
    COUNT_FEW: Query(200, "exact_count, {} since", 0.25),
    COUNT_MANY: Query(9, "exact_count, {} since", 20.0),
}
SINCE_FOLD = (COUNT, COUNT_FEW, COUNT_MANY)
START = {IDLE: "now", PIECE: "beginning"}  # the position to which a feed is set before the query
OTHER_COUNT = dict.fromkeys(SINCE_FOLD, COUNT_STAR) | {COUNT_STAR: COUNT}  # the query with the same expected result

# The two states: a transaction older than the new rows is open, or all transactions have ended.
HELD = "held"
ENDED = "ended"


def query_kind(form: str, state: str) -> str:
    return f"{form}_{HELD}" if state == HELD else form


def log_table(kind: str) -> str:
    return f"{SCHEMA}.log_{kind}"


@dataclass(frozen=True)
class Summary:
    """A table that receives the rows: its columns, their expressions, GROUP BY, and an expression for the row count."""

    columns: str
    selected: str
    grouped: str
    total: str

    def fill_from(self, source: str) -> str:
        return f"INSERT INTO {SCHEMA}.summary SELECT {self.selected} FROM {source}{self.grouped}"


SUMMARY_TABLES = {
    READ_SECONDS: Summary(
        "second timestamp, rows bigint, total bigint",
        "date_trunc('second', c11), count(*), sum(c1)",
        " GROUP BY 1",
        "sum(rows)",
    ),
    READ_ROWS: Summary("at timestamp, number int, word text", "c11, c1, c5", "", "count(*)"),
}


def reading(summary: Summary, kind: str, bounds: tuple[int, int]) -> str:
    form, _, function = kind.partition("_")
    if function == "apply":
        return f"SELECT feed_apply('{form}', $${summary.fill_from('batch')}$$)"
    if function == "read":
        return summary.fill_from(f"feed_read('{form}', null::{log_table(form)})")
    low, high = bounds
    return summary.fill_from(f"{log_table(WRITE_BASELINE)} WHERE id > {low} AND id <= {high}")


def question(step: str, form: str, rows: int) -> str:
    table = log_table(form)
    if step == COUNT_STAR:
        return f"SELECT count(*) FROM {table}"
    if step in SINCE_FOLD:
        return f"SELECT exact_count('{table}')"
    limit = f", {rows}" if step == PIECE else ""
    return f"SELECT count(*) FROM feed_read('{form}', null::{table}{limit})"


@dataclass(frozen=True, kw_only=True)
class FeedPlan(setting.Plan):
    rows: int = setting.count("Rows of each table before the queries.", 10_000, 10**10, 20_000_000, quick=200_000)
    rounds: int = setting.rounds(6, quick=3, full=9)

    @property
    def read_rows(self) -> int:
        return min(1_000_000, self.rows // 2)

    @property
    def new_rows(self) -> int:
        return min(500_000, self.rows // 2)

    @property
    def written(self) -> dict[str, int]:
        return {SINGLE: min(50_000, self.rows // 20), BATCH: BATCH_ROWS * min(200, self.rows // 5000)}

    @property
    def queried(self) -> dict[str, int]:
        return {
            IDLE: 0,
            PIECE: min(10_000, self.rows // 10),
            NEW: self.new_rows,
            COUNT_STAR: self.rows,
            COUNT: 0,
            COUNT_FEW: min(1000, self.rows // 100),
            COUNT_MANY: min(100_000, self.rows // 10),
        }
