"""The tables of docs/check.md, from the files of the readers, which hold the verdicts.

``python script/docs/check_page.py [FILE…]`` writes it. Each FILE is the output of ``inorder lab check READER… --format
json``; the run may therefore be in pieces. Their results are first written into the files of the readers.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inorder.lab.check.history import COPY_FAULTS, FAULTS
from inorder.lab.check.schedule import COPY_CASES
from inorder.lab.check.ways import Way, ways_below

from study_pages import table, with_parts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "check.md"
FOLDERS = (ROOT / "inorder" / "lab" / "check" / "ways", ROOT / "bench" / "readers")
READER_FAULTS = [name for name in FAULTS if name not in COPY_FAULTS]
COPY_HEADS = ("reader", "way", "documented by", "run", "as of")
HEADS = (*COPY_HEADS, *READER_FAULTS, "writers wait")
LOAD = "random load"


def ways() -> list[Way]:
    """Ways that anybody could write, then those of projects, then ours; each by name."""
    found = [way for folder in FOLDERS for way in ways_below(folder).values()]
    return sorted(found, key=lambda way: (bool(way.project) + (way.project == "inorder"), way.name))


def text(value: object) -> str:
    """A value in TOML; JSON writes strings, numbers and lists in the same way."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {text(one)}' for name, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def verdict(record: dict[str, Any], date: str) -> str:
    """The part of a reader's file that holds its result; ``differing``: cases in which a copy differs."""
    waits, schedules = (sum(case[name] for case in record["cases"]) for name in ("writers_wait", "schedules"))
    values: dict[str, object] = {"date": date, "server": record["server"], "schedules": schedules}
    values |= {"writers_wait": waits} if waits else {}
    for fault, found in record["faults"].items():
        values[fault] = {name: found[name] for name in ("case", "words", "schedule") if name in found}
    if "differs" in record["faults"]:
        values["differing"] = [case["case"] for case in record["cases"] if case["faults"]]
    lines = [f"{name} = {text(value)}" for name, value in values.items()]
    return "\n".join(["", f"[{record['reader']}.verdict]", *lines, ""])


def keep(record: dict[str, Any], date: str) -> None:
    (file,) = (path for folder in FOLDERS if (path := folder / f"{record['reader']}.toml").exists())
    described = re.split(r"\n\[.*\.verdict\]\n", file.read_text())[0]
    file.write_text(described + verdict(record, date))


def documented(way: Way) -> str:
    project = f"[{way.project}]({way.source})" if way.source else way.project
    return " ".join(filter(None, (project, way.version)))


def cell(way: Way, fault: str) -> str:
    if (found := way.verdict.get(fault)) is None:
        return "no"
    words = f"**{found['words']}**" if fault == "lost" else found["words"]
    return f"{words} ({found['case']})"


def described(way: Way) -> list[str]:
    return [f"`{way.name}`", way.title, documented(way), way.run if way.project else "", way.verdict["date"]]


def row(way: Way) -> list[str]:
    waits, schedules = way.verdict.get("writers_wait", 0), way.verdict["schedules"]
    cells = [cell(way, fault) for fault in READER_FAULTS]
    return [*described(way), *cells, f"in {waits:,} of {schedules:,}" if waits else "no"]


def of_case(way: Way, name: str) -> str:
    """The result of a reader that keeps a copy, in one case."""
    if any(case.name == name and case.apart for case in COPY_CASES) and way.steps == 1:
        return "-"
    return "**differs**" if name in way.verdict.get("differing", ()) else "equal"


def copies_part(copies: list[Way]) -> str:
    names = [case.name for case in COPY_CASES] + [LOAD]
    rows = [[name, *(of_case(way, name) for way in copies)] for name in names]
    cases = table(["case", *(f"`{way.name}`" for way in copies)], rows)
    return "\n".join([table(COPY_HEADS, [*map(described, copies)]), "", *notes(copies), "", cases])


def notes(found: list[Way]) -> Iterator[str]:
    return (f"* `{way.name}`: {way.note}." for way in found if way.note)


def with_table(page: str, found: list[Way]) -> str:
    copies = [way for way in found if way.copies]
    others = [way for way in found if not way.copies]
    readers = "\n".join([table(HEADS, [*map(row, others)]), "", *notes(others)])
    return with_parts(page, {"ways": readers, "copies": copies_part(copies)})


if __name__ == "__main__":
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for path in sys.argv[1:]:
        for one in json.loads(Path(path).read_bytes()):
            keep(one, today)
    PAGE.write_text(with_table(PAGE.read_text(), ways()))
