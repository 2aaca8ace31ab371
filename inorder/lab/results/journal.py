"""The result file, in JSON Lines format. Each measurement appends a line.

The first line describes the plan, the server and the method. Every other line is a measurement, a note, or the end
marker. The file of an interrupted run can be read, and a resumed run appends to it.
"""

import gzip
import re
import zlib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated

import msgspec

from inorder.errors import InorderError, InputError
from inorder.files import failed, partial_of, write_whole
from inorder.lab.results.result import Head, Result, Run, shortened

SCHEMA_VERSION = 2
MOST = 10**18  # larger than any count or measurement: bytes, rows, nanoseconds

GZIPPED = b"\x1f\x8b"  # the first bytes of a gzip file

# A result in an HTML page, as written by ``embedded``.
EMBEDDED = re.compile(rb'<script type="application/jsonl" id="inorder-result-\d+">(.*?)</script>', re.DOTALL)

Bounds = msgspec.Meta(ge=-MOST, le=MOST)
Number = Annotated[int, Bounds] | Annotated[float, Bounds]


@dataclass
class FirstLine(Head):
    schema: int


@dataclass(frozen=True)
class StoredRun:
    """A measurement as stored in a file. The types of its fields are checked when the file is read."""

    step: str
    kind: str
    rows: int
    round: int
    metrics: dict[str, Number]
    series: dict[str, list[Number]] = field(default_factory=dict)


class JournalLine(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    result: FirstLine | None = None
    run: StoredRun | None = None
    note: str | None = None
    complete: bool = False


def as_line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def head_of(result: Result) -> bytes:
    values = {f.name: getattr(result, f.name) for f in fields(Head)}
    return as_line({"result": {"schema": SCHEMA_VERSION} | values})


def run_line(run: Run) -> bytes:
    return as_line({"run": asdict(run)})


END = as_line({"complete": True})


def lines_of(result: Result) -> bytes:
    lines = [head_of(result), *(as_line({"note": note}) for note in result.notes), *map(run_line, result.runs)]
    return b"".join([*lines, END] if result.complete else lines)


def usual_name(experiment: str) -> str:
    return f"inorder-{experiment}.jsonl"


class Journal:
    """The file of one run. New measurements are appended. Any other change rewrites the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0  # number of measurements in the file
        self.last: Run | None = None
        self.before: tuple[bytes, list[str]] | None = None  # the first line and the notes as last written

    def save(self, result: Result) -> None:
        before = head_of(result), list(result.notes)
        grown = len(result.runs) >= self.written and (self.written == 0 or result.runs[self.written - 1] is self.last)
        if grown and self.before == before and self.path.exists():
            self.append(b"".join(map(run_line, result.runs[self.written :])) + (END if result.complete else b""))
        else:
            write_whole(self.path, lines_of(result).decode())
        self.before, self.written = before, len(result.runs)
        self.last = result.runs[-1] if result.runs else None

    def append(self, lines: bytes) -> None:
        """Append lines. If the disk is full, a partial line may remain, which is ignored when the file is read."""
        target, _ = partial_of(self.path)
        try:
            with target.open("ab") as file:
                file.write(lines)
        except OSError as error:
            raise InorderError(f"cannot write {self.path}: {error.strerror}") from error


def save(result: Result, path: Path) -> None:
    Journal(path).save(result)


def load(path: Path) -> Result:
    return parse(content_of(path), str(path))


def load_all(path: Path) -> list[Result]:
    content = content_of(path)
    if not content.startswith(b"<!DOCTYPE html>"):
        return [parse(content, str(path))]
    contents = EMBEDDED.findall(content)
    if not contents:
        raise InputError(f"{path} is a page without results")
    return [parse(lines, str(path)) for lines in contents]


def embedded(result: Result, number: int) -> str:
    """Return the file as an HTML element, encoded so that its content cannot end the element."""
    lines = lines_of(result).decode().replace("<", "\\u003c")
    return f'<script type="application/jsonl" id="inorder-result-{number}">{lines}</script>'


def content_of(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is a gzip file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise failed(f"cannot read {path}", error) from error
    try:
        return gzip.decompress(content) if content.startswith(GZIPPED) else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def parse(content: bytes, name: str) -> Result:
    require_version(content, name)
    try:
        return parse_lines(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is damaged: {shortened(error)}") from error


def require_version(content: bytes, name: str) -> None:
    try:
        first = msgspec.json.decode(content.partition(b"\n")[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{name} is not a result file: {shortened(error)}") from error
    head = first.get("result") if isinstance(first, dict) else None
    version = head.get("schema") if isinstance(head, dict) else None
    if not isinstance(version, int):
        raise InputError(f"{name} is not a result file: it has no schema version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{name} has schema version {shortened(version)}; this version of inorder reads {SCHEMA_VERSION}"
        )


def parse_lines(content: bytes) -> Result:
    """Parse the lines of a file. Ignore a partial last line, which an interruption may have left."""
    lines = [msgspec.json.decode(line, type=JournalLine) for line in content.split(b"\n")[:-1]]
    if not lines or lines[0].result is None or any(line.result for line in lines[1:]):
        raise msgspec.ValidationError("only the first line can describe the run")
    result = Result(**{field.name: getattr(lines[0].result, field.name) for field in fields(Head)})
    samples = [line.run for line in lines if line.run]
    result.runs = [Run(s.step, s.kind, s.rows, s.round, dict(s.metrics), dict(s.series)) for s in samples]
    result.notes = [line.note for line in lines if line.note is not None]
    result.complete = any(line.complete for line in lines)
    return result
