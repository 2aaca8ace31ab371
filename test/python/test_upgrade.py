"""ALTER EXTENSION UPDATE, and sessions whose library and SQL have different versions."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inorder import __version__
from inorder.connection.database import Connection, connect
from inorder.extension.building import run_make
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.installation import install_extension

import counted_groups
import next_release
import pg_upgrading
import sql_edition
from conftest import ROOT, SETTINGS
from extension_objects import difference, objects, objects_of_edition
from kept_positions import KeptPositions
from kept_state import Kept
from next_release import COLUMN, NEXT
from world.sql import run, value

pytestmark = pytest.mark.server

RELEASED = {path.stem.removeprefix("inorder--") for path in (ROOT / "sql" / "released").glob("inorder--*.sql")}
NUMBER = count(1)
UPDATE = "ALTER EXTENSION inorder UPDATE"
# After an update, no role except the owner and superusers may have more privileges than after an installation.
LEAKS = (
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO leaked_to",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO leaked_to",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO leaked_to",
)
READ = "SELECT count(*) FROM feed_read('read', null::events)"


@dataclass
class Place:
    """A server whose package can be replaced with the package of this checkout or of the next version."""

    cluster: Cluster
    stages: dict[str, Path]

    def install(self, version: str) -> None:
        next_release.install(self.cluster, self.stages[version])

    @contextmanager
    def database(self, version: str = "") -> Iterator[str]:
        name = f"d{next(NUMBER)}"
        with connect(self.cluster.dsn) as admin:
            run(admin, f"CREATE DATABASE {name} STRATEGY file_copy", f"GRANT CREATE ON DATABASE {name} TO installer")
        dsn = f"{self.cluster.dsn} dbname={name}"
        with connect(dsn) as connection:
            run(connection, *LEAKS, "SET ROLE installer")
            run(connection, "CREATE EXTENSION inorder" + f" VERSION '{version}'" * bool(version))
        yield dsn
        with connect(self.cluster.dsn) as admin:
            run(admin, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def stages(server: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("upgrade")
    install_extension(server, folder / "current")
    tree = folder / "tree"
    next_release.copy_tree(tree)
    next_release.begin_next(tree)
    next_release.make_changes(tree)
    return {__version__: folder / "current", NEXT: next_release.build(server, tree, folder / "next")}


@pytest.fixture(scope="module")
def running(server: Installation) -> Iterator[Cluster]:
    with Cluster(server) as cluster:
        cluster.start(SETTINGS)
        with connect(cluster.dsn) as admin:
            run(admin, "CREATE ROLE installer", "CREATE ROLE leaked_to")
        yield cluster


@pytest.fixture
def place(running: Cluster, stages: dict[str, Path]) -> Place:
    for path in (running.server.sharedir / "extension").glob("inorder--*.sql"):
        path.unlink()
    new_place = Place(running, stages)
    new_place.install(__version__)
    return new_place


def put_script(place: Place, version: str, text: str) -> None:
    path = place.cluster.server.sharedir / "extension" / f"inorder--{version}.sql"
    path.write_text(text)
    path.chmod(0o644)


def refusal(connection: Connection, statement: str) -> tuple[str, str]:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
        connection.execute(statement.encode())
    return str(refused.value.diag.message_primary), str(refused.value.diag.message_hint)


def version(connection: Connection) -> object:
    return value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'inorder'")


@pytest.mark.parametrize("released", sorted(RELEASED | {__version__}))
def test_an_update_keeps_everything(place: Place, tmp_path: Path, released: str) -> None:
    if released in RELEASED:
        put_script(place, released, (ROOT / "sql" / "released" / f"inorder--{released}.sql").read_text())
    with place.database(released) as dsn, connect(dsn) as before:
        kept_state = Kept(before)
        positions = KeptPositions(before, place.cluster, tmp_path, "OF feed_position")
        place.install(NEXT)
        with connect(dsn) as new:  # the library is new, but the SQL is not
            kept_state.read(new, "read", 1)
            state = kept_state.state(new)
            run(new, UPDATE)
            assert version(new) == NEXT
            assert kept_state.state(new, like=state) == state
            kept_state.read(before, "read", 1)  # the SQL is new, but the library is not
            kept_state.insert(before, 1)
            before.close()
            kept_state.goes_on(new)
            positions.go_on(new)
            assert value(new, "SELECT added(1)") == 2
            run(new, "SELECT feed_rename('read', 'renamed')", "SELECT feed_rename('renamed', 'read')")
            assert value(new, f"SELECT {COLUMN} FROM inorder_internal.feed WHERE name = 'read'") == 2
            run(new, "SELECT feed_drop(name) FROM feeds", "DROP TABLE events")
        with place.database() as fresh:
            installations = [objects(place.cluster, of.rpartition("=")[2]) for of in (dsn, fresh)]
        different = difference(*installations)
        assert not different, different
        assert len(installations[0]) > 900


def test_a_session_keeps_the_library_that_it_has_loaded(place: Place) -> None:
    with place.database() as dsn, connect(dsn) as before:
        kept_state = Kept(before)
        place.install(NEXT)
        message, hint = refusal(before, UPDATE)
        assert message == f"library of inorder {__version__} is older than the SQL of inorder {NEXT}"
        assert hint.startswith("Connect again.")
        assert version(before) == __version__
        before.close()
        with connect(dsn) as new_session:
            run(new_session, UPDATE)
        place.install(__version__)
        with connect(dsn) as back:  # the package is older now, but the SQL is not
            assert version(back) == NEXT
            kept_state.goes_on(back)


@pytest.mark.parametrize(("label", "library", "says", "hints"), [
    ("2", __version__, f"library of inorder {__version__} is older than the SQL of inorder {NEXT}", "Connect again."),
    ("0", NEXT, f"SQL of inorder {__version__} is too old for the library of inorder {NEXT}", f"Run {UPDATE}"),
])  # fmt: skip
def test_incompatible_versions_are_refused(place: Place, label: str, library: str, says: str, hints: str) -> None:
    with place.database() as dsn, connect(dsn) as session:
        kept_state = Kept(session)
        place.install(NEXT)
        with connect(dsn) as other:
            if library == __version__:
                run(other, UPDATE)
            run(other, f"ALTER TYPE inorder_internal.interface_version RENAME VALUE '1' TO '{label}'")
        with connect(dsn) as new:
            refused, unused = (session, new) if library == __version__ else (new, session)
            message, hint = refusal(refused, READ)
            assert message == says and hint.startswith(hints)
            # Writers continue, even on a guarded table.
            kept_state.insert(refused, 1)
            run(new, f"ALTER TYPE inorder_internal.interface_version RENAME VALUE '{label}' TO '1'")
            unused.close()
            kept_state.goes_on(refused)


def test_a_library_from_before_the_script_is_refused(place: Place) -> None:
    next_release.install(place.cluster, place.stages[NEXT], library=False)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is older than the SQL"), place.database():
        pass


def test_a_version_that_was_never_released_is_not_updated(place: Place) -> None:
    current = place.cluster.server.sharedir / "extension" / f"inorder--{__version__}.sql"
    text = current.read_text().replace(
        "CREATE TYPE inorder_internal.interface_version", "CREATE TYPE inorder_internal.other"
    )
    put_script(place, "0.1.0", text.replace("TYPE inorder_internal.interface_version", "TYPE inorder_internal.other"))
    with place.database("0.1.0") as dsn, connect(dsn) as connection:
        run(connection, "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT uuid_xact_nextval())")
        message, hint = refusal(connection, "SELECT feed_create('f', 'events')")
        assert message.startswith("SQL of inorder 0.1.0 is too old") and UPDATE in hint
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="no update path"):
            run(connection, UPDATE)


def test_make_install_replaces_the_library(server: Installation, stages: dict[str, Path]) -> None:
    stage = stages[NEXT]
    (library,) = stage.rglob("inorder.so")
    with library.open("rb") as mapped:
        makefile = stage.parents[1] / "tree" / "Makefile"
        run_make(server, makefile, stage.parent, "install", f"DESTDIR={stage}")
        assert not os.path.samestat(os.fstat(mapped.fileno()), library.stat())


def write(tree: Path, folder: Path, *options: str) -> Path:
    """Write the output of the tree's script/sql-edition into a file, and return the path.

    The server's account may read the file.
    """
    done = subprocess.run([tree / "script" / "sql-edition", *options], check=True, capture_output=True)
    path = folder / f"edition{next(NUMBER)}.sql"
    path.write_bytes(done.stdout)
    return path


@pytest.fixture
def edition(place: Place) -> Callable[..., str]:

    def make(*scripts: Path) -> str:
        name = f"d{next(NUMBER)}"
        with connect(place.cluster.dsn) as admin:
            run(admin, f"CREATE DATABASE {name} OWNER installer STRATEGY file_copy", "ALTER ROLE installer LOGIN")
            run(admin, f"ALTER DATABASE {name} SET search_path = public, inorder")
        for script in scripts:
            sql_edition.install(place.cluster.original, place.cluster, script, name, "installer")
        return f"{place.cluster.dsn} dbname={name}"

    return make


@pytest.mark.parametrize("released", sorted(RELEASED | {__version__}))
def test_an_update_of_the_sql_edition_keeps_everything(
    place: Place, stages: dict[str, Path], edition: Callable[..., str], tmp_path: Path, released: str
) -> None:
    tree = stages[NEXT].parents[1] / "tree"
    before = tree / "sql" / "released" / f"inorder-sql--{released}.sql"
    update = write(tree, tmp_path, "--update", released)
    dsn, fresh = edition(before), edition(write(tree, tmp_path))
    reading = sql_edition.reading("inorder").encode()
    with connect(dsn) as connection:
        connection.execute(reading)
        kept_state = Kept(connection)
        # The tool does not run functions of another role as a superuser, so the installer reads the table.
        run(connection, "GRANT SELECT ON events TO installer")
        # The table of positions is not created with OF, because then only the owner of the type could change the type.
        positions = KeptPositions(connection, place.cluster, tmp_path, "(p feed_position)", "installer")
        state = kept_state.state(connection)
        sql_edition.install(place.cluster.original, place.cluster, update, dsn.rpartition("=")[2], "installer")
        assert kept_state.state(connection, like=state) == state
        connection.execute(reading)
        kept_state.goes_on(connection)
        positions.go_on(connection)
        assert value(connection, "SELECT added(1)") == 2
        run(connection, "SELECT feed_rename('read', 'renamed')")
        assert value(connection, f"SELECT {COLUMN} FROM inorder_internal.feed WHERE name = 'renamed'") == 1
        assert refusal(connection, update.read_text())[0].endswith(
            f"updates inorder {released}, and this database has inorder {NEXT}"
        )
    with connect(fresh) as connection:
        connection.execute(reading)
    installations = [objects_of_edition(place.cluster, of.rpartition("=")[2]) for of in (dsn, fresh)]
    different = difference(*installations)
    assert not different, different
    assert len(installations[0]) > 700


ADMIT = ("SELECT feed_admit('uses'), feed_admit('writes', only_writes => true)",)
RIGHTS = """
SELECT a.grantee::regrole::text, o.name, a.privilege_type FROM inorder_internal.own_objects() AS o
CROSS JOIN LATERAL aclexplode(o.acl) AS a WHERE a.grantee <> o.owner ORDER BY 1, 2, 3
"""


def test_the_tool_updates_the_sql_edition(
    place: Place, stages: dict[str, Path], edition: Callable[..., str], tmp_path: Path
) -> None:
    tree = stages[NEXT].parents[1] / "tree"
    dsn = edition(tree / "sql" / "released" / f"inorder-sql--{__version__}.sql")
    with connect(dsn) as connection:
        run(connection, "CREATE ROLE uses", "CREATE ROLE writes", *ADMIT)
    message = next_release.tool(tree, place.cluster, "upgrade", "--dsn", f"{dsn} user=installer")
    assert message.startswith(f"upgraded {__version__} to inorder {NEXT} (SQL edition)")
    fresh = edition(write(tree, tmp_path))
    rights = []
    for updated_or_fresh, statements in ((dsn, ()), (fresh, ADMIT)):
        with connect(updated_or_fresh) as connection:
            run(connection, *statements)
            rights.append(connection.execute(RIGHTS.encode()).fetchall())
            # The order of these roles' privileges may differ between two installations.
            run(connection, "DROP OWNED BY uses, writes")
    assert rights[0] == rights[1] and {role for role, *_ in rights[0]} == {"uses", "writes"}
    installations = [objects_of_edition(place.cluster, of.rpartition("=")[2]) for of in (dsn, fresh)]
    assert difference(*installations) == ""


def test_pg_upgrade_keeps_state_and_updates_both_editions(server: Installation, stages: dict[str, Path]) -> None:
    majors = pg_upgrading.other_majors(server)
    if not majors:
        pytest.skip("pg_upgrade needs servers of two major versions")
    old, new = sorted((server, majors[0]), key=lambda each: each.major)
    with Cluster(old) as before, Cluster(new) as after:
        before.start(SETTINGS)
        states = of_both_editions(old, before, new)
        before.stop()
        if new is server:
            next_release.install(after, stages[NEXT])
        work = pg_upgrading.upgrade(before, after)
        after.start(SETTINGS)
        for database, (kept_state, state) in states.items():
            with connect(f"{after.dsn} dbname={database}") as connection:
                assert kept_state.state(connection) == state
                check_keys(connection, database)
                check_groups(connection)
                kept_state.read(connection, "read", 1)
                if new is server and database == "c":
                    connection.execute((work / "update_extensions.sql").read_bytes().rpartition(b"\\connect c\n")[2])
                    assert version(connection) == NEXT
                kept_state.goes_on(connection)
                number = value(connection, LAST_BATCH)
                assert int(str(number)) > 1 << 40


LAST_BATCH = """SELECT s.batch FROM inorder_internal.feed AS f JOIN inorder_internal.feed_state AS s ON s.feed = f.id
                WHERE f.name = 'pending'"""
OLD_KEYS = """
CREATE EXTENSION amcheck;
CREATE TABLE old_keys (id uuid_v1 NOT NULL);
INSERT INTO old_keys SELECT uuid_v1_nextval() FROM generate_series(1, 300) ORDER BY random();
CREATE INDEX old_keys_btree ON old_keys (id);
CREATE INDEX old_keys_hash ON old_keys USING hash (id);
CREATE INDEX old_keys_brin ON old_keys USING brin (id);
INSERT INTO old_keys SELECT uuid_v1_nextval() FROM generate_series(1, 300);
"""
LOOKUPS = "SELECT count(*) FROM old_keys AS k WHERE EXISTS (SELECT FROM old_keys AS o WHERE o.id = k.id OFFSET 0)"


def of_both_editions(
    server: Installation, cluster: Cluster, new: Installation
) -> dict[str, tuple[Kept, dict[str, list[Any]]]]:
    states = {}
    for database in ("c", "sql"):
        with connect(cluster.dsn) as admin:
            run(admin, f"CREATE DATABASE {database}")
        if database == "sql":
            sql_edition.install(server, cluster, sql_edition.write_edition(cluster.folder), database)
        with connect(f"{cluster.dsn} dbname={database}") as connection:
            if database == "c":
                connection.execute(f"CREATE EXTENSION inorder; {OLD_KEYS}".encode())
            kept_state = Kept(connection)
            states[database] = (kept_state, kept_state.state(connection))
            counted_groups.start(connection, counted_groups.PARTS)
            run(connection, "INSERT INTO orders VALUES (-1, 'unfolded')")
            pg_upgrading.adapt(connection, new)
    return states


def check_groups(connection: Connection) -> None:
    """Check that the view equals GROUP BY while rows change, before and after the first fold.

    The view counts the table before that fold, and reads the stored counts afterwards.
    """
    for statement in (
        "DELETE FROM orders WHERE id < 9",
        counted_groups.FOLD,
        "UPDATE orders SET id = -2 WHERE id = 150",
    ):
        run(connection, statement)
        assert counted_groups.difference(connection) == [], statement
    assert counted_groups.stands(connection)


def check_keys(connection: Connection, database: str) -> None:
    if database != "c":
        return
    run(connection, "SELECT bt_index_check('old_keys_btree', true)", "SET enable_seqscan = off")
    for other in ("btree, brin", "btree, hash", "hash, brin"):
        run(connection, "BEGIN", *(f"DROP INDEX old_keys_{name}" for name in other.split(", ")))
        assert value(connection, LOOKUPS) == 600
        run(connection, "ROLLBACK")
