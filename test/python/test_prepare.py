"""inorder prepare works online while sessions hold locks, continues after an interruption, and can be undone."""

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.lab.server.cluster import Cluster
from inorder.prepare import steps
from inorder.prepare.steps import Request

import pooler
import preloaded
from conftest import LONG_RUN
from copies import Copy
from ground import roles
from tail_runs import Tail
from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server

READABLE = "SELECT count(*) FROM reader_next_batch('old', reader_start('old'))"
INVALID = "SELECT count(*) = 1 FROM pg_index WHERE indrelid = 'old'::regclass AND NOT indisvalid"
COLUMNS = """
SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = 'old'::regclass AND attnum > 0 AND NOT attisdropped
"""
INDEXES = "SELECT count(*) FROM pg_index WHERE indrelid = 'old'::regclass"
BUILDS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
WAITS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'inorder' AND wait_event_type = 'Lock'"


@pytest.fixture
def old(fresh: Connection) -> Connection:
    fresh.execute(
        "CREATE TABLE old (k int PRIMARY KEY, n int); INSERT INTO old SELECT g, g FROM generate_series(1, 9) g"
    )
    return fresh


@pytest.fixture
def prepare(cluster: Cluster, tmp_path: Path) -> Tail:
    return Tail(cluster, tmp_path, command="prepare")


@pytest.fixture
def writer(cluster: Cluster, old: Connection) -> Iterator[Connection]:
    with connect(f"{cluster.dsn} dbname={old.info.dbname}") as connection:
        connection.execute("BEGIN; INSERT INTO old VALUES (10, 10)")
        yield connection


def outputs(prepare: Tail, *arguments: str, code: int = 0) -> tuple[list[str], list[str]]:
    """Return the lines that a run writes to stdout and to stderr."""
    done = preloaded.run(["prepare", *arguments], prepare.folder, prepare.environment, PATIENCE)
    assert done.returncode == code and b"Traceback" not in done.stderr, done.stderr
    return done.stdout.decode().splitlines(), done.stderr.decode().splitlines()


SAID = ("NOTICE", "WARNING", "DETAIL", "HINT", "table public.old in database tail:")


def run(prepare: Tail, *arguments: str) -> list[str]:
    """Return the statements that a run reports, without the introduction."""
    _, messages = outputs(prepare, "old", *arguments)
    statements = [line for line in messages if not line.startswith(SAID)]
    assert not statements or messages.index(SAID[-1]) < messages.index(statements[0])
    return statements


def test_an_old_table_becomes_readable(prepare: Tail, old: Connection) -> None:
    planned = [str(row[0]) for row in old.execute("SELECT feed_prepare('old')")]
    listed, messages = outputs(prepare, "old", "--dry-run")
    assert listed == [f"{statement};" for statement in planned]
    assert "NOTICE:  column xact will be added to table public.old" in messages
    assert run(prepare) == planned
    assert outputs(prepare, "old") == (["public.old is readable"], [])
    assert outputs(prepare, "old", "--dry-run") == ([], [])
    old.execute("INSERT INTO old VALUES (10, 10); SELECT feed_create('f', 'old')")
    assert old.execute("SELECT k FROM feed_read('f', null::old)").fetchall() == [(k,) for k in range(1, 11)]


def test_writers_do_not_wait_behind_prepare(
    cluster: Cluster, prepare: Tail, old: Connection, writer: Connection
) -> None:
    with prepare.started("old", "--lock-timeout", "200ms", "--tries", "1000") as running:
        wait_for(lambda: value(old, WAITS) is True)
        old.execute("SET lock_timeout = '2min'")  # limits the wait for the writer
        old.execute("INSERT INTO old VALUES (11, 11)")
        assert running.poll() is None
        writer.execute("COMMIT")
        assert running.stderr and running.wait(PATIENCE) == 0
        assert b"trying again: canceling statement due to lock timeout" in running.stderr.read()
    assert value(old, READABLE) == 1


def test_settings_of_the_database_do_not_matter(prepare: Tail, old: Connection) -> None:
    for setting in ("default_transaction_read_only = on", "default_transaction_isolation = serializable",
                    "idle_session_timeout = 1000", "quote_all_identifiers = on"):  # fmt: skip
        run_all(old, f"ALTER DATABASE tail SET {setting}")
    assert outputs(prepare, "old")[0] == ["public.old is readable"]
    assert outputs(prepare, "old", "--undo")[0] == ["public.old is no longer guarded"]


def test_prepare_gives_up_after_the_last_try(prepare: Tail, old: Connection, writer: Connection) -> None:
    message = prepare("old", "--lock-timeout", "10ms", "--tries", "2", code=1)
    assert (
        "gave up after 2 tries: canceling statement due to lock timeout: ALTER TABLE public.old ADD COLUMN" in message
    )
    assert f"HINT:  Sessions with locks on the table: pid {writer.info.backend_pid}, " in message
    assert value(old, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'old'::regclass AND attnum > 0") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_is_started_again(prepare: Tail, old: Connection, number: int) -> None:
    old.execute("ALTER TABLE old ADD COLUMN xact bigint NOT NULL DEFAULT 0, ALTER COLUMN xact SET DEFAULT xact_id()")
    with connect(old.info.dsn) as writer:
        writer.execute("BEGIN; INSERT INTO old VALUES (10, 10)")
        with prepare.started("old") as running:
            wait_for(lambda: value(old, WAITS) is True and value(old, INVALID) is True)
            running.send_signal(number)
            running.wait(PATIENCE)
            assert running.stderr is not None
            assert (b"stopped; nothing was changed\n" in running.stderr.read()) == (number != signal.SIGKILL)
    wait_for(lambda: value(old, BUILDS) is False)
    if value(old, INVALID) is True:
        assert [line.split()[0] for line in run(prepare)] == ["DROP", "CREATE", "ANALYZE", "SELECT"]
    else:  # the server completed the index before it noticed that the client was gone
        assert number == signal.SIGKILL
        run(prepare)
    assert value(old, READABLE) == 1


PLAIN = "DROP OWNED BY prepare_plain, prepare_other; DROP ROLE prepare_plain, prepare_other"


@pytest.fixture
def plain(old: Connection) -> Iterator[Connection]:
    old.execute("CREATE ROLE prepare_plain LOGIN; CREATE ROLE prepare_other; CREATE SCHEMA s; CREATE SCHEMA parts")
    old.execute("CREATE TABLE s.old (k int, n int) PARTITION BY LIST (k); ALTER TABLE s.old OWNER TO prepare_plain")
    old.execute(
        "CREATE TABLE parts.old_1 PARTITION OF s.old FOR VALUES IN (1); GRANT USAGE ON SCHEMA s TO prepare_plain"
    )
    old.execute("ALTER TABLE parts.old_1 OWNER TO prepare_other; REVOKE EXECUTE ON FUNCTION feed_guard FROM PUBLIC")
    yield old
    old.execute("RESET ALL; GRANT EXECUTE ON FUNCTION feed_guard TO PUBLIC; DROP SCHEMA s, parts CASCADE")
    old.execute(PLAIN.encode())


@pytest.mark.editions
def test_missing_privileges_are_named_before_anything_is_done(prepare: Tail, plain: Connection) -> None:
    prepare.environment["PGUSER"] = "prepare_plain"
    named = (
        "CREATE on schema parts; CREATE on schema s; EXECUTE on function public.feed_guard(); "
        "USAGE on schema parts; ownership of table parts.old_1, which belongs to role prepare_other"
    )
    grants = (
        "GRANT CREATE ON SCHEMA s TO prepare_plain", "GRANT USAGE, CREATE ON SCHEMA parts TO prepare_plain",
        "ALTER TABLE parts.old_1 OWNER TO prepare_plain", "GRANT EXECUTE ON FUNCTION feed_guard TO PUBLIC",
    )  # fmt: skip
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 's.old'::regclass AND attnum > 0"
    for grant in grants:
        error = prepare("s.old", code=2)
        assert named in error or grant != grants[0]
        assert "which lacks: " in error and "HINT:  Nothing was changed." in error and value(plain, columns) == 2
        plain.execute(grant.encode())
    prepare.appended("s.old")
    assert value(plain, columns) == 3
    prepare.appended("s.old", "--undo")


def test_prepare_prints_each_step(prepare: Tail, old: Connection) -> None:
    run_all(
        old,
        "CREATE FUNCTION no_index() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$",
        "CREATE EVENT TRIGGER no_index ON ddl_command_start WHEN tag IN ('CREATE INDEX') EXECUTE FUNCTION no_index()",
    )
    error = prepare("old", code=2)
    assert "stopped; completed: ALTER TABLE public.old ADD COLUMN xact" in error
    assert "HINT:  The same command continues from here; with --undo" in error
    run_all(old, "DROP EVENT TRIGGER no_index")


def test_undo_removes_the_guard_and_on_request_the_column(prepare: Tail, old: Connection) -> None:
    run(prepare)
    old.execute("SELECT feed_create('f', 'old')")
    assert "feed" in prepare("old", "--undo", code=2)
    old.execute("SELECT feed_drop('f')")
    assert [line.split()[0] for line in run(prepare, "--undo")] == ["SELECT", "DROP"]
    assert (value(old, COLUMNS), value(old, INDEXES)) == ("k,n,xact", 1)
    assert value(old, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'old'::regclass") == 0
    run(prepare)
    run(prepare, "--undo", "--drop-column")
    assert (value(old, COLUMNS), value(old, INDEXES)) == ("k,n", 1)


def test_undo_keeps_columns_that_prepare_did_not_add(prepare: Tail, old: Connection) -> None:
    old.execute("ALTER TABLE old ADD xact bigint")
    assert len(run(prepare, "--undo", "--drop-column")) == 1
    old.execute("SELECT xact FROM old")


def test_the_notice_that_existing_rows_are_one_piece_is_printed_once(prepare: Tail, old: Connection) -> None:
    old.execute("DROP TABLE old; CREATE TABLE old (k int)")
    message = "NOTICE:  feeds will read the existing rows of public.old as one piece"
    assert [outputs(prepare, "old", *option)[1].count(message) for option in (["--dry-run"], [], [])] == [1, 1, 0]


def test_a_partitioned_table_is_prepared_and_undone(prepare: Tail, old: Connection) -> None:
    old.execute("DROP TABLE old; CREATE TABLE old (k int) PARTITION BY LIST (k)")
    old.execute("CREATE TABLE old_1 PARTITION OF old FOR VALUES IN (1); CREATE TABLE old_2 PARTITION OF old DEFAULT")
    run(prepare)
    assert value(old, READABLE) == 1
    run(prepare, "--undo")
    assert value(old, "SELECT count(*) FROM pg_class WHERE relname ~ '_number$'") == 0


BAD_INPUT = [
    (("none",), "none"),
    (("old", "--column", "k"), "already exists and has no default that returns transaction numbers"),
]


MANY = ", ".join(f"c{number} int DEFAULT {number}" for number in range(200))
SHAPES = {  # columns of a table, and an INSERT of the rows of a generate_series() "g"
    "200 columns": (f"k uuid PRIMARY KEY DEFAULT gen_random_uuid(), {MANY}", "(c7) SELECT g"),
    "identity": ("k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n bigint", "(n) SELECT g"),
    "generated": ("k bigint PRIMARY KEY, n bigint GENERATED ALWAYS AS (k * 2) STORED", "SELECT g"),
    "two columns": ("a bigint, b bigint, PRIMARY KEY (a, b)", "SELECT g % 7, g"),
    "text": ("k text PRIMARY KEY", "SELECT repeat(g::text, 3)"),
    "no key": ("n bigint", "SELECT g"),
}


@pytest.mark.editions
def test_a_generated_column_is_not_taken_for_the_key_column(fresh: Connection) -> None:
    computed = "n bigint, twice bigint GENERATED ALWAYS AS (n * 2) STORED"
    run_all(fresh, f"CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), {computed})")
    run_all(fresh, "SELECT feed_enable('t')", "INSERT INTO t (n) VALUES (7)")
    assert value(fresh, "SELECT key_column FROM inorder_internal.feed_table") == "id"


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_of_every_shape_deliver_each_row_once(prepare: Tail, fresh: Connection, shape: str) -> None:
    """Each row is delivered once, in pieces, whether it was inserted before or after inorder prepare."""
    columns, values = SHAPES[shape]
    fresh.execute(f"CREATE TABLE old ({columns}); INSERT INTO old {values} FROM generate_series(1, 100) AS g".encode())
    run(prepare)
    fresh.execute(f"INSERT INTO old {values} FROM generate_series(101, 150) AS g".encode())
    fresh.execute("CREATE TABLE copy AS SELECT * FROM old LIMIT 0; SELECT feed_create('f', 'old')")
    pieces = 0
    while fresh.execute("INSERT INTO copy SELECT * FROM feed_read('f', null::old, 30)").rowcount:
        pieces += 1
    assert pieces >= (2 if shape == "no key" else 5)  # without a key, the rows of a transaction are a single piece
    both = "SELECT count(*) FROM (SELECT * FROM {} EXCEPT ALL SELECT * FROM {}) AS missing"
    assert [value(fresh, both.format(*names)) for names in (("old", "copy"), ("copy", "old"))] == [0, 0]


PARTED = "CREATE TABLE old (k int PRIMARY KEY, n int) PARTITION BY RANGE (k)"
PARTS = (
    PARTED, "CREATE TABLE old_1 PARTITION OF old FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE old_2 PARTITION OF old FOR VALUES FROM (10) TO (20)",
    "INSERT INTO old SELECT g, g FROM generate_series(1, 15) g",
)  # fmt: skip
# Statements that the owner runs between two statements of inorder prepare.
MEANWHILE = (
    "CREATE TABLE old_3 PARTITION OF old FOR VALUES FROM (20) TO (30)",
    "CREATE TABLE old_3 PARTITION OF old FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (k); "
    "CREATE TABLE old_31 PARTITION OF old_3 DEFAULT",
    "ALTER TABLE old DETACH PARTITION old_2", "DROP TABLE old_1, old_2", "ALTER TABLE old_1 RENAME TO old_3",
)  # fmt: skip


@pytest.mark.editions
@pytest.mark.parametrize("change", MEANWHILE)
def test_partitions_may_be_added_and_removed_between_two_statements(
    prepare: Tail, fresh: Connection, change: str
) -> None:
    # After two statements the table has its index, and after three a partition has one. After four statements one index
    # is attached, and after six all are.
    for done in (2, 3, 4, 6) if LONG_RUN else (3, 6):
        run_all(fresh, "DROP TABLE IF EXISTS old, old_1, old_2, old_3", *PARTS)
        steps = [str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')")]
        assert len(steps) == 8
        run_all(fresh, *steps[:done], change)
        assert outputs(prepare, "old")[0] == ["public.old is readable"]
        assert outputs(prepare, "old", "--dry-run") == ([], [])


def test_undo_of_an_interrupted_run_leaves_no_index(prepare: Tail, fresh: Connection) -> None:
    for done in range(8) if LONG_RUN else (1, 4, 7):
        run_all(fresh, "DROP TABLE IF EXISTS old", *PARTS)
        run_all(fresh, *[str(step) for (step,) in fresh.execute("SELECT feed_prepare('old')")][:done])
        run(prepare, "--undo")
        assert value(fresh, "SELECT count(*) FROM pg_class WHERE relname ~ '_number$'") == 0


def test_an_index_that_another_session_builds_is_not_dropped(
    prepare: Tail, old: Connection, writer: Connection
) -> None:
    step = old.execute("SELECT feed_prepare('old') OFFSET 1 LIMIT 1").fetchall()[0][0]
    writer.execute("COMMIT")
    run_all(old, "ALTER TABLE old ADD COLUMN xact bigint NOT NULL DEFAULT 0, ALTER COLUMN xact SET DEFAULT xact_id()")
    writer.execute("BEGIN; INSERT INTO old VALUES (11, 11)")
    with prepare.started("old") as running:
        wait_for(lambda: value(old, WAITS) is True and value(old, INVALID) is True)
        assert "is not valid, and another session may be building it" in outputs(prepare, "old", code=1)[1][0]
        writer.execute("COMMIT")
        assert running.stderr and running.wait(PATIENCE) == 0
        assert running.stderr.read().decode().splitlines().count(str(step)) == 1  # the build was not restarted


# Bodies of trigger functions that copy rows into a table "archive" of (text, int, int). True: the function fails once
# the column has been added.
COPYING = {
    "INSERT INTO archive SELECT 'I', NEW.*;": True,
    "INSERT INTO public.archive VALUES ('I', (new).*);": True,
    "INSERT INTO archive AS a OVERRIDING USER VALUE SELECT TG_OP, NEW . *;": True,
    "EXECUTE 'INSERT INTO archive SELECT ''I'', ($1).*' USING NEW;": True,
    "INSERT INTO archive (op, k, n) SELECT 'I', NEW.k, NEW.n; PERFORM * FROM archive;": False,
    "INSERT INTO archive SELECT 'I', NEW.k, NEW.n * 2; IF OLD.* IS DISTINCT FROM NEW.* THEN NULL; END IF;": False,
}


@pytest.mark.editions
@pytest.mark.parametrize("body", COPYING)
def test_prepare_asks_about_triggers_that_copy_whole_rows(prepare: Tail, old: Connection, body: str) -> None:
    run_all(
        old, "CREATE TABLE archive (op text, k int, n int)", "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql "
        f"AS $f$ BEGIN {body} RETURN NULL; END $f$",
        "CREATE TRIGGER keep AFTER INSERT ON old FOR EACH ROW EXECUTE FUNCTION keep()",
        "INSERT INTO old VALUES (20, 1)",
    )  # fmt: skip
    warned = any("WARNING:  triggers of table public.old copy" in line
                 for line in outputs(prepare, "old", code=2 if COPYING[body] else 0)[1])  # fmt: skip
    run(prepare, "--insert-only")
    broken = False
    with connect(old.info.dsn) as writer:
        try:
            writer.execute("INSERT INTO old VALUES (21, 1)")
        except psycopg.errors.SyntaxError:
            broken = True
    assert warned == broken == COPYING[body]


def test_bad_input_is_refused_with_its_reason(prepare: Tail, old: Connection) -> None:
    errors = [(arguments, message, prepare(*arguments, code=2)) for arguments, message in BAD_INPUT]
    assert [case for case in errors if case[1] not in case[2]] == []


def test_changes_are_logged_and_a_copy_begins_without_a_gap(cluster: Cluster, prepare: Tail, old: Connection) -> None:
    """The first batch contains rows written while inorder prepare waits, and later batches contain later rows."""
    with connect(f"{cluster.dsn} dbname={old.info.dbname}") as writer:
        writer.execute("BEGIN; UPDATE old SET n = 0 WHERE k = 1")
        with prepare.started("old", "--changes", "--feed", "copy", "--tries", "1000") as running:
            wait_for(lambda: value(old, WAITS) is True)
            old.execute("SET lock_timeout = '2min'")
            old.execute("DELETE FROM old WHERE k = 2")  # waits behind inorder prepare
            writer.execute("COMMIT")
            assert running.wait(PATIENCE) == 0
    copy = Copy("old", "copy", ("k",))
    copy.follow(old)
    old.execute("UPDATE old SET n = 7 WHERE k = 3")
    copy.follow(old)
    assert len(copy.rows) == 8
    assert run(prepare, "--changes", "--feed", "copy") == []
    assert prepare("old", "--changes", "--undo", "--dry-run").startswith("SELECT public.changes_disable(")
    run(prepare, "--changes", "--undo")
    assert value(old, "SELECT to_regprocedure('old_changes()')") is None
    run(prepare, "--changes", "--feed", "copy")  # the log still exists


@pytest.mark.parametrize("logged", [False, True])
def test_a_feed_of_another_table_does_not_count_as_a_feed_of_the_changes(
    prepare: Tail, old: Connection, logged: bool
) -> None:
    old.execute("CREATE TABLE other (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
    old.execute("SELECT feed_create('copy', 'other')")
    if logged:
        run(prepare, "--changes")
    assert 'feed "copy" of role postgres already exists' in prepare("old", "--changes", "--feed", "copy", code=2)


def test_missing_privileges_to_log_changes_are_reported_first(prepare: Tail, old: Connection) -> None:
    with roles(old, "changes_keeper"):
        old.execute("GRANT SELECT ON old TO changes_keeper")
        message = prepare("old", "--changes", "--dsn", "options='-c role=changes_keeper'", code=2)
        assert "lacks: CREATE on schema public; ownership of table public.old" in message


def deleted_from(connection: Connection) -> None:
    run_all(connection, "DELETE FROM old WHERE k > 7", "UPDATE old SET n = 0 WHERE k = 1")
    run_all(connection, "SELECT pg_stat_force_next_flush()")


def run_all(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def test_prepare_does_not_advise_changes_without_a_primary_key(prepare: Tail, old: Connection) -> None:
    deleted_from(old)
    run_all(old, "ALTER TABLE old DROP CONSTRAINT old_pkey")
    assert "above\nHINT:  --insert-only prepares the table nevertheless.\n" in prepare("old", code=2)


def test_prepare_asks_about_deleted_rows(prepare: Tail, old: Connection) -> None:
    deleted_from(old)
    for option in (["--dry-run"], []):
        listed, messages = outputs(prepare, "old", *option, code=2)
        assert listed == [] and "WARNING:  rows of table public.old were deleted or updated" in messages
        assert any("deleted rows: 2, updated rows: 1." in line for line in messages)
        assert any("inorder prepare public.old --changes logs" in line and "--insert-only" in line for line in messages)
    assert value(old, COLUMNS) == "k,n"
    assert run(prepare, "--changes")[0].startswith("SELECT public.changes_enable(")
    run_all(old, "DELETE FROM old WHERE k = 7")
    run_all(old, "SELECT changes_disable('old')", "DROP TABLE old_changes")
    assert run(prepare, "--insert-only")
    assert value(old, READABLE) == 1


@pytest.mark.editions
def test_refusals_of_the_last_statement_are_reported_before_the_first_is_run(prepare: Tail, old: Connection) -> None:
    keep = "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$"
    is_c = bool(old.execute("SELECT FROM pg_extension WHERE extname = 'inorder'").fetchall())
    faults = {
        "fires after the guard": (
            "CREATE TRIGGER zzz_touch BEFORE INSERT ON old FOR EACH ROW EXECUTE FUNCTION keep()",
            "DROP TRIGGER zzz_touch ON old",
        ),
        "it is of type": (
            "CREATE TYPE typed AS (k int); ALTER TABLE old DROP n; ALTER TABLE old OF typed", "ALTER TABLE old NOT OF",
        ),
        "it has a row type that column o of public.user uses": (
            'CREATE TABLE "user" (o old)', 'DROP TABLE "user"',
        ),
        "it is temporary or unlogged": ("ALTER TABLE old SET UNLOGGED", "ALTER TABLE old SET LOGGED"),
    }  # fmt: skip
    run_all(old, keep)
    for message, (change, undo) in faults.items():
        old.execute(change.encode())
        if is_c or message != "fires after the guard":
            for option in (["--dry-run"], [])[not LONG_RUN :]:
                listed, messages = outputs(prepare, "old", *option, code=2)
                assert listed == [] and message.replace("public.user", 'public."user"') in messages[0], messages
            assert "xact" not in str(value(old, COLUMNS))
        old.execute(undo.encode())
    run_all(old, "CREATE TABLE above (k int) PARTITION BY LIST (k)", "ALTER TABLE above ATTACH PARTITION old DEFAULT")
    assert "HINT:  Prepare public.above, of which this table is a partition." in outputs(prepare, "old", code=2)[1]


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_index_name_that_is_in_use_is_reported_first(prepare: Tail, old: Connection, partitioned: bool) -> None:
    """The error is raised before the first statement is run."""
    if partitioned:
        run_all(old, "DROP TABLE old", "CREATE TABLE old (id int PRIMARY KEY) PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF old FOR VALUES FROM (0) TO (100)")  # fmt: skip
    table = "low" if partitioned else "old"
    number = value(old, f"SELECT '{table}'::regclass::oid")
    run_all(old, f"CREATE TABLE {table}_{number}_number ()")
    assert f"{table}_{number}_number exists, but is not an index" in outputs(prepare, "old", code=2)[1][0]
    assert value(old, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'old'::regclass AND attname = 'xact'") == 0
    run_all(old, f"DROP TABLE {table}_{number}_number")
    outputs(prepare, "old")
    run_all(old, "SELECT feed_disable('old')", "ALTER TABLE old RENAME xact TO before")
    assert "exists, but is not an index on column xact" in outputs(prepare, "old", code=2)[1][0]


def test_objects_that_depend_on_the_number_of_columns_are_mentioned(prepare: Tail, old: Connection) -> None:
    run_all(
        old, "CREATE TABLE archive AS SELECT * FROM old", "CREATE VIEW seen AS SELECT k FROM old",
        "CREATE FUNCTION keep_old() RETURNS void LANGUAGE sql AS 'INSERT INTO archive SELECT * FROM old'",
        "CREATE FUNCTION gold() RETURNS text LANGUAGE sql AS $$ SELECT 'gold' $$", "CREATE PUBLICATION p FOR TABLE old",
    )  # fmt: skip
    _, messages = outputs(prepare, "old", "--insert-only")
    text = "\n".join(messages)
    assert "these objects mention the table: function public.keep_old(), view public.seen." in text
    assert "COPY without a list of columns" in text and "WARNING:  table public.old is published" in text
    with pytest.raises(psycopg.errors.SyntaxError, match="more expressions than target columns"):
        old.execute("SELECT keep_old()")


def test_the_role_that_must_log_changes_is_named(prepare: Tail, old: Connection) -> None:
    """A superuser may do everything, but does not own the table.

    The command that the HINT suggests to the owner works.
    """
    with roles(old, "prepare_app"):
        run_all(old, "ALTER ROLE prepare_app LOGIN", "ALTER TABLE old OWNER TO prepare_app")
        run_all(old, "GRANT CREATE ON SCHEMA public TO prepare_app")
        for option in (["--dry-run"], []):
            _, messages = outputs(prepare, "old", "--changes", *option, code=2)
            assert "ownership of table public.old, which belongs to role prepare_app" in messages[0]
        command = shlex.split(messages[1].partition("run inorder prepare ")[2])
        assert "user=prepare_app" in command[-1]
        assert outputs(prepare, *command)[0] == ["public.old is logged: see inorder tail --changes"]
        assert outputs(prepare, *command)[1] == []


def test_the_hint_quotes_the_name_that_was_meant(prepare: Tail, old: Connection) -> None:
    run_all(old, 'CREATE TABLE "Orders" (k int PRIMARY KEY)', "CREATE SCHEMA app", "CREATE TABLE app.bills (k int)")
    hint = """HINT:  There is 'public."Orders"': SQL converts a name without quotes to lower case."""
    for command in ("prepare", "tail", "count"):
        tool = Tail.__new__(Tail)
        tool.command, tool.folder, tool.environment = command, prepare.folder, prepare.environment
        verb = ["show"] if command == "count" else []
        options = ["--position", "p"] if command == "tail" else []
        assert hint in tool(*verb, "Orders", *options, code=2)
        assert "app.bills" in tool(*verb, "bills", *options, code=2)
    assert outputs(prepare, '"Orders"')[0] == ['public."Orders" is readable']


def test_the_hints_name_the_method_that_fits(prepare: Tail, old: Connection) -> None:
    tail, count = (Tail.__new__(Tail) for _ in range(2))
    for tool, command in ((tail, "tail"), (count, "count")):
        tool.command, tool.folder, tool.environment = command, prepare.folder, prepare.environment
    counted = "exact_count_start('public.old', by => '{}')"
    for option, method in (("", "inorder prepare public.old."), (" --changes", counted)):
        assert f"inorder prepare public.old{option}." in tail("old", "--position", "p", code=2)
        assert method in count("show", "old", code=2) and method in count("start", "old", code=2)
        deleted_from(old)
    assert "inorder prepare public.old --changes" in tail("old", "--position", "p", "--changes", code=2)


def test_a_table_swapped_between_two_statements_is_refused(cluster: Cluster, old: Connection) -> None:
    """The statements refer to the table by name, which now belongs to a different table."""
    run_all(old, "CREATE TABLE shadow (k int PRIMARY KEY, n int, xact bigint NOT NULL DEFAULT xact_id())")

    def say(text: str) -> None:
        if text.startswith("CREATE INDEX"):
            run_all(old, "ALTER TABLE old RENAME TO former", "ALTER TABLE shadow RENAME TO old")

    request = Request("old", "xact", 1, 3, undo=False, drop_column=False, dsn=old.info.dsn)
    with pytest.raises(InputError, match="old is now another table"):
        steps.prepare(request, say)
    assert value(old, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'old'::regclass") == 0


@pytest.fixture
def pooled_prepare(prepare: Tail, cluster: Cluster, shared_folder: Path) -> Iterator[Tail]:
    """Yield the tool behind a pooler that drops the client's options.

    The server sessions have the search_path of the role.
    """
    more = "ignore_startup_parameters = extra_float_digits, options\n"
    with pooler.pooled(cluster, shared_folder, more=more) as port:
        prepare.environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres"}
        yield prepare


def test_a_search_path_that_differs_from_pgoptions_is_refused(pooled_prepare: Tail, old: Connection) -> None:
    """The session's search_path differs from that in PGOPTIONS, which resolves the name to a different table."""
    run_all(old, "CREATE SCHEMA tenant", "CREATE TABLE tenant.old (k int PRIMARY KEY)")
    pooled_prepare.environment["PGOPTIONS"] = "-c search_path=tenant,public"
    for command, *arguments in (("prepare", "old"), ("tail", "old", "--position", "p"), ("count", "show", "old")):
        pooled_prepare.command = command
        error = pooled_prepare(*arguments, code=2)
        assert "cannot resolve table old" in error and "Name the table with its schema." in error
    pooled_prepare.command = "prepare"
    assert outputs(pooled_prepare, "tenant.old")[0] == ["tenant.old is readable"]
    del pooled_prepare.environment["PGOPTIONS"]
    assert outputs(pooled_prepare, "old")[0] == ["public.old is readable"]


def test_the_search_path_requested_by_a_connection_finds_the_table(prepare: Tail, old: Connection) -> None:
    run_all(old, "CREATE SCHEMA tenant", "CREATE TABLE tenant.old (k int PRIMARY KEY)")
    prepare.environment["PGOPTIONS"] = "-c search_path=tenant,public"
    assert outputs(prepare, "old")[0] == ["tenant.old is readable"]
