"""Forms of writing a log. Each form creates its tables, and returns the pgbench script of a writer and the table names.

In forms with a table or partition for each writer, the number of the writer is pgbench's :client_id, starting with 0. A
session that writes into several tables draws the number of a writer for each transaction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inorder.lab.plan import setting
from inorder.lab.plan.keys import SCHEMA
from inorder.lab.tables.log_tables import BY_UUID, COLUMNS, SERIAL, create, insert, values

TABLE = f"{SCHEMA}.log"
CACHE = f"ALTER SEQUENCE {TABLE}_id_seq CACHE 1000"

# The columns of the log table, including the number of the writer.
NUMBERED = f"id bigserial, writer int NOT NULL, {COLUMNS}"

# A number that other programs are unlikely to use, because all programs in a database share its advisory locks.
LOCK_NUMBER = int.from_bytes(b"inorder ", "big")
LOCKED = f"SELECT pg_advisory_lock({LOCK_NUMBER})"
DISCARDED = "DISCARD SEQUENCES"
UNLOCKED = "SELECT pg_advisory_unlock_all()"

BASELINE = "plain"
CACHED = "cached"
OWN_TABLE = "own_table"
PARTITION_APPLICATION = "partition_application"
PARTITION_NATIVE = "partition_native"
PARTITION_TRIGGER = "partition_trigger"
LOCK = "lock"
LOCK_CACHED = "lock_cached"
LOCK_KEPT = "lock_kept"
XACT = "xact"

# The statements of a transaction in each of these forms. In all other forms, a transaction is a single INSERT.
STATEMENTS = {
    LOCK: ("lock", "discard", "insert", "unlock"),
    LOCK_CACHED: ("lock", "discard", "insert", "unlock"),
    LOCK_KEPT: ("lock", "insert", "unlock"),
}
# In these forms, the writers of a table take turns, so that readers can poll by id without losing rows.
TABLE_FORMS = (OWN_TABLE, PARTITION_APPLICATION, PARTITION_NATIVE, PARTITION_TRIGGER)  # a table for each writer
SERIAL_FORMS = (*TABLE_FORMS, LOCK, LOCK_CACHED)
ALONE_FORMS = (BASELINE, CACHED)  # forms that are also measured with a single writer


def own(writer: int) -> str:
    return f"{TABLE}_{writer}"


def own_tables(writers: int) -> list[str]:
    return [own(writer) for writer in range(writers)]


def numbered_insert(table: str, rows: int, writer: int | str) -> str:
    if rows == 1:
        return f"INSERT INTO {table} (writer, c1) VALUES ({writer}, 1)"
    # The number of the writer is a parameter only once, and not in each row, because a pgbench statement may have at
    # most 256 parameters.
    cast = "::int" if isinstance(writer, str) else ""
    return f"INSERT INTO {table} (writer, c1) SELECT {writer}{cast}, c1 FROM ({values(rows)}) AS rows (c1)"


def by_writer(statements: Sequence[str], first: int = 0) -> list[str]:
    """Return a script with a statement for each writer, because pgbench cannot put variables into table names.

    The statement is selected by bisection: with 512 statements, pgbench makes nine comparisons.
    """
    if len(statements) == 1:
        return [f"{statements[0]};"]
    half = len(statements) // 2
    lower, upper = by_writer(statements[:half], first), by_writer(statements[half:], first + half)
    return [f"\\if :client_id < {first + half}", *lower, "\\else", *upper, "\\endif"]


def any_writer(tables: int) -> str:
    """Return a line of a pgbench script that picks one of several writers at random."""
    return f"\\set client_id random(0, {tables - 1})"


@dataclass(frozen=True)
class WriterForm:
    """A form of writing. Each function takes the number of writers. ``script`` also takes the rows per statement."""

    label: str
    setup: Callable[[int], list[str]]
    script: Callable[[int, int], list[str]]
    tables: Callable[[int], list[str]]


def one_table(
    label: str, *after: str, before: Sequence[str] = (), behind: Sequence[str] = (), key: str = SERIAL
) -> WriterForm:
    """Return a form with one table.

    ``after`` runs after CREATE TABLE. ``before`` and ``behind`` run before and after INSERT.
    """
    return WriterForm(
        label,
        lambda _writers: [create(TABLE, key), *after],
        lambda _writers, rows: [f"{line};" for line in (*before, insert(TABLE, rows), *behind)],
        lambda _writers: [TABLE],
    )


def partitioned(writers: int) -> list[str]:
    """Return SQL for a table with a partition for each writer.

    Each partition has its own primary key, like a separate table.
    """
    statements = [f"CREATE TABLE {TABLE} ({NUMBERED}) PARTITION BY LIST (writer)"]
    for writer in range(writers):
        statements.append(
            f"CREATE TABLE {own(writer)} PARTITION OF {TABLE} (PRIMARY KEY (id)) FOR VALUES IN ({writer})"
        )
    return statements


def inherited(writers: int) -> list[str]:
    """Return SQL for a table that stays empty, and a child for each writer, to which a trigger redirects the rows."""
    cases = "\n".join(
        f"        WHEN {writer} THEN INSERT INTO {own(writer)} VALUES (NEW.*);" for writer in range(writers)
    )
    return [
        f"CREATE TABLE {TABLE} ({NUMBERED})",
        *(
            f"CREATE TABLE {own(writer)} (PRIMARY KEY (id), CHECK (writer = {writer})) INHERITS ({TABLE})"
            for writer in range(writers)
        ),
        f"CREATE FUNCTION {SCHEMA}.route() RETURNS trigger LANGUAGE plpgsql AS $$\n"
        f"BEGIN\n    CASE NEW.writer\n{cases}\n    END CASE;\n    RETURN NULL;\nEND $$",
        f"CREATE TRIGGER route BEFORE INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.route()",
    ]


def removal(writers: int) -> list[str]:
    tables = ", ".join([TABLE, *own_tables(writers)])
    return [f"DROP TABLE IF EXISTS {tables} CASCADE", f"DROP FUNCTION IF EXISTS {SCHEMA}.route()"]


def numbered(label: str, setup: Callable[[int], list[str]]) -> WriterForm:
    return WriterForm(
        label, setup, lambda _writers, rows: [numbered_insert(TABLE, rows, ":client_id") + ";"], own_tables
    )


FORMS = {
    BASELINE: one_table("one table"),
    CACHED: one_table("CACHE 1000", CACHE),
    OWN_TABLE: WriterForm(
        "table per writer",
        lambda writers: [create(table, SERIAL) for table in own_tables(writers)],
        lambda writers, rows: by_writer([insert(table, rows) for table in own_tables(writers)]),
        own_tables,
    ),
    PARTITION_APPLICATION: WriterForm(
        "partition, application",
        partitioned,
        lambda writers, rows: by_writer(
            [numbered_insert(table, rows, writer) for writer, table in enumerate(own_tables(writers))]
        ),
        own_tables,
    ),
    PARTITION_NATIVE: numbered("partition, native", partitioned),
    PARTITION_TRIGGER: numbered("partition, trigger", inherited),
    LOCK: one_table("lock + DISCARD", before=(LOCKED, DISCARDED), behind=(UNLOCKED,)),
    LOCK_CACHED: one_table("lock + DISCARD, CACHE 1000", CACHE, before=(LOCKED, DISCARDED), behind=(UNLOCKED,)),
    LOCK_KEPT: one_table("lock, CACHE 1000", CACHE, before=(LOCKED,), behind=(UNLOCKED,)),
    XACT: one_table("uuid_xact_nextval()", f"SELECT feed_enable('{TABLE}'::regclass, NULL::name)", key=BY_UUID),
}


@dataclass(frozen=True, kw_only=True)
class WritersPlan(setting.Plan):
    forms: tuple[str, ...] = setting.choices(
        "Forms of writing, comma-separated.", tuple(FORMS),
        needs_inorder=lambda form: form == XACT, label=lambda form: FORMS[form].label,
    )  # fmt: skip
    clients: tuple[int, ...] = setting.counts(
        "Numbers of sessions that write at the same time, comma-separated.", 2, 90, (16,), sessions=True
    )
    tables: tuple[int, ...] = setting.counts(
        "Numbers of tables or partitions among which one session chooses at random, comma-separated; instead of "
        "--clients.",
        2, 1024, (),
    )  # fmt: skip
    seconds: int = setting.seconds(5, quick=1, full=20)
    rounds: int = setting.rounds(6, quick=2, full=9)
    threads: int = setting.threads()
