"""inorder tail and inorder count during changes to the table, after conflicts, and with the user's settings."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.connection.session import Session
from inorder.lab.server.cluster import Cluster
from inorder.tail.formats import FORMATS
from psycopg import sql
from pyarrow import parquet

from conftest import LONG_RUN
from tail_runs import Tail, insert, numbers, read_until
from waiting import PATIENCE, wait_for
from world.beside import beside
from world.sql import value

pytestmark = pytest.mark.server

EVENTS = ("events", "--position", "p")
POLL = ("--follow", "--interval", "10ms")
ISOLATIONS = ("read committed", "repeatable read", "serializable")


class Writer:
    """Inserts rows 1, 2, 3, … in small transactions."""

    def __init__(self, dsn: str) -> None:
        self.dsn, self.rows = dsn, 0

    def __call__(self, ended: threading.Event) -> None:
        with connect(self.dsn) as connection:
            while not ended.wait(0.002):
                insert(connection, 10, self.rows + 1)
                self.rows += 10


CHANGES = {
    "type": ["ALTER TABLE events ALTER v TYPE bigint", "ALTER TABLE events ALTER v TYPE int"],
    "rewrite": ["VACUUM FULL events", "CLUSTER events USING events_pkey"],
    "columns": ["ALTER TABLE events ADD w int DEFAULT 3", "ALTER TABLE events DROP w"],
    "name": ["ALTER TABLE events RENAME v TO x", "ALTER TABLE events RENAME x TO v"],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_no_row_is_lost_if_the_table_is_changed_during_a_read(
    tail: Tail, fresh: Connection, change: str, isolation: str
) -> None:
    fresh.execute("ALTER TABLE events ADD v int DEFAULT 1")
    fresh.execute(f"ALTER ROLE postgres SET default_transaction_isolation = '{isolation}'".encode())
    try:
        with tail.started(*EVENTS, *POLL, to="out") as running:
            with beside(writer := Writer(fresh.info.dsn)):
                for number in range(60 if LONG_RUN else 20):
                    fresh.execute(CHANGES[change][number % 2].encode())
                    time.sleep(0.02)
            wait_for(lambda: tail_rows(tail) >= writer.rows or running.poll() is not None)
            assert running.poll() is None, running.stderr and running.stderr.read()
            running.terminate()
            assert running.wait(PATIENCE) == 0
    finally:
        fresh.execute("ALTER ROLE postgres RESET default_transaction_isolation")
    assert sorted(tail.rows()) == list(range(1, writer.rows + 1))


def tail_rows(tail: Tail) -> int:
    return (tail.folder / "out").read_bytes().count(b"\n")


@pytest.mark.parametrize("output", ["json", "csv"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_rows_read_after_a_wait_have_the_new_type(fresh: Connection, isolation: str, output: str) -> None:
    insert(fresh, 3)
    fresh.execute(f"ALTER DATABASE tail SET default_transaction_isolation = '{isolation}'".encode())
    session = Session(fresh.info.dsn)
    table = session.table("public.events")
    rows = session.statement(
        sql.SQL("{inorder}.reader_batch_rows({table}::oid, (SELECT {inorder}.reader_next_batch("
                "{table}::oid, {inorder}.reader_start({table}::oid))), NULL::{row_type})"),
        table=table.oid, row_type=table.identifier,
    )  # fmt: skip

    def read() -> list[bytes]:
        stream = session.held(table, FORMATS[output].wanted(table))
        stream.send(session.message(FORMATS[output].copy(stream.begin(), rows), sql.SQL("COMMIT")))
        lines = b"".join(bytes(rows.content) for rows in stream.blocks()).splitlines()
        return [line.rstrip(b"}").replace(b":", b",").rpartition(b",")[2] for line in lines[FORMATS[output].frames :]]

    assert read() == [b"1", b"2", b"3"]
    with connect(fresh.info.dsn) as other, ThreadPoolExecutor() as threads:
        other.execute("BEGIN; LOCK TABLE events")
        reading = threads.submit(read)
        wait_for(lambda: value(fresh, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
        other.execute("ALTER TABLE events ALTER n TYPE numeric(9, 1); COMMIT")
        assert reading.result(PATIENCE) == [b"1.0", b"2.0", b"3.0"]
    session.close()


SETTINGS = {
    "default_transaction_isolation": "serializable", "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on", "search_path": '"$user", wrong', "datestyle": "German",
    "intervalstyle": "sql_standard", "extra_float_digits": "-5", "bytea_output": "escape", "client_encoding": "latin1",
    "quote_all_identifiers": "on", "array_nulls": "off", "standard_conforming_strings": "off",
    "transform_null_equals": "on", "row_security": "off", "xmlbinary": "hex", "enable_indexscan": "off",
}  # fmt: skip
# All versions have this setting, but PostgreSQL 19 only accepts its standard value.
UNCHANGEABLE = "standard_conforming_strings"


@pytest.fixture
def odd_settings(fresh: Connection) -> None:
    for name, new in SETTINGS.items():
        if name == UNCHANGEABLE and fresh.info.server_version >= 190000:
            continue
        fresh.execute(f"ALTER DATABASE tail SET {name} = {new if name == 'search_path' else repr(new)}".encode())


@contextmanager
def hidden_operators(connection: Connection) -> Iterator[None]:
    """Create operators in the search_path that hide built-in operators."""
    connection.execute("""
        CREATE SCHEMA wrong;
        CREATE FUNCTION wrong.never(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR wrong.= (LEFTARG = name, RIGHTARG = name, FUNCTION = wrong.never);
        CREATE FUNCTION wrong.never(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR wrong.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = wrong.never);
        ALTER DATABASE tail SET search_path = wrong, pg_catalog, public;
    """)
    yield


def test_results_do_not_depend_on_settings(tail: Tail, fresh: Connection, odd_settings: None) -> None:
    fresh.execute("CREATE TABLE wide (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), at timestamptz, took interval, "
                  "f float8, b bytea, t text, a int[], class regclass)")  # fmt: skip
    fresh.execute("SELECT feed_create('f', 'wide')")
    fresh.execute("SELECT exact_count_start('wide')")
    with hidden_operators(fresh):
        fresh.execute(r"INSERT INTO wide VALUES (DEFAULT, '2019-01-02 UTC', '1 day -2 hours', 0.1::float8 + 0.2, "
                      r"'\x00ff5c', U&'\00e9\\', ARRAY[1, NULL], 'wide')")  # fmt: skip
        tail.environment["PGTZ"] = "GMT"
        lines = [tail("public.wide", "--position", "p"), tail("--feed", "f")]
        count = Tail.__new__(Tail)
        count.__dict__.update(tail.__dict__, command="count")
        assert [count("show", "public.wide"), count("fold", "public.wide"), count("stop", "public.wide")] == [
            "1\n",
            "1\n",
            "",
        ]
    assert tail.state()["table"] == "public.wide"
    for line in lines:
        row = json.loads(line)
        assert row["at"] == "2019-01-02T00:00:00+00:00" and row["took"] == "1 day -02:00:00"
        assert row["f"] == 0.30000000000000004 and row["b"] == r"\x00ff5c" and row["t"] == "é\\"
        assert row["a"] == [1, None] and row["class"] == "public.wide"


def test_changes_do_not_depend_on_settings(tail: Tail, fresh: Connection, odd_settings: None) -> None:
    """Some settings change the meaning of a backslash in a name."""
    fresh.execute(r"""CREATE TABLE "a\101'" (id int PRIMARY KEY)""")
    fresh.execute(r"""SELECT changes_enable('"a\101''"')""")
    with hidden_operators(fresh):
        fresh.execute(r"""INSERT INTO public."a\101'" VALUES (7)""")
        read = tail(r"""public."a\101'" """, "--changes", "--position", "p")
    assert '"id":7' in read


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_session_sets_all_settings_that_matter(cluster: Cluster, isolation: str) -> None:
    with connect(cluster.dsn) as other:
        other.execute(f"ALTER ROLE postgres SET default_transaction_isolation = '{isolation}'".encode())
    try:
        for writes in (False, True):
            session = Session(cluster.dsn, writes)
            with session.transaction():
                shown = [value(session.connection, f"SHOW transaction_{setting}")
                         for setting in ("isolation", "read_only", "deferrable")]  # fmt: skip
                assert shown == ["read committed", "off" if writes else "on", "off"]
                assert value(session.connection, "SHOW search_path") == "pg_catalog, pg_temp"
            for name, usual_value in (("search_path", '"$user", public'), ("row_security", "on")):
                shown_path = psycopg.Connection.execute(session.connection, f"SHOW {name}".encode()).fetchall()
                assert shown_path == [(usual_value,)]  # the session's setting outside of transactions
            session.close()
    finally:
        with connect(cluster.dsn) as other:
            other.execute("ALTER ROLE postgres RESET default_transaction_isolation")


FAILING = """
CREATE SEQUENCE tries;
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.tries') <= {times} THEN RAISE 'not now' USING ERRCODE = '{code}'; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER fails AFTER UPDATE ON inorder_internal.{table} FOR EACH ROW EXECUTE FUNCTION fails();
"""
CONFLICTS = ("40001", "40P01")


def failing(connection: Connection, table: str, code: str, times: int) -> None:
    """Make this number of changes to a state table fail, as they would after a conflict with another session."""
    connection.execute(FAILING.format(table=table, code=code, times=times).encode())


@pytest.mark.parametrize("code", CONFLICTS)
@pytest.mark.parametrize("follow", [False, True])
def test_a_run_is_retried_after_a_conflict(tail: Tail, fresh: Connection, code: str, follow: bool) -> None:
    fresh.execute("SELECT feed_create('f', 'events')")
    insert(fresh, 5)
    failing(fresh, "feed_state", code, 3)
    if follow:
        with tail.started("--feed", "f", *POLL, to="out") as running:
            wait_for(lambda: value(fresh, "SELECT last_value > 3 FROM tries") and len(tail.rows()) == 5)
            running.terminate()
            assert running.wait(PATIENCE) == 0
            assert running.stderr and running.stderr.read() == b""
        assert tail.rows() == [1, 2, 3, 4, 5]
    else:
        assert numbers(tail("--feed", "f")) == [1, 2, 3, 4, 5]
    assert tail("--feed", "f") == ""


@pytest.mark.parametrize("code", CONFLICTS)
def test_a_fold_is_retried_after_a_conflict(tail: Tail, fresh: Connection, cluster: Cluster, code: str) -> None:
    count = Tail(cluster, tail.folder, command="count")
    fresh.execute("SELECT exact_count_start('events')")
    insert(fresh, 5)
    failing(fresh, "count_part", code, 2)
    assert count("fold", "events") == "5\n"
    insert(fresh, 7)
    fresh.execute("ALTER SEQUENCE tries RESTART")
    with count.started("fold", "events", "--every", "10ms") as running:
        read_until(running, b"+7 rows")
        running.terminate()
        assert running.wait(PATIENCE) == 143


def test_a_read_waits_for_a_lock_longer_than_the_timeout_of_the_database(tail: Tail, fresh: Connection) -> None:
    fresh.execute("ALTER DATABASE tail SET lock_timeout = '200ms'")
    insert(fresh, 20)
    waiting = """SELECT count(*) FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > '500ms'"""
    with connect(fresh.info.dsn) as other, tail.started(*EVENTS, *POLL, to="out") as running:
        wait_for(lambda: len(tail.rows()) == 20)
        other.execute("SET lock_timeout = 0")
        other.execute("BEGIN; LOCK TABLE events")
        with connect(f"{fresh.info.dsn} dbname=postgres") as watching:
            wait_for(lambda: value(watching, waiting))
        other.execute("INSERT INTO events (n) VALUES (21); COMMIT")
        wait_for(lambda: len(tail.rows()) == 21)
        running.terminate()
        assert running.wait(PATIENCE) == 0
        assert running.stderr
        assert b"trying again" not in running.stderr.read()
    assert tail.rows() == list(range(1, 22))


@pytest.mark.parametrize("follow", [(), POLL])
def test_an_error_about_the_object_ends_the_run(tail: Tail, fresh: Connection, follow: tuple[str, ...]) -> None:
    insert(fresh, 5)
    tail.appended(*EVENTS)
    fresh.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    refused = tail(*EVENTS, *follow, code=2)
    assert "table public.events has lost the guard of column id\nDETAIL:  " in refused
    assert "HINT:  The owner must call feed_enable" in refused


def rows_there(tail: Tail, form: str) -> list[int]:
    """Return the values of column n in an output, and check that all rows and files of the output are complete."""
    if form == "parquet":
        assert [path.name for path in (tail.folder / "out").iterdir() if path.suffix == ".partial"] == []
        tables = [parquet.read_table(path) for path in (tail.folder / "out").glob("*.parquet")]
        return sorted(number for table in tables for number in table.column("n").to_pylist())
    return tail.rows()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_an_error_within_a_batch_leaves_no_part_of_the_batch(tail: Tail, fresh: Connection, form: str) -> None:
    """The position does not move. Once the cause is removed, a new run succeeds."""
    fresh.execute("CREATE TYPE mood AS ENUM ('sad', 'fine')")
    fresh.execute("CREATE TYPE holder AS (m mood)")  # for a plain enum, the Arrow schema would contain the labels
    fresh.execute("ALTER TABLE events ADD h holder DEFAULT '(fine)'")
    insert(fresh, 4000)
    fresh.execute("INSERT INTO events (n, h) VALUES (4001, '(sad)')")
    insert(fresh, 1000, 4002)
    (label,) = fresh.execute("DELETE FROM pg_enum WHERE enumlabel = 'sad' RETURNING oid, enumtypid, enumsortorder")
    arguments = [*EVENTS, "--batch-rows", "1k", "--format", form]
    arguments += ["--directory", "out"] if form == "parquet" else []
    for code, end in ((2, None), (0, 5001)):
        with tail.started(*arguments, to="ignored" if form == "parquet" else "out") as running:
            assert running.stderr
            error = running.stderr.read().decode()
            assert running.wait(PATIENCE) == code and ("invalid internal value for enum" in error) == (code == 2), error
        delivered = rows_there(tail, form)
        assert delivered == list(range(1, 1 + (end or len(delivered))))
        if code:
            assert len(delivered) in (1000, 4000)  # whole batches; full batches are joined in a file
            fresh.execute("INSERT INTO pg_enum VALUES (%s, %s, %s, 'sad')", label)


MEASURED = (
    "import resource, sys\nfrom inorder.cli import cli\ncli(sys.argv[1:], standalone_mode=False)\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)


@pytest.mark.parametrize(("output", "sink"), [("csv", "file"), ("json", "command")])
def test_a_large_value_takes_at_most_the_memory_of_two_copies_of_its_text(
    tail: Tail, fresh: Connection, output: str, sink: str
) -> None:
    size = 140_000_000
    fresh.execute("CREATE TABLE big (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), b bytea)")
    fresh.execute("ALTER TABLE big ALTER b SET STORAGE EXTERNAL; SELECT feed_enable('big')")
    fresh.execute("INSERT INTO big (b) SELECT decode(repeat('c3', %s), 'hex')", (size,))
    command = ("--exec", "cat > out") if sink == "command" else ()
    with (tail.folder / "to").open("ab") as stream:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, "tail", "big", "--position", "p", "--format", output, *command],
            check=True, stdout=stream, stderr=subprocess.PIPE, cwd=tail.folder, env=tail.environment,
        )  # fmt: skip
    written = (tail.folder / ("out" if command else "to")).stat().st_size
    assert 2 * size < written < 2 * size + 200
    assert int(done.stderr) * 1024 < 2.2 * 2 * size + 100_000_000


@pytest.mark.parametrize("source", ["table", "feed"])
def test_the_error_names_a_row_of_more_than_a_gigabyte_of_text(tail: Tail, fresh: Connection, source: str) -> None:
    """A row has 540 MB of bytea, and the error names that row. The binary format can write it."""
    fresh.execute("CREATE TABLE big (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), b bytea)")
    fresh.execute("ALTER TABLE big ALTER b SET COMPRESSION pglz; SELECT feed_create('f', 'big')")
    for size in (1, 540_000_000, 1):
        fresh.execute("INSERT INTO big (b) SELECT convert_to(repeat('x', %s), 'UTF8')", (size,))
    reads = ("--feed", "f") if source == "feed" else ("big", "--position", "p")
    key = value(fresh, "SELECT id FROM big WHERE length(b) > 1")
    for form in ("json", "csv") if LONG_RUN else ("json",):
        error = tail(*reads, "--format", form, "--exec", "cat > out", code=1)
        assert (
            f"\nDETAIL:  The error is in the row (id) = ({key}).\nHINT:  The text of a row must be smaller than 1 GB"
            in error
        )
    if source == "table" and LONG_RUN:
        tail("big", "--position", "q", "--format", "binary", "--exec", "wc -c > size")
        assert int((tail.folder / "size").read_text()) > 540_000_000
