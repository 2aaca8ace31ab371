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


def complaints(verify: str, unit: Path) -> list[str]:
    """What systemd says of a unit, or an instance of it. Where it does not run it may fail for other reasons."""
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if unit.stem in line]


def test_the_unit_files_of_the_documentation(tmp_path: Path) -> None:
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("this system has no systemd")
    path = tmp_path / "export@.service"
    for document, command in UNITS:
        (unit,) = (block.text for block in blocks(document) if block.language == "ini")
        assert f"ExecStart={command}" in unit and "KillMode=mixed\n" in unit and "Restart=on-failure\n" in unit
        unit = unit.replace(command.split(maxsplit=1)[0], "/bin/true")
        for broken in (unit.replace("KillMode", "KilMode"), unit.replace("/bin/true", "/bin/truth")):
            path.write_text(broken)
            if not complaints(verify, path):
                pytest.skip("systemd-analyze verifies no unit here")
        path.write_text(unit)
        assert complaints(verify, path) == []
