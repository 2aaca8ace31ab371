"""Kinds of statements that advice covers, as data: readers that poll a column, counts of a table, changes."""

from dataclasses import dataclass

Table = tuple[str, str]  # the schema, "" if the statement names none, and the name


@dataclass(frozen=True)
class Poll:
    """A column by which a reader takes rows after a value, and the tables that may have the column.

    ``ordered``: rows are read in the order of the column. ``late``: rows younger than an interval are left out.
    """

    tables: tuple[Table, ...]
    column: str
    ordered: bool
    late: bool


@dataclass(frozen=True)
class Understood:
    """``counted``: the table whose rows are counted. ``changed``: tables whose rows are updated or deleted."""

    polls: tuple[Poll, ...] = ()
    counted: Table | None = None
    changed: tuple[tuple[str, Table], ...] = ()
