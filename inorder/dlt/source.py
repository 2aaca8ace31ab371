"""The resource: batches of a table, and the position after them in the state of the resource.

dlt puts rows and state into one load package, and neither if the extraction fails: a row is in a package exactly once.
"""

from collections.abc import Iterator
from typing import Any

import dlt
from dlt.extract import DltResource

from inorder.errors import InputError
from inorder.reading import Reader

DEFAULT_ROWS, MOST_ROWS = 10_000, 2**31 - 1


def feed_table(
    dsn: str,
    table: str,
    *,
    start: str = "beginning",
    max_rows: int = DEFAULT_ROWS,
    max_batches: int | None = None,
    accept_origin: bool = False,
    **hints: Any,
) -> DltResource:
    """The rows of an insert-only table that were committed since the last run, as a resource.

    dsn is a connection string of libpq. start is where the first run begins: at the ``beginning``, or ``now`` for rows
    that commit later. A run ends with the transactions that had ended when it began, or after max_batches batches of
    max_rows rows. accept_origin continues after a switchover or pg_upgrade. The hints are those of ``dlt.resource``:
    name (by default that of the table), write_disposition (append), primary_key and so on.
    """
    if not 1 <= max_rows <= MOST_ROWS:
        raise InputError(f"max_rows is {max_rows} and must be from 1 to {MOST_ROWS:,}")
    if max_batches is not None and max_batches < 1:
        raise InputError(f"max_batches is {max_batches} and must be at least 1")
    if start not in ("beginning", "now"):
        raise InputError(f"start is {start!r} and must be beginning or now")

    def rows() -> Iterator[list[dict[str, object]]]:
        reader = Reader(dsn, table, accept_origin)
        try:
            yield from batches(reader, dlt.current.resource_state(), start, max_rows, max_batches)
        finally:
            reader.close()

    defaults = {"name": table.rpartition(".")[2].strip('"'), "write_disposition": "append"}
    return dlt.resource(rows, **defaults | hints)


def batches(
    reader: Reader, state: dict[str, Any], start: str, max_rows: int, max_batches: int | None
) -> Iterator[list[dict[str, object]]]:
    """The rows of batch after batch; the state has the position after those that were handed out."""
    database = reader.table().database
    if state.setdefault("database", database) != database:
        raise InputError(f"the state has a position in the database {state['database']!r}, this is {database!r}")
    if "position" not in state:
        state["position"] = reader.start(start)
    end, done = reader.start("now"), 0
    while (max_batches is None or done < max_batches) and reader.has_rows(state["position"]):
        after = reader.next(state["position"], max_rows, until=end)
        if after is None:
            return
        for part in reader.slices(state["position"], after):
            yield from reader.rows(part)
        state["position"] = after
        done += 1
