"""The tables of each form of writing, what a writer says to the server, and where its rows are.

Each writer of a form with tables or partitions of its own has the number that
pgbench gives to it as :client_id, from 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inorder.lab.experiments.feed import UUID, WRITE_BASELINE
from inorder.lab.experiments.writers import (
    BASELINE,
    CACHED,
    LOCK,
    LOCK_CACHED,
    LOCK_KEPT,
    OWN_TABLE,
    PARTITION_APPLICATION,
    PARTITION_NATIVE,
    PARTITION_TRIGGER,
    XACT,
)
from inorder.lab.feed_tables import COLUMNS, LOG_FORMS, SERIAL, WRITE_MANY, WRITE_ONE
from inorder.lab.keys import SCHEMA

TABLE = f"{SCHEMA}.log"
SEQUENCE = f"{TABLE}_id_seq"
CACHE = f"ALTER SEQUENCE {SEQUENCE} CACHE 1000"

# The writer's number beside the columns of the log table.
NUMBERED = f"id bigserial, writer int NOT NULL, {COLUMNS}"

# A number that nobody else is likely to take: advisory locks are the whole database's, and it may be the user's.
LOCK_NUMBER = int.from_bytes(b"inorder ", "big")
LOCKED = f"SELECT pg_advisory_lock({LOCK_NUMBER})"
DISCARDED = "DISCARD SEQUENCES"
UNLOCKED = "SELECT pg_advisory_unlock_all()"


def own(writer: int) -> str:
    """The table or partition of one writer.

    >>> own(3)
    'inorder_lab.log_3'
    """
    return f"{TABLE}_{writer}"


def plain_insert(table: str, rows: int) -> str:
    """An INSERT of so many rows.

    >>> plain_insert("log", 1)
    'INSERT INTO log (c1) VALUES (1)'
    """
    return (WRITE_ONE if rows == 1 else WRITE_MANY).format(table=table)


def numbered_insert(table: str, rows: int, writer: int | str) -> str:
    """An INSERT of so many rows that say whose they are.

    >>> numbered_insert("log", 1, 3), numbered_insert("log", 600, ":client_id")
    ('INSERT INTO log (writer, c1) VALUES (3, 1)', 'INSERT INTO log (writer, c1) SELECT :client_id::int, 1 \
FROM generate_series(1, 600)')
    """
    if rows == 1:
        return f"INSERT INTO {table} (writer, c1) VALUES ({writer}, 1)"
    cast = "::int" if isinstance(writer, str) else ""
    return f"INSERT INTO {table} (writer, c1) SELECT {writer}{cast}, 1 FROM generate_series(1, {rows})"


def by_writer(statements: Sequence[str]) -> list[str]:
    r"""A script in which each writer has a statement of its own: pgbench puts no variable into the name of a table.

    >>> by_writer(["A", "B", "C"])
    ['\\if :client_id = 0', 'A;', '\\elif :client_id = 1', 'B;', '\\elif :client_id = 2', 'C;', '\\endif']
    """
    lines = []
    for number, statement in enumerate(statements):
        lines += [f"\\{'elif' if number else 'if'} :client_id = {number}", f"{statement};"]
    return [*lines, "\\endif"]


@dataclass(frozen=True)
class WriterForm:
    """How a form's tables are made, what a writer's transaction is, which tables then hold the rows.

    The functions take the number of writers; the script's, rows of a statement after it.
    """

    setup: Callable[[int], list[str]]
    script: Callable[[int, int], list[str]]
    tables: Callable[[int], list[str]]


def one_table(
    *after: str, before: Sequence[str] = (), behind: Sequence[str] = (), key: str = WRITE_BASELINE
) -> WriterForm:
    """All write into one table; ``after`` it is made come more statements, others stand before and behind an INSERT."""
    return WriterForm(
        lambda writers: [*LOG_FORMS[key].statements(TABLE), *after],
        lambda writers, rows: [f"{line};" for line in (*before, plain_insert(TABLE, rows), *behind)],
        lambda writers: [TABLE],
    )


def own_tables(writers: int) -> list[str]:
    """The names of all the writers' tables or partitions."""
    return [own(writer) for writer in range(writers)]


def partitioned(writers: int) -> list[str]:
    """A table with a partition for each writer; the key is on each partition, as on a table of its own."""
    made = [f"CREATE TABLE {TABLE} ({NUMBERED}) PARTITION BY LIST (writer)"]
    for writer in range(writers):
        made.append(f"CREATE TABLE {own(writer)} PARTITION OF {TABLE} (PRIMARY KEY (id)) FOR VALUES IN ({writer})")
    return made


def inherited(writers: int) -> list[str]:
    """A table that stays empty, with a child for each writer, to which a trigger sends the rows."""
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
    """What removes the tables and the function of any form, if they are there.

    >>> removal(1)[0]
    'DROP TABLE IF EXISTS inorder_lab.log, inorder_lab.log_0 CASCADE'
    """
    tables = ", ".join([TABLE, *own_tables(writers)])
    return [f"DROP TABLE IF EXISTS {tables} CASCADE", f"DROP FUNCTION IF EXISTS {SCHEMA}.route()"]


def numbered(setup: Callable[[int], list[str]]) -> WriterForm:
    """All say the same, with their number, and the server sends the rows where they belong."""
    return WriterForm(setup, lambda writers, rows: [numbered_insert(TABLE, rows, ":client_id") + ";"], own_tables)


WRITER_FORMS = {
    BASELINE: one_table(),
    CACHED: one_table(CACHE),
    OWN_TABLE: WriterForm(
        lambda writers: [f"CREATE TABLE {table} ({SERIAL}, {COLUMNS})" for table in own_tables(writers)],
        lambda writers, rows: by_writer([plain_insert(table, rows) for table in own_tables(writers)]),
        own_tables,
    ),
    PARTITION_APPLICATION: WriterForm(
        partitioned,
        lambda writers, rows: by_writer(
            [numbered_insert(table, rows, writer) for writer, table in enumerate(own_tables(writers))]
        ),
        own_tables,
    ),
    PARTITION_NATIVE: numbered(partitioned),
    PARTITION_TRIGGER: numbered(inherited),
    LOCK: one_table(before=(LOCKED, DISCARDED), behind=(UNLOCKED,)),
    LOCK_CACHED: one_table(CACHE, before=(LOCKED, DISCARDED), behind=(UNLOCKED,)),
    LOCK_KEPT: one_table(CACHE, before=(LOCKED,), behind=(UNLOCKED,)),
    XACT: one_table(f"SELECT feed_enable('{TABLE}'::regclass, NULL::name)", key=UUID),
}
