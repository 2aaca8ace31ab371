"""The SQL edition as a package of pg_tle, on a server that has pg_tle."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.database import Connection, connect
from inorder.install.offer import SQL, TLE, C
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import Server

from conftest import SETTINGS
from editions import OBJECTS, Tool, database, rows

pytestmark = pytest.mark.server
DUMPED = ["feed_table", "feed", "worker_batch", "counted_table"]


@pytest.fixture(scope="module")
def preloaded_tle(server: Server) -> Iterator[Cluster]:
    """A server that has pg_tle, and no C extension."""
    if not (server.pkglibdir / "pg_tle.so").exists():
        pytest.skip("the server has no pg_tle")
    with Cluster(server) as running:
        files = list((running.server.sharedir / "extension").glob("inorder*"))
        assert files
        for path in files:
            path.unlink()
        running.start(SETTINGS | {"shared_preload_libraries": "pg_tle"})
        with connect(running.dsn) as admin:
            rows(admin, "CREATE ROLE tle_owner LOGIN")
        yield running


@pytest.fixture
def with_tle(preloaded_tle: Cluster) -> Iterator[Connection]:
    """A database with pg_tle, of a role that may install packages and has no other privilege."""
    with database(preloaded_tle, "tle_owner") as connection:
        rows(connection, "CREATE EXTENSION pg_tle", "GRANT pgtle_admin TO tle_owner")
        yield connection


@pytest.fixture
def tool(preloaded_tle: Cluster, tmp_path: Path, with_tle: Connection) -> Tool:
    """The tool as that role."""
    return Tool(preloaded_tle, tmp_path, with_tle, "tle_owner")


def test_the_package(tool: Tool, with_tle: Connection) -> None:
    """It is the best edition there; a key, a feed, a count; pg_dump includes its state; and nothing of it stays."""
    before = rows(with_tle, OBJECTS)
    assert "C extension no, pg_tle" in tool.install("--check", "--edition", TLE)
    assert "(SQL edition by pg_tle) in schema inorder" in tool.install()
    assert " objects compared" in tool.install("--verify")
    assert rows(with_tle, "SELECT extname FROM pg_extension WHERE extname = 'inorder'") == [("inorder",)]
    dumped = "SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'inorder'"
    assert [name for (name,) in rows(with_tle, dumped)] == [f"inorder_internal.{name}" for name in DUMPED]
    rows(
        with_tle, "SET ROLE tle_owner", "SET search_path = public, inorder",
        "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval(), n int)",
        "SELECT feed_create('f', 'events')",
        "INSERT INTO events (n) VALUES (1), (2), (3)", "SELECT exact_count_start('events')",
    )  # fmt: skip
    assert rows(with_tle, "SELECT n FROM feed_read('f', null::events, 1)") == [(1,)]
    assert tool.run("count", "events").stdout == b"3\n"
    for edition in (SQL, TLE):
        tool.install("--move", "--edition", edition)
        (row,) = rows(with_tle, "SELECT n FROM feed_read('f', null::events, 1)")
        assert row == ((2,) if edition == SQL else (3,))
    assert rows(with_tle, "SELECT exact_count('events')") == [(3,)]
    tool.install("--uninstall", "--yes")
    assert rows(with_tle, "DROP TABLE events", OBJECTS) == before


def test_what_prevents_it(preloaded_tle: Cluster, tool: Tool, with_tle: Connection) -> None:
    """A role that is no member of pgtle_admin, and a schema in which others could put functions."""
    rows(with_tle, "REVOKE pgtle_admin FROM tle_owner")
    assert "is not a member of pgtle_admin" in tool.install("--edition", TLE, code=2)
    assert "pg_available_extensions has no inorder" in tool.install("--edition", C, code=2)
    rows(with_tle, "GRANT pgtle_admin TO tle_owner")
    script = tool.install("--script", "--edition", TLE)
    with connect(f"{preloaded_tle.dsn} dbname={with_tle.info.dbname} user=tle_owner") as owner:
        rows(owner, script)
        with pytest.raises(Exception, match="schema public must belong to the role that runs CREATE EXTENSION"):
            rows(owner, "CREATE EXTENSION inorder SCHEMA public")
        rows(owner, "CREATE SCHEMA taken", "CREATE FUNCTION taken.f() RETURNS int LANGUAGE sql RETURN 1")
        with pytest.raises(Exception, match="schema taken has functions already"):
            rows(owner, "CREATE EXTENSION inorder SCHEMA taken")
        rows(owner, "CREATE SCHEMA inorder", "CREATE EXTENSION inorder SCHEMA inorder")
    assert "is there already" in tool.install()
