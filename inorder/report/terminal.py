"""Results as tables for a terminal."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from inorder.lab.keys import KEY_KINDS
from inorder.report.section import Section, interval_text
from inorder.report.summary import KindSummary

# As narrow as a terminal of 80 columns needs.
COLUMNS = ("key", "inserts/s", "vs bigint", "WAL/row", "FPI/row", "hits", "index", "leaf")


def percent(value: float | None) -> str:
    """To a tenth of a percent, or whole.

    >>> percent(76.04), percent(100.0), percent(None)
    ('76 %', '100 %', '')
    >>> percent(99.83)
    '99.8 %'
    """
    if value is None:
        return ""
    return f"{value:.1f} %" if 99 < value < 99.95 else f"{value:.0f} %"


def cells(kind: KindSummary) -> list[str]:
    """One row of the insert table; what was not measured is empty."""
    return [
        kind.label,
        f"{kind.tps.median:,.0f}",
        "1" if kind.kind == KEY_KINDS[kind.kind].baseline else interval_text(kind.ratio, 2),
        f"{kind.wal_per_row.median:,.0f} B",
        f"{kind.fpi_per_row:.4f}",
        percent(kind.index_hit_percent),
        "" if kind.index_mb is None else f"{kind.index_mb:,.0f} MB",
        percent(kind.leaf_density),
    ]


def plain_table(title: str, caption: str = "") -> Table:
    """A table without lines, one blank between columns."""
    return Table(
        title=escape(title), caption=escape(caption), title_justify="left", caption_justify="left",
        box=None, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip


def insert_table(rows: int, kinds: list[KindSummary]) -> Table:
    """The insert experiment at one size of table."""
    table = plain_table(f"Inserting into a table of {rows:,} rows")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "key" else "right", no_wrap=True)
    for kind in kinds:
        table.add_row(*cells(kind))
    return table


def insert_tables(sizes: dict[int, list[KindSummary]]) -> Iterator[Table]:
    """One table a size."""
    for rows, kinds in sizes.items():
        yield insert_table(rows, kinds)


def section_table(section: Section) -> Table:
    """A section for the terminal."""
    table = plain_table(section.title, section.caption)
    for column, place in zip(section.columns, range(len(section.columns)), strict=True):
        table.add_column(column.name, justify="right" if place else "left", no_wrap=True, vertical="bottom")
    for row in section.shown():
        table.add_row(*map(escape, row))
    return table
