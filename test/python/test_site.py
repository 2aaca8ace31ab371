"""The docs as a site: each link has a target, each page can be found, and nothing is loaded from other hosts."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import site_pages
from conftest import ROOT

pytest.importorskip("furo", reason="the site of docs needs the extra `docs`: run script/site")
pytest.importorskip("myst_parser", reason="the site of docs needs the extra `docs`: run script/site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all pages, and return their folder.

    A link or an anchor without a target is an error.
    """
    folder = tmp_path_factory.mktemp("site") / "site"
    assert site_pages.build(folder) == ""
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    first = (site / "index.html").read_text()
    for page in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/clients/**/*.md"), ROOT / "CONTRIBUTING.md"]:
        assert f'href="{page.relative_to(ROOT).with_suffix(".html")}"' in first, page
    assert 'href="docs/commands.html"' in first and (site / "docs" / "commands.html").exists()
    for caption in ("Keys", "Lab", "Feed", "Reach"):
        assert f'<span class="caption-text">{caption}</span>' in first


def test_the_site_needs_no_network(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|source|iframe)[^>]*\bsrc(?:set)?=["'](?:https?:)?//|<link[^>]*href=["'](?:https?:)?//"""
    )
    for path in site.rglob("*.html"):
        assert not loaded.search(path.read_text()), path
    for path in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?:https?:)?//", path.read_text()), path


def test_pages_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert all(f'"{word}":' in index or f"{word}:" in index for word in ("standbi", "tstzrang"))


def test_the_search_shows_excerpts_of_files(site: Path) -> None:
    """The browser opens the pages from a folder, where it refuses to fetch other files."""
    chromium = shutil.which("chromium") or pytest.skip("needs Chromium")
    html = subprocess.run(
        [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000", "--dump-dom",
         f"--user-data-dir={site.parent / 'browser'}", f"file://{site}/search.html?q=poison"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert re.search(r'<p class="context">.{0,300}poison', html, re.IGNORECASE | re.DOTALL)


@pytest.mark.parametrize("link", ["other.md", "other.md#nowhere", "#nowhere", "b.md#nowhere"])
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, link: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    (tmp_path / "README.md").write_text("# First\n")
    (docs / "b.md").write_text("# B\n")
    (docs / "a.md").write_text(f"# A\n\n[there](b.md#b), [here]({link})\n")
    wrong = site_pages.build(tmp_path / "site", tmp_path)
    assert "a.md:3" in wrong and link.partition("#")[2] in wrong
