"""docs/guarantees.md has a row for each promise in the docs, and all link targets in the rows exist."""

import re
from pathlib import Path

import pytest

from conftest import ROOT, text
from model.checks import CHECKS, FOLDER

PAGE = ROOT / "docs" / "guarantees.md"
LINK = re.compile(r"\[([^]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
COMPLETE, INCOMPLETE = (
    [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in re.findall(r"^\| \[.*$", section, re.MULTILINE)
    ]
    for section in PAGE.read_text().split("## Which promises lack one of the four?")
)
ROWS = [*COMPLETE, *INCOMPLETE]
# Pages with promises, and the forms in which they state a promise: a paragraph, an answer, or a list item.
PAGES = ("feed", "feed-order", "feed-waiting", "feed-workers", "changes", "count", "clients/http/README")
GUARANTEE = re.compile(r"\*\*Guarantee\.\*\* (.*?)(?=[.:,;] |\.$)", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^## What (?:does it promise|is guaranteed)\?\n\n\*\*(.*?)\.?\*\*", re.MULTILINE)
ITEM = re.compile(r"^\* \*(\w[^*]*)\*:", re.MULTILINE)


def plain(content: str) -> str:
    return re.sub(r"[`*]|\s+", lambda match: " " if match[0].isspace() else "", LINK.sub(r"\1", content))


def promises(page: str) -> set[str]:
    content = text(f"docs/{page}.md")
    answers = ANSWER.findall(content) if page != "feed" else []
    listed = content.partition("## What does it promise?")[2].partition("\n## ")[0] if page == "feed" else ""
    return {plain(promise) for promise in (*GUARANTEE.findall(content), *answers, *ITEM.findall(listed))}


def test_each_guarantee_has_a_row_in_the_table() -> None:
    listed = [plain(row[0]) for row in ROWS]
    lacking = [(page, promise) for page in PAGES for promise in promises(page) if not is_listed(promise, listed)]
    assert lacking == []


def is_listed(promise: str, listed: list[str]) -> bool:
    return any(promise.startswith(row) or row.startswith(promise) for row in listed)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", LINK.findall(row[0])[0][0][:40]))
def test_everything_that_a_row_of_the_table_names_exists(row: list[str]) -> None:
    promise, _, model, schedule, tested = row
    ((words, page),) = LINK.findall(promise)
    assert plain(words).lower() in plain((PAGE.parent / page).read_text()).lower()
    if model != "–":
        check_model(model)
    if schedule.endswith(".spec)"):
        ((name, path),) = LINK.findall(schedule)
        assert Path(path).stem == name and re.search(rf"^    {name}\b", text("Makefile"), re.MULTILINE)
    ((name, path),) = LINK.findall(tested)
    assert re.search(rf"^def {name}\(", (PAGE.parent / path).read_text(), re.MULTILINE)


def check_model(cell: str) -> None:
    """Check that the TLA+ module has the named properties.

    The model checker must accept inorder's method, and find that each other method violates a property.
    """
    names, path = LINK.findall(cell)[0]
    our_method, _, other_methods = re.sub(LINK, "", cell).partition(", not ")
    (check,) = (CHECKS[name] for name in re.findall(r"`([\w-]+)`", our_method))
    assert FOLDER / f"{check.module}.tla" == (PAGE.parent / path).resolve() and not check.fails
    assert set(names.split(", ")) <= {*check.invariants, *check.properties}
    for name in re.findall(r"`([\w-]+)`", other_methods):
        assert CHECKS[name].module == check.module and CHECKS[name].fails in names.split(", ")


def test_rows_of_the_first_table_have_all_four_links() -> None:
    assert [row for row in COMPLETE if len(row) != 5 or any(not LINK.search(cell) for cell in row)] == []
    assert len(COMPLETE) > 8 and {len(row) for row in INCOMPLETE} == {5}
