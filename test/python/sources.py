"""The sources of the extension, by folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

from edition.join import listed

ROOT = Path(__file__).resolve().parents[2]
C_FILES = sorted((ROOT / "src").rglob("*.[ch]"))
# The files in the order in which make concatenates them.
SQL_FILES = [ROOT / "sql" / f"{name}.sql" for name in listed(ROOT)]
# Files that are only part of the SQL edition.
PLAIN_FILES = sorted((ROOT / "sql" / "plain").glob("*.sql"))


def sql_source() -> str:
    return "".join(path.read_text() for path in SQL_FILES)


def definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield all functions and classes below a node. Only fields that can contain statements are searched.

    >>> code = "class A:\\n  def b(): pass\\nif 1:\\n  try: 1\\n  except E:\\n    def c():\\n      class D: pass"
    >>> [found.name for found in definitions(ast.parse(code))]
    ['A', 'b', 'c', 'D']
    """
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, field, ())
        for child in below if isinstance(below, list) else ():
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield child
            yield from definitions(child)
