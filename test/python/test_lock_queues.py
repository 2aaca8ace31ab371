"""PostgreSQL takes some locks before it checks table privileges: claims of docs/security.md, and remedies."""

from collections.abc import Iterator

import psycopg
import pytest
from inorder.connection.database import Connection, connect

from attack import refusal
from conftest import text
from ground import roles
from sql_edition import TESTED
from waiting import blocked
from world.sql import run

pytestmark = [pytest.mark.server, pytest.mark.editions]

DENIED, TIMED_OUT = "42501", "55P03"
OF_TEMPORARY_TABLES = "42P16"  # invalid_table_definition
# Statements that wait for a lock, and the kind of statement (read or write) that then waits behind each.
READ, WRITE = "read", "write"
QUEUES = {
    "CREATE RULE": ("CREATE RULE r AS ON INSERT TO {table} DO INSTEAD NOTHING", READ),
    "CREATE TRIGGER": (
        "CREATE TRIGGER x BEFORE UPDATE ON {table} EXECUTE FUNCTION suppress_redundant_updates_trigger()", WRITE
    ),
    "REFERENCES": ("CREATE TEMPORARY TABLE x (id uuid REFERENCES {table})", WRITE),
    "DEPENDS ON EXTENSION": ("ALTER INDEX {table}_pkey DEPENDS ON EXTENSION plpgsql", READ),
}  # fmt: skip
USE = {READ: "SELECT FROM {table} LIMIT 1", WRITE: "DELETE FROM {table} WHERE false"}


@pytest.fixture
def stranger(fresh: Connection, other: Connection) -> Iterator[Connection]:
    """Yield a session of a role that may connect and use the table's schema, and has no other privileges."""
    with roles(fresh, "queue_stranger", "queue_user"):
        run(fresh, "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO queue_stranger",
            "CREATE TABLE s.t (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
            "SELECT feed_create('f', 's.t')")  # fmt: skip
        run(other, "SET ROLE queue_stranger", "SET lock_timeout = '1min'")
        yield other
        run(other, "RESET ROLE")


def queue(owner: Connection, stranger: Connection, command: str, table: str) -> tuple[bool, str]:
    """Return whether the stranger's command waits for the table before it fails.

    Also return the SQLSTATE of a statement that waits behind the command.
    """
    statement, use = (text.format(table=table) for text in (QUEUES[command][0], USE[QUEUES[command][1]]))
    run(owner, "BEGIN", use)
    with connect(owner.info.dsn) as third, blocked(refusal, stranger, statement) as waiting:
        waits = not waiting.done()
        run(third, "SET lock_timeout = '50ms'")
        behind = refusal(third, use) if waits else ""
        run(owner, "COMMIT")
        assert waiting.result() in (DENIED, OF_TEMPORARY_TABLES)
        return waits, behind


@pytest.mark.parametrize("command", QUEUES)
def test_a_role_that_may_use_the_schema_of_a_table_can_make_others_wait(
    fresh: Connection, stranger: Connection, command: str
) -> None:
    """The role has no privileges on the table. Its command waits for the lock and then fails."""
    assert queue(fresh, stranger, command, "s.t") == (True, TIMED_OUT)


@pytest.mark.parametrize("command", QUEUES)
def test_a_role_that_may_not_use_the_schema_of_a_table_cannot_make_others_wait(
    fresh: Connection, stranger: Connection, command: str
) -> None:
    run(fresh, "REVOKE USAGE ON SCHEMA s FROM queue_stranger")
    assert queue(fresh, stranger, command, "s.t") == (False, "")


STATE = "inorder_internal.feed_table"


def is_sql(connection: Connection) -> bool:
    return connection.execute(b"SELECT to_regproc('inorder_internal.sql_edition') IS NOT NULL").fetchall() == [(True,)]


@pytest.mark.parametrize("command", QUEUES)
def test_a_role_that_may_use_the_schema_of_the_state_can_make_others_wait(
    fresh: Connection, stranger: Connection, command: str
) -> None:
    """In the SQL edition, any role can wait for a state table unless USAGE is revoked.

    In the C extension, the installer and the owner of the database can do so.
    """
    if is_sql(fresh):
        assert queue(fresh, stranger, command, STATE) == (True, TIMED_OUT)
        run(fresh, "REVOKE USAGE ON SCHEMA inorder_internal FROM PUBLIC")
    assert queue(fresh, stranger, command, STATE) == (False, "")
    if not is_sql(fresh):
        run(fresh, f"ALTER DATABASE {fresh.info.dbname} OWNER TO queue_stranger")
        assert queue(fresh, stranger, command, STATE) == (True, TIMED_OUT)
        run(fresh, f"ALTER DATABASE {fresh.info.dbname} OWNER TO CURRENT_USER")


STATE_USERS = (
    "SELECT feed_apply('f', 'SELECT FROM batch')", "SELECT exact_count('s.t')", "TABLE feeds",
    "INSERT INTO s.t (n) VALUES (2)",
)  # fmt: skip


def test_reads_counts_views_and_first_inserts_wait_for_locks_on_the_state(
    fresh: Connection, stranger: Connection
) -> None:
    """Only a session's first INSERT waits. A session that has inserted into the table before does not."""
    run(fresh, "SELECT exact_count_start('s.t')", "INSERT INTO s.t (n) VALUES (1)")
    if not is_sql(fresh):
        run(fresh, f"ALTER DATABASE {fresh.info.dbname} OWNER TO queue_stranger")
    with connect(fresh.info.dsn) as third, connect(fresh.info.dsn) as writer:
        run(writer, "INSERT INTO s.t (n) VALUES (1)", "BEGIN", f"SELECT FROM {STATE}")
        with blocked(refusal, stranger, QUEUES["CREATE RULE"][0].format(table=STATE)) as waiting:
            assert not waiting.done()
            run(third, "SET lock_timeout = '50ms'")
            assert [refusal(third, statement) for statement in STATE_USERS] == [TIMED_OUT] * len(STATE_USERS)
            run(fresh, "SET lock_timeout = '300ms'", STATE_USERS[-1])
            run(writer, "COMMIT")
            assert waiting.result() == DENIED
    run(fresh, f"ALTER DATABASE {fresh.info.dbname} OWNER TO CURRENT_USER")


def test_granted_roles_can_work_after_usage_is_revoked_from_public(fresh: Connection, stranger: Connection) -> None:
    """The remedy in the SQL edition is to revoke USAGE from PUBLIC.

    Roles with USAGE can still write, read and generate keys.
    """
    if not is_sql(fresh):
        pytest.skip("in the C extension no role needs USAGE on the schema")
    run(fresh, "REVOKE USAGE ON SCHEMA inorder_internal FROM PUBLIC")
    run(fresh, "GRANT USAGE ON SCHEMA inorder_internal, s TO queue_user", "GRANT INSERT, SELECT ON s.t TO queue_user")
    run(fresh, "SET ROLE queue_user", "INSERT INTO s.t (n) VALUES (1)", "SELECT feed_create('own', 's.t')",
        "SELECT feed_apply('own', 'SELECT FROM batch')", "TABLE feeds", "RESET ROLE")  # fmt: skip


def test_a_role_that_may_use_the_schema_can_make_readers_of_a_view_wait(
    fresh: Connection, stranger: Connection
) -> None:
    statement = QUEUES["CREATE RULE"][0].format(table="public.feeds")
    run(fresh, "BEGIN", "TABLE public.feeds")
    with connect(fresh.info.dsn) as third, blocked(refusal, stranger, statement) as waiting:
        assert not waiting.done()
        run(third, "SET lock_timeout = '300ms'")
        assert refusal(third, "TABLE public.feeds") == TIMED_OUT
        # Feeds and counts do not read views, so they do not wait.
        run(third, "SELECT feed_apply('f', 'SELECT FROM batch')", "SELECT exact_count_start('s.t')")
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED


def test_every_role_can_make_others_wait_for_a_catalog_table(fresh: Connection, stranger: Connection) -> None:
    """Any role that may connect can wait for a system catalog, and revoking privileges does not prevent this."""
    statement = QUEUES["CREATE RULE"][0].format(table="pg_catalog.pg_transform")
    run(fresh, "BEGIN", "SELECT FROM pg_transform")
    with blocked(refusal, stranger, statement) as waiting:
        assert not waiting.done()
        run(fresh, "COMMIT")
        assert waiting.result() == DENIED


def test_an_event_trigger_refuses_a_rule_before_it_waits(fresh: Connection, stranger: Connection) -> None:
    """The event trigger comes from docs/refuse-rules.sql, and docs/security.md recommends it."""
    run(fresh, text("docs/refuse-rules.sql"))
    assert queue(fresh, stranger, "CREATE RULE", "s.t") == (False, "")
    statement = QUEUES["CREATE RULE"][0].format(table="pg_catalog.pg_transform")
    run(fresh, "BEGIN", "SELECT FROM pg_transform")
    with blocked(refusal, stranger, statement) as waiting:
        assert waiting.result() == DENIED
    run(fresh, "COMMIT", "CREATE RULE r AS ON UPDATE TO s.t DO ALSO NOTHING", "DROP RULE r ON s.t")


@pytest.mark.skipif(TESTED == "sql", reason="the event trigger is for DROP EXTENSION")
def test_the_documented_event_trigger_keeps_columns(fresh: Connection) -> None:
    """The event trigger comes from docs/keep-columns.sql, and docs/install.md refers to it."""
    run(fresh, text("docs/keep-columns.sql"), "CREATE TABLE kept_columns (id uuid DEFAULT uuid_xact_nextval())")
    with pytest.raises(psycopg.errors.RaiseException, match="columns would lose their default, or be dropped"):
        fresh.execute("DROP EXTENSION inorder CASCADE")
