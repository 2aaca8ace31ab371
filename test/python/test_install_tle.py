"""The SQL edition as a package of pg_tle, on a server that has pg_tle."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder import __version__
from inorder.database import Connection, connect
from inorder.extension.building import run_make
from inorder.install.offer import SQL, TLE, C
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import Server

import next_release
from conftest import SETTINGS
from editions import OBJECTS, Tool, database, rows
from extension_objects import difference, objects
from kept_state import Kept
from next_release import COLUMN, NEXT

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
        "CREATE TABLE g (n int, x bigint GENERATED ALWAYS AS (xact_id_generated()) STORED, PRIMARY KEY (x, n))",
        "SELECT feed_create('g', 'g')", "INSERT INTO g (n) VALUES (1), (2), (3)",
    )  # fmt: skip
    for table in ("f', null::events", "g', null::g"):
        assert rows(with_tle, f"SELECT n FROM feed_read('{table}, 1)") == [(1,)]
    assert tool.run("count", "events").stdout == b"3\n"
    for edition in (SQL, TLE):
        tool.install("--move", "--edition", edition)
        (row,) = rows(with_tle, "SELECT n FROM feed_read('f', null::events, 1)")
        assert row == ((2,) if edition == SQL else (3,))
        assert rows(with_tle, "SELECT n FROM feed_read('g', null::g, 1)") == [row]
    assert rows(with_tle, "SELECT exact_count('events')") == [(3,)]
    tool.install("--uninstall", "--yes")
    assert rows(with_tle, "DROP TABLE events, g", OBJECTS) == before


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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the made-up next version, with a tool that has no other."""
    made = tmp_path_factory.mktemp("tle") / "tree"
    next_release.copy_tree(made)
    next_release.begin_next(made)
    next_release.make_changes(made)
    return made


def test_an_update_keeps_everything(preloaded_tle: Cluster, tool: Tool, with_tle: Connection, tree: Path) -> None:
    """To the made-up next version: feeds, batches that are out, counts; then the objects are those of a new package."""
    tool.install("--edition", TLE)
    rows(with_tle, "SET ROLE tle_owner", "SET search_path = public, inorder")
    kept = Kept(with_tle)
    state = kept.state(with_tle)
    where = f"{preloaded_tle.dsn} user=tle_owner dbname="
    name = with_tle.info.dbname
    said = next_release.tool(tree, preloaded_tle, "install", "--upgrade", "--dsn", where + name)
    assert said.startswith(f"upgraded {__version__} to inorder {NEXT} (SQL edition by pg_tle)")
    assert kept.state(with_tle, like=state) == state
    kept.goes_on(with_tle)
    assert rows(with_tle, "SELECT added(1)") == [(2,)]
    rows(with_tle, "SELECT feed_rename('read', 'renamed')")
    assert rows(with_tle, f"SELECT {COLUMN} FROM inorder_internal.feed WHERE name = 'renamed'") == [(1,)]
    for action in ("--upgrade", "--verify"):
        said = next_release.tool(tree, preloaded_tle, "install", action, "--dsn", where + name)
        assert said.startswith(f"inorder {NEXT} (SQL edition by pg_tle) in schema inorder is")
    rows(with_tle, "SELECT feed_drop(name) FROM feeds", "DROP TABLE events")
    with database(preloaded_tle, "tle_owner") as fresh:
        rows(fresh, "CREATE EXTENSION pg_tle")
        next_release.tool(tree, preloaded_tle, "install", "--edition", TLE, "--dsn", where + fresh.info.dbname)
        found = [of_inorder(objects(preloaded_tle, each.info.dbname)) for each in (with_tle, fresh)]
    different = difference(*found)
    assert not different, different
    assert len(found[0]) > 700
    # As a restore does.
    rows(with_tle, "DROP EXTENSION inorder", "CREATE EXTENSION inorder SCHEMA inorder")
    assert rows(with_tle, "SELECT extversion FROM pg_extension WHERE extname = 'inorder'") == [(NEXT,)]


def test_the_file_updates_it_too(preloaded_tle: Cluster, tool: Tool, with_tle: Connection, tree: Path) -> None:
    """That make writes beside the one of the plain edition, without the tool."""
    tool.install("--edition", TLE)
    makefile = tree / "Makefile"
    run_make(preloaded_tle.original, makefile, tree.parent / "make", "sql-edition")
    text = (tree.parent / "make" / f"inorder-tle--{__version__}--{NEXT}.sql").read_text()
    rows(with_tle, "SET ROLE tle_owner", text, "ALTER EXTENSION inorder UPDATE")
    assert rows(with_tle, "SELECT inorder.added(1)") == [(2,)]
    where = f"{preloaded_tle.dsn} user=tle_owner dbname={with_tle.info.dbname}"
    said = next_release.tool(tree, preloaded_tle, "install", "--verify", "--dsn", where)
    assert said.startswith(f"inorder {NEXT} (SQL edition by pg_tle) in schema inorder is as this version")


def of_inorder(found: dict[str, str]) -> dict[str, str]:
    """Without pg_tle, and what it keeps of the packages that it knows."""
    return {name: text for name, text in found.items() if " pgtle " not in name and not name.endswith(" pg_tle")}
