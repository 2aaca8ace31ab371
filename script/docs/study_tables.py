"""Main tables of each study, with the same rows and columns as in the study, and our figures below its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inorder.lab.report.published import STUDIES, Published, cells_of, shown
from inorder.lab.results.result import Result

# Experiment and name of each table that the text of a study discusses.
MAIN = {
    "P1": ("insert keys",),
    "P2": ("sequence select", "sequence insert"),
    "P3": ("insert generators",),
    "P4": ("uuid-v1 steps", "uuid-v1 rates"),
    "P5": ("writers speed",),
}
MISSING = "–"


def main_tables(study: str) -> list[Mapping[str, Any]]:
    tables = {f"{table['experiment']} {table['name']}": table for table in STUDIES[study]["tables"]}
    return [tables[name] for name in MAIN[study]]


def place(label: str, rows: int | str, size: str) -> tuple[str, str]:
    """Return the row and the column for a figure. The column is the table size or, without one, the number of clients.

    >>> place("random", 1_000_000, "1 M"), place("select 1, 10 clients", "", ""), place("COPY TO, uuid v1", "", "")
    (('random', '1 M'), ('select 1', '10 clients'), ('COPY TO, uuid v1', ''))
    """
    head, _, tail = label.rpartition(", ")
    by_clients = rows == "" and tail.endswith((" client", " clients"))
    return (head, tail) if by_clients else (label, size)


def fullest(runs: Mapping[str, Mapping[Any, Any]], results: Mapping[str, Result]) -> str:
    """Return the run that has the most figures for a table. Prefer the newest server, then the largest table."""

    def rank(name: str) -> tuple[int, int, int]:
        filled = sum(row.get("here") is not None or row.get("ratio here") is not None for row in runs[name].values())
        return filled, "-18" in name, max(run.rows for run in results[name].runs)

    return max(runs, key=rank, default="")


def run_of(label: str, runs: Mapping[str, Mapping[Any, Any]], results: Mapping[str, Result]) -> str:
    """Return the run that supplies a row of the main table: the run with the most figures that has this row."""
    having = {name: rows for name, rows in runs.items() if any(key[0] == label for key in rows)}
    return fullest(having, results)


def crossed(cells: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """Arrange cells, given as (row, column, text), as the rows of a table, in the order in which they appear first.

    >>> crossed([("a", "0", "1"), ("a", "1 M", "2"), ("b", "1 M", "3")])
    [['', '0', '1 M'], ['a', '1', '2'], ['b', '', '3']]
    """
    texts = {(row, column): text for row, column, text in cells}
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    rows = dict.fromkeys(row for row, _, _ in cells)
    return [["", *columns], *([row, *(texts.get((row, column), "") for column in columns)] for row in rows)]


def lines(title: str, cells: Sequence[tuple[str, str, str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a table from (row, column, published, ours). Rows without our figures are omitted.

    >>> lines("TPS", [("a", "0", "1", "7"), ("a", "1 M", "2", ""), ("b", "0", "3", "")])
    (['TPS', '0', '1 M'], [['a', '1<br>**7**', '2<br>**–**']])
    >>> lines("TPS", [("a", "", "1", "7")])
    (['TPS', 'published', 'ours'], [['a', '1', '**7**']])
    """
    measured = {row for row, _, _, ours in cells if ours}
    shown_cells = [cell for cell in cells if cell[0] in measured]
    if not any(column for _, column, _, _ in cells):
        return [title, "published", "ours"], [
            [row, there, f"**{ours}**" if ours else MISSING] for row, _, there, ours in shown_cells
        ]
    heads, *rows = crossed(
        [(row, column, f"{there}<br>**{ours or MISSING}**") for row, column, there, ours in shown_cells]
    )
    return [title, *heads[1:]], rows


def distinct(study: str, table: Mapping[str, Any]) -> Iterator[Published]:
    """Yield the first figure for each step, kind and size. Further figures have a remark, such as the statement."""
    places = set()
    for cell in cells_of(study, table):
        if (cell.step, cell.kind, cell.rows) not in places:
            places.add((cell.step, cell.kind, cell.rows))
            yield cell


def size_text(rows: int | str) -> str:
    """Format a number of rows, with M for whole millions. Return strings unchanged.

    >>> size_text(50_000_000), size_text(600), size_text("small")
    ('50 M', '600', 'small')
    """
    millions = isinstance(rows, int) and rows and rows % 1_000_000 == 0
    return f"{int(rows) // 1_000_000} M" if millions else shown(rows)


def size_words(rows: int | str) -> str:
    """Format a number of rows as a column head.

    >>> size_words(50_000_000), size_words(1), size_words("small"), size_words(0)
    ('50 M rows', '1 row', 'small', '0 rows')
    """
    if isinstance(rows, str):
        return rows
    return f"{size_text(rows)} row{'s' * (rows != 1)}"
