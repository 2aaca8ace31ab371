"""The WAL between two positions: sizes of records and full-page images, and the changed blocks of an index.

pg_waldump reads the WAL files of a server on this machine. The figures are exact, and do not depend on other load on
the machine.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inorder.errors import InorderError, on_error

TOTAL = re.compile(r"^Total\s+(\d+)\s+(\d+) \[.*?\]\s+(\d+) \[", re.M)
RECORD = re.compile(r"len \(rec/tot\): +(\d+)/ +(\d+),.* desc: (\S+)")
BLOCK = re.compile(r"blkref #\d+: rel (\S+)(?: fork (\w+))? blk (\d+)( FPW)?")
FIGURES = ("bytes", "image_bytes", "images", "splits", "blocks")


@dataclass(frozen=True)
class Span:
    program: Path
    folder: Path
    start: str
    end: str

    def arguments(self) -> list[str]:
        return [str(self.program), "-p", str(self.folder), "-s", self.start, "-e", self.end]


def split(span: Span) -> dict[str, float]:
    if span.start == span.end:
        return {"record_bytes": 0, "image_bytes": 0}
    process = subprocess.run([*span.arguments(), "--stats"], check=False, capture_output=True, text=True)
    if process.returncode != 0:
        raise InorderError(f"pg_waldump failed: {process.stderr.strip()}")
    return split_of(process.stdout)


def split_of(statistics: str) -> dict[str, float]:
    """Parse the last line of pg_waldump --stats.

    >>> split_of("Total      40098       3204630 [90.00%]      350000 [10.00%]      3554630 [100%]")
    {'record_bytes': 3204630, 'image_bytes': 350000}
    """
    total = TOTAL.search(statistics)
    if total is None:
        raise InorderError(f"pg_waldump gave no total:\n{statistics[-500:]}")
    return {"record_bytes": int(total.group(2)), "image_bytes": int(total.group(3))}


def touched(span: Span, relation: str) -> set[int]:
    return {block for line in lines_of(span, f"--relation={relation}") for block in blocks_of(line, relation)}


def lines_of(span: Span, *options: str) -> Iterator[str]:
    if span.start == span.end:
        return
    command = [*span.arguments(), *options]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        with on_error(process.kill):
            yield from process.stdout
            fault = process.stderr.read()
    if process.returncode != 0:
        raise InorderError(f"pg_waldump failed: {fault.strip()}")


def blocks_of(line: str, relation: str) -> list[int]:
    """Return the blocks of a relation's main fork that one record changed.

    >>> blocks_of("desc: SPLIT_R …, blkref #0: rel 1663/5/9 blk 7, blkref #1: rel 1663/5/9 blk 8", "1663/5/9")
    [7, 8]
    >>> blocks_of("blkref #0: rel 1663/5/9 fork fsm blk 2 FPW, blkref #1: rel 1663/5/8 blk 3", "1663/5/9")
    []
    """
    blocks = BLOCK.findall(line)
    return [int(block) for name, fork, block, _ in blocks if name == relation and fork in ("", "main")]


def by_relation(span: Span) -> dict[str, dict[str, float]]:
    """Return the FIGURES of each relation ("tablespace/database/file"; "" for records without a relation).

    The figures are: bytes of records with their images, bytes of images, images, btree page splits, and distinct blocks
    changed. A record is assigned to the relation of its first block.
    """
    figures: dict[str, dict[str, float]] = {}
    blocks: set[tuple[str, str]] = set()
    for line in lines_of(span):
        if not (record := RECORD.search(line)):
            continue
        changed = BLOCK.findall(line)
        relation = changed[0][0] if changed else ""
        sums = figures.setdefault(relation, dict.fromkeys(FIGURES, 0.0))
        sums["bytes"] += int(record[2])
        sums["image_bytes"] += int(record[2]) - int(record[1])
        sums["images"] += sum(bool(image) for *_, image in changed)
        sums["splits"] += record[3].startswith("SPLIT")
        new = {(name, block) for name, fork, block, _ in changed if fork in ("", "main")} - blocks
        blocks |= new
        sums["blocks"] += len(new)
    return figures
