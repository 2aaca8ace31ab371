"""The kinds of statement that advice is about, as data: readers that poll a column, counts of a table, changes."""

from dataclasses import dataclass

Table = tuple[str, str]  # the schema, "" if the statement names none, and the name


@dataclass(frozen=True)
class Poll:
    """A column by which rows after a value are read, and the tables that may have it.

    ``ordered``: rows come in its order. ``late``: rows younger than an interval are left out.
    """

    tables: tuple[Table, ...]
    column: str
    ordered: bool
    late: bool


@dataclass(frozen=True)
class Understood:
    """``counted``: the table of which all rows are counted. ``changed``: tables with updated or deleted rows."""

    polls: tuple[Poll, ...] = ()
    counted: Table | None = None
    changed: tuple[tuple[str, Table], ...] = ()
