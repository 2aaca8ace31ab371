"""Ways to read a table, as data: the table, the INSERT statement, and the reader's poll.

A way is defined by options or by a file.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from inorder.connection.database import literal
from inorder.errors import InputError
from inorder.files import failed
from inorder.lab.check.diagram import statements
from inorder.lab.check.history import COPY_FAULTS, FAULTS
from inorder.lab.check.schedule import CASES, COPY_CASES, SHORT, WRITERS, Case, Transaction
from inorder.text import listed

# A schedule has its own clock. These functions would read the server's clock instead.
CLOCKS = re.compile(r"\b(now\(|clock_timestamp|statement_timestamp|current_timestamp|localtimestamp)", re.I)
FATAL = ("lost", "twice", "differs")
NAME = re.compile(r"(?<![:\w]):([a-z_]\w*)")

TABLE = """
CREATE SEQUENCE ids;
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT nextval('ids'), created_at timestamptz NOT NULL,
    xact bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint);
"""
COPIED_ROWS = 400
COPIED = f"""
CREATE SEQUENCE ids;
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT nextval('ids'), updated_at timestamptz NOT NULL);
INSERT INTO events SELECT nextval('ids'), '2000-01-01' FROM generate_series(1, {COPIED_ROWS});
CREATE TABLE copy (LIKE events INCLUDING INDEXES);
INSERT INTO copy TABLE events;
"""
INSERT = "INSERT INTO events (id, created_at) VALUES (:id, :created_at) RETURNING id"


@dataclass(frozen=True)
class Way:
    """A way to read a table.

    * ``start``: initial values of the names in ``poll``.
    * ``begin``, ``read``: the statements that begin a transaction of a writer and of the reader.
    * ``finish``: a statement that runs after the rows of a poll are stored.
    * ``needs``: "inorder" if the way needs the extension, or "logical" if it needs wal_level = logical.
    * ``copies``: the poll maintains a table ``copy``, and ``setup`` creates any other objects that the poll needs.
    * ``listen``: a channel. The payload of a notification is a key, which the reader receives with its next poll.
    * ``project``, ``version``, ``source``: the project that documents the way.
    * ``run``: what the check runs: the project's program, its query, or another query that follows the same rule.
    * ``note``: a remark.
    * ``verdict``: the recorded result.
    """

    name: str
    title: str
    poll: str = ""
    setup: str = TABLE
    insert: str = INSERT
    copies: bool = False
    begin: str = "BEGIN"
    read: str = "BEGIN"
    finish: str = ""
    listen: str = ""
    teardown: str = ""
    start: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    project: str = ""
    version: str = ""
    source: str = ""
    run: str = "its query"
    note: str = ""
    program: str = ""
    verdict: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if wrong := CLOCKS.search(self.poll + self.finish):
            clock = wrong[0].rstrip("(")
            raise InputError(f"{self.label}: the poll uses {clock}; HINT: Use :now, the clock of the schedule.")
        if not (self.program or self.statements):
            raise InputError(f"{self.name} has neither a poll nor a program")
        names = NAME.findall("" if self.program else self.statements[0])
        if missing := [name for name in names if name not in self.start and name != "now"]:
            raise InputError(f"{self.label}: {no_value(missing[0])}")

    @property
    def label(self) -> str:
        """The name for messages. A reader given by an option is named after the option."""
        return f"--{self.name}" if self.name in ("sql", "program") else self.name

    @property
    def statements(self) -> list[str]:
        return statements(self.poll)

    @property
    def steps(self) -> int:
        """The number of steps in a poll: its statements and ``finish``. A program's poll is a single step."""
        return 1 if self.program else len(self.statements) + bool(self.finish)

    @property
    def faults(self) -> Sequence[str]:
        return COPY_FAULTS if self.copies else [name for name in FAULTS if name not in COPY_FAULTS]

    @property
    def cases(self) -> Sequence[Case]:
        return COPY_CASES if self.copies else CASES

    @property
    def writers(self) -> list[Transaction]:
        changes = [steps for case in COPY_CASES for steps in case.writers if "truncate" not in steps]
        return changes if self.copies else [SHORT, *WRITERS.values()]

    @property
    def listens(self) -> str:
        return f"LISTEN {self.listen}"

    @property
    def draws(self) -> bool:
        return ":id" in self.insert


def filled(text: str, values: Mapping[str, str | None], types: Mapping[str, str] | None = None) -> str:
    """Return SQL with names replaced by their values, as literals of the given types.

    >>> filled("SELECT id FROM t WHERE id > :last AND x::int = 1", {"last": "it's"})
    "SELECT id FROM t WHERE id > 'it''s' AND x::int = 1"
    >>> filled(":at - interval '5 s'", {"at": "infinity"}, {"at": "timestamp with time zone"})
    "'infinity'::timestamp with time zone - interval '5 s'"
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise InputError(no_value(match[1]))
        shown = literal(values[match[1]])
        return f"{shown}::{types[match[1]]}" if types and match[1] in types else shown

    return NAME.sub(value, text)


def no_value(name: str) -> str:
    return f":{name} has no initial value; HINT: Use --start {name}=VALUE or, in a file, start.{name}."


def ways_in(text: str) -> dict[str, Way]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}") from error
    return {name: way_of(name, values) for name, values in tables.items()}


def way_of(name: str, values: Any) -> Way:
    """Return the way that a TOML table defines. Raise InputError if a field is unknown or has the wrong type."""
    if not isinstance(values, dict):
        raise InputError(f"{name} is not a table: a reader begins with a line [{name}]")
    if unknown := values.keys() - {field.name for field in fields(Way)[1:]}:
        raise InputError(f"{name}: unknown {listed(sorted(unknown))}")
    try:
        way = msgspec.convert({"title": name, **values, "name": name}, Way)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {error}") from error
    if way.copies:
        return replace(
            way, setup=COPIED + values.get("setup", ""), insert=INSERT.replace("created_at", "updated_at", 1)
        )
    return way


def ways_of(file: Path) -> dict[str, Way]:
    try:
        ways = ways_in(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise failed(f"cannot read {file}", error) from error
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"cannot use {file}: {error}") from error
    if not ways:
        raise InputError(f"{file} has no readers")
    return ways


def ways_below(folder: Traversable) -> dict[str, Way]:
    """Return the ways in a folder, which has one file per way."""
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return {way.name: way for name in names for way in ways_in(folder.joinpath(name).read_text("utf-8")).values()}


@cache
def built_in() -> dict[str, Way]:
    return ways_below(files("inorder.lab.check").joinpath("ways"))
