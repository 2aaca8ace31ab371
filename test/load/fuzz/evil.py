"""Mallory's functions, operators, casts and tables, which report when another role runs their code.

The functions write to the server log, because neither a rollback nor a session setting removes a log message.
"""

import random

MARK = "fuzz: ran as"


def body(name: str, result: str) -> str:
    """Return the body of a PL/pgSQL function that logs the current user unless it is mallory."""
    return (
        f"$evil$BEGIN IF CURRENT_USER OPERATOR(pg_catalog.<>) 'mallory'::pg_catalog.name THEN "
        f"RAISE LOG '{MARK} % for %: {name}', CURRENT_USER, SESSION_USER; END IF; RETURN {result}; END$evil$"
    )


def function(name: str, types: str, returns: str, result: str, schema: str = "mallory") -> str:
    return (
        f"CREATE FUNCTION {schema}.{name}({types}) RETURNS {returns} LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE "
        f"AS {body(f'{schema}.{name}({types})'.replace(chr(39), ''), result)}"
    )


TYPES = ("bigint", "integer", "uuid", "text", "name", "oid", "boolean", "timestamp with time zone")
# Overloads of functions that generated queries and internal functions call. An unqualified call would resolve to an
# overload if its schema came first in search_path, or if its argument types matched better.
OVERLOADS = (
    ("format", "text, text", "text", "$1"), ("format", "text, name", "text", "$1"),
    ("format", "text, regclass", "text", "$1"),
    ("format", "text, text, text", "text", "$1"), ("concat", "text, text", "text", "$1"),
    ("concat", "bigint", "text", "''"),
    ("concat", "uuid", "text", "''"), ("concat", "text, text, text", "text", "''"), ("count", "bigint", "bigint", "0"),
    ("lower", "int8multirange", "bigint", "0"), ("upper", "int8multirange", "bigint", "0"),
    ("lower", "int8range", "bigint", "0"),
    ("upper", "int8range", "bigint", "0"), ("isempty", "int8multirange", "boolean", "true"),
    ("encode", "bytea, text", "text", "''"),
    ("substring", "bytea, integer, integer", "bytea", "''"), ("uuid_send", "uuid", "bytea", "''"),
    ("unnest", "int8multirange", "bigint", "0"),
    ("quote_ident", "name", "text", "''"), ("quote_ident", "text", "text", "''"),
    ("int8multirange", "int8range", "int8multirange", "NULL"),
    ("int8range", "bigint, bigint", "int8range", "NULL"), ("has_table_privilege", "oid, oid, text", "boolean", "true"),
    ("pg_has_role", "oid, oid, text", "boolean", "true"), ("pg_relation_size", "regclass", "bigint", "0"),
    ("feed_guard", "bigint", "integer", "1"), ("xact_id", "integer", "bigint", "1"), ("xact_id", "text", "bigint", "1"),
    ("xact_id", "", "bigint", "1"), ("uuid_xact_nextval", "integer", "uuid", "NULL"),
    ("feed_enable", "text", "void", ""),
    ("feed_enable", "text, text", "void", ""), ("reader_advance", "record, record", "record", "$1"),
    ("feed_holders", "oid", "integer", "1"),
    ("feed_read", "text, integer", "integer", "1"), ("exact_count", "oid", "bigint", "1"),
    ("exact_count", "text", "bigint", "1"),
    ("ended_transactions", "integer", "int8multirange", "NULL"),
    ("count", "", "bigint", "0"), ("nextval", "text", "bigint", "0"),
)  # fmt: skip
OPERATORS = ("=", "<", ">", "<=", ">=", "<>")
MORE_OPERATORS = (
    ("@>", "int8multirange", "bigint", "boolean", "true"), ("<@", "bigint", "int8multirange", "boolean", "true"),
    ("+", "int8multirange", "int8multirange", "int8multirange", "$1"),
    ("-", "int8multirange", "int8multirange", "int8multirange", "$1"),
    ("*", "int8multirange", "int8multirange", "int8multirange", "$1"),
    ("&&", "int8multirange", "int8multirange", "boolean", "false"),
    ("=", "int8multirange", "int8multirange", "boolean", "true"), ("||", "text", "text", "text", "$1"),
    ("+", "bigint", "bigint", "bigint", "$1"),
    ("-", "bigint", "bigint", "bigint", "$1"), ("=", "regclass", "oid", "boolean", "true"),
    ("=", "oid", "regclass", "boolean", "true"),
    ("=", "regclass", "regclass", "boolean", "true"), ("=", "text", "name", "boolean", "true"),
    ("=", "name", "text", "boolean", "true"),
    ("=", "bigint", "integer", "boolean", "true"), (">=", "bigint", "integer", "boolean", "true"),
    ("~", "text", "text", "boolean", "true"),
    ("=", "text[]", "text[]", "boolean", "true"), ("<>", "text[]", "text[]", "boolean", "true"),
    ("<", "mallory.mood", "mallory.mood", "boolean", "true"),
    ("=", "mallory.mood", "mallory.mood", "boolean", "true"), ("<=", "mallory.mood", "mallory.mood", "boolean", "true"),
)  # fmt: skip
TAKEN_TYPES = (
    "bigint", "int8", "int4", "uuid", "text", "regclass", "name", "oid", "int8multirange", "int8range",
    "feed_position",
)  # fmt: skip
TAKEN_TABLES = (
    "pg_class", "pg_inherits", "pg_proc", "pg_attribute", "pg_roles", "feeds", "feed", "feed_table", "batch",
    "pg_trigger",
)  # fmt: skip

BASE = (
    "CREATE TYPE mallory.mood AS ENUM ('sad', 'ok', 'happy')",
    function("evil", "bigint", "bigint", "$1"),
    function("evil", "uuid", "bigint", "1"),
    function("evil", "integer", "integer", "$1"),
    function("evil_true", "bigint", "boolean", "true"),
    function("evil_true", "integer", "boolean", "true"),
    function("mood_bigint", "mallory.mood", "bigint", "1"),
    function("mood_text", "mallory.mood", "text", "'ok'"),
    function("mood_uuid", "mallory.mood", "uuid", "NULL"),
    "CREATE CAST (mallory.mood AS bigint) WITH FUNCTION mallory.mood_bigint(mallory.mood) AS IMPLICIT",
    "CREATE CAST (mallory.mood AS text) WITH FUNCTION mallory.mood_text(mallory.mood) AS IMPLICIT",
    "CREATE CAST (mallory.mood AS uuid) WITH FUNCTION mallory.mood_uuid(mallory.mood) AS IMPLICIT",
    "CREATE DOMAIN mallory.number AS bigint CHECK (mallory.evil_true(VALUE))",
    "CREATE DOMAIN mallory.over_position AS public.feed_position",
    "CREATE TYPE mallory.row_pair AS (a bigint, b text)",
    "CREATE DOMAIN mallory.over_row AS mallory.row_pair",
    "CREATE TABLE mallory.typed OF public.feed_position",
    "CREATE TABLE mallory.sink (x int)",
    "CREATE FUNCTION mallory.nest(statement text) RETURNS int LANGUAGE plpgsql AS $nest$BEGIN EXECUTE statement; "
    "RETURN 1; END$nest$",
    "CREATE PROCEDURE mallory.commit_around(statement text) LANGUAGE plpgsql AS "
    "$around$BEGIN EXECUTE statement; COMMIT; EXECUTE statement; ROLLBACK; EXECUTE statement; END$around$",
    "CREATE FUNCTION mallory.fire() RETURNS trigger LANGUAGE plpgsql AS "
    "$fire$BEGIN PERFORM public.exact_count(TG_RELID::pg_catalog.regclass); RETURN coalesce(NEW, OLD); END$fire$",
    "CREATE AGGREGATE mallory.advance(public.feed_batch) (SFUNC = public.reader_advance, STYPE = "
    "public.feed_position, INITCOND = '(1,{},,,,,)')",
    "CREATE OPERATOR mallory.~~~ (LEFTARG = uuid, RIGHTARG = timestamptz, FUNCTION = public.uuid_v7_lt_time, "
    "RESTRICT = scalarltsel, JOIN = scalarltjoinsel)",
    "CREATE SEQUENCE mallory.counter CYCLE MAXVALUE 3",
    "CREATE SEQUENCE mallory.backward INCREMENT -1 MINVALUE -9223372036854775808",
)  # fmt: skip


def plants(rng: random.Random) -> list[str]:
    statements = []
    for schema in ("mallory", "public"):
        for name, types, returns, result in OVERLOADS:
            if rng.random() < 0.4:
                statements.append(function(name, types, returns, result, schema))
        for operator in OPERATORS:
            for type_name in TYPES:
                if rng.random() < 0.3:
                    statements += operators(schema, operator, type_name, type_name, "boolean", "true")
        for operator, left, right, returns, result in MORE_OPERATORS:
            if rng.random() < 0.4:
                statements += operators(schema, operator, left, right, returns, result)
        statements += [f"CREATE TYPE {schema}.{name} AS ENUM ('no')" for name in TAKEN_TYPES if rng.random() < 0.2]
        statements += [f"CREATE TABLE {schema}.{name} (x int, oid oid)" for name in TAKEN_TABLES if rng.random() < 0.3]
    return statements


def operators(schema: str, operator: str, left: str, right: str, returns: str, result: str) -> list[str]:
    name = f'"on {operator} of {left} {right}"'.replace("mallory.", "")
    return [
        function(name, f"{left}, {right}", returns, result, schema),
        f"CREATE OPERATOR {schema}.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {schema}.{name})",
    ]
