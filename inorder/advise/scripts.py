"""Read SQL files without a server: the statements with their lines, and the tables that the files create."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from pglast import ast, parse_sql, split
from pglast.enums import ConstrType
from pglast.parser import ParseError

from inorder.advise.finding import Evidence, Finding
from inorder.advise.polls import Poll, Table, Understood
from inorder.advise.readers import polling
from inorder.advise.statements import function, is_clock, name_of, understood, walk
from inorder.connection.database import identifier
from inorder.errors import InputError
from inorder.files import failed
from inorder.text import first_of, plural

# Placeholders of drivers and of sqlc. Strings, quoted names and comments are left unchanged.
PLACEHOLDER = re.compile(
    r"""\be'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | (\$\w*\$).*?\1 | --[^\n]* | /\*.*?\*/
    | (?P<value> %\(\w+\)[sbt] | %[sbt]\b | (?<![:\w]):[a-z_]\w* | (?<![\w@<>~|&])@[a-z_]\w*+(?!@) | \?(?![|&]|\s*')
               | \bsqlc\.n?arg\([^()]*\) )
    | (?P<psql> \\[a-z][^\n]* )
    | \bfrom\s+stdin\b[^;]*;(?P<data> .*?^\\\.$ )""",
    re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE,
)
BEGINNING = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
SHOWN = 5  # maximum number of places shown
NUMBERS = ("int2", "int4", "int8", "serial", "serial2", "serial4", "serial8", "smallserial", "bigserial")
TIMES = ("timestamp", "timestamptz")


@dataclass(frozen=True)
class Statement:
    text: str
    place: str  # file and line
    parsed: str  # the statement with parameters instead of placeholders


@dataclass
class Created:
    """The types of columns that may be polled, and the columns in which new rows have greater values."""

    types: dict[str, str] = field(default_factory=dict)
    rising: set[str] = field(default_factory=set)


@dataclass
class Scripts:
    """The statements of SQL files. ``unread`` lists the places of statements that were not examined, by reason."""

    names: Sequence[str]
    count: int = 0
    classified: list[tuple[Statement, Understood]] = field(default_factory=list)
    tables: dict[Table, Created] = field(default_factory=dict)
    unread: dict[str, list[str]] = field(default_factory=dict)

    def take(self, statement: Statement) -> None:
        self.count += 1
        classification = understood(statement.parsed)
        if isinstance(classification, str):
            self.leave_out("not understood", f"{statement.place} ({classification})")
            return
        self.classified.append((statement, classification))
        for node in parse_sql(statement.parsed):
            if isinstance(node.stmt, ast.CreateStmt):
                self.tables[name_of(node.stmt.relation)] = created(node.stmt)
            elif isinstance(node.stmt, ast.CreateFunctionStmt | ast.DoStmt):
                self.leave_out("with a body that was not read", statement.place)

    def leave_out(self, reason: str, place: str) -> None:
        self.unread.setdefault(reason, []).append(place)

    @property
    def unseen(self) -> list[str]:
        return [
            f"{plural(len(places), 'statement')} {reason}: {first_of(places, SHOWN)}"
            for reason, places in self.unread.items()
        ]


def with_parameters(text: str) -> str:
    r"""Replace placeholders in a script with parameters. The number of lines stays the same.

    >>> with_parameters("SELECT a::text, '%s' FROM t -- ?\nWHERE id >%s AND b = :b AND c = %(c)s AND d ? 'k'")
    "SELECT a::text, '%s' FROM t -- ?\nWHERE id > $1  AND b =  $2  AND c =  $3  AND d ? 'k'"
    """
    numbers = count(1)

    def replaced(match: re.Match[str]) -> str:
        if match["value"]:
            return f" ${next(numbers)} "
        if match["psql"]:  # psql commands, such as \gset, end a statement
            return ";"
        if match["data"]:
            return match[0].removesuffix(match["data"]) + "\n" * match["data"].count("\n")
        return match[0]

    return PLACEHOLDER.sub(replaced, text)


def statements_of(name: str, text: str) -> Iterator[Statement]:
    """Yield the statements of a script. A script that cannot be split is one statement."""
    parsed = with_parameters(text)
    try:
        pieces: Sequence[Any] = split(parsed, with_parser=False, only_slices=True)
    except ParseError:
        pieces = [slice(0, len(parsed))]
    lines = text.split("\n")
    for piece in pieces:
        start = BEGINNING.match(parsed, piece.start, piece.stop).end()  # type: ignore[union-attr]  # matches anything
        first, last = parsed.count("\n", 0, start), parsed.count("\n", 0, piece.stop)
        if start < piece.stop:
            shown = " ".join(" ".join(lines[first : last + 1]).split())
            yield Statement(shown, f"{name}:{first + 1}", parsed[start : piece.stop])


def read(paths: Sequence[Path]) -> Scripts:
    scripts = Scripts([str(path) for path in paths])
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise failed(f"cannot read {path}", error) from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8") from error
        for statement in statements_of(str(path), text):
            scripts.take(statement)
    return scripts


def created(statement: Any) -> Created:
    table = Created()
    for element in statement.tableElts or ():
        constraints = [element] if isinstance(element, ast.Constraint) else getattr(element, "constraints", None) or ()
        if isinstance(element, ast.ColumnDef):
            table.types[element.colname] = element.typeName.names[-1].sval
        for constraint in constraints:
            key = constraint.keys[0].sval if constraint.keys else getattr(element, "colname", "")
            calls = [function(call) for call in walk(constraint.raw_expr) if isinstance(call, ast.FuncCall)]
            by_default = is_clock(constraint.raw_expr) or any("nextval" in name or "uuid" in name for name in calls)
            if by_default or constraint.contype in (ConstrType.CONSTR_PRIMARY, ConstrType.CONSTR_IDENTITY):
                table.rising.add(key)
    table.rising |= {name for name, type in table.types.items() if "serial" in type}
    return table


def findings(scripts: Scripts) -> list[Finding]:
    changes = {
        (table[1], change) for _, classification in scripts.classified for change, table in classification.changed
    }
    return [
        finding
        for statement, classification in scripts.classified
        for poll in classification.polls
        for finding in judged(scripts, statement, poll, changes)
    ]


def judged(scripts: Scripts, statement: Statement, poll: Poll, changes: set[tuple[str, str]]) -> Iterator[Finding]:
    """Yield a finding if the column may be polled. Without ORDER BY, new rows must also have greater values."""
    tables = {polled: table for polled in poll.tables for name, table in scripts.tables.items() if polled[1] == name[1]}
    name, table = next(
        ((polled, table) for polled, table in tables.items() if poll.column in table.types), (poll.tables[0], None)
    )
    if table and (table.types[poll.column] not in (*NUMBERS, *TIMES, "uuid")):
        return
    if not table and not poll.ordered:
        scripts.leave_out("without ORDER BY, of tables whose CREATE TABLE is not in the files", statement.place)
    elif not table or poll.ordered or poll.column in table.rising:
        changed = " or ".join(change for change in ("updated", "deleted") if (name[1], change) in changes)
        is_time = table.types[poll.column] in TIMES if table else poll.column.endswith(("_at", "time", "date"))
        yield polling(
            poll, identifier(*filter(None, name)), is_time, [Evidence(statement.text, statement.place)], changed
        )
