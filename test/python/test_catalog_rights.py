"""Privileges in the catalog after every kind of object was created: no object gives away its owner's rights.

The default privileges of all roles that create objects grant everything to PUBLIC, as a careless administrator might
do.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from ground import state
from sql_edition import BARE, BUILT, TESTED, create
from world.sql import run

pytestmark = pytest.mark.server

DUPLICATE = "42710"  # duplicate_object
EDITIONS = ("c", "sql") if TESTED == "c" else ("sql",)
KINDS = ("TABLES", "SEQUENCES", "FUNCTIONS", "TYPES", "SCHEMAS")
# Statements that create each kind of object, run as the owner of the tables.
MAKES = (
    "CREATE TABLE app.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int NOT NULL, at bigserial NOT NULL)",
    "CREATE INDEX ON app.t (at)",
    "CREATE TABLE app.g (n int PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)",
    "CREATE INDEX ON app.g (xact)",
    "CREATE TABLE app.old (n int PRIMARY KEY)",
    "CREATE TABLE app.p (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n)",
    "CREATE TABLE app.p_1 PARTITION OF app.p FOR VALUES IN (1)",
    "CREATE TABLE app.c (n int PRIMARY KEY, note text)",
    "CREATE TABLE app.cp (n int PRIMARY KEY, note text) PARTITION BY RANGE (n)",
    "CREATE TABLE app.cp_1 PARTITION OF app.cp FOR VALUES FROM (0) TO (9)",
    "SELECT feed_enable(t) FROM unnest('{app.t,app.g,app.p}'::regclass[]) AS t",
    "SELECT feed_create('t', 'app.t'), feed_create('whole', 'app.t', whole_transactions => true)",
    "SELECT feed_create('order', 'app.t', order_column => 'at')",
    "SELECT feed_create('shares', 'app.t', partition_by => 'n', shares => 2)",
    "SELECT feed_create('g', 'app.g'), feed_create('p', 'app.p'), feed_create('w', 'app.t')",
    "SELECT exact_count_start(t) FROM unnest('{app.t,app.g,app.p}'::regclass[]) AS t",
    "INSERT INTO app.t (n) SELECT generate_series(1, 9)",
    "INSERT INTO app.p (n) VALUES (1)",
    "SELECT exact_count_fold('app.t'), exact_count('app.t')",
    "SELECT feed_apply('t', 'SELECT FROM batch', 2), feed_apply('order', 'SELECT FROM batch', 2)",
    "SELECT (feed_take_batch('whole', 'w')).number",
    "SELECT feed_fail_batch('w', number, token, 'no') FROM feed_take_batch('w', 'one', 1, max_tries => 1)",
    "SELECT * FROM feed_take_batch('w', 'two', 1)",
    "SELECT * FROM feed_take_batch('shares', 'one', 1)",
    "SELECT feed_rename('g', 'other'), feed_passed('app.t'), feed_passed_partitions('app.p')",
    "SELECT reader_next_batch('app.t', reader_start('app.t', order_column => 'at'))",
    "SELECT feed_rebase('app.t', 100000)",
    "SELECT changes_enable('app.c'), changes_enable('app.cp')",
    "CREATE INDEX ON app.c_changes (change)",
    "SELECT feed_create('changes', 'app.c_changes'), changes_resync('app.cp')",
    "INSERT INTO app.c VALUES (1), (2)",
    "INSERT INTO app.cp VALUES (1), (2)",
    "SELECT feed_create('gone', 'app.t'), (feed_take_batch('gone', 'w')).number, feed_drop('gone')",
)


@pytest.fixture(scope="module")
def made(server: Installation) -> Iterator[dict[str, Connection]]:
    """Yield one session per edition, in a database that has every kind of object."""
    with Cluster(server, BUILT) as running, ExitStack() as stack:
        running.start({"fsync": "off"})
        with connect(running.dsn) as admin:
            run(admin, "CREATE ROLE made_stranger LOGIN", "CREATE ROLE made_owner LOGIN")
            run(admin, *(f"CREATE DATABASE made_{edition}" for edition in EDITIONS))
        sessions = {}
        for edition in EDITIONS:
            session = stack.enter_context(connect(f"{running.dsn} dbname=made_{edition}"))
            for role in ("postgres", "made_owner"):
                run(session, *(f"ALTER DEFAULT PRIVILEGES FOR ROLE {role} GRANT ALL ON {kind} TO made_stranger, PUBLIC"
                               for kind in KINDS))  # fmt: skip
            create(session, edition, admitted="SELECT feed_admit('made_owner')")
            run(session, "CREATE SCHEMA app AUTHORIZATION made_owner", "SET ROLE made_owner", *MAKES)
            prepare = session.execute(b"SELECT feed_prepare('app.old')").fetchall()
            run(session, *(str(statement) for (statement,) in prepare), "RESET ROLE")
            sessions[edition] = session
        yield sessions


@pytest.fixture(params=EDITIONS)
def catalog(made: dict[str, Connection], request: pytest.FixtureRequest) -> Connection:
    return made[str(request.param)]


def names(connection: Connection, query: str) -> list[str]:
    return [str(row[0]) for row in connection.execute(query.encode()).fetchall()]


def is_sql(connection: Connection) -> bool:
    return names(connection, "SELECT to_regproc('inorder_internal.sql_edition')") != ["None"]


OF_OTHERS = "NOT IN ('pg_catalog', 'information_schema')"
# Log trigger functions of the SQL edition. They qualify each name, and run as the writing role.
LOGS = ["app.c_changes()", "app.cp_changes()"]
OF_LOGS = ["c_changes", "cp_changes"]


def test_no_function_is_security_definer(catalog: Connection) -> None:
    lent = f"SELECT p.proname FROM pg_proc AS p WHERE p.prosecdef AND p.pronamespace::regnamespace::text {OF_OTHERS}"
    assert names(catalog, lent) == []


# Functions that do not set search_path. The query leaves out internal functions that only the owner of the state may
# execute: in the C extension, state.c sets their search_path. In the SQL edition, the functions in BARE qualify each
# name, as test_sql_edition_rights.py checks.
UNPINNED = f"""
    SELECT p.oid::regprocedure FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
    WHERE p.pronamespace::regnamespace::text {OF_OTHERS} AND l.lanname IN ('plpgsql', 'sql')
      AND p.prosqlbody IS NULL AND 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig) IS NOT TRUE
      AND NOT (p.pronamespace = 'inorder_internal'::regnamespace
               AND NOT EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                               WHERE a.grantee <> p.proowner)
               AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_proc'::regclass
                               AND d.refobjid = p.oid AND d.classid <> 'pg_proc'::regclass))
    ORDER BY p.proname"""


def test_functions_with_a_text_body_set_their_own_search_path(catalog: Connection) -> None:
    functions = names(catalog, UNPINNED)
    assert [name for name in functions if name in LOGS] == (LOGS if is_sql(catalog) else [])
    functions = [name for name in functions if name not in LOGS]
    bare = {name.removeprefix("inorder_internal.").partition("(")[0] for name in functions}
    assert bare == (set(BARE) if is_sql(catalog) else set())


def test_public_can_execute_only_trigger_functions_that_check_their_call(catalog: Connection) -> None:
    """test_attacks_tables.py creates triggers with these functions, and shows that the functions check their caller."""
    triggers = names(
        catalog,
        "SELECT p.proname FROM pg_proc AS p WHERE p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype) "
        f"AND p.pronamespace::regnamespace::text {OF_OTHERS} "
        "AND has_function_privilege('made_stranger', p.oid, 'EXECUTE') ORDER BY 1",
    )
    # In the SQL edition, changes_enable() creates functions owned by the table's owner, and the default privileges of
    # that owner apply.
    assert triggers == (OF_LOGS if is_sql(catalog) else ["changes_trigger", "exact_count_trigger", "feed_guard"])


OURS = "('inorder_internal', 'inorder_text')"
GRANTED = f"""
    SELECT concat(o.kind, ' ', o.name, ' ', a.privilege_type) FROM (
        SELECT 'schema' AS kind, n.nspname::text AS name, n.nspname AS schema, n.nspacl AS acl, n.nspowner AS owner
        FROM pg_namespace AS n
        UNION ALL SELECT 'relation', c.oid::regclass::text, c.relnamespace::regnamespace::text, c.relacl, c.relowner
        FROM pg_class AS c
        UNION ALL SELECT 'column', concat(a.attrelid::regclass, '.', a.attname), c.relnamespace::regnamespace::text,
               a.attacl, c.relowner FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        UNION ALL SELECT 'function', p.oid::regprocedure::text, p.pronamespace::regnamespace::text, p.proacl, p.proowner
        FROM pg_proc AS p
        UNION ALL SELECT 'type', t.oid::regtype::text, t.typnamespace::regnamespace::text, t.typacl, t.typowner
        FROM pg_type AS t) AS o CROSS JOIN LATERAL aclexplode(o.acl) AS a
    WHERE o.schema IN {OURS} AND a.grantee = {{}} ORDER BY 1"""


def test_default_privileges_grant_no_right_on_objects_of_the_extension(catalog: Connection) -> None:
    assert names(catalog, GRANTED.format("'made_stranger'::regrole")) == []


def test_public_has_only_the_documented_privileges_on_the_state(catalog: Connection) -> None:
    """In the SQL edition PUBLIC has no privileges, because feed_admit() admits each role by name."""
    privileges = {
        name.partition(" ")[0] + " " + name.rpartition(" ")[2] for name in names(catalog, GRANTED.format("0"))
    }
    assert privileges == (set() if is_sql(catalog) else {"schema USAGE", "function EXECUTE"})
    schemas = [name for name in names(catalog, GRANTED.format("0")) if name.startswith("schema")]
    assert schemas == ([] if is_sql(catalog) else ["schema inorder_text USAGE"])


# Objects attached to the state tables that would run code, add rows or take locks when other roles use the tables.
ATTACHED = f"""
    SELECT concat('trigger ', g.tgname) FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid
    JOIN pg_proc AS p ON p.oid = g.tgfoid
    WHERE c.relnamespace::regnamespace::text IN {OURS}
      AND p.pronamespace::regnamespace::text NOT IN ('inorder_internal', 'pg_catalog')
    UNION ALL SELECT concat('rule ', w.rulename, ' on ', w.ev_class::regclass) FROM pg_rewrite AS w
    JOIN pg_class AS c ON c.oid = w.ev_class
    WHERE c.relnamespace::regnamespace::text IN {OURS}
    UNION ALL SELECT concat('policy ', y.polname) FROM pg_policy AS y JOIN pg_class AS c ON c.oid = y.polrelid
    WHERE c.relnamespace::regnamespace::text IN {OURS}
    UNION ALL SELECT concat('child ', i.inhrelid::regclass) FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhparent
    WHERE c.relnamespace::regnamespace::text IN {OURS}
    UNION ALL SELECT concat('reference ', k.conname) FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.confrelid
    WHERE c.relnamespace::regnamespace::text IN {OURS} AND k.conrelid <> k.confrelid
    UNION ALL SELECT concat('owned by another ', c.oid::regclass) FROM pg_class AS c
    WHERE c.relnamespace::regnamespace::text IN {OURS} AND c.relowner <> 'postgres'::regrole
    UNION ALL SELECT concat('expression of index ', i.indexrelid::regclass) FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indrelid
    WHERE c.relnamespace::regnamespace::text IN {OURS} AND i.indexprs IS NOT NULL"""


def test_no_object_of_another_role_depends_on_the_state(catalog: Connection) -> None:
    assert names(catalog, ATTACHED) == []
    # Check that the query finds such objects.
    run(catalog, "BEGIN", "CREATE RULE r AS ON UPDATE TO inorder_internal.counted_table DO ALSO NOTHING",
        "CREATE TABLE child () INHERITS (inorder_internal.counted_table)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER t BEFORE INSERT ON inorder_internal.counted_table EXECUTE FUNCTION f()",
        "CREATE POLICY p ON inorder_internal.counted_table")  # fmt: skip
    assert [name.partition(" ")[0] for name in names(catalog, ATTACHED)] == ["trigger", "rule", "policy", "child"]
    run(catalog, "ROLLBACK")


# Triggers whose names are reserved for the extension, with their functions.
OF_OUR_NAMES = """
    SELECT DISTINCT concat(g.tgname, ' ', p.proname) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
    WHERE g.tgname LIKE '%inorder%' ORDER BY 1"""


def test_triggers_with_names_of_the_extension_belong_to_it(catalog: Connection) -> None:
    triggers = [name for name in names(catalog, OF_OUR_NAMES) if "_changes_" not in name]
    of_logs = {"check_marker", "check_writer"} if is_sql(catalog) else {"changes_trigger"}
    assert {name.rpartition(" ")[2] for name in triggers} == {"feed_guard"} | of_logs


TAKEN = ("zz_inorder_guard", "zz_inorder_update", "zz_inorder_truncate")
ENABLE = "SELECT feed_enable('app.taken')"


def test_a_trigger_of_another_role_with_a_name_of_the_extension_is_not_accepted(catalog: Connection) -> None:
    """A role that had the TRIGGER privilege created the trigger, and REVOKE does not drop it.

    feed_enable() replaces the trigger or fails.
    """
    run(catalog, "CREATE TABLE app.taken (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())",
        "ALTER TABLE app.taken OWNER TO made_owner", "GRANT CREATE, USAGE ON SCHEMA app TO made_stranger",
        "GRANT ALL ON app.taken TO made_stranger", "SET ROLE made_stranger",
        "CREATE FUNCTION app.theirs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "RESET ROLE")  # fmt: skip
    ends = {}
    for name in TAKEN:
        event = "TRUNCATE" if name.endswith("truncate") else "INSERT"
        create_trigger = (
            f"CREATE TRIGGER {name} AFTER {event} ON app.taken FOR EACH STATEMENT EXECUTE FUNCTION app.theirs()"
        )
        run(catalog, "BEGIN", "SET ROLE made_stranger", create_trigger, "RESET ROLE", "SET ROLE made_owner")
        run(catalog, "REVOKE ALL ON app.taken FROM made_stranger", "SAVEPOINT s")
        ends[name] = state(catalog, ENABLE)
        if not ends[name]:
            assert not [trigger for trigger in names(catalog, OF_OUR_NAMES) if "theirs" in trigger], name
        run(catalog, "ROLLBACK")
    assert ends == dict.fromkeys(TAKEN, "")
    # feed_enable() does not drop triggers of a partition added later.
    partition = "CREATE TABLE app.p_2 PARTITION OF app.p FOR VALUES IN (2)"
    create_trigger = "CREATE TRIGGER zz_inorder_truncate AFTER TRUNCATE ON app.p_2 EXECUTE FUNCTION app.theirs()"
    run(catalog, "BEGIN", "SET ROLE made_owner", partition)
    run(catalog, "SET ROLE made_stranger", create_trigger, "SET ROLE made_owner")
    assert state(catalog, "SELECT feed_enable('app.p')") == DUPLICATE
    run(catalog, "ROLLBACK", "DROP TABLE app.taken", "DROP FUNCTION app.theirs()")
