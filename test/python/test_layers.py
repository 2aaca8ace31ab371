"""Allowed imports between modules, as CONTRIBUTING draws them; allowed uses between sources of the extension."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import inorder
import pytest
from inorder.cli import COMMANDS

from sources import C_FILES, ROOT, SQL_FILES

PACKAGE = Path(inorder.__file__).parent


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "inorder")


@cache
def imports() -> dict[str, set[str]]:
    return {name: set(imported(path)) - {name} for name, path in MODULES.items()}


def circle(needed: dict[str, set[str]]) -> set[str]:
    """The nodes that cannot be ordered because of circles.

    >>> sorted(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}))
    ['a', 'b', 'c']
    """
    left = dict(needed)
    while ground := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in ground:
            del left[name]
    return set(left)


def reached(start: str) -> set[str]:
    modules: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports().get(waiting.pop(), set()):
            if name not in modules:
                modules.add(name)
                waiting.append(name)
    return modules


def is_in(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def experiment_of(name: str) -> str:
    return name.removeprefix("inorder.lab.experiments.").split(".")[0]


EXPERIMENTS = [name for name in MODULES if name.startswith("inorder.lab.experiments.")]


def test_there_is_no_circle() -> None:
    assert circle(imports()) == set()


def test_nobody_imports_the_command() -> None:
    assert [name for name in MODULES if "inorder.cli" in imports()[name]] == ["inorder.__main__"]


LOOSE = {name for name, path in MODULES.items() if path.parent == PACKAGE}  # in no folder


def folder_of(name: str) -> str:
    """The folder of the package that contains a module; the module itself if there is none."""
    return name if name in LOOSE else ".".join(name.split(".")[:2])


def test_there_is_no_circle_of_folders() -> None:
    below = {folder_of(name): set[str]() for name in MODULES}
    for name in MODULES:
        below[folder_of(name)] |= {folder_of(other) for other in imports()[name]} - {folder_of(name)}
    assert [(name, other) for name in LOOSE for other in below[name] - LOOSE] == []
    assert circle(below) == set()


def test_no_experiment_imports_another() -> None:
    pairs = [
        (name, other) for name in EXPERIMENTS for other in imports()[name] if is_in(other, "inorder.lab.experiments")
    ]
    assert [pair for pair in pairs if len(set(map(experiment_of, pair))) > 1] == []


def test_nobody_imports_an_experiment() -> None:
    users = {name for name in MODULES if imports()[name] & set(EXPERIMENTS) and name not in EXPERIMENTS}
    assert users <= {"inorder.commands.demo"}


def test_what_an_operator_runs_is_not_of_the_laboratory() -> None:
    laboratory = ("inorder.lab", "inorder.commands", "inorder.generate")
    folders = {module.rpartition(".")[0] for module, _ in COMMANDS.values()} - set(laboratory)
    assert len(folders) == 9
    run = [name for name in MODULES if is_in(name, *folders)]
    pairs = {(name.split(".")[1], other) for name in run for other in reached(name) if is_in(other, *laboratory)}
    calculated = ("inorder.lab", "inorder.lab.plan.keys", "inorder.lab.analysis", "inorder.lab.analysis.model")
    reported = {"inorder.lab.report", "inorder.lab.report.section", "inorder.lab.report.formats"}
    reported |= {other for module in reported for other in reached(module)}
    allowed = {"choose": {*calculated}, "advise": {*calculated, *reported}}
    assert [pair for pair in pairs if pair[1] not in allowed.get(pair[0], ())] == []


ENGINES = ("inorder.dlt", "inorder.spark")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_loaded_by_nobody_else(engine: str) -> None:
    assert not [
        name for name in MODULES if not is_in(name, engine) and any(is_in(other, engine) for other in imports()[name])
    ]
    needed = {other for name in MODULES if is_in(name, engine) for other in reached(name) if not is_in(other, engine)}
    allowed = [f"inorder.{name}" for name in ("arrow", "connection", "errors", "interrupts", "text")]
    if engine == "inorder.spark":
        allowed += [f"inorder.citus.{name}" for name in ("handover", "moves", "shards")]
    assert [name for name in needed if not is_in(name, *allowed)] == []


@pytest.mark.parametrize("name", ["columns", "driver", "offsets", "options", "shards"])
def test_what_the_driver_decides_needs_no_engine(name: str) -> None:
    source = MODULES[f"inorder.spark.{name}"].read_text(encoding="utf-8")
    assert not [line for line in source.splitlines() if "import" in line and "pyspark" in line]


# The folders of the laboratory. Each may import those before it.
ROOMS = (
    "server", "results", "plan", "instruments", "targets", "analysis", "report", "tables", "run", "experiments",
    "check",
)  # fmt: skip


def room_of(name: str) -> str:
    return name.split(".")[2]


def test_each_room_of_the_laboratory_imports_only_those_before_it() -> None:
    inner = [name for name in MODULES if name.startswith("inorder.lab.")]
    assert {room_of(name) for name in inner} == set(ROOMS)
    pairs = [(name, other) for name in inner for other in imports()[name] if other in inner]
    assert [pair for pair in pairs if ROOMS.index(room_of(pair[1])) > ROOMS.index(room_of(pair[0]))] == []


# A module or a folder, and those that it does not import although they are below.
NOT_IMPORTED = {
    "lab.server": ("commands", "cli"),
    "lab.analysis.stats": ("lab", "connection", "units", "text"),
    "lab.analysis": ("lab.targets", "lab.server", "connection"),
    "lab.report": ("lab.targets", "lab.server", "lab.instruments.counters", "connection"),
    "lab.experiments": ("lab.run.runner", "lab.run.hosts", "lab.targets.throw_away", "lab.targets.own_server",
                        "lab.server.cluster"),
    "lab": ("commands", "cli"),
}  # fmt: skip


@pytest.mark.parametrize("package", NOT_IMPORTED)
def test_what_a_folder_does_not_import(package: str) -> None:
    above = [f"inorder.{name}" for name in NOT_IMPORTED[package]]
    assert [name for name in (f"inorder.{package}", *above) if name not in MODULES] == []
    pairs = [(name, other) for name in MODULES if is_in(name, f"inorder.{package}") for other in imports()[name]]
    assert [pair for pair in pairs if is_in(pair[1], *above)] == []


SINKS = ("sinks", "output_file", "whole", "parquet")


def test_a_sink_sets_nothing_of_its_source() -> None:
    texts = {name: MODULES[f"inorder.tail.{name}"].read_text(encoding="utf-8") for name in SINKS}
    assert {name for name, text in texts.items() if re.search(r"\bsource\.\w+ [-+*/|]?= ", text)} == set()


# Each folder may use those before it, and sources that are in no folder.
FOLDERS = ["keys", "types", "ports", "feed", "changes"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?!static|extern|typedef|PG_)[A-Za-z_][\w *]*\n(\w+)\(", re.M)
# A file in C has types and macros of its own.
IN_HEADER = re.compile(r"^\} *(\w+);|^#define (\w+)|^static inline [\w *]+\n\*?(\w+)\(", re.M)


def too_high(user: str, used: Iterable[str]) -> list[str]:
    """Sources used from folders above the source's own, which is not allowed."""
    ranks = {folder: rank for rank, folder in enumerate(FOLDERS)}
    return [each for each in used if ranks.get(each.partition("/")[0], -1) > ranks.get(user.partition("/")[0], -1)]


def part_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "src").with_suffix(""))


TEXTS = {path: COMMENT.sub("", path.read_text()) for path in C_FILES}


def defined(path: Path) -> list[str]:
    """Names that a file offers to others."""
    if path.suffix == ".c":
        return FUNCTION.findall(TEXTS[path])
    return [name for names in IN_HEADER.findall(TEXTS[path]) for name in names if name]


def users_in_c() -> dict[str, set[str]]:
    """For each file in C, the others whose functions, types and macros it uses, or that it includes."""
    places = {name: part_of(path) for path in C_FILES for name in defined(path)}
    used: dict[str, set[str]] = {part_of(path): set() for path in C_FILES}
    for path, text in TEXTS.items():
        # A declaration does not count as a use.
        words = re.findall(r"\w+", re.sub(r'"(?:[^"\\]|\\.)*"|^extern [^{}]*?;$', "", text, flags=re.M))
        included = {name for name in re.findall(r'#include "([\w/]+)\.h"', text) if name in used}
        used[part_of(path)] |= (included | {places[word] for word in words if word in places}) - {part_of(path)}
    return used


def test_there_is_no_circle_in_c() -> None:
    """Circles are found by the names used, not only by includes."""
    assert circle(users_in_c()) == set()


def test_no_source_in_c_uses_a_higher_layer() -> None:
    assert [(source, each) for source, used in users_in_c().items() for each in too_high(source, used)] == []


SQL_OBJECT = re.compile(r"CREATE (?:FUNCTION|TABLE|VIEW|TYPE) ((?:@extschema@|inorder_internal|inorder_text)\.\w+)")
SQL_USE = re.compile(r"(?:@extschema@|inorder_internal|inorder_text)\.\w+")
SQL_COMMENT = re.compile(r"--.*|^COMMENT ON (?:[^';]|'[^']*')*;", re.M)
# These files run last, and contain grants and calls for objects of all files.
RIGHTS = ("revoke", "rights")


def users_in_sql() -> dict[str, set[str]]:
    """For each file of sql/, the others whose functions, types and tables it uses.

    A name that two files define, with different arguments, is attributed to the first file.
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
    """No file uses a later one in the order in which make joins them, except for names looked up at run time."""
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


def test_without_the_laboratory_its_commands_say_what_is_missing() -> None:
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
