"""The report as one HTML file: no network, no script, light and dark, raw numbers inside."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from inorder.lab.keys import INDEX_KINDS, KEY_KINDS
from inorder.lab.results import Result
from inorder.lab.stats import LEAST_ROUNDS
from inorder.report import charts
from inorder.report.summary import KindSummary, headline, memory_note, summarise, times_memory, variants_of
from inorder.report.terminal import COLUMNS, cells

TERMS = {
    "inserts/s": "Transactions of one INSERT each per second, median of the rounds.",
    "vs bigint": "Ratio to bigint in the same round: median, and in brackets its interval of 95 % or more "
    f"(order statistics). Below {LEAST_ROUNDS} rounds the brackets hold their range, and no difference is claimed.",
    "WAL/row": "Bytes of write-ahead log per inserted row (pg_stat_wal.wal_bytes).",
    "FPI/row": "Full-page images per inserted row (pg_stat_wal.wal_fpi): pages written whole to the WAL "
    "because they changed for the first time since a checkpoint.",
    "hits": "Share of index block accesses that found the block in shared buffers (pg_statio_all_indexes).",
    "index": "Size of the primary key's index at that number of rows, before the first round.",
    "leaf": "Leaf density: how full the index's leaf pages are after the last round (pgstatindex). "
    "Empty: the server has no pgstattuple.",
}


def css_class(kind: str) -> str:
    """The style of a kind's marks.

    >>> css_class("v7"), css_class("v7_plain")
    ('kind-v7', 'kind-v7')
    """
    return f"kind-{kind.removesuffix(INDEX_KINDS[KEY_KINDS[kind].index_kind][0])}"


def speed_bars(kinds: list[KindSummary]) -> Markup:
    """Inserts per second, with intervals."""
    bars = [
        charts.Bar(k.label, k.tps.median, f"{k.tps.median:,.0f}", css_class(k.kind), k.tps.low, k.tps.high)
        for k in kinds
    ]
    return charts.bar_chart("Inserts per second", bars)


def wal_bars(kinds: list[KindSummary]) -> Markup:
    """WAL bytes per row, with intervals."""
    bars = [
        charts.Bar(
            k.label,
            k.wal_per_row.median,
            f"{k.wal_per_row.median:,.0f} B",
            css_class(k.kind),
            k.wal_per_row.low,
            k.wal_per_row.high,
        )
        for k in kinds
    ]
    return charts.bar_chart("WAL bytes per inserted row", bars)


def size_lines(sizes: dict[int, list[KindSummary]], kinds: Sequence[str]) -> Markup:
    """Inserts per second by rows in the table; nothing for a single size."""
    if len(sizes) < 2:
        return Markup("")
    lines = []
    for kind in kinds:
        points = tuple((rows, k.tps.median) for rows, all_kinds in sizes.items() for k in all_kinds if k.kind == kind)
        lines.append(charts.Line(KEY_KINDS[kind].label, points, css_class(kind)))
    return charts.line_chart("Size", "rows in the table before the first round", "inserts per second", lines)


def round_lines(kinds: list[KindSummary]) -> Markup:
    """Inserts per second, round by round: shows drift, and how much a round varies."""
    lines = [
        charts.Line(kind.label, tuple(enumerate(kind.tps_by_round, start=1)), css_class(kind.kind)) for kind in kinds
    ]
    return charts.line_chart("Rounds", "round", "inserts per second", lines)


def embedded_json(result: Result) -> Markup:
    """The raw result for a script element: JSON in which no character can end the element."""
    return Markup(json.dumps(asdict(result)).replace("<", "\\u003c"))


def render_insert(result: Result) -> str:
    """The whole page for a result of the insert experiment."""
    sizes = summarise(result)
    largest = list(sizes.values())[-1] if sizes else []
    environment = Environment(
        loader=PackageLoader("inorder.report", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("insert.html").render(
        result=result,
        headline=headline(largest),
        memory_note=memory_note(result),
        columns=COLUMNS,
        terms=TERMS,
        sizes=[
            {
                "rows": rows,
                "table": [cells(kind) for kind in kinds],
                "memory": times_memory(result, kinds),
                "speed": speed_bars(kinds),
                "wal": wal_bars(kinds),
                "by_round": round_lines(kinds),
            }
            for rows, kinds in reversed(sizes.items())
        ],
        by_size=size_lines(sizes, variants_of(result)),
        raw=embedded_json(result),
    )


def write_insert(result: Result, path: Path) -> None:
    """Write the page; a half-written one is never left."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(render_insert(result), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
