"""inorder lab check on the user's own server: it reports its findings, and leaves the server unchanged."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from psycopg import sql

from own_server_runs import plain, traces
from tool import inorder
from waiting import wait_for
from world.sql import value

ODD = "odd, Public"  # schema of the extension, in which the user also has tables
OWN = ("events", "elsewhere", "loaded")
SHORT = ("--schedules", "3", "--load", "0.1s", "--format", "json")


@pytest.fixture(scope="module")
def shop(users: Cluster) -> Iterator[str]:
    with connect(users.dsn) as admin:
        admin.execute("CREATE ROLE keeper LOGIN; ALTER ROLE keeper SET standard_conforming_strings = off")
        admin.execute("CREATE DATABASE shop OWNER keeper")
    dsn = f"host={users.folder / 'run'} port=5432 user=keeper dbname=shop"
    with connect(dsn) as connection:
        odd = sql.Identifier(ODD)
        connection.execute(sql.SQL("CREATE SCHEMA {0}; CREATE EXTENSION inorder SCHEMA {0}").format(odd))
        for name in OWN:
            connection.execute(sql.SQL("CREATE TABLE {}.{} AS SELECT 7 AS id").format(odd, sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE SEQUENCE {}.ids").format(odd))
    yield dsn
    with connect(users.dsn) as admin:
        admin.execute("DROP DATABASE shop WITH (FORCE)")
        admin.execute("DROP ROLE keeper")


def require_untouched(dsn: str) -> None:
    with connect(dsn) as connection:
        for name in OWN:
            ids = connection.execute(sql.SQL("SELECT id FROM {}.{}").format(sql.Identifier(ODD), sql.Identifier(name)))
            assert ids.fetchall() == [(7,)], name
        called = sql.SQL("SELECT is_called FROM {}.ids").format(sql.Identifier(ODD))
        assert connection.execute(called).fetchone() == (False,)
        assert owned(connection) == ["elsewhere", "events", "ids", "loaded"]
    wait_for(lambda: traces(dsn) == [])  # the server notices a lost client with a short delay


def owned(connection: Connection) -> list[object]:
    query = (
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'S') AND relowner = 'keeper'::regrole "
        "AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e') ORDER BY relname"
    )
    return [name for (name,) in connection.execute(query.encode())]


def test_readers_on_the_users_server_have_the_same_faults(shop: str, tmp_path: Path, server: Installation) -> None:
    """The role owns only its database. The extension is in a schema whose name must be quoted."""
    program = shlex.join(["sh", "-c", PROGRAM, str(server.program("psql"))])
    poll = r"SELECT id FROM events WHERE '\' <> '' AND id > :last"
    readers = ("id", "feed", "dlt", "decoding", "--sql", poll)
    done = inorder(
        "lab", "check", *readers, "--program", program, "--dsn", shop, *SHORT, folder=tmp_path, server=server
    )
    assert done.returncode == 3, done.stderr  # the reader of --sql loses rows
    assert "logical decoding: left out, because wal_level is not logical" in done.stderr
    by_reader = {record["reader"]: "lost" in record["faults"] for record in json.loads(done.stdout)}
    # Three schedules per case do not show that dlt loses rows. The random load may show it.
    assert by_reader.pop("dlt") is not None
    assert by_reader == {"id": True, "feed": False, "sql": True, "program": False}
    notes = {case["case"]: case["note"] for case in json.loads(done.stdout)[0]["cases"]}
    assert notes["prepared"] == "max_prepared_transactions is 0"
    require_untouched(shop)


# A reader in the shell. Unqualified names must work: uuid_xact_nextval is found in the schema of the extension, and
# events is the table of the check. The program is started for each schedule, and starting Python with psycopg would
# take a fifth of a second.
PROGRAM = """
while read -r line; do
    "$0" -XqAt -c "WITH asked AS (SELECT coalesce(nullif('$line'::jsonb -> 'last', 'null'), '[]') AS seen
                                  WHERE 'uuid_xact_nextval'::regproc IS NOT NULL),
                        new AS (SELECT to_jsonb(id) AS id FROM events, asked WHERE NOT seen @> to_jsonb(id))
                   TABLE new UNION ALL
                   SELECT jsonb_build_object('last', seen || coalesce((SELECT jsonb_agg(id) FROM new), '[]'))
                   FROM asked" || exit
done
"""

WRONG = {
    "no table": ('setup = "SELECT 1"', "the setup of wrong creates no events in the schema inorder_lab"),
    "another schema": ('setup = "CREATE TEMP TABLE events (id int)"', "creates no events in the schema inorder_lab"),
    "no sequence": ('setup = "CREATE TABLE events (id int)"', "creates no ids in the schema inorder_lab"),
    "an error": ('setup = "SELECT 1/0"\nteardown = "DROP TABLE loaded"', "division by zero"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setup_leads_to_no_table_of_the_users(
    shop: str, tmp_path: Path, server: Installation, name: str
) -> None:
    """The user's tables are in the search_path of the check. A wrong setup neither drops nor changes them."""
    setup, says = WRONG[name]
    (tmp_path / "ways.toml").write_text(f'[wrong]\n{setup}\npoll = "SELECT id FROM events"\n')
    done = inorder("lab", "check", "--ways", "ways.toml", "--dsn", shop, *SHORT, folder=tmp_path, server=server)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    require_untouched(shop)


def test_an_existing_schema_is_left_alone(shop: str, tmp_path: Path) -> None:
    with connect(shop) as connection:
        connection.execute("CREATE SCHEMA inorder_lab; CREATE TABLE inorder_lab.events AS SELECT 8 AS id")
        done = inorder("lab", "check", "id", "--dsn", shop, folder=tmp_path)
        assert done.returncode == 2 and "already has a schema inorder_lab" in done.stderr
        assert value(connection, "SELECT id FROM inorder_lab.events") == 8
        connection.execute("DROP SCHEMA inorder_lab CASCADE")


def test_without_the_extension_feeds_are_left_out(users: Cluster, tmp_path: Path) -> None:
    dsn = plain(users)
    done = inorder("lab", "check", "horizon", "feed", "--dsn", dsn, *SHORT, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "feed_read: left out, because the database has no extension inorder" in done.stderr
    assert [record["reader"] for record in json.loads(done.stdout)] == ["horizon"]
    assert traces(dsn) == []


def test_an_interrupt_leaves_nothing(shop: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "inorder", "lab", "check", "feed", "--dsn", shop]
    running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with connect(shop) as connection:
        wait_for(lambda: value(connection, "SELECT to_regclass('inorder_lab.elsewhere') IS NOT NULL"))
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    require_untouched(shop)
