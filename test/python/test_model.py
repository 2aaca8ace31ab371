"""The model of feeds in TLA+: inorder's way holds, others fail, and its names are those of the code."""

import re
import shutil

import pytest

from conftest import ROOT, text
from model.checks import CHECKS, FOLDER, check

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="the model checker needs Java")
SMALL = [name for name, wanted in CHECKS.items() if wanted.is_small]


@needs_java
@pytest.mark.parametrize("name", SMALL)
def test_holds_or_fails_as_it_must(name: str) -> None:
    result = check(name)
    assert result.failed == CHECKS[name].fails
    assert result.states > 1


def test_each_other_way_is_checked_and_must_fail() -> None:
    for module in ("Reader", "Feed", "Ordered", "Workers", "Changes"):
        text = FOLDER.joinpath(f"{module}.tla").read_text()
        own = re.findall(r'\\\* "(\w+)" is inorder\'s way', text)
        others = set(re.findall(r'Variant (?:=|#) "(\w+)"', text)) | {
            name for names in re.findall(r"Variant \\in \{(.*?)\}", text) for name in re.findall(r'"(\w+)"', names)
        }
        checked = {
            wanted.constants["Variant"].strip('"'): wanted.fails
            for wanted in CHECKS.values()
            if wanted.module == module
        }
        assert others <= set(checked)
        assert {name for name, fails in checked.items() if not fails} == set(own)


def test_names_of_the_code_exist() -> None:
    page = (FOLDER / "README.md").read_text().partition("has in common with the code")[2]
    rows = re.findall(r"^\| (.*`.*) \| (.*) \|$", page, re.MULTILINE)
    source = "\n".join(path.read_text() for path in (ROOT / "sql").rglob("*.sql"))
    model = "\n".join(path.read_text() for path in FOLDER.glob("*.tla"))
    assert len(rows) > 8
    for left, right in rows:
        for name in re.findall(r"`(\w+)", left):
            assert re.search(rf"^ *{name}\b.*==|\b{name} \|->|^ +{name},|{name} +\\\*", model, re.MULTILINE), name
        for name in re.findall(r"`(\w+)`", right):
            assert re.search(rf"CREATE FUNCTION \S+\.{name}\(", source), name


def test_what_a_copy_relies_on_is_where_the_page_says() -> None:
    """Each premise, but for those of the sink, has a function in that file, and a variant that fails without it."""
    rows = re.findall(r"^\| [^|]+ \| ([^|]*`[^|]*) \| `([\w-]+)` \|$", text("docs/changes-proof.md"), re.MULTILINE)
    assert {name for _, name in rows} == {
        name for name, wanted in CHECKS.items() if wanted.module == "Changes" and wanted.fails
    }
    for checked, _ in rows:
        for name, path in re.findall(r"`(\w+)`[^`]*?\(\[[\w.]+\]\(\.\./(\S+)\)\)", checked):
            assert f"CREATE FUNCTION inorder_internal.{name}(" in (ROOT / path).read_text(), (name, path)
