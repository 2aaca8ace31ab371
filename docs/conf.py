"""The docs as a site: script/site builds it. README is the first page; the navigation is here."""

from pathlib import Path

from inorder import __version__

project = "inorder"
release = __version__
extensions = ["myst_parser"]

# The source folder is the checkout, so that links of README and of docs are those of the repository.
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "bench/README.md"]
exclude_patterns = [".venv", "build", "test", "debian"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]  # commands of psql; pages that begin with a note
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = "inorder"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"light_css_variables": {"content-padding": "2em"}}

# By part, in the order in which they are read. Pages that none names are in the last part.
PARTS = {
    "Keys": ("keys", "choose", "time", "uuid_v1", "several-nodes", "lookup", "like", "waves", "generate"),
    "Lab": ("lab", "model", "results/README"),
    "Feed": ("tutorial", "feed", "feed-tables", "feed-workers", "feed-order", "feed-waiting", "feed-reader", "feed-operations", "feed-proofs",
             "count", "recipes", "security"),
    "Reach": ("install", "hosted", "upgrading", "tail", "clients/README", "clients/orm", "spark", "dlt", "citus",
              "scale", "compare"),
    "Reference": ("reference", "commands", "troubleshooting"),
}  # fmt: skip
DOCS = Path(__file__).parent
RUNS = "```{toctree}\n:hidden:\n:glob:\n\np[1-5]\n*-1[58]*\n```\n"


def navigation():
    """The first page's table of contents."""
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    pages -= {page for page in pages if page.startswith("results/")} - {"results/README"}
    parts = {part: [page for page in names if page in pages] for part, names in PARTS.items()}
    parts["Project"] = sorted(pages.difference(*parts.values()))
    for part, names in parts.items():
        listed = [f"docs/{page}" for page in names] + (["CHANGELOG", "CONTRIBUTING", "bench/README"] if part == "Project" else [])
        yield "\n".join(["", "```{toctree}", f":caption: {part}", ":hidden:", "", *listed, "```", ""])


def setup(app):
    """Sphinx calls it. GitHub would show a table of contents as text, so that the pages have none."""

    def with_contents(_app, page, source):
        if page == root_doc:
            source[0] += "".join(navigation())
        elif page == "docs/results/README":
            source[0] += RUNS

    app.connect("source-read", with_contents)
