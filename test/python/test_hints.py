"""The HINT of an error names the call that helps in the present case."""

import re

import psycopg
import pytest
from inorder.connection.database import Connection

from tail_runs import Tail, insert
from world.sql import run, value

pytestmark = pytest.mark.server

SWAP = ("CREATE TABLE shadow (LIKE events INCLUDING ALL)", "ALTER TABLE events RENAME TO former",
        "ALTER TABLE shadow RENAME TO events")  # fmt: skip
UPDATED = ("CREATE TABLE orders (id int PRIMARY KEY, status text, tenant int)", "INSERT INTO orders VALUES (1, 's', 2)",
           "UPDATE orders SET status = 't'", "SELECT pg_stat_force_next_flush()", "COMMIT")  # fmt: skip
TAKE = "SELECT number FROM feed_take_batch('f', 'w', 1)"


def hint(connection: Connection, statement: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    return caught.value.diag.message_hint or ""


@pytest.mark.editions
@pytest.mark.parametrize(
    "call", ["feed_peek('f', null::events)", "feed_batch_rows('w', {number}, null::events)",
             "reader_batch_rows('former', {batch}, null::events)"]
)  # fmt: skip
def test_the_row_type_of_a_renamed_table_is_named(fresh: Connection, call: str) -> None:
    run(fresh, "SELECT feed_create('f', 'events')", "SELECT feed_create('w', 'events')")
    insert(fresh, 2)
    number = value(fresh, "SELECT number FROM feed_take_batch('w', 'a')")
    batch = "reader_next_batch('former', reader_start('former', 'beginning'))"
    run(fresh, *SWAP)
    call = call.format(number=number, batch=batch)
    assert hint(fresh, f"SELECT * FROM {call}") == (
        "The table was renamed, and another table now has its former name. To read the remaining rows of the renamed "
        "table, pass null::public.former."
    )
    assert value(fresh, f"SELECT count(*) FROM {call.replace('events', 'former')}") == 2


@pytest.mark.editions
@pytest.mark.parametrize(
    ("call", "help"),
    [
        ("exact_count_start('orders')", "exact_count_start('public.orders', by => '{}')."),
        ("exact_count('orders')", "exact_count_start('public.orders', by => '{}')."),
        ("exact_count_stop('orders')", "exact_count_start('public.orders', by => '{}')."),
        ("feed_create('f', 'orders')",
         "changes_enable('public.orders') or, from a shell, run inorder prepare public.orders --changes."),
        ("reader_start('orders')",
         "changes_enable('public.orders') or, from a shell, run inorder prepare public.orders --changes."),
    ],
)  # fmt: skip
def test_a_table_with_updates_can_be_counted_or_followed(fresh: Connection, call: str, help: str) -> None:
    run(fresh, *UPDATED[:-1])
    assert hint(fresh, f"SELECT {call}").endswith(help)
    if "count" in call:
        run(fresh, "SELECT changes_enable('orders')")
        assert hint(fresh, f"SELECT {call}").endswith(help)
    helping = "exact_count_start('orders', by => '{}')" if "count" in call else "changes_enable('orders')"
    run(fresh, f"SELECT {helping}")


@pytest.mark.editions
def test_a_log_without_default_gets_its_default(fresh: Connection) -> None:
    run(fresh, *UPDATED[:1],
        'CREATE TABLE orders_changes (change uuid PRIMARY KEY, id int[], op "char" NOT NULL)')  # fmt: skip
    statement = hint(fresh, "SELECT changes_enable('orders')")
    assert statement == "ALTER TABLE public.orders_changes ALTER change SET DEFAULT public.uuid_xact_nextval()"
    run(fresh, statement, "SELECT changes_enable('orders')", "SELECT feed_create('f', 'orders_changes')",
        "ALTER TABLE orders_changes ALTER change DROP DEFAULT")  # fmt: skip
    assert statement in hint(fresh, "SELECT changes_enable('orders')")
    assert statement in hint(fresh, "SELECT feed_enable('orders_changes')")


@pytest.mark.editions
def test_the_table_of_a_log_is_named(fresh: Connection) -> None:
    run(fresh, *UPDATED[:1], "CREATE TABLE others (id int PRIMARY KEY)", "SELECT changes_enable('orders')",
        "SELECT feed_create('f', 'orders_changes')", "INSERT INTO orders VALUES (1, 's', 2)")  # fmt: skip
    number = value(fresh, TAKE)
    assert hint(fresh, f"SELECT * FROM changes_batch_rows('f', {number}, null::others)") == (
        "That log has the changes of public.orders: pass null::public.orders."
    )


def test_the_log_can_be_peeked_at_without_moving_the_feed(fresh: Connection) -> None:
    run(fresh, *UPDATED[:1], "SELECT changes_enable('orders')", "SELECT feed_create('f', 'orders_changes')",
        "INSERT INTO orders VALUES (1, 's', 2)")  # fmt: skip
    assert hint(fresh, "SELECT * FROM changes_read('f', null::orders) LIMIT 1").endswith(
        "To look at logged keys without moving the position, call feed_peek with the row type of the log."
    )
    run(fresh, "SELECT * FROM feed_peek('f', null::orders_changes)")


@pytest.mark.editions
def test_only_unfinished_batches_of_a_dropped_table_are_mentioned(fresh: Connection) -> None:
    run(fresh, "SELECT feed_create('f', 'events')")
    insert(fresh, 2)
    with fresh.transaction(force_rollback=True):
        fresh.execute("DROP TABLE events")
        assert hint(fresh, "SELECT feed_wait('f', '0')") == "To remove the feed, call feed_drop('f')."
    run(fresh, TAKE)
    fresh.execute("DROP TABLE events")
    assert hint(fresh, "SELECT feed_wait('f', '0')") == (
        "To remove the feed and its unfinished batches, which the view feed_batches shows, call feed_drop('f')."
    )


@pytest.mark.editions
def test_columns_and_counts_by_group_are_listed(fresh: Connection) -> None:
    run(fresh, *UPDATED[:1])
    stop = "SELECT exact_count_stop('orders', by => '{tenant,status}')"
    assert hint(fresh, stop) == "The table has no count by group."
    assert hint(fresh, "SELECT exact_count_start('orders', by => '{nope}')") == (
        "The columns of the table are id, status, tenant."
    )
    run(fresh, "SELECT exact_count_start('orders', by => '{status,tenant}')")
    assert hint(fresh, stop) == ("The counts by group are public.orders_by_status_tenant (by => '{status,tenant}').")
    run(fresh, "ALTER TABLE orders " + ", ".join(f"ADD c{n} int" for n in range(30)))
    assert hint(fresh, "SELECT exact_count_start('orders', by => '{nope}')").endswith(", c15, c16 and others.")


@pytest.mark.editions
@pytest.mark.parametrize("move", ["feed_seek('f', 'now')", "feed_seek('f', 'beginning')", "feed_drop('f')"])
def test_discarded_batches_are_counted(fresh: Connection, move: str) -> None:
    warnings: list[tuple[str | None, str | None]] = []
    fresh.add_notice_handler(lambda notice: warnings.append((notice.message_primary, notice.message_detail)))
    run(fresh, "SELECT feed_create('f', 'events')")
    insert(fresh, 3)
    run(fresh, TAKE, TAKE.replace("'w'", "'v'"), f"SELECT {move}")
    assert warnings == [('discarding unfinished batches of feed "f": 2', "Dead batches among them: 0.")]
    if move != "feed_drop('f')":
        run(fresh, f"SELECT {move}")
        assert len(warnings) == 1


@pytest.mark.editions
def test_the_only_feed_of_a_table_is_named(fresh: Connection) -> None:
    run(fresh, "SELECT feed_create('my feed', 'events')")
    insert(fresh, 1)
    run(fresh, "SELECT feed_apply('my feed', 'SELECT FROM batch')", 
        "ALTER TABLE events DISABLE TRIGGER zz_inorder_guard",
        "ALTER TABLE events ENABLE ALWAYS TRIGGER zz_inorder_guard")  # fmt: skip
    insert(fresh, 1)
    assert "feed_seek('my feed', 'here')" in hint(fresh, "SELECT feed_apply('my feed', 'SELECT FROM batch')")
    run(fresh, "SELECT feed_create('second', 'events')")
    assert "feed_seek(name, 'here')" in hint(fresh, "SELECT feed_apply('my feed', 'SELECT FROM batch')")


@pytest.mark.editions
@pytest.mark.parametrize("rows", [0, 1])
def test_a_statement_is_checked_even_without_rows(fresh: Connection, rows: int) -> None:
    run(fresh, "CREATE TABLE sums (n bigint)", "SELECT feed_create('my feed', 'events')")
    for _ in range(rows):
        insert(fresh, 1)
    comma = "Write a comma instead of WITH, as in ', w AS (SELECT * FROM batch) SELECT * FROM w'."
    skip = (
        "Name the batch without a schema, as in SELECT count(*) FROM batch. To skip all rows so far, call "
        "feed_seek('my feed', 'now')."
    )
    for statement, state, help in (
        ("complete nonsense", "42601", ""), ("INSERT INTO nowhere SELECT n FROM batch", "42P01", ""),
        ("SELECT m FROM batch", "42703", ""), ("SELECT 1", "0A000", skip),
        ("SELECT n FROM batch; SELECT 1", "42601",
         "Run the other statements separately, in the same transaction."),
        ("-- a comment\n/* another\n*/ wItH a AS (SELECT * FROM batch) SELECT * FROM a", "42601", comma),
        ("with/**/a AS (SELECT * FROM batch) INSERT INTO sums SELECT n FROM a", "42601", comma),
    ):  # fmt: skip
        for _ in range(2):
            with pytest.raises(psycopg.Error) as caught:
                fresh.execute("SELECT feed_apply('my feed', %s)", [statement])
            assert (caught.value.sqlstate, caught.value.diag.message_hint or "") == (state, help), statement
    for statement in (
        ", with_sums AS (SELECT * FROM batch) INSERT INTO sums SELECT n FROM with_sums", "SELECT n AS with FROM batch",
        "-- rows with n\nSELECT n FROM batch",
        "/* with /* a */ with n */ SELECT n FROM batch", "/* a */ /* with n **/ SELECT n FROM batch",
    ):  # fmt: skip
        expected = 1 if rows and statement[0] == "," else None
        assert value(fresh, "SELECT feed_apply('my feed', %s)", statement) == expected
        assert value(fresh, "SELECT feed_apply('my feed', %s)", statement) is None
    # A checked statement is not checked again until the feed has rows.
    run(fresh, "DROP TABLE sums")
    again = ", with_sums AS (SELECT * FROM batch) INSERT INTO sums SELECT n FROM with_sums"
    if not rows:
        assert value(fresh, "SELECT feed_apply('my feed', 'SELECT n AS with FROM batch')") is None
    insert(fresh, 1)
    with pytest.raises(psycopg.errors.UndefinedTable):
        fresh.execute("SELECT feed_apply('my feed', %s)", [again])


COLUMN = "CREATE TABLE p (id int PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), s int NOT NULL)"
OPTIONS = {"order": "order_column => 's'", "share": "partition_by => 's'"}


@pytest.mark.editions
@pytest.mark.parametrize("start", ["'here'", "'beginning'", "'now'", "'{}'::int8multirange"])
@pytest.mark.parametrize("option", OPTIONS)
def test_feed_seek_refuses_a_feed_whose_column_was_dropped(fresh: Connection, option: str, start: str) -> None:
    run(fresh, COLUMN, "CREATE INDEX ON p (xact)", "CREATE INDEX ON p (s)",
        f"SELECT feed_create('f', 'p', {OPTIONS[option]})", "ALTER TABLE p DROP s")  # fmt: skip
    expected = "The column was renamed or dropped. Restore its name or, for another column, call feed_drop('f') and "
    assert hint(fresh, f"SELECT feed_seek('f', {start})").startswith(expected + "feed_create()")
    assert hint(fresh, "SELECT number FROM feed_take_batch('f', 'w')").startswith(expected)
    run(fresh, "ALTER TABLE p ADD s int NOT NULL DEFAULT 0", "CREATE INDEX ON p (s)")
    assert "call feed_seek('f', 'here')" in hint(fresh, "SELECT number FROM feed_take_batch('f', 'w')")
    run(fresh, f"SELECT feed_seek('f', {start})", "SELECT feed_take_batch('f', 'w')")


@pytest.mark.editions
def test_feed_seek_refuses_a_column_that_cannot_divide_a_feed(fresh: Connection) -> None:
    run(fresh, COLUMN, "CREATE INDEX ON p (xact)", "SELECT feed_create('f', 'p', partition_by => 's')",
        "INSERT INTO p (id, s) VALUES (1, 1)", "SELECT feed_take_batch('f', 'w')",
        "ALTER TABLE p ALTER s TYPE text")  # fmt: skip
    help = "If this call is refused, use 'beginning' or 'now'."
    assert help in hint(fresh, "SELECT feed_seek('f', 'here')")  # the batch keeps its division
    run(fresh, "SELECT feed_seek('f', 'beginning')", "SELECT feed_take_batch('f', 'w')", "ALTER TABLE p DROP s",
        "ALTER TABLE p ADD s date NOT NULL DEFAULT now()")  # fmt: skip
    assert hint(fresh, "SELECT feed_take_batch('f', 'w')") == "Choose another column."
    assert hint(fresh, "SELECT feed_seek('f', 'beginning')") == "Choose another column."


@pytest.mark.editions
def test_reader_seek_refuses_a_position_whose_column_was_dropped(fresh: Connection) -> None:
    run(fresh, COLUMN, "CREATE INDEX ON p (xact)", "CREATE INDEX ON p (s)", "SELECT feed_enable('p')",
        "CREATE TABLE kept AS SELECT reader_start('p', order_column => 's') AS p", "ALTER TABLE p DROP s")  # fmt: skip
    assert "reader_start()" in hint(fresh, "SELECT reader_seek('p', p) FROM kept")


KEYED = ("CREATE TABLE cust (id int PRIMARY KEY, tenant int NOT NULL, name text)",
         "INSERT INTO cust VALUES (1, 2, 'a')", "SELECT changes_enable('cust')")  # fmt: skip
OTHER_KEY = "ALTER TABLE cust DROP CONSTRAINT cust_pkey, ADD PRIMARY KEY (id, tenant)"
NEW_LOG = ("BEGIN", "ALTER TABLE cust_changes RENAME TO former", "SELECT changes_enable('public.cust')", "COMMIT")


@pytest.mark.editions
def test_steps_after_a_change_of_the_key_lead_to_a_new_log(fresh: Connection) -> None:
    run(fresh, *KEYED, "SELECT feed_create('f', 'cust_changes')", "SELECT feed_take_batch('f', 'w')", OTHER_KEY)
    number = value(fresh, TAKE)
    read = f"SELECT * FROM changes_batch_rows('f', {number}, null::cust)"
    steps = hint(fresh, read)
    assert steps == (
        "The primary key has other columns than the log. In one transaction, the owner must rename table "
        "public.cust_changes and call changes_enable('public.cust'), which creates another log. Then call "
        "feed_drop('f') and feed_create('f', 'public.cust_changes') or, if the reader keeps the position, "
        "reader_start('public.cust_changes')."
    )
    for call in ("changes_resync", "changes_enable", "changes_prepare"):
        assert hint(fresh, f"SELECT {call}('cust')") == steps
    run(fresh, *NEW_LOG)
    assert hint(fresh, read) == (
        "The log is public.cust_changes. To read it, call feed_drop('f') and feed_create('f', 'public.cust_changes')."
    )
    run(fresh, "SELECT feed_drop('f')", "SELECT feed_create('f', 'public.cust_changes')")
    number = value(fresh, TAKE)
    assert value(fresh, f"SELECT count(*) FROM changes_batch_rows('f', {number}, null::cust)") == 2  # marker and row


@pytest.mark.editions
def test_tail_of_changes_needs_a_new_position_after_a_change_of_the_key(fresh: Connection, tail: Tail) -> None:
    command = ("cust", "--changes", "--position")
    run(fresh, *KEYED)
    tail(*command, "p")
    run(fresh, OTHER_KEY)
    assert "changes_enable('public.cust'), which creates another log" in tail(*command, "p", code=2)
    run(fresh, *NEW_LOG)
    assert tail(*command, "p", code=2).endswith("\nFor a new position, use another file with --position.\n")
    assert '"name":"a"' in tail(*command, "q")


@pytest.mark.editions
def test_readers_and_writers_of_a_restored_log_name_the_same_call(fresh: Connection) -> None:
    run(fresh, *KEYED, "SELECT feed_create('f', 'cust_changes')")
    number = value(fresh, TAKE)
    # After a restore, the arguments of the triggers name tables of the other server.
    run(fresh, "CREATE TABLE restored (LIKE cust_changes INCLUDING ALL)", "ALTER TABLE cust_changes RENAME TO former",
        "ALTER TABLE restored RENAME TO cust_changes", "SELECT feed_drop('f')", "DROP TABLE former",
        "SELECT feed_create('f', 'cust_changes')",
        "INSERT INTO cust_changes (id, op) VALUES ('{1}', 'U')")  # fmt: skip
    number = value(fresh, TAKE)
    call = "must call changes_resync('public.cust')."
    assert hint(fresh, "UPDATE cust SET name = 'b'").replace("('cust')", "('public.cust')").endswith(call)
    assert hint(fresh, f"SELECT * FROM changes_batch_rows('f', {number}, null::cust)").endswith(call)
    run(fresh, "SELECT changes_resync('public.cust')", "UPDATE cust SET name = 'b'")
    run(fresh, f"SELECT * FROM changes_batch_rows('f', {number}, null::cust)")


@pytest.mark.editions
def test_a_hint_does_not_name_the_feed_of_another_role(fresh: Connection) -> None:
    run(
        fresh, "CREATE TABLE p (xact bigint DEFAULT xact_id() NOT NULL, n int PRIMARY KEY) PARTITION BY RANGE (n)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)", "CREATE INDEX ON p (xact)",
        "SELECT feed_create('secret', 'p')", "INSERT INTO p (n) VALUES (1)",
        "CREATE TABLE start AS SELECT reader_advance(q, reader_next_batch('p', q)) AS q FROM reader_start('p') AS q",
        "CREATE TABLE p2 (xact bigint DEFAULT xact_id() NOT NULL, n int PRIMARY KEY)", "INSERT INTO p2 VALUES (5, 11)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)", "CREATE ROLE curious",
        "GRANT SELECT ON p, start TO curious",
    )  # fmt: skip
    if value(fresh, "SELECT to_regprocedure('feed_admit(regrole, boolean)') IS NOT NULL"):
        run(fresh, "SELECT feed_admit('curious')")
    calls = []
    for role in (None, "curious"):
        if role:
            run(fresh, f"SET SESSION AUTHORIZATION {role}")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
            fresh.execute("SELECT reader_next_batch('p', q) FROM start")
        calls.append(re.findall(r"feed_seek\(.*?\)", caught.value.diag.message_hint or ""))
    run(fresh, "RESET SESSION AUTHORIZATION", "DROP OWNED BY curious", "DROP ROLE curious")
    assert calls == [["feed_seek('secret', 'here')"], ["feed_seek(name, 'here')"]]
