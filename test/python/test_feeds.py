"""inorder feeds: its output for feeds in each state, in each format."""

import json
import re
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.feeds.formats import GAUGES, Row, as_table, problems
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.text import cells

import preloaded
from conftest import install_edition, text
from restoring import copied
from sql_edition import TESTED
from tail_runs import Tail, insert
from waiting import PATIENCE, wait_for
from world.sql import value

pytestmark = pytest.mark.server

SAMPLE = re.compile(r'inorder_feed_(\w+)\{feed="(.*)",owner="\w+",table="public.events",database="tail"\} ([\d.]+)')


@pytest.fixture
def feeds(cluster: Cluster, fresh: Connection, tmp_path: Path) -> Tail:
    fresh.execute("SELECT feed_create('mail', 'events'), feed_create('say \"hi\"', 'events')")
    insert(fresh, 1200)
    fresh.execute("SELECT count(*) FROM feed_read('mail', null::events)")
    tool = Tail(cluster, tmp_path, command="feeds")
    tool.environment["COLUMNS"] = "120"
    return tool


def test_feeds_that_are_behind_are_listed_first(feeds: Tail, fresh: Connection) -> None:
    fresh.execute("SELECT (feed_take_batch('say \"hi\"', 'w', 1000)).number")
    header, behind, read = feeds().splitlines()
    assert header.split() == ["feed", "table", "lag", "rows", "polled", "unfinished", "rows", "delayed"]
    time = r"[\d.e-]+ \w+"
    assert re.search(rf'\.say "hi" +public\.events +up to {time} +1,200 +{time} ago +1 \(worker w\)$', behind), behind
    assert re.search(rf"\.mail +public\.events +caught up +0 +{time} ago$", read), read


ROWS: list[Row] = [
    {"owner": "app_owner", "feed": "mailer", "table": "app.events", "caught_up": False, "lag_seconds": 420,
     "polled_seconds": 3.2, "backlog_rows": 1200, "unfinished_batch": 17, "batch_worker": "a",
     "worker_batches": 0, "dead_batches": 0, "held_seconds": 360, "writers": 1, "holder_pid": 977,
     "holder_application": "importer"},
    {"owner": "app_owner", "feed": "hourly", "table": "app.events", "caught_up": True, "lag_seconds": 0,
     "polled_seconds": 21, "backlog_rows": 0, "unfinished_batch": None, "batch_worker": None,
     "worker_batches": 0, "dead_batches": 0, "held_seconds": 360, "writers": 1, "holder_pid": 977,
     "holder_application": "importer"},
]  # fmt: skip


def test_the_output_equals_the_example_in_the_documentation() -> None:
    assert as_table(ROWS, 120) in text("docs/feed-operations.md")


def test_after_a_restore_a_hint_names_feed_rebase(cluster: Cluster, feeds: Tail, tmp_path: Path) -> None:
    def hint() -> str:
        done = preloaded.run(["feeds"], feeds.folder, feeds.environment, PATIENCE)
        assert done.returncode == 0 and done.stdout
        return done.stderr.decode()

    assert hint() == ""
    with copied(cluster, "tail", cluster, "restored_feeds", "custom", tmp_path) as restored:
        feeds.environment["PGDATABASE"] = "restored_feeds"
        assert hint() == "HINT:  If the database was restored: SELECT feed_rebase('public.events');\n"
        restored.execute("SELECT feed_rebase('events')")
        assert hint() == ""


@pytest.mark.parametrize("width", [40, 80, 100, 120, 300])
def test_lines_are_as_wide_as_the_terminal(width: int) -> None:
    long = {"feed": "f" * 200, "table": "t" * 63, "holder_application": "h" * 63}
    lines = as_table([*ROWS, ROWS[0] | long, ROWS[1] | long], width).splitlines()
    assert max(map(len, lines)) == min(max(width, 80), 120)
    assert len(lines) == 9 and lines[2].startswith("  rows delayed 6 min by pid 977 (importer)")
    assert all(f"app_owner.{name}" in lines[place] for name, place in (("mailer", 1), ("hourly", 3)))
    assert "caught up" in lines[3] and "1,200" in lines[1] and "3.2 s ago" in lines[1]


def test_a_name_with_a_line_end_adds_no_line() -> None:
    lines = as_table([ROWS[0] | {"feed": "f\nall is well\x1b[2J"}], 120).splitlines()
    assert len(lines) == len(as_table([ROWS[0]], 120).splitlines()) and "f\\nall is well\\x1b[2J" in lines[1]
    dropped, renamed = (
        {"feed": "it's\x1b[2J", "table": None},
        {"swapped": True, "table": '"a\nb"', "namesake": '"c\x1b"'},
    )
    assert problems([ROWS[1] | dropped, ROWS[1] | renamed], 1) == [
        r"feed app_owner.it's\x1b[2J: its table was dropped; HINT: SELECT feed_drop('it''s\x1b[2J')",
        r'feed app_owner.hourly: its table was renamed to "a\nb", and "c\x1b" is not read',
    ]


def test_columns_are_aligned_whatever_the_characters_of_names() -> None:
    for width, feed in ((120, "注文の一覧"), (120, "e\u0301te\u0301"), (80, "注文の一覧" * 9)):
        lines = as_table([ROWS[0], ROWS[1] | {"feed": feed}], width).splitlines()
        places = {cells(line.partition("app.events")[0]) for line in lines if "app.events" in line}
        assert len(places) == 1 and max(map(cells, lines)) <= width, lines


def test_the_transaction_that_delays_rows_is_shown(cluster: Cluster, feeds: Tail) -> None:
    """The output names the oldest transaction, open or prepared, and shows how long it has delayed rows."""
    with connect(f"{cluster.dsn} dbname=tail") as writer:
        writer.execute("SET application_name = 'importer'")
        with writer.transaction(force_rollback=True):
            insert(writer, 1)
            held = f"pid {writer.info.backend_pid} (importer)"
            shown = feeds()
            assert shown.count(held) == 2, shown
            (first, _) = map(json.loads, feeds("--format", "json").splitlines())
            assert first["writers"] == 1 and first["held_seconds"] >= 0 and first["holder_application"] == "importer"
        assert "importer" not in feeds()


def test_pg_locks_is_read_once_for_all_feeds(fresh: Connection) -> None:
    fresh.execute("SELECT feed_create('f' || g, 'events') FROM generate_series(1, 5) AS g")
    plan = fresh.execute("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) SELECT * FROM feeds").fetchall()
    looks = [str(line) for (line,) in plan if "pg_lock_status" in str(line)]
    assert len(looks) == 1 and looks[0].endswith("loops=1)"), plan


def test_the_number_of_a_transaction_newer_than_the_snapshot_is_shown(cluster: Cluster, fresh: Connection) -> None:
    fresh.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    fresh.execute("SELECT count(*) FROM events")
    with connect(f"{cluster.dsn} dbname={fresh.info.dbname}") as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO events (n) VALUES (1)")
        number = writer.execute("SELECT xact_id()").fetchone()
        assert fresh.execute("SELECT number FROM feed_holders('events')").fetchall() == [number]
        writer.execute("ROLLBACK")
    fresh.execute("ROLLBACK")


def test_check_reports_feeds_that_are_behind_and_dead_batches(feeds: Tail, fresh: Connection) -> None:
    shown, without = (re.sub("[0-9]+|  +", " ", text) for text in (feeds("--check", "1h"), feeds()))  # without times
    assert shown == without
    fresh.execute("UPDATE inorder_internal.feed_state SET caught_up_at = now() - interval '90 seconds'")
    assert re.fullmatch(r'feed \w+\.say "hi": behind for up to .*\n', feeds("--check", "1m", "--out", "shown", code=3))
    assert "--check must be from 60" in feeds("--check", "59s", code=2)
    fresh.execute("SELECT feed_create('work', 'events'), count(*) FROM feed_read('say \"hi\"', null::events)")
    take = "feed_take_batch('work', 'w', max_tries => 1)"
    fresh.execute(f"SELECT feed_fail_batch('work', number, token, 'bad') FROM {take}".encode())
    assert feeds("--check", "1h", "--out", "shown", code=3) == f"feed {fresh.info.user}.work: 1 dead batch\n"
    assert "--watch cannot be used with --check" in feeds("--check", "1h", "--watch", "1s", code=2)


def test_a_poll_without_rows_is_recorded_before_a_check_would_fail(feeds: Tail, fresh: Connection) -> None:
    """The reader has polled often when a new row arrives. The last recorded poll is half a minute old."""
    fresh.execute("SELECT feed_drop('mail'), count(*) FROM feed_read('say \"hi\"', null::events)")
    times = ("polled", "caught_up_at")
    for _ in range(4):
        later = ", ".join(f"{column} = {column} - interval '31 seconds'" for column in times)
        fresh.execute(f"UPDATE inorder_internal.feed_state SET {later}".encode())
        fresh.execute("SELECT count(*), pg_current_xact_id() FROM feed_read('say \"hi\"', null::events)")
    insert(fresh, 1)
    assert feeds("--check", "1m", "--format", "json")
    (lag,) = [json.loads(line)["lag_seconds"] for line in feeds("--format", "json").splitlines()]
    assert lag < 60


def test_feeds_of_a_dropped_table_are_shown_while_batches_are_unfinished(feeds: Tail, fresh: Connection) -> None:
    """Feeds with unfinished batches remain until feed_drop().

    Feeds without unfinished batches are not shown, even if the state tables still contain their rows.
    """
    fresh.execute("SELECT feed_create('Bob''s', 'events'), (feed_take_batch('Bob''s', 'w')).number")
    fresh.execute("DROP TABLE events CASCADE")
    shown = feeds()
    assert "Bob's  (dropped)  " in shown and "mail" not in shown
    assert json.loads(feeds("--format", "json"))["table"] is None
    assert ',table="",' in feeds("--format", "prometheus")
    message = f"feed {fresh.info.user}.Bob's: its table was dropped; HINT: SELECT feed_drop('Bob''s')\n"
    assert feeds("--check", "1h", "--out", "shown", code=3) == message
    fresh.execute("SELECT feed_drop('Bob''s')")
    assert "there is no feed" in feeds("--check", "1h", "--out", "shown", code=3)


def test_each_gauge_has_samples_for_prometheus(feeds: Tail) -> None:
    lines = feeds("--format", "prometheus").splitlines()
    samples = {(m[1], m[2]): float(m[3]) for line in lines if (m := SAMPLE.fullmatch(line))}
    assert len(samples) == len([line for line in lines if not line.startswith("#")])
    assert samples["backlog_rows", r"say \"hi\""] == 1200
    assert [samples["caught_up", name] for name in ("mail", r"say \"hi\"")] == [1, 0]
    assert samples["lag_seconds", "mail"] == samples["backlog_rows", "mail"] == 0
    assert {gauge for gauge, _ in samples} == GAUGES.keys() - {"unfinished_batch", "held_seconds", "blocked_shares"}
    assert {gauge for gauge, name in samples if name == "mail"} == {gauge for gauge, _ in samples}
    assert "# TYPE inorder_feed_held_seconds gauge" in lines


def test_watch_replaces_the_output_file(feeds: Tail, fresh: Connection) -> None:
    path = feeds.folder / "inorder.prom"
    with feeds.started("--format", "prometheus", "--watch", "50ms", "--out", str(path)):
        wait_for(path.exists)
        assert 'backlog_rows{feed="mail"' in path.read_text()
        insert(fresh, 800, 1201)
        unread = re.compile(r'backlog_rows\{feed="mail".*\} [1-9]\d*$', re.MULTILINE)
        wait_for(lambda: unread.search(path.read_text()))
    assert [path.name for path in feeds.folder.iterdir()] == ["inorder.prom"]


def test_the_absence_of_feeds_is_reported_and_wrong_options_are_refused(
    cluster: Cluster, fresh: Connection, tmp_path: Path
) -> None:
    feeds = Tail(cluster, tmp_path, command="feeds")
    fresh.execute("SELECT feed_drop(name) FROM feeds")
    for form, lines in (("table", 1), ("json", 0), ("prometheus", 2 * len(GAUGES))):
        done = preloaded.run(["feeds", "--format", form], tmp_path, feeds.environment, PATIENCE)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, lines)
        assert done.stderr.startswith(b"there is no feed that this role may see; HINT: SELECT feed_create(")
    assert all(line.startswith(b"#") for line in done.stdout.splitlines())
    assert "there is no feed that this role may see" in feeds("--check", "1h", "--out", "shown", code=3)
    assert "--watch must be from 0.01" in feeds("--watch", "0", code=2)
    assert "cannot write /nowhere/x" in feeds("--out", "/nowhere/x", code=2)


def test_caught_up_is_right_while_the_table_is_changed(fresh: Connection) -> None:
    read = "SELECT caught_up FROM feeds WHERE name = 'f'"
    fresh.execute("SELECT feed_create('f', 'events', 'now')")
    insert(fresh, 3)
    with connect(fresh.info.dsn) as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert other.execute(read).fetchone() == (False,)
        with fresh.transaction():
            fresh.execute("ALTER TABLE events ALTER n TYPE bigint")
            assert other.execute(read).fetchone() == (None,) and fresh.execute(read).fetchone() == (False,)
        assert other.execute(read).fetchone() == (None,)  # unknown, because the files are newer than the snapshot
        fresh.execute("SET lock_timeout = '10s'")
        fresh.execute("ALTER TABLE events ALTER n TYPE int")  # the session holds no lock that blocks this change


def test_a_table_that_its_owner_changes_does_not_hide_other_feeds(fresh: Connection) -> None:
    read = "SELECT name, caught_up FROM feeds ORDER BY name"
    fresh.execute("CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)")
    fresh.execute("CREATE INDEX ON parts (id)")
    fresh.execute("SELECT feed_create('a', 'events'), feed_create('b', 'parts')")
    with connect(fresh.info.dsn) as other:
        other.execute("CREATE TEMP TABLE child () INHERITS (events)")
        other.execute("CREATE INDEX ON child (id)")
        other.execute("INSERT INTO child (n) VALUES (1)")
        assert fresh.execute(read).fetchall() == [("a", None), ("b", True)]
    wait_for(lambda: fresh.execute(read).fetchall() == [("a", True), ("b", True)])
    fresh.execute("ALTER TABLE events SET UNLOGGED")
    fresh.execute("DO 'BEGIN FOR i IN 1..1100 LOOP EXECUTE format(''CREATE TABLE p%s PARTITION OF parts FOR VALUES "
                  "IN (%1$s)'', i); IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END'")  # fmt: skip
    assert fresh.execute(read).fetchall() == [("a", None), ("b", None)]


@pytest.mark.editions
def test_large_positions_are_shown_as_null(fresh: Connection) -> None:
    fresh.execute("CREATE TABLE far (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(1000000), n int)")
    fresh.execute("SELECT feed_create('large', 'far'), feed_create('other', 'far')")
    fresh.execute("INSERT INTO far (n) SELECT generate_series(1, 3)")
    gaps = "SELECT feed_seek('large', (SELECT range_agg(int8range(2 * i, 2 * i + 1)) FROM generate_series(1, {}) AS i))"
    query = "SELECT position IS NULL, backlog_transactions IS NULL, lag IS NULL FROM feeds "
    query += "WHERE relation = 'far'::regclass ORDER BY name"
    shown, hidden = (False, False, False), (True, True, False)
    for amount, expected in ((2000, shown), (4000, hidden), (14_000, hidden)):
        fresh.execute(gaps.format(amount).encode())
        assert fresh.execute(query.encode()).fetchall() == [expected, shown], amount
    fresh.execute("SELECT feed_take_batch('large', 'w', 9)")
    text = (
        "SELECT pg_column_size((position).transactions) < 200, (SELECT pg_column_size((batch).transactions) > 262144 "
    )
    text += "FROM inorder_internal.worker_batch) FROM inorder_internal.feed_state AS s "
    text += "JOIN inorder_internal.feed AS f ON f.id = s.feed WHERE f.name = 'large'"
    assert fresh.execute(text.encode()).fetchall() == [(True, True)]
    assert fresh.execute(query.encode()).fetchall() == [hidden, shown]
    batch_rows = "SELECT count(*) FROM feed_batch_rows('large', (SELECT number FROM feed_batches), null::far)"
    assert value(fresh, batch_rows) == 3


def test_a_role_that_may_not_use_inorder_is_shown_the_statement_that_permits_it(
    cluster: Cluster, server: Installation, tmp_path: Path
) -> None:
    with connect(cluster.dsn) as admin:
        admin.execute("CREATE DATABASE closed")
        install_edition(TESTED, server, cluster, "closed")
        admin.execute("CREATE ROLE web LOGIN")
    environment = cluster.environment() | {"PGDATABASE": "closed"}

    def said() -> str:
        done = preloaded.run(["feeds"], tmp_path, environment | {"PGUSER": "web"}, PATIENCE)
        assert (done.returncode, done.stdout) == (2, b"") or b"no feed" in done.stderr, done
        return done.stderr.decode()

    with connect(f"{cluster.dsn} dbname=closed") as owner:
        home = value(owner, "SELECT pronamespace::regnamespace::text FROM pg_proc WHERE proname = 'feed_guard'")
        owner.execute(f"REVOKE USAGE ON SCHEMA {home} FROM PUBLIC".encode())
        refused = said()
        assert f'role "web" may not use inorder, in schema "{home}"; HINT: ' in refused
        # feed_admit() also grants USAGE on the schema.
        assert ("GRANT" in refused) != ("feed_admit" in refused)
        owner.execute(refused.partition("HINT: ")[2].strip().encode())
    assert said().startswith("there is no feed that this role may see")
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE closed")
        admin.execute("DROP ROLE web")
