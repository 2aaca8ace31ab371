"""inorder install: findings, installation, verification, upgrade and removal."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.errors import InputError
from inorder.install.actions import without_c
from inorder.install.offer import EDITIONS, SQL, C, Offer, chosen
from inorder.lab.server.cluster import Cluster

from conftest import copy_of
from editions import EVENTS, OBJECTS, Tool, database
from tool import inorder
from world.server import run_program
from world.sql import rows, run

FACTS = Offer(
    schema="inorder", version_number=180000, version="18", is_standby=False, is_read_only=False, database="d", role="r",
    is_superuser=False, can_create=True, can_use_plpgsql=True, extension_version=None, extension_schema=None,
    extension_owner=None, quoted=None, schema_owner=None, is_trusted_schema=True, state_owner=None,
    sql_version=None, sql_schema=None, is_trusted_owner=False, is_keyword=False, c_version="1", is_trusted=True,
    revoked=[], wal_problem=None,
)  # fmt: skip


def facts(**changes: object) -> Offer:
    return Offer(**(vars(FACTS) | changes))


@pytest.mark.parametrize(
    ("changes", "best", "wrong"),
    [
        ({}, C, None),
        ({"c_version": None}, SQL, (C, "pg_available_extensions has no inorder")),
        ({"is_trusted": False}, SQL, (C, 'not trusted, and role "r" is not a superuser')),
        ({"is_trusted": False, "is_superuser": True}, C, None),
        ({"revoked": ["pg_control_system"]}, C, (SQL, "does not let every role use pg_control_system")),
        ({"wal_problem": "not shown"}, C, (SQL, "position in the WAL: not shown; HINT: Aurora shows the position")),
        (
            {"is_keyword": True, "schema": "select"},
            C,
            (SQL, '"select" is an SQL keyword; HINT: choose another --schema'),
        ),
        ({"is_read_only": True}, None, (SQL, "transactions are read-only here")),
        ({"can_use_plpgsql": False}, C, (SQL, "lacks USAGE on language plpgsql")),
        ({"schema_owner": "x"}, C, (SQL, 'schema "inorder" already exists and belongs to role "x"')),
        ({"state_owner": "x"}, None, (C, 'schema inorder_internal already exists and belongs to role "x"')),
        ({"can_create": False}, None, (SQL, 'role "r" lacks CREATE on database "d"')),
        ({"can_create": False, "role": 'a"b'}, None, (SQL, 'GRANT CREATE ON DATABASE "d" TO "a""b"')),
        ({"is_standby": True}, None, (SQL, "the server is a standby")),
        ({"version_number": 140002, "version": "14.2"}, None, (C, "PostgreSQL 14.2; inorder needs 15 to 19")),
    ],
)
def test_the_best_possible_edition_is_chosen(
    changes: dict[str, object], best: str | None, wrong: tuple[str, str] | None
) -> None:
    offer = facts(**changes)
    assert offer.best() == best
    if wrong is not None:
        with pytest.raises(InputError) as raised:
            chosen(offer, wrong[0])
        assert wrong[1] in str(raised.value)
    if best is None:
        with pytest.raises(InputError, match='no edition of inorder can be installed in database "d"'):
            chosen(offer, None)


def test_the_reason_for_the_sql_edition_is_printed() -> None:
    assert without_c(facts(c_version=None)).startswith(
        "not the C extension: pg_available_extensions has no inorder; HINT"
    )
    assert without_c(facts()) == without_c(facts(wal_problem="not shown")) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--check", "--script"), "--check cannot be used with --script"),
        (("--yes",), "No such option '--yes'"),
        (("--schema", "Odd"), '63 characters of a-z, 0-9 and _, not beginning with a digit or pg_: "Odd"'),
        (("--schema", "pg_x"), '"pg_x"'),
        (("--lock-timeout", "soon"), "--lock-timeout"),
        (("--script", "--edition", "c"), "--script is for the SQL edition"),
        (("--script", "--schema", "public"), "public already exists, and the SQL edition creates its schema itself"),
        (("--edition", "d"), "'d' is not one of 'c', 'sql'"),
    ],
)
def test_options_that_exclude_each_other_are_refused(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    assert message in inorder("install", *options, "--dsn", "host=/nowhere", folder=tmp_path).stderr


@pytest.mark.server
def test_an_installation_waits_for_a_lock_only_for_the_timeout(tool: Tool, cluster: Cluster, empty: Connection) -> None:
    with connect(f"{cluster.dsn} dbname={empty.info.dbname}") as other:
        # Without a timeout, the tool would succeed when the lock is released after a minute.
        run(other, "SET idle_in_transaction_session_timeout = '60s'", "BEGIN", "LOCK TABLE pg_namespace IN SHARE MODE")
        error = tool.install("--lock-timeout", "10ms", code=1)
    assert "lock timeout" in error and error.endswith("HINT:  Nothing was changed.\n")


@pytest.mark.server
@pytest.mark.parametrize("edition", [C, SQL])
def test_each_edition_is_installed_and_removed_without_a_trace(tool: Tool, empty: Connection, edition: str) -> None:
    before = rows(empty, OBJECTS)
    assert f"{edition}: {EDITIONS[edition]}: can be installed" in tool.install("--check", "--edition", edition)
    assert rows(empty, OBJECTS) == before
    installed = tool.run("install", "--edition", edition)
    assert installed.stdout.startswith(b"installed inorder ")
    (hint,) = re.findall(r"^HINT:  (.*);$", installed.stderr.decode(), re.MULTILINE)
    assert hint == f'ALTER DATABASE "{empty.info.dbname}" SET search_path = "$user", public, inorder'
    assert (b"HINT:  SELECT inorder.feed_admit('ROLE');" in installed.stderr) == (edition == SQL)
    run(empty, hint)
    assert tool.install("--edition", edition).endswith("is already installed\n")
    other = SQL if edition == C else C
    assert "HINT: docs/hosted.md has a script" in tool.install("--edition", other, code=2)
    checked = tool.install("--check")
    assert f"{edition}: {EDITIONS[edition]}: is installed" in checked
    assert f"{other}: {EDITIONS[other]}: can replace it; docs/hosted.md has a script" in checked
    run(empty, "SET ROLE edition_owner", "SET search_path = public, inorder", EVENTS)
    run(empty, "SELECT feed_create('f', 'events')", "INSERT INTO events (n) VALUES (1), (2)")
    run(empty, "SELECT feed_create(E'two\\nlines', 'events')")
    assert rows(empty, "SELECT exact_count_start('events')") == [(2,)]
    assert rows(empty, "SELECT feed_apply('f', 'SELECT n FROM batch')") == [(2,)]
    assert rows(empty, "SELECT exact_count('events')") == [(2,)]
    run(empty, "CREATE TABLE gone (LIKE events INCLUDING ALL)", "SELECT feed_create('last', 'gone')",
        "INSERT INTO gone (n) VALUES (1)", "SELECT feed_take_batch('last', 'w')", "DROP TABLE gone")  # fmt: skip
    run(empty, "ALTER TABLE events ALTER COLUMN id SET DEFAULT gen_random_uuid()")
    removed = tool.run("uninstall", "--yes", "--drop-columns")
    hint = f'HINT:  search_path of the database still has inorder: ALTER DATABASE "{empty.info.dbname}" RESET '
    assert removed.stderr.decode().startswith(hint)
    lost = removed.stdout.decode().splitlines()
    assert lost[0] == "This removes:" and lost[-1].startswith("removed inorder ")
    for line in (
        'feed "f" of edition_owner on table public.events: its position', "table public.events: its exact count",
        'feed "two\\nlines" of edition_owner on table public.events: its position',
        'feed "last" of edition_owner on a dropped table: its position',
        "table public.events: its guard, which keeps the table insert-only",
    ):  # fmt: skip
        assert f"  {line}" in lost
    run(empty, "UPDATE events SET n = 3", "DELETE FROM events", "DROP TABLE events")
    assert rows(empty, OBJECTS) == before
    assert "has no inorder; HINT: Run inorder install." in tool.uninstall(code=2)


OWNER = "install_owner"


@pytest.fixture(scope="module")
def with_sql(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the name of a database with the SQL edition.

    Copying it takes less time than installing the edition.
    """
    with connect(cluster.dsn) as admin:
        run(admin, f"CREATE ROLE {OWNER} LOGIN")
        with database(cluster, OWNER) as connection:
            Tool(cluster, tmp_path_factory.mktemp("install"), connection, OWNER).install("--edition", SQL)
            name = connection.info.dbname
            connection.close()
            yield name
        run(admin, f"DROP ROLE {OWNER}")


@pytest.fixture
def installed(cluster: Cluster, with_sql: str) -> Iterator[Connection]:
    with copy_of(with_sql, cluster, "installed") as connection:
        run(connection, f"ALTER DATABASE installed OWNER TO {OWNER}", f"SET ROLE {OWNER}")
        yield connection


@pytest.fixture
def owners(cluster: Cluster, tmp_path: Path, installed: Connection) -> Tool:
    return Tool(cluster, tmp_path, installed, OWNER)


@pytest.mark.server
def test_objects_that_depend_on_the_edition_are_not_removed(owners: Tool, installed: Connection) -> None:
    run(installed, "CREATE VIEW public.v AS SELECT name FROM inorder.feeds")
    assert "view public.v" in owners.uninstall("--yes", code=2)
    run(installed, "DROP VIEW public.v")
    assert owners.uninstall(code=2).endswith(
        "no terminal for the confirmation; HINT: Use --yes.\n"
    )  # standard input is empty
    no = subprocess.run(
        [sys.executable, "-m", "inorder", "uninstall"], check=False, capture_output=True, input=b"n\n",
        env=os.environ | owners.environment,
    )  # fmt: skip
    assert (no.returncode, no.stderr) == (1, b"inorder: nothing was removed\n")
    assert "removed inorder" in owners.uninstall("--yes")


@pytest.mark.server
@pytest.mark.parametrize("edition", [C, SQL])
def test_uninstall_leaves_no_trigger_of_a_log(tool: Tool, empty: Connection, edition: str) -> None:
    """A trigger left behind would write into the log forever or make each write fail."""
    tool.install("--edition", edition)
    run(empty, "SET ROLE edition_owner", "CREATE TABLE public.t (id int PRIMARY KEY)",
         "SELECT inorder.changes_enable('public.t')")  # fmt: skip
    refused = tool.uninstall("--yes", "--drop-columns", code=2)
    assert "these objects depend on inorder: " in refused and "trigger zz_inorder_changes_insert on " in refused
    (call,) = re.findall("^HINT:  (SELECT .*changes_disable.*;)$", refused, re.M)
    run(empty, call, "DROP TABLE IF EXISTS public.t_changes")
    tool.uninstall("--yes", "--drop-columns")


@pytest.mark.server
def test_columns_are_dropped_unless_they_are_primary_keys(owners: Tool, installed: Connection) -> None:
    run(
        installed, EVENTS, "CREATE TABLE public.other (k uuid DEFAULT inorder.uuid_v7_nextval(), n int)",
        "CREATE INDEX ON public.other (k) WHERE k IS NOT NULL",
    )  # fmt: skip
    refused = owners.uninstall("--yes", "--drop-columns", code=2)
    assert "column id of public.events: default, inorder.uuid_xact_nextval() (primary key)\n" in refused
    run(installed, refused.rpartition("; ")[2])
    removed = owners.uninstall("--yes", "--drop-columns").splitlines()
    assert "  column k of public.other: all its values, index public.other_k_idx" in removed
    assert rows(installed, "SELECT count(id) FROM public.events") == [(0,)]


@pytest.mark.server
@pytest.mark.parametrize("edition", [C, SQL])
def test_counts_of_groups_are_named_with_the_statements_that_stop_them(
    tool: Tool, empty: Connection, edition: str
) -> None:
    tool.install("--edition", edition)
    run(
        empty, "SET ROLE edition_owner", "CREATE TABLE public.c (id int PRIMARY KEY, v text, \"B's\" int)",
        "CREATE TABLE public.p (id int, v text) PARTITION BY LIST (v)",
        "CREATE TABLE public.p_1 PARTITION OF public.p FOR VALUES IN ('a')",
        "SELECT inorder.exact_count_start('public.c', by => b) "
        "FROM (VALUES ('{}'::name[]), ('{v}'), ('{B''s,v}')) AS t(b)",
        "SELECT inorder.exact_count_start('public.p', by => '{v}')",
    )  # fmt: skip
    refused = tool.uninstall("--yes", code=2)
    counts = "public.c by no column; public.c by B's,v; public.c by v; public.p by v"
    detail, hint = refused.splitlines()[1:]
    assert detail == f"DETAIL:  the counts of these groups depend on inorder: {counts}"
    assert "SELECT inorder.exact_count_stop('public.c', by => '{v}');" in hint
    run(empty, hint.removeprefix("HINT:  "))
    assert "removed inorder" in tool.uninstall("--yes")


@pytest.mark.server
def test_columns_of_type_uuid_v1_are_named_with_the_statements_that_convert_them(tool: Tool, empty: Connection) -> None:
    tool.install("--edition", C)
    run(
        empty, "SET ROLE edition_owner", "SET search_path = public, inorder",
        "CREATE TABLE u (id uuid_v1 PRIMARY KEY DEFAULT uuid_v1_nextval(), \"B\" uuid_v1, n int)",
        "INSERT INTO u (n) VALUES (1)", "CREATE TABLE p (id uuid_v1, n int) PARTITION BY LIST (n)",
        "CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)", "CREATE INDEX ON p (id)",
    )  # fmt: skip
    refused = tool.uninstall("--yes", code=2)
    assert "these columns have the type uuid_v1 of inorder: " in refused and "drop or change them" not in refused
    run(empty, *re.findall("^HINT:  (ALTER TABLE .*;)$", refused, re.M))
    assert "removed inorder" in tool.uninstall("--yes")
    run(empty, "INSERT INTO u (n) VALUES (1)")


WITH_VALUES = (
    "CREATE TABLE public.events (id uuid PRIMARY KEY DEFAULT inorder.uuid_xact_nextval(), n int)",
    "CREATE TABLE public.log (xact bigint NOT NULL DEFAULT inorder.xact_id(), n int) PARTITION BY LIST (n)",
    "CREATE TABLE public.log_1 PARTITION OF public.log FOR VALUES IN (1)",
    "CREATE TABLE public.parted (xact bigint CHECK (xact IS NOT NULL), n int) PARTITION BY LIST (n)",
    "CREATE TABLE public.parted_1 PARTITION OF public.parted (xact DEFAULT inorder.xact_id()) FOR VALUES IN (1)",
    "CREATE TABLE public.made (x bigint NOT NULL GENERATED ALWAYS AS (inorder.xact_id_generated()) STORED, n int)",
)
INSERTS = tuple(f"INSERT INTO public.{name} (n) VALUES (1)" for name in ("events", "log", "parted_1", "made"))


@pytest.mark.server
@pytest.mark.parametrize("edition", [C, SQL])
def test_columns_keep_their_values_when_the_edition_is_removed(tool: Tool, empty: Connection, edition: str) -> None:
    tool.install("--edition", edition)
    run(empty, "SET ROLE edition_owner", *WITH_VALUES, *INSERTS)
    drop = "DROP EXTENSION inorder" if edition == C else "DROP FUNCTION inorder.xact_id(bigint)"
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="default value for column xact of table log"):
        run(empty, drop)
    refused = tool.uninstall("--yes", code=2)
    for column in ("id of public.events", "xact of public.log", "xact of public.parted_1", "x of public.made"):
        assert refused.count(f"column {column}: ") == 1
    assert "log_1" not in refused and "HINT:  give each column another default" in refused
    run(
        empty, *INSERTS, "ALTER TABLE public.events ALTER COLUMN id SET DEFAULT gen_random_uuid()",
        "ALTER TABLE public.log ALTER COLUMN xact SET DEFAULT 0", "ALTER TABLE public.made DROP COLUMN x",
    )  # fmt: skip
    assert "column xact of public.parted_1" in tool.uninstall("--yes", "--drop-columns", code=2)
    run(
        empty, *INSERTS, "ALTER TABLE public.parted_1 ALTER COLUMN xact SET DEFAULT 0",
        "ALTER TABLE public.log ALTER COLUMN xact SET DEFAULT inorder.xact_id()", "CREATE VIEW public.v AS TABLE log",
    )  # fmt: skip
    failed = tool.uninstall("--yes", "--drop-columns", code=2)
    assert "view public.v depends on column xact" in failed and failed.endswith("HINT:  Nothing was changed.\n")
    run(empty, "ALTER TABLE public.log ALTER COLUMN xact SET DEFAULT 0")
    tool.uninstall("--yes")
    run(empty, *INSERTS)
    assert rows(empty, "SELECT count(*) FROM public.events") == [(4,)]


@pytest.mark.server
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE DOMAIN public.kept AS inorder.feed_batch", "type public.kept"),
        ("CREATE FUNCTION public.f(p inorder.feed_position) RETURNS int LANGUAGE sql RETURN 1", "function public.f("),
        ("CREATE FUNCTION public.f() RETURNS uuid LANGUAGE sql RETURN inorder.uuid_v7_nextval()", "function public.f("),
        ("CREATE TABLE public.t (id uuid, n int);"
         "CREATE STATISTICS public.s ON inorder.uuid_v7_time(id), n FROM public.t", "statistics object public.s"),
        ("CREATE TABLE inorder.mine (n int)", "table inorder.mine"),
        ("CREATE DOMAIN public.key AS uuid DEFAULT inorder.uuid_xact_nextval()", "type public.key"),
    ],
)  # fmt: skip
def test_dependent_objects_outside_of_tables_are_not_removed(
    owners: Tool, installed: Connection, statement: str, named: str
) -> None:
    """DROP SCHEMA CASCADE would also drop these objects, and columns whose type is a dropped domain."""
    run(installed, statement)
    assert named in owners.uninstall("--yes", code=2)


@pytest.mark.server
def test_functions_that_inserts_call_are_not_broken(owners: Tool, installed: Connection) -> None:
    run(
        installed, "CREATE TABLE public.t (id uuid, n int)",
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN NEW.id := inorder.uuid_xact_nextval(); RETURN NEW; END'",
        "CREATE TRIGGER t BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()",
    )  # fmt: skip
    assert "views use them: function public.f()\n" in owners.uninstall("--yes", code=2)
    run(installed, "INSERT INTO public.t (n) VALUES (1)", "DROP TRIGGER t ON public.t")
    assert "function public.f(): its calls of inorder" in owners.uninstall("--yes")


@pytest.mark.server
def test_all_obstacles_are_named_at_once(owners: Tool, installed: Connection) -> None:
    run(
        installed, "CREATE VIEW public.v AS SELECT name FROM inorder.feeds",
        "CREATE TABLE public.t (id uuid PRIMARY KEY DEFAULT inorder.uuid_xact_nextval(), n int)",
        'CREATE TABLE public."B\'s" (id int PRIMARY KEY)', "SELECT inorder.changes_enable('public.\"B''s\"')",
        "CREATE TABLE inorder.mine (n int)",
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN NEW.id := inorder.uuid_xact_nextval(); RETURN NEW; END'",
        "CREATE TRIGGER t BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()",
    )  # fmt: skip
    refused = owners.uninstall("--yes", code=2)
    for named in (
        "the schema has objects that are not part of inorder: table inorder.mine\nHINT:  move them",
        "these objects depend on inorder: view public.v\nHINT:  drop or change",
        "column id of public.t: default, ", "these functions call inorder, and triggers, defaults or views use them",
        "\nHINT:  SELECT inorder.changes_disable('public.\"B''s\"');\n",
    ):  # fmt: skip
        assert named in refused, named


@pytest.mark.server
def test_a_restored_table_takes_no_rows_until_it_is_enabled(cluster: Cluster, tmp_path: Path) -> None:
    with database(cluster) as connection, database(cluster) as restored:
        Tool(cluster, tmp_path, connection).install("--edition", SQL)
        run(connection, EVENTS, "SELECT inorder.feed_create('f', 'public.events')")
        dumped = run_program(cluster, "pg_dump", "--schema-only", connection.info.dbname)
        restored.execute(re.sub(r"^\\.*\n", "", dumped.stdout, flags=re.M).encode())
        run(restored, "RESET ALL")
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match="events accepts no rows: trigger"
        ) as raised:
            run(restored, "INSERT INTO public.events (n) VALUES (1)")
        assert "feed_enable('public.events')" in str(raised.value.diag.message_hint)
        run(restored, "SELECT inorder.feed_enable('public.events')", "INSERT INTO public.events (n) VALUES (1)")


@pytest.mark.server
def test_defaults_of_the_database_do_not_matter(tool: Tool, empty: Connection) -> None:
    """One setting makes PL/pgSQL reject functions that cause warnings. A read-only default is only reported."""
    name = empty.info.dbname
    run(empty, f"ALTER DATABASE {name} SET plpgsql.extra_errors = 'all'")
    tool.install("--edition", SQL)
    tool.uninstall("--yes")
    run(empty, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "sql: SQL edition: transactions are read-only here" in tool.run("install", "--check").stdout.decode()


@pytest.mark.server
def test_the_script_is_a_single_statement(tool: Tool, empty: Connection, tmp_path: Path) -> None:
    script = inorder("install", "--script", folder=tmp_path).stdout
    run(empty, "CREATE SCHEMA inorder_internal")
    with pytest.raises(psycopg.errors.DuplicateSchema) as raised:
        empty.execute(script.encode(), prepare=False)
    assert len(str(raised.value.diag.context)) < 1000
    assert rows(empty, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'inorder_internal'::regnamespace") == [(0,)]
    run(empty, "DROP SCHEMA inorder_internal")
    empty.execute(script.encode())
    assert "installed: inorder" in tool.install("--check")


@pytest.mark.server
def test_the_tool_finds_the_schema(cluster: Cluster, tmp_path: Path, tool: Tool, empty: Connection) -> None:
    """If the tool trusts the installer, it needs no search_path. Otherwise the error names the installer."""
    tool.install("--edition", SQL, "--schema", "elsewhere")
    run(empty, "SET ROLE edition_owner", EVENTS.replace("inorder.", "elsewhere."), "INSERT INTO events (n) VALUES (1)")
    assert tool.run("count", "start", "events").stdout == b"1\n"
    assert tool.run("count", "show", "events").stdout == b"1\n"
    assert tool.run("tail", "events", "--position", "p", "--format", "csv").stdout.endswith(b",1\n")
    assert tool.run("prepare", "events", "--column", "id", "--dry-run").returncode == 0
    run(empty, "SELECT elsewhere.feed_create('f', 'events')")
    assert b"events" in tool.run("feeds").stdout
    run(empty, "RESET ROLE", f"ALTER DATABASE {empty.info.dbname} OWNER TO postgres")
    assert tool.run("count", "show", "events").stdout == b"1\n"
    other = Tool(cluster, tmp_path, empty)
    refused = other.run("count", "show", "events")
    assert (
        refused.returncode == 2 and b'in schema "elsewhere"' in refused.stderr and b'"edition_owner"' in refused.stderr
    )


@pytest.mark.server
def test_the_sql_edition_has_no_feed_read(tool: Tool, empty: Connection) -> None:
    tool.install("--edition", SQL)
    run(
        empty, "SET ROLE edition_owner", "SET search_path = public, inorder", EVENTS,
        "SELECT feed_create('f', 'events')", "INSERT INTO events (n) SELECT generate_series(1, 200)",
    )  # fmt: skip
    position = rows(empty, "SELECT position, unfinished_batch FROM feeds")
    read = "SELECT n FROM feed_read('f', null::events)"
    for statement in (
        read, f"{read} LIMIT 5", f"SELECT EXISTS ({read})", "SELECT feed_read('f', null::events) LIMIT 1",
        "SELECT n FROM feed_read('f', null::events, 5, 'edition_owner')", "SELECT feed_read('none', null::events)",
        f"DO $$ DECLARE m int; BEGIN {read.replace(' n ', ' n INTO m ')}; END $$",
        f"DO $$ DECLARE r record; BEGIN FOR r IN {read} LOOP EXIT; END LOOP; END $$",
        f"DO $$ DECLARE c CURSOR FOR {read}; BEGIN OPEN c; MOVE 5 FROM c; CLOSE c; END $$",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="has no feed_read") as refused:
            run(empty, statement)
        assert "feed_apply(name, statement, max_rows)" in (refused.value.diag.message_hint or ""), statement
    assert rows(empty, "SELECT position, unfinished_batch FROM feeds") == position
    assert rows(empty, "SELECT feed_apply('f', 'SELECT n FROM batch', 5)") == [(5,)]
    with empty.transaction():
        ((batch,),) = rows(empty, "SELECT (feed_take_batch('f', 'w')).number")
        assert len(rows(empty, f"SELECT n FROM feed_batch_rows('f', {batch}, null::events)")) == 195
        run(empty, f"SELECT feed_finish_batch('f', {batch}, token) FROM feed_take_batch('f', 'w')")


@pytest.mark.server
def test_upgrade_and_install_refer_to_each_other(tool: Tool, owners: Tool, installed: Connection) -> None:
    assert "HINT: Run inorder install." in tool.upgrade(code=2)
    assert "is already installed" in owners.upgrade()
    version = (
        "CREATE OR REPLACE FUNCTION inorder_internal.sql_edition() RETURNS text LANGUAGE sql IMMUTABLE RETURN '0.0.1'"
    )
    run(installed, version)
    assert "HINT: Run inorder upgrade." in owners.install(code=2)
    assert "no update of the SQL edition begins with version 0.0.1" in owners.upgrade(code=2)


def test_the_script_is_printed(tmp_path: Path) -> None:
    plain = inorder("install", "--script", "--schema", "elsewhere", folder=tmp_path).stdout
    assert "CREATE SCHEMA elsewhere;" in plain and "@extschema@" not in plain
