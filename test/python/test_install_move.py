"""inorder install --move: feeds in flight and counts keep, in both directions, or nothing changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.database import Connection, connect
from inorder.install.offer import SQL, C
from inorder.lab.server.cluster import Cluster

from editions import Tool, database, rows

pytestmark = pytest.mark.server

MADE = (
    "CREATE ROLE edition_reader", "CREATE SCHEMA app", "SET search_path = app, inorder",
    "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
    'CREATE TABLE "Parts {x}" (k int, x bigint DEFAULT xact_id(), PRIMARY KEY (k, x)) PARTITION BY RANGE (k)',
    'CREATE TABLE low PARTITION OF "Parts {x}" FOR VALUES FROM (0) TO (100)',
    'CREATE TABLE high PARTITION OF "Parts {x}" FOR VALUES FROM (100) TO (MAXVALUE)',
    'CREATE INDEX ON "Parts {x}" (x)', "CREATE TABLE kept (p feed_position, b feed_batch, q feed_position)",
    "SELECT feed_create('read', 'events'), feed_create('batch', 'events'), feed_create('work', 'events')",
    "SELECT feed_create('parts', '\"Parts {x}\"'), feed_grant('read', 'edition_reader')",
    "INSERT INTO kept SELECT feed_start('events'), (feed_batch_after('events', feed_start('events')))",
    "INSERT INTO events (n) SELECT generate_series(1, 6)",
    'INSERT INTO "Parts {x}" (k) VALUES (1), (2), (150), (3)',
    "SELECT exact_count_start('events'), exact_count_start('\"Parts {x}\"'), feed_notify('events', 'channel')",
)  # fmt: skip
COUNTS = "SELECT exact_count('events'), exact_count('\"Parts {x}\"')"
STORED = """
SELECT sum(rows), bool_and(inorder_internal.is_storage(storage, inorder_internal.storage(relation, part, true))),
       count(*)
FROM inorder_internal.count_part
"""
BATCH = "SELECT n FROM feed_batch_rows('batch', {}, null::events)"
OWN = "SELECT (p).transactions, (p).members[1].name, (b).transactions, (q).transactions, (q).partial FROM kept"
OTHER = {C: SQL, SQL: C}


@pytest.fixture(params=[C, SQL])
def moved(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Tool, Connection, str]]:
    """A database with an edition and with feeds of every kind, which have read something, and the other edition."""
    with database(cluster) as connection:
        tool = Tool(cluster, tmp_path, connection)
        tool.install_to_read("--edition", request.param)
        rows(connection, "DROP ROLE IF EXISTS edition_reader", *MADE)
        yield tool, connection, OTHER[request.param]
        rows(connection, "RESET ROLE", "DROP OWNED BY edition_reader", "DROP ROLE edition_reader")


def column(found: list[tuple[object, ...]]) -> list[object]:
    """Of rows that have one."""
    return [value for (value,) in found]


def check_readers(c: Connection, number: object, token: object) -> None:
    """Feeds go on where they stood; the worker has its batch, and nobody else gets it."""
    rows(c, "INSERT INTO events (n) VALUES (7)", 'INSERT INTO "Parts {x}" (k) VALUES (4), (151)')
    assert column(rows(c, "SELECT n FROM feed_read('read', null::events)")) == [3, 4, 5, 6, 7]
    assert set(column(rows(c, "SELECT k FROM feed_read('parts', null::\"Parts {x}\")"))) == {4, 150, 151}
    assert rows(c, "SELECT feed_next_batch('batch', 9)") == [(number,)]
    assert column(rows(c, BATCH.format(number))) == [1, 2, 3, 4]
    rows(c, f"SELECT feed_finish_batch('batch', {number})")
    ((following,),) = rows(c, "SELECT feed_next_batch('batch', 9)")
    assert column(rows(c, BATCH.format(following))) == [5, 6, 7]
    ((mine, worker),) = rows(c, "SELECT batch, worker FROM feed_batches WHERE name = 'work'")
    found = column(rows(c, f"SELECT n FROM feed_batch_rows('work', {mine}, null::events)"))
    assert worker == "w" and found == [1, 2, 3]
    assert rows(c, f"SELECT feed_renew_batch('work', {mine}, {token}) > now()") == [(True,)]
    while (taken := rows(c, "SELECT batch, token FROM feed_take_batch('work', 'v', 3)")[0])[0] is not None:
        found += column(rows(c, f"SELECT n FROM feed_batch_rows('work', {taken[0]}, null::events)"))
        rows(c, f"SELECT feed_finish_batch('work', {taken[0]}, {taken[1]})")
    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert rows(c, f"SELECT feed_finish_batch('work', {mine}, {token})") == [(True,)]


def check_tables(c: Connection) -> None:
    """A position in a column of the user's, notifications, the guard, and what was granted."""
    after = "SELECT n FROM kept, LATERAL feed_rows('events', feed_batch_after('events', q), null::events)"
    assert column(rows(c, after)) == [3, 4, 5, 6, 7]
    assert rows(c, "LISTEN channel", "INSERT INTO events (n) VALUES (8)", COUNTS) == [(8, 6)]
    assert [notice.channel for notice in c.notifies(timeout=10, stop_after=1)] == ["channel"]
    for statement in ("DELETE FROM events", "INSERT INTO events VALUES (uuid_xact_floor(1), 9)", "TRUNCATE low"):
        with pytest.raises(Exception, match=r"insert-only|not made by this transaction"):
            rows(c, statement)
    rows(c, "GRANT USAGE ON SCHEMA app TO edition_reader", "GRANT SELECT ON events TO edition_reader")
    rows(c, "SET ROLE edition_reader", "SELECT n FROM feed_read('read', null::events, owner => 'postgres')")


def test_feeds_in_flight_are_moved(moved: tuple[Tool, Connection, str]) -> None:
    """Each row is read once, however the feed reads; numbers of batches, counts, guards, types and defaults stay."""
    tool, c, other = moved
    assert column(rows(c, "SELECT n FROM feed_read('read', null::events, 2)")) == [1, 2]
    assert column(rows(c, "SELECT k FROM feed_read('parts', null::\"Parts {x}\", 3)")) == [1, 2, 3]
    (number,) = column(rows(c, "SELECT feed_next_batch('batch', 4)"))
    assert column(rows(c, BATCH.format(number))) == [1, 2, 3, 4]
    ((token,),) = rows(c, "SELECT token FROM feed_take_batch('work', 'w', 3)")
    rows(c, "UPDATE kept SET q = (SELECT position FROM inorder_internal.feed WHERE name = 'read')")
    owned, stored = rows(c, OWN), rows(c, STORED)
    assert stored == [(10, True, 3)]
    position = "SELECT name, owner, position, partial, unfinished_batch FROM feeds ORDER BY name"
    was = rows(c, position)

    assert "moved from inorder " in tool.install("--move", "--edition", other)

    assert rows(c, position) == was
    assert rows(c, COUNTS) == [(6, 4)] and rows(c, STORED) == stored
    assert " objects compared" in tool.install("--verify")
    tool.let_read()
    assert rows(c, OWN) == owned
    check_readers(c, number, token)
    check_tables(c)


@pytest.mark.parametrize(
    "way",
    [
        "CREATE INDEX ON theirs (n) WHERE their_code(7)",
        "CREATE STATISTICS their_statistics ON n, (their_code(7)) FROM theirs",
        "ALTER TABLE theirs ADD CHECK (their_code(n))",
        "CREATE DOMAIN theirs_only AS int CHECK (app.their_code(VALUE)); ALTER TABLE theirs ADD m theirs_only",
        "CREATE RULE r AS ON UPDATE TO theirs DO ALSO SELECT app.their_code(1)",
        "CREATE TRIGGER t BEFORE UPDATE ON theirs FOR EACH ROW EXECUTE FUNCTION their_trigger()",
        "ALTER TABLE theirs ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON theirs USING (their_code(n))",
        "CREATE TABLE below (n int); CREATE TRIGGER t BEFORE INSERT ON below FOR EACH ROW EXECUTE FUNCTION "
        "their_trigger(); CREATE RULE r AS ON UPDATE TO theirs DO ALSO INSERT INTO below VALUES (1)",
        "CREATE TABLE parent (p feed_position); CREATE TABLE child (n int) INHERITS (parent); "
        "CREATE INDEX ON child (n) WHERE their_code(7)",
        "CREATE FUNCTION their_event() RETURNS event_trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM app.their_code(1); END'; "
        "RESET ROLE; CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION their_event()",
    ],
)  # fmt: skip
def test_code_of_other_roles_is_not_run(moved: tuple[Tool, Connection, str], way: str) -> None:
    """By the planner for a table with a guard, and by what changes a column with a position."""
    tool, c, other = moved
    rows(
        c, "GRANT CREATE, USAGE ON SCHEMA app TO edition_reader", "SET ROLE edition_reader",
        "SET search_path = app, inorder",
        "CREATE FUNCTION their_code(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF current_user = "
        "''postgres'' THEN RAISE ''attacked''; END IF; RETURN true; END'",
        "CREATE FUNCTION their_trigger() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM app.their_code(1); RETURN NEW; END'",
        "CREATE TABLE theirs (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int, p feed_position)",
        "SELECT feed_create('theirs', 'theirs')", "INSERT INTO theirs (n, p) VALUES (1, '({},,,,)')", way, "RESET ROLE",
    )  # fmt: skip
    refused = tool.install("--move", "--edition", other, code=2)
    rows(c, "DROP EVENT TRIGGER IF EXISTS e")
    assert "this would run functions of other roles" in refused and "of role edition_reader" in refused


def test_numbers_of_feeds_that_are_gone(moved: tuple[Tool, Connection, str]) -> None:
    """They do not come again: of a feed that was dropped, and of one whose table was, which nobody has noticed yet."""
    tool, c, other = moved
    rows(c, "CREATE TABLE again (LIKE events INCLUDING ALL)", "INSERT INTO again (n) VALUES (1)")
    for name in ("dropped", "of a table"):
        rows(c, f"SELECT feed_create('{name}', 'again')")
        rows(c, f"SELECT feed_finish_batch('{name}', feed_next_batch('{name}'))")
    rows(c, "SELECT feed_drop('dropped')", "DROP TABLE again")
    tool.install_to_read("--move", "--edition", other)
    for name in ("dropped", "of a table", "new"):
        rows(c, f"SELECT feed_create('{name}', 'events')")
        ((number,),) = rows(c, f"SELECT feed_next_batch('{name}')")
        assert number == 1 if name == "new" else isinstance(number, int) and number > 1, name


def test_names_with_a_percent_sign(moved: tuple[Tool, Connection, str]) -> None:
    """Of a table and a column that keep a position."""
    tool, c, other = moved
    rows(c, 'CREATE TABLE "a%(map)s" (n int, "50%" feed_position)', 'CREATE TABLE "a$1" (n int, "50%" feed_position)')
    rows(c, "INSERT INTO \"a%(map)s\" SELECT 1, position FROM inorder_internal.feed WHERE name = 'read'")
    tool.install_to_read("--move", "--edition", other)
    same = 'SELECT "50%" = position FROM "a%(map)s", inorder_internal.feed WHERE name = \'read\''
    assert rows(c, same) == [(True,)]


def test_back_again(moved: tuple[Tool, Connection, str]) -> None:
    """And once more: each row is read once all the same."""
    tool, c, other = moved
    found = column(rows(c, "SELECT n FROM feed_read('read', null::events, 1)"))
    for edition in (other, OTHER[other], other):
        tool.install_to_read("--move", "--edition", edition)
        found += column(rows(c, "SELECT n FROM feed_read('read', null::events, 1)"))
    assert found == [1, 2, 3, 4] and rows(c, STORED) == [(10, True, 3)]


def test_who_uses_the_tables_is_not_waited_for_long(cluster: Cluster, moved: tuple[Tool, Connection, str]) -> None:
    """A writer's open transaction, and one that is prepared: nothing changes, and later it is moved."""
    tool, c, other = moved
    before = rows(c, "SELECT oid, proname FROM pg_proc WHERE oid > 16383 ORDER BY oid")
    with connect(f"{cluster.dsn} dbname={c.info.dbname}") as writer:
        rows(writer, "SET search_path = app, inorder", "BEGIN", "INSERT INTO events (n) VALUES (7)")
        message = tool.install("--move", "--edition", other, "--lock-timeout", "50ms", code=1)
        assert "lock timeout; nothing was changed; HINT: try again" in message
        rows(writer, "ROLLBACK", "BEGIN", 'INSERT INTO "Parts {x}" (k) VALUES (7)', "PREPARE TRANSACTION 'writer'")
        assert "nothing was changed" in tool.install("--move", "--edition", other, "--lock-timeout", "50ms", code=1)
        assert rows(c, "SELECT oid, proname FROM pg_proc WHERE oid > 16383 ORDER BY oid") == before
        rows(writer, "COMMIT PREPARED 'writer'")
    tool.install_to_read("--move", "--edition", other)
    assert set(column(rows(c, "SELECT k FROM feed_read('parts', null::\"Parts {x}\")"))) == {1, 2, 3, 7, 150}


def test_what_cannot_be_kept_is_refused(moved: tuple[Tool, Connection, str]) -> None:
    """A view, an index, a function over our types; a generated column by another function than that of numbers."""
    tool, c, other = moved
    rows(c, "CREATE VIEW seen AS SELECT name FROM feeds")
    assert "view app.seen" in tool.install("--move", "--edition", other, code=2)
    rows(c, "DROP VIEW seen", "CREATE INDEX bad ON events (uuid_xact_id(id))")
    assert "index app.bad" in tool.install("--move", "--edition", other, code=2)
    rows(c, "DROP INDEX bad", "CREATE TABLE h (v uuid, x bigint GENERATED ALWAYS AS (uuid_xact_id(v)) STORED)")
    for more in ((), ("--drop-expression",)):
        refused = tool.install("--move", "--edition", other, *more, code=2)
        assert "more of it than xact_id_generated(): x of app.h" in refused and "DROP EXPRESSION" in refused


GENERATED = (
    "CREATE TABLE g (n int, x bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, PRIMARY KEY (x, n))",
    "SELECT feed_create('g', 'g'), feed_create('unread', 'g')", "INSERT INTO g (n) VALUES (1), (2), (3)",
)  # fmt: skip
GENERATED_PARTS = (
    "CREATE TABLE p (n int, x bigint GENERATED ALWAYS AS (xact_id_generated(7)) STORED) PARTITION BY RANGE (n)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5)", "CREATE TABLE p2 PARTITION OF p DEFAULT",
    "CREATE INDEX ON p USING brin (x)", "SELECT feed_create('parts of p', 'p'), exact_count_start('p')",
    "INSERT INTO p (n) VALUES (1), (9)",
)  # fmt: skip


def test_generated_columns_stay(moved: tuple[Tool, Connection, str]) -> None:
    """With their expression, numbers, positions and batches; there and back."""
    tool, c, other = moved
    rows(c, *GENERATED, *GENERATED_PARTS)
    assert rows(c, "SELECT n FROM feed_read('g', null::g, 2)") == [(1,), (2,)]
    assert rows(c, "SELECT n FROM feed_read('parts of p', null::p)") == [(1,), (9,)]
    ((batch, token),) = rows(c, "SELECT batch, token FROM feed_take_batch('unread', 'w', 2)")
    numbers = "SELECT array_agg(x ORDER BY x, n) FROM g WHERE n < 4"
    files = "SELECT pg_relation_filenode('g'), pg_relation_filenode('p1')"
    was = rows(c, numbers), rows(c, files)
    for n, to in enumerate((other, OTHER[other], other), 4):
        tool.install("--move", "--edition", to)
        assert (rows(c, numbers), rows(c, files)) == was
        assert " objects compared" in tool.install("--verify")
        tool.let_read()
        rows(c, f"INSERT INTO g (n) VALUES ({n})", f"INSERT INTO p (n) VALUES ({n})")
        assert rows(c, f"SELECT x - pg_current_xact_id()::text::bigint BETWEEN -9 AND 0 FROM g WHERE n = {n}")[0][0]
        assert rows(c, "SELECT n FROM feed_read('g', null::g)") == ([(3,), (4,)] if n == 4 else [(n,)])
        assert rows(c, "SELECT n FROM feed_read('parts of p', null::p)") == [(n,)]
        assert rows(c, "SELECT exact_count('p')") == [(n - 1,)]
        with pytest.raises(Exception, match="insert-only"):
            rows(c, "DELETE FROM g")
    assert column(rows(c, f"SELECT n FROM feed_batch_rows('unread', {batch}, null::g)")) == [1, 2]
    assert rows(c, f"SELECT feed_finish_batch('unread', {batch}, {token})") == [(True,)]
    assert rows(c, "SELECT n FROM feed_read('unread', null::g)") == [(3,), (4,), (5,), (6,)]


def test_expressions_become_defaults(moved: tuple[Tool, Connection, str]) -> None:
    """Where that is asked for: the same values, and a guard."""
    tool, c, other = moved
    rows(c, *GENERATED)
    assert rows(c, "SELECT n FROM feed_read('g', null::g, 2)") == [(1,), (2,)]
    numbers = rows(c, "SELECT x FROM g")
    tool.install_to_read("--move", "--edition", other, "--drop-expression")
    assert rows(c, "SELECT x FROM g") == numbers
    rows(c, "INSERT INTO g (n) VALUES (4)")
    assert rows(c, "SELECT n FROM feed_read('g', null::g)") == [(3,), (4,)]


def test_a_change_by_hand_is_not_taken_for_the_guard(moved: tuple[Tool, Connection, str]) -> None:
    """A guard that was off is remembered: the feed refuses to read on, as without the move."""
    tool, c, other = moved
    rows(
        c, "SELECT n FROM feed_read('read', null::events)", "ALTER TABLE events DISABLE TRIGGER zz_inorder_guard",
        "ALTER TABLE events ENABLE ALWAYS TRIGGER zz_inorder_guard", "INSERT INTO events (n) VALUES (7)",
    )  # fmt: skip
    tool.install_to_read("--move", "--edition", other)
    with pytest.raises(Exception, match="was switched off and on"):
        rows(c, "SELECT n FROM feed_read('read', null::events)")


def test_roles_without_privileges(cluster: Cluster, tmp_path: Path) -> None:
    """The owner of everything moves to the C extension, where rows are counted anew; back only a superuser can."""
    with connect(cluster.dsn) as admin:
        rows(admin, "DROP ROLE IF EXISTS edition_mover", "CREATE ROLE edition_mover LOGIN")
        with database(cluster, "edition_mover") as c:
            tool = Tool(cluster, tmp_path, c, "edition_mover")
            tool.install_to_read("--edition", SQL)
            rows(
                c, "CREATE TABLE public.others (n int, x bigint DEFAULT inorder.xact_id())", "SET ROLE edition_mover",
                "SET search_path = public, inorder",
                "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
                "SELECT feed_create('f', 'events')", "INSERT INTO events (n) VALUES (1), (2), (3)",
                "SELECT exact_count_start('events')",
            )  # fmt: skip
            assert rows(c, "SELECT n FROM feed_read('f', null::events, 1)") == [(1,)]
            assert "must own public.others" in tool.install("--move", "--edition", C, code=2)
            rows(
                c, "RESET ROLE", "DROP TABLE public.others", "SET ROLE edition_mover",
                "CREATE TABLE g (n int, x bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)",
            )  # fmt: skip
            refused = tool.install("--move", "--edition", C, code=2)
            assert "only a superuser can keep generated columns" in refused and "x of public.g\nHINT" in refused
            rows(c, "DROP TABLE g", "RESET ROLE")
            tool.install_to_read("--move", "--edition", C)
            assert rows(c, "SET ROLE edition_mover", "SELECT n FROM feed_read('f', null::events)") == [(2,), (3,)]
            assert rows(c, "SELECT exact_count('events')") == [(3,)]
            assert "only a superuser can move" in tool.install("--move", "--edition", SQL, code=2)
        rows(admin, "DROP ROLE edition_mover")


def test_order_and_shares_are_moved(moved: tuple[Tool, Connection, str]) -> None:
    """A feed in the order of a column inside of its set, and one that workers divide."""
    tool, c, other = moved
    rows(
        c, "CREATE TABLE streams (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), seq bigint GENERATED ALWAYS AS "
        "IDENTITY UNIQUE, k bigint NOT NULL)", "SELECT feed_create('order', 'streams', order_column => 'seq')",
        "SELECT feed_create('shares', 'streams', partition_by => 'k', shares => 2)",
        "INSERT INTO streams (k) SELECT g % 5 FROM generate_series(1, 20) AS g",
    )  # fmt: skip
    assert column(rows(c, "SELECT seq FROM feed_read('order', null::streams, 7)")) == list(range(1, 8))
    ((first, token),) = rows(c, "SELECT batch, token FROM feed_take_batch('shares', 'w', 4)")
    read = f"SELECT seq FROM feed_batch_rows('shares', {first}, null::streams)"
    found = column(rows(c, read))
    rows(c, f"SELECT feed_finish_batch('shares', {first}, {token})")
    rows(c, "SELECT batch FROM feed_take_batch('shares', 'w', 4)")  # in flight
    tool.install_to_read("--move", "--edition", other)
    rows(c, "INSERT INTO streams (k) VALUES (1)")
    assert column(rows(c, "SELECT seq FROM feed_read('order', null::streams, 8)")) == list(range(8, 16))
    assert column(rows(c, "SELECT seq FROM feed_read('order', null::streams, 90)")) == list(range(16, 21))
    assert column(rows(c, "SELECT seq FROM feed_read('order', null::streams, 90)")) == [21]
    while (taken := rows(c, "SELECT batch, token FROM feed_take_batch('shares', 'w', 4)")[0])[0] is not None:
        found += column(rows(c, f"SELECT seq FROM feed_batch_rows('shares', {taken[0]}, null::streams)"))
        rows(c, f"SELECT feed_finish_batch('shares', {taken[0]}, {taken[1]})")
    assert len(found) == len(set(found)) == 21
