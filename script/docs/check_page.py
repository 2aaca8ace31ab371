"""Write the tables of docs/results/readers-18.md, from the verdicts in the TOML files of the readers.

``python script/docs/check_page.py [FILE…]`` writes the page. Each FILE is the output of ``inorder lab check READER…
--format json``. The verdicts in each FILE are first copied to the TOML files.
"""

import json
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inorder.lab.check.schedule import COPY_CASES
from inorder.lab.check.ways import Way, ways_below

from study_pages import table, with_parts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "readers-18.md"
FOLDERS = (ROOT / "inorder" / "lab" / "check" / "ways", ROOT / "bench" / "readers")
# Table columns, and the faults that each column shows. The cell is empty for a reader without these faults.
FAULT_COLUMNS = {"lost": ("lost",), "twice, disorder": ("twice", "disorder"), "stalled": ("stalled",)}
COPY_HEADS = ("reader", "way", "documented by", "run")
HEADS = (*COPY_HEADS, *FAULT_COLUMNS, "writers wait")
LOAD = "random load"


def ways() -> list[Way]:
    """Return all readers: first those without a project, then those of other projects, then those of inorder."""
    all_ways = [way for folder in FOLDERS for way in ways_below(folder).values()]
    return sorted(all_ways, key=lambda way: (bool(way.project) + (way.project == "inorder"), way.name))


def text(value: object) -> str:
    """Format a value in TOML, which has the same syntax as JSON for strings, numbers and lists."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {text(item)}' for name, item in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def verdict(record: dict[str, Any], date: str) -> str:
    """Return the verdict section of a reader's TOML file. ``differing`` lists the cases in which a copy differs."""
    waits, schedules = (sum(case[name] for case in record["cases"]) for name in ("writers_wait", "schedules"))
    values: dict[str, object] = {"date": date, "server": record["server"], "schedules": schedules}
    values |= {"writers_wait": waits} if waits else {}
    for fault, finding in record["faults"].items():
        values[fault] = {name: finding[name] for name in ("case", "words", "schedule") if name in finding}
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


def cell(way: Way, faults: Iterable[str]) -> str:
    return "; ".join(in_words(fault, way.verdict[fault]) for fault in faults if fault in way.verdict)


def in_words(fault: str, finding: dict[str, Any]) -> str:
    words = f"**{finding['words']}**" if fault == "lost" else finding["words"]
    return f"{words} ({finding['case']})"


def link(way: Way) -> str:
    """Return a link to a reader's TOML file, whose note says how the reader was run."""
    (file,) = (path for folder in FOLDERS if (path := folder / f"{way.name}.toml").exists())
    return f"[`{way.name}`](../../{file.relative_to(ROOT)})"


def described(way: Way) -> list[str]:
    return [link(way), way.title, documented(way), way.run if way.project else ""]


def row(way: Way) -> list[str]:
    waits, schedules = way.verdict.get("writers_wait", 0), way.verdict["schedules"]
    cells = [cell(way, faults) for faults in FAULT_COLUMNS.values()]
    return [*described(way), *cells, f"in {waits:,} of {schedules:,}" if waits else ""]


def of_case(way: Way, name: str) -> str:
    """Return the result of one case for a reader that keeps a copy of the table."""
    if any(case.name == name and case.apart for case in COPY_CASES) and way.steps == 1:
        return "-"
    return "**differs**" if name in way.verdict.get("differing", ()) else "equal"


def copies_part(copies: list[Way]) -> str:
    names = [case.name for case in COPY_CASES] + [LOAD]
    rows = [[name, *(of_case(way, name) for way in copies)] for name in names]
    cases = table(["case", *(f"`{way.name}`" for way in copies)], rows)
    return "\n".join([table(COPY_HEADS, [*map(described, copies)]), "", cases])


def with_table(page: str, all_ways: list[Way]) -> str:
    copies = [way for way in all_ways if way.copies]
    plain = [way for way in all_ways if not way.copies]
    return with_parts(page, {"ways": table(HEADS, [*map(row, plain)]), "copies": copies_part(copies)})


if __name__ == "__main__":
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for path in sys.argv[1:]:
        for record in json.loads(Path(path).read_bytes()):
            keep(record, today)
    PAGE.write_text(with_table(PAGE.read_text(), ways()))
