"""The unit file of the documentation."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import text


def test_the_unit_file_of_the_documentation(tmp_path: Path) -> None:
    """systemd knows every key and value of it, and nothing in it is missing but the tool."""
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("this system has no systemd")
    (unit,) = re.findall(r"```\n(\[Unit\]\n.*?)```", text("docs/tail.md"), re.DOTALL)
    assert "ExecStart=/usr/local/bin/inorder tail events --position" in unit and "KillMode=mixed\n" in unit
    path = tmp_path / "export.service"
    path.write_text(unit.replace("/usr/local/bin/inorder", "/bin/true"))
    done = subprocess.run([verify, "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, [])
