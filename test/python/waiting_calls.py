"""Calls that wait for a table's lock, and their preparation. Tests change the table while the calls wait."""

import psycopg
from inorder.connection.database import Connection

from conftest import LONG_RUN
from world.sql import run

TABLES = {
    "plain": ("CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",),
    "partitions": (
        "CREATE TABLE s.t (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
        "CREATE TABLE s.t_1 PARTITION OF s.t FOR VALUES IN (1)",
    ),
}
START, BATCH = "(SELECT p FROM kept)", "(SELECT b FROM kept)"
OF_READERS = {
    "feed_apply": "SELECT feed_apply('f', 'SELECT FROM batch')",
    "feed_read": "SELECT count(*) FROM feed_read('f', null::s.t)",
    "feed_read of some rows": "SELECT count(*) FROM feed_read('f', null::s.t, 1)",
    "feed_peek": "SELECT count(*) FROM feed_peek('f', null::s.t)",
    "feed_batch_rows": "SELECT count(*) FROM feed_batch_rows('out', 1, null::s.t)",
    "feed_take_batch": "SELECT * FROM feed_take_batch('f', 'w')",
    "a worker's rows": "SELECT count(*) FROM feed_batch_rows('work', 1, null::s.t)",
    "a worker's next batch": "SELECT * FROM feed_take_batch('work', 'other')",
    "feed_wait": "SELECT feed_wait('f', '0')",
    "feed_seek": "SELECT feed_seek('f', 'here')",
    "feed_create": "SELECT feed_create('new', 's.t')",
    "feed_passed": "SELECT feed_passed('s.t')",
    "feed_passed_partitions": "SELECT feed_passed_partitions('s.t')",
    "exact_count": "SELECT exact_count('s.t')",
    "reader_start": "SELECT reader_start('s.t')",
    "reader_next_batch": f"SELECT reader_next_batch('s.t', {START})",
    "reader_batch_rows": f"SELECT count(*) FROM reader_batch_rows('s.t', {BATCH}, null::s.t)",
    "reader_seek": f"SELECT reader_seek('s.t', {START})",
    "reader_split": f"SELECT reader_split('s.t', {BATCH}, 2)",
    "reader_backlog": f"SELECT reader_backlog('s.t', {START})",
    "reader_wait": f"SELECT reader_wait('s.t', {START}, '0')",
    "reader_batch_query": f"SELECT reader_batch_query('s.t', {BATCH})",
}
# Calls for a table whose changes are logged. Each call waits for the lock of the table, not for that of the log.
OF_CHANGES = {
    "changes_batch_rows": "SELECT count(*) FROM changes_batch_rows('f', (feed_take_batch('f', 'w')).number, null::s.t)",
    "changes_read": "SELECT count(*) FROM changes_read('f', null::s.t)",
    "reader_changes_query": f"SELECT reader_changes_query('s.t', {START}, {BATCH})",
}
# Calls that are made by the owner of a table.
OF_OWNERS = {
    "feed_enable": "SELECT feed_enable('s.t')",
    "feed_disable": "SELECT feed_disable('s.t')",
    "feed_rebase": "SELECT feed_rebase('s.t')",
    "exact_count_start": "SELECT exact_count_start('s.t')",
    "changes_enable": "SELECT changes_enable('s.t')",
    "changes_resync": "SELECT changes_resync('s.t')",
    "changes_disable": "SELECT changes_disable('s.t')",
}
# The calls that tests make: the short run makes some of them.
CALLS = {
    name: call
    for name, call in (OF_READERS | OF_OWNERS).items()
    if LONG_RUN or "null::" in call or name in ("feed_apply", "exact_count", "reader_next_batch", "feed_enable")
}


def begin(call: str) -> str:
    return "BEGIN ISOLATION LEVEL REPEATABLE READ" if "_query(" in call else "BEGIN"


def prepare(owner: Connection, reader: Connection, table: str) -> None:
    run(owner, *TABLES[table], "SELECT exact_count_start('s.t')", "GRANT SELECT ON s.t TO lost_team")
    run(owner, "INSERT INTO s.t (n) VALUES (1)")
    run(reader, *(f"SELECT feed_create('{name}', 's.t')" for name in ("f", "out", "work")))
    run(reader, "CREATE TEMP TABLE kept AS SELECT reader_start('s.t') AS p, NULL::feed_batch AS b")
    run(reader, "UPDATE kept SET b = reader_next_batch('s.t', p)", "SELECT (feed_take_batch('out', 'w')).number")
    run(reader, "SELECT * FROM feed_take_batch('work', 'w')")
    # The session caches results that calls can use without reading the table. The folded count lacks one row.
    run(owner, "SELECT exact_count_fold('s.t')", "INSERT INTO s.t (n) VALUES (1)")
    run(reader, "SELECT exact_count('s.t')")


def is_sql(connection: Connection) -> bool:
    return connection.execute(b"SELECT to_regproc('inorder_internal.sql_edition') IS NOT NULL").fetchall() == [(True,)]


def sqlstate(connection: Connection, call: str) -> str | None:
    try:
        connection.execute(call.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return ""


def drop_feeds(owner: Connection) -> None:
    owner.execute(
        b"SELECT feed_drop(f.name, f.owner::text::regrole) FROM (SELECT name, owner FROM feeds OFFSET 0) AS f"
    )
