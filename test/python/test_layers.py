"""Which module may import which: what CONTRIBUTING draws."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import inorder
import pytest
from inorder.cli import COMMANDS

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


def reached(start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports().get(waiting.pop(), set()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def is_in(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def experiment_of(name: str) -> str:
    return name.removeprefix("inorder.lab.experiments.").split(".")[0]


EXPERIMENTS = [name for name in MODULES if name.startswith("inorder.lab.experiments.")]


def test_there_is_no_circle() -> None:
    assert [name for name in MODULES if name in reached(name)] == []


LOOSE = {name for name, path in MODULES.items() if path.parent == PACKAGE}  # in no folder


def folder_of(name: str) -> str:
    """The folder of the package that a module is in; itself where it is in none."""
    return name if name in LOOSE else ".".join(name.split(".")[:2])


def test_there_is_no_circle_of_folders() -> None:
    below = {folder_of(name): set[str]() for name in MODULES}
    for name in MODULES:
        below[folder_of(name)] |= {folder_of(other) for other in imports()[name]} - {folder_of(name)}
    assert [(name, other) for name in LOOSE for other in below[name] - LOOSE] == []
    while ground := [folder for folder, needed in below.items() if not needed & below.keys()]:
        for folder in ground:
            del below[folder]
    assert below == {}


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
    found = {(name.split(".")[1], other) for name in run for other in reached(name) if is_in(other, *laboratory)}
    calculated = ("inorder.lab", "inorder.lab.keys", "inorder.lab.analysis", "inorder.lab.analysis.model")
    reported = {"inorder.lab.report", "inorder.lab.report.section", "inorder.lab.report.formats"}
    reported |= {other for module in reported for other in reached(module)}
    allowed = {"choose": {*calculated}, "advise": {*calculated, *reported}}
    assert [pair for pair in found if pair[1] not in allowed.get(pair[0], ())] == []


ENGINES = ("inorder.dlt", "inorder.spark")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_loaded_by_nobody_else(engine: str) -> None:
    assert not [
        name for name in MODULES if not is_in(name, engine) and any(is_in(other, engine) for other in imports()[name])
    ]
    others = {other for name in MODULES if is_in(name, engine) for other in reached(name) if not is_in(other, engine)}
    known = ["inorder.arrow", "inorder.connection", "inorder.errors", "inorder.text"]
    if engine == "inorder.spark":
        known += [f"inorder.citus.{name}" for name in ("handover", "moves", "shards")]
    assert [name for name in others if not is_in(name, *known)] == []


@pytest.mark.parametrize("name", ["columns", "driver", "offsets", "options", "shards"])
def test_what_the_driver_decides_needs_no_engine(name: str) -> None:
    source = MODULES[f"inorder.spark.{name}"].read_text(encoding="utf-8")
    assert not [line for line in source.splitlines() if "import" in line and "pyspark" in line]


@pytest.mark.parametrize(
    ("package", "not_above"),
    [
        ("inorder.lab.instruments", ("hosts", "targets", "experiments", "runner", "experiment", "session")),
        ("inorder.lab.targets", ("hosts", "experiments", "runner", "experiment", "session")),
        ("inorder.lab.analysis", ("hosts", "targets", "experiments", "runner", "experiment", "session")),
        ("inorder.lab.experiments", ("runner", "session", "hosts")),
        ("inorder.lab.report", ("hosts", "targets", "server", "runner", "session", "instruments.counters")),
    ],
)
def test_imports_go_downwards(package: str, not_above: tuple[str, ...]) -> None:
    above = tuple(f"inorder.lab.{name}" for name in not_above)
    for name in MODULES:
        if is_in(name, package):
            found = [other for other in imports()[name] if is_in(other, *above, "inorder.commands", "inorder.cli")]
            assert not found, name


def test_a_report_needs_no_server() -> None:
    quiet = ("inorder.lab.report", "inorder.lab.analysis")
    assert [
        name
        for name in MODULES
        if is_in(name, *quiet) and any(is_in(other, "inorder.connection") for other in imports()[name])
    ] == []


def test_statistics_import_nothing_of_ours() -> None:
    assert imports()["inorder.lab.analysis.stats"] == set()


def test_no_experiment_asks_whose_server_it_is() -> None:
    servers = {"inorder.lab.server.cluster", "inorder.lab.targets.throw_away", "inorder.lab.targets.own_server"}
    assert [name for name in EXPERIMENTS if imports()[name] & servers] == []
    assert [name for name in EXPERIMENTS if ".cluster" in MODULES[name].read_text(encoding="utf-8")] == []
