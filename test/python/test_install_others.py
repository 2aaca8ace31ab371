"""inorder install in a database with foreign objects and settings: it calls and removes no foreign object."""

import re
from pathlib import Path

import pytest
from inorder import __version__
from inorder.connection.database import Connection
from inorder.install.offer import SQL, C
from inorder.lab.server.cluster import Cluster

from editions import EVENTS, Tool, as_new, database
from world.sql import rows, run

pytestmark = pytest.mark.server


def test_objects_of_users_in_the_schema_are_not_removed(tool: Tool, empty: Connection) -> None:
    tool.install("--edition", SQL)
    run(
        empty, "SET ROLE edition_owner", EVENTS.replace("public.events", "inorder.events"),
        "CREATE FUNCTION inorder.mine() RETURNS int LANGUAGE sql RETURN 1",
    )  # fmt: skip
    refused = tool.uninstall("--yes", code=2)
    assert "objects that are not part of inorder: function inorder.mine(), table inorder.events" in refused
    run(empty, "DROP FUNCTION inorder.mine()", "ALTER TABLE inorder.events SET SCHEMA public")
    run(empty, "ALTER TABLE public.events ALTER COLUMN id SET DEFAULT gen_random_uuid()")
    tool.uninstall("--yes")
    assert rows(empty, "SELECT count(*) FROM public.events") == [(0,)]


# a terminal would execute the escape sequence in this name if it were printed unescaped
OBEYED = "n\x1b[31m\ninorder: removed"
SHOWN = r'"n\x1b[31m\ninorder: removed"'


def test_names_chosen_by_users_are_shown_on_one_line(tool: Tool, empty: Connection) -> None:
    tool.install("--edition", SQL)
    run(empty, "SET ROLE edition_owner", "SET search_path = public, inorder", f'CREATE TABLE inorder."{OBEYED}" ()')
    errors = [tool.uninstall("--yes", code=2)]
    run(empty, f'DROP TABLE inorder."{OBEYED}"', f'CREATE VIEW public."{OBEYED}" AS SELECT name FROM inorder.feeds')
    errors.append(tool.uninstall("--yes", code=2))
    run(empty, f'DROP VIEW public."{OBEYED}"', EVENTS.replace("events", f'"{OBEYED}"'))
    errors.append(tool.run("count", "show", f'public."{OBEYED}"').stderr.decode())
    run(empty, f"""SELECT feed_enable('public."{OBEYED}"')""")
    errors.append(tool.uninstall("--yes", code=2))
    refused = tool.install("--schema", OBEYED, code=2)
    assert r"n\x1b[31m" in refused and "\x1b" not in refused
    for text in errors:
        assert SHOWN in text and "\x1b" not in text and "\ninorder: removed" not in text, text
    assert len(set(errors)) == len(errors)


PLANTED = (
    "CREATE SCHEMA inorder_internal", "CREATE SCHEMA inorder",
    "CREATE FUNCTION inorder_internal.sql_edition() RETURNS text LANGUAGE sql IMMUTABLE RETURN '{}'",
    "CREATE FUNCTION inorder.feed_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE FUNCTION inorder.attack() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''attacked''; END'",
    "CREATE VIEW inorder_internal.feed AS SELECT 'f' AS name, 0::regclass AS relation, 'o' AS owner_name "
    "WHERE inorder.attack()",
    "CREATE VIEW inorder_internal.feed_table AS SELECT 0::regclass AS relation WHERE inorder.attack()",
    "CREATE VIEW inorder_internal.counted_table AS SELECT 0::regclass AS relation WHERE inorder.attack()",
)  # fmt: skip


def test_objects_of_an_untrusted_role_are_not_taken_over(cluster: Cluster, tmp_path: Path, empty: Connection) -> None:
    run(empty, f"ALTER DATABASE {empty.info.dbname} OWNER TO postgres",
         f"GRANT CREATE ON DATABASE {empty.info.dbname} TO edition_owner")  # fmt: skip
    run(empty, "SET ROLE edition_owner", *(text.replace("{}", __version__) for text in PLANTED))
    tool = Tool(cluster, tmp_path, empty)
    for command in ("install", "install --check", "upgrade", "uninstall --yes"):
        refused = tool.says(*command.split(), code=2)
        assert 'belongs to role "edition_owner", which is not trusted' in refused and "attacked" not in refused


def test_a_superuser_calls_no_function_that_the_owner_of_the_database_can_change(
    cluster: Cluster, tmp_path: Path, tool: Tool, empty: Connection
) -> None:
    tool.install("--edition", SQL)
    assert tool.run("feeds").returncode == 0
    for command, verb in (("feeds", "belong"), ("upgrade", "belongs")):
        assert f'{verb} to role "edition_owner"' in Tool(cluster, tmp_path, empty).says(command, code=2)


def test_a_superuser_in_the_database_of_another_role_learns_how_to_use_the_extension(
    cluster: Cluster, tmp_path: Path, empty: Connection
) -> None:
    """CREATE EXTENSION installs it in the schema "public", which belongs to the owner of the database."""
    run(empty, "CREATE EXTENSION inorder")
    tool, database_name = Tool(cluster, tmp_path, empty), empty.info.dbname
    refused, installed = tool.says("feeds", code=2), tool.run("install")
    reason = f'schema "public" of database "{database_name}", and this schema belongs to role "edition_owner"\nHINT: '
    assert reason in refused and b"is already installed" in installed.stdout and installed.returncode == 0
    assert 'WARNING:  role "postgres" cannot use it with other commands: ' in installed.stderr.decode()
    assert reason in installed.stderr.decode()
    assert Tool(cluster, tmp_path, empty, "edition_owner").run("install").stderr == b""
    (statements,) = re.findall(r"run as a superuser: (.*)", refused)
    run(empty, *statements.split("; "))
    assert tool.says("feeds", code=0).startswith("feed ") and tool.run("install").stderr == b""
    run(empty, "SET ROLE edition_owner", "CREATE TABLE public.t ()")


def test_no_function_of_a_schema_given_to_an_untrusted_role_is_called(tool: Tool, empty: Connection) -> None:
    tool.install("--edition", SQL)
    run(empty, "ALTER SCHEMA inorder OWNER TO pg_monitor")
    refused, advised = tool.run("feeds"), tool.run("advise")
    assert (refused.returncode, advised.returncode) == (2, 0)
    assert b'belongs to role "pg_monitor"' in refused.stderr and b'belongs to "pg_monitor"' in advised.stdout


def test_the_extension_is_not_installed_into_a_schema_of_an_untrusted_role(
    cluster: Cluster, tmp_path: Path, empty: Connection
) -> None:
    run(
        empty,
        "CREATE SCHEMA inorder AUTHORIZATION edition_owner",
        f"ALTER DATABASE {empty.info.dbname} OWNER TO postgres",
    )
    tool = Tool(cluster, tmp_path, empty)
    assert 'belongs to role "edition_owner", who could drop the extension' in tool.install("--edition", C, code=2)


@pytest.mark.parametrize("edition", [C, SQL])
def test_default_privileges_do_not_matter(cluster: Cluster, tmp_path: Path, edition: str) -> None:
    with database(cluster) as connection:
        run(
            connection, "CREATE ROLE edition_caller", "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"
        )
        try:
            tool = Tool(cluster, tmp_path, connection)
            tool.install("--edition", edition)
            assert as_new(cluster, tmp_path, connection.info.dbname, edition) == ""
            admits = "SELECT inorder.feed_admit('edition_caller')"
            run(connection, admits if edition == SQL else "GRANT USAGE ON SCHEMA inorder TO edition_caller")
            run(connection, "SET ROLE edition_caller")
            assert rows(connection, "SELECT inorder.uuid_xact_id(inorder.uuid_xact_nextval()) > 0") == [(True,)]
        finally:
            run(
                connection, "RESET ROLE", "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
                "DROP OWNED BY edition_caller", "DROP ROLE edition_caller",
            )  # fmt: skip
