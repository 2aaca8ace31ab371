"""No name in a query or function of inorder resolves to an object of another role, regardless of search_path.

The search_path of each session has the schemas of capture.py both before and after pg_catalog. With this path the tests
call every public function, write into every table that inorder reads or logs, and run every command of the tool. They
do so as superuser, as owner and as reader.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from inorder.connection.database import connect
from inorder.lab.server.cluster import Cluster
from inorder.prepare import steps
from inorder.spark.columns import types_of
from inorder.spark.driver import Driver
from inorder.spark.options import parsed

from capture import BEFORE, BEHIND, NOT_MADE, make_schemas
from captured import (
    ALL,
    ENABLE,
    MAKE_TABLES,
    MAY_CHANGE,
    OWNER,
    READER,
    SUPERUSER,
    WRITER,
    World,
    call_all,
    database_settings,
)
from waiting import wait_for
from world.sql import run

pytestmark = pytest.mark.server

INSERTS = (
    "INSERT INTO app.events (n, t) VALUES (1, 'a'), (2, 'b')", "INSERT INTO app.numbers (t) VALUES ('a'), ('b')",
    "INSERT INTO app.parts (n, t) VALUES (1, 'a'), (2, 'b')", "INSERT INTO app.parts_1 (n, t) VALUES (1, 'c')",
)  # fmt: skip
COPY = "COPY app.events (n) FROM PROGRAM 'echo 3'"
LOGGED = ("app.logged", "app.logged_indexed", "app.logged_parts")
# Statements of the test that resolve no names through search_path.
CHANGES = (
    "INSERT INTO {t} VALUES (101, 'a'), (102, 'b') ON CONFLICT DO NOTHING", "UPDATE {t} SET t = 'c'",
    "MERGE INTO {t} USING (VALUES (true)) AS v(has) ON has WHEN MATCHED THEN UPDATE SET {k} = DEFAULT, t = 'd'",
    "INSERT INTO {t} VALUES (103, 'a') ON CONFLICT ({k}) DO UPDATE SET t = 'e'", "UPDATE {t} SET {k} = DEFAULT",
    "DELETE FROM {t}", "INSERT INTO {t} VALUES (104, 'a')", "TRUNCATE {t}", "INSERT INTO {t} VALUES (105, 'a')",
)  # fmt: skip
REFUSED = ("UPDATE app.events SET id = DEFAULT", "DELETE FROM app.numbers", "TRUNCATE app.parts")
# Commands, with the roles that run each of them. ENDS lists exit codes allowed in addition to 0.
COMMANDS = {
    "tail app.events --position {p}": ALL, "tail app.events --position {p} --format csv --batch-rows 1": ALL,
    "tail app.events --position {p} --format binary": ALL, "tail app.numbers --position {p} --order-by n": ALL,
    "tail app.parts --position {p}": ALL, "tail app.events --position {p} --format arrow": ALL,
    "tail app.parts --position {p} --format parquet --directory {p}d": ALL,
    "tail app.logged --changes --position {p}": ALL, "tail app.logged --changes --position {p} --format arrow": ALL,
    "tail --feed {r}_events_free": ALL, "tail --feed {r}_numbers_free --format csv": ALL,
    "feeds": ALL, "feeds --format json": ALL, "feeds --format prometheus": ALL, "feeds --check 1h": ALL,
    "count show app.events": ALL, "count show app.events --format json": ALL,
    "count start app.numbers": MAY_CHANGE, "count fold app.numbers": MAY_CHANGE,
    "count cron app.numbers": MAY_CHANGE, "count stop app.numbers": (OWNER,),
    "prepare app.old --dry-run": MAY_CHANGE, "prepare app.old": MAY_CHANGE, "prepare app.old --undo": MAY_CHANGE,
    "prepare app.old --undo --drop-column": MAY_CHANGE, "prepare app.changing --changes --feed {r}_c": (OWNER,),
    "prepare app.changing --changes --undo": MAY_CHANGE, "prepare app.old --column xact": MAY_CHANGE,
    "advise --least 1B --sample": ALL, "advise --format json": ALL, "advise --over 1s": ALL,
    "install --check": ALL, "upgrade": (SUPERUSER,),
    "lab run generators --dsn dbname={d} --values 1k --rows 1k --rounds 1 --out {p}l": (SUPERUSER,),
}  # fmt: skip
ENDS = {"feeds --check 1h": (0, 3)}
LEAST_CALLED = 0.85  # share of the public functions that must succeed; the remaining calls have no valid arguments
# The first statement of inorder prepare. It is executed before the writer begins, because it would otherwise wait for
# the writer.
ADD_COLUMN = (
    "ALTER TABLE app.old ADD COLUMN xact bigint NOT NULL DEFAULT 0, ALTER COLUMN xact SET DEFAULT inorder.xact_id()"
)


@pytest.fixture(scope="module")
def traps(cluster: Cluster) -> str:
    """Create a template database that has the schemas but not inorder, and return its name."""
    with connect(cluster.dsn) as admin:
        admin.execute("CREATE DATABASE capturing")
    with connect(f"{cluster.dsn} dbname=capturing") as admin:
        not_made = make_schemas(admin)
        for role in (OWNER, READER, WRITER):
            admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"CREATE SCHEMA app AUTHORIZATION {OWNER}".encode())
    assert [refusal for refusal in not_made if not any(reason in refusal[1] for reason in NOT_MADE)] == []
    return "capturing"


@pytest.fixture
def world(cluster: Cluster, traps: str, edition_name: str, tmp_path: Path) -> Iterator[World]:
    name = f"captured_{edition_name}"
    with connect(cluster.dsn) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {traps} STRATEGY file_copy".encode())
        run(admin, *database_settings(name))
    new_world = World(cluster, name, tmp_path)
    assert new_world.tool(SUPERUSER, f"install --edition {edition_name}")[0] == 0
    if edition_name == "sql":
        new_world.run(SUPERUSER, *(f"SELECT inorder.feed_admit('{role}')" for role in (OWNER, READER, WRITER)))
    new_world.run(OWNER, "SET search_path = pg_catalog", *MAKE_TABLES.split(";"), "RESET search_path", *ENABLE)
    yield new_world
    with connect(cluster.dsn) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def write(world: World) -> None:
    """Write as a role that may only write into the tables, and as the owner of the tables."""
    changes = [change.format(t=table, k="id") for table in LOGGED for change in CHANGES]
    for role in (WRITER, OWNER):
        world.run(role, *INSERTS, *changes)
    for statement in REFUSED:
        with pytest.raises(psycopg.errors.RestrictViolation):
            world.run(WRITER, statement)


def run_tool(world: World) -> None:
    failures = {}
    for number, (command, roles) in enumerate(COMMANDS.items()):
        for role in roles:
            code, message = world.tool(role, command.format(p=f"{role}_{number}", r=role, d=world.database))
            if code not in ENDS.get(command, (0,)):
                failures[command, role] = code, message
    assert failures == {}


def wait_for_writers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run inorder prepare until it reports the progress of the index build, which waits for an open transaction."""
    monkeypatch.setattr(steps, "PROGRESS_SECONDS", 0.05)
    messages = list[str]()
    request = steps.Request("app.old", "xact", 1.0, 3, False, False, f"{world.dsn} user={OWNER}")
    world.tool(OWNER, "prepare app.old --undo --drop-column")
    with closing(world.session(OWNER)) as writer:
        writer.execute(ADD_COLUMN.encode())
        writer.execute("BEGIN; INSERT INTO app.old VALUES (1, 'a')")
        builder = Thread(target=steps.prepare, args=(request, messages.append))
        builder.start()
        wait_for(lambda: any(line.startswith("  ") for line in messages))
        writer.execute("COMMIT")
        builder.join()


def read_by_spark(world: World, role: str) -> None:
    """Do the work of the Spark driver and its executors."""
    rows = pytest.importorskip("inorder.spark.rows", reason="the extra 'spark' is not installed")
    dsn = f"{world.dsn} user={role}"
    with Driver(parsed({"dsn": dsn, "table": "app.events"})) as plan:
        start = plan.start()
        tasks = plan.tasks(start, plan.next(start, None))
        assert sum(len(batch) for task in tasks for batch in rows.read(dsn, task, types_of(plan.fields()), 60)) > 0
    rows.close_kept()


@pytest.mark.editions
def test_no_name_resolves_to_an_object_of_another_role(
    world: World, edition_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(SUPERUSER, COPY)
    write(world)
    for role in ALL:
        call_all(world, role)
    run_tool(world)
    wait_for_writers(world, monkeypatch)
    for role in ALL if edition_name == "c" else ():  # Spark requires the C extension
        read_by_spark(world, role)
    assert world.captured() == []
    assert world.unresolved == []
    assert len(world.called) >= LEAST_CALLED * len({name for name, *_ in world.functions})


@pytest.mark.editions
def test_no_name_resolves_to_another_object_after_columns_were_renamed_or_dropped(world: World) -> None:
    """The triggers of a log contain the former column names. A function call may now have such a name."""
    for table in LOGGED:
        world.run(OWNER, f"ALTER TABLE {table} RENAME id TO key", f"ALTER TABLE {table} DROP COLUMN gone")
        for change in CHANGES:
            with suppress(psycopg.errors.UndefinedColumn):  # the writer is allowed to get this error
                world.run(WRITER, change.format(t=table, k="key"))
    assert world.captured() == []


def test_names_that_resolve_to_objects_of_other_roles_are_reported(world: World) -> None:
    """Report names that are found before pg_catalog, and operators after pg_catalog that match the arguments better."""
    world.run(OWNER, "SELECT count(*) FROM pg_class WHERE relkind = 'r'")
    world.run(READER, "SELECT FROM pg_catalog.pg_type WHERE typreceive != 0 AND false")
    reports = {(report.name, report.role) for report in world.captured()}
    assert {(f"{BEFORE}.count()", OWNER), (f"{BEFORE}.pg_class", OWNER)} <= reports
    assert (f"{BEHIND}.closer(pg_catalog.regproc,integer)", READER) in reports
