"""The SQL edition with roles that have no special privileges: they install, use, attack and restore it."""

import tempfile
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import errors

from conftest import copy_of
from sql_edition import BARE, install, write_edition
from world.server import run_program
from world.sql import rows, run

pytestmark = pytest.mark.server

# Built-in functions. A function without its own search_path could call user-defined functions with these names.
SHADOWED = (
    "left", "right", "lpad", "to_hex", "octet_length", "substr", "substring", "current_setting", "set_config",
    "gen_random_uuid", "sha512", "encode", "set_bit", "pg_current_xact_id", "xid8send", "uuid_send", "int8send",
    "get_byte", "starts_with",
)  # fmt: skip
STATE = ("feed_table", "feed", "feed_state", "worker_batch", "share_worker", "counted_table", "count_part")
# The table owner and the reader are admitted. The writer is admitted only to write.
ROLES = ("plain_installer", "plain_owner", "plain_reader", "plain_writer", "plain_stranger")


def as_role(connection: Connection, role: str) -> None:
    run(connection, "RESET ROLE", f"SET ROLE {role}", "SET search_path = inorder, app")


def check_refused(connection: Connection, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
            run(connection, statement)


@pytest.fixture(scope="module")
def installed(server: Installation, cluster: Cluster) -> Iterator[str]:
    with connect(cluster.dsn) as admin:
        run(admin, "DROP DATABASE IF EXISTS plain WITH (FORCE)", "DROP DATABASE IF EXISTS plain_made WITH (FORCE)")
        for role in ROLES:
            run(admin, f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN")
        run(admin, "CREATE DATABASE plain_made OWNER plain_installer")
    with connect(f"{cluster.dsn} dbname=plain_made") as connection:
        # The role that a provider gives to a user may have default privileges like these.
        kinds = ("SCHEMAS", "TABLES", "FUNCTIONS", "TYPES")
        grants = [f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO PUBLIC, plain_stranger" for kind in kinds]
        grants += [
            f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO plain_stranger WITH GRANT OPTION" for kind in kinds
        ]
        run(connection, "SET ROLE plain_installer", *grants)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        script = write_edition(Path(folder), "inorder", "")
        install(server, cluster, script, "plain_made", role="plain_installer")
    with connect(f"{cluster.dsn} dbname=plain_made") as connection:
        run(
            connection, "SET ROLE plain_installer", "SELECT inorder.feed_admit('plain_owner')",
            "SELECT inorder.feed_admit('plain_reader'), inorder.feed_admit('plain_writer', only_writes => true)",
            "RESET ROLE", "CREATE SCHEMA app AUTHORIZATION plain_owner",
            "GRANT USAGE ON SCHEMA app TO plain_reader, plain_writer, plain_stranger",
            "SET ROLE plain_owner", "SET search_path = inorder, app",
            "CREATE TABLE app.events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
            "GRANT SELECT ON app.events TO plain_reader", "SELECT feed_create('f', 'events')",
            "INSERT INTO events (n) SELECT generate_series(1, 5)", "SELECT exact_count_start('events')",
        )  # fmt: skip
    yield "plain_made"
    with connect(cluster.dsn) as admin:
        run(admin, "DROP DATABASE plain_made", *(f"DROP ROLE {role}" for role in ROLES))


@pytest.fixture
def edition(cluster: Cluster, installed: str) -> Iterator[Connection]:
    with connect(cluster.dsn) as admin:
        run(admin, f"CREATE DATABASE plain TEMPLATE {installed} OWNER plain_installer STRATEGY file_copy")
    with connect(f"{cluster.dsn} dbname=plain") as connection:
        as_role(connection, "plain_owner")
        yield connection
    with connect(cluster.dsn) as admin:
        run(admin, "DROP DATABASE plain WITH (FORCE)")


def test_admitted_roles_use_the_edition(edition: Connection) -> None:
    assert rows(edition, "SELECT n FROM feed_read('f', null::events, 2)") == [(1,), (2,)]
    assert rows(edition, "SELECT exact_count('events')") == [(5,)]
    as_role(edition, "plain_reader")
    run(edition, "SELECT feed_create('own', 'events')")
    assert rows(edition, "SELECT n FROM feed_read('own', null::events)") == [(n,) for n in range(1, 6)]
    visible_feeds = [("f", "plain_owner"), ("own", "plain_reader")]
    assert rows(edition, "SELECT name, owner FROM feeds ORDER BY name") == visible_feeds
    with pytest.raises(errors.InsufficientPrivilege, match='feed "f"'):
        run(edition, "SELECT feed_read('f', null::events, owner => 'plain_owner')")


# The privileges of all other roles on objects of inorder.
GRANTED = """
SELECT DISTINCT a.grantee::regrole::text, o.kind, a.privilege_type FROM inorder_internal.own_objects() AS o
CROSS JOIN LATERAL aclexplode(o.acl) AS a WHERE a.grantee <> o.owner ORDER BY 1, 2, 3
"""
# The same privileges, queried from the catalog alone: on schemas, relations and their columns, functions and types.
GIVEN_AWAY = """
SELECT DISTINCT o.kind, a.grantee::regrole::text, a.privilege_type FROM (
    SELECT 'schema' AS kind, n.oid, n.nspowner, n.nspacl FROM pg_namespace AS n
    UNION ALL SELECT 'relation', c.relnamespace, c.relowner, c.relacl FROM pg_class AS c
    UNION ALL SELECT 'column', c.relnamespace, c.relowner, a.attacl
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
    UNION ALL SELECT 'function', p.pronamespace, p.proowner,
        coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc AS p
    UNION ALL SELECT 'type', t.typnamespace, t.typowner, coalesce(t.typacl, acldefault('T', t.typowner))
        FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        WHERE t.typtype IN ('c', 'd') AND c.relkind IS DISTINCT FROM 'r' AND c.relkind IS DISTINCT FROM 'v'
) AS o(kind, schema, owner, acl) CROSS JOIN LATERAL aclexplode(o.acl) AS a
WHERE o.schema::regnamespace::text IN ('inorder', 'inorder_internal') AND a.grantee <> o.owner ORDER BY 1, 2, 3
"""
OF_USERS = [("FUNCTION", "EXECUTE"), ("SCHEMA", "USAGE"), ("TABLE", "DELETE"), ("TABLE", "INSERT"), ("TABLE", "SELECT"),
            ("TABLE", "UPDATE"), ("TYPE", "USAGE")]  # fmt: skip
OF_WRITERS = [("FUNCTION", "EXECUTE"), ("SCHEMA", "USAGE"), ("TABLE", "SELECT")]


def test_a_role_that_is_not_admitted_has_no_privilege(edition: Connection) -> None:
    """Default privileges have no effect on objects of inorder."""
    run(edition, "RESET ROLE")
    expected = [(role, kind, privilege) for role, rights in
                (("plain_owner", OF_USERS), ("plain_reader", OF_USERS), ("plain_writer", OF_WRITERS))
                for kind, privilege in rights]  # fmt: skip
    assert rows(edition, GRANTED) == expected
    kinds = {"schema": "SCHEMA", "relation": "TABLE", "function": "FUNCTION", "type": "TYPE"}
    grants = [(role, kinds[str(kind)], privilege) for kind, role, privilege in rows(edition, GIVEN_AWAY)]
    assert sorted(map(str, grants)) == sorted(map(str, expected))
    for role in ("plain_owner", "plain_reader", "plain_writer"):
        run(edition, f"SELECT feed_dismiss('{role}')")
    assert rows(edition, GIVEN_AWAY) == []


# Statements that fail for strangers and for roles that only write.
REFUSED = (
    "SELECT * FROM inorder.feeds", "TABLE inorder_internal.feed", "SELECT inorder.feed_seek('f', 'now', 'plain_owner')",
    "SELECT inorder.feed_admit('plain_stranger')", "SELECT inorder_internal.set_rights('plain_stranger', true, true)",
    "SELECT inorder.exact_count('app.events')", "SELECT inorder.feed_prepare('app.events')",
    "LOCK TABLE inorder_internal.feed",
    "CREATE TRIGGER t AFTER INSERT ON inorder_internal.feed EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE r AS ON INSERT TO inorder_internal.feed DO NOTHING", "CREATE TEMPORARY TABLE t (p inorder.feed_batch)",
    "CREATE FUNCTION inorder.feed_drop(text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION inorder_internal.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
)  # fmt: skip
# Statements that fail for strangers. Some of them do not name an object of inorder, but a user's object that depends on
# one.
OF_STRANGERS = (
    "SELECT inorder.uuid_xact_nextval()", "INSERT INTO app.events (n) VALUES (7)", "SELECT NULL::inorder.feed_position",
    "SELECT kept::text FROM app.kept", "CREATE TEMPORARY TABLE t AS TABLE app.kept", "SELECT * FROM app.positions",
    "CREATE TEMPORARY TABLE t (id bigint REFERENCES inorder_internal.feed)",
)  # fmt: skip


def test_a_stranger_is_refused(edition: Connection) -> None:
    run(
        edition, "CREATE TABLE app.kept AS SELECT reader_start('events') AS kept",
        "CREATE VIEW app.positions WITH (security_invoker) AS SELECT feed_passed('events')",
        "GRANT ALL ON app.kept, app.positions, app.events TO plain_stranger",
        "RESET ROLE", "SET ROLE plain_stranger",
    )  # fmt: skip
    check_refused(edition, *REFUSED, *OF_STRANGERS)


def test_a_role_that_only_writes_is_guarded_and_reads_no_state(edition: Connection) -> None:
    run(
        edition,
        "CREATE TABLE app.made (n int PRIMARY KEY, xact bigint GENERATED ALWAYS AS (xact_id_generated()) STORED)",
        "CREATE INDEX ON app.made (xact)", "CREATE TABLE app.logged (n int PRIMARY KEY, note text)",
        "SELECT feed_create('g', 'made'), changes_enable('logged')",
        "GRANT INSERT, UPDATE, DELETE, TRUNCATE, SELECT ON events, made, logged TO plain_writer", "RESET ROLE",
        "SET ROLE plain_writer",
        "INSERT INTO app.events (n) VALUES (6)", "INSERT INTO app.made VALUES (1)",
        "INSERT INTO app.logged VALUES (1), (2)", "UPDATE app.logged SET note = ''", "TRUNCATE app.logged",
    )  # fmt: skip
    for statement in ("DELETE FROM app.events", "TRUNCATE app.made", "UPDATE app.events SET id = gen_random_uuid()",
                      "INSERT INTO app.events VALUES ('00000000-0000-8000-8000-000000000000')"):  # fmt: skip
        with pytest.raises(errors.IntegrityError):
            run(edition, statement)
    check_refused(
        edition, *REFUSED, *(f"UPDATE inorder_internal.{name} SET relation = NULL" for name in STATE),
        "SELECT inorder.feed_take_batch('f', 'w', owner => 'plain_owner')",
    )  # fmt: skip
    as_role(edition, "plain_owner")
    assert rows(edition, "SELECT count(*) FROM feed_read('f', null::events)") == [(6,)]
    assert rows(edition, "SELECT count(*) FROM feed_read('g', null::made)") == [(1,)]
    assert rows(edition, "SELECT count(*) FROM logged_changes") == [(4,)]


def test_only_the_installer_admits(edition: Connection) -> None:
    for call in ("feed_admit('plain_stranger')", "feed_dismiss('plain_reader')", "feed_admit('plain_owner')"):
        with pytest.raises(errors.InsufficientPrivilege, match="to admit or dismiss roles") as refused:
            run(edition, f"SELECT {call}")
        assert "plain_installer" in str(refused.value.diag.message_detail)
    run(edition, "RESET ROLE", "SET ROLE plain_installer", "SET search_path = inorder")
    for argument, error in {
        "'-'": errors.InvalidGrantOperation, "'public'": errors.UndefinedObject, "NULL": errors.NullValueNotAllowed,
        "4294967295": errors.UndefinedObject,
    }.items():  # fmt: skip
        for name in ("feed_admit", "feed_dismiss"):
            with pytest.raises(error):
                run(edition, f"SELECT {name}({argument})")
    # feed_dismiss() and feed_admit() do not change the rights of the installer.
    run(edition, "SELECT feed_dismiss('plain_installer'), feed_admit('plain_installer', true)", "TABLE feeds")
    # A member of the installer can admit roles, and so can a superuser.
    run(edition, "RESET ROLE", "GRANT plain_installer TO plain_owner", "SET ROLE plain_owner",
        "SELECT feed_admit('plain_stranger')", "SET ROLE plain_stranger", "TABLE feeds",
        "RESET ROLE", "SELECT feed_dismiss('plain_stranger')", "SET ROLE plain_stranger")  # fmt: skip
    check_refused(edition, "TABLE inorder.feeds")
    run(edition, "RESET ROLE", "REVOKE plain_installer FROM plain_owner")


def test_the_last_call_of_feed_admit_decides(edition: Connection) -> None:
    run(edition, "RESET ROLE", "SET search_path = inorder", "SELECT feed_admit('plain_reader', only_writes => true)",
        "SELECT feed_admit('plain_writer'), feed_admit('plain_stranger', only_writes => null)",
        "SELECT feed_admit('plain_stranger')")  # fmt: skip
    rights = {"plain_owner": OF_USERS, "plain_reader": OF_WRITERS, "plain_stranger": OF_USERS, "plain_writer": OF_USERS}
    expected = [(role, *right) for role in rights for right in rights[role]]
    assert rows(edition, GRANTED) == expected


def test_a_role_can_be_dropped_after_it_is_dismissed(edition: Connection) -> None:
    odd = '"Odd ""role"""'
    run(edition, "RESET ROLE", f"DROP ROLE IF EXISTS {odd}", f"CREATE ROLE {odd}", "SET ROLE plain_installer")
    for goes in (f"SELECT inorder.feed_dismiss('{odd}')", f"DROP OWNED BY {odd}"):
        run(edition, f"SELECT inorder.feed_admit('{odd}')", "RESET ROLE")
        with pytest.raises(errors.DependentObjectsStillExist):
            run(edition, f"DROP ROLE {odd}")
        run(edition, goes)
        with edition.transaction(force_rollback=True):
            run(edition, f"DROP ROLE {odd}")
        run(edition, "SET ROLE plain_installer")
    run(edition, "RESET ROLE", f"DROP ROLE {odd}")


def test_a_member_has_the_admitted_rights_that_it_inherits(edition: Connection) -> None:
    run(edition, "RESET ROLE", "ALTER ROLE plain_stranger NOINHERIT", "GRANT plain_reader TO plain_stranger",
        "SET SESSION AUTHORIZATION plain_stranger", "SET search_path = inorder, app")  # fmt: skip
    check_refused(edition, "TABLE inorder.feeds", "SELECT inorder.feed_create('own', 'app.events')")
    run(edition, "SET ROLE plain_reader", "SELECT feed_create('own', 'events')", "RESET SESSION AUTHORIZATION",
        "REVOKE plain_reader FROM plain_stranger", "ALTER ROLE plain_stranger INHERIT")  # fmt: skip


def test_an_admitted_role_writes_the_state_and_reads_no_table(edition: Connection) -> None:
    run(edition, "CREATE TABLE app.secret (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
        "SELECT feed_create('secret', 'secret'), exact_count_start('secret')", "INSERT INTO secret (n) VALUES (1)",
        "SELECT feed_grant('secret', 'plain_reader')")  # fmt: skip
    as_role(edition, "plain_reader")
    check_refused(
        edition, "SELECT * FROM feed_read('secret', null::secret, owner => 'plain_owner')",
        "SELECT feed_apply('secret', 'SELECT FROM batch', owner => 'plain_owner')",
        "SELECT * FROM feed_peek('secret', null::secret, owner => 'plain_owner')",
        "SELECT feed_take_batch('secret', 'w', owner => 'plain_owner')", "SELECT exact_count('secret')",
        "SELECT reader_start('secret')", "SELECT feed_create('own', 'secret')", "SELECT feed_rebase('secret')",
        "SELECT feed_disable('secret')", "SELECT inorder_internal.lock_tree('secret', 'ACCESS EXCLUSIVE')",
        "SELECT feed_drop('f', 'plain_owner')",
    )  # fmt: skip
    assert rows(edition, "UPDATE inorder_internal.feed SET movers = '{}' RETURNING name") == [("f",), ("secret",)]
    # A documented limit: a role that changes the state can make a feed read another table of the same owner.
    lead = (
        "UPDATE inorder_internal.feed SET relation = 'app.secret' WHERE name = 'f'; "
        "UPDATE inorder_internal.feed_state AS s SET relation = 'app.secret', position = o.position "
        "FROM inorder_internal.feed_state AS o, inorder_internal.feed AS f WHERE o.feed = f.id AND f.name = 'secret'"
    )
    run(edition, f"DO $$ BEGIN {lead}; END $$")
    as_role(edition, "plain_owner")
    assert rows(edition, "SELECT feed_apply('f', 'SELECT FROM batch')") == [(1,)]
    # If plain statements make the same change, the state counts as restored.
    run(edition, lead)
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="restored"):
        run(edition, "SELECT feed_apply('f', 'SELECT FROM batch')")


def test_workers_have_the_rights_of_readers(edition: Connection) -> None:
    run(edition, "SELECT feed_grant('f', 'plain_reader')")
    as_role(edition, "plain_reader")
    ((batch, token),) = rows(edition, "SELECT number, token FROM feed_take_batch('f', 'w', 2, owner => 'plain_owner')")
    run(edition, "RESET ROLE", "SET ROLE plain_owner", "SET search_path = inorder, app")
    run(edition, "SELECT feed_revoke('f', 'plain_reader')", "SELECT feed_create('done', 'events', 'now')")
    as_role(edition, "plain_reader")
    # A role may drop partitions up to feed_passed(). They must not contain rows of the unfinished batch.
    assert rows(edition, "SELECT number, worker, dead_since IS NULL FROM feed_batches") == [(batch, "w", True)]
    assert rows(edition, "SELECT worker_batches, unfinished_batch FROM feeds WHERE name = 'f'") == [(1, batch)]
    assert rows(edition, "SELECT feed_passed('events') <= min(uuid_xact_id(id)) FROM events") == [(True,)]
    check_refused(
        edition, f"SELECT feed_finish_batch('f', {batch}, {token}, 'plain_owner')",
        "SELECT feed_take_batch('f', 'w', owner => 'plain_owner')",
        f"SELECT feed_fail_batch('f', {batch}, {token}, '', owner => 'plain_owner')",
    )  # fmt: skip
    as_role(edition, "plain_owner")
    assert rows(edition, f"SELECT feed_finish_batch('f', {batch}, {token})") == [(True,)]


def test_no_type_of_the_caller_is_taken_for_a_type_of_the_server(edition: Connection) -> None:
    """If a SECURITY DEFINER function were called with this search_path, its owner would run the CHECK of the domain."""
    run(
        edition, "RESET ROLE", "CREATE SCHEMA traps AUTHORIZATION plain_stranger",
        "GRANT USAGE ON SCHEMA traps, app TO PUBLIC",
        "SET ROLE plain_owner", "CREATE FUNCTION app.consume() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS "
        "'BEGIN RETURN inorder.feed_apply(''f'', ''SELECT count(*) FROM batch'', 1); END'",
    )  # fmt: skip
    as_role(edition, "plain_stranger")
    run(
        edition, "CREATE FUNCTION traps.seen(j jsonb) RETURNS boolean LANGUAGE plpgsql AS "
        "'BEGIN RAISE ''trapped %'', current_user; END'",
        *(f"CREATE DOMAIN {schema}.{name} AS pg_catalog.jsonb CHECK (traps.seen(VALUE::pg_catalog.jsonb))"
          for schema, name in product(("pg_temp", "traps"), ("jsonb", "text", "bigint", "record"))),
        "SET search_path = traps, inorder, app, pg_catalog",
    )  # fmt: skip
    with pytest.raises(errors.RaiseException, match="trapped plain_stranger"):
        run(edition, "SELECT '1'::pg_temp.jsonb")
    assert rows(edition, "SELECT app.consume()") == [(1,)]


def test_the_caller_is_the_current_role(edition: Connection) -> None:
    run(
        edition, "RESET ROLE", "GRANT CREATE ON SCHEMA app TO plain_stranger", "SET ROLE plain_stranger",
        "CREATE FUNCTION app.steal() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS "
        "'BEGIN PERFORM inorder.feed_seek(''f'', ''now'', ''plain_owner''); END'", "RESET ROLE",
    )  # fmt: skip
    with pytest.raises(errors.InsufficientPrivilege):
        run(edition, "SELECT app.steal()")


def test_a_forged_row_runs_no_code(edition: Connection) -> None:
    run(
        edition, "CREATE DOMAIN app.odd AS int", "ALTER TABLE events ADD COLUMN k app.odd",
        "UPDATE inorder_internal.feed_table SET order_columns = '{id}'",
    )  # fmt: skip
    with pytest.raises(errors.CheckViolation):
        run(edition, "UPDATE inorder_internal.feed_table SET order_columns = '{k}'")
    run(
        edition, "CREATE TABLE app.numbers (xact bigint DEFAULT xact_id(), k app.odd, PRIMARY KEY (k))",
        "CREATE INDEX ON app.numbers (xact)", "SELECT feed_create('g', 'numbers')",
        "INSERT INTO numbers (k) VALUES (1), (2)",
        "UPDATE inorder_internal.feed_table SET order_columns = '{k}' WHERE key_column = 'xact'",
    )  # fmt: skip
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        run(edition, "SELECT * FROM feed_read('g', null::numbers, 1)")


def test_a_second_run_of_the_script_is_refused_without_empty_lines(edition: Connection, tmp_path: Path) -> None:
    script = write_edition(tmp_path, "inorder", "").read_bytes()
    run(edition, "RESET ROLE")
    with pytest.raises(errors.DuplicateSchema) as caught:
        edition.execute(script)
    assert caught.value.diag.message_primary == 'schema "inorder" already exists'
    assert caught.value.diag.message_detail is None
    assert caught.value.diag.message_hint is None


def test_every_function_has_its_path(edition: Connection) -> None:
    """A function without a search_path was parsed when it was created, or qualifies all names."""
    assert rows(
        edition,
        "SELECT p.proname, p.prosecdef FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang "
        "WHERE p.pronamespace::regnamespace::text IN ('inorder', 'inorder_internal') AND (p.prosecdef OR NOT ("
        "l.lanname = 'plpgsql' AND (p.proconfig @> '{\"search_path=pg_catalog, pg_temp\"}') IS TRUE "
        "OR p.prosqlbody IS NOT NULL)) ORDER BY p.proname",
    ) == [(name, False) for name in BARE]


def test_functions_without_a_path_find_only_objects_of_the_server(edition: Connection) -> None:
    run(
        edition, "SET search_path = inorder, app", "CREATE TABLE app.numbers (xact bigint DEFAULT xact_id(), n int)",
        "CREATE INDEX ON app.numbers (xact)", "SELECT feed_enable('numbers')", "RESET ROLE", "CREATE SCHEMA odd",
        "GRANT USAGE ON SCHEMA odd TO PUBLIC", "SET search_path = pg_catalog",
    )  # fmt: skip
    body = "LANGUAGE plpgsql AS 'BEGIN RAISE ''shadow''; END'"
    shadows = rows(
        edition,
        "SELECT format('CREATE FUNCTION odd.%I(%s) RETURNS %s ', p.proname, pg_get_function_identity_arguments(p.oid), "
        "pg_get_function_result(p.oid)) FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace "
        "AND p.prokind = 'f' AND '\"any\"'::regtype <> ALL (p.proargtypes) "
        f"AND p.proname = ANY ('{{{','.join(SHADOWED)}}}')",
    )
    types = "'{text,bigint,int,oid,uuid,bytea}'::regtype[]"
    operators = rows(
        edition,
        "SELECT format('CREATE FUNCTION odd.op_%s(%s, %s) RETURNS %s ', o.oid, o.oprleft::regtype, "
        "o.oprright::regtype, o.oprresult::regtype), "
        "format('CREATE OPERATOR odd.%s (FUNCTION = odd.op_%s, LEFTARG = %s, RIGHTARG = %s)', "
        "o.oprname, o.oid, o.oprleft::regtype, o.oprright::regtype) FROM pg_operator AS o WHERE o.oprname = ANY "
        f"('{{=,<>,||,&,+,-,>=,>>}}') AND o.oprleft = ANY ({types}) AND o.oprright = ANY ({types})",
    )
    assert len(shadows) > 20 and len(operators) > 20
    for (function,) in shadows:
        run(edition, f"{function} {body}")
    for function, operator in operators:
        run(edition, f"{function} {body}", str(operator))
    run(edition, "SET ROLE plain_owner", "SET search_path = odd, pg_catalog, inorder, app")
    with pytest.raises(errors.RaiseException, match="shadow"):
        run(edition, "SELECT to_hex(1)")
    with edition.transaction():
        ((first, second, other),) = rows(
            edition, "SELECT uuid_xact_nextval(), uuid_xact_nextval(), uuid_xact_nextval(inorder.xact_id())"
        )
        assert str(first) < str(second) != str(other)
        run(edition, "INSERT INTO events VALUES (DEFAULT)", "INSERT INTO numbers VALUES (inorder.xact_id())")
    with pytest.raises(errors.CheckViolation):
        run(edition, "INSERT INTO numbers VALUES (7)")


def test_a_restored_table_waits_for_feed_rebase(cluster: Cluster, edition: Connection, tmp_path: Path) -> None:
    assert rows(edition, "SELECT n FROM feed_read('f', null::events, 2)") == [(1,), (2,)]
    run(edition, "SELECT feed_create('shared', 'events')", "SELECT feed_take_batch('shared', 'one', 2)")
    dump = str(tmp_path / "dump.sql")
    assert run_program(cluster, "pg_dump", "-f", dump, "plain").returncode == 0
    with copy_of("template1", cluster, "plain2") as connection:
        done = run_program(cluster, "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", dump, "plain2")
        assert done.returncode == 0, done.stderr
        # Make the restored state look like a dump from another server.
        run(connection, "UPDATE inorder_internal.feed SET system = 7")
        as_role(connection, "plain_owner")
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match="restored"):
            run(connection, "SELECT * FROM feed_read('f', null::events)")
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match="restored"):
            run(connection, "INSERT INTO events (n) VALUES (6)")
        run(connection, "SELECT feed_rebase('events')", "INSERT INTO events (n) VALUES (6)")
        assert rows(connection, "SELECT n FROM feed_read('f', null::events)") == [(3,), (4,), (5,), (6,)]
        assert rows(connection, "SELECT exact_count('events')") == [(6,)]
        ((number,),) = rows(connection, "SELECT number FROM feed_take_batch('shared', 'two')")
        assert rows(connection, f"SELECT n FROM feed_batch_rows('shared', {number}, null::events)") == [(1,), (2,)]


def test_a_restored_table_accepts_rows_only_after_feed_rebase(cluster: Cluster, edition: Connection) -> None:
    run(
        edition, "CREATE TABLE app.numbers (n int PRIMARY KEY, xact bigint DEFAULT xact_id())",
        "CREATE INDEX ON numbers (xact)", "SELECT feed_create('g', 'numbers')",
        "GRANT INSERT ON events, numbers TO plain_writer", "RESET ROLE",
        # Write the row the way pg_restore does.
        "UPDATE inorder_internal.feed_table SET base = base",
    )  # fmt: skip
    with connect(f"{cluster.dsn} dbname=plain") as writer:
        as_role(writer, "plain_writer")
        for table in ("events", "numbers"):
            with pytest.raises(errors.ObjectNotInPrerequisiteState, match="restored"):
                run(writer, f"INSERT INTO app.{table} (n) VALUES (6)")
        as_role(edition, "plain_owner")
        writer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        run(writer, "SELECT 1")
        run(edition, "SELECT feed_rebase('events'), feed_rebase('numbers')")
        # the snapshot shows the restored state
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match="restored"):
            run(writer, "INSERT INTO app.events (n) VALUES (6)")
        run(writer, "ROLLBACK", "INSERT INTO app.events (n) VALUES (6)", "INSERT INTO app.numbers (n) VALUES (7)")
    assert rows(edition, "SELECT n FROM feed_read('f', null::events)") == [(n,) for n in range(1, 7)]
    assert rows(edition, "SELECT n FROM feed_read('g', null::numbers)") == [(7,)]


def test_a_writer_may_use_a_snapshot_from_before_the_guard(cluster: Cluster, edition: Connection) -> None:
    run(edition, "CREATE TABLE app.later (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)")
    with connect(f"{cluster.dsn} dbname=plain") as writer:
        as_role(writer, "plain_owner")
        writer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        run(writer, "SELECT 1")
        run(edition, "SELECT feed_create('later', 'later')")
        run(writer, "INSERT INTO later (n) VALUES (1)", "COMMIT")
    assert rows(edition, "SELECT n FROM feed_read('later', null::later)") == [(1,)]


def test_a_dump_without_a_table_restores_the_other_feeds(cluster: Cluster, edition: Connection, tmp_path: Path) -> None:
    run(
        edition, "CREATE TABLE app.more (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())",
        "SELECT feed_create('m', 'more')",
    )  # fmt: skip
    feeds = "SELECT name FROM inorder_internal.feed ORDER BY name"
    for options, script, remaining_feeds in (
        (["--inserts"], "", ["f"]),
        ([], "CREATE SCHEMA app; CREATE TABLE app.more ()", ["f", "m"]),
        ([], "", []),
    ):
        dump = str(tmp_path / "dump.sql")
        assert run_program(cluster, "pg_dump", "-T", "app.more", "-f", dump, *options, "plain").returncode == 0
        with copy_of("template1", cluster, "plain2") as connection:
            done = run_program(cluster, "psql", "-Xq", "-c", script, "-f", dump, "plain2")
            assert ('relation "app.more" does not exist' in done.stderr) == (not script)
            assert [name for (name,) in rows(connection, feeds)] == remaining_feeds


def test_both_editions_read_each_others_keys(server: Installation, cluster: Cluster, edition: Connection) -> None:
    if not server.can_build():
        pytest.skip(f"the C extension cannot be built for {server.name}")
    with connect(cluster.dsn) as extension:
        pairs = [(edition, extension), (extension, edition)]
        for maker, reader in pairs:
            ((xact, v7, number),) = rows(maker, "SELECT uuid_xact_nextval(5), uuid_v7_nextval(), xact_id(5)")
            ((read, time),) = reader.execute("SELECT uuid_xact_id(%s), uuid_v7_time(%s)", [xact, v7]).fetchall()
            assert read == number
            assert maker.execute("SELECT uuid_v7_time(%s)", [v7]).fetchall() == [(time,)]
        for bound in (
            "uuid_xact_floor(0)", "uuid_xact_floor(281474976710655)", "uuid_xact_floor(123456789012)",
            "uuid_v7_floor('1970-01-01 00:00:00+00')", "uuid_v7_floor('2026-11-22 18:00:00.123457+00')",
            "uuid_v7_floor('10889-08-02 05:31:50.655999+00')",
        ):  # fmt: skip
            assert rows(edition, f"SELECT {bound}") == rows(extension, f"SELECT {bound}"), bound


def test_keys_stay_ordered_if_the_setting_is_changed(edition: Connection) -> None:
    run(
        edition, "SET search_path = inorder, app", "CREATE TABLE app.made (id uuid DEFAULT uuid_xact_nextval())",
        "CREATE FUNCTION app.make() RETURNS uuid SECURITY DEFINER SET search_path = inorder, app, pg_temp "
        "RETURN uuid_xact_nextval()",
    )  # fmt: skip

    def check(times: int = 25) -> None:
        with edition.transaction():
            number = int(str(rows(edition, "SELECT xact_id()")[0][0]))
            keys = [str(rows(edition, f"SELECT {call}")[0][0]) for call in ["uuid_xact_nextval()", "make()"] * times]
            keys += [str(rows(edition, "INSERT INTO made DEFAULT VALUES RETURNING id")[0][0])]
        assert {(int(key.replace("-", "")[:12], 16), key[14], key[19] in "89ab") for key in keys} == {
            (number, "8", True)
        }
        assert keys == sorted(set(keys))

    key = str(rows(edition, "SELECT uuid_xact_nextval()")[0][0]).replace("-", "")
    for text in (key, key * 2, key * 3, key[:12], f"{key}x", "x" * 64, "-" * 33, " ", "0" * 320, key + "é" * 40):
        run(edition, f"SET inorder.keys = '{text}'")
        check()
        check()
        with edition.transaction():
            run(edition, f"SET LOCAL inorder.keys = '{text}'")
            check()
        run(edition, "RESET ALL", "RESET ROLE", f"ALTER DATABASE plain SET inorder.keys = '{text}'")
        as_role(edition, "plain_owner")
        with connect(edition.info.dsn) as other:
            run(other, "SET search_path = inorder, app")
            assert rows(other, "SHOW inorder.keys") == [(text,)]
            made_key, number = rows(other, "SELECT uuid_xact_nextval(), xact_id()")[0]
            assert rows(other, f"SELECT uuid_xact_id('{made_key}')") == [(number,)]
        # The setting begins with a valid key of this transaction, followed by keys of another transaction.
        with edition.transaction():
            own_key = str(rows(edition, "SELECT uuid_xact_nextval()")[0][0]).replace("-", "")
            run(edition, f"SET LOCAL inorder.keys = '{own_key}{text}'")
            check(2)


def test_the_next_key_carries_into_higher_digits(edition: Connection) -> None:
    last = (
        "SELECT set_config('inorder.keys', lpad(to_hex(pg_current_xact_id()::text::bigint), 12, '0') "
        "|| '{}bfffffffffffffff', true)"
    )
    with edition.transaction():
        run(edition, last.format("87ff"))
        keys = [str(key) for ((key,),) in (rows(edition, "SELECT uuid_xact_nextval()") for _ in range(3))]
        assert [key[14:20] for key in keys] == ["8800-8"] * 3 and keys == sorted(keys), keys
        run(edition, "INSERT INTO events (n) VALUES (1)")
    with pytest.raises(errors.ProgramLimitExceeded), edition.transaction():
        run(edition, last.format("8fff"))
        run(edition, "SELECT uuid_xact_nextval()")


def test_keys_of_one_statement_ascend_by_random_steps(edition: Connection) -> None:
    def value(key: object) -> int:
        number = int(str(key).replace("-", ""), 16)
        return (number >> 64 & 0xFFF) << 62 | number & (1 << 62) - 1

    with edition.transaction():
        made_key, other, own_number = rows(edition, "SELECT uuid_xact_nextval(), uuid_xact_nextval(5), xact_id()")[0]
        number = int(str(own_number))
        keys = [
            made_key,
            other,
            *(key for (key,) in rows(edition, "SELECT uuid_xact_nextval() FROM generate_series(1, 40)")),
        ]
        with pytest.raises(errors.DivisionByZero), edition.transaction():
            run(edition, "SELECT uuid_xact_nextval() FROM generate_series(1, 15)", "SELECT 1 / 0")
        keys += [key for (key,) in rows(edition, "SELECT uuid_xact_nextval() FROM generate_series(1, 15)")]
        numbers = [int(str(key).replace("-", "")[:12], 16) for key in keys]
    steps = [value(after) - value(before) for before, after in pairwise(keys)]
    assert min(steps) >= 1 and max(steps) <= 1 << 43 and max(steps) > 1 << 42, steps
    assert value(keys[0]) < 1 << 73 and numbers == [number, number + 5, *[number] * 55]
    ((other,),) = rows(edition, "SELECT uuid_xact_nextval()")
    assert abs(value(other) - value(keys[-1])) > 1 << 50  # another transaction begins at a random key


def test_the_guard_checks_the_number_in_each_transaction(edition: Connection) -> None:
    run(
        edition, "SET search_path = inorder, app", "CREATE TABLE app.kept (xact bigint DEFAULT xact_id(), n int)",
        "CREATE INDEX ON app.kept (xact)", "SELECT feed_enable('kept')",
        "PREPARE kept (bigint) AS INSERT INTO kept (xact) VALUES ($1)",
        "CREATE PROCEDURE app.twice(shift bigint) LANGUAGE plpgsql AS $$ DECLARE number bigint; BEGIN "
        "FOR n IN 1 .. 2 LOOP number := coalesce(number + shift, xact_id()); INSERT INTO kept (xact) "
        "VALUES (CASE WHEN shift IS NULL THEN xact_id() ELSE number END); COMMIT; END LOOP; END $$",
    )  # fmt: skip
    for _ in range(7):
        with edition.transaction():
            number = int(str(rows(edition, "SELECT xact_id()")[0][0]))
            run(edition, f"EXECUTE kept({number})")
            with pytest.raises(errors.CheckViolation), edition.transaction():
                run(edition, f"EXECUTE kept({number - 1})")
            run(edition, f"EXECUTE kept({number})")
        for wrong in (number, "NULL"):
            with pytest.raises(errors.CheckViolation):
                run(edition, f"EXECUTE kept({wrong})")
    run(edition, "CALL twice(NULL)")
    with pytest.raises(errors.CheckViolation):
        run(edition, "CALL twice(0)")
    assert rows(edition, "SELECT count(*) FROM kept") == [(17,)]
