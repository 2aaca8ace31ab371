"""Counts by group of rows changed through COPY, cascades, rules, triggers, other roles, subscriptions and restores."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from attack import refusal
from counted_groups import FOLD, PARTS, PLAIN, ROWS, START, admit, difference, stands, start
from ground import roles
from load.replicas import SETTINGS, wait_until_confirmed
from restoring import copied
from sql_edition import create
from waiting import blocked, wait_for
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

FUNCTION = "CREATE FUNCTION {} RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$"


def play(connection: Connection, *statements: str, folds: bool = True) -> None:
    """Execute statements, and check after each that the view equals GROUP BY both before and after a fold."""
    for statement in statements:
        run(connection, statement)
        assert difference(connection) == [], statement
        if folds:
            run(connection, FOLD)
            assert difference(connection) == [] and stands(connection), statement


def copy(connection: Connection, text: str, options: str = "") -> str:
    try:
        with connection.cursor().copy(f"COPY orders FROM STDIN {options}".encode()) as data:
            data.write(text)
    except psycopg.Error as error:
        return error.sqlstate or "?"
    return ""


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_rows_that_copy_refuses_are_not_counted(fresh: Connection, tables: Sequence[str]) -> None:
    start(fresh, tables)
    rows = "-1\tbad\t1\t\nx\tbad\t1\t\n160000000000\tbad\t1\t\n-2\tgood\t1\t\n"
    assert copy(fresh, rows) == "22P02"
    assert difference(fresh) == [] and stands(fresh)
    assert copy(fresh, "-3\tgood\t1\t\n7\ttwice\t1\t\n") == "23505"
    assert difference(fresh) == [] and stands(fresh)
    if fresh.info.server_version >= 170000:
        assert copy(fresh, rows, "(ON_ERROR ignore)") == ""
        assert value(fresh, "SELECT count FROM orders_by_status WHERE status = 'bad'") == 1
    assert difference(fresh) == [] and stands(fresh)


def test_frozen_rows_of_copy_are_counted(fresh: Connection, other: Connection) -> None:
    """COPY FREEZE writes rows that are visible even to snapshots older than its transaction."""
    start(fresh)
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, "BEGIN", "TRUNCATE orders")
    assert copy(fresh, "-1\tfrozen\t1\t\n", "(FREEZE)") == ""
    assert refusal(fresh, FOLD) == "25001"
    run(fresh, "ROLLBACK", "BEGIN", "TRUNCATE orders")
    assert copy(fresh, "-1\tfrozen\t1\t\n", "(FREEZE)") == ""
    assert difference(fresh) == []
    run(fresh, "COMMIT")
    assert difference(fresh) == difference(other) == []
    assert value(other, "SELECT count(*) FROM orders") == 1
    run(fresh, FOLD, "DELETE FROM orders")
    assert difference(fresh) == difference(other) == []


def test_counts_are_right_while_a_detachment_is_pending(fresh: Connection, other: Connection) -> None:
    """The table is no longer a full partition, and not yet independent. Folds and writers continue."""
    start(fresh, PARTS)
    detach = "ALTER TABLE orders DETACH PARTITION low CONCURRENTLY"
    writes = ("INSERT INTO orders VALUES (500, 'high')", "DELETE FROM low WHERE id < 3",
              "UPDATE orders SET status = 'again' WHERE id > 150")  # fmt: skip
    other.prepare_threshold = None  # a plan made with the older snapshot would still include the partition
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM orders")
    assert difference(other) == []
    with connect(fresh.info.dsn) as detaching, blocked(refusal, detaching, detach) as detachment:
        for statement in (*writes, FOLD, *writes[1:], "SET enable_seqscan = on"):
            run(fresh, statement)
            assert difference(fresh) == [], statement
            assert difference(other) == [], statement
        fresh.execute("SELECT pg_cancel_backend(%s)", [detaching.info.backend_pid])
        assert detachment.result() == "57014"
    for statement in (FOLD, "INSERT INTO orders VALUES (501, 'high')", "DELETE FROM low WHERE id < 5", FOLD):
        run(fresh, statement)
        assert difference(fresh) == difference(other) == [], statement
    run(other, "COMMIT")
    assert difference(other) == []
    run(fresh, "ALTER TABLE orders DETACH PARTITION low FINALIZE")
    assert difference(fresh) == []
    play(fresh, "SELECT 1", "DELETE FROM low WHERE id < 7", "INSERT INTO orders VALUES (502, 'high')")


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_counts_are_right_beside_a_prepared_fold(
    fresh: Connection, other: Connection, tables: Sequence[str], end: str
) -> None:
    """The prepared transaction wrote rows both before and after its fold, and other folds wait for it."""
    start(fresh, tables)
    run(other, "BEGIN", "DELETE FROM orders WHERE id < 9", FOLD, "UPDATE orders SET status = 'later' WHERE id < 19")
    assert difference(other) == []
    run(other, "PREPARE TRANSACTION 'of a fold'")
    play(fresh, "DELETE FROM orders WHERE id > 150", "INSERT INTO orders VALUES (-1, 'new')", folds=False)
    run(fresh, "SET lock_timeout = '50ms'")
    assert refusal(fresh, FOLD) == "55P03"
    run(other, f"{end} PREPARED 'of a fold'")
    assert difference(fresh) == difference(other) == [] and stands(fresh)
    play(fresh, "SELECT 1", "DELETE FROM orders WHERE id > 120")


def test_deltas_can_be_restored_on_a_server_with_lower_transaction_ids(
    fresh: Connection, cluster: Cluster, tmp_path: Path
) -> None:
    """The deltas come from a server whose transaction IDs this server will not reach for years."""
    for tables in (PLAIN, PARTS):
        start(fresh, tables)
        run(fresh, "INSERT INTO orders VALUES (-1, 'unfolded')",
            "UPDATE orders_by_status_deltas SET xact = (xact::text::numeric + 1000000000)::text::xid8")  # fmt: skip
        with copied(cluster, "tail", cluster, "restored", "custom", tmp_path) as restored:
            run(restored, "SET search_path = public, inorder")
            play(restored, "DELETE FROM orders WHERE id = 4", "INSERT INTO orders VALUES (-2, 'new')")
            numbers = "SELECT max(xact::text::numeric % 9223372036854775808) FROM orders_by_status_deltas"
            assert value(restored, f"SELECT ({numbers}) < 1000000000") is True
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()")  # fmt: skip


@pytest.mark.parametrize("tables", [PLAIN, PARTS], ids=["plain", "partitions"])
def test_changes_by_foreign_keys_are_counted(fresh: Connection, tables: Sequence[str]) -> None:
    """The roles have no privileges on the table.

    The server changes its rows because of changes to the referenced tables.
    """
    run(fresh, *tables, "CREATE TABLE parents (id int PRIMARY KEY)", "INSERT INTO parents VALUES (0), (1), (2), (3)",
        ROWS, "ALTER TABLE orders ADD FOREIGN KEY (tenant) REFERENCES parents ON DELETE CASCADE ON UPDATE SET NULL",
        "CREATE TABLE states (name text PRIMARY KEY)", "INSERT INTO states VALUES ('s1'), ('s2'), ('s3')",
        "ALTER TABLE orders ADD FOREIGN KEY (status) REFERENCES states ON UPDATE CASCADE ON DELETE SET NULL",
        START, FOLD)  # fmt: skip
    with roles(fresh, "deleter", "renamer", "inserter"):
        admit(fresh, "deleter", "renamer", "inserter")
        run(fresh, "GRANT DELETE, SELECT ON parents TO deleter", "GRANT UPDATE (name), SELECT ON states TO renamer",
            "GRANT INSERT ON parents, states TO inserter", FOLD)  # fmt: skip
        for role, statement in (("deleter", "DELETE FROM parents WHERE id = 1"),
                                ("renamer", "UPDATE states SET name = 'renamed' WHERE name = 's2'")):  # fmt: skip
            run(fresh, f"SET ROLE {role}", statement, "RESET ROLE")
            assert difference(fresh) == [] and stands(fresh), statement
        run(fresh, "SET ROLE inserter")
        assert refusal(fresh, "INSERT INTO orders_by_status_deltas (g1, n) VALUES ('s1', 1)") == "42501"
        run(fresh, "RESET ROLE")


def test_inserts_by_a_rule_are_counted(fresh: Connection) -> None:
    """A role that writes through a rule has no privileges on the table.

    In the SQL edition, the triggers run as that role.
    """
    start(fresh)
    run(
        fresh,
        "CREATE TABLE inbox (id int)",
        "CREATE RULE also AS ON INSERT TO inbox DO ALSO INSERT INTO orders (id, status) VALUES (NEW.id, 'by a rule')",
    )
    in_c = value(fresh, "SELECT to_regproc('exact_count_trigger') IS NOT NULL") is True
    with roles(fresh, "by_rule"):
        admit(fresh, "by_rule")
        run(fresh, "GRANT INSERT ON inbox TO by_rule", "SET ROLE by_rule")
        assert refusal(fresh, "INSERT INTO inbox VALUES (-1)") == ("" if in_c else "42501")
        run(fresh, "RESET ROLE", "GRANT INSERT ON orders TO by_rule", FOLD, "SET ROLE by_rule",
            "INSERT INTO inbox VALUES (-2)", "RESET ROLE")  # fmt: skip
        assert difference(fresh) == [] and stands(fresh)


def test_writes_with_privileges_on_columns_are_counted(fresh: Connection) -> None:
    start(fresh)
    with roles(fresh, "setter", "merger", "upserter"):
        admit(fresh, "setter", "merger", "upserter")
        run(fresh, "GRANT UPDATE (status), SELECT (id) ON orders TO setter",
            "GRANT SELECT (id), INSERT (id, status), UPDATE (note), DELETE ON orders TO merger",
            "GRANT SELECT (id, status), INSERT (id, status), UPDATE (status) ON orders TO upserter", FOLD)  # fmt: skip
        for role, statement in (
            ("setter", "UPDATE orders SET status = 'set' WHERE id < 9"),
            ("merger", "MERGE INTO orders USING (VALUES (7), (8), (-7)) AS v(id) ON orders.id = v.id WHEN MATCHED AND "
                       "v.id = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'x' WHEN NOT MATCHED THEN "
                       "INSERT (id, status) VALUES (v.id, 'm')"),
            ("upserter", "INSERT INTO orders (id, status) VALUES (1, 'u'), (-1, 'u') ON CONFLICT (id) DO UPDATE "
                         "SET status = excluded.status || orders.status"),
        ):  # fmt: skip
            run(fresh, f"SET ROLE {role}", statement, "RESET ROLE")
            assert difference(fresh) == [] and stands(fresh), statement


def test_row_security_of_writers_does_not_change_counts(fresh: Connection) -> None:
    """Writers see only some of the rows. Readers of the view get counts of all rows, as the view's owner sees them."""
    start(fresh)
    with roles(fresh, "limited", "owning"):
        admit(fresh, "limited", "owning")
        run(fresh, "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY visible ON orders USING (status = 's1')",
            "GRANT ALL ON orders TO limited", "GRANT SELECT ON orders_by_status TO limited", FOLD)  # fmt: skip
        for statement in ("UPDATE orders SET note = 'mine'", "DELETE FROM orders WHERE id < 30",
                          "INSERT INTO orders VALUES (-1, 's1')"):  # fmt: skip
            run(fresh, "SET ROLE limited", statement)
            assert value(fresh, "SELECT count(*) FROM orders_by_status") == 4
            assert value(fresh, "SELECT count(*) FROM (SELECT status FROM orders GROUP BY 1) AS s") == 1
            run(fresh, "RESET ROLE")
            assert difference(fresh) == [] and stands(fresh), statement
        run(fresh, "ALTER TABLE orders FORCE ROW LEVEL SECURITY")
        assert difference(fresh) == [] and not stands(fresh)  # the view counts the table as a superuser
        run(fresh, "ALTER TABLE orders NO FORCE ROW LEVEL SECURITY", FOLD)
        assert difference(fresh) == [] and stands(fresh)


def test_truncation_by_another_table_is_counted(fresh: Connection, other: Connection) -> None:
    run(fresh, *PARTS, "CREATE TABLE parents (id int PRIMARY KEY)", "INSERT INTO parents VALUES (0), (1), (2), (3)",
        ROWS, "ALTER TABLE orders ADD FOREIGN KEY (tenant) REFERENCES parents", START, FOLD)  # fmt: skip
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    run(fresh, "BEGIN", "SAVEPOINT s", "TRUNCATE parents CASCADE")
    assert difference(fresh) == []
    run(fresh, "ROLLBACK TO s", "DELETE FROM orders WHERE id < 9")
    assert difference(fresh) == [] and stands(fresh)
    run(fresh, "COMMIT", "TRUNCATE parents CASCADE")
    assert difference(fresh) == difference(other) == []
    run(fresh, FOLD, "INSERT INTO parents VALUES (1)", "INSERT INTO orders VALUES (1, 'new', 1)")
    assert difference(fresh) == difference(other) == []
    run(other, "COMMIT", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
    # A second TRUNCATE in the same transaction empties the new file in place.
    run(fresh, "BEGIN", "TRUNCATE low", "INSERT INTO orders VALUES (2, 'gone', 1)", "TRUNCATE low",
        "INSERT INTO orders VALUES (3, 'kept', 1)")  # fmt: skip
    assert difference(fresh) == []
    run(fresh, "COMMIT")
    assert difference(fresh) == difference(other) == []
    play(fresh, "INSERT INTO orders VALUES (4, 'new', 1)")


def test_writes_are_counted_if_a_session_changes_its_replication_role(fresh: Connection) -> None:
    for tables in (PLAIN, PARTS):
        start(fresh, tables)
        for role in ("local", "replica", "origin"):
            play(fresh, f"SET session_replication_role = {role}", "DELETE FROM orders WHERE id % 7 = 0",
                 "INSERT INTO orders SELECT id + 7, status FROM orders WHERE id % 7 = 0 ON CONFLICT DO NOTHING",
                 "INSERT INTO orders SELECT n, 'role' FROM generate_series(7, 200, 7) AS n ON CONFLICT DO NOTHING",
                 "UPDATE orders SET id = id + 200 WHERE id BETWEEN 95 AND 99",
                 "UPDATE orders SET id = id - 200 WHERE id BETWEEN 295 AND 299")  # fmt: skip
        run(fresh, "BEGIN", "DELETE FROM orders WHERE id < 9", "SET LOCAL session_replication_role = replica",
            "DELETE FROM orders WHERE id < 19", "SAVEPOINT s", "SET LOCAL session_replication_role = local",
            "DELETE FROM orders WHERE id < 29", "ROLLBACK TO s", "DELETE FROM orders WHERE id < 39",
            "COMMIT")  # fmt: skip
        assert difference(fresh) == [] and stands(fresh)
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()", "RESET session_replication_role")  # fmt: skip


def test_tables_of_one_name_in_two_schemas_are_counted_separately(fresh: Connection) -> None:
    """Rows of one table that move to another partition do not affect the counts of the other table."""
    for schema in ("blue", "green"):
        run(fresh, f"CREATE SCHEMA {schema}", f"SET search_path = {schema}, public", *PARTS, ROWS, START, FOLD)
    run(fresh, FUNCTION.format("also()", "UPDATE blue.orders SET id = NEW.id WHERE id = OLD.id; RETURN NEW;"),
        "CREATE TRIGGER aaa BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION also()",
        "UPDATE green.orders SET id = id + 300 WHERE id IN (7, 8, 160)")  # fmt: skip
    for schema in ("blue", "green"):
        run(fresh, f"SET search_path = {schema}, public")
        assert difference(fresh) == [] and stands(fresh), schema


def test_an_update_whose_trigger_moves_other_rows_is_refused(fresh: Connection) -> None:
    """The triggers cannot tell such an UPDATE from MERGE, which hides moved rows."""
    start(fresh, PARTS)
    run(fresh, FUNCTION.format("also()", "IF pg_trigger_depth() < 2 THEN UPDATE orders SET id = id + 1000 WHERE "
                                         "id = OLD.id + 20; END IF; RETURN NEW;"),
        "CREATE TRIGGER aaa BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION also()")  # fmt: skip
    assert refusal(fresh, "UPDATE orders SET id = id + 300 WHERE id IN (7, 8, 9)") == "0A000"
    assert difference(fresh) == [] and stands(fresh)


def test_rows_that_triggers_change_are_counted(fresh: Connection) -> None:
    for tables in (PLAIN, PARTS):
        start(fresh, tables)
        run(fresh,
            FUNCTION.format("change()", "IF NEW.id % 5 = 0 THEN RETURN NULL; END IF; NEW.status := NEW.status || '!'; "
                                        "RETURN NEW;"),
            "CREATE TRIGGER aaa BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION change()",
            FUNCTION.format("more()", "IF pg_trigger_depth() < 3 THEN INSERT INTO orders SELECT id + 1000, 'more' FROM "
                                      "orders WHERE id = NEW.id ON CONFLICT DO NOTHING; DELETE FROM orders WHERE "
                                      "id = NEW.id - 1; UPDATE orders SET status = 'less' WHERE id = NEW.id - 2; "
                                      "END IF; RETURN NULL;"),
            "CREATE TRIGGER mmm AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION more()")  # fmt: skip
        play(fresh, "INSERT INTO orders SELECT n, 's' FROM generate_series(300, 330) AS n",
             "UPDATE orders SET status = 'u' WHERE id BETWEEN 90 AND 120", "DELETE FROM orders WHERE id % 2 = 0",
             "INSERT INTO orders VALUES (301, 'x') ON CONFLICT (id) DO UPDATE SET status = 'y'")  # fmt: skip
        run(fresh, "DROP TABLE orders CASCADE", "DROP TABLE orders_by_status_deltas",
            "DROP FUNCTION orders_by_status_deltas()", "DROP FUNCTION change(), more()")  # fmt: skip


def test_counts_agree_with_cursors_and_exported_snapshots(fresh: Connection, other: Connection) -> None:
    start(fresh, PARTS)
    run(fresh, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    name = value(fresh, "SELECT pg_export_snapshot()")
    run(other, "DELETE FROM orders WHERE id < 50", FOLD, "DECLARE c CURSOR WITH HOLD FOR TABLE orders_by_status",
        "BEGIN", "DECLARE d CURSOR FOR TABLE orders_by_status", "DELETE FROM orders WHERE id > 100", FOLD)  # fmt: skip
    assert value(other, "SELECT sum(count) FROM orders_by_status") == 51
    assert sum(int(str(count)) for _, count in other.execute(b"FETCH ALL FROM d").fetchall()) == 151
    run(other, "COMMIT")
    with connect(fresh.info.dsn) as third:
        run(third, "BEGIN ISOLATION LEVEL REPEATABLE READ", f"SET TRANSACTION SNAPSHOT '{name}'")
        run(other, "TRUNCATE low", FOLD)
        assert difference(third) == [] == difference(fresh)
        assert value(third, "SELECT sum(count) FROM orders_by_status") == 101
    run(fresh, "COMMIT")
    for setting in ("force_parallel_mode", "debug_parallel_query"):
        if value(fresh, "SELECT count(*) FROM pg_settings WHERE name = %s", setting):
            run(fresh, f"SET {setting} = on", "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0",
                "SET min_parallel_table_scan_size = 0")  # fmt: skip
    play(fresh, "SELECT 1", "VACUUM FULL high_1", "DELETE FROM orders WHERE id < 30", folds=False)


def test_vacuum_and_other_commands_leave_counts_valid(fresh: Connection) -> None:
    """After each of these commands, the view still does not have to count the table."""
    start(fresh)
    for statement in ("VACUUM orders", "ANALYZE orders", "VACUUM FREEZE orders", "CREATE INDEX ON orders (tenant)",
                      "VACUUM FULL pg_class", "VACUUM FREEZE pg_trigger", "REINDEX TABLE orders", "ANALYZE",
                      "CREATE STATISTICS s ON status, tenant FROM orders"):  # fmt: skip
        run(fresh, statement)
        assert difference(fresh) == [] and stands(fresh), statement


def test_counts_stay_right_if_the_owner_changes(fresh: Connection) -> None:
    with roles(fresh, "former", "later", "reader"):
        admit(fresh, "former", "later", "reader")
        run(fresh, "GRANT CREATE, USAGE ON SCHEMA public TO former, later", "SET ROLE former")
        start(fresh, PARTS)
        run(fresh, "GRANT SELECT ON orders_by_status TO reader", "RESET ROLE", "REASSIGN OWNED BY former TO later")
        assert difference(fresh) == [] and not stands(fresh)
        run(fresh, "DELETE FROM orders WHERE id < 9", "SET ROLE reader")
        assert value(fresh, "SELECT sum(count) FROM orders_by_status") == 192
        run(fresh, "RESET ROLE", "SET ROLE later")
        play(fresh, "SELECT 1", "DELETE FROM orders WHERE id < 19")
        run(fresh, "RESET ROLE", "ALTER TABLE orders OWNER TO former", "INSERT INTO orders VALUES (-1, 'x')")
        assert refusal(fresh, "TABLE orders_by_status") == "42501"
        run(fresh, "ALTER TABLE orders OWNER TO later")
        assert difference(fresh) == []
        run(fresh, "SET ROLE later", FOLD)
        assert difference(fresh) == [] and stands(fresh)
        run(fresh, "RESET ROLE")


def test_counts_stay_right_if_the_schema_changes(fresh: Connection) -> None:
    start(fresh)
    run(fresh, "CREATE SCHEMA aside", "ALTER TABLE orders SET SCHEMA aside", "SET search_path = public, aside")
    play(fresh, "DELETE FROM orders WHERE id < 9", "UPDATE orders SET status = 'x' WHERE id < 50")
    run(fresh, "ALTER TABLE orders SET UNLOGGED", "DELETE FROM orders WHERE id < 59")
    assert difference(fresh) == [] and refusal(fresh, FOLD) == "42809"
    run(fresh, "ALTER TABLE orders SET LOGGED")
    play(fresh, "SELECT 1")
    run(fresh, "ALTER TABLE orders_by_status_deltas SET UNLOGGED")
    play(fresh, "DELETE FROM orders WHERE id < 69")


@pytest.fixture(scope="module")
def logical(server: Installation) -> Iterator[Cluster]:
    with Cluster(server) as running:
        running.start(SETTINGS)
        yield running


@pytest.mark.parametrize(("tables", "everything"), [(PLAIN, True), (PARTS, False)], ids=["plain", "partitions"])
def test_a_subscriber_counts_what_it_receives(
    logical: Cluster, edition_name: str, tables: Sequence[str], everything: bool
) -> None:
    """The subscriber counts the replicated rows, starting with the initial copy.

    It ignores replicated deltas of the publisher.
    """
    with connect(logical.dsn) as admin:
        run(admin, "CREATE DATABASE source", "CREATE DATABASE target")
    try:
        with connect(f"{logical.dsn} dbname=source") as source, connect(f"{logical.dsn} dbname=target") as target:
            for connection in (source, target):
                create(connection, edition_name)
                run(connection, *tables)
            if everything:
                run(source, START)
            run(source, ROWS, f"CREATE PUBLICATION p FOR {'ALL TABLES' if everything else 'TABLE orders'}",
                "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")  # fmt: skip
            run(target, START, FOLD, f"CREATE SUBSCRIPTION s CONNECTION '{logical.dsn} dbname=source' PUBLICATION p "
                                     "WITH (create_slot = false)")  # fmt: skip
            try:
                follow(source, target)
            finally:
                run(target, "DROP SUBSCRIPTION s")
    finally:
        with connect(logical.dsn) as admin:
            run(admin, "DROP DATABASE source WITH (FORCE)", "DROP DATABASE target WITH (FORCE)")


SENT = (
    "SELECT 1", "INSERT INTO orders VALUES (201, 'new', 1), (202, NULL, 1)", "DELETE FROM orders WHERE id < 9",
    "UPDATE orders SET status = 'changed' WHERE id % 9 = 0",
    "UPDATE orders SET id = id + 300 WHERE id BETWEEN 90 AND 110",
    "INSERT INTO orders SELECT n, 'many', 0, repeat('x', 500) FROM generate_series(1000, 3000) AS n",
    "BEGIN; DELETE FROM orders WHERE id < 30; SAVEPOINT s; DELETE FROM orders; ROLLBACK TO s; "
    "UPDATE orders SET status = 'both' WHERE id < 40; COMMIT",
    "TRUNCATE orders", "INSERT INTO orders VALUES (1, 'last')",
)  # fmt: skip


def follow(source: Connection, target: Connection) -> None:
    wait_for(lambda: value(target, "SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')"))
    for statement in SENT:
        source.execute(statement.encode())
        wait_until_confirmed(source, "s")
        assert difference(target) == [], statement
        assert stands(target) == ("TRUNCATE" not in statement), statement
        run(target, FOLD)
        assert difference(target) == [] and stands(target), statement
        run(target, "DELETE FROM orders WHERE id = 203", "INSERT INTO orders VALUES (203, 'here')")
        assert difference(target) == [] and stands(target), statement
