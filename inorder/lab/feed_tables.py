"""The tables of the feed experiment: a log of 256 bytes a row in every form, and summaries of it."""

from dataclasses import dataclass

from inorder.lab.experiments.feed import (
    BRIN,
    COUNT,
    COUNT_FEW,
    COUNT_MANY,
    COUNT_STAR,
    PIECE,
    READ_ROWS,
    READ_SECONDS,
    UUID,
    WRITE_BASELINE,
)
from inorder.lab.keys import SCHEMA
from inorder.lab.log_tables import BATCH_ROWS, BY_UUID, COLUMNS, SERIAL

WRITE_ONE = "INSERT INTO {table} (c1) VALUES (1)"
WRITE_MANY = f"INSERT INTO {{table}} (c1) SELECT 1 FROM generate_series(1, {BATCH_ROWS})"

ARRIVE = """
CREATE PROCEDURE {schema}.arrive_{name}(transactions int, each int) LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1 .. transactions LOOP
        INSERT INTO {table} (c1) SELECT 1 FROM generate_series(1, each);
        COMMIT;
    END LOOP;
END $$"""


@dataclass(frozen=True)
class LogForm:
    """A log table by its key: the columns before the others, whether a BRIN index is on the second, its guard."""

    key: str
    brin: bool = False
    guarded: bool = False

    def statements(self, table: str) -> list[str]:
        """The SQL that makes the empty table."""
        indexes = [f"CREATE INDEX ON {table} USING brin (xact) WITH (autosummarize = on)"] if self.brin else []
        return [f"CREATE TABLE {table} ({self.key}, {COLUMNS})", *indexes]


BY_DEFAULT = f"{SERIAL}, xact bigint NOT NULL DEFAULT xact_id()"
BY_GENERATED = f"{SERIAL}, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED"

LOG_FORMS = {
    WRITE_BASELINE: LogForm(SERIAL),
    "uuid_unguarded": LogForm(BY_UUID),
    UUID: LogForm(BY_UUID, guarded=True),
    "brin_unguarded": LogForm(BY_DEFAULT, brin=True),
    BRIN: LogForm(BY_DEFAULT, brin=True, guarded=True),
    "generated": LogForm(BY_GENERATED, brin=True, guarded=True),
}


def log_table(kind: str) -> str:
    """The large table of a form.

    >>> log_table("uuid")
    'inorder_lab.log_uuid'
    """
    return f"{SCHEMA}.log_{kind}"


def arrivals(kind: str) -> str:
    """The procedure that lets rows arrive in it, many small transactions in one call."""
    return ARRIVE.format(schema=SCHEMA, name=kind, table=log_table(kind))


@dataclass(frozen=True)
class Summary:
    """What rows are read into: its columns, what is selected of the rows, and how many rows it stands for."""

    columns: str
    selected: str
    grouped: str
    total: str

    def fill_from(self, source: str) -> str:
        """The statement that fills it."""
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
    """The statement by which a reader fills a summary; bounds are those of the plain one's ids.

    >>> reading(Summary("", "c1", "", ""), "uuid_apply", (1, 2))
    "SELECT feed_apply('uuid', $$INSERT INTO inorder_lab.summary SELECT c1 FROM batch$$)"
    >>> reading(Summary("", "c1", "", ""), "brin_read", (1, 2))
    "INSERT INTO inorder_lab.summary SELECT c1 FROM feed_read('brin', null::inorder_lab.log_brin)"
    """
    form, _, function = kind.partition("_")
    if function == "apply":
        return f"SELECT feed_apply('{form}', $${summary.fill_from('batch')}$$)"
    if function == "read":
        return summary.fill_from(f"feed_read('{form}', null::{log_table(form)})")
    low, high = bounds
    return summary.fill_from(f"{log_table(WRITE_BASELINE)} WHERE id > {low} AND id <= {high}")


def question(step: str, form: str, rows: int) -> str:
    """What a look asks.

    >>> question(PIECE, "uuid", 10)
    "SELECT count(*) FROM feed_read('uuid', null::inorder_lab.log_uuid, 10)"
    >>> question(COUNT, "uuid", 0), question(COUNT_STAR, "uuid", 0)
    ("SELECT exact_count('inorder_lab.log_uuid')", 'SELECT count(*) FROM inorder_lab.log_uuid')
    """
    table = log_table(form)
    if step == COUNT_STAR:
        return f"SELECT count(*) FROM {table}"
    if step in (COUNT, COUNT_FEW, COUNT_MANY):
        return f"SELECT exact_count('{table}')"
    limit = f", {rows}" if step == PIECE else ""
    return f"SELECT count(*) FROM feed_read('{form}', null::{table}{limit})"
