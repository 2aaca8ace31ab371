"""How readings of feeds are written: for people, for programs, for Prometheus."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from inorder.units import time_text

Row = dict[str, Any]  # a row of queries/feeds.sql

HEADERS = ("feed", "table", "rows", "transactions", "moved", "batch", "held for", "by")
LABELS = ("feed", "owner", "table", "database")
# Gauges, from the column of the query: null has no sample.
GAUGES = {
    "backlog_rows": "Estimated rows that the feed has not read.",
    "backlog_transactions": "Transactions, of any table, that have ended and are not read.",
    "idle_seconds": "Seconds since the position of the feed last moved.",
    "unfinished_batch": "Number of the unfinished batch, of several workers the first.",
    "worker_batches": "Unfinished batches of workers.",
    "set_aside_batches": "Batches that are set aside.",
    "writers": "Transactions in progress that delay rows of the table.",
    "held_seconds": "Seconds since the start of the oldest transaction that delays rows.",
}


def as_table(rows: Sequence[Row]) -> str:
    """Columns for people; numbers to the right."""
    cells = [HEADERS, *map(cells_of, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if 2 <= place <= 3 else cell.ljust(width)
                  for place, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    )  # fmt: skip


def cells_of(row: Row) -> tuple[str, ...]:
    """What a feed has in each column."""
    batch = "" if row["unfinished_batch"] is None else str(row["unfinished_batch"])
    return (
        f"{row['owner']}.{row['feed']}",
        row["table"],
        count_text(row["backlog_rows"]),
        count_text(row["backlog_transactions"]),
        f"{time_text(row['idle_seconds'])} ago",
        batch + (f" (pid {row['batch_pid']})" if row["batch_pid"] else ""),
        "" if row["held_seconds"] is None else time_text(row["held_seconds"]),
        holder(row),
    )


def count_text(count: int | None) -> str:
    """A number, or a sign that nobody knows it."""
    return "?" if count is None else f"{count:,}"


def holder(row: Row) -> str:
    """The oldest transaction that delays rows: a session or a prepared transaction.

    >>> holder({"writers": 3, "holder_pid": 7, "holder_application": "psql", "holder_gid": None})
    'pid 7 (psql) and 2 more'
    """
    if not row["writers"]:
        return ""
    name = f"pid {row['holder_pid']}" if row["holder_pid"] else f"prepared transaction '{row['holder_gid']}'"
    application = f" ({row['holder_application']})" if row["holder_application"] else ""
    others = f" and {row['writers'] - 1} more" if row["writers"] > 1 else ""
    return name + application + others


def as_json(rows: Sequence[Row]) -> str:
    """An object in a line for each feed."""
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def as_prometheus(rows: Sequence[Row]) -> str:
    """The text format of Prometheus, version 0.0.4."""
    lines = []
    for gauge, text in GAUGES.items():
        lines += [f"# HELP inorder_feed_{gauge} {text}", f"# TYPE inorder_feed_{gauge} gauge"]
        lines += [f"inorder_feed_{gauge}{labels(row)} {row[gauge]}" for row in rows if row[gauge] is not None]
    return "\n".join(lines)


def labels(row: Row) -> str:
    r"""What distinguishes a sample from others.

    >>> print(labels({"feed": 'a"b', "owner": "o\\w", "table": "line\nend", "database": "d"}))
    {feed="a\"b",owner="o\\w",table="line\nend",database="d"}
    """
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{name}="{str(row[name]).translate(escapes)}"' for name in LABELS) + "}"


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "table": as_table, "json": as_json, "prometheus": as_prometheus,
}  # fmt: skip
