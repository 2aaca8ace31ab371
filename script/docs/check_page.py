"""The tables of docs/check.md, from the kept run of inorder lab check: docs/results/check-18.json.gz.

``python script/docs/check_page.py [FILE…]`` writes it. Each FILE is the output of ``inorder lab check READER… --format
json``; the run may therefore be in pieces. They are kept first, without the scripts for psql. Readers that are in no
FILE keep their previous results.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from inorder.lab.check.history import COPY_FAULTS, FAULTS
from inorder.lab.check.schedule import COPY_CASES
from inorder.lab.check.ways import Way, built_in, ways_in

from study_pages import table, with_parts

ROOT = Path(__file__).parents[2]
PAGE, KEPT = ROOT / "docs" / "check.md", ROOT / "docs" / "results" / "check-18.json.gz"
READERS = ROOT / "bench" / "readers"
READER_FAULTS = [name for name in FAULTS if name not in COPY_FAULTS]
HEADS = ("reader", "way", "documented by", "run", *READER_FAULTS, "writers wait")
COPY_HEADS = ("reader", "way", "documented by", "run")
LOAD = "random load"
DESCRIBED = ("reader", "title", "project", "version", "source", "run", "note")


def ways() -> list[Way]:
    """The built-in ways, and those that projects document, each followed by the library of its project."""
    documented, libraries = (ways_in((READERS / name).read_text()) for name in ("documented.toml", "ways.toml"))
    return [
        each
        for way in (built_in() | documented).values()
        for each in (way, *(one for one in libraries.values() if one.project == way.project and not way.copies))
    ]


def described(way: Way) -> dict[str, str]:
    return {name: getattr(way, "name" if name == "reader" else name) for name in DESCRIBED}


def documented(one: dict[str, Any]) -> str:
    project = f"[{one['project']}]({one['source']})" if one["source"] else one["project"]
    return " ".join(filter(None, (project, one["version"])))


def cell(one: dict[str, Any], fault: str) -> str:
    if (found := one["faults"].get(fault)) is None:
        return "no"
    return f"**{found['case']}**, {found['words']}" if fault == "lost" else f"{found['case']}, {found['words']}"


def row(one: dict[str, Any]) -> list[str]:
    waits, schedules = (sum(case[name] for case in one["cases"]) for name in ("writers_wait", "schedules"))
    return [
        f"`{one['reader']}`", one["title"], documented(one), one["run"] if one["project"] else "",
        *(cell(one, fault) for fault in READER_FAULTS), f"in {waits:,} of {schedules:,}" if waits else "no",
    ]  # fmt: skip


def verdict(one: dict[str, Any], name: str) -> str:
    """The result of a reader that keeps a copy, in one case."""
    (case,) = [case for case in one["cases"] if case["case"] == name]
    return "**differs**" if case["faults"] else "equal" if case["schedules"] or name == LOAD else "-"


def copies_part(records: list[dict[str, Any]]) -> str:
    names = [case.name for case in COPY_CASES] + [LOAD]
    rows = [[name, *(verdict(one, name) for one in records)] for name in names]
    described = [row(one)[: len(COPY_HEADS)] for one in records]
    cases = table(["case", *(one[0] for one in described)], rows)
    return "\n".join([table(COPY_HEADS, described), "", *notes(records), "", cases])


def notes(records: list[dict[str, Any]]) -> list[str]:
    return [f"* `{one['reader']}`: {one['note']}." for one in records if one["note"]]


def with_table(page: str, records: list[dict[str, Any]]) -> str:
    keeps_copy = {way.name for way in ways() if way.copies}
    copies = [one for one in records if one["reader"] in keeps_copy]
    others = [one for one in records if one["reader"] not in keeps_copy]
    readers = "\n".join([table(HEADS, [*map(row, others)]), "", *notes(others)])
    return with_parts(page, {"ways": readers, "copies": copies_part(copies)})


def kept() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(KEPT.read_bytes()))
    return found


def keep(files: list[str]) -> None:
    """Keep new results, with the present descriptions of the readers, in the order of their files."""
    found = {one["reader"]: one for one in kept()}
    found |= {one["reader"]: one for file in files for one in json.loads(Path(file).read_bytes())}
    records = [found[way.name] | described(way) for way in ways()]
    for one in records:
        for fault in one["faults"].values():
            fault.pop("psql", None)
    KEPT.write_bytes(gzip.compress(json.dumps(records, indent=1).encode(), mtime=0))


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(sys.argv[1:])
    PAGE.write_text(with_table(PAGE.read_text(), kept()))
