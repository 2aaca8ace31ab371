"""A comment is a sentence or a noun phrase with a subject.

No comment begins with a word that leaves the subject out.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT
from sources import definitions

# Folders whose comments follow this rule.
FINISHED = (
    "bench",
    "docs",
    "inorder",
    "script",
    "sql",
    "src",
    "test/load",
    "test/module",
    "test/python",
    "test/specs",
    "test/sql",
    "test/upgrade",
    "test/world",
)
SUFFIXES = (".py", ".c", ".h", ".sql", ".spec", ".toml", "")
OPENING = re.compile(r"[\W\d_]*(or|not|and|also|of|by|what|whether|who)\b", re.IGNORECASE)
PYTHON_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#([^\n]*)', re.DOTALL
)
C_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|/\*(.*?)\*/', re.DOTALL)
SQL_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|/\*(.*?)\*/|--([^\n]*)", re.DOTALL)
HASH = re.compile(r"(?:^|(?<=\s))#(?=\s)(.*)", re.MULTILINE)

Comment = tuple[int, int, str]  # line, column (-1 if the next comment cannot continue this one), text


def python_comments(text: str) -> Iterator[Comment]:
    for line, column, comment in matched_comments(PYTHON_TOKEN, text):
        yield line, column, comment.rpartition("# ")[2]


def docstrings(text: str) -> Iterator[Comment]:
    module = ast.parse(text)
    for node in (module, *definitions(module)):
        docstring = ast.get_docstring(node)
        if docstring:
            yield node.body[0].lineno, -1, docstring


def matched_comments(pattern: re.Pattern[str], text: str) -> Iterator[Comment]:
    line, counted = 1, 0
    for match in pattern.finditer(text):
        comment = next((group for group in match.groups() if group is not None), None)
        if comment is not None:
            line, counted = line + text.count("\n", counted, match.start()), match.start()
            column = -1 if match[0].startswith("/*") else counted - text.rfind("\n", 0, counted) - 1
            yield line, column, comment


def comments_of(path: Path) -> Iterator[Comment]:
    """Yield each comment once.

    A line directly below a comment continues it if it begins in the same column and has no code.
    """
    text = path.read_text()
    if path.suffix == ".py" or re.match(r"#!.*python", text):
        yield from docstrings(text)
        comments = python_comments(text)
    elif path.suffix in (".c", ".h"):
        comments = matched_comments(C_TOKEN, text)
    elif path.suffix == ".sql":
        comments = matched_comments(SQL_TOKEN, text)
    else:
        comments = matched_comments(HASH, text)
    lines, before = text.split("\n"), (0, -1)
    for line, column, comment in comments:
        is_continued = column >= 0 and before == (line - 1, column) and not lines[line - 1][:column].strip()
        if not is_continued:
            yield line, column, comment
        before = (line, column)


def offences(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {' '.join(comment.split())[:80]}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts
        for line, _, comment in comments_of(path)
        if OPENING.match(comment)
    ]


@pytest.mark.parametrize("folder", FINISHED)
def test_comments_name_their_subject(folder: str) -> None:
    assert offences(ROOT / folder) == []


CASES = {
    "a.py": '"""Of one."""\nx = 1  # by one\n# A line,\n# or two.\ny = "# and"  # noqa: E1  # not it\n',
    "a.c": '/*\n * Whether it is.\n */\nf("/* what */"); /* Also it. */ /* The rest. */\n',
    "a.sql": "SELECT '-- or' -- What\n-- By whom.\n;\n--   Not it,\n--   or it.\n/* And it. */\n",
    "a": '#!/bin/sh\n# Who it is.\necho "$#" # a number\n# --- what is left ---\n',
}


@pytest.mark.parametrize(
    ("name", "lines"), [("a.py", [1, 2, 5]), ("a.c", [1, 4]), ("a.sql", [1, 2, 4, 6]), ("a", [2, 4])]
)
def test_forbidden_openings_of_comments_are_found(name: str, lines: list[int], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(CASES[name])
    assert [line for line, _, comment in comments_of(path) if OPENING.match(comment)] == lines
