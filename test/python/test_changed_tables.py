"""After a table was changed, its owner can make it readable again.

Saved positions of readers then continue as feeds do.
"""

import psycopg
import pytest
from inorder.connection.database import Connection

from ground import state
from tail_runs import Tail, insert, numbers
from waiting import blocked
from world.sql import run, value

pytestmark = pytest.mark.server

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, xact bigint NOT NULL DEFAULT xact_id())",
    "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')",
)  # fmt: skip
AGAIN = "SELECT feed_enable('t')"
MADE_ANEW = {
    "the primary key": ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (n, id)", AGAIN),
    "the guard": ("ALTER TABLE t DISABLE TRIGGER ALL", AGAIN),
    "the base": ("SELECT feed_rebase('t', 1000000)",),
}
FEED = "SELECT count(*) FROM feed_read('f', null::t)"
NEXT = "SELECT b::text FROM reader_next_batch('t', %s::text::feed_position) AS b"
ADVANCE = "SELECT reader_advance(%s::text::feed_position, %s::text::feed_batch)::text"
ROWS = "SELECT array_agg(id ORDER BY id) FROM reader_batch_rows('t', %s::text::feed_batch, null::t)"
SEEK = "SELECT reader_seek('t', %s::text::feed_position)::text"


def refused(connection: Connection, query: str, *values: object) -> psycopg.errors.Diagnostic:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        connection.execute(query.encode(), values)
    return caught.value.diag


@pytest.mark.editions
@pytest.mark.parametrize("change", MADE_ANEW.values(), ids=list(MADE_ANEW))
def test_a_position_continues_like_a_feed(fresh: Connection, change: tuple[str, ...]) -> None:
    """A saved position and a feed both continue after changes that the owner made with functions of inorder.

    If the owner only disabled the guard, reads fail for both.
    """
    run(fresh, *TABLE, "INSERT INTO t VALUES (1, 1), (2, 2)", FEED)
    start = value(fresh, "SELECT reader_start('t')::text")
    position = value(fresh, ADVANCE, start, value(fresh, NEXT, start))
    for statement in (AGAIN, "SELECT feed_rebase('t')"):  # these statements change nothing
        run(fresh, statement)
        value(fresh, NEXT, position)
    for statements in (change, ("INSERT INTO t VALUES (3, 3)",)):
        run(fresh, *statements)
        assert "reader_seek(" in str(refused(fresh, NEXT, position).message_hint)
    assert state(fresh, FEED) == ("55000" if change == MADE_ANEW["the guard"] else "")
    here = value(fresh, SEEK, position)
    assert value(fresh, SEEK, here) == here
    assert value(fresh, ROWS, value(fresh, NEXT, here)) == [3]
    # The new position has the same transactions as the old one.
    assert value(fresh, "SELECT a.transactions = b.transactions FROM CAST(%s::text AS feed_position) AS a, "
                  "CAST(%s::text AS feed_position) AS b", position, here) is True  # fmt: skip


@pytest.mark.editions
def test_a_position_inside_of_a_transaction_needs_its_key(fresh: Connection) -> None:
    run(fresh, *TABLE, "INSERT INTO t SELECT i, i FROM generate_series(1, 5) AS i")
    start = value(fresh, "SELECT reader_start('t')::text")
    batch = value(fresh, "SELECT reader_next_batch('t', %s::text::feed_position, 2)::text", start)
    position = value(fresh, ADVANCE, start, batch)
    run(fresh, *MADE_ANEW["the primary key"])
    assert "has changed since transaction" in str(refused(fresh, SEEK, position).message_primary)
    run(fresh, "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)", AGAIN)
    assert value(fresh, ROWS, value(fresh, NEXT, value(fresh, SEEK, position))) == [3, 4, 5]
    run(fresh, "DROP TABLE t CASCADE", TABLE[0], TABLE[1], AGAIN)
    assert "belongs to another table, not to" in str(refused(fresh, SEEK, position).message_primary)


@pytest.mark.editions
@pytest.mark.parametrize("rewrite", ["VACUUM FULL t", "ALTER TABLE t ALTER n TYPE bigint"])
def test_a_position_stays_valid_after_a_rewrite(fresh: Connection, other: Connection, rewrite: str) -> None:
    """Reads in an older snapshot fail, because it sees no rows in the new file."""
    run(fresh, *TABLE, "INSERT INTO t VALUES (1, 1)")
    start = value(fresh, "SELECT reader_start('t')::text")
    first = value(fresh, NEXT, start)
    position = value(fresh, ADVANCE, start, first)
    run(fresh, "INSERT INTO t VALUES (2, 2)")
    second = value(fresh, NEXT, position)
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, rewrite)
    for call, argument in ((NEXT, position), (ROWS, second)):
        run(other, "SAVEPOINT s")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.execute(call.encode(), [argument])
        run(other, "ROLLBACK TO s")
    run(other, "ROLLBACK")
    assert value(other, ROWS, first) == [1]
    assert value(other, ROWS, value(other, NEXT, position)) == value(other, ROWS, second) == [2]


CHANGED = "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), gone text, kept text)"
CALLS = {
    "peek": "SELECT r.kept FROM feed_peek('f', null::t) AS r",
    "rows": "SELECT r.kept FROM feed_batch_rows('out', 1, null::t) AS r",
    "reader": "SELECT r.kept FROM reader_batch_rows('t', {batch}, null::t) AS r",
}


@pytest.mark.editions
@pytest.mark.parametrize("change", ["DROP gone, ADD added text", "ADD added text", "DROP gone"])
@pytest.mark.parametrize("call", CALLS)
def test_columns_changed_while_a_read_waits_are_not_mixed_up(
    fresh: Connection, other: Connection, call: str, change: str
) -> None:
    """Rows are returned by column position, but a column must never have values of another column."""
    run(fresh, CHANGED, "SELECT feed_create('f', 't'), feed_create('out', 't')",
        "INSERT INTO t (gone, kept) VALUES ('gone', 'kept')", "SELECT feed_take_batch('out', 'w')")  # fmt: skip
    batch = value(fresh, "SELECT quote_literal(reader_next_batch('t', reader_start('t'))::text)")
    read = CALLS[call].format(batch=f"{batch}::text::feed_batch")
    assert value(other, read) == "kept"
    run(fresh, "BEGIN", f"ALTER TABLE t {change}")
    with blocked(state, other, read) as waiting:
        run(fresh, "COMMIT")
        assert waiting.result() == "40001"
    assert value(other, read) == "kept"


@pytest.mark.editions
def test_tail_continues_at_its_position(fresh: Connection, tail: Tail) -> None:
    whole = ("events", "--position", "p")
    insert(fresh, 2)
    assert numbers(tail(*whole)) == [1, 2]
    run(fresh, "ALTER TABLE events DISABLE TRIGGER ALL", "SELECT feed_enable('events')")
    insert(fresh, 1, 3)
    assert "HINT:" in (error := tail(*whole, code=2)) and "use --accept-table for one run" in error
    assert numbers(tail(*whole, "--accept-table")) == [3]
    insert(fresh, 1, 4)
    assert numbers(tail(*whole)) == [4]
    error = tail("--feed", "f", "--accept-table", code=2)
    assert "--feed cannot be used with --accept-table: for a feed, call feed_seek(name, 'here')" in error


@pytest.mark.editions
def test_tail_of_a_feed_names_the_call_that_accepts_the_table(fresh: Connection, tail: Tail) -> None:
    run(fresh, "SELECT feed_create('f', 'events'), feed_create('g', 'events')")
    insert(fresh, 1)
    assert numbers(tail("--feed", "f")) == [1]
    run(fresh, "ALTER TABLE events DISABLE TRIGGER ALL", "SELECT feed_enable('events')")
    insert(fresh, 1, 2)
    error = tail("--feed", "f", code=2)
    assert error.endswith("\nTo do that, call feed_seek('f', 'here').\n") and "--accept-table" not in error
    owner = value(fresh, "SELECT current_user")
    error = tail("--feed", "f", "--owner", str(owner), code=2)
    assert error.endswith(f"\nTo do that, call feed_seek('f', 'here', '{owner}').\n")
    run(fresh, "SELECT feed_seek('f', 'here')")
    assert numbers(tail("--feed", "f")) == [2]


# A user-defined operator class that compares values the way the built-in class does.
CLASS = (
    "CREATE OPERATOR CLASS other_btree FOR TYPE bigint USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, "
    "OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(bigint, bigint)"
)
READ = "SELECT reader_next_batch('t', reader_start('t'))"


@pytest.mark.editions
@pytest.mark.parametrize("index", ["(xact other_btree)", "USING brin (xact)", "(xact) WHERE xact >= 0"])
def test_an_index_that_no_read_uses_is_not_accepted(fresh: Connection, index: str) -> None:
    """The statement in the HINT creates the missing index."""
    run(fresh, CLASS, TABLE[0], f"CREATE INDEX of_others ON t {index}")
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedObject, match="has no index that begins with column") as caught:
            fresh.execute(AGAIN.encode())
        statement = str(caught.value.diag.message_hint).partition("is needed: ")[2].rstrip(".")
        assert "CREATE INDEX" in str(value(fresh, "SELECT string_agg(s, '; ') FROM feed_prepare('t') AS s"))
        run(fresh, statement, AGAIN, READ)
        # If the index is dropped later, the HINT of the failing read suggests the same statement.
        run(fresh, "DROP INDEX t_xact_idx")
        hint = str(refused(fresh, READ).message_hint)
        assert hint == "CREATE INDEX ON public.t (xact). The owner must then call feed_enable('public.t')."
