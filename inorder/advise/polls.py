"""Kinds of statements that advice covers, as data: readers that poll a column, counts of a table, changes."""

from dataclasses import dataclass

Table = tuple[str, str]  # the schema, "" if the statement names no schema; and the name of the table


@dataclass(frozen=True)
class Poll:
    """A reader of rows in which a column is greater than a position.

    ``tables``: the tables that may have the column. ``ordered``: True if rows are read in the order of the column.
    ``late``: True if rows younger than an interval are left out.
    """

    tables: tuple[Table, ...]
    column: str
    ordered: bool
    late: bool


@dataclass(frozen=True)
class Understood:
    """The polls, counts and changes of a statement.

    ``counted``: the table whose rows are counted. ``changed``: the tables whose rows are updated or deleted.
    """

    polls: tuple[Poll, ...] = ()
    counted: Table | None = None
    changed: tuple[tuple[str, Table], ...] = ()
