"""inorder advise reports exactly the planted faults, for any role and even in a hostile database."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder.advise.cost import Load, Other, compared
from inorder.advise.facts import Reader, facts_of
from inorder.advise.finding import IDS, INSTALL, UNTRUSTED
from inorder.cli import cli
from inorder.connection.database import Connection, UserConnection, connect, connect_as_user, one_row
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import sql

import preloaded
from advised import UNLIKE, followed
from conftest import LONG_RUN, install_edition, text
from examples import parsed
from sql_edition import BUILT, TESTED
from waiting import PATIENCE
from world.server import Standby
from world.sql import run, value

ROWS = 5_000_000 if LONG_RUN else 100_000
ADDED = 1000 if LONG_RUN else 300
# Turn autovacuum off because some tables must have no statistics. On a fast machine, the rows of LOAD are added within
# a second. With checkpoints further apart, random keys would then cause only a small share of the WAL.
STATEMENTS = {
    "shared_preload_libraries": "pg_stat_statements",
    "fsync": "off",
    "max_wal_size": "8GB",
    "autovacuum": "off",
    "checkpoint_timeout": "2min",
}

# Fill the tables with random keys, as in production. CREATE INDEX on existing rows would build a denser index.
FILLED = f"""
CREATE SCHEMA app;
CREATE TABLE app.orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int);
INSERT INTO app.orders (n) SELECT generate_series(1, {ROWS});
CREATE TABLE app.mixed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int);
INSERT INTO app.mixed (n) SELECT generate_series(1, {ROWS} / 2);
ALTER TABLE app.mixed ALTER COLUMN id SET DEFAULT uuid_v7_nextval();
INSERT INTO app.mixed (n) SELECT generate_series(1, {ROWS} / 2);
CREATE TABLE app.letters (id char(32) PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''), n int);
INSERT INTO app.letters (n) SELECT generate_series(1, {ROWS} / 5);
CREATE TABLE app.hashes (id text PRIMARY KEY, n int);
INSERT INTO app.hashes SELECT md5(i::text), i FROM generate_series(1, {ROWS} / 10) AS i;
CREATE TABLE app.numbers (id bigserial PRIMARY KEY, n int);
INSERT INTO app.numbers (n) SELECT generate_series(1, {ROWS});
CREATE TABLE app.facts (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
INSERT INTO app.facts (n) SELECT generate_series(1, {ROWS} / 10);
CREATE SEQUENCE app.tickets CACHE 20;
CREATE TABLE app.outbox (id bigint PRIMARY KEY DEFAULT nextval('app.tickets'), at timestamptz DEFAULT now(), body text);
INSERT INTO app.outbox (body) SELECT 'b' FROM generate_series(1, 2000);
CREATE TABLE app.heavy (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int, b int, c int, d int, e int);
CREATE INDEX ON app.heavy (a); CREATE INDEX ON app.heavy (b); CREATE INDEX ON app.heavy (c);
CREATE INDEX ON app.heavy (d); CREATE INDEX ON app.heavy (e);
INSERT INTO app.heavy (a, b, c, d, e)
SELECT random() * 1e9, random() * 1e9, random() * 1e9, random() * 1e9, i FROM generate_series(1, {ROWS} / 10) AS i;
"""
LOAD = f"""
INSERT INTO app.orders (n) SELECT generate_series(1, {ADDED});
INSERT INTO app.mixed (n) SELECT generate_series(1, {ADDED});
INSERT INTO app.numbers (n) SELECT generate_series(1, {ADDED});
INSERT INTO app.facts (n) SELECT generate_series(1, {ADDED});
INSERT INTO app.outbox (body) SELECT 'b' FROM generate_series(1, {ADDED});
INSERT INTO app.heavy (a, b, c, d, e) SELECT i, i, i, i, i FROM generate_series(1, {ADDED}) AS i;
UPDATE app.heavy SET a = a + 1 WHERE id IN (SELECT id FROM app.heavy ORDER BY id LIMIT {ADDED});
"""
# The policy makes counts slow for this role on any machine. inorder advise does not report counts that take less than
# 10 ms.
SLOW = """
CREATE ROLE slow;
GRANT USAGE ON SCHEMA app TO slow;
GRANT SELECT ON app.numbers TO slow;
CREATE POLICY slow ON app.numbers USING ((SELECT pg_sleep(0.012)) IS NOT NULL);
ALTER TABLE app.numbers ENABLE ROW LEVEL SECURITY;
"""
FAST = "ALTER TABLE app.numbers DISABLE ROW LEVEL SECURITY", "DROP POLICY slow ON app.numbers"
EXPECTED = {
    ("random-key", '"app"."orders"'), ("mixed-keys", '"app"."mixed"'), ("text-uuid", '"app"."letters"'),
    ("polling-reader", '"app"."outbox"'), ("cached-sequence", '"app"."outbox"'), ("count-all", '"app"."numbers"'),
}  # fmt: skip


class Advised:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder

    def session(self, database: str = "planted") -> Connection:
        return connect(f"{self.cluster.dsn} dbname={database}")

    def run(self, *arguments: str, database: str = "planted", role: str = "postgres",
            cluster: Cluster | None = None) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
        environment = (cluster or self.cluster).environment() | {"PGDATABASE": database, "PGUSER": role}
        return preloaded.run(["advise", *arguments], self.folder, environment, PATIENCE)

    def found(self, *arguments: str, **where: Any) -> dict[str, Any]:
        done = self.run("--least", "1MB", "--format", "json", *arguments, **where)
        assert done.returncode == 0, done.stderr
        data: dict[str, Any] = json.loads(done.stdout)
        return data


def pairs(data: dict[str, Any]) -> set[tuple[str, str]]:
    return {(finding["id"], finding["table"]) for finding in data["findings"]}


def plant(admin: Connection) -> None:
    run(admin, "CREATE EXTENSION pg_stat_statements", *filter(str.strip, FILLED.split(";")), "VACUUM ANALYZE")
    run(admin, "SELECT pg_stat_force_next_flush()", "SELECT pg_stat_reset()")
    run(admin, *filter(str.strip, LOAD.split(";")), *filter(str.strip, SLOW.split(";")))
    for last in range(0, 240, 20):
        admin.execute("SELECT id, body FROM app.outbox WHERE id > %s ORDER BY id LIMIT 20", (last,))
        admin.execute("SELECT n FROM app.numbers WHERE id > %s ORDER BY id DESC LIMIT 20", (last,))
        with admin.transaction():
            admin.execute("SET LOCAL ROLE slow")
            run(admin, "SELECT count(*) FROM app.numbers", "SELECT count(*) FROM app.numbers WHERE n < 0")
    run(admin, *FAST, "SELECT pg_stat_force_next_flush()")


@pytest.fixture(scope="module")
def advised(server: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Advised]:
    if not (server.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("this server has no pg_stat_statements")
    with Cluster(server, BUILT) as running:
        running.start(STATEMENTS)
        here = Advised(running, tmp_path_factory.mktemp("a"))
        with connect(running.dsn) as admin:
            run(admin, "CREATE DATABASE planted", "CREATE DATABASE bare", "CREATE DATABASE odd")
            run(admin, "CREATE ROLE watcher LOGIN IN ROLE pg_monitor", "CREATE ROLE plain LOGIN", "CREATE ROLE mallory")
        install_edition(TESTED, server, running, "planted")
        with here.session() as admin:
            plant(admin)
        yield here


@pytest.mark.server
def test_only_the_planted_faults_are_reported(advised: Advised) -> None:
    data = advised.found()
    assert pairs(data) == EXPECTED, data
    assert [finding["table"] for finding in data["leave"]] == ['"app"."heavy"']
    assert data["leave"][0]["why"].startswith("the key costs little") and data["not_seen"] == []
    parts = ("what", "cost", "risk", "verify", "measure", "evidence", "remedy", "page")
    assert [finding for finding in data["findings"] if not all(finding[name] for name in parts)] == []
    assert all(each["what"] and each["source"] for finding in data["findings"] for each in finding["evidence"])
    ids = [finding["id"] for finding in data["findings"]]
    assert ids[0] == "random-key" and set(ids) == set(IDS)
    assert [finding["page"] for finding in data["findings"]] == [f"docs/advice.md#{name}" for name in ids]


@pytest.mark.server
def test_remedies_and_commands_can_be_run(advised: Advised) -> None:
    """Every remedy, applied to a copy of the database in the order of the report, runs without errors.

    This includes the statements that feed_prepare() returns.
    """
    findings = advised.found()["findings"]
    with advised.session("bare") as admin:
        run(admin, "CREATE DATABASE cured TEMPLATE planted STRATEGY file_copy")
    with advised.session("cured") as admin:
        for remedy in dict.fromkeys(remedy for finding in findings for remedy in finding["remedy"]):
            done = admin.execute(remedy.encode())
            if "feed_prepare" in remedy:
                run(admin, *(str(more) for (more,) in done.fetchall()))
        for finding in findings:
            if finding["measure"].startswith("inorder "):
                parsed(cli, shlex.split(finding["measure"])[1:])
            else:
                run(admin, finding["measure"])
        (counted,) = [finding["verify"] for finding in findings if finding["id"] == "count-all"]
        assert value(admin, counted) == value(admin, "SELECT count(*) FROM app.numbers")
        assert value(admin, "SELECT count(*) FROM feeds WHERE relation = 'app.outbox'::regclass") == 1
        assert (
            value(admin, "SELECT data_type FROM information_schema.columns WHERE table_name = 'letters' LIMIT 1")
            == "uuid"
        )
        run(admin, "INSERT INTO app.orders (n) VALUES (-1)")
        version = "SELECT substr(id::text, 15, 1) FROM app.orders WHERE n = %s"
        assert value(admin, version % -1) == ("8" if TESTED == "c" else "7")
        (instead,) = [finding["instead"] for finding in findings if finding["table"] == '"app"."orders"']
        assert bool(instead) == (TESTED == "c")  # the SQL edition cannot generate keys that sort after random keys
        if instead:
            assert value(admin, "SELECT n FROM app.orders ORDER BY id DESC LIMIT 1") == -1
            run(admin, *instead, "INSERT INTO app.orders (n) VALUES (-2)")
            assert value(admin, version % -2) == "7"
    with advised.session("bare") as admin:
        run(admin, "DROP DATABASE cured")


# Findings for roles without superuser rights. Such a role sees column defaults and its own statements.
SEEN = {
    "watcher": {"random-key", "polling-reader", "cached-sequence", "count-all"},
    "plain": {"random-key"},
}


@pytest.mark.server
@pytest.mark.parametrize("role", SEEN)
def test_a_role_without_privileges_is_told_what_it_cannot_see(advised: Advised, role: str) -> None:
    data = advised.found(role=role)
    assert {finding["id"] for finding in data["findings"]} == SEEN[role] and pairs(data) < EXPECTED
    unseen = "\n".join(data["not_seen"])
    assert "values of keys (" in unseen and ("pg_read_all_stats" in unseen) == (role == "plain")


@pytest.mark.server
@pytest.mark.skipif(TESTED != "c", reason="the advice installs the C extension")
@pytest.mark.parametrize(("install", "code"), [("CREATE EXTENSION inorder", 2), (INSTALL, 0)])
def test_a_superuser_can_use_an_extension_installed_as_advised(advised: Advised, install: str, code: int) -> None:
    """The schema ``public`` belongs to the owner of the database, and superusers do not trust that owner."""
    with advised.session("bare") as admin:
        run(admin, "DROP DATABASE IF EXISTS theirs", "CREATE DATABASE theirs OWNER watcher")
    with advised.session("theirs") as admin:
        run(admin, install)
    environment = advised.cluster.environment() | {"PGDATABASE": "theirs", "PGUSER": "postgres"}
    done = preloaded.run(["feeds"], advised.folder, environment, PATIENCE)
    assert done.returncode == code, done.stderr


@pytest.mark.server
def test_a_table_without_statistics_is_sampled_on_request(advised: Advised) -> None:
    with advised.session() as admin:
        run(admin, "CREATE TABLE app.made (id uuid PRIMARY KEY)",
                "INSERT INTO app.made SELECT gen_random_uuid() FROM generate_series(1, 50000)", "VACUUM app.made",
                "CREATE TABLE app.foreign (LIKE app.made INCLUDING ALL)",
                "INSERT INTO app.foreign TABLE app.made", "VACUUM app.foreign",
                "CREATE SCHEMA hers AUTHORIZATION mallory", "CREATE TABLE hers.ours (LIKE app.made INCLUDING ALL)",
                "INSERT INTO hers.ours TABLE app.made", "VACUUM hers.ours",
                "CREATE TABLE app.grown (LIKE app.made INCLUDING ALL) WITH (vacuum_truncate = off)",
                "INSERT INTO app.grown TABLE app.made", "DELETE FROM app.grown", "VACUUM app.grown",
                "INSERT INTO app.grown TABLE app.made",
                "ALTER TABLE app.foreign OWNER TO mallory", "SELECT pg_stat_force_next_flush()")  # fmt: skip
        try:
            before, after = advised.found(), advised.found("--sample")
            assert pairs(before) == EXPECTED and any('"app"."made"' in entry for entry in before["not_seen"])
            assert 'sizes (HINT: ANALYZE), of 1 table: "app"."grown"' in before["not_seen"]
            # reported as a finding or as a table to leave alone, depending on the age of the row counters
            made = '"app"."made"'
            assert pairs(after) - {("random-key", made)} == EXPECTED
            judged = [{item["table"] for item in (*data["findings"], *data["leave"])} for data in (before, after)]
            assert judged[1] - judged[0] == {made}
            for name in ('"app"."foreign"', '"hers"."ours"'):  # a table owned by another role, or in that role's schema
                assert any(name in entry for entry in after["not_seen"])
        finally:
            run(admin, "DROP TABLE app.made, app.foreign, app.grown", "DROP SCHEMA hers CASCADE")


@pytest.mark.server
def test_a_database_without_faults_has_no_findings(advised: Advised, server: Installation) -> None:
    environment = advised.cluster.environment() | {"PGDATABASE": "bare", "PGUSER": "postgres"}
    data = advised.found(database="bare")
    assert (data["findings"], data["leave"]) == ([], [])
    (cause,) = data["not_seen"]
    assert cause.startswith(
        "polling readers, counts of all rows, and which rows updates change: pg_stat_statements is not"
    )
    with advised.session("bare") as admin:
        run(admin, "CREATE EXTENSION pg_stat_statements")
    for arguments in (["-i", "-s", "2", "-q"], ["-t", "400", "-c", "2"], ["-S", "-t", "50"]):
        subprocess.run([server.program("pgbench"), *arguments], check=True, capture_output=True, env=environment)
    with advised.session("bare") as admin:
        run(admin, "ANALYZE")
    data = advised.found(database="bare")
    assert (data["findings"], data["leave"], data["not_seen"]) == ([], [], []), data


WORK = """
SELECT coalesce(sum(calls), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0) FROM pg_stat_statements AS s
WHERE dbid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = 'many')
"""


def work(advised: Advised, tables: int) -> tuple[int, int]:
    """Create a database with this many tables. Return the numbers of statements and blocks that inorder advise uses."""
    with advised.session("bare") as admin:
        run(admin, "CREATE DATABASE many")
    with advised.session("many") as admin:
        for first in range(1, tables + 1, 500):
            statement = (
                "CREATE TABLE t' || i || ' (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz, body text)"
            )
            loop = f"FOR i IN {first}..{min(first + 499, tables)} LOOP EXECUTE '{statement}'; END LOOP"
            run(admin, f"DO $$ BEGIN {loop}; END $$")
        run(admin, "INSERT INTO t1 (at) SELECT now() FROM generate_series(1, 20000)", "ANALYZE")
    with advised.session() as admin:
        before = one_row(admin, WORK)
        data = advised.found("--least", "1TB", database="many")
        calls, blocks = (int(after - first) for after, first in zip(one_row(admin, WORK), before, strict=True))
    with advised.session("bare") as admin:
        run(admin, "DROP DATABASE many")
    assert data["findings"] == [] and [item["table"] for item in data["leave"]] == ['"public"."t1"']
    return calls, blocks


@pytest.mark.server
def test_as_many_statements_are_run_for_ten_thousand_tables_as_for_few(advised: Advised) -> None:
    """inorder advise reads at most 200 blocks per table."""
    (few_calls, _), (calls, blocks) = work(advised, 2), work(advised, 10_000)
    print(f"\n{calls} statements, {few_calls} for few tables, {blocks} blocks")
    assert calls == few_calls and blocks < 200 * 10_000


OF_USERS = "SELECT oid::regclass::text FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p')"
HELD = "SELECT relation::int8, mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation IS NOT NULL"


class Watched(Reader):
    def __init__(self, connection: UserConnection, writer: Callable[[], None]) -> None:
        super().__init__(connection)
        self.writer, self.locked = writer, set[tuple[int, str]]()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Cursor[dict[str, Any]]]:
        with super().transaction() as cursor:
            yield cursor
            self.locked |= {(lock["relation"], lock["mode"]) for lock in cursor.execute(HELD).fetchall()}
            self.writer()
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), self.connection.transaction():
                cursor.execute("CREATE TABLE public.never ()")


@contextmanager
def locking(dsn: str, mode: str) -> Iterator[tuple[Callable[[], None], list[str]]]:
    """Yield a function that tries to lock every user table, and the list of tables that it failed to lock."""
    refused: list[str] = []
    with connect(dsn) as other:
        tables = [str(name) for (name,) in other.execute(OF_USERS.encode()).fetchall()]
        assert len(tables) >= len(EXPECTED)

        def lock() -> None:
            for table in tables:
                try:
                    other.execute(f"BEGIN; LOCK TABLE {table} IN {mode} MODE NOWAIT".encode())
                except psycopg.errors.LockNotAvailable:
                    refused.append(table)
                other.execute("COMMIT")

        yield lock, refused


@pytest.mark.server
@pytest.mark.parametrize(
    ("mode", "sampled", "refused"),
    [("ACCESS EXCLUSIVE", False, set()), ("ROW EXCLUSIVE", True, set()), ("ACCESS EXCLUSIVE", True, {"unseen"})],
)
def test_advise_locks_only_the_catalog_and_sampled_tables(
    advised: Advised, mode: str, sampled: bool, refused: set[str]
) -> None:
    """A transaction of inorder advise locks only the catalog and, with --sample, the table being read."""
    dsn = f"{advised.cluster.dsn} dbname=planted"
    with advised.session() as admin:
        run(admin, "CREATE TABLE unseen (id uuid PRIMARY KEY)",
                "INSERT INTO unseen SELECT gen_random_uuid() FROM generate_series(1, 5000)", "VACUUM unseen",
                "ALTER TABLE unseen OWNER TO watcher")  # fmt: skip
        view = value(admin, "SELECT 'pg_stat_statements'::regclass::oid::int8")
        try:
            with locking(dsn, mode) as (lock, refusals), connect_as_user(f"{dsn} user=watcher") as connection:
                reader = Watched(connection, lock)
                facts_of(reader, None, sampled)
        finally:
            run(admin, "DROP TABLE unseen")
    assert set(refusals) == refused and {mode for _, mode in reader.locked} == {"AccessShareLock"}
    assert ({relation for relation, _ in reader.locked if relation >= 16384} == {view}) == (not sampled)


@pytest.mark.server
def test_on_a_standby_counters_of_the_primary_are_not_seen(advised: Advised) -> None:
    """Transactions of inorder advise do not delay the replay of a lock, which is replayed while they are open."""
    with Standby(advised.cluster) as standby:
        standby.start({"shared_preload_libraries": "pg_stat_statements"})
        standby.catch_up()
        data = advised.found(cluster=standby)
        with (
            locking(f"{advised.cluster.dsn} dbname=planted", "ACCESS EXCLUSIVE") as (lock, refused),
            connect_as_user(f"{standby.dsn} dbname=planted user=watcher") as connection,
        ):

            def on_both() -> None:
                lock()
                standby.catch_up()

            facts_of(Watched(connection, on_both), None, False)
    assert pairs(data) == {pair for pair in EXPECTED if pair[0] in ("mixed-keys", "text-uuid")}
    assert any("examine the primary" in entry for entry in data["not_seen"]) and refused == []


@pytest.mark.server
def test_advise_does_not_wait_for_locks_of_other_sessions(advised: Advised) -> None:
    """Another session alters one table and holds ACCESS EXCLUSIVE locks on two others."""
    with advised.session() as owner, owner.transaction():
        run(owner, "ALTER TABLE app.orders ADD COLUMN more int", "LOCK TABLE app.outbox, app.numbers")
        assert pairs(advised.found()) == EXPECTED
        raise psycopg.Rollback


# Names and strings that are special in SQL or HTML, and objects with the same names as objects of the server or
# inorder.
ODD = 'it\'s %s {column} ""; DROP <b>`[x](y)|\x1b[2J\nHINT:'
MALLORY = """
CREATE FUNCTION mallory.ran() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 'no'; END $$;
CREATE FUNCTION mallory.uuid_v7_nextval() RETURNS uuid LANGUAGE sql AS 'SELECT mallory.ran()::uuid';
CREATE FUNCTION mallory.feed_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM mallory.ran(); END';
CREATE SCHEMA inorder_internal;
CREATE FUNCTION mallory.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT mallory.ran()';
CREATE FUNCTION mallory.pg_size_bytes(text) RETURNS bigint LANGUAGE sql AS 'SELECT mallory.ran()::bigint';
CREATE FUNCTION mallory.eq(oid, oid) RETURNS bool LANGUAGE sql AS 'SELECT mallory.ran() IS NULL';
CREATE OPERATOR mallory.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = mallory.eq);
CREATE VIEW mallory.pg_stats AS SELECT mallory.ran();
CREATE VIEW mallory.pg_class AS SELECT mallory.ran();
CREATE VIEW mallory.pg_stat_statements AS SELECT mallory.ran() AS query;
CREATE TABLE mallory.made (id uuid PRIMARY KEY, n text);
INSERT INTO mallory.made SELECT gen_random_uuid(), i FROM generate_series(1, 5000) AS i;
CREATE INDEX ON mallory.made ((mallory.ran())) WHERE n = mallory.ran();
VACUUM mallory.made;
CREATE OR REPLACE FUNCTION mallory.ran() RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$ BEGIN RAISE EXCEPTION 'ran'; END $$;
"""


def hostile(advised: Advised) -> str:
    table = sql.Identifier("mallory", ODD).as_string(None)
    with advised.session("bare") as admin:
        run(admin, "DROP DATABASE IF EXISTS odd WITH (FORCE)", "CREATE DATABASE odd OWNER mallory")
    with advised.session("odd") as admin:
        run(admin, "CREATE SCHEMA mallory", *filter(str.strip, MALLORY.split(";\n")))
        run(admin, "SET search_path = pg_catalog", f"CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT "
                f"gen_random_uuid(), {sql.Identifier(ODD).as_string(None)} bigserial, at timestamptz)",
                f"INSERT INTO {table} (at) SELECT now() FROM generate_series(1, 100000)", f"ANALYZE {table}",
                "SELECT pg_stat_force_next_flush()")  # fmt: skip
        for owned in (
            "SCHEMA mallory",
            f"TABLE {table}",
            "TABLE mallory.made",
            "FUNCTION mallory.ran()",
            "FUNCTION mallory.uuid_v7_nextval()",
            "FUNCTION mallory.feed_guard()",
            "SCHEMA inorder_internal",
        ):
            run(admin, f"ALTER {owned} OWNER TO mallory")
        run(admin, "ALTER DATABASE odd SET search_path = mallory, pg_catalog",
                "ALTER DATABASE odd SET default_transaction_read_only = off")  # fmt: skip
        if admin.info.server_version < 190000:  # PostgreSQL 19 no longer supports such strings
            run(admin, "ALTER DATABASE odd SET standard_conforming_strings = off")
    return table


@pytest.mark.server
def test_advise_runs_no_code_of_the_database_and_escapes_its_names(advised: Advised) -> None:
    table = hostile(advised)
    data = advised.found("--sample", database="odd")
    assert len(data["findings"]) == 1, json.dumps(data)[-2500:]
    (finding,) = data["findings"]
    assert (finding["id"], finding["table"]) == ("random-key", table)
    assert any('"mallory"."made"' in entry for entry in data["not_seen"]) and "ran" not in str(data["not_seen"]).split()
    printed = {name: advised.run("--least", "1MB", "--format", name, database="odd").stdout.decode()
               for name in ("table", "html")}  # fmt: skip
    assert all("\x1b" not in text and "\nHINT" not in text for text in printed.values())
    assert "<b>" not in printed["html"] and "](y)" in printed["html"]
    with advised.session("odd") as admin:
        (remedy,) = finding["remedy"]
        if admin.info.server_version < 180000:
            # The remedy would call a function of inorder. The functions with its names belong to mallory.
            assert remedy == UNTRUSTED
            return
        run(admin, "SET search_path = pg_catalog", f"ALTER TABLE {table} ALTER COLUMN id DROP DEFAULT", remedy)
        query = "SELECT count(*) FROM pg_attrdef WHERE adrelid = %s::regclass AND adnum = 1"
        assert value(admin, query, table) == 1


@pytest.mark.server
def test_statements_are_not_read_from_a_replaceable_view(advised: Advised) -> None:
    """The view is in the schema ``public``, and another role owns the database.

    The statements in the hint move the view to a safe schema.
    """
    with advised.session() as admin:
        run(admin, "ALTER DATABASE planted OWNER TO mallory")
        try:
            data = advised.found()
            home, unseen = data["not_seen"]
            run(admin, unseen.rpartition("the schema of pg_stat_statements, run: ")[2])
            moved = advised.found()
        finally:
            run(admin, "ALTER EXTENSION pg_stat_statements SET SCHEMA public", "DROP SCHEMA IF EXISTS monitoring")
            run(admin, "ALTER DATABASE planted OWNER TO postgres")
    assert pairs(data) == {pair for pair in EXPECTED if pair[0] in ("random-key", "mixed-keys", "text-uuid")}
    reason = 'its schema belongs to "mallory", who could replace the view; HINT: Run inorder advise as "mallory", after'
    assert reason in unseen
    assert {pair[0] for pair in pairs(moved)} >= {"polling-reader", "count-all"} and moved["not_seen"] == [home]
    assert home.startswith(
        'inorder: its schema public belongs to "mallory", who could replace inorder; HINT: Run inorder'
    )
    assert "CREATE EXTENSION" not in str(moved) and "/* inorder is installed, but belongs to a role" in str(moved)
    assert "exact_count" not in str(moved)


# --- the command -----------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 0), (("--fail-on", "count-all"), 3), (("--fail-on", "any"), 3),
     (("--least", "1TB", "--fail-on", "random-key"), 0)],
)  # fmt: skip
def test_advise_exits_with_the_expected_code(advised: Advised, arguments: tuple[str, ...], code: int) -> None:
    done = advised.run(*arguments)
    assert done.returncode == code and b"Traceback" not in done.stderr, done.stderr


@pytest.mark.server
def test_rows_are_counted_over_an_interval(advised: Advised) -> None:
    """No rows are inserted during the interval, so keys cost nothing and readers lose no rows."""
    data = advised.found("--over", "1s")
    assert pairs(data) == {pair for pair in EXPECTED if pair[0] in ("mixed-keys", "text-uuid", "count-all")}
    assert data["leave"] == [] and data["server"]["counted"].startswith("in 1")


def test_each_finding_has_a_text_and_a_section() -> None:
    sections = re.findall(r"^## (\S+)$", text("docs/advice.md"), re.MULTILINE)
    assert [section for section in sections if section in IDS] == list(IDS)


# --- predictions of the model for a table ----------------------------------------

BARE = Load(10e6, 60_000, 0, 100, 0, 0, 0, 0, (), 2**40, 300)


def test_the_share_of_wal_that_the_key_causes_falls_with_other_writes() -> None:
    """The key causes the largest share of the WAL if the table has no other indexes and no updates.

    With five more indexes and as many updates as inserts, the share is almost zero.
    """
    indexes = (Other(50_000, 50_000),) * 5
    busy = replace(BARE, updates=100, entries=100, other_indexes=indexes)
    loads = (BARE, replace(BARE, other_indexes=indexes[:1]), replace(BARE, other_indexes=indexes), busy)
    shares = [compared([load]).least_share for load in loads]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.8 and shares[-1] < 0.05
    assert compared([BARE]).most_share == shares[0] and compared([busy]).most_share > shares[-1]


def test_costs_of_partitions_are_added_up() -> None:
    single, two = compared([BARE]), compared([BARE, BARE])
    assert two.saved_per_day == pytest.approx(2 * single.saved_per_day)
    assert two.least_share == pytest.approx(single.least_share)


@pytest.mark.server
@pytest.mark.parametrize("name", UNLIKE)
def test_following_the_advice_saves_what_it_predicts(advised: Advised, name: str) -> None:
    outcomes = list(followed(advised.cluster, name, 300_000, 20_000))
    assert [outcome for outcome in outcomes if not outcome.holds] == [] and len(outcomes) == 2
