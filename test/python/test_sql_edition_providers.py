"""The SQL edition on hosted servers, which revoke default privileges.

test/providers.csv lists the privileges that providers are known to revoke, with their sources. The tests revoke all of
these privileges in their database. They also revoke every other privilege in pg_catalog that can be revoked and is not
in the edition's own list of required privileges. This shows that the list is complete. The tests also show that the
script of the edition fails if a required privilege is missing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.install.offer import SQL
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from edition.join import names
from editions import OBJECTS, Tool
from providers import documented, may_use, revoke
from sql_edition import install, write_edition
from world.sql import rows, run

# The role that owns the database and installs the edition, and a role that uses the edition.
ROLES = ("hosted_owner", "hosted_user")
FIRST_BATCH = "reader_next_batch('events', reader_start('events'))"
# A role that reads a view needs EXECUTE on each function that the view calls. The functions of required views therefore
# keep their privileges.
REVOKE_THE_REST = """
DO $do$
DECLARE
    named name[] := '{%s}';
    o text;
BEGIN
    FOR o IN SELECT 'FUNCTION ' || p.oid::regprocedure FROM pg_proc AS p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^(pg_|lo_|txid_)'
               AND p.proname <> ALL (named) AND p.prokind = 'f'
               AND NOT EXISTS (SELECT FROM pg_views AS v
                               WHERE v.viewname = ANY (named) AND v.definition ~ format('\\m%%s\\(', p.proname))
             UNION ALL SELECT 'TABLE pg_catalog.' || c.relname FROM pg_class AS c
             WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname <> ALL (named)
    LOOP
        EXECUTE format('REVOKE ALL ON %%s FROM PUBLIC', o);
    END LOOP;
END $do$;
"""
AURORA = """
ALTER FUNCTION pg_catalog.pg_current_wal_insert_lsn() RENAME TO pg_current_wal_insert_lsn_was;
CREATE FUNCTION pg_catalog.pg_current_wal_insert_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'wal_level must be set to ''logical''' USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;
"""


@pytest.fixture
def hosted(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE IF EXISTS hosted WITH (FORCE)")
        for role in ROLES:
            admin.execute(f"DROP ROLE IF EXISTS {role}".encode())
            admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute("CREATE DATABASE hosted OWNER hosted_owner")
    with connect(f"{cluster.dsn} dbname=hosted") as connection:
        yield connection
    with connect(cluster.dsn) as admin:
        admin.execute("DROP DATABASE hosted WITH (FORCE)")
        admin.execute(f"DROP ROLE {', '.join(ROLES)}".encode())


def needed(folder: Path) -> list[str]:
    return names(write_edition(folder, "inorder", "").read_text())


def test_each_entry_has_its_source(shared_folder: Path) -> None:
    entries = documented()
    assert {entry["provider"] for entry in entries} == {"Aurora", "Azure", "Cloud SQL", "Neon", "RDS", "Supabase"}
    assert all(entry["privilege"] in ("execute", "select") for entry in entries)
    assert all(entry["source"].startswith("https://") for entry in entries)
    assert not {entry["object"].partition("(")[0] for entry in entries}.intersection(needed(shared_folder))


@pytest.mark.server
def test_the_edition_works_with_the_privileges_that_it_names(
    server: Installation, cluster: Cluster, hosted: Connection, shared_folder: Path
) -> None:
    hosted.execute((REVOKE_THE_REST % ",".join(needed(shared_folder))).encode())
    for entry in documented():
        assert not may_use(hosted, entry, "hosted_user"), entry
    install(server, cluster, write_edition(shared_folder, "inorder", ""), "hosted", role="hosted_owner")
    run(hosted, "SET ROLE hosted_owner", "SELECT inorder.feed_admit('hosted_user')",
        "GRANT CREATE ON SCHEMA public TO hosted_user", "SET ROLE hosted_user",
        "SET search_path = public, inorder",
        "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int) PARTITION BY HASH (id)",
        "CREATE TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        "SELECT feed_create('f', 'events'), exact_count_start('events')",
        "INSERT INTO events (n) VALUES (1), (2)", "CREATE SEQUENCE s",
        "SELECT uuid_v7_nextval(), uuid_time_nextval(), uuid_sequence_nextval('s')")  # fmt: skip
    for statement, expected in {
        "SELECT n FROM feed_read('f', null::events, 1)": [(1,)],
        "SELECT feed_wait('f', '0')": [(True,)],
        "SELECT (feed_take_batch('f', 'w')).number > 0": [(True,)],
        "SELECT n FROM feed_batch_rows('f', (SELECT number FROM feed_batches), null::events)": [(2,)],
        "SELECT feed_finish_batch('f', number, token) FROM feed_take_batch('f', 'w')": [(True,)],
        f"SELECT count(*) FROM reader_batch_rows('events', {FIRST_BATCH}, null::events)": [(2,)],
        "SELECT transactions FROM reader_backlog('events', reader_start('events', 'now'))": [(0,)],
        "SELECT exact_count('events')": [(2,)],
        "SELECT name, worker_batches FROM feeds": [("f", 0)],
        "SELECT count(*) FROM feed_batches": [(0,)],
    }.items():
        assert hosted.execute(statement.encode()).fetchall() == expected, statement


@pytest.mark.server
def test_the_tool_works_with_the_privileges_that_providers_leave(
    cluster: Cluster, hosted: Connection, tmp_path: Path
) -> None:
    tool = Tool(cluster, tmp_path, hosted, "hosted_owner")
    revoke(hosted)
    assert not any(may_use(hosted, entry, "hosted_owner") for entry in documented())
    before = rows(hosted, OBJECTS)
    checked = tool.install("--check", "--edition", SQL)
    assert "role hosted_owner\ninstalled: no\n" in checked and "\nsql: SQL edition: can be installed\n" in checked
    assert rows(hosted, OBJECTS) == before
    assert "(SQL edition) in schema inorder" in tool.install("--edition", SQL)
    tool.uninstall("--yes")
    assert rows(hosted, OBJECTS) == before


@pytest.mark.server
def test_a_missing_setting_of_aurora_is_found_by_check(cluster: Cluster, hosted: Connection, tmp_path: Path) -> None:
    run(hosted, AURORA)
    before = rows(hosted, OBJECTS)
    refused = Tool(cluster, tmp_path, hosted, "hosted_owner").install("--check", "--edition", SQL, code=2)
    assert "wal_level must be set to 'logical'; HINT: Aurora shows the position if the parameter" in refused
    assert rows(hosted, OBJECTS) == before


@pytest.mark.server
@pytest.mark.parametrize(("name", "statement"), [
    ("pg_control_system", "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM PUBLIC"),
    ("pg_locks, pg_relation_filenode",
     "REVOKE SELECT ON pg_locks FROM PUBLIC; REVOKE EXECUTE ON FUNCTION pg_relation_filenode FROM PUBLIC"),
    ("wal_level must be set to 'logical'", AURORA),
])  # fmt: skip
def test_a_server_that_lacks_a_named_privilege_is_refused(
    server: Installation, cluster: Cluster, hosted: Connection, shared_folder: Path, name: str, statement: str
) -> None:
    hosted.execute(statement.encode())
    with pytest.raises(AssertionError, match=rf"this server does not .* {name}\n"):
        install(server, cluster, write_edition(shared_folder, "inorder", ""), "hosted", role="hosted_owner")
    assert hosted.execute("SELECT FROM pg_namespace WHERE nspname ~ 'inorder'").rowcount == 0
