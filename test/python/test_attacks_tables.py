"""Attacks on readers, other owners and the server, by the owner of a table and by roles that may only connect."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import psycopg
import pytest
from inorder.connection.database import Connection, connect, query
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.tail.formats import FORMATS
from psycopg import sql

from attack import ATTACK, database, refusal
from conftest import LONG_RUN
from sql_edition import BUILT, TESTED, create
from tail_runs import Tail
from waiting import blocked
from world.beside import beside
from world.sql import run, value

pytestmark = pytest.mark.server

TRIED = ("c", "sql") if TESTED == "c" else ("sql",)
CREATE = "GRANT CREATE ON DATABASE {database} TO mallory"
EVENTS = "CREATE TABLE {name} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)"


@pytest.fixture(scope="module")
def attacked(server: Installation) -> Iterator[Cluster]:
    """Yield a separate server, because roles are shared by all databases of a server."""
    with Cluster(server, BUILT) as running:
        running.start({"fsync": "off", "restart_after_crash": "off"})
        with connect(running.dsn) as admin:
            run(admin, "CREATE DATABASE with_c", "CREATE DATABASE with_sql")
        for edition in TRIED:
            with connect(f"{running.dsn} dbname=with_{edition}") as admin:
                create(admin, edition)
        yield running


@pytest.fixture
def dsn(attacked: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    with database(attacked, CREATE, template=f"with_{getattr(request, 'param', TESTED)}") as database_dsn:
        with connect(f"{database_dsn} user=mallory") as mallory:
            run(mallory, ATTACK)
        yield database_dsn


# Calls by a superuser who administers the feeds of other roles.
READS = (
    "SELECT * FROM feeds",
    "SELECT * FROM feed_holders('{table}')",
    "SELECT * FROM feed_peek('{feed}', null::{table}, 1, owner => 'mallory')",
    "SELECT * FROM feed_read('{feed}', null::{table}, 1, owner => 'mallory')",
    "SELECT feed_apply('{feed}', 'SELECT 1 FROM batch', 1, owner => 'mallory')",
    "SELECT feed_seek('{feed}', 'beginning', owner => 'mallory')",
    "SELECT (feed_take_batch('{feed}', 'w', 1, owner => 'mallory')).number",
    "SELECT * FROM feed_batch_rows('{feed}', {batch}, null::{table}, owner => 'mallory')",
    "SELECT feed_finish_batch('{feed}', number, token, owner => 'mallory') "
    "FROM feed_take_batch('{feed}', 'w', 1, owner => 'mallory')",
    "SELECT feed_seek('{feed}', 'beginning', owner => 'mallory')",
    "SELECT * FROM feed_take_batch('{feed}', 'w', 1, owner => 'mallory')",
    "SELECT feed_seek('{feed}', 'beginning', owner => 'mallory')",
    "SELECT * FROM reader_batch_rows('{table}', reader_next_batch('{table}', {start}, 1), null::{table})",
    "SELECT * FROM reader_batch_rows('{table}', {every}, null::{table})",
    "SELECT exact_count('{table}')",
    "SELECT exact_count_fold('{table}')",
    "SELECT exact_count('{table}')",
    "SELECT reader_split('{table}', {every}, 3)",
    "SELECT reader_split('{table}', reader_batch_between({start}, reader_advance({start}, {every})), 2)",
    "SELECT reader_backlog('{table}', {start}), reader_wait('{table}', {start}, '0')",
    "SELECT feed_wait('{feed}', '0', owner => 'mallory')",
    "SELECT feed_create('{name}', '{table}', order_column => 'n')",
    "SELECT * FROM feed_read('{name}', null::{table}, 1)",
    "SELECT feed_create('{name} shared', '{table}', order_column => 'n', partition_by => 'n', shares => 2)",
    "SELECT * FROM feed_take_batch('{name} shared', 'w', 1)",
    "SELECT exact_count_start('{table}'), feed_enable('{table}')",
    "SELECT feed_passed('{table}'), feed_passed_partitions('{table}')",
    "SELECT feed_rename('{feed}', '{feed}', owner => 'mallory')",
    "SELECT feed_rebase('{table}', 100000)",
    "SELECT * FROM feeds",
)


def read_all(connection: Connection, table: str, feed: str) -> set[str]:
    start, name = f"reader_start('{table}')", f"of_{connection.info.user}"
    every = f"reader_next_batch('{table}', {start})"
    refused = set()
    batch: object = None
    for read in READS:
        if "{batch}" in read:
            batch = value(connection, f"SELECT coalesce(min(unfinished_batch), 1) FROM feeds WHERE name = '{feed}'")
        statement = read.format(table=table, feed=feed, start=start, every=every, name=name, batch=batch)
        refused.add(refusal(connection, statement, "42703"))
    # feed_prepare() would add a second column, so it rejects a table that is already readable by its key (55000).
    refused |= {refusal(connection, f"SELECT feed_prepare('{table}')", "42703")} - {"55000"}
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            run(connection, str(value(connection, f"SELECT reader_batch_query('{table}', {every})")))
    except psycopg.Error as error:
        refused.add(error.sqlstate or "?")
    assert refusal(connection, "SELECT * FROM feeds") == ""
    return refused - {""}


# Each entry creates evil.t as mallory. {feeds} is replaced with statements that create a feed and a count of evil.t.
FEED = "SELECT feed_create('f', 'evil.t'); SELECT exact_count_start('evil.t')"
FEEDS = ("CREATE INDEX ON evil.t (n)", *FEED.split("; "))
TABLES = {
    "nothing hostile": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds}""",
    "an enumeration with an implicit cast in the key": """
        CREATE TYPE evil.e AS ENUM ('a', 'b');
        CREATE FUNCTION evil.to_bigint(evil.e) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
            'BEGIN PERFORM evil.attack(); RETURN 1; END';
        CREATE CAST (evil.e AS bigint) WITH FUNCTION evil.to_bigint(evil.e) AS IMPLICIT;
        CREATE FUNCTION evil.to_text(evil.e) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
            'BEGIN PERFORM evil.attack(); RETURN 1; END';
        CREATE CAST (evil.e AS text) WITH FUNCTION evil.to_text(evil.e) AS IMPLICIT;
        CREATE TABLE evil.t (k evil.e PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n serial);
        CREATE INDEX ON evil.t (xact) WHERE xact > 0;
        INSERT INTO evil.t (k) VALUES ('a'), ('b'); {feeds}""",
    "a domain with a constraint in the key": """
        CREATE DOMAIN evil.d AS int CHECK (evil.attack() OR true);
        CREATE TABLE evil.t (k evil.d PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n serial);
        CREATE INDEX ON evil.t (xact);
        INSERT INTO evil.t (k) VALUES (1), (2); {feeds}""",
    "a composite type and an array of the owner's in the key": """
        CREATE TYPE evil.c AS (x int);
        CREATE TABLE evil.t (k evil.c[] PRIMARY KEY, xact bigint NOT NULL DEFAULT xact_id(), n serial);
        CREATE INDEX ON evil.t (xact);
        INSERT INTO evil.t (k) VALUES (ARRAY[ROW(1)::evil.c]), (ARRAY[ROW(2)::evil.c]); {feeds}""",
    "a partition key over a function of the owner's": """
        CREATE FUNCTION evil.half(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
            'BEGIN PERFORM evil.attack(); RETURN $1 / 2; END';
        CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n serial) PARTITION BY LIST (evil.half(n));
        CREATE TABLE evil.p PARTITION OF evil.t FOR VALUES IN (0, 1);
        CREATE INDEX ON evil.t (id);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        REVOKE ALL ON evil.p FROM mallory;
        CREATE TABLE evil.q PARTITION OF evil.t DEFAULT;
        INSERT INTO evil.t (n) VALUES (10), (2)""",
    "constraints of the owner's on partitions": """
        CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n serial) PARTITION BY LIST (n);
        CREATE TABLE evil.p (id uuid DEFAULT uuid_xact_nextval(), n int NOT NULL);
        ALTER TABLE evil.t ATTACH PARTITION evil.p DEFAULT;
        CREATE INDEX ON evil.t (id);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        ALTER TABLE evil.p ADD CHECK (evil.constant()), ADD CHECK (evil.constant() IS NOT NULL)""",
    "a policy of the owner's": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        CREATE POLICY p ON evil.t USING (evil.attack());
        ALTER TABLE evil.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY""",
    "a view in the place of the table": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        ALTER TABLE evil.t RENAME TO was;
        CREATE VIEW evil.t AS SELECT id, n FROM evil.was WHERE evil.attack()""",
    "guards made by hand": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        DROP TRIGGER zz_inorder_guard ON evil.t;
        DROP TRIGGER zz_inorder_update ON evil.t;
        CREATE FUNCTION evil.guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM evil.attack(); RETURN NEW; END';
        CREATE TRIGGER zz_inorder_guard BEFORE INSERT OR DELETE OR UPDATE OF id ON evil.t
            FOR EACH ROW EXECUTE FUNCTION evil.guard('0');
        CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON evil.t FOR EACH ROW EXECUTE FUNCTION evil.guard('0');
        ALTER TABLE evil.t ENABLE ALWAYS TRIGGER zz_inorder_guard, ENABLE ALWAYS TRIGGER zz_inorder_update""",
    "a default that calls the owner's function": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        ALTER TABLE evil.t ALTER id SET DEFAULT uuid_xact_nextval(evil.constant()::int::bigint)""",
    "rules of the owner's": """
        CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial);
        INSERT INTO evil.t (n) VALUES (1), (2); {feeds};
        CREATE RULE r AS ON INSERT TO evil.t DO ALSO SELECT evil.attack()""",
}
# Tables whose reads may fail, with the allowed errors. Reads of all other tables succeed.
REFUSED = {
    "a policy of the owner's": ("55000", "42704", "22023"),
    "a view in the place of the table": ("55000", "42704", "22023", "42809", "42804"),
    "guards made by hand": ("55000", "42704", "22023"),
    "a default that calls the owner's function": ("42703",),
}
CONSTANT = "CREATE FUNCTION evil.constant() RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT evil.attack()'"


OTHER_TEXTS = (
    "SELECT count(*) FROM evil.caught", "SELECT count(*) FROM evil.view", "SELECT count(*) FROM evil.t, evil.caught",
    "SELECT count(*) FROM evil.t WHERE evil.attack()", "SELECT count(*) FROM evil.t WHERE EXISTS (TABLE evil.caught)",
    "SELECT count(*) FROM evil.t WHERE n OPERATOR(evil.=) 1",
    "SELECT count(*) FROM evil.t WHERE nextval('evil.calls') > 0",
)  # fmt: skip


@pytest.mark.skipif(TESTED != "c", reason="in the SQL edition, the role that created the query text runs it")
def test_a_query_over_a_table_other_than_its_own_is_refused(dsn: str) -> None:
    """The query is checked after parsing and before planning, when names may already refer to other objects."""
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, *TABLES["nothing hostile"].format(feeds=";\n".join(FEEDS)).split(";\n"))
        run(mallory, "CREATE VIEW evil.view AS SELECT * FROM evil.t", "CREATE FUNCTION evil.same(int, int) RETURNS "
                "boolean LANGUAGE sql AS 'SELECT evil.attack()'",
                "CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.same)")  # fmt: skip
    call = "SELECT inorder_internal.count_as_caller(t, '{}', false, 'postgres'::regrole) "
    call += "FROM inorder_internal.feed_table AS t"
    with connect(dsn) as admin:
        assert value(admin, call.format("SELECT count(*) FROM evil.t")) == 2
        assert {refusal(admin, call.format(text.replace("'", "''"))) for text in OTHER_TEXTS} == {"55000"}


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("table", TABLES)
def test_code_of_the_owner_of_a_table_never_runs_as_its_reader(dsn: str, table: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, CONSTANT, "GRANT USAGE ON SCHEMA evil TO PUBLIC")
        run(mallory, *TABLES[table].format(feeds=";\n".join(FEEDS)).split(";\n"))
        assert value(mallory, "SELECT count(*) FROM feeds") == 1 or "place" in table
        run(mallory, "GRANT SELECT ON evil.t TO PUBLIC")
        run(mallory, "SELECT feed_grant('f', 'bob')")
    # The unprivileged role counts first, because no uncounted rows would be left after a count by the superuser.
    with connect(f"{dsn} user=bob") as bob:
        assert read_all(bob, "evil.t", "f") <= {"42501", *REFUSED.get(table, ())}
    with connect(dsn) as admin:
        assert read_all(admin, "evil.t", "f") <= {*REFUSED.get(table, ())}


# Expressions of a table that the server simplifies when a session first loads them. During simplification, the server
# calls functions with constant arguments.
ONE = """CREATE FUNCTION evil.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM evil.attack(); RETURN 1; END'"""
PARTITIONS = """DO $$ BEGIN FOR i IN 0..39 LOOP EXECUTE format('CREATE TABLE evil.p%1$s PARTITION OF evil.t '
    'FOR VALUES FROM (%1$s, 0) TO (%2$s, 0)', i, i + 1); END LOOP; END $$"""
CONSTANTS = {
    "a partition key": (
        "CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n serial) PARTITION BY RANGE (n, (n + evil.one(1)))",
        PARTITIONS,
        "CREATE INDEX ON evil.t (id)",
    ),
    "indexes, statistics, constraints, a generated column, a domain and a policy": (
        "CREATE DOMAIN evil.d AS int DEFAULT evil.one(1) CHECK (VALUE >= evil.one(1))",
        "CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n serial, d evil.d,"
        " g int GENERATED ALWAYS AS (n + evil.one(1)) STORED)",
        "CREATE INDEX ON evil.t (id, (n + evil.one(1))) WHERE n >= evil.one(1)",
        "CREATE STATISTICS evil.s ON (n + evil.one(1)), (n - evil.one(1)) FROM evil.t",
        "ALTER TABLE evil.t ADD CHECK (n >= evil.one(1))",
        "CREATE POLICY p ON evil.t USING (n >= evil.one(1))",
    ),
}


@pytest.mark.parametrize("made", CONSTANTS)
def test_no_expression_of_a_table_is_evaluated_as_the_owner_of_the_state(dsn: str, made: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, ONE, *CONSTANTS[made], "INSERT INTO evil.t (n) VALUES (1), (2)", *FEEDS)
    start = "reader_start('evil.t')"
    every = f"reader_next_batch('evil.t', {start})"
    with connect(f"{dsn} user=mallory") as writer:
        for read in READS:
            run(writer, "INSERT INTO evil.t (n) VALUES (3), (4)")
            with connect(f"{dsn} user=mallory") as mallory:
                refusal(mallory, read.format(table="evil.t", feed="f", start=start, every=every, name="g", batch=1))


# Keys of partitioned tables, with the bounds of one partition each. A session that loads a key evaluates its constants
# as the current role. If the table has partitions, the session also plans a SELECT on the table.
ABOVE = {
    "LIST ((n + evil.who(1)))": "DEFAULT",
    "RANGE (n, (n + evil.who(1)))": "DEFAULT",
    "HASH ((n + evil.who(1)))": "FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
}
WHO = """CREATE FUNCTION evil.who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN RAISE WARNING ''evaluated as %'', current_user; RETURN 1; END'"""
OF_PARTITIONS = (
    "CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)",
    "CREATE TABLE evil.t_1 PARTITION OF evil.t FOR VALUES IN (1)",
    "CREATE TABLE evil.t_2 PARTITION OF evil.t DEFAULT",
    "CREATE INDEX ON evil.t (id)",
    "INSERT INTO evil.t (n) VALUES (1), (2)",
    "SELECT exact_count_start('evil.t')",
    "GRANT USAGE, CREATE ON SCHEMA evil TO bob",
    "GRANT SELECT ON evil.t TO bob",
)
# Each call examines partitions on which the reader has no privileges.
OF_NEW_PARTITIONS = (
    "SELECT exact_count('evil.t')",
    "SELECT feed_apply('b', 'SELECT FROM batch')",
    "SELECT (feed_take_batch('b', 'w')).number",
    "SELECT * FROM feed_take_batch('w', 'worker')",
    "SELECT reader_next_batch('evil.t', p) FROM evil.kept",
    "SELECT count(*) FROM reader_batch_rows('evil.t', (SELECT b FROM evil.kept), null::evil.t)",
)


def read_partitions(mallory: Connection, bob: Connection) -> None:
    """Store positions and a batch for bob, then insert rows and add a partition."""
    run(mallory, WHO, *OF_PARTITIONS)
    for feed in ("b", "w"):
        run(bob, f"SELECT feed_create('{feed}', 'evil.t')", f"SELECT feed_apply('{feed}', 'SELECT FROM batch')")
    run(bob, "CREATE TABLE evil.kept AS SELECT reader_start('evil.t', 'now') AS p, "
            "reader_next_batch('evil.t', reader_start('evil.t')) AS b")  # fmt: skip
    run(mallory, "CREATE TABLE evil.t_3 PARTITION OF evil.t FOR VALUES IN (3)")
    run(mallory, "INSERT INTO evil.t (n) VALUES (1), (2), (3)")


def evaluated(session: Connection) -> set[str]:
    """Return the set of roles that have run mallory's functions in the session.

    The set grows while the session runs.
    """
    roles: set[str] = set()
    session.add_notice_handler(lambda notice: roles.add(str(notice.message_primary)))
    return roles


def attachment(key: str) -> tuple[str, str]:
    return (f"CREATE TABLE evil.above (LIKE evil.t) PARTITION BY {key}",
            f"ALTER TABLE evil.above ATTACH PARTITION evil.t {ABOVE[key]}")  # fmt: skip


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("key", ABOVE)
def test_a_partition_key_that_the_snapshot_does_not_see_is_evaluated_as_the_reader(dsn: str, key: str) -> None:
    """Each call needs a new session, because a session evaluates the key only once, when it loads the key."""
    reads = ("SELECT FROM evil.t", *OF_NEW_PARTITIONS)
    with connect(f"{dsn} user=mallory") as mallory, ExitStack() as stack:
        sessions = {read: stack.enter_context(connect(f"{dsn} user=bob")) for read in reads}
        read_partitions(mallory, sessions[reads[0]])
        for session in sessions.values():
            run(session, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
        run(mallory, *attachment(key))
        by_read = {read: evaluated(session) for read, session in sessions.items()}
        for read, session in sessions.items():
            assert refusal(session, read) == "", read
            run(session, "ROLLBACK")
        assert by_read.pop(reads[0]) == {"evaluated as bob"}
        assert {read: by for read, by in by_read.items() if not by <= {"evaluated as bob"}} == {}


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("read", OF_NEW_PARTITIONS)
def test_a_partition_key_added_during_a_wait_is_evaluated_as_the_reader(dsn: str, read: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory, connect(f"{dsn} user=bob") as bob:
        read_partitions(mallory, bob)
        run(mallory, "BEGIN", *attachment("LIST ((n + evil.who(1)))"))
        roles = evaluated(bob)
        with blocked(refusal, bob, read) as reading:
            assert not reading.done()
            run(mallory, "COMMIT")
            assert reading.result() == ""
        assert roles <= {"evaluated as bob"}


PLANNED = ("CREATE INDEX ON evil.t (n) WHERE n >= evil.one(1)", "CREATE INDEX ON evil.t ((n + evil.one(1)))")


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("index", PLANNED)
def test_a_reader_runs_only_the_code_that_a_plain_select_runs(dsn: str, index: str) -> None:
    """The planner simplifies index expressions as the reading role, as documented.

    No other code of the owner is run.
    """
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, ONE, EVENTS.format(name="evil.t"), index, "INSERT INTO evil.t (n) VALUES (1)")
        run(mallory, *FEED.split("; "), "SELECT feed_grant('f', 'bob')", "GRANT USAGE ON SCHEMA evil TO bob",
                "GRANT SELECT ON evil.t TO bob")  # fmt: skip
        for read in ("SELECT n FROM evil.t WHERE id >= uuid_xact_floor(0)",
                     "SELECT feed_apply('f', 'SELECT FROM batch', 1, 'mallory')"):  # fmt: skip
            with connect(f"{dsn} user=bob") as bob:
                run(bob, read)
            assert value(mallory, "SELECT array_agg(DISTINCT who::text) FROM evil.caught") == ["bob"], read
            run(mallory, "TRUNCATE evil.caught", "SELECT setval('evil.calls', 1, false)")


# Objects that have taken the name of the table by the time the query string is run. A condition on their key runs the
# attack when the reader plans or executes the query.
TRAP = """CREATE FUNCTION back.trap(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM evil.attack(); RETURN n; END'"""
CASTS = (
    "CREATE TYPE back.e AS ENUM ('a')",
    "CREATE FUNCTION back.f(back.e) RETURNS {type} LANGUAGE {language}",
    "CREATE CAST (back.e AS {type}) WITH FUNCTION back.f AS IMPLICIT",
)
INLINED = "sql IMMUTABLE RETURN CASE WHEN back.trap(1) = 1 THEN '{value}'::{type} END"
CALLED = "plpgsql IMMUTABLE AS 'BEGIN PERFORM evil.attack(); RETURN ''{value}''; END'"
IMPOSTORS = {
    "a cast": (*CASTS, "CREATE TABLE back.t (id back.e, n int)", "INSERT INTO back.t VALUES ('a')"),
    "an inlined cast": (*CASTS, "CREATE TABLE back.t (id back.e, n int)"),
    "an index": (
        "CREATE TABLE back.t (id uuid PRIMARY KEY, n int)",
        "CREATE INDEX ON back.t (n) WHERE back.trap(1) = 2",
    ),
    "a partition key": (
        "CREATE TABLE back.t (id uuid, n int) PARTITION BY LIST ((n + back.trap(1)))",
        "CREATE TABLE back.p PARTITION OF back.t DEFAULT",
    ),
    "a policy": (
        "CREATE TABLE back.t (id uuid PRIMARY KEY, n int)",
        "CREATE POLICY p ON back.t USING (back.trap(1) = 2)",
        "ALTER TABLE back.t ENABLE ROW LEVEL SECURITY",
    ),
    "a view": ("CREATE VIEW back.t AS SELECT gen_random_uuid() AS id, 1 AS n, 0::oid AS tableoid WHERE evil.attack()",),
    # The attack is in another column, and runs when the reader processes the rows.
    "a cast to text": (*CASTS, "CREATE TABLE back.t (id uuid PRIMARY KEY, n back.e)"),
}
VECTOR = "CREATE FUNCTION evil.vector() RETURNS tsvector LANGUAGE sql AS 'SELECT evil.attack()::text::tsvector'"
OTHERS = {
    "a view of something else": (
        "CREATE VIEW back.t AS SELECT gen_random_uuid() AS id, 1::bigint AS n WHERE evil.attack()",
    ),
    "a view of the very table": (
        "CREATE VIEW back.t AS SELECT t.id, t.n"
        " FROM (SELECT count(*) FROM ts_stat('SELECT evil.vector()')) AS s(c), front.t AS t WHERE s.c >= 0",
    ),
    "a domain": ("CREATE DOMAIN back.t AS text CHECK (evil.attack())",),
    "a table with a domain": (
        "CREATE DOMAIN back.d AS bigint CHECK (evil.attack())",
        "CREATE TABLE back.t (id uuid PRIMARY KEY, n back.d)",
    ),
    **{other: (TRAP, *IMPOSTORS[other]) for other in ("an index", "a partition key", "an inlined cast")},
}


def by_the_tool(oid: object, schema: str) -> Iterator[str]:
    """Yield queries of the tool that name a table and call functions in this schema."""
    table, name = sql.SQL(str(oid)), sql.Identifier("front", "t")
    parts = {"inorder": sql.Identifier("public"), "inorder_text": sql.Identifier(schema), "table": table, "name": name,
             "key": sql.SQL("e.id"), "column": sql.Identifier("n"), "keys": sql.SQL("'{}'"),
             "transactions": sql.SQL("'{}'")}  # fmt: skip
    yield from (query(text).format(**parts).as_string() for text in ("shard_has", "shard_numbers", "shard_rows"))
    feed = {"name": sql.SQL("'g'"), "batch": sql.SQL("1"), "table": name, "owner": sql.SQL("'mallory'::regrole")}
    yield f"SELECT e.* FROM {query('tail_feed_rows').format(**parts | feed).as_string()} AS e"


def by_number(oid: object, schema: str) -> tuple[str, ...]:
    """Return calls that identify the table by its OID or by its feed."""
    start = f"reader_start({oid})"
    return (
        f"SELECT exact_count({oid})",
        "SELECT feed_apply('f', 'SELECT FROM batch', 1, 'mallory')",
        "SELECT feed_seek('f', 'beginning', 'mallory')",
        f"SELECT reader_split({oid}, reader_next_batch({oid}, {start}), 2)",
        f"SELECT exact_count_fold({oid}), reader_backlog({oid}, {start})",
        f"SELECT feed_passed_partitions({oid}), reader_wait({oid}, {start}, '0')",
        "SELECT feed_read('f', (NULL::front.t[])[1], 1, 'mallory')",
        f"SELECT feed_rebase({oid}), feed_seek('f', 'beginning', 'mallory')",
        *by_the_tool(oid, schema),
    )


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("other", OTHERS)
def test_a_schema_renamed_during_a_call_does_not_redirect_the_call(dsn: str, other: str) -> None:
    swap = ("BEGIN", "ALTER SCHEMA front RENAME TO middle", "ALTER SCHEMA back RENAME TO front",
            "ALTER SCHEMA middle RENAME TO back", "COMMIT")  # fmt: skip
    with connect(f"{dsn} user=mallory") as mallory, connect(dsn) as admin:
        table = EVENTS.format(name="front.t").replace("int", "bigint")
        run(mallory, "CREATE SCHEMA front", "CREATE SCHEMA back", table, VECTOR)
        names = {"type": "uuid", "value": "0" * 32}
        run(mallory, *(statement.format(language=INLINED.format(**names), **names) for statement in OTHERS[other]))
        run(mallory, "INSERT INTO front.t (n) VALUES (1)", "SELECT feed_create('f', 'front.t')")
        oid = value(admin, "SELECT 'front.t'::regclass::oid")
        run(mallory, f"SELECT exact_count_start({oid}), feed_create('g', {oid}), (feed_take_batch('g', 'w')).number")
        of_text = value(admin, "SELECT coalesce(to_regnamespace('inorder_text')::text, 'inorder_internal')")
        calls = by_number(oid, str(of_text))
        assert [call for call in calls if refusal(admin, call)] == []

        def swap_until(ended: Event) -> None:
            while not ended.is_set():
                run(mallory, *swap)

        with beside(swap_until):
            for _ in range(8 if LONG_RUN else 2):
                for call in calls:
                    # These errors are expected while another relation or a type has the name.
                    refusal(admin, call, "42P01", "42883", "42703")


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
def test_a_call_that_waited_locks_its_table_or_fails(dsn: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory, connect(f"{dsn} user=mallory") as swapper, connect(dsn) as admin:
        for schema in ("front", "back"):
            run(mallory, f"CREATE SCHEMA {schema}", EVENTS.format(name=f"{schema}.t"))
            run(mallory, f"SELECT feed_enable('{schema}.t')")
        oid = value(mallory, "SELECT 'front.t'::regclass::oid")
        run(mallory, "BEGIN", "LOCK TABLE front.t")
        run(admin, "BEGIN")
        with blocked(refusal, admin, f"SELECT reader_start({oid})", "40001") as refused:
            run(swapper, SWAP.format("front", "back"))
            run(mallory, "COMMIT")
            held = f"SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = {oid}"
            assert refused.result() or value(admin, held)


AS_READER = (
    "{}",
    "DECLARE c CURSOR FOR {}; FETCH ALL FROM c",
    "COPY (SELECT e.* FROM ({}) AS e) TO STDOUT",
    "SELECT e.id::text, e.n::text FROM ({}) AS e",
    "DEALLOCATE ALL; PREPARE p AS {}; EXECUTE p",
)
SWAP = "ALTER SCHEMA {0} RENAME TO middle; ALTER SCHEMA {1} RENAME TO {0}; ALTER SCHEMA middle RENAME TO {1}"


def make_impostor(mallory: Connection, impostor: str) -> None:
    names = {"type": "text", "value": "a"} if impostor == "a cast to text" else {"type": "uuid", "value": "0" * 32}
    language = (CALLED if impostor == "a cast" else INLINED).format(**names)
    run(mallory, "CREATE SCHEMA back", TRAP)
    run(mallory, *(statement.format(language=language, **names) for statement in IMPOSTORS[impostor]))
    run(mallory, "GRANT USAGE ON SCHEMA back, front TO PUBLIC", "GRANT SELECT ON back.t, front.t TO PUBLIC")


def springs(mallory: Connection, reader: Connection, statement: str) -> bool:
    """Return whether a statement attacks the reader while the impostor has the table's name, and undo the attack."""
    run(mallory, SWAP.format("front", "back"))
    refusal(reader, statement)
    run(mallory, SWAP.format("front", "back"))
    sprung = bool(value(mallory, "SELECT is_called FROM evil.calls"))
    run(mallory, "TRUNCATE evil.caught", "SELECT setval('evil.calls', 1, false)")
    return sprung


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_a_query_made_for_a_table_never_reads_another_table(dsn: str, impostor: str) -> None:
    role = " user=bob" if impostor == "a policy" else ""  # policies do not apply to a superuser
    with connect(f"{dsn} user=mallory") as mallory, connect(f"{dsn}{role}") as reader:
        run(mallory, "CREATE SCHEMA front", EVENTS.format(name="front.t"), "SELECT feed_enable('front.t')")
        run(mallory, *["INSERT INTO front.t (n) VALUES (1), (2)"] * 2)
        make_impostor(mallory, impostor)
        plain = "SELECT id, n::text FROM front.t WHERE id > '00000000-0000-0000-0000-000000000000'::uuid"
        assert springs(mallory, reader, plain)
        if not role:
            run(reader, "ALTER ROLE mallory NOSUPERUSER")
        oid = value(mallory, "SELECT 'front.t'::regclass::oid")
        for max_rows in ("NULL", "1", "3"):
            for form in AS_READER:
                run(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
                batch = f"reader_next_batch({oid}, reader_start({oid}), {max_rows})"
                text = str(value(reader, f"SELECT reader_batch_query({oid}, {batch})"))
                run(reader, "SAVEPOINT s")
                run(mallory, SWAP.format("front", "back"))
                # 42883: the query calls a function of the schema with a built-in type or with the row type, and the
                # swapped schema has no such function.
                assert refusal(reader, form.format(text), "42883") in {"55000", "42883"}
                run(reader, "ROLLBACK TO s")
                run(mallory, SWAP.format("front", "back"))
                assert len(reader.execute(text.encode()).fetchall()) == {"NULL": 4, "1": 1, "3": 3}[max_rows]
                run(reader, "ROLLBACK")


@pytest.mark.parametrize("superuser", [False, True])
def test_an_overload_in_the_schema_of_the_extension_is_not_called(dsn: str, superuser: bool) -> None:
    """A query string calls a function to check its table. An overload of that function matches the call better."""
    text = "SELECT reader_batch_query('front.t', reader_next_batch('front.t', reader_start('front.t')))"
    with connect(f"{dsn} user=mallory") as mallory, connect(dsn) as admin:
        run(admin, "GRANT CREATE ON SCHEMA public TO mallory")
        run(mallory, "CREATE SCHEMA front", EVENTS.format(name="front.t"), "SELECT feed_create('f', 'front.t')")
        run(
            mallory,
            "INSERT INTO front.t (n) VALUES (1)",
            "CREATE FUNCTION public.feed_is_table(front.t, oid) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
            " 'BEGIN RETURN evil.attack(); END'",
        )
        run(admin, "SELECT public.feed_is_table(NULL::front.t, 1::oid)")
        assert value(mallory, "SELECT is_called FROM evil.calls")
        run(mallory, "TRUNCATE evil.caught", "SELECT setval('evil.calls', 1, false)")
        if not superuser:
            run(admin, "ALTER ROLE mallory NOSUPERUSER")
        apply = "SELECT feed_apply('f', 'SELECT FROM batch', 1, 'mallory')"
        assert refusal(admin, apply) == ""
        run(admin, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert refusal(admin, str(value(admin, text))) == ""
        run(admin, "COMMIT")
        assert not value(mallory, "SELECT is_called FROM evil.calls")
        run(admin, "ALTER ROLE mallory NOSUPERUSER")


def test_a_policy_on_a_partition_does_not_run_as_the_role_that_waits_for_it(dsn: str) -> None:
    """Reads of the table ignore policies of its partitions.

    Some calls read a partition directly, and they must not run its policies.
    """
    with connect(f"{dsn} user=mallory") as mallory, connect(f"{dsn} user=bob") as bob:
        run(
            mallory,
            "CREATE TABLE evil.t (id uuid DEFAULT uuid_xact_nextval(), n int) PARTITION BY LIST (n)",
            "CREATE TABLE evil.p PARTITION OF evil.t FOR VALUES IN (1)",
            "CREATE INDEX ON evil.t (id)",
            "SELECT exact_count_start('evil.t')",
            "INSERT INTO evil.t (n) VALUES (1), (1)",
            "GRANT SELECT ON ALL TABLES IN SCHEMA evil TO bob",
            VECTOR,
            "BEGIN",
            "ALTER TABLE evil.p ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY p ON evil.p USING (n = 7 AND EXISTS (SELECT FROM ts_stat('SELECT evil.vector()')))",
        )
        with blocked(value, bob, "SELECT exact_count('evil.t')") as call:
            run(mallory, "COMMIT")
            assert call.result() == 2


def test_the_view_feeds_plans_no_query_over_the_table(dsn: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, CONSTANT, EVENTS.format(name="evil.t"), "CREATE INDEX ON evil.t ((evil.constant()))")
        run(mallory, "INSERT INTO evil.t (n) SELECT generate_series(1, 1000)", "ANALYZE evil.t", *FEED.split("; "))
        run(mallory, "INSERT INTO evil.t (n) VALUES (1)")
    for user in ("postgres", "monitor"):
        with connect(f"{dsn} user={user}") as looker:
            assert value(looker, "SELECT backlog_rows > 0 FROM feeds") is (None if TESTED == "sql" else True)


def test_a_role_without_privileges_cannot_write_the_state(attacked: Cluster) -> None:
    with database(attacked) as dsn:
        with connect(dsn) as admin:
            create(admin)
        with connect(f"{dsn} user=mallory") as guest:
            run(
                guest,
                "CREATE TEMP TABLE feed_table (x int)",
                "CREATE TEMP VIEW v AS SELECT 1 AS id",
                "CREATE TEMP TABLE t (id uuid PRIMARY KEY DEFAULT public.uuid_xact_nextval())",
            )
            for table in ("feed", "feed_table", "counted_table", "count_part"):
                for statement in (
                    "TABLE {}",
                    "INSERT INTO {} DEFAULT VALUES",
                    "DELETE FROM {}",
                    "UPDATE {} SET relation = 0",
                ):
                    assert refusal(guest, statement.format(f"inorder_internal.{table}")) == "42501", statement
            for relation in ("v", "t"):
                batch = f"reader_next_batch('{relation}', reader_start('{relation}'))"
                for call in (f"feed_create('f', '{relation}')",
                             f"reader_batch_rows('{relation}', {batch}, null::{relation})"):  # fmt: skip
                    assert refusal(guest, f"SELECT {call}") == "42809"
            with connect(dsn) as admin:
                run(admin, "SELECT * FROM feeds")


HAND_MADE = [
    "BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION feed_guard('0')",
    "BEFORE INSERT OR DELETE OR UPDATE OF n ON t FOR EACH ROW EXECUTE FUNCTION feed_guard('0')",
    "BEFORE INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION feed_guard()",
    "BEFORE INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION feed_guard('7')",
    "BEFORE INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION feed_guard('x')",
    "BEFORE INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW WHEN (1 = 0) EXECUTE FUNCTION feed_guard('0')",
    "BEFORE INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION evil.other('0')",
    "BEFORE INSERT OR DELETE OR UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION feed_guard('0')",
    "AFTER INSERT OR DELETE OR UPDATE OF id ON t FOR EACH ROW EXECUTE FUNCTION feed_guard('0')",
]


def test_a_guard_created_by_hand_is_not_accepted(dsn: str) -> None:
    with connect(f"{dsn} user=mallory") as mallory:
        mallory.prepare_threshold = None  # a prepared statement would keep the type of a dropped table
        run(mallory, "SET search_path = evil, public")
        run(mallory, "CREATE FUNCTION evil.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
        for trigger in HAND_MADE:
            run(mallory, EVENTS.format(name="evil.t"), "SELECT feed_create('f', 't')")
            run(mallory, "DROP TRIGGER zz_inorder_guard ON t", f"CREATE TRIGGER zz_inorder_guard {trigger}")
            run(mallory, "ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_guard")
            if "other" in trigger:  # both triggers call the attacker's function
                create = "CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION other('0')"
                always = "ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_update"
                run(mallory, "DROP TRIGGER zz_inorder_update ON t", create, always)
            assert refusal(mallory, "SELECT * FROM feed_read('f', null::t)") == "55000", trigger
            assert refusal(mallory, "SELECT reader_start('t')") == "55000", trigger
            for statement in ("INSERT INTO t (n) VALUES (1)", "UPDATE t SET n = 2", "DELETE FROM t", "TRUNCATE t"):
                refusal(mallory, statement)
            update = "CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION feed_guard()"
            run(mallory, "DROP TRIGGER zz_inorder_update ON t", update)
            run(mallory, "ALTER TABLE t ENABLE ALWAYS TRIGGER zz_inorder_update")
            assert refusal(mallory, "SELECT exact_count_start('t'), feed_create('g', 't')") == "", trigger
            run(mallory, "INSERT INTO t (n) VALUES (1)", "SELECT * FROM feed_read('f', null::t)", "DROP TABLE t")


OF_A_TABLE = (
    "feed_enable", "feed_disable", "feed_rebase", "feed_passed", "feed_passed_partitions",
    "reader_start", "exact_count", "exact_count_start", "exact_count_fold", "exact_count_stop",
)  # fmt: skip
OF_A_FEED = (
    ("drop", ""), ("seek", "'now', "), ("apply", "'SELECT FROM batch', 1, "), ("rename", "'b', "),
    ("grant", "'mallory', "), ("revoke", "'bob', "), ("finish_batch", "1, "),
    ("take_batch", "'w', 1, "), ("finish_batch", "1, 1, "), ("renew_batch", "1, 1, "), ("retry_batch", "1, "),
    ("fail_batch", "1, 1, 'no', "),
)  # fmt: skip
CALLS = (
    "SELECT feed_create('f', 'alice.t')",
    *(f"SELECT {name}('alice.t')" for name in OF_A_TABLE),
    *(f"SELECT feed_{name}('a', {arguments}owner => 'alice')" for name, arguments in OF_A_FEED),
    "SELECT * FROM feed_read('a', null::evil.t, 1, 'alice')",
    "SELECT * FROM feed_peek('a', null::evil.t, 1, 'alice') LIMIT 1",
)


@pytest.fixture
def alices(dsn: str) -> str:
    with connect(dsn) as admin:
        run(admin, "CREATE SCHEMA alice AUTHORIZATION alice")
    with connect(f"{dsn} user=alice") as alice:
        run(alice, EVENTS.format(name="alice.t"), "SELECT feed_create('a', 'alice.t'), exact_count_start('alice.t')")
        run(alice, "INSERT INTO alice.t (n) VALUES (1), (2)")
    with connect(f"{dsn} user=mallory") as mallory:
        run(mallory, EVENTS.format(name="evil.t"))
    return dsn


def test_a_role_without_privileges_can_neither_move_nor_lock_a_feed(alices: str) -> None:
    with connect(alices) as admin, connect(f"{alices} user=mallory") as mallory:
        oid = value(admin, "SELECT 'alice.t'::regclass::oid")
        feed = value(admin, "SELECT id FROM inorder_internal.feed")
        before = value(admin, "SELECT row(f.*)::text FROM inorder_internal.feed AS f")
        for call in CALLS:
            by_oid = call.replace("'alice.t'", f"{oid}")
            run(mallory, "BEGIN")
            assert refusal(mallory, by_oid) in ("42501", "42704"), call
            run(mallory, "ROLLBACK")
            run(mallory, "BEGIN", f"DO $$ BEGIN EXECUTE $x${by_oid}$x$; EXCEPTION WHEN OTHERS THEN NULL; END $$")
            held = (
                f"SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() AND (relation = {oid} OR objid = {feed})"
            )
            assert value(admin, held) == 0, call
            run(mallory, "ROLLBACK")
        assert value(admin, "SELECT row(f.*)::text FROM inorder_internal.feed AS f") == before
        assert value(mallory, "SELECT count(*) FROM feeds") == 0


def test_a_reader_can_move_only_its_own_and_granted_feeds(alices: str) -> None:
    with connect(f"{alices} user=alice") as alice, connect(f"{alices} user=bob") as bob:
        run(alice, "GRANT USAGE ON SCHEMA alice TO bob", "GRANT SELECT ON alice.t TO bob")
        run(bob, "SELECT feed_create('a', 'alice.t')")
        assert value(bob, "SELECT count(*) FROM feed_read('a', null::alice.t)") == 2
        assert value(bob, "SELECT count(*) FROM feeds") == 2
        for call in CALLS:
            if re.search("'alice'|able|rebase|(?<!reader)_st", call):
                assert refusal(bob, call.replace("evil.t", "alice.t")) == "42501", call
        assert value(alice, "SELECT count(*) FROM feed_read('a', null::alice.t)") == 2
        run(alice, "SELECT feed_grant('a', 'bob')", "INSERT INTO alice.t (n) VALUES (3)")
        assert value(bob, "SELECT count(*) FROM feed_read('a', null::alice.t, owner => 'alice')") == 1
        run(alice, "SELECT feed_revoke('a', 'bob')", "REVOKE SELECT ON alice.t FROM bob")
        assert refusal(bob, "SELECT * FROM feed_read('a', null::alice.t, owner => 'alice')") == "42704"
        assert refusal(bob, "SELECT * FROM feed_read('a', null::alice.t)") == "42501"
        # The owner of a table may drop the feeds of other roles on it.
        run(alice, "SELECT feed_drop('a', 'bob')")


OWN_CALLS = (
    "SELECT feed_enable('alice.t')",
    "SELECT feed_create('b', 'alice.t')",
    "SELECT * FROM feed_peek('a', null::alice.t, 1)",
    "SELECT * FROM feed_read('a', null::alice.t, 1)",
    "SELECT feed_apply('a', 'SELECT FROM batch', 1)",
    "INSERT INTO alice.t (n) VALUES (3)",
    "SELECT (feed_take_batch('a', 'w', 1)).number",
    "SELECT * FROM feed_batch_rows('a', 1, null::alice.t)",
    "SELECT feed_finish_batch('a', 1, token) FROM feed_take_batch('a', 'w')",
    "INSERT INTO alice.t (n) VALUES (4)",
    "SELECT feed_fail_batch('a', number, token, 'no') FROM feed_take_batch('a', 'w', 1, max_tries => 1)",
    "SELECT feed_retry_batch('a', number) FROM feed_batches",
    "SELECT feed_renew_batch('a', number, token), feed_finish_batch('a', number, token)"
    " FROM feed_take_batch('a', 'w', 1)",
    "SELECT feed_seek('a', 'now')",
    "SELECT feed_passed('alice.t'), feed_passed_partitions('alice.t')",
    "SELECT feed_rename('a', 'a')",
    "SELECT feed_grant('a', 'bob')",
    "SELECT feed_revoke('a', 'bob')",
    "SELECT reader_next_batch('alice.t', reader_start('alice.t'))",
    "SELECT exact_count('alice.t')",
    "SELECT exact_count_fold('alice.t')",
    "SELECT exact_count_stop('alice.t')",
    "SELECT exact_count_start('alice.t')",
    "SELECT feed_rebase('alice.t')",
    "SELECT * FROM feeds",
    "SELECT * FROM feed_holders('alice.t')",
    "SELECT feed_drop('a'), feed_drop('b'), exact_count_stop('alice.t')",
    "SELECT feed_disable('alice.t')",
)


@pytest.mark.parametrize("off", ["indexscan", "seqscan", "nestloop"])
def test_no_call_waits_for_a_lock_on_a_table_of_another_owner(alices: str, off: str) -> None:
    with connect(f"{alices} user=alice") as alice, connect(f"{alices} user=mallory") as mallory:
        run(mallory, *FEED.split("; "), "GRANT SELECT ON evil.t TO alice")
        with connect(alices) as admin:
            run(admin, "ANALYZE inorder_internal.feed, inorder_internal.feed_table")
        run(mallory, "BEGIN", "LOCK TABLE evil.t", "DROP SCHEMA evil CASCADE")
        run(alice, f"SET enable_{off} = off", f"SET enable_bitmapscan = {'off' if off == 'indexscan' else 'on'}")
        run(alice, "SET lock_timeout = '1s'")
        for call in OWN_CALLS:
            assert refusal(alice, call) == "", call
        run(mallory, "ROLLBACK")


def test_pg_monitor_can_see_the_state_but_cannot_move_a_feed(alices: str) -> None:
    with connect(f"{alices} user=alice") as alice, connect(f"{alices} user=monitor") as monitor:
        run(alice, "SELECT * FROM feed_read('a', null::alice.t, 1)")
        key = str(value(alice, "SELECT min(id::text) FROM alice.t"))
        shown = str(value(monitor, "SELECT row(f.*)::text FROM feeds AS f"))
        assert shown.startswith("(a,alice,") and key not in shown
        assert refusal(monitor, "SELECT feed_seek('a', 'now', 'alice')") == "42501"
        if TESTED == "c":
            assert refusal(monitor, "TABLE inorder_internal.feed") == "42501"


def test_an_advisory_lock_of_another_role_does_not_block_a_reader(alices: str) -> None:
    with (
        connect(alices) as admin,
        connect(f"{alices} user=mallory") as mallory,
        connect(f"{alices} user=alice") as alice,
    ):
        same = admin.execute(
            "SELECT array_agg(n) FROM (SELECT 'feed ' || g AS n FROM generate_series(1, 200000) AS g) AS s"
            " GROUP BY hashtext(n) HAVING count(*) > 1 LIMIT 1"
        ).fetchone()
        assert same is not None and isinstance(same[0], list)
        first, second = same[0][:2]
        run(
            mallory,
            "SELECT pg_advisory_lock(hashtext(k), hashtext(n)) FROM unnest('{inorder.feed,inorder.tail,"
            f"inorder.exact_count}}'::text[]) AS k, unnest(ARRAY['a', '{first}', '{second}']) AS n",
        )
        run(mallory, "SELECT pg_advisory_lock(n) FROM generate_series(0, 1000) AS n")
        run(
            alice,
            "SET lock_timeout = '1s'",
            f"SELECT feed_create(n, 'alice.t') FROM unnest('{{{first},{second}}}'::text[]) AS n",
        )
        with connect(f"{alices} user=alice") as other:
            run(other, "BEGIN", f"SELECT * FROM feed_read('{first}', null::alice.t)")
            for feed in (second, "a"):
                run(alice, f"SELECT * FROM feed_read('{feed}', null::alice.t)")
            run(alice, "SELECT exact_count_fold('alice.t')")
            assert refusal(alice, f"SELECT * FROM feed_read('{first}', null::alice.t)") == "55P03"
            run(other, "ROLLBACK")


ODD_SCHEMA = '"sch\'e""ma"'
ODD = [
    "ALTER TABLE odd.t ALTER n TYPE text",
    "ALTER TABLE odd.t DROP COLUMN n",
    'ALTER TABLE odd.t RENAME id TO "o\'d %s"',
    'ALTER TABLE odd.t RENAME TO "quote\'""d %I"',
    f"ALTER SCHEMA odd RENAME TO {ODD_SCHEMA}",
    "REVOKE ALL ON SCHEMA odd FROM PUBLIC",
    "REVOKE ALL ON odd.t FROM mallory",
    "DROP TABLE odd.t",
    "ALTER TABLE odd.t SET UNLOGGED",
    "ALTER TABLE odd.t DROP COLUMN id",
    "ALTER TABLE odd.t ALTER id TYPE text",
    "CREATE TABLE odd.c () INHERITS (odd.t)",
    "ALTER TABLE odd.t ENABLE ROW LEVEL SECURITY",
    "SELECT feed_rebase('odd.t', 281474976000000)",
    "ALTER TABLE odd.t DISABLE TRIGGER ALL",
    "ANALYZE odd.t",
    "ALTER TABLE odd.t ALTER id SET STATISTICS 0",
    "REINDEX TABLE odd.t",
    "ALTER TABLE odd.t SET SCHEMA public",
]


def test_an_owner_cannot_break_the_view_feeds_for_other_roles(alices: str) -> None:
    with ExitStack() as stack:
        users = ("postgres", "alice", "mallory", "monitor", "bob")
        sessions = {user: stack.enter_context(connect(f"{alices} user={user}")) for user in users}
        mallory = sessions["mallory"]
        for number, odd in enumerate(ODD):
            run(mallory, "CREATE SCHEMA odd", EVENTS.format(name="odd.t"), "SELECT feed_create('m', 'odd.t')")
            run(mallory, "INSERT INTO odd.t (n) SELECT generate_series(1, 100)")
            refusal(mallory, odd)
            refusal(mallory, "ANALYZE")
            for user in users if LONG_RUN else (users[number % len(users)], "monitor"):
                shows_feed = value(
                    sessions[user], "SELECT count(*) FROM feeds WHERE owner = 'alice' AND backlog_transactions > 0"
                )
                assert shows_feed == (user in ("postgres", "alice", "monitor")), (odd, user)
            run(sessions["postgres"], f"DROP SCHEMA IF EXISTS odd, {ODD_SCHEMA} CASCADE", "DROP TABLE IF EXISTS t")


def test_feeds_are_dropped_with_their_table(alices: str) -> None:
    with connect(f"{alices} user=alice") as alice, connect(alices) as admin:
        run(alice, "DROP TABLE alice.t")
        assert value(alice, "SELECT count(*) FROM feeds WHERE relation IS NOT NULL") == 0
        assert refusal(alice, "SELECT (feed_take_batch('a', 'w')).number", "42P01") == "42P01"
        run(alice, EVENTS.format(name="alice.t"), "SELECT feed_create('a', 'alice.t')")
        assert value(admin, "SELECT count(*) FROM inorder_internal.feed") == 1
        assert value(admin, "SELECT count(*) FROM inorder_internal.count_part") == 0


def test_no_session_waits_for_calls_of_an_unprivileged_role(alices: str) -> None:
    calls = (
        "SELECT feed_create('m', 'evil.t')",
        "DROP TABLE evil.gone; SELECT feed_create('m', 'evil.t')",
        "SELECT feed_create('m', 'evil.t'); LOCK TABLE evil.t IN ACCESS EXCLUSIVE MODE; SELECT FROM feeds",
        "SELECT feed_disable('evil.u')",
        "SELECT feed_read('g', null::evil.gone), exact_count_start('evil.gone')",
    )
    for call in calls:
        with (
            connect(f"{alices} user=mallory") as mallory,
            connect(f"{alices} user=alice") as alice,
            connect(alices) as admin,
        ):
            run(mallory, EVENTS.format(name="evil.u"), "SELECT feed_enable('evil.u')")
            run(mallory, EVENTS.format(name="evil.gone"), "SELECT feed_create('g', 'evil.gone')")
            # The state of a dropped table remains until another call removes it.
            run(mallory, EVENTS.format(name="evil.d"), "SELECT feed_create('d', 'evil.d'), exact_count_start('evil.d')")
            run(mallory, "DROP TABLE evil.d")
            run(mallory, "BEGIN", *call.split("; "))
            run(alice, "SET lock_timeout = '1s'", *USE_AS_ALICE)
            run(admin, "SET lock_timeout = '1s'", "SELECT * FROM feeds")
            run(mallory, "ROLLBACK", "DROP TABLE evil.u, evil.gone")


USE_AS_ALICE = (
    "SELECT * FROM feeds",
    "SELECT feed_create('more', 'alice.t')",
    "SELECT * FROM feed_read('more', null::alice.t)",
    "SELECT feed_drop('more')",
    "SELECT exact_count_fold('alice.t')",
    "SELECT feed_enable('alice.t')",
)


def test_several_roles_can_create_feeds_at_the_same_time(alices: str) -> None:
    """Feed ids are assigned under a lock, so concurrent calls by several roles do not conflict."""
    with connect(f"{alices} user=alice") as alice:
        run(alice, "GRANT USAGE ON SCHEMA alice TO PUBLIC", "GRANT SELECT ON alice.t TO PUBLIC")

    def make(user: str) -> None:
        with connect(f"{alices} user={user}") as maker:
            for number in range(8):
                run(maker, f"SELECT feed_create('{number}', 'alice.t')")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(make, ("alice", "bob", "mallory")))
    with connect(alices) as admin:
        assert value(admin, "SELECT count(DISTINCT id) FROM inorder_internal.feed") == 25


# Types of the attacker, and objects that use each type. Types 0 to 2 have casts WITH FUNCTION, and type 3 has casts
# WITH INOUT.
CONTEXTS = ("", "AS ASSIGNMENT", "AS IMPLICIT", "AS IMPLICIT")
MADE_TYPES = (
    "CREATE TYPE evil.e{n} AS ENUM ('a', 'b')",
    "CREATE TYPE evil.r{n} AS RANGE (subtype = int4)",
    "CREATE DOMAIN evil.d{n} AS evil.e{n}",
    "CREATE TYPE evil.c{n} AS (n int, e evil.e{n}, d evil.d{n}[])",
    "CREATE TYPE evil.cc{n} AS (c evil.c{n}[])",
    "CREATE DOMAIN evil.l{n} AS evil.e{n}[]",
)
CAST_FROM = ("e{n}", "r{n}", "r{n}_multirange", "c{n}", "cc{n}", "e{n}[]", "c{n}[]")
COLUMNS = {
    "e": "'a'", "r": "'[1,3)'", "r{n}_multirange": "'{{[1,3),[5,6)}}'", "d": "'b'", "c": """'(1,a,"{{a,b}}")'""",
    "cc": "ARRAY[ROW(ARRAY[ROW(1,'a','{{a}}')::evil.c{n}])::evil.cc{n}]", "l": "'{{a,NULL}}'",
}  # fmt: skip


def hostile_types() -> Iterator[str]:
    columns, values = [], []
    for n, context in enumerate(CONTEXTS):
        yield from (definition.format(n=n) for definition in MADE_TYPES)
        for number, source in enumerate(CAST_FROM):
            of = f"evil.{source.format(n=n)}"
            for target in ("json", "jsonb", "text"):
                name = f"evil.to_{target}_{n}_{number}"
                yield (
                    f"CREATE FUNCTION {name}({of}) RETURNS {target} LANGUAGE plpgsql IMMUTABLE AS"
                    " 'BEGIN PERFORM evil.attack(); RETURN 1; END'"
                )
                how = "WITH INOUT" if n == 3 and target == "text" else f"WITH FUNCTION {name}({of})"
                yield f"CREATE CAST ({of} AS {target}) {how} {context}"
        for kind, type_value in COLUMNS.items():
            name = kind.format(n=n) if "{" in kind else f"{kind}{n}"
            value_of = f"{type_value.format(n=n)}" if kind != "cc" else f"({type_value.format(n=n)})[1]"
            columns += [f'"{name}" evil.{name}', f'"{name} list" evil.{name}[]']
            listed = f"ARRAY[{value_of}::evil.{name}, NULL]" if kind != "l" else """'{"{a,NULL}",NULL}'"""
            values += [f"{value_of}::evil.{name}", listed]
    yield (
        "CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), j int, r int, e int, "
        f"small public.small, plain int[], {', '.join(columns)})"
    )
    yield f"INSERT INTO evil.t VALUES (DEFAULT, 1, 2, 3, 4, '{{5}}', {', '.join(values)})"
    yield "INSERT INTO evil.t DEFAULT VALUES"


@pytest.fixture
def typed(dsn: str) -> str:
    with connect(dsn) as admin:
        run(admin, "CREATE DOMAIN public.small AS int")
    with connect(f"{dsn} user=mallory") as mallory, connect(f"{dsn} user=bob") as bob:
        run(mallory, *hostile_types(), "GRANT SELECT ON evil.t TO PUBLIC", "SELECT feed_create('f', 'evil.t')")
        for attack in ("row_to_json(t.*)", "to_jsonb(t.*)", "e0::text", "c1::text", '"d2 list"::text[]', "e3::json"):
            run(bob, f"SELECT {attack} FROM evil.t AS t")
            assert value(mallory, "SELECT count(*) FROM evil.caught") != 0, attack
            run(mallory, "TRUNCATE evil.caught", "SELECT setval('evil.calls', 1, false)")
    return dsn


@pytest.mark.parametrize("dsn", TRIED, indirect=True)
def test_casts_of_the_owner_are_not_called_by_tail(attacked: Cluster, typed: str, tmp_path: Path) -> None:
    tail = Tail(attacked, tmp_path, typed.rpartition("=")[2])
    # The formats convert rows in three ways: to JSON, to text, and as COPY does.
    for output in FORMATS if LONG_RUN else ("json", "csv", "arrow"):
        where = ["--directory", "rows"] if output == "parquet" else []
        text = tail.written("evil.t", "--position", output, "--format", output, *where)
        with connect(f"{typed} user=mallory") as mallory:
            run(mallory, "SELECT feed_seek('f', 'beginning')")
        if output == "json" or (LONG_RUN and not where):
            assert tail.written("--feed", "f", "--owner", "mallory", "--format", output) == text
        if output == "json":
            first, second = (json.loads(line) for line in text.splitlines())
            assert (first["j"], first["r"], first["e"], first["small"], first["plain"]) == (1, 2, 3, 4, [5])
            for n in range(len(CONTEXTS)):
                assert first[f"e{n}"] == "a" and first[f"d{n} list"] == ["b", None] and first[f"l{n}"] == ["a", None]
                assert first[f"c{n}"] == '(1,a,"{a,b}")' and first[f"c{n} list"] == ['(1,a,"{a,b}")', None]
                assert first[f"r{n}_multirange"] == "{[1,3),[5,6)}" and first[f"r{n} list"] == ["[1,3)", None]
            assert {second[name] for name in second if name != "id"} == {None}
