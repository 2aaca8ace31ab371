"""Output formats for feeds: a table for people, JSON for programs, and metrics for Prometheus."""

import json
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from typing import Any

from inorder.text import aligned, aligned_table, filled, first_of, one_line, plural, widths_of
from inorder.units import time_text

Row = dict[str, Any]  # a row of the query "feeds"

LEAST_WIDTH, MOST_WIDTH = 80, 120  # characters per line
LEAST_CELL = 10
DROPPED = "(dropped)"  # shown instead of the name of a dropped table
COUNTED = 10_000  # rows; the view counts no further
HEADERS = ("feed", "table", "lag", "rows", "polled", "unfinished", "rows delayed")
TO_THE_RIGHT = (3,)
LABELS = ("feed", "owner", "table", "database")
# The gauges, named after columns of the query, with their descriptions. If a column is null, there is no sample.
GAUGES = {
    "caught_up": "1 if all committed rows are read and no batch is unfinished, otherwise 0; no sample if unknown.",
    "lag_seconds": "Upper bound of the age of unread rows, at most a minute too high; 0 if all rows are read.",
    "polled_seconds": "Seconds since a reader last asked for rows; polls without rows are recorded twice a minute.",
    "moved_seconds": "Seconds since the position last moved, or since the feed was created.",
    "backlog_rows": "Rows that the feed has not read, counted up to 10000; no sample if unknown.",
    "backlog_transactions": "Ended transactions, on any table, that the feed has not read.",
    "unfinished_batch": "Number of the unfinished batch; with several workers, the first one.",
    "worker_batches": "Unfinished batches of workers.",
    "dead_batches": "Batches that are dead after too many tries.",
    "blocked_shares": "Shares that wait for a dead batch; no sample for feeds without partition_by.",
    "swapped": "1 if the table was renamed, and another table, which is not read, now has its name; otherwise 0.",
    "writers": "Transactions in progress that delay rows of the table.",
    "held_seconds": "Seconds since the start of the oldest transaction that delays rows.",
}


def as_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Format a table as wide as the terminal. If it does not fit, the last cell of each row goes on its own line."""
    line = min(max(width or get_terminal_size((MOST_WIDTH, 0)).columns, LEAST_WIDTH), MOST_WIDTH)
    table = [HEADERS, *(tuple(map(one_line, cells_of(row))) for row in rows)]
    if length(widths_of(table)) <= line:
        return "\n".join(aligned_table(table, TO_THE_RIGHT))
    widths = fitted(widths_of(row[:-1] for row in table), line)
    lines = []
    for *row, last in table:
        lines.append(aligned(row, widths, TO_THE_RIGHT))
        if last and last != HEADERS[-1]:
            lines.append(filled(f"  {HEADERS[-1]} {last}", line).rstrip())
    return "\n".join(lines)


def length(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def fitted(widths: list[int], line: int) -> list[int]:
    """Reduce the widths of the widest columns until all columns fit on a line.

    >>> fitted([30, 4, 20], 44), fitted([30, 4, 20], 10)
    ([18, 4, 18], [10, 4, 10])
    """
    widths = list(widths)
    while length(widths) > line and max(widths) > LEAST_CELL:
        widths[widths.index(max(widths))] -= 1
    return widths


def cells_of(row: Row) -> tuple[str, ...]:
    return (
        f"{row['owner']}.{row['feed']}",
        table_text(row),
        lag(row),
        rows_text(row),
        "" if row["polled_seconds"] is None else f"{time_text(row['polled_seconds'])} ago",
        unfinished(row),
        "" if row["held_seconds"] is None else f"{time_text(row['held_seconds'])} by {holder(row)}",
    )


def table_text(row: Row) -> str:
    """Return the name of the table and, if another table has taken this name, the name of that table.

    >>> table_text({"table": "public.former", "swapped": True, "namesake": "public.events"})
    'public.former, not public.events'
    """
    if row["table"] is None:
        return DROPPED
    return f"{row['table']}, not {row['namesake']}" if row.get("swapped") else str(row["table"])


def lag(row: Row) -> str:
    """Return the longest time for which rows may have been unread.

    The time begins at the second to last poll, because rows of the last poll may be undelivered.

    >>> [lag({"caught_up": caught_up, "lag_seconds": 90}) for caught_up in (True, False, None)]
    ['caught up', 'up to 90 s', 'unknown, up to 90 s']
    """
    if row["caught_up"]:
        return "caught up"
    return f"{'unknown, ' if row['caught_up'] is None else ''}up to {time_text(row['lag_seconds'])}"


def rows_text(row: Row) -> str:
    """Return the number of unread rows, up to the limit of the count.

    >>> [rows_text({"caught_up": False, "backlog_rows": count}) for count in (1200, 10_000, None)]
    ['1,200', '10,000+', 'unknown']
    """
    count = row["backlog_rows"]
    return "0" if row["caught_up"] else "unknown" if count is None else f"{count:,}" + "+" * (count >= COUNTED)


def unfinished(row: Row) -> str:
    """Describe the unfinished batches of readers.

    >>> unfinished({"unfinished_batch": 17, "batch_worker": "a", "worker_batches": 3, "dead_batches": 1})
    '17 (worker a) and 2 more, 1 dead'
    >>> unfinished({"unfinished_batch": 17, "batch_worker": None, "worker_batches": 1, "dead_batches": 2,
    ...             "shares": 16, "blocked_shares": 1})
    '17, 2 dead, 1 of 16 shares blocked'
    >>> unfinished({"unfinished_batch": None, "batch_worker": None, "worker_batches": 16, "dead_batches": 0})
    '16 not yet taken'
    """
    count = row["worker_batches"] or 0
    if row["unfinished_batch"] is None:
        batch = f"{count} not yet taken" if count else ""
    else:
        batch = str(row["unfinished_batch"])
        batch += f" (worker {row['batch_worker']})" if row["batch_worker"] else ""
        batch += f" and {count - 1} more" if count > 1 else ""
    dead = f"{row['dead_batches']} dead" if row["dead_batches"] else ""
    blocked = f"{row['blocked_shares']} of {row['shares']} shares blocked" if row.get("blocked_shares") else ""
    return ", ".join(filter(None, (batch, dead, blocked)))


def holder(row: Row) -> str:
    """Describe the oldest transaction that delays rows, which is a session or a prepared transaction.

    >>> holder({"writers": 3, "holder_pid": 7, "holder_application": "psql", "holder_gid": None})
    'pid 7 (psql) and 2 more'
    """
    if not row["writers"]:
        return ""
    name = f"pid {row['holder_pid']}" if row["holder_pid"] else f"prepared transaction '{row['holder_gid']}'"
    application = f" ({row['holder_application']})" if row["holder_application"] else ""
    more = f" and {row['writers'] - 1} more" if row["writers"] > 1 else ""
    return name + application + more


def problems(rows: Sequence[Row], longest: float) -> list[str]:
    from inorder.connection.database import literal  # noqa: PLC0415  # loads the driver, which --help does not need

    failures = []
    for row in rows:
        if row["table"] is None:
            failures.append((row, f"its table was dropped; HINT: SELECT feed_drop({literal(row['feed']).strip()})"))
        elif not row["caught_up"] and row["lag_seconds"] > longest:
            failures.append((row, f"behind for {lag(row)}"))
        if row.get("swapped"):
            failures.append((row, f"its table was renamed to {row['table']}, and {row['namesake']} is not read"))
        if row["dead_batches"]:
            failures.append((row, plural(row["dead_batches"], "dead batch", "dead batches")))
    return [one_line(f"feed {row['owner']}.{row['feed']}: {text}") for row, text in failures]


def may_be_restored(row: Row) -> bool:
    """Return whether no backlog is known, or whether unread rows were counted, but do not show if the feed caught up.

    >>> state = {"caught_up": None, "backlog_transactions": 5, "backlog_rows": 0, "partial": None}
    >>> may_be_restored(state), may_be_restored(state | {"partial": 7}), may_be_restored(state | {"caught_up": True})
    (True, False, False)
    """
    is_counted = row["backlog_rows"] is not None and row["partial"] is None
    return row["caught_up"] is None and (row["backlog_transactions"] is None or is_counted)


def hints(rows: Sequence[Row]) -> str:
    """Return a hint if a feed was restored from a dump, or if its table may have been. Otherwise return ""."""
    from inorder.connection.database import literal  # noqa: PLC0415  # loads the driver, which --help does not need

    tables = sorted({row["table"] for row in rows if row["table"] and may_be_restored(row)})
    if not tables:
        return ""
    calls = first_of([f"SELECT feed_rebase({literal(table).strip()});" for table in tables], 3)
    return f"HINT:  If the database was restored: {calls}"


def as_json(rows: Sequence[Row]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def as_prometheus(rows: Sequence[Row]) -> str:
    """Return the metrics in the Prometheus text format, version 0.0.4."""
    lines = []
    for gauge, text in GAUGES.items():
        lines += [f"# HELP inorder_feed_{gauge} {text}", f"# TYPE inorder_feed_{gauge} gauge"]
        # Booleans become 1 or 0.
        lines += [f"inorder_feed_{gauge}{labels(row)} {row[gauge] + 0}" for row in rows if row[gauge] is not None]
    return "\n".join(lines)


def labels(row: Row) -> str:
    r"""Format the labels of a sample.

    >>> print(labels({"feed": 'a"b', "owner": "o\\w", "table": "line\nend", "database": "d"}))
    {feed="a\"b",owner="o\\w",table="line\nend",database="d"}
    >>> print(labels({"feed": "f", "owner": "o", "table": None, "database": "d"}))
    {feed="f",owner="o",table="",database="d"}
    """
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{name}="{str(row[name] or "").translate(escapes)}"' for name in LABELS) + "}"


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "table": as_table, "json": as_json, "prometheus": as_prometheus,
}  # fmt: skip
