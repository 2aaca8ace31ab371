"""Which source of the extension may use which: the folders of src/ and sql/ are layers."""

import re
from collections.abc import Iterable
from pathlib import Path

from sources import C_FILES, ROOT, SQL_FILES

# Each may use those before it, and what is in no folder.
FOLDERS = ["keys", "types", "ports", "feed", "changes"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?!static|extern|typedef|PG_)[A-Za-z_][\w *]*\n(\w+)\(", re.M)
# A file in C has types and macros of its own.
IN_HEADER = re.compile(r"^\} *(\w+);|^#define (\w+)|^static inline [\w *]+\n\*?(\w+)\(", re.M)


def circle(needed: dict[str, set[str]]) -> set[str]:
    """What cannot be put into an order.

    >>> sorted(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}))
    ['a', 'b', 'c']
    """
    left = dict(needed)
    while ground := [name for name, others in left.items() if not others & left.keys()]:
        for name in ground:
            del left[name]
    return set(left)


def too_high(user: str, used: Iterable[str]) -> list[str]:
    """What a source must not use: what is in a folder above its own."""
    ranks = {folder: rank for rank, folder in enumerate(FOLDERS)}
    return [each for each in used if ranks.get(each.partition("/")[0], -1) > ranks.get(user.partition("/")[0], -1)]


def part_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "src").with_suffix(""))


TEXTS = {path: COMMENT.sub("", path.read_text()) for path in C_FILES}


def defined(path: Path) -> list[str]:
    """What others may use of a file."""
    if path.suffix == ".c":
        return FUNCTION.findall(TEXTS[path])
    return [name for names in IN_HEADER.findall(TEXTS[path]) for name in names if name]


def users_in_c() -> dict[str, set[str]]:
    """For each file in C, the others whose functions, types and macros it uses, or that it includes."""
    places = {name: part_of(path) for path in C_FILES for name in defined(path)}
    used: dict[str, set[str]] = {part_of(path): set() for path in C_FILES}
    for path, text in TEXTS.items():
        words = re.findall(r"\w+", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
        included = {name for name in re.findall(r'#include "([\w/]+)\.h"', text) if name in used}
        used[part_of(path)] |= (included | {places[word] for word in words if word in places}) - {part_of(path)}
    return used


def test_there_is_no_circle_in_c() -> None:
    """By what they use, not only by what they include."""
    assert circle(users_in_c()) == set()


def test_no_source_in_c_uses_a_higher_layer() -> None:
    assert [(part, each) for part, used in users_in_c().items() for each in too_high(part, used)] == []


SQL_OBJECT = re.compile(r"CREATE (?:FUNCTION|TABLE|VIEW|TYPE) ((?:@extschema@|inorder_internal|inorder_text)\.\w+)")
SQL_USE = re.compile(r"(?:@extschema@|inorder_internal|inorder_text)\.\w+")
SQL_COMMENT = re.compile(r"--.*|^COMMENT ON (?:[^';]|'[^']*')*;", re.M)
# What every file made, in what order it may be called, is what these say, last.
RIGHTS = ("revoke", "rights")


def users_in_sql() -> dict[str, set[str]]:
    """For each file of sql/, the others whose functions, types and tables it uses.

    A name that two files have, with other arguments, is of the first of them.
    """
    texts = {
        str(path.relative_to(ROOT / "sql").with_suffix("")): SQL_COMMENT.sub("", path.read_text()) for path in SQL_FILES
    }
    made = {name: set(SQL_OBJECT.findall(text)) for name, text in texts.items()}
    places = {each: name for name in reversed(made) for each in made[name]}
    return {
        name: {places[each] for each in set(SQL_USE.findall(text)) - made[name] if each in places} - {name}
        for name, text in texts.items()
        if name not in RIGHTS
    }


def test_there_is_no_circle_in_sql() -> None:
    """Of files: make joins them in an order in which none uses a later one, but for what is looked up when it runs."""
    assert circle(users_in_sql()) == set()


def test_no_source_in_sql_uses_a_higher_layer() -> None:
    assert [(file, each) for file, used in users_in_sql().items() for each in too_high(file, used)] == []
