"""The kinds of statements covered by the advice, as data: polls of a column, counts of a table, and changes."""

from dataclasses import dataclass

Table = tuple[str, str]  # the schema, or "" if the statement names none, and the table name


@dataclass(frozen=True)
class Poll:
    """A query for rows in which a column is greater than a position.

    ``tables`` are the tables that may have the column. ``ordered`` is true if rows are read in the order of the column,
    and ``late`` is true if the query leaves out rows younger than an interval.
    """

    tables: tuple[Table, ...]
    column: str
    ordered: bool
    late: bool


@dataclass(frozen=True)
class Understood:
    """The polls, counts and changes in a statement.

    ``counted`` is the table whose rows are counted. ``changed`` has the tables whose rows are updated or deleted.
    """

    polls: tuple[Poll, ...] = ()
    counted: Table | None = None
    changed: tuple[tuple[str, Table], ...] = ()
