"""The output of script/release, the immutability of released files, and rules for update scripts."""

import hashlib
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from inorder import __version__

import next_release
import script_rules as rules
from conftest import ROOT
from edition.join import listed
from install_script import language, made_by, option, statements
from next_release import NEXT
from script_rules import RULES, Found

RELEASED, UPDATES = ROOT / "sql" / "released", ROOT / "sql" / "update"
OF_UPDATES = tuple(rule for rule in RULES if rule is not rules.made_anew)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied_tree = tmp_path_factory.mktemp("releases") / "tree"
    next_release.copy_tree(copied_tree)
    next_release.begin_next(copied_tree)
    next_release.make_changes(copied_tree)
    return copied_tree


def joined(folder: Path) -> str:
    return "".join((folder / "sql" / f"{name}.sql").read_text() for name in listed(folder))


def versions(folder: Path) -> set[str]:
    return {path.stem.removeprefix("inorder--") for path in folder.glob("inorder--*.sql")}


def c_functions(script: str) -> dict[str, set[str]]:
    by_symbol: dict[str, set[str]] = {}
    for statement in statements(script):
        if language(statement.node) == "c":
            library = option(statement.node, "as")
            name, _, arguments = (made_by(statement.node) or "").partition("(")
            by_symbol.setdefault(library[1].sval if len(library) > 1 else name.rpartition(".")[2], set()).add(arguments)
    return by_symbol


def replaced(script: str) -> set[str]:
    return {
        name for each in statements(script) if getattr(each.node, "replace", False) and (name := made_by(each.node))
    }


def made(script: str) -> set[str]:
    return {name for each in statements(script) if (name := made_by(each.node))}


@pytest.mark.parametrize("of_checkout", [True, False])
def test_released_files_stay_unchanged(tree: Path, of_checkout: bool) -> None:
    released = RELEASED if of_checkout else tree / "sql" / "released"
    hashes = (released / "SHA256SUMS").read_text() if released.exists() else ""
    listed = {name: digest for digest, name in (line.split("  ") for line in hashes.splitlines())}
    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in released.glob("*.sql")}
    assert set(listed) == {f"{name}--{each}.sql" for each in versions(released) for name in ("inorder", "inorder-sql")}
    if of_checkout and __version__ in versions(released):
        assert joined(ROOT) == (released / f"inorder--{__version__}.sql").read_text(), "run script/release NEXT"
    if not of_checkout:
        assert (released / f"inorder--{__version__}.sql").read_text() == joined(ROOT)


def test_every_release_can_be_updated() -> None:
    steps = dict(path.stem.removeprefix("inorder--").split("--") for path in UPDATES.glob("inorder--*.sql"))
    later = sorted(versions(RELEASED) | {__version__}, key=lambda each: tuple(map(int, each.split("."))))
    assert steps == dict(pairwise(later))


@pytest.mark.parametrize("folder", ["checkout", "made up"])
def test_the_library_serves_released_versions(tree: Path, folder: str) -> None:
    now, released = (ROOT, RELEASED) if folder == "checkout" else (tree, tree / "sql" / "released")
    declared = c_functions(joined(now))
    symbols = set(
        re.findall(r"PG_FUNCTION_INFO_V1\((\w+)\)", "".join(p.read_text() for p in (now / "src").rglob("*.c")))
    )
    assert len(declared) > 50
    for version in versions(released):
        before = c_functions((released / f"inorder--{version}.sql").read_text())
        assert set(before) <= symbols | set(declared), f"functions of {version} are not in the library"
        changed = [name for name, forms in before.items() if not forms <= declared.get(name, forms)]
        assert not changed, f"arguments differ from those in {version}: give the new form another symbol"


@pytest.mark.parametrize("rule", OF_UPDATES, ids=lambda rule: rule.__name__)
def test_updates_keep_the_rules_of_install_scripts(tree: Path, rule: Callable[[str], Found]) -> None:
    for path in [*UPDATES.glob("inorder--*.sql"), *(tree / "sql" / "update").glob(f"inorder--*--{NEXT}.sql")]:
        assert not rules.broken(path.read_text(), rule), path.name
        assert not [each for each in rules.spotted(path.read_text()) if each.rule not in {"PS002"}], path.name


def test_updates_replace_only_existing_functions(tree: Path) -> None:
    """CREATE OR REPLACE for a new function could replace a function of another role, which would still own it."""
    for folder in (ROOT, tree):
        for path in (folder / "sql" / "update").glob("inorder--*.sql"):
            before, _, _ = path.stem.removeprefix("inorder--").partition("--")
            script = folder / "sql" / "released" / f"inorder--{before}.sql"
            existing = made(script.read_text()) if script.exists() else set()
            assert replaced(path.read_text()) <= existing, path.name
    assert replaced((tree / "sql" / "update" / f"inorder--{__version__}--{NEXT}.sql").read_text())


def test_release_writes_the_version_everywhere(tree: Path) -> None:
    assert f"default_version = '{NEXT}'" in (tree / "inorder.control").read_text()
    assert f'__version__ = "{NEXT}"' in (tree / "inorder" / "__init__.py").read_text()
    assert (tree / "META.json").read_text().count(f'"version": "{NEXT}"') == 2
    assert f"inorder-sql--{NEXT}.sql" in (tree / "docs" / "hosted.md").read_text()
    pages = "".join(path.read_text() for path in [*(tree / "docs").rglob("*.md"), tree / "docs" / "inorder.1"])
    assert not re.findall(rf"inorder\S*-{re.escape(__version__)}(?!\d)\S*", pages)
    newest, before = re.findall(r"^inorder \((.*)\) (\w+);", (tree / "debian" / "changelog").read_text(), re.M)[:2]
    assert newest == (f"{NEXT}-1", "UNRELEASED") and before == (f"{__version__}-1", "unstable")
    headings = re.findall(r"^## (.*)$", (tree / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == f"{NEXT} (unreleased)"
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", headings[1])


def test_release_refuses_wrong_versions_and_uncommitted_files(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    next_release.copy_tree(folder)
    for version, message in (("0.1.9", "which is later"), ("1.0", "is no version"), ("v1.0.0", "is no version")):
        assert message in next_release.release(folder, version).stderr
    if __version__ not in versions(RELEASED):
        assert "is not released" in next_release.release(folder, NEXT).stderr
        assert next_release.release(folder, __version__).returncode == 0
        assert "sql/released/" in next_release.release(folder, NEXT).stderr
        next_release.commit(folder)
    assert "give the next version" in next_release.release(folder, __version__).stderr
    (folder / "note").touch()
    done = next_release.release(folder, NEXT)
    assert done.returncode == 1 and "note" in done.stderr
    assert not list((folder / "sql" / "update").glob(f"*{NEXT}.sql"))
