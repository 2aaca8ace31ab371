"""Attacks on runs of the tool by a role that may create objects in the schema of the extension."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inorder.connection.database import connect, query
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

import preloaded
from attack import ATTACK, database
from waiting import PATIENCE
from world.sql import run, value

pytestmark = pytest.mark.server

TABLES = """
CREATE TABLE public.events (id uuid PRIMARY KEY DEFAULT open.uuid_xact_nextval(), n int);
CREATE TABLE public.old (id int PRIMARY KEY);
CREATE TABLE public.changed (id int PRIMARY KEY);
INSERT INTO public.events (n) VALUES (1), (2);
INSERT INTO public.changed VALUES (1);
SELECT open.feed_create('f', 'public.events'), open.exact_count_start('public.events');
"""
# Overloads that match a call at least as well as the extension's function. They have only the arguments of the call, or
# a table's row type instead of anyelement.
OVERLOADS = """
SELECT format('CREATE FUNCTION open.%I(%s) RETURNS %s%s LANGUAGE plpgsql AS $$'
              'BEGIN PERFORM evil.attack(); RETURN%s; END$$',
              p.proname, array_to_string(a.types, ', '), CASE WHEN p.proretset THEN 'SETOF ' END,
              CASE WHEN p.prorettype = 'anyelement'::regtype THEN t.named ELSE p.prorettype::regtype::text END,
              CASE WHEN NOT p.proretset AND p.prorettype <> 'void'::regtype THEN ' NULL' END)
FROM pg_proc AS p
CROSS JOIN unnest('{public.events,public.changed}'::text[]) AS t(named)
CROSS JOIN generate_series(p.pronargs - p.pronargdefaults::int, p.pronargs) AS n(given)
CROSS JOIN LATERAL (
    SELECT ARRAY(SELECT concat(p.proargnames[k.place], ' ',
                               CASE WHEN k.type = 'anyelement'::regtype THEN t.named ELSE k.type::regtype::text END)
                 FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS k(type, place)
                 WHERE k.place <= n.given OR p.proargnames[k.place] = 'owner' ORDER BY k.place) AS types) AS a
WHERE p.pronamespace = 'open'::regnamespace AND p.proowner <> 'mallory'::regrole AND p.prokind = 'f'
  AND p.proargnames IS NOT NULL
  AND (cardinality(a.types) < p.pronargs OR 'anyelement'::regtype = ANY (p.proargtypes::oid[]))
GROUP BY 1
"""
COMMANDS = (
    "tail public.events --position p", "tail public.events --position c --format csv", "tail --feed f",
    "count fold public.events", "feeds", "prepare public.old", "tail public.old --position o",
    "prepare public.changed --changes --feed g", "tail public.changed --changes --position x",
    "tail public.events --position a --format arrow", "prepare public.old --undo --drop-column",
)  # fmt: skip


@pytest.fixture(scope="module")
def attacked(server: Installation) -> Iterator[Cluster]:
    with Cluster(server) as running:
        running.start({"fsync": "off"})
        yield running


def test_no_overload_of_another_role_is_called(attacked: Cluster, tmp_path: Path) -> None:
    with database(attacked, "GRANT CREATE ON DATABASE {database} TO mallory") as dsn:
        with connect(f"{dsn} user=mallory") as mallory:
            run(mallory, ATTACK)
        with connect(dsn) as admin:
            run(admin, "CREATE SCHEMA open", "GRANT USAGE, CREATE ON SCHEMA open TO mallory")
            run(admin, "CREATE EXTENSION inorder SCHEMA open", TABLES)
            database_name = value(admin, "SELECT current_database()")
        with connect(f"{dsn} user=mallory") as mallory:
            planted = [str(statement) for (statement,) in mallory.execute(OVERLOADS.encode()).fetchall()]
            assert len(planted) > 30
            for call in planted:
                run(mallory, call)
        environment = attacked.environment() | {"PGDATABASE": str(database_name), "PGUSER": "postgres"}
        runs = [preloaded.run(command.split(), tmp_path, environment, PATIENCE) for command in COMMANDS]
        assert [done.returncode for done in runs] == [0] * len(COMMANDS), runs


def test_an_advisory_lock_of_another_role_does_not_block_tail(attacked: Cluster, tmp_path: Path) -> None:
    with database(attacked) as dsn, connect(dsn) as admin, connect(f"{dsn} user=mallory") as mallory:
        run(admin, "CREATE EXTENSION inorder", "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
        run(admin, "SELECT feed_create('f', 't')", "INSERT INTO t DEFAULT VALUES")
        key = "hashtextextended(concat_ws(' ', 'inorder tail', 'postgres'::regrole::oid, 'f'), 0)"
        run(mallory, f"SELECT pg_advisory_lock({key})")
        assert value(admin, f"SELECT pg_try_advisory_lock({key})") is False
        environment = attacked.environment() | {"PGDATABASE": admin.info.dbname, "PGUSER": "postgres"}
        done = preloaded.run(["tail", "--feed", "f"], tmp_path, environment, PATIENCE)
        assert done.returncode == 0 and done.stdout.count(b"\n") == 1, done


# Expressions that the planner evaluates for a query on the table.
PLANNED = (
    "CREATE INDEX ON evil.t ((n + evil.one(1)))", "CREATE INDEX ON evil.t (n) WHERE n > evil.one(1)",
    "CREATE STATISTICS evil.s ON (n + evil.one(1)), (n - evil.one(1)) FROM evil.t",
    "ALTER TABLE evil.t ADD EXCLUDE USING btree (n WITH =) WHERE (n > evil.one(1))",
)  # fmt: skip


def test_a_superuser_who_prepares_a_table_runs_no_code_of_its_owner(attacked: Cluster, tmp_path: Path) -> None:
    """With the C extension, a superuser who runs inorder prepare runs no code of the table's owner.

    In the SQL edition, the superuser does run such code: see docs/security.md.
    """
    with database(attacked, "GRANT CREATE ON DATABASE {database} TO mallory") as dsn, connect(dsn) as admin:
        run(admin, "CREATE EXTENSION inorder")
        with connect(f"{dsn} user=mallory") as mallory:
            run(mallory, ATTACK, "CREATE TABLE evil.t (id serial PRIMARY KEY, n int)")
            run(mallory, "CREATE FUNCTION evil.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
                    "'BEGIN PERFORM evil.attack(); RETURN 1; END'")  # fmt: skip
            run(mallory, *PLANNED, "INSERT INTO evil.t (n) VALUES (1), (2)")
        environment = attacked.environment() | {"PGDATABASE": admin.info.dbname, "PGUSER": "postgres"}
        commands = [f"prepare evil.t {option}" for option in ("--dry-run", "", "--dry-run", "--undo", "")]
        runs = [preloaded.run(command.split(), tmp_path, environment, PATIENCE) for command in commands]
        assert [done.returncode for done in runs] == [0] * len(commands), runs
        run(admin, "SELECT feed_enable('evil.t')", "SELECT feed_rebase('evil.t', 1000000)")


def test_no_function_in_a_schema_of_another_role_is_called(attacked: Cluster, tmp_path: Path) -> None:
    """The owner of the schema could rename it while the tool runs, and create another schema with its name."""
    with database(attacked, "GRANT CREATE ON DATABASE {database} TO mallory") as dsn:
        with connect(f"{dsn} user=mallory") as mallory:
            run(mallory, ATTACK, "CREATE EXTENSION inorder SCHEMA evil")
        with connect(dsn) as admin:
            name = str(value(admin, "SELECT current_database()"))
        for user, code in (("postgres", 2), ("alice", 2), ("mallory", 0)):
            environment = attacked.environment() | {"PGDATABASE": name, "PGUSER": user}
            done = preloaded.run(["feeds"], tmp_path, environment, PATIENCE)
            assert done.returncode == code, done
            assert code == 0 or (
                b'inorder is in schema "evil"' in done.stderr and b'belongs to role "mallory"' in done.stderr
            )
            with own_server(f"{dsn} user={user}") as path:
                assert ("evil" in path) == (user == "mallory")


def test_the_laboratory_calls_no_function_in_a_schema_where_others_may_create(attacked: Cluster) -> None:
    with database(attacked) as dsn, connect(dsn) as admin:
        run(admin, "CREATE SCHEMA open", "CREATE EXTENSION inorder SCHEMA open")
        for statement, is_found in (
            ("SELECT", True), ("GRANT USAGE ON SCHEMA open TO PUBLIC", True),
            ("GRANT CREATE ON SCHEMA open TO mallory", False), ("REVOKE CREATE ON SCHEMA open FROM mallory", True),
            ("GRANT CREATE ON SCHEMA open TO PUBLIC", False),
        ):  # fmt: skip
            run(admin, statement)
            with own_server(dsn) as path:
                assert ("open" in path) == is_found, statement


@contextmanager
def own_server(dsn: str) -> Iterator[str]:
    """Yield the search_path with which inorder lab looks up the extension's functions."""
    with connect(dsn) as session:
        session.execute(query("own_search_path"))
        yield str(value(session, "SHOW search_path"))
