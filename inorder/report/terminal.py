"""Results as tables for a terminal."""

from collections.abc import Iterator

from rich.table import Table

from inorder.lab.keys import BASELINE
from inorder.lab.stats import Estimate
from inorder.report.summary import KindSummary

# As narrow as a terminal of 80 columns needs.
COLUMNS = ("key", "inserts/s", "vs bigint", "WAL/row", "FPI/row", "hits", "index", "leaf")


def interval_text(value: Estimate | None, digits: int) -> str:
    """A median with its interval in brackets.

    >>> interval_text(Estimate(0.4132, 0.40, 0.44, 6), 2), interval_text(Estimate(0.4, None, None, 1), 2)
    ('0.41 [0.40–0.44]', '0.40 (once)')
    >>> interval_text(None, 2)
    ''
    """
    if value is None:
        return ""
    if value.low is None or value.high is None:
        return f"{value.median:,.{digits}f} (once)"
    return f"{value.median:,.{digits}f} [{value.low:,.{digits}f}–{value.high:,.{digits}f}]"


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
        "1" if kind.kind == BASELINE else interval_text(kind.ratio, 2),
        f"{kind.wal_per_row.median:,.0f} B",
        f"{kind.fpi_per_row:.4f}",
        percent(kind.index_hit_percent),
        "" if kind.index_mb is None else f"{kind.index_mb:,.0f} MB",
        percent(kind.leaf_density),
    ]


def plain_table(title: str, caption: str = "") -> Table:
    """A table without lines, one blank between columns."""
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left",
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
