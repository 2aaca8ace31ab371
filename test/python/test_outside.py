"""Tables affected from outside: by foreign partitions, by connections opened in a function, by event triggers."""

import pytest
from inorder.connection.database import Connection
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ground import GROUND, numbers, state
from tail_runs import insert
from world.sql import run, value

pytestmark = pytest.mark.server

READ = "SELECT n FROM feed_read('f', null::events)"
READS = (
    READ, "SELECT feed_apply('f', 'SELECT FROM batch')", "SELECT (feed_take_batch('out', 'w')).number",
    "SELECT reader_next_batch('events', reader_start('events'))", "SELECT exact_count('events')",
)  # fmt: skip
FOREIGN = "42809"  # wrong_object_type
FORGED = "23514"  # check_violation
PARTS = (
    "DROP TABLE events",
    "CREATE TABLE events (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY RANGE (n)",
    "CREATE INDEX ON events (id)",
    "CREATE TABLE here PARTITION OF events FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE far (id uuid, n int)",
    "INSERT INTO far VALUES (uuid_xact_floor(5), 100)",
)


@pytest.fixture
def loopback(fresh: Connection) -> dict[str, str]:
    """Return the parameters with which contrib extensions connect the server to itself.

    Only basic parameters are passed, because the libpq of these extensions may be older than psycopg's.
    """
    extensions = {"postgres_fdw", "dblink"}
    rows = fresh.execute("SELECT name FROM pg_available_extensions WHERE name = ANY (%s)", [list(extensions)])
    if {name for (name,) in rows} != extensions:
        pytest.skip("the server has no contrib")
    run(fresh, *(f"CREATE EXTENSION {name}" for name in extensions))
    return {name: str(value) for name, value in conninfo_to_dict(fresh.info.dsn).items()
            if name in ("host", "port", "dbname", "user")}  # fmt: skip


@pytest.mark.parametrize("way", ["attached", "created"])
def test_a_partition_on_another_server_is_refused(fresh: Connection, loopback: dict[str, str], way: str) -> None:
    options = ", ".join(f"{name} '{value}'" for name, value in loopback.items() if name != "user")
    run(fresh, *PARTS, "SELECT feed_create('f', 'events'), feed_create('out', 'events'), exact_count_start('events')")
    run(fresh, f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options})")
    run(fresh, f"CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user '{loopback['user']}')")
    insert(fresh, 2)
    assert numbers(fresh, READ) == [1, 2]
    if way == "created":
        run(fresh, "CREATE FOREIGN TABLE there PARTITION OF events FOR VALUES FROM (100) TO (200) SERVER far "
            "OPTIONS (table_name 'far')")  # fmt: skip
    else:
        run(fresh, "CREATE FOREIGN TABLE there (id uuid, n int) SERVER far OPTIONS (table_name 'far')",
            "ALTER TABLE events ATTACH PARTITION there FOR VALUES FROM (100) TO (200)")  # fmt: skip
    insert(fresh, 2, 3)
    assert {read: state(fresh, read) for read in READS} == dict.fromkeys(READS, FOREIGN)
    assert fresh.execute("SELECT count(*), count(caught_up) FROM feeds").fetchone() == (2, 0)
    run(fresh, "ALTER TABLE events DETACH PARTITION there")
    assert numbers(fresh, READ) == [3, 4] and value(fresh, "SELECT exact_count('events')") == 4


def test_a_session_opened_within_a_session_is_a_separate_session(fresh: Connection, loopback: dict[str, str]) -> None:
    run(fresh, "SELECT feed_create('f', 'events'), feed_create('g', 'events')")
    fresh.execute("SELECT dblink_connect('other', %s)", [make_conninfo(**loopback)])
    key = "SELECT id, 1 FROM dblink('other', 'SELECT uuid_xact_nextval()') AS k(id uuid)"
    assert state(fresh, f"INSERT INTO events {key}") == FORGED
    run(fresh, "BEGIN")
    insert(fresh, 1)
    run(fresh, "SELECT dblink_exec('other', 'INSERT INTO events (n) VALUES (2)')")
    within = f"SELECT n FROM dblink('other', '{READ.replace(chr(39), chr(39) * 2)}') AS r(n int)"
    assert numbers(fresh, within) == [2] and numbers(fresh, READ.replace("'f'", "'g'")) == [2]
    run(fresh, "ROLLBACK")
    assert numbers(fresh, READ) == [] and numbers(fresh, READ.replace("'f'", "'g'")) == [2]
    insert(fresh, 1, 3)
    run(fresh, "SELECT dblink_exec('other', 'SET lock_timeout = ''50ms''')", "BEGIN")
    assert numbers(fresh, READ) == [3] and state(fresh, within) == "55P03"  # the session waits for its own lock
    run(fresh, "ROLLBACK")
    assert numbers(fresh, READ) == [3]


AROUND = """
CREATE FUNCTION around() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('around.now', true) = 'yes' THEN
        PERFORM set_config('around.now', 'no', false);
        {};
    END IF;
END $$
"""
SWITCHED = """
        ALTER TABLE events DISABLE TRIGGER ALL;
        INSERT INTO events VALUES (uuid_xact_floor(5), 7);
        ALTER TABLE events ENABLE ALWAYS TRIGGER zz_inorder_guard, ENABLE ALWAYS TRIGGER zz_inorder_update,
            ENABLE ALWAYS TRIGGER zz_inorder_truncate"""


@pytest.mark.parametrize(("act", "outcome"), [
    ("INSERT INTO events VALUES (uuid_xact_floor(5), 7)", FORGED),
    ("INSERT INTO events (n) VALUES (7)", ""),
    (SWITCHED, ""),
    ("RAISE 'no' USING ERRCODE = 'IN000'", "IN000"),
])  # fmt: skip
@pytest.mark.parametrize("event", ["ddl_command_start", "ddl_command_end", "table_rewrite"])
def test_an_event_trigger_cannot_hide_a_row(fresh: Connection, event: str, act: str, outcome: str) -> None:
    """If an event trigger inserts a row with an old number, either that row or later reads are rejected.

    This holds during ALTER TABLE. Other rows are read.
    """
    run(fresh, "SELECT feed_create('f', 'events')")
    insert(fresh, 2)
    assert numbers(fresh, READ) == [1, 2]
    run(fresh, AROUND.format(act), f"CREATE EVENT TRIGGER around ON {event} EXECUTE FUNCTION around()")
    run(fresh, "SET around.now = 'yes'")
    insert(fresh, 1, 3)
    assert state(fresh, "ALTER TABLE events ADD late float8 DEFAULT random()") == outcome
    run(fresh, "SET around.now = 'no'")
    if act == SWITCHED:
        assert state(fresh, READ) == GROUND
    else:
        assert numbers(fresh, READ) == ([3, 7] if act.endswith("(7)") else [3])


AWAY = """
CREATE FUNCTION away() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('away.now', true) = 'yes' THEN
        PERFORM set_config('away.now', 'no', false);
        ALTER TABLE public.late DISABLE TRIGGER USER;
        PERFORM set_config('away.now', 'yes', false);
    END IF;
END $$
"""


@pytest.mark.editions
def test_an_event_trigger_that_removes_the_guard_is_reported(fresh: Connection) -> None:
    """The error reports a missing guard, not a restored table."""
    run(fresh, "CREATE TABLE late (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())", AWAY)
    run(fresh, "CREATE EVENT TRIGGER away ON ddl_command_end WHEN TAG IN ('CREATE TRIGGER', 'ALTER TABLE') "
        "EXECUTE FUNCTION away()", "SET away.now = 'yes'")  # fmt: skip
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="late has lost the guard of column id"):
        run(fresh, "SELECT feed_create('f', 'late')")
