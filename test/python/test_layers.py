"""Layers of the tool and of the extension: each may only import or use lower layers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from sources import C_FILES, ROOT, SQL_FILES


def circle(needed: dict[str, set[str]]) -> set[str]:
    """Return the nodes of cycles, and the nodes that depend on a cycle.

    >>> sorted(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}))
    ['a', 'b', 'c']
    """
    remaining = dict(needed)
    while ground := [name for name, needs in remaining.items() if not needs & remaining.keys()]:
        for name in ground:
            del remaining[name]
    return set(remaining)


def test_modules_of_the_tool_import_only_lower_layers() -> None:
    """The import contracts are in pyproject.toml."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0 and " 0 broken." in done.stdout, done.stdout + done.stderr


SINKS = ("sinks", "output_file", "whole", "parquet")


def test_a_sink_sets_no_attribute_of_its_source() -> None:
    texts = {name: (ROOT / "inorder" / "tail" / f"{name}.py").read_text(encoding="utf-8") for name in SINKS}
    assert {name for name, text in texts.items() if re.search(r"\bsource\.\w+ [-+*/|]?= ", text)} == set()


# Each folder may use the folders before it, and sources that are in no folder.
FOLDERS = ["keys", "types", "ports", "feed", "changes"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?!static|extern|typedef|PG_)[A-Za-z_][\w *]*\n(\w+)\(", re.M)
# Names defined in a header. Types and macros defined in a C file are only visible in that file.
IN_HEADER = re.compile(r"^\} *(\w+);|^#define (\w+)|^static inline [\w *]+\n\*?(\w+)\(", re.M)


def too_high(user: str, used: Iterable[str]) -> list[str]:
    """Return the sources that ``user`` may not use, because they are in a higher folder."""
    ranks = {folder: rank for rank, folder in enumerate(FOLDERS)}
    return [each for each in used if ranks.get(each.partition("/")[0], -1) > ranks.get(user.partition("/")[0], -1)]


def part_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "src").with_suffix(""))


TEXTS = {path: COMMENT.sub("", path.read_text()) for path in C_FILES}


def defined(path: Path) -> list[str]:
    """Return the names that a file defines for other files."""
    if path.suffix == ".c":
        return FUNCTION.findall(TEXTS[path])
    return [name for names in IN_HEADER.findall(TEXTS[path]) for name in names if name]


def users_in_c() -> dict[str, set[str]]:
    """Return, for each C file, the other files that it includes or whose functions, types or macros it uses."""
    places = {name: part_of(path) for path in C_FILES for name in defined(path)}
    used: dict[str, set[str]] = {part_of(path): set() for path in C_FILES}
    for path, text in TEXTS.items():
        # Declarations do not count as uses.
        words = re.findall(r"\w+", re.sub(r'"(?:[^"\\]|\\.)*"|^extern [^{}]*?;$', "", text, flags=re.M))
        included = {name for name in re.findall(r'#include "([\w/]+)\.h"', text) if name in used}
        used[part_of(path)] |= (included | {places[word] for word in words if word in places}) - {part_of(path)}
    return used


def test_dependencies_in_c_have_no_cycle() -> None:
    """Even without includes, two files can depend on each other if each uses names that the other defines."""
    assert circle(users_in_c()) == set()


def test_no_source_in_c_uses_a_higher_layer() -> None:
    assert [(source, each) for source, used in users_in_c().items() for each in too_high(source, used)] == []


SQL_OBJECT = re.compile(r"CREATE (?:FUNCTION|TABLE|VIEW|TYPE) ((?:@extschema@|inorder_internal|inorder_text)\.\w+)")
SQL_USE = re.compile(r"(?:@extschema@|inorder_internal|inorder_text)\.\w+")
SQL_COMMENT = re.compile(r"--.*|^COMMENT ON (?:[^';]|'[^']*')*;", re.M)
# These files come last, because they grant and revoke privileges on objects created by all other files.
RIGHTS = ("revoke", "rights")


def users_in_sql() -> dict[str, set[str]]:
    """Return, for each file of sql/, the other files whose functions, types and tables it uses.

    A name that two files define with different arguments is attributed to the first file.
    """
    texts = {
        str(path.relative_to(ROOT / "sql").with_suffix("")): SQL_COMMENT.sub("", path.read_text()) for path in SQL_FILES
    }
    objects = {name: set(SQL_OBJECT.findall(text)) for name, text in texts.items()}
    places = {each: name for name in reversed(objects) for each in objects[name]}
    return {
        name: {places[each] for each in set(SQL_USE.findall(text)) - objects[name] if each in places} - {name}
        for name, text in texts.items()
        if name not in RIGHTS
    }


def test_dependencies_in_sql_have_no_cycle() -> None:
    """The order in which make concatenates the files does not rule out a cycle.

    Some names are only looked up when a function runs, and these uses count as well.
    """
    assert circle(users_in_sql()) == set()


def test_no_source_in_sql_uses_a_higher_layer() -> None:
    assert [(file, each) for file, used in users_in_sql().items() for each in too_high(file, used)] == []


PACKAGES = ("numpy", "scipy", "jinja2", "rich", "msgspec")
LAB = (*PACKAGES, "inorder.lab", "inorder.generate")

LOADED = """
import sys
sys.argv = ["inorder", {command!r}, "--help"]
from inorder.cli import main
try:
    main()
except SystemExit:
    pass
if {driver}:
    import inorder.tail.run, inorder.count.counter, inorder.feeds.reading, inorder.connection.reconnect
print(*sys.modules, file=sys.stderr)
"""


def loaded(command: str, driver: bool) -> set[str]:
    program = LOADED.format(command=command, driver=driver)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "Usage: " in done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("command", "driver", "unloaded"),
    [
        *((command, False, (*LAB, "psycopg")) for command in ("tail", "count", "feeds")),
        ("tail", True, LAB),
        *((command, False, (*PACKAGES, "psycopg")) for command in ("choose", "advise", "install")),
    ],
)
def test_a_command_loads_no_more_than_it_needs(command: str, driver: bool, unloaded: Sequence[str]) -> None:
    modules = loaded(command, driver)
    assert not modules & set(unloaded) and ("psycopg" in modules) == driver


def test_advice_needs_no_package_of_the_laboratory() -> None:
    program = "import sys, inorder.advise.facts, inorder.advise.findings, inorder.advise.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not {*PACKAGES} & set(done.stdout.split())


def test_commands_of_a_missing_laboratory_say_what_is_missing() -> None:
    program = (
        "import sys; sys.modules['numpy'] = sys.modules['rich'] = None; from inorder.cli import main; "
        "sys.argv = ['inorder', *sys.argv[1:]]; main()"
    )
    for command, extra in ((["demo"], "demo"), (["lab", "run", "insert"], "lab"), (["generate"], "lab")):
        done = subprocess.run(
            [sys.executable, "-c", program, *command, "--help"], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert " needs " in done.stderr and f"[{extra}]'" in done.stderr.partition("pip install")[2]
    for arguments, words in ((["tail", "--help"], "--position"), (["--help"], "-m pip install")):
        done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
        assert words in done.stdout


def test_without_libpq_the_tool_names_what_to_install() -> None:
    """PSYCOPG_IMPL=c requires the C modules of psycopg, which are not installed."""
    command = [sys.executable, "-m", "inorder", "count", "show", "t"]
    done = subprocess.run(command, env=os.environ | {"PSYCOPG_IMPL": "c"}, check=False, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "libpq5" in done.stderr and "[binary]'" in done.stderr.partition("pip install")[2]
