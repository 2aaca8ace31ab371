"""Tests that depend on the user are run again by a non-root user whose name is not a role of the server."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from inorder.extension.building import build_folder
from inorder.installations import Installation
from inorder.lab.server.temporary import may_enter

from conftest import LONG_RUN, ROOT

USER = "inorder-test"  # created by script/test --all
ASKED = "INORDER_TEST_SYSTEM" in os.environ
# Tests in which a server connects to another server, files belong to another user, or programs run as another user.
TESTS = (
    "test_lake.py::test_a_failure_between_the_commits_repeats_rows",
    "test_examples.py::test_all_code_blocks_of_a_page_run[docs/lake.md]",
    "test_outside.py::test_a_partition_on_another_server_is_refused",
    "test_cluster.py::test_a_folder_that_cannot_be_used_is_skipped",
)  # fmt: skip
LONG_TESTS = ("test_lake.py", TESTS[1], "test_outside.py", TESTS[3])

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="this user is not root, so all tests are run by an ordinary user"),
    pytest.mark.server,
]


def left_out(reason: str) -> NoReturn:
    assert not ASKED, reason
    pytest.skip(reason)


@pytest.fixture
def user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        left_out(f"there is no user {USER}, whom script/test --all makes")


@pytest.fixture
def python(user: pwd.struct_passwd) -> str:
    """Return a Python of this version that the user may run.

    The Python of this process may be in root's home directory.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        with suppress(OSError):
            subprocess.run([program, "-c", ""], check=True, user=user.pw_uid, group=user.pw_gid, extra_groups=[])
            return program
    left_out(f"there is no {name} that {USER} may run")


@pytest.fixture
def checkout(user: pwd.struct_passwd, server: Installation) -> Iterator[Path]:
    """Yield a copy of the checkout that belongs to the user, including compiled files."""
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    files = subprocess.run(git, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split("\0")[:-1]
    with tempfile.TemporaryDirectory(prefix="u-") as name:
        copy = Path(name)
        for file in filter(lambda file: (ROOT / file).exists(), files):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, copy / file)
        for compiled in {(ROOT / file).parent / "__pycache__" for file in files if file.endswith(".py")}:
            if compiled.exists():
                shutil.copytree(compiled, copy / compiled.relative_to(ROOT))
        built = build_folder(server, ROOT)
        if built.exists():
            shutil.copytree(built, copy / built.relative_to(ROOT))
        (copy / "tmp").mkdir()
        subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", copy], check=True)
        yield copy


@pytest.fixture
def packages(user: pwd.struct_passwd, checkout: Path) -> Path:
    """Return the folder of this Python's packages, or of a copy if the user cannot access it.

    The packages include the embedded server.
    """
    here = Path(sysconfig.get_path("purelib"))
    return here if may_enter(here, user) else Path(shutil.copytree(here, checkout / "packages"))


def test_the_tests_pass_for_an_ordinary_user(
    user: pwd.struct_passwd, python: str, checkout: Path, packages: Path
) -> None:
    tests = [f"test/python/{name}" for name in (LONG_TESTS if LONG_RUN else TESTS)]
    of_this_run = ("PYTEST", "INORDER")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(of_this_run)}
    path = os.pathsep.join(map(str, (checkout, packages)))
    user_environment = {
        "HOME": str(checkout),
        "TMPDIR": str(checkout / "tmp"),
        "PYTHONPATH": path,
        "USER": USER,
        "LOGNAME": USER,
    }
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests],
        check=False, cwd=checkout, env=environment | user_environment, capture_output=True, text=True,
        user=user.pw_uid, group=user.pw_gid, extra_groups=[],
    )  # fmt: skip
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
