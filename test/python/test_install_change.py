"""docs/change-edition.sql replaces one edition with the other: each row is delivered once, or nothing changes."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.install.offer import EDITIONS, SQL, C
from inorder.lab.server.cluster import Cluster

from conftest import text
from editions import Tool, as_new, database
from tool import inorder
from waiting import PATIENCE, wait_for
from world.sql import rows, run

pytestmark = pytest.mark.server

OTHER = {C: SQL, SQL: C}
FEEDS = ("billing", "by n", "orders")
PATH = "SET search_path = public, inorder"
MADE = (
    PATH, "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
    "CREATE TABLE orders (xact bigint NOT NULL DEFAULT xact_id(1000), n int NOT NULL UNIQUE)",
    "CREATE INDEX ON orders (xact)", "CREATE TABLE delivered (feed text, n int)",
    "CREATE TABLE gone (LIKE events INCLUDING ALL)", "SELECT exact_count_start('gone')",
    "SELECT feed_create('billing', 'events'), feed_create('orders', 'orders', whole_transactions => true)",
    "SELECT feed_create('by n', 'orders', order_column => 'n'), feed_grant('billing', 'pg_monitor')",
    "SELECT exact_count_start('events')", "DROP TABLE gone",
)  # fmt: skip
TAKE = "SELECT feed_apply('{0}', $$INSERT INTO delivered SELECT '{0}', n FROM batch$$, 2)"
DEFAULTS = """
SELECT adrelid, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef
WHERE adrelid IN ('events'::regclass, 'orders'::regclass) ORDER BY adrelid
"""
AFTER = "reader_advance(reader_start('events'), reader_next_batch('events', reader_start('events')))::jsonb"
REST = """
SELECT array_agg(n ORDER BY n) FROM reader, reader_batch_rows('events', reader_next_batch('events', {}), null::events)
"""
RENEWED = "jsonb_set(reader_start('events')::jsonb, '{transactions}', p -> 'transactions')::feed_position"


class Change:
    def __init__(self, cluster: Cluster, folder: Path, connection: Connection, edition: str) -> None:
        self.tool, self.connection = Tool(cluster, folder, connection), connection
        self.folder, self.edition = folder, edition
        self.psql = cluster.original.program("psql")
        self.script = text("docs/change-edition.sql")
        if edition == C:
            self.script = re.sub(r"^.*-- back: (.*)$", r"\1", self.script, flags=re.MULTILINE)
        (folder / "script.sql").write_text(self.script)
        (folder / "inorder-sql.sql").write_text(inorder("install", "--script", folder=folder).stdout)
        self.tool.install("--edition", edition)
        run(connection, *MADE)

    def start(self) -> subprocess.Popen[str]:
        command = [str(self.psql), "-Xqv", "ON_ERROR_STOP=1", "-f", "script.sql"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.tool.environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def end(self, started: subprocess.Popen[str]) -> None:
        printed = started.communicate(timeout=PATIENCE)[0]
        assert started.returncode == 0, printed
        other = OTHER[self.edition]
        assert f"{other}: {EDITIONS[other]}: is installed" in self.tool.install("--check")

    def refused(self) -> str:
        started = self.start()
        printed = started.communicate(timeout=PATIENCE)[0]
        assert started.returncode == 3, printed
        assert f"{self.edition}: {EDITIONS[self.edition]}: is installed" in self.tool.install("--check")
        return printed

    def insert(self, *numbers: int, by: Connection | None = None) -> None:
        """Insert one row per number into each table, in a separate transaction unless one is open."""
        for n in numbers:
            for table in ("events", "orders"):
                run(by or self.connection, f"INSERT INTO {table} (n) VALUES ({n})")

    def take(self, *feeds: str) -> None:
        for feed in feeds:
            while rows(self.connection, TAKE.format(feed)) != [(None,)]:
                pass


@pytest.fixture(params=[C, SQL])
def change(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Change]:
    with database(cluster) as connection:
        yield Change(cluster, tmp_path, connection, request.param)


def test_each_row_is_delivered_once(cluster: Cluster, change: Change) -> None:
    c = change.connection
    change.insert(1, 2, 3)
    change.take(*FEEDS)
    run(c, f"CREATE TABLE reader AS SELECT {AFTER} AS p")
    change.insert(4)
    change.take("by n")
    defaults = rows(c, DEFAULTS)
    with ExitStack() as stack:
        late, reader = (stack.enter_context(connect(change.tool.dsn)) for _ in range(2))
        run(late, PATH, "BEGIN", "SELECT pg_current_xact_id()")
        run(reader, PATH, "BEGIN", TAKE.format("billing"))
        started = change.start()
        wait_for(lambda: rows(c, "SELECT pid FROM pg_locks WHERE NOT granted"))
        run(reader, "COMMIT")
        change.end(started)
        assert as_new(cluster, change.folder, c.info.dbname, OTHER[change.edition]) == ""
        change.insert(5, by=late)
        change.insert(6)
        run(late, "COMMIT")
    change.take(*FEEDS)
    delivered = "SELECT feed, array_agg(n ORDER BY n) FROM delivered GROUP BY feed ORDER BY feed"
    assert rows(c, delivered) == [(name, [1, 2, 3, 4, 5, 6]) for name in FEEDS]
    assert rows(c, "SELECT exact_count('events'), count(*) FROM inorder_internal.counted_table") == [(6, 1)]
    assert rows(c, "SELECT name FROM feeds WHERE whole_transactions") == [("orders",)]
    assert rows(c, "SELECT name, movers[1].name FROM inorder_internal.feed WHERE movers <> '{}'") == [
        ("billing", "pg_monitor")
    ]
    assert rows(c, DEFAULTS) == defaults
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="disabled or replaced since"):
        run(c, REST.format("p::feed_position"))
    assert rows(c, REST.format(RENEWED)) == [([4, 5, 6],)]
    for statement in ("DELETE FROM events", "INSERT INTO orders VALUES (7, 7)"):
        with pytest.raises(psycopg.Error, match=r"insert-only|not made by this transaction"):
            run(c, statement)


def test_the_script_fails_if_state_cannot_be_carried_over(change: Change) -> None:
    c = change.connection
    run(c, "BEGIN")
    change.insert(1, 2, 3)
    run(c, "COMMIT")
    change.take("by n", "orders")
    run(c, TAKE.format("billing"))
    assert rows(c, "SELECT partial IS NOT NULL FROM feeds WHERE name = 'billing'") == [(True,)]
    assert "a feed has something unfinished" in change.refused()
    change.take("billing")
    run(c, "INSERT INTO events (n) VALUES (4)")
    ((batch, token),) = rows(c, "SELECT number, token FROM feed_take_batch('billing', 'w')")
    assert "a feed has something unfinished" in change.refused()
    run(c, f"SELECT feed_finish_batch('billing', {batch}, token => {token})", "INSERT INTO orders (n) VALUES (4)")
    assert "is in the order of a column and has not read all rows" in change.refused()
    change.take("by n")
    run(c, "CREATE TABLE more (x bigint DEFAULT xact_id())")
    assert "another column has a default or an expression of inorder" in change.refused()
    run(c, "DROP TABLE more")
    change.end(change.start())
    run(c, "INSERT INTO events (n) VALUES (5)")
    later = rows(c, f"SELECT number > {batch} FROM feed_take_batch('billing', 'w')")
    assert later == [(True,)]  # numbers increase, so a sink that remembers the last number continues
