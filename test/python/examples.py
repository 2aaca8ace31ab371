"""The examples in README and docs: blocks of SQL and shell commands, and the output that they must print.

psql runs each block of ``sql``, and a shell runs each block of ``sh``, in the order of the page. A comment, ``<!-- sql
… -->`` or ``<!-- sh … -->``, is run like a block, and prepares the block after it; ``<!-- new database -->`` creates a
new database. A block of ``output`` shows the output of the block before it. Keys, times and ``…`` in it match any
others.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
NEW_DATABASE = "new database"
RUN_HERE = ("sql", "sh")
OUTPUT = "output"

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^ *```$"
    r"|^<!-- (?P<hidden>sql|sh|new database)(?P<setup>.*?)-->$",
    re.MULTILINE | re.DOTALL,
)
KEY = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d"


@dataclass(frozen=True)
class Block:
    """A block of a page, or a comment that is run like a block. ``prints`` is the required output, if any."""

    document: str
    line: int
    language: str
    text: str
    hidden: bool = False
    prints: str | None = None

    @property
    def name(self) -> str:
        lines = [line for line in self.text.splitlines() if line.strip() and not line.startswith(("#", "--"))]
        return re.split(r"\s{2,}", (lines or [self.text])[0].strip())[0]


def documents() -> list[str]:
    """Return the pages with examples. The skill is left out, because it is generated from other pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in pages if path.name != "SKILL.md"]


def blocks(document: str) -> list[Block]:
    content = (ROOT / document).read_text(encoding="utf-8")
    listed: list[Block] = []
    end = 0
    for match in BLOCK.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        assert not match["indent"], f"{document}:{line}: a block is indented"
        language, text = match["language"] or match["hidden"] or "", match["text"] or match["setup"] or ""
        if language == OUTPUT and listed and not content[end : match.start()].strip():
            listed[-1] = replace(listed[-1], prints=text)
        else:
            listed.append(Block(document, line, language, text, match["hidden"] is not None))
        end = match.end()
    return listed


def programs(document: str) -> dict[str, str]:
    matches = (re.match(r"(?:#|--) (\w+: [\w ./]+)\n(.*)", block.text, re.DOTALL) for block in blocks(document))
    return {match[1]: match[2] for match in matches if match}


def python_with(document: str, words: str) -> str:
    (code,) = (block.text for block in blocks(document) if block.language == "python" and words in block.text)
    return code


def comparable(text: str) -> str:
    lines = (" ".join(re.sub(r"-{3,}", "-", line).split()) for line in text.strip().splitlines())
    return re.sub(TIME, "TIME", re.sub(KEY, "KEY", "\n".join(lines)))


def is_printed(expected: str, printed: str) -> bool:
    """Return True if the output matches the output that the page shows.

    >>> is_printed("  n | at\\n----+----\\n  1 | …", " n  |  at\\n----+------\\n 1  | x"), is_printed("1", "2")
    (True, False)
    >>> is_printed("at 2026-01-01 00:00:00+00", "at 2030-12-31 01:02:03.456+01")
    True
    """
    pattern = ".*?".join(map(re.escape, comparable(expected).split("…")))
    return re.fullmatch(pattern, comparable(printed)) is not None


def parsed(
    command: click.Command, words: list[str], parent: click.Context | None = None, name: str = "inorder"
) -> None:
    if isinstance(command, click.Group):
        context = click.Context(command, parent=parent, info_name=name)
        subcommand, below, arguments = command.resolve_command(context, words)
        assert below
        parsed(below, arguments, context, subcommand or "")
    else:
        command.make_context(name, words, parent=parent)
