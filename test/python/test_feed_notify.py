"""feed_notify: one notification per transaction that inserts, when its rows are visible, and none otherwise."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster
from psycopg import sql

from conftest import copy_of, scalar
from examples import python_with
from restoring import copied
from sql_edition import create

pytestmark = pytest.mark.server

DATABASE = "notify"
FORMS = {
    "uuid": "CREATE TABLE told (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
    "default": """CREATE TABLE told (id bigserial PRIMARY KEY, n int UNIQUE, xact bigint NOT NULL DEFAULT xact_id());
                  CREATE INDEX ON told (xact)""",
    "generated": """CREATE TABLE told (id bigserial PRIMARY KEY, n int,
                                       xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED);
                    CREATE INDEX ON told USING brin (xact)""",
}


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Connection]:
    with copy_of("template1", cluster, DATABASE) as opened:
        create(opened)
        yield opened


@pytest.fixture
def reader(writer: Connection) -> Iterator[Connection]:
    """A session that listens to nothing yet."""
    with connect(writer.info.dsn) as opened:
        yield opened


def make(writer: Connection, form: str = "uuid") -> None:
    writer.execute(FORMS[form].encode())
    writer.execute("SELECT feed_create('f', 'told'), feed_notify('told')")


def listen(reader: Connection, *channels: str) -> None:
    for channel in channels:
        reader.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))


def heard(reader: Connection) -> list[tuple[str, str]]:
    reader.execute("LISTEN mark")
    with connect(reader.info.dsn) as other:
        other.execute("NOTIFY mark")
    got: list[tuple[str, str]] = []
    for notice in reader.notifies(timeout=60):
        if notice.channel == "mark":
            return got
        got.append((notice.channel, notice.payload))
    pytest.fail("the mark did not come")


@pytest.mark.parametrize("form", FORMS)
def test_once_per_transaction_when_the_rows_are_visible(writer: Connection, reader: Connection, form: str) -> None:
    make(writer, form)
    listen(reader, "told")
    with writer.transaction():
        writer.execute("INSERT INTO told (n) VALUES (1)")
        writer.execute("INSERT INTO told (n) SELECT generate_series(2, 600)")
        with writer.transaction(), writer.cursor().copy("COPY told (n) FROM STDIN") as rows:
            rows.write("601\n")
        assert heard(reader) == []
    notice = next(reader.notifies(timeout=60))
    assert (notice.channel, notice.payload) == ("told", "")
    assert scalar(reader, "SELECT count(*) FROM feed_read('f', null::told)") == 601
    writer.execute("INSERT INTO told (n) VALUES (602)")
    assert heard(reader) == [("told", "")], "not once more for the first transaction"


def test_nothing_for_what_inserts_nothing(writer: Connection, reader: Connection) -> None:
    make(writer, "default")
    writer.execute("INSERT INTO told (n) VALUES (1)")
    listen(reader, "told")
    with writer.transaction(force_rollback=True):
        writer.execute("INSERT INTO told (n) VALUES (2)")
    with writer.transaction():
        with writer.transaction(force_rollback=True):
            writer.execute("INSERT INTO told (n) VALUES (2)")
        writer.execute("UPDATE told SET n = 3")
    writer.execute("INSERT INTO told (n) SELECT 1 WHERE false")
    assert heard(reader) == []
    with writer.transaction():
        writer.execute("INSERT INTO told (n) SELECT 1 WHERE false")
        writer.execute("INSERT INTO told (n) VALUES (2)")
    assert heard(reader) == [("told", "")]


def test_partitions_whichever_the_statement_names(writer: Connection, reader: Connection) -> None:
    writer.execute(
        """CREATE TABLE days (id uuid DEFAULT uuid_xact_nextval(), day int) PARTITION BY LIST (day);
           CREATE INDEX ON days (id);
           CREATE TABLE day_1 PARTITION OF days FOR VALUES IN (1);
           CREATE TABLE more PARTITION OF days FOR VALUES IN (2, 3) PARTITION BY LIST (day);
           CREATE TABLE day_2 PARTITION OF more FOR VALUES IN (2)"""
    )
    writer.execute("SELECT feed_enable('days'), feed_notify('days', 'News, \"all\"')")
    listen(reader, 'News, "all"')
    for table in ("days", "day_1", "more", "day_2"):
        writer.execute(f"INSERT INTO {table} (day) VALUES ({1 if table == 'day_1' else 2})".encode())
        assert heard(reader) == [('News, "all"', "")], table
    writer.execute("CREATE TABLE day_3 PARTITION OF more FOR VALUES IN (3)")
    writer.execute("INSERT INTO days (day) VALUES (3)")
    assert len(heard(reader)) == 1
    writer.execute("INSERT INTO day_3 (day) VALUES (3)")
    assert heard(reader) == [], "docs/feed-waiting.md says otherwise"
    writer.execute("SELECT feed_enable('days')")
    writer.execute("INSERT INTO day_3 (day) VALUES (3)")
    assert len(heard(reader)) == 1


def test_on_another_channel_and_off(writer: Connection, reader: Connection) -> None:
    make(writer)
    listen(reader, "told", "other")
    with connect(reader.info.dsn) as second:
        for statement, expected in (
            ("SELECT 1", ["told"]), ("SELECT feed_notify('told', 'other')", ["other"]),
            ("SELECT feed_unnotify('told')", []),
        ):  # fmt: skip
            writer.execute(statement.encode())
            second.execute("INSERT INTO told (n) VALUES (1)")
            assert [channel for channel, _ in heard(reader)] == expected, statement
    assert scalar(reader, "SELECT count(*) FROM feed_read('f', null::told)") == 3


def test_restored_with_the_table(cluster: Cluster, writer: Connection, tmp_path: Path) -> None:
    make(writer)
    writer.execute("SELECT feed_notify('told', $$it's \\ odd$$)")
    with (
        copied(cluster, DATABASE, cluster, "notify_copy", "custom", tmp_path) as restored,
        connect(restored.info.dsn) as listener,
    ):
        listen(listener, "it's \\ odd")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            restored.execute("INSERT INTO told (n) VALUES (1)")
        restored.execute("SELECT feed_rebase('told')")
        restored.execute("INSERT INTO told (n) VALUES (1)")
        assert heard(listener) == [("it's \\ odd", "")]


def test_another_trigger_in_its_place(writer: Connection) -> None:
    """What was made is verified, by the function: writers would execute another one with their privileges."""
    writer.execute(FORMS["uuid"].encode())
    writer.execute("SELECT feed_enable('told')")
    writer.execute(
        """CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''attack''; END';
           CREATE FUNCTION swap() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
               CREATE OR REPLACE TRIGGER inorder_notify AFTER INSERT ON public.told
                   EXECUTE FUNCTION public.evil(); END $$;
           CREATE EVENT TRIGGER swap ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION swap()"""
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is not as feed_notify creates it"):
        writer.execute("SELECT feed_notify('told')")
    writer.execute("INSERT INTO told (n) VALUES (1)")


def test_the_example_of_the_docs(writer: Connection, reader: Connection) -> None:
    scope: dict[str, Any] = {}
    exec(python_with("docs/feed-waiting.md", "def follow("), scope)
    make(writer)
    writer.execute("INSERT INTO told (n) VALUES (1)")
    seen: list[object] = []

    def process(connection: Connection) -> int:
        rows = connection.execute("SELECT n FROM feed_read('f', null::told, 2)").fetchall()
        seen.extend(row[0] for row in rows)
        if len(seen) == 4:
            raise InterruptedError
        if not rows:
            writer.execute(f"INSERT INTO told (n) VALUES ({len(seen) + 1})".encode())
        return len(rows)

    with ThreadPoolExecutor(1) as aside:
        followed = aside.submit(scope["follow"], reader.info.dsn, "told", process, interval=3600)
        try:
            assert isinstance(followed.exception(timeout=60), InterruptedError)
        finally:
            writer.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^(LISTEN|SELECT n)'")
    assert seen == [1, 2, 3, 4]
