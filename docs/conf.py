"""The docs as a site: script/site builds it. README is the first page; the navigation is here."""

import json
import re
from pathlib import Path

from inorder import __version__

project = "inorder"
release = __version__
extensions = ["myst_parser"]

# The source folder is the checkout, so that links in README and docs work as in the repository.
root_doc = "README"
BESIDE = ("CHANGELOG", "CONTRIBUTING", "bench/README", "test/model/README")
include_patterns = ["README.md", "docs/**.md", *(f"{page}.md" for page in BESIDE)]
exclude_patterns = [".venv", "build", "test/python", "debian", "docs/skill"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]  # commands of psql; pages that begin with a note
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = "inorder"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"light_css_variables": {"content-padding": "2em"}}

# The parts, and their pages in the order in which they are read. A page that no part names is in the part Project.
PARTS = {
    "Keys": ("overview", "keys", "choose", "advice", "random-to-ordered", "mask", "time", "uuid_v1", "like"),
    "Lab": ("lab", "check", "check-protocol", "sets", "results/README"),
    "Feed": ("tutorial", "outbox", "feed", "feed-tables", "feed-workers", "feed-order", "feed-waiting", "feed-reader",
             "feed-operations", "feed-copies", "guarantees", "feed-proofs", "changes", "count", "recipes", "lake",
             "security"),
    "Reach": ("install", "hosted", "upgrading", "tail", "clients/README", "clients/orm", "clients/http/README", "spark",
              "dlt", "citus", "compare", "coming-from"),
    "Reference": ("reference", "commands", "troubleshooting"),
}  # fmt: skip
DOCS = Path(__file__).parent
RUNS = "```{toctree}\n:hidden:\n:glob:\n\np[1-5]\nsoak\n*-1[58]*\n```\n"


def navigation():
    """The first page's table of contents."""
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    pages -= {page for page in pages if page.startswith(("results/", "skill/"))} - {"results/README"}
    parts = {part: [page for page in names if page in pages] for part, names in PARTS.items()}
    parts["Project"] = sorted(pages.difference(*parts.values()))
    for part, names in parts.items():
        listed = [f"docs/{page}" for page in names] + (list(BESIDE) if part == "Project" else [])
        yield "\n".join(["", "```{toctree}", f":caption: {part}", ":hidden:", "", *listed, "```", ""])


# The search reads excerpts from the pages. A browser refuses to read local files, but loads their texts as a script.
TEXTS = "texts.js"
LOADED = """const texts = %s;
const fetched = window.fetch;
window.fetch = (url, ...more) =>
  String(url) in texts ? Promise.resolve(new Response(texts[url])) : fetched(url, ...more);
"""
MAIN = re.compile(r'<article role="main".*?</article>', re.DOTALL)
NO_SECTION = re.compile(r"<(?!/?section\b)[^>]*>")


def write_texts(folder):
    texts = {}
    for page in sorted(folder.rglob("*.html")):
        for article in MAIN.findall(page.read_text(encoding="utf-8")):
            texts[f"./{page.relative_to(folder)}"] = f'<div role="main">{NO_SECTION.sub(" ", article)}</div>'
    (folder / "_static" / TEXTS).write_text(LOADED % json.dumps(texts), encoding="utf-8")


def setup(app):
    """Sphinx calls this function. The pages have no table of contents, because GitHub would show it as text."""

    def with_contents(_app, page, source):
        if page == root_doc:
            source[0] += "".join(navigation())
        elif page == "docs/results/README":
            source[0] += RUNS

    def with_texts(app, page, _template, _context, _doctree):
        if page == "search":
            app.add_js_file(TEXTS)

    app.connect("source-read", with_contents)
    app.connect("html-page-context", with_texts)
    app.connect("build-finished", lambda app, failed: None if failed else write_texts(app.outdir))
