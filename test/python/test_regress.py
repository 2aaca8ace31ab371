"""pg_regress and the isolation tester, run on a throw-away server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from inorder.extension.building import build_folder
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from clusters import quick_options
from conftest import LONG_RUN, ROOT
from sql_edition import listed

# Tests of C code that depends on the server version (src/compat.h): privileges, names, input errors, planner support,
# index scans, and the log of a partitioned table.
OF_VERSIONS = {"install", "xact", "uuid_v1", "time_bounds", "feed", "feed_rights", "changes"}
# Only script/test --long runs these specs. They repeat the waits of feed_gap_uuid for other forms of the number.
LONG_SPECS = {"feed_gap_default", "feed_gap_generated"}
# Servers installed on this system, if script/test --all runs the tests.
SYSTEM = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_config")) if "INORDER_TEST_SYSTEM" in os.environ else []


@pytest.mark.regress
@pytest.mark.server
@pytest.mark.parametrize("other", ["ISOLATION", "REGRESS"], ids=["sql", "specs"])
def test_the_tests_of_pg_regress_pass(server: Installation, cluster: Cluster, other: str) -> None:
    build = build_folder(server, ROOT)
    command: list[str | Path] = ["make", "-s", "-C", build, "-f", ROOT / "Makefile"]
    if other == "ISOLATION" and "INORDER_TEST_REGRESS" in os.environ:
        command.append(f"REGRESS={os.environ['INORDER_TEST_REGRESS']}")
    if other == "REGRESS" and not LONG_RUN:
        assert set(listed("ISOLATION")) > LONG_SPECS
        command.append(f"ISOLATION={' '.join(name for name in listed('ISOLATION') if name not in LONG_SPECS)}")
    done = subprocess.run(
        [*command, f"PG_CONFIG={server.bindir / 'pg_config'}", "with_llvm=no", f"{other}=", "installcheck"],
        check=False,
        capture_output=True,
        text=True,
        env=cluster.environment(),
    )
    diffs = [path.read_text() for path in build.rglob("regression.diffs")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *diffs])
    print(done.stdout)


@pytest.mark.server
@pytest.mark.parametrize("pg_config", SYSTEM, ids=lambda path: path.parts[-3])
def test_the_tests_of_pg_regress_pass_on_a_server_of_the_system(pg_config: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "INORDER_TEST_SYSTEM"}
    deselected = []
    if not LONG_RUN:
        # Waits between sessions are the same in each version, so the specs are left out.
        deselected = ["-k", "not specs"]
        environment["COPT"] = quick_options()
        assert set(listed("REGRESS")) >= OF_VERSIONS
        environment["INORDER_TEST_REGRESS"] = " ".join(name for name in listed("REGRESS") if name in OF_VERSIONS)
    files = [path for path in sorted(Path(__file__).parent.glob("test_*.py")) if "mark.regress" in path.read_text()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "regress", "-p", "no:cacheprovider", "-rs", *deselected, *files],
        check=False, capture_output=True, text=True, cwd=ROOT, env=environment | {"PG_CONFIG": str(pg_config)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    if skipped := [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]:
        pytest.skip("; ".join(["passed, except for", *skipped]))
