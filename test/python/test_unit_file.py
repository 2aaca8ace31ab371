"""The unit files of the documentation."""

import shutil
import subprocess
from pathlib import Path

import pytest

from examples import blocks

UNITS = [
    ("docs/tail.md", "/usr/local/bin/inorder tail events --position"),
    ("docs/clients/README.md", "/usr/bin/python3 /usr/local/lib/mailer/consumer.py %i"),
]


@pytest.mark.parametrize(("document", "command"), UNITS)
def test_a_unit_file_of_the_documentation(document: str, command: str, tmp_path: Path) -> None:
    """systemd knows every key and value of it, and nothing in it is missing but the program."""
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("this system has no systemd")
    (unit,) = (block.text for block in blocks(document) if block.language == "ini")
    assert f"ExecStart={command}" in unit and "KillMode=mixed\n" in unit and "Restart=on-failure\n" in unit
    path = tmp_path / "export@.service"
    path.write_text(unit.replace(command.split(maxsplit=1)[0], "/bin/true"))
    done = subprocess.run([verify, "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, [])
