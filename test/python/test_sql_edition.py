"""The C extension's tests are run on the SQL edition, and its sources are checked."""

import re
from pathlib import Path

import pytest
from inorder.installations import Installation
from inorder.lab.server.cluster import Cluster

from conftest import LONG_RUN
from sql_edition import (
    DIFFERENCES,
    ISOLATION,
    NOT_RUN,
    NOT_RUN_IN_PYTHON,
    ONCE,
    ONCE_OF_SESSIONS,
    REGRESS,
    ROOT,
    TESTED,
    known,
    listed,
    program,
    run,
    script,
)

# Functions that execute SQL other than a query on a user's table, with a description of that SQL.
OTHER_TEXTS = {
    "force_commit": "a cursor over a setting, and CLOSE",
    "make_durable": "a built-in function that older servers lack",
    "set_rights": "GRANT and REVOKE",
    "run_statements": "changes to the caller's own table",
    "lock_tree": "LOCK TABLE, which executes no part of a view",
    "lock_counted": "LOCK TABLE",
    "check_statement": "the caller's statement, under the caller's settings",
    "apply_rows": "the caller's statement, in which rows_of_batch reads the table",
    "feed_guard": "output functions of the types of the written row",
}
FUNCTION = re.compile(r"CREATE FUNCTION \w+\.(\w+)\(((?:(?!CREATE FUNCTION).)*?)\sAS \$\$(.*?)\$\$;", re.S)
EXECUTES = re.compile(r"^(?!\s*--).*\bEXECUTE (?!FUNCTION)", re.M)

NAMES = re.compile(r"^def (test_\w+)", re.M)


def test_every_test_is_run_or_left_out_with_a_reason() -> None:
    assert sorted([*REGRESS, *ISOLATION, *NOT_RUN]) == sorted(listed("REGRESS") + listed("ISOLATION"))
    tests = {name for path in (ROOT / "test" / "python").glob("test_*.py") for name in NAMES.findall(path.read_text())}
    assert set(NOT_RUN_IN_PYTHON) <= tests
    assert {path.stem for path in DIFFERENCES.glob("*.diff")} <= {*REGRESS, *ISOLATION}
    assert set(REGRESS) >= ONCE and set(ISOLATION) >= ONCE_OF_SESSIONS


@pytest.mark.server
@pytest.mark.parametrize(("kind", "tests"), [("sql", REGRESS), ("specs", ISOLATION)], ids=["sql", "specs"])
def test_each_regression_test_has_only_the_listed_differences(
    server: Installation, cluster: Cluster, shared_folder: Path, kind: str, tests: tuple[str, ...]
) -> None:
    if not program(server, kind).exists():
        pytest.skip(f"{server.name} has no {program(server, kind).name}")
    shared_folder.chmod(0o777)
    chosen = tests if LONG_RUN or TESTED == "sql" else [name for name in tests if name not in ONCE | ONCE_OF_SESSIONS]
    differences = run(server, cluster, shared_folder, kind, chosen)
    wrong = {name: text for name, text in differences.items() if text != known(name)}
    assert not wrong, "\n".join(f"== {name}\n{text}\n-- listed:\n{known(name)}" for name, text in wrong.items())


def test_no_function_runs_as_its_owner() -> None:
    text = script("inorder")
    assert not re.findall(r"^(?!--|').*SECURITY\s+DEFINER.*", text, re.M | re.I)
    assert "MODULE_PATHNAME" not in text and "@extschema@" not in text and "LANGUAGE C " not in text


def test_no_literal_has_a_backslash() -> None:
    text = re.sub(r"--[^\n]*", "", script("inorder"))
    assert [line for line in text.splitlines() if "\\" in line] == []


def test_the_file_is_the_same_each_time() -> None:
    assert script.__wrapped__() == script()


def test_functions_that_read_tables_of_users_execute_no_code_of_users() -> None:
    by_function = {
        name: "SET constraint_exclusion = off" in head
        for name, head, body in FUNCTION.findall(script("inorder"))
        if EXECUTES.search(body)
    }
    assert {name for name, is_safe in by_function.items() if not is_safe} == set(OTHER_TEXTS)
    assert {"count_as_caller", "feed_peek", "rows_of_batch", "as_caller"} <= by_function.keys()


def test_jit_is_off_wherever_sequential_scans_are_off() -> None:
    """Before PostgreSQL 18, enable_seqscan = off adds a cost of 10^10 to sequential scans, far above jit_above_cost."""
    clauses = [line for line in script().splitlines() if "SET enable_seqscan = off" in line]
    assert len(clauses) > 20
    assert [clause for clause in clauses if "SET jit = off" not in clause] == []
