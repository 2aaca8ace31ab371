"""Classify statements by their text: readers that poll a column, and counts of a table. Pure."""

import re
from dataclasses import dataclass

# Anybody can write statements, so matching must not backtrack: quantifiers are possessive, and a name begins only at
# the start of an identifier.
NAME = r'(?:"(?:[^"]|"")++"|[a-z_][\w$]*+)'
NAMES = rf'(?<![\w$".])((?>{NAME}(?:\s*+\.\s*+{NAME}){{0,3}}))'
TABLE = rf"\bfrom\b\s*+(?:only\b\s*+)?{NAMES}"
FROM = re.compile(TABLE, re.IGNORECASE)
ORDER = re.compile(rf"\border\s++by\b\s*+\(?\s*+{NAMES}(?!\s++desc\b)", re.IGNORECASE)
GREATER = re.compile(rf"{NAMES}\s*+>=?\s*+\$\d|\(\s*+{NAMES}\s*+,[^()]*+\)\s*+>=?\s*+\(\s*+\$\d", re.IGNORECASE)
COUNT = re.compile(rf"\s*+select\s++count\s*+\(\s*+\*\s*+\)(?:\s*+as\b\s*+{NAME})?\s*+{TABLE}\s*+;?\s*+", re.IGNORECASE)
BELOW_A_HORIZON = re.compile(r"_snapshot", re.IGNORECASE)  # a reader that takes the open transactions into account


@dataclass(frozen=True)
class Mention:
    """A table as a statement names it, without a schema if the statement gives none, and one of its columns."""

    schema: str
    table: str
    column: str = ""


def mention_of(text: str, column: str = "") -> Mention:
    """The last two parts of a name, as the server reads them.

    >>> mention_of('db . App . "Big ""1"" table"'), mention_of("ID").table
    (Mention(schema='app', table='Big "1" table', column=''), 'id')
    """
    found = re.findall(NAME, text, re.IGNORECASE)
    names = ["", *(one[1:-1].replace('""', '"') if one.startswith('"') else one.lower() for one in found)]
    return Mention(names[-2], names[-1], column)


def polled(text: str) -> Mention | None:
    """The column by which a statement takes the rows that come after a value, in its order.

    >>> polled("SELECT * FROM app.events e WHERE e.id > $1 AND n <= $2 ORDER BY e.id LIMIT $3")
    Mention(schema='app', table='events', column='id')
    >>> polled("SELECT * FROM events WHERE (at, id) > ($1, $2) ORDER BY at, id")
    Mention(schema='', table='events', column='at')
    >>> [polled(f"SELECT * FROM events {rest}") for rest in (
    ...     "WHERE id > $1 ORDER BY id DESC", "WHERE n > $1 ORDER BY id", "ORDER BY id",
    ...     "WHERE id > $1 AND xact < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY id")]
    [None, None, None, None]
    """
    table, order = FROM.search(text), ORDER.search(text)
    if not table or not order or BELOW_A_HORIZON.search(text):
        return None
    column = mention_of(order[1]).table
    compared = (mention_of(one or other).table for one, other in GREATER.findall(text))
    return mention_of(table[1], column) if column in compared else None


def counted(text: str) -> Mention | None:
    """The table of which a statement counts all rows.

    >>> counted("SELECT count(*) FROM app.events"), counted("select count(*) as n from events where id > $1")
    (Mention(schema='app', table='events', column=''), None)
    """
    found = COUNT.fullmatch(text)
    return mention_of(found[1]) if found else None
