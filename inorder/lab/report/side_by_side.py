"""Tables of several results, merged side by side."""

from collections.abc import Sequence
from dataclasses import replace

from inorder.lab.report.section import Column, Section, Value


def side_by_side(named: Sequence[tuple[str, Sequence[Section]]]) -> list[Section]:
    """Merge the tables that several results have in common.

    Rows with the same label are matched. If a table has several rows with the same label, they are matched in order.
    """
    sections: dict[str, list[tuple[str, Section]]] = {}
    for label, sections_of_result in named:
        for section in sections_of_result:
            sections.setdefault(section.name, []).append((label, section.of_columns(lambda column: column.page)))
    return [merged(pairs) for pairs in sections.values() if len(pairs) > 1]


def merged(pairs: Sequence[tuple[str, Section]]) -> Section:
    first = pairs[0][1]
    heads = list(dict.fromkeys(column.name for _, section in pairs for column in section.columns[1:]))
    columns, picked = [first.columns[0]], []
    for head in heads:
        for place, (label, section) in enumerate(pairs):
            if column := next((candidate for candidate in section.columns[1:] if candidate.name == head), None):
                columns.append(Column(f"{head}\n{label}", column.meaning, column.show, bar=column.bar))
                picked.append((place, list(section.columns).index(column)))
    by_key = [numbered(section) for _, section in pairs]
    keys = list(dict.fromkeys(key for rows in by_key for key in rows))
    rows: list[list[Value]] = []
    for key in keys:
        lines = [rows_of.get(key) for rows_of in by_key]
        rows.append([key[0], *(row[at] if (row := lines[place]) else None for place, at in picked)])
    return replace(first, columns=columns, rows=rows, caption="", charts=(), note="")


def numbered(section: Section) -> dict[tuple[Value, int], Sequence[Value]]:
    counts: dict[Value, int] = {}
    rows = {}
    for row in section.rows:
        rows[row[0], counts.setdefault(row[0], 0)] = row
        counts[row[0]] += 1
    return rows
