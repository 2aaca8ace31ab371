"""Counts by group of a table that its owner or another role changed without leaving a trace."""

from collections.abc import Sequence

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from attack import refusal
from counted_groups import FOLD, GROUPS, PARTS, PLAIN, ROWS, START, difference, stands, start
from ground import roles
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

FUNCTION = "CREATE FUNCTION {} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {} RETURN NEW; END'"


def test_a_counted_table_cannot_become_a_partition_or_inheritance_child(fresh: Connection) -> None:
    """A DELETE on a parent without common columns fires no trigger of the child.

    NO INHERIT would then remove the last trace of it.
    """
    start(fresh)
    run(fresh, "CREATE TABLE parent ()", "CREATE TABLE above (LIKE orders) PARTITION BY LIST (id)")
    for statement in ("ALTER TABLE orders INHERIT parent", "ALTER TABLE above ATTACH PARTITION orders DEFAULT"):
        assert refusal(fresh, statement) == "0A000", statement
    run(fresh, "SELECT exact_count_stop('orders', by => '{status}')", "ALTER TABLE orders INHERIT parent")


def test_a_former_partition_is_counted_and_folds_only_after_a_commit(fresh: Connection) -> None:
    run(fresh, *PARTS, ROWS, "SELECT exact_count_start('orders', by => '{}')", FOLD,
        "CREATE TABLE above (LIKE orders) PARTITION BY LIST (id)", "ALTER TABLE above ATTACH PARTITION orders DEFAULT",
        "DELETE FROM above WHERE id < 9", "ALTER TABLE above DETACH PARTITION orders")  # fmt: skip
    assert difference(fresh, "orders_count", "SELECT count(*) FROM orders") == []
    # A catalog row that one transaction changes twice keeps the same xmin, so a fold could not detect the second
    # change.
    run(fresh, "BEGIN", "GRANT SELECT ON orders TO PUBLIC")
    assert refusal(fresh, FOLD) == "25001"
    run(fresh, "ROLLBACK")


def test_a_fold_is_refused_if_columns_swap_names(fresh: Connection) -> None:
    """The view would count one column, and the triggers would count the column that now has its name."""
    start(fresh)
    run(fresh, "ALTER TABLE orders RENAME status TO former", "ALTER TABLE orders RENAME note TO status")
    assert refusal(fresh, FOLD) == "55000"
    run(fresh, START, FOLD, "UPDATE orders SET status = 'swapped' WHERE id < 9")
    assert stands(fresh) and difference(fresh) == []


def test_a_fold_is_refused_if_counted_columns_swap_names(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE orders (a int, b int)", "INSERT INTO orders VALUES (1, 2)",
        START.replace("status", "a,b"), FOLD, "ALTER TABLE orders RENAME a TO c",
        "ALTER TABLE orders RENAME b TO a", "ALTER TABLE orders RENAME c TO b")  # fmt: skip
    assert refusal(fresh, FOLD) == "55000"
    run(fresh, START.replace("status", "a,b"), FOLD, "INSERT INTO orders VALUES (3, 4)")
    assert difference(fresh, "orders_by_a_b", "SELECT a, b, count(*) FROM orders GROUP BY a, b") == []


def test_a_fold_is_refused_if_a_later_trigger_moves_rows(fresh: Connection) -> None:
    """MERGE hides a row that is moved. The trigger of inorder sees only what earlier triggers have changed."""
    start(fresh, PARTS)
    run(
        fresh,
        FUNCTION.format("move()", "NEW.id := NEW.id + 1000;"),
        "CREATE TRIGGER zzz BEFORE UPDATE ON low FOR EACH ROW EXECUTE FUNCTION move()",
        "MERGE INTO orders USING (VALUES (7)) AS v(id) ON orders.id = v.id WHEN MATCHED THEN UPDATE SET status = 'm'",
    )
    assert difference(fresh) == []
    assert refusal(fresh, FOLD) == "42809"
    run(fresh, "ALTER TRIGGER zzz ON low RENAME TO aaa", FOLD)
    assert stands(fresh)


def test_deltas_of_a_publisher_are_left_out(fresh: Connection) -> None:
    """A publisher's deltas may have transaction IDs of this server, for example if it was the publisher's standby."""
    start(fresh)
    run(fresh, "SET session_replication_role = replica",
        "INSERT INTO orders_by_status_deltas (g1, n, xact) VALUES ('other', 1, pg_current_xact_id())",
        "INSERT INTO orders VALUES (-1, 'here', 1)")  # fmt: skip
    assert stands(fresh) and difference(fresh) == []
    run(fresh, "RESET session_replication_role")


def test_writers_continue_without_the_view(fresh: Connection) -> None:
    start(fresh)
    run(fresh, "DROP VIEW orders_by_status", "SELECT orders_by_status_fold()")


def test_a_table_that_replaced_the_deltas_gets_no_rows(fresh: Connection) -> None:
    """The owner of the new table could run a trigger with the rights of each writer."""
    start(fresh)
    run(fresh, "DROP TABLE orders_by_status_deltas CASCADE", "CREATE TABLE ran ()", "GRANT ALL ON ran TO PUBLIC")
    with roles(fresh, "stranger"):
        run(fresh, "GRANT CREATE ON SCHEMA public TO stranger", "SET ROLE stranger",
            "CREATE TABLE orders_by_status_deltas (g1 text, n int8, open xid8[], proof text)",
            FUNCTION.format("spy()", "INSERT INTO ran DEFAULT VALUES;"),
            "CREATE TRIGGER spy BEFORE INSERT ON orders_by_status_deltas FOR EACH ROW EXECUTE FUNCTION spy()",
            "GRANT INSERT ON orders_by_status_deltas TO PUBLIC", "RESET ROLE")  # fmt: skip
        assert refusal(fresh, "INSERT INTO orders VALUES (-1)") == "55000"
        run(fresh, "SET ROLE stranger", "ALTER TABLE orders_by_status_deltas DISABLE TRIGGER spy", "RESET ROLE")
        assert refusal(fresh, "INSERT INTO orders VALUES (-1)") == "55000"
        run(fresh, "DROP TABLE orders_by_status_deltas", "DROP FUNCTION spy()")
    assert value(fresh, "SELECT count(*) FROM ran") == 0


def test_a_view_of_another_owner_is_not_folded(fresh: Connection) -> None:
    """If a writer folded this view, its functions would run with the rights of the table's owner."""
    start(fresh)
    newest = "SELECT max(xact::text) FROM orders_by_status_deltas WHERE proof IS NOT NULL"
    writes = [f"INSERT INTO orders VALUES (-{number})" for number in range(1, 21)]
    before = value(fresh, newest)
    run(fresh, *writes[:10], "SELECT orders_by_status_fold()")
    assert value(fresh, newest) != before
    run(fresh, *writes[10:], "CREATE TABLE ran ()", "GRANT ALL ON ran TO PUBLIC")
    with roles(fresh, "stranger"):
        run(fresh, "GRANT CREATE ON SCHEMA public TO stranger", "ALTER VIEW orders_by_status OWNER TO stranger",
            "SET ROLE stranger", "CREATE FUNCTION spy() RETURNS int8 LANGUAGE plpgsql AS "
                                 "'BEGIN INSERT INTO public.ran DEFAULT VALUES; RETURN 1; END'",
            "CREATE OR REPLACE VIEW orders_by_status AS SELECT 's'::text AS status, public.spy() AS count",
            "RESET ROLE", "SELECT orders_by_status_fold()")  # fmt: skip
        assert value(fresh, "SELECT count(*) FROM ran") == 0
        assert refusal(fresh, FOLD) == "55000"
        run(fresh, "DROP VIEW orders_by_status", "DROP FUNCTION spy()")


def test_a_writer_that_folds_never_waits(fresh: Connection, other: Connection) -> None:
    start(fresh, PARTS)
    run(fresh, *(f"INSERT INTO orders VALUES (-{number})" for number in range(1, 21)), "SET statement_timeout = '20s'")
    for locked in ("high_1", "orders"):
        run(other, "BEGIN", f"LOCK TABLE ONLY {locked}")
        assert refusal(fresh, "SELECT orders_by_status_fold()") == "", locked
        run(other, "COMMIT")
    run(fresh, "SELECT orders_by_status_fold()")
    assert value(fresh, "SELECT count(*) < 20 FROM orders_by_status_deltas") is True


def test_a_fold_runs_no_code_of_the_owner_of_a_partition(fresh: Connection) -> None:
    """Writers fold as the owner of the table.

    Planning the fold would run functions in the partition's indexes as that role.
    """
    run(fresh, "CREATE TABLE ran (who name)", "GRANT INSERT ON ran TO PUBLIC", "CREATE FUNCTION note() RETURNS void "
               "LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.ran VALUES (current_user); END'")  # fmt: skip
    with roles(fresh, "owning", "stranger"):
        run(fresh, "GRANT CREATE ON SCHEMA public TO owning, stranger")
        if value(fresh, "SELECT to_regproc('feed_admit') IS NOT NULL"):
            run(fresh, "SELECT feed_admit('owning')")
        run(fresh, "SET ROLE owning")
        start(fresh, PARTS)
        run(fresh, *(f"INSERT INTO orders VALUES ({number})" for number in range(501, 521)), "RESET ROLE",
            "ALTER TABLE low OWNER TO stranger", "SET ROLE owning")  # fmt: skip
        assert stands(fresh)
        run(fresh, "RESET ROLE", "SET ROLE stranger",
            "CREATE FUNCTION spy(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
            "'BEGIN PERFORM public.note(); RETURN true; END'",
            "CREATE INDEX ON low (status) WHERE spy(1)", "RESET ROLE")  # fmt: skip
        fresh.execute(b"TRUNCATE ran")
        with connect(fresh.info.dsn) as folding:
            run(folding, "SET ROLE owning", "SELECT orders_by_status_fold()")
        assert value(fresh, "SELECT count(*) FROM ran WHERE who = 'owning'") == 0
        run(fresh, "DROP TABLE orders CASCADE", "DROP FUNCTION spy(int)")


def test_two_sets_of_counts_with_one_name_are_refused(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE orders (a int, b int, a_b int)", "INSERT INTO orders VALUES (1, 2, 3)",
        START.replace("status", "a,b"), FOLD)  # fmt: skip
    assert refusal(fresh, START.replace("status", "a_b")) == "42P07"
    assert refusal(fresh, "SELECT exact_count_stop('orders', by => '{a_b}')") == "55000"
    assert difference(fresh, "orders_by_a_b", "SELECT a, b, count(*) FROM orders GROUP BY a, b") == []
    long = "x" * 63
    run(fresh, f"ALTER TABLE orders RENAME TO {long}", f"SELECT exact_count_start('{long}', by => '{{a}}')")
    assert refusal(fresh, f"SELECT exact_count_start('{long}', by => '{{}}')") == "42P07"


def test_tables_of_deltas_and_logs_cannot_be_counted_by_group(fresh: Connection) -> None:
    """The triggers in C write deltas and logs without executing a statement.

    A statement-level trigger on these tables would therefore count no rows.
    """
    start(fresh)
    assert refusal(fresh, "SELECT exact_count_start('orders_by_status_deltas', by => '{}')") == "42809"
    run(fresh, "CREATE TABLE t (id int PRIMARY KEY)", "SELECT changes_enable('t'), changes_disable('t')",
        "SELECT exact_count_start('t_changes', by => '{}')", "SELECT exact_count_fold('t_changes')")  # fmt: skip
    with pytest.raises(psycopg.Error, match="cannot be a log, because its rows are counted by group"):
        run(fresh, "SELECT changes_enable('t')")
    run(fresh, "SELECT exact_count_stop('t_changes', by => '{}')", "SELECT changes_enable('t')")


def test_the_documented_privileges_suffice_to_fold(fresh: Connection) -> None:
    """In the SQL edition, a writer folds with its own privileges.

    The privileges listed in docs/count.md suffice, without TRIGGER.
    """
    start(fresh)
    newest = "SELECT max(xact::text) FROM orders_by_status_deltas WHERE proof IS NOT NULL"
    with roles(fresh, "app"):
        if value(fresh, "SELECT to_regproc('feed_admit') IS NOT NULL"):
            run(fresh, "SELECT feed_admit('app', only_writes => true)")
        run(fresh, "GRANT INSERT ON orders TO app", "GRANT SELECT ON orders_by_status TO app",
            "GRANT SELECT, INSERT, DELETE ON orders_by_status_deltas TO app", FOLD, "SET ROLE app",
            *(f"INSERT INTO orders VALUES (-{number})" for number in range(1, 21)))  # fmt: skip
        before = value(fresh, newest)
        run(fresh, "SELECT orders_by_status_fold()")
        assert value(fresh, newest) != before
        run(fresh, "RESET ROLE")
        assert difference(fresh) == [] and stands(fresh)


def test_the_owner_of_the_schema_cannot_replace_the_function_that_folds(fresh: Connection) -> None:
    """In the SQL edition, the function runs as each writer that may fold.

    In the C extension, writers do not call it.
    """
    run(fresh, "CREATE TABLE ran ()", "GRANT INSERT ON ran TO PUBLIC")
    with roles(fresh, "keeper", "owning"):
        if value(fresh, "SELECT to_regproc('feed_admit') IS NOT NULL"):
            run(fresh, "SELECT feed_admit('owning')")
        run(fresh, "CREATE SCHEMA kept AUTHORIZATION keeper", "GRANT USAGE, CREATE ON SCHEMA kept TO owning",
            "SET ROLE owning", *(text.replace("orders", "kept.orders") for text in (*PLAIN, START, FOLD)),
            "RESET ROLE", "SET ROLE keeper", "DROP FUNCTION kept.orders_by_status_fold()",
            "CREATE FUNCTION kept.orders_by_status_fold() RETURNS void LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO public.ran DEFAULT VALUES; END'", "RESET ROLE", "SET ROLE owning")  # fmt: skip
        until_a_fold = value(fresh, "SELECT 2000 - pg_current_xact_id()::text::int8 % 2000")
        for number in range(until_a_fold + 10):
            fresh.execute(f"INSERT INTO kept.orders VALUES ({number})".encode())
        run(fresh, "RESET ROLE")
        assert value(fresh, "SELECT count(*) FROM ran") == 0
        run(fresh, "DROP SCHEMA kept CASCADE")


DELTAS = "orders_by_status_deltas"
WRITES = (
    "INSERT INTO orders VALUES (-1, 's1')",
    "INSERT INTO orders VALUES (-2, 's1'), (-3, 's1')",
    "UPDATE orders SET status = 's2' WHERE id IN (5, -2)",
    "DELETE FROM orders WHERE id < 0",
)
TWICE = f"INSERT INTO {DELTAS} SELECT * FROM {DELTAS}"
RULE = f"CREATE RULE r AS ON INSERT TO {DELTAS} WHERE new.n = 1 DO INSTEAD NOTHING"
NO_RULE = f"DROP RULE r ON {DELTAS}"
CHILD = f"CREATE TABLE child () INHERITS ({DELTAS})"
INTO_CHILD = f"INSERT INTO child SELECT * FROM {DELTAS}"
SKIP = "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
TRIGGER = f"CREATE TRIGGER zzz BEFORE INSERT ON {DELTAS} FOR EACH ROW WHEN (NEW.n = 1) EXECUTE FUNCTION skip()"
NO_NUMBER = f"ALTER TABLE {DELTAS} ALTER xact SET DEFAULT '5'::xid8"
CHANGED_DELTAS = {
    "triggers disabled": (
        f"ALTER TABLE {DELTAS} DISABLE TRIGGER ALL", TWICE, f"ALTER TABLE {DELTAS} ENABLE TRIGGER ALL",
    ),
    "rule": (RULE, FOLD),
    "rule for a while": (RULE, *WRITES[:2], NO_RULE, f"VACUUM {DELTAS}"),
    "another rule": (RULE, NO_RULE, FOLD, RULE, *WRITES[:2], NO_RULE),
    "child": (CHILD, FOLD, INTO_CHILD),
    "child for a while": (CHILD, INTO_CHILD, FOLD, "DROP TABLE child", f"ANALYZE {DELTAS}"),
    "trigger": (SKIP, TRIGGER, FOLD),
    "default": (NO_NUMBER, FOLD),
    "default for a while": (
        "DO $$ DECLARE written text := (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef "
        f"WHERE adrelid = '{DELTAS}'::regclass); BEGIN {NO_NUMBER}; {WRITES[0]}; "
        f"EXECUTE 'ALTER TABLE {DELTAS} ALTER xact SET DEFAULT ' || written; END $$",
    ),
    "another table for a while": (
        f"ALTER TABLE {DELTAS} RENAME TO former", f"CREATE TABLE {DELTAS} (LIKE former INCLUDING ALL)",
        f"GRANT INSERT ON {DELTAS} TO PUBLIC", *WRITES[:2], f"DROP TABLE {DELTAS}",
        f"ALTER TABLE former RENAME TO {DELTAS}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED_DELTAS)
def test_changed_deltas_are_noticed(fresh: Connection, name: str) -> None:
    """Rows are added to or left out of the deltas without an error."""
    start(fresh)
    run(fresh, "INSERT INTO orders VALUES (-20, 'unfolded')")
    for statement in CHANGED_DELTAS[name]:
        assert refusal(fresh, statement) in ("", "55000"), statement
    assert difference(fresh) == [] and not stands(fresh)
    for statement in ("DELETE FROM orders WHERE id < 0", FOLD, *WRITES, FOLD):
        assert refusal(fresh, statement) in ("", "55000"), statement
        assert difference(fresh) == [], statement


def test_a_fold_is_refused_in_a_transaction_that_changed_the_deltas(fresh: Connection) -> None:
    start(fresh)
    rights = f"GRANT SELECT ON {DELTAS} TO PUBLIC", f"REVOKE SELECT ON {DELTAS} FROM PUBLIC"
    for change in (rights, (f"LOCK TABLE {DELTAS} IN SHARE ROW EXCLUSIVE MODE",)):
        run(fresh, "BEGIN", *change)
        assert refusal(fresh, FOLD) == "25001", change
        run(fresh, "ROLLBACK")


def test_a_fold_is_refused_if_deltas_have_row_security(fresh: Connection) -> None:
    """A policy on the deltas would hide rows of a fold from their owner unless the owner is a superuser."""
    with roles(fresh, "owning"):
        if value(fresh, "SELECT to_regproc('feed_admit') IS NOT NULL"):
            run(fresh, "SELECT feed_admit('owning')")
        run(fresh, "GRANT CREATE ON SCHEMA public TO owning", "SET ROLE owning")
        start(fresh)
        run(fresh, f"ALTER TABLE {DELTAS} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            f"CREATE POLICY partly ON {DELTAS} USING (g1 IS DISTINCT FROM 's1') WITH CHECK (true)")  # fmt: skip
        assert difference(fresh) == [] and refusal(fresh, FOLD) == "55000"
        assert difference(fresh) == []
        run(fresh, "DROP TABLE orders CASCADE", f"DROP TABLE {DELTAS}", f"DROP FUNCTION {DELTAS}()", "RESET ROLE")


def test_deltas_of_other_columns_are_noticed(fresh: Connection) -> None:
    """A fold would round the groups or swap the grouping columns."""
    run(fresh, "CREATE TABLE orders (a numeric(5, 0), b numeric(5, 0))", START.replace("status", "a,b"),
        "DROP VIEW orders_by_a_b", "ALTER TABLE orders ALTER a TYPE numeric(5, 1)",
        "INSERT INTO orders VALUES (1.4, 2), (1.5, 2)")  # fmt: skip
    fold, start_again = FOLD, START.replace("status", "a,b")
    assert refusal(fresh, start_again) == refusal(fresh, fold) == "55000"
    run(fresh, "SELECT exact_count_stop('orders', by => '{a,b}')", start_again, fold)
    groups = "SELECT a, b, count(*) FROM orders GROUP BY a, b"
    assert difference(fresh, "orders_by_a_b", groups) == []
    rename = "ALTER TABLE orders_by_a_b_deltas RENAME {} TO {}"
    run(fresh, rename.format("g1", "g3"), rename.format("g2", "g1"), rename.format("g3", "g2"))
    for statement in ("SELECT 1", fold, "INSERT INTO orders VALUES (3, 4)", fold):
        assert refusal(fresh, statement) in ("", "55000")
        assert difference(fresh, "orders_by_a_b", groups) == [], statement


CHANGED_LATER = {
    "triggers": ("ALTER TABLE orders DISABLE TRIGGER USER",),
    "columns": ("ALTER TABLE orders RENAME status TO former", "ALTER TABLE orders RENAME note TO status"),
    "function": (f"CREATE OR REPLACE FUNCTION {DELTAS}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",),
    "rule of the deltas": (RULE,),
}


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("name", CHANGED_LATER)
def test_counts_are_right_if_the_table_changes_after_the_snapshot(
    fresh: Connection, other: Connection, tables: Sequence[str], name: str
) -> None:
    """The transaction's own statements fire the current triggers, which its snapshot does not show."""
    start(fresh, tables)
    column = "former" if name == "columns" else "status"
    groups = GROUPS.replace("status", column)
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        run(other, f"BEGIN ISOLATION LEVEL {level}", "SELECT 1")
        run(fresh, *CHANGED_LATER[name])
        for statement in ("INSERT INTO orders (id) VALUES (-1)", "DELETE FROM orders WHERE id = 3",
                          f"UPDATE orders SET {column} = 's2' WHERE id = 5"):  # fmt: skip
            run(other, "SAVEPOINT s")
            if refusal(other, statement):
                run(other, "ROLLBACK TO s")
            assert difference(other, groups=groups) == [], statement
        run(other, "ROLLBACK")
        run(fresh, "DROP TABLE orders CASCADE", f"DROP TABLE {DELTAS}", f"DROP FUNCTION {DELTAS}()")
        start(fresh, tables)


def test_a_change_that_was_rolled_back_leaves_counts_valid(fresh: Connection, other: Connection) -> None:
    start(fresh)
    run(fresh, "BEGIN", "ALTER TABLE orders DISABLE TRIGGER USER", "GRANT SELECT ON orders TO PUBLIC", "ROLLBACK")
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "DELETE FROM orders WHERE id < 9")
    assert stands(other) and difference(other) == []
