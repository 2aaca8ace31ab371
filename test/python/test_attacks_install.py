"""Attacks by roles that may create objects before or after the extension is installed."""

import re
from collections.abc import Iterator
from itertools import count, takewhile

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from attack import ATTACK, assert_no_right_gained, database, operators, overloads, refusal
from conftest import LONG_RUN
from sources import sql_source
from waiting import blocked
from world.sql import run, value

pytestmark = pytest.mark.server

USE = """
CREATE TABLE public.events (id uuid PRIMARY KEY DEFAULT {x}.uuid_xact_nextval('0'::bigint), n int);
CREATE TABLE public.old (k int PRIMARY KEY);
INSERT INTO public.events (n) VALUES (1), (2), (3);
INSERT INTO public.old VALUES (1), (2);
SELECT * FROM {x}.feed_prepare('public.old'::regclass, 'more'::name);
ALTER TABLE public.old ADD COLUMN xact bigint NOT NULL DEFAULT 0;
ALTER TABLE public.old ALTER COLUMN xact SET DEFAULT {x}.xact_id('0'::bigint);
CREATE INDEX ON public.old (xact) WHERE xact > 0;
SELECT {x}.feed_create('a'::text, 'public.events'::regclass, 'beginning'::text, 'id'::name, NULL::name);
SELECT {x}.feed_create('o'::text, 'public.old'::regclass, 'beginning'::text, 'xact'::name, NULL::name);
SELECT {x}.feed_create('c'::text, 'public.old'::regclass, 'beginning'::text, 'xact'::name, 'k'::name);
SELECT * FROM {x}.feed_read('c'::text, null::public.old, 1::int, NULL::regrole);
SELECT * FROM {x}.feed_read('c'::text, null::public.old, 1::int, NULL::regrole);
SELECT * FROM {x}.feed_peek('a'::text, null::public.events, 2::int, NULL::regrole);
SELECT * FROM {x}.feed_read('a'::text, null::public.events, 2::int, NULL::regrole);
SELECT * FROM {x}.feed_read('o'::text, null::public.old, 1::int, NULL::regrole);
INSERT INTO public.events (n) VALUES (4);
SELECT {x}.feed_apply('a'::text, 'SELECT n FROM batch'::text, 2::int, NULL::regrole);
SELECT {x}.feed_wait('o'::text, '0'::interval, NULL::regrole);
SELECT {x}.reader_wait('public.events'::regclass,
                           {x}.reader_start('public.events'::regclass, 'now'::text, NULL::name), '0'::interval);
SELECT ({x}.feed_take_batch('o'::text, 'w', 1::int, owner => NULL::regrole)).number;
SELECT * FROM {x}.feed_batch_rows('o'::text,
    (SELECT f.unfinished_batch FROM {x}.feeds AS f WHERE f.name OPERATOR(pg_catalog.=) 'o'::text),
    null::public.old, NULL::regrole);
SELECT {x}.feed_finish_batch('o'::text, b.number, b.token, NULL::regrole)
FROM {x}.feed_take_batch('o'::text, 'w'::text, 1::int, owner => NULL::regrole) AS b;
INSERT INTO public.events (n) VALUES (5), (6);
SELECT {x}.feed_fail_batch('a'::text, b.number, b.token, 'no'::text, '0'::interval, NULL::regrole)
FROM {x}.feed_take_batch('a'::text, 'w'::text, 1::int, '1 min'::interval, 1::int, NULL::regrole) AS b;
SELECT {x}.feed_retry_batch('a'::text, b.number, NULL::regrole) FROM {x}.feed_batches AS b;
SELECT {x}.feed_renew_batch('a'::text, b.number, b.token, '1 min'::interval, NULL::regrole),
    {x}.feed_finish_batch('a'::text, b.number, b.token, NULL::regrole)
FROM {x}.feed_take_batch('a'::text, 'w'::text, 1::int, '1 min'::interval, 1::int, NULL::regrole) AS b;
SELECT {x}.feed_seek('a'::text, 'now'::text, NULL::regrole);
SELECT {x}.feed_grant('a'::text, 'bob'::regrole, NULL::regrole);
SELECT {x}.feed_revoke('a'::text, 'bob'::regrole, NULL::regrole);
SELECT {x}.exact_count_start('public.events'::regclass, 'id'::name);
SELECT {x}.exact_count('public.events'::regclass), {x}.exact_count_fold('public.events'::regclass);
SELECT * FROM {x}.reader_batch_rows('public.events'::regclass,
    {x}.reader_next_batch('public.events'::regclass,
                         {x}.reader_start('public.events'::regclass, 'beginning'::text, NULL::name), 2::int),
    null::public.events);
SELECT * FROM {x}.feeds;
SELECT * FROM {x}.feed_holders('public.events'::regclass);
SELECT {x}.feed_rebase('public.events'::regclass, 100000::bigint);
SELECT * FROM {x}.uuid_v7_partition_bounds('2024-01-01'::timestamptz, '2024-02-01'::timestamptz, '1 day'::interval);
SELECT {x}.exact_count_stop('public.events'::regclass), {x}.feed_drop('a'::text, NULL::regrole);
SELECT {x}.feed_disable('public.events'::regclass);
"""


@pytest.fixture(scope="module")
def attacked(server: Installation) -> Iterator[Cluster]:
    """Yield a separate server, because roles are shared by all databases of a server."""
    with Cluster(server) as running:
        running.start({"fsync": "off"})
        yield running


@pytest.fixture
def dsn(attacked: Cluster) -> Iterator[str]:
    with database(attacked, "GRANT CREATE ON DATABASE {database} TO mallory") as database_dsn:
        yield database_dsn


@pytest.fixture
def mallory(dsn: str) -> Iterator[Connection]:
    with connect(f"{dsn} user=mallory") as session:
        yield session


def called_names() -> list[str]:
    """Return the names of functions that the script calls.

    The short run includes only every fifth internal function.
    """
    script = sql_source()
    named = set(re.findall(r"\b([a-z_][a-z0-9_]*)\(", script))
    named -= {"if", "in", "values", "operator", "any", "from", "exists", "array", "on", "as", "and", "or"}
    internal = sorted(named & set(re.findall(r"CREATE FUNCTION inorder_internal\.(\w+)\(", script)))
    return sorted(named if LONG_RUN else named.difference(internal) | set(internal[::5]))


def use(dsn: str, schema: str) -> None:
    with connect(dsn) as session:  # a new session has no cached plans
        run(session, "SET search_path = pg_catalog", *USE.format(x=schema).split(";\n")[:-1])


PLANT = """
CREATE FUNCTION pg_temp.plant(traps text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE trap text; taken int := 0;
BEGIN
    FOREACH trap IN ARRAY traps LOOP
        BEGIN EXECUTE trap; EXCEPTION WHEN duplicate_function THEN taken := taken + 1; END;
    END LOOP;
    RETURN taken;
END $$
"""


def plant(mallory: Connection, schema: str) -> None:
    run(mallory, "SET check_function_bodies = off")
    traps = [*overloads(schema, called_names()), *operators(schema)]
    taken_names = value(mallory, "SELECT pg_temp.plant(%s)", traps)
    assert int(str(taken_names)) < len(traps) / 100


@pytest.mark.parametrize("installer", ["mallory", "postgres"])
def test_objects_planted_before_installation_are_never_called(dsn: str, mallory: Connection, installer: str) -> None:
    run(mallory, ATTACK, "CREATE SCHEMA x", PLANT)
    plant(mallory, "x")
    with connect(f"{dsn} user={installer}") as connection:
        # The first attempt may fail because an object with the name of an extension function already exists.
        if refusal(connection, "CREATE EXTENSION inorder SCHEMA x"):
            drop_own(mallory)
            run(connection, "CREATE EXTENSION inorder SCHEMA x")
    formats = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'x'::regnamespace AND proname = 'format'"
    assert value(mallory, formats)
    use(dsn, "x")
    use_again(dsn, "x, pg_catalog")


def drop_own(mallory: Connection) -> None:
    script = sql_source()
    own_names = set(re.findall(r"CREATE (?:FUNCTION|AGGREGATE) @extschema@\.(\w+)\(", script))
    planted = mallory.execute(
        "SELECT oid::regprocedure::text, proname FROM pg_proc WHERE pronamespace = 'x'::regnamespace"
    ).fetchall()
    for signature, name in planted:
        if name in own_names:
            run(mallory, f"DROP FUNCTION {signature}")


def use_again(dsn: str, path: str) -> None:
    statements = [s.strip() for s in USE.format(x="x").split(";\n")[:-1]]
    with connect(dsn) as session:
        run(session, "DROP TABLE public.events, public.old", "BEGIN")
        run(session, *(s for s in statements if s.startswith(("CREATE", "INSERT", "ALTER"))), "COMMIT")
        run(session, f"SET search_path = {path}", *(s for s in statements if s.startswith("SELECT")))


def test_objects_planted_after_installation_are_never_called(dsn: str, mallory: Connection) -> None:
    run(mallory, ATTACK, "CREATE SCHEMA x", PLANT)
    with connect(dsn) as admin:
        run(admin, "CREATE EXTENSION inorder SCHEMA x")
        plant(mallory, "x")
        use(dsn, "x")
        run(admin, "DROP TABLE public.events, public.old")
    if not LONG_RUN:
        return
    run(mallory, "ALTER SCHEMA x RENAME TO y", "CREATE SCHEMA x", "GRANT ALL ON SCHEMA x, y TO PUBLIC")
    plant(mallory, "x")
    use(dsn, "y")


# A schema name that would end a statement if an installation script split the statement at commas.
INJECTED = ",RIGHTARG=int);SELECT evil.attack();--, x, y"
OPERAND = f"{INJECTED.split(', ', maxsplit=1)[0]}, RIGHTARG = x, COMMUTATOR = OPERATOR("[:63]


def test_a_hostile_schema_name_cannot_inject_sql(mallory: Connection) -> None:
    run(
        mallory, ATTACK, 'CREATE SCHEMA "x, y; %s"', f'CREATE SCHEMA "{INJECTED}"',
        f'CREATE TYPE pg_temp."{OPERAND}" AS ENUM ()',
        f'CREATE FUNCTION "{INJECTED}".uuid_v1_lt_time(pg_temp."{OPERAND}", int) RETURNS boolean RETURN true',
    )  # fmt: skip
    # Newer minor versions reject a name that contains two hyphens.
    assert refusal(mallory, f'CREATE EXTENSION inorder SCHEMA "{INJECTED}"') in ("", "22P02")
    run(mallory, "DROP EXTENSION IF EXISTS inorder", 'CREATE EXTENSION inorder SCHEMA "x, y; %s"')
    compared = value(mallory, """SELECT now() OPERATOR("x, y; %s".<~) "x, y; %s".uuid_v1_nextval()""")
    assert compared in (True, False)


# Changes that the owner of the schema or of its functions might make.
MEDDLING = (
    "CREATE TABLE inorder_internal.t ()",
    "CREATE FUNCTION inorder_internal.one_number(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE VIEW inorder_internal.v AS SELECT 1",
    "CREATE TYPE inorder_internal.t AS ENUM ()",
    "ALTER SCHEMA inorder_internal RENAME TO other",
    "ALTER SCHEMA inorder_internal OWNER TO mallory",
    "DROP SCHEMA inorder_internal CASCADE",
    "ALTER FUNCTION inorder_internal.one_number(bigint) OWNER TO mallory",
    "ALTER FUNCTION inorder_internal.one_number(bigint) SET search_path = evil",
    "DROP FUNCTION inorder_internal.one_number(bigint)",
    "ALTER FUNCTION evil.feed_read(text, anyelement, int, regrole) RENAME TO old",
    "DROP FUNCTION evil.feed_read(text, anyelement, int, regrole)",
    "ALTER EXTENSION inorder DROP FUNCTION inorder_internal.one_number(bigint)",
    "ALTER EXTENSION inorder DROP FUNCTION evil.reader_advance(evil.feed_position, evil.feed_batch)",
    "ALTER EXTENSION inorder SET SCHEMA public",
    "ALTER TYPE inorder_internal.role_ref ADD ATTRIBUTE more int",
    "ALTER TYPE evil.feed_position ADD ATTRIBUTE more int",
    "CREATE OR REPLACE VIEW evil.feeds AS SELECT evil.attack()",
    "CREATE OR REPLACE FUNCTION evil.feed_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
)
# Changes that the owner of the tables in the schema might make.
MEDDLING_WITH_TABLES = (
    "CREATE TRIGGER t BEFORE INSERT ON inorder_internal.{table} FOR EACH ROW EXECUTE FUNCTION evil.feed_guard()",
    "CREATE RULE r AS ON UPDATE TO inorder_internal.{table} DO ALSO SELECT evil.attack()",
    "CREATE POLICY p ON inorder_internal.{table} USING (evil.attack())",
    "ALTER TABLE inorder_internal.{table} ENABLE ROW LEVEL SECURITY",
    "CREATE INDEX ON inorder_internal.{table} ((evil.attack()))",
    "ALTER TABLE inorder_internal.{table} ADD CHECK (evil.attack())",
    "ALTER TABLE inorder_internal.{table} OWNER TO mallory",
    "CREATE TABLE child () INHERITS (inorder_internal.{table})",
    "CREATE TABLE evil.ref (r regclass REFERENCES inorder_internal.{table})",
    "DROP TABLE inorder_internal.{table}",
    "TRUNCATE inorder_internal.{table}",
    "UPDATE inorder_internal.{table} SET relation = relation",
    "DELETE FROM inorder_internal.{table}",
    "SELECT FROM inorder_internal.{table} FOR UPDATE",
    "DO $$ BEGIN LOCK TABLE inorder_internal.{table} IN ACCESS EXCLUSIVE MODE; END $$",
    "ALTER EXTENSION inorder DROP TABLE inorder_internal.{table}",
    "ALTER TABLE inorder_internal.{table} ALTER relation SET DEFAULT 0",
)


def test_the_installer_owns_no_object_of_the_internal_schema(dsn: str, mallory: Connection) -> None:
    run(mallory, ATTACK, "CREATE EXTENSION inorder SCHEMA evil")
    tables = ("feed", "feed_table", "counted_table", "count_part")
    of_tables = [statement.format(table=table) for table in tables for statement in MEDDLING_WITH_TABLES]
    for statement in (*MEDDLING, *of_tables):
        assert refusal(mallory, statement) in ("42501", "0A000", "2BP01", "42809", "42830"), statement
    # GRANT only emits a warning here, and grants nothing on these objects.
    run(mallory, "GRANT USAGE ON SCHEMA inorder_internal TO bob", "GRANT ALL ON inorder_internal.feed TO bob")
    assert value(mallory, "SELECT has_schema_privilege('bob', 'inorder_internal', 'USAGE')") is False
    assert value(mallory, "SELECT has_table_privilege('bob', 'inorder_internal.feed', 'SELECT')") is False
    assert refusal(mallory, "SELECT count(*) FROM inorder_internal.feed") == ""
    assert refusal(mallory, "SELECT inorder_internal.sweep()") == "42501"
    use(dsn, "evil")


def test_default_privileges_grant_nothing_on_the_state(attacked: Cluster) -> None:
    with database(attacked) as dsn, connect(dsn) as admin:
        for kind in ("TABLES", "FUNCTIONS", "SCHEMAS", "TYPES"):
            run(admin, f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO mallory, PUBLIC")
        run(admin, "CREATE EXTENSION inorder")
        with connect(f"{dsn} user=mallory") as mallory:
            for table in ("feed", "feed_table", "counted_table", "count_part"):
                assert refusal(mallory, f"SELECT FROM inorder_internal.{table}") == "42501"
            assert value(mallory, "SELECT has_schema_privilege('inorder_internal', 'USAGE')") is False


def test_a_planted_internal_schema_makes_the_installation_fail(dsn: str, mallory: Connection) -> None:
    run(mallory, "CREATE SCHEMA inorder_internal")
    with connect(dsn) as admin:
        assert refusal(admin, "CREATE EXTENSION inorder") == "42P06"


# Objects that a call would use if it looked them up by name after waiting for its lock.
IMPOSTORS = """
CREATE SCHEMA inorder_internal;
GRANT USAGE ON SCHEMA inorder_internal TO PUBLIC;
CREATE VIEW inorder_internal.feed AS SELECT 1::bigint AS id, 'f'::text AS name, oid AS owner, rolname AS owner_name,
    '{}'::text[] AS movers, 0::oid AS relation, ''::text AS system FROM pg_roles WHERE rolname = 'mallory';
GRANT SELECT ON inorder_internal.feed TO PUBLIC;
CREATE FUNCTION inorder_internal.may_see(oid, inorder_internal.feed) RETURNS boolean LANGUAGE sql
    AS 'SELECT evil.attack()';
CREATE FUNCTION inorder_internal.may_move(oid, inorder_internal.feed) RETURNS boolean LANGUAGE sql
    AS 'SELECT evil.attack()';
CREATE FUNCTION inorder_internal.is_right(oid, name, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.attack()';
CREATE FUNCTION inorder_internal.owns(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT evil.attack()';
CREATE FUNCTION inorder_internal.role_name(oid) RETURNS name LANGUAGE sql AS 'SELECT evil.attack()::text::name';
CREATE FUNCTION inorder_internal.say_unknown(text, oid, oid) RETURNS void LANGUAGE sql AS 'SELECT evil.attack()';
CREATE FUNCTION inorder_internal.find_feed(text, oid, oid) RETURNS bigint LANGUAGE sql
    AS 'SELECT evil.attack()::int::bigint';
"""


def test_an_installer_who_drops_the_extension_during_a_call_gains_nothing(dsn: str, mallory: Connection) -> None:
    with connect(f"{dsn} user=mallory") as waiting:
        run(mallory, ATTACK, "CREATE EXTENSION inorder SCHEMA evil")
        run(mallory, "CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT evil.uuid_xact_nextval())")
        run(mallory, "SELECT evil.feed_create('f', 'evil.t')", "SELECT evil.feed_create('g', 'evil.t')")
        run(waiting, "SELECT evil.feed_drop('g')")
        run(mallory, "BEGIN", "DROP EXTENSION inorder CASCADE", *IMPOSTORS.split(";\n")[:-1])
        with blocked(refusal, waiting, "SELECT evil.feed_drop('f')") as call:
            run(mallory, "COMMIT")
            assert call.result() == "55000"


# Code of an installer who also owns a table. The planner evaluates this code for each query on the table. At a chosen
# evaluation, the code drops the extension and creates the internal functions again with the installer's own code.
SWAP = """
CREATE TABLE evil.planted AS SELECT format(
    'CREATE FUNCTION inorder_internal.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
    '$$BEGIN PERFORM evil.attack(); RETURN %s; END$$',
    p.proname, pg_get_function_identity_arguments(p.oid), p.prorettype::regtype,
    CASE WHEN p.prorettype = 'void'::regtype THEN '' ELSE 'NULL' END) AS statement
    FROM pg_proc AS p WHERE p.pronamespace = 'inorder_internal'::regnamespace AND NOT p.proretset AND p.prokind = 'f'
      AND p.prorettype NOT IN ('cstring'::regtype, 'trigger'::regtype, 'record'::regtype, 'anyelement'::regtype)
      AND (SELECT bool_and(t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype <> 'p')
           FROM pg_type AS t WHERE t.oid = ANY (p.proargtypes::oid[] || p.prorettype) AND t.oid <> 'void'::regtype);
CREATE SEQUENCE evil.looks;
CREATE FUNCTION evil.swap() RETURNS int LANGUAGE plpgsql AS $f$
DECLARE
    planted text;
BEGIN
    IF nextval('evil.looks')::text = current_setting('evil.place', true) THEN
        DROP EXTENSION inorder CASCADE;
        CREATE SCHEMA inorder_internal;
        GRANT USAGE ON SCHEMA inorder_internal TO PUBLIC;
        FOR planted IN SELECT statement FROM evil.planted LOOP
            EXECUTE planted;
        END LOOP;
    END IF;
    RETURN 1;
END $f$;
CREATE FUNCTION evil.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN evil.swap(); END';
CREATE TABLE evil.t (k int PRIMARY KEY, xact bigint NOT NULL DEFAULT evil.xact_id(), n bigint NOT NULL DEFAULT 1);
CREATE INDEX ON evil.t (xact) WHERE xact > 0;
CREATE STATISTICS evil.s ON (k + evil.one(1)) FROM evil.t;
ANALYZE evil.t;
SELECT evil.feed_create('f', 'evil.t'),
    evil.feed_create('w', 'evil.t', partition_by => 'n', shares => 2), evil.exact_count_start('evil.t');
INSERT INTO evil.t SELECT generate_series(1, 100)"""
SWAPPED = (
    "SELECT (evil.feed_take_batch('f', 'w', 5)).number",
    "SELECT evil.feed_take_batch('w', 'x', 5)",
    "SELECT evil.exact_count_fold('evil.t')",
)


def test_an_installer_whose_code_drops_the_extension_in_a_call_gains_nothing(dsn: str, mallory: Connection) -> None:
    """The installer's code runs in the calling session, so the locks of that session do not block it."""
    run(mallory, ATTACK, "CREATE EXTENSION inorder SCHEMA evil", SWAP)
    assert value(mallory, "SELECT count(*) > 50 FROM evil.planted")
    outcomes = set[str | None]()
    for call in SWAPPED:
        places = count(1, 1 if LONG_RUN else 3)
        ends = list(takewhile(lambda end: end is not None, (swap(dsn, call, place) for place in places)))
        assert_no_right_gained(dsn)
        # XX000: the attacker's own query was being planned, and an object that it uses was dropped.
        assert set(ends) <= {"55000", "XX000"} and ("55000" in ends or not LONG_RUN), (call, ends)
        outcomes |= set(ends)
    assert "55000" in outcomes


def swap(dsn: str, call: str, place: int) -> str | None:
    """Run a call whose n-th evaluation of the owner's code drops the extension, and return the error code.

    Return None if the call evaluates the code fewer than n times.
    """
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, f"SELECT setval('evil.looks', 1, false), set_config('evil.place', '{place}', false)", "BEGIN")
        refused = refusal(mallory, call)
        run(mallory, "ROLLBACK")
        return refused if value(mallory, f"SELECT last_value >= {place} FROM evil.looks") else None
