"""inorder count: all options and formats, and errors."""

import json
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from ground import roles
from tail_runs import Tail, insert
from world.sql import run, value

pytestmark = pytest.mark.server


@pytest.fixture
def count(cluster: Cluster, fresh: Connection, tmp_path: Path) -> Tail:
    return Tail(cluster, tmp_path, command="count")


def test_a_count_is_started_shown_folded_and_stopped(count: Tail, fresh: Connection) -> None:
    insert(fresh, 1234)
    assert count("start", "events") == "1234\n"
    insert(fresh, 6)
    assert count("show", "events") == count("show", "public.events") == "1240\n"
    assert value(fresh, "SELECT rows FROM inorder_internal.count_part") == 1234
    assert count("fold", "events") == "6\n"
    assert count("fold", "events") == "0\n"
    assert value(fresh, "SELECT rows FROM inorder_internal.count_part") == 1240
    assert json.loads(count("show", "events", "--format", "json")) == {"table": "public.events", "rows": 1240}
    assert count("show", "events", "--format", "csv") == "table,rows\npublic.events,1240\n"
    assert count("stop", "events") == ""
    refused = count("show", "events", code=2)
    assert "table public.events has no exact count" in refused and "The owner must call exact_count_start(" in refused


def test_the_line_for_pg_cron_performs_a_fold(count: Tail, fresh: Connection) -> None:
    """Names are quoted correctly at every level. The test runs the command the way pg_cron would."""
    fresh.execute('CREATE SCHEMA "It\'s ""it"""')
    fresh.execute('ALTER TABLE events SET SCHEMA "It\'s ""it"""')
    name = '"It\'s ""it""".events'
    assert count("start", name) == "0\n"
    fresh.execute("CREATE SCHEMA cron")
    fresh.execute("CREATE TABLE cron.job (name text, schedule text, command text)")
    fresh.execute("""
        CREATE FUNCTION cron.schedule(text, text, text) RETURNS void LANGUAGE sql
        AS 'INSERT INTO cron.job VALUES ($1, $2, $3)'
    """)
    fresh.execute(f"INSERT INTO {name} (n) VALUES (1)".encode())
    fresh.execute(count("cron", name).encode())
    fresh.execute(count("cron", name, "--schedule", "*/5 * * * *").encode())
    jobs = fresh.execute("SELECT * FROM cron.job").fetchall()
    assert [job[:2] for job in jobs] == [
        (f"inorder count {name}", "* * * * *"),
        (f"inorder count {name}", "*/5 * * * *"),
    ]
    fresh.execute("SET search_path = pg_catalog")
    fresh.execute(str(jobs[0][2]).encode())
    assert value(fresh, "SELECT rows FROM inorder_internal.count_part") == 1


def test_a_role_that_may_not_read_is_told_which_statement_permits_it(
    count: Tail, cluster: Cluster, fresh: Connection
) -> None:
    count("start", "events")
    arguments = ("show", "events", "--dsn", f"{cluster.dsn} dbname={fresh.info.dbname} user=inorder_looker")
    fresh.execute("CREATE ROLE inorder_looker LOGIN")
    try:
        refused = count(*arguments, code=2)
        granted = refused.rpartition("HINT:  ")[2].strip()
        assert granted == "GRANT SELECT ON public.events TO the role."
        fresh.execute(granted.removesuffix("the role.").encode() + b"inorder_looker")
        assert count(*arguments) == "0\n"
    finally:
        fresh.execute("DROP OWNED BY inorder_looker")
        fresh.execute("DROP ROLE inorder_looker")


BAD_INPUT = [
    (("show", "none"), 'relation "none" does not exist'),
    (("start", "pg_class"), "no column with the transaction number"),
    (("fold", "events", "--every", "1s"), "table public.events has no exact count"),
    (("fold", "events"), "table public.events has no exact count"),
    (("stop", "events"), "table public.events has no exact count"),
    (("show", "events", "--dsn", "dbname=template1"), 'the database "template1" has no extension inorder'),
]


def test_invalid_input_causes_one_clear_error_message(count: Tail, fresh: Connection) -> None:
    errors = [(arguments, message, count(*arguments, code=2)) for arguments, message in BAD_INPUT]
    assert [case for case in errors if case[1] not in case[2]] == []


FILES_OF_ONE_TRANSACTION = {  # for each partition, statements of one transaction that give it new files
    "p_new": ("CREATE TABLE p_new (LIKE parts INCLUDING ALL)", "INSERT INTO p_new (id, n) SELECT id, n - 10 FROM p_old",
              "ALTER TABLE parts ATTACH PARTITION p_new FOR VALUES FROM (20) TO (30)"),
    "p_old": ("SAVEPOINT s", "ALTER TABLE p_old ADD COLUMN z float DEFAULT random()",
              "ALTER TABLE parts ADD COLUMN z float",
              "ALTER TABLE parts ATTACH PARTITION p_old FOR VALUES FROM (30) TO (40)", "RELEASE s"),
    "p": ("ALTER TABLE parts ALTER COLUMN extra TYPE bigint",),
}  # fmt: skip


@pytest.mark.editions
@pytest.mark.parametrize("name", FILES_OF_ONE_TRANSACTION)
def test_no_count_is_stored_for_a_file_that_truncate_may_empty_in_place(fresh: Connection, name: str) -> None:
    """If a transaction has created a file, TRUNCATE in the same transaction empties that file in place.

    A row count stored for the file would then be wrong.
    """
    run(fresh, "CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int, extra int, PRIMARY KEY (id, n)) "
               "PARTITION BY RANGE (n)", "CREATE TABLE p PARTITION OF parts FOR VALUES FROM (0) TO (10)",
               "CREATE TABLE p_old (LIKE parts INCLUDING ALL)", "INSERT INTO parts (n) VALUES (0), (1)",
               "INSERT INTO p_old (n) VALUES (30), (31)", "SELECT exact_count_start('parts')",
               "BEGIN", *FILES_OF_ONE_TRANSACTION[name])  # fmt: skip
    file = value(fresh, "SELECT pg_relation_filenode(%s::regclass)", name)
    assert value(fresh, "SELECT exact_count_fold('parts')") == value(fresh, f"SELECT count(*) FROM {name}") != 0
    switch = "ALTER TABLE p {} TRIGGER zz_inorder_truncate"
    run(fresh, switch.format("DISABLE"), f"TRUNCATE {name}", switch.format("ENABLE ALWAYS"), "COMMIT")
    assert value(fresh, "SELECT pg_relation_filenode(%s::regclass)", name) == file
    fresh.execute("SELECT feed_enable('parts')")
    fresh.execute("INSERT INTO parts (n) VALUES (2)")
    for _ in range(2):
        assert value(fresh, "SELECT exact_count('parts')") == value(fresh, "SELECT count(*) FROM parts")
        fresh.execute("SELECT exact_count_fold('parts')")
    with connect(fresh.info.dsn) as other:
        assert value(other, "SELECT sum(rows) FROM inorder_internal.count_part") == value(
            other, "SELECT count(*) FROM parts"
        )


def counted_here(connection: Connection) -> int:
    """Return the number of rows of the table that a call of exact_count() reads."""
    connection.execute(b"SELECT pg_stat_force_next_flush()")
    reads = "SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes WHERE relname = 'events'"
    before = value(connection, reads)
    assert value(connection, "SELECT exact_count('events')") == value(connection, "SELECT count(*) FROM events")
    connection.execute(b"SELECT pg_stat_force_next_flush()")
    return int(value(connection, reads)) - int(str(before))


def test_a_session_counts_only_new_rows_since_its_last_call(fresh: Connection) -> None:
    """The session reads only new rows, even if it must not fold."""
    fresh.execute("SELECT exact_count_start('events')")
    with connect(fresh.info.dsn) as other:
        other.execute("SET default_transaction_read_only = on")
        insert(fresh, 20000)
        assert counted_here(other) > 20000
        for _ in range(3):
            insert(fresh, 1)
            assert counted_here(other) < 100
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert counted_here(other) < 100
        insert(fresh, 5)
        assert counted_here(other) < 100
        other.execute("COMMIT")


def test_own_rows_and_rows_for_older_snapshots_are_counted(fresh: Connection) -> None:
    fresh.execute("SELECT exact_count_start('events')")
    with connect(fresh.info.dsn) as other:
        insert(fresh, 8)
        assert value(other, "SELECT exact_count('events')") == 8
        other.execute("BEGIN")
        insert(other, 7)
        assert value(other, "SELECT exact_count('events')") == 15
        other.execute("ROLLBACK")
        assert value(other, "SELECT exact_count('events')") == 8
        # A cursor keeps the snapshot with which it was opened.
        other.execute("BEGIN")
        other.execute("DECLARE older CURSOR FOR SELECT exact_count('events') FROM generate_series(1, 2)")
        assert value(other, "FETCH older") == 8
        insert(fresh, 3)
        assert value(other, "SELECT exact_count('events')") == 11
        assert value(other, "FETCH older") == 8
        other.execute("COMMIT")


def test_counts_are_exact_around_the_limit_for_counting_without_a_query(fresh: Connection) -> None:
    fresh.execute("SELECT exact_count_start('events')")
    with connect(fresh.info.dsn) as other:
        for rows in (1, 499, 500, 501, 2):
            insert(fresh, rows)
            counted_here(other)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [("REVOKE SELECT ON events FROM counter", psycopg.errors.InsufficientPrivilege),
     ("ALTER TABLE events ENABLE ROW LEVEL SECURITY", psycopg.errors.ObjectNotInPrerequisiteState)],
)  # fmt: skip
def test_a_session_with_a_count_may_still_read_the_table(fresh: Connection, change: str, refusal: type) -> None:
    """A few new rows are counted without a query. The server then checks no privileges, so inorder checks them."""
    fresh.execute("SELECT exact_count_start('events')")
    with roles(fresh, "counter"), connect(fresh.info.dsn) as other:
        fresh.execute("GRANT SELECT ON events TO counter")
        other.execute("SET ROLE counter")
        assert value(other, "SELECT exact_count('events')") == 0
        insert(fresh, 1)
        assert counted_here(other) < 100
        insert(fresh, 1)
        fresh.execute(change.encode())
        with pytest.raises(refusal):
            other.execute("SELECT exact_count('events')")


def test_a_session_does_not_count_rows_that_another_session_has_folded(fresh: Connection) -> None:
    fresh.execute("SELECT exact_count_start('events')")
    with connect(fresh.info.dsn) as other:
        assert value(other, "SELECT exact_count('events')") == 0
        insert(fresh, 5000)
        fresh.execute("SELECT exact_count_fold('events')")
        insert(fresh, 1)
        assert counted_here(other) < 1000


def test_a_count_folds_automatically(fresh: Connection) -> None:
    """After ten thousand new rows, a count by any role folds.

    A count does not fold in a read-only transaction, in REPEATABLE READ or SERIALIZABLE, or while another session is
    folding.
    """
    fresh.execute("SELECT exact_count_start('events')")
    folded = "SELECT sum(rows)::int8 FROM inorder_internal.count_part"
    insert(fresh, 20000)
    with connect(fresh.info.dsn) as other, connect(fresh.info.dsn) as holder:
        for level in ("REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED READ ONLY"):
            other.execute(f"BEGIN ISOLATION LEVEL {level}")
            assert value(other, "SELECT exact_count('events')") == 20000
            other.execute("COMMIT")
        holder.execute("BEGIN")
        holder.execute("SELECT exact_count_fold('events')")
        assert value(other, "SELECT exact_count('events')") == 20000
        holder.execute("ROLLBACK")
        assert value(fresh, folded) == 0
        with connect(fresh.info.dsn) as third:
            assert value(third, "SELECT exact_count('events')") == 20000
        assert value(fresh, folded) == 20000
        # A session that could not fold tries again after ten thousand more rows.
        insert(fresh, 10001)
        assert value(other, "SELECT exact_count('events')") == 30001
        assert value(fresh, folded) == 30001


def test_groups_are_counted_after_rows_have_changed(count: Tail, fresh: Connection) -> None:
    run(
        fresh,
        'CREATE TABLE orders (id int PRIMARY KEY, status text, "Day" date)',
        "INSERT INTO orders SELECT n, 's' || nullif(n % 3, 0), '2026-01-01' FROM generate_series(1, 1300) AS n",
    )
    refused = count("show", "orders", "--by", "status", code=2)
    assert "table public.orders has no count by status" in refused
    assert "HINT:  The owner of the table can start it: inorder count start orders --by 'status'" in refused
    table = count("start", "orders", "--by", "status")
    assert table == "status  count\ns1        434\ns2        433\n(null)    433\n"
    fresh.execute("UPDATE orders SET status = 's1' WHERE id > 10")
    assert count("show", "orders", "--by", "STATUS") == "status  count\ns1      1,294\ns2          3\n(null)      3\n"
    rows = count("show", "orders", "--by", "status", "--format", "json").splitlines()
    assert [json.loads(row) for row in rows][2] == {"status": None, "count": 3}
    assert count("show", "orders", "--by", "status", "--format", "csv") == "status,count\ns1,1294\ns2,3\n,3\n"
    assert count("start", "orders", "--by", 'status,"Day"').splitlines()[1] == "s1      2026-01-01  1,294"
    assert count("start", "orders", "--by", "") == "count\n1,300\n"
    other_order = count("show", "orders", "--by", '"Day",status', code=2)
    assert "HINT:  Name the columns in the order of the count: --by 'status,\"Day\"'" in other_order
    assert count("fold", "orders") == "0\n"
    assert count("stop", "orders", "--by", "status") == ""
    assert value(fresh, "SELECT to_regclass('orders_by_status') IS NULL") is True


def test_a_view_of_another_role_is_not_read(count: Tail, fresh: Connection) -> None:
    """A role with TRIGGER on the table can create a trigger, a function and a view with the names that a count uses."""
    fresh.execute("CREATE TABLE orders (id int PRIMARY KEY, status text)")
    with roles(fresh, "forger"):
        run(fresh, "GRANT TRIGGER ON orders TO forger", "GRANT CREATE ON SCHEMA public TO forger", "SET ROLE forger",
            "CREATE FUNCTION forged_deltas() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE FUNCTION spy() RETURNS int8 LANGUAGE plpgsql AS "
            "'BEGIN RAISE ''spied''; END'",
            "CREATE VIEW forged AS SELECT 's' AS status, spy() AS count",
            "CREATE TRIGGER zz_inorder_count_0_row AFTER INSERT ON orders FOR EACH ROW "
            "EXECUTE FUNCTION forged_deltas()", "RESET ROLE")  # fmt: skip
        assert "has no count by status" in count("show", "orders", "--by", "status", code=2)
        count("start", "orders", "--by", "status")
        assert count("show", "orders", "--by", "status", "--format", "json") == ""
        assert count("stop", "orders", "--by", "status") == ""
        assert value(fresh, "SELECT to_regclass('orders_by_status') IS NULL AND to_regclass('forged') IS NOT NULL")
        run(fresh, "DROP VIEW forged", "DROP FUNCTION spy(), forged_deltas() CASCADE")


def test_watch_prints_the_groups_that_changed(count: Tail, fresh: Connection) -> None:
    fresh.execute("CREATE TABLE orders (id int PRIMARY KEY, status text)")
    count("start", "orders", "--by", "status")
    with count.started("show", "orders", "--by", "status", "--watch", "50ms", "--format", "json") as running:
        fresh.execute("INSERT INTO orders VALUES (1, 'open')")
        assert running.stdout is not None
        assert json.loads(running.stdout.readline()) == {"status": "open", "count": 1}
