"""pg_regress and the isolation tester, on a throw-away server."""

import subprocess

import pytest
from inorder.cluster import Cluster
from inorder.installation import build_folder
from inorder.servers import Server

from conftest import ROOT


@pytest.mark.regress
@pytest.mark.server
def test_installcheck(server: Server, cluster: Cluster) -> None:
    """Every function at each edge of its parameters, and sessions side by side."""
    build = build_folder(server, ROOT)
    command = ["make", "-s", "-C", build, "-f", ROOT / "Makefile", f"PG_CONFIG={server.bindir / 'pg_config'}"]
    done = subprocess.run(
        [*command, "with_llvm=no", "installcheck"],
        check=False,
        capture_output=True,
        text=True,
        env=cluster.environment(),
    )
    diffs = [path.read_text() for path in build.rglob("regression.diffs")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *diffs])
    print(done.stdout)
