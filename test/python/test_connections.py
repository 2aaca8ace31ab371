"""Only a few functions connect to the user's server, and each sets search_path or only reads it."""

import ast
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg
import pytest
from inorder.connection import database
from inorder.connection.database import SEARCH_PATH, Connection, UserConnection, connect_as_user, has_path, with_path
from inorder.connection.database import pinned as pinned_dsn
from inorder.connection.session import Session
from inorder.errors import InputError
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import conninfo_to_dict

import pooler
from sources import ROOT
from world.sql import value

PACKAGE = ROOT / "inorder"
# Calls that connect, and the functions that may contain them, each with the reason why its search_path is safe.
# The first three functions connect to the user's servers.
CONNECTS = {"connect", "connect_start", "connect_async", "ping"}
PLACES = {
    ("connection/database.py", "connect_as_user"): "pinned in each transaction",
    ("connection/database.py", "has_path"): "only reads its own search_path",
    ("arrow/reader.py", "__init__"): "pinned before the driver connects",
    ("connection/database.py", "given"): "connects to no server",
    ("connection/database.py", "connect"): "connects to a throw-away server",
    ("lab/server/cluster.py", "wait_until_ready"): "connects to a throw-away server",
}
# Calls of methods of a Target. These methods connect through the functions in PLACES.
OWN = {"self.target.connect", "target.connect", "place.target.connect", "self.connect"}
# Programs that connect, and drivers that this package does not use.
PROGRAMS = {"psql", "pgbench", "pg_dump", "pg_dumpall", "pg_restore", "createdb", "dropdb", "vacuumdb", "reindexdb"}
DRIVERS = {"psycopg2", "asyncpg", "pg8000", "sqlalchemy", "psycopg_pool", "aiopg", "jdbc"}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls in a module, each with the name of the function that contains it."""
    pending = [(tree, "")]
    while pending:
        above, function = pending.pop()
        for node in ast.iter_child_nodes(above):
            if isinstance(node, ast.Call):
                yield function, node
            inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
            pending.append((node, inside))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def last_name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def connecting(path: Path) -> Iterator[str]:
    """Yield the names of functions that connect with a driver or pass a connecting function to another function."""
    for function, call in calls(parsed(path)):
        if last_name(call) in CONNECTS and ast.unparse(call.func) not in {*OWN, "connect", "reconnect"}:
            yield function


def test_connections_are_made_only_in_the_listed_functions() -> None:
    places = {
        (str(path.relative_to(PACKAGE)), function) for path in PACKAGE.rglob("*.py") for function in connecting(path)
    }
    assert places == set(PLACES)


def test_no_other_driver_and_no_other_program_connects() -> None:
    loaded, named = set[tuple[str, str]](), set[tuple[str, str]]()
    for path in PACKAGE.rglob("*.py"):
        file = str(path.relative_to(PACKAGE))
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
                loaded |= {(file, module) for module in modules if module.split(".")[0].startswith("adbc")}
                assert not DRIVERS & {module.split(".")[0] for module in modules}, file
            if isinstance(node, ast.Call) and last_name(node).endswith("program"):
                values = [str(value.value) for value in node.args if isinstance(value, ast.Constant)]
                named |= {(file, program) for program in PROGRAMS.intersection(values)}
    assert {file for file, _ in loaded} == {"arrow/reader.py", "spark/rows.py"}
    assert named == {("lab/targets/target.py", "pgbench")}  # with_path() passes search_path to pgbench


@pytest.fixture
def user(cluster: Cluster, fresh: Connection) -> Iterator[UserConnection]:
    with connect_as_user(f"{cluster.dsn} dbname=tail options='-c search_path=elsewhere -c geqo=off'") as connection:
        yield connection


@pytest.mark.server
def test_statements_outside_a_transaction_have_the_same_search_path_as_inside(user: UserConnection) -> None:
    assert value(user, "SHOW search_path") == SEARCH_PATH
    with user.transaction():
        assert value(user, "SHOW search_path") == SEARCH_PATH
    # the session's own search_path
    assert psycopg.Connection.execute(user, "SHOW search_path").fetchone() == ("elsewhere",)
    assert value(user, "SHOW geqo") == "off"


@pytest.mark.server
def test_only_the_table_is_looked_up_in_the_users_search_path(cluster: Cluster, fresh: Connection) -> None:
    fresh.execute("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.hidden (); CREATE TABLE public.pg_class ()")
    oid = value(fresh, "SELECT 'elsewhere.hidden'::regclass::oid")
    dsn = f"{cluster.dsn} dbname=tail options='-c search_path=elsewhere'"
    session = Session(dsn)
    assert (session.table("hidden").oid, session.table("hidden").quoted) == (oid, "elsewhere.hidden")
    with session.transaction():
        session.table("hidden")
        assert value(session.connection, "SHOW search_path") == SEARCH_PATH
    session.close()


@pytest.mark.server
@pytest.mark.parametrize("requested", [None, "another"])
def test_an_unqualified_name_is_refused_if_a_pooler_has_another_search_path(
    user: UserConnection, fresh: Connection, monkeypatch: pytest.MonkeyPatch, requested: str | None
) -> None:
    fresh.execute("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.hidden ()")
    monkeypatch.setattr(database, "asked_path", lambda _: requested)
    with pytest.raises(InputError, match="behind a pooler"):
        user.by_users_path(database.query("table_oid"), "hidden")
    assert user.by_users_path(database.query("table_oid"), "elsewhere.hidden") > 0


@pytest.mark.server
@pytest.mark.parametrize(("writes", "read_only"), [(False, "on"), (True, "off")])
def test_only_a_session_opened_for_writing_can_write(
    cluster: Cluster, fresh: Connection, writes: bool, read_only: str
) -> None:
    with closing(Session(f"{cluster.dsn} dbname=tail", writes)) as session:
        with session.transaction():
            assert value(session.connection, "SHOW transaction_read_only") == read_only
        session.enter()
        assert value(session.connection, "SHOW transaction_read_only") == read_only


@pytest.mark.server
def test_a_session_that_is_refused_is_closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[UserConnection]()

    def recorded(dsn: str) -> UserConnection:
        opened.append(connect_as_user(dsn))
        return opened[-1]

    monkeypatch.setattr("inorder.connection.session.connect_as_user", recorded)
    with pytest.raises(InputError, match="has no extension inorder"):
        Session(f"{cluster.dsn} dbname=template1")
    assert [connection.closed for connection in opened] == [True]


@pytest.mark.server
def test_a_driver_has_the_search_path_before_its_first_query(cluster: Cluster, fresh: Connection) -> None:
    fresh.execute("ALTER DATABASE tail SET search_path = public")
    dsn = f"{cluster.dsn} dbname=tail options='-c geqo=off'"
    assert not has_path(dsn)
    # The owner of the database could change this search_path at any time.
    fresh.execute("ALTER DATABASE tail SET search_path = pg_catalog, pg_temp")
    assert not has_path(dsn)
    assert str(conninfo_to_dict(pinned_dsn(dsn))["options"]).startswith("-c geqo=off -c search_path=")
    with psycopg.connect(pinned_dsn(dsn)) as session:
        assert [value(session, f"SHOW {name}") for name in ("search_path", "geqo")] == [SEARCH_PATH, "off"]


def pooled_dsn(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=postgres dbname=tail"


@pytest.mark.server
@pytest.mark.parametrize("more", ["", "ignore_startup_parameters = extra_float_digits,options\n"])
def test_a_pooler_that_does_not_set_the_search_path_is_an_error(
    cluster: Cluster, fresh: Connection, shared_folder: Path, more: str
) -> None:
    """The pooler rejects or drops the option that sets search_path. The HINT suggests setting it for the role.

    The search_path of the database is not trusted, because the owner of the database can change it.
    """
    fresh.execute("ALTER DATABASE tail SET search_path = pg_catalog, pg_temp")
    with pooler.pooled(cluster, shared_folder, more=more) as port:
        with pytest.raises(InputError, match="ALTER ROLE") as raised:
            pinned_dsn(pooled_dsn(port))
        assert ("unsupported startup parameter" if not more else "a pooler drops it") in str(raised.value)
        fresh.execute("ALTER ROLE postgres IN DATABASE tail SET search_path = pg_catalog, pg_temp")
    with pooler.pooled(cluster, shared_folder, more=more) as port:  # new sessions have the role's search_path
        pinned_dsn(pooled_dsn(port))


@pytest.mark.server
def test_an_unreachable_server_is_not_taken_for_a_pooler(tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError, match="connection"):
        pinned_dsn(f"host={tmp_path} port=1")


def test_the_search_path_is_the_last_option() -> None:
    assert with_path("dbname=a", "a b, \\").endswith("options='-c search_path=a\\\\ b,\\\\ \\\\\\\\'")
