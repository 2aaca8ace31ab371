"""Further attacks on the conditions on which a read depends: see test_ground.py."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import psycopg
import pytest
from inorder.connection.database import Connection

from ground import GROUND, GUARD, LATER, PARTS, PLAIN, READS, SNAPSHOT, Place, numbers, state, states
from sql_edition import TESTED
from waiting import blocked
from world.sql import run, value

pytestmark = pytest.mark.server


IN_USE = "55006"  # object_in_use: the query uses the object that it changes
CHANGED = "40001"  # serialization_failure: the SQL edition rejects a guard that was changed after the snapshot
LOCKED = "55P03"  # lock_not_available: the wait was longer than lock_timeout

OLD_ROW = (
    "BEGIN", "ALTER TABLE t DISABLE TRIGGER ALL", "INSERT INTO t (id, n) VALUES (uuid_xact_floor(5), 4)",
    *(f"ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_{name}" for name in GUARD), "COMMIT",
)  # fmt: skip


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
def test_a_proof_of_an_old_snapshot_is_not_kept(place: Place, tables: tuple[str, ...], isolation: str) -> None:
    owner, reader = place.make(*tables), place.session()
    assert numbers(owner) == [1, 2, 3, 4]
    run(reader, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    run(owner, *OLD_ROW)
    if TESTED == "c":
        assert value(reader, READS["count"]) == 4
    else:
        assert state(reader, READS["count"]) == CHANGED
    run(reader, "COMMIT")
    assert state(reader, READS["read"]) == GROUND


OWN_CHANGES = {
    "grant": "GRANT SELECT ON t TO PUBLIC",
    "parameter": "ALTER TABLE t SET (fillfactor = 90)",
    "cluster": "CLUSTER t USING t_pkey",
    "column": "ALTER TABLE t ADD late int",
}


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("change", OWN_CHANGES)
def test_a_change_by_the_same_transaction_does_not_hide_a_rewrite_by_another_session(
    place: Place, change: str, isolation: str
) -> None:
    owner, other = place.make(PLAIN), place.session()
    run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    run(other, "ALTER TABLE t ALTER note TYPE bigint")
    run(owner, OWN_CHANGES[change])
    assert states(owner, READS) == dict.fromkeys(READS, SNAPSHOT)
    run(owner, "ROLLBACK")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("change", OWN_CHANGES)
def test_a_change_by_the_same_transaction_causes_no_error(place: Place, change: str, isolation: str) -> None:
    owner = place.make(PLAIN)
    run(owner, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1", OWN_CHANGES[change])
    assert states(owner, READS) == dict.fromkeys(READS, "")
    run(owner, "ALTER TABLE t ALTER note TYPE bigint", OWN_CHANGES["grant"])
    assert states(owner, READS) == dict.fromkeys(READS, "")
    run(owner, "COMMIT")


def test_a_table_created_in_the_same_transaction_can_be_read(place: Place) -> None:
    owner = place.session()
    run(owner, "BEGIN", PLAIN, "SELECT feed_create('f', 't'), exact_count_start('t')", "INSERT INTO t (n) VALUES (1)")
    run(owner, "ALTER TABLE t ALTER note TYPE bigint")
    assert value(owner, READS["count"]) == 1
    run(owner, "COMMIT")
    assert numbers(owner) == [1]


def test_a_count_with_a_snapshot_from_before_a_rewrite_is_refused(place: Place) -> None:
    owner = place.make(PLAIN)
    run(owner, "BEGIN", "DECLARE c CURSOR FOR SELECT exact_count('t')", "ALTER TABLE t ALTER note TYPE bigint")
    assert state(owner, "FETCH c") == SNAPSHOT
    run(owner, "ROLLBACK")
    run(
        owner, "CREATE FUNCTION anew() RETURNS text LANGUAGE plpgsql VOLATILE AS "
        "'BEGIN ALTER TABLE t ALTER note TYPE bigint; RETURN NULL; END'",
    )  # fmt: skip
    assert state(owner, "SELECT anew(), exact_count('t')") == SNAPSHOT
    assert value(owner, READS["count"]) == 4


NAMES = ("zz_inorder_h", "zz_inorder_u", "zz_inorder_update_2", "zzz", "zz_inorder_guard_2", "Ω")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("tables", "leaf"), [((PLAIN,), "t"), (PARTS, "t"), (PARTS, "t_3_4")], ids=str)
def test_the_guard_refuses_rows_while_a_later_trigger_exists(
    place: Place, tables: tuple[str, ...], leaf: str, name: str
) -> None:
    """A dropped trigger leaves no trace, so the guard already rejects rows while the trigger exists."""
    owner = place.make(*tables)
    run(
        owner, "CREATE FUNCTION old() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.id := public.uuid_xact_floor(5); "
        "RETURN new; END'", f'CREATE TRIGGER "{name}" BEFORE INSERT OR UPDATE ON {leaf} FOR EACH ROW EXECUTE '
        "FUNCTION old()",
    )  # fmt: skip
    assert state(owner, READS["count"]) == LATER
    assert state(owner, "INSERT INTO t (n) VALUES (4)") != ""
    assert state(owner, "UPDATE t SET note = 1 WHERE n = 4") != ""
    run(owner, f'DROP TRIGGER "{name}" ON {leaf}')
    assert numbers(owner) == [1, 2, 3, 4]


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_later_trigger_is_refused_if_the_snapshot_does_not_see_it(place: Place, isolation: str) -> None:
    owner, other = place.make(PLAIN), place.session()
    run(owner, "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'")
    run(other, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1")
    run(owner, "CREATE TRIGGER zzz BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION same()")
    assert states(other, READS) == dict.fromkeys(READS, LATER)
    assert state(other, "INSERT INTO t (n) VALUES (4)") == LATER


def test_a_later_trigger_for_updates_alone_is_refused(place: Place) -> None:
    owner = place.make(PLAIN)
    run(
        owner, "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
        "CREATE TRIGGER zzz BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION same()", "BEGIN",
    )  # fmt: skip
    assert states(owner, READS) == dict.fromkeys(READS, LATER)
    run(owner, "ROLLBACK")


BY_HAND = {
    "of another column": (
        PLAIN.replace("note int", "note int, other uuid DEFAULT gen_random_uuid()"),
        "TRIGGER zz_inorder_guard BEFORE INSERT OR DELETE OR UPDATE OF other ON t FOR EACH ROW",
    ),
    "deferred": (
        "CREATE TABLE t (n int, note int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, "
        "PRIMARY KEY (xact, n))",
        "CONSTRAINT TRIGGER zz_inorder_guard AFTER DELETE OR UPDATE OF xact, n ON t DEFERRABLE FOR EACH ROW",
    ),
}


@pytest.mark.parametrize("way", BY_HAND)
def test_a_guard_created_by_the_owner_is_not_accepted(place: Place, way: str) -> None:
    table, guard = BY_HAND[way]
    owner = place.make(table)
    run(
        owner, "DROP TRIGGER zz_inorder_guard ON t", f"CREATE {guard} EXECUTE FUNCTION public.feed_guard('0')",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_guard", "BEGIN",
    )  # fmt: skip
    assert states(owner, READS) == dict.fromkeys(READS, GROUND)
    run(owner, "ROLLBACK")


def test_later_triggers_that_cannot_change_a_key_are_accepted(place: Place) -> None:
    owner = place.make(PLAIN)
    run(
        owner, "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(new, old); END'",
        "CREATE TRIGGER zzz BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION same()",
        "CREATE TRIGGER zzzz AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION same()",
        "CREATE TRIGGER zzzzz BEFORE INSERT OR UPDATE ON t EXECUTE FUNCTION same()",
        "CREATE TRIGGER off BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION same()",
        "ALTER TABLE t DISABLE TRIGGER off", "ALTER TRIGGER off ON t RENAME TO zzzzzz",
        "INSERT INTO t (n) VALUES (5)", "UPDATE t SET note = 1",
        "CREATE TABLE g (n int, note int, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)",
        "CREATE INDEX ON g (xact)", "SELECT feed_create('g', 'g')",
        "CREATE TRIGGER zzz BEFORE INSERT ON g FOR EACH ROW EXECUTE FUNCTION same()", "INSERT INTO g VALUES (7)",
    )  # fmt: skip
    assert numbers(owner) == [1, 2, 3, 4, 5]
    assert numbers(owner, "SELECT n FROM feed_read('g', null::g)") == [7]


TREE_UPSIDE_DOWN = (
    "CREATE TABLE t_1_1 (id uuid DEFAULT uuid_xact_nextval(), n int NOT NULL, note int, PRIMARY KEY (id, n))",
    "CREATE TABLE t_1 (id uuid DEFAULT uuid_xact_nextval(), n int NOT NULL, note int, PRIMARY KEY (id, n)) "
    "PARTITION BY LIST (n)",
    "CREATE TABLE t (id uuid DEFAULT uuid_xact_nextval(), n int NOT NULL, note int, PRIMARY KEY (id, n)) "
    "PARTITION BY LIST (n)",
    "ALTER TABLE t_1 ATTACH PARTITION t_1_1 FOR VALUES IN (1, 2, 3, 4)",
    "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1, 2, 3, 4)",
)


@pytest.mark.parametrize("read_before", [False, True], ids=["first read", "later read"])
def test_locks_are_taken_from_the_top_down(place: Place, read_before: bool) -> None:
    owner, reader = place.make(*TREE_UPSIDE_DOWN), place.session()
    if read_before:
        assert value(reader, READS["count"]) == 4
    run(owner, "BEGIN", "LOCK TABLE ONLY t_1")
    with blocked(value, reader, READS["count"]) as counted:
        run(owner, "LOCK TABLE ONLY t_1_1 NOWAIT", "COMMIT")
        assert counted.result() == 4


def test_a_count_is_stored_only_for_the_guard_of_its_snapshot(place: Place) -> None:
    owner, reader = place.make(PLAIN), place.session()
    steps = (
        "SELECT ROW(t.relation, inorder_internal.storage(t.relation, t.relation), ended_transactions(t.base), 4, 4, "
        "true)::inorder_internal.fold_step AS s FROM inorder_internal.feed_table AS t WHERE t.relation = 't'::regclass"
    )
    run(reader, "CREATE TEMP TABLE step AS " + steps)
    before = value(reader, "SELECT (s).storage FROM step")
    run(owner, *OLD_ROW)
    assert value(reader, f"SELECT (s).storage FROM ({steps}) AS n") != before
    run(reader, "SELECT inorder_internal.keep_part('t', s) FROM step")
    assert value(reader, READS["count"]) == 5


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
def test_a_proof_newer_than_the_snapshot_hides_no_forged_row(place: Place, tables: tuple[str, ...]) -> None:
    owner, keeper, reader = place.make(*tables), place.session(), place.session()
    assert numbers(owner) == [1, 2, 3, 4]
    run(owner, "INSERT INTO t (n) VALUES (3)")
    run(keeper, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    exported = value(keeper, "SELECT pg_export_snapshot()")
    run(owner, *OLD_ROW)
    assert value(reader, READS["count"]) == 6
    run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", f"SET TRANSACTION SNAPSHOT '{exported}'")
    if TESTED == "c":
        assert numbers(reader) == [3]
    else:
        assert state(reader, READS["read"]) == CHANGED
    run(reader, "COMMIT")
    for session in (reader, owner):
        assert state(session, READS["read"]) == GROUND


TRUNCATED = {
    "disabled": ("ALTER TABLE t DISABLE TRIGGER zz_inorder_truncate",),
    "replaced": ("CREATE FUNCTION no_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
                 "CREATE OR REPLACE TRIGGER zz_inorder_truncate AFTER TRUNCATE ON t EXECUTE FUNCTION no_guard()"),
    "dropped": ("DROP TRIGGER zz_inorder_truncate ON t",),
}  # fmt: skip


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("change", TRUNCATED)
def test_the_guard_against_truncate_is_part_of_the_guard(place: Place, tables: tuple[str, ...], change: str) -> None:
    """Without this trigger, rows that no feed has read could be removed."""
    owner, reader = place.make(*tables), place.session()
    assert {value(reader, READS["count"]) for _ in range(3)} == {4}
    run(owner, *TRUNCATED[change])
    if tables == PARTS:  # the partitions also have triggers that reject TRUNCATE
        run(owner, *(f"DROP TRIGGER zz_inorder_truncate ON t_{number}" for number in ("1", "2", "3", "3_3", "3_4")))
    run(owner, "TRUNCATE t")
    for session in (reader, owner):
        run(session, "BEGIN")
        assert states(session, READS) == dict.fromkeys(READS, GROUND)
        run(session, "ROLLBACK")
    run(owner, "SELECT feed_enable('t')", "INSERT INTO t (n) VALUES (1), (2)")
    assert value(reader, READS["count"]) == value(owner, READS["count"]) == 2
    assert numbers(reader) == [1, 2]


def test_the_next_count_sees_that_the_guard_against_truncate_was_disabled(place: Place) -> None:
    owner, reader = place.make(PLAIN), place.session()
    assert {value(session, READS["count"]) for session in (reader, owner, reader, owner)} == {4}
    trigger = "ALTER TABLE t {} TRIGGER zz_inorder_truncate"
    run(owner, trigger.format("DISABLE"), "TRUNCATE t", trigger.format("ENABLE ALWAYS"))
    for _ in range(2):
        assert [value(session, READS["count"]) for session in (reader, owner)] == [0, 0]
        run(owner, READS["fold"])


@pytest.mark.parametrize("opclass", ["int8_minmax_ops", "int8_minmax_multi_ops", "int8_bloom_ops"])
def test_a_brin_index_is_not_accepted(place: Place, opclass: str) -> None:
    owner = place.session()
    run(owner, "CREATE TABLE t (n int, xact bigint NOT NULL DEFAULT xact_id())")
    run(owner, f"CREATE INDEX ON t USING brin (xact {opclass})")
    assert state(owner, "SELECT feed_create('f', 't')") == "42704"
    run(owner, "CREATE INDEX j ON t (xact)", "SELECT feed_create('f', 't')", "DROP INDEX j")
    assert state(owner, READS["read"]) == GROUND


def test_a_position_has_the_new_name_of_a_renamed_schema(place: Place) -> None:
    """After a restore, the table is looked up by the name stored in the position.

    The position must contain the current name, not the name at the last check.
    """
    owner, reader = place.make(PLAIN), place.session()
    names = (
        "SELECT m.name FROM inorder_internal.feed AS f JOIN inorder_internal.feed_state AS s ON s.feed = f.id, "
        "unnest((s.position).members) AS m WHERE f.name = 'f'"
    )
    assert numbers(reader) == [1, 2, 3, 4]
    run(reader, f"SET search_path = {place.schema}, {place.schema}_renamed, public")
    run(owner, f"ALTER SCHEMA {place.schema} RENAME TO {place.schema}_renamed")
    place.schema += "_renamed"
    run(owner, f"SET search_path = {place.schema}, public", "INSERT INTO t (n) VALUES (5)")
    assert numbers(reader) == [5]
    assert value(owner, f"SELECT replace(name, '{place.schema}', 's') FROM ({names}) AS n") == "s.t"


ATTACHED = ("CREATE TABLE t_new (LIKE t INCLUDING DEFAULTS)", "INSERT INTO t_new (n) VALUES (8)")
NEW_PARTITIONS = {
    "below the table": (*ATTACHED, "ALTER TABLE t ATTACH PARTITION t_new FOR VALUES IN (8)"),
    "below a partition": (*ATTACHED, "ALTER TABLE t_5 ATTACH PARTITION t_new FOR VALUES IN (8)"),
}


@contextmanager
def half_committed(place: Place, folder: Path, *statements: str) -> Iterator[Connection]:
    """Yield a session whose snapshots show a transaction as ended before its invalidation messages are sent.

    The session's catalog caches therefore lack the transaction's changes.
    """
    writer, other = place.session(), place.session()
    if value(other, "SELECT to_regproc('public.test_hold_commit')") is None:
        pytest.skip("the C module of the tests cannot be built for this server")
    lock = folder / "held"
    lock.touch()
    run(writer, "BEGIN")
    number = value(writer, "SELECT pg_current_xact_id()::text")
    run(writer, f"SELECT public.test_hold_commit('{lock}')", *statements)
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(run, writer, "COMMIT")
        while value(other, f"SELECT pg_visible_in_snapshot('{number}'::xid8, pg_current_snapshot())") is not True:
            sleep(0.01)
        try:
            yield other
        finally:
            lock.unlink()
            commit.result()


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("way", NEW_PARTITIONS)
def test_rows_of_a_partition_unknown_to_the_session_are_not_lost(
    place: Place, shared_folder: Path, way: str, isolation: str
) -> None:
    """The snapshot shows that the transaction that attached the partition has ended.

    A reader whose session does not know the partition would skip its rows.
    """
    partition = "CREATE TABLE t_5 PARTITION OF t FOR VALUES IN ({}) PARTITION BY LIST (n)"
    reader = place.make(*PARTS, partition.format(8 if "t_5" in NEW_PARTITIONS[way][-1] else 5))
    assert value(reader, READS["count"]) == 4
    with half_committed(place, shared_folder, *NEW_PARTITIONS[way]):
        run(reader, f"BEGIN ISOLATION LEVEL {isolation}", "SELECT 1", "SET LOCAL lock_timeout = '1s'")
        answers = states(reader, READS)
        run(reader, "ROLLBACK")
    # In the SQL edition, a read may wait for the lock on the partition. The lock is held until the invalidation
    # messages have been sent.
    assert set(answers.values()) <= ({SNAPSHOT} if TESTED == "c" else {SNAPSHOT, LOCKED}), answers
    assert len(numbers(reader)) == value(reader, READS["count"]) == 5


def test_a_session_forgets_tables_that_were_dropped(place: Place) -> None:
    owner = place.make(PLAIN)
    contexts = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'inorder: table proof'"
    assert value(owner, contexts) == 1
    for n in range(20):
        run(owner, f"CREATE TABLE t_{n} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())", "BEGIN")
        run(owner, f"SELECT exact_count_start('t_{n}')", "COMMIT" if n % 2 else "ROLLBACK", f"DROP TABLE t_{n}")
    assert value(owner, READS["count"]) == 4
    assert value(owner, contexts) in (1, 2)


def test_a_table_dropped_by_its_own_reader_is_an_error(place: Place) -> None:
    owner = place.make(PLAIN)
    run(
        owner, f"CREATE TABLE other {PLAIN.removeprefix('CREATE TABLE t')}", "SELECT exact_count_start('other')",
        "CREATE FUNCTION gone() RETURNS text LANGUAGE plpgsql AS 'BEGIN DROP TABLE t; "
        "PERFORM exact_count_start(''other''); RETURN NULL; END'",
    )  # fmt: skip
    other = place.session()
    run(other, "BEGIN")
    assert state(other, "SELECT feed_apply('f', 'SELECT gone() FROM batch')") in (IN_USE, GROUND, SNAPSHOT)
    run(other, "ROLLBACK")
    assert numbers(owner) == [1, 2, 3, 4]


def test_a_guard_disabled_during_the_proof_is_noticed(place: Place) -> None:
    reader, owner = place.make(*PARTS), place.session()
    assert value(reader, READS["count"]) == 4
    run(owner, f"CREATE SCHEMA {place.schema}_2", f"DROP SCHEMA {place.schema}_2")  # this invalidates all proofs
    run(owner, "BEGIN", "LOCK TABLE pg_trigger", "ALTER TABLE t_1 DISABLE TRIGGER ALL")
    with blocked(state, reader, READS["count"]) as counted:
        run(owner, "COMMIT")
        assert counted.result() in ("", GROUND)
    assert state(reader, READS["count"]) == GROUND


# The expression of a BRIN index calls a function declared IMMUTABLE. VACUUM calls this function in a transaction that
# no snapshot lists.
IN_VACUUM = (
    "CREATE FUNCTION writes() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {}; END $$",
    "CREATE FUNCTION expression(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
    "IF current_setting('application_name') = 'vacuum' THEN PERFORM {0}.writes(); END IF; RETURN $1; END $$",
    "CREATE TABLE odd (n int)", "CREATE INDEX ON odd USING brin ({0}.expression(n)) WITH (pages_per_range = 1)",
    "INSERT INTO odd SELECT generate_series(1, 1000)", "SET application_name = vacuum",
)  # fmt: skip


@pytest.mark.skipif(TESTED == "sql", reason="the SQL edition cannot see that VACUUM started a transaction")
@pytest.mark.parametrize(
    "writes", ["INSERT INTO {0}.t (n) VALUES (1)", "PERFORM xact_id()", "UPDATE {0}.logged SET n = 2"]
)
def test_writing_rows_during_vacuum_is_refused(place: Place, writes: str) -> None:
    """Snapshots do not list VACUUM as in progress, so a reader would miss rows written during VACUUM."""
    place.once(PLAIN, "SELECT feed_enable('t')", "CREATE TABLE logged (id int PRIMARY KEY, n int)",
               "SELECT changes_enable('logged')", "INSERT INTO logged VALUES (1, 1)")  # fmt: skip
    session = place.session()
    statements = IN_VACUUM[0].format(writes.replace("xact_id", "public.xact_id")), *IN_VACUUM[1:]
    run(session, *(statement.replace("{0}", place.schema) for statement in statements))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"during VACUUM"):
        run(session, "VACUUM odd")
    run(session, "RESET application_name")
