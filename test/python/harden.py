"""Run the statements of the pg_regress tests on a server whose processes all run under valgrind.

The results of the statements are not compared, because pg_regress compares them elsewhere. Loops are shortened, because
valgrind is slow. The test requires that valgrind reports nothing, that the server does not crash, and that each C
function was called. Reports that name only the server count as well: memory that the extension leaves uninitialized is
often read there, and PostgreSQL suppresses its own reports.
"""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
from inorder.connection.database import connect
from inorder.errors import InorderError
from inorder.extension.building import build_folder
from inorder.installations import Installation, find_installation
from inorder.lab.server.cluster import Cluster
from psycopg.conninfo import make_conninfo

from conftest import MODULE, ROOT

SETTINGS = {"max_prepared_transactions": "10", "fsync": "off", "shared_buffers": "64MB", "track_functions": "all"}
DATABASE = "contrib_regression"

# The maximum number of rows of generate_series(), which is enough for an index with several pages, and the maximum
# number of iterations of a loop.
MOST_ROWS, ROWS = 300, re.compile(r"(generate_series\(\s*1,\s*)(\d+)")
MOST_TURNS, TURNS = 20, re.compile(r"(\b1\s*\.\.\s*)(\d+)")

# valgrind writes these marks before and after each report.
BEGIN, END = "REPORT-BEGIN", "REPORT-END"
REPORT = re.compile(rf"{BEGIN}\n(.*?)^[^\n]*{END}", re.DOTALL | re.MULTILINE)
OPTIONS = [
    "--quiet", "--leak-check=no", "--error-limit=no", "--num-callers=30", "--fullpath-after=",
    "--trace-children=yes", "--vgdb=no", f"--error-markers={BEGIN},{END}",
]  # fmt: skip

# A stack frame in the extension's sources, or in its library if the source is unknown. The full path is needed, because
# PostgreSQL also has an xact.c.
OWN = re.compile(rf"\({re.escape(str(ROOT))}/(?:src|test/module)/[^)]*:\d+\)|\(in [^)]*/inorder\w*\.so\)")
MOST_SHOWN = 5
MOST_SAID = 1000

# C functions that no test has called. The server does not count calls of input and output functions, or calls from
# indexes, sorts and the planner, so these functions are left out.
NEVER_CALLED = """
    SELECT p.oid::regprocedure::text FROM pg_proc p LEFT JOIN pg_stat_user_functions s ON s.funcid = p.oid
    WHERE p.probin = '$libdir/inorder' AND s.funcid IS NULL AND NOT 'internal'::regtype = ANY (p.proargtypes)
    AND NOT EXISTS (SELECT FROM pg_type t WHERE p.oid IN (t.typinput, t.typoutput, t.typsend, t.typreceive))
    AND NOT EXISTS (SELECT FROM pg_amproc a WHERE a.amproc = p.oid) ORDER BY 1
"""


class WatchedCluster(Cluster):
    """A temporary server under valgrind. initdb runs without valgrind, because it would take minutes."""

    def __init__(self, server: Installation, suppressions: Path, logs: Path) -> None:
        super().__init__(server, extra_sources=[MODULE])
        self.suppressions, self.logs = suppressions, logs

    def _create(self) -> None:
        super()._create()
        program = self.server.program("postgres")
        # The script below replaces the program. The program stays in the same folder, because PostgreSQL finds its
        # libraries relative to its own path.
        plain = program.rename(program.with_name("postgres-plain"))
        files = [f"--suppressions={self.suppressions}", f"--log-file={self.logs}/%p.log"]
        # valgrind creates files in TMPDIR, which may be inaccessible to the server's account.
        command = ["env", f"TMPDIR={self.logs}", "valgrind", *OPTIONS, *files, str(plain)]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        program.chmod(0o755)


def regress_tests(server: Installation) -> list[Path]:
    build = build_folder(server, ROOT)
    command = ["make", "-s", "-C", str(build), "-f", str(ROOT / "Makefile"), f"PG_CONFIG={server.bindir / 'pg_config'}"]
    command += ["--eval", "names: ; @echo $(REGRESS)", "names"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.split():
        raise InorderError(f"make did not report the tests:\n{done.stdout}{done.stderr}")
    return [ROOT / "test" / "sql" / f"{name}.sql" for name in done.stdout.split()]


def shortened(statements: str) -> str:
    """Return the statements with shorter loops.

    >>> shortened("SELECT generate_series(1, 300000); FOR i IN 1 .. 10 LOOP; FOR i IN 1 .. 1000 LOOP")
    'SELECT generate_series(1, 300); FOR i IN 1 .. 10 LOOP; FOR i IN 1 .. 20 LOOP'
    """
    statements = ROWS.sub(lambda match: f"{match[1]}{min(int(match[2]), MOST_ROWS)}", statements)
    return TURNS.sub(lambda match: f"{match[1]}{min(int(match[2]), MOST_TURNS)}", statements)


def run_statements(cluster: Cluster, file: Path) -> None:
    """Run a test with psql, and ignore each ERROR. Raise an error if psql loses the server."""
    command = [str(cluster.original.program("psql")), "-X", "-q", "-d", DATABASE]
    done = subprocess.run(
        command, input=shortened(file.read_text(encoding="utf-8")), check=False, capture_output=True, text=True,
        env=cluster.environment(),
    )  # fmt: skip
    if done.returncode != 0:
        raise InorderError(f"{file.name} lost the server:\n{done.stderr[-MOST_SAID:]}\n{cluster.log_tail()}")


def never_called(cluster: Cluster) -> list[str]:
    with connect(make_conninfo(cluster.dsn, dbname=DATABASE)) as connection:
        return [str(row[0]) for row in connection.execute(NEVER_CALLED).fetchall()]


def reports(logs: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(logs.glob("*.log"))]
    matches = [report for text in texts for report in REPORT.findall(text)]
    return sorted(matches, key=lambda report: OWN.search(report) is None)


def run_all(cluster: Cluster) -> list[str]:
    """Run all tests, and print a line for each. Return the C functions that no test has called."""
    cluster.start(SETTINGS)
    with connect(cluster.dsn) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    for file in regress_tests(cluster.original):
        began = time.monotonic()
        run_statements(cluster, file)
        click.echo(f"{file.name} took {time.monotonic() - began:.0f} s")
    return never_called(cluster)


@click.command()
@click.option("--suppressions", required=True, type=click.Path(exists=True, path_type=Path), help="valgrind.supp.")
@click.option(
    "--logs", required=True, type=click.Path(exists=True, path_type=Path), help="A folder that everybody may write to."
)
def main(suppressions: Path, logs: Path) -> None:
    """Run the statements of the pg_regress tests under valgrind. Exit code 1 if valgrind reports anything."""
    missed: list[str] = []
    trouble = ""
    try:
        with WatchedCluster(find_installation(), suppressions.resolve(), logs.resolve()) as cluster:
            missed = run_all(cluster)
            cluster.stop()
    except InorderError as error:
        trouble = str(error)
    reported = reports(logs)
    for report in reported[:MOST_SHOWN]:
        click.echo(report)
    if missed:
        click.echo(f"not called by any test: {', '.join(missed)}")
    if trouble:
        click.echo(trouble)
    own_reports = sum(OWN.search(report) is not None for report in reported)
    click.echo(f"{len(reported)} reports, {own_reports} of them name the extension")
    sys.exit(1 if reported or missed or trouble else 0)


if __name__ == "__main__":
    main()
