"""Counts by group: whatever happens to the table, the view equals GROUP BY and rarely reads the table."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from attack import refusal
from conftest import LONG_RUN
from counted_groups import FOLD, GROUPS, PARTS, PLAIN, ROWS, START, admit, difference, stands, start
from ground import roles
from restoring import copied, spend_transactions
from waiting import blocked
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

WRITES = (
    "INSERT INTO orders VALUES (201, 'new', 1), (202, NULL, 1), (203, 's1', 1)",
    "INSERT INTO orders SELECT n, 'many', n % 4 FROM generate_series(300, 900) AS n",
    "INSERT INTO orders SELECT * FROM orders WHERE false",
    "UPDATE orders SET status = 'second' WHERE id <= 10",
    "UPDATE orders SET note = 'second'",
    "UPDATE orders SET status = NULL WHERE id BETWEEN 20 AND 30",
    "DELETE FROM orders WHERE id IN (3, 201)",
    "DELETE FROM orders WHERE status = 'many' AND id < 700",
    # Updates that move rows to other partitions and back.
    "UPDATE orders SET id = id + 1000, status = 'moved' WHERE id BETWEEN 95 AND 105",
    "UPDATE orders SET id = id - 1000 WHERE id BETWEEN 1095 AND 1105",
    "MERGE INTO orders USING (VALUES (1), (9), (950)) AS v(id) ON orders.id = v.id "
    "WHEN MATCHED AND v.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET status = 'merged' "
    "WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged')",
    "INSERT INTO orders VALUES (2, 'twice'), (951, 'twice') ON CONFLICT (id) DO UPDATE SET status = excluded.status",
    "INSERT INTO orders VALUES (2, 'never'), (952, 'once') ON CONFLICT DO NOTHING",
    "WITH gone AS (DELETE FROM orders WHERE id = 8 RETURNING *) INSERT INTO orders SELECT 800, status FROM gone "
    "WHERE NOT EXISTS (SELECT FROM orders WHERE id = 800)",
    "DO $$ BEGIN UPDATE orders SET status = 'undone'; RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN "
    "INSERT INTO orders VALUES (990, 'after'); END $$",
    "DELETE FROM parents WHERE id = 1",
    "UPDATE parents SET id = 5 WHERE id = 2",
    "TRUNCATE orders CASCADE",
    "INSERT INTO orders SELECT n, 'last' FROM generate_series(1, 5) AS n",
)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT exact_count_fold_soon('orders', 'orders_by_status_deltas')",
        "SELECT count(*) FROM feed_prepare('orders')",
    ],
)
def test_the_number_of_partitions_does_not_change_how_often_they_are_looked_up(
    fresh: Connection, statement: str
) -> None:
    """With 1,000 partitions, looking them up for each lock or each type would take seconds."""
    calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'tree'"
    run(fresh, "CREATE TABLE orders (id int, status text) PARTITION BY LIST (id)", "SET track_functions = 'all'")
    counted = []
    for partitions in (range(3), range(3, 40)):
        run(fresh, *(f"CREATE TABLE part_{n} PARTITION OF orders FOR VALUES IN ({n})" for n in partitions))
        run(fresh, START, FOLD, "BEGIN")
        before = value(fresh, calls)
        run(fresh, statement)
        counted.append(value(fresh, calls) - before)
        run(fresh, "ROLLBACK")
    run(fresh, "RESET track_functions")
    # there are 37 more partitions, and a new plan may call the function as well
    assert counted[1] < counted[0] + 18, counted


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("folds", [False, True])
def test_every_kind_of_statement_is_counted(fresh: Connection, tables: Sequence[str], folds: bool) -> None:
    run(fresh, *tables, "CREATE TABLE parents (id int PRIMARY KEY)", "INSERT INTO parents VALUES (0), (1), (2), (3)",
        "INSERT INTO orders SELECT n, 's' || n % 4, n % 3 FROM generate_series(1, 200) AS n",
        "ALTER TABLE orders ADD FOREIGN KEY (tenant) REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE",
        START, FOLD)  # fmt: skip
    for statement in WRITES:
        run(fresh, "BEGIN", statement)
        assert difference(fresh) == [], statement
        run(fresh, "ROLLBACK")
        assert difference(fresh) == [], statement
        run(fresh, "BEGIN", "SAVEPOINT s", statement, "RELEASE SAVEPOINT s", "COMMIT")
        assert difference(fresh) == [], statement
        assert stands(fresh) == (not statement.startswith("TRUNCATE") and "last" not in statement) or folds, statement
        if folds:
            run(fresh, FOLD)
            assert stands(fresh) and difference(fresh) == [], statement


def test_rows_of_copy_are_counted(fresh: Connection) -> None:
    start(fresh)
    with fresh.cursor().copy(b"COPY orders FROM STDIN") as copy:
        for number in range(1000, 1600):
            copy.write_row((number, f"copied {number % 3}", 1, ""))
    assert difference(fresh) == [] and stands(fresh)


ODD = '"Sch""ema"."Ta""ble\'s"'
ODD_VIEW = '"Sch""ema"."Ta""ble\'s_by_count_n_xact_g2"'
NAMES = (
    "count",
    "n",
    "xact",
    "g2",
    "below",
    "open",
    "proof",
    "k",
    "d",
    "t",
    "status",
    "g1",
    "inorder_place",
    "fold",
    "new",
)


@pytest.mark.parametrize("partitioned", ["", " PARTITION BY LIST (n)"])
def test_columns_with_names_that_inorder_uses_are_counted(fresh: Connection, partitioned: str) -> None:
    columns = ", ".join(f'"{name}" int' for name in NAMES)
    run(
        fresh,
        'CREATE SCHEMA "Sch""ema"',
        f"CREATE TABLE {ODD} ({columns}){partitioned}",
        *(
            [f'CREATE TABLE "Sch""ema".p{n} PARTITION OF {ODD} FOR VALUES IN ({n})' for n in range(3)]
            if partitioned
            else []
        ),
    )
    name = ODD.replace("'", "''")
    run(
        fresh,
        f"SELECT exact_count_start('{name}', by => '{{count,n,xact,g2}}')",
        f"SELECT exact_count_fold('{name}')",
        f"INSERT INTO {ODD} SELECT n % 2, n % 3, n % 5, n % 2 FROM generate_series(1, 100) AS n",
        f"UPDATE {ODD} SET count = 7, n = (n + 1) % 3 WHERE xact = 1",
        f"DELETE FROM {ODD} WHERE g2 = 0 AND n = 2",
    )
    groups = f"SELECT count, n, xact, g2, count(*) FROM {ODD} GROUP BY 1, 2, 3, 4"
    for _ in range(2):
        assert difference(fresh, ODD_VIEW, groups) == []
        assert value(fresh, f"SELECT max(count_) > 0 AND count(*) > 20 FROM {ODD_VIEW}") is True
        run(
            fresh,
            f"SELECT exact_count_fold('{name}')",
            f"INSERT INTO {ODD} DEFAULT VALUES" if not partitioned else "SELECT 1",
        )
    run(fresh, f"SELECT exact_count_stop('{name}', by => '{{count,n,xact,g2}}')")


def test_without_columns_all_rows_are_one_group(fresh: Connection) -> None:
    run(fresh, *PLAIN, "SELECT exact_count_start('orders', by => '{}')", FOLD)
    for statement in (
        "SELECT 1",
        ROWS,
        "DELETE FROM orders WHERE id > 50",
        FOLD,
        "DELETE FROM orders",
        FOLD,
        "TRUNCATE orders",
    ):
        run(fresh, statement)
        assert difference(fresh, "orders_count", "SELECT count(*) FROM orders") == [], statement


def test_each_of_several_sets_is_counted(fresh: Connection) -> None:
    start(fresh)
    run(fresh, "SELECT exact_count_start('orders', by => '{tenant,status}')",
        "SELECT exact_count_start('orders', by => '{}')", "UPDATE orders SET tenant = 9 WHERE id < 20", FOLD,
        "DELETE FROM orders WHERE id < 10")  # fmt: skip
    both = "SELECT tenant, status, count(*) FROM orders GROUP BY 1, 2"
    assert difference(fresh, "orders_by_tenant_status", both) == difference(fresh) == []
    run(fresh, "SELECT exact_count_stop('orders', by => '{status}')", "DELETE FROM orders WHERE id < 15")
    assert difference(fresh, "orders_by_tenant_status", both) == []
    assert value(fresh, "SELECT count FROM orders_count") == 186


TYPES = ("int2", "int8", "numeric", "bool", "uuid", "date", "timestamptz", "interval", "varchar(5)", "char(3)", "bytea",
         "inet", "mood", "name", 'text COLLATE "C"')  # fmt: skip
VALUES = {
    "bool": "true", "uuid": "00000000-0000-0000-0000-000000000000", "date": "2026-01-01", "timestamptz": "2026-01-01",
    "interval": "1 day", "inet": "10.0.0.1", "mood": "sad",
}  # fmt: skip


def test_groups_of_every_type_are_counted(fresh: Connection) -> None:
    run(fresh, "CREATE TYPE mood AS ENUM ('sad', 'happy')")
    for place, kind in enumerate(TYPES[:: 1 if LONG_RUN else 2]):
        run(fresh, f"CREATE TABLE t{place} (v {kind})", f"SELECT exact_count_start('t{place}', by => '{{v}}')",
            f"SELECT exact_count_fold('t{place}')",
            f"INSERT INTO t{place} VALUES ('{VALUES.get(kind, 1)}'), (NULL), (NULL)",
            f"SELECT exact_count_fold('t{place}')",
            f"INSERT INTO t{place} SELECT * FROM t{place} LIMIT 1")  # fmt: skip
        groups = f"SELECT v, count(*) FROM t{place} GROUP BY v"
        assert difference(fresh, f"t{place}_by_v", groups) == [], kind
        assert value(fresh, f"SELECT sum(count) FROM t{place}_by_v WHERE v = '{VALUES.get(kind, 1)}'") == 2


REFUSED = {
    "CREATE TABLE r (v float8)": "0A000",
    "CREATE TABLE r (v json)": "0A000",
    "CREATE DOMAIN v AS int; CREATE TABLE r (v v)": "0A000",
    "CREATE COLLATION c (provider = icu, locale = 'und', deterministic = false); "
    "CREATE TABLE r (v text COLLATE c)": "0A000",
    "CREATE TABLE r (w int)": "42703",
    "CREATE TABLE q (v int); CREATE TABLE r () INHERITS (q)": "42809",
    "CREATE TABLE r (v int); CREATE TABLE q () INHERITS (r)": "42809",
    "CREATE TABLE q (v int) PARTITION BY LIST (v); CREATE TABLE r PARTITION OF q DEFAULT": "42809",
    "CREATE UNLOGGED TABLE r (v int)": "42809",
    "CREATE TEMP TABLE r (v int)": "42809",
    "CREATE VIEW r AS SELECT 1 AS v": "42809",
    "CREATE TABLE r (v int); CREATE TABLE r_by_v (v int)": "42P07",
    "CREATE TABLE r (v int); CREATE TABLE r_by_v_deltas (v int)": "42P07",
    "CREATE TABLE r (v int); CREATE FUNCTION r_by_v_fold() RETURNS int RETURN 1": "42P07",
    "CREATE ROLE hidden; DO 'BEGIN IF to_regproc(''feed_admit'') IS NOT NULL THEN PERFORM feed_admit(''hidden'');"
    "END IF;END'; CREATE TABLE r (v int); ALTER TABLE r OWNER TO hidden; "
    "ALTER TABLE r ENABLE ROW LEVEL SECURITY; ALTER TABLE r FORCE ROW LEVEL SECURITY; "
    "GRANT ALL ON SCHEMA public TO hidden; SET ROLE hidden": "55000",
}  # fmt: skip


def test_unsuitable_tables_and_columns_are_refused_at_the_start(fresh: Connection) -> None:
    has_icu = refusal(fresh, "CREATE COLLATION i (provider = icu, locale = 'und')") == ""
    for statements, code in REFUSED.items():
        if "provider = icu" in statements and not has_icu:
            continue
        run(fresh, "BEGIN", *statements.split("; "))
        assert refusal(fresh, "SELECT exact_count_start('r', by => '{v}')", code).strip(), statements
        run(fresh, "ROLLBACK")
    run(fresh, *PLAIN)
    for by in ("NULL", "'{id,id}'", "'{NULL}'", "'{id,status,tenant,note,id}'"):
        refusal(fresh, f"SELECT exact_count_start('orders', by => {by})", "22023")
    run(fresh, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    refusal(fresh, START, "25001")
    run(fresh, "ROLLBACK")
    refusal(fresh, "SELECT exact_count_stop('orders', by => '{status}')", "55000")


def snapshot(connection: Connection, level: str = "REPEATABLE READ") -> None:
    run(connection, f"BEGIN ISOLATION LEVEL {level}", "SELECT 1")


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_an_older_snapshot_has_the_same_result_as_count(
    fresh: Connection, other: Connection, tables: Sequence[str]
) -> None:
    """TRUNCATE and rewrites of the table affect older snapshots, but fire no trigger that reports this."""
    start(fresh, tables)
    for change in (
        "DELETE FROM orders WHERE id < 50", "VACUUM FULL orders", "ALTER TABLE orders ALTER note TYPE varchar(9)",
        "ALTER TABLE orders ADD extra timestamptz DEFAULT clock_timestamp()", "TRUNCATE orders",
        ROWS.replace(", 200", ", 99"),
        *(("CREATE TABLE more (LIKE orders)", "INSERT INTO more VALUES (10001, 'more')") if tables is PARTS else ()),
        *(("ALTER TABLE orders ATTACH PARTITION more FOR VALUES FROM (10000) TO (20000)", "DROP TABLE more",
           "TRUNCATE low")
          if tables is PARTS else ()),
    ):  # fmt: skip
        snapshot(other)
        run(fresh, change)
        assert difference(other) == [], change
        if refusal(fresh, FOLD):
            run(fresh, START, FOLD)
        assert difference(other) == difference(fresh) == [], change
        assert stands(fresh), change
        run(fresh, "INSERT INTO orders VALUES (-1, 'less')", "DELETE FROM orders WHERE id = -1")
        assert difference(other) == difference(fresh) == [], change
        run(other, "COMMIT")


UNSEEN = {
    "trigger disabled": ("ALTER TABLE orders DISABLE TRIGGER ALL", "DELETE FROM orders WHERE id < 9",
                         "ALTER TABLE orders ENABLE TRIGGER ALL", "DELETE FROM orders WHERE id < 19"),
    "trigger dropped": ("DO $$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON orders', tgname) FROM pg_trigger "
                        "WHERE tgrelid = 'orders'::regclass AND tgname ~ '_delete$'); END $$",
                        "DELETE FROM orders WHERE id < 9"),
    "rewritten": ("VACUUM FULL orders", "INSERT INTO orders VALUES (-2, 'low')"),
    "deltas emptied": ("TRUNCATE orders_by_status_deltas", "INSERT INTO orders VALUES (-2, 'low')"),
    "child": ("CREATE TABLE child () INHERITS (orders)", "INSERT INTO child VALUES (-2, 'low')"),
    "child that was filled": ("CREATE TABLE child (LIKE orders)", "INSERT INTO child VALUES (-2, 'low')",
                              "ALTER TABLE child INHERIT orders"),
}  # fmt: skip
UNSEEN_IN_PARTS = {
    "new partition": ("CREATE TABLE more PARTITION OF orders FOR VALUES FROM (10000) TO (20000)",
                      "INSERT INTO more VALUES (10001, 'more')", "INSERT INTO orders VALUES (10002, 'more')"),
    "partition that was filled": ("CREATE TABLE more (LIKE orders)", "INSERT INTO more VALUES (10001, 'more')",
                                  "ALTER TABLE orders ATTACH PARTITION more DEFAULT"),
    "detached": ("ALTER TABLE orders DETACH PARTITION low", "DELETE FROM low"),
    "detached concurrently": ("ALTER TABLE orders DETACH PARTITION low CONCURRENTLY",),
    "dropped": ("DROP TABLE high_1",),
    "detached and attached": ("ALTER TABLE orders DETACH PARTITION low", "DROP TABLE low",
                              "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (-100) TO (100)"),
    "partition truncated": ("TRUNCATE high_2",),
    "triggers of a partition": ("ALTER TABLE high_1 DISABLE TRIGGER USER", "DELETE FROM high_1",
                                "ALTER TABLE high_1 ENABLE TRIGGER USER"),
}  # fmt: skip
NOT_COUNTED_ANY_MORE = ("child", "child that was filled")


@pytest.mark.parametrize(
    ("tables", "changes"), [(PLAIN, UNSEEN), (PARTS, UNSEEN_IN_PARTS)], ids=["plain", "partitions"]
)
def test_after_changes_that_no_trigger_sees_the_view_counts_the_table(
    fresh: Connection, tables: Sequence[str], changes: dict[str, Sequence[str]]
) -> None:
    for name, statements in changes.items():
        start(fresh, tables)
        run(fresh, *statements)
        assert difference(fresh) == [] and not stands(fresh), name
        if name in NOT_COUNTED_ANY_MORE:
            assert refusal(fresh, FOLD) == "42809", name
        else:
            if refusal(fresh, FOLD):
                run(fresh, START, FOLD)
            assert difference(fresh) == [] and stands(fresh), name
            run(fresh, "INSERT INTO orders VALUES (9999, 'high')", "DELETE FROM orders WHERE id BETWEEN 90 AND 110")
            assert difference(fresh) == [], name
        run(fresh, "DROP TABLE IF EXISTS orders, child, above, more, low CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


ABOVE = "CREATE TABLE above PARTITION OF orders FOR VALUES FROM (20000) TO (30000) PARTITION BY RANGE (id)"
NEW = "CREATE TABLE more PARTITION OF orders FOR VALUES FROM (10000) TO (20000)"
WRITTEN = (
    "INSERT INTO orders VALUES (10001, 's1'), (10002, 'more')",
    "UPDATE orders SET status = 's2' WHERE id IN (1, 10001)",
    "UPDATE orders SET id = id + 10000 WHERE id = 5",
)
GONE = {  # changes between two folds
    "dropped": (NEW, *WRITTEN, "DROP TABLE more"),
    "detached": (NEW, *WRITTEN, "ALTER TABLE orders DETACH PARTITION more"),
    "detached concurrently": (NEW, *WRITTEN, "ALTER TABLE orders DETACH PARTITION more CONCURRENTLY"),
    "truncated": (NEW, *WRITTEN, "TRUNCATE more", "DROP TABLE more"),
    "one transaction": ("BEGIN", NEW, *WRITTEN, "DROP TABLE more", "COMMIT"),
    "attached": ("CREATE TABLE more (LIKE orders INCLUDING INDEXES)",
                 "ALTER TABLE orders ATTACH PARTITION more FOR VALUES FROM (10000) TO (20000)", *WRITTEN,
                 "DROP TABLE more"),
    "written itself": (NEW, START, "INSERT INTO more VALUES (10001, 'more')", "DROP TABLE more"),
    "rows of a replica": (NEW, "SET session_replication_role = replica", "INSERT INTO more VALUES (10001, 'more')",
                          "RESET session_replication_role", "DROP TABLE more"),
    "with partitions": (f"{NEW} PARTITION BY RANGE (id)",
                        "CREATE TABLE more_1 PARTITION OF more FOR VALUES FROM (10000) TO (20000)", *WRITTEN,
                        "DROP TABLE more"),
    "below another": ("CREATE TABLE more PARTITION OF above FOR VALUES FROM (20000) TO (30000)",
                      "INSERT INTO orders VALUES (20001, 's1'), (20002, 'more')", "DROP TABLE more"),
    "of before": ("INSERT INTO orders VALUES (-1, 'low')", "DELETE FROM orders WHERE id = 110", "DROP TABLE high_1"),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE)
def test_counts_are_right_after_a_partition_is_gone(fresh: Connection, other: Connection, name: str) -> None:
    """The deltas of the partition's rows remain, even though the table's definition is the same as before."""
    start(fresh, (*PARTS, ABOVE))
    *changes, last = GONE[name]
    run(fresh, *changes)
    if changes[0] != "BEGIN":
        assert difference(fresh) == []
    snapshot(other)
    run(fresh, last)
    assert difference(fresh) == difference(other) == []
    run(fresh, "INSERT INTO orders VALUES (-2, 'low')")
    assert difference(fresh) == difference(other) == [] and not stands(fresh)
    run(fresh, FOLD)
    assert difference(fresh) == difference(other) == [] and stands(fresh)
    run(fresh, "UPDATE orders SET status = 'later' WHERE id < 9", "DELETE FROM low WHERE id = 9")
    assert difference(fresh) == [] and stands(fresh)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_writes_into_a_partition_newer_than_the_snapshot_are_counted(
    fresh: Connection, other: Connection, level: str
) -> None:
    """A transaction can write into a partition that its snapshot does not show."""
    start(fresh, PARTS)
    snapshot(other, level)
    run(fresh, NEW)
    run(other, "INSERT INTO orders VALUES (10001, 's1')", "COMMIT")
    run(fresh, "DROP TABLE more")
    assert difference(fresh) == []
    run(fresh, FOLD)
    assert difference(fresh) == [] and stands(fresh)


def test_writers_do_not_lock_other_partitions(fresh: Connection, other: Connection) -> None:
    start(fresh, PARTS)
    run(other, "BEGIN", "LOCK TABLE ONLY high, ONLY high_1")
    run(fresh, "SET lock_timeout = '2s'", "INSERT INTO orders VALUES (-1, 'low')", "INSERT INTO low VALUES (-2, 'low')")
    run(other, "COMMIT")
    assert difference(fresh) == [] and stands(fresh)


def test_counts_are_right_after_a_child_is_dropped(fresh: Connection) -> None:
    """Deltas remain after a child table was dropped, and again after a second one was dropped."""
    for _ in range(2):
        start(fresh)
        for _ in range(2):
            run(fresh, "CREATE TABLE child () INHERITS (orders)", "INSERT INTO child VALUES (-2, 'low')",
                "UPDATE orders SET status = 'lower' WHERE id = -2", "DROP TABLE child")  # fmt: skip
            assert difference(fresh) == [] and refusal(fresh, FOLD) == "42809"
        run(fresh, "ANALYZE orders")
        assert difference(fresh) == []
        run(fresh, FOLD)
        assert difference(fresh) == [] and stands(fresh)
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


# Statements for each case. The last one is executed after the fold has failed.
WHILE_A_FOLD_WAITS = {
    "a partition that goes": ("CREATE TABLE more (LIKE orders)", "ALTER TABLE orders ATTACH PARTITION more "
                              "FOR VALUES FROM (10000) TO (20000)", WRITTEN[0], "DROP TABLE more"),
    "disabled triggers": ("ALTER TABLE high_1 DISABLE TRIGGER USER", "DELETE FROM high_1 WHERE id < 120"),
}  # fmt: skip


@pytest.mark.parametrize("changes", WHILE_A_FOLD_WAITS.values(), ids=WHILE_A_FOLD_WAITS)
def test_a_fold_is_refused_if_the_table_changes_while_it_waits(
    fresh: Connection, other: Connection, changes: Sequence[str]
) -> None:
    *meanwhile, after = changes
    start(fresh, PARTS)
    run(fresh, "VACUUM FULL high_2")  # the fold will then count the table
    run(other, "BEGIN", "LOCK TABLE orders_by_status_deltas IN SHARE UPDATE EXCLUSIVE MODE")
    with connect(fresh.info.dsn) as folding, blocked(refusal, folding, FOLD) as fold:
        run(fresh, *meanwhile)
        run(other, "COMMIT")
        assert fold.result() == "40001"
    assert difference(fresh) == []
    run(fresh, after)
    assert difference(fresh) == []


def test_counts_are_right_after_changes_in_the_transaction_of_a_fold(fresh: Connection) -> None:
    """A trigger disabled and enabled before or after the fold, in the same transaction, causes no wrong counts.

    Other transactions cannot see that it was disabled.
    """
    start(fresh)
    run(fresh, "BEGIN", "ALTER TABLE orders DISABLE TRIGGER USER", "ALTER TABLE orders ENABLE TRIGGER USER")
    assert refusal(fresh, FOLD) in ("25001", "55000")
    run(fresh, "ROLLBACK", "BEGIN", FOLD, "ALTER TABLE orders DISABLE TRIGGER USER", "DELETE FROM orders WHERE id = 7",
        "ALTER TABLE orders ENABLE TRIGGER USER")  # fmt: skip
    assert difference(fresh) == []
    run(fresh, "COMMIT")
    assert difference(fresh) == []
    run(fresh, START, "BEGIN", "LOCK TABLE orders")
    assert refusal(fresh, FOLD) == "25001"


def test_a_fold_within_a_statement_counts_no_row_twice(fresh: Connection) -> None:
    """The table has rows that later triggers of the same statement have yet to count.

    If the fold counted the table, it would count these rows twice.
    """
    start(fresh)
    run(fresh, "CREATE FUNCTION fold() RETURNS trigger LANGUAGE plpgsql AS "
               "'BEGIN PERFORM exact_count_fold(''orders''); RETURN NULL; END'",
        "CREATE TRIGGER aa AFTER INSERT OR UPDATE OR DELETE ON orders EXECUTE FUNCTION fold()")  # fmt: skip
    run(fresh, "UPDATE orders SET status = 'folded' WHERE id < 9")
    assert difference(fresh) == [] and stands(fresh)
    run(fresh, "VACUUM FULL orders")
    assert refusal(fresh, "UPDATE orders SET status = 'again' WHERE id < 9") == "25001"
    run(fresh, "DROP TRIGGER aa ON orders")
    for _ in range(1100):
        fresh.execute(b"UPDATE orders SET tenant = tenant + 1 WHERE id = 2")
    assert difference(fresh) == [] and not stands(fresh)


def test_counts_stay_with_a_table_that_is_renamed(fresh: Connection) -> None:
    start(fresh)
    run(fresh, "CREATE TABLE filled (LIKE orders)", "BEGIN", "ALTER TABLE orders RENAME TO orders_old",
        "ALTER TABLE filled RENAME TO orders", "COMMIT", "INSERT INTO orders VALUES (1, 'other')",
        "INSERT INTO orders_old VALUES (-1, 'old')")  # fmt: skip
    assert difference(fresh, groups=GROUPS.replace("orders", "orders_old")) == []
    assert refusal(fresh, START) == "42P07"
    run(fresh, "SELECT exact_count_stop('orders_old', by => '{status}')", START)


def test_counts_do_not_mix_after_a_swap_of_schemas(fresh: Connection) -> None:
    """The functions contain names that now refer to the counts of another table.

    Writers fail until the owner repairs the counts.

    The trigger in C finds the deltas in the schema of its function, even if that schema was renamed.
    """
    for schema in ("blue", "green"):
        run(fresh, f"CREATE SCHEMA {schema}", f"SET search_path = {schema}, public", *PLAIN, ROWS, START, FOLD)
    run(fresh, "BEGIN", "ALTER SCHEMA blue RENAME TO red", "ALTER SCHEMA green RENAME TO blue", "COMMIT")
    in_c = value(fresh, "SELECT to_regproc('exact_count_trigger') IS NOT NULL") is True
    for role, fails in (("replica", True), ("origin", not in_c)):
        run(fresh, f"SET session_replication_role = {role}")
        for schema in ("blue", "red"):
            sqlstate = refusal(fresh, f"INSERT INTO {schema}.orders VALUES (-3)", "42P01", "3F000")
            assert (sqlstate in ("42P01", "3F000", "55000")) == fails and bool(sqlstate) == fails, (role, schema)
            groups = GROUPS.replace("orders", f"{schema}.orders")
            assert difference(fresh, f"{schema}.orders_by_status", groups) == [], (role, schema)
    for schema in ("blue", "red"):
        run(fresh, f"SET search_path = {schema}, public", START, "INSERT INTO orders VALUES (-1)")
        assert difference(fresh) == []
        run(fresh, FOLD, "INSERT INTO orders VALUES (-2)")
        assert difference(fresh) == [] and stands(fresh)


def test_merge_that_moves_rows_is_counted_or_refused(fresh: Connection) -> None:
    start(fresh, PARTS)
    run(fresh, "DELETE FROM orders WHERE id BETWEEN 95 AND 110")
    merge = ("MERGE INTO orders USING (VALUES {}) AS v(id) ON orders.id = v.id "
             "WHEN MATCHED THEN UPDATE SET status = 'merged', id = orders.id + {} "
             "WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'new')")  # fmt: skip
    run(fresh, merge.format("(60), (61), (-5)", 38), "UPDATE orders SET id = id + 300 WHERE id BETWEEN 40 AND 45")
    assert difference(fresh) == [] and stands(fresh)
    for moved in ("(1)", "(1), (98)", "(1), (-7)"):
        state = refusal(fresh, merge.format(moved, 100))
        assert state == "0A000" or difference(fresh) == [], (moved, state)
    run(fresh, "UPDATE orders SET id = id + 300, status = 'again' WHERE id BETWEEN 2 AND 9")
    assert difference(fresh) == [] and stands(fresh)


def test_merge_that_inserts_before_it_updates_is_counted(fresh: Connection) -> None:
    """PostgreSQL 18.6 passes the inserted row to statement-level triggers instead of the rows updated after it."""
    start(fresh, PARTS)
    run(fresh, "MERGE INTO orders USING (VALUES (-1, 'new'), (7, 'first'), (-2, 'newer'), (160, 'second')) "
               "AS v(id, status) ON orders.id = v.id WHEN MATCHED THEN UPDATE SET status = v.status "
               "WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.status)")  # fmt: skip
    assert difference(fresh) == [] and stands(fresh)


def test_generated_columns_of_partitions_are_counted(fresh: Connection) -> None:
    tables = ("CREATE TABLE orders (id int, status int GENERATED ALWAYS AS (id % 7) STORED) PARTITION BY RANGE (id)",
              "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (100)",
              "CREATE TABLE high (status int GENERATED ALWAYS AS (id % 7) STORED, id int)",
              "ALTER TABLE orders ATTACH PARTITION high FOR VALUES FROM (100) TO (10000)")  # fmt: skip
    run(fresh, *tables, "INSERT INTO orders SELECT generate_series(1, 200)", START, FOLD)
    for statement in (
        "INSERT INTO orders SELECT generate_series(50, 150)",
        "INSERT INTO high (id) SELECT generate_series(150, 155)",
        "UPDATE orders SET id = id + 1 WHERE id BETWEEN 95 AND 105",
        "MERGE INTO orders USING (VALUES (999), (20), (180)) AS v(id) ON orders.id = v.id "
        "WHEN MATCHED THEN UPDATE SET id = v.id + 3 WHEN NOT MATCHED THEN INSERT VALUES (v.id)",
        "DELETE FROM orders WHERE id > 140",
        "SET session_replication_role = replica; INSERT INTO orders SELECT generate_series(50, 150); "
        "UPDATE orders SET id = id + 1 WHERE id > 90; RESET session_replication_role",
        "UPDATE orders SET id = id + 2 WHERE id < 20",
    ):
        run(fresh, statement)
        assert difference(fresh) == [] and stands(fresh), statement


def test_writes_with_the_replication_role_replica_are_counted(fresh: Connection) -> None:
    for tables in (PLAIN, PARTS):
        start(fresh, tables)
        run(fresh, "SET session_replication_role = replica")
        for statement in WRITES:
            if not any(word in statement for word in ("parents", "TRUNCATE", "'last'")):
                run(fresh, statement)
                assert difference(fresh) == [] and stands(fresh), statement
        run(fresh, "RESET session_replication_role", FOLD, "DROP TABLE orders CASCADE",
            "DROP TABLE orders_by_status_deltas", "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


def test_a_detached_partition_is_no_longer_counted(fresh: Connection) -> None:
    """The partition keeps its statement-level triggers, but the fold removes its rows from the counts."""
    start(fresh, PARTS)
    run(fresh, "ALTER TABLE orders DETACH PARTITION low", FOLD, "DELETE FROM low WHERE id < 20",
        "INSERT INTO low VALUES (-9, 'gone')", "UPDATE low SET status = 'gone'")  # fmt: skip
    assert difference(fresh) == [] and stands(fresh)
    run(fresh, "ALTER TABLE orders ATTACH PARTITION low FOR VALUES FROM (-100) TO (100)", START, FOLD,
        "DELETE FROM low WHERE id < 30", "SET session_replication_role = replica", "DELETE FROM low WHERE id < 40",
        "RESET session_replication_role")  # fmt: skip
    assert difference(fresh) == [] and stands(fresh)


def test_changed_triggers_of_a_partition_are_noticed(fresh: Connection) -> None:
    """After ENABLE TRIGGER, the trigger for replicas also fires, and would count rows twice.

    After DISABLE TRIGGER, rows that move to another partition would be missed.
    """
    for change in ("ENABLE TRIGGER USER", "DISABLE TRIGGER USER"):
        start(fresh, PARTS)
        run(fresh, f"ALTER TABLE low {change}", "DELETE FROM low WHERE id < 9")
        assert difference(fresh) == [] and not stands(fresh), change
        assert refusal(fresh, FOLD) == "55000", change
        run(fresh, START, FOLD, "DELETE FROM low WHERE id < 19")
        assert difference(fresh) == [] and stands(fresh), change
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


def test_equal_groups_with_different_bytes_are_counted_as_one(fresh: Connection) -> None:
    """Numbers that are written differently fall into one group.

    So do equal strings, whether they are stored compressed, out of line or plain.
    """
    long = "(SELECT string_agg(md5(k::text), '') FROM generate_series(1, 300) AS k)"
    run(fresh, "CREATE TABLE orders (id int, status numeric, note text)",
        "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL",
        "SELECT exact_count_start('orders', by => '{status,note}')", FOLD,
        "INSERT INTO orders SELECT n, (ARRAY[1, 1.0, 1.00, NULL])[1 + n % 4], "
        f"{long} FROM generate_series(1, 40) AS n")  # fmt: skip
    groups = "SELECT status, note, count(*) FROM orders GROUP BY 1, 2"
    for statement in ("UPDATE orders SET status = 1.000 WHERE id < 9", "UPDATE orders SET note = 'y' WHERE id = 4",
                      f"UPDATE orders SET note = {long}", FOLD,
                      "DELETE FROM orders WHERE id % 3 = 0"):  # fmt: skip
        run(fresh, statement)
        assert difference(fresh, "orders_by_status_note", groups) == [], statement
    assert value(fresh, "SELECT count(*) FROM orders_by_status_note") == 2


def test_groups_that_exceed_the_memory_of_a_statement_are_counted(fresh: Connection) -> None:
    run(fresh, *PLAIN, "SELECT exact_count_start('orders', by => '{tenant}')", FOLD,
        "INSERT INTO orders SELECT n, 's', n % 23456 FROM generate_series(1, 40000) AS n",
        "UPDATE orders SET tenant = tenant + 1 WHERE tenant < 12000 OR tenant IS NULL")  # fmt: skip
    groups = "SELECT tenant, count(*) FROM orders GROUP BY tenant"
    assert difference(fresh, "orders_by_tenant", groups) == []
    assert value(fresh, "SELECT count(*) < 55000 FROM orders_by_tenant_deltas") is True


FORGED = (  # trigger names, each with its table
    ("zz_inorder_count_1_insert", "stolen"),
    ("{name}insert", "stolen"),
    ("{name}update", "orders"),
    ("aa", "orders"),
)


@pytest.mark.parametrize("edition", ["c"])
def test_a_forged_trigger_writes_no_deltas(fresh: Connection, edition: str) -> None:
    """A role with TRIGGER on a table creates triggers that call the function shared by all owners."""
    if value(fresh, "SELECT to_regproc('exact_count_trigger') IS NULL"):
        pytest.skip("in the SQL edition, each view has a trigger function of its owner")
    start(fresh)
    run(fresh, "CREATE TABLE stolen (LIKE orders)")
    name = value(fresh, "SELECT left(tgname, -3) FROM pg_trigger WHERE tgname ~ '^zz_inorder_count_.*_row$'")
    deltas = value(fresh, "SELECT 'orders_by_status_deltas'::regclass::oid")
    with roles(fresh, "forger"):
        run(fresh, "GRANT TRIGGER, INSERT ON orders, stolen TO forger", "GRANT CREATE ON SCHEMA public TO forger",
            "SET ROLE forger",
            "CREATE FUNCTION row_of_mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")  # fmt: skip
        for trigger, table in FORGED:
            text = f"TRIGGER {trigger.format(name=name)} AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows "
            call = f"EXECUTE FUNCTION exact_count_trigger({deltas}, status)"
            if not refusal(fresh, f"CREATE OR REPLACE {text} FOR EACH STATEMENT {call}", "42501", "42710"):
                run(fresh, f"INSERT INTO {table} VALUES ({-1 - FORGED.index((trigger, table))}, 'forged', 1)")
        assert refusal(fresh, f"CREATE TRIGGER {name}row AFTER INSERT ON stolen FOR EACH ROW "
                              "EXECUTE FUNCTION orders_by_status_deltas()") == "42501"  # fmt: skip
        run(fresh, f"CREATE TRIGGER {name}row AFTER INSERT ON stolen FOR EACH ROW EXECUTE FUNCTION row_of_mine()",
            "INSERT INTO stolen VALUES (-9, 'forged', 1)", "RESET ROLE")  # fmt: skip
        assert difference(fresh) == []
        assert value(fresh, "SELECT count(*) FROM orders_by_status_deltas WHERE g1 = 'forged'") == value(
            fresh, "SELECT count(*) FROM orders WHERE status = 'forged'"
        )
        run(fresh, "CREATE TRIGGER by_row AFTER INSERT ON stolen FOR EACH ROW EXECUTE FUNCTION exact_count_trigger()")
        assert refusal(fresh, "INSERT INTO stolen VALUES (1)") == "39P01"
        assert refusal(fresh, "SELECT exact_count_trigger()", "0A000", "39P01")
        run(fresh, "DROP TABLE stolen CASCADE", "DROP FUNCTION row_of_mine()")


def test_constraints_that_the_owner_adds_to_the_deltas_are_checked(fresh: Connection) -> None:
    """The owner of the deltas may add constraints.

    Without a check, a null in a NOT NULL column would be read as a value.
    """
    for constraint, state in (("ALTER open SET NOT NULL", "23502"), ("ALTER g1 SET NOT NULL", "23502"),
                              ("ADD CHECK (n < 5)", "23514")):  # fmt: skip
        run(fresh, *PLAIN, START, f"ALTER TABLE orders_by_status_deltas {constraint}")
        many = "INSERT INTO orders SELECT n FROM generate_series(1, 9) AS n"
        assert refusal(fresh, many) == state, constraint
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


def test_a_table_of_another_owner_is_not_taken_for_deltas(fresh: Connection) -> None:
    """The trigger in C needs no privileges to write.

    The function, the deltas and the table must therefore belong to the same role.
    """
    if value(fresh, "SELECT to_regproc('exact_count_trigger') IS NULL"):
        pytest.skip("in the SQL edition, each view has a trigger function of its owner")
    run(fresh, "CREATE TABLE victim (g1 text, n int8, xact xid8, open text, proof text)")
    with roles(fresh, "forger"):
        run(fresh, "GRANT CREATE ON SCHEMA public TO forger", "SET ROLE forger", "CREATE TABLE bait (status text)",
            "CREATE FUNCTION victim() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER zz_inorder_count_1_row AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION victim()",
            "ALTER TABLE bait ENABLE REPLICA TRIGGER zz_inorder_count_1_row",
            "CREATE TRIGGER zz_inorder_count_1_insert AFTER INSERT ON bait REFERENCING NEW TABLE AS new_rows "
            "FOR EACH STATEMENT EXECUTE FUNCTION exact_count_trigger(0, status)",
            "INSERT INTO bait VALUES ('forged')", "RESET ROLE", "INSERT INTO bait VALUES ('forged')")  # fmt: skip
        assert value(fresh, "SELECT count(*) FROM victim") == 0
        run(fresh, "ALTER TABLE victim OWNER TO forger", "INSERT INTO bait VALUES ('own')")
        assert value(fresh, "SELECT count(*) FROM victim") == 1
        run(fresh, "DROP TABLE bait, victim", "DROP FUNCTION victim()")


def test_writes_before_and_after_a_fold_are_counted(fresh: Connection, other: Connection) -> None:
    """Writes before and after a fold are counted, both in open transactions and in the fold's own transaction."""
    start(fresh)
    run(other, "BEGIN", "INSERT INTO orders VALUES (-1, 'open')", "SAVEPOINT s", "DELETE FROM orders WHERE id = 5")
    run(
        fresh,
        "INSERT INTO orders VALUES (-10, 'done')",
        FOLD,
        "BEGIN",
        "INSERT INTO orders VALUES (-11, 'own')",
        FOLD,
        "INSERT INTO orders VALUES (-12, 'own')",
        "SAVEPOINT t",
        "UPDATE orders SET status = 'own' WHERE id = 6",
        FOLD,
    )
    assert difference(fresh) == difference(other) == []
    run(other, "ROLLBACK TO s", "INSERT INTO orders VALUES (-2, 'open')")
    run(fresh, "INSERT INTO orders VALUES (-13, 'own')", "COMMIT")
    assert difference(fresh) == difference(other) == []
    run(other, "PREPARE TRANSACTION 'of count'")
    run(fresh, FOLD)
    assert difference(fresh) == []
    run(fresh, "COMMIT PREPARED 'of count'")
    assert difference(fresh) == difference(other) == []
    run(fresh, FOLD)
    assert difference(fresh) == [] and stands(fresh)
    run(fresh, "BEGIN", FOLD, "ROLLBACK", "BEGIN", "SAVEPOINT s", "DELETE FROM orders WHERE id = 7", FOLD,
        "ROLLBACK TO s", "COMMIT")  # fmt: skip
    assert difference(fresh) == [] and stands(fresh)
    assert value(fresh, "SELECT count(*) FROM orders_by_status_deltas WHERE proof IS NOT NULL") == 1


def test_rows_committed_during_the_start_are_counted_once(fresh: Connection, other: Connection) -> None:
    """Rows committed after the triggers were created and before the first fold are counted once."""
    run(fresh, *PLAIN, ROWS, START)
    run(other, "BEGIN", "INSERT INTO orders VALUES (-1, 'open')")
    run(
        fresh,
        "INSERT INTO orders VALUES (-2, 'between')",
        "DELETE FROM orders WHERE id < 0",
        "DELETE FROM orders WHERE id = 9",
    )
    assert difference(fresh) == [] and not stands(fresh)
    run(fresh, FOLD)
    assert difference(fresh) == [] and stands(fresh)
    run(other, "COMMIT")
    assert difference(fresh) == difference(other) == []
    run(fresh, FOLD)
    assert difference(fresh) == [] and stands(fresh)


def test_writers_fold_automatically(fresh: Connection, other: Connection) -> None:
    """Writers fold automatically without pg_cron, even while another transaction stays open.

    The deltas of that transaction are counted later.
    """
    start(fresh)
    run(other, "BEGIN", "DELETE FROM orders WHERE id = 1")
    until_a_fold = value(fresh, "SELECT 2000 - pg_current_xact_id()::text::int8 % 2000")
    assert isinstance(until_a_fold, int)
    spend_transactions(fresh, max(until_a_fold - 150, 0))
    for _ in range(min(until_a_fold, 150) + 10):
        fresh.execute(b"UPDATE orders SET status = 's' || (tenant + 1) % 4, tenant = tenant + 1 WHERE id = 2")
    assert stands(fresh)
    assert value(fresh, "SELECT count(*) < 100 FROM orders_by_status_deltas") is True
    run(other, "COMMIT")
    assert difference(fresh) == []


def pages(connection: Connection) -> int:
    """Return the number of pages of the deltas table that a query of the view reads."""
    explained = value(connection, "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) SELECT * FROM orders_by_status")
    nodes = [explained[0]["Plan"]]
    number = 0
    for node in nodes:
        nodes += node.get("Plans", [])
        if node.get("Relation Name") == "orders_by_status_deltas":
            assert node["Node Type"] != "Seq Scan", node
            number += node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    return number


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_a_held_snapshot_makes_reads_no_slower(fresh: Connection, other: Connection, tables: Sequence[str]) -> None:
    """VACUUM cannot remove folded deltas, but reads do not visit them."""
    start(fresh, tables)
    snapshot(other)
    write = "UPDATE orders SET status = 's' || (id + tenant) % 4, tenant = tenant + 1 WHERE id = 1 + {} % 100"
    at_first = 0
    for turn in range(60 if LONG_RUN else 30):
        run(fresh, "BEGIN", *map(write.format, range(100)), "COMMIT", FOLD, write.format(turn))
        at_first = at_first or pages(fresh)
    assert pages(fresh) <= 3 * at_first
    # These deltas are older than the fold. After the DELETE, many pages of the table and of the index contain few rows.
    run(fresh, "ALTER INDEX orders_by_status_deltas_xact_idx SET (deduplicate_items = off)", "BEGIN",
        "SELECT set_config('inorder.folding', 'orders_by_status_deltas'::regclass::oid::text, true)",
        "INSERT INTO orders_by_status_deltas (g1, n, xact) "
        "SELECT 's1', 0, (3 + n % 100)::text::xid8 FROM generate_series(1, 30000) AS n",
        "DELETE FROM orders_by_status_deltas WHERE n = 0 AND proof IS NULL", "COMMIT")  # fmt: skip
    # With one group, the planner estimates that an index scan costs more than a sequential scan.
    for changes in ((), ("UPDATE orders SET status = 's1'", FOLD)):
        run(fresh, *changes)
        for statement in ("VACUUM", "ANALYZE", "VACUUM"):  # autovacuum would run these
            run(fresh, f"{statement} orders_by_status_deltas")
            assert pages(fresh) <= 3 * at_first, (changes, statement)
    assert difference(fresh) == difference(other) == []


def test_writers_need_only_the_table_and_readers_only_the_view(fresh: Connection) -> None:
    """Writers need privileges on the table only, and readers on the view only. No role can write deltas itself."""
    start(fresh)
    run(fresh, "CREATE VIEW writable WITH (security_invoker = off) AS SELECT * FROM orders")
    with roles(fresh, "writer", "by_column", "by_view", "reader", "stranger"):
        admit(fresh, "writer", "by_column", "by_view", "reader", "stranger")
        run(fresh, "GRANT INSERT, DELETE ON orders TO writer", "GRANT SELECT (id) ON orders TO writer",
            "GRANT INSERT (id, status) ON orders TO by_column", "GRANT INSERT ON writable TO by_view",
            "GRANT SELECT ON orders_by_status TO reader", "GRANT SELECT ON orders TO stranger")  # fmt: skip
        for role, statement in (("writer", "INSERT INTO orders VALUES (-1, 'w')"),
                                ("writer", "DELETE FROM orders WHERE id = 9"),
                                ("by_column", "INSERT INTO orders (id, status) VALUES (-2, 'c')"),
                                ("by_view", "INSERT INTO writable VALUES (-3, 'v')")):  # fmt: skip
            run(fresh, f"SET ROLE {role}", statement)
            for forbidden in ("TABLE orders_by_status_deltas", "DELETE FROM orders_by_status_deltas",
                              "INSERT INTO orders_by_status_deltas (n, xact) VALUES (1, '3')", "TABLE orders_by_status",
                              "INSERT INTO orders_by_status_deltas (n, open, proof) VALUES (1, '{}', '')"):  # fmt: skip
                assert refusal(fresh, forbidden) == "42501", (role, forbidden)
            run(fresh, "RESET ROLE")
        assert difference(fresh) == []
        run(fresh, FOLD, "SET ROLE reader")
        assert value(fresh, "SELECT count FROM orders_by_status WHERE status = 'w'") == 1
        for role in ("reader", "stranger"):
            run(fresh, f"SET ROLE {role}")
            assert refusal(fresh, "INSERT INTO orders_by_status_deltas (g1, n) VALUES ('s1', 1)") == "42501"
            for call in (START, FOLD, "SELECT exact_count_stop('orders', by => '{status}')"):
                assert refusal(fresh, call) == "42501", (role, call)
            run(fresh, "RESET ROLE")
        # The view has its owner's rights even while it counts the table.
        run(fresh, "VACUUM FULL orders", "SET ROLE reader")
        assert value(fresh, "SELECT count FROM orders_by_status WHERE status = 'w'") == 1
        run(fresh, "RESET ROLE")


def test_default_privileges_grant_nothing_on_counts(fresh: Connection) -> None:
    with roles(fresh, "app"):
        admit(fresh, "app")
        run(
            fresh,
            "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app, PUBLIC",
            *PLAIN,
            "REVOKE ALL ON orders FROM app, PUBLIC",
            "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC",
            ROWS,
            START,
            FOLD,
            "SET ROLE app",
        )
        assert refusal(fresh, "INSERT INTO orders_by_status_deltas (g1, n, xact) VALUES ('s1', 1, '3')") == "42501"
        assert refusal(
            fresh, "CREATE TRIGGER t AFTER INSERT ON orders_by_status_deltas EXECUTE FUNCTION orders_by_status_deltas()"
        )
        assert value(fresh, "SELECT count(*) FROM orders_by_status") == 4
        run(
            fresh,
            "RESET ROLE",
            "GRANT INSERT ON orders TO app",
            "SET ROLE app",
            "INSERT INTO orders VALUES (-1)",
            "RESET ROLE",
            "DROP OWNED BY app",
        )
        assert difference(fresh) == []


def test_stopping_a_count_drops_all_its_objects(fresh: Connection) -> None:
    objects = ("SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace), "
               "(SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_trigger), "
               "(SELECT count(*) FROM pg_depend)")  # fmt: skip
    for tables in (PLAIN, PARTS):
        run(fresh, *tables)
        before = fresh.execute(objects.encode()).fetchall()
        run(fresh, START, FOLD, ROWS, "SELECT exact_count_stop('orders', by => '{status}')")
        assert fresh.execute(objects.encode()).fetchall() == before
        run(fresh, "DROP TABLE orders")


def test_counts_are_right_in_a_restored_database(fresh: Connection, cluster: Cluster, tmp_path: Path) -> None:
    """In a restored database, the view counts the table until the first fold, and writers continue."""
    start(fresh, PARTS)
    run(fresh, "INSERT INTO orders VALUES (-1, 'unfolded')")
    with copied(cluster, "tail", cluster, "restored", "custom", tmp_path) as restored:
        run(restored, "SET search_path = public, inorder")
        assert not stands(restored) and difference(restored) == []
        run(restored, "INSERT INTO orders VALUES (-2, 'new')", "DELETE FROM orders WHERE id = 3")
        assert difference(restored) == []
        run(restored, FOLD, "DELETE FROM orders WHERE id = 4")
        assert stands(restored) and difference(restored) == []
