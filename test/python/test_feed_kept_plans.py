"""Sessions cache the plans that read rows.

A plan is replaced if the table, its name or the reader's rights change. The SQL edition caches no plans, and passes the
same tests.
"""

from collections.abc import Iterator

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from ground import GROUND, roles, state
from sql_edition import TESTED
from waiting import blocked
from world.sql import run, value

pytestmark = pytest.mark.server

MAKE = "CREATE TABLE {0} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, body text)"
READ = "SELECT n FROM feed_read('{0}', null::{0}, 10)"
DENIED = "42501"  # insufficient_privilege
KEPT = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE '%{0}%$1%'"


def assert_kept(connection: Connection, plans: int) -> None:
    assert value(connection, KEPT.format("kept")) == (plans if TESTED == "c" else 0)


def make(connection: Connection, *names: str) -> None:
    for name in names:
        run(connection, MAKE.format(name), f"SELECT feed_create('{name}', '{name}')")


def insert(connection: Connection, table: str, *numbers: int) -> None:
    for number in numbers:
        run(connection, f"INSERT INTO {table} (n) VALUES ({number})")


def rows(connection: Connection, table: str) -> list[int]:
    return [int(str(n)) for (n,) in connection.execute(READ.format(table).encode())]


@pytest.fixture
def reader(fresh: Connection, other: Connection) -> Connection:
    """Return a session that has read two batches of the table ``kept``, and therefore has a cached plan for it."""
    make(fresh, "kept")
    for n in (1, 2):
        insert(fresh, "kept", n)
        assert rows(other, "kept") == [n]
    assert_kept(other, 1)
    return other


CHANGES = {
    "a column more": "ALTER TABLE kept ADD more int DEFAULT 7",
    "a column less": "ALTER TABLE kept DROP body",
    "a type": "ALTER TABLE kept ALTER body TYPE varchar",
    "a type and the rows": "ALTER TABLE kept ALTER n TYPE bigint",
    "the name of another column": "ALTER TABLE kept RENAME body TO note",
    "other files": "VACUUM FULL kept",
    "statistics": "ANALYZE kept",
    "an index more": "CREATE INDEX ON kept (n, id)",
    "another index of the key": "ALTER TABLE kept DROP CONSTRAINT kept_pkey, ADD PRIMARY KEY (id)",
    "the name of its schema": "CREATE SCHEMA s; ALTER TABLE kept SET SCHEMA s; ALTER SCHEMA s RENAME TO other; "
    "ALTER TABLE other.kept SET SCHEMA public",
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_have_the_current_columns_of_the_table(fresh: Connection, reader: Connection, change: str) -> None:
    for statement in CHANGES[change].split("; "):
        run(fresh, statement)
    run(fresh, "SELECT feed_enable('kept')")
    for n in (3, 4):
        insert(fresh, "kept", n)
    peeked = reader.execute(b"SELECT p::text FROM feed_peek('kept', null::kept, 10) AS p").fetchall()
    assert peeked == fresh.execute(b"SELECT kept::text FROM kept WHERE n IN (3, 4) ORDER BY n").fetchall()
    assert rows(reader, "kept") == [3, 4]


@pytest.mark.editions
def test_rows_for_a_reader_have_the_columns_of_the_table(fresh: Connection, other: Connection) -> None:
    make(fresh, "kept")
    insert(fresh, "kept", 1)
    read = """SELECT r::text FROM reader_batch_rows('kept', reader_next_batch('kept', reader_start('kept')), null::kept)
              AS r"""
    for change in ("SELECT 1", "ALTER TABLE kept ADD more int DEFAULT 7", "ALTER TABLE kept DROP body"):
        run(fresh, change)
        assert value(other, read) == value(fresh, "SELECT kept::text FROM kept")


def test_swapped_names_do_not_mix_the_plans_of_two_tables(fresh: Connection, reader: Connection) -> None:
    """A plan belongs to a table, not to the name of the table."""
    make(fresh, "shadow")
    insert(fresh, "shadow", 100)
    insert(fresh, "kept", 3)
    run(fresh, "BEGIN", "ALTER TABLE kept RENAME TO former", "ALTER TABLE shadow RENAME TO kept", "COMMIT")
    assert [n for (n,) in reader.execute(b"SELECT n FROM feed_read('kept', null::former, 10)")] == [3]
    assert [n for (n,) in reader.execute(b"SELECT n FROM feed_read('shadow', null::kept, 10)")] == [100]
    run(fresh, "BEGIN", "ALTER TABLE kept RENAME TO shadow", "ALTER TABLE former RENAME TO kept", "COMMIT")
    insert(fresh, "kept", 4)
    insert(fresh, "shadow", 101)
    assert (rows(reader, "kept"), rows(reader, "shadow")) == ([4], [101])


LOST = {
    "SELECT": "REVOKE SELECT ON kept FROM kept_reader",
    "a column": "REVOKE SELECT ON kept FROM kept_reader; GRANT SELECT (id, n) ON kept TO kept_reader",
}
CALLS = {
    "feed_read": "SELECT count(*) FROM feed_read('mine', null::kept, 10)",
    "feed_peek": "SELECT count(*) FROM feed_peek('mine', null::kept, 10)",
    "feed_apply": "SELECT feed_apply('mine', 'SELECT FROM batch', 10)",
    "feed_batch_rows": "SELECT count(*) FROM feed_batch_rows('out', (SELECT number FROM taken), null::kept)",
    "reader_batch_rows": "SELECT count(*) FROM reader_batch_rows('kept', (SELECT b FROM taken), null::kept)",
    "exact_count": "SELECT exact_count('kept')",
}


@pytest.fixture
def role(fresh: Connection, reader: Connection) -> Iterator[Connection]:
    """Yield the reader's session as another role, after making each call so that its plans are cached."""
    with roles(fresh, "kept_reader"):
        run(fresh, "GRANT SELECT ON kept TO kept_reader", "SELECT exact_count_start('kept')")
        run(reader, "SET ROLE kept_reader", "SELECT feed_create('mine', 'kept'), feed_create('out', 'kept')")
        run(reader, "CREATE TEMP TABLE taken AS SELECT (feed_take_batch('out', 'w')).number, "
                    "reader_next_batch('kept', reader_start('kept')) AS b")  # fmt: skip
        for call in CALLS.values():
            insert(fresh, "kept", 5)
            run(reader, call, call)
        yield reader
        run(reader, "RESET ROLE", "DROP TABLE taken")


@pytest.mark.parametrize("lost", LOST)
def test_a_role_that_lost_select_gets_no_rows_through_a_cached_plan(
    fresh: Connection, role: Connection, lost: str
) -> None:
    for call in CALLS.values():
        insert(fresh, "kept", 6)
        run(role, "BEGIN", call, "ROLLBACK")
    run(fresh, *LOST[lost].split("; "))
    try:
        assert {name: state(role, call) for name, call in CALLS.items()} == dict.fromkeys(CALLS, DENIED)
    finally:
        run(fresh, "GRANT SELECT ON kept TO kept_reader")


@pytest.mark.parametrize("name", CALLS)
def test_a_role_that_lost_select_during_a_wait_gets_no_rows_through_a_cached_plan(
    fresh: Connection, role: Connection, name: str
) -> None:
    run(
        fresh,
        "BEGIN",
        "LOCK TABLE kept",
        "REVOKE SELECT ON kept FROM kept_reader",
        "INSERT INTO kept VALUES (DEFAULT, 7)",
    )
    with blocked(state, role, CALLS[name]) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED


def test_row_security_applies_to_each_role_separately(fresh: Connection, role: Connection) -> None:
    """In one session, the owner reads all rows, and a role restricted by a policy reads none."""
    run(fresh, "CREATE POLICY hides ON kept FOR SELECT USING (n > 0)", "ALTER TABLE kept ENABLE ROW LEVEL SECURITY")
    insert(fresh, "kept", 8)
    for _ in range(3):
        assert state(role, CALLS["feed_read"]) == GROUND
        run(role, "RESET ROLE")
        assert rows(role, "kept")[-1] == 8
        insert(fresh, "kept", 8)
        run(role, "SET ROLE kept_reader")
    run(fresh, "ALTER ROLE kept_reader BYPASSRLS")
    assert int(value(role, CALLS["feed_read"])) > 0
    run(fresh, "ALTER ROLE kept_reader NOBYPASSRLS", "INSERT INTO kept VALUES (DEFAULT, 9)")
    assert state(role, CALLS["feed_read"]) == GROUND
    run(fresh, "ALTER TABLE kept DISABLE ROW LEVEL SECURITY")
    assert int(value(role, CALLS["feed_read"])) > 0


def test_a_statement_over_a_batch_reads_another_batch_of_the_table(fresh: Connection, reader: Connection) -> None:
    run(fresh, "SELECT feed_create('inner', 'kept')")
    insert(fresh, "kept", 3)
    insert(fresh, "kept", 4)
    statement = "SELECT count(*) FROM batch, feed_read(''inner'', null::kept, 10)"
    assert value(reader, f"SELECT feed_apply('kept', '{statement}', 1)") == 1
    nested = "(SELECT count(*) FROM feed_peek('kept', null::kept, 10) AS p WHERE p.n >= o.n)"
    rows = reader.execute(f"SELECT o.n, {nested} FROM feed_peek('kept', null::kept, 10) AS o".encode()).fetchall()
    assert rows == [(4, 1)]


def test_a_failed_read_leaves_the_cached_plan_usable(fresh: Connection, reader: Connection) -> None:
    run(fresh, "INSERT INTO kept (n, body) SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) AS g")
    for _ in range(3):
        run(reader, "SET work_mem = '64kB'", "SET temp_file_limit = '64kB'")
        assert state(reader, "SELECT count(*) FROM feed_read('kept', null::kept)") == "53400"
        run(reader, "RESET temp_file_limit")
        assert value(reader, "SELECT count(*) FROM feed_peek('kept', null::kept)") == 3000
    assert_kept(reader, 1)


def test_a_session_that_reads_many_tables_keeps_some_plans(fresh: Connection, other: Connection) -> None:
    tables = [f"kept_{n}" for n in range(70)]
    run(fresh, "BEGIN")
    make(fresh, *tables)
    for table in tables:
        insert(fresh, table, 1)
    run(fresh, "COMMIT")
    assert [rows(other, table) for table in tables] == [[1]] * len(tables)
    assert_kept(other, 64)
    for table in tables:
        insert(fresh, table, 2)
    assert [rows(other, table) for table in reversed(tables)] == [[2]] * len(tables)
    assert_kept(other, 64)


def test_the_search_path_does_not_change_which_rows_are_read(fresh: Connection, reader: Connection) -> None:
    for n, path in enumerate(("public", "pg_catalog, public", '"$user", public', "pg_temp, public"), 3):
        insert(fresh, "kept", n)
        run(reader, f"SET search_path = {path}")
        assert rows(reader, "kept") == [n]


def test_the_planner_evaluates_no_constraint_of_the_owner(fresh: Connection, reader: Connection) -> None:
    """With the reader's setting of constraint_exclusion, the planner would evaluate the constraint.

    Plans are therefore created with this setting off.
    """
    shout = "CREATE OR REPLACE FUNCTION shout(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN {} END $$"
    run(fresh, shout.format("RETURN true;"), "ALTER TABLE kept ADD CHECK (shout(1))", "INSERT INTO kept (n) VALUES (3)")
    run(fresh, shout.format("RAISE 'evaluated';"))
    run(reader, "SET constraint_exclusion = on")
    assert state(reader, "SELECT * FROM kept WHERE n > 0") == "P0001"
    assert rows(reader, "kept") == [3]


def test_pgaudit_logs_each_read(server: Installation) -> None:
    if not (server.pkglibdir / "pgaudit.so").exists():
        pytest.skip("pgaudit is not installed")
    settings = {"shared_preload_libraries": "pgaudit", "pgaudit.log": "read", "pgaudit.log_relation": "on",
                "pgaudit.log_catalog": "off"}  # fmt: skip
    with Cluster(server) as cluster:
        cluster.start(settings)
        with connect(cluster.dsn) as connection:
            run(connection, "CREATE EXTENSION inorder")
            make(connection, "kept")
            for n in range(4):
                insert(connection, "kept", n)
                before = cluster.log.read_text().count("READ,SELECT,TABLE,public.kept")
                assert rows(connection, "kept") == [n]
                assert cluster.log.read_text().count("READ,SELECT,TABLE,public.kept") > before, n
