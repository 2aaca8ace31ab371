"""Test servers: one server for the whole run, and helpers that create further servers."""

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import count, groupby
from pathlib import Path

import hypothesis
import pytest
from inorder.connection.database import Connection, connect
from inorder.installations import Installation, find_installation
from inorder.lab.plan.turn import Progress
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.temporary import service_account, temporary_folder

import clusters
import sql_edition
from citus_nodes import Nodes, make_distributed, three_nodes
from editions import Tool, owned_database
from ground import Place
from tail_runs import Tail, make_table
from tool import LabRun, run_experiment
from world.sql import run

# Runs of the tool inherit these handlers from the tests. Otherwise, under nohup or in the background, they would ignore
# these signals until the tool has set its own handlers.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
# Objects that are created during collection live until the end: garbage collection would only scan them repeatedly.
gc.disable()

# Settings for servers with many short sessions. A process allocates 16 MB at a time, in huge pages of 2 MB if the
# kernel permits, and does not return memory. Without these settings, a tenth of the CPU time was spent on page faults.
os.environ.setdefault(
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=100000000:glibc.malloc.mmap_threshold=33554432"
    ":glibc.malloc.top_pad=16777216",
)

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "test" / "module"
SCHEMAS = count(1)
# Set by script/test --long. A long run includes the tests that long.txt lists. In a long run, some tests
# also try more points or repetitions.
LONG_RUN = "INORDER_TEST_LONG" in os.environ
# The lines of long.txt, by file. Each line has a test's name, with or without parameters. A leading "!" means that the
# test is not long although an earlier line names it.
LONG_FILE = Path(__file__).with_name("long.txt")
LONG: dict[str, list[tuple[bool, str]]] = {}
for line in LONG_FILE.read_text().splitlines():
    if line and not line.startswith("#"):
        stem, _, name = line.removeprefix("!").partition("::")
        LONG.setdefault(stem, []).append((line.startswith("!"), name))
# Hypothesis has no deadline, because a busy machine may be slow. A short run always has the same examples; a long run
# tries others.
hypothesis.settings.register_profile(
    "inorder",
    max_examples=100 if LONG_RUN else 25,
    database=None,
    deadline=None,
    derandomize=not LONG_RUN,
    suppress_health_check=[*hypothesis.HealthCheck],
)
hypothesis.settings.load_profile("inorder")
# Hypothesis would parse all loaded modules of the checkout in each process, and try their constants as values. Older
# versions of Hypothesis do not parse these modules.
providers = sys.modules.get("hypothesis.internal.conjecture.providers")
if providers is not None and hasattr(providers, "_get_local_constants"):
    vars(providers)["_get_local_constants"] = providers.Constants
PATTERN = re.compile(r"[*?]|\[.*\[")
EDITIONS = ("c", "sql")
SETTINGS = {"max_prepared_transactions": "10", "fsync": "off", "shared_buffers": "64MB", "max_wal_size": "8GB"}

# The files that take longest, in the order in which script/test starts them. By default, files with more tests start
# first. Many of these files would then start last, and one core would be idle at the end.
SLOWEST = (
    "test_regress", "test_attacks_tables", "test_standby", "test_sql_edition", "test_changes", "test_examples",
    "test_tail", "test_prepare", "test_install", "test_count_groups", "test_tail_output", "test_lab_check",
    "test_lab_check_outputs", "test_cli", "test_upgrade", "test_tail_batches", "test_changes_tail", "test_stress",
    "test_streams", "test_count_groups_roads", "test_clients", "test_attacks_install", "test_advise",
    "test_feed_restore", "test_sql_edition_rights", "test_extension", "test_feed_subscriber", "test_failover",
    "test_tail_parquet", "test_ground", "test_experiments", "test_feed_restored", "test_generate",
    "test_install_change", "test_hostile_server", "test_privileges_lost", "test_feed_plan", "test_feed_forged",
    "test_cluster", "test_tail_restart", "test_tail_changes", "test_feed_batches", "test_keys", "test_refused_first",
    "test_feed_idle", "test_clock", "test_ordinary_user", "test_fuzz", "test_tail_connections", "test_tail_types",
    "test_distributions", "test_tree",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    if clusters.KEPT not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="inorder-kept-", ignore_cleanup_errors=True)
        Path(folder.name).chmod(0o755)
        os.environ[clusters.KEPT] = folder.name
        config.add_cleanup(folder.cleanup)


def is_named(item: pytest.Item, name: str) -> bool:
    """Return True if a line of LONG names the test.

    Only a pattern is compiled, because compiling takes longer than comparing.
    """
    item_name = item.name if "[" in name else item.name.partition("[")[0]
    return fnmatchcase(item_name, name.replace("[", "[[]", 1)) if PATTERN.search(name) else item_name == name


def without_long(stem: str, items: list[pytest.Item], is_whole: bool) -> list[pytest.Item]:
    """Return the tests of a file except those that LONG names.

    If ``is_whole``, the items are all tests of the file, and each line of LONG must match at least one of them.
    """
    long: set[pytest.Item] = set()
    for back, name in LONG.get(stem, ()):
        matching = {item for item in items if is_named(item, name)}
        if is_whole and not matching:
            raise pytest.UsageError(f"{LONG_FILE.name}: no test is named {stem}::{name}")
        long = long - matching if back else long | matching
    return [item for item in items if item not in long]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files, but not the tests within a file. Leave out long tests unless the run is long."""
    places = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(SLOWEST)))
    if not LONG_RUN and sql_edition.TESTED == "c":
        is_whole = not any("::" in argument for argument in config.args)
        of_files = groupby(items, key=lambda item: item.path.stem)
        items[:] = [item for stem, tests in of_files for item in without_long(stem, list(tests), is_whole)]
    for item in items if sql_edition.TESTED == "sql" else ():
        if reason := sql_edition.NOT_RUN_IN_PYTHON.get(item.name.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    # Syntax trees and results are many long-lived objects. With the default threshold of 700, garbage collection took
    # most of the CPU time of some tests.
    gc.set_threshold(20_000)
    gc.freeze()
    gc.enable()


@pytest.fixture
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the servers' files as if they were on a disk, although script/test keeps them in memory."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture(scope="session", autouse=True)
def servers_are_copies() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        clusters.copied(patch)
        yield


@pytest.fixture(scope="session")
def server() -> Installation:
    """Return the server for all tests: the server of PG_CONFIG, or the server that a user would get."""
    return find_installation()


@pytest.fixture(scope="session")
def cluster(server: Installation) -> Iterator[Cluster]:
    can_build = server.can_build()
    with Cluster(server, [MODULE] if can_build else None) as running:
        running.start(SETTINGS)
        with connect(running.dsn) as connection:
            if can_build or sql_edition.TESTED == "sql":
                sql_edition.create(connection)
            if can_build:
                connection.execute("CREATE EXTENSION inorder_test")
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run marked tests on both editions. The long run also runs the tests of inorder tail on both editions."""
    marker = metafunc.definition.get_closest_marker("editions")
    is_long = LONG_RUN and metafunc.module.__name__.startswith("test_tail")
    if "edition_name" in metafunc.fixturenames and (marker or is_long):
        metafunc.parametrize("edition_name", (marker and marker.args) or EDITIONS, indirect=True)


@pytest.fixture
def edition_name(request: pytest.FixtureRequest) -> str:
    """Return the edition for a test's database: the C extension or the SQL edition."""
    return str(getattr(request, "param", sql_edition.TESTED))


def install_edition(name: str, server: Installation, cluster: Cluster, database: str) -> None:
    if name == "c":
        with connect(f"{cluster.dsn} dbname={database}") as connection:
            connection.execute("CREATE EXTENSION inorder")
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        sql_edition.install(server, cluster, sql_edition.write_edition(Path(folder)), database)


def make_template(name: str, server: Installation, cluster: Cluster) -> str:
    """Create a template database with an edition, and return its name.

    Copying it takes half the time of creating a database and installing the edition.
    """
    database = f"template_inorder_{name}"
    with connect(cluster.dsn) as admin:
        admin.execute(f"CREATE DATABASE {database}".encode())
    install_edition(name, server, cluster, database)
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        sql_edition.number_from_one(connection, name)
    return database


@contextmanager
def copy_of(template: str, cluster: Cluster, name: str) -> Iterator[Connection]:
    with connect(cluster.dsn) as admin:
        # The default strategy, wal_log, would take twice the CPU time.
        make = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        run(admin, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", make)
        with connect(f"{cluster.dsn} dbname={name}") as connection:
            yield connection
        run(admin, f"DROP DATABASE {name} WITH (FORCE)")


@cache
def with_table(template: str, cluster: Cluster) -> str:
    """Create a database with the table that most tests use, and return its name."""
    database = f"{template}_table"
    with connect(cluster.dsn) as admin:
        admin.execute(f"CREATE DATABASE {database} TEMPLATE {template} STRATEGY file_copy".encode())
    with connect(f"{cluster.dsn} dbname={database}") as connection:
        make_table(connection)
    return database


@pytest.fixture(scope="session")
def template(server: Installation, cluster: Cluster) -> str:
    return make_template("c", server, cluster)


@pytest.fixture(scope="session")
def sql_template(server: Installation, cluster: Cluster) -> str:
    return make_template("sql", server, cluster)


def has_pgstattuple(server: Installation) -> bool:
    return (server.sharedir / "extension" / "pgstattuple.control").exists()


@pytest.fixture(scope="session")
def users(server: Installation) -> Iterator[Cluster]:
    """Yield a user's server. One database has the extension; in "bare", the role "plain" may create schemas."""
    with Cluster(server) as running:
        running.start({"fsync": "off", "track_commit_timestamp": "on"})
        with connect(running.dsn) as connection:
            run(connection, "CREATE SCHEMA elsewhere", "CREATE EXTENSION inorder SCHEMA elsewhere")
            run(connection, "CREATE DATABASE bare", "CREATE ROLE plain LOGIN", "GRANT CREATE ON DATABASE bare TO plain")
            if has_pgstattuple(server):
                connection.execute("CREATE EXTENSION pgstattuple SCHEMA elsewhere")
        with connect(f"{running.dsn} dbname=bare") as connection:
            connection.execute("REVOKE ALL ON pg_stat_wal FROM public")
        yield running


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    with connect(cluster.dsn) as opened:
        yield opened


@pytest.fixture
def without_lab(connection: Connection) -> Iterator[Connection]:
    connection.execute("DROP SCHEMA IF EXISTS inorder_lab CASCADE")
    yield connection
    connection.execute("DROP SCHEMA IF EXISTS inorder_lab CASCADE")


@pytest.fixture
def of_edition(edition_name: str, request: pytest.FixtureRequest) -> str:
    """Return the name of a template database with the edition."""
    return str(request.getfixturevalue({"c": "template", "sql": "sql_template"}[edition_name]))


@pytest.fixture
def fresh(cluster: Cluster, of_edition: str) -> Iterator[Connection]:
    """Yield a connection to a separate database, which other tests affect only by advancing the transaction IDs."""
    with copy_of(with_table(of_edition, cluster), cluster, "tail") as connection:
        yield connection


@pytest.fixture
def other(fresh: Connection) -> Iterator[Connection]:
    with connect(fresh.info.dsn) as opened:
        yield opened


@pytest.fixture
def tail(cluster: Cluster, fresh: Connection, tmp_path: Path) -> Tail:
    return Tail(cluster, tmp_path)


@pytest.fixture(scope="module")
def idle() -> Iterator[list[Connection]]:
    """Yield open sessions that the tests of a file reuse."""
    sessions: list[Connection] = []
    yield sessions
    for session in sessions:
        session.close()


@pytest.fixture
def place(cluster: Cluster, idle: list[Connection]) -> Iterator[Place]:
    new_place = Place(cluster, f"ground_{next(SCHEMAS)}", idle)
    new_place.once(f"CREATE SCHEMA {new_place.schema}")
    yield new_place
    new_place.end()
    drop = "SELECT feed_drop(name) FROM feeds"
    new_place.once("SET client_min_messages = error", drop, f"DROP SCHEMA {new_place.schema} CASCADE")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Yield an empty folder with a short name that the server's account may enter.

    With this folder as TMPDIR, a test sees the files that a program leaves behind.
    """
    with tempfile.TemporaryDirectory(prefix="t", dir=temporary_folder(service_account())) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def lab_run(tmp_path: Path, server: Installation, shared_folder: Path) -> LabRun:
    return partial(run_experiment, tmp_path, server, shared_folder)


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """Yield a Citus coordinator and two workers, for the tests that script/citus runs."""
    with three_nodes() as running:
        yield running


@pytest.fixture
def coordinator(nodes: Nodes) -> Iterator[Connection]:
    with connect(nodes.dsn) as connection:
        yield connection


@pytest.fixture
def events(nodes: Nodes, coordinator: Connection) -> Iterator[str]:
    """Yield the name of a distributed table with four shards that is not readable yet."""
    name = f"t{next(SCHEMAS)}"
    make_distributed(coordinator, name)
    yield name
    with connect(nodes.dsn) as last:  # the test may have restarted the coordinator
        run(last, f"DROP TABLE {name}", "CALL citus_cleanup_orphaned_resources()")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(running, Cluster):
        report.sections.append(("server log", running.log_tail()))
    return report


class Counting(Progress):
    totals = ended = 0

    def total(self, steps: int) -> None:
        self.totals += steps

    def done(self, text: str = "") -> None:
        self.ended += 1


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Connection]:
    with owned_database(cluster) as connection:
        yield connection


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path, empty: Connection) -> Tool:
    return Tool(cluster, tmp_path, empty, "edition_owner")
