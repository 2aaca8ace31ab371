"""Changes of a table: wherever a change would be lost for good, an error is raised or the log is repaired."""

import re
from typing import Any

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from psycopg.errors import UndefinedColumn, UndefinedTable

from copies import SNAPSHOT, Copy
from ground import FINISH, GROUND, SWITCH, roles, state
from waiting import blocked
from world.sql import run, value

pytestmark = [pytest.mark.server, pytest.mark.editions]

PLAIN = "CREATE TABLE t (id int PRIMARY KEY, note text)"
PARTS = (
    "CREATE TABLE t (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id)",
    "CREATE TABLE high_1 PARTITION OF high FOR VALUES FROM (100) TO (150)",
)
ENABLE = ("SELECT changes_enable('t')", "SELECT feed_create('copy', 't_changes')")
ROWS = "INSERT INTO t SELECT n, 'first' FROM generate_series(1, 20) AS n"
READ = "SELECT changes_batch_rows('copy', (feed_take_batch('copy', 'w')).number, null::t)"
STALE = "40001"  # serialization_failure


def prepare(connection: Connection, *tables: str) -> Copy:
    run(connection, *(tables or (PLAIN,)), ROWS, *ENABLE)
    return Copy()


def followed(connection: Connection, *tables: str) -> Copy:
    copy = prepare(connection, *tables)
    copy.follow(connection)
    return copy


WRITES = (
    "INSERT INTO t VALUES (21, 'new'), (22, 'new')",
    "UPDATE t SET note = 'second' WHERE id <= 10",
    "DELETE FROM t WHERE id IN (3, 21)",
    "INSERT INTO t VALUES (3, 'again')",
    "UPDATE t SET id = id + 60 WHERE id BETWEEN 5 AND 7",
    # No statement-level trigger sees a row that MERGE moves to another partition, unless MERGE has other actions.
    "MERGE INTO t USING (VALUES (1), (9)) AS v(id) ON t.id = v.id WHEN MATCHED THEN UPDATE SET id = t.id + 100",
    "MERGE INTO t USING (VALUES (1), (50)) AS v(id) ON t.id = v.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged')",
    # PostgreSQL 18.6 passes the inserted row to statement-level triggers instead of the updated rows (see
    # test_count_groups).
    "MERGE INTO t USING (VALUES (70), (2), (71), (4)) AS v(id) ON t.id = v.id "
    "WHEN MATCHED THEN UPDATE SET id = t.id + 90 WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'new')",
    "INSERT INTO t VALUES (2, 'twice'), (51, 'twice') ON CONFLICT (id) DO UPDATE SET note = excluded.note",
    "WITH gone AS (DELETE FROM t WHERE id = 8 RETURNING *) INSERT INTO t SELECT 80, note FROM gone",
    "TRUNCATE t",
    "INSERT INTO t SELECT n, 'last' FROM generate_series(1, 5) AS n",
)


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
@pytest.mark.parametrize("max_rows", [None, 3])
def test_the_copy_equals_the_table(fresh: Connection, tables: tuple[str, ...], max_rows: int | None) -> None:
    copy = prepare(fresh, *tables)
    copy.follow(fresh, max_rows)
    assert len(copy.rows) == 20  # the first batch is the whole table
    for write in WRITES:
        run(fresh, write)
        copy.follow(fresh, max_rows)
    for write in WRITES:
        run(fresh, write)
    copy.follow(fresh, max_rows)
    assert len(copy.rows) == 5


def test_changes_by_cascades_and_by_other_means_are_logged(fresh: Connection) -> None:
    references = "REFERENCES above ON DELETE CASCADE ON UPDATE CASCADE"
    copy = prepare(
        fresh, "CREATE TABLE above (id int PRIMARY KEY)", "INSERT INTO above SELECT generate_series(1, 30)",
        f"CREATE TABLE t (id int PRIMARY KEY {references}, note text)",
    )  # fmt: skip
    copy.follow(fresh)  # read past the marker, after which the whole table is read
    for write in (
        "DELETE FROM above WHERE id = 1", "UPDATE above SET id = 40 WHERE id = 2",
        "SET session_replication_role = replica", "DELETE FROM t WHERE id = 4", "RESET session_replication_role",
        "BEGIN", "SAVEPOINT s", "DELETE FROM t WHERE id = 5", "ROLLBACK TO s", "DELETE FROM t WHERE id = 6", "COMMIT",
        "BEGIN", "DELETE FROM t WHERE id = 7", "PREPARE TRANSACTION 'later'", "DELETE FROM t WHERE id = 8",
    ):  # fmt: skip
        run(fresh, write)
    copy.follow(fresh)
    run(fresh, "COMMIT PREPARED 'later'")
    copy.follow(fresh)
    assert len(copy.rows) == 15
    run(fresh, "TRUNCATE above CASCADE")
    copy.follow(fresh)
    assert not copy.rows


def test_many_long_keys_are_divided_among_rows_of_the_log(fresh: Connection) -> None:
    """One statement changes more keys than fit into a row of the log, and some keys are stored out of line."""
    run(fresh, "CREATE TABLE t (note text, gone int, n numeric(9, 2), id text, PRIMARY KEY (id, n))",
        "ALTER TABLE t DROP COLUMN gone", "ALTER TABLE t ALTER id SET STORAGE EXTERNAL", *ENABLE)  # fmt: skip
    copy = Copy(keys=("id", "n"))
    copy.follow(fresh)
    for write in (
        "INSERT INTO t SELECT 'a', n, repeat(n || '-', 2500 / length(n || '-')) FROM generate_series(1, 70) AS n",
        "UPDATE t SET note = 'b' WHERE n <= 40", "UPDATE t SET n = n + 0.5 WHERE n > 60", "DELETE FROM t WHERE n < 35",
    ):  # fmt: skip
        run(fresh, write)
        copy.follow(fresh)
    sizes = "SELECT array_agg(cardinality(id) ORDER BY op, cardinality(id)) FROM t_changes WHERE id IS NOT NULL"
    assert value(fresh, sizes) == [2, 32, 6, 32, 32, 8, 20, 32]
    assert value(fresh, "SELECT count(*) FROM t_changes WHERE cardinality(id) IS DISTINCT FROM cardinality(n)") == 0
    assert len(copy.rows) == 36


OF_DELETE = "zz_inorder_changes_delete"
# Statements after which rows may have changed without firing a trigger.
UNSEEN = {
    "a partition that was made later": (
        "CREATE TABLE more PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO more VALUES (200, 'direct')"),
    "a partition that was attached": (
        "CREATE TABLE more (id int NOT NULL, note text)", "INSERT INTO more VALUES (200, 'before')",
        "ALTER TABLE t ATTACH PARTITION more FOR VALUES FROM (200) TO (300)"),
    "a partition below one": (
        "CREATE TABLE high_2 PARTITION OF high FOR VALUES FROM (150) TO (200)", "INSERT INTO high_2 VALUES (150, '')"),
    "a partition that was detached": ("ALTER TABLE t DETACH PARTITION low",),
    "a partition that was dropped": ("DROP TABLE low",),
    "one that was attached again": (
        "ALTER TABLE t DETACH PARTITION low", "DELETE FROM low WHERE id = 1",
        "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (100)"),
    "another type": ("ALTER TABLE t ALTER note TYPE varchar USING note || '!'",),
    "a new column": ("ALTER TABLE t ADD COLUMN more int DEFAULT 7",),
    "a column that was dropped": ("ALTER TABLE t DROP COLUMN note",),
    "triggers that were off": (
        "BEGIN", "ALTER TABLE low DISABLE TRIGGER ALL", "DELETE FROM low WHERE id = 1",
        SWITCH.format("low", "ENABLE ALWAYS"), "COMMIT"),
    "a trigger that is on again by the same command of another transaction": (
        "CREATE TABLE command AS SELECT cmin::text::int AS n FROM pg_trigger "
        f"WHERE tgrelid = 'low'::regclass AND tgname = '{OF_DELETE}'",
        f"ALTER TABLE low DISABLE TRIGGER {OF_DELETE}", "DELETE FROM low WHERE id = 1",
        "DO $$ BEGIN FOR i IN 1..(SELECT n FROM command) LOOP UPDATE command SET n = n; END LOOP; "
        f"ALTER TABLE low ENABLE ALWAYS TRIGGER {OF_DELETE}; END $$"),
    "triggers that are not always on": (
        "ALTER TABLE t ENABLE TRIGGER ALL", "SET session_replication_role = replica", "DELETE FROM t WHERE id = 1",
        "RESET session_replication_role"),
    "a trigger that was dropped": (
        "DROP TRIGGER zz_inorder_changes_delete ON t", "DELETE FROM t WHERE id = 1"),
    "a key of other columns": (
        "ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
        "ALTER TABLE t ADD PRIMARY KEY (id, more)"),
    "another function": (
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        f"CREATE OR REPLACE TRIGGER {OF_DELETE} AFTER DELETE ON low REFERENCING OLD TABLE AS old_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION nothing()", f"ALTER TABLE low ENABLE ALWAYS TRIGGER {OF_DELETE}",
        "DELETE FROM low WHERE id = 1"),
}  # fmt: skip
# Statements that change no rows.
HARMLESS = (
    "CREATE INDEX ON t (note)", "ANALYZE t", "VACUUM FULL low", "CLUSTER low USING low_pkey", "REINDEX TABLE low",
    "ALTER TABLE low SET (fillfactor = 90)", "ALTER TABLE low RENAME TO lower", "GRANT SELECT ON t TO PUBLIC",
    "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TRIGGER other AFTER INSERT ON t EXECUTE FUNCTION nothing()", "COMMENT ON TABLE t IS 'x'",
)  # fmt: skip


@pytest.mark.parametrize("statements", UNSEEN.values(), ids=list(UNSEEN))
def test_changes_that_no_trigger_sees_are_noticed(fresh: Connection, statements: tuple[str, ...]) -> None:
    copy = followed(fresh, *PARTS)
    run(fresh, *statements)
    # The read fails whether or not the log has new rows.
    assert state(fresh, READ) == GROUND
    if "PRIMARY KEY" in statements[-1]:
        assert state(fresh, "SELECT changes_resync('t')") == GROUND
        run(fresh, "ALTER TABLE t_changes RENAME TO older", ENABLE[0], "SELECT feed_create('other', 't_changes')")
        copy = Copy(feed="other", keys=("id", "more"))
    else:
        run(fresh, "SELECT changes_resync('t')")
    copy.follow(fresh)
    run(fresh, "DELETE FROM t WHERE id < 10")
    copy.follow(fresh)


def test_statements_that_change_no_row_cause_no_error(fresh: Connection) -> None:
    copy = followed(fresh, *PARTS)
    for number, statement in enumerate(HARMLESS):
        run(fresh, statement, f"UPDATE t SET note = '{number}' WHERE id = {number + 1}")
        copy.follow(fresh)
    assert value(fresh, "SELECT count(*) FROM t_changes WHERE op = 'R'") == 1


def test_rows_of_a_subscription_are_an_error(fresh: Connection) -> None:
    """The apply worker fires no statement-level triggers, so changes of a subscription are missing from the log.

    The test has no publisher. It inserts a row into the catalog instead.
    """
    copy = followed(fresh, *PARTS)
    run(fresh, "SET client_min_messages = error",
        "CREATE SUBSCRIPTION of_changes CONNECTION 'dbname=none' PUBLICATION p "
        "WITH (connect = false, slot_name = NONE)")  # fmt: skip
    try:
        run(fresh, "SET allow_system_table_mods = on", "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) "
            "SELECT oid, 'low'::regclass, 'r' FROM pg_subscription WHERE subname = 'of_changes'")  # fmt: skip
        assert state(fresh, READ) == GROUND
        assert state(fresh, "SELECT changes_resync('t')") == "42809"
    finally:
        run(fresh, "DROP SUBSCRIPTION of_changes")
    copy.follow(fresh)


@pytest.mark.parametrize("other", ["other", "other, id"])
def test_reads_fail_while_the_table_has_another_key(fresh: Connection, other: str) -> None:
    """The log retains the key columns that the table had when the feed was created."""
    run(fresh, "CREATE TABLE t (id int, other int NOT NULL, note text, CONSTRAINT k PRIMARY KEY (id, other))",
        "INSERT INTO t SELECT n, n + 100, 'first' FROM generate_series(1, 20) AS n", *ENABLE)  # fmt: skip
    copy = Copy(keys=("id", "other"))
    copy.follow(fresh)
    run(fresh, "ALTER TABLE t DROP CONSTRAINT k", f"ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY ({other})",
        "UPDATE t SET note = 'x' WHERE id < 5", "DELETE FROM t WHERE id = 6",
        "INSERT INTO t VALUES (30, 130)")  # fmt: skip
    assert state(fresh, READ) == GROUND
    run(fresh, "ALTER TABLE t DROP CONSTRAINT k", "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (id, other)")
    copy.follow(fresh)


def test_rows_with_a_null_key_do_not_stop_the_log(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE t (id text PRIMARY KEY, note text)", "INSERT INTO t VALUES ('a', 'first')", *ENABLE)
    copy = Copy()
    copy.follow(fresh)
    run(fresh, "ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ALTER id DROP NOT NULL",
        "INSERT INTO t VALUES (NULL, 'x')", "UPDATE t SET note = 'y'", "UPDATE t SET id = 'z' WHERE id IS NULL",
        "ALTER TABLE t ADD PRIMARY KEY (id)", "SELECT changes_resync('t')")  # fmt: skip
    copy.follow(fresh)
    assert len(copy.rows) == 2


def test_a_trigger_of_another_role_does_not_prevent_a_repair_of_the_log(fresh: Connection) -> None:
    """The owner of the log cannot drop the trigger, but can still repair the log."""
    with roles(fresh, "changes_owner", "mallory_of_logs"):
        run(fresh, "CREATE SCHEMA kept AUTHORIZATION changes_owner", "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs",
            "SET ROLE changes_owner", "CREATE TABLE kept.t (id int PRIMARY KEY)", "SELECT changes_enable('kept.t')",
            "RESET ROLE")  # fmt: skip
        run(fresh, "SET ROLE mallory_of_logs", "CREATE TABLE hers.t (id int PRIMARY KEY)",
            "CREATE FUNCTION hers.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER zz_inorder_changes_insert AFTER INSERT ON hers.t "
            f"EXECUTE FUNCTION hers.f('{number_of(fresh, 'kept.t_changes')}')",
            "RESET ROLE", "SET ROLE changes_owner", "SELECT changes_resync('kept.t')")  # fmt: skip


@pytest.mark.parametrize("tables", [(PLAIN,), PARTS], ids=["plain", "partitions"])
def test_a_log_continues_after_a_key_column_is_renamed(
    fresh: Connection, tables: tuple[str, ...], edition_name: str
) -> None:
    """Writers continue in the C extension. In the SQL edition they fail until changes_enable() is called."""
    change, enable = "UPDATE t SET note = 'renamed' WHERE key = 1", "SELECT changes_enable('t')"
    copy = followed(fresh, *tables)
    fresh.execute("ALTER TABLE t RENAME id TO key")
    if edition_name == "sql":
        with pytest.raises(UndefinedColumn):
            fresh.execute(change)
        fresh.execute(enable)
    run(fresh, change, "ALTER TABLE t RENAME key TO id", enable)
    copy.follow(fresh)


def test_a_detached_partition_does_not_change_the_log_of_the_table(fresh: Connection) -> None:
    copy = followed(fresh, *PARTS)
    run(fresh, "ALTER TABLE t DETACH PARTITION low", "DELETE FROM low WHERE id = 1", "SELECT changes_enable('low')",
        "TRUNCATE t", "INSERT INTO t VALUES (101)")  # fmt: skip
    run(fresh, "SELECT changes_resync('t')")
    copy.follow(fresh)
    run(fresh, "DELETE FROM low", "TRUNCATE t")
    copy.follow(fresh)
    assert value(fresh, "SELECT count(*) FROM low_changes WHERE op = 'D'") == 1


def test_changes_that_were_rolled_back_cause_no_error(fresh: Connection) -> None:
    copy = prepare(fresh, *PARTS)
    for statement in ("SELECT changes_disable('t')", "SELECT changes_resync('t')", "ALTER TABLE t DISABLE TRIGGER ALL"):
        run(fresh, "BEGIN", statement, "ROLLBACK")
        copy.follow(fresh)


def test_triggers_disabled_in_the_transaction_that_created_them_lose_no_change(fresh: Connection) -> None:
    """The log lacks the changes of this transaction.

    It has a marker instead, and the reader then reads the whole table.
    """
    copy = followed(fresh)
    run(fresh, "BEGIN", "SELECT changes_resync('t')", "ALTER TABLE t DISABLE TRIGGER ALL", "DELETE FROM t WHERE id = 1",
        *(f"ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_changes_{event}"
          for event in ("insert", "update", "delete", "truncate")), "COMMIT")  # fmt: skip
    copy.follow(fresh)
    assert len(copy.rows) == 19


SWAP = (
    "CREATE TABLE new (LIKE t INCLUDING ALL)", "INSERT INTO new VALUES (1, 'another')", "ALTER TABLE t RENAME TO old",
    "ALTER TABLE new RENAME TO t",
)  # fmt: skip


def test_a_table_that_takes_over_the_name_is_noticed(fresh: Connection) -> None:
    copy = followed(fresh)
    run(fresh, *SWAP)
    assert state(fresh, READ) == GROUND
    run(fresh, ENABLE[0])
    copy.follow(fresh)
    assert len(copy.rows) == 1
    run(fresh, "DELETE FROM old")  # changes of this table are no longer logged
    assert value(fresh, "SELECT (feed_take_batch('copy', 'w')).number") is None
    run(fresh, "CREATE TABLE child () INHERITS (t)")
    assert state(fresh, READ) == GROUND
    run(fresh, "DROP TABLE child", "ALTER TABLE t SET UNLOGGED")
    assert state(fresh, READ) == GROUND
    run(fresh, "ALTER TABLE t SET LOGGED", "SELECT changes_resync('t')")
    copy.follow(fresh)


def test_a_read_fails_if_row_security_hides_rows(fresh: Connection) -> None:
    prepare(fresh)
    read = READ.replace("('copy', 'w')", "('copy', 'w', owner => 'postgres')").replace("null::t", "null::t, 'postgres'")
    with roles(fresh, "changes_reader"):
        run(fresh, "GRANT SELECT ON t, t_changes TO changes_reader", "SELECT feed_grant('copy', 'changes_reader')",
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON t USING (id > 5)",
            "SET ROLE changes_reader")  # fmt: skip
        for query in (
            read.replace("(feed_take_batch('copy', 'w', owner => 'postgres')).number", "null"),
            read,
        ):  # the read fails even if there are no new changes
            assert state(fresh, query) == GROUND
        run(fresh, "RESET ROLE", "REVOKE SELECT ON t FROM changes_reader", "SET ROLE changes_reader")
        assert state(fresh, read) == "42501"


SEE = (
    "CREATE TABLE seen (role name)", "GRANT INSERT ON seen TO PUBLIC",
    "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN INSERT INTO public.seen VALUES (current_user); RETURN NULL; END'",
)  # fmt: skip


def test_the_owner_of_the_schema_cannot_replace_the_log(fresh: Connection, edition_name: str) -> None:
    """The other table with the name of the log receives no rows, and its trigger is never run."""
    with roles(fresh, "changes_keeper", "changes_owner"):
        run(fresh, *SEE, "CREATE SCHEMA kept AUTHORIZATION changes_keeper",
            "GRANT USAGE, CREATE ON SCHEMA kept TO changes_owner", "GRANT CREATE ON SCHEMA public TO changes_keeper",
            "SET ROLE changes_owner", "CREATE TABLE kept.t (id int PRIMARY KEY)", "SELECT changes_enable('kept.t')",
            "RESET ROLE", "ALTER TABLE kept.t_changes RENAME TO former", "SET ROLE changes_keeper",
            f"CREATE TABLE kept.{LOG_OF_T}", "GRANT ALL ON kept.t_changes TO PUBLIC",
            "CREATE TRIGGER seen AFTER INSERT ON kept.t_changes EXECUTE FUNCTION public.see()",
            "RESET ROLE", "SET ROLE changes_owner")  # fmt: skip
        assert state(fresh, "INSERT INTO kept.t VALUES (7)") == ("" if edition_name == "c" else GROUND)
        logged = "SELECT count(*) FROM kept.former WHERE id = '{7}'"
        assert value(fresh, logged) == (edition_name == "c")
        run(fresh, "SELECT changes_resync('kept.t')", "INSERT INTO kept.t VALUES (8)", "RESET ROLE")
        assert value(fresh, "SELECT count(*) FROM public.seen") == 0


def test_a_trigger_on_another_table_cannot_write_into_a_log(fresh: Connection, edition_name: str) -> None:
    """Any role may create such a trigger on its own tables.

    With the TRIGGER privilege, it may also create one on other tables of the log's owner.
    """
    function = "public.changes_trigger" if edition_name == "c" else "public.t_changes"
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, "SELECT changes_enable('t')", "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs",
            "CREATE TABLE other (id int)", "GRANT INSERT, TRUNCATE, TRIGGER ON other TO mallory_of_logs",
            "SET ROLE mallory_of_logs", "CREATE TABLE hers.x (id int)")  # fmt: skip
        for table in ("hers.x", "other"):
            for event, rows in (("INSERT", "REFERENCING NEW TABLE AS new_rows"), ("TRUNCATE", "")):
                run(
                    fresh,
                    f"CREATE TRIGGER zz_inorder_changes_{event} AFTER {event} ON {table} {rows} "
                    f"FOR EACH STATEMENT EXECUTE FUNCTION {function}('{number_of(fresh, 't_changes')}', '1')",
                )
            refused = "42501" if edition_name == "sql" else GROUND if table == "hers.x" else ""
            assert state(fresh, f"INSERT INTO {table} VALUES (7)") == refused
            assert state(fresh, f"TRUNCATE {table}") == refused
        run(fresh, "RESET ROLE")
        assert value(fresh, "SELECT count(*) FROM t_changes") == 1
        run(fresh, "SELECT changes_resync('t')")


@pytest.mark.parametrize("road", ["table", "column", "view", "view of a view", "partition"])
def test_each_role_that_may_write_into_the_table_writes_the_log(fresh: Connection, road: str) -> None:
    """The log records changes made by a role without privileges on the log, whichever privilege lets the role write."""
    target = {"view": "v", "view of a view": "w", "partition": "low"}.get(road, "t")
    grant = "INSERT (id), UPDATE (note), SELECT (id), DELETE" if road == "column" else "INSERT, UPDATE, DELETE, SELECT"
    with roles(fresh, "writer_of_t"):
        copy = prepare(
            fresh, *PARTS, "CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW w AS SELECT * FROM v",
            f"GRANT {grant} ON {target} TO writer_of_t",
        )  # fmt: skip
        run(fresh, "SET ROLE writer_of_t",
            f"INSERT INTO {target} (id) VALUES (90)", f"UPDATE {target} SET note = 'hers' WHERE id = 2",
            f"DELETE FROM {target} WHERE id = 3", "RESET ROLE")  # fmt: skip
        copy.follow(fresh)
        assert ("90",) in copy.rows and ("3",) not in copy.rows and copy.rows[("2",)] == {"id": 2, "note": "hers"}


TAKE = "SELECT number FROM feed_take_batch('copy', 'w')"


def test_a_role_without_privileges_cannot_write_into_a_log(fresh: Connection, edition_name: str) -> None:
    """A view on the table gives another role no privileges on the log.

    In the SQL edition, a writer can log any key but no marker.
    """
    write = "INSERT INTO t_changes (id, op) VALUES ({}, 'U')"
    with roles(fresh, "stranger", "writer_of_t"):
        copy = followed(fresh)
        run(
            fresh,
            "GRANT INSERT ON t TO writer_of_t",
            "GRANT CREATE ON SCHEMA public TO stranger",
            "SET ROLE stranger",
            "CREATE VIEW mine AS SELECT * FROM t",
            "CREATE VIEW ours AS SELECT * FROM mine",
        )
        assert state(fresh, write.format("'{7}'")) == "42501"
        run(fresh, "RESET ROLE", "SET ROLE writer_of_t")
        for values in ("'{7, NULL}'", "'{77}'", "NULL"):
            assert state(fresh, write.format(values)) == ("" if edition_name == "sql" else "42501")
        assert state(fresh, "INSERT INTO t_changes (op) VALUES ('T')") == "42501"
        run(fresh, "RESET ROLE")
        changes = copy.changes(fresh, value(fresh, TAKE)) if edition_name == "sql" else []
        assert [(op, key) for op, _, _, key in changes] == (
            [("delete", ("77",)), ("upsert", ("7",))] if edition_name == "sql" else []
        )


@pytest.mark.parametrize("written", ["low", "high_1"])
def test_writers_of_a_partition_whose_detachment_is_pending_continue(
    fresh: Connection, other: Connection, written: str
) -> None:
    """The table is no longer listed as an ancestor, but the server still treats the partition as a partition.

    Writers continue.
    """
    copy = followed(fresh, *PARTS)
    parent, id_of_row = ("low", 50) if written == "low" else ("high", 140)
    run(other, SNAPSHOT, "SELECT FROM t")
    detach = f"ALTER TABLE t DETACH PARTITION {parent} CONCURRENTLY"
    with connect(fresh.info.dsn) as owner, blocked(state, owner, detach) as detached:
        run(fresh, f"SELECT pg_cancel_backend({owner.info.backend_pid})")
        assert detached.result() == "57014"
    run(fresh, f"INSERT INTO {written} VALUES ({id_of_row}, 'late')",
        f"UPDATE {written} SET note = 'later'", f"DELETE FROM {written}", "INSERT INTO t VALUES (60, 'x')"
        if parent == "high" else "INSERT INTO t VALUES (120, 'x')")  # fmt: skip
    run(other, "COMMIT")
    assert state(fresh, READ) == GROUND
    run(fresh, f"ALTER TABLE t DETACH PARTITION {parent} FINALIZE", "SELECT changes_resync('t')")
    copy.follow(fresh)


KEEPS_LOGS = (
    'CREATE TABLE t_changes (change uuid DEFAULT uuid_xact_nextval(), id int[], op "char" NOT NULL) '
    "PARTITION BY RANGE (change)", "CREATE INDEX ON t_changes (change)",
    "CREATE TABLE l PARTITION OF t_changes DEFAULT", PLAIN, "SELECT changes_enable('t')",
)  # fmt: skip


def test_a_foreign_partition_or_one_of_another_owner_is_refused_in_a_log(fresh: Connection, edition_name: str) -> None:
    """Code on a partition of another owner would run as the writer.

    A trigger cannot write into a foreign table without a plan.
    """
    if edition_name == "sql":
        pytest.skip("the SQL edition writes the rows of a log with INSERT statements")
    with roles(fresh, "mallory_of_logs"):
        run(fresh, *KEEPS_LOGS, "INSERT INTO t VALUES (1)", "ALTER TABLE l OWNER TO mallory_of_logs")
        assert state(fresh, "INSERT INTO t VALUES (2)") == GROUND
        run(fresh, "ALTER TABLE t_changes DETACH PARTITION l", "CREATE FOREIGN DATA WRAPPER none",
            "CREATE SERVER nowhere FOREIGN DATA WRAPPER none",
            "CREATE FOREIGN TABLE f PARTITION OF t_changes DEFAULT SERVER nowhere")  # fmt: skip
        assert state(fresh, "INSERT INTO t VALUES (3)") == GROUND


# A range above all keys used in the tests.
HIGH_PARTS = (
    "CREATE TABLE high PARTITION OF t_changes FOR VALUES FROM ('ff000000-0000-0000-0000-000000000000') TO (MAXVALUE) "
    "PARTITION BY RANGE (change)",
    "CREATE TABLE high_1 PARTITION OF high FOR VALUES FROM (MINVALUE) TO ('ff100000-0000-0000-0000-000000000000')",
)
# The first statement makes the role {r} the owner of a partition of the log, at any depth. The second statement reverts
# this.
GIVEN_AWAY = {
    "partition": ("ALTER TABLE l OWNER TO {r}", "ALTER TABLE l OWNER TO postgres"),
    "partition below": ("ALTER TABLE high_1 OWNER TO {r}", "ALTER TABLE high_1 OWNER TO postgres"),
    "partition with some": ("ALTER TABLE high OWNER TO {r}", "ALTER TABLE high OWNER TO postgres"),
    "attached": ("ALTER TABLE {r}_ones OWNER TO {r} | ALTER TABLE high ATTACH PARTITION {r}_ones DEFAULT",
                 "ALTER TABLE high DETACH PARTITION {r}_ones"),
    "among many": ("ALTER TABLE l OWNER TO {r} | CREATE TEMP TABLE b (n int) | DO $$BEGIN FOR i IN 1 .. 1100 LOOP "
                   "ALTER TABLE b ALTER n SET STATISTICS 9; END LOOP; END$$", "ALTER TABLE l OWNER TO postgres"),
}  # fmt: skip


def test_partitions_of_a_log_are_examined_again_only_when_they_change(
    fresh: Connection, other: Connection, edition_name: str
) -> None:
    """A statement would spend most of its time checking a thousand partitions."""
    if edition_name == "sql":
        pytest.skip("the SQL edition writes the rows of a log with INSERT statements")
    looks: list[str | None] = []
    fresh.add_notice_handler(lambda message: looks.append(message.message_primary))
    run(fresh, *KEEPS_LOGS, *HIGH_PARTS, "SELECT changes_resync('t')")
    insert = "INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t"
    with roles(fresh, "other_role"):
        run(fresh, "CREATE TABLE other_role_ones (LIKE t_changes INCLUDING ALL)", insert)
        fresh.execute("SET client_min_messages = debug1")
        for name, (change, revert) in GIVEN_AWAY.items():
            run(other, *change.format(r="other_role").split(" | "))
            assert state(fresh, insert) == GROUND, name
            assert state(fresh, insert) == GROUND, name
            run(other, revert.format(r="other_role"))
            looks.clear()
            run(fresh, *[insert] * 3, "BEGIN", *[insert] * 3, "ROLLBACK")
            assert [look for look in looks if look and look.startswith("looking at")] == [
                'looking at 4 tables of log "t_changes"'
            ], name
        run(fresh, "BEGIN", insert, "ALTER TABLE l OWNER TO other_role")
        assert state(fresh, insert) == GROUND
        run(fresh, "ROLLBACK", insert, "SET client_min_messages = notice")


def test_no_partition_key_of_another_owner_is_evaluated_by_a_writer(
    fresh: Connection, other: Connection, edition_name: str
) -> None:
    """The server evaluates constants in a partition key when it loads the partitions of the table."""
    if edition_name == "sql":
        pytest.skip("the SQL edition writes the rows of a log with INSERT statements")
    looks: list[str | None] = []
    fresh.add_notice_handler(lambda message: looks.append(message.message_primary))
    high, _ = HIGH_PARTS
    with roles(fresh, "mallory_of_logs"):
        run(fresh, *KEEPS_LOGS, "INSERT INTO t VALUES (1)")
        run(other, "CREATE FUNCTION evaluated(int) RETURNS int IMMUTABLE LANGUAGE plpgsql "
                   "AS $$BEGIN RAISE NOTICE 'evaluated'; RETURN $1; END$$",
            high.replace("RANGE (change)", "LIST ((cardinality(id) + evaluated(0)))"),
            "ALTER TABLE high OWNER TO mallory_of_logs")  # fmt: skip
        assert state(fresh, "INSERT INTO t VALUES (2)") == GROUND
        assert "evaluated" not in looks


def test_a_log_of_a_log_is_refused(fresh: Connection) -> None:
    """The trigger writes without executing a statement on the log, so a log of the log would miss these rows."""
    run(fresh, PLAIN, f"CREATE TABLE {LOG_OF_T}", "SELECT changes_enable('t_changes')")
    assert state(fresh, "SELECT changes_enable('t')") == GROUND
    run(fresh, "SELECT changes_disable('t_changes')", "SELECT changes_enable('t')")
    assert state(fresh, "SELECT changes_enable('t_changes')") == "42809"


def test_a_generated_key_of_a_partitioned_table_is_refused(fresh: Connection) -> None:
    """Transition tables contain the rows before the partition computed the generated column."""
    generated = "g int GENERATED ALWAYS AS (a + 1) STORED, PRIMARY KEY (g, a)"
    run(fresh, f"CREATE TABLE t (a int, {generated}) PARTITION BY RANGE (a)", f"CREATE TABLE u (a int, {generated})")
    assert state(fresh, "SELECT changes_enable('t')") == GROUND
    run(fresh, "SELECT changes_enable('u')")


def test_a_role_whose_name_needs_quotes_can_write(fresh: Connection) -> None:
    for role in ('"Web-App"', '"a.b"', '"16"'):
        with roles(fresh, role):
            run(fresh, "DROP TABLE IF EXISTS t, t_changes CASCADE", PLAIN, "SELECT changes_enable('t')",
                f"GRANT INSERT ON t TO {role}", f"SET ROLE {role}", "INSERT INTO t VALUES (1)",
                "RESET ROLE")  # fmt: skip


@pytest.mark.parametrize("kind", ["VIEW", "TEMP TABLE", "FOREIGN TABLE"])
def test_only_a_permanent_table_can_be_a_log(
    fresh: Connection, other: Connection, edition_name: str, kind: str
) -> None:
    """The trigger would write into any relation as if it were a permanent table.

    A temporary table may be in the buffers of another session, and views and foreign tables have no storage.
    """
    if edition_name == "sql":
        pytest.skip("the SQL edition has a trigger function for each log")
    columns = '(change uuid, id int[], op "char")'
    statement = {
        "VIEW": 'CREATE VIEW l AS SELECT null::uuid AS change, null::int[] AS id, null::"char" AS op',
        "TEMP TABLE": f"CREATE TEMP TABLE l {columns}",
        "FOREIGN TABLE": f"CREATE FOREIGN TABLE l {columns} SERVER nowhere",
    }[kind]
    run(other, PLAIN, "CREATE FOREIGN DATA WRAPPER none", "CREATE SERVER nowhere FOREIGN DATA WRAPPER none", statement)
    event = "TRUNCATE" if kind == "TEMP TABLE" else "INSERT"
    run(other, f"CREATE TRIGGER zz_inorder_changes AFTER {event} ON l FOR EACH STATEMENT "
               f"EXECUTE FUNCTION public.changes_trigger('{number_of(other, 't')}')",
        "CREATE TRIGGER zz_inorder_changes_insert AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT "
        f"EXECUTE FUNCTION public.changes_trigger('{number_of(other, 'l')}', '1')")  # fmt: skip
    for session in (fresh, other):
        assert state(session, "INSERT INTO t VALUES (1)") == GROUND


def test_writers_continue_if_the_log_has_no_guard(fresh: Connection) -> None:
    """A log without a guard is not readable. Once it has a guard again, the whole table is read."""
    copy = followed(fresh)
    run(
        fresh,
        "SELECT feed_drop('copy')",
        "SELECT feed_disable('t_changes')",
        "DELETE FROM t WHERE id < 5",
        "SELECT changes_enable('t')",
        "SELECT feed_create('copy', 't_changes')",
        "DELETE FROM t WHERE id < 7",
    )
    copy.follow(fresh)
    assert len(copy.rows) == 14


def test_the_owner_of_a_table_drops_no_function_of_another_role(fresh: Connection, edition_name: str) -> None:
    """A trigger on Mallory's table names the log of another owner.

    That log is not affected when a superuser disables the log of Mallory's table.
    """
    with roles(fresh, "changes_owner", "mallory_of_logs"):
        run(fresh, "CREATE SCHEMA kept AUTHORIZATION changes_owner", "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs",
            "SET ROLE changes_owner", "CREATE TABLE kept.t (id int PRIMARY KEY)", "SELECT changes_enable('kept.t')",
            "RESET ROLE")  # fmt: skip
        run(fresh, "SET ROLE mallory_of_logs", "CREATE TABLE hers.t (id int PRIMARY KEY)",
            "SELECT changes_enable('hers.t')",
            "CREATE FUNCTION hers.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE OR REPLACE TRIGGER zz_inorder_changes_insert AFTER INSERT ON hers.t "
            f"EXECUTE FUNCTION hers.f('{number_of(fresh, 'kept.t_changes')}')",
            "RESET ROLE", "SELECT changes_disable('hers.t')", "INSERT INTO kept.t VALUES (7)")  # fmt: skip
        assert value(fresh, "SELECT count(*) FROM kept.t_changes WHERE id = '{7}'") == 1


def number_of(connection: Connection, table: str) -> object:
    return value(connection, f"SELECT '{table}'::regclass::oid")


def test_the_trigger_function_does_not_write_into_a_log_of_another_role(
    fresh: Connection, other: Connection, edition_name: str
) -> None:
    """Anyone may use the trigger function, with any table as its argument.

    If another role owns that table, the function does not write into it and does not even lock it.
    """
    if edition_name == "sql":
        pytest.skip("the SQL edition has a trigger function for each log")
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, "SELECT changes_enable('t')", "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs")
        trigger = (
            "CREATE TRIGGER t AFTER INSERT ON hers.x REFERENCING NEW TABLE AS new_rows "
            f"FOR EACH STATEMENT EXECUTE FUNCTION public.changes_trigger('{number_of(fresh, 't_changes')}')"
        )
        run(fresh, "SET ROLE mallory_of_logs", "CREATE TABLE hers.x (id int PRIMARY KEY)", trigger)
        run(other, "BEGIN", "LOCK TABLE t_changes")
        run(fresh, "SET lock_timeout = '100ms'")
        assert state(fresh, "INSERT INTO hers.x VALUES (7)") == GROUND
        run(other, "ROLLBACK")
        run(fresh, "DROP TRIGGER t ON hers.x",
            trigger.replace("STATEMENT", "ROW").replace("REFERENCING NEW TABLE AS new_rows ", ""))  # fmt: skip
        assert state(fresh, "INSERT INTO hers.x VALUES (7)") == "39P01"


@pytest.mark.parametrize(("key", "dropped"), [("int[]", "name"), ("int[]", "int"), ("int", "int[]")])
def test_the_trigger_function_writes_nothing_into_a_dropped_column(
    fresh: Connection, edition_name: str, key: str, dropped: str
) -> None:
    """A dropped column has type 0. So does the array type of int[], because it does not exist.

    The dropped column keeps the length of its former values.
    """
    if edition_name == "sql":
        pytest.skip("the SQL edition has a trigger function for each log")
    run(fresh, f"CREATE TABLE l (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), gone {dropped}, op \"char\")",
        "SELECT feed_enable('l')", "ALTER TABLE l DROP COLUMN gone",
        f"CREATE TABLE x (id {key}, gone {key}, again {key})", "ALTER TABLE x DROP COLUMN gone")  # fmt: skip
    log = number_of(fresh, "l")
    run(fresh, "CREATE TRIGGER zz_inorder_changes AFTER TRUNCATE ON l "
        f"EXECUTE FUNCTION public.changes_trigger('{number_of(fresh, 'x')}')",
        "ALTER TABLE l ENABLE ALWAYS TRIGGER zz_inorder_changes")  # fmt: skip
    for column in (1, 2):
        trigger = "CREATE OR REPLACE TRIGGER t AFTER INSERT ON x REFERENCING NEW TABLE AS new_rows"
        run(fresh, f"{trigger} FOR EACH STATEMENT EXECUTE FUNCTION public.changes_trigger('{log}', {column})")
        assert state(fresh, "INSERT INTO x (again) VALUES (NULL)") == GROUND


@pytest.mark.parametrize("is_log", [False, True], ids=["a table of its shape", "a log"])
def test_the_trigger_privilege_does_not_suffice_to_create_a_log(
    fresh: Connection, edition_name: str, is_log: bool
) -> None:
    """With TRIGGER on two tables of an owner, a role cannot insert into the one on which it lacks INSERT."""
    if edition_name == "sql":
        pytest.skip("the SQL edition has a trigger function for each log")
    log = 'CREATE TABLE l (change uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), id int[], op "char" NOT NULL)'
    statements = ["CREATE TABLE l (id int PRIMARY KEY)", "SELECT changes_enable('l')"] if is_log else [log]
    name = "l_changes" if is_log else "l"
    run(fresh, *statements, "CREATE TABLE x (id int PRIMARY KEY)")
    with roles(fresh, "mallory_of_logs"):
        run(fresh, "GRANT TRIGGER, INSERT ON x TO mallory_of_logs",
            f"GRANT TRIGGER ON {name} TO mallory_of_logs", "SET ROLE mallory_of_logs",
            f"CREATE OR REPLACE TRIGGER zz_inorder_changes AFTER TRUNCATE ON {name} "
            f"EXECUTE FUNCTION public.changes_trigger('{number_of(fresh, 'x')}')",
            "CREATE TRIGGER t AFTER INSERT ON x REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT "
            f"EXECUTE FUNCTION public.changes_trigger('{number_of(fresh, name)}', '1')",
            "INSERT INTO x VALUES (7)", "RESET ROLE")  # fmt: skip
        assert value(fresh, f"SELECT count(*) FROM {name} WHERE id = '{{7}}'") == 0
        run(fresh, f"ALTER TABLE {name} ENABLE ALWAYS TRIGGER zz_inorder_changes", "INSERT INTO x VALUES (8)")
        assert value(fresh, f"SELECT count(*) FROM {name} WHERE id = '{{8}}'") == 1


def test_a_trigger_enabled_in_another_mode_is_an_error_until_it_is_repaired(fresh: Connection) -> None:
    copy = followed(fresh)
    run(fresh, "ALTER TABLE t_changes ENABLE TRIGGER zz_inorder_changes", "UPDATE t SET id = 1000 WHERE id = 5")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="changes"):
        copy.follow(fresh)
    run(fresh, "ROLLBACK", "SELECT changes_enable('t')", "DELETE FROM t WHERE id = 6")
    copy.follow(fresh)


STRANGE = (
    "CREATE FUNCTION hers.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE FUNCTION hers.is_so() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END'",
)
PLANTED = {
    "function": "CREATE TRIGGER a BEFORE INSERT ON {log} FOR EACH ROW EXECUTE FUNCTION hers.f()",
    "condition": "CREATE TRIGGER a AFTER INSERT ON {log} FOR EACH ROW WHEN (hers.is_so()) "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "condition of the guard": "CREATE TRIGGER a BEFORE INSERT OR UPDATE OF {column} ON {log} FOR EACH ROW "
    "WHEN (hers.is_so()) EXECUTE FUNCTION feed_guard('0')",
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_table_that_runs_code_of_another_role_is_not_accepted_as_a_log(
    fresh: Connection, edition_name: str, kind: str
) -> None:
    """A role that once had TRIGGER on the log could have planted code there.

    Each writer of the logged table would run that code.
    """
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, "SELECT changes_enable('t')", "SELECT changes_disable('t')",
            "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs",
            "GRANT TRIGGER ON t_changes TO mallory_of_logs", "SET ROLE mallory_of_logs", *STRANGE,
            PLANTED[kind].format(log="t_changes", column="change"), "RESET ROLE",
            "REVOKE TRIGGER ON t_changes FROM mallory_of_logs")  # fmt: skip
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match=r'trigger "a" of table (public\.)?t_changes'
        ):
            run(fresh, "SELECT changes_enable('t')")


@pytest.mark.parametrize("other_columns", [False, True])
@pytest.mark.parametrize("kind", PLANTED)
def test_a_partition_of_a_log_runs_no_code_of_another_role(
    fresh: Connection, edition_name: str, kind: str, other_columns: bool
) -> None:
    """Default privileges may give another role TRIGGER on a partition created later."""
    if edition_name == "sql":
        pytest.skip("INSERT statements of the role write the log in the SQL edition, and fire its triggers")
    partition = 't_changes_1 (change uuid NOT NULL, id int[], op "char" NOT NULL)'
    if other_columns:
        partition = 't_changes_1 (op "char" NOT NULL, id int[], change uuid NOT NULL)'
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN,
            "CREATE TABLE t_changes (change uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), id int[], "
            'op "char" NOT NULL) PARTITION BY RANGE (change)', f"CREATE TABLE {partition}",
            "ALTER TABLE t_changes ATTACH PARTITION t_changes_1 DEFAULT", "SELECT changes_enable('t')",
            "INSERT INTO t VALUES (1)", "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs",
            "GRANT TRIGGER ON t_changes_1 TO mallory_of_logs", "SET ROLE mallory_of_logs", *STRANGE,
            PLANTED[kind].format(log="t_changes_1", column="change"), "RESET ROLE")  # fmt: skip
        assert state(fresh, "INSERT INTO t VALUES (2)") == GROUND
        run(fresh, "DROP TRIGGER a ON t_changes_1", "INSERT INTO t VALUES (3)")


@pytest.mark.parametrize("change", ["RENAME TO other", "SET SCHEMA s", "DROP"])
def test_writers_of_partitions_get_a_hint_if_the_log_was_dropped(
    fresh: Connection, edition_name: str, change: str
) -> None:
    """The C extension finds a log by its OID, so only a dropped log is missing.

    The SQL edition finds a log by its name.
    """
    copy = followed(fresh, *PARTS)
    run(fresh, "CREATE SCHEMA s", "DROP TABLE t_changes" if change == "DROP" else f"ALTER TABLE t_changes {change}")
    if edition_name == "sql" or change == "DROP":
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
            run(fresh, "INSERT INTO high_1 VALUES (140, 'x')")
        assert re.search(r"changes_resync\('(public\.)?t'\)", str(refused.value.diag.message_hint))
        run(fresh, "SELECT changes_resync('t')")
    run(fresh, "INSERT INTO high_1 VALUES (140, 'x')")
    if change != "DROP":
        copy.follow(fresh)


def test_writers_continue_without_the_extension(fresh: Connection, edition_name: str) -> None:
    """DROP EXTENSION also drops the triggers, including the one for rows that move to another partition."""
    if edition_name == "sql":
        pytest.skip("the SQL edition has a trigger function for each log")
    prepare(fresh, *PARTS)
    run(fresh, "DROP EXTENSION inorder CASCADE", *WRITES)
    assert value(fresh, "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == 0


ODD_LOGS = (
    "ALTER TABLE t_changes ADD COLUMN more int",
    "ALTER TABLE t_changes ADD CHECK (op <> 'x')",
    "CREATE INDEX ON t_changes (id)",
    "ALTER TABLE t_changes ENABLE ROW LEVEL SECURITY",
    "CREATE TRIGGER seen AFTER INSERT ON t_changes FOR EACH ROW EXECUTE FUNCTION see()",
    "CREATE INDEX ON t_changes ((seen_by_index(op)))",
)


@pytest.mark.parametrize("odd", ODD_LOGS)
def test_objects_of_the_owner_on_a_log_run_as_the_writer(fresh: Connection, odd: str, edition_name: str) -> None:
    """Objects that the owner added to the log take effect, and run as the role that writes."""
    if "ROW LEVEL" in odd and edition_name == "sql":
        odd += "; CREATE POLICY p ON t_changes FOR INSERT WITH CHECK (true)"
    with roles(fresh, "writer_of_t"):
        run(
            fresh,
            PLAIN,
            *SEE,
            'CREATE FUNCTION seen_by_index("char") RETURNS int IMMUTABLE LANGUAGE plpgsql AS '
            "'BEGIN PERFORM set_config(''seen.role'', current_user, false); RETURN 1; END'",
            "SELECT changes_enable('t')",
            odd,
            "GRANT INSERT ON t TO writer_of_t",
            "TRUNCATE seen",
            "SET ROLE writer_of_t",
            ROWS,
            "RESET ROLE",
        )
        assert value(fresh, "SELECT count(*) FROM t_changes WHERE op = 'I' AND cardinality(id) = 20") == 1
        role = value(fresh, "SELECT coalesce(max(role::text), current_setting('seen.role', true)) FROM seen")
        assert role == ("writer_of_t" if "seen" in odd else None)
    if "CHECK" in odd:
        run(fresh, "ALTER TABLE t_changes ADD CHECK (op <> 'D')")
        assert state(fresh, "DELETE FROM t") == "23514"


@pytest.mark.parametrize("made", ["trigger", "rule"])
def test_a_table_with_code_of_a_former_role_is_not_accepted_as_a_log(fresh: Connection, made: str) -> None:
    """The role once had TRIGGER on the log, or owned it. Its trigger or rule would run as each writer."""
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, f"CREATE TABLE {LOG_OF_T}", "GRANT CREATE ON SCHEMA public TO mallory_of_logs",
            "GRANT TRIGGER ON t_changes TO mallory_of_logs", "CREATE TABLE seen (role name)")  # fmt: skip
        if made == "trigger":
            run(fresh, "SET ROLE mallory_of_logs", SEE[2],
                "CREATE TRIGGER seen BEFORE INSERT ON t_changes FOR EACH ROW EXECUTE FUNCTION see()",
                "RESET ROLE")  # fmt: skip
        else:
            run(fresh, "ALTER TABLE t_changes OWNER TO mallory_of_logs", "SET ROLE mallory_of_logs",
                "CREATE RULE seen AS ON INSERT TO t_changes DO ALSO INSERT INTO seen VALUES (current_user)",
                "RESET ROLE", "ALTER TABLE t_changes OWNER TO postgres")  # fmt: skip
        assert state(fresh, "SELECT changes_enable('t')") == GROUND
        run(fresh, f"DROP {made} seen ON t_changes", "SELECT changes_enable('t')", ROWS)


def test_logs_that_swap_their_names_do_not_mix_their_rows(fresh: Connection, edition_name: str) -> None:
    """The C extension identifies logs by OID, so it loses no rows and writes no rows into the wrong log.

    The SQL edition rejects writes.
    """
    copy = followed(fresh)
    swap = ("ALTER TABLE t_changes RENAME TO x", "ALTER TABLE u_changes RENAME TO t_changes",
            "ALTER TABLE x RENAME TO u_changes")  # fmt: skip
    run(fresh, "CREATE TABLE u (id int PRIMARY KEY)", "SELECT changes_enable('u')", *swap)
    assert state(fresh, "DELETE FROM t WHERE id < 5") == ("" if edition_name == "c" else GROUND)
    assert state(fresh, READ) == ("" if edition_name == "c" else GROUND)
    run(fresh, *swap)
    assert value(fresh, "SELECT count(*) FROM u_changes WHERE op <> 'R'") == 0
    copy.follow(fresh)
    assert len(copy.rows) == (16 if edition_name == "c" else 20)


MALLORY = "'mallory_of_logs'"


def test_a_key_of_a_type_created_by_the_owner_is_refused(fresh: Connection) -> None:
    """Otherwise, a role that reads the changes would run casts and comparison functions defined by the owner."""
    with roles(fresh, "mallory_of_logs"):
        run(fresh, "CREATE SCHEMA hers AUTHORIZATION mallory_of_logs", "SET ROLE mallory_of_logs",
            "CREATE TABLE hers.t (id int PRIMARY KEY)", "SELECT changes_enable('hers.t')",
            "INSERT INTO hers.t VALUES (7)",
            "SELECT feed_create('copy', 'hers.t_changes')", "CREATE TYPE hers.key AS (n int)",
            "CREATE FUNCTION hers.cast_it(hers.key) RETURNS int LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'ran as %', current_user; END $$",
            "CREATE CAST (hers.key AS int) WITH FUNCTION hers.cast_it AS IMPLICIT",
            "ALTER TABLE hers.t_changes ALTER id TYPE hers.key[] USING"
            " CASE op WHEN 'I' THEN ARRAY[ROW(7)::hers.key] END",
            "RESET ROLE", SNAPSHOT)  # fmt: skip
        for read in (
            "reader_changes_query('hers.t', p, reader_next_batch('hers.t_changes', p)) "
            "FROM reader_start('hers.t_changes') AS p",
            f"changes_batch_rows('copy', (feed_take_batch('copy', 'w', owner => {MALLORY})).number, null::hers.t, "
            f"{MALLORY})",
        ):
            run(fresh, "SAVEPOINT s")
            with pytest.raises(psycopg.Error, match="may be missing from its log"):
                fresh.execute(f"SELECT {read}".encode())
            run(fresh, "ROLLBACK TO s")
        run(fresh, "ROLLBACK")


def test_default_privileges_give_no_role_rights_on_the_log(fresh: Connection) -> None:
    """A role with TRIGGER on the log could add a trigger that runs as each writer of the table."""
    with roles(fresh, "mallory_of_logs"):
        run(fresh, "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO mallory_of_logs", PLAIN,
            "SELECT changes_enable('t')", "SET ROLE mallory_of_logs",
            "CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")  # fmt: skip
        assert state(fresh, "CREATE TRIGGER m AFTER INSERT ON t_changes EXECUTE FUNCTION pg_temp.f()") == "42501"
        run(fresh, "SELECT * FROM t_changes")


def test_tables_whose_truncated_log_names_are_equal_do_not_share_a_log(fresh: Connection) -> None:
    """The two log names are equal once truncated to 63 bytes."""
    names = [f'"%\'{"é" * 30}{last}"' for last in "ab"]
    enable = "SELECT changes_enable($${}$$)"
    run(fresh, *(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names), enable.format(names[0]))
    assert state(fresh, enable.format(names[1])) == "42P07"
    run(fresh, enable.format(names[0]), f"ALTER TABLE {names[1]} RENAME TO b", enable.format("b"))


def test_a_function_created_meanwhile_by_another_role_is_not_used(
    fresh: Connection, other: Connection, edition_name: str
) -> None:
    """The function would run as each writer.

    CREATE OR REPLACE by a superuser would not change its owner, who could then change the function.
    """
    if edition_name == "c":
        pytest.skip("the C extension creates no function for a log")
    with roles(fresh, "mallory_of_logs"), connect(fresh.info.dsn) as mallory:
        run(fresh, PLAIN, f"CREATE TABLE {LOG_OF_T}", "GRANT CREATE ON SCHEMA public TO mallory_of_logs",
            "GRANT INSERT ON t_changes TO mallory_of_logs")  # fmt: skip
        run(mallory, "SET ROLE mallory_of_logs", "BEGIN", "LOCK TABLE t_changes IN ROW EXCLUSIVE MODE")
        with blocked(state, other, ENABLE[0]) as enabling:
            run(mallory, f"CREATE {FUNCTION_OF_T}", "COMMIT")
            assert enabling.result() == "42723"


def test_a_table_of_another_role_does_not_replace_a_dropped_log(fresh: Connection) -> None:
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, "SELECT changes_enable('t')", "DROP TABLE t_changes",
            "GRANT CREATE ON SCHEMA public TO mallory_of_logs", "SET ROLE mallory_of_logs",
            'CREATE TABLE t_changes (id int, op "char")', "GRANT ALL ON t_changes TO PUBLIC", "RESET ROLE")  # fmt: skip
        assert state(fresh, "INSERT INTO t VALUES (1)") == GROUND


def test_a_log_must_have_the_owner_of_its_table(fresh: Connection, edition_name: str) -> None:
    """The C extension requires the log to have the same owner as the table.

    The SQL edition only rejects reads, because it runs nothing as the owner.
    """
    with roles(fresh, "mallory_of_logs"):
        prepare(fresh)
        run(fresh, "ALTER TABLE t OWNER TO mallory_of_logs", "GRANT CREATE ON SCHEMA public TO mallory_of_logs")
        assert state(fresh, "DELETE FROM t WHERE id = 2") == ("" if edition_name == "sql" else GROUND)
        assert state(fresh, READ) == GROUND
        run(fresh, "ALTER TABLE t_changes OWNER TO mallory_of_logs", "DELETE FROM t WHERE id = 3",
            "SET ROLE mallory_of_logs")  # fmt: skip
        if edition_name == "sql":
            assert state(fresh, "SELECT changes_resync('t')") == "42723"
            run(fresh, "RESET ROLE", "ALTER FUNCTION t_changes() OWNER TO mallory_of_logs",
                "SET ROLE mallory_of_logs")  # fmt: skip
        run(fresh, "SELECT changes_resync('t')", "RESET ROLE")
        Copy().follow(fresh)


def test_a_user_type_named_like_a_builtin_type_is_refused_as_a_key(fresh: Connection) -> None:
    run(fresh, "CREATE SCHEMA own", "CREATE TYPE own.int4 AS (n int)", "CREATE TABLE t (id own.int4 PRIMARY KEY)")
    assert state(fresh, "SELECT changes_enable('t')") == GROUND


LOG_OF_T = 't_changes (change uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), id int[], op "char" NOT NULL)'
FUNCTION_OF_T = (
    "FUNCTION t_changes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN /* is not the log that the triggers of */ END'"
)


@pytest.mark.parametrize("planted", [f"TABLE {LOG_OF_T}", FUNCTION_OF_T])
def test_objects_of_another_role_with_names_of_the_log_are_not_used(
    fresh: Connection, planted: str, edition_name: str
) -> None:
    """Triggers on the planted table, or the planted function, would run as each writer.

    The C extension does not use the function.
    """
    refused = "42501" if planted.startswith("TABLE") else "42723" if edition_name == "sql" else ""
    with roles(fresh, "mallory_of_logs"):
        run(fresh, PLAIN, "GRANT CREATE ON SCHEMA public TO mallory_of_logs", "SET ROLE mallory_of_logs",
            f"CREATE {planted}", "RESET ROLE")  # fmt: skip
        assert state(fresh, "SELECT changes_enable('t')") == refused
        run(fresh, ROWS)
    if refused:
        run(fresh, f"CREATE {planted}", "SELECT changes_enable('t')")


CASELESS = "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
EQUAL = {
    "numeric": ("1.0", "1.00"), "float4": ("0", "-0"), "float8": ("0", "-0"), "interval": ("1 mon", "30 days"),
    "bpchar": ("a", "a "), "text COLLATE caseless": ("Bob", "BOB"),
}  # fmt: skip


@pytest.mark.parametrize("type", EQUAL)
def test_equal_keys_that_are_written_differently_are_merged(fresh: Connection, type: str) -> None:
    """If a key is replaced with an equal key, the batch has a delete of the old key and then the row once.

    A sink may or may not treat such keys as equal. If it does, and keeps the highest version of each key, it keeps the
    row.
    """
    if "COLLATE" in type and state(fresh, CASELESS):
        pytest.skip("this server has no ICU")
    former, present = EQUAL[type]
    run(fresh, f"CREATE TABLE t (id {type} PRIMARY KEY, note text)", f"INSERT INTO t VALUES ('{former}', 'a')", *ENABLE)
    for before, after in (
        ([f"UPDATE t SET id = '{present}'"], []),
        (["DELETE FROM t", f"INSERT INTO t VALUES ('{present}')"], []),
        (["UPDATE t SET note = 'b'"], [f"UPDATE t SET id = '{present}'"]),  # the batch is taken before these
    ):
        run(fresh, f"UPDATE t SET id = '{former}'")
        Copy().follow(fresh)
        run(fresh, *before)
        number = value(fresh, "SELECT (feed_take_batch('copy', 'w')).number")
        run(fresh, *after)
        query = "SELECT op, concat((changed).id), version FROM changes_batch_rows('copy', %s, null::t)"
        rows: list[Any] = fresh.execute(query, [number]).fetchall()
        assert [row[:2] for row in rows] == [("delete", former), ("upsert", present)]
        assert rows[0][2] < rows[1][2]
        fresh.execute(FINISH, ["copy", number])
    run(fresh, "DELETE FROM t")
    number = value(fresh, "SELECT (feed_take_batch('copy', 'w')).number")
    rows = fresh.execute(query, [number]).fetchall()
    assert sorted(row[:2] for row in rows) == sorted([("delete", former), ("delete", present)])


def test_equal_keys_that_are_written_differently_are_merged_with_max_rows(fresh: Connection) -> None:
    run(fresh, "CREATE TABLE t (id numeric PRIMARY KEY, note text)",
        "INSERT INTO t VALUES (1.0, 'a'), (2.0, 'b')", *ENABLE)  # fmt: skip
    copy = Copy()
    copy.follow(fresh)
    run(fresh, "UPDATE t SET id = 1.00, note = 'x' WHERE id = 1", "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (2.000)")  # fmt: skip
    copy.follow(fresh, 1)
    copy.follow(fresh)
    assert copy.rows.keys() == {("1.00",), ("2.000",)}


# Columns whose names the query for changes uses itself, and key values that are equal or sort last.
NAMED = (
    'CREATE TABLE t (gone int, "c 1" text, c1 numeric, t1 float8, e1 int, is_there int[], is_same jsonb, op text, '
    'version int, b int, e int, k int, m int, x int, PRIMARY KEY (t1, "c 1", c1))',
    "ALTER TABLE t DROP COLUMN gone",
    "INSERT INTO t (t1, \"c 1\", c1, op) SELECT v, concat('k', n % 2), n, 'first' "
    "FROM unnest('{0, NaN, Infinity, -Infinity, 1}'::float8[]) AS v, generate_series(1, 5) AS n",
)


def test_columns_may_have_names_that_the_query_uses(fresh: Connection) -> None:
    copy = Copy(keys=("t1", '"c 1"', "c1"))
    run(fresh, *NAMED, *ENABLE)
    copy.follow(fresh)
    for write in (
        "UPDATE t SET is_there = '{1}', is_same = '[]', version = 7, m = 1 WHERE c1 < 3",
        "UPDATE t SET t1 = '-0', c1 = 1.00, e1 = 1, x = 2, k = 3 WHERE t1 = 0 AND c1 = 1",
        "DELETE FROM t WHERE t1 = 'NaN' AND c1 > 2",
        "UPDATE t SET \"c 1\" = '', e = 4, b = 5 WHERE c1 = 4",
        "TRUNCATE t",
    ):
        run(fresh, write)
        copy.follow(fresh)
    assert not copy.rows


def test_later_batches_read_no_more_pages_than_the_first(fresh: Connection) -> None:
    run(fresh, PLAIN, "INSERT INTO t SELECT n, 'first' FROM generate_series(1, 2000) AS n", *ENABLE)
    run(fresh, "SELECT feed_seek('copy', 'now')",
        "DO 'BEGIN FOR n IN 0..1999 LOOP UPDATE t SET note = note WHERE id = 1 + n * 7 % 2000; COMMIT; END LOOP; END'",
        "VACUUM ANALYZE")  # fmt: skip
    pages: list[int] = []
    for _ in range(12):
        number = value(fresh, "SELECT (feed_take_batch('copy', 'w', 200)).number")
        if number is None:
            break
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT changes_batch_rows('copy', {number}, null::t)"
        plan: Any = value(fresh, explain)
        pages.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
        run(fresh, f"SELECT feed_finish_batch('copy', {number}, token) FROM feed_take_batch('copy', 'w')")
    assert len(pages) == 10 and max(pages[-3:]) <= 1.1 * min(pages[1:4]), pages


@pytest.mark.parametrize("locked", ["ONLY t", "low"])
def test_a_read_waits_for_a_session_that_changes_the_table(fresh: Connection, other: Connection, locked: str) -> None:
    """A read waits for the table lock even if the log has no new rows.

    Otherwise the read would check the table as it was before the change.
    """
    followed(fresh, *PARTS)
    run(other, "BEGIN", f"LOCK TABLE {locked}")
    run(fresh, "SET lock_timeout = '100ms'")
    assert state(fresh, READ) == "55P03"


@pytest.mark.parametrize("call", ["feed_enable", "exact_count_start", "changes_enable", "changes_resync"])
def test_a_table_dropped_during_a_wait_for_its_lock_is_reported_as_missing(
    fresh: Connection, other: Connection, call: str
) -> None:
    run(fresh, "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
    if call == "changes_resync":
        run(fresh, "SELECT changes_enable('t')")
    run(other, "BEGIN", "DROP TABLE t")
    with blocked(value, fresh, f"SELECT {call}('t')") as waiting:
        run(other, "COMMIT")
        with pytest.raises(UndefinedTable):
            waiting.result()


def test_a_reader_that_waited_reads_the_rows_committed_meanwhile(fresh: Connection, other: Connection) -> None:
    """The call must not use the snapshot that it had when it began to wait.

    The newer rows would be lost with the batch.
    """
    followed(fresh)
    run(fresh, "UPDATE t SET note = 'old' WHERE id = 1")
    run(other, "BEGIN", "SELECT (feed_take_batch('copy', 'w')).number")
    with connect(fresh.info.dsn) as writer, blocked(value, fresh, f"SELECT (changed).note FROM {READ[7:]}") as reading:
        run(writer, "UPDATE t SET note = 'new' WHERE id = 1")
        run(other, "ROLLBACK")
        assert reading.result() == "new"
    run(fresh, "SELECT feed_finish_batch('copy', number, token) FROM feed_take_batch('copy', 'w')")


REWRITES = (
    "ALTER TABLE t ALTER note TYPE varchar(20)", "TRUNCATE t", "ALTER TABLE t ALTER id TYPE bigint USING id + 1",
    "ALTER TABLE t ADD COLUMN more int DEFAULT 7", "ALTER TABLE t DROP COLUMN note",
)  # fmt: skip


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_snapshot_from_before_a_rewrite_of_the_table_is_refused(
    fresh: Connection, other: Connection, rewrite: str
) -> None:
    """The older snapshot does not match the current columns, or sees no rows in the new file.

    With no rows visible, every row would be deleted from the copy.
    """
    copy = followed(fresh)
    run(fresh, "UPDATE t SET note = 'x' WHERE id < 5")
    run(other, SNAPSHOT, "SELECT 1")
    run(fresh, rewrite)
    assert state(other, READ) == STALE
    run(other, "ROLLBACK")
    if "bigint" in rewrite:
        run(fresh, "ALTER TABLE t_changes ALTER id TYPE bigint[]")
    run(fresh, "SELECT changes_resync('t')")
    copy.follow(fresh)


def test_a_reader_cannot_continue_with_an_older_snapshot(fresh: Connection, other: Connection) -> None:
    """The first batch contained a newer row.

    The next batch would overwrite this row with an older version, and the newer change would never be read again.
    """
    copy = followed(fresh)
    run(fresh, "BEGIN", *(f"UPDATE t SET note = 'x' WHERE id = {id}" for id in (1, 2)), "COMMIT")
    run(other, SNAPSHOT, "SELECT 1")
    run(fresh, "UPDATE t SET note = 'newer' WHERE id = 2")
    run(fresh, SNAPSHOT)
    assert copy.step(fresh, 1)
    run(fresh, "COMMIT")
    assert state(other, "SELECT (feed_take_batch('copy', 'w', 1)).number") == STALE
    run(other, "ROLLBACK")
    copy.follow(fresh)


def test_a_row_that_commits_after_a_truncate_stays_in_the_copy(fresh: Connection, other: Connection) -> None:
    """A transaction with a lower ID inserts a row after TRUNCATE. The row is read before the TRUNCATE marker."""
    copy = followed(fresh)
    run(other, "BEGIN", "SELECT pg_current_xact_id()")
    run(fresh, "TRUNCATE t")
    run(other, "INSERT INTO t VALUES (1, 'after')", "COMMIT")
    for expected in (True, True, False):
        run(fresh, SNAPSHOT)
        assert copy.step(fresh, 1) is expected
        run(fresh, "COMMIT")
    assert [*copy.rows.values()] == [{"id": 1, "note": "after"}]


def test_workers_can_finish_in_any_order_if_the_sink_compares_versions(fresh: Connection) -> None:
    copy, naive = prepare(fresh), Copy()
    copy.follow(fresh)
    naive.rows = dict(copy.rows)
    take = "SELECT number FROM feed_take_batch('copy', '{}')"
    run(fresh, "UPDATE t SET note = 'second' WHERE id IN (1, 2)")
    first = value(fresh, take.format("a"))
    slow = copy.changes(fresh, first)
    run(fresh, "UPDATE t SET note = 'third' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    fast = copy.changes(fresh, value(fresh, take.format("b")))
    for changes in (fast, slow):
        copy.apply(changes, by_version=True)
        naive.apply(changes)
    assert copy.rows == copy.table_now(fresh) != naive.rows


def test_changes_read_delivers_all_rows_and_is_refused_with_a_limit(fresh: Connection, edition_name: str) -> None:
    copy = prepare(fresh)
    read = "SELECT op, version, to_jsonb(changed), ARRAY[(changed).id::text] FROM changes_read('copy', null::t, 5)"
    if edition_name == "sql":
        assert state(fresh, read) == "0A000"
        return
    assert state(fresh, f"{read} LIMIT 1") == "0A000"
    for _ in range(3):
        run(fresh, SNAPSHOT)
        rows: list[Any] = fresh.execute(read.encode()).fetchall()
        copy.apply((op, version, row, tuple(key)) for op, version, row, key in rows)
        run(fresh, "COMMIT", "UPDATE t SET note = note || id WHERE id < 4")
    assert len(copy.rows) == 20 and copy.rows[("1",)] == {"id": 1, "note": "first11"}
    run(fresh, "ALTER TABLE t DISABLE TRIGGER USER", "DELETE FROM t")
    run(fresh, "SELECT feed_seek('copy', 'now')")
    assert state(fresh, read) == GROUND
