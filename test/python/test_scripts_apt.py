"""Scripts call apt-get through script/apt, which waits while another apt process holds the locks."""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT
from waiting import PATIENCE

APT = ROOT / "script" / "apt"
# Lines that print a command for the user or look for a program, and do not call apt-get.
SAID = re.compile(r"echo |HINT|command -v|for program in|^ *#")


def test_no_script_calls_apt_get_itself() -> None:
    scripts = [path for path in (ROOT / "script").iterdir() if path.is_file() and path != APT]
    calls = [
        f"{path.name}: {line.strip()}"
        for path in scripts for line in path.read_text().splitlines()
        if re.search(r"\b(apt-get|aptitude|dpkg -i)\b|(?<!/)\bapt (install|update)\b", line) and not SAID.search(line)
    ]  # fmt: skip
    assert calls == [] and len(scripts) > 10


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this system has no apt-get")
@pytest.mark.parametrize("lock", ["lists", "archives"])
def test_apt_waits_for_a_lock_of_another_process(tmp_path: Path, lock: str) -> None:
    """apt-get uses separate folders. Another process holds a lock, and script/apt waits for it."""
    for name in ("lists", "archives"):
        (tmp_path / name / "partial").mkdir(parents=True)
    (tmp_path / "conf").write_text(
        f'Dir::State::Lists "{tmp_path}/lists"; Dir::Cache "{tmp_path}"; Dir::Cache::archives "{tmp_path}/archives";\n'
        'Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null"; APT::Sandbox::User "";\n'
    )
    command = {"lists": ["update"], "archives": ["clean"]}[lock]
    with (tmp_path / lock / "lock").open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [APT, *command], env=os.environ | {"APT_CONFIG": str(tmp_path / "conf")}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert waiting.stderr and waiting.stderr.readline() == "Waiting for another apt\n"
        assert waiting.poll() is None
    waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0


def test_apt_reports_errors_other_than_locks() -> None:
    done = subprocess.run([APT, "no-such-operation"], check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 100 and "no-such-operation" in done.stderr and "Waiting" not in done.stderr
