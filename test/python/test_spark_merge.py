"""Spark merges changes into a Delta table, as docs/spark.md describes. The copy equals the table."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from inorder.connection.database import Connection

from conftest import ROOT, text
from tail_runs import Tail
from world.sql import run

PYTHON = ROOT / "build" / "delta" / "bin" / "python"
if not PYTHON.exists():
    pytest.skip("no Spark that has Delta: script/engines installs it, and runs this", allow_module_level=True)
pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed: script/engines installs it, and runs this")

pytestmark = pytest.mark.server

SECTION = text("docs/spark.md").partition("## Changes: MERGE")[2]
COMMAND = SECTION.partition("inorder tail ")[2].partition("\n")[0].split()
TABLE = ("CREATE TABLE customers (id int PRIMARY KEY, name text)", "SELECT changes_enable('customers')")
STEPS = (
    ["INSERT INTO customers SELECT n, 'first' FROM generate_series(1, 20) AS n"],
    ["UPDATE customers SET name = 'second' WHERE id <= 5", "DELETE FROM customers WHERE id IN (1, 7)"],
    ["INSERT INTO customers VALUES (7, 'again')", "DELETE FROM customers WHERE id = 8",
     "INSERT INTO customers VALUES (8, 'again')", "UPDATE customers SET id = id + 100 WHERE id > 18"],
    ["TRUNCATE customers", "INSERT INTO customers VALUES (3, 'after')", "UPDATE customers SET name = 'last'"],
)  # fmt: skip


@pytest.fixture
def merged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator["Merged"]:
    """Yield a Spark session that runs the recipe of the docs.

    A test parameter replaces the type of the key.
    """
    recipe = tmp_path / "recipe.py"
    written = SECTION.partition("```python\n")[2].partition("```")[0]
    recipe.write_text(written.replace("id int", f"id {getattr(request, 'param', 'int')}"))
    program = [PYTHON, ROOT / "test" / "load" / "engines" / "merge.py", recipe]
    pipe = subprocess.PIPE
    with (
        (tmp_path / "spark.log").open("w") as log,
        subprocess.Popen(program, cwd=tmp_path, text=True, stdin=pipe, stdout=pipe, stderr=log) as process,
    ):
        yield Merged(tmp_path, process)
    assert process.returncode == 0


class Merged:
    """A Spark session that runs the recipe in a separate process."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = folder, process
        assert self.line() == "ready"

    def line(self) -> object:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, (self.folder / "spark.log").read_text()[-3000:]
        return json.loads(text)

    def copy(self) -> list[list[object]]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.line()
        assert isinstance(answer, list)
        return answer

    def forget_last_batch(self) -> None:
        """Undo the commit of the last batch so that it is repeated, as if Spark had been killed after the merge."""
        commits = [path for path in (self.folder / "lake.checkpoint/commits").glob("[0-9]*")]
        last = max(commits, key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_the_copy_in_delta_equals_the_table(tail: Tail, fresh: Connection, merged: Merged) -> None:
    run(fresh, *TABLE)
    for step in STEPS:
        for statement in step:
            run(fresh, statement)
            tail(*COMMAND)  # each run writes one file
        table_rows = [list(row) for row in fresh.execute("SELECT id, name FROM customers ORDER BY id").fetchall()]
        assert merged.copy() == table_rows
        merged.forget_last_batch()
        assert merged.copy() == table_rows


# Keys that are equal in PostgreSQL but written differently. In Spark the first two are strings, and therefore
# different. The other two are equal numbers.
EQUAL = (("numeric", "string", "1.0", "1.00"), ("float8", "double", "0", "-0"))


@pytest.mark.parametrize(
    ("merged", "equal"), [(kind[1], kind) for kind in EQUAL], indirect=["merged"], ids=[kind for kind, *_ in EQUAL]
)
def test_equal_keys_that_are_written_differently_are_merged(
    tail: Tail, fresh: Connection, merged: Merged, equal: tuple[str, str, str, str]
) -> None:
    kind, _, former, present = equal
    run(fresh, f"CREATE TABLE customers (id {kind} PRIMARY KEY, name text)", "SELECT changes_enable('customers')",
        f"INSERT INTO customers VALUES ('{former}')")  # fmt: skip
    for n, key in enumerate((former, present, former, present)):
        run(fresh, f"UPDATE customers SET id = '{key}', name = {n}")
        tail(*COMMAND)
        ((written, name),) = fresh.execute("SELECT id::text, name FROM customers").fetchall()
        for _ in range(2):
            ((copied, as_named),) = merged.copy()
            assert as_named == name == str(n)
            assert copied == written or float(str(copied)) == float(str(written)) == 0
            merged.forget_last_batch()
