"""Run the tests of the C extension on the SQL edition. test/sql_edition has the differences in each test's output.

``python test/python/sql_edition.py NAME ...`` writes these files.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from inorder.connection.database import Connection, connect
from inorder.installations import Installation, find_installation
from inorder.lab.server.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "script"))  # for programs that import this module outside of pytest
from edition.join import READS, filled  # noqa: E402

TEST = ROOT / "test"
DIFFERENCES = TEST / "sql_edition"
# The edition for Python tests that do not choose one, set by script/hosted.
TESTED = os.environ.get("INORDER_TEST_EDITION", "c")
# The extensions that are built for a test server in addition to inorder. None: not even inorder is built.
BUILT: tuple[Path, ...] | None = () if TESTED == "c" else None

REGRESS = (
    "sequence_keys", "time_keys", "v7", "xact", "snapshot", "feed", "guard", "feed_partitions", "feed_prepare",
    "feed_changes", "exact_count", "feed_rights", "feed_owner", "feed_path", "feed_hidden", "feed_state", "feed_whole",
    "reader_batch_query", "feed_order", "feed_batches", "reader_split", "feed_shares", "feed_large", "feed_gaps",
    "feed_wait", "feed_retention", "feed_lag", "feeds", "changes",
)  # fmt: skip
# Only script/test --long runs these tests on the SQL edition, because other tests also call the functions whose
# bodies differ in this edition.
ONCE = {
    "feed_order", "feed_large", "feed_gaps", "feed_whole", "reader_split", "feed_lag", "feed_retention", "feed_shares",
    "feeds", "feed_prepare", "feed_changes", "feed_owner", "feed_hidden", "feed_wait", "reader_batch_query",
    "feed_state", "feed_batches", "feed_path", "exact_count",
}  # fmt: skip
ONCE_OF_SESSIONS = {
    "feed_gap_default", "feed_gap_generated", "feed_worker_order", "feed_worker_levels",
    "feed_roles", "feed_failing_consumer", "feed_order_of_cause", "feed_nobody_waits", "feed_own_rows",
    "feed_two_readers", "shared_sequence", "feed_detach", "feed_table_changes",
}  # fmt: skip
# Tests of features that the SQL edition does not have.
NOT_RUN = {
    "install": "the members of the extension, and the parallel safety of its functions",
    "after_random": "uuid_after_random_nextval",
    "mask": "uuid_mask and uuid_unmask",
    "uuid_v1": "the type uuid_v1",
    "time_bounds": "the operators of uuid_v1 and uuid with timestamptz",
    "uuid_extras": "min(uuid), max(uuid) and partitions by time",
    "feed_limit": "an error if the caller does not fetch all rows",
    "feed_parts": "plans that contain only the partitions with rows of the batch",
}
ISOLATION = (
    "xact_order", "shared_sequence", "feed_own_rows", "feed_gap_uuid", "feed_gap_default", "feed_gap_generated",
    "feed_isolation", "feed_two_readers", "feed_workers", "feed_worker_order",
    "feed_worker_levels", "feed_roles", "feed_table_changes", "feed_failing_consumer", "feed_order_of_cause",
    "feed_nobody_waits", "feed_detach", "exact_count_fold",
)  # fmt: skip
# Python tests of features that the SQL edition lacks or implements differently.
ALL_ROWS = "the SQL edition does not detect callers that do not fetch all rows"
UNKNOWN = "in the SQL edition, the view feeds shows a feed as caught up only if no transaction has ended since the poll"
MEMORY = "the test checks that the C extension frees the memory in which it caches facts about tables"
OWNED = "the owner of the database cannot dump the state of the SQL edition, which belongs to the installer"
MADE = "the test restores into a database with inorder installed; a dump of the SQL edition installs it"
LEFT_BEHIND = "a dump of the SQL edition without a table lacks the whole state: see docs/hosted.md"
PLAIN_NAMES = "the SQL edition refuses a schema whose name needs quotes"
STANDBYS = "the SQL edition does not read on standbys"
ROWS = "roles that are admitted may write the state: see test_sql_edition_rights.py"
INSTALLED = "the test follows advice to install the C extension"
APPLIES = "in the SQL edition, feed_apply reads all rows before it runs the statement"
LOOKS = "calls of the SQL edition execute more statements and read more pages of the catalog"
STAYS = "in the SQL edition, reader_next_batch does not pass transactions that have no rows in the table"
REMEMBERED = "only the C extension remembers in a session how many rows it has counted"
FOLDS = "in the SQL edition, exact_count does not fold"
NOT_RUN_IN_PYTHON = {
    "test_a_portal_executed_for_some_rows_still_moves_the_feed": ALL_ROWS,
    "test_a_named_portal_is_refused_like_a_cursor": ALL_ROWS,
    "test_server_side_cursors_of_psycopg_are_refused_and_streams_are_not": ALL_ROWS,
    "test_psql_with_fetch_count_gets_all_rows_or_an_error": ALL_ROWS,
    "test_a_limit_above_the_first_read_of_a_session_is_noticed": ALL_ROWS,
    "test_feeds_that_are_behind_are_listed_first": UNKNOWN,
    "test_following_the_advice_saves_what_it_predicts": INSTALLED,
    "test_each_gauge_has_samples_for_prometheus": UNKNOWN,
    "test_check_reports_feeds_that_are_behind_and_dead_batches": UNKNOWN,
    "test_caught_up_is_right_while_the_table_is_changed": UNKNOWN,
    "test_a_table_that_its_owner_changes_does_not_hide_other_feeds": UNKNOWN,
    "test_attaching_a_partition_with_rows_is_noticed": STAYS,
    "test_a_position_without_partitions_is_refused_after_the_first_read": STAYS,
    "test_a_dump_without_some_tables_restores_the_state_of_the_others": LEFT_BEHIND,
    "test_state_is_restored_if_the_extension_is_in_another_schema": PLAIN_NAMES,
    "test_a_promotion_during_a_call_is_noticed": STANDBYS,
    "test_the_owner_of_the_database_cannot_change_or_delete_state": ROWS,
    "test_a_role_without_privileges_cannot_write_the_state": ROWS,
    "test_an_installer_dumps_and_restores_its_own_state": MADE,
    "test_a_session_forgets_tables_that_were_dropped": MEMORY,
    "test_the_owner_of_a_database_dumps_and_restores_it": OWNED,
    "test_a_session_counts_only_new_rows_since_its_last_call": REMEMBERED,
    "test_a_count_folds_automatically": FOLDS,
    "test_changes_missing_from_an_idle_log_are_noticed": "the SQL edition has no changes_read",
    "test_a_table_dropped_by_its_own_reader_is_an_error": APPLIES,
    "test_an_idle_count_is_not_computed_again": LOOKS,
    "test_calls_execute_few_statements": LOOKS,
    "test_the_first_call_of_a_connection_touches_few_catalogs": LOOKS,
}
# Functions of the SQL edition that qualify each name instead of setting search_path, which would take time for each
# row.
BARE = (
    "check_statement", "feed_is_table", "guarded_number", "is_foreign", "keys_after", "next_keys", "number_above",
    "uuid_xact_nextval", "xact_id", "xact_id_generated",
)  # fmt: skip
SETTINGS = (
    "timezone = 'PST8PDT'", "datestyle = Postgres, MDY", "bytea_output = 'hex'", "intervalstyle = 'postgres_verbose'",
    "lc_messages = 'C'", "jit = off",
)  # fmt: skip
# Lines that are left out of a test. In the C extension, other roles may not use the internal schema; in the SQL
# edition, they may.
LEFT_OUT = {"feed_rights": "CROSS JOIN LATERAL denied("}
QUIET = "\\set SHOW_CONTEXT never"


PROGRAMS = {"sql": "regress/pg_regress", "specs": "isolation/pg_isolation_regress"}


def listed(name: str) -> list[str]:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    match = re.search(rf"^{name} *= *(.*)$", text, re.M)
    assert match is not None
    return match[1].split()


def program(server: Installation, kind: str) -> Path:
    """Return the path of pg_regress for kind "sql", or of pg_isolation_regress for kind "specs".

    These programs are only in packages with the server's headers.
    """
    return server.pgxs.parents[1] / "test" / PROGRAMS[kind]


@cache
def script(schema: str = "public") -> str:
    command: list[str | Path] = [ROOT / "script" / "sql-edition", "--schema", schema]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


FROM_ONE = (
    "CREATE OR REPLACE FUNCTION inorder_internal.first_number() RETURNS bigint LANGUAGE sql RETURN 0::bigint; "
    "UPDATE pg_proc SET proacl = (SELECT c.proacl FROM pg_proc AS c WHERE c.proname = 'first_of_clock') "
    "WHERE proname = 'first_number'"
)


def number_from_one(connection: Connection, name: str) -> None:
    """Let each feed number its batches from 1, so that tests know the numbers."""
    connection.execute("ALTER FUNCTION inorder_internal.first_number() RENAME TO first_of_clock")
    connection.execute(FROM_ONE.encode())
    if name == "c":  # so that DROP EXTENSION drops it, too
        connection.execute("ALTER EXTENSION inorder ADD FUNCTION inorder_internal.first_number()")


# In the C extension, roles need not be admitted. Tests that run on both editions do not admit roles, so the SQL edition
# admits all roles here.
EVERYBODY = "SELECT inorder_internal.set_rights('PUBLIC', true, true);\n"


def create(connection: Connection, name: str | None = None, schema: str = "public", admitted: str = EVERYBODY) -> None:
    """Install the named edition in a database, or by default the tested edition."""
    if (name or TESTED) == "sql":
        connection.execute(script(schema).encode())
        connection.execute(reading(schema).encode())
        connection.execute(admitted.encode())
    else:
        connection.execute(
            f'CREATE SCHEMA IF NOT EXISTS "{schema}"; CREATE EXTENSION inorder SCHEMA "{schema}"'.encode()
        )
    # A role with only an installer's privileges may not rename the function.
    if connection.execute("SELECT current_user").fetchall() == [("postgres",)]:
        number_from_one(connection, name or TESTED)


def reading(schema: str) -> str:
    text = (DIFFERENCES / "feed_read.sql").read_text().replace("@reads@", " SET ".join(READS))
    return filled(text, ROOT, schema)


def write_edition(folder: Path, schema: str = "public", admitted: str = EVERYBODY) -> Path:
    """Write the SQL edition, including the functions that read, to a file that everybody may read."""
    path = folder / "inorder-sql.sql"
    path.write_text(script(schema) + reading(schema) + admitted, encoding="utf-8")
    return path


def install(server: Installation, cluster: Cluster, script: Path, database: str, role: str = "") -> None:
    """Run the script as a role that owns only the database, or as the superuser."""
    command: list[str | Path] = [
        server.program("psql"),
        "-X",
        "-q",
        "-1",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        database,
        "-f",
        script,
    ]
    environment = cluster.environment() | ({"PGUSER": role} if role else {})
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and not done.stderr, done.stderr


def prepare(folder: Path, kind: str) -> Path:
    for name in (kind, "expected"):
        shutil.copytree(TEST / name, folder / name)
    for path in (folder / "sql").glob("*.sql"):
        lines = [line for line in path.read_text().splitlines() if LEFT_OUT.get(path.stem, QUIET) not in line]
        path.write_text("\n".join([QUIET, *lines, ""]))
    for path in (folder / "specs").glob("*.spec"):
        path.write_text(re.sub(r"^\s*CREATE EXTENSION .*\n", "", path.read_text(), flags=re.M))
    if kind == "sql":
        # install.sql creates these functions for the tests that run after it.
        script_text = (TEST / "sql" / "install.sql").read_text()
        (folder / "sql" / "helpers.sql").write_text(script_text[script_text.index("CREATE FUNCTION prefix") :])
        (folder / "expected" / "helpers.out").touch()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return folder


def without_context(text: str) -> list[str]:
    """Return the lines of an output without the CONTEXT of errors."""
    lines = []
    inside = False
    for line in text.splitlines():
        inside = line.startswith("CONTEXT:") or (inside and re.match(r"(PL/pgSQL|SQL|COPY) ", line) is not None)
        if not inside and line != QUIET:
            lines.append(line)
    return lines


def difference(expected: Path, actual: Path) -> str:
    expected_lines, printed_lines = (without_context(path.read_text()) for path in (expected, actual))
    lines = difflib.unified_diff(expected_lines, printed_lines, n=1, lineterm="")
    return "".join(f"{'@@' if line.startswith('@@') else line}\n" for line in list(lines)[2:])


def run(server: Installation, cluster: Cluster, folder: Path, kind: str, tests: Iterable[str]) -> dict[str, str]:
    """Run tests on a database with the SQL edition, and return the differences in each test's output."""
    database = f"sql_edition_{kind}"
    # This database has the settings of a database that pg_regress creates.
    with connect(cluster.dsn) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {database}".encode())
        admin.execute(f"CREATE DATABASE {database} TEMPLATE template0".encode())
        for setting in SETTINGS:
            admin.execute(f"ALTER DATABASE {database} SET {setting}".encode())
    install(server, cluster, write_edition(folder), database)
    source = prepare(folder / "input", kind)
    # The exit code is ignored: pg_regress compares with the output of the C extension.
    done = subprocess.run(
        [program(server, kind), f"--inputdir={source}", f"--outputdir={folder / 'output'}",
         f"--bindir={server.bindir}", f"--dbname={database}", "--use-existing", *(["helpers"] if kind == "sql" else []),
         *tests],
        check=False, capture_output=True, text=True, cwd=folder, env=cluster.environment(),
    )  # fmt: skip
    results = folder / "output" / "results"
    assert all((results / f"{name}.out").exists() for name in tests), done.stdout + done.stderr
    return {name: difference(source / "expected" / f"{name}.out", results / f"{name}.out") for name in tests}


def known(name: str) -> str:
    path = DIFFERENCES / f"{name}.diff"
    return path.read_text() if path.exists() else ""


def main() -> None:
    import tempfile  # noqa: PLC0415

    server = find_installation()
    names = sys.argv[1:]
    with Cluster(server) as cluster, tempfile.TemporaryDirectory() as temporary:
        cluster.start({"max_prepared_transactions": "10", "fsync": "off"})
        for kind, every in {"sql": REGRESS, "specs": ISOLATION}.items():
            # Some SQL tests need objects that earlier tests create.
            chosen = [name for name in every if name in names] if names else every
            tests = every if kind == "sql" and chosen else chosen
            if not tests:
                continue
            folder = Path(temporary) / kind
            folder.mkdir()
            for name, text in run(server, cluster, folder, kind, tests).items():
                path = DIFFERENCES / f"{name}.diff"
                if name not in chosen:
                    continue
                path.unlink(missing_ok=True)
                if text:
                    path.write_text(text)


if __name__ == "__main__":
    main()
