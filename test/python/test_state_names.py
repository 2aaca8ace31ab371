"""State that a role writes or restores does not block feed names or writers of other roles."""

from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection

from attack import refusal
from world.sql import rows, run, value

pytestmark = [pytest.mark.server, pytest.mark.editions()]

ROLES = ("mallory", "alice", "bob")
# Alice has a feed on Mallory's table. She also has a partitioned table, and Bob owns one of its partitions.
TABLES = """
GRANT ALL ON SCHEMA public TO PUBLIC;
SET ROLE mallory;
CREATE TABLE theirs (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int);
GRANT SELECT ON theirs TO PUBLIC;
SELECT feed_create('mine', 'theirs');
SET ROLE alice;
SELECT feed_create('audit', 'theirs');
CREATE TABLE parts (id uuid DEFAULT uuid_xact_nextval(), n int, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
CREATE TABLE middle PARTITION OF parts DEFAULT PARTITION BY LIST (n);
CREATE TABLE leaf PARTITION OF middle DEFAULT;
SELECT feed_create('own', 'parts');
RESET ROLE;
ALTER TABLE leaf OWNER TO bob;
"""
ALICES = "'alice'::regrole, owner_name = 'alice', name = 'billing'"
# Statements that write state the way the functions of the SQL edition do. The column "system" identifies the server.
COLUMNS = "id, name, owner, owner_name, system, relation"
INSERT_FEED = (
    f"INSERT INTO inorder_internal.feed ({COLUMNS}) "
    "VALUES (7, 'billing', 'alice'::regrole, '{name}', {system}, 'theirs')"
)
INSERT_TABLE = "INSERT INTO inorder_internal.feed_table VALUES ('{table}', 'id', true, false, '{{id}}', 0, true)"
HERE = "(SELECT system_identifier::text FROM pg_control_system())"


@pytest.fixture
def owners(fresh: Connection) -> Iterator[Connection]:
    for role in ROLES:
        if not value(fresh, f"SELECT count(*) FROM pg_roles WHERE rolname = '{role}'"):
            run(fresh, f"CREATE ROLE {role} LOGIN")
    run(fresh, TABLES)
    yield fresh
    run(fresh, "RESET ROLE", f"DROP OWNED BY {', '.join(ROLES)} CASCADE")


def as_role(connection: Connection, role: str) -> None:
    run(connection, "RESET ROLE", f"SET ROLE {role}")


def feeds_of_alice(connection: Connection) -> list[tuple[object, ...]]:
    as_role(connection, "alice")
    return rows(connection, "SELECT name FROM feeds WHERE owner = 'alice' ORDER BY name COLLATE \"C\"")


def test_the_owner_of_a_table_cannot_occupy_the_name_of_another_feed(owners: Connection, edition_name: str) -> None:
    changes = (
        f"owner = {ALICES}", f"owner = {ALICES}, system = 'elsewhere'", "system = 'elsewhere'", "owner_name = 'alice'",
        "owner = 'alice'::regrole",
    )  # fmt: skip
    attempts = [
        "SELECT feed_rename('audit', 'billing', 'alice')",
        "UPDATE inorder_internal.feed SET name = 'billing' WHERE name = 'audit'",
        *(f"UPDATE inorder_internal.feed SET {change} WHERE name = 'mine'" for change in changes),
        *(INSERT_FEED.format(name="alice", system=system) for system in (HERE, "'elsewhere'")),
        *(f"INSERT INTO inorder_internal.feed ({COLUMNS}) SELECT {COLUMNS} FROM inorder_internal.feed "
          f"WHERE name = 'mine' ON CONFLICT (id) DO UPDATE SET {change}" for change in changes),
    ]  # fmt: skip
    as_role(owners, "mallory")
    if edition_name == "sql":
        # Roles admitted to the SQL edition may write all of its state.
        del attempts[1:]
    # The owner of a table may otherwise manage all feeds on it.
    run(owners, "SELECT feed_grant('audit', 'bob', 'alice'), feed_revoke('audit', 'bob', 'alice')")
    for attempt in attempts:
        assert refusal(owners, attempt) == "42501", attempt
    run(owners, "SELECT feed_rebase('theirs')")
    assert feeds_of_alice(owners) == [("audit",), ("own",)]
    run(owners, "SELECT feed_rename('audit', 'billing')")
    assert feeds_of_alice(owners) == [("billing",), ("own",)]


def test_a_new_role_of_the_same_name_does_not_get_the_feed(owners: Connection) -> None:
    run(owners, "CREATE ROLE ghost", "SET ROLE ghost", "SELECT feed_create('billing', 'theirs')", "RESET ROLE",
            "DROP ROLE ghost", "CREATE ROLE ghost")  # fmt: skip
    as_role(owners, "mallory")
    run(owners, "SELECT feed_rebase('theirs')")
    ((owner,),) = rows(owners, "SELECT owner FROM feeds WHERE name = 'billing'")
    as_role(owners, "ghost")
    assert refusal(owners, "SELECT (feed_take_batch('billing', 'w')).number") == "42704"
    as_role(owners, "mallory")
    run(owners, f"SELECT feed_drop('billing', {owner}::regrole)", "RESET ROLE", "DROP ROLE ghost")


def forge_partitions(connection: Connection, edition: str) -> None:
    """Insert state for partitions as a restore would, although only the root of the tree was enabled."""
    role, tables = ("mallory", ("middle", "leaf")) if edition == "c" else ("bob", ("leaf",))
    if edition == "c":
        run(connection, f"ALTER DATABASE {connection.info.dbname} OWNER TO mallory")
    as_role(connection, role)
    for table in tables:
        run(connection, INSERT_TABLE.format(table=table))
    as_role(connection, "alice")


def test_state_inserted_for_a_partition_stops_no_writer(owners: Connection, edition_name: str) -> None:
    forge_partitions(owners, edition_name)
    run(owners, "INSERT INTO parts (n) VALUES (1)", "INSERT INTO parts (n) SELECT generate_series(2, 4)",
            "SELECT feed_enable('parts')", "INSERT INTO parts (n) VALUES (5)")  # fmt: skip
    assert rows(owners, "SELECT n FROM feed_read('own', null::parts) ORDER BY n") == [(n,) for n in range(1, 6)]
    # The inserted state does not disable the partition's guard for replication.
    run(owners, "RESET ROLE", "SET session_replication_role = replica")
    for statement in ("INSERT INTO leaf (id, n) VALUES (gen_random_uuid(), 6)", "DELETE FROM leaf", "TRUNCATE leaf"):
        assert refusal(owners, statement) in ("23514", "23001"), statement
    run(owners, "RESET session_replication_role")


@pytest.mark.editions("c")
def test_the_installer_restores_its_own_state(owners: Connection) -> None:
    run(owners, "DROP EXTENSION inorder CASCADE", "DROP TABLE theirs, parts",
            f"GRANT CREATE ON DATABASE {owners.info.dbname} TO mallory", "SET ROLE mallory", "CREATE EXTENSION inorder",
            "RESET ROLE", TABLES, "CREATE TABLE bare (id uuid)", "SET ROLE mallory")  # fmt: skip
    before = "SELECT count(*) FROM inorder_internal.feed_table, inorder_internal.feed, inorder_internal.counted_table"
    was = rows(owners, before)
    for table in ("leaf", "middle", "bare"):
        run(owners, INSERT_TABLE.format(table=table),
                f"INSERT INTO inorder_internal.counted_table VALUES ('{table}')")  # fmt: skip
    for name, system in (("alice", HERE), ("alice", "'elsewhere'"), ("mallory", HERE)):
        run(owners, INSERT_FEED.format(name=name, system=system))
    assert rows(owners, before) == was
    run(owners, "SELECT feed_rebase('theirs')")
    assert feeds_of_alice(owners) == [("audit",), ("own",)]
    run(owners, "INSERT INTO parts (n) VALUES (1)", "SET ROLE mallory", "CREATE TABLE more (id uuid)",
            INSERT_TABLE.format(table="more"))  # fmt: skip
    assert value(owners, "SELECT count(*) FROM inorder_internal.feed_table WHERE relation = 'more'::regclass") == 1


def test_no_collation_of_the_caller_makes_names_equal(owners: Connection) -> None:
    try:
        run(owners, "CREATE COLLATION folded (provider = icu, deterministic = false, locale = 'und-u-ks-level2')")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no ICU")
    as_role(owners, "alice")
    run(owners, "INSERT INTO parts (n) VALUES (1)")
    assert value(owners, "SELECT 'OWN' COLLATE folded = 'own'") is True
    for call in (
        "(feed_take_batch({name}, 'w')).number",
        "feed_take_batch({name}, 'w')",
        "feed_seek({name}, 'now')",
        "feed_wait({name}, '0')",
        "feed_batch_rows({name}, 1, null::parts)", "feed_apply({name}, 'SELECT count(*) FROM batch')",
        "feed_peek({name}, null::parts)", "feed_rename({name}, 'other')", "feed_drop({name})",
    ):  # fmt: skip
        assert refusal(owners, "SELECT " + call.format(name="'OWN' COLLATE folded")) == "42704", call
    assert value(owners, "SELECT (feed_take_batch('own' COLLATE folded, 'w')).number") == 1
