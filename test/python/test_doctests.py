"""The examples in docstrings of the tool, the tests and the scripts.

If pytest collected the examples itself, every process would load and read every module. The run would take half as much
CPU time again.
"""

import doctest
import io
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

from conftest import ROOT

FOLDERS = ("inorder", "test", "bench", "script/docs", "script/edition")
EXAMPLE = "    >>> "
EXTRAS = ("dlt", "pyspark")


def with_examples() -> list[Path]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [path.relative_to(ROOT) for path in paths if EXAMPLE in path.read_text()]


def module_of(path: Path) -> str:
    """Return the name under which tests import a module.

    The folder above its outermost package is in sys.path.

    >>> module_of(Path("inorder/tail/run.py")), module_of(Path("test/load/fuzz/calls.py"))
    ('inorder.tail.run', 'load.fuzz.calls')
    """
    folders = [parent for parent in (ROOT / path).parents if str(parent) in sys.path]
    return ".".join((ROOT / path).relative_to(folders[0]).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", with_examples(), ids=str)
def test_examples_in_docstrings_are_right(path: Path) -> None:
    try:
        module = import_module(module_of(path))
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        pytest.skip(f"needs {error.name}, which script/engines installs")
    output = io.StringIO()
    with redirect_stdout(output):
        done = doctest.testmod(module)
    assert done.failed == 0, output.getvalue()
