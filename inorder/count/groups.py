"""Query and print the counts of groups from a view of the extension."""

import csv
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import click
from psycopg import sql

from inorder.connection.database import query
from inorder.connection.session import Session
from inorder.count.counter import FOLD, TABLE, Counter
from inorder.errors import InputError
from inorder.text import aligned_table, one_line, print_text

GIVEN = f"({TABLE}, by => {{names}}::pg_catalog.name[])"
START = sql.SQL(f"SELECT {{inorder}}.exact_count_start{GIVEN}::pg_catalog.oid::pg_catalog.text")
STOP = sql.SQL(f"SELECT {{inorder}}.exact_count_stop{GIVEN}::pg_catalog.text")
NULL = "(null)"


def columns_of(text: str) -> list[str]:
    """Parse the columns of --by; an empty list counts all rows. As in SQL, unquoted names are lower case.

    >>> columns_of("Status, tenant"), columns_of('"Status"'), columns_of("")
    (['status', 'tenant'], ['Status'], [])
    """
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    return [name[1:-1].replace('""', '"') if name.startswith('"') else name.lower() for name in names]


def text_of(columns: Sequence[str]) -> str:
    """Return the value of --by for these columns.

    >>> text_of(["status", "Day"]), columns_of(text_of(["status", "Day"]))
    ('status,"Day"', ['status', 'Day'])
    """
    return ",".join(name if re.fullmatch("[a-z0-9_]+", name) else sql.Identifier(name).as_string() for name in columns)


class GroupCounter(Counter):
    """The row counts of a table, grouped by the given columns."""

    def __init__(self, name: str, columns: list[str]) -> None:
        super().__init__(name)
        self.columns = columns

    def attach(self, session: Session) -> None:
        super().attach(session)
        self.parts = {"table": self.table.oid, "names": self.columns}

    def start(self) -> None:
        """Start the count, then fold it in a second transaction.

        A transaction cannot verify the state of a table that it has changed itself.
        """
        self.session.row(START, **self.parts)
        self.session.row(FOLD, **self.parts)

    def stop(self) -> None:
        self.session.row(STOP, **self.parts)

    def groups(self) -> list[dict[str, Any]]:
        views = {tuple(columns): view for columns, *view in self.session.rows(query("count_views"), **self.parts)}
        if tuple(self.columns) not in views:
            by = text_of(self.columns)
            hint = f"The owner of the table can start it: inorder count start {self.name} --by '{by}'"
            for columns in views:
                if sorted(columns) == sorted(self.columns):
                    hint = f"Name the columns in the order of the count: --by '{text_of(columns)}'"
            raise InputError(f"table {self.table.shown} has no count by {by or 'no column'}\nHINT:  {hint}")
        view = sql.Identifier(*map(str, views[tuple(self.columns)]))
        rows = self.session.rows(sql.SQL("SELECT * FROM {view}"), view=view)
        names = [*self.columns, "count"]
        return [dict(zip(names, map(plain, row), strict=True)) for row in sorted(rows, key=by_count)]


def by_count(row: Sequence[Any]) -> tuple[int, str]:
    """Return a sort key that puts the largest group first."""
    return -row[-1], str(row)


def plain(value: object) -> object:
    """Return a value for JSON. Times, and numbers that are not integers, become strings."""
    return value if value is None or isinstance(value, (int, str)) else str(value)


def show_groups(groups: Sequence[dict[str, Any]], columns: Sequence[str], output: str, clear: bool) -> None:
    if clear and sys.stdout.isatty():
        click.clear()
    if output == "json":
        for group in groups:
            print(json.dumps(group, ensure_ascii=False))
    elif output == "csv":
        writer = csv.DictWriter(sys.stdout, [*columns, "count"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(groups)
    else:
        table = [(*columns, "count")] + [
            (*(NULL if group[name] is None else one_line(str(group[name])) for name in columns), f"{group['count']:,}")
            for group in groups
        ]
        print_text("\n".join(aligned_table(table, {len(columns)})))
    sys.stdout.flush()
