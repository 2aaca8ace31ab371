"""The table of docs/check.md, from the kept run of inorder lab check: docs/results/check-18.json.gz.

``python script/docs/check_page.py [FILE]`` writes it. FILE, what ``inorder lab check NAME… --format json`` printed, is
kept first.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "check.md", DOCS / "results" / "check-18.json.gz"
BEGIN, END = "<!-- ways -->\n", "<!-- end of ways -->\n"
FAULTS = ("lost", "twice", "disorder", "stalled")
HEAD = (
    "| reader | way | documented by | run | lost | twice | disorder | stalled | writers wait |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def documented(one: dict[str, Any]) -> str:
    project = f"[{one['project']}]({one['source']})" if one["source"] else one["project"]
    return " ".join(filter(None, (project, one["version"])))


def row(one: dict[str, Any]) -> str:
    found = {fault: f"{value['case']}: {value['words']}" for fault, value in one["faults"].items()}
    waits, schedules = (sum(case[name] for case in one["cases"]) for name in ("writers_wait", "schedules"))
    cells = [
        f"`{one['reader']}`", one["title"], documented(one), one["run"] if one["project"] else "",
        *(found.get(fault, "no") for fault in FAULTS), f"in {waits:,} of {schedules:,}" if waits else "no",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |\n"


def table(records: list[dict[str, Any]]) -> str:
    notes = [f"* `{one['reader']}`: {one['note']}.\n" for one in records if one["note"]]
    return HEAD + "".join(map(row, records)) + "\n" + "".join(notes)


def with_table(page: str, records: list[dict[str, Any]]) -> str:
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table(records) + END + rest.partition(END)[2]


def kept() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(KEPT.read_bytes()))
    return found


if __name__ == "__main__":
    if sys.argv[1:]:
        KEPT.write_bytes(gzip.compress(Path(sys.argv[1]).read_bytes(), mtime=0))
    PAGE.write_text(with_table(PAGE.read_text(), kept()))
