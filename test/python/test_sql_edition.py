"""The SQL edition: the tests of the C extension on it, and what it is made of."""

import re
from pathlib import Path

import pytest
from inorder.lab.server.cluster import Cluster
from inorder.lab.server.servers import Server

from sql_edition import (
    DIFFERENCES,
    ISOLATION,
    NOT_RUN,
    NOT_RUN_IN_PYTHON,
    REGRESS,
    ROOT,
    known,
    program,
    run,
    write_edition,
)

NAMES = re.compile(r"^def (test_\w+)", re.M)


def listed(name: str) -> list[str]:
    """The tests that the Makefile names."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(rf"^{name} *= *(.*)$", text, re.M)
    assert found is not None
    return found[1].split()


def test_every_test_is_run_or_not_with_a_reason() -> None:
    """Whoever adds a test decides whether the SQL edition has what it tests."""
    assert sorted([*REGRESS, *ISOLATION, *NOT_RUN]) == sorted(listed("REGRESS") + listed("ISOLATION"))
    tests = {name for path in (ROOT / "test" / "python").glob("test_*.py") for name in NAMES.findall(path.read_text())}
    assert set(NOT_RUN_IN_PYTHON) <= tests
    assert {path.stem for path in DIFFERENCES.glob("*.diff")} <= {*REGRESS, *ISOLATION}


@pytest.mark.regress
@pytest.mark.server
@pytest.mark.parametrize(("kind", "tests"), [("sql", REGRESS), ("specs", ISOLATION)])
def test_installcheck(server: Server, cluster: Cluster, shared_folder: Path, kind: str, tests: tuple[str, ...]) -> None:
    """The outputs of the C extension, but for what is listed."""
    if not program(server, kind).exists():
        pytest.skip(f"{server.name} has no {program(server, kind).name}")
    shared_folder.chmod(0o777)
    found = run(server, cluster, shared_folder, kind, tests)
    wrong = {name: text for name, text in found.items() if text != known(name)}
    assert not wrong, "\n".join(f"== {name}\n{text}\n-- listed:\n{known(name)}" for name, text in wrong.items())


def test_no_function_runs_as_its_owner(shared_folder: Path) -> None:
    """And none is in C: so the role that installs it gives nobody its privileges."""
    text = write_edition(shared_folder, "inorder").read_text()
    # In no line that is not a comment.
    assert not re.findall(r"^(?!--|').*SECURITY\s+DEFINER", text, re.M | re.I)
    assert "MODULE_PATHNAME" not in text and "@extschema@" not in text and "LANGUAGE C " not in text


def test_the_file_is_the_same_each_time(shared_folder: Path) -> None:
    """Nothing in it depends on when or where it was made."""
    assert write_edition(shared_folder).read_bytes() == write_edition(shared_folder).read_bytes()
