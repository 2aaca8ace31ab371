"""Write docs/llms.txt, a list of the pages, and docs/skill/SKILL.md, which tells agents when and how to use inorder.

``python script/docs/agents.py`` writes both files. SKILL.md consists of the sections in ``SECTIONS``.
"""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST, SKILL = ROOT / "docs" / "llms.txt", ROOT / "docs" / "skill" / "SKILL.md"

HEAD = """---
name: lossless-polling
description: Use when code reads new or changed rows of a PostgreSQL table by polling, a cursor or a page token
  (WHERE id > last, created_at > last, updated_at > last), or when an outbox, event store, queue, sync or export is
  written. Tells whether the reader loses rows, shows a schedule in which a row is lost, and has remedies with
  and without inorder.
---

# Polling a table without losing rows

script/docs/agents.py makes this file from the pages named below.
"""
# The skill consists of these sections of pages. An empty heading stands for the text above the first heading.
SECTIONS = (
    ("sets.md", "Is my polling safe?"),
    ("check.md", ""),
    ("sets.md", "The ten-line form"),
    ("feed.md", ""),
    ("feed.md", "What does it promise?"),
)


def parts_of(page: str) -> dict[str, str]:
    """Return the sections of a page by heading, without HTML comments. The section "" begins with the title."""
    text = re.sub(r"<!--.*?-->\n*", "", (ROOT / "docs" / page).read_text(), flags=re.S)
    head, *sections = re.split(r"^## ", text, flags=re.M)
    return {"": head} | {heading: body for heading, _, body in (section.partition("\n") for section in sections)}


def title_of(page: str) -> str:
    return parts_of(page)[""].partition("\n")[0].removeprefix("# ")


def with_addresses(text: str) -> str:
    """Change the links in a text so that they work from the folder of the skill.

    >>> with_addresses("[a](check.md#b), [c](#d), [e](https://f)")
    '[a](../check.md#b), c, [e](https://f)'
    """
    text = re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", text)
    return re.sub(r"\]\((?!https?:)", "](../", text)


def skill() -> str:
    blocks = [HEAD]
    for page, heading in SECTIONS:
        body = parts_of(page)[heading]
        name, body = (heading, body) if heading else (title_of(page), body.partition("\n")[2])
        blocks.append(f"## {name}\n\nFrom [docs/{page}](../{page}).\n\n{with_addresses(body).strip()}\n")
    return "\n".join(blocks)


def pages() -> Iterator[tuple[str, list[str]]]:
    """Yield each part of the site with its pages."""
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs" / "conf.py")
    assert spec and spec.loader
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    for title, names in conf.PARTS.items():
        yield title, [f"{name}.md" for name in names if (ROOT / "docs" / f"{name}.md").exists()]


def first_sentence(page: str) -> str:
    """Return the first sentence of a page's prose, without links and bold type."""
    body = re.sub(r"^```.*?^```", "", (ROOT / "docs" / page).read_text(), flags=re.M | re.S)
    prose = next((paragraph for paragraph in body.split("\n\n")[1:] if re.match(r"\s*(?![|>*] |<|#)\S", paragraph)), "")
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(prose.replace("**", "").split()))
    return re.split(r"(?<=[.:?])\s", text)[0].rstrip(":")


def llms() -> str:
    summary = (ROOT / "README.md").read_text().split("\n\n")[1].strip("*")
    agents = "[A skill for agents: polling a table without losing rows](skill/SKILL.md)"
    blocks = [f"# inorder\n\n> {summary}\n\n* {agents}\n"]
    for title, names in pages():
        lines = [f"* [{title_of(name)}]({name}): {first_sentence(name)}".removesuffix(": ") for name in names]
        blocks.append("\n".join([f"## {title}\n", *lines, ""]))
    return "\n".join(blocks)


if __name__ == "__main__":
    SKILL.parent.mkdir(exist_ok=True)
    SKILL.write_text(skill())
    LIST.write_text(llms())
