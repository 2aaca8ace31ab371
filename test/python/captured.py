"""A database with the schemas of capture.py in its search_path, and with all kinds of tables that inorder reads.

The names in the tests' own queries are qualified, so that nothing can capture them.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psycopg
from inorder.connection.database import Connection, connect, literal
from inorder.lab.server.cluster import Cluster

import preloaded
from capture import BEFORE, BEHIND, PATH, Captured, read_captured
from waiting import PATIENCE

SUPERUSER, OWNER, READER, WRITER = "postgres", "capture_owner", "capture_reader", "capture_writer"
ALL, MAY_CHANGE = (SUPERUSER, OWNER, READER), (SUPERUSER, OWNER)
# This path does not name pg_catalog, which is therefore searched first.
PATH_OF_READER = f"{BEHIND}, {BEFORE}"
TABLES = ("events", "numbers", "parts", "logged")
MAKE_TABLES = """
CREATE TABLE app.events (id uuid PRIMARY KEY DEFAULT inorder.uuid_xact_nextval(), n int, t text);
CREATE INDEX ON app.events (n);
CREATE TABLE app.numbers (n serial PRIMARY KEY, t text, xact bigint DEFAULT inorder.xact_id());
CREATE INDEX ON app.numbers (xact);
CREATE TABLE app.parts (n int, t text, xact bigint DEFAULT inorder.xact_id()) PARTITION BY LIST (n);
CREATE INDEX ON app.parts (xact);
CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1);
CREATE TABLE app.parts_2 PARTITION OF app.parts DEFAULT;
CREATE TABLE app.logged (id serial PRIMARY KEY, t text, gone int);
CREATE TABLE app.logged_indexed (id serial PRIMARY KEY, t text, gone int);
CREATE TABLE app.logged_parts (id serial PRIMARY KEY, t text, gone int) PARTITION BY RANGE (id);
CREATE TABLE app.logged_parts_1 PARTITION OF app.logged_parts DEFAULT;
CREATE TABLE app.old (k int PRIMARY KEY, t text);
CREATE TABLE app.changing (id int PRIMARY KEY, t text);
CREATE SEQUENCE app.ids;
GRANT USAGE ON SCHEMA app TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA app TO PUBLIC;
GRANT INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA app TO capture_writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA app TO PUBLIC
"""
ENABLE = (
    *(f"SELECT inorder.feed_enable('app.{name}'::pg_catalog.regclass, NULL::pg_catalog.name)"
      for name in ("events", "numbers", "parts")),
    *(f"SELECT inorder.changes_enable('app.{name}'::pg_catalog.regclass)"
      for name in ("logged", "logged_indexed", "logged_parts")),
    "CREATE INDEX ON app.logged_indexed_changes (op)",
    "SELECT inorder.exact_count_start('app.events'::pg_catalog.regclass, NULL::pg_catalog.name)",
    "GRANT SELECT ON ALL TABLES IN SCHEMA app TO PUBLIC",
)  # fmt: skip
FUNCTIONS = """
SELECT p.proname, p.prokind,
       coalesce(array_agg(coalesce(p.proargnames[place], '') ORDER BY place) FILTER (WHERE place IS NOT NULL), '{}'),
       coalesce(array_agg(concat(n.nspname, '.', t.typname) ORDER BY place) FILTER (WHERE place IS NOT NULL), '{}')
FROM pg_proc AS p LEFT JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY AS k(type, place) ON true
LEFT JOIN pg_type AS t ON t.oid = type LEFT JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE p.pronamespace = 'inorder'::regnamespace AND p.prorettype <> 'trigger'::regtype
GROUP BY p.oid HAVING NOT coalesce(bool_or(type IN ('internal'::regtype, 'cstring'::regtype, '"any"'::regtype)), false)
ORDER BY 1, p.oid
"""
VALUES = {
    "regrole": f"'{WRITER}'", "int4": "3", "int8": "5", "interval": "'1 second'", "bool": "true",
    "uuid": "'018bcfe5-6800-7000-8000-000000000001'", "timestamptz": "'2024-01-01 00:00:00+00'",
    "tstzrange": "'[2024-01-01 00:00:00+00,2025-01-01 00:00:00+00)'", "bytea": "'0123456789abcdef'",
    "_name": "'{t}'", "uuid_v1": "'c232ab00-9414-11ec-b3c8-9f6bdeced846'", "int8multirange": "'{[0,5)}'",
}  # fmt: skip
OF_ARGUMENTS = {
    "statement": "'SELECT pg_catalog.count(*) FROM batch'", "start": "'beginning'", "method": "'btree'",
    "worker": "'w'", "reason": "'no'", "channel": "'came'", "new_name": "'renamed'", "owner": "NULL",
    "order_column": "NULL", "partition_by": "NULL", "shares": "NULL", "sequence": "'app.ids'", "parts": "2",
    "step": "'1 month'", "version": "7", "block_size": "1000", "block_count": "1000", "leading_ones": "32",
    "max_tries": "5", "key_column": "NULL", "retry_after": "'0'",
}  # fmt: skip
CREATE_FEED = """
SELECT inorder.feed_create('{feed}'::pg_catalog.text, 'app.{table}'::pg_catalog.regclass, 'beginning'::pg_catalog.text,
    NULL::pg_catalog.name, NULL::pg_catalog.name, false, NULL::pg_catalog.name, NULL::pg_catalog.int4)
"""
TAKE = """
SELECT number, token FROM inorder.feed_take_batch('{feed}'::pg_catalog.text, 'w'::pg_catalog.text, 1,
    '1 hour'::pg_catalog.interval, {tries}, NULL::pg_catalog.regrole)
"""
BATCH = """
SELECT CAST(CAST(p AS pg_catalog.jsonb) AS pg_catalog.text), CAST(CAST(b AS pg_catalog.jsonb) AS pg_catalog.text)
FROM inorder.reader_start('app.{table}'::pg_catalog.regclass, 'beginning'::pg_catalog.text, NULL::pg_catalog.name) AS p
CROSS JOIN LATERAL inorder.reader_next_batch('app.{table}'::pg_catalog.regclass, p, 1, false) AS b
"""
FAIL = """
SELECT inorder.feed_fail_batch('{feed}'::pg_catalog.text, {number}::pg_catalog.int8, {token}::pg_catalog.int8,
    'no'::pg_catalog.text, '0'::pg_catalog.interval, NULL::pg_catalog.regrole)
"""
# Error codes for a missing or ambiguous function or operator. A captured name may cause these errors.
UNRESOLVED = ("42883", "42725")
# States of a feed when functions are called: no worker has taken a batch, a worker has a batch, or a worker has
# returned its batch.
STATES = ("free", "taken", "failed")


@dataclass
class World:
    cluster: Cluster
    database: str
    folder: Path
    called: set[str] = field(default_factory=set)
    unresolved: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.cluster.log.stat().st_size

    @property
    def dsn(self) -> str:
        return f"{self.cluster.dsn} dbname={self.database}"

    def session(self, role: str) -> Connection:
        return connect(f"{self.dsn} user={role}")

    def run(self, role: str, *statements: str) -> None:
        with closing(self.session(role)) as session:
            for statement in statements:
                session.execute(statement.encode())

    def tool(self, role: str, command: str) -> tuple[int, str]:
        environment = self.cluster.environment() | {"PGDATABASE": self.database, "PGUSER": role}
        done = preloaded.run(command.split(), self.folder, environment, PATIENCE)
        return done.returncode, done.stderr.decode()

    def captured(self) -> list[Captured]:
        with self.cluster.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self.start)
            return list(dict.fromkeys(read_captured(log.read())))

    @cached_property
    def functions(self) -> list[tuple[str, str, list[str], list[str]]]:
        """The public functions that SQL can call: name, kind, argument names and argument types."""
        with closing(self.session(SUPERUSER)) as admin:
            admin.execute("SET search_path = pg_catalog")
            return admin.execute(FUNCTIONS.encode()).fetchall()


def database_settings(name: str) -> Iterator[str]:
    yield f"ALTER DATABASE {name} SET search_path = {PATH}"
    yield f"ALTER ROLE {READER} IN DATABASE {name} SET search_path = {PATH_OF_READER}"
    yield f"ALTER DATABASE {name} SET session_preload_libraries = 'inorder_test'"


def value(name: str, kind: str, table: str, state: dict[str, str]) -> str:
    """Return an argument of exactly this type."""
    relation, short = f"'app.{table}'::pg_catalog.regclass", kind.rpartition(".")[2]
    if short == "anyelement":
        return f"NULL::app.{table}"
    if short in ("feed_position", "feed_batch"):
        return f"{state[short]}::pg_catalog.jsonb::{kind}"
    if short == "regclass" and name != "sequence":
        return relation
    return f"{state.get(name) or OF_ARGUMENTS.get(name) or VALUES[short]}::{kind}"


def calls(world: World, state: dict[str, str], table: str) -> Iterator[tuple[str, str]]:
    """Yield a call of each public function."""
    for name, kind, names, types in world.functions:
        own_values = {"feed_create": {"name": "'another'"}, "feed_prepare": {"key_column": "'xact'"}}.get(name, {})
        arguments = zip([*names, *[""] * (len(types) - len(names))], types, strict=True)
        arguments_text = ", ".join(value(*argument, table, state | own_values) for argument in arguments)
        called = f"inorder.{name}({arguments_text})"
        yield name, f"SELECT {called}" if kind == "a" else f"SELECT * FROM {called} AS called"


def made_feed(session: Connection, role: str, table: str, state: str) -> dict[str, str]:
    """Create a feed in the given state, and return arguments for the functions. A feed of "logged" reads its log."""
    feed = f"{role}_{table}_{state}"
    source = f"{table}_changes" if table == "logged" else table
    session.execute(CREATE_FEED.format(feed=feed, table=source).encode())
    number, token = 1, 1
    if state != "free":
        row = session.execute(TAKE.format(feed=feed, tries=1 if state == "failed" else 5).encode()).fetchone()
        assert row is not None
        number, token = row
    if state == "failed":
        session.execute(FAIL.format(feed=feed, number=number, token=token).encode())
        session.execute(TAKE.format(feed=feed, tries=1).encode())
    row = session.execute(BATCH.format(table=source).encode()).fetchone()
    assert row is not None
    of_reader = zip(("feed_position", "feed_batch"), map(literal, row), strict=True)
    return {"name": f"'{feed}'", "number": str(number), "token": str(token), **dict(of_reader)}


def call_all(world: World, role: str) -> None:
    """Call each public function for each table and each state of a feed. Each call is rolled back."""
    with closing(world.session(role)) as session:
        for table in TABLES:
            for state in STATES:
                arguments = made_feed(session, role, table, state)
                for name, statement in calls(world, arguments, table):
                    call(world, session, name, statement)
        for view in ("feeds", "feed_batches"):
            session.execute(f"SELECT * FROM inorder.{view}".encode())


def call(world: World, session: Connection, name: str, statement: str) -> None:
    session.execute("BEGIN")
    try:
        session.execute(statement.encode())
        world.called.add(name)
    except psycopg.Error as error:
        if error.sqlstate in UNRESOLVED:
            world.unresolved.append(f"{statement}: {error}")
    session.execute("ROLLBACK")
