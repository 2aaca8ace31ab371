"""What the owner of a database puts into the state, as a restore does: checked when it is used, never executed."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import psycopg
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import sql
from psycopg.conninfo import make_conninfo

from attack import ATTACK, MOVED, database, execute, refusal, value
from conftest import scalar
from sql_edition import BUILT, TESTED, create

pytestmark = pytest.mark.server

READERS = ("postgres", "alice", "bob")
# Who inserts into the state: the owner of the database. Into that of the SQL edition every role may, what is of its own
# tables and feeds.
IS_SQL = TESTED == "sql"
OWNERS = ("mallory",) if IS_SQL else READERS
EVIL = 'evil."x\'); SELECT evil.attack(); --"'

# The attack says at once that it was called, so that what a test does can be rolled back.
LOUD = """
ALTER FUNCTION evil.attack() RENAME TO quiet_attack;
CREATE FUNCTION evil.attack() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'mallory' THEN
        RAISE WARNING 'attacked as %', current_user;
    END IF;
    RETURN evil.quiet_attack();
END $$;
CREATE FUNCTION evil.on_read() RETURNS uuid LANGUAGE sql AS
'SELECT gen_random_uuid() WHERE evil.attack()';
"""

RELATIONS = f"""
CREATE TABLE evil.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint, xact bigint DEFAULT 0);
CREATE INDEX ON evil.t (xact);
INSERT INTO evil.t (n) VALUES (1), (2);
CREATE VIEW evil.v AS SELECT evil.on_read() AS id, 1::bigint AS n, 1::bigint AS xact WHERE evil.attack();
CREATE MATERIALIZED VIEW evil.m AS SELECT gen_random_uuid() AS id, 1::bigint AS n, 1::bigint AS xact;
CREATE SEQUENCE evil.s;
CREATE TYPE evil.c AS (id uuid, n bigint, xact bigint);
CREATE FOREIGN TABLE evil.f (id uuid, n bigint, xact bigint) SERVER nowhere;
CREATE UNLOGGED TABLE evil.u (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint, xact bigint);
CREATE TABLE evil.p (id uuid, n bigint, xact bigint) PARTITION BY LIST (n);
CREATE FOREIGN TABLE evil.pf PARTITION OF evil.p DEFAULT SERVER nowhere;
CREATE TABLE evil.parent (id uuid, n bigint, xact bigint);
CREATE TABLE evil.child () INHERITS (evil.parent);
CREATE TABLE {EVIL} (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), "n"" OR evil.attack() --" bigint, xact bigint);
INSERT INTO {EVIL} DEFAULT VALUES;
CREATE FUNCTION evil.constant() RETURNS int LANGUAGE plpgsql IMMUTABLE AS
'BEGIN PERFORM evil.attack(); RETURN 1; END';
CREATE TABLE evil.loud (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint, xact bigint DEFAULT evil.constant());
CREATE INDEX ON evil.loud (xact);
CREATE POLICY p ON evil.loud USING (evil.attack());
ALTER TABLE evil.loud ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON ALL TABLES IN SCHEMA evil TO PUBLIC;
GRANT SELECT ON evil.s TO PUBLIC;
"""

ALICES = """
CREATE SCHEMA alice;
CREATE TABLE alice.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint);
CREATE TABLE alice.bare (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint, xact bigint DEFAULT 5);
CREATE INDEX ON alice.bare (xact);
INSERT INTO alice.t (n) VALUES (1), (2), (3);
INSERT INTO alice.bare (n) VALUES (1), (2), (3);
SELECT feed_create('a', 'alice.t'), exact_count_start('alice.t');
INSERT INTO alice.t (n) VALUES (4);
GRANT USAGE ON SCHEMA alice TO bob, mallory;
GRANT SELECT ON alice.t, alice.bare TO bob;
""" + ("GRANT SELECT ON alice.t TO mallory;" if IS_SQL else "")

COLUMNS_OF_A_FEED = "id, name, owner, owner_name, system, movers, relation"
STATE_OF_A_FEED = "INSERT INTO inorder_internal.feed_state (feed, relation, position, batch, pending)"
FEEDS = "SELECT id FROM inorder_internal.feed"
SYSTEM = (
    "(SELECT system_identifier::text FROM pg_control_system())"  # of this server: then a role is known by oid alone
)

# What is inserted is known for it, and not used before the owner of the table accepts it: here it is taken for what the
# extension wrote, as if that were all there is between mallory and the others.
TRUSTED = "ALTER TABLE inorder_internal.{} ALTER written_here DROP EXPRESSION, ALTER written_here SET DEFAULT true"

# What no feed_enable() would have let through.
WRONG = (
    "evil.t", "evil.v", "evil.m", "evil.s", "evil.c", "evil.f", "evil.u", "evil.p", "evil.pf", "evil.parent", EVIL,
    "evil.loud", "evil.t_pkey", "alice.bare", "pg_class", "pg_authid", "pg_largeobject", "information_schema.tables",
    "inorder_internal.feed", "inorder_internal.feed_state", "inorder_internal.feed_table", "pg_stats",
    "pg_stat_activity", "feeds",
)  # fmt: skip
OWN = tuple(name for name in WRONG if name.startswith("evil"))
# Their columns, the base, and whether they are in order; SQL for a row of feed_table behind the relation.
DESCRIPTIONS = (
    "'id', true, false, '{id}', 0, true",
    "'id', true, false, '{id}', 281474976710655, false",
    "'n', false, false, '{}', 0, true",
    "'xact', false, false, '{n}', 5, false",
    "'xact', false, true, '{id,n}', 281474976710655, true",
    "'oid', false, false, '{}', 0, false",
    "'id = evil.on_read() --', true, false, ARRAY['id = evil.on_read() --'], 0, true",
    "'n\" OR evil.attack() --', false, false, ARRAY['id', 'n\" OR evil.attack() --'], 0, true",
    "'tableoid', false, false, '{ctid,xmin}', 0, true",
    "'', false, false, '{\"\"}', 0, true",
)
POSITIONS = (
    """'(1,"{}",,,,,)'""",
    """'(1,"{[0,281474976710656)}",,,,,)'""",
    """'(1,"{[0,3),[5,281474976710656)}",4,"{evil.on_read()}",,,)'""",
    """'(1,{},,,"(""n OR evil.attack() --"",2,""{[0,281474976710656)}"",,-9223372036854775808,7,)",,)'""",
    """ROW(2147483647, '{[0,3)}', -9223372036854775808, ARRAY['''; SELECT evil.attack(); --', NULL], NULL,
           ARRAY[ROW(0, '", evil.attack()', NULL, '{NULL,1}', '{NULL}', '{x}')::feed_member, NULL],
           'x'' OR evil.attack()')""",
)
PENDING = (
    "NULL",
    """ROW(1, '{[0,281474976710656)}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    """ROW(NULL, '{[0,3)}', 4, ARRAY['00000000-0000-8000-8000-000000000000'') OR (evil.attack()'], 9223372036854775807,
           ARRAY['x', 'y', 'z'], ROW('id OR evil.attack()', -1, '{(,)}', 1, 1, 1, 1)::feed_order,
           ARRAY[NULL]::feed_member[], 'x')""",
)


@dataclass
class State:
    """A database that mallory owns, and what she knows of it."""

    dsn: str
    mallory: Connection
    sessions: dict[str, Connection]
    caught: list[str]


@pytest.fixture(scope="module")
def attacked(server: Installation) -> Iterator[Cluster]:
    """A server of its own, since roles are the whole server's."""
    with Cluster(server, BUILT) as running:
        running.start({"fsync": "off", "restart_after_crash": "off"})
        yield running


def catch(caught: list[str], user: str, notice: psycopg.errors.Diagnostic) -> None:
    caught.append(f"{user}: {notice.message_primary}")


@pytest.fixture(scope="module", params=[True], ids=["trusted"])
def state(attacked: Cluster, request: pytest.FixtureRequest) -> Iterator[State]:
    """Everything there is to be misused, and a feed of somebody else's."""
    caught: list[str] = []
    with database(attacked, "ALTER DATABASE {database} OWNER TO mallory") as dsn:
        with connect(dsn) as admin:
            create(admin)
            execute(admin, "CREATE FOREIGN DATA WRAPPER nowhere", "CREATE SERVER nowhere "
                    "FOREIGN DATA WRAPPER nowhere", "GRANT USAGE ON FOREIGN SERVER nowhere TO mallory",
                    "GRANT CREATE ON DATABASE " + str(admin.info.dbname) + " TO alice")  # fmt: skip
        with connect(make_conninfo(dsn, user="alice")) as alice:
            execute(alice, ALICES)
        with connect(make_conninfo(dsn, user="mallory")) as mallory:
            execute(mallory, ATTACK, LOUD, RELATIONS)
            if request.param:
                with connect(dsn) as admin:
                    execute(admin, TRUSTED.format("feed_state"), TRUSTED.format("feed_table"))
            sessions = {user: connect(make_conninfo(dsn, user=user)) for user in (*READERS, "monitor")}
            for user, session in sessions.items():
                session.add_notice_handler(partial(catch, caught, user))
            yield State(dsn, mallory, sessions, caught)
            for session in sessions.values():
                session.close()


@pytest.fixture(autouse=True)
def clean(state: State) -> Iterator[None]:
    """Without anything forged, also where a test fails."""
    yield
    forget(state)


def quote(name: str) -> str:
    return sql.Literal(name).as_string()


def calls(relation: str, owner: str) -> list[str]:
    """Whatever reads a table or its state; those first that give rows or a number of them."""
    oid, whose = f"{quote(relation)}::regclass", f"'{owner}'::regrole"
    row = f"null::{relation}"
    return [
        f"SELECT * FROM feed_peek('x', {row}, NULL, {whose})",
        f"SELECT * FROM feed_peek('x', {row}, 1, {whose})",
        f"SELECT * FROM feed_read('x', {row}, NULL, {whose})",
        f"SELECT * FROM feed_read('x', {row}, 1, {whose})",
        f"SELECT * FROM feed_batch_rows('x', 1, {row}, {whose})",
        f"SELECT * FROM reader_batch_rows({oid}, reader_next_batch({oid}, reader_start({oid}), 1), {row})",
        f"SELECT * FROM reader_batch_rows({oid}, ROW(1, '{{[0,9)}}', {', '.join(['NULL'] * 7)})::feed_batch, {row})",
        f"SELECT feed_apply('x', 'SELECT n FROM batch', NULL, {whose}) AS n",
        f"SELECT feed_apply('x', 'SELECT n FROM batch', 1, {whose}) AS n",
        f"SELECT exact_count({oid}) AS n",
        f"SELECT feed_next_batch('x', 1, {whose})",
        f"SELECT exact_count_fold({oid})",
        f"SELECT exact_count_start({oid})",
        f"SELECT feed_finish_batch('x', 1, owner => {whose})",
        f"SELECT feed_finish_batch('x', number, token, {whose}) FROM feed_take_batch('x', 'w', 1, owner => {whose})",
        f"SELECT feed_seek('x', 'now', {whose})",
        f"SELECT feed_seek('x', 'here', {whose})",
        f"SELECT feed_create('y', {oid})",
        f"SELECT feed_enable({oid})",
        f"SELECT feed_disable({oid})",
        f"SELECT feed_rebase({oid})",
        f"SELECT feed_prepare({oid})",
        f"SELECT * FROM feed_holders({oid})",
        f"SELECT feed_grant('x', 'bob', {whose})",
        f"SELECT feed_drop('x', {whose})",
        "SELECT * FROM feeds",
    ]


GIVE_ROWS = 9  # of these calls


def forge(state: State, relation: str, description: str, position: str, pending: str, owner: str) -> bool:
    """Rows as a restore would bring them; whether the tables take them."""
    oid = f"{quote(relation)}::regclass"
    feed = (
        f"INSERT INTO inorder_internal.feed ({COLUMNS_OF_A_FEED}) VALUES (4294967295, 'x', '{owner}'::regrole, "
        f"'{owner}', {SYSTEM}, ARRAY[ROW('bob'::regrole, 'bob')]::inorder_internal.role_ref[], {oid})"
    )
    moved = f"{STATE_OF_A_FEED} VALUES (4294967295, {oid}, {position}, 1, {pending})"
    try:
        with state.mallory.transaction():
            execute(
                state.mallory, f"INSERT INTO inorder_internal.feed_table VALUES ({oid}, {description})", feed, moved
            )
    except psycopg.errors.CheckViolation:
        return False
    return True


def forget(state: State) -> None:
    with connect(state.dsn) as admin:
        for table in ("feed_table", "counted_table", "count_part"):
            execute(admin, f"DELETE FROM inorder_internal.{table} WHERE relation <> 'alice.t'::regclass")
        execute(admin, "DELETE FROM inorder_internal.feed WHERE name <> 'a'")
        execute(admin, f"DELETE FROM inorder_internal.feed_state WHERE feed NOT IN ({FEEDS})")


def attempt(session: Connection, call: str) -> list[tuple[object, ...]]:
    try:
        with session.transaction(force_rollback=True):
            return session.execute(call.encode()).fetchall()
    except psycopg.Error as error:
        refused = error.sqlstate or "XX"  # 42703: what is forged names a column that is not there
        assert not refused.startswith("XX") and (refused == "42703" or refused not in MOVED), f"{call}: {error}"
        return []


def check_others(state: State, what: str) -> None:
    """The view shows the feed of alice to everybody who may see it, and she reads her table."""
    for user, session in state.sessions.items():
        if user == "monitor" and IS_SQL:
            continue
        seen = value(session, "SELECT count(*) FROM feeds WHERE name = 'a' AND owner = 'alice' AND writers IS NULL")
        assert seen == 1, f"{what}: {user}"
    alice = state.sessions["alice"]
    with alice.transaction(force_rollback=True):
        assert scalar(alice, "SELECT sum(n) FROM feed_read('a', null::alice.t)") == 10, what
        execute(alice, "SELECT feed_create('another', 'alice.t')")
        assert scalar(alice, "SELECT exact_count('alice.t')") == 4, what
    assert state.caught == [], what


def test_the_calls_work_where_nothing_is_forged(state: State) -> None:
    alice = state.sessions["alice"]
    execute(alice, "SELECT feed_create('x', 'alice.t')")
    refused = set(calls("alice.t", "alice"))
    for _ in range(2):
        for call in sorted(refused):
            with alice.transaction(force_rollback=True), suppress(psycopg.Error):
                execute(alice, call)
                refused.discard(call)
        execute(alice, "SELECT feed_next_batch('x', 1)")
    assert refused == {"SELECT feed_disable('alice.t'::regclass)"}, "but that, while there is a feed"


@pytest.mark.parametrize("relation", OWN if IS_SQL else WRONG)
def test_a_forged_table_gives_nothing(state: State, relation: str) -> None:
    forged = 0
    for number, description in enumerate(DESCRIPTIONS):
        position, pending = POSITIONS[number % len(POSITIONS)], PENDING[number % len(PENDING)]
        owner = OWNERS[number % len(OWNERS)]
        if not forge(state, relation, description, position, pending, owner):
            continue
        forged += 1
        # Each description is read by both, each relation, too, and not each of a relation by both.
        user = ("postgres", "bob" if IS_SQL else owner)[(number + WRONG.index(relation)) % 2]
        for place, call in enumerate(calls(relation, owner)):
            found = attempt(state.sessions[user], call)
            assert state.caught == [], f"{user}: {description}: {call}"
            if place <= GIVE_ROWS:
                assert [row for row in found if row != (None,)] == [], f"{user}: {description}: {call}"
        check_others(state, f"{relation} {description}")
        forget(state)
    assert forged > len(DESCRIPTIONS) / 2, "the constraints leave nothing to check"


# Columns that a position inside a transaction is to be kept by: of types that are somebody's, or speak as somebody's.
COLUMNS = (
    "evil.dom", "evil.mood", "evil.pair", "evil.doms", "text[]", "money", "regclass", "xml", "oidvector", "int4range",
    'text COLLATE evil."col\'l"', "numeric", "bpchar", '"char"', "tsvector", "jsonb",
)  # fmt: skip
TYPES = """
DROP TABLE IF EXISTS evil.g;
DROP TYPE IF EXISTS evil.pair, evil.mood CASCADE;
DROP DOMAIN IF EXISTS evil.doms, evil.dom CASCADE;
CREATE DOMAIN evil.dom AS int CHECK (evil.attack());
CREATE DOMAIN evil.doms AS evil.dom[] CHECK (evil.attack());
CREATE TYPE evil.mood AS ENUM ('x', 'y');
CREATE TYPE evil.pair AS (a evil.dom, b evil.mood);
CREATE FUNCTION evil.as_text(evil.mood) RETURNS text LANGUAGE plpgsql AS
'BEGIN PERFORM evil.attack(); RETURN ''x''; END';
CREATE CAST (evil.mood AS text) WITH FUNCTION evil.as_text AS IMPLICIT;
CREATE COLLATION IF NOT EXISTS evil."col'l" FROM "C";
"""


def guard_by_hand(state: State, column: str) -> list[str]:
    """What makes triggers on evil.g that look as if feed_enable() had made them."""
    if IS_SQL:
        definitions = (
            "SELECT definition FROM inorder_internal.guard_definitions('evil.g', 'evil.g', ARRAY['n', %s]::name[], "
            "false, false, 0, 'feed_guard()'::regprocedure)"
        )
        made = [str(row[0]) for row in state.mallory.execute(definitions, [column])]
    else:
        call = "FOR EACH ROW EXECUTE FUNCTION feed_guard('0')"
        quoted = sql.Identifier(column).as_string()
        made = [
            f"CREATE TRIGGER zz_inorder_guard BEFORE INSERT OR DELETE OR UPDATE OF n, {quoted} ON evil.g {call}",
            f"CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON evil.g {call}",
        ]
    return [*made, *(f"ALTER TABLE evil.g ENABLE ALWAYS TRIGGER {text.split()[2]}" for text in made)]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_forged_description_of_a_table_guarded_by_hand_runs_nothing(state: State, column: str) -> None:
    name = "o'dd \" evil.attack()"
    quoted = '"' + name.replace('"', '""') + '"'
    execute(
        state.mallory, TYPES, f"CREATE TABLE evil.g (n bigint, {quoted} {column})", "CREATE INDEX ON evil.g (n)",
        "INSERT INTO evil.g (n) SELECT generate_series(1, 6) / 3", "GRANT SELECT ON evil.g TO PUBLIC",
    )  # fmt: skip
    execute(state.mallory, *guard_by_hand(state, name))
    key = f"ARRAY[{sql.Literal(name).as_string()}]"
    read, owner = 0, "mallory" if IS_SQL else "alice"
    users = cycle(("postgres", "alice", "bob"))
    for value_text in ("1", "x", "(1,x)", "'; SELECT evil.attack(); --"):
        last = f"ARRAY[{sql.Literal(value_text).as_string()}]"
        pending = f"ROW(1, '{{[0,3)}}', 1, {last}, 2, {last}, NULL, NULL, NULL)"
        for number, batch in enumerate(("NULL", pending)):
            position = (
                f"ROW(1, '{{}}', 1, {last}, NULL, NULL, NULL)"
                if number
                else "ROW(1, '{}', NULL, NULL, NULL, NULL, NULL)"
            )
            assert forge(state, "evil.g", f"'n', false, false, {key}, 0, {'true' if number else 'false'}", position,
                         batch, owner)  # fmt: skip
            user = next(users)
            for call in calls("evil.g", owner)[:16]:
                read += len(attempt(state.sessions[user], call))
                assert state.caught == [], f"{user}: {value_text}: {call}"
            forget(state)
    assert read > 0, "it is guarded"
    check_others(state, column)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pending", PENDING)
def test_a_forged_feed_of_a_good_table_runs_nothing(state: State, position: str, pending: str) -> None:
    owner = "mallory" if IS_SQL else "alice"
    feed = (
        f"INSERT INTO inorder_internal.feed ({COLUMNS_OF_A_FEED}) VALUES (7, 'x', '{owner}'::regrole, '{owner}',"
        f" {SYSTEM}, ARRAY[ROW(0, '\"'), NULL, ROW('mallory'::regrole, 'mallory')]::inorder_internal.role_ref[],"
        f" 'alice.t'::regclass)"
    )
    moved = f"{STATE_OF_A_FEED} VALUES (7, 'alice.t'::regclass, {position}, 1, {pending})"
    refused = refusal(state.mallory, feed) or refusal(state.mallory, moved)
    assert refused in ("", "23514")
    if refused:
        return
    for user in READERS:
        for call in calls("alice.t", owner):
            assert len(attempt(state.sessions[user], call)) <= 7, call
    # She may move it now, which the owner of a database can have anyway; rows are another matter.
    for call in calls("alice.t", "alice")[:GIVE_ROWS] if not IS_SQL else ():
        assert refusal(state.mallory, call) in ("42501", "55000"), call
    check_others(state, position)


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("relation", [*OWN, *(["alice.bare", "alice.t"] if not IS_SQL else [])])
def test_a_forged_count_is_no_number(state: State, relation: str, described: bool) -> None:
    oid = f"{quote(relation)}::regclass"
    if described and relation != "alice.t":
        execute(state.mallory, f"INSERT INTO inorder_internal.feed_table VALUES ({oid}, {DESCRIPTIONS[0]})")
    if relation == "alice.t":
        execute(state.sessions["alice"], "SELECT exact_count_stop('alice.t')")
    execute(state.mallory, f"INSERT INTO inorder_internal.counted_table VALUES ({oid})")
    for user in READERS:
        for call in ("exact_count", "exact_count_fold"):
            found = attempt(state.sessions[user], f"SELECT {call}({oid})")
            assert not found or (relation == "alice.t" and found == [(4,)]), (user, call, found)
    if relation == "alice.t":
        execute(state.sessions["alice"], "SELECT exact_count_start('alice.t')")
    check_others(state, relation)


REFUSED_ROWS = [
    "feed_table VALUES ('alice.bare', 'id', true, false, '{n}', 0, true)",
    "feed_table VALUES ('alice.bare', 'id', true, false, '{id}', -1, true)",
    "feed_table VALUES ('alice.bare', 'id', true, false, '{id}', 281474976710656, true)",
    "feed_table VALUES ('alice.bare', 'xact', false, false, '{NULL}', 0, true)",
    "feed_table VALUES ('alice.bare', 'xact', NULL, false, '{}', 0, true)",
    f"feed ({COLUMNS_OF_A_FEED}) VALUES (0, 'x', 0, '', '', '{{}}', 'alice.t')",
    f"feed ({COLUMNS_OF_A_FEED}) VALUES (4294967296, 'x', 0, '', '', '{{}}', 'alice.t')",
    f"feed ({COLUMNS_OF_A_FEED}) VALUES (1, '', 0, '', '', '{{}}', 'alice.t')",
    f"feed ({COLUMNS_OF_A_FEED}, created) VALUES (1, 'x', 0, '', '', '{{}}', 'alice.t', 'infinity')",
    "feed_state (feed, relation, position) VALUES (1, 'alice.t', '(1,,,,,,)')",
    "feed_state (feed, relation, position) VALUES (1, 'alice.t', '(1,\"{[-1,2)}\",,,,,)')",
    "feed_state (feed, relation, position) VALUES (1, 'alice.t', '(1,\"{(,)}\",,,,,)')",
    "feed_state (feed, relation, position, seq) VALUES (1, 'alice.t', '(1,\"{}\",,,,,)', -1)",
    "feed_state (feed, relation, position, batch) VALUES (1, 'alice.t', '(1,\"{}\",,,,,)', -1)",
    "feed_state (feed, relation, position, caught_up_at) VALUES (1, 'alice.t', '(1,\"{}\",,,,,)', '-infinity')",
    "feed_state (feed, relation, position, pending) VALUES (1, 'alice.t', '(1,\"{}\",,,,,)', '(1,\"{(,)}\",,,,,,,)')",
]


def test_what_a_row_alone_shows_is_refused(state: State) -> None:
    known = ("23514", "23502", *(["42501"] if IS_SQL else []))
    said = {row: refusal(state.mallory, f"INSERT INTO inorder_internal.{row}") for row in REFUSED_ROWS}
    assert {row: code for row, code in said.items() if code not in known} == {}


@pytest.mark.parametrize("seq", [-1, 0, 1, 9223372036854775807])
def test_a_feed_has_one_state(state: State, seq: int) -> None:
    """By a row of a higher seq it would be another one, which feed_rebase() by its owner accepts."""
    with connect(state.dsn) as admin:
        feed = value(admin, "SELECT id FROM inorder_internal.feed WHERE name = 'a'")
    position = """'(1,"{[0,281474976710656)}",,,,,)'"""
    insert = "INSERT INTO inorder_internal.feed_state (feed, seq, relation, position) "
    row = f"SELECT {feed}, {seq}, 'alice.t', {position}::feed_position"
    for statement in (insert + row, f"{insert}{row} FROM generate_series(1, 2) ON CONFLICT DO NOTHING"):
        assert refusal(state.mallory, statement) in ("23505", "42501"), statement
    check_others(state, "a second state")


def test_who_owns_the_database_changes_and_deletes_nothing(state: State) -> None:
    for command in ("SELECT FROM {}", "INSERT INTO {} VALUES ('alice.t', 'alice.t', '', '{}', 7, now())", "TABLE {}"):
        assert refusal(state.mallory, command.replace("{}", "inorder_internal.count_part", 1)) == "42501", command
    for table in ("feed", "feed_state", "feed_table", "counted_table", "count_part"):
        for command in (
            "UPDATE {} SET relation = '0'", "DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}",
            "ALTER TABLE {} DISABLE TRIGGER ALL", "CREATE TRIGGER t BEFORE INSERT ON {} EXECUTE FUNCTION evil.t()",
            "CREATE INDEX ON {} ((evil.attack()))", "CREATE RULE r AS ON INSERT TO {} DO INSTEAD SELECT evil.attack()",
            "ALTER TABLE {} ADD CHECK (evil.attack())", "SELECT FROM {} FOR UPDATE",
            "INSERT INTO {} SELECT * FROM {} ON CONFLICT DO NOTHING RETURNING evil.attack()",
        ):  # fmt: skip
            code = refusal(state.mallory, command.replace("{}", f"inorder_internal.{table}"))
            assert code == "42501" or command.startswith("INSERT"), command
    assert refusal(state.mallory, "CREATE FUNCTION inorder_internal.f() RETURNS int LANGUAGE sql RETURN 1") == "42501"
    check_others(state, "commands")


def forged_feed(relation: str, pending: str) -> tuple[str, str]:
    role = f"'alice'::regrole, 'alice', {SYSTEM}, '{{}}'"
    return (
        f"INSERT INTO inorder_internal.feed ({COLUMNS_OF_A_FEED}) VALUES (7, 'x', {role}, '{relation}'::regclass)",
        f"{STATE_OF_A_FEED} VALUES (7, '{relation}'::regclass, {POSITIONS[0]}, 1, {pending})",
    )


@pytest.mark.parametrize("state", [False], indirect=True, ids=["untrusted"])
def test_what_is_inserted_is_not_used(state: State) -> None:
    execute(
        state.sessions["alice"], "CREATE TABLE alice.g (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n bigint)",
        "CREATE TRIGGER zz_inorder_guard BEFORE INSERT OR DELETE OR UPDATE OF id ON alice.g"
        " FOR EACH ROW EXECUTE FUNCTION feed_guard('0')",
        "CREATE TRIGGER zz_inorder_update BEFORE UPDATE ON alice.g FOR EACH ROW EXECUTE FUNCTION feed_guard('0')",
        "ALTER TABLE alice.g ENABLE ALWAYS TRIGGER zz_inorder_guard, ENABLE ALWAYS TRIGGER zz_inorder_update",
        "INSERT INTO alice.g (n) VALUES (1)",
    )  # fmt: skip
    table = f"INSERT INTO inorder_internal.feed_table VALUES ('alice.g', {DESCRIPTIONS[0]})"
    for relation, pending, described in (
        ("alice.t", "NULL", ()),
        ("alice.t", PENDING[1], ()),
        ("alice.g", "NULL", (table,)),
    ):
        execute(state.mallory, *forged_feed(relation, pending), *described)
        for user in READERS:
            for call in calls(relation, "alice")[:12]:
                if "'x'" in call or (relation == "alice.g" and "exact_count" not in call):
                    assert refusal(state.sessions[user], call) in ("55000", "42704", "42501"), (user, call)
        check_others(state, relation)
        if relation == "alice.g":
            assert refusal(state.sessions["alice"], "INSERT INTO alice.g (n) VALUES (2)") == "55000"
            execute(state.sessions["alice"], "SELECT feed_rebase('alice.g')", "INSERT INTO alice.g (n) VALUES (2)")
        forget(state)
