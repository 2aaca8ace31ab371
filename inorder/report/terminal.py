"""Results as tables for a terminal."""

from collections.abc import Iterator

from rich.table import Table

from inorder.lab.stats import Estimate
from inorder.report.summary import KindSummary

COLUMNS = ("key", "inserts/s", "vs bigint", "WAL/row", "FPI/row", "cache hits", "index", "leaf density")


def ratio_text(ratio: Estimate | None) -> str:
    """A ratio with half its interval.

    >>> ratio_text(Estimate(0.4132, 0.40, 0.44, 3)), ratio_text(Estimate(0.4, None, None, 1)), ratio_text(None)
    ('0.41 ± 0.02', '0.40 (once)', '')
    """
    if ratio is None:
        return ""
    return f"{ratio.median:.2f} (once)" if ratio.half_width is None else f"{ratio.median:.2f} ± {ratio.half_width:.2f}"


def cells(kind: KindSummary) -> list[str]:
    """One row of the insert table; what was not measured is empty."""
    return [
        kind.label,
        f"{kind.tps.median:,.0f}",
        ratio_text(kind.ratio),
        f"{kind.wal_per_row.median:,.0f} B",
        f"{kind.fpi_per_row:.4f}",
        f"{kind.index_hit_percent:.1f} %",
        "" if kind.index_mb is None else f"{kind.index_mb:,.0f} MB",
        "" if kind.leaf_density is None else f"{kind.leaf_density:.0f} %",
    ]


def insert_table(rows: int, kinds: list[KindSummary]) -> Table:
    """The insert experiment at one size of table."""
    table = Table(title=f"Inserting into a table of {rows:,} rows", title_justify="left", box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "key" else "right", no_wrap=True)
    for kind in kinds:
        table.add_row(*cells(kind))
    return table


def insert_tables(sizes: dict[int, list[KindSummary]]) -> Iterator[Table]:
    """One table a size."""
    for rows, kinds in sizes.items():
        yield insert_table(rows, kinds)
