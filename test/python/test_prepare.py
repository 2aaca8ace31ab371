"""inorder prepare: online, over whatever holds the table, again after whatever interrupted it, and back."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from conftest import scalar
from copies import Copy
from ground import roles
from tail_runs import Tail
from waiting import PATIENCE, wait_for

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


def run(prepare: Tail, *arguments: str) -> list[str]:
    with prepare.started("old", *arguments) as running:
        assert running.stderr and running.wait(PATIENCE) == 0
        return running.stderr.read().decode().splitlines()


def test_an_old_table_becomes_readable(prepare: Tail, old: Connection) -> None:
    planned = [str(row[0]) for row in old.execute("SELECT feed_prepare('old')")]
    assert prepare("old", "--dry-run").splitlines() == [f"{statement};" for statement in planned]
    assert run(prepare) == planned
    assert [line.split()[0] for line in run(prepare)] == ["ANALYZE", "SELECT"]
    old.execute("INSERT INTO old VALUES (10, 10); SELECT feed_create('f', 'old')")
    assert old.execute("SELECT k FROM feed_read('f', null::old)").fetchall() == [(k,) for k in range(1, 11)]


def test_writers_do_not_wait_behind_it(cluster: Cluster, prepare: Tail, old: Connection, writer: Connection) -> None:
    with prepare.started("old", "--lock-timeout", "200ms", "--tries", "100") as running:
        wait_for(lambda: scalar(old, WAITS) is True)
        old.execute("SET lock_timeout = '10s'")  # a wait for the writer would be for ever
        old.execute("INSERT INTO old VALUES (11, 11)")
        assert running.poll() is None
        writer.execute("COMMIT")
        assert running.stderr and running.wait(PATIENCE) == 0
        assert b"trying again: canceling statement due to lock timeout" in running.stderr.read()
    assert scalar(old, READABLE) == 1


def test_it_gives_up(prepare: Tail, old: Connection, writer: Connection) -> None:
    message = prepare("old", "--lock-timeout", "10ms", "--tries", "2", code=1)
    assert (
        "gave up after 2 tries: canceling statement due to lock timeout: ALTER TABLE public.old ADD COLUMN" in message
    )
    assert scalar(old, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'old'::regclass AND attnum > 0") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_is_begun_again(prepare: Tail, old: Connection, number: int) -> None:
    old.execute("ALTER TABLE old ADD COLUMN xact bigint NOT NULL DEFAULT 0, ALTER COLUMN xact SET DEFAULT xact_id()")
    with connect(old.info.dsn) as writer:
        writer.execute("BEGIN; INSERT INTO old VALUES (10, 10)")
        with prepare.started("old") as running:
            wait_for(lambda: scalar(old, WAITS) is True and scalar(old, INVALID) is True)
            running.send_signal(number)
            running.wait(PATIENCE)
            assert running.stderr is not None
            assert (b"stopped; done, and kept: nothing\n" in running.stderr.read()) == (number != signal.SIGKILL)
    wait_for(lambda: scalar(old, BUILDS) is False)
    if scalar(old, INVALID) is True:  # a server that only noticed at the end that nobody was there has ended it
        assert [line.split()[0] for line in run(prepare)] == ["DROP", "CREATE", "ANALYZE", "SELECT"]
    else:
        assert number == signal.SIGKILL
        run(prepare)
    assert scalar(old, READABLE) == 1


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
        said = prepare("s.old", code=2)
        assert named in said or grant != grants[0]
        assert "which lacks: " in said and "HINT:  Nothing was done." in said and scalar(plain, columns) == 2
        plain.execute(grant.encode())
    prepare.appended("s.old")
    assert scalar(plain, columns) == 3
    prepare.appended("s.old", "--undo")


def test_it_says_what_is_done(prepare: Tail, old: Connection) -> None:
    old.execute("DO $$ BEGIN EXECUTE concat('CREATE TABLE old_', 'old'::regclass::oid, '_number ()'); END $$")
    said = prepare("old", code=2)
    assert "stopped; done, and kept: ALTER TABLE public.old ADD COLUMN xact" in said
    assert "HINT:  The same command continues there." in said


def test_undo(prepare: Tail, old: Connection) -> None:
    run(prepare)
    old.execute("SELECT feed_create('f', 'old')")
    assert "feed" in prepare("old", "--undo", code=2)
    old.execute("SELECT feed_drop('f')")
    assert [line.split()[0] for line in run(prepare, "--undo")] == ["SELECT", "DROP"]
    assert (scalar(old, COLUMNS), scalar(old, INDEXES)) == ("k,n,xact", 1)
    assert scalar(old, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'old'::regclass") == 0
    run(prepare)
    run(prepare, "--undo", "--drop-column")
    assert (scalar(old, COLUMNS), scalar(old, INDEXES)) == ("k,n", 1)


def test_undo_leaves_columns_of_others(prepare: Tail, old: Connection) -> None:
    old.execute("ALTER TABLE old ADD xact bigint")
    assert len(run(prepare, "--undo", "--drop-column")) == 1
    old.execute("SELECT xact FROM old")


def test_existing_rows_that_are_one_piece_are_told_of_once(prepare: Tail, old: Connection) -> None:
    old.execute("DROP TABLE old; CREATE TABLE old (k int)")
    told = [line for line in run(prepare, "--dry-run") + run(prepare) if line.startswith(("WARNING", "HINT"))]
    assert told == 2 * [
        "WARNING:  table public.old has no primary key: feeds will read its existing rows as one piece",
        "HINT:  Add one before, or create feeds with start 'now'.",
    ]


def test_partitions(prepare: Tail, old: Connection) -> None:
    old.execute("DROP TABLE old; CREATE TABLE old (k int) PARTITION BY LIST (k)")
    old.execute("CREATE TABLE old_1 PARTITION OF old FOR VALUES IN (1); CREATE TABLE old_2 PARTITION OF old DEFAULT")
    run(prepare)
    assert scalar(old, READABLE) == 1
    run(prepare, "--undo")
    assert scalar(old, "SELECT count(*) FROM pg_class WHERE relname ~ '_number$'") == 0


BAD_INPUT = [
    (("none",), "none"),
    (("old", "--drop-column"), "--drop-column requires --undo"),
    (("old", "--lock-timeout", "0"), "--lock-timeout"),
    (("old", "--column", "k"), "already exists and has no default that returns transaction numbers"),
    (("old", "--tries", "0"), "--tries"),
]


def test_bad_input(prepare: Tail, old: Connection) -> None:
    said = [(arguments, message, prepare(*arguments, code=2)) for arguments, message in BAD_INPUT]
    assert [one for one in said if one[1] not in one[2]] == []


def test_changes_are_logged_and_a_copy_begins_without_a_gap(cluster: Cluster, prepare: Tail, old: Connection) -> None:
    """What is written while it waits is in the first batch, and what is written after it in those that follow."""
    with connect(f"{cluster.dsn} dbname={old.info.dbname}") as writer:
        writer.execute("BEGIN; UPDATE old SET n = 0 WHERE k = 1")
        with prepare.started("old", "--changes", "--feed", "copy", "--tries", "100") as running:
            wait_for(lambda: scalar(old, WAITS) is True)
            old.execute("SET lock_timeout = '10s'")
            old.execute("DELETE FROM old WHERE k = 2")  # behind it
            writer.execute("COMMIT")
            assert running.wait(PATIENCE) == 0
    copy = Copy("old", "copy", ("k",))
    copy.follow(old)
    old.execute("UPDATE old SET n = 7 WHERE k = 3")
    copy.follow(old)
    assert len(copy.rows) == 8
    assert [line.split(".")[1] for line in run(prepare, "--changes", "--feed", "copy")] == ["changes_enable('public"]
    assert prepare("old", "--changes", "--undo", "--dry-run").startswith("SELECT public.changes_disable(")
    run(prepare, "--changes", "--undo")
    assert scalar(old, "SELECT to_regprocedure('old_changes()')") is None
    run(prepare, "--changes", "--feed", "copy")  # of the log, which is still there


@pytest.mark.parametrize("logged", [False, True])
def test_a_feed_of_another_table_is_none_of_the_changes(prepare: Tail, old: Connection, logged: bool) -> None:
    old.execute("CREATE TABLE other (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
    old.execute("SELECT feed_create('copy', 'other')")
    if logged:
        run(prepare, "--changes")
    assert "feed 'copy' of role postgres already exists" in prepare("old", "--changes", "--feed", "copy", code=2)


def test_who_may_not_log_changes_is_told_before(prepare: Tail, old: Connection) -> None:
    with roles(old, "changes_keeper"):
        old.execute("GRANT SELECT ON old TO changes_keeper")
        message = prepare("old", "--changes", "--dsn", "options='-c role=changes_keeper'", code=2)
        assert "lacks: CREATE on schema public; ownership of table public.old" in message
    assert "--changes excludes --column: the table gets no column" in prepare(
        "old", "--changes", "--column", "n", code=2
    )
    assert "--feed requires --changes" in prepare("old", "--feed", "f", code=2)
