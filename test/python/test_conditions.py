"""Conditions of a read that few other tests check.

Each test violates one condition while all others hold.
"""

import psycopg
import pytest
from inorder.connection.database import connect

from ground import GROUND, GUARD, PARTS, PLAIN, READS, Place, numbers, roles, state, states
from world.sql import run, value

pytestmark = pytest.mark.server

PARTIAL = "CREATE TABLE t (n int, note int, id bigint NOT NULL DEFAULT xact_id()); CREATE INDEX ON t (id) WHERE id > 0"
ALWAYS = "; ".join(f"ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_{name}" for name in GUARD)


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS, (PARTIAL,)], ids=["plain", "partitions", "partial"])
def test_rows_with_transaction_numbers_ahead_of_the_server_are_refused(place: Place, tables: tuple[str, ...]) -> None:
    owner = place.session()
    number = "inorder_internal.next_transaction(0) + 1000000"
    row = number if tables == (PARTIAL,) else f"uuid_xact_floor({number})"
    run(owner, *tables, "SELECT feed_enable('t')", "BEGIN", "ALTER TABLE t DISABLE TRIGGER ALL")
    run(owner, f"INSERT INTO t (id, n) VALUES ({row}, 4)", ALWAYS, "COMMIT")
    run(owner, "SELECT feed_create('f', 't')", "INSERT INTO t (n) VALUES (1)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="numbers that this server has not reached"):
        run(owner, READS["read"])


@pytest.mark.parametrize(
    ("transactions", "partial"),
    [
        ("int8multirange(int8range(0, inorder_internal.next_transaction(0) + 1000))", "NULL"),
        ("'{}'", "inorder_internal.next_transaction(0) + 1000"),
    ],
    ids=["whole", "in part"],
)
def test_a_position_ahead_of_the_server_is_refused(place: Place, transactions: str, partial: str) -> None:
    """Until the server reaches these transaction IDs, the table would seem idle.

    The reader would then miss the rows with these IDs.
    """
    owner = place.make(PLAIN)
    key = "NULL" if partial == "NULL" else "ARRAY[uuid_xact_nextval()::text]"
    ahead = f"(1, {transactions}, {partial}, {key}, NULL, p.members, p.origin)::feed_position"
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="ahead of the server"):
        run(owner, f"SELECT reader_next_batch('t', {ahead}) FROM reader_start('t') AS p")


def test_a_position_stays_inside_a_transaction_that_has_not_ended(place: Place) -> None:
    """The transaction has not ended on this server, as may happen on a standby that lags.

    The position must stay inside the transaction. Otherwise all its rows would be read again.
    """
    owner, writer = place.make(PLAIN), place.session()
    run(writer, "BEGIN", "INSERT INTO t (n) VALUES (5)")
    number = value(writer, "SELECT pg_current_xact_id()::text::bigint")
    inside = f"(1, '{{}}', {number}, ARRAY[uuid_xact_floor({number})::text], NULL, p.members, p.origin)::feed_position"
    batch = f"SELECT (b).transactions::text, (b).cut FROM (SELECT reader_next_batch('t', {inside}) AS b "
    assert owner.execute(f"{batch} FROM reader_start('t') AS p OFFSET 0) AS r".encode()).fetchone() == ("{}", number)
    run(writer, "COMMIT")


def test_max_rows_ends_in_the_transaction_in_which_the_last_batch_ended(place: Place) -> None:
    """A transaction with a lower ID that has since ended belongs to a later batch."""
    owner, slow = place.session(), place.session()
    run(owner, PLAIN, "SELECT feed_create('f', 't')")
    run(slow, "BEGIN", "INSERT INTO t (n) VALUES (10), (11)")
    run(owner, "INSERT INTO t (n) SELECT generate_series(1, 6)")
    read = "SELECT n FROM feed_read('f', null::t, 2)"
    assert numbers(owner, read) == [1, 2]
    run(slow, "COMMIT")
    assert [numbers(owner, read) for _ in range(4)] == [[3, 4], [5, 6], [10, 11], []]


@pytest.mark.parametrize("groups", ["n", "GROUPING SETS ((n), ())", "ROLLUP (n)"])
def test_a_limit_on_the_groups_of_a_batch_is_refused(place: Place, groups: str) -> None:
    owner = place.make(PLAIN)
    apply = "SELECT feed_apply('f', 'SELECT count(*) FROM batch {}')"
    assert state(owner, apply.format(f"GROUP BY {groups} LIMIT 1")) == "0A000"
    assert state(owner, apply.format("HAVING count(*) > 1 LIMIT 1")) == ""


def test_row_security_is_checked_for_each_role_of_a_session(place: Place) -> None:
    owner = place.make(PLAIN)
    role = f"reader_of_{place.schema}"
    read = "SELECT n FROM feed_read('f', null::t, NULL, 'postgres')"
    with roles(owner, role):
        run(
            owner, f"GRANT USAGE ON SCHEMA {place.schema} TO {role}", f"GRANT SELECT ON t TO {role}",
            f"SELECT feed_grant('f', '{role}')", "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY odd ON t USING (n % 2 = 1)",
        )  # fmt: skip
        assert numbers(owner, "SELECT n FROM feed_peek('f', null::t)") == [1, 2, 3, 4]
        run(owner, f"SET ROLE {role}")
        for attempt in (read, READS["count"]):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="row security hides rows"):
                run(owner, attempt)
    assert numbers(owner, read) == [1, 2, 3, 4]


OTHER_COLUMNS = {
    "type": ("DROP CONSTRAINT t_pkey, ALTER id DROP DEFAULT, ALTER id TYPE text USING id::text", "id, n"),
    "generated": ("DROP id, ADD id bigint GENERATED ALWAYS AS (xact_id_generated()) STORED", "id, n"),
}


@pytest.mark.parametrize("way", OTHER_COLUMNS)
def test_a_guard_for_another_kind_of_column_is_not_accepted(place: Place, way: str) -> None:
    owner = place.make(
        "CREATE TABLE t (n int, note int, id bigint NOT NULL DEFAULT xact_id(), CONSTRAINT t_pkey PRIMARY KEY (id, n))"
    )
    change, columns = OTHER_COLUMNS[way]
    run(
        owner, "DROP TRIGGER zz_inorder_guard ON t", "DROP TRIGGER zz_inorder_update ON t", f"ALTER TABLE t {change}",
        "ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (id, n)",
        f"CREATE TRIGGER zz_inorder_guard BEFORE INSERT OR DELETE OR UPDATE OF {columns} ON t FOR EACH ROW EXECUTE "
        "FUNCTION public.feed_guard('0')",
        "CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION public.feed_guard('0')",
        ALWAYS,
    )  # fmt: skip
    with connect(place.cluster.dsn) as other:
        run(other, f"SET search_path = {place.schema}, public")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has lost the guard of column id"):
            run(other, READS["count"])
    run(owner, "BEGIN")
    assert states(owner, READS) == dict.fromkeys(READS, GROUND)
    run(owner, "ROLLBACK")


@pytest.mark.parametrize("generated", [False, True], ids=["default", "generated"])
def test_an_update_does_not_move_a_row_past_the_key_at_which_a_batch_ended(place: Place, generated: bool) -> None:
    owner = place.session()
    number = "GENERATED ALWAYS AS (xact_id_generated()) STORED" if generated else "NOT NULL DEFAULT xact_id()"
    run(
        owner, f"CREATE TABLE t (x int, k int GENERATED ALWAYS AS (x * 10) STORED PRIMARY KEY, xact bigint {number})",
        "CREATE INDEX ON t (xact)", "SELECT feed_create('f', 't')", "INSERT INTO t SELECT generate_series(1, 10)",
    )  # fmt: skip
    read = "SELECT x FROM feed_read('f', null::t, 5)"
    first = numbers(owner, read)
    assert first == list(range(1, 6 if generated else 11))
    refused = "23001" if generated else ""
    assert state(owner, "UPDATE t SET x = -8 WHERE x = 8") == state(owner, "UPDATE t SET x = 99 WHERE x = 2") == refused
    assert first + numbers(owner, read) == list(range(1, 11))


def test_a_position_needs_the_same_default_collation(place: Place) -> None:
    owner = place.session()
    run(
        owner, "CREATE TABLE t (k text PRIMARY KEY, xact bigint DEFAULT xact_id())",
        "CREATE INDEX ON t (xact)", "SELECT feed_enable('t')", "INSERT INTO t VALUES ('a'), ('b'), ('B')",
    )  # fmt: skip
    first = "SELECT reader_advance(p, reader_next_batch('t', p, 1)) AS p FROM reader_start('t') AS p OFFSET 0"
    here = value(owner, "SELECT datcollate FROM pg_database WHERE datname = current_database()")
    members = (
        "ARRAY(SELECT (m.relation, m.name, m.system, m.attached, m.guarded, "
        "replace(m.ordered_by::text, %s, %s)::text[])::feed_member FROM unnest((p).members) AS m)"
    )
    read = (
        "SELECT count(*) FROM reader_batch_rows('t', (SELECT reader_next_batch('t', (1, (p).transactions, (p).partial, "
        f"(p).last_key, (p).ordering, {members}, (p).origin)::feed_position) FROM ({first}) AS r), null::t)"
    )
    assert value(owner, read, f"c/{here}", f"c/{here}") == 2
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="has changed since transaction"):
        value(owner, read, f"c/{here}", "c/xx_XX")
