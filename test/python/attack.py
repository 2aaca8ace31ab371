"""Shared code of the attack tests: a database with a hostile role that owns nothing.

All code that mallory plants calls his function attack(), which makes him a superuser if the role that runs it can do
that. A test ends as mallory, who must still have only his initial rights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from inorder.connection.database import Connection, connect
from inorder.lab.server.cluster import Cluster

from world.sql import run, value

NUMBERS = count(1)
# syntax_error, undefined_column, undefined_function, undefined_table, ambiguous_function, invalid_schema_name: if a
# statement fails with one of these errors, its test is out of date.
MOVED = ("42601", "42703", "42883", "42P01", "42725", "3F000")

# attack() runs as the role that plans or executes a query that calls it. The function records this role, and tries
# to make mallory a superuser.
ATTACK = """
CREATE SCHEMA evil;
CREATE TABLE evil.caught (who name);
GRANT USAGE ON SCHEMA evil TO PUBLIC;
GRANT INSERT ON evil.caught TO PUBLIC;
CREATE SEQUENCE evil.calls;
GRANT USAGE ON SEQUENCE evil.calls TO PUBLIC;
CREATE FUNCTION evil.attack() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'mallory' THEN
        PERFORM pg_catalog.nextval('evil.calls');  -- which stays if the statement fails
        BEGIN
            INSERT INTO evil.caught VALUES (current_user);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'caught as %', current_user;
        END;
        BEGIN
            EXECUTE 'ALTER ROLE mallory SUPERUSER';
        EXCEPTION WHEN OTHERS THEN
            RETURN false;
        END;
    END IF;
    RETURN true;
END $$;
"""


def refusal(connection: Connection, statement: str, *expected: str) -> str:
    """Return the SQLSTATE with which a statement fails, or an empty string if it succeeds.

    A syntax error, or a missing schema, table, column or function, does not count as a refusal unless it is expected:
    no attack may pass because its target has moved.
    """
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        assert error.sqlstate not in MOVED or error.sqlstate in expected, f"{statement}: {error}"
        return error.sqlstate or "?"
    return ""


@contextmanager
def database(cluster: Cluster, *rights: str, template: str = "template1") -> Iterator[str]:
    """Yield the connection string of a new database in which mallory has the given rights, and must not gain any."""
    name = f"attacked_{next(NUMBERS)}"
    with connect(cluster.dsn) as admin:
        if not value(admin, "SELECT count(*) FROM pg_roles WHERE rolname = 'mallory'"):
            run(
                admin,
                *(f"CREATE ROLE {role} LOGIN" for role in ("mallory", "alice", "bob")),
                "CREATE ROLE monitor LOGIN",
            )
            run(admin, "GRANT pg_monitor TO monitor")
        run(admin, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        for right in rights:
            run(admin, right.format(database=name))
    dsn = f"{cluster.dsn} dbname={name}"
    try:
        yield dsn
        assert_no_right_gained(dsn)
    finally:
        with connect(cluster.dsn) as admin:
            run(admin, "ALTER ROLE mallory NOSUPERUSER", f"DROP DATABASE {name} WITH (FORCE)")


def assert_no_right_gained(dsn: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory:
        assert value(mallory, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert refusal(mallory, "CREATE ROLE another") == "42501"
        assert value(mallory, "SELECT count(*) FROM pg_auth_members WHERE member = 'mallory'::regrole") == 0
        if value(mallory, "SELECT to_regclass('evil.caught') IS NOT NULL"):
            assert value(mallory, "SELECT array_agg(DISTINCT who) FROM evil.caught") is None
            assert value(mallory, "SELECT is_called FROM evil.calls") is False


def overloads(schema: str, names: list[str]) -> Iterator[str]:
    """Yield definitions of attacking functions with these names, for many argument types."""
    kinds = (
        "", "text", "text, text", "text, text, text", "name", "regclass", "regclass, text", "regclass, name",
        "oid, text", "int", "bigint", "anyelement", "anyelement, anyelement", "anyarray", "anyarray, anyelement",
        "int8multirange", "int8range", "text, VARIADIC text[]", "numeric", "xid8", "uuid", "text, regclass",
        "oid, oid, text",
    )  # fmt: skip
    for name in names:
        for kind in kinds:
            body = "BEGIN PERFORM evil.attack(); RETURN NULL; END"
            result = "anyelement" if "anyelement" in kind else "anyarray" if "anyarray" in kind else "text"
            quoted = '"' + name + '"'
            head = f"CREATE FUNCTION {schema}.{quoted}({kind}) RETURNS {result} LANGUAGE plpgsql IMMUTABLE"
            yield f"{head} AS $$ {body} $$"


def operators(schema: str) -> Iterator[str]:
    kinds = (
        "text", "name", "oid", "int", "bigint", "uuid", "regclass", "int8multirange", "anyelement", "anyarray",
        '"char"',
    )  # fmt: skip
    signs = ("=", "<>", "<", "<=", ">", ">=", "-", "+", "||", "@>", "<@", "&&", "~", "&", "*")
    for number, left in enumerate(kinds):
        body = "BEGIN PERFORM evil.attack(); RETURN NULL; END"
        for other, right in enumerate(kinds):
            if (left.startswith("any") or right.startswith("any")) and left != right:
                continue
            function = f"{schema}.operate_{number}_{other}"
            head = f"CREATE FUNCTION {function}({left}, {right}) RETURNS boolean LANGUAGE plpgsql IMMUTABLE"
            yield f"{head} AS $$ {body} $$"
            for sign in signs:
                yield f"CREATE OPERATOR {schema}.{sign} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {function})"
